"""The parts of the page on the fit: the model, its certificate, its weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.errors import OddsmithError
from oddsmith.inference.summary import Summary
from oddsmith.models.reported import INTERCEPT
from oddsmith.numerics import Array
from oddsmith.plots.coefficients import CoefficientDisplay
from oddsmith.records import Certificate
from oddsmith.report.html import Markup, clean, join, named, number, tag
from oddsmith.report.parameters import learned_parameters
from oddsmith.report.subject import Subject
from oddsmith.report.svg import Axis, Plot, figure
from oddsmith.report.tables import Column, facts, table
from oddsmith.report.words import as_formula, in_words

MOST_BARS = 40
"""Terms in the forest plot; of more, those whose intervals lie farthest from zero."""
MOST_PARAMETERS = 2_000
HEADERS = {"std_error": "error", "p_value": "p", "odds_ratio": "odds ratio", "posterior_sd": "sd"}


def model_section(subject: Subject) -> Markup:
    """Return the model in words, as a formula, and with its settings."""
    settings = [(name, tag("code", clean(repr(value)))) for name, value in subject.model.get_params(deep=False).items()]
    return join([in_words(subject), as_formula(subject), tag("h3", "Settings"), facts(settings, many=True)])


def certificates(model: Any) -> dict[str, Certificate]:
    """Return the certificates of a model and of those that it is made of, by name."""
    own = getattr(model, "certificate_", None)
    if own is not None:
        return {"": own}
    inner = getattr(model, "_inner", None)
    if inner is not None:
        return certificates(inner)
    found: dict[str, Certificate] = {}
    for key, part in getattr(model, "models_", {}).items():
        name = " | ".join(map(str, key)) if isinstance(key, tuple) else str(key)
        for certificate in certificates(part).values():
            found[name] = certificate
    return found


def certificate_section(subject: Subject) -> Markup:
    """Return in plain words how far from the optimum the fit can be."""
    found = certificates(subject.model)
    if not found:
        return _without_certificate(subject)
    if list(found) == [""]:
        c = found[""]
        pairs: list[tuple[Any, Any]] = [
            ("at the optimum", "yes" if c.converged else "no"),
            ("gap: objective above its optimum, at most", number(c.gap)),
            *([("the gap is", "a proven bound" if c.rigorous else "an estimate")] if np.isfinite(c.gap) else []),
            ("length of the gradient", number(c.gradient_norm)),
            ("condition number of the Hessian", number(c.condition) or "not formed"),
            ("passes over the data", number(c.passes)),
        ]
        moved = "This is of the fit: its intercepts were moved after it, for another class prior."
        return join([tag("p", certified(c)), *([tag("p", moved)] if subject.moved else []), facts(pairs)])
    parts = list(found.values())
    worst = sum(not c.converged for c in parts)
    text = (
        "All of its parts are at their optimum." if not worst else f"{worst} of {len(parts)} parts are not certified."
    )
    columns = [
        Column.names("part", list(found)),
        Column("at the optimum", ["yes" if c.converged else "no" for c in parts]),
        Column.numbers("gap, at most", [c.gap for c in parts]),
        Column.numbers("gradient", [c.gradient_norm for c in parts]),
        Column.numbers("condition", [c.condition for c in parts]),
        Column.numbers("passes", [c.passes for c in parts]),
    ]
    return join([tag("p", text), table("Certificate of each part", columns)])


def certified(c: Certificate) -> str:
    """Return a certificate as sentences.

    >>> certified(Certificate(True, 1e-12, 0.0, 1.0, 5))[:61]
    'The fit is at its optimum. No other weights have an objective'
    """
    if not c.optimum_exists:
        return (
            "There is no optimum: the classes are separated, and the likelihood grows for ever as some weights do. The "
            "weights below are those at which the fit stopped; they must not be read as estimates. A prior (Jeffreys' "
            "or a Gaussian one) gives finite ones."
        )
    bound = "a proven bound" if c.rigorous else "an estimate"
    if c.converged:
        return (
            f"The fit is at its optimum. No other weights have an objective that is smaller by more than "
            f"{number(c.gap)} ({bound}; the objective is minus the log likelihood of all rows, less the log of the "
            "prior where there is one). Another program that fits the same model to the same rows must find the same "
            "weights."
        )
    gap = number(c.gap) if np.isfinite(c.gap) else "an unknown amount"
    return (
        f"The fit is NOT certified to be at its optimum: the objective may be {gap} above it ({bound}). Fit again with "
        "more iterations before relying on the weights."
    )


def _without_certificate(subject: Subject) -> Markup:
    model = subject.model
    if hasattr(model, "converged_"):
        how = "It found a separating plane." if model.converged_ else "It stopped without separating the classes."
        errors = getattr(model, "n_errors_", None)
        more = "" if errors is None else f" Rows on the wrong side at the end: {int(errors):,}."
        text = f"{subject.name} minimises nothing, so there is no optimum to certify. {how}{more}"
    else:
        text = (
            f"{subject.name} is no iterative fit: its parameters are computed from sums over the rows in one step, so "
            "there is no distance from an optimum to certify."
        )
    return tag("p", text, class_="absent")


def summarise(subject: Subject) -> Summary | None:
    """Return the summary of the model, None where it has none."""
    if not hasattr(subject.model, "summary"):
        return None
    try:
        found: Summary = subject.model.summary(level=subject.level)
        return found
    except OddsmithError:
        labels = subject.found.classes[subject.t]
        try:
            # A large fit forms its Hessian when it is asked for, from the rows.
            again: Summary = subject.model.summary(subject.rows, labels, level=subject.level, **subject.arguments)
            return again
        except OddsmithError:
            return None


def weights_section(subject: Subject) -> Markup:
    """Return the weights with errors and intervals, as a table and as a forest plot; else the parameters."""
    found = summarise(subject)
    if found is None:
        return _parameters(subject)
    columns = found.to_dict()
    cells = dict(zip(columns, zip(*found._cells()[2], strict=True), strict=True))
    made = [
        Column.of(_header(found, name), values, None if name in ("class", "term") else list(cells[name]))
        for name, values in columns.items()
    ]
    if "class" in columns:  # the term names the row
        made[:2] = [made[1], made[0]]
    kind = "credible" if found.is_posterior else "confidence"
    caption = f"Weights with {100 * found.level:g}% {kind} intervals"
    said = [clean(note[:1].upper() + note[1:]).replace(" -", " −") for note in found.notes[:-1]]
    notes = [tag("p", note, ".", class_="note") for note in said]
    return join([_forest(subject, found), table(caption, made), *notes])


def _header(found: Summary, name: str) -> str:
    return "term" if name == "term" else HEADERS.get(name) or found._header(name)


def _forest(subject: Subject, found: Summary) -> Markup:
    """Return the weights of one standard deviation of each term, which can be compared with one another."""
    if all(term == INTERCEPT for term in found.columns["term"]):
        return tag("p", "The model has an intercept alone.", class_="absent")
    display = CoefficientDisplay.from_summary(found)
    scale = _scales(subject, display.terms)
    unit = 1.0 if scale is None else scale
    estimate, lower, upper = display.estimate * unit, display.lower * unit, display.upper * unit
    classes = display.classes or [None] * len(display.terms)
    groups = list(dict.fromkeys(classes))
    terms = _farthest(display.terms, estimate, upper - lower, MOST_BARS)
    kept = [i for i, term in enumerate(display.terms) if term in terms and np.isfinite(estimate[i])]
    if not kept:
        return tag("p", "No term has an estimate.", class_="absent")
    # Classes stand below one another around the line of their term.
    step = 0.7 / len(groups)
    place = [terms[display.terms[i]] + step * (groups.index(classes[i]) - (len(groups) - 1) / 2) for i in kept]
    what = "weight" if scale is None else "weight of one standard deviation"
    axis = Axis.around(what, estimate[kept], lower[kept], upper[kept], [0.0])
    height = 62 + (22 if len(groups) == 1 else 8 + 13 * len(groups)) * len(terms)
    plot = Plot(axis, Axis("", names=list(terms)), height=height, left=168)
    plot.rule(x=0.0)
    for i, at in zip(kept, place, strict=True):
        k = groups.index(classes[i])
        of = "" if classes[i] is None else f", {clean(classes[i])}"
        ends = f"{number(estimate[i])}, from {number(lower[i])} to {number(upper[i])}"
        plot.ranges(lower[[i]], upper[[i]], np.array([at]), k)
        plot.dots(estimate[[i]], np.array([at]), k, texts=[f"{clean(display.terms[i])}{of}: {ends}"], size=4.0)
    more = "" if len(terms) == len(set(display.terms)) else f" The {len(terms)} terms farthest from zero."
    caption = f"Each {what}, with its {100 * display.level:g}% {display.kind} interval.{more}"
    legend = [(k, group) for k, group in enumerate(groups) if group is not None]
    return figure(plot, caption, f"Forest plot: {caption} The table below has the values.", legend=legend)


def _farthest(terms: list[str], estimate: Array, width: Array, most: int) -> dict[str, int]:
    """Return the places of the terms whose estimates are the most widths of their interval away from zero, in order."""
    away: dict[str, float] = {}
    for term, value, wide in zip(terms, estimate.tolist(), width.tolist(), strict=True):
        away[term] = max(away.get(term, 0.0), abs(value) / max(wide, 1e-300) if value == value else 0.0)
    largest = set(sorted(away, key=lambda term: -away[term])[:most])
    return {term: i for i, term in enumerate(term for term in away if term in largest)}


def _scales(subject: Subject, terms: list[str]) -> Any:
    """Return the standard deviation of each term's column in the fit, None where it is not known."""
    learned = getattr(subject.model, "_learned", None)
    names = [str(name) for name in subject.model._names()]
    scale = None if learned is None else np.asarray(learned.coordinates.scale, dtype=np.float64)
    if scale is None or len(scale) != len(names):
        return None
    place = {name: j for j, name in enumerate(names)}
    return np.array([scale[place[term]] for term in terms])


