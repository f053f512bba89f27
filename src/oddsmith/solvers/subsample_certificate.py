"""Certificates from the curvature of a subsample of the rows, to which other rows can only add."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from oddsmith.bordered import BorderedDiagonal
from oddsmith.cached_property import cached_property
from oddsmith.numerics import Array, factor_spd
from oddsmith.records import Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import DecrementBound, Factor, Objective, ObjectiveValue, Preconditioner, Subsample
from oddsmith.solvers.certificate import certificate_from, decrement_bound, gap_bound
from oddsmith.solvers.truncated_newton import CertificateMonitor, conjugate_gradients


@dataclass(kw_only=True)
class SubsampleCertificate:
    """Certifies points with the curvature of the subsampled rows alone, which bounds the Hessian from below.

    ``lower_bound`` is that curvature at ``guess``. Between the guess and a point e, a row's curvature, and with it the
    bound, shrinks by at most q = exp(−δ), with δ the change of the differences of its activations. If this shrinkage
    keeps a certificate from the tolerance, the subsample's Hessian is evaluated again at e; the gradient norm under the
    ``preconditioner`` predicts this. While the guess has no Hessian, the prior and a few products are tried first.
    """

    objective: Objective
    sample: Subsample
    guess: ObjectiveValue
    preconditioner: Preconditioner
    tol: float
    last: tuple[ObjectiveValue, Certificate] | None = field(default=None, init=False)

    @cached_property
    def lower_bound(self) -> tuple[Factor, float]:
        """The factored bound at the guess, and a simple bound of its smallest eigenvalue, or 0."""
        if isinstance(self.guess.hessian, BorderedDiagonal):  # of all rows
            return self.guess.factor(), self.sample.eigenvalue_bound(self.guess.hessian)
        H = self.sample.hessian_lower_bound(self.guess)
        return factor_spd(H, tol=0.0), self.sample.eigenvalue_bound(H)

    def at(self, e: ObjectiveValue) -> Certificate:
        """Return the certificate of a point."""
        if self.last is None or self.last[0] is not e:
            self.last = e, self._certify(e)
        return self.last[1]

    def _certify(self, e: ObjectiveValue) -> Certificate:
        if self.guess.hessian is None and (certificate := self._by_products(e)) is not None:
            return certificate
        limit = e.allowed_gap(self.tol)
        likely = 0.5 * e.decrement(self.preconditioner) ** 2 / self.sample.sampling_fraction
        left = 0.0 if self.guess.hessian is None else self._curvature_left(e, likely / limit)
        if self.guess.hessian is None or limit * left < likely <= limit:
            self.move(e.w)
            left = 1.0
        bound = self._bound(e, left, limit)
        if _shrinks_too_much(bound, left, limit):  # so it is looked up
            left = self._curvature_left(e, np.inf)
            bound = self._bound(e, left, limit)
        if _shrinks_too_much(bound, left, limit):
            self.move(e.w)
            bound, left = self._bound(e, 1.0, limit), 1.0
        shrunk = DecrementBound(*_shrunk(bound, left), bound.exact)
        return certificate_from(shrunk, self.objective, e, self.tol, self.lower_bound[0])

    def _by_products(self, e: ObjectiveValue) -> Certificate | None:
        """Return a certificate from the prior, or from products with the curvature of the subsampled rows."""
        objective, hessian = self.objective, self.sample.implicit_lower_bound(e)
        if hessian is None:
            return None
        bound = hessian.inverse_bound(objective.self_concordance, objective.rounding + e.rounding)
        if bound is None:
            return None
        monitor = CertificateMonitor(objective=objective, e=e, bound=bound, tol=self.tol, judges=True)
        settings = policy.POLICY
        residual, products = settings.bound_residual, settings.certificate_products
        conjugate_gradients(hessian, e, self.preconditioner, residual, products, monitor)
        return monitor.certificate

    def _curvature_left(self, e: ObjectiveValue, needed: float) -> float:
        """A lower bound of the share of the curvature at the guess that is left at a point.

        It is computed from the subsample, unless a simpler bound is well above ``needed``.
        """
        step = e.w - self.guess.w
        bound, enough = self._change(step), -float(np.log(2.0 * needed)) if needed > 0.0 else np.inf
        return float(np.exp(-(bound if bound <= enough else self.sample.activation_change(step, bound, enough))))

    def _change(self, step: Array) -> float:
        """Bound the change of the activations of any row by a step."""
        return float(self.objective.self_concordance * np.linalg.norm(step))

    def move(self, x: Array) -> None:
        """Make a point the guess."""
        self.guess = self.sample.evaluate(x, order=2)
        vars(self).pop("lower_bound", None)

    def needed(self, e: ObjectiveValue) -> float:
        """The gradient norm (under the preconditioner) at which the subsample can certify a point."""
        left = 1.0 if self.guess.hessian is None else max(0.1, float(np.exp(-self._change(e.w - self.guess.w))))
        return float(np.sqrt(2.0 * e.allowed_gap(self.tol) * self.sample.sampling_fraction * left))

    def _bound(self, e: ObjectiveValue, left: float, limit: float) -> DecrementBound:
        """Return the bound at a point; the smallest eigenvalue itself is computed only if it matters."""
        factor, least = self.lower_bound
        if least > 0.0:
            bound = decrement_bound(factor, e, self.objective, smallest=least)
            if gap_bound(*_shrunk(bound, left)) <= limit or 0.5 * e.decrement(factor) ** 2 > limit:
                return bound
        return decrement_bound(factor, e, self.objective)


def _shrinks_too_much(bound: DecrementBound, left: float, limit: float) -> bool:
    """Whether only the share of curvature that is left keeps a bound from the limit."""
    return gap_bound(*_shrunk(bound, left)) > limit and gap_bound(bound.decrement, bound.rho) <= 0.5 * limit


def _shrunk(bound: DecrementBound, left: float) -> tuple[float, float]:
    """Return the decrement and ρ for the given share of remaining curvature."""
    root = float(np.sqrt(left))
    return (bound.decrement / root, bound.rho / root) if root > 0.0 else (np.inf, np.inf)


def certify_from(objective: Subsample, e: ObjectiveValue, guess: ObjectiveValue, tol: float) -> Certificate:
    """Return the certificate of ``e`` from the Hessian of all rows at an earlier point, ``guess``."""
    factor = guess.factor()
    return SubsampleCertificate(objective=objective, sample=objective, guess=guess, preconditioner=factor, tol=tol).at(
        e
    )
