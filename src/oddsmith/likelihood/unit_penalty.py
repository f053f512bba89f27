"""The penalty of a `LaplacePrior` at scale 1, in the coordinates of the solver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.coordinate_descent import Blocks
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array
from oddsmith.solvers.proximal_newton import SparsePenalty


def common_scales(scale: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Return scales that are the same in a group, so that its norm is that of its weights."""
    scale = scale.copy()
    for group in groups:
        scale[list(group)] = np.exp(np.log(scale[list(group)]).mean())
    return scale


def unit_penalty(problem: Problem, objective: FoldObjective, groups: Sequence[Sequence[int]]) -> SparsePenalty:
    """Return the penalty at scale 1 in the solver's coordinates."""
    assert problem.laplace is not None
    C, P = objective.shape
    strength = problem.laplace.strengths(P - 1) / objective.scale
    together = problem.laplace.groups == "class" and C > 1
    alone = np.arange(P - 1)
    if groups:
        alone = np.setdiff1d(alone, np.concatenate(groups).astype(np.intp))
    place, sizes, strengths = _class_blocks(C, P, strength) if together else _blocks(C, P, strength, groups, alone)
    if problem.intercept:
        place = np.concatenate([place, np.arange(C) * P])
        sizes, strengths = np.append(sizes, np.ones(C, dtype=np.int64)), np.append(strengths, np.zeros(C))
    first = np.concatenate([[0], np.cumsum(sizes)])
    shared = C if C == problem.K > 2 and objective.penalty is None else 1  # a ridge ties the classes together itself
    blocks = Blocks(first.astype(np.int64), place.astype(np.int64), strengths, shared)
    ridge = np.zeros((C, P)) if objective.penalty is None else objective.penalty.diagonal(C).copy()
    return SparsePenalty(blocks, ridge.ravel(), 0.0)


def _class_blocks(C: int, P: int, strength: Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array]:
    """Return the places, sizes and strengths of blocks of a column's weights of all classes."""
    place = np.arange(1, P)[:, None] + np.arange(C) * P
    return place.ravel(), np.full(P - 1, C), strength


def _blocks(
    C: int, P: int, strength: Array, groups: Sequence[Sequence[int]], alone: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array]:
    """Return the places, sizes and strengths of blocks of groups of columns, then of single ones, in each class."""
    columns = [np.asarray(group, dtype=np.intp) for group in groups]
    sizes = [len(group) for group in columns] + [1] * len(alone)
    one = np.concatenate([*columns, alone])
    own = [float(np.sqrt(len(group)) * strength[group].mean()) for group in columns]
    place = (1 + one)[None, :] + (np.arange(C) * P)[:, None]
    return (
        place.ravel(),
        np.tile(np.asarray(sizes, dtype=np.int64), C),
        np.tile(np.concatenate([own, strength[alone]]), C),
    )
