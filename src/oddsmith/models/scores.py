"""Every model as formulas: from the columns of a table to decision values and class probabilities.

A model is a function of its columns, made of a few operations; a `Writer` writes them in its own language.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.decision.calibration import IsotonicMap
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.models.columnwise import NaiveDensities
from oddsmith.models.densities import LOG_2PI, GaussianDensities
from oddsmith.models.expanding import has_basis
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.generative import Generative
from oddsmith.models.least_squares import LeastSquaresClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import LEAST_PROBABILITY, OneVsOne, OneVsRest, Reduction
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.models.recalibrated import LEAST_LOG, RecalibratedClassifier
from oddsmith.numerics import Array
from oddsmith.persistence.encoding import design_columns, plain_columns
from oddsmith.persistence.formulas import (
    Columns,
    Writer,
    expansion,
    link_probabilities,
    log_of,
    number,
    scaled,
    shifted,
    softmax,
    total,
    within,
)

MOST_COUPLED = 8
"""Classes up to which the probabilities of pairs are coupled: the formulas grow with their cube."""


@dataclass(frozen=True)
class Scores:
    """What a model says of a row: ``values`` (one, positive for the second class, or one a class) and probabilities.

    ``log_proba`` and ``proba`` have a column for each class; they are None for models without probabilities.
    ``activation`` is the argument of the link, for models that have one.
    """

    values: Columns
    proba: Columns | None = None
    log_proba: Columns | None = None
    inputs: Columns | None = None
    activation: Columns | None = None


def scores(w: Writer, model: Any, X: Columns | None = None) -> Scores:
    """Return the formulas of a fitted model of the columns ``X``; default: those of the table it was fitted to."""
    for kind, write in _MODELS:
        if isinstance(model, kind):
            model._check_fitted()
            return write(w, model, X)
    raise InvalidTypeError(
        f"{type(model).__name__} cannot be exported: it is no model of this library, or one without formulas."
    )


def input_columns(w: Writer, model: Any, X: Columns | None, *, basis: bool = True) -> Columns:
    """Return the numbers that a model's weights are for: through its design and its basis."""
    if X is None:
        X = design_columns(w, model.design_) if hasattr(model, "design_") else plain_columns(w, table_names(model))
    if basis and has_basis(model):
        X = expansion(w, w.let(X), model.basis_.steps)
    return w.let(X)