def _parameters(subject: Subject) -> Markup:
    text = f"{subject.name} has no errors and intervals of its parameters; these are the parameters themselves."
    try:
        columns = learned_parameters(subject.model)
    except OddsmithError as error:
        return tag("p", str(error), class_="absent")
    n = len(columns["term"])
    if not n:
        inside = getattr(subject.model, "_inner", None)
        where = "" if inside is None else f" They are those of the {type(inside).__name__} inside."
        return tag("p", f"{subject.name} has no parameters that a table could show.{where}", class_="absent")
    shown = {name: values[:MOST_PARAMETERS] for name, values in columns.items()}
    made = [Column.names(name, shown[name]) for name in ("term", "class")]
    made += [Column("parameter", shown["parameter"]), Column.numbers("value", shown["value"])]
    more = "" if n <= MOST_PARAMETERS else f" The first {MOST_PARAMETERS:,} of {n:,}."
    return join([tag("p", text, more), table("Parameters of each class", made)])


def separated(subject: Subject) -> Markup | None:
    """Return a sentence on separation, None where there is none."""
    found = getattr(subject.model, "_separation", None)
    if found is None or found.kind == "none":
        return None
    terms = [key[1] if isinstance(key, tuple) else key for key in found.infinite]
    names: list[Any] = []
    for term in dict.fromkeys(terms[:6]):
        names += [", " if names else "", named(term)]
    how = "completely" if found.kind == "complete" else "partly"
    return join([f"The classes are {how} separated", *([" by ", *names] if names else []), ": no estimate exists."])
