"""Least squares for classification."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from oddsmith.engines.base import Source
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.models.base import MODELS, Classifier
from oddsmith.models.estimator import check_count
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.geometry_mixin import GeometryMixin
from oddsmith.models.merge_mixin import MergeMixin
from oddsmith.numerics import Array, factor_spd, null_vectors, smallest_norm, without_traces
from oddsmith.priors import GaussianPrior, as_prior
from oddsmith.protocols import Indices, Labels
from oddsmith.statistics import Gram

TARGETS = ("one-hot", "fisher")


@MODELS.register("least-squares")
class LeastSquaresClassifier(MergeMixin, GeometryMixin, Classifier):
    """A linear discriminant for each class, fitted to indicator targets by least squares.

    Minimises half the sum of squared errors over the rows, plus the penalty of a prior, if any:

        E(W) = ½ Σ_n s_n ‖W φ_n + w₀ − t_n‖² + ½ Σ_k (w_k − m_k)ᵀ S⁻¹ (w_k − m_k).

    Without a prior, the solution is ``W̃ = Φ̃† T`` with the pseudo-inverse of ``Φ̃ = (1, Φ)``; if columns are
    dependent, this has the smallest norm, intercept included. The noise of the targets has variance 1, so a prior of
    scale σ is the ridge penalty ``½‖w_k‖²/σ²``; intercepts are penalised only if the covariance includes them.

    The targets are not probabilities and the error is not a likelihood: unlike in `LogisticRegression`, rows far on the
    right side of the boundary count as errors and attract it.

    Parameters
    ----------
    targets : "one-hot" or "fisher"
        ``"one-hot"``: 1 for the class of the row and 0 for the others. ``"fisher"`` (two classes): N/N₁ for the
        N₁ rows of ``classes_[1]`` and −N/N₀ for the others, which gives Fisher's direction S_W⁻¹(m₁ − m₀)
        and the threshold at the mean of all rows. N, N₀ and N₁ are sums of weights.
    prior : None, number or GaussianPrior
        None is ordinary least squares; a number σ is ``GaussianPrior(scale=σ)``. A joint mean or covariance has a row
        (a block) for each of the K classes, or a single one for ``"fisher"``.
    basis, fit_intercept, threads, design, class_weight
        As in `LogisticRegression`; with a basis, "columns" are its functions.

    Attributes
    ----------
    coef_, intercept_ : arrays
        K × D and K: the discriminants y_k(x). For two classes 1 × D and 1: the difference y_1 − y_0 (one-hot), or the
        single discriminant (fisher).
    classes_, boundary_ : array, Boundary
        The labels, sorted; the separating hyperplanes.
    aliased_ : list of str
        Columns that are constant or linear combinations of earlier ones.
    n_parameters_ : int
        Number of weights that the data determine: the discriminants of one-hot targets sum to one.

    Notes
    -----
    Cost: one pass over the data, O(M²) memory besides it, and O(M³) to solve. ``a.merge(b)`` merges exactly. The sums
    use centred columns; weights of nearly dependent columns lose digits, as in any solution by normal equations.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, sections 4.1.3 and 4.1.5.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LeastSquaresClassifier().fit(X, y)
    >>> model.coef_.shape, round(model.score(X, y), 3)
    ((3, 4), 0.847)
    >>> bool(np.allclose(model.decision_function(X).sum(axis=1), 1.0))
    True
    """

    @checked_names
    def __init__(
        self,
        targets: str = "one-hot",
        prior: float | GaussianPrior | None = None,
        *,
        basis: object = None,
        fit_intercept: bool = True,
        threads: int | None = None,
        design: object = None,
        class_weight: object = None,
    ) -> None:
        self.targets, self.prior, self.basis, self.fit_intercept = targets, prior, basis, fit_intercept
        self.threads, self.design, self.class_weight = threads, design, class_weight

    def _check_parameters(self) -> None:
        if self.targets not in TARGETS:
            raise UnknownNameError("targets", self.targets, TARGETS)
        check_count("threads", self.threads, optional=True)
        as_prior(self.prior)

    def _sum(self, source: Source) -> Gram:
        return self._fold(source, Gram, source.shape)

    def _solve(self, classes: Labels, gram: Gram) -> None:
        prior = as_prior(self.prior)
        V = self._target_values(gram, classes)
        W, b, aliased = solve(gram, V, prior, intercept=bool(self.fit_intercept))
        if len(classes) == 2 and len(W) == 2:
            W, b = W[1:] - W[:1], b[1:] - b[:1]
        self.classes_, self._sums = classes, gram
        self.coef_, self.intercept_ = W, b
        self.aliased_ = [str(name) for name in self._names()[aliased]]
        columns = W.shape[1] - int(aliased.sum()) + int(bool(self.fit_intercept))
        self.n_parameters_ = (len(classes) - 1) * columns
        norm = "the weights are those of smallest norm (pseudo-inverse)"
        remedy = "Leave them out, or use a prior" + ("." if prior is None else " with a smaller scale.")
        self._warn_collinear(norm if prior is None else "they have weight 0", remedy)

    @staticmethod
    def _on_classes(gram: Gram, where: Indices, K: int) -> Gram:
        class_weight, PhiT = np.zeros(K), np.zeros((len(gram.mean), K))
        class_weight[where], PhiT[:, where] = gram.class_weight, gram.PhiT
        return replace(gram, class_weight=class_weight, PhiT=PhiT)

    def _target_values(self, gram: Gram, classes: Labels) -> Array:
        """Return the K × C values that the targets take, a row per class."""
        K = len(classes)
        if self.targets == "one-hot":
            return np.eye(K)
        if K > 2:
            raise InvalidInputError(
                f"targets='fisher' is for two classes, but y has {K} ({', '.join(map(repr, classes.tolist()[:8]))}"
                f"{', …' if K > 8 else ''}). Use targets='one-hot', or FisherDiscriminant for more classes."
            )
        return np.asarray(gram.weight / gram.class_weight[:, None] * np.array([[-1.0], [1.0]]))


def solve(
    gram: Gram, V: Array, prior: GaussianPrior | None, *, intercept: bool
) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Return the weights (C × M), intercepts and dependent columns for targets of value ``V`` (K × C) by class.

    >>> from oddsmith.block import Block
    >>> from oddsmith.statistic import Shape
    >>> block = Block(np.array([[1.0], [3.0]]), np.array([0, 1], dtype=np.int32))
    >>> W, b, aliased = solve(Gram.of(block, Shape(1, 2)), np.array([[0.0], [1.0]]), None, intercept=True)
    >>> W.tolist(), b.tolist(), aliased.tolist()
    ([[0.5]], [-0.5], [False])
    """
    center = gram.mean if intercept else np.zeros_like(gram.mean)
    S, PhiT = gram.PhiPhi, gram.PhiT
    if intercept:
        S = without_traces(S, gram.mean, gram.weight)
    else:
        S = S + gram.weight * np.outer(gram.mean, gram.mean)
        PhiT = PhiT + np.outer(gram.mean, gram.class_weight)
    right = PhiT @ V
    level = gram.class_weight @ V / gram.weight
    if prior is not None:
        return _with_prior(S, right, level, center, gram.weight, prior, intercept=intercept)
    factor = factor_spd(S)
    W = factor.solve(right).T
    b = level - W @ center if intercept else np.zeros(len(level))
    if len(factor.aliased):
        W, b = _smallest(null_vectors(S, factor), center, W, b, intercept=intercept)
    return W, b, ~factor.kept


