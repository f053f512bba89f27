"""Every model as formulas: from the columns of a table to decision values and class probabilities.

A model is a function of its columns, made of a few operations; a `FormulaWriter` writes them in its own language.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import Any, Generic, Protocol, TypeAlias, runtime_checkable

import numpy as np

from oddsmith.decision.calibration import LEAST_LOG, IsotonicMap
from oddsmith.densities import families
from oddsmith.densities.gaussian import LOG_2PI, GaussianDensities
from oddsmith.densities.mixed_columns import NaiveDensities
from oddsmith.design.basis import Basis, Expansion, SelectColumns, Standardize
from oddsmith.design.table import Design
from oddsmith.errors import FormatWarning, InvalidInputError, InvalidTypeError, caller_level
from oddsmith.export.design_formulas import design_columns
from oddsmith.export.formulas import Columns, FormulaWriter, expand, link_probabilities
from oddsmith.models.fisher import FisherDiscriminant
from oddsmith.models.generative_mixin import GenerativeMixin
from oddsmith.models.least_squares import LeastSquaresClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.multiclass import LEAST_PROBABILITY, OneVsOne, OneVsRest
from oddsmith.models.perceptron import PerceptronClassifier
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.numerics import Array
from oddsmith.priors import LaplacePrior
from oddsmith.protocols import Indices, Labels

LinearModel: TypeAlias = FisherDiscriminant | LeastSquaresClassifier | PerceptronClassifier
MOST_COUPLED = 8  # Classes up to which the probabilities of pairs are coupled: the formulas grow with their cube.


@runtime_checkable
class HasDesign(Protocol):
    """A model that was fitted to a table."""

    design_: Design


@runtime_checkable
class HasBasis(Protocol):
    """A model with basis functions."""

    basis_: Expansion


@dataclass(frozen=True, kw_only=True)
class ModelFormulas(Generic[Columns]):
    """The outputs of a model: ``values`` (one, positive for the second class, or one a class) and probabilities.

    ``log_proba`` and ``proba`` have a column for each class; they are None for models without probabilities.
    ``activation`` is the argument of the link, for models that have one; ``inputs`` are what their weights are for.
    """

    values: Columns
    proba: Columns | None = None
    log_proba: Columns | None = None
    inputs: Columns | None = None
    activation: Columns | None = None


def model_formulas(w: FormulaWriter[Columns], model: object, X: Columns | None = None) -> ModelFormulas[Columns]:
    """Return the formulas of a fitted model of the columns ``X``; default: those of the table it was fitted to."""
    for kind in type(model).__mro__:
        if kind in _MODELS:
            _warn_of_spellings(model)
            return _MODELS[kind](w, model, X)
    raise InvalidTypeError(
        f"{type(model).__name__} cannot be exported: it is not a model of this library, or has no formulas."
    )


def _warn_of_spellings(model: object) -> None:
    """Warn if predictions of the model bring levels into one spelling, which no exported model does."""
    read = map(str, getattr(model, "feature_names_in_", ()))
    formats: Mapping[str, Any] = vars(model).get("text_formats_", {})
    if found := [name for name in read if name in formats and formats[name].kind == "levels"]:
        warnings.warn(
            f"The model reads {', '.join(f'{name!r} as {formats[name]}' for name in found[:8])}, its export does not: "
            "there, a level in another spelling or with spaces around it is unseen. Store the levels in this spelling.",
            FormatWarning,
            stacklevel=caller_level(),
        )


def input_columns(w: FormulaWriter[Columns], model: object, X: Columns | None, kept: Indices | None = None) -> Columns:
    """Return the numbers that a model's weights are for: through its design and its basis.

    With ``kept`` only these of them; what no other one needs is not read at all.
    """
    read, steps = needed_columns(model.basis_.steps if isinstance(model, HasBasis) else (), kept)
    if X is not None:
        X = X if read is None else w.pick(X, read.tolist())
    elif isinstance(model, HasDesign):
        X = design_columns(w, model.design_, read)
    else:
        names = table_names(model)
        X = w.join(*(w.number(name) for name in (names if read is None else [names[j] for j in read])))
        w.require_finite(X)
    if steps:
        X = expand(w, w.let(X), steps)
    return w.let(X)


def needed_columns(steps: Sequence[Basis], kept: Indices | None) -> tuple[Indices | None, list[Basis]]:
    """Return the columns that come in (None: all) and the bases that make only those kept (None: all) of them."""
    needed: list[Basis] = []
    for step in reversed(steps):
        if isinstance(step, SelectColumns):
            kept = step.kept_ if kept is None else step.kept_[kept]
        elif kept is None:
            needed.append(step)
        elif isinstance(step, Standardize):
            part = copy(step)
            part.mean_, part.scale_ = step.mean_[kept], step.scale_[kept]
            needed.append(part)
        else:  # it makes all columns from all, of which some are taken
            pick = SelectColumns()
            pick.kept_ = kept
            needed += [pick, step]
            kept = None
    return kept, needed[::-1]


def _kept(model: LogisticRegression) -> Indices | None:
    """Return the columns with a weight under a LaplacePrior (at least one, so that there are rows), None for all."""
    if not isinstance(vars(model).get("prior_"), LaplacePrior):
        return None
    kept = np.flatnonzero(model.coef_.any(axis=0))
    return kept if len(kept) else np.zeros(1, dtype=np.intp)


def table_names(model: object) -> list[str]:
    """Return the names of the columns of the table that a model reads, ``x0``, ``x1`` … where they had none."""
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names]
    if isinstance(model, RecalibratedClassifier):
        return table_names(model.model_)
    return [f"x{j}" for j in range(getattr(model, "n_features_in_", 0))]


def plain_labels(labels: Labels) -> list[Any]:
    """Return labels as strings, whole numbers, floats or booleans, all of one type; otherwise as strings.

    >>> plain_labels(np.array([1, 2])), plain_labels(np.array(["a", 1], dtype=object)), plain_labels(np.array([b"b"]))
    ([1, 2], ['a', '1'], ['b'])
    """
    array = np.asarray(labels)
    values = array.astype(str).tolist() if array.dtype.kind in "mM" else array.tolist()
    for kind in (bool, int, float):
        if all(type(value) is kind for value in values):
            return values  # type: ignore[no-any-return]
    words = [value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value) for value in values]
    if len(set(words)) < len(words):
        raise InvalidInputError(f"Two labels are the same as text: {words[:8]}. Give the classes other names.")
    return words


def _with_softmax(w: FormulaWriter[Columns], values: Columns, A: Columns, **more: Columns) -> ModelFormulas[Columns]:
    """Return formulas with the probabilities of activations, where two classes may have one for both."""
    P, L = w.softmax(w.join(w.constant(0.0), A) if w.width(A) == 1 else A)
    return ModelFormulas(values=values, proba=P, log_proba=L, **more)


def _values(w: FormulaWriter[Columns], A: Columns) -> Columns:
    """Return the decision values of activations: the log odds of two classes, or one activation a class."""
    return w.apply("-", w.pick(A, [1]), w.pick(A, [0])) if w.width(A) == 2 else A


def _logistic(w: FormulaWriter[Columns], model: LogisticRegression, X: Columns | None) -> ModelFormulas[Columns]:
    kept = _kept(model)
    Phi = input_columns(w, model, X, kept)
    a = w.let(w.affine(Phi, model.coef_ if kept is None else model.coef_[:, kept], model.intercept_))
    if model.link_ == "logit":
        return _with_softmax(w, a, a, inputs=Phi, activation=a)
    P, L = link_probabilities(w, model.link_, a)
    values = w.scale(a, 1.0, -model._middle())
    return ModelFormulas(values=values, proba=P, log_proba=L, inputs=Phi, activation=a)


def _linear(w: FormulaWriter[Columns], model: LinearModel, X: Columns | None) -> ModelFormulas[Columns]:
    a = w.let(w.affine(input_columns(w, model, X), model.coef_, model.intercept_))
    return _with_softmax(w, a, a) if isinstance(model, FisherDiscriminant) else ModelFormulas(values=a)


def _generative(w: FormulaWriter[Columns], model: GenerativeMixin, X: Columns | None) -> ModelFormulas[Columns]:
    solved = model._solved()
    log_density = _naive if isinstance(solved.densities, NaiveDensities) else _gaussian
    A = w.let(w.apply("+", log_density(w, model, solved.densities, X), w.constant(*np.log(solved.prior))))
    return _with_softmax(w, _values(w, A), A)


def _gaussian(w: FormulaWriter[Columns], model: object, densities: GaussianDensities, X: Columns | None) -> Columns:
    """Return log densities up to a common term; columns that are independent may be missing."""
    K, kept = len(densities.mean), np.flatnonzero(densities.kept)
    if densities.form != "full" and X is None and not isinstance(model, HasBasis | HasDesign):
        x, there = _optional(w, [w.number(name) for name in table_names(model)])
        variance = np.stack([densities._variances(int(g)) for g in densities.group])
        return _independent(w, x, there, densities.mean, variance)
    x = input_columns(w, model, X)
    if densities.is_linear:
        W, b, center = densities.centred()
        z = w.let(w.standardize(x, center))
        if K > 2:
            return w.affine(z, W, b)
        return w.join(w.constant(0.0), w.affine(z, W[1:] - W[:1], b[1:] - b[:1]))
    x, parts = w.bound(x, w.far), []
    for k, g in enumerate(densities.group):
        z = w.let(w.standardize(w.pick(x, kept.tolist()), densities.mean[k, kept]))
        d = w.let(w.affine(z, densities._whiten(int(g), np.eye(len(kept))).T))
        parts.append(w.scale(w.sum_squares(d), -0.5, -0.5 * densities._log_det(int(g))))
    return w.join(*parts)


def _optional(w: FormulaWriter[Columns], columns: list[Columns]) -> tuple[Columns, Columns]:
    """Return columns with 0 where they are missing, and 1 where they are not."""
    x = w.join(*columns)
    missing = w.apply("missing", x)
    filled = w.let(w.apply("where", missing, w.constant(0.0), x))
    return w.bound(filled, w.far), w.let(w.indicator(missing, 0.0, 1.0))


def _independent(w: FormulaWriter[Columns], x: Columns, there: Columns, mean: Array, variance: Array) -> Columns:
    """Return the log densities of independent normal columns, N × K; those that are missing add nothing."""
    parts = []
    for m, v in zip(mean, variance, strict=True):
        z = w.standardize(x, m, np.sqrt(v))
        terms = w.apply("+", w.scale(w.apply("*", z, z), -0.5), w.constant(*(-0.5 * (np.log(v) + LOG_2PI))))
        parts.append(w.let(w.sum_columns(w.apply("*", terms, there))))
    return w.join(*parts)


def _naive(w: FormulaWriter[Columns], model: object, densities: NaiveDensities, X: Columns | None) -> Columns:
    """Return the sum of the log densities of all families."""
    plan, parts = densities.plan, []
    inputs = input_columns(w, model, X) if X is not None or isinstance(model, HasBasis) else None
    for part in densities.parts:
        if isinstance(part, families.CategoricalColumns):
            for j, p in zip(part.columns, part.probability, strict=True):
                levels, _ = w.category(plan.name(int(j)), plan.levels[int(j)], "number")
                parts.append(w.affine(levels, _logs(p)))
            continue
        if inputs is not None:
            columns = [w.pick(inputs, part.columns.tolist())]
        else:
            kinds = [plan.kinds[j] if plan.kinds[j] in ("boolean", "date") else "number" for j in part.columns]
            columns = [w.number(plan.name(int(j)), kind) for j, kind in zip(part.columns, kinds, strict=True)]
        parts.append(w.let(_FAMILIES[type(part)](w, part, *_optional(w, columns))))
    return reduce(lambda total, part: w.let(w.apply("+", total, part)), parts)


def _logs(p: Array) -> Array:
    if (p <= 0).any():
        raise InvalidInputError(
            "A probability of this model is zero, whose logarithm has no place in a formula. Fit it with smoothing > 0."
        )
    return np.log(p)


def _require_counts(w: FormulaWriter[Columns], x: Columns) -> None:
    w.require_positive(x, zero=True)
    w.require(w.apply("=", x, w.apply("floor", x)))


def _bernoulli(w: FormulaWriter[Columns], part: families.BernoulliColumns, x: Columns, there: Columns) -> Columns:
    _require_counts(w, x)
    w.require(w.apply("<=", x, w.constant(1.0)))
    one, zero = _logs(part.probability), _logs(part.complement)
    return w.affine(w.join(x, there), np.hstack([one - zero, zero]))


def _poisson(w: FormulaWriter[Columns], part: families.PoissonColumns, x: Columns, there: Columns) -> Columns:
    _require_counts(w, x)
    return w.affine(w.join(x, there), np.hstack([_logs(part.rate), -part.rate]))


def _multinomial(w: FormulaWriter[Columns], part: families.MultinomialColumns, x: Columns, there: Columns) -> Columns:
    w.require_positive(x, zero=True)
    # Of the counts that are there, the shares are those among their columns.
    share = w.let(w.affine(there, part.share))
    known = w.apply("*", w.safe_log(share), w.let(w.sum_columns(x)))
    return w.apply("-", w.affine(x, _logs(part.share)), known)


_FAMILIES: dict[type[Any], Callable[[FormulaWriter[Any], Any, Any, Any], Any]] = {
    families.GaussianColumns: lambda w, part, x, there: _independent(w, x, there, part.mean, part.variance),
    families.BernoulliColumns: _bernoulli,
    families.PoissonColumns: _poisson,
    families.MultinomialColumns: _multinomial,
}


def _multiclass(w: FormulaWriter[Columns], model: OneVsRest | OneVsOne, X: Columns | None) -> ModelFormulas[Columns]:
    if X is not None or isinstance(model, HasDesign | HasBasis):
        X = input_columns(w, model, X)
    parts = [model_formulas(w, part, X) for part in model._parts]
    seconds = [w.pick(part.proba, [1]) for part in parts if part.proba is not None]
    if len(parts) == 1:
        return parts[0]
    P = w.let(w.join(*seconds)) if len(seconds) == len(parts) else None
    if isinstance(model, OneVsOne) and P is not None:
        P = w.let(_coupled(w, P, len(model.classes_)))
        L = w.let(w.safe_log(P))
        return ModelFormulas(values=L, proba=P, log_proba=L)
    values = w.let(w.join(*(part.values for part in parts)))
    if P is None:
        return ModelFormulas(values=_votes(w, values, len(model.classes_)) if isinstance(model, OneVsOne) else values)
    S = w.let(w.sum_columns(P))
    shares = w.apply("/", P, w.let(w.apply("max", S, w.constant(w.smallest))))
    P = w.let(w.apply("where", w.apply("<", w.constant(0.0), S), shares, w.constant(1.0 / len(parts))))
    return ModelFormulas(values=values, proba=P, log_proba=w.safe_log(P))


def _votes(w: FormulaWriter[Columns], values: Columns, K: int) -> Columns:
    """Return the votes of pairs for each class, and a fraction for the margins of wins and losses."""
    wins = w.let(w.indicator(w.apply("<", w.constant(0.0), values)))
    sign = np.zeros((K, w.width(values)))
    for n, (i, j) in enumerate(combinations(range(K), 2)):
        sign[j, n], sign[i, n] = 1.0, -1.0
    votes = w.affine(wins, sign, (sign < 0).sum(axis=1).astype(np.float64))
    margin = w.let(w.affine(values, sign))
    return w.apply("+", votes, w.apply("/", margin, w.scale(w.apply("abs", margin), 3.0, 3.0)))


def _coupled(w: FormulaWriter[Columns], second: Columns, K: int) -> Columns:
    """Return the probabilities of K classes from those of pairs: the p of smallest ``pᵀQp`` whose sum is 1 (`couple`).

    With ``p_K = 1 − Σ_i p_i`` it is a positive definite system for the others, solved by elimination without exchanges.
    """
    if K > MOST_COUPLED:
        raise InvalidInputError(
            f"The probabilities of OneVsOne with {K} classes solve a linear system in every row, which is not exported "
            f"for more than {MOST_COUPLED}. Use OneVsRest, or LogisticRegression, or model.save(path)."
        )
    second = w.clip(second, w.constant(LEAST_PROBABILITY), w.constant(1.0 - LEAST_PROBABILITY))
    first = w.let(w.scale(second, -1.0, 1.0))
    r = {pair: w.pick(first, [n]) for n, pair in enumerate(combinations(range(K), 2))}  # of i against j
    r |= {(j, i): w.pick(second, [n]) for n, (i, j) in enumerate(combinations(range(K), 2))}
    Q = {(i, j): w.let(w.scale(w.apply("*", r[i, j], r[j, i]), -1.0)) for i, j in r}
    for i in range(K):
        squares = w.join(*(w.apply("*", r[j, i], r[j, i]) for j in range(K) if j != i))
        Q[i, i] = w.let(w.sum_columns(squares))
    n, R = K - 1, {}
    for i, j in product(range(n), range(n + 1)):  # the right side is the column n
        signs = np.array([[1.0, -1.0, -1.0, 1.0] if j < n else [0.0, -1.0, 0.0, 1.0]])
        R[i, j] = w.let(w.affine(w.join(Q[i, j], Q[i, n], Q[n, j], Q[n, n]), signs))
    for k in range(n):
        for i in range(k + 1, n):
            factor = w.let(w.apply("/", R[i, k], R[k, k]))
            for j in range(k + 1, n + 1):
                R[i, j] = w.let(w.apply("-", R[i, j], w.apply("*", factor, R[k, j])))
    p: dict[int, Columns] = {}
    for i in reversed(range(n)):
        rest = R[i, n]
        for j in range(i + 1, n):
            rest = w.apply("-", rest, w.apply("*", R[i, j], p[j]))
        p[i] = w.let(w.apply("/", rest, R[i, i]))
    found = w.join(*(p[i] for i in range(n)))
    found = w.join(found, w.scale(w.sum_columns(found), -1.0, 1.0))
    found = w.let(w.apply("max", found, w.constant(0.0)))
    return w.apply("/", found, w.let(w.sum_columns(found)))


def _recalibrated(
    w: FormulaWriter[Columns], model: RecalibratedClassifier, X: Columns | None
) -> ModelFormulas[Columns]:
    inner = model_formulas(w, model.model_, X)
    if inner.log_proba is not None:
        floor = LEAST_LOG if isinstance(model.map_, IsotonicMap) else model.map_.floor
        A = w.apply("max", inner.log_proba, w.constant(floor))
    elif w.width(inner.values) == 1:
        A = w.join(w.scale(inner.values, -0.5), w.scale(inner.values, 0.5))
    else:
        A = inner.values
    if isinstance(model.map_, IsotonicMap):
        inputs = A if model.map_.raw else w.softmax(A)[0]
        if w.width(A) == 2:
            inputs = _values(w, A) if model.map_.raw else w.pick(inputs, [1])
        P = _isotonic(w, model.map_, model.shift_, w.let(inputs))
        L = w.safe_log(P)
    else:
        shift = model.map_.shift + model.shift_
        P, L = w.softmax(w.affine(w.let(A), model.map_.slope * np.eye(len(shift)), shift))
    L = w.let(w.apply("max", L, w.constant(LEAST_LOG)))
    return ModelFormulas(values=_values(w, L), proba=P, log_proba=L)


def _isotonic(w: FormulaWriter[Columns], isotonic: IsotonicMap, shift: Array, inputs: Columns) -> Columns:
    """Return the probabilities after straight lines between the knots, divided by their sum."""
    ends, parts = isotonic.ends, []
    for k, i, j in zip(range(len(ends)), np.append(0, ends[:-1]), ends, strict=True):
        x, y = isotonic.x[i:j], isotonic.y[i:j]
        C = np.stack([np.r_[y[0], y], np.r_[0.0, np.diff(y) / np.diff(x), 0.0]])
        parts.append(w.piecewise(w.pick(inputs, [k]), x, np.r_[x[0], x], C[:, :, None]))
    Q = w.let(w.join(*parts))
    if len(parts) == 1:
        Q = w.join(w.apply("-", w.constant(1.0), Q), Q)
    S = w.let(w.sum_columns(Q))
    Q = w.apply("where", w.apply("<", w.constant(0.0), S), Q, w.constant(1.0))
    Q = w.let(w.apply("*", Q, w.constant(*np.exp(shift - shift.max()))))
    return w.let(w.apply("/", Q, w.let(w.sum_columns(Q))))


_MODELS: dict[type[Any], Callable[[FormulaWriter[Any], Any, Any], ModelFormulas[Any]]] = {
    LogisticRegression: _logistic,
    FisherDiscriminant: _linear,
    LeastSquaresClassifier: _linear,
    PerceptronClassifier: _linear,
    GenerativeMixin: _generative,
    OneVsRest: _multiclass,
    OneVsOne: _multiclass,
    RecalibratedClassifier: _recalibrated,
}
