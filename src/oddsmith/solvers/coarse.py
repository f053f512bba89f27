"""Searches on rows of half precision, corrected by a few gradients of the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oddsmith.numerics import Array, SpdFactor
from oddsmith.solvers.base import Evaluation, Recorder
from oddsmith.solvers.lbfgs import Pairs, descend
from oddsmith.solvers.proof import Proof

ROUGH = 0.05
"""So many standard errors a weight from the optimum a Hessian is as good as there."""
MARGIN = 0.1
"""A search goes on to this part of the gradient that a certificate needs: it costs little there."""


def corrected(
    objective: Any,
    proof: Proof,
    metric: Callable[[Evaluation, Any], SpdFactor],
    close: Callable[[Evaluation], bool],
    recorder: Recorder,
) -> Array:
    """Return a point near the optimum that is found on coarse rows, with few passes over the exact ones.

    1. The pass over the exact rows that makes the coarse ones gives the gradient at the start.
    2. Where the exact gradient is known, its difference from the coarse one is added to the latter from then on: the
       optimum that is found comes closer by a factor of hundreds each time.
    3. Near it, the sample's Hessian is evaluated for the proof; it serves as the metric, too, unless that is simple.
    """
    pairs: Pairs = []
    e: Evaluation
    coarse, e = objective.coarsened(proof.guess.w)  # 1
    for _ in range(4):
        near: Evaluation = coarse.evaluate(e.w)
        if close(e) or not np.isfinite(near.gradient).all():
            break
        recorder.add(e, 1.0)
        tilted, x = Tilted(coarse, e.gradient - near.gradient), e.w  # 2
        if proof.guess.hessian is None:
            x = _search(tilted, x, proof, pairs, lambda f: ROUGH * np.sqrt(objective.size))
            proof.move(x)  # 3
            plain = isinstance(proof.metric, Isotropic) and objective.shape[0] == 1
            proof.metric = Isotropic.near(proof.guess) if plain else metric(proof.guess, proof.sample)
        least = 1e-5 * proof.metric.norm(e.gradient)
        e = objective.evaluate(_search(tilted, x, proof, pairs, partial(_goal, proof, least)))
    return e.w


def _goal(proof: Proof, least: float, e: Evaluation) -> float:
    return max(least, MARGIN * proof.needed(e))


def _search(tilted: Tilted, x: Array, proof: Proof, pairs: Pairs, goal: Callable[[Evaluation], float]) -> Array:
    """Return where the gradient is as small as the goal, in the metric."""
    factor = proof.metric
    return descend(tilted, x, factor, lambda f: factor.norm(f.gradient) <= goal(f), 40, None, pairs=pairs).w


@dataclass(frozen=True)
class Tilted:
    """An objective with a linear function added to it; ``blur`` is the relative rounding of its value."""

    objective: Any
    tilt: Array
    blur: float = 1e-7

    def evaluate(self, x: Array, order: int = 1) -> Evaluation:
        """Return value and gradient."""
        e: Evaluation = self.objective.evaluate(x, order)
        return replace(e, value=e.value + float(self.tilt @ x), gradient=e.gradient + self.tilt)


class Isotropic:
    """A metric in which columns do not depend on each other: ``A = B ⊗ 1`` with B (C × C) between classes.

    >>> Isotropic(np.array([[4.0]])).solve(np.array([8.0, 4.0])).tolist()
    [2.0, 1.0]
    """

    def __init__(self, B: Array) -> None:
        self.inverse = np.linalg.inv(B)

    @classmethod
    def near(cls, e: Evaluation) -> Isotropic:
        """Return what the Hessian at a point is on the mean, for two classes."""
        assert e.hessian is not None
        return cls(np.array([[np.diag(e.hessian).mean()]]))

    def solve(self, b: Array) -> Array:
        """Return ``A⁻¹ b``."""
        x: Array = (self.inverse @ b.reshape(len(self.inverse), -1)).ravel()
        return x

    def norm(self, b: Array) -> float:
        """Return ``sqrt(bᵀ A⁻¹ b)``."""
        return float(np.sqrt(max(float(b @ self.solve(b)), 0.0)))
