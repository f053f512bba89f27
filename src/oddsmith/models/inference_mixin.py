"""Inference for models that are fitted by likelihood: summary, tests, marginal effects, diagnostics."""

from __future__ import annotations

from typing import Any

from oddsmith.errors import InvalidInputError
from oddsmith.inference.fit_summary import check_intervals, summarize
from oddsmith.inference.hypotheses import ChiSquareTest, DropOne, linear_test
from oddsmith.inference.margins import MarginalEffects, marginal_effects
from oddsmith.inference.nested_models import drop_one
from oddsmith.inference.residuals import Diagnostics, diagnostics
from oddsmith.inference.sandwich import read_covariance
from oddsmith.inference.summary import Summary, check_level
from oddsmith.models.fit_record_mixin import FitRecordMixin


class InferenceMixin(FitRecordMixin):
    """A mixin: what a fit says about its weights. Every method builds the record of the fit and passes it on."""

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

        The rows of the fit are needed only for ``covariance`` other than ``"information"`` and for
        ``intervals="profile"``; while they are still in memory they need not be passed again.

        Parameters
        ----------
        X, y, sample_weight, offset
            Those of the fit.
        level : float
            Of the intervals.
        covariance : str or tuple
            ``"information"``: the inverse of the expected information, as ``summary(glm)`` in R; ``"observed"``: of
            the observed (the same for the logit). ``"sandwich"``: robust, HC0; ``("sandwich", "HC1")`` times
            n / (n − k). ``("cluster", ids)``: robust to dependence inside clusters, times G / (G − 1); with a third
            entry ``"CR0"`` without that factor, with ``"CR1S"`` also times (n − 1) / (n − k). Weights count rows: n is
            their sum.
        intervals : "wald", "profile" or "confint"
            Estimate ± z · error; where the likelihood-ratio test begins to reject, an end may be ±∞; the same
            interpolated from a grid, right to about four digits, as ``confint(glm)`` in R prints it.

        Cost: O(C³M³); one pass for robust errors, about six for each profile interval.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> summary = LogisticRegression().fit(X, y).summary()
        >>> summary.estimate.round(4).tolist(), summary.std_error.round(4).tolist()
        ([-3.0351, 1.214], [2.5457, 0.9126])
        """
        level, kind, intervals = check_level(level), read_covariance(covariance), check_intervals(intervals)
        return summarize(self._fit_record(X, y, sample_weight, offset), kind, intervals, level)

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

        ``R`` is a matrix with a column for each row of ``summary()``, a mapping ``{term: factor}`` (``(class, term)``
        for more than two classes) or a list of such, or a text: ``"age = 0, smoke = ht"``, ``"age[a] = age[b]"``; the
        weights of a reference class, which are zero, may be named there.
        The rows of the fit are needed for robust covariances only. After a fit with a Gaussian prior the
        covariance is that of the posterior.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> test = LogisticRegression().fit(X, y).test_linear("x0 = 0")
        >>> test.df, round(test.statistic, 4), round(test.p_value, 4)
        (1, 1.7697, 0.1834)
        """
        kind = read_covariance(covariance)
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

        The columns of a category go together, and a term of a formula stays as long as an interaction has it. Columns
        that were set aside as aliased stay aside; in R they take the place of the one that is dropped (Df 0).

        ``test`` is ``"likelihood-ratio"`` (as ``drop1(test = "Chisq")`` in R; penalised after a fit with
        ``JeffreysPrior()``), ``"score"`` (Rao) or ``"wald"``. The rows are those of the fit. Cost: a warm-started fit,
        two to five passes, for each term (Wald: none).

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> LogisticRegression().fit(X, y).drop_one(X, y).statistic.round(4).tolist()
        [nan, 3.3618]
        """
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
        """Return how the probability of a class (of the second, of two) changes with each column.

        Of a column the effect is the slope ``∂y_k/∂x_j``; of a column that holds 0 and 1 only, the difference between
        the two, of a level of a category that from the reference (``discrete=False`` takes all as slopes, a list names
        those that are not). ``at`` says where: ``"average"`` over the rows, at the ``"mean"`` or ``"median"`` of the
        columns, at ``"zero"``, or ``{column: value}`` with the others at their mean. Errors by the delta method, from
        the observed information, as in statsmodels' ``get_margeff``. Cost: one pass (K for
        K > 2 classes), memory below the weights' covariance.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> LogisticRegression().fit(X, y).marginal_effects(X).effect.round(4).tolist()
        [0.1586]
        """
        level, kind = check_level(level), read_covariance(covariance)
        if kind.needs_rows:
            raise InvalidInputError("Marginal effects take covariance='observed' or 'information'.")
        fit = self._fit_record()
        return marginal_effects(
            fit,
            self._rows(X),
            kind=kind,
            sample_weight=sample_weight,
            offset=offset,
            at=at,
            discrete=discrete,
            level=level,
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
        return diagnostics(self._fit_record(X, y, sample_weight, offset))
