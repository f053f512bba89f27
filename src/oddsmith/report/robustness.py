"""The parts of the page on what the results hang on: single rows, the class prior, the choice of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.decision.acting import REJECT, decide_by
from oddsmith.decision.loss import read_reject
from oddsmith.evaluation.comparing import Comparison
from oddsmith.numerics import Array
from oddsmith.plots.comparison import WORDS, ComparisonDisplay
from oddsmith.plots.style import thinned
from oddsmith.report.html import Markup, clean, join, named, number, percent, tag
from oddsmith.report.performance import NO_PROBABILITIES
from oddsmith.report.subject import Subject
from oddsmith.report.svg import Axis, Plot, figure
from oddsmith.report.tables import Column, table

MOST_INFLUENTIAL = 10
MUCH = 0.5
"""A distance of Cook from which a row is said to decide the fit."""
MOST_DOTS = 800
NOISE = 1.96
FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""By which the odds of a class are multiplied."""
FEW_CLASSES = 4
"""Of more, the table has a smaller and a larger share of each alone."""
MOST_CLASSES = 12
HEADERS = {"brier": "Brier score", "auc": "AUC", "std_error": "error", "fit_seconds": "seconds of fit"}


def influence_section(subject: Subject) -> Markup:
    """Return the rows on which the weights depend most."""
    display = subject.influence
    if isinstance(display, str):
        return tag("p", display, class_="absent")
    cook = display.cooks_distance
    order = np.argsort(-cook, kind="stable")[:MOST_INFLUENTIAL]
    plot = Plot(
        Axis.around("leverage", display.leverage, at_zero=True), Axis.around(display.what, display.residual), left=56
    )
    plot.rule(y=0.0)
    shown = _sampled(len(cook), order)
    finite = shown[np.isfinite(display.residual[shown])]
    size = 2.4 + 7.0 * np.sqrt(cook / max(float(cook.max(initial=0.0)), 1e-300))
    for k in range(subject.K):
        own = finite[display.codes[finite] == k]
        plot.dots(display.leverage[own], display.residual[own], k, size=size[own])
    texts = [
        f"row {clean(display.rows[i])}: Cook's distance {number(cook[i])}, leverage {number(display.leverage[i])}"
        for i in order
    ]
    plot.read(display.leverage[order], display.residual[order], texts)
    columns = [
        Column.names("row", [display.rows[i] for i in order]),
        Column.names("class", [subject.classes[display.codes[i]] for i in order]),
        Column.numbers("Cook's distance", cook[order]),
        Column.numbers("leverage", display.leverage[order]),
        Column.numbers("residual", display.residual[order]),
    ]
    largest = float(cook.max(initial=0.0))
    verdict = (
        f"The largest distance of Cook is {number(largest)}, below 0.5: no single row decides the fit."
        if largest < MUCH
        else f"The largest distance of Cook is {number(largest)}: without that row the weights would be clearly others."
    )
    some = (
        f" {len(finite):,} of {len(cook):,} rows are drawn, the most influential among them."
        if len(finite) < len(cook)
        else ""
    )
    caption = (
        f"{display.what[0].upper()}{display.what[1:]} over leverage; the larger a mark, the more the row moves the "
        f"weights.{some} Rows have the names of the table's index, or their numbers from 0."
    )
    legend = [(k, label) for k, label in enumerate(subject.classes)] if subject.K <= 8 else []
    made = table(f"The {len(order)} most influential rows", columns)
    return join([tag("p", verdict), figure(plot, caption, caption, legend=legend), made])


