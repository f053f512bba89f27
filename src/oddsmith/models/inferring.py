"""What a likelihood fit says about its weights: summary, tests, marginal effects, diagnostics."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.hypotheses import ChiSquareTest, DropOne, read_hypotheses, wald_test
from oddsmith.inference.margins import MarginalEffects
from oddsmith.inference.residuals import Diagnostics
from oddsmith.inference.sandwich import CovarianceKind, cluster_scatter, read_covariance, sandwich
from oddsmith.inference.summary import POSTERIOR, Summary, check_level, wald_columns
from oddsmith.kernels.rowwise import At
from oddsmith.models.comparing import drop_one, refuse_separated
from oddsmith.models.examining import diagnostics, marginal_effects
from oddsmith.models.expanding import in_deviations
from oddsmith.models.learned import Learned, Recall
from oddsmith.models.likelihood import Problem
from oddsmith.models.profiling import check_rows, profile_ends
from oddsmith.models.reported import Weights
from oddsmith.numerics import Array, factor_spd
from oddsmith.priors import split_prior
from oddsmith.records import Certificate
from oddsmith.statistics import ScoreScatter

INTERVALS = ("wald", "profile", "confint")


class Inferring:
    """A mixin: inference for a model that is fitted by likelihood and knows its curvature (``_curved``)."""

    prior_: Any
    link_: str
    classes_: npt.NDArray[Any]
    aliased_: list[str]
    n_parameters_: int
    certificate_: Certificate
    _recall: Recall | None
    _learned: Learned | None
    _separation: Any

    def summary(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        level: float = 0.95,
        covariance: Any = "information",
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
        level, kind = check_level(level), read_covariance(covariance)
        if intervals not in INTERVALS:
            raise UnknownNameError("kind of intervals", intervals, INTERVALS)
        learned = self._curved(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        labels = self.classes_.tolist()
        weights = Weights.of(learned, self._names(), labels)  # type: ignore[attr-defined]
        if split_prior(self.prior_)[0] is not None and (kind.needs_rows or intervals != "wald"):
            raise InvalidInputError(
                "Robust errors and profile intervals are about a likelihood, and this model has a Gaussian prior: its "
                "summary() gives the posterior standard deviation and a credible interval. Use prior=None for them."
            )
        needs_rows = kind.needs_rows or intervals != "wald"
        problem = self._again(X, y, sample_weight, offset) if needs_rows else None
        with one_blas_thread():
            V = self._covariance(learned, kind, problem)
            columns = wald_columns(weights.estimate, self._errors(weights, V), level)
            if intervals != "wald":
                assert problem is not None
                errors = columns["std_error"] if intervals == "confint" else None
                columns["lower"], columns["upper"] = profile_ends(self, learned, weights, problem, level, errors)
        for name in columns:
            columns[name] = np.where(weights.aliased, np.nan, columns[name])
        return self._table(learned, weights, columns, self._remarks(kind, intervals, level), level)

    def test_linear(
        self,
        R: Any,
        r: Any = None,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        covariance: Any = "information",
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
        learned = self._curved(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        weights = Weights.of(learned, self._names(), self.classes_.tolist())  # type: ignore[attr-defined]
        refuse_separated(self)
        matrix, side, text = read_hypotheses(R, r, weights.labels, weights.zero)
        about = (matrix != 0.0).any(axis=0)
        if (about & weights.aliased).any():
            first = weights.labels[int(np.argmax(about & weights.aliased))]
            raise InvalidInputError(f"{first!r} was set aside as aliased: nothing can be said about its weight.")
        problem = self._again(X, y, sample_weight, offset) if kind.needs_rows else None
        with one_blas_thread():
            V = self._covariance(learned, kind, problem)
        return wald_test(matrix @ weights.estimate - side, matrix @ weights.J, V, text)

    def drop_one(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
        test: str = "likelihood-ratio",
    ) -> DropOne:
        """Test the model without each of its columns, or each of the ``groups`` of columns ``{name: [columns]}``.

        The columns of a category go together, and a term of a formula stays as long as an interaction has it. Columns
        that were set aside as aliased stay aside; in R they take the place of the one that is dropped (Df 0).

        ``test`` is ``"likelihood-ratio"`` (as ``drop1(test = "Chisq")`` in R; penalised after a fit with
        ``JeffreysPrior()``), ``"score"`` (Rao) or ``"wald"``. The rows are those of the fit. Cost: a warm-started fit,
        two to five passes, for each term (Wald: none).

        >>> from oddsmith import LogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]), [0, 0, 1, 0, 1, 1]
        >>> LogisticRegression().fit(X, y).drop_one(X, y).statistic.round(4).tolist()
        [nan, 3.3618]
        """
        learned = self._curved(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        problem = self._again(X, y, sample_weight, offset)
        with one_blas_thread():
            return drop_one(self, learned, problem, groups, test)

    def marginal_effects(
        self,
        X: Any,
        *,
        at: Any = "average",
        discrete: Any = "auto",
        sample_weight: Any = None,
        offset: Any = None,
        level: float = 0.95,
        covariance: Any = "observed",
    ) -> MarginalEffects:
        """Return how the probability of a class (of the second, of two) changes with each column.

        Of a column the effect is the slope ``∂y_k/∂x_j``; of a column that holds 0 and 1 only, the difference between
        the two, of a level of a category that from the reference (``discrete=False`` takes all as slopes, a list names
        those that are not). ``at`` says where: ``"average"`` over the rows, at the ``"mean"`` or ``"median"`` of the
        columns, at ``"zero"``, or ``{column: value}`` with the others at their mean. Errors by the delta method, from
        the observed information, as in statsmodels' ``get_margeff``. Cost: one pass (K for
        K > 2 classes), memory below the weights' covariance.

        >>> from oddsmith import LogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]), [0, 0, 1, 0, 1, 1]
        >>> LogisticRegression().fit(X, y).marginal_effects(X).effect.round(4).tolist()
        [0.1586]
        """
        level, kind = check_level(level), read_covariance(covariance)
        if kind.needs_rows:
            raise InvalidInputError("Marginal effects take covariance='observed' or 'information'.")
        learned = self._curved()  # type: ignore[attr-defined]
        V = self._covariance(learned, kind, None)
        return marginal_effects(self, learned, V, X, sample_weight, offset, at, discrete, level)

    def diagnostics(
        self, X: Any = None, y: Any = None, *, sample_weight: Any = None, offset: Any = None
    ) -> Diagnostics:
        """Return residuals, leverage and Cook's distance of each row of the fit.

        Equal to R's ``residuals``, ``rstandard``, ``hatvalues`` and ``cooks.distance`` for two classes. Cost: one pass.

        >>> from oddsmith import LogisticRegression
        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]), [0, 0, 1, 0, 1, 1]
        >>> found = LogisticRegression().fit(X, y).diagnostics(X, y)
        >>> found.leverage.round(4).tolist(), round(float(found.leverage.sum()), 6)
        ([0.2836, 0.3776, 0.3388, 0.3388, 0.3776, 0.2836], 2.0)
        """
        learned = self._curved(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        problem = self._again(X, y, sample_weight, offset)
        with one_blas_thread():
            return diagnostics(self, learned, problem)

    def _again(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Problem:
        """Return the problem of the fit again, from rows that are passed or still in memory."""
        self._check_fitted()  # type: ignore[attr-defined]
        if self._learned is not None:
            self._learned.require_optimum()
        arguments = (X, y, sample_weight, offset)
        if X is None and self._recall is not None:
            arguments = self._recall() or arguments
        if arguments[0] is None:
            raise InvalidInputError(
                "This needs the rows of the fit again, and they are gone: pass X and y (and the weights and offsets of "
                "the fit)."
            )
        classes, problem = self._problem(*arguments)  # type: ignore[attr-defined]
        if classes.tolist() != self.classes_.tolist():
            raise InvalidInputError(
                f"The model was fitted to the classes {self.classes_.tolist()[:8]}, and these rows have "
                f"{classes.tolist()[:8]}. Pass the rows of the fit."
            )
        result: Problem = problem
        return result

    def _at(self, learned: Learned) -> At:
        """Return the weights of the fit, for what is said of single rows."""
        c = learned.coordinates
        return At(learned.x, c.center, c.scale, c.T, self._link())  # type: ignore[attr-defined]

    def _covariance(self, learned: Learned, kind: CovarianceKind, problem: Problem | None) -> Array:
        """Return the covariance of the solver's weights that were estimated."""
        bread = factor_spd(learned.objective_hessian(expected=kind.name != "observed"), tol=0.0)
        kept = learned.kept
        if not kind.needs_rows:
            V = bread.solve(np.eye(len(kept)))
            return (V + V.T) / 2.0
        assert problem is not None
        at, clusters = self._at(learned), 0
        if kind.codes is None:
            sums = problem.engine.fold(ScoreScatter, problem.source, at)
            meat, value = sums.meat, sums.value
        else:
            meat, value, clusters = cluster_scatter(problem.source, at, kind.codes)
        check_rows(learned, -value)
        n = float(learned.class_weight.sum())
        return sandwich(bread, meat[np.ix_(kept, kept)], kind, n=n, k=len(kept), clusters=clusters)

    def _errors(self, weights: Weights, V: Array) -> Array:
        """Return standard errors, infinite for terms that run away: all, if the separation is complete."""
        error = weights.errors(V)
        if self._separation is None:
            return error
        if self._separation.kind == "complete":
            return np.where(weights.aliased, np.nan, np.inf)
        away = {key if weights.classes is None else key[1] for key in self._separation.infinite}
        return np.where([term in away for term in weights.terms], np.inf, error)

    def _remarks(self, kind: CovarianceKind, intervals: str, level: float) -> tuple[str, ...]:
        gaussian, jeffreys = split_prior(self.prior_)
        if gaussian is not None:
            prior = "Gaussian and Jeffreys' prior" if jeffreys else "Gaussian prior"
            how = f"{prior}; Laplace approximation of the posterior; {100 * level:.4g}% credible intervals"
        else:
            method = "Jeffreys' prior (Firth)" if jeffreys else "maximum likelihood"
            what = {"wald": "Wald", "confint": "profile (interpolated)"}.get(intervals, intervals)
            what = f"penalised {what}" if jeffreys and intervals != "wald" else what
            how = f"{method}; {kind.remark}; {100 * level:.4g}% {what} intervals"
        remarks = [how]
        if in_deviations(self):
            remarks.append("a unit of a column is one standard deviation of it (Standardize)")
        if self._learned is not None and self._learned.moved:
            remarks.append("intercepts moved to another class prior: likelihood and errors are those of the fit")
        if self.aliased_:
            remarks.append(f"aliased (set aside): {', '.join(self.aliased_)}")
        if self._separation is not None:
            remarks.append(
                "separated classes: terms with an infinite error have no estimate; use prior=JeffreysPrior()"
            )
        return tuple(remarks)

    def _table(
        self, learned: Learned, weights: Weights, columns: dict[str, Array], remarks: tuple[str, ...], level: float
    ) -> Summary:
        labels = self.classes_.tolist()
        if split_prior(self.prior_)[0] is not None:
            values = (columns["estimate"], columns["std_error"], columns["lower"], columns["upper"])
            columns = dict(zip(POSTERIOR, values, strict=True))
        names: dict[str, Any] = {} if weights.classes is None else {"class": weights.classes}
        table = {**names, "term": weights.terms, **columns}
        if self.link_ == "logit":
            with np.errstate(over="ignore"):
                table["odds_ratio"] = np.exp(columns["estimate"])
        if learned.K == 2:
            what = f"{type(self).__name__} ({self.link_}) of {labels[1]!r} against {labels[0]!r}"
        else:
            against = "" if learned.reference is None else f", against {labels[learned.reference]!r}"
            what = f"{type(self).__name__} of {learned.K} classes{against}"
        return Summary(
            table,
            f"{what}: {learned.n_rows} rows, {self.n_parameters_} weights",
            learned.log_likelihood,
            learned.null_log_likelihood,
            learned.n_rows,
            self.n_parameters_,
            learned.K,
            tuple(self.aliased_),
            self.certificate_,
            remarks,
            level,
        )
