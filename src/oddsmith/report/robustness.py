"""The sections on robustness: single rows, the class prior, the choice of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.decision.actions import REJECT, decide_by
from oddsmith.evaluation.comparison import Comparison
from oddsmith.numerics import Array
from oddsmith.plots.forest_plots import WORDS, ComparisonDisplay
from oddsmith.plots.style import thinned
from oddsmith.protocols import Labels
from oddsmith.report.context import ReportContext
from oddsmith.report.html import Markup, absent, clean, join, name_list, name_tag, number, percent, tag
from oddsmith.report.parameters import class_prior
from oddsmith.report.performance import NO_PROBABILITIES
from oddsmith.report.svg import Axis, Plot, figure
from oddsmith.report.tables import Column, table

MOST_INFLUENTIAL = 10
MUCH = 0.5  # Cook's distance from which the page names a row as decisive for the fit.
MOST_DOTS = 800
NOISE = 1.96
FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)  # By which the odds of a class are multiplied.
FEW_CLASSES = 4  # Of more, the table has a smaller and a larger share of each alone.
MOST_CLASSES = 12
HEADERS = {"brier": "Brier score", "auc": "AUC", "std_error": "standard error", "fit_seconds": "fit seconds"}


def influence_section(context: ReportContext) -> Markup:
    """Return the rows on which the weights depend most."""
    display = context.influence
    if isinstance(display, str):
        return absent(display)
    cook = display.cooks_distance
    order = np.argsort(-cook, kind="stable")[:MOST_INFLUENTIAL]
    axis = Axis.around("leverage", display.leverage, at_zero=True)
    plot = Plot(x=axis, y=Axis.around(display.what, display.residual))
    plot.rule(y=0.0)
    even = thinned(len(cook))
    shown = np.union1d(even[:: max(1, len(even) // MOST_DOTS)], order)
    finite = shown[np.isfinite(display.residual[shown])]
    size = 2.4 + 7.0 * np.sqrt(cook / max(float(cook.max(initial=0.0)), 1e-300))
    for k in range(context.K):
        own = finite[display.codes[finite] == k]
        plot.dots(display.leverage[own], display.residual[own], k, size=size[own])
    rows, leverage, residual = [display.rows[i] for i in order], display.leverage[order], display.residual[order]
    texts = [
        f"row {clean(row)}: Cook's distance {number(c)}, leverage {number(h)}"
        for row, c, h in zip(rows, cook[order], leverage, strict=True)
    ]
    plot.read(leverage, residual, texts)
    columns = [Column.names("row", rows), Column.names("class", [context.classes[display.codes[i]] for i in order])]
    columns += map(Column.numbers, ("Cook's distance", "leverage", "residual"), (cook[order], leverage, residual))
    largest = float(cook.max(initial=0.0))
    verdict = f"The largest Cook's distance is {number(largest)}"
    if largest < MUCH:
        verdict += ", below 0.5: no single row dominates the fit."
    else:
        verdict += ": without that row the weights would be clearly different."
    drawn = f" {len(finite):,} of {len(cook):,} rows are drawn, the most influential among them."
    some = drawn if len(finite) < len(cook) else ""
    caption = (
        f"{display.what[0].upper()}{display.what[1:]} against leverage; larger marks move the weights more.{some} "
        "Rows are named by the table's index, or numbered from 0."
    )
    legend = [(k, label) for k, label in enumerate(context.classes)] if context.K <= 8 else []
    values = table(f"The {len(order)} most influential rows", columns)
    return join([tag("p", verdict), figure(plot, caption, caption, legend=legend), values])


def class_prior_section(context: ReportContext) -> Markup:
    """Return how decisions and their cost change if the classes are more or less frequent than in the fit."""
    if not context.probabilistic:
        return absent(NO_PROBABILITIES.format(context.name, "another class prior"))
    prior = class_prior(context.model)
    if prior is None:
        return absent(f"This {context.name} does not know the class shares of its training data.")
    prior = np.asarray(prior, dtype=np.float64)
    chosen = [1] if context.K == 2 else np.argsort(-prior, kind="stable")[:MOST_CLASSES].tolist()
    factors = FACTORS if context.K <= FEW_CLASSES else FACTORS[1::4]
    settings = [(k, factor, *_shift(context, prior, k, factor)) for k in chosen for factor in factors]
    code, factor, share, changed, stale, moved = zip(*settings, strict=True)
    columns = [
        Column.names("class", [context.classes[k] for k in code]),
        Column("odds of the class", [f"× {number(f)}" for f in factor], list(factor)),
    ]
    columns += map(Column.shares, ("share of the class", "decisions that change"), (share, changed))
    columns += map(Column.numbers, ("loss without the change", "loss with the change"), (stale, moved))
    start = "was adapted" if context.moved else "was fitted"
    text = (
        f"The model {start} for certain class shares. If a class is more or less frequent in use, with_class_prior "
        "adapts the model without refitting, provided that the class densities are unchanged. The table shows how "
        "many decisions would change, and the loss per row with and without the change."
    )
    plots = [] if context.K > 2 or len(np.unique(context.answers.t)) < 2 else [_prior_plot(context, prior)]
    return join([tag("p", text), *plots, table("If a class is more or less frequent than in the fit", columns)])


def _prior_plot(context: ReportContext, prior: Array) -> Markup:
    grid = np.exp(np.linspace(np.log(0.05), np.log(20.0), 25))
    share, _, stale, moved = np.array([_shift(context, prior, 1, float(factor)) for factor in grid]).T
    axis = Axis.around(f"share of {clean(context.classes[1])}", share)
    plot = Plot(x=axis, y=Axis.around("mean loss per row", stale, moved, at_zero=True))
    plot.rule(x=float(prior[1]), quiet=False)
    for k, (name, loss) in enumerate((("as it is", stale), ("moved", moved))):
        plot.line(share, loss, k)
        texts = [f"share {percent(a)}, {name}: loss {number(b)}" for a, b in zip(share, loss, strict=True)]
        plot.read(share, loss, texts)
    caption = (
        f"Mean loss per row against the share of {clean(context.classes[1])}, with the model unchanged and adapted to "
        "that share. The dashed line is the share that the model "
        f"{'was moved to' if context.moved else 'was fitted with'}, {percent(float(prior[1]))}."
    )
    return figure(plot, caption, caption, legend=[(0, "model unchanged"), (1, "model adapted to the class prior")])


def _shift(context: ReportContext, prior: Array, k: int, factor: float) -> tuple[float, float, float, float]:
    """Return the effect of multiplying the odds of class k by a factor, with the others in proportion.

    The result is the new share, the share of decisions that change, and the loss per row without and with adapting to
    it: ``p'(C | x) ∝ p(C | x) π'_C / π_C``; the loss is the mean over the classes' losses, weighted by π'.
    """
    assert context.answers.P is not None
    new = prior.copy()
    new[k] *= factor
    new /= new.sum()
    Q = context.answers.P * (new / prior)
    Q /= Q.sum(axis=1, keepdims=True)
    before, after = context.decisions, decide_by(Q, context.loss, context.reject)
    stale, moved = (_mean_loss(context, actions, new) for actions in (before, after))
    return float(new[k]), float(np.mean(before != after)), stale, moved


def _mean_loss(context: ReportContext, actions: Labels, prior: Array) -> float:
    """Return the mean loss per row if classes have these shares; NaN if a class has no rows."""
    if not context.counts.all():
        return float("nan")
    t, total = context.answers.t, np.zeros(context.K)
    for j, action in enumerate(context.loss.actions.tolist()):
        chosen = t[np.array(actions == action, dtype=bool)]
        total += context.loss.values[:, j] * np.bincount(chosen, minlength=context.K)
    if context.reject_costs is not None:
        rejected = t[np.array([action is REJECT for action in actions.tolist()])]
        total += context.reject_costs * np.bincount(rejected, minlength=context.K)
    return float(prior @ (total / context.counts))


def comparison_section(comparison: Comparison | None) -> Markup:
    """Return how models compare on the same folds."""
    if comparison is None:
        text = "No comparison of models was run. Pass the result of oddsmith.compare(models, X, y) as comparison=."
        return absent(text)
    display = ComparisonDisplay.from_comparison(comparison)
    shown = np.flatnonzero(np.isfinite(display.difference))
    parts: list[Any] = [tag("p", _verdict(comparison))]
    if len(shown):
        middle, half = display.difference[shown], NOISE * np.nan_to_num(display.std_error[shown])
        names, place = [display.models[i] for i in shown], np.arange(len(shown))
        label = f"{WORDS.get(display.by, display.by)} above that of the best"
        axis = Axis.around(label, middle - half, middle + half, [0.0])
        plot = Plot(x=axis, y=Axis("", names=names), height=62 + 24 * len(shown))
        plot.rule(x=0.0)
        plot.ranges(middle - half, middle + half, place)
        texts = [f"{clean(n)}: {number(d)} ± {number(h)}" for n, d, h in zip(names, middle, half, strict=True)]
        plot.dots(middle, place, texts=texts)
        caption = "Difference of each model from the best on the same held-out rows, with its 95% interval."
        parts.append(figure(plot, caption, caption))
    columns = comparison.to_dict()
    numbers = ("log_loss", "brier", "accuracy", "auc", "difference", "std_error", "fit_seconds")
    cells = [Column.names(name, columns[name]) for name in ("model", "verdict")]
    cells += [Column.numbers(HEADERS.get(name) or name.replace("_", " "), columns[name]) for name in numbers]
    notes = [tag("p", name_tag(name), ": ", clean(text), class_="note") for name, text in comparison.notes.items()]
    return join([*parts, table("Scores of the models on held-out rows", cells), *notes])


def _verdict(comparison: Comparison) -> Markup:
    if comparison.best is None:
        return join([comparison.title])
    words: list[Any] = [f"Best by {WORDS.get(comparison.by, comparison.by)}: ", name_tag(comparison.best), "."]
    if comparison.within_noise:
        words += [" Within noise of it: ", name_list(comparison.within_noise), "."]
    return join(words)
