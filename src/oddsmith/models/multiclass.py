"""Reductions of K classes to two: one class against the rest, and one class against another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import combinations
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from joblib import effective_n_jobs
from sklearn.utils.metaestimators import available_if
from sklearn.utils.parallel import Parallel, delayed

from oddsmith.data_access.class_views import Sides, fit_views
from oddsmith.data_access.dispatch import streams
from oddsmith.data_access.training_stream import open_stream
from oddsmith.decision.calibration import TINY, first_method
from oddsmith.densities.rows import RowMatrix
from oddsmith.design.fitted_basis import has_basis, learn_rows, whole
from oddsmith.design.fitted_design import through_design
from oddsmith.design.inputs import Encoded, read_labels, read_rows
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.models.base import MODELS, Classifier, all_or_nothing, is_probabilistic
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.geometry_mixin import GeometryMixin, lengths, pairwise
from oddsmith.models.wrapper_mixin import Trainable, WrapperMixin, fit_copy
from oddsmith.numerics import Array
from oddsmith.protocols import Indices, Labels, ProbabilisticClassifierLike

LEAST_PROBABILITY = 1e-9
CHUNK_NUMBERS = 1 << 22
LARGEST_MARGIN = 1e300


def _parts_are_probabilistic(model: Reduction) -> bool:
    return all(map(is_probabilistic, model._parts or [model._template()]))


class Reduction(WrapperMixin, GeometryMixin, Classifier):
    """The base of both reductions: fitting the two-class models, their votes, and the geometry of linear ones.

    A reduction defines ``_sides(K)``, for each two-class problem the code of the class coded 1 and the codes of those
    coded 0; and ``_combine(P)``, the probabilities of more than two classes from those of the two-class models.
    """

    class_prior_: Array
    _parts: Sequence[Any] = ()
    _sides: Callable[[int], list[Sides]]
    _combine: Callable[[Array], Array]

    @checked_names
    def __init__(
        self, model: object = None, *, basis: object = None, n_jobs: int | None = None, class_weight: object = None
    ) -> None:
        self.model, self.basis, self.n_jobs, self.class_weight = model, basis, n_jobs, class_weight

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: object = None, **how: object) -> Self:
        """Fit a model for each two-class problem, with the rows unchanged and labels 0 and 1.

        ``y`` may be the name of a column of the table ``X``. ``sample_weight`` requires models that accept it. ``X``
        may be a path, a folder, or a Dask or Spark data frame; `scan` documents these and the options ``how``.

        >>> from oddsmith import OneVsRest
        >>> OneVsRest().fit([[0.0], [1.0], [5.0], [6.0], [10.0], [11.0]], list("aabbcc")).predict([[9.0]]).tolist()
        ['c']
        """
        model = self._template()
        if self.n_jobs is not None and (type(self.n_jobs) is bool or not isinstance(self.n_jobs, int | np.integer)):
            raise InvalidTypeError(f"n_jobs must be None or a whole number, found {self.n_jobs!r}.")
        if self.n_jobs == 0:
            raise InvalidInputError("n_jobs=0 is not a number of jobs. Use 1, or -1 for all cores.")
        stream = open_stream(X, y, sample_weight, None, how)
        if stream is not None:
            self.classes_, self.class_prior_, self._parts = fit_views(self, stream, model)
            return self
        # A part that would make a design of its own gets numbers, from one design for all.
        design = None if vars(model).get("design", False) is None else False
        X, y, sample_weight, _ = through_design(self, design, X, y, sample_weight, reset=True)
        rows = self._input(X, reset=True)
        if self.basis is None:
            self.__dict__.pop("basis_", None)
        else:
            rows = whole(learn_rows(self, read_rows(self, X, reset=True), sample_weight, reset=True))
        classes, t = read_labels(y, rows.shape[0])
        s = self._read_weights(sample_weight, t, classes)
        problems = self._problems(t, classes.tolist())
        # Models fitted side by side on threads must not each change the number of BLAS threads.
        with one_blas_thread() if effective_n_jobs(self.n_jobs) > 1 else nullcontext():
            parts = Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(_fit_part)(model, rows, s, *problem) for problem in problems
            )
        weight = np.bincount(t, weights=s, minlength=len(classes))
        self.classes_, self.class_prior_, self._parts = classes, weight / weight.sum(), list(parts)
        return self

    def _problems(self, t: npt.NDArray[np.int32], labels: list[Any]) -> list[tuple[Indices | None, Labels, str]]:
        """Return the rows (None: all), the 0/1 targets and a description of each two-class problem."""
        problems = []
        for (k,), negative in self._sides(len(labels)):
            against = repr(labels[negative[0]]) if len(negative) == 1 else "the rest"
            inside = None if len(negative) + 1 == len(labels) else np.flatnonzero(np.isin(t, (k, *negative)))
            target = (t if inside is None else t[inside]) == k
            problems.append((inside, target.astype(np.int64), f"class {labels[k]!r} against {against}"))
        return problems

    def _input(self, X: object, *, reset: bool) -> Any:
        if isinstance(X, Encoded) or "design_" in vars(self):
            return read_rows(self, X, reset=reset)
        return super()._input(X, reset=reset)

    def _rows(self, X: object, *, deciding: bool = False) -> Any:
        self._check_fitted()
        return whole(super()._rows(X)) if has_basis(self) else self._input(X, reset=False)

    @available_if(_parts_are_probabilistic)
    @streams
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, N × K: the models' probabilities, normalised or coupled.

        >>> from oddsmith import OneVsOne, OneVsRest
        >>> X, y = [[0.0], [5.0], [10.0]], list("abc")
        >>> OneVsRest().fit(X, y).predict_proba([[4.0], [6.0]]).sum(axis=1).tolist()
        [1.0, 1.0]
        >>> P = OneVsOne().fit(X, y).predict_proba([[5.0]])
        >>> P.argmax(axis=1).tolist(), round(float(P.sum()), 9)
        ([1], 1.0)
        """
        rows = self._rows(X)
        P = np.column_stack([_probability(part, rows) for part in self._parts])
        return np.column_stack([1.0 - P, P]) if len(self.classes_) == 2 else self._combine(P)

    def _answers(self, rows: RowMatrix) -> npt.NDArray[np.bool_]:
        """Return the prediction (0 or 1) of each two-class model, N × models."""
        return np.column_stack([np.asarray(part.predict(rows)) == 1 for part in self._parts])

    def _values(self, rows: RowMatrix) -> Array:
        """Return the decision value of each two-class model, N × models; positive where it predicts 1."""
        columns = []
        for part in self._parts:
            method = first_method(part, "decision_function", "predict_proba")
            if method == "decision_function":
                columns.append(np.asarray(part.decision_function(rows), dtype=np.float64).ravel())
            elif method == "predict_proba":
                columns.append(_probability(part, rows) - 0.5)
            else:
                columns.append(np.where(np.asarray(part.predict(rows)) == 1, 0.5, -0.5))
        return np.column_stack(columns)

    @property
    def coef_(self) -> Array:
        """Weights of the two-class models, one row each, if they are linear."""
        return np.vstack(self._linear("coef_"))

    @property
    def intercept_(self) -> Array:
        """Intercepts of the two-class models, if they are linear."""
        return np.concatenate([np.atleast_1d(value) for value in self._linear("intercept_")])

    def _linear(self, name: str) -> list[Any]:
        """Return an attribute of all two-class models; raise AttributeError if one lacks it."""
        if not self._parts:
            raise AttributeError(
                f"This {type(self).__name__} is not fitted yet and has no {name}. Call fit(X, y) first."
            )
        values = [getattr(part, name, None) for part in self._parts]
        for part, value in zip(self._parts, values, strict=True):
            if value is None or len(np.atleast_1d(value)) != 1:
                kind = type(part).__name__
                raise AttributeError(f"{kind} is not linear: {type(self).__name__} has no {name} with it.")
        if len({np.asarray(value).shape for value in values}) > 1:
            raise AttributeError(
                f"The parts of this {type(self).__name__} have different columns, so it has no {name}. Give the basis "
                f"to {type(self).__name__} itself, which learns one for all parts."
            )
        return values

    def distance(self, X: Any) -> Array:
        """Return the signed distance of each row from each hyperplane, in the order of ``boundary_.classes``.

        For linear models only; N × pairs, or length N for two classes.

        >>> from oddsmith import LeastSquaresClassifier, OneVsOne
        >>> model = OneVsOne(LeastSquaresClassifier()).fit([[0.0], [4.0], [10.0]], ["a", "b", "c"])
        >>> model.distance([[4.0]]).round(6).tolist()  # a | b at 2, a | c at 5, b | c at 7
        [[2.0, -1.0, -3.0]]
        """
        self._check_fitted()
        W, _, pairs = self._hyperplanes()
        with np.errstate(over="ignore"):  # a row may lie farther off than any number
            d: Array = self._differences(self._values(self._rows(X))) / lengths(W)
        return d[:, 0] if len(pairs) == 1 else d

    def _differences(self, values: Array) -> Array:
        """Return the value of each hyperplane's linear function from the decision values of the models."""
        return values


