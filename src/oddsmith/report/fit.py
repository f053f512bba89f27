"""The parts of the page on the fit: the model, its certificate, its weights and their effects."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from oddsmith.design.basis.standardize import Standardize
from oddsmith.design.fitted_basis import learned_basis
from oddsmith.design.inputs import learned_design
from oddsmith.errors import OddsmithError
from oddsmith.inference.fit_record import INTERCEPT
from oddsmith.inference.summary import Summary
from oddsmith.inference.tables import format_ratio
from oddsmith.models.base import Classifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import OneVsOne, OneVsRest
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.models.selection_mixin import selected_columns
from oddsmith.numerics import Array
from oddsmith.plots.forest_plots import CoefficientDisplay
from oddsmith.records import Certificate
from oddsmith.report.context import ReportContext
from oddsmith.report.description import describe_model, model_formula, spread
from oddsmith.report.html import MOST_NAMES, Markup, absent, clean, join, name_list, number, tag
from oddsmith.report.parameters import parameter_table, part_name
from oddsmith.report.svg import Axis, Plot, figure
from oddsmith.report.tables import Column, facts, table
from oddsmith.report.terms import indicator_texts

MOST_BARS = 40  # Terms in the forest plot; of more, those whose intervals lie farthest from zero.
MOST_PARAMETERS = 2_000
HEADERS = {"term": "term", "std_error": "error", "p_value": "p", "odds_ratio": "odds ratio", "posterior_sd": "sd"}


def model_section(context: ReportContext) -> Markup:
    """Return the model in words, as a formula, and with its settings."""
    settings = [(name, tag("code", clean(repr(value)))) for name, value in context.model.get_params(deep=False).items()]
    return join([describe_model(context), model_formula(context), tag("h3", "Settings"), facts(settings, many=True)])


def certificates(model: object) -> dict[str, Certificate]:
    """Return the certificates of a model and of those that it is made of, by name."""
    if isinstance(model, LogisticRegression):
        return {"": model.certificate_}
    if isinstance(model, RecalibratedClassifier):
        return certificates(model._inner)
    parts = model.models_ if isinstance(model, OneVsRest | OneVsOne) else {}
    return {part_name(key): c for key, part in parts.items() for c in certificates(part).values()}


def certificate_section(context: ReportContext) -> Markup:
    """Say in plain language how far from the optimum the fit can be."""
    found = certificates(context.model)
    if not found:
        return _without_certificate(context)
    if list(found) == [""]:
        c = found[""]
        pairs: list[tuple[Any, Any]] = [
            ("at the optimum", "yes" if c.converged else "no"),
            ("gap: objective above its optimum, at most", number(c.gap)),
            *([("the gap is", "a proven bound" if c.rigorous else "an estimate")] if np.isfinite(c.gap) else []),
            *([("norm of the gradient", number(c.gradient_norm))] if selected_columns(context.model) is None else []),
            ("condition number of the Hessian", number(c.condition) or "not formed"),
            ("passes over the data", number(c.passes)),
            *([("what was done", c.method)] if c.method else []),
            *([("plan", str(plan))] if (plan := vars(context.model).get("plan_")) else []),
        ]
        moved = "This describes the fit; the intercepts were moved afterwards, for another class prior."
        return join([tag("p", certificate_text(c)), *([tag("p", moved)] if context.moved else []), facts(pairs)])
    parts = list(found.values())
    bad = sum(not c.converged for c in parts)
    text = (
        f"{bad} of {len(parts)} two-class models are not certified."
        if bad
        else "All two-class models are at their optimum."
    )
    certified = ["yes" if c.converged else "no" for c in parts]
    columns = [Column.names("part", list(found)), Column("at the optimum", certified)]
    numbers = {"gap, at most": "gap", "gradient": "gradient_norm", "condition": "condition", "passes": "passes"}
    columns += [Column.numbers(header, [getattr(c, name) for c in parts]) for header, name in numbers.items()]
    return join([tag("p", text), table("Certificate of each two-class model", columns)])


def certificate_text(c: Certificate) -> str:
    """Return a certificate as sentences.

    >>> certificate_text(Certificate(converged=True, gap=1e-12, gradient_norm=0.0, condition=1.0, passes=5))[:61]
    'The fit is at its optimum. No other weights have an objective'
    """
    if not c.optimum_exists:
        return (
            "There is no optimum: the classes are separated, and the likelihood keeps rising as some weights grow "
            "without bound. The weights below are those at which the fit stopped; they must not be read as estimates. "
            "A prior (Jeffreys' or Gaussian) gives finite estimates."
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


def _without_certificate(context: ReportContext) -> Markup:
    model = context.model
    if isinstance(model, PerceptronClassifier):
        how = "It found a separating plane." if model.converged_ else "It stopped without separating the classes."
        more = f"Rows on the wrong side at the end: {int(model.n_errors_):,}."
        return absent(f"{context.name} minimises nothing, so there is no optimum to certify. {how} {more}")
    return absent(
        f"{context.name} is not fitted iteratively: its parameters are computed from sums over the rows in one step, "
        "so there is no distance from an optimum to certify."
    )


def summarise(context: ReportContext) -> Summary | None:
    """Return the summary of the model, None where it has none."""
    if not isinstance(context.model, LogisticRegression):
        return None
    for rows in context.row_arguments:
        with suppress(OddsmithError):
            found = context.model.summary(level=context.level, **rows)
            if found.has_errors:
                return found
    return None


def weights_section(context: ReportContext) -> Markup:
    """Return the weights with standard errors and intervals, as a table and as a forest plot; else the parameters."""
    found = summarise(context)
    if isinstance(context.model, LogisticRegression) and selected_columns(context.model) is not None:
        return _selected_weights(context.model)
    if found is None:
        return _parameters(context)
    columns, shown = found.to_dict(), []
    for (name, values), cells in zip(columns.items(), zip(*found._cells()[2], strict=True), strict=True):
        texts = None if name in ("class", "term") else list(cells)
        shown.append(Column.of(HEADERS.get(name) or found._header(name), values, texts))
    if "class" in columns:  # the term names the row
        shown[:2] = [shown[1], shown[0]]
    caption = f"Weights with {100 * found.level:g}% {'credible' if found.is_posterior else 'confidence'} intervals"
    said = [note for note in (found.notes[0], *found.remarks) if not note.startswith("aliased ")]
    notes = [tag("p", clean(note[:1].upper() + note[1:]).replace(" -", " −"), ".", class_="note") for note in said]
    if found.aliased:
        notes.append(tag("p", "Set aside: ", name_list(found.aliased, MOST_NAMES), ".", class_="note"))
    return join([_forest(context, found), effects_table(context, found), table(caption, shown), *notes])


def _selected_weights(model: LogisticRegression) -> Markup:
    """Return the weights that a LaplacePrior left, the largest first, and why they have no errors."""
    found = model.summary()
    text = (
        f"A LaplacePrior selected {len(model.selected_):,} of {model.coef_.shape[1]:,} columns; the weights of the "
        "others are exactly zero. The weights below are shrunk towards zero, and have no standard errors, because the "
        "density of the prior has no second derivative at zero."
    )
    caveat = (
        "Do not read them as tests. model.refit(X, y) fits the selected columns by maximum likelihood; its intervals "
        "are valid on rows that the selection has not seen, and too short on the rows that it used."
    )
    columns = [Column.names("term", [str(term) for term in found.columns["term"]])]
    if "class" in found.columns:
        columns.append(Column.names("class", [str(label) for label in found.columns["class"]]))
    shown = {"estimate": "weight", "odds_ratio": "odds ratio"}
    columns += [
        Column.numbers(header, [float(v) for v in found.columns[name]])
        for name, header in shown.items()
        if name in found.columns
    ]
    caption = "Nonzero weights, the largest first"
    return join([tag("p", text), table(caption, columns), tag("p", caveat, class_="note")])


def _forest(context: ReportContext, found: Summary) -> Markup:
    """Return the weights of one standard deviation of each term, which can be compared with one another."""
    if all(term == INTERCEPT for term in found.columns["term"]):
        return absent("The model has only an intercept.")
    display = CoefficientDisplay.from_summary(found)
    deviations = spread(context)
    place = {str(name): j for j, name in enumerate(context.model._names())}
    unit = 1.0 if deviations is None else deviations[[place[term] for term in display.terms]]
    estimate, lower, upper = (values * unit for values in (display.estimate, display.lower, display.upper))
    classes = display.classes or [None] * len(display.terms)
    groups = list(dict.fromkeys(classes))
    terms = _farthest(display.terms, estimate, upper - lower, MOST_BARS)
    kept = [i for i, term in enumerate(display.terms) if term in terms and np.isfinite(estimate[i])]
    if not kept:
        return absent("No term has an estimate.")
    # Classes stand below one another around the line of their term.
    step = 0.7 / len(groups)
    at_line = [terms[display.terms[i]] + step * (groups.index(classes[i]) - (len(groups) - 1) / 2) for i in kept]
    what = "weight" if deviations is None else "weight of one standard deviation"
    axis = Axis.around(what, estimate[kept], lower[kept], upper[kept], [0.0])
    height = 62 + (22 if len(groups) == 1 else 8 + 13 * len(groups)) * len(terms)
    plot = Plot(x=axis, y=Axis("", names=list(terms)), height=height)
    plot.rule(x=0.0)
    for i, at in zip(kept, at_line, strict=True):
        k = groups.index(classes[i])
        of = "" if classes[i] is None else f", {clean(classes[i])}"
        ends = f"{number(estimate[i])}, from {number(lower[i])} to {number(upper[i])}"
        plot.ranges(lower[[i]], upper[[i]], np.array([at]), k)
        plot.dots(estimate[[i]], np.array([at]), k, texts=[f"{clean(display.terms[i])}{of}: {ends}"], size=4.0)
    more = "" if len(kept) == int(np.isfinite(estimate).sum()) else f" The {len(terms)} terms farthest from zero."
    caption = f"Each {what}, with its {100 * display.level:g}% {display.kind} interval.{more}"
    legend = [(k, group) for k, group in enumerate(groups) if group is not None]
    return figure(plot, caption, f"Forest plot: {caption} The table below has the values.", legend=legend)


def _farthest(terms: list[str], estimate: Array, width: Array, most: int) -> dict[str, int]:
    """Return the places of the terms that lie most interval widths away from zero, in order."""
    away: dict[str, float] = {}
    for term, value, wide in zip(terms, estimate.tolist(), width.tolist(), strict=True):
        if value == value:  # a term that was set aside has none
            away[term] = max(away.get(term, 0.0), abs(value) / max(wide, 1e-300))
    largest = set(sorted(away, key=lambda term: -away[term])[:most])
    return {term: i for i, term in enumerate(term for term in away if term in largest)}


def _parameters(context: ReportContext) -> Markup:
    model, where = context.model, ""
    text = f"{context.name} has no standard errors or intervals; the table shows the parameters themselves."
    try:
        columns = parameter_table(model)
    except OddsmithError as error:
        return absent(str(error))
    n = len(columns["term"])
    if not n:
        if isinstance(model, RecalibratedClassifier):
            where = f" They are those of the {type(model._inner).__name__} inside."
        return absent(f"{context.name} has no parameters that a table could show.{where}")
    shown = {name: values[:MOST_PARAMETERS] for name, values in columns.items()}
    cells = [Column.names(name, shown[name]) for name in ("term", "class")]
    cells += [Column("parameter", shown["parameter"]), Column.numbers("value", shown["value"])]
    more = "" if n <= MOST_PARAMETERS else f" The first {MOST_PARAMETERS:,} of {n:,}."
    return join([tag("p", text, more), table("Parameters of each class", cells)])


def separation_text(context: ReportContext) -> Markup | None:
    """Return a sentence on separation, None where there is none."""
    found = getattr(context.model, "_separation", None)
    if found is None or found.kind == "none":
        return None
    if found.alone:
        verb = "separates them by itself: does it" if len(found.alone) == 1 else "each separate them: do they"
        start = "The classes are completely separated, and no estimate exists. "
        return join([start, name_list(found.alone[:4]), f" {verb} hold the answer?"])
    terms = dict.fromkeys([key[1] if isinstance(key, tuple) else key for key in found.infinite][:6])
    how = "completely" if found.kind == "complete" else "partly"
    names = [" by ", name_list(terms)] if terms else []
    return join([f"The classes are {how} separated", *names, ": no estimate exists."])


MOST_EFFECTS = 2_000


def term_scales(context: ReportContext) -> tuple[Array, Array] | None:
    """Return, for each term, how many of its units make one unit of its column, and the column's standard deviation.

    None for a basis that transforms columns: a power or a spline has no unit.
    """
    model, basis = context.model, learned_basis(context.model)
    M = len(model._names())
    if basis is not None:
        if len(basis.steps) != 1 or not isinstance(basis.steps[0], Standardize):
            return None
        scale = np.asarray(basis.steps[0].scale_, dtype=np.float64)
        return 1.0 / scale, scale
    sd = spread(context)
    return None if sd is None or len(sd) != M else (np.ones(M), sd)


def effects_table(context: ReportContext, found: Summary) -> Markup:
    """Return the effects of one unit and of one standard deviation, side by side; nothing if there are none."""
    scales = term_scales(context) if context.has_optimum else None
    terms, classes = list(found.columns["term"]), found.columns.get("class")
    if scales is None:
        return Markup()
    place = {str(name): j for j, name in enumerate(context.model._names())}
    finite = np.isfinite(found.estimate)
    kept = [i for i, term in enumerate(terms) if term != INTERCEPT and finite[i]][:MOST_EFFECTS]
    if not kept:
        return Markup()
    index = np.array([place[terms[i]] for i in kept])
    units, sd = scales[0][index], scales[1][index]
    compared = indicator_texts(context.model)
    numeric = np.array([terms[i] not in compared for i in kept])
    odds = "odds_ratio" in found.columns
    what = "odds ratio" if odds else "weight"
    change = [compared.get(terms[i]) or _unit(context.model, terms[i]) for i in kept]
    columns = [Column.names("term", [terms[i] for i in kept])]
    if classes is not None:
        columns.append(Column.names("class", [classes[i] for i in kept]))
    columns.append(Column("change", [tag("span", clean(text), class_="change") for text in change]))
    columns += _effect(found, kept, units, odds, what)
    columns.append(Column.numbers("sd", np.where(numeric, sd, np.nan)))
    columns += _effect(found, kept, np.where(numeric, units * sd, np.nan), odds, f"{what} per sd")
    of = "the class" if classes is not None else clean(context.model.classes_.tolist()[1])
    text = (
        f"The odds of {of} are multiplied by this ratio if the column changes as stated and all others stay the same. "
        "Ratios for one standard deviation can be compared across columns."
        if odds
        else "The linear predictor changes by this much if the column changes as stated and all others stay the same."
    )
    caption = f"Effects in original units and per standard deviation, with {100 * found.level:g}% intervals"
    return join([tag("p", text), table(caption, columns)])


def _unit(model: Classifier, term: str) -> str:
    design = learned_design(model)
    return "1 day more" if design is not None and design.kinds_.get(term) == "date" else "1 unit more"


def _ratio(value: float, digits: int) -> str:
    """Return a ratio as text: one near 1 with more digits than other numbers.

    >>> _ratio(0.51642, 3), _ratio(1.000329, 3), _ratio(2e7, 3)
    ('0.516', '1.00033', '20,000,000')
    """
    return format_ratio(value, digits) if abs(value - 1.0) < 0.1 else number(value, digits)


def _effect(found: Summary, kept: list[int], factor: Array, odds: bool, header: str) -> list[Column]:
    """Return a column of effects and one of their intervals."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = [np.asarray(v)[kept] * factor for v in (found.estimate, found.lower, found.upper)]
        estimate, lower, upper = (np.exp(v) if odds else v for v in values)
    text = _ratio if odds else number
    ends = [f"{text(a, 3)} to {text(b, 3)}" if a == a else "" for a, b in zip(lower, upper, strict=True)]
    return [
        Column(header, [text(v, 4) for v in estimate.tolist()], estimate.tolist()),
        Column("interval", [tag("span", text, class_="whole") for text in ends]),
    ]