def table_names(model: Any) -> list[str]:
    """Return the names of the columns of the table that a model reads, ``x0``, ``x1`` … where they had none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None and hasattr(model, "model_"):
        return table_names(model.model_)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def _against_zero(w: Writer, A: Columns) -> Columns:
    """Return one activation for each class, where two classes have one for both."""
    return w.join(number(w, 0.0), A) if w.width(A) == 1 else A


# ------------------------------------------------------------------------------------------ linear models


def _logistic(w: Writer, model: Any, X: Columns | None) -> Scores:
    Phi = input_columns(w, model, X)
    a = w.let(w.affine(Phi, model.coef_, model.intercept_))
    if model.link_ == "logit":
        return Scores(a, *softmax(w, _against_zero(w, a)), inputs=Phi, activation=a)
    P, L = link_probabilities(w, model.link_, a)
    return Scores(scaled(w, a, 1.0, -model._middle()), P, L, inputs=Phi, activation=a)


def _linear(w: Writer, model: Any, X: Columns | None) -> Scores:
    a = w.let(w.affine(input_columns(w, model, X), model.coef_, model.intercept_))
    return Scores(a, *softmax(w, _against_zero(w, a))) if hasattr(model, "predict_proba") else Scores(a)


# -------------------------------------------------------------------------------------- generative models


def _generative(w: Writer, model: Any, X: Columns | None) -> Scores:
    solution = model._solved()
    densities, prior = solution.densities, np.log(solution.prior)
    if isinstance(densities, NaiveDensities):
        A = _naive(w, model, densities, X)
    else:
        A = _gaussian(w, model, densities, X)
    A = w.let(w.binary("+", A, w.constant(prior.tolist())))
    P, L = softmax(w, A)
    return Scores(w.binary("-", w.pick(A, [1]), w.pick(A, [0])) if len(prior) == 2 else A, P, L)


def _gaussian(w: Writer, model: Any, densities: GaussianDensities, X: Columns | None) -> Columns:
    """Return log densities up to a common term; columns that are independent may be missing."""
    K, kept = len(densities.mean), np.flatnonzero(densities.kept)
    if densities.form != "full" and X is None and not has_basis(model) and not hasattr(model, "design_"):
        x, there = _optional(w, [w.number(name) for name in table_names(model)])
        variance = np.stack([densities._variances(int(g)) for g in densities.group])
        return _independent(w, x, there, densities.mean, variance)
    x = input_columns(w, model, X)
    if densities.is_linear:
        W, b, center = densities.centred()
        z = w.let(shifted(w, x, center))
        if K > 2:
            return w.affine(z, W, b)
        return w.join(number(w, 0.0), w.affine(z, W[1:] - W[:1], b[1:] - b[:1]))
    x, parts = within(w, x, w.far), []
    for k, g in enumerate(densities.group):
        z = w.let(shifted(w, w.pick(x, kept.tolist()), densities.mean[k, kept]))
        d = w.let(w.affine(z, densities._whiten(int(g), np.eye(len(kept))).T, np.zeros(len(kept))))
        parts.append(scaled(w, total(w, w.binary("*", d, d)), -0.5, -0.5 * densities._log_det(int(g))))
    return w.join(*parts)


def _optional(w: Writer, columns: list[Columns]) -> tuple[Columns, Columns]:
    """Return columns with 0 where they are missing, and 1 where they are not."""
    x = w.join(*columns)
    missing, zero = w.missing(x), number(w, 0.0)
    return within(w, w.let(w.where(missing, zero, x)), w.far), w.let(w.where(missing, zero, number(w, 1.0)))


def _independent(w: Writer, x: Columns, there: Columns, mean: Array, variance: Array) -> Columns:
    """Return the log densities of independent normal columns, N × K; those that are missing add nothing."""
    parts = []
    for m, v in zip(mean, variance, strict=True):
        z = shifted(w, x, m, np.sqrt(v))
        terms = scaled(w, w.binary("*", z, z), -0.5)
        terms = w.binary("+", terms, w.constant((-0.5 * (np.log(v) + LOG_2PI)).tolist()))
        parts.append(w.let(total(w, w.binary("*", terms, there))))
    return w.join(*parts)


def _naive(w: Writer, model: Any, densities: NaiveDensities, X: Columns | None) -> Columns:
    """Return the sum of the log densities of all families."""
    plan, parts = densities.plan, []
    made = None if X is None and not has_basis(model) else input_columns(w, model, X)
    for part in densities.parts:
        if part.name == "categorical":
            for j, p in zip(part.columns, part.probability, strict=True):
                levels, _ = w.category(plan.name(int(j)), plan.levels[int(j)], "number")
                parts.append(w.affine(levels, _logs(p), np.zeros(len(p))))
            continue
        if made is not None:
            columns = [w.pick(made, part.columns.tolist())]
        else:
            kinds = ["boolean" if plan.kinds[j] == "boolean" else "number" for j in part.columns]
            columns = [w.number(plan.name(int(j)), kind) for j, kind in zip(part.columns, kinds, strict=True)]
        parts.append(w.let(_FAMILIES[part.name](w, part, *_optional(w, columns))))
    value = parts[0]
    for part in parts[1:]:
        value = w.let(w.binary("+", value, part))
    return value


def _logs(p: Array) -> Array:
    if (p <= 0).any():
        raise InvalidInputError(
            "A probability of this model is zero, whose logarithm has no place in a formula. Fit it with smoothing > 0."
        )
    return np.log(p)


def _whole(w: Writer, x: Columns, *, most: float | None = None) -> None:
    """Give rows with values that are no counts (or above ``most``) no result."""
    w.require(w.compare("<=", number(w, 0.0), x))
    w.require(w.compare("=", x, w.unary("floor", x)))
    if most is not None:
        w.require(w.compare("<=", x, number(w, most)))


def _bernoulli(w: Writer, part: Any, x: Columns, there: Columns) -> Columns:
    _whole(w, x, most=1.0)
    one, zero = _logs(part.probability), _logs(part.complement)
    return w.affine(w.join(x, there), np.hstack([one - zero, zero]), np.zeros(len(one)))


def _poisson(w: Writer, part: Any, x: Columns, there: Columns) -> Columns:
    _whole(w, x)
    return w.affine(w.join(x, there), np.hstack([_logs(part.rate), -part.rate]), np.zeros(len(part.rate)))


def _multinomial(w: Writer, part: Any, x: Columns, there: Columns) -> Columns:
    w.require(w.compare("<=", number(w, 0.0), x))
    zeros = np.zeros(len(part.share))
    # Of the counts that are there, the shares are those among their columns.
    share = w.let(w.affine(there, part.share, zeros))
    known = w.binary("*", log_of(w, share), w.let(total(w, x)))
    return w.binary("-", w.affine(x, _logs(part.share), zeros), known)


_FAMILIES: dict[str, Callable[..., Columns]] = {
    "gaussian": lambda w, part, x, there: _independent(w, x, there, part.mean, part.variance),
    "bernoulli": _bernoulli,
    "poisson": _poisson,
    "multinomial": _multinomial,
}


# ------------------------------------------------------------------------------------ models around models


def _parts(w: Writer, model: Reduction, X: Columns | None) -> list[Scores]:
    if X is not None or hasattr(model, "design_") or has_basis(model):
        X = input_columns(w, model, X)
    return [scores(w, part, X) for part in model._parts]


def _one_vs_rest(w: Writer, model: Any, X: Columns | None) -> Scores:
    parts = _parts(w, model, X)
    values = w.let(w.join(*(part.values for part in parts)))
    if any(part.proba is None for part in parts):
        return Scores(values)
    if len(parts) == 1:
        return Scores(values, parts[0].proba, parts[0].log_proba)
    P = w.let(w.join(*(w.pick(part.proba, [1]) for part in parts)))
    S = w.let(total(w, P))
    shares = w.binary("/", P, w.let(w.binary("max", S, number(w, w.smallest))))
    P = w.let(w.where(w.compare("<", number(w, 0.0), S), shares, number(w, 1.0 / len(parts))))
    return Scores(values, P, log_of(w, P))


def _one_vs_one(w: Writer, model: Any, X: Columns | None) -> Scores:
    parts = _parts(w, model, X)
    if len(parts) == 1:
        return Scores(parts[0].values, parts[0].proba, parts[0].log_proba)
    pairs, K = model._pairs(), len(model.classes_)
    if hasattr(model, "predict_proba"):
        P = w.let(_coupled(w, w.let(w.join(*(w.pick(part.proba, [1]) for part in parts))), pairs, K))
        L = w.let(log_of(w, P))
        return Scores(L, P, L)
    values = w.let(w.join(*(part.values for part in parts)))
    wins = w.where(w.compare("<", number(w, 0.0), values), number(w, 1.0), number(w, 0.0))
    sign = np.zeros((K, len(pairs)))
    for n, (i, j) in enumerate(pairs):
        sign[j, n], sign[i, n] = 1.0, -1.0
    votes = w.affine(w.let(wins), sign, (sign < 0).sum(axis=1).astype(np.float64))
    margin = w.let(w.affine(values, sign, np.zeros(K)))
    return Scores(w.binary("+", votes, w.binary("/", margin, scaled(w, w.unary("abs", margin), 3.0, 3.0))))


def _coupled(w: Writer, second: Columns, pairs: list[tuple[int, int]], K: int) -> Columns:
    """Return the probabilities of K classes from those of pairs: the p of smallest ``pᵀQp`` whose sum is 1 (`couple`).

    With ``p_K = 1 − Σ_i p_i`` it is a positive definite system for the others, solved by elimination without exchanges.
    """
    if K > MOST_COUPLED:
        raise InvalidInputError(
            f"The probabilities of OneVsOne with {K} classes solve a linear system in every row, which is not exported "
            f"for more than {MOST_COUPLED}. Use OneVsRest, or LogisticRegression, or model.save(path)."
        )
    second = w.binary("min", second, number(w, 1.0 - LEAST_PROBABILITY))
    second = w.let(w.binary("max", second, number(w, LEAST_PROBABILITY)))
    first = w.let(scaled(w, second, -1.0, 1.0))
    r = {(i, j): w.pick(first, [n]) for n, (i, j) in enumerate(pairs)}  # of i against j
    r |= {(j, i): w.pick(second, [n]) for n, (i, j) in enumerate(pairs)}
    Q = {(i, j): w.let(scaled(w, w.binary("*", r[i, j], r[j, i]), -1.0)) for i, j in r}
    for i in range(K):
        squares = w.join(*(w.binary("*", r[j, i], r[j, i]) for j in range(K) if j != i))
        Q[i, i] = w.let(total(w, squares))
    last, n = K - 1, K - 1
    R = {}
    for i in range(n):
        for j in range(n + 1):  # the right side is the column n
            signs = np.array([[1.0, -1.0, -1.0, 1.0]]) if j < n else np.array([[0.0, -1.0, 0.0, 1.0]])
            corner = w.join(Q[i, min(j, last)], Q[i, last], Q[last, min(j, last)], Q[last, last])
            R[i, j] = w.let(w.affine(corner, signs, np.zeros(1)))
    for k in range(n):
        for i in range(k + 1, n):
            factor = w.let(w.binary("/", R[i, k], R[k, k]))
            for j in range(k + 1, n + 1):
                R[i, j] = w.let(w.binary("-", R[i, j], w.binary("*", factor, R[k, j])))
    p: dict[int, Columns] = {}
    for i in reversed(range(n)):
        rest = R[i, n]
        for j in range(i + 1, n):
            rest = w.binary("-", rest, w.binary("*", R[i, j], p[j]))
        p[i] = w.let(w.binary("/", rest, R[i, i]))
    found = w.join(*(p[i] for i in range(n)))
    found = w.join(found, scaled(w, total(w, found), -1.0, 1.0))
    found = w.let(w.binary("max", found, number(w, 0.0)))
    return w.binary("/", found, w.let(total(w, found)))


def _recalibrated(w: Writer, model: Any, X: Columns | None) -> Scores:
    inner = scores(w, model.model_, X)
    if inner.log_proba is not None:
        A = w.binary("max", inner.log_proba, number(w, LEAST_LOG))
    elif w.width(inner.values) == 1:
        A = w.join(scaled(w, inner.values, -0.5), scaled(w, inner.values, 0.5))
    else:
        A = inner.values
    if isinstance(model.map_, IsotonicMap):
        P, L = _isotonic(w, model, w.let(softmax(w, A)[0]))
    else:
        shift = model.map_.shift + model.shift_
        P, L = softmax(w, w.affine(w.let(A), model.map_.slope * np.eye(len(shift)), shift))
    L = w.let(w.binary("max", L, number(w, LEAST_LOG)))
    return Scores(w.binary("-", w.pick(L, [1]), w.pick(L, [0])) if w.width(L) == 2 else L, P, L)


def _isotonic(w: Writer, model: Any, P: Columns) -> tuple[Columns, Columns]:
    """Return the probabilities after straight lines between the knots, divided by their sum."""
    ends = model.map_.ends
    starts = np.append(0, ends[:-1])
    columns = [1] if len(ends) == 1 else range(len(ends))
    parts = []
    for k, i, j in zip(columns, starts, ends, strict=True):
        x, y = model.map_.x[i:j], model.map_.y[i:j]
        slopes = np.concatenate([[0.0], np.diff(y) / np.diff(x), [0.0]])
        levels = np.concatenate([y[:1], y])
        origins = np.concatenate([x[:1], x])
        parts.append(w.piecewise(w.pick(P, [k]), x, origins, np.stack([levels, slopes])[:, :, None]))
    Q = w.let(w.join(*parts))
    if len(parts) == 1:
        Q = w.join(w.binary("-", number(w, 1.0), Q), Q)
    S = w.let(total(w, Q))
    Q = w.where(w.compare("<", number(w, 0.0), S), Q, number(w, 1.0))
    Q = w.let(w.binary("*", Q, w.constant(np.exp(model.shift_ - model.shift_.max()).tolist())))
    Q = w.let(w.binary("/", Q, w.let(total(w, Q))))
    return Q, log_of(w, Q)


_MODELS: tuple[tuple[type[Any], Callable[[Writer, Any, Columns | None], Scores]], ...] = (
    (LogisticRegression, _logistic),
    (FisherDiscriminant, _linear),
    (LeastSquaresClassifier, _linear),
    (PerceptronClassifier, _linear),
    (Generative, _generative),
    (OneVsRest, _one_vs_rest),
    (OneVsOne, _one_vs_one),
    (RecalibratedClassifier, _recalibrated),
)
