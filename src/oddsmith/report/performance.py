"""The parts of the page on how good the model is: calibration, discrimination, decisions."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from oddsmith.decision.acting import REJECT, decision_regions
from oddsmith.decision.loss import read_reject
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation.curves import (
    Curve,
    cost_curve,
    precision_recall_curve,
    reliability_curve,
    risk_coverage_curve,
    roc_curve,
)
from oddsmith.inference.summary import normal_quantile
from oddsmith.numerics import Array
from oddsmith.report.html import Markup, clean, join, named, number, percent, tag
from oddsmith.report.subject import SCORED, Subject
from oddsmith.report.svg import Axis, Plot, evenly, figure
from oddsmith.report.tables import Column, facts, table

MOST_LINES = 6
"""Classes whose curves are drawn; of more, the most frequent."""
MOST_READ = 80
MANY = 30
"""Classes from which tables are of some of them: those drawn, or those that are taken for one another most often."""
MOST_CONFUSED = 50
CLOSE = 0.5
"""Part of the axes below which a reliability diagram is drawn larger."""
EDGE = 0.1
"""A threshold that is closer to 0 or 1 has the costs around it drawn larger."""
SIDE = 400, 380
"""Width and height of a plot whose axes go from 0 to 1."""
WIDEST = (0.5, 2.0)
"""An interval of the calibration slope that goes farther says little."""
NO_PROBABILITIES = (
    "{} gives no probabilities, so {} does not apply. oddsmith.recalibrate(model, X, y) gives it some, from rows that "
    "it has not seen."
)


def interval(subject: Subject, name: str, form: Any = number) -> str:
    """Return a score with its interval."""
    score = subject.scores.scores[name]
    if not np.isfinite(score.value):
        return "not defined on these rows"
    ends = f" ({form(score.lower)} to {form(score.upper)})" if np.isfinite([score.lower, score.upper]).all() else ""
    return f"{form(score.value)}{ends}"


def calibration_section(subject: Subject) -> Markup:
    """Return whether probabilities mean what they say: reliability diagram, slope, intercept."""
    if not subject.probabilistic:
        return tag("p", NO_PROBABILITIES.format(subject.name, "calibration"), class_="absent")
    curve = reliability_curve(subject.answering, None, subject.answering.labels, level=subject.level)
    drawn = _drawn(subject)
    shown = np.isin(curve.columns["class"], [subject.classes[k] for k in drawn])
    ends = _zoomed(curve.probability[shown], curve.lower[shown], curve.upper[shown])
    plot = Plot(Axis("probability said", *ends), Axis("frequency seen", *ends), *SIDE)
    plot.diagonal()
    for place, k in enumerate(drawn):
        label = subject.classes[k]
        own = np.array([value == label for value in curve.columns["class"].tolist()])
        p, f = curve.probability[own], curve.frequency[own]
        plot.band(p, curve.lower[own], curve.upper[own], place)
        plot.line(p, f, place)
        texts = [
            f"{clean(label)}: said {number(a, 3)}, seen {number(b, 3)} ({number(lo, 3)} to {number(hi, 3)}), {n:,} rows"
            for a, b, lo, hi, n in zip(p, f, curve.lower[own], curve.upper[own], curve.count[own].tolist(), strict=True)
        ]
        plot.dots(p, f, place, texts=texts)
    level = f"{100 * subject.level:g}%"
    told = shown if subject.K > MANY else np.ones(len(shown), dtype=bool)
    columns = [
        Column.names("class", curve.columns["class"][told].tolist()),
        *(Column.numbers(name, curve.columns[name][told]) for name in ("probability", "frequency", "lower", "upper")),
        Column.numbers("rows", curve.columns["count"][told].tolist()),
    ]
    caption = (
        f"Reliability diagram: how often a class occurs where its probability is said to be so high. On the dashed "
        f"line both agree; bands are {level} intervals of the frequency.{_some(subject, drawn)}"
    )
    picture = figure(
        plot, caption, caption, legend=_legend(subject, drawn), table=table("Bins of the reliability diagram", columns)
    )
    names = [name for name in subject.scores.scores if name.startswith(("calibration", "log_loss", "brier"))]
    if subject.K > MANY:
        names = [name for name in names if "[" not in name]
    pairs = [(_score_name(name), interval(subject, name)) for name in names]
    pairs.insert(1, ("log loss of the class shares alone", number(subject.alone["log_loss"])))
    return join(
        [
            tag("p", SCORED[subject.scored]),
            tag("p", f"{_calibrated(subject)} {_on_the_whole(subject)}"),
            tag("div", picture, tag("div", facts(pairs), _beyond(subject, names)), class_="pair"),
        ]
    )


def _beyond(subject: Subject, names: list[str]) -> Markup:
    """Return a sentence on values that lie above their own intervals, if there are any."""
    shown = (subject.scores.scores[name] for name in names)
    if not any(score.value > score.upper for score in shown):
        return join([])
    text = (
        "Chance alone makes reliability and calibration error of some rows larger than zero. Their intervals are of "
        "what remains without it, so they may lie below the value."
    )
    return tag("p", text, class_="note")


def _zoomed(*values: Any) -> tuple[float, float]:
    """Return the ends of both axes: 0 and 1, or closer where all values lie in a part of that.

    >>> _zoomed(np.array([0.1, 0.8])), _zoomed(np.array([0.01, 0.04]))
    ((0.0, 1.0), (0.0, 0.042))
    """
    found = np.concatenate(values)
    low, high = float(found.min()), float(found.max())
    if high - low > CLOSE:
        return 0.0, 1.0
    room = 0.05 * max(high - low, 1e-3)
    if high < 0.5:
        return 0.0, high + room
    return (max(low - room, 0.0), 1.0) if low > 0.5 else (max(low - room, 0.0), min(high + room, 1.0))


def misjudged(subject: Subject) -> list[tuple[int, float, float]]:
    """Return classes whose mean probability is not their share, each with both: beyond chance, all classes together.

    If the probabilities p are right, ``Σ (t − p)`` has the variance ``Σ p (1 − p)``.
    """
    P, t = subject.found.P, subject.found.t
    if P is None or not subject.counted:
        return []
    asked = subject.found.positives
    limit = normal_quantile(1.0 - (1.0 - subject.level) / len(asked))
    found = []
    for k in asked:
        p = P[:, k]
        said, seen = float(p.mean()), float(np.mean(t == k))
        if len(t) * abs(seen - said) > limit * np.sqrt(float(p @ (1.0 - p))) + 0.5:
            found.append((k, said, seen))
    return found


def _calibrated(subject: Subject) -> str:
    """Return in words what the slope says."""
    score = subject.scores.scores["calibration_slope"]
    if not np.isfinite(score.value):
        return "The calibration slope is not defined on these rows."
    inside = score.lower <= 1.0 <= score.upper
    if inside and (score.lower < WIDEST[0] or score.upper > WIDEST[1]):
        return "The calibration slope may be 1, but these rows are too few to say so."
    if inside:
        return (
            "The calibration slope does not differ from 1 by more than chance: probabilities are neither too extreme "
            "nor too timid."
        )
    how = "too extreme: shrink their log odds" if score.value < 1.0 else "too timid: stretch their log odds"
    return (
        f"The calibration slope is {number(score.value)}, and 1 is outside of its interval. Probabilities are {how}, "
        "as recalibrate does."
    )


def _on_the_whole(subject: Subject) -> str:
    """Return in words whether the mean probabilities are the shares."""
    if not subject.counted:
        return ""
    wrong = misjudged(subject)
    if not wrong:
        return "On the whole, probabilities agree with the shares of the classes."
    names = ", ".join(f"{clean(subject.classes[k])} {percent(said)} ({percent(seen)})" for k, said, seen in wrong[:6])
    return f"On the whole, they do not agree with the shares of the classes, which stand in brackets: {names}."


def discrimination_section(subject: Subject) -> Markup:
    """Return how well the model tells classes apart: ROC, precision and recall, AUC."""
    if subject.found.values is None:
        return tag("p", f"{subject.name} has no values to order rows by: there is no ROC curve.", class_="absent")
    drawn = [k for k in _drawn(subject) if 0 < np.count_nonzero(subject.found.t == k) < len(subject.found.t)]
    if not drawn:
        return tag("p", "All rows are of one class: there is nothing to tell apart.", class_="absent")
    roc = Plot(Axis("false positive rate"), Axis("true positive rate"), *SIDE)
    recall = Plot(Axis("recall"), Axis("precision"), *SIDE)
    roc.diagonal()
    both = [0, 1] if subject.K == 2 else drawn  # the precision of a rare class is another than that of the other one
    rows: list[tuple[Any, float, float, float]] = []
    for k in both:
        label, place = subject.classes[k], both.index(k) if subject.K > 2 else 1 - k
        asked = subject.answering, None, subject.answering.labels, label
        one, two = roc_curve(*asked), precision_recall_curve(*asked)
        rows.append((label, one.area, two.average_precision, float(np.mean(subject.found.t == k))))
        if k in drawn:
            _draw(roc, one, "false_positive_rate", "true_positive_rate", place, label)
        _draw(recall, two, "recall", "precision", place, label, steps=True)
    columns = [
        Column.names("class", [row[0] for row in rows]),
        *(
            Column.numbers(name, [row[i] for row in rows])
            for i, name in enumerate(("AUC", "average precision", "share"), 1)
        ),
    ]
    made = table("Each class against the rest", columns)
    legend = _legend(subject, drawn)
    legends = legend if subject.K > 2 else [(0, subject.classes[1]), (1, subject.classes[0])]
    some = _some(subject, drawn)
    first = f"ROC curve: true against false positives for every threshold; the dashed line is a guess.{some}"
    second = f"Precision against recall for every threshold; a guess has the share of the class as precision.{some}"
    pair = tag(
        "div", figure(roc, first, first, legend=legend), figure(recall, second, second, legend=legends), class_="pair"
    )
    pairs = [
        (_score_name(name), interval(subject, name)) for name in ("auc", "accuracy") if name in subject.scores.scores
    ]
    pairs.append(("accuracy of the largest class alone", number(subject.alone["accuracy"])))
    return join([tag("p", SCORED[subject.scored]), facts(pairs), pair, made])


def _draw(plot: Plot, curve: Curve, x: str, y: str, k: int, label: Any, *, steps: bool = False) -> None:
    X, Y = curve.columns[x], curve.columns[y]
    plot.line(X, Y, k, steps=steps)
    read = evenly(X, Y, MOST_READ)
    words = x.replace("_", " "), y.replace("_", " ")
    texts = [
        f"{clean(label)}: {words[0]} {number(a, 3)}, {words[1]} {number(b, 3)}"
        + (f", threshold {number(t, 3)}" if np.isfinite(t) else "")
        for a, b, t in zip(X[read], Y[read], curve.threshold[read], strict=True)
    ]
    plot.read(X[read], Y[read], texts)


def decision_section(subject: Subject) -> Markup:
    """Return what decisions cost: expected and realised loss, confusion, thresholds, rejected rows."""
    if not subject.probabilistic:
        text = NO_PROBABILITIES.format(subject.name, "a loss")
        return join([tag("p", text, class_="absent"), _confusion(subject)])
    if subject.given_loss:
        words = "Each row gets the action of smallest expected loss"
        words += ", or none where that is cheaper still." if subject.reject is not None else "."
    else:
        words = "No loss was given: every error counts 1, so each row gets its most probable class."
    parts: list[Any] = [tag("p", words), _loss_table(subject)]
    wanted = [("expected_cost", number), ("realised_cost", number), ("rejected", percent)]
    pairs = [(_score_name(n), interval(subject, n, form)) for n, form in wanted if n in subject.scores.scores]
    pairs.insert(2, ("the same action for all rows, at best", number(same_action(subject))))
    parts.append(facts(pairs))
    if subject.K == 2:
        parts.append(_thresholds(subject))
    parts.append(_confusion(subject))
    parts.append(_costs(subject))
    return join(parts)


def same_action(subject: Subject) -> float:
    """Return what a row costs without a model: the least over actions, no decision among them."""
    share = np.bincount(subject.found.t, minlength=subject.K) / len(subject.found.t)
    costs = (share @ subject.loss.values).tolist()
    if subject.reject is not None:
        costs.append(float(share @ read_reject(subject.reject, subject.loss.classes)))
    return float(min(costs))


def _loss_table(subject: Subject) -> Markup:
    loss = subject.loss
    if not subject.given_loss and subject.K > 8:
        return join([])
    columns = [Column.names("true class", loss.classes.tolist())]
    columns += [Column.numbers(named(a), loss.values[:, j]) for j, a in enumerate(loss.actions.tolist())]
    if subject.reject is not None:
        columns.append(Column.numbers("no decision", read_reject(subject.reject, loss.classes)))
    return table("What each action costs, by the true class", columns, sortable=False)


def _thresholds(subject: Subject) -> Markup:
    loss = subject.loss
    regions = decision_regions(
        loss.values, None if subject.reject is None else read_reject(subject.reject, loss.classes)
    )
    names = loss.actions.tolist()
    columns = [
        Column.names("action", ["no decision" if a is REJECT else names[a] for a in regions.actions]),
        Column.numbers("from a probability of", regions.edges[:-1]),
        Column.numbers("to", regions.edges[1:]),
    ]
    return table(f"Which action is taken, by the probability of {clean(subject.classes[1])}", columns, sortable=False)


def _confusion(subject: Subject) -> Markup:
    """Return how often each action was taken in each class."""
    known = subject.loss.actions.tolist() if subject.probabilistic else subject.classes
    if subject.reject is not None and subject.probabilistic:
        known = [*known, REJECT]
    if subject.K > MANY:
        return _confused(subject)
    t, total = subject.found.t, np.bincount(subject.found.t, minlength=subject.K)
    columns = [Column.names("true class", subject.classes)]
    for j, action in enumerate(known):
        chosen = np.array(subject.decisions == action, dtype=bool)
        counts = np.bincount(t[chosen], minlength=subject.K)
        share = counts / np.maximum(total, 1)
        cells: list[Any] = [f"{n:,} ({percent(p)})" if n else "0" for n, p in zip(counts.tolist(), share, strict=True)]
        if j < subject.K and action == subject.classes[j]:
            cells[j] = tag("span", cells[j], class_="diagonal")
        header = "no decision" if action is REJECT else named(action)
        columns.append(Column(header, cells, counts.astype(np.float64).tolist()))
    return table("Rows by true class (down) and decision (across), with the share of the class", columns)


def _confused(subject: Subject) -> Markup:
    """Return which other action was taken in which class, the most frequent first."""
    classes, decisions = subject.found.classes[subject.found.t].tolist(), subject.decisions.tolist()
    wrong = Counter((label, action) for label, action in zip(classes, decisions, strict=True) if label != action)
    total, most = Counter(classes), wrong.most_common(MOST_CONFUSED)
    share = [count / total[label] for (label, _), count in most]
    columns = [
        Column.names("true class", [label for (label, _), _ in most]),
        Column("decision", ["no decision" if action is REJECT else named(action) for (_, action), _ in most]),
        Column.numbers("rows", [count for _, count in most]),
        Column("share of the class", [percent(p) for p in share], share),
    ]
    caption = f"What was decided for rows of another class: the {len(most)} most frequent of {len(wrong):,} pairs"
    return table(caption, columns)


def _costs(subject: Subject) -> Markup:
    """Return the cost over the threshold, for two classes and actions; else over the share of rows decided."""
    asked = subject.answering, None, subject.answering.labels, subject.loss
    if subject.K == 2 and len(subject.loss.actions) == 2:
        try:
            curve = cost_curve(*asked)
        except InvalidInputError as error:
            return tag("p", str(error), class_="absent")
        x = np.append(np.clip(curve.threshold, 0.0, 1.0), 1.0)
        y = np.append(curve.cost, curve.cost[-1])
        x, y, ends = _around(x, y, curve.right_threshold)
        plot = Plot(
            Axis(f"threshold of the probability of {clean(subject.classes[1])}", *ends),
            Axis.around("mean cost of a row", y, at_zero=True),
        )
        plot.rule(x=curve.right_threshold, quiet=False)
        plot.line(x, y, 0, steps=True)
        read = evenly(x, y, MOST_READ)
        plot.read(
            x[read],
            y[read],
            [f"threshold {number(a, 3)}: cost {number(b)}" for a, b in zip(x[read], y[read], strict=True)],
        )
        caption = (
            "Mean cost over the threshold. The dashed line is the right one for this loss, "
            f"{number(curve.right_threshold)}, at a cost of {number(curve.cost_there)}; the least on these rows is "
            f"{number(float(curve.cost.min()))}, at {number(max(curve.best_threshold, 0.0))}."
        )
        return figure(plot, caption, caption)
    curve = risk_coverage_curve(*asked)
    plot = Plot(
        Axis("share of rows decided, the surest first"), Axis.around("mean loss of these", curve.risk, at_zero=True)
    )
    plot.line(curve.coverage, curve.risk, 0)
    read = evenly(curve.coverage, curve.risk, MOST_READ)
    texts = [
        f"{percent(c)} of rows: loss {number(r)}" for c, r in zip(curve.coverage[read], curve.risk[read], strict=True)
    ]
    plot.read(curve.coverage[read], curve.risk[read], texts)
    caption = "Risk and coverage: the mean loss if only the surest rows get a decision."
    return figure(plot, caption, caption)


def _around(x: Array, y: Array, threshold: float) -> tuple[Array, Array, tuple[float, float]]:
    """Return the part of a curve of costs around a threshold, and its ends; all of it, if that is not at the edge."""
    low, high = 0.0, 1.0
    if 0.0 < threshold < EDGE:
        high = threshold / EDGE
    elif 1.0 - EDGE < threshold < 1.0:
        low = 1.0 - (1.0 - threshold) / EDGE
    kept = (x >= low) & (x <= high)
    # The value that holds at each end is that of the threshold before it.
    at = np.clip(np.searchsorted(x, [low, high], side="right") - 1, 0, len(x) - 1)
    return np.r_[low, x[kept], high], np.r_[y[at[0]], y[kept], y[at[1]]], (low, high)


def _drawn(subject: Subject) -> list[int]:
    """Return the classes that are drawn: for two the second, for many the most frequent."""
    if subject.K == 2:
        return [1]
    counts = np.bincount(subject.found.t, minlength=subject.K)
    return sorted(np.argsort(-counts, kind="stable")[:MOST_LINES].tolist())


def _some(subject: Subject, drawn: list[int]) -> str:
    return f" The {len(drawn)} most frequent classes." if subject.K > MOST_LINES else ""


def _legend(subject: Subject, drawn: list[int]) -> list[tuple[int, Any]]:
    return [(place, subject.classes[k]) for place, k in enumerate(drawn)]


def _score_name(name: str) -> Any:
    words = {
        **{
            "auc": "AUC",
            "brier": "Brier score",
            "brier_reliability": "Brier score: reliability",
            "expected_cost": "expected loss of a row",
        },
        **{"brier_resolution": "Brier score: resolution", "brier_uncertainty": "Brier score: uncertainty"},
        **{"realised_cost": "realised loss of a row", "rejected": "rows without a decision"},
    }
    key, _, label = name.partition("[")
    shown = words.get(key) or key.replace("_", " ")
    return join([shown, *([", ", named(label.removesuffix("]"))] if label else [])])
