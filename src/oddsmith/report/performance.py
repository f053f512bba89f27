"""The parts of the page on how good the model is: calibration, discrimination, decisions."""

from __future__ import annotations

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
from oddsmith.report.html import Markup, clean, join, named, number, percent, tag
from oddsmith.report.subject import Subject
from oddsmith.report.svg import Axis, Plot, evenly, figure
from oddsmith.report.tables import Column, facts, table

MOST_LINES = 6
"""Classes whose curves are drawn; of more, the most frequent."""
MOST_READ = 80
SIDE = 400, 380
"""Width and height of a plot whose axes go from 0 to 1."""
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


def how_scored(subject: Subject) -> str:
    """Return which rows the scores are of."""
    if subject.left_out:
        return (
            "Each row is scored by the model fitted to all rows but that one (leave-one-out), so these numbers are "
            "those of rows that the model has not seen."
        )
    return (
        "The scores are of the rows given here, as the model stands. They are fair only if the model has not seen "
        "these rows; on rows of the fit they are too good."
    )


def calibration_section(subject: Subject) -> Markup:
    """Return whether probabilities mean what they say: reliability diagram, slope, intercept."""
    if not subject.probabilistic:
        return tag("p", NO_PROBABILITIES.format(subject.name, "calibration"), class_="absent")
    curve = reliability_curve(subject.answering, None, subject.answering.labels, level=subject.level)
    drawn = _drawn(subject)
    plot = Plot(Axis("probability said"), Axis("frequency seen"), *SIDE)
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
    columns = [
        Column.names("class", curve.columns["class"].tolist()),
        *(Column.numbers(name, curve.columns[name]) for name in ("probability", "frequency", "lower", "upper")),
        Column.numbers("rows", curve.columns["count"].tolist()),
    ]
    caption = (
        f"Reliability diagram: how often a class occurs where its probability is said to be so high. On the dashed "
        f"line both agree; bands are {level} intervals of the frequency.{_some(subject, drawn)}"
    )
    shown = figure(
        plot, caption, caption, legend=_legend(subject, drawn), table=table("Bins of the reliability diagram", columns)
    )
    names = [name for name in subject.scores.scores if name.startswith(("calibration", "log_loss", "brier"))]
    pairs = [(_score_name(name), interval(subject, name)) for name in names]
    return join(
        [
            tag("p", how_scored(subject)),
            tag("p", _calibrated(subject)),
            tag("div", shown, class_="narrow"),
            facts(pairs),
        ]
    )


def _calibrated(subject: Subject) -> str:
    """Return in words what the slope says."""
    score = subject.scores.scores["calibration_slope"]
    if not np.isfinite(score.value):
        return "The calibration slope is not defined on these rows."
    inside = score.lower <= 1.0 <= score.upper
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
    rows: list[tuple[Any, float, float, float]] = []
    for place, k in enumerate(drawn):
        label = subject.classes[k]
        asked = subject.answering, None, subject.answering.labels, label
        one, two = roc_curve(*asked), precision_recall_curve(*asked)
        share = float(np.mean(subject.found.t == k))
        rows.append((label, one.area, two.average_precision, share))
        _draw(roc, one, "false_positive_rate", "true_positive_rate", place, label)
        _draw(recall, two, "recall", "precision", place, label, steps=True)
        if len(drawn) == 1:
            recall.rule(y=share)
    columns = [
        Column.names("class", [row[0] for row in rows]),
        *(
            Column.numbers(name, [row[i] for row in rows])
            for i, name in enumerate(("AUC", "average precision", "share"), 1)
        ),
    ]
    made = table("Each class against the rest", columns)
    legend = _legend(subject, drawn)
    some = _some(subject, drawn)
    first = f"ROC curve: true against false positives for every threshold; the dashed line is a guess.{some}"
    second = f"Precision against recall{'; the dashed line is a guess' if len(drawn) == 1 else ''}.{some}"
    pair = tag(
        "div", figure(roc, first, first, legend=legend), figure(recall, second, second, legend=legend), class_="pair"
    )
    pairs = [
        (_score_name(name), interval(subject, name)) for name in ("auc", "accuracy") if name in subject.scores.scores
    ]
    return join([tag("p", how_scored(subject)), facts(pairs), pair, made])


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
    parts.append(facts(pairs))
    if subject.K == 2:
        parts.append(_thresholds(subject))
    parts.append(_confusion(subject))
    parts.append(_costs(subject))
    return join(parts)


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
        plot = Plot(
            Axis(f"threshold of the probability of {clean(subject.classes[1])}"),
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
