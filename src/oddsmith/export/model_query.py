"""The query of a model: its probabilities, labels, decisions and intervals as columns of one SELECT."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.decision.loss import LossLike, LossMatrix, RejectLike, read_loss, read_reject
from oddsmith.errors import InvalidInputError
from oddsmith.export.formulas import link_probabilities
from oddsmith.export.model_formulas import ModelFormulas, model_formulas, plain_labels
from oddsmith.export.sql import SqlColumns, SqlExpression, SqlWriter
from oddsmith.inference.summary import check_level, normal_quantile
from oddsmith.models.base import Classifier
from oddsmith.models.logistic import LogisticRegression

MOST_WEIGHTS = 50  # Weights up to which the variance of an activation is written out.


def model_query(model: Classifier, dialect: str, loss: LossLike, reject: RejectLike, level: float | None) -> SqlWriter:
    """Return a writer of SQL with the results of a model; ``level`` is that of predictive intervals, if wanted."""
    model._check_fitted()
    w = SqlWriter(dialect)
    found = model_formulas(w, model)
    labels, values = plain_labels(model.classes_), w.let(found.values)
    if found.proba is not None:
        P = w.let(found.proba)
        w.results.update({f"p_{label}": p for label, p in zip(labels, P, strict=True)})
    else:
        w.results.update({f"value_{label}": v for label, v in zip(labels[-len(values) :], values, strict=True)})
    if len(values) == 1:
        predicted = w.labels(w.apply("<", w.constant(0.0), values), labels[1:], labels[0])
    else:
        tests = w.apply("=", values, w.let(w.largest(values)))
        predicted = w.labels(tests[:-1], labels[:-1], labels[-1])
    w.results["predicted"] = predicted
    if loss is not None or reject is not None:
        model._check_probabilistic()
        w.results.update(_decision(w, P, read_loss(loss, model.classes_), reject, predicted))
    if level is not None:
        w.results.update(_predictive(w, model, found, level, labels))
    return w


def _decision(
    w: SqlWriter, P: SqlColumns, loss: LossMatrix, reject: RejectLike, predicted: SqlExpression
) -> dict[str, SqlExpression]:
    """Return the action of smallest expected loss, as `oddsmith.decide` finds it, and whether a row is rejected."""
    error, actions = loss.error_cost, plain_labels(loss.actions)
    costs = w.let(w.affine(P, loss.values.T) if error is None else w.scale(P, -error, error))
    slack = w.constant(loss.rounding if error is None else 0.0)
    smallest = w.let(w.scale(w.largest(w.let(w.scale(costs, -1.0))), -1.0))
    decision = predicted
    if error is None:
        tests = w.apply("<=", costs, w.apply("+", smallest, slack))
        decision = w.labels(tests[:-1], actions[:-1], actions[-1])
    if reject is None:
        return {"decision": decision}
    price = read_reject(reject, loss.classes)
    cost = w.constant(price[0]) if (price == price[0]).all() else w.affine(P, price[None])
    (rejected,) = w.let(w.apply("<", w.apply("+", cost, slack), smallest))
    kept = f"(CASE WHEN NOT {rejected.text} THEN {decision.text} END)"
    return {"decision": SqlExpression(kept, max(decision.step, rejected.step)), "rejected": rejected}


def _predictive(
    w: SqlWriter, model: Classifier, found: ModelFormulas[SqlColumns], level: float, labels: list[Any]
) -> dict[str, SqlExpression]:
    """Return mean and interval of each class's probability under the Gaussian posterior of the weights."""
    if not isinstance(model, LogisticRegression) or found.inputs is None or found.activation is None:
        raise InvalidInputError(
            f"{type(model).__name__} has no posterior over its weights, so no predictive interval. Leave out "
            "predictive=."
        )
    if len(labels) > 2:
        raise InvalidInputError(
            f"The predictive distribution of {len(labels)} classes is a mean over draws, which is not exported. Leave "
            "out predictive=, or use OneVsRest for one class at a time."
        )
    posterior, link = model.posterior_, model.link_
    z, M = normal_quantile(check_level(level)), len(posterior.mean) - 1
    if M > MOST_WEIGHTS:
        raise InvalidInputError(
            f"The variance of an activation has {M * (M + 1) // 2} terms with {M} weights; for more than "
            f"{MOST_WEIGHTS} it is not exported. Leave out predictive=, or use fewer columns."
        )
    if link not in ("logit", "probit"):
        raise InvalidInputError(
            f"The predictive mean with link={link!r} is an integral without a formula. Leave out predictive=, or use "
            "link='logit' or 'probit'."
        )
    point = posterior.at
    Z = w.let(w.join(w.constant(1.0), w.standardize(found.inputs, point.center, point.scale)))
    # Σ_j (r_jᵀ z)² is the quadratic form zᵀ S z of a factor S = R Rᵀ, and cannot turn out negative.
    values, vectors = np.linalg.eigh(posterior.solver_covariance)
    R = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, values > 0]
    variance = w.let(w.sum_squares(w.let(w.affine(Z, R.T))))
    half, a = w.scale(w.let(w.apply("sqrt", variance)), z), found.activation
    unit = 1.0 if link == "probit" else float(np.pi / 8.0)
    mean = link_probabilities(w, link, w.apply("/", a, w.apply("sqrt", w.scale(variance, unit, 1.0))))[0]
    low, high = (w.let(link_probabilities(w, link, w.apply(sign, a, half))[0]) for sign in "-+")
    ends = {"mean": mean, "lower": (high[0], low[1]), "upper": (low[0], high[1])}
    return {f"{name}_{label}": ends[name][k] for k, label in enumerate(labels) for name in ends}
