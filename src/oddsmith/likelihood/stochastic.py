"""One epoch of stochastic gradient descent over the rows of an objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from oddsmith.engines import MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.sgd import run_epoch
from oddsmith.numerics import Array

if TYPE_CHECKING:
    from oddsmith.likelihood.objective import FoldObjective

CHUNK_ELEMENTS = 4_000_000


def sgd_epoch(
    objective: FoldObjective, w: Array, rng: np.random.Generator, steps: Array, total: float | None = None
) -> tuple[Array, Array]:
    """Return the weights after one epoch over the rows in random order, and the mean of the iterates.

    The rows are part of data of weight ``total`` (default: all of it), over which the prior is spread.
    """
    _check(objective)
    source, penalty = objective.source, objective.penalty
    assert isinstance(source, MemorySource)
    V = np.array(w.reshape(objective.shape))
    C, P = objective.shape
    decay = np.zeros((C, P)) if penalty is None else penalty.diagonal(C) / (total or objective.weight)
    target = np.zeros((C, P)) if penalty is None else penalty.mean
    mean, seen, n = np.zeros((C, P)), 0, objective.n_rows
    for start, stop in [(0, n)] if source.transform is None else source.slices():
        block = source.block(start, stop).concrete()
        order = rng.permutation(stop - start)
        for part in np.array_split(order, max(1, len(order) * P // CHUNK_ELEMENTS)):
            rows = block.Phi.take(part).dense()
            s = block.weights()[part] * (n / objective.weight)
            offset = np.zeros((len(part), C)) if block.offset is None else block.offset[part]
            arguments = (rows, block.t[part], s, offset, objective.center, objective.scale, objective.T)
            some = run_epoch(*arguments, decay, target, V, steps[seen : seen + len(part)])
            seen += len(part)
            mean += (some - mean) * (len(part) / seen)
    V[~objective.free] = 0.0
    mean[~objective.free] = 0.0
    return V.ravel(), mean.ravel()


def _check(objective: FoldObjective) -> None:
    """Refuse problems that stochastic gradient descent does not support."""
    if objective.whitening is not None:
        raise InvalidInputError(
            "Stochastic gradient descent takes no whitened kernel of this size. Use solver='auto', or whiten=False."
        )
    if objective.link is not None:
        raise InvalidInputError(
            f"Stochastic gradient descent is for link='logit', found {objective.link.name!r}. Use solver='newton'."
        )
    if objective.penalty is not None and objective.penalty.Q.ndim == 2:
        raise InvalidInputError(
            "Stochastic gradient descent takes a prior that is independent from weight to weight and leaves the "
            "intercept free: a scale, a variance, or one variance a column. Use solver='newton' for this one."
        )
