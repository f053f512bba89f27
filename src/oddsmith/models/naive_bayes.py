"""Naive Bayes on columns of any type."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from oddsmith.data_access.shards import fit_shards
from oddsmith.data_access.training_stream import Stream, learn_stream_class_weight
from oddsmith.densities import mixed_columns
from oddsmith.densities.class_sums import Folded, on_classes
from oddsmith.densities.families import CategoricalColumns
from oddsmith.densities.gaussian import QuadraticForm
from oddsmith.densities.mixed_columns import ColumnPlan, NaiveDensities, check_domain, encode
from oddsmith.densities.rows import RowMatrix, has_missing, infinite_error
from oddsmith.design.columns import Columns, read_columns
from oddsmith.design.fitted_basis import as_source, has_basis, learn_rows
from oddsmith.design.inputs import Codes, read_rows
from oddsmith.design.labels import union_of_classes
from oddsmith.engines import MemoryEngine
from oddsmith.errors import InvalidInputError, OddsmithWarning
from oddsmith.models.base import MODELS, Classifier
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.generative_mixin import GenerativeMixin
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.statistics import Features


@MODELS.register("naive-bayes")
class NaiveBayes(GenerativeMixin, Classifier):
    """Naive Bayes: columns are independent within a class, and each has its own family of distributions.

    Maximises the joint likelihood, a sum over rows and columns,

        Σ_n s_n [log π_{t_n} + Σ_j log p_j(x_nj | C_{t_n})],

    in closed form, with smoothed counts. The log odds of two classes are a sum over columns,
    ``log p(C_1|x)/p(C_0|x) = log π_1/π_0 + Σ_j log p_j(x_j|C_1)/p_j(x_j|C_0)``.

    ============  =========================  ===================================================================
    family        values                     estimate in class k (N: total weight of rows with a value)
    ============  =========================  ===================================================================
    gaussian      numbers                    mean; variance + ``variance_smoothing`` × largest column variance
    bernoulli     0 and 1, booleans          p = (Σx + α) / (N + 2α)
    categorical   anything with L levels     p_l = (N_l + α) / (N + αL)
    poisson       counts                     rate = (Σx + αm) / (N + α), m the mean of the column, kept off zero
    multinomial   counts, all such columns   share_j = (Σx_j + α) / Σ_i (Σx_i + α), given the total of the row
    ============  =========================  ===================================================================

    With α = ``smoothing`` = 1 and ``variance_smoothing`` = 1e-9 the first three and the last are scikit-learn's
    GaussianNB, BernoulliNB, CategoricalNB and MultinomialNB with their defaults.

    Parameters
    ----------
    features : "auto", family, list of families, or mapping from column (name or number) to family
        ``"auto"``, also used for columns missing from a mapping, chooses by type: booleans are ``"bernoulli"``, text
        and categories ``"categorical"``, floats ``"gaussian"``. Whole numbers are ``"bernoulli"`` if all are 0 or 1,
        ``"poisson"`` if none is negative and the within-class variance is between half and twice the mean, as for
        counts, and otherwise ``"gaussian"``. In an array of floats, all columns are ``"gaussian"``.
    class_prior : mapping from class to probability, or sequence in the order of the classes, optional
        Default: the class shares of the rows.
    smoothing : number of at least 0
        α, added to every count; 0 is maximum likelihood.
    variance_smoothing : number of at least 0
        Fraction of the largest Gaussian column variance, added to all variances.
    basis, threads, class_weight
        As in `LogisticRegression`; with a basis, "columns" are its functions.

    Attributes
    ----------
    classes_, class_prior_ : arrays
        The labels, sorted, and their prior probabilities.
    features_ : dict
        Column → family.
    levels_ : dict
        Categorical column → its levels.
    parameters_ : dict
        Column → estimated parameters by name: arrays of length K, or K × L.
    coef_, intercept_ : arrays
        The linear functions whose softmax is the posterior (for two classes the log odds, 1 × D), if all columns are
        bernoulli, poisson or multinomial.
    quadratic_ : QuadraticForm
        The same if some columns are Gaussian: ``xᵀ W_k x + w_kᵀ x + w_k0`` with diagonal W_k.
    n_parameters_ : int
        Number of parameters.

    Notes
    -----
    Cost: one pass over the data, and a few numbers for each class and column. Missing values (NaN, null) are left out
    of the sums and of the product; only the multinomial family needs complete counts. A level that was not in the
    training data counts as missing, with a warning. Sparse matrices stay sparse; their zeros are zeros.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.2.3.

    >>> import polars
    >>> table = polars.DataFrame(
    ...     {
    ...         "colour": ["red", "red", "blue", "blue", "red", "blue"],
    ...         "size": [1.0, 1.5, 3.0, 3.5, None, 2.9],
    ...         "sold": ["yes", "yes", "no", "no", "yes", "no"],
    ...     }
    ... )
    >>> model = NaiveBayes().fit(table, y="sold")
    >>> model.features_
    {'colour': 'categorical', 'size': 'gaussian'}
    >>> model.predict(polars.DataFrame({"colour": [None, "blue"], "size": [1.2, None]})).tolist()
    ['yes', 'no']
    """

    @checked_names
    def __init__(
        self,
        features: str | Sequence[str] | Mapping[Any, str] = "auto",
        class_prior: Mapping[Any, float] | npt.ArrayLike | None = None,
        *,
        smoothing: float = 1.0,
        variance_smoothing: float = 1e-9,
        basis: object = None,
        threads: int | None = None,
        class_weight: object = None,
    ) -> None:
        self.features, self.class_prior = features, class_prior
        self.smoothing, self.variance_smoothing = smoothing, variance_smoothing
        self.basis, self.threads, self.class_weight = basis, threads, class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("smoothing", "variance_smoothing"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and 0.0 <= float(value) < np.inf):
                raise InvalidInputError(f"{name} must be a number of at least 0, found {value!r}.")

    def _read(self, X: object, sample_weight: object, *, reset: bool) -> tuple[RowMatrix, ColumnPlan]:
        columns = self._columns(X, sample_weight, reset=reset)
        if reset:
            plan = mixed_columns.make_column_plan(columns, self.features)
        else:
            plan = mixed_columns.more_rows(self._fitted_sums().plan, columns)
        rows, plan, _ = encode(columns, plan, extend=True)
        return rows, plan

    def _columns(self, X: object, sample_weight: object = None, *, reset: bool) -> Columns:
        """Return the columns of ``X``, or the basis functions of them: floats."""
        if self.basis is None if reset else not has_basis(self):
            self.__dict__.pop("basis_", None)
            return read_columns(self, X, reset=reset)
        rows = learn_rows(self, read_rows(self, X, reset=reset), sample_weight, reset=reset)
        return Columns(tuple(map(str, self._names())), np.full(rows.shape[1], "float"), rows)

    def _fold(self, rows: RowMatrix, plan: ColumnPlan, classes: Labels, t: Codes, s: Array | None) -> Folded:
        K = len(classes)
        params = mixed_columns.params_of(plan, K)
        with np.errstate(over="ignore", invalid="ignore"):
            stat = MemoryEngine(self.threads).fold(Features, as_source(rows, t, K, s), params)
        if not all(np.isfinite(part).all() for part in (stat.mean, stat.scatter, stat.total)):
            raise infinite_error(rows, plan.all_names())
        check_domain(rows, plan, stat.outside)
        return Folded(classes, stat, plan)

    def _fold_stream(self, stream: Stream) -> Folded:
        if self.basis is not None:
            raise InvalidInputError(
                "NaiveBayes takes no basis for data in pieces. Leave it out, or use GaussianClassifier('diagonal')."
            )
        shard: NaiveBayes = fit_shards(self._with_known_weights(stream), stream)
        for name in ("feature_names_in_", "n_features_in_", "basis_", "text_formats_"):
            self.__dict__.pop(name, None)
            if name in vars(shard):
                setattr(self, name, vars(shard)[name])
        return shard._fitted_sums()

    def _with_known_weights(self, stream: Stream) -> NaiveBayes:
        """Return the model to fit to each piece, with class weights that need the counts of all rows resolved."""
        if self.class_weight is None:
            self.__dict__.pop("class_weight_", None)
            return self
        known: NaiveBayes = clone(self).set_params(class_weight=learn_stream_class_weight(self, stream))
        return known

    def _join(self, a: Folded, b: Folded) -> Folded:
        classes, i, j = union_of_classes(a.classes, b.classes)
        plan, K = mixed_columns.join_column_plans(a.plan, b.plan), len(classes)
        one, other = (mixed_columns.recast(part.statistic, part.plan, plan) for part in (a, b))
        return Folded(classes, on_classes(one, i, K).merge(on_classes(other, j, K)), plan)

    def _estimate(self, folded: Folded) -> NaiveDensities:
        return mixed_columns.estimate(folded, float(self.smoothing), float(self.variance_smoothing))

    def _rows(self, X: object, *, deciding: bool = False) -> Any:
        plan = self._densities.plan
        rows, _, unknown = encode(self._columns(X, reset=False), plan, extend=False)
        if not has_basis(self):
            has_missing(rows, plan.all_names)
        for name, values in unknown.items():
            shown = ", ".join(map(repr, values[:5])) + (" …" if len(values) > 5 else "")
            warnings.warn(
                f"Column {name!r} has categories that were not in the training data ({shown}): they count as missing. "
                "Fit (or partial_fit) with rows that have them, or correct them.",
                OddsmithWarning,
                stacklevel=4,
            )
        check_domain(rows, plan)
        return rows

    @property
    def _densities(self) -> NaiveDensities:
        densities: NaiveDensities = self._solved().densities
        return densities

    @property
    def features_(self) -> dict[str, str]:
        """The family of each column."""
        plan = self._densities.plan
        return {plan.name(j): plan.family(j) for j in range(len(plan))}

    @property
    def levels_(self) -> dict[str, list[Any]]:
        """The levels of each categorical column."""
        plan = self._densities.plan
        return {plan.name(j): list(levels) for j, levels in plan.levels.items()}

    @property
    def parameters_(self) -> dict[str, dict[str, Array]]:
        """The estimated parameters of each column, by name."""
        densities = self._densities
        by_column = {int(j): part.parameters(i) for part in densities.parts for i, j in enumerate(part.columns)}
        return {densities.plan.name(j): by_column[j] for j in range(len(densities.plan))}

    def _check_linear(self) -> None:
        curved = [name for name, family in self.features_.items() if family == "gaussian"]
        if curved:
            raise AttributeError(f"The log odds are quadratic in {curved[0]!r}, which is Gaussian: see quadratic_.")

    def _quadratic_form(self) -> QuadraticForm:
        diagonal, w, w0 = self._form()
        return QuadraticForm(diagonal[:, :, None] * np.eye(diagonal.shape[1]), w, w0)

    def _linear_parts(self) -> tuple[Array, Array]:
        return self._form()[1:]

    def _form(self) -> tuple[Array, Array, Array]:
        """Return the diagonals of W, w and w0 of the classes, or of the log odds of two."""
        K, D = len(self.classes_), len(self._names())
        diagonal, w, w0 = np.zeros((K, D)), np.zeros((K, D)), np.log(self.class_prior_)
        for part in self._densities.parts:
            if isinstance(part, CategoricalColumns):
                name = self._densities.plan.name(part.columns[0])
                raise AttributeError(f"The log odds are not a function of numbers, since {name!r} has categories.")
            diagonal[:, part.columns], w[:, part.columns], constant = part.form()
            w0 = w0 + constant
        if not all(np.isfinite(part).all() for part in (diagonal, w, w0)):
            raise AttributeError(
                "Some value has probability zero in a class (smoothing=0), so the log odds are not a finite function "
                "of the columns. Use smoothing > 0."
            )
        if K > 2:
            return diagonal, w, w0
        return diagonal[1:] - diagonal[:1], w[1:] - w[:1], w0[1:] - w0[:1]
