"""Gaussian classes: linear and quadratic discriminant analysis, and intermediate models."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.data_access.dispatch import streams
from oddsmith.data_access.training_stream import Stream, read_stream
from oddsmith.decision.class_prior import PerClass
from oddsmith.densities.class_sums import Folded, on_classes, place
from oddsmith.densities.covariance_checks import (
    Names,
    check_full,
    check_levels,
    check_present,
    check_shrinkage,
    check_variances,
    shrink,
)
from oddsmith.densities.gaussian import LOG_2PI, GaussianDensities, QuadraticForm
from oddsmith.densities.rows import RowMatrix, by_rows, has_missing, infinite_error, overflow_error
from oddsmith.design.fitted_basis import as_source, has_basis, learn_basis, learn_rows, level_columns
from oddsmith.design.input_errors import nonfinite_error
from oddsmith.design.inputs import Codes, feature_names, read_rows
from oddsmith.design.labels import union_of_classes
from oddsmith.engines import MemorySource, engine_of
from oddsmith.engines.base import Source
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.likelihood.messages import column_list
from oddsmith.models.base import MODELS, Classifier
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.generative_mixin import GenerativeMixin, with_posterior
from oddsmith.models.geometry_mixin import GeometryMixin
from oddsmith.models.merge_mixin import LARGEST_SCATTER
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.statistics import Features, FeaturesParams, Moments, MomentsParams

OVERFLOW = "The squares of the values add up to more than a float64 can hold: rescale them."
MANY_LEVELS = 256  # Levels of a factor from which singular covariances are found by counts: they take a second.
STRUCTURES = ("shared", "separate", "diagonal", "spherical", "shared-diagonal", "shared-spherical")


@MODELS.register("gaussian")
class GaussianClassifier(GenerativeMixin, GeometryMixin, Classifier):
    """Classes with Gaussian densities and Bayes' rule: linear or quadratic discriminant analysis.

    Maximises the joint likelihood, a sum over rows,

        Σ_n s_n [log π_{t_n} + log N(x_n | μ_{t_n}, Σ_{t_n})],

    in closed form: π_k = N_k/N, μ_k is the mean of class k, S_k = Σ (x − μ_k)(x − μ_k)ᵀ / N_k its covariance; classes
    that share a covariance have the average Σ (N_k/N) S_k (N and N_k are sums of weights). The posterior is the softmax
    of ``a_k(x) = log π_k + log p(x | C_k)``: linear in x if the covariance is shared, else quadratic.

    Parameters
    ----------
    covariance : str or mapping
        ``"shared"``: one for all classes, with linear boundaries. ``"separate"``: one per class, with quadratic
        boundaries. ``"diagonal"``, ``"spherical"``: one per class, with independent columns, or independent columns of
        equal variance; ``"shared-diagonal"``, ``"shared-spherical"``: the same for all classes. A mapping from class to
        group: the classes of a group share a full covariance, so that boundaries within it are linear.
    class_prior : mapping from class to probability, or sequence in the order of the classes, optional
        Default: the class shares of the rows.
    shrinkage : number from 0 to 1, or "oas"
        Covariances become ``(1 − ρ) S + ρ (tr S / D) I`` with this ρ, or with the optimum for Gaussian data (oracle
        approximating shrinkage). Standardise columns of different units first.
    missing : "auto" or "marginalise"
        Missing values (NaN, null) are integrated out: probabilities are conditional on the observed values of the row.
        ``predict``, which returns only a label, refuses such rows unless this is ``"marginalise"`` or the columns are
        independent.
    basis, threads, design, class_weight
        As in `LogisticRegression`; with a basis, "columns" are its functions.

    Attributes
    ----------
    classes_, class_prior_, means_ : arrays
        The labels, sorted (K), their prior probabilities (K), the class means (K × D).
    covariances_ : array
        The covariance of each class: K × D × D; K × D for diagonal and K for spherical structures.
    coef_, intercept_ : arrays
        The linear function of each class, ``w_k = Σ⁻¹ μ_k``, ``w_k0 = −½ μ_kᵀ Σ⁻¹ μ_k + log π_k`` (K × D and K); for
        two classes, the log odds, ``Σ⁻¹ (μ_1 − μ_0)`` (1 × D and 1). With groups, ``−½ log |Σ_g|`` is added, and
        differences within a group are log odds. Not available if no two classes share a covariance.
    quadratic_ : QuadraticForm
        ``(W, w, w0)`` with ``a_k(x) = xᵀ W_k x + w_kᵀ x + w_k0``; for two classes, of the log odds. W is 0 if all
        classes share a covariance.
    boundary_ : Boundary
        The separating hyperplanes, if all classes share a covariance.
    shrinkage_, aliased_ : array, list of str
        The shrinkage ρ of each class's covariance; columns that were left out (see below).
    log_likelihood_, n_parameters_ : float, int
        Log likelihood of rows and labels together; number of parameters, D(D+1)/2 + KD + K − 1 if one covariance is
        shared.

    Notes
    -----
    Cost: one pass over the data, D² numbers for each covariance, and O(D³) to solve. Rows with missing values can be
    fitted only if columns are independent (``"diagonal"``, ``"spherical"``).

    Without ``shrinkage``, a singular covariance is an error that names the columns. With ``"shared"``, two cases that
    no choice of columns repairs give a warning instead: fewer rows than columns, and columns that are constant within
    every class, which are left out for all classes.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.2. Y. Chen et al., Shrinkage algorithms for
    MMSE covariance estimation, IEEE Transactions on Signal Processing 58, 2010.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianClassifier("shared").fit(X, y)
    >>> model.score(X, y), model.n_parameters_
    (0.98, 24)
    >>> GaussianClassifier({0: "small", 1: "large", 2: "large"}).fit(X, y).n_parameters_
    34
    """

    @checked_names
    def __init__(
        self,
        covariance: str | Mapping[Any, Any] = "shared",
        class_prior: PerClass | None = None,
        shrinkage: float | str = 0.0,
        *,
        missing: str = "auto",
        basis: object = None,
        threads: int | None = None,
        design: object = None,
        class_weight: object = None,
    ) -> None:
        self.covariance, self.class_prior, self.shrinkage = covariance, class_prior, shrinkage
        self.missing, self.basis, self.threads, self.design = missing, basis, threads, design
        self.class_weight = class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._columnwise()
        return tags

    def _columnwise(self) -> bool:
        """Whether columns are independent, so that missing values can be fitted."""
        return isinstance(self.covariance, str) and self.covariance.endswith(("diagonal", "spherical"))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.covariance, Mapping | str):
            raise InvalidTypeError(
                f"covariance must be one of {', '.join(map(repr, STRUCTURES))} or a mapping from class to group, "
                f"found {self.covariance!r}."
            )
        if isinstance(self.covariance, str) and self.covariance not in STRUCTURES:
            raise UnknownNameError("covariance", self.covariance, STRUCTURES)
        check_shrinkage(self.shrinkage)
        if self.missing not in ("auto", "marginalise"):
            raise UnknownNameError("way with missing values", self.missing, ["auto", "marginalise"])

    def _read(self, X: object, sample_weight: object, *, reset: bool) -> tuple[RowMatrix, None]:
        rows = learn_rows(self, read_rows(self, X, reset=reset), sample_weight, reset=reset)
        self._check_width(rows.shape[1])
        return rows, None

    def _check_width(self, D: int) -> None:
        if D > LARGEST_SCATTER and not self._columnwise():
            raise InvalidInputError(
                f"A covariance of {D} columns is too large; the limit is {LARGEST_SCATTER}. Use covariance='diagonal', "
                "or NaiveBayes."
            )

    def _check_rows(self, rows: RowMatrix, classes: Labels, t: Codes, s: Array | None) -> None:
        """Refuse a singular covariance of many levels by counts, before it is formed."""
        X: Any = rows
        if self._columnwise() or self.shrinkage != 0 or not sparse.issparse(X) or not np.isfinite(X.data).all():
            return
        columns = max(level_columns(self).values(), key=len, default=[])
        if len(columns) < MANY_LEVELS:
            return
        source = MemorySource(X, t, len(classes), s)
        found = Moments.of(source.block(0, source.n_rows), MomentsParams(len(classes), "diagonal"))
        moments, levels = replace(found, group=self._moments_params(classes).group), (columns[0], columns[-1] + 1)
        check_levels(source, moments, levels, Names(self._names(), classes), set_aside=self.covariance == "shared")

    def _fold(self, rows: RowMatrix, plan: None, classes: Labels, t: Codes, s: Array | None) -> Folded:
        source = as_source(rows, t, len(classes), s)
        return self._fold_source(source, classes, lambda: self._bad_value(rows))

    def _fold_stream(self, stream: Stream) -> Folded:
        read = read_stream(self, self.design, stream, reset=True, missing=self._columnwise())
        source = learn_basis(self, read.source)
        self._check_width(source.shape.M)
        return self._fold_source(source, read.classes, lambda: InvalidInputError(OVERFLOW))

    def _fold_source(self, source: Source, classes: Labels, explain: Callable[[], InvalidInputError]) -> Folded:
        K, D, engine = len(classes), source.shape.M, engine_of(source, self.threads)
        if self._columnwise():
            statistic: Any = Features
            params: Any = FeaturesParams(K=K, moments=range(D))
        else:
            statistic, params = Moments, self._moments_params(classes)
        with np.errstate(over="ignore", invalid="ignore"):
            stat = engine.fold(statistic, source, params)
        if not (np.isfinite(stat.mean).all() and np.isfinite(stat.scatter).all()):
            raise explain()
        return Folded(classes, stat)

    def _moments_params(self, classes: Labels) -> MomentsParams:
        """Return how scatter is summed; group numbers depend on the mapping alone, not on the rows."""
        K, labels, group = len(classes), classes.tolist(), self.covariance
        if isinstance(group, str):
            return MomentsParams(K, "pooled" if group == "shared" else "full")
        ungrouped = [label for label in labels if label not in group]
        if ungrouped:
            raise InvalidInputError(
                f"covariance assigns no group to class {ungrouped[0]!r}; it names {', '.join(map(repr, group))}. "
                "Give every class a group."
            )
        numbers = {name: number for number, name in enumerate(dict.fromkeys(group.values()))}
        return MomentsParams(K, groups=tuple(numbers[group[label]] for label in labels))

    def _bad_value(self, rows: RowMatrix) -> InvalidInputError:
        """Return the error that names the value that made a sum infinite."""
        if self._columnwise():
            return infinite_error(rows, self._names())
        if not has_missing(rows, self._names):
            return overflow_error(rows, self._names())
        return InvalidInputError(
            f"{self._missing_value(rows)} A full covariance needs complete rows: drop or fill those that are not, or "
            "use covariance='diagonal' or NaiveBayes, which use the values that are present. (At prediction missing "
            "values are fine.)"
        )

    def _missing_value(self, rows: RowMatrix) -> str:
        """Return a sentence that names the first missing value."""
        return str(nonfinite_error(rows, feature_names(self))).split(" Drop those")[0]

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
        return GaussianDensities(mean=moments.mean, Sigma=S, group=moments.group, kept=kept, shares=shares)

    def _estimate_columns(self, stat: Features, names: Names) -> GaussianDensities:
        (K, D), structure = stat.mean.shape, str(self.covariance)
        check_present(stat.observed, names)
        group, observed, scatter = np.arange(K), stat.observed, stat.scatter
        if structure.startswith("shared"):
            group = np.zeros(K, dtype=np.intp)
            observed, scatter = observed.sum(axis=0, keepdims=True), scatter.sum(axis=0, keepdims=True)
        if structure.endswith("spherical"):
            # Shrinking a multiple of the unit matrix towards one changes nothing.
            variance, shares = scatter.sum(axis=1) / observed.sum(axis=1), np.zeros(len(observed))
            check_variances(np.repeat(variance[:, None], D, axis=1), stat, names)
        else:
            shrunk = [shrink(v, self.shrinkage, n.mean()) for v, n in zip(scatter / observed, observed, strict=True)]
            variance, shares = np.stack([v for v, _ in shrunk]), np.array([share for _, share in shrunk])
            check_variances(variance, stat, names)
        kept = np.ones(D, dtype=bool)
        return GaussianDensities(mean=stat.mean, Sigma=variance, group=group, kept=kept, shares=shares)

    def _warn(self) -> None:
        if not self.aliased_:
            return
        K, D, rows = len(self.classes_), len(self._names()), self._fitted_sums().statistic.weight.sum()
        why = "they do not vary inside any class"
        if rows - K < D:
            why = f"{rows:g} rows of {K} classes are too few for a covariance of {D} columns"
        warnings.warn(
            f"{column_list(self.aliased_)} {'was' if len(self.aliased_) == 1 else 'were'} set aside, since {why}. Use "
            "shrinkage='oas' (or a number such as 0.1), or covariance='diagonal', to keep all columns.",
            CollinearityWarning,
            stacklevel=4,
        )

    def _rows(self, X: object, *, deciding: bool = False) -> Any:
        self._check_fitted()
        if has_basis(self):
            return super()._rows(X)
        rows = read_rows(self, X, reset=False)
        missing = has_missing(rows, self._names)
        if missing and deciding and self.missing == "auto" and not self._columnwise():
            raise InvalidInputError(
                f"{self._missing_value(rows)} predict() decides on complete rows. Take the probabilities given the "
                "other columns from predict_proba(X), fill the values, or construct the model with "
                "missing='marginalise' to decide by those probabilities."
            )
        return rows

    @streams
    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (two classes), or the functions ``a_k(x)`` of ``quadratic_``, N × K.

        >>> model = GaussianClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
        >>> model.decision_function([[1.5], [2.5]]).round(6).tolist()
        [0.0, 8.0]
        """
        solution = self._solved()
        if len(solution.prior) == 2:
            return GenerativeMixin.decision_function(self, X)
        densities, rows = self._densities, self._rows(X)
        A = by_rows(densities.activations, rows, self.threads) + np.log(solution.prior)
        if not densities.is_linear or (not has_basis(self) and has_missing(rows, self._names)):
            return with_posterior(A + 0.5 * LOG_2PI * len(self._names()))
        # The functions of single classes are large where the data is far from zero; what they differ by is not.
        center = densities.centred()[2]
        common = densities.precision_times(center[None])[0]
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(A + np.asarray(rows @ common - 0.5 * (common @ center))[:, None])
        return with_posterior(values)

    def _hyperplanes(self) -> tuple[Array, Array, list[Any]]:
        if not self._densities.is_linear:
            raise AttributeError(
                f"boundary_ and distance need hyperplanes, but with covariance={self.covariance!r} boundaries are "
                "quadratic: see quadratic_."
            )
        return super()._hyperplanes()

    @property
    def _densities(self) -> GaussianDensities:
        densities: GaussianDensities = self._solved().densities
        return densities

    @property
    def means_(self) -> Array:
        """The mean of each class, K × D."""
        return self._densities.mean

    @property
    def covariances_(self) -> Array:
        """The covariance of each class: K × D × D, or K × D variances (diagonal), or K (spherical)."""
        return self._densities.Sigma[self._densities.group]

    @property
    def shrinkage_(self) -> Array:
        """The shrinkage of each class's covariance towards a multiple of the unit matrix."""
        return self._densities.shares[self._densities.group]

    @property
    def aliased_(self) -> list[str]:
        """Columns that were left out."""
        return [str(name) for name in self._names()[~self._densities.kept]]

    def _quadratic_form(self) -> QuadraticForm:
        W = self._densities.quadratic()
        return QuadraticForm(W[1:] - W[:1] if len(W) == 2 else W, *self._linear_parts())

    def _linear_parts(self) -> tuple[Array, Array]:
        prior = self.class_prior_
        if len(prior) == 2:
            w, w0 = self._densities.linear_odds()
            return w, w0 + np.log(prior[1] / prior[0])
        w, w0 = self._densities.linear()
        return w, w0 + np.log(prior)

    def _check_linear(self) -> None:
        group = self._densities.group
        if len(np.unique(group)) == len(group):
            raise AttributeError(
                f"With covariance={self.covariance!r} no two classes share a covariance, so no log odds are linear. "
                "See quadratic_."
            )

    def _squared_separation(self) -> float | None:
        """Return the squared Mahalanobis distance of the means of two classes with one covariance."""
        densities = self._densities
        if len(self.classes_) != 2 or not densities.is_linear:
            return None
        delta = densities.mean[1:] - densities.mean[:1]
        return float(densities.precision_times(delta)[0] @ delta[0])

    @property
    def log_likelihood_(self) -> float:
        """The log likelihood of rows and labels together at the estimate, a sum over rows."""
        stat = self._fitted_sums().statistic
        return float(stat.weight @ np.log(self.class_prior_)) + self._densities.log_likelihood(stat)
