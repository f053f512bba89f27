"""Certificates from the curvature of a sample of the rows, which no other row can take away."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from oddsmith.numerics import Array, SpdFactor, factor_spd
from oddsmith.records import Certificate
from oddsmith.solvers.base import Curb, Evaluation
from oddsmith.solvers.certificate import certificate_from, curb_from, gap_bound
from oddsmith.solvers.lbfgs import Metric
from oddsmith.solvers.truncated import Watch, conjugate_gradients

PRODUCTS = 20
"""Products with a Hessian that take less time than the Hessian itself."""


@dataclass
class Proof:
    """Certifies points with the curvature of the sampled rows alone, which bounds the Hessian from below.

    ``floor`` is that curvature at ``guess``. On the way from there to a point e a row's curvature shrinks by at most
    q = exp(−δ), δ being by how much its activations change against each other, and so does the bound. If that is what
    keeps a certificate from the tolerance, the sample's Hessian is evaluated again, at e. What the ``metric`` says of
    the gradient tells it beforehand. As long as the guess has no Hessian, prior and a few products are tried first.
    """

    objective: Any
    sample: Any
    guess: Evaluation
    metric: Metric
    tol: float
    last: tuple[Evaluation, Certificate] | None = None

    @cached_property
    def floor(self) -> tuple[SpdFactor, float]:
        """The bound at the guess, factored, and a simple bound of its smallest eigenvalue, or 0."""
        H = _floor(self.sample, self.guess)
        return factor_spd(H, tol=0.0), self.sample.least_curvature(H)

    def at(self, e: Evaluation) -> Certificate:
        """Return the certificate of a point."""
        if self.last is None or self.last[0] is not e:
            self.last = e, self._certify(e)
        return self.last[1]

    def _certify(self, e: Evaluation) -> Certificate:
        if self.guess.hessian is None and (certificate := self._by_products(e)) is not None:
            return certificate
        limit = self.tol * max(1.0, abs(e.value))
        likely = 0.5 * self.metric.norm(e.gradient) ** 2 / self.sample.share
        left = 0.0 if self.guess.hessian is None else self._left(e, likely / limit)
        if self.guess.hessian is None or limit * left < likely <= limit:
            self.move(e.w)
            left = 1.0
        curb = self._curb(e, left, limit)
        if gap_bound(*_worn(curb, left)) > limit and gap_bound(curb.decrement, curb.rho) <= 0.5 * limit:
            self.move(e.w)
            curb, left = self._curb(e, 1.0, limit), 1.0
        decrement, rho = _worn(curb, left)
        return certificate_from(Curb(decrement, rho, curb.exact), self.objective, e, self.tol, self.floor[0])

    def _by_products(self, e: Evaluation) -> Certificate | None:
        """Return a certificate for which the prior is enough, or products with the curvature of the sampled rows."""
        objective, floor = self.objective, self.sample.floor(e)
        bound = None if floor is None else floor.inverse_bound(objective.reach, objective.rounding + e.rounding)
        if bound is None:
            return None
        watch = Watch(objective, e, bound, self.tol, judges=True)
        conjugate_gradients(floor, e, self.metric, 1e-3, PRODUCTS, watch)
        return watch.certificate

    def _left(self, e: Evaluation, needed: float) -> float:
        """The share of a curvature that is left at a point, at least, of that at the guess.

        It is looked up in the sample, unless a simpler bound is well above what is ``needed``.
        """
        step = e.w - self.guess.w
        bound = self._bound(step)
        simple = float(np.exp(-bound))
        return simple if simple >= 2.0 * needed else float(np.exp(-self.sample.widest_change(step, bound)))

    def _bound(self, step: Array) -> float:
        """Bound by how much a step changes the activations of any row."""
        return float(self.objective.reach * np.linalg.norm(step))

    def move(self, x: Array) -> None:
        """Make a point the guess."""
        self.guess = self.sample.evaluate(x, order=2)
        vars(self).pop("floor", None)

    def needed(self, e: Evaluation) -> float:
        """How small the gradient must be, in the metric, for a certificate, if little is known but the sample."""
        left = 1.0 if self.guess.hessian is None else max(0.1, float(np.exp(-self._bound(e.w - self.guess.w))))
        return float(np.sqrt(2.0 * self.tol * max(1.0, abs(e.value)) * self.sample.share * left))

    def _curb(self, e: Evaluation, left: float, limit: float) -> Curb:
        """Return the curb of a point; the smallest eigenvalue itself is asked for only where that decides."""
        factor, least = self.floor
        if least > 0.0:
            curb = curb_from(factor, e, self.objective, smallest=least)
            if gap_bound(*_worn(curb, left)) <= limit or 0.5 * factor.norm(e.gradient) ** 2 > limit:
                return curb
        return curb_from(factor, e, self.objective)


def _worn(curb: Curb, left: float) -> tuple[float, float]:
    """Return decrement and ρ of a curb where so much of the curvature is left."""
    root = float(np.sqrt(left))
    return (curb.decrement / root, curb.rho / root) if root > 0.0 else (np.inf, np.inf)


def _floor(sample: Any, guess: Evaluation) -> Array:
    """Return a lower bound of the Hessian: the sampled rows count once, and the prior in full."""
    assert guess.hessian is not None
    H: Array = guess.hessian * sample.share
    if sample.penalty is not None:
        H += (1.0 - sample.share) * sample.prior_hessian()
    return H
