"""Searches on rows of half precision, corrected by a few gradients of the exact ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oddsmith.numerics import Array, SpdFactor
from oddsmith.solvers.base import Evaluation, Recorder
from oddsmith.solvers.lbfgs import Columnwise, Pairs, descend
from oddsmith.solvers.proof import Proof

ROUGH = (0.15, 1.0)
"""So many standard errors a weight from the optimum a Hessian is nearly as good as there: of two classes, of more. The
Hessian of several classes is the better metric by far, and sooner of use."""
PROGRESS = 0.2
"""What a search leaves of the exact gradient, at most; else coarse rows do not tell what is wanted."""
STEPS = 25
BLUR = 1e-7
"""Relative rounding of a sum over coarse rows, with room to spare."""
BLUR_OF_HESSIAN = 5e-4
"""The Hessian of coarse rows is off by so much of itself, times √(columns / rows), and so is an optimum found there."""
MARGIN = 0.2
"""A search goes on to this part of the gradient that a certificate needs: it costs little there."""


def corrected(
    objective: Any,
    proof: Proof,
    metric: Callable[[Evaluation, Any], SpdFactor],
    close: Callable[[Evaluation], bool],
    recorder: Recorder,
) -> Evaluation:
    """Return the evaluation near the optimum, found on coarse rows with few passes over the exact ones.

    1. The pass over the exact rows that makes the coarse ones gives the gradient at the start.
    2. Where the exact gradient is known, its difference from the coarse one is added to the latter from then on: the
       optimum that is found comes closer by a factor of hundreds each time.
    3. Near it, the sample's Hessian becomes the metric; or its diagonal, where columns do not depend on each other. If
       the optimum would not come close enough from the start, the exact gradient is taken here, too.
    """
    pairs: Pairs = []
    e: Evaluation
    coarse, e = objective.coarsened(proof.guess.w)  # 1
    far = proof.guess.hessian is None
    blur = BLUR_OF_HESSIAN * np.sqrt(objective.shape[1] / objective.n_rows)
    left, rough = np.inf, ROUGH[objective.shape[0] > 1] * np.sqrt(objective.size)
    for _ in range(4):
        near: Evaluation = coarse.evaluate(e.w)
        before, left = left, proof.metric.norm(e.gradient)
        if close(e) or not np.isfinite(near.gradient).all() or left > PROGRESS * before:
            break
        recorder.add(e, 1.0)
        tilted, x = Tilted(coarse, e.gradient - near.gradient), e.w  # 2
        if far:
            x, found = _search(tilted, x, proof, pairs, lambda _: rough)
            if not found:
                e = objective.evaluate(x)
                break
            far = False
            if isinstance(proof.metric, Columnwise) and objective.shape[0] == 1:  # 3
                proof.metric = Columnwise(np.zeros((1, 1)), proof.sample.preconditioner(x).rest[0])
            else:
                proof.move(x)
                proof.metric = metric(proof.guess, proof.sample)
            left = proof.metric.norm(e.gradient)
            if blur * left > proof.needed(e):
                e = objective.evaluate(x)
                continue
        x, found = _search(tilted, x, proof, pairs, partial(_goal, proof, 1e-5 * left))
        e = objective.evaluate(x)
        if not found:
            break
    return e


def _goal(proof: Proof, least: float, e: Evaluation) -> float:
    return max(least, MARGIN * proof.needed(e))


def _search(
    tilted: Tilted, x: Array, proof: Proof, pairs: Pairs, goal: Callable[[Evaluation], float]
) -> tuple[Array, bool]:
    """Return where the gradient is as small as the goal, in the metric, and whether that was found in a few steps."""
    factor = proof.metric

    def reached(e: Evaluation) -> bool:
        return factor.norm(e.gradient) <= goal(e)

    e = descend(tilted, x, factor, reached, STEPS, None, pairs=pairs, rounding=BLUR)
    return e.w, reached(e)


@dataclass(frozen=True)
class Tilted:
    """An objective with a linear function added to it."""

    objective: Any
    tilt: Array

    def evaluate(self, x: Array, order: int = 1) -> Evaluation:
        """Return value and gradient."""
        e: Evaluation = self.objective.evaluate(x, order)
        return replace(e, value=e.value + float(self.tilt @ x), gradient=e.gradient + self.tilt)