def _sampled(n: int, keep: Any) -> Any:
    """Return which rows are drawn: evenly spaced ones, and those to keep."""
    even = thinned(n)
    return np.union1d(even[:: max(1, len(even) // MOST_DOTS)], keep)


def class_prior_section(subject: Subject) -> Markup:
    """Return how decisions and their cost change if the classes are more or less frequent than in the fit."""
    if not subject.probabilistic:
        return tag("p", NO_PROBABILITIES.format(subject.name, "another class prior"), class_="absent")
    prior = getattr(subject.model, "class_prior_", None)
    if prior is None:
        return tag("p", f"This {subject.name} does not know the shares of the classes in its fit.", class_="absent")
    prior = np.asarray(prior, dtype=np.float64)
    chosen = [1] if subject.K == 2 else np.argsort(-prior, kind="stable")[:MOST_CLASSES].tolist()
    factors = FACTORS if subject.K <= FEW_CLASSES else FACTORS[1::4]
    rows = [_moved(subject, prior, k, factor) for k in chosen for factor in factors]
    columns = [
        Column.names("class", [row["class"] for row in rows]),
        Column.numbers("its odds times", [row["factor"] for row in rows]),
        Column("its share then", [percent(row["share"]) for row in rows], [row["share"] for row in rows]),
        Column("decisions that change", [percent(row["changed"]) for row in rows], [row["changed"] for row in rows]),
        Column.numbers("loss, model as it is", [row["stale"] for row in rows]),
        Column.numbers("loss, model moved", [row["moved"] for row in rows]),
    ]
    start = "was moved to a place" if subject.moved else "was fitted"
    text = (
        f"The model {start} where the classes have certain shares. Where they are others and the classes look the "
        "same otherwise, with_class_prior moves the model without a new fit. The table says how many decisions that "
        "changes, and what a row costs with and without it."
    )
    made = table("If the class prior is another one", columns)
    if subject.K > 2 or len(np.unique(subject.found.t)) < 2:
        return join([tag("p", text), made])
    return join([tag("p", text), _prior_plot(subject, prior), made])


def _prior_plot(subject: Subject, prior: Array) -> Markup:
    grid = np.exp(np.linspace(np.log(0.05), np.log(20.0), 25))
    rows = [_moved(subject, prior, 1, float(factor)) for factor in grid]
    share, stale, moved = (np.array([row[name] for row in rows]) for name in ("share", "stale", "moved"))
    plot = Plot(
        Axis.around(f"share of {clean(subject.classes[1])}", share),
        Axis.around("mean loss of a row", stale, moved, at_zero=True),
    )
    plot.rule(x=float(prior[1]), quiet=False)
    for k, (name, values) in enumerate((("as it is", stale), ("moved", moved))):
        plot.line(share, values, k)
        plot.read(
            share, values, [f"share {percent(a)}, {name}: loss {number(b)}" for a, b in zip(share, values, strict=True)]
        )
    caption = (
        f"Mean loss of a row over the share of {clean(subject.classes[1])}, with the model as it is and moved to that "
        f"share. The dashed line is the share that the model {'was moved to' if subject.moved else 'was fitted with'}, "
        f"{percent(float(prior[1]))}."
    )
    return figure(plot, caption, caption, legend=[(0, "model as it is"), (1, "model moved to the class prior")])


def _moved(subject: Subject, prior: Array, k: int, factor: float) -> dict[str, Any]:
    """Return what happens if the odds of class k are so many times larger, the others keeping their proportions.

    ``p'(C | x) ∝ p(C | x) π'_C / π_C``; the loss is the mean over classes, by π', of that of the rows of each.
    """
    P, t = subject.found.P, subject.found.t
    assert P is not None
    new = prior.copy()
    new[k] *= factor
    new /= new.sum()
    Q = P * (new / prior)
    Q /= Q.sum(axis=1, keepdims=True)
    before, after = subject.decisions, decide_by(Q, subject.loss, subject.reject)
    losses = [_mean_loss(subject, actions, t, new) for actions in (before, after)]
    changed = float(np.mean(before != after))
    found = {"class": subject.classes[k], "factor": factor, "share": float(new[k]), "changed": changed}
    return found | {"stale": losses[0], "moved": losses[1]}


def _mean_loss(subject: Subject, actions: Any, t: Any, prior: Array) -> float:
    """Return the loss of a row if classes have these shares; NaN if a class has no rows to say so."""
    counts = np.bincount(t, minlength=subject.K)
    if not counts.all():
        return float("nan")
    known, L = subject.loss.actions.tolist(), subject.loss.values
    total = np.zeros(subject.K)
    for j, action in enumerate(known):
        total += L[:, j] * np.bincount(t[np.array(actions == action, dtype=bool)], minlength=subject.K)
    if subject.reject is not None:
        out = np.array([action is REJECT for action in actions.tolist()])
        total += read_reject(subject.reject, subject.loss.classes) * np.bincount(t[out], minlength=subject.K)
    return float(prior @ (total / counts))


def comparison_section(comparison: Comparison | None) -> Markup:
    """Return how models compare on the same folds."""
    if comparison is None:
        text = "No comparison of models was run. oddsmith.compare(models, X, y) makes one; pass it as comparison=."
        return tag("p", text, class_="absent")
    display = ComparisonDisplay.from_comparison(comparison)
    shown = np.flatnonzero(np.isfinite(display.difference))
    parts: list[Any] = [tag("p", _verdict(comparison))]
    if len(shown):
        half = NOISE * np.nan_to_num(display.std_error[shown])
        middle = display.difference[shown]
        names = [display.models[i] for i in shown]
        label = f"{WORDS.get(display.by, display.by)} above that of the best"
        plot = Plot(
            Axis.around(label, middle - half, middle + half, [0.0]),
            Axis("", names=names),
            height=62 + 24 * len(shown),
            left=168,
        )
        plot.rule(x=0.0)
        place = np.arange(len(shown))
        plot.ranges(middle - half, middle + half, place)
        texts = [f"{clean(n)}: {number(d)} ± {number(h)}" for n, d, h in zip(names, middle, half, strict=True)]
        plot.dots(middle, place, texts=texts)
        caption = "Difference of each model from the best on the same left-out rows, with its 95% interval."
        parts.append(figure(plot, caption, caption))
    columns = comparison.to_dict()
    numbers = ("log_loss", "brier", "accuracy", "auc", "difference", "std_error", "fit_seconds")
    made = [Column.names(name, columns[name]) for name in ("model", "verdict")]
    made += [Column.numbers(HEADERS.get(name) or name.replace("_", " "), columns[name]) for name in numbers]
    parts.append(table("Models on rows that they were not fitted to", made))
    said = [tag("p", named(name), ": ", clean(text), class_="note") for name, text in comparison.notes.items()]
    return join([*parts, *said])


def _verdict(comparison: Comparison) -> Markup:
    if comparison.best is None:
        return join([comparison.title])
    words: list[Any] = [f"Best by {WORDS.get(comparison.by, comparison.by)}: ", named(comparison.best), "."]
    if comparison.within_noise:
        words.append(" Within noise of it: ")
        for i, name in enumerate(comparison.within_noise):
            words += [", " if i else "", named(name)]
        words.append(".")
    return join(words)