def _smallest(N: Array, center: Array, W: Array, b: Array, *, intercept: bool) -> tuple[Array, Array]:
    """Return the solution of smallest norm (intercept included) among those that fit as well as ``W``, ``b``."""
    if not intercept:
        return smallest_norm(W.T, N).T, b
    # What a combination of columns is constant at, the intercept takes up.
    solution = smallest_norm(np.vstack([b, W.T]), np.vstack([-center @ N, N]))
    return solution[1:].T, solution[0]


def _with_prior(
    S: Array, right: Array, level: Array, center: Array, weight: float, prior: GaussianPrior, *, intercept: bool
) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Solve (Φ̃ᵀΦ̃ + S₀⁻¹) w = Φ̃ᵀt + S₀⁻¹m₀, with the intercept (first) at the centre of the columns."""
    M, C = right.shape
    P = M + 1
    penalty = prior.quadratic(C, M)
    covers_intercept = len(penalty.Q) > P or bool(np.atleast_2d(penalty.Q)[0, 0] > 0)
    penalty = penalty.transformed(center if covers_intercept and intercept else None, np.ones(M))
    G = np.column_stack([weight * level, right.T]) + penalty.apply(penalty.mean)
    A = np.zeros((P, P))
    A[0, 0], A[1:, 1:] = weight, S
    together = len(penalty.Q) > P
    if together:
        A, G = np.kron(np.eye(C), A), G.reshape(1, C * P)
    penalty.add_to(A, C if together else 1, P)
    free = np.ones((C if together else 1, P), dtype=bool)
    free[:, 0] = intercept
    inside = np.flatnonzero(free)
    factor = factor_spd(A[np.ix_(inside, inside)])
    x = np.zeros_like(G)
    x[:, inside] = factor.solve(G[:, inside].T).T
    x = x.reshape(C, P)
    aliased = np.zeros(free.shape, dtype=bool)
    aliased.ravel()[inside] = ~factor.kept
    W = np.ascontiguousarray(x[:, 1:])
    return W, x[:, 0] - W @ center, np.asarray(aliased[:, 1:].any(axis=0))
