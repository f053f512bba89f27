"""Bayesian inference from the curvature of one fit: posterior, predictive, evidence, leave-one-out, updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from oddsmith.data_access.training_data import refuse_pieces
from oddsmith.engines import one_blas_thread
from oddsmith.likelihood.coordinates import is_large
from oddsmith.likelihood.fitted_state import EarlierRows
from oddsmith.models.base import all_or_nothing
from oddsmith.models.inference_mixin import InferenceMixin
from oddsmith.numerics import Array
from oddsmith.priors import as_prior
from oddsmith.protocols import Labels
from oddsmith.solvers import Newton

if TYPE_CHECKING:  # a fit needs none of these: each method imports what it calls
    from oddsmith.inference.fit_record import FitRecord
    from oddsmith.inference.laplace import Seed
    from oddsmith.inference.leave_one_out import LeaveOneOut
    from oddsmith.inference.posterior import Posterior
    from oddsmith.inference.predictive import Predictive
    from oddsmith.likelihood.problem import Problem
    from oddsmith.prior_selection.quadratic_model import Selection


class BayesianMixin(InferenceMixin):
    """A mixin for models fitted by likelihood: the Gaussian posterior and everything derived from it.

    All methods use the Hessian at the fitted weights, which the fit forms anyway or which takes one more pass.
    """

    seed: int | None
    class_prior_: Array | None
    selection_: Selection
    _earlier: EarlierRows
    _solve_and_assign: Callable[[Problem, Labels, tuple[object, ...]], None]

    def _bayes_record(self, *given: Any) -> FitRecord:
        """Return the record of the fit; for many levels, its Hessian has the largest factor eliminated."""
        rows = (*given, *[None] * (4 - len(given)))
        return self._fit_record(*rows, bordered=self._eliminates(rows))

    @property
    def posterior_(self) -> Posterior:
        """The Gaussian posterior ``N(w_MAP, H⁻¹)`` of the weights; after maximum likelihood, under a flat prior.

        Cost: O(C³M³), and one pass over the rows if a large fit has not formed its Hessian.

        >>> from oddsmith import LogisticRegression
        >>> print(LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]).posterior_)
               term       mean       std
        (intercept)  -0.226438   1.08682
                 x0   0.452875  0.685512
        """
        from oddsmith.inference.posterior import laplace_posterior

        return laplace_posterior(self._bayes_record())

    @property
    def log_evidence_(self) -> float:
        """Log evidence, ``p(t) = ∫ p(t | w) p(w) dw``, by Laplace's approximation.

        ``log p(t | w) + log p(w) − ½ log det(H / 2π)`` at the most probable weights. A flat direction (an intercept
        without a prior) has density 1 per unit of the user's intercept. With K > 2 classes and no reference, the
        integral is over all K weight vectors: the direction common to all classes changes no probability and integrates
        to one; flat intercepts count in the other K − 1 directions.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
        >>> round(model.log_evidence_, 4)
        -1.976
        """
        from oddsmith.inference.posterior import laplace_log_evidence

        return laplace_log_evidence(self._bayes_record())

    def predictive(
        self,
        X: Any,
        method: str = "auto",
        level: float = 0.9,
        seed: Seed = 0,
        *,
        offset: object = None,
        draws: int = 2000,
    ) -> Predictive:
        """Return class probabilities with the weights integrated out, with intervals.

        Parameters
        ----------
        X : rows
        method : "auto", "quadrature", "probit" or "samples"
            ``"quadrature"`` (two classes): the integral of the inverse link over the Gaussian of the activation, to
            full precision. ``"probit"`` (two classes, logit): ``σ(κ a)`` with ``κ = (1 + π var(a)/8)^−½``.
            ``"samples"``: the mean over seeded draws. ``"auto"`` is quadrature for two classes, samples for more.
        level : float
            Posterior probability of the interval.
        offset : array, optional
            As in ``predict_proba``.
        draws, seed : int
            Number of draws, in antithetic pairs, and their random seed (or a Generator).

        Cost: O(C²M²) a row for the variance of the activations; then tens of evaluations of the link, or ``draws``
        softmaxes. Memory is bounded: rows are processed in blocks.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
        >>> print(model.predictive([[1.0], [100.0]]))
        row   mean[1]     lower[1]  upper[1]      noise  ignorance
          0  0.545453     0.173472  0.882269   0.583434   0.105575
          1  0.745479  6.90943e-30         1  0.0154643   0.551784
        """
        from oddsmith.inference.predictive import predictive
        from oddsmith.inference.summary import check_level

        rows, fit = self._rows(X), self._bayes_record()
        return predictive(fit, rows, method, check_level(level), seed, offset, draws)

    def leave_one_out(
        self, X: Any = None, y: Any = None, *, sample_weight: object = None, offset: object = None
    ) -> LeaveOneOut:
        """Return the prediction for every row from a fit to all other rows, without refitting.

        It takes one Newton step from the fit to all rows, with the exact Hessian of the other rows at its weights: for
        two classes, with leverage h and residual y − t,

            a₋ₙ = a + h / (y (1 − y)) · (y − t) / (1 − h).

        Rows with too much influence for a single step (when there are few rows per weight) get further gradient steps,
        all rows together. The arguments are those of the fit; while they are in memory, you need not pass them again.
        Cost: one pass, O(C²M²) a row; for influential rows, up to fifty more passes over ever fewer rows.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> model = LogisticRegression(prior=1.0).fit(X, y)
        >>> print(model.leave_one_out(X, y))
        leave-one-out log loss 0.742147 ± 0.25 over 6 rows; effective weights 1.7; most influential row 2 (0.311)
        """
        refuse_pieces(X, "leave_one_out", "Use evaluate with held-out rows")
        from oddsmith.inference.leave_one_out import leave_rows_out

        return leave_rows_out(self._bayes_record(X, y, sample_weight, offset))

    def posterior_mean(
        self, X: Any = None, y: Any = None, *, sample_weight: object = None, offset: object = None
    ) -> Array:
        """Return the mean of the posterior, which differs from its mode: with few rows, the posterior is skewed.

        To first order the mean is ``w_MAP − H⁻¹ ∂/∂w ½ log det H``, in the order of ``posterior_.mean`` (the mode). For
        ``link="logit"`` only. The arguments are those of the fit; while they are in memory, you need not pass them
        again. Cost: one pass, O(C²M²) a row.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]
        >>> model = LogisticRegression(prior=1.0).fit(X, y)
        >>> model.posterior_.mean.round(3).tolist(), model.posterior_mean(X, y).round(3).tolist()
        ([-0.226, 0.453], [-0.285, 0.57])
        """
        refuse_pieces(X, "posterior_mean", "Use posterior_.mean, the mode, which is the same for many rows")
        from oddsmith.inference.posterior import posterior_mean

        return posterior_mean(self._fit_record(X, y, sample_weight, offset))

    @all_or_nothing
    def update(self, X: Any, y: Any, sample_weight: object = None, offset: object = None) -> Self:
        """Learn from more rows: the current posterior (mean and covariance) becomes the prior of the next fit.

        The old rows are not needed. The arguments are those of ``fit``; ``y`` may lack some classes but must not
        contain new ones. Up to the error of the Gaussian approximation, the result equals a fit to all rows;
        ``n_rows_`` counts them all. ``log_likelihood_``, the certificate and ``log_evidence_`` describe the new rows
        only. Cost: a fit to the new rows.

        >>> import numpy as np
        >>> from oddsmith import LogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 1))
        >>> y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
        >>> model = LogisticRegression(prior=1.0).fit(X[:1000], y[:1000]).update(X[1000:], y[1000:])
        >>> whole = LogisticRegression(prior=1.0).fit(X, y)
        >>> model.n_rows_, bool(np.abs(model.coef_ - whole.coef_)[0, 0] < 0.05 * whole.posterior_.std[1])
        (2000, True)
        """
        from oddsmith.inference.posterior import posterior_as_prior

        fit_record = self._fit_record()
        prior, earlier = posterior_as_prior(fit_record), self._earlier.add(fit_record.state)
        classes, problem = self._problem(X, y, sample_weight, offset, known=True)
        problem = replace(problem, prior=prior, jeffreys=False, start=self._against_first())
        with one_blas_thread(problem.largest_matrix):
            self._solve_and_assign(problem, classes, (X, y, sample_weight, offset))
        self.prior_, self._earlier = prior, earlier
        weight = earlier.class_weight + problem.class_weight
        self.class_prior_ = weight / weight.sum()
        return self

    @property
    def n_rows_(self) -> int:
        """Number of rows behind the weights, including those before updates."""
        return self._earlier.n_rows + self._fit_record(hessian=False).state.n_rows

    def _with_scale(self, problem: Problem) -> Problem:
        """Return the problem of a fit with the given or selected scale of its prior."""
        self._earlier = EarlierRows(0, np.zeros(problem.K))
        self.__dict__.pop("selection_", None)
        if problem.prior is not None and problem.prior.open:
            from oddsmith.prior_selection.selection import select_prior

            self.selection_, start = select_prior(problem, self.seed)
            problem = replace(problem, prior=as_prior(self.selection_.prior), start=start or problem.start)
            if start is not None and problem.solver == "auto" and is_large(problem.source):
                # So near the optimum a sample of the rows would only lead away.
                problem = replace(problem, solver=Newton(watch_divergence=False, strict=False))
        if problem.laplace is not None and problem.laplace.open:
            from oddsmith.prior_selection.sparse_scale import select_laplace

            self.selection_, scaled = select_laplace(problem, self.seed)
            problem = replace(problem, laplace=scaled)
        self.prior_ = self.prior if problem.jeffreys else problem.laplace or problem.prior
        return problem
