"""The answers to the panels of decisions and of the prior: costs, curves, and the width by three criteria."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.errors import OddsmithError
from oddsmith.evaluation.curves import reliability_curve, roc_curve
from oddsmith.evaluation.scale_comparison import compare_widths
from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.lab.maps import action_codes, expected_costs
from oddsmith.lab.pane import POINT_FIELDS, Points, collected_warnings, read_decision
from oddsmith.lab.pane_model import build_model
from oddsmith.models.base import Classifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

MOST_ROWS_FOR_WIDTHS = 10_000
MOST_CURVE_POINTS = 300


def answer_decisions(fields: Fields) -> dict[str, Any]:
    """Return what decisions under a loss come to: on held-out points if there are some, else on those of the fit."""
    fields.only(*POINT_FIELDS, "model", "decision")
    points = Points.read(fields)
    X, t = points.check()
    classes = np.unique(t)
    K = len(classes)
    decision = read_decision(fields.inner("decision"), K)
    with collected_warnings() as texts:
        model = build_model(fields.inner("model"), classes, X.shape[1]).fit(X, t)
        if not hasattr(model, "predict_proba"):
            name = type(model).__name__
            raise BadRequestError(f"{name} has no probabilities, so it has no expected loss. Choose another model.")
        X, t = _rows_to_judge(points, classes)
        taken, codes = action_codes(model, X, decision), np.searchsorted(classes, t)
        return {
            "classes": classes,
            "on": "test" if len(points.test) and len(X) != len(points.train[0]) else "train",
            "rows": len(X),
            "confusion": np.bincount(codes * (K + 1) + taken, minlength=K * (K + 1)).reshape(K, K + 1),
            "rejected": int((taken == K).sum()),
            "cost": _cost(codes, taken, decision),
            "expected": float(expected_costs(model, X, decision).min(axis=1).mean()),
            "threshold": _threshold(decision, K),
            "curves": _curves(model, X, t, taken, codes),
            "warnings": texts,
        }


def _rows_to_judge(points: Points, classes: Indices) -> tuple[Array, Indices]:
    X, t = points.held_out
    known = np.isin(t, classes)
    return (X[known], t[known]) if known.any() else points.train


def _cost(codes: Indices, taken: Indices, decision: dict[str, Any]) -> float:
    """Return the mean realised loss of a row."""
    K, reject = len(decision["loss"]), decision["reject"]
    losses = np.column_stack([decision["loss"], np.full(K, 0.0 if reject is None else reject)])
    return float(losses[codes, taken].mean())


def _threshold(decision: dict[str, Any], K: int) -> float | None:
    """Return the probability of the second of two classes above which it is decided for."""
    L = decision["loss"]
    gain, risk = L[1, 0] - L[1, -1], L[0, -1] - L[0, 0]
    return float(risk / (gain + risk)) if K == 2 and gain + risk > 0 else None


def _curves(model: Classifier, X: Array, t: Indices, taken: Indices, codes: Indices) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if len(model.classes_) == 2 and len(np.unique(t)) == 2:
        curve = roc_curve(model, X, t)
        at = np.unique(np.linspace(0, len(curve.threshold) - 1, MOST_CURVE_POINTS).round().astype(int))
        found["roc"] = {
            "x": curve.false_positive_rate[at],
            "y": curve.true_positive_rate[at],
            "area": curve.area,
            "here": [float((taken[codes == k] == 1).mean()) for k in (0, 1)],
        }
    try:
        curve = reliability_curve(model, X, t, bins=min(8, max(2, len(X) // 10)))
        names = ("class", "probability", "frequency", "count", "lower", "upper")
        found["calibration"] = {name: getattr(curve, name) for name in names} | {"error": curve.calibration_error}
    except OddsmithError as error:
        found["note"] = str(error)
    return found


def answer_widths(fields: Fields) -> dict[str, Any]:
    """Return evidence, leave-one-out and cross-validation over the widths of a Gaussian prior."""
    fields.only(*POINT_FIELDS, "model")
    X, t = Points.read(fields).check()
    if len(X) > MOST_ROWS_FOR_WIDTHS:
        raise BadRequestError(f"The scales are compared for at most {MOST_ROWS_FOR_WIDTHS:,} points, found {len(X):,}.")
    with collected_warnings() as texts:
        model = build_model(fields.inner("model"), np.unique(t), X.shape[1])
        if not isinstance(model, LogisticRegression):
            raise BadRequestError("Only logistic regression and its links have a prior of the weights to choose.")
        model.prior = None
        if np.unique(t, return_counts=True)[1].min() < 5:
            raise BadRequestError("Five folds need five points of each class at least. Add some.")
        found = compare_widths(X, t, model=model, scales=np.geomspace(0.03, 100, 25))
        chosen = {name: float(selection.width) for name, selection in found.selections.items()}
        return {"curve": found.curve, "chosen": chosen, "warnings": texts}
