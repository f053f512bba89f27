"""Bayesian classification from the curvature of one fit: posterior, predictive, evidence, leave-one-out, updates."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.design.inputs import read_offset
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, SeparationWarning, UnavailableError
from oddsmith.inference.evidence import log_evidence
from oddsmith.inference.leave_one_out import LeaveOneOut, determined_rows, leave_one_out
from oddsmith.inference.posterior import Posterior
from oddsmith.inference.predictive import Predictive, antithetic, check_method, join, predict
from oddsmith.inference.summary import check_level
from oddsmith.kernels.rowwise import At, tiles
from oddsmith.models.base import all_or_nothing
from oddsmith.models.coordinates import is_large, make_contrast
from oddsmith.models.learned import Learned, Recall
from oddsmith.models.likelihood import Problem
from oddsmith.models.profiling import check_rows
from oddsmith.models.streaming import refuse_pieces
from oddsmith.numerics import Array
from oddsmith.priors import Inherited
from oddsmith.records import Certificate
from oddsmith.solvers import Newton
from oddsmith.statistics import LeverageParams, LeverageSlope

INTERCEPT = "(intercept)"
BLOCK_NUMBERS = 1 << 22
"""Numbers of a design that are seen at once."""


@dataclass(frozen=True)
class Earlier:
    """What a model was updated from: number of rows, total weight of each class."""

    n_rows: int
    class_weight: Array

    def add(self, learned: Learned) -> Earlier:
        """Return it with the rows of a fit."""
        return Earlier(self.n_rows + learned.n_rows, self.class_weight + learned.class_weight)


def inherit(learned: Learned) -> Inherited:
    """Return the posterior of a fit as a prior: its Hessian in its own coordinates, its mean in user units.

    With K > 2 classes and no reference, a prior is solved in orthonormal contrasts; the fit may have had others.
    """
    c, W = learned.coordinates, learned.weights()
    C, P = learned.x.shape
    Q = np.zeros((C * P, C * P))
    Q[np.ix_(learned.kept, learned.kept)] = learned.objective_hessian()
    if learned.K > 2 and learned.reference is not None:
        W = np.delete(W, learned.reference, axis=0)
    elif learned.K > 2:
        back = np.kron(np.linalg.solve(make_contrast(learned.K, None).T @ c.contrast, np.eye(C)), np.eye(P))
        Q = back.T @ Q @ back
    return Inherited(mean=W, Q=Q, about=(c.center, c.scale))


def check_same_rows(problem: Problem, at: At, learned: Learned) -> None:
    """Refuse rows that are not those of the fit: their log likelihood says so (one pass)."""
    source = problem.source
    parts = (tile.loss for start, stop in source.slices() for tile in tiles(source.block(start, stop), at))
    check_rows(learned, -sum(parts))


class Bayesian:
    """A mixin: the Gaussian posterior of a model that is fitted by likelihood, and what follows from it.

    All of it comes from the Hessian at the fitted weights (``_curved``), which the fit forms anyway, or one more pass.
    """

    classes_: npt.NDArray[Any]
    certificate_: Certificate
    _earlier: Earlier

    @property
    def posterior_(self) -> Posterior:
        """The Gaussian posterior ``N(w_MAP, H⁻¹)`` of the weights; after maximum likelihood that of a flat prior.

        Cost: O(C³M³), and one pass over the rows where a large fit has not formed its Hessian.

        >>> from oddsmith import LogisticRegression
        >>> print(LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]).posterior_)
               term       mean       std
        (intercept)  -0.226438   1.08682
                 x0   0.452875  0.685512
        """
        return self._posterior(self._curved())  # type: ignore[attr-defined]

    @property
    def log_evidence_(self) -> float:
        """Log of the evidence ``p(t) = ∫ p(t | w) p(w) dw`` by Laplace's approximation.

        ``log p(t | w) + log p(w) − ½ log det(H / 2π)`` at the most probable weights. A flat direction (the intercept,
        if the prior does not cover it) has the density 1 for each unit of the user's intercept. With K > 2 classes and
        no reference it is the evidence over all K weight vectors: the direction that all classes share changes no
        probability and integrates to one; flat intercepts count in the K − 1 directions that do.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
        >>> round(model.log_evidence_, 4)
        -1.976
        """
        learned: Learned = self._curved()  # type: ignore[attr-defined]
        learned.require_optimum()
        self._check_optimum()
        Q = np.zeros((learned.x.size, learned.x.size))
        value = 0.0
        if learned.penalty is not None:
            learned.penalty.add_to(Q, *learned.x.shape)
            value = learned.penalty.value(learned.x)
        return log_evidence(learned.log_likelihood, value, learned.factor, Q[np.ix_(learned.kept, learned.kept)])

    def predictive(
        self,
        X: Any,
        method: str = "auto",
        level: float = 0.9,
        seed: Any = 0,
        *,
        offset: Any = None,
        draws: int = 2000,
    ) -> Predictive:
        """Return class probabilities with the weights integrated out, with intervals.

        Parameters
        ----------
        X : rows
        method : "auto", "quadrature", "probit" or "samples"
            ``"quadrature"`` (two classes): the integral of the link over the Gaussian of the activation, to all digits.
            ``"probit"`` (two classes, logit): ``σ(κ a)`` with ``κ = (1 + π var(a)/8)^−½``. ``"samples"``: the mean over
            seeded draws. ``"auto"`` is quadrature for two classes, samples for more.
        level : float
            Posterior probability of the interval.
        seed : int or Generator
            Of the draws.
        offset : array, optional
            As in ``predict_proba``.
        draws : int
            Number of draws, in opposite pairs.

        Cost: O(C²M²) a row for the variance of the activations; then some tens of evaluations of the link, or ``draws``
        softmaxes. Memory is bounded: rows are taken in blocks.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
        >>> print(model.predictive([[1.0], [100.0]]))
        row   mean[1]     lower[1]  upper[1]      noise  ignorance
          0  0.545453     0.173472  0.882269   0.583434   0.105575
          1  0.745479  6.90943e-30         1  0.0154643   0.551784
        """
        rows = self._rows(X)  # type: ignore[attr-defined]
        learned: Learned = self._curved()  # type: ignore[attr-defined]
        level = check_level(level)
        K, link = len(self.classes_), self._link()  # type: ignore[attr-defined]
        method = check_method(method, K, link)
        normals = antithetic(draws, K - 1, seed)
        posterior = self._posterior(learned)
        shift = read_offset(offset, rows.shape[0], K)
        parts = []
        step = max(256, BLOCK_NUMBERS // max(1, rows.shape[1]))
        with one_blas_thread():
            for start in range(0, rows.shape[0], step):
                Phi = rows[start : start + step]
                t = np.zeros(Phi.shape[0], dtype=np.int32)
                block = Block(Phi, t, None, None if shift is None else shift[start : start + step])
                for tile in tiles(block, posterior.at):
                    with np.errstate(over="ignore", invalid="ignore"):
                        cov = tile.spread(posterior.solver_covariance)
                    far = ~np.isfinite(cov).all(axis=(1, 2))
                    if far.any():
                        raise InvalidInputError(
                            f"Row {start + tile.start + int(np.argmax(far))} of X lies so far out that the variance of "
                            "its activation is more than a float64 can hold. Look into its numbers, or rescale them."
                        )
                    how = {"method": method, "level": level, "normals": normals}
                    parts.append(predict(tuple(self.classes_.tolist()), tile.A, cov, link, **how))  # type: ignore[arg-type]
        return join(parts)

    def leave_one_out(
        self, X: Any = None, y: Any = None, *, sample_weight: Any = None, offset: Any = None
    ) -> LeaveOneOut:
        """Return the prediction of every row by the fit of all others, without a single refit.

        One Newton step from the fit of all rows, with the exact Hessian of the others at its weights: for two classes,
        with leverage h and residual y − t,

            a₋ₙ = a + h / (y (1 − y)) · (y − t) / (1 − h).

        Rows that move the weights farther than one step can be trusted (few rows for each weight) are followed by some
        gradient steps more, all of them at once.

        Parameters
        ----------
        X, y, sample_weight, offset
            Those of the fit; while they are in memory they need not be passed again.

        Cost: one pass, O(C²M²) a row; up to fifty more for rows of large influence, fewer and fewer of them.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
        >>> model = LogisticRegression(prior=1.0).fit(X, y)
        >>> print(model.leave_one_out(X, y))
        leave-one-out log loss 0.742147 ± 0.25 over 6 rows; effective weights 1.7; most influential row 2 (0.311)
        """
        refuse_pieces(X, "leave_one_out", "Use evaluate with rows that were not fitted to")
        problem = self._again(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        learned: Learned = self._curved(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        posterior = self._posterior(learned)
        with one_blas_thread():
            check_same_rows(problem, posterior.at, learned)
            S = posterior.solver_covariance
            result = leave_one_out(problem.source, posterior.at, S, posterior.size, learned.penalty)
        alone = determined_rows(result)
        if len(alone):
            warnings.warn(
                f"Without row {int(alone[0])}{f' (or {len(alone) - 1} more)' if len(alone) > 1 else ''} there is no "
                "fit: it alone determines a weight. Its prediction is NaN. Use a prior.",
                SeparationWarning,
                stacklevel=2,
            )
        return result

    def posterior_mean(self, X: Any = None, y: Any = None, *, sample_weight: Any = None, offset: Any = None) -> Array:
        """Return the mean of the posterior, which is not its mode: a posterior of few rows is skew.

        To the first order in which they differ the mean is ``w_MAP − H⁻¹ ∂/∂w ½ log det H``. The order of the weights
        is that of ``posterior_.mean``, which is the mode.

        Parameters
        ----------
        X, y, sample_weight, offset
            Those of the fit; while they are in memory they need not be passed again.

        Cost: one pass, O(C²M²) a row. For ``link="logit"``.

        >>> from oddsmith import LogisticRegression
        >>> X, y = [[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1]
        >>> model = LogisticRegression(prior=1.0).fit(X, y)
        >>> model.posterior_.mean.round(3).tolist(), model.posterior_mean(X, y).round(3).tolist()
        ([-0.226, 0.453], [-0.285, 0.57])
        """
        refuse_pieces(X, "posterior_mean", "Use posterior_.mean, the mode, which is the same for many rows")
        problem: Problem = self._again(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        if problem.link is not None:
            raise InvalidInputError(
                f"posterior_mean is for link='logit', found link={problem.link.name!r}. Use posterior_.mean, the mode."
            )
        learned: Learned = self._curved(X, y, sample_weight, offset)  # type: ignore[attr-defined]
        posterior = self._posterior(learned)
        with one_blas_thread():
            check_same_rows(problem, posterior.at, learned)
            params = LeverageParams(posterior.at, posterior.solver_covariance)
            slope = problem.engine.fold(LeverageSlope, problem.source, params).slope
        x = learned.x - (posterior.solver_covariance @ slope.ravel()).reshape(learned.x.shape)
        return replace(learned, x=x).weights().ravel()

    @all_or_nothing
    def update(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Any:
        """Learn from more rows: yesterday's posterior, mean and covariance, is today's prior.

        Nothing of the old rows is needed. ``y`` may lack classes, but hold no new ones. Up to the error of the Gaussian
        approximation the result is that of a fit to all rows; ``n_rows_`` counts them. What the fit reports of
        its rows (``log_likelihood_``, the certificate, ``log_evidence_``) is about the new ones.

        Parameters
        ----------
        X, y, sample_weight, offset
            As in ``fit``.

        Cost: that of a fit to the new rows.

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
        model: Any = self
        learned: Learned = model._curved()
        learned.require_optimum()
        if model.aliased_:
            raise InvalidInputError(
                f"The last fit set {', '.join(map(repr, model.aliased_[:5]))} aside, so nothing is known of these "
                "weights: its posterior cannot be a prior. Leave the columns out, or fit with a prior."
            )
        self._posterior(learned)  # refuses what is no posterior
        earlier, prior = self._earlier.add(learned), inherit(learned)
        classes, problem = model._problem(X, y, sample_weight, offset, known=True)
        problem = replace(problem, prior=prior, jeffreys=False, start=model._against_first())
        with one_blas_thread():
            fit, verdict = model._solve(problem, classes)
        model._assign(fit, classes, problem, verdict)
        model.prior_, model._earlier = prior, earlier
        weight = earlier.class_weight + problem.class_weight
        model.class_prior_ = weight / weight.sum()
        model._recall = Recall.of(X, y, sample_weight, offset)
        model._warn(verdict, fit.rounded)
        return self

    @property
    def n_rows_(self) -> int:
        """Number of rows that the weights come from, those before updates included."""
        return self._earlier.n_rows + self._curved().n_rows  # type: ignore[attr-defined, no-any-return]

    def _with_width(self, problem: Problem) -> Problem:
        """Return the problem of a fit with a width for its prior: the one given, or the one that is found."""
        model: Any = self
        model._earlier = Earlier(0, np.zeros(problem.K))
        model.__dict__.pop("selection_", None)
        if problem.prior is not None and problem.prior.open:
            from oddsmith.models.widths import choose_width

            model.selection_, start = choose_width(problem, model.seed)
            problem = replace(problem, prior=model.selection_.prior, start=start or problem.start)
            if start is not None and problem.solver == "auto" and is_large(problem.source):
                # So near the optimum a sample of the rows would only lead away.
                problem = replace(problem, solver=Newton(watch_divergence=False, strict=False))
        model.prior_ = problem.prior if not problem.jeffreys else model.prior
        return problem

    def _posterior(self, learned: Learned) -> Posterior:
        self._check_optimum()
        if not learned.factor.kept.all():
            raise UnavailableError(
                "The Hessian at the fitted weights is not positive definite, so there is no Gaussian posterior. Use a "
                "prior, or fewer columns."
            )
        c = learned.coordinates
        at = At(learned.x, c.center, c.scale, c.T, self._link())  # type: ignore[attr-defined]
        W = learned.weights()
        terms = [INTERCEPT, *(str(name) for name in self._names())]  # type: ignore[attr-defined]
        labels = [(term,) for term in terms]
        if len(W) > 1:
            labels = [(label, term) for label in self.classes_.tolist() for term in terms]  # type: ignore[misc]
        estimated = learned.free[0]  # the same for every class
        return Posterior(W.ravel(), learned.factor, at, learned.gauge, estimated, tuple(labels))

    def _check_optimum(self) -> None:
        if not self.certificate_.optimum_exists:
            raise UnavailableError(
                "The classes are separated and nothing keeps the weights finite, so there is no posterior to speak of. "
                "Use a GaussianPrior."
            )
