"""Truncated Newton, by conjugate gradients, and Newton in the row space: for many columns."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from oddsmith.numerics import Array
from oddsmith.records import Certificate
from oddsmith.solvers import policy
from oddsmith.solvers.base import (
    SOLVERS,
    CurvatureBound,
    DecrementBound,
    HessianProducts,
    Objective,
    ObjectiveValue,
    Preconditioner,
    Recorder,
    RowSpace,
    SolverResult,
    Solves,
)
from oddsmith.solvers.certificate import InverseBound, certificate_from, certify, gap_bound
from oddsmith.solvers.diagonal_lbfgs import DiagonalLBFGS
from oddsmith.solvers.line_search import line_search
from oddsmith.solvers.newton import Newton, looks_separated, stalled


class Certifiable(Objective, CurvatureBound, Protocol):
    """An objective whose inverse Hessian may be bounded by its prior."""


@SOLVERS.register("truncated-newton")
@dataclass(frozen=True)
class TruncatedNewton:
    """Newton's method without forming the Hessian.

    Each iteration
      1. evaluates value and gradient g (one pass),
      2. solves H p ≈ g by conjugate gradients, preconditioned by the Hessian's diagonal with the intercept eliminated,
         to a relative residual that tightens as the gradient falls (one pass a product),
      3. stops when √(gᵀp) ≤ ``tol``,
      4. shortens the step until the objective falls.

    Memory: a few vectors of the size of the weights. Without ``strict``, it is certified as soon as the gap is within
    ``tol`` of the objective; some steps more give the weights ten digits.
    """

    max_products: int = policy.POLICY.cg_products
    watch_divergence: bool = True
    strict: bool = True
    name: str = "truncated-newton"

    def minimise(self, objective: Certifiable, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "truncated Newton")
        e = objective.evaluate(w)  # 1
        del w
        first, step, diverging = np.nan, 0.0, False
        decrements = [np.inf]
        preconditioner: Preconditioner | None = None
        while True:
            recorder.add(e, step)
            if not e.gradient.any() or len(recorder.records) > max_iter:
                break
            near = not self.strict and decrements[-1] ** 2 <= policy.POLICY.near_objective * abs(e.value)
            if near or len(recorder.records) % 2:  # far from the optimum it serves for two steps
                preconditioner = None  # it makes room for the next one
                preconditioner = objective.preconditioner(e.w)
            assert preconditioner is not None
            norm = preconditioner.norm(e.gradient)
            if not norm > 0.0:
                break
            first = norm if np.isnan(first) else first
            p, certificate = self._solve(objective, e, preconditioner, norm / first, tol if near else None)  # 2
            if certificate is not None:
                first, start = e.value, [(e, p)]
                del e, p  # vectors make room as soon as they are used
                e = self._lead_on(objective, start, preconditioner, recorder, tol)
                gap, norm = certificate.gap + max(0.0, e.value - first), e.gradient_norm
                certificate = replace(certificate, gap=gap, gradient_norm=norm, passes=objective.passes)
                return recorder.result(e, certificate)
            decrements.append(float(np.sqrt(max(float(p @ e.gradient), 0.0))))
            moved, diverging = self._move(objective, e, p, decrements, tol)
            del p
            if moved is None:
                break
            e, step = moved
            del moved
        return certified(objective, e, recorder, tol, diverging=diverging)

    def _move(
        self, objective: Objective, e: ObjectiveValue, p: Array, decrements: list[float], tol: float
    ) -> tuple[tuple[ObjectiveValue, float] | None, bool]:
        """Return the next point with its step (None at the end), and whether the iterates diverge."""
        if decrements[-1] <= tol or stalled(decrements, e.value, tol):  # 3
            return None, False
        if self.watch_divergence and looks_separated(decrements[1:]):
            return None, True
        return line_search(objective, e, p, float(p @ e.gradient), order=1), False  # 4

    def _lead_on(
        self,
        objective: Objective,
        start: list[tuple[ObjectiveValue, Array]],
        preconditioner: Preconditioner,
        recorder: Recorder,
        tol: float,
    ) -> ObjectiveValue:
        """Return a point whose weights have ten digits, by steps from one that is certified, with the first of them.

        The list is emptied, to make room. The objective is lower there, but for rounding, so the gap of the certificate
        bounds that of this point, too.
        """
        e, p = start.pop()
        settings, norm = policy.POLICY, preconditioner.norm(e.gradient)
        highest = e.value + settings.value_rounding * abs(e.value)
        enough = float(np.sqrt(2.0 * settings.last_margin * e.allowed_gap(tol)))
        while norm > 0.0:
            f, decrement = objective.evaluate(e.w - p), float(np.sqrt(max(float(p @ e.gradient), 0.0)))
            before, norm = norm, preconditioner.norm(f.gradient)
            if not (f.value <= highest and norm < 0.5 * before):
                break
            e = f
            del f, p
            recorder.add(e, 1.0)
            if (left := decrement * norm / before) <= enough:
                break
            residual = max(0.5 * enough / left, settings.last_residual)
            p = conjugate_gradients(objective, e, preconditioner, residual, self.max_products, last=residual)
        return e

    def _solve(
        self, objective: Certifiable, e: ObjectiveValue, preconditioner: Preconditioner, left: float, tol: float | None
    ) -> tuple[Array, Certificate | None]:
        """Return the step, given the share of the first gradient ``left``; with ``tol``, a certificate if possible."""
        loosest, tightest = policy.POLICY.cg_tolerance
        residual = min(loosest, max(float(np.sqrt(left)), 0.0 if self.strict else tightest))
        monitor = None if tol is None else CertificateMonitor.at(objective, e, preconditioner, tol)
        last = None if monitor is None else policy.POLICY.last_residual
        p = conjugate_gradients(objective, e, preconditioner, residual, self.max_products, monitor, last=last)
        return p, None if monitor is None else monitor.certificate


@SOLVERS.register("row-space")
@dataclass(frozen=True)
class RowSpaceNewton:
    """Newton's method over combinations of the rows, for a prior and more columns than rows.

      1. With a prior, the optimum is a combination of the rows. Newton's method finds it: as many weights as rows.
      2. It becomes weights of all columns, where the prior certifies it.
      3. If that proves too little, or there is no such space, truncated Newton goes on.

    Cost: O(N² M) for the products of the rows, O(N³) an iteration.
    """

    name: str = "row-space"

    def minimise(self, objective: Certifiable, w: Array, *, tol: float, max_iter: int) -> SolverResult:
        recorder = Recorder(objective, "all columns")
        found = objective.in_row_space() if isinstance(objective, RowSpace) else None
        if found is not None:
            inside, in_all_columns = found
            start = np.zeros(inside.shape)
            start[:, 0] = w.reshape(objective.shape)[:, 0]
            newton = Newton(watch_divergence=False)
            search = DiagonalLBFGS(final_hessian=False, then=newton) if inside.shape[0] == 1 else newton
            # As many digits as a last Newton step would give: on few rows a search to the end costs less.
            best = search.minimise(
                inside, start.ravel(), tol=policy.POLICY.row_space_margin * tol, max_iter=max_iter
            )  # 1
            e = objective.evaluate(in_all_columns(best.w))  # 2
            recorder.add_subsample(replace(best.final, w=e.w), "Newton in the row space")
            recorder.add(e, 1.0)
            certificate = certificate_from(objective.decrement_bound(e), objective, e, tol)
            if certificate.converged:
                return replace(recorder.result(e, certificate), iterations=best.iterations)
            w = e.w
        flat = not objective.has_prior
        result = TruncatedNewton(watch_divergence=flat).minimise(objective, w, tol=tol, max_iter=max_iter)  # 3
        recorder.records.extend(record[1:] for record in result.trace.records)
        return replace(result, trace=recorder.trace())


@dataclass(kw_only=True)
class CertificateMonitor:
    """Watches conjugate gradients at a point and certifies it as soon as the residual allows.

    With H p = g − r, the decrement is bounded by λ² = pᵀg + pᵀr + rᵀH⁻¹r, the last term by the prior. If it ``judges``,
    it also stops once the first terms are too large, and gives up if the scale of the prior is too large to decide.
    """

    objective: Objective
    e: ObjectiveValue
    bound: InverseBound
    tol: float
    judges: bool = False
    certificate: Certificate | None = field(default=None, init=False)

    @classmethod
    def at(
        cls, objective: Certifiable, e: ObjectiveValue, preconditioner: Preconditioner, tol: float
    ) -> CertificateMonitor | None:
        """Return a monitor for the point ``e``, if the objective can bound its inverse Hessian."""
        bound = objective.inverse_bound(e, preconditioner)
        return None if bound is None else cls(objective=objective, e=e, bound=bound, tol=tol)

    def reached(self, p: Array, r: Array) -> bool:
        """Whether to stop, given a step and its residual, with or without a certificate."""
        limit = self.e.allowed_gap(self.tol)
        least = float(p @ (self.e.gradient + r))
        decrement = float(np.sqrt(max(least + self.bound.square(r), 0.0))) + self.bound.noise
        gap = gap_bound(decrement, self.bound.rho)
        converged = bool(np.isfinite(gap) and gap <= limit)
        if not converged and not (self.judges and 0.5 * least > limit):
            return self.judges and self.bound.rho**2 * least >= 1.0
        bound = DecrementBound(decrement, self.bound.rho, exact=True)
        self.certificate = certificate_from(bound, self.objective, self.e, self.tol)
        return True


def conjugate_gradients(
    hessian: HessianProducts,
    e: ObjectiveValue,
    preconditioner: Solves,
    residual: float,
    limit: int,
    monitor: CertificateMonitor | None = None,
    *,
    last: float | None = None,
) -> Array:
    """Solve H(w) p = g by preconditioned conjugate gradients from zero, to a relative residual.

    Once ``monitor`` has its certificate, or without one, the residual ``last`` counts instead, and the last product
    must add as little to gᵀp; if ``last`` is None, it ends there.
    """
    p = np.zeros_like(e.w)
    r = e.gradient.copy()
    proven = monitor is not None and monitor.reached(p, r)
    if proven and last is None:
        return p
    z = preconditioner.solve(r)
    rz = first = float(r @ z)
    q = z.copy()
    del z
    total = 0.0
    for _ in range(limit):
        Hq = hessian.hessian_product(e.w, q)
        curvature = q @ Hq
        if curvature <= 0.0:
            break
        alpha = rz / float(curvature)
        total += alpha * rz
        p += alpha * q
        Hq *= alpha
        r -= Hq
        del Hq  # vectors make room as soon as they are used
        proven = proven or (monitor is not None and monitor.reached(p, r))
        if proven and last is None:
            break
        z = preconditioner.solve(r)
        rz, previous = float(r @ z), rz
        if last is None or not (proven or monitor is None):
            if rz <= residual**2 * first:
                break
        elif max(rz / first, alpha * previous / total) <= last**2:
            break
        q *= rz / previous
        q += z
        del z
    return p


def certified(
    objective: Objective, e: ObjectiveValue, recorder: Recorder, tol: float, *, diverging: bool = False
) -> SolverResult:
    """Certify the result of a solver that did not form the Hessian, with one more pass unless it is too large."""
    if e.w.size <= policy.POLICY.largest_hessian:
        e = objective.evaluate(e.w, order=2)
    certificate = certify(objective, e, tol)
    return recorder.result(e, certificate, diverging=diverging)
