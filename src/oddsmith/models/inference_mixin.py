"""Inference for models that are fitted by likelihood: summary, tests, marginal effects, diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from oddsmith.design.fitted_basis import in_deviations
from oddsmith.design.inputs import as_table
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, UnavailableError
from oddsmith.likelihood.fit import eliminated_columns, with_hessian
from oddsmith.likelihood.fitted_state import FittedState, TrainingDataRef, missing_rows_message
from oddsmith.links import LINKS, Link
from oddsmith.models.estimator import Estimator
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.records import Certificate
from oddsmith.solvers.policy import POLICY

if TYPE_CHECKING:  # a fit needs none of these: each method imports what it calls
    from oddsmith.inference.covariance import CovarianceKind
    from oddsmith.inference.fit_record import FitRecord
    from oddsmith.inference.hypotheses import ChiSquareTest, DropOne
    from oddsmith.inference.margins import MarginalEffects
    from oddsmith.inference.residuals import Diagnostics
    from oddsmith.inference.summary import Summary
    from oddsmith.likelihood.problem import Problem
    from oddsmith.likelihood.separation import Separation


class InferenceMixin(Estimator):
    """A mixin for models fitted by likelihood: every method builds the record of the fit and passes it on."""

    prior: Any
    prior_: Any
    link_: str
    log_likelihood_: float
    certificate_: Certificate
    _learned: FittedState | None = None
    _recall: TrainingDataRef | None = None
    _separation: Separation | None = None
    _problem: Callable[..., tuple[Labels, Problem]]
    _against_first: Callable[[], tuple[Array, Array]]

    def _link(self) -> Link | None:
        """Return the link of the fit; None for the logit and softmax."""
        return None if self.link_ == "logit" else LINKS[self.link_]

    def _fit_record(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: object = None,
        offset: object = None,
        *,
        hessian: bool = True,
        bordered: bool = False,
    ) -> FitRecord:
        """Return the record of the fit for inference; the rows are the training rows, or None.

        With ``bordered``, a Hessian from which the largest factor is eliminated is enough.
        """
        from oddsmith.inference.fit_record import FitRecord

        given = (X, y, sample_weight, offset)
        state = self._fitted_state(given, hessian=hessian, bordered=bordered)
        assigned = vars(self)
        return FitRecord(
            model_name=type(self).__name__,
            state=state,
            names=tuple(str(name) for name in self._names()),
            named="feature_names_in_" in assigned,
            classes=self.classes_.tolist(),
            link=self._link(),
            prior=self.prior,
            fitted_prior=self.prior_,
            log_likelihood=self.log_likelihood_,
            separation=self._separation,
            certificate=self.certificate_,
            plan=str(assigned.get("plan_", "")),  # files of earlier versions have none
            design=assigned.get("design_"),
            basis=self.basis,
            standardized=in_deviations(self),
            read_problem=partial(self._training_problem, given),
        )

    def _training_data(self, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of the fit, as given or if the caller still holds them, else None."""
        if given[0] is None and self._recall is not None:
            return self._recall()
        return None if given[0] is None else given

    def _fitted_state(self, given: tuple[Any, ...], *, hessian: bool, bordered: bool = False) -> FittedState:
        """Return the state of the fit with its Hessian; forming it takes one pass over the rows."""
        self._check_fitted()
        if self._learned is None:
            raise UnavailableError(
                "This needs an optimum, but partial_fit leaves the weights only near one. Use fit(X, y)."
            )
        if hessian:
            self._learned.require_curvature()
        if self._learned.hessian is not None or not hessian or (bordered and self._learned.bordered is not None):
            return self._learned
        self._learned.require_optimum()
        data = self._training_data(given)
        if data is None:
            raise UnavailableError(missing_rows_message(self._learned))
        if not bordered:
            self._learned.require_memory(POLICY.largest_summary)
        _, problem = self._problem(*data)
        with one_blas_thread():
            self._learned = with_hessian(problem, *self._against_first(), self._learned, self.certificate_.gap)
        if self._learned.hessian is None and not bordered:
            raise UnavailableError(missing_rows_message(self._learned))
        return self._learned

    def _training_problem(self, given: tuple[Any, ...]) -> Problem:
        """Rebuild the problem of the fit, from given rows or from rows that the caller still holds."""
        assert self._learned is not None
        self._learned.require_optimum()
        data = self._training_data(given)
        if data is None:
            raise InvalidInputError(
                "This needs the training rows, which are no longer in memory: pass X and y (and the weights and "
                "offsets of the fit)."
            )
        classes, problem = self._problem(*data)
        if classes.tolist() != self.classes_.tolist():
            raise InvalidInputError(
                f"The model was fitted to the classes {self.classes_.tolist()[:8]}, but these rows have "
                f"{classes.tolist()[:8]}. Pass the training rows."
            )
        return problem

    def summary(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: object = None,
        offset: object = None,
        level: float = 0.95,
        covariance: object = "information",
        intervals: str = "wald",
    ) -> Summary:
        """Return estimates, standard errors, tests and intervals, with the likelihood of the model.

        The training rows are needed only for a ``covariance`` other than ``"information"`` and for
        ``intervals="profile"``. While they are still in memory, you need not pass them again.

        Parameters
        ----------
        X, y, sample_weight, offset
            The arguments of the fit.
        level : float
            Level of the intervals.
        covariance : str or tuple
            ``"information"`` inverts the expected information, as ``summary(glm)`` does in R; ``"observed"`` the
            observed information (the same for the logit). ``"sandwich"`` is robust (HC0); ``("sandwich", "HC1")``
            multiplies it by n / (n − k), ``"HC2"`` and ``"HC3"`` correct by leverages. ``("cluster", ids)`` is robust
            to dependence within clusters and includes the factor G / (G − 1); ``ids`` is the cluster of each row or the
            name of a column of ``X``. A third entry ``"CR0"`` drops the factor, ``"CR1S"`` multiplies it by (n − 1) /
            (n − k). Weights count rows: n is their sum.
        intervals : "wald", "profile" or "confint"
            ``"wald"``: estimate ± z · standard error. ``"profile"``: the values that the likelihood-ratio test does not
            reject; an end may be ±∞. ``"confint"``: the same interpolated from a grid to about four digits, as
            ``confint(glm)`` prints it in R.

        If standard errors are unavailable (more than 5,000 weights, or a large fit whose rows are gone), the table has
        estimates only, the largest first, with a note that says why.

        Cost: O(C³M³); one pass for robust standard errors, about six for each profile interval.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> summary = LogisticRegression().fit(X, y).summary()
        >>> summary.estimate.round(4).tolist(), summary.std_error.round(4).tolist()
        ([-3.0351, 1.214], [2.5457, 0.9126])
        """
        from oddsmith.inference.fit_summary import check_intervals, list_estimates, summarize, summarize_levels
        from oddsmith.inference.summary import check_level

        level, intervals = check_level(level), check_intervals(intervals)
        kind, X = self._covariance(covariance, X, (y, sample_weight, offset))
        rows = (X, y, sample_weight, offset)
        plain = not kind.needs_rows and intervals == "wald"
        if plain and self._eliminates(rows):
            return summarize_levels(self._fit_record(*rows, bordered=True), level)
        reason = self._why_no_errors(rows) if plain else ""
        if reason:
            return list_estimates(self._fit_record(*rows, hessian=False), reason, level)
        return summarize(self._fit_record(*rows), kind, intervals, level)

    def _covariance(self, covariance: object, X: Any, others: tuple[object, ...]) -> tuple[CovarianceKind, Any]:
        """Parse the requested covariance; clusters may be a column of the table that the fit did not use.

        Also returns the rows as the fit had them: the model's columns, and ``others`` by name.
        """
        from oddsmith.inference.covariance import name_clusters, names_clusters, read_covariance

        if not names_clusters(covariance):
            return read_covariance(covariance), X
        recalled = self._recall() if X is None and self._recall is not None else None
        kind = read_covariance(name_clusters(covariance, X if recalled is None else recalled[0]))
        table = None if X is None else as_table(X)
        known = vars(self).get("feature_names_in_")
        if table is not None and known is not None and "design_" not in vars(self):  # a design looks for its columns
            kept = {*known.tolist(), *(name for name in others if isinstance(name, str))}
            X = table.select([name for name in table.columns if name in kept]).to_native()
        return kind, X

    def _eliminates(self, given: tuple[Any, ...]) -> bool:
        """Whether there are so many weights that the covariance comes from the Hessian with a factor eliminated."""
        self._check_fitted()
        state = self._learned
        if state is None or state.hessian is not None or state.x.size <= POLICY.largest_hessian:
            return False
        if state.bordered is not None or state.moved or state.K > 2:
            return state.bordered is not None
        data = self._training_data(given)
        return data is not None and eliminated_columns(self._problem(*data)[1]) is not None

    def _why_no_errors(self, given: tuple[Any, ...]) -> str:
        """Return the reason why a summary of this fit has no Hessian, or an empty string."""
        self._check_fitted()
        state, most = self._learned, POLICY.largest_summary
        if state is None or state.hessian is not None:
            return ""
        if state.sparse:
            return "LaplacePrior: no standard errors, since its density has no second derivative at zero; see refit"
        if state.x.size > most:
            return f"no standard errors: there are {state.x.size:,} weights, and the limit is {most:,}"
        if self._training_data(given) is None:
            return "no standard errors: the fit needed no Hessian, and its rows are not in memory; pass them as X and y"
        return ""

    def test_linear(
        self,
        R: object,
        r: object = None,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: object = None,
        offset: object = None,
        covariance: object = "information",
    ) -> ChiSquareTest:
        """Test the linear hypotheses ``R w = r`` by Wald's statistic, ``(Rw − r)ᵀ (R S Rᵀ)⁻¹ (Rw − r)``.

        ``R`` is a matrix with a column for each row of ``summary()``; a mapping ``{term: factor}`` (``(class, term)``
        for more than two classes) or a list of mappings; or text, such as ``"age = 0, smoke = ht"`` or
        ``"age[a] = age[b]"``, which may name the (zero) weights of a reference class. The training rows are needed for
        robust covariances only. After a fit with a Gaussian prior, S is the posterior covariance.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> test = LogisticRegression().fit(X, y).test_linear("x0 = 0")
        >>> test.df, round(test.statistic, 4), round(test.p_value, 4)
        (1, 1.7697, 0.1834)
        """
        from oddsmith.inference.hypotheses import linear_test

        kind, X = self._covariance(covariance, X, (y, sample_weight, offset))
        return linear_test(self._fit_record(X, y, sample_weight, offset), R, r, kind)

    def drop_one(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: object = None,
        offset: object = None,
        groups: object = None,
        test: str = "likelihood-ratio",
    ) -> DropOne:
        """Test the model without each of its columns, or each of the ``groups`` of columns ``{name: [columns]}``.

        All columns of a category are dropped together, and a term of a formula stays while an interaction contains it.
        Aliased columns stay out; in R they replace the dropped column (Df 0).

        ``test`` is ``"likelihood-ratio"`` (as ``drop1(test = "Chisq")`` in R; penalised after a fit with
        ``JeffreysPrior()``), ``"score"`` (Rao) or ``"wald"``. Pass the training rows. Cost: a warm-started fit of two
        to five passes for each term (Wald: none).

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> LogisticRegression().fit(X, y).drop_one(X, y).statistic.round(4).tolist()
        [nan, 3.3618]
        """
        from oddsmith.inference.hypotheses import drop_one

        return drop_one(self._fit_record(X, y, sample_weight, offset), groups, test)

    def marginal_effects(
        self,
        X: Any,
        *,
        at: object = "average",
        discrete: object = "auto",
        sample_weight: object = None,
        offset: object = None,
        level: float = 0.95,
        covariance: object = "observed",
    ) -> MarginalEffects:
        """Return the effect of each column on the probability of a class (the second of two).

        The effect of a numeric column is the slope ``∂y_k/∂x_j``; of a 0/1 column, the difference between the two
        values; of a level of a category, the difference from the reference level. ``discrete=False`` takes slopes
        everywhere; a list names the discrete columns. ``at`` selects where: ``"average"`` over the rows, at the
        ``"mean"`` or ``"median"`` of the columns, at ``"zero"``, or ``{column: value}`` with the others at their mean.
        Standard errors use the delta method and the observed information, as in statsmodels' ``get_margeff``. Cost: one
        pass (K for K > 2 classes), and less memory than the covariance of the weights.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> LogisticRegression().fit(X, y).marginal_effects(X).effect.round(4).tolist()
        [0.1586]
        """
        from oddsmith.inference.covariance import read_covariance
        from oddsmith.inference.margins import marginal_effects
        from oddsmith.inference.summary import check_level

        level, kind = check_level(level), read_covariance(covariance)
        if kind.needs_rows:
            raise InvalidInputError("Marginal effects take covariance='observed' or 'information'.")
        fit, how = self._fit_record(), {"at": at, "discrete": discrete}
        return marginal_effects(
            fit, self._rows(X), kind=kind, sample_weight=sample_weight, offset=offset, level=level, **how
        )

    def diagnostics(
        self, X: Any = None, y: Any = None, *, sample_weight: object = None, offset: object = None
    ) -> Diagnostics:
        """Return residuals, leverage and Cook's distance of each row of the fit.

        Equal to R's ``residuals``, ``rstandard``, ``hatvalues`` and ``cooks.distance`` for two classes. Cost: one pass.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> found = LogisticRegression().fit(X, y).diagnostics(X, y)
        >>> found.leverage.round(4).tolist(), round(float(found.leverage.sum()), 6)
        ([0.2836, 0.3776, 0.3388, 0.3388, 0.3776, 0.2836], 2.0)
        """
        from oddsmith.inference.residuals import diagnostics

        return diagnostics(self._fit_record(X, y, sample_weight, offset))
