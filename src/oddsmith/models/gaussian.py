"""Gaussian classes: linear and quadratic discriminant analysis, and what lies between them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.design.inputs import nonfinite_error, read_rows
from oddsmith.design.labels import union_of_classes
from oddsmith.engines import engine_of
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.models.base import MODELS, Classifier
from oddsmith.models.closed_form import LARGEST_SCATTER
from oddsmith.models.densities import LOG_2PI, GaussianDensities, QuadraticForm
from oddsmith.models.expanding import as_source, has_basis, learn_basis, learn_rows
from oddsmith.models.generative import (
    LARGE,
    Folded,
    Generative,
    Labels,
    by_rows,
    has_missing,
    infinite_error,
    is_large,
    on_classes,
    place,
)
from oddsmith.models.geometry import LinearGeometry
from oddsmith.models.singular import Names, check_full, check_observed, check_variances, shrink
from oddsmith.models.streaming import Stream, read_stream
from oddsmith.numerics import Array
from oddsmith.statistics import Features, FeaturesParams, Moments, MomentsParams

OVERFLOW = "The squares of the values add up to more than a float64 can hold: rescale them."


@dataclass(frozen=True)
class Structure:
    """The form of the covariances, and whether all classes share one."""

    form: str
    shared: bool


STRUCTURES = {
    "shared": Structure("full", True),
    "separate": Structure("full", False),
    "diagonal": Structure("diagonal", False),
    "spherical": Structure("spherical", False),
    "shared-diagonal": Structure("diagonal", True),
    "shared-spherical": Structure("spherical", True),
}


@MODELS.register("gaussian")
class GaussianClassifier(Generative, LinearGeometry, Classifier):
    """Classes with Gaussian densities and Bayes' rule: linear or quadratic discriminant analysis.

    Maximises the joint likelihood, a sum over rows,

        Σ_n s_n [log π_{t_n} + log N(x_n | μ_{t_n}, Σ_{t_n})],

    in closed form: π_k = N_k/N, μ_k the mean of class k, S_k = Σ (x − μ_k)(x − μ_k)ᵀ / N_k its covariance, and for
    classes that share one the average Σ (N_k/N) S_k over them (N's are sums of weights). The posterior is
    the softmax of ``a_k(x) = log π_k + log p(x | C_k)``: linear in x where the covariance is shared, else quadratic.

    Parameters
    ----------
    covariance : str or mapping
        ``"shared"``: one for all classes, linear boundaries. ``"separate"``: one each, quadratic boundaries.
        ``"diagonal"``, ``"spherical"``: one each, with independent columns, or independent columns of one variance;
        ``"shared-diagonal"``, ``"shared-spherical"``: one such for all classes. A mapping from class to group:
        the classes of a group share a covariance (full), so that boundaries are linear within it.
    class_prior : mapping from class to probability, or sequence in the order of the classes, optional
        Default: the shares of the classes among the rows.
    shrinkage : number from 0 to 1, or "oas"
        Covariances are moved towards a multiple of the unit matrix, ``(1 − ρ) S + ρ (tr S / D) I``: by this share, or
        by the one that is optimal for Gaussian data (oracle approximating shrinkage). It depends on the units of
        the columns: standardise them first if these differ.
    missing : "auto" or "marginalise"
        Missing values (NaN, null) of a row are integrated out of the densities, so that its probabilities are
        those given the values that it has. ``predict``, whose bare label would not show that, refuses such rows unless
        this is ``"marginalise"`` or the covariance is one of those with independent columns.
    basis : basis or list of bases, optional
        Basis functions φ of the columns, such as ``Polynomial(2)``; those of a list follow on one another. They are
        learned with the model and kept in it (``basis_``); "columns" are then theirs.
    threads : int, optional
        Number of threads; the result does not depend on it, to the bit.
    design : Design, optional
        How the columns of a table become numbers; default: categories and dates by `Design()`, numbers as they are. It
        is learned with the model and kept in it (``design_``).

    Attributes
    ----------
    classes_ : array
        The labels, sorted.
    class_prior_, means_ : arrays
        K, and K × D.
    covariances_ : array
        Of each class: K × D × D; K × D for the diagonal and K for the spherical structures.
    coef_, intercept_ : arrays
        The linear function of each class, ``w_k = Σ⁻¹ μ_k``, ``w_k0 = −½ μ_kᵀ Σ⁻¹ μ_k + log π_k`` (K × D and K); for
        two classes that of the log odds, ``Σ⁻¹ (μ_1 − μ_0)`` (1 × D and 1). With groups, ``−½ log |Σ_g|`` is added, and
        differences within a group are the log odds. Where no two classes share a covariance there is none.
    quadratic_ : QuadraticForm
        ``(W, w, w0)`` with ``a_k(x) = xᵀ W_k x + w_kᵀ x + w_k0``; for two classes that of the log odds. W is 0 if
        all classes share a covariance.
    boundary_ : Boundary
        The separating hyperplanes, if all classes share a covariance.
    shrinkage_ : array
        The share ρ for the covariance of each class.
    aliased_ : list of str
        Columns that were set aside, see below.
    log_likelihood_ : float
        Of rows and labels together, at the estimate.
    n_parameters_ : int
        Number of parameters; D(D+1)/2 + KD + K − 1 for a shared covariance.

    Notes
    -----
    Cost: one pass over the data, D² numbers for each covariance, O(D³) to solve. Rows with missing values can be
    fitted where columns are independent (``"diagonal"``, ``"spherical"``), not otherwise.

    A covariance that is singular is refused, by the names of the columns, unless ``shrinkage`` is asked for. With
    ``"shared"``, two cases that no choice of columns repairs are fitted with a warning instead: fewer rows than
    columns, and columns without spread inside every class; such columns are set aside for all classes.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.2. Y. Chen, A. Wiesel, Y. C. Eldar,
    A. O. Hero, Shrinkage algorithms for MMSE covariance estimation, IEEE Transactions on Signal Processing 58,
    2010.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianClassifier("shared").fit(X, y)
    >>> model.score(X, y), model.n_parameters_
    (0.98, 24)
    >>> GaussianClassifier({0: "small", 1: "large", 2: "large"}).fit(X, y).n_parameters_
    34
    """

    def __init__(
        self,
        covariance: Any = "shared",
        class_prior: Any = None,
        shrinkage: Any = 0.0,
        *,
        missing: str = "auto",
        basis: Any = None,
        threads: int | None = None,
        design: Any = None,
    ) -> None:
        self.covariance = covariance
        self.class_prior = class_prior
        self.shrinkage = shrinkage
        self.missing = missing
        self.basis = basis
        self.threads = threads
        self.design = design

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not isinstance(self.covariance, Mapping) and self._columnwise()
        return tags

    def _columnwise(self) -> bool:
        """Whether columns are independent, so that missing values can be fitted."""
        named = isinstance(self.covariance, str) and self.covariance in STRUCTURES
        return named and STRUCTURES[self.covariance].form != "full"

    # ------------------------------------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.covariance, Mapping | str):
            raise InvalidTypeError(
                f"covariance must be one of {', '.join(map(repr, STRUCTURES))} or a mapping from class to group, "
                f"found {self.covariance!r}."
            )
        if isinstance(self.covariance, str) and self.covariance not in STRUCTURES:
            raise UnknownNameError("covariance", self.covariance, STRUCTURES)
        number = isinstance(self.shrinkage, Real) and not isinstance(self.shrinkage, bool)
        if self.shrinkage != "oas" and not (number and 0.0 <= self.shrinkage <= 1.0):
            raise InvalidInputError(f"shrinkage must be a number from 0 to 1 or 'oas', found {self.shrinkage!r}.")
        if self.missing not in ("auto", "marginalise"):
            raise UnknownNameError("way with missing values", self.missing, ["auto", "marginalise"])

    def _read(self, X: Any, sample_weight: Any, *, reset: bool) -> tuple[Any, Any]:
        rows = learn_rows(self, read_rows(self, X, reset=reset), sample_weight, reset=reset)
        self._check_width(rows.shape[1])
        return rows, None

    def _check_width(self, D: int) -> None:
        if D > LARGEST_SCATTER and not self._columnwise():
            raise InvalidInputError(
                f"A covariance of {D} columns is too large; {LARGEST_SCATTER} are the most. Use covariance='diagonal', "
                "or NaiveBayes."
            )

    def _fold(self, rows: Any, plan: Any, classes: Labels, t: npt.NDArray[np.int32], s: Array | None) -> Folded:
        source = as_source(rows, t, len(classes), s)
        return self._folded_from(source, classes, is_large(rows), self._bad_values(rows))

    def _fold_stream(self, stream: Stream) -> Folded:
        read = read_stream(self, self.design, stream, reset=True, missing=self._columnwise())
        source = learn_basis(self, read.source)
        self._check_width(source.shape.M)
        large = source.n_rows * source.shape.M >= LARGE
        return self._folded_from(source, read.classes, large, lambda: InvalidInputError(OVERFLOW))

    def _folded_from(
        self, source: Any, classes: Labels, large: bool, explain: Callable[[], InvalidInputError]
    ) -> Folded:
        K, D = len(classes), source.shape.M
        engine = engine_of(source, self.threads)
        if self._columnwise():
            features = engine.fold(Features, source, FeaturesParams(K, moments=range(D), large=large))
            if not np.isfinite(features.mean).all():
                raise explain()
            return Folded(classes, features)
        moments = engine.fold(Moments, source, replace(self._moments_params(classes), large=large))
        if not (np.isfinite(moments.mean).all() and np.isfinite(moments.scatter).all()):
            raise explain()
        return Folded(classes, moments)

    def _bad_values(self, rows: Any) -> Callable[[], InvalidInputError]:
        """Return what looks for the value that made a sum infinite."""
        return lambda: infinite_error(rows, self._names()) if self._columnwise() else self._not_finite(rows)

    def _moments_params(self, classes: Labels) -> MomentsParams:
        K = len(classes)
        if isinstance(self.covariance, Mapping):
            return MomentsParams(K, groups=self._groups(classes))
        return MomentsParams(K, "pooled" if self.covariance == "shared" else "full")

    def _groups(self, classes: Labels) -> tuple[int, ...]:
        """Return the group of each class; the numbering depends on the mapping alone, not on the rows."""
        numbers: dict[Any, int] = {}
        for group in self.covariance.values():
            numbers.setdefault(group, len(numbers))
        lost = [label for label in classes.tolist() if label not in self.covariance]
        if lost:
            raise InvalidInputError(
                f"covariance assigns no group to class {lost[0]!r}; it names {', '.join(map(repr, self.covariance))}. "
                "Give every class a group."
            )
        return tuple(numbers[self.covariance[label]] for label in classes.tolist())

    def _not_finite(self, rows: Any) -> InvalidInputError:
        if not has_missing(rows, self._names):
            return InvalidInputError(OVERFLOW)
        found = str(nonfinite_error(rows, getattr(self, "feature_names_in_", None))).split(" Drop those")[0]
        return InvalidInputError(
            f"{found} A full covariance needs complete rows: drop or fill those that are not, or use "
            "covariance='diagonal' or NaiveBayes, which fit what there is. (At prediction missing values are fine.)"
        )

    def _join(self, a: Folded, b: Folded) -> Folded:
        classes, i, j = union_of_classes(a.classes, b.classes)
        K = len(classes)
        if self._columnwise():
            return Folded(classes, on_classes(a.statistic, i, K).merge(on_classes(b.statistic, j, K)))
        params = self._moments_params(classes)
        parts = []
        for folded, where in ((a, i), (b, j)):
            m = folded.statistic
            scatter = place(m.scatter, where, K) if params.scatter == "full" and params.groups is None else m.scatter
            scatter = place(scatter, np.arange(len(scatter)), params.G)
            parts.append(Moments(place(m.weight, where, K), place(m.mean, where, K), scatter, params.group))
        return Folded(classes, parts[0].merge(parts[1]))

    def _estimate(self, folded: Folded) -> GaussianDensities:
        names = Names(self._names(), folded.classes)
        if self._columnwise():
            return self._estimate_columns(folded.statistic, names)
        moments = folded.statistic
        total = np.bincount(moments.group, weights=moments.weight, minlength=len(moments.scatter))
        S = moments.scatter / np.where(total > 0, total, 1.0)[:, None, None]
        shares = np.zeros(len(S))
        for g in np.unique(moments.group):
            S[g], shares[g] = shrink(S[g], self.shrinkage, total[g])
        kept = check_full(S, shares, moments, names, set_aside=self.covariance == "shared")
        return GaussianDensities(moments.mean, S, moments.group, kept, shares)

    def _estimate_columns(self, stat: Features, names: Names) -> GaussianDensities:
        structure = STRUCTURES[self.covariance]
        K, D = stat.mean.shape
        check_observed(stat.observed, names)
        group = np.zeros(K, dtype=np.intp) if structure.shared else np.arange(K)
        observed, scatter = stat.observed, stat.scatter
        if structure.shared:
            observed, scatter = observed.sum(axis=0, keepdims=True), scatter.sum(axis=0, keepdims=True)
        if structure.form == "spherical":
            # Shrinking a multiple of the unit matrix towards one changes nothing.
            variance, shares = scatter.sum(axis=1) / observed.sum(axis=1), np.zeros(len(observed))
            check_variances(np.repeat(variance[:, None], D, axis=1), stat, names)
        else:
            pairs = [
                shrink(v, self.shrinkage, float(n.mean())) for v, n in zip(scatter / observed, observed, strict=True)
            ]
            variance, shares = np.stack([v for v, _ in pairs]), np.array([share for _, share in pairs])
            check_variances(variance, stat, names)
        return GaussianDensities(stat.mean, variance, group, np.ones(D, dtype=bool), shares)

    def _warn(self) -> None:
        out = np.flatnonzero(~self._solved().densities.kept)
        if not len(out):
            return
        names, K, D = Names(self._names(), self.classes_), len(self.classes_), len(self._names())
        rows = float(self._weights(self._folded).sum())
        why = "they do not vary inside any class"
        if rows - K < D:
            why = f"{rows:g} rows of {K} classes are too few for a covariance of {D} columns"
        what = f"Column {names.list(out)} was" if len(out) == 1 else f"Columns {names.list(out)} were"
        warnings.warn(
            f"{what} set aside, since {why}. Use shrinkage='oas' (or a number such as 0.1), or covariance='diagonal', "
            "to have all columns.",
            CollinearityWarning,
            stacklevel=4,
        )

    # --------------------------------------------------------------------------------------- predicting

    def _rows(self, X: Any, *, deciding: bool = False) -> Any:
        self._check_fitted()
        if has_basis(self):
            return Classifier._rows(self, X)
        rows = read_rows(self, X, reset=False)
        missing = has_missing(rows, self._names)
        if missing and deciding and self.missing == "auto" and not self._columnwise():
            found = str(nonfinite_error(rows, getattr(self, "feature_names_in_", None))).split(" Drop those")[0]
            raise InvalidInputError(
                f"{found} predict() decides on complete rows. Take the probabilities given the other columns from "
                "predict_proba(X), fill the values, or construct the model with missing='marginalise' to decide by "
                "those probabilities."
            )
        return rows

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (two classes), or the functions ``a_k(x)`` of ``quadratic_``, N × K.

        >>> model = GaussianClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.decision_function([[1.5], [2.5]]).round(6).tolist()
        [0.0, 8.0]
        """
        solution = self._solved()
        if len(solution.prior) == 2:
            return Generative.decision_function(self, X)
        densities, rows = solution.densities, self._rows(X)
        A: Array = by_rows(densities.activations, rows, self.threads) + np.log(solution.prior)
        if not densities.is_linear or (not has_basis(self) and has_missing(rows, self._names)):
            return A + 0.5 * LOG_2PI * len(self._names())
        # The functions of single classes are large where the data is far from zero; what they differ by is not.
        center = densities.centred()[2]
        common = densities.precision_times(center[None])[0]
        A += np.asarray(rows @ common - 0.5 * (common @ center))[:, None]
        return A

    def distance(self, X: Any) -> Array:
        """Return the signed distance of each row from the boundary: length N, or N × pairs (one shared covariance).

        >>> model = GaussianClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.distance([[2.5]]).round(6).tolist()
        [1.0]
        """
        self._linear_only("distance")
        return self._distance(self._rows(X, deciding=True))

    def _linear_only(self, what: str) -> None:
        if not self._solved().densities.is_linear:
            raise AttributeError(
                f"{what} is for hyperplanes, and with covariance={self.covariance!r} the boundaries are quadratic: "
                "see quadratic_."
            )

    # --------------------------------------------------------------------------------------- attributes

    @property
    def means_(self) -> Array:
        """The mean of each class, K × D."""
        means: Array = self._solved().densities.mean
        return means

    @property
    def covariances_(self) -> Array:
        """The covariance of each class: K × D × D, or K × D variances (diagonal), or K (spherical)."""
        densities = self._solved().densities
        covariances: Array = densities.Sigma[densities.group]
        return covariances

    @property
    def shrinkage_(self) -> Array:
        """The share by which the covariance of each class was moved towards a multiple of the unit matrix."""
        densities = self._solved().densities
        shares: Array = densities.shares[densities.group]
        return shares

    @property
    def aliased_(self) -> list[str]:
        """Columns that were set aside."""
        return [str(name) for name in self._names()[~self._solved().densities.kept]]

    @property
    def quadratic_(self) -> QuadraticForm:
        """``(W, w, w0)`` of the functions ``a_k(x) = xᵀ W_k x + w_kᵀ x + w_k0`` whose softmax is the posterior."""
        W = self._solved().densities.quadratic()
        return QuadraticForm(W[1:] - W[:1] if len(W) == 2 else W, *self._linear_parts())

    @property
    def coef_(self) -> Array:
        """The weights of the linear functions, K × D; 1 × D for the log odds of two classes."""
        self._has_linear_part()
        return self._linear_parts()[0]

    @property
    def intercept_(self) -> Array:
        """The constants of the linear functions, K; 1 for the log odds of two classes."""
        self._has_linear_part()
        return self._linear_parts()[1]

    def _linear_parts(self) -> tuple[Array, Array]:
        solution = self._solved()
        if len(self.classes_) == 2:
            w, w0 = solution.densities.linear_odds()
            return w, w0 + np.log(solution.prior[1] / solution.prior[0])
        w, w0 = solution.densities.linear()
        return w, w0 + np.log(solution.prior)

    def _has_linear_part(self) -> None:
        group = self._solved().densities.group
        if len(np.unique(group)) == len(group):
            raise AttributeError(
                f"With covariance={self.covariance!r} no two classes share a covariance, so no log odds are linear. "
                "See quadratic_."
            )

    @property
    def boundary_(self) -> Any:
        """The separating hyperplanes, if all classes share a covariance."""
        self._linear_only("boundary_")
        return super().boundary_

    def _squared_separation(self) -> float | None:
        """Return the squared Mahalanobis distance of the means, if there are two classes of one covariance."""
        densities = self._solved().densities
        if len(self.classes_) != 2 or not densities.is_linear:
            return None
        delta = densities.mean[1:] - densities.mean[:1]
        return float(densities.precision_times(delta)[0] @ delta[0])

    @property
    def log_likelihood_(self) -> float:
        """The log likelihood of rows and labels together at the estimate, a sum over rows."""
        solution, stat = self._solved(), self._folded.statistic
        labels = float(self._weights(self._folded) @ np.log(solution.prior))
        return labels + float(solution.densities.log_likelihood(stat))
