"""The data of evaluation curves as arrays: ROC, precision-recall, reliability, risk-coverage, cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import metrics

from oddsmith.decision.actions import decide_by, expected_loss, threshold_for
from oddsmith.decision.loss import LossLike, read_loss
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation.bootstrap import wilson_interval
from oddsmith.evaluation.model_output import ModelOutput, read_output
from oddsmith.evaluation.sums import bin_of, check_bins
from oddsmith.inference.summary import check_level
from oddsmith.numerics import Array
from oddsmith.protocols import ClassifierLike, Labels
from oddsmith.records import Table


@dataclass(frozen=True)
class Curve(Table):
    """Points of a curve; each column is also an attribute (an array).

    Attributes
    ----------
    columns : mapping from name to array
    facts : mapping from name to number
        Summaries of the curve, such as its area; also attributes.

    >>> curve = Curve({"x": np.array([0.0, 1.0])}, {"area": 0.5})
    >>> curve.x.tolist(), curve.area
    ([0.0, 1.0], 0.5)
    """

    columns: Mapping[str, Labels]
    facts: Mapping[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name in ("columns", "facts") or name.startswith("__"):
            raise AttributeError(name)
        for values in (self.columns, self.facts):
            if name in values:
                return values[name]
        raise AttributeError(name)

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: column.tolist() for name, column in self.columns.items()}


def roc_curve(model: ClassifierLike, X: Any, y: Any, label: object = None) -> Curve:
    """Return the ROC curve of a class against the rest: ``false_positive_rate``, ``true_positive_rate``, ``threshold``.

    ``label`` is the positive class, by default the second of two. ``area`` is the AUC. The numbers equal
    scikit-learn's.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    >>> roc_curve(model, [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"]).area
    0.75
    """
    positive, values = _one_class(read_output(model, X, y), label)
    fpr, tpr, threshold = metrics.roc_curve(positive, values)
    columns = {"false_positive_rate": fpr, "true_positive_rate": tpr, "threshold": threshold}
    return Curve(columns, {"area": float(metrics.auc(fpr, tpr))})


def precision_recall_curve(model: ClassifierLike, X: Any, y: Any, label: object = None) -> Curve:
    """Return the curve of ``precision`` over ``recall``, with ``threshold``; ``average_precision`` is its area.

    ``label`` is the positive class, by default the second of two. The numbers equal scikit-learn's; the last point, of
    recall 0, has an infinite threshold.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    >>> precision_recall_curve(model, [[0.0], [3.0]], ["a", "b"]).average_precision
    1.0
    """
    positive, values = _one_class(read_output(model, X, y), label)
    precision, recall, threshold = metrics.precision_recall_curve(positive, values)
    columns = {"recall": recall, "precision": precision, "threshold": np.append(threshold, np.inf)}
    return Curve(columns, {"average_precision": float(metrics.average_precision_score(positive, values))})


def reliability_curve(model: ClassifierLike, X: Any, y: Any, *, bins: int = 10, level: float = 0.95) -> Curve:
    """Return the reliability diagram of each class (for two classes, of the second).

    One row per class and bin: ``class``, ``probability`` (mean prediction), ``frequency`` (observed), ``count``, and
    the Wilson interval ``lower``, ``upper`` of the frequency. Bins have about equal counts. ``calibration_error`` is
    the mean of |probability − frequency|, weighted by counts.

    >>> from oddsmith import GaussianClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(1000) % 2
    >>> X = rng.normal(size=(1000, 1)) + 2 * y[:, None]
    >>> curve = reliability_curve(GaussianClassifier().fit(X, y), X, y, bins=5)
    >>> curve.count.tolist(), curve.calibration_error < 0.05
    ([200, 200, 200, 200, 200], True)
    """
    check_bins(bins)
    level = check_level(level)
    output, P = _probabilistic(model, X, y)
    columns: dict[str, list[Any]] = {name: [] for name in ("class", "probability", "frequency", "count")}
    for k in output.positives:
        cell = bin_of(P[:, k], bins)
        count = np.bincount(cell)
        columns["class"] += [output.classes.tolist()[k]] * len(count)
        columns["count"] += count.tolist()
        columns["probability"] += (np.bincount(cell, weights=P[:, k]) / count).tolist()
        columns["frequency"] += (np.bincount(cell, weights=output.t == k) / count).tolist()
    arrays = {name: np.array(column) for name, column in columns.items()}
    band = [wilson_interval(f, n, level) for f, n in zip(arrays["frequency"], arrays["count"], strict=True)]
    arrays["lower"], arrays["upper"] = np.array(band).T
    gap = np.abs(arrays["probability"] - arrays["frequency"])
    return Curve(arrays, {"calibration_error": float(arrays["count"] @ gap / (len(P) * len(output.positives)))})


def risk_coverage_curve(model: ClassifierLike, X: Any, y: Any, loss: LossLike = None) -> Curve:
    """Return the risk of decisions as a function of the share of rows decided, the most certain first.

    Rows are ordered by expected loss. ``coverage``: share of rows decided; ``risk``: their mean realised loss (error
    rate, without ``loss``); ``reject``: the cost of rejecting above which a row of this expected loss is decided. Rows
    of equal expected loss enter together. ``area`` is the mean risk over all coverages.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    >>> curve = risk_coverage_curve(model, [[0.0], [1.4], [3.0], [1.7]], ["a", "b", "b", "b"])
    >>> curve.coverage.tolist(), curve.risk.tolist()
    ([0.5, 0.75, 1.0], [0.0, 0.0, 0.25])
    """
    output, P = _probabilistic(model, X, y)
    matrix = read_loss(loss, output.classes)
    expected = expected_loss(P, matrix, classes=output.classes).min(axis=1)
    actions = decide_by(P, matrix)
    codes = (actions[:, None] == matrix.actions[None, :]).argmax(axis=1)
    realised = matrix.values[output.t, codes]
    order = np.argsort(expected, kind="stable")
    total, N = np.cumsum(realised[order]), len(order)
    # Expected losses that differ by rounding alone are the same.
    ends = np.flatnonzero(np.append(np.diff(expected[order]) > matrix.rounding, True))
    columns = {"coverage": (ends + 1) / N, "risk": total[ends] / (ends + 1), "reject": expected[order][ends]}
    widths = np.diff(np.append(0.0, columns["coverage"]))
    return Curve(columns, {"area": float(widths @ columns["risk"])})


def cost_curve(model: ClassifierLike, X: Any, y: Any, loss: LossLike = None) -> Curve:
    """Return the cost of taking the second action above each threshold of the second class's probability.

    ``threshold``: from below every probability to above them all; ``cost``: mean realised loss; ``second``: share of
    rows with the second action. ``best_threshold`` has the smallest cost on these rows; ``right_threshold`` is
    `threshold_for` (optimal if the probabilities are calibrated), and ``cost_there`` its cost.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    >>> curve = cost_curve(model, [[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"], [[0, 1], [1, 0]])
    >>> curve.cost.tolist(), curve.right_threshold
    ([0.5, 0.25, 0.5, 0.25, 0.5], 0.5)
    """
    output, P = _probabilistic(model, X, y)
    if output.K != 2:
        raise InvalidInputError(f"A threshold needs two classes, but this model has {output.K}.")
    matrix = read_loss(loss, output.classes)
    right = threshold_for(matrix, classes=output.classes)
    p, N = P[:, 1], len(P)
    order = np.argsort(p, kind="stable")
    first, second = matrix.values[output.t[order], 0], matrix.values[output.t[order], 1]
    # Behind the i-th point, the i smallest probabilities have the first action.
    cost = (np.append(0.0, np.cumsum(first)) + second.sum() - np.append(0.0, np.cumsum(second))) / N
    kept = np.append(0, np.flatnonzero(np.append(np.diff(p[order]) > 0, True)) + 1)
    columns = {"threshold": np.append(-np.inf, p[order])[kept], "cost": cost[kept], "second": 1.0 - kept / N}
    there = int(np.searchsorted(columns["threshold"], right, side="right")) - 1
    best = float(columns["threshold"][columns["cost"].argmin()])
    facts = {"best_threshold": best, "right_threshold": right, "cost_there": float(columns["cost"][there])}
    return Curve(columns, facts)


def _probabilistic(model: ClassifierLike, X: object, y: object) -> tuple[ModelOutput, Array]:
    output = read_output(model, X, y)
    if output.P is None:
        raise InvalidTypeError(
            f"{type(model).__name__} has no probabilities, which this curve needs. Use recalibrate(model, X, y) to "
            "add them."
        )
    return output, output.P


def _one_class(output: ModelOutput, label: object) -> tuple[npt.NDArray[np.bool_], Array]:
    labels = output.classes.tolist()
    if label is None and output.K > 2:
        raise InvalidInputError(
            f"There are {output.K} classes: choose the positive one with label=… from {labels[:8]}."
        )
    if label is not None and label not in labels:
        raise UnknownNameError("class", label, labels)
    if output.values is None:
        raise InvalidTypeError("The model has neither predict_proba nor decision_function, so rows cannot be ranked.")
    k = 1 if label is None else labels.index(label)
    positive = output.t == k
    if positive.all() or not positive.any():
        raise InvalidInputError(
            f"y holds {'only' if positive.all() else 'no'} rows of class {labels[k]!r}: the curve needs both sides."
        )
    return positive, output.values[:, k]
