"""Coordinate descent on a quadratic function with a sparse penalty, by blocks of coordinates."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.native import QuadraticProblem, address, kernels
from oddsmith.numerics import Array


@dataclass(frozen=True)
class Blocks:
    """A partition of some coordinates: block b has ``member[first[b]:first[b + 1]]`` and the penalty ``strength[b]``.

    The penalty of a block is its strength times the Euclidean norm of its coordinates.
    """

    first: npt.NDArray[np.int64]
    member: npt.NDArray[np.int64]
    strength: Array

    @classmethod
    def single(cls, strength: Array) -> Blocks:
        """Return a block for each coordinate.

        >>> Blocks.single(np.ones(2)).member.tolist()
        [0, 1]
        """
        return cls(np.arange(len(strength) + 1), np.arange(len(strength)), strength)

    @property
    def is_single(self) -> bool:
        """Whether every block has one coordinate."""
        return len(self.member) == len(self.strength)

    def norms(self, x: Array) -> Array:
        """Return the norm of each block of ``x``."""
        if self.is_single:
            return np.abs(x[self.member])
        return np.asarray(np.sqrt(np.add.reduceat(x[self.member] ** 2, self.first[:-1])))

    def of_members(self, each: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what stands for each block, for each of its members in their order."""
        return each if self.is_single else np.repeat(each, np.diff(self.first))


def bounds(H: Array, blocks: Blocks) -> Array:
    """Return the largest eigenvalue of each block of ``H``, or a little more."""
    diagonal = np.diag(H)[blocks.member]
    if blocks.is_single:
        return np.ascontiguousarray(diagonal)
    result = np.empty(len(blocks.strength))
    for b, (start, stop) in enumerate(zip(blocks.first[:-1], blocks.first[1:], strict=True)):
        which = blocks.member[start:stop]
        result[b] = (
            np.linalg.eigvalsh(H[np.ix_(which, which)])[-1] * (1.0 + 1e-12) if stop - start > 1 else diagonal[start]
        )
    return result


def descend(H: Array, r: Array, x: Array, blocks: Blocks, bound: Array, *, tol: float, sweeps: int) -> int:
    """Move ``x`` towards the minimum of ``rᵀd + ½ dᵀHd + Σ_b strength_b ‖x_b + d_b‖``, and ``r`` (the gradient) with it.

    Return the number of sweeps over the blocks: fewer than ``sweeps`` if the last one gained no more than ``tol`` in any
    block.

    >>> x, r = np.zeros(2), np.array([-3.0, 0.5])
    >>> blocks = Blocks.single(np.ones(2))
    >>> descend(np.eye(2), r, x, blocks, np.ones(2), tol=0.0, sweeps=9), x.tolist(), r.tolist()
    (3, [2.0, 0.0], [-1.0, 0.5])
    """
    native = kernels()
    if native is None:
        return _descend(H, r, x, blocks, bound, tol, sweeps)
    active = np.zeros(len(blocks.strength), dtype=np.int8)
    problem = QuadraticProblem(
        size=len(x),
        blocks=len(blocks.strength),
        sweeps=sweeps,
        H=address(H),
        first=address(blocks.first),
        member=address(blocks.member),
        penalty=address(blocks.strength),
        bound=address(bound),
        x=address(x),
        r=address(r),
        tol=tol,
        active=address(active),
    )
    native("quadratic", ctypes.byref(problem))
    return int(problem.done)


def _descend(H: Array, r: Array, x: Array, blocks: Blocks, bound: Array, tol: float, sweeps: int) -> int:
    """Do the same in NumPy: the definition."""
    active = np.zeros(len(bound), dtype=bool)

    def sweep(which: npt.NDArray[np.intp]) -> float:
        most = 0.0
        for b in which:
            member = blocks.member[blocks.first[b] : blocks.first[b + 1]]
            z = x[member] - r[member] / bound[b]
            size = float(np.linalg.norm(z))
            new = (
                z * (1.0 - blocks.strength[b] / (bound[b] * size)) if size * bound[b] > blocks.strength[b] else 0.0 * z
            )
            step = new - x[member]
            x[member], active[b] = new, new.any()
            r[:] += step @ H[member]
            most = max(most, float(bound[b] * (step @ step)))
        return most

    done, present = 0, np.flatnonzero(bound > 0.0)
    while done < sweeps:
        gain, done = sweep(present), done + 1
        if gain <= tol:
            break
        while done < sweeps and gain > tol:
            gain, done = sweep(np.flatnonzero(active)), done + 1
    return done
