"""The sections on performance: calibration, discrimination, decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from oddsmith.decision.actions import REJECT, decision_regions
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation import curves
from oddsmith.inference.summary import normal_quantile
from oddsmith.numerics import Array
from oddsmith.report.context import SCORED, ReportContext
from oddsmith.report.html import Markup, absent, clean, join, name_tag, number, percent, tag
from oddsmith.report.svg import Axis, Plot, figure
from oddsmith.report.tables import Column, Fact, facts, table

MOST_LINES = 6  # Classes whose curves are drawn; of more, the most frequent.
MANY = 30
"""Classes from which tables are of some of them: those drawn, or those that are taken for one another most often."""
MOST_CONFUSED = 50
CLOSE = 0.5  # Part of the axes below which a reliability diagram is drawn larger.
EDGE = 0.1  # A threshold that is closer to 0 or 1 has the costs around it drawn larger.
WIDEST = (0.5, 2.0)  # An interval of the calibration slope that goes farther says little.
SCORE_NAMES = {
    "auc": "AUC",
    "brier": "Brier score",
    "brier_reliability": "Brier score: reliability",
    "brier_resolution": "Brier score: resolution",
    "brier_uncertainty": "Brier score: uncertainty",
    "expected_cost": "expected loss per row",
    "realised_cost": "realised loss per row",
    "rejected": "rows without a decision",
}
SQUARE: dict[str, Any] = {"width": 400, "height": 380, "fixed": True}
CHANCE = (
    "Noise alone makes reliability and calibration error larger than zero. If the interval starts at 0, noise can "
    "explain the value."
)
CHANCY = ("calibration_error", "brier_reliability")
NO_PROBABILITIES = (
    "{} has no probabilities, so {} does not apply. oddsmith.recalibrate(model, X, y) adds them, using rows that the "
    "model has not seen."
)


def _score_facts(context: ReportContext, names: Iterable[str]) -> list[Fact]:
    """Return scores with their intervals, those that the model has."""
    found: list[Fact] = []
    for name, score in ((name, context.scores.scores[name]) for name in names if name in context.scores.scores):
        key, _, label = name.partition("[")
        title = SCORE_NAMES.get(key) or key.replace("_", " ")
        of = [", ", name_tag(label.removesuffix("]"))] if label else []
        value, lower, upper = map(percent if name == "rejected" else number, (score.value, score.lower, score.upper))
        ends = f" ({lower} to {upper})" if np.isfinite([score.lower, score.upper]).all() else ""
        text = f"{value}{ends}" if np.isfinite(score.value) else "not defined on these rows"
        found.append((join([title, *of]), text))
    return found


def calibration_section(context: ReportContext) -> Markup:
    """Return the calibration of the probabilities: reliability diagram, slope, intercept."""
    if not context.probabilistic:
        return absent(NO_PROBABILITIES.format(context.name, "calibration"))
    curve = curves.reliability_curve(*context.labelled, level=context.level)
    drawn = _drawn(context)
    shown = np.isin(curve.columns["class"], [context.classes[k] for k in drawn])
    ends = _zoomed(curve.probability[shown], curve.lower[shown], curve.upper[shown])
    plot = Plot(x=Axis("predicted probability", *ends), y=Axis("observed frequency", *ends), **SQUARE)
    plot.diagonal()
    for place, k in enumerate(drawn):
        label = context.classes[k]
        own = np.array([value == label for value in curve.columns["class"].tolist()])
        p, f, low, high, n = (getattr(curve, c)[own] for c in ("probability", "frequency", "lower", "upper", "count"))
        plot.band(p, low, high, place)
        plot.line(p, f, place)
        numbers = ([number(x, 3) for x in row] for row in zip(p, f, low, high, strict=True))
        read = [f"{clean(label)}: predicted {a}, observed {b} ({lo} to {hi})" for a, b, lo, hi in numbers]
        plot.dots(p, f, place, texts=[f"{text}, {rows:,} rows" for text, rows in zip(read, n.tolist(), strict=True)])
    listed = shown if context.K > MANY else np.ones(len(shown), dtype=bool)
    columns = [Column.names("class", curve.columns["class"][listed].tolist())]
    columns += [Column.numbers(c, curve.columns[c][listed]) for c in ("probability", "frequency", "lower", "upper")]
    columns.append(Column.numbers("rows", curve.columns["count"][listed]))
    caption = (
        f"Reliability diagram: how often a class occurs among rows with a certain predicted probability. On the dashed "
        f"line both agree; bands are {100 * context.level:g}% intervals of the frequency.{_some(context, drawn)}"
    )
    values = table("Bins of the reliability diagram", columns)
    picture = figure(plot, caption, caption, legend=_legend(context, drawn), table=values)
    names = [name for name in context.scores.scores if name.startswith(("calibration", "log_loss", "brier"))]
    names = [name for name in names if context.K <= MANY or "[" not in name]
    pairs = _score_facts(context, names)
    pairs.insert(1, ("log loss of the class shares alone", number(context.alone["log_loss"])))
    words = tag("p", SCORED[context.scored]), tag("p", f"{_slope_text(context)} {_mean_text(context)}")
    explained = any(context.scores.scores[name].lower == 0.0 for name in names if name in CHANCY)
    note = tag("p", CHANCE, class_="note") if explained else ""
    return join([*words, tag("div", picture, tag("div", facts(pairs), note), class_="pair")])


def _zoomed(*values: Array) -> tuple[float, float]:
    """Return the ends of both axes: 0 and 1, or closer if all values lie in a part of that range.

    >>> _zoomed(np.array([0.1, 0.8])), _zoomed(np.array([0.01, 0.04]))
    ((0.0, 1.0), (0.0, 0.042))
    """
    found = np.concatenate(values)
    low, high = float(found.min()), float(found.max())
    if high - low > CLOSE:
        return 0.0, 1.0
    margin = 0.05 * max(high - low, 1e-3)
    return 0.0 if high < 0.5 else max(low - margin, 0.0), 1.0 if low > 0.5 else min(high + margin, 1.0)


def miscalibrated_classes(context: ReportContext) -> list[tuple[int, float, float]]:
    """Return the classes whose mean probability differs from their share by more than chance, with both numbers.

    If the probabilities p are right, ``Σ (t − p)`` has the variance ``Σ p (1 − p)``.
    """
    P, t, classes = context.answers.P, context.answers.t, context.answers.positives
    if P is None or not context.counted:
        return []
    limit = normal_quantile(1.0 - (1.0 - context.level) / len(classes))
    found = []
    for k in classes:
        p = P[:, k]
        mean, share = float(p.mean()), float(np.mean(t == k))
        if len(t) * abs(share - mean) > limit * np.sqrt(float(p @ (1.0 - p))) + 0.5:
            found.append((k, mean, share))
    return found


def _slope_text(context: ReportContext) -> str:
    """Describe the calibration slope in words."""
    score = context.scores.scores["calibration_slope"]
    if not np.isfinite(score.value):
        return "The calibration slope is not defined on these rows."
    inside = score.lower <= 1.0 <= score.upper
    if inside and (score.lower < WIDEST[0] or score.upper > WIDEST[1]):
        return "The calibration slope may be 1, but there are too few rows to be sure."
    if inside:
        return (
            "The calibration slope does not differ from 1 by more than chance: probabilities are neither "
            "overconfident nor underconfident."
        )
    how = "overconfident: shrink their log odds" if score.value < 1.0 else "underconfident: stretch their log odds"
    return (
        f"The calibration slope is {number(score.value)}, and 1 is outside its interval. Probabilities are {how}, "
        "as recalibrate does."
    )


def _mean_text(context: ReportContext) -> str:
    """Say in words whether the mean probabilities equal the class shares."""
    if not context.counted:
        return ""
    wrong = miscalibrated_classes(context)
    if not wrong:
        return "On average, probabilities agree with the class shares."
    names = ", ".join(f"{clean(context.classes[k])} {percent(p)} ({percent(share)})" for k, p, share in wrong[:6])
    return f"On average, they do not agree with the class shares (in parentheses): {names}."


def discrimination_section(context: ReportContext) -> Markup:
    """Return how well the model separates the classes: ROC, precision and recall, AUC."""
    if context.answers.values is None:
        return absent(f"{context.name} has no values to rank rows by: there is no ROC curve.")
    drawn = [k for k in _drawn(context) if 0 < np.count_nonzero(context.answers.t == k) < len(context.answers.t)]
    if not drawn:
        return absent("All rows are of one class: there is nothing to distinguish.")
    roc = Plot(x=Axis("false positive rate"), y=Axis("true positive rate"), **SQUARE)
    recall = Plot(x=Axis("recall"), y=Axis("precision"), **SQUARE)
    roc.diagonal()
    both = [0, 1] if context.K == 2 else drawn  # the precision of a rare class is another than that of the other one
    rows: list[tuple[Any, float, float, float]] = []
    for k in both:
        label, place = context.classes[k], both.index(k) if context.K > 2 else 1 - k
        one, two = curves.roc_curve(*context.labelled, label), curves.precision_recall_curve(*context.labelled, label)
        rows.append((label, one.area, two.average_precision, float(np.mean(context.answers.t == k))))
        if k in drawn:
            _draw(roc, one, "false_positive_rate", "true_positive_rate", place, label)
        _draw(recall, two, "recall", "precision", place, label, steps=True)
    names, *values = zip(*rows, strict=True)
    columns = [Column.names("class", names), *map(Column.numbers, ("AUC", "average precision", "share"), values)]
    legend = _legend(context, drawn)
    legends = legend if context.K > 2 else [(0, context.classes[1]), (1, context.classes[0])]
    some = _some(context, drawn)
    first = f"ROC curve: true against false positives for every threshold; the dashed line is random guessing.{some}"
    second = f"Precision against recall for every threshold; random guessing has the class share as precision.{some}"
    plots = figure(roc, first, first, legend=legend), figure(recall, second, second, legend=legends)
    pairs = _score_facts(context, ("auc", "accuracy"))
    pairs.append(("accuracy of the largest class alone", number(context.alone["accuracy"])))
    tables = facts(pairs), tag("div", *plots, class_="pair"), table("Each class against the rest", columns)
    return join([tag("p", SCORED[context.scored]), *tables])


def _draw(plot: Plot, curve: curves.Curve, x: str, y: str, k: int, label: object, *, steps: bool = False) -> None:
    X, Y, words = curve.columns[x], curve.columns[y], (x.replace("_", " "), y.replace("_", " "))

    def text(i: int) -> str:
        threshold = f", threshold {number(curve.threshold[i], 3)}" if np.isfinite(curve.threshold[i]) else ""
        return f"{clean(label)}: {words[0]} {number(X[i], 3)}, {words[1]} {number(Y[i], 3)}{threshold}"

    plot.curve(X, Y, text, k, steps=steps)


def decision_section(context: ReportContext) -> Markup:
    """Return the section on decisions: expected and realised loss, confusion, thresholds, rejected rows."""
    if not context.probabilistic:
        return join([absent(NO_PROBABILITIES.format(context.name, "a loss")), _confusion(context)])
    words = "No loss was given: every error costs 1, so each row gets its most probable class."
    if context.given_loss:
        words = "Each row gets the action of smallest expected loss"
        words += ", or none if rejecting is cheaper." if context.reject is not None else "."
    pairs = _score_facts(context, ("expected_cost", "realised_cost", "rejected"))
    pairs.insert(2, ("the best constant action", number(constant_action_cost(context))))
    thresholds = _thresholds(context) if context.K == 2 else ""
    parts = tag("p", words), _loss_table(context), facts(pairs), thresholds
    return join([*parts, _confusion(context), _costs(context)])


def constant_action_cost(context: ReportContext) -> float:
    """Return the cost per row of the cheapest constant action (or of rejecting all rows)."""
    share = context.counts / len(context.answers.t)
    costs = (share @ context.loss.values).tolist()
    if context.reject_costs is not None:
        costs.append(float(share @ context.reject_costs))
    return float(min(costs))


def _loss_table(context: ReportContext) -> Markup:
    loss = context.loss
    if not context.given_loss and context.K > 8:
        return Markup()
    columns = [Column.names("true class", loss.classes.tolist())]
    columns += [Column.numbers(name_tag(a), loss.values[:, j]) for j, a in enumerate(loss.actions.tolist())]
    if context.reject_costs is not None:
        columns.append(Column.numbers("no decision", context.reject_costs))
    return table("Cost of each action, by true class", columns, sortable=False)


def _thresholds(context: ReportContext) -> Markup:
    regions = decision_regions(context.loss.values, context.reject_costs)
    names = context.loss.actions.tolist()
    columns = [Column.names("action", ["no decision" if a is REJECT else names[a] for a in regions.actions])]
    columns += map(Column.numbers, ("from a probability of", "to"), (regions.edges[:-1], regions.edges[1:]))
    return table(f"Best action, by the probability of {clean(context.classes[1])}", columns, sortable=False)


def _confusion(context: ReportContext) -> Markup:
    """Return how often each action was taken in each class."""
    known = context.loss.actions.tolist() if context.probabilistic else context.classes
    if context.reject is not None and context.probabilistic:
        known = [*known, REJECT]
    if context.K > MANY:
        return _confused(context)
    columns = [Column.names("true class", context.classes)]
    for j, action in enumerate(known):
        chosen = np.array(context.decisions == action, dtype=bool)
        counts = np.bincount(context.answers.t[chosen], minlength=context.K)
        share = counts / np.maximum(context.counts, 1)
        cells: list[Any] = [f"{n:,} ({percent(p)})" if n else "0" for n, p in zip(counts.tolist(), share, strict=True)]
        if j < context.K and action == context.classes[j]:
            cells[j] = tag("span", cells[j], class_="diagonal")
        header = "no decision" if action is REJECT else name_tag(action)
        columns.append(Column(header, cells, counts.astype(np.float64).tolist()))
    return table("Rows by true class (down) and decision (across), with the share of the class", columns)


def _confused(context: ReportContext) -> Markup:
    """Return which other action was taken in which class, the most frequent first."""
    classes, decisions = context.answers.classes[context.answers.t].tolist(), context.decisions.tolist()
    wrong = Counter((label, action) for label, action in zip(classes, decisions, strict=True) if label != action)
    total = Counter(classes)
    most = [(label, action, count) for (label, action), count in wrong.most_common(MOST_CONFUSED)]
    columns = [
        Column.names("true class", [label for label, _, _ in most]),
        Column("decision", ["no decision" if action is REJECT else name_tag(action) for _, action, _ in most]),
        Column.numbers("rows", [count for _, _, count in most]),
        Column.shares("share of the class", [count / total[label] for label, _, count in most]),
    ]
    caption = f"Decisions for rows of another class: the {len(most)} most frequent of {len(wrong):,} pairs"
    return table(caption, columns)


def _costs(context: ReportContext) -> Markup:
    """Return the cost against the threshold for two classes and actions, else against the share of rows decided."""
    if context.K != 2 or len(context.loss.actions) != 2:
        curve = curves.risk_coverage_curve(*context.labelled, context.loss)
        x, y = curve.coverage, curve.risk
        axis = Axis.around("mean loss of these rows", y, at_zero=True)
        plot = Plot(x=Axis("share of rows decided, the most certain first"), y=axis)
        plot.curve(x, y, lambda i: f"{percent(x[i])} of rows: loss {number(y[i])}")
        caption = "Risk and coverage: the mean loss if only the most certain rows get a decision."
        return figure(plot, caption, caption)
    try:
        curve = curves.cost_curve(*context.labelled, context.loss)
    except InvalidInputError as error:
        return absent(str(error))
    x = np.append(np.clip(curve.threshold, 0.0, 1.0), 1.0)
    x, y, ends = _around(x, np.append(curve.cost, curve.cost[-1]), curve.right_threshold)
    axis = Axis(f"threshold of the probability of {clean(context.classes[1])}", *ends)
    plot = Plot(x=axis, y=Axis.around("mean cost per row", y, at_zero=True))
    plot.rule(x=curve.right_threshold, quiet=False)
    plot.curve(x, y, lambda i: f"threshold {number(x[i], 3)}: cost {number(y[i])}", steps=True)
    caption = (
        "Mean cost over the threshold. The dashed line is the optimal threshold for calibrated probabilities, "
        f"{number(curve.right_threshold)}, at a cost of {number(curve.cost_there)}; the minimum on these rows is "
        f"{number(float(curve.cost.min()))}, at {number(max(curve.best_threshold, 0.0))}."
    )
    return figure(plot, caption, caption)


def _around(x: Array, y: Array, threshold: float) -> tuple[Array, Array, tuple[float, float]]:
    """Return the part of a curve of costs around a threshold, and its ends; all of it, if that is not at the edge."""
    high = threshold / EDGE if 0.0 < threshold < EDGE else 1.0
    low = 1.0 - (1.0 - threshold) / EDGE if 1.0 - EDGE < threshold < 1.0 else 0.0
    kept = (x >= low) & (x <= high)
    # The value that holds at each end is that of the threshold before it.
    at = np.clip(np.searchsorted(x, [low, high], side="right") - 1, 0, len(x) - 1)
    return np.r_[low, x[kept], high], np.r_[y[at[0]], y[kept], y[at[1]]], (low, high)


def _drawn(context: ReportContext) -> list[int]:
    """Return the classes that are drawn: for two the second, for many the most frequent."""
    most = np.argsort(-context.counts, kind="stable")[:MOST_LINES]
    return [1] if context.K == 2 else sorted(most.tolist())


def _some(context: ReportContext, drawn: list[int]) -> str:
    return f" The {len(drawn)} most frequent classes." if context.K > MOST_LINES else ""


def _legend(context: ReportContext, drawn: list[int]) -> list[tuple[int, Any]]:
    return [(place, context.classes[k]) for place, k in enumerate(drawn)]
