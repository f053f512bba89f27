"""L-BFGS: quasi-Newton steps that need gradients only, from a first guess of the Hessian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from oddsmith.numerics import EPS, Array
from oddsmith.solvers.base import Evaluation, Recorder, Solves
from oddsmith.solvers.newton import line_search

MEMORY = 10
HALVINGS = 12
"""Halvings of steps, in all, after which a search is given up."""
Pairs = list[tuple[Array, Array]]


class Metric(Solves, Protocol):
    """What the Hessian is nearly, as far as solving with it goes."""

    def norm(self, b: Array) -> float:
        """Return ``sqrt(bᵀ A⁻¹ b)``."""
        ...


def gradient_only(norms: list[float]) -> int:
    """Ask for the gradient alone."""
    return 1


def descend(
    objective: Any,
    x: Array,
    factor: Metric,
    close: Callable[[Evaluation], bool],
    max_iter: int,
    recorder: Recorder | None,
    order: Callable[[list[float]], int] = gradient_only,
    pairs: Pairs | None = None,
    rounding: float = 8.0 * EPS,
) -> Evaluation:
    """Return the end of L-BFGS from ``x`` with ``factor`` as the first guess of the Hessian.

    ``order`` of the norms of the gradient so far says what the next evaluation is asked for. ``pairs`` of steps and
    changes of the gradient are those that are known before, and those that are found are added to them. ``rounding`` is
    that of the objective's value, relative to it. It gives up where steps must be shortened again and again: the guess
    is none.
    """
    pairs = [] if pairs is None else pairs
    norms: list[float] = []
    halvings = 0.0
    e: Evaluation = objective.evaluate(x)
    step = 0.0
    for _ in range(max_iter + 1):
        if recorder is not None:
            recorder.add(e, step)
        if close(e):
            break
        if order is not gradient_only:
            norms.append(factor.norm(e.gradient))
        p = two_loop(e.gradient, pairs, factor)
        if halvings > HALVINGS or not np.isfinite(p).all():
            break
        moved = line_search(objective, e, p, float(p @ e.gradient), order=order(norms), rounding=rounding)
        if moved is None:
            break
        f, step = moved
        halvings -= np.log2(step)
        dx, dg = f.w - e.w, f.gradient - e.gradient
        if dx @ dg > 1e-12 * np.linalg.norm(dx) * np.linalg.norm(dg):
            pairs[:] = [*pairs[1 - MEMORY :], (dx, dg)]
        e = f
    return e


def two_loop(g: Array, pairs: Pairs, factor: Metric) -> Array:
    """Return the L-BFGS direction H g, where ``factor`` is that of the first guess of the Hessian.

    >>> from oddsmith.numerics import factor_spd
    >>> two_loop(np.array([2.0]), [(np.array([1.0]), np.array([4.0]))], factor_spd(np.eye(1))).tolist()
    [0.5]
    """
    q = g.copy()
    alphas = []
    for dx, dg in reversed(pairs):
        alpha = (dx @ q) / (dx @ dg)
        q -= alpha * dg
        alphas.append(alpha)
    p = factor.solve(q)
    if pairs:  # as long as the last step says that the guess makes it
        dx, dg = pairs[-1]
        p *= (dx @ dg) / factor.norm(dg) ** 2
    for (dx, dg), alpha in zip(pairs, reversed(alphas), strict=True):
        p += dx * (alpha - (dg @ p) / (dx @ dg))
    return p


class Columnwise:
    """A metric in which columns do not depend on each other: ``A = B ⊗ 1 + 1 ⊗ diag(d)``, B (C × C) between classes.

    >>> Columnwise(np.array([[4.0]]), np.array([0.0, 4.0])).solve(np.array([8.0, 4.0])).tolist()
    [2.0, 0.5]
    """

    def __init__(self, B: Array, d: Array) -> None:
        values, self.vectors = np.linalg.eigh(B)
        self.diagonal = np.maximum(values, 0.0)[:, None] + d

    def solve(self, b: Array) -> Array:
        """Return ``A⁻¹ b``."""
        rotated = self.vectors.T @ b.reshape(self.diagonal.shape)
        x: Array = (self.vectors @ (rotated / self.diagonal)).ravel()
        return x

    def norm(self, b: Array) -> float:
        """Return ``sqrt(bᵀ A⁻¹ b)``."""
        rotated = self.vectors.T @ b.reshape(self.diagonal.shape)
        return float(np.sqrt((rotated**2 / self.diagonal).sum()))