@MODELS.register("one-vs-rest")
class OneVsRest(Reduction):
    """K classes by K models, each of which separates one class from the rest.

    The models may conflict: if none or several of them claim a row, no class is unique, and ``ambiguous(X)`` is true.
    ``predict`` takes the class of largest value, ``y_k(x) ≥ y_j(x)`` for all j, as with K discriminant functions. Two
    classes need one model.

    Parameters
    ----------
    model : classifier, optional
        The two-class model, from this library or scikit-learn; a copy is fitted for each class. Default:
        ``LogisticRegression(prior=1.0)``.
    basis : basis or list of bases, optional
        Basis functions φ of the columns, learned from all rows, computed once and passed to every model.
    n_jobs : int, optional
        Number of parallel fits, on threads; -1 uses all cores. Inside ``joblib.parallel_config(backend="loky")``, fits
        run in processes.
    class_weight : None, "balanced" or {class: weight}
        Weights of the K classes, for models that accept ``sample_weight``. Class weights of the model itself,
        ``OneVsRest(LogisticRegression(class_weight="balanced"))``, apply to its two classes.

    Attributes
    ----------
    models_, classes_ : dict, array
        Class → fitted model (two classes: a single model, under ``classes_[1]``); the labels, sorted.
    coef_, intercept_ : arrays
        Weights of the models, one row per class, if they are linear; ``boundary_`` and ``distance(X)`` describe the
        rule of the largest value.

    Notes
    -----
    Cost: K fits to all rows. Probabilities, if the model has them, are the K probabilities divided by their sum.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.1.2.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsRest().fit(X, y)
    >>> round(model.score(X, y), 2), int(model.ambiguous(X).sum())
    (0.95, 39)
    """

    @property
    def models_(self) -> dict[Any, Any]:
        """The fitted models by class."""
        labels = self.classes_.tolist()
        return dict(zip(labels[1:] if len(labels) == 2 else labels, self._parts, strict=True))

    def _sides(self, K: int) -> list[Sides]:
        chosen = [1] if K == 2 else range(K)
        return [((k,), tuple(j for j in range(K) if j != k)) for k in chosen]

    def votes(self, X: Any) -> npt.NDArray[np.int64]:
        """Return which classes claim each row, N × K: 1 where the model of the class predicts it.

        >>> model = OneVsRest().fit([[0.0], [1.0], [5.0], [6.0], [10.0], [11.0]], ["a", "a", "b", "b", "c", "c"])
        >>> model.votes([[0.0], [5.5], [11.0]]).tolist()
        [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
        """
        claims = self._answers(self._rows(X)).astype(np.int64)
        return np.column_stack([1 - claims, claims]) if len(self.classes_) == 2 else claims

    def ambiguous(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return whether each row lacks a unique class: none claims it, or more than one does.

        >>> model = OneVsRest().fit([[0.0], [1.0], [5.0], [6.0], [10.0], [11.0]], ["a", "a", "b", "b", "c", "c"])
        >>> model.ambiguous([[0.0], [5.5], [11.0]]).tolist()
        [False, True, False]
        """
        return np.asarray(self.votes(X).sum(axis=1) != 1)

    @streams
    def decision_function(self, X: Any) -> Array:
        """Return the value of each class's model, N × K; for two classes, of the single model.

        The value is the model's ``decision_function``, or its probability minus ½.

        >>> OneVsRest().fit([[0.0], [5.0], [10.0]], list("abc")).decision_function([[10.0]]).argmax(axis=1).tolist()
        [2]
        """
        values = self._values(self._rows(X))
        return values[:, 0] if len(self.classes_) == 2 else values

    def _combine(self, P: Array) -> Array:
        total = P.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, P, 1.0) / np.where(total > 0, total, P.shape[1]))

    def _differences(self, values: Array) -> Array:
        return pairwise(values.T, np.zeros(values.shape[1]), self.classes_)[0].T


@MODELS.register("one-vs-one")
class OneVsOne(Reduction):
    """K classes by K(K−1)/2 models, one for each pair of classes, which vote.

    If several classes tie for the most votes, no class is unique, and ``ambiguous(X)`` is true. If the models have
    probabilities, ``predict`` takes the most probable class; otherwise the class with the most votes, with ties broken
    by the margins of wins and losses.

    The probabilities r_ij of class i against class j are coupled by the second method of Wu, Lin and Weng: the p that
    minimises ``Σ_i Σ_{j≠i} (r_ji p_i − r_ij p_j)²`` with ``Σ_i p_i = 1``, a linear system for each row.

    Parameters
    ----------
    model, basis, n_jobs, class_weight
        As in `OneVsRest`; a copy of the model is fitted for each pair.

    Attributes
    ----------
    models_ : dict
        (class, class) → fitted model, positive towards the second.
    coef_, intercept_ : arrays
        Weights of the models, one row per pair, if they are linear; ``boundary_`` and ``distance(X)`` use the same
        rows.

    Notes
    -----
    Cost: K(K−1)/2 fits, each to the rows of two classes.

    References
    ----------
    T.-F. Wu, C.-J. Lin, R. C. Weng, Probability estimates for multi-class classification by pairwise coupling, Journal
    of Machine Learning Research 5, 2004. C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.1.2.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = OneVsOne().fit(X, y)
    >>> round(model.score(X, y), 2), int(model.ambiguous(X).sum()), list(model.models_)
    (0.97, 0, [(0, 1), (0, 2), (1, 2)])
    """

    @property
    def models_(self) -> dict[Any, Any]:
        """The fitted models by pair of classes."""
        return dict(zip(combinations(self.classes_.tolist(), 2), self._parts, strict=True))

    def _sides(self, K: int) -> list[Sides]:
        return [((j,), (i,)) for i, j in combinations(range(K), 2)]

    def votes(self, X: Any) -> npt.NDArray[np.int64]:
        """Return the number of pairs that each class wins, N × K.

        >>> model = OneVsOne().fit([[0.0], [1.0], [5.0], [6.0], [10.0], [11.0]], ["a", "a", "b", "b", "c", "c"])
        >>> model.votes([[0.0], [5.0], [11.0]]).tolist()
        [[2, 1, 0], [1, 2, 0], [0, 1, 2]]
        """
        answers = self._answers(self._rows(X))
        votes = np.zeros((len(answers), len(self.classes_)), dtype=np.int64)
        for (i, j), second in zip(combinations(range(votes.shape[1]), 2), answers.T, strict=True):
            votes[:, j] += second
            votes[:, i] += ~second
        return votes

    def ambiguous(self, X: Any) -> npt.NDArray[np.bool_]:
        """Return whether each row lacks a unique class: two or more have the most votes.

        >>> OneVsOne().fit([[0.0], [5.0], [10.0]], list("abc")).ambiguous([[0.0], [5.5]]).tolist()
        [False, False]
        """
        votes = self.votes(X)
        return np.asarray((votes == votes.max(axis=1, keepdims=True)).sum(axis=1) > 1)

    @streams
    def decision_function(self, X: Any) -> Array:
        """Return the value of each class, N × K; for two classes, of the single model.

        The value is the log probability, if there is one; otherwise the votes plus a fraction for the margins.

        >>> OneVsOne().fit([[0.0], [5.0], [10.0]], list("abc")).decision_function([[10.0]]).argmax(axis=1).tolist()
        [2]
        """
        rows = self._rows(X)
        if len(self.classes_) == 2:
            return self._values(rows)[:, 0]
        if is_probabilistic(self):
            return np.asarray(np.log(np.maximum(self.predict_proba(X), TINY)))
        margin = np.zeros((rows.shape[0], len(self.classes_)))
        for (i, j), value in zip(combinations(range(margin.shape[1]), 2), self._values(rows).T, strict=True):
            value = np.clip(value, -LARGEST_MARGIN, LARGEST_MARGIN)
            margin[:, j] += value
            margin[:, i] -= value
        return self.votes(X) + margin / (3.0 * (np.abs(margin) + 1.0))

    def _combine(self, P: Array) -> Array:
        return couple(P, len(self.classes_))

    def _hyperplanes(self) -> tuple[Array, Array, list[Any]]:
        return self.coef_, self.intercept_, list(self.models_)


def couple(second: Array, K: int) -> Array:
    """Return the probabilities of K classes (N × K) from those of the second class of each pair (N × pairs).

    Minimises ``Σ_i Σ_{j≠i} (r_ji p_i − r_ij p_j)²`` with ``Σ p = 1`` (Wu, Lin and Weng): with ``Q_ii = Σ_{j≠i} r_ji²``
    and ``Q_ij = −r_ji r_ij``, solve ``Q p + b 1 = 0``, ``1ᵀp = 1``. If some p explains all pairs, this returns it.

    >>> p = np.array([0.2, 0.3, 0.5])
    >>> couple(np.array([[p[1] / (p[0] + p[1]), p[2] / (p[0] + p[2]), p[2] / (p[1] + p[2])]]), 3).round(9).tolist()
    [[0.2, 0.3, 0.5]]
    """
    step = max(1, CHUNK_NUMBERS // (K + 1) ** 2)
    parts = [_couple(second[start : start + step], K) for start in range(0, len(second), step)]
    return np.concatenate(parts) if parts else np.zeros((0, K))


def _couple(second: Array, K: int) -> Array:
    n = len(second)
    second = np.clip(second, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
    R = np.zeros((n, K, K))
    i, j = np.array(list(combinations(range(K), 2))).T
    R[:, j, i], R[:, i, j] = second, 1.0 - second
    A = np.ones((n, K + 1, K + 1))
    A[:, :K, :K] = -R * R.transpose(0, 2, 1)
    A[:, np.arange(K), np.arange(K)] = (R**2).sum(axis=1)
    A[:, K, K] = 0.0
    right = np.zeros((n, K + 1, 1))
    right[:, K] = 1.0
    P = np.maximum(np.linalg.solve(A, right)[:, :K, 0], 0.0)
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def _fit_part(model: Trainable, X: object, s: Array | None, inside: Indices | None, target: Labels, what: str) -> Any:
    try:
        return fit_copy(model, X, inside, target, s)
    except Exception as error:
        error.add_note(f"This happened in the fit of {what}.")
        raise


def _probability(part: ProbabilisticClassifierLike, rows: RowMatrix) -> Array:
    """Return a two-class model's probability of class 1."""
    return np.asarray(part.predict_proba(rows), dtype=np.float64)[:, 1]
