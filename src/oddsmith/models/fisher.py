"""Fisher's linear discriminant, for two classes and more."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from oddsmith.decision.class_prior import PerClass, read_class_prior
from oddsmith.densities.class_sums import place
from oddsmith.densities.covariance_checks import check_shrinkage, shrink
from oddsmith.design.inputs import split_target
from oddsmith.engines.base import Source
from oddsmith.errors import InvalidInputError, SeparationWarning
from oddsmith.models.base import MODELS, Classifier
from oddsmith.models.estimator import PosteriorMixin, check_count, per_class
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.geometry_mixin import GeometryMixin
from oddsmith.models.merge_mixin import MergeMixin
from oddsmith.numerics import Array, factor_spd, null_vectors, smallest_norm, without_traces
from oddsmith.protocols import Indices, Labels
from oddsmith.statistics import Gram, Moments, MomentsParams

LEAST_SPREAD = 1e-10
FAR = 100.0
UNBOUNDED = (
    "There is a direction in which no class varies, yet their means differ: it separates the classes without error, "
    "and Fisher's criterion has no maximum. It is used as a component, but with few rows for the number of columns it "
    "says little about new rows. Use shrinkage, such as shrinkage='oas', or fewer columns."
)


@MODELS.register("fisher")
class FisherDiscriminant(
    MergeMixin, PosteriorMixin, GeometryMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, Classifier
):
    """Fisher's discriminant: the projection that best separates the class means, relative to the within-class spread.

    With the scatter within and between the classes (sums over rows with weights s),

        S_W = Σ_k Σ_{n∈k} s_n (x_n − m_k)(x_n − m_k)ᵀ,   S_B = Σ_k N_k (m_k − m)(m_k − m)ᵀ,

    the columns of W maximise ``J(W) = Tr{(Wᵀ S_W W)⁻¹ (Wᵀ S_B W)}``: they are eigenvectors of S_W⁻¹ S_B, at most K − 1
    of them with an eigenvalue above zero (for two classes ``w ∝ S_W⁻¹ (m₁ − m₀)``). They are scaled so that the pooled
    covariance S_W/N of the projected rows is the unit matrix, and point from the earlier classes to the later ones.

    As a classifier it assumes that the projected classes are Gaussian with this covariance, and decides by the
    posterior, ``log p(C_k | x) = −½ ‖z − z_k‖² + log π_k + const`` with ``z = Wᵀ(x − m)``: a linear discriminant. With
    all K − 1 components this is linear discriminant analysis, with fewer its reduced-rank version.

    Parameters
    ----------
    n_components : int, optional
        Number of directions; at most min(K − 1, D), the default.
    class_prior : None, mapping from class to probability, or sequence in the order of ``classes_``
        Prior probabilities for the threshold; None takes the class shares of the rows. They do not enter S_B.
    shrinkage : float from 0 to 1, or "oas"
        The within-class covariance becomes ``(1 − shrinkage) S_W/N + shrinkage · Tr(S_W/N)/D · I``, which helps with
        few rows and many columns. ``"oas"`` estimates the amount (oracle approximating shrinkage).
    basis, threads, design, class_weight
        As in `LogisticRegression`; with a basis, "columns" are its functions.

    Attributes
    ----------
    scalings_ : array, D × n_components
        The directions W.
    eigenvalues_, explained_variance_ratio_ : arrays
        Ratio of between-class to within-class scatter along each component, the eigenvalues of S_W⁻¹ S_B; the share of
        each in their sum, which is the maximum of J.
    means_, mean_, covariance_ : arrays
        Class means (K × D), mean of all rows, pooled covariance within the classes (divided by N, and shrunk).
    classes_, class_prior_ : arrays
        The labels, sorted, and their prior probabilities.
    coef_, intercept_, boundary_ : arrays, Boundary
        The discriminants in the space of the columns: log odds of ``classes_[1]`` (1 × D), or one row per class; the
        separating hyperplanes.
    aliased_ : list of str
        Columns that are constant or linear combinations of earlier ones; the directions then have the smallest norm.

    Notes
    -----
    Cost: one pass over the data (two, for accuracy, if the within-class scatter is tiny or columns are dependent),
    O(D²) memory besides the data, and O(D³) to solve. If the class means differ in a direction in which no class varies
    (always with fewer rows than columns), J has no maximum: a `SeparationWarning` says so, and the direction is the
    limit of vanishing shrinkage towards the covariance of all rows. ``a.merge(b)`` merges exactly.

    References
    ----------
    R. A. Fisher, The use of multiple measurements in taxonomic problems, Annals of Eugenics 7, 1936.
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, sections 4.1.4 to 4.1.6.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FisherDiscriminant(n_components=1).fit(X, y)
    >>> model.transform(X).shape, round(model.score(X, y), 3), model.explained_variance_ratio_.round(3).tolist()
    ((150, 1), 0.987, [0.991])
    """

    @checked_names
    def __init__(
        self,
        n_components: int | None = None,
        *,
        class_prior: PerClass | None = None,
        shrinkage: float | str = 0.0,
        basis: object = None,
        threads: int | None = None,
        design: object = None,
        class_weight: object = None,
    ) -> None:
        self.n_components, self.class_prior, self.shrinkage = n_components, class_prior, shrinkage
        self.basis, self.threads, self.design, self.class_weight = basis, threads, design, class_weight

    def _fit_sums(self, source: Source) -> Moments:
        moments = within(self._fold(source, Gram, source.shape))
        # Where most of the scatter is between the classes, what is left within is summed by itself.
        return self._sum(source) if self._loses_digits(moments) else moments

    def _loses_digits(self, moments: Moments) -> bool:
        weight, largest = float(moments.weight.sum()), np.abs(moments.mean).max(axis=0)
        Sigma, _ = shrink(moments.scatter[0] / weight, self.shrinkage, weight)
        if not factor_spd(without_traces(Sigma, largest, 1.0)).kept.all():
            return True  # columns depend on others: which ones, exact sums decide
        return bool(self._directions(moments).eigenvalues[0] > FAR)

    def _sum(self, source: Source) -> Moments:
        return self._fold(source, Moments, MomentsParams(source.shape.K, "pooled"))

    def _directions(self, moments: Moments) -> Directions:
        weight = float(moments.weight.sum())
        Sigma, _ = shrink(moments.scatter[0] / weight, self.shrinkage, weight)
        return directions(Sigma, moments.mean, moments.weight / weight)

    def _solve(self, classes: Labels, moments: Moments) -> None:
        share = moments.weight / moments.weight.sum()
        prior = share if self.class_prior is None else read_class_prior(self.class_prior, classes)
        found = self._directions(moments)
        n = self._n_directions(len(classes), found)
        self.classes_, self._sums = classes, moments
        self.means_, self.mean_, self.covariance_ = moments.mean, found.center, found.Sigma
        self.scalings_ = found.W[:, :n]
        self.eigenvalues_ = found.eigenvalues[:n]
        total = found.eigenvalues.sum()
        self.explained_variance_ratio_ = self.eigenvalues_ / total if total > 0 else np.zeros(n)
        self.aliased_ = [str(name) for name in self._names()[found.aliased]]
        self._assign_discriminants(prior)
        self._warn_collinear(
            "the directions are those of smallest norm (pseudo-inverse)",
            "Leave them out, or use shrinkage, such as shrinkage='oas'.",
        )
        if found.unbounded:
            warnings.warn(UNBOUNDED, SeparationWarning, stacklevel=5)

    @staticmethod
    def _on_classes(moments: Moments, where: Indices, K: int) -> Moments:
        weight, mean = place(moments.weight, where, K), place(moments.mean, where, K)
        return replace(moments, weight=weight, mean=mean, group=np.zeros(K, dtype=np.intp))

    def _check_parameters(self) -> None:
        check_count("threads", self.threads, optional=True)
        check_count("n_components", self.n_components, optional=True)
        check_shrinkage(self.shrinkage)

    def _n_directions(self, K: int, found: Directions) -> int:
        possible = len(found.eigenvalues)
        if self.n_components is None:
            return possible
        if self.n_components > possible:
            raise InvalidInputError(
                f"n_components={self.n_components}, but {K} classes and {len(found.W) - int(found.aliased.sum())} "
                f"independent columns give {possible} at most (classes − 1, or the number of columns)."
            )
        return int(self.n_components)

    def _assign_discriminants(self, prior: Array) -> None:
        Z = (self.means_ - self.mean_) @ self.scalings_
        W = Z @ self.scalings_.T
        b = np.log(prior) - 0.5 * (Z**2).sum(axis=1) - W @ self.mean_
        if len(prior) == 2:
            W, b = W[1:] - W[:1], b[1:] - b[:1]
        self.class_prior_, self.coef_, self.intercept_ = prior, W, b

    @property
    def _n_features_out(self) -> int:
        return int(self.scalings_.shape[1])

    def transform(self, X: Any) -> Array:
        """Return the projected rows ``Wᵀ(x − mean)``, N × n_components.

        >>> model = FisherDiscriminant().fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1])
        >>> model.transform([[3.0], [4.0]]).tolist()
        [[0.0], [1.0]]
        """
        rows = self._rows(X)
        return np.asarray(rows @ self.scalings_ - self.mean_ @ self.scalings_)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: object = None) -> Array:
        """Fit, and return the projected rows.

        >>> FisherDiscriminant().fit_transform([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1]).ravel().tolist()
        [-3.0, -1.0, 1.0, 3.0]
        """
        X, y = split_target(X, y)
        return self.fit(X, y, sample_weight).transform(X)

    def _activations(self, X: object) -> Array:
        return per_class(self.decision_function(X))

    def with_class_prior(self, class_prior: PerClass) -> FisherDiscriminant:
        """Return a copy of this fitted model with other class priors: the boundaries move parallel to themselves.

        >>> model = FisherDiscriminant().fit([[0.0], [2.0], [4.0], [6.0]], [0, 0, 1, 1])
        >>> model.with_class_prior({0: 0.9, 1: 0.1}).predict_proba([[3.0]]).round(9).tolist()
        [[0.9, 0.1]]
        """
        self._check_fitted()
        other = copy(self)
        other.class_prior = class_prior
        other._assign_discriminants(read_class_prior(class_prior, self.classes_))
        return other


@dataclass(frozen=True, kw_only=True)
class Directions:
    """All directions W (D × components), eigenvalues, the centre, dependent columns, and whether J is unbounded."""

    Sigma: Array
    W: Array
    eigenvalues: Array
    center: Array
    aliased: npt.NDArray[np.bool_]
    unbounded: bool


def directions(Sigma: Array, means: Array, share: Array) -> Directions:
    """Return the directions that maximise Fisher's criterion; ``Sigma`` is the within-class covariance.

    1. Factor Σ = D L Lᵀ D, leaving out columns that depend on earlier ones. If columns are dependent within the classes
       but not over all rows, use the covariance of all rows, Σ + Σ_B, for Σ: it has the same directions and a factor.
    2. In coordinates u = L⁻¹ D⁻¹ x the within-class covariance is the unit matrix, so the directions are the principal
       axes of the class means, each of weight N_k/N: the left singular vectors of L⁻¹ D⁻¹ (m_k − m) √(N_k/N).
    3. Transform back: W = D⁻¹ L⁻ᵀ U, of smallest norm if columns are dependent.
    4. If step 1 used the covariance of all rows, a share μ of the variance along a direction is between the classes and
       1 − μ within: then λ = μ/(1 − μ), and the within-class variance is scaled to one. Directions without within-class
       variance are all equally good; rotate them so that the first class mean lies on the first, the second on the
       first two, …
    5. Orient the directions from the earlier classes to the later ones.

    >>> found = directions(np.eye(2), np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0.5, 0.5]))
    >>> found.W.ravel().tolist(), found.eigenvalues.tolist()
    ([1.0, 0.0], [1.0])
    """
    K = len(means)
    center = share @ means
    apart = (means - center) * np.sqrt(share)[:, None]
    largest = np.abs(means).max(axis=0)
    Sigma = without_traces(Sigma, largest, 1.0)
    S, factor = Sigma, factor_spd(Sigma)  # 1
    unbounded = False
    if not factor.kept.all():
        total = without_traces(Sigma + apart.T @ apart, largest, 1.0)
        outer = factor_spd(total)
        unbounded = not np.array_equal(outer.kept, factor.kept)
        S, factor = (total, outer) if unbounded else (S, factor)
    kept, d = factor.kept, factor.d[factor.kept]
    if not kept.any():
        raise InvalidInputError("No column of X varies: there is no direction to project on.")
    B = linalg.solve_triangular(factor.L, (apart[:, kept] / d).T, lower=True, check_finite=False)  # 2
    if not np.isfinite(B).all():
        raise InvalidInputError(
            "The class means are so far apart, against the spread within the classes, that their distance exceeds the "
            "range of floating point. Rescale the columns, or leave out those that are nearly constant."
        )
    U, singular, _ = linalg.svd(B, full_matrices=False, check_finite=False)
    n = min(K - 1, len(d))
    W = np.zeros((len(kept), n))
    W[kept] = linalg.solve_triangular(factor.L, U[:, :n], lower=True, trans="T", check_finite=False) / d[:, None]  # 3
    W = smallest_norm(W, null_vectors(S, factor))
    eigenvalues = singular[:n] ** 2
    if unbounded:  # 4
        within = np.maximum(1.0 - eigenvalues, LEAST_SPREAD)
        eigenvalues, W = eigenvalues / within, W / np.sqrt(within)
        tied = within <= LEAST_SPREAD
        unbounded = bool(tied.any())
        W[:, tied] = W[:, tied] @ linalg.qr(((means - center) @ W[:, tied]).T, mode="economic")[0]
    trend = (share * (np.arange(K) - share @ np.arange(K))) @ (means - center) @ W  # 5
    W = W * np.where(trend < 0, -1.0, 1.0)
    return Directions(Sigma=Sigma, W=W, eigenvalues=eigenvalues, center=center, aliased=~kept, unbounded=unbounded)


def within(gram: Gram) -> Moments:
    """Return the pooled moments: the class means, and the total scatter minus the between-class scatter.

    >>> from oddsmith.block import Block
    >>> from oddsmith.statistic import Shape
    >>> block = Block(np.array([[0.0], [2.0], [5.0], [5.0]]), np.array([0, 0, 1, 1], dtype=np.int32))
    >>> within(Gram.of(block, Shape(1, 2))).scatter.tolist()
    [[[2.0]]]
    """
    apart = (gram.PhiT / gram.class_weight).T
    half = np.sqrt(gram.class_weight)[:, None] * apart
    scatter = gram.PhiPhi - half.T @ half
    np.fill_diagonal(scatter, np.maximum(np.diag(scatter), 0.0))
    group = np.zeros(len(apart), dtype=np.intp)
    return Moments(gram.class_weight, gram.mean + apart, scatter[None], group)
