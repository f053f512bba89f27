"""Coordinate descent on a quadratic function with a sparse penalty, by blocks of coordinates."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.cached_property import cached_property
from oddsmith.kernels.native import QuadraticProblem, addresses, kernels
from oddsmith.numerics import Array

LARGE_BLOCK = 400  # Size of a block from which its largest eigenvalue takes longer than the rest: 0.17 s of 2,500.
BOUND_PRODUCTS = 8  # Products for a bound of it: more bring it little nearer.


@dataclass(frozen=True)
class Blocks:
    """A partition of some coordinates: block b has ``member[first[b]:first[b + 1]]`` and the penalty ``strength[b]``.

    The penalty of a block is its strength times the Euclidean norm of its coordinates. With ``classes`` above 1 the
    coordinates are so many equally long parts, one for each softmax class: what is added to all of them alike changes
    the penalty alone.
    """

    first: npt.NDArray[np.int64]
    member: npt.NDArray[np.int64]
    strength: Array
    classes: int = 1

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

    def settled(self, x: Array) -> Array:
        """Return ``x`` with what all classes share chosen for the least penalty: a median of zero, or a mean in groups.

        With an even number of classes every number between two weights is a median: the one of the two that leaves the
        lesser sum of squares becomes zero. So the result depends on the differences of the classes alone, and one of
        its weights is zero. Single blocks and blocks of one column's classes are settled, others stay.

        >>> Blocks(np.arange(4), np.arange(3), np.ones(3), classes=3).settled(np.array([1.0, 2.0, 4.0])).tolist()
        [-1.0, 0.0, 2.0]
        >>> Blocks(np.arange(5), np.arange(4), np.ones(4), classes=4).settled(np.array([-2.0, -1.0, 1.0, 4.0])).tolist()
        [-3.0, -2.0, 0.0, 3.0]
        """
        if self.classes == 1:
            return x
        X, (alone, together) = x.reshape(self.classes, -1), self.settles
        shared = mean = X.mean(axis=0)
        if alone.any():
            ordered = np.sort(X, axis=0)
            low, high = ordered[(self.classes - 1) // 2], ordered[self.classes // 2]
            shared = np.where(alone, np.where(low + high < 2.0 * mean, high, low), mean)
        return np.asarray(np.where(alone | together, X - shared, X).ravel())

    @cached_property
    def settles(self) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which columns have a penalty, each of their weights alone; and which have one, of all classes together."""
        P = (int(self.member.max(initial=-1)) + self.classes) // self.classes
        column, penalised = self.member % max(P, 1), self.strength > 0.0
        if self.is_single:
            return np.bincount(column[penalised], minlength=P) > 0, np.zeros(P, dtype=bool)
        sizes = np.diff(self.first)
        same = np.minimum.reduceat(column, self.first[:-1]) == np.maximum.reduceat(column, self.first[:-1])
        result = np.zeros((2, P), dtype=bool)
        for which, blocks in enumerate((sizes == 1, same & (sizes == self.classes))):
            result[which, column[self.of_members(blocks & penalised)]] = True
        return result[0], result[1]

    def of_members(self, each: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what stands for each block, for each of its members in their order."""
        return each if self.is_single else np.repeat(each, np.diff(self.first))


def bounds(H: Array | npt.NDArray[np.float32], blocks: Blocks) -> Array:
    """Return the largest eigenvalue of each block of ``H``, or a little more."""
    diagonal = np.diag(H)[blocks.member]
    if blocks.is_single:
        return np.ascontiguousarray(diagonal, dtype=np.float64)
    result = np.empty(len(blocks.strength))
    for b, (start, stop) in enumerate(zip(blocks.first[:-1], blocks.first[1:], strict=True)):
        which = blocks.member[start:stop]
        result[b] = _largest_eigenvalue(H[np.ix_(which, which)]) if stop - start > 1 else diagonal[start]
    return result


def _largest_eigenvalue(A: npt.NDArray[Any]) -> float:
    """Return the largest eigenvalue, or a little more; of a large matrix, a bound that takes a few products.

    For any positive x, no eigenvalue of A or |A| is above ``max (|A| x) / x`` (Collatz and Wielandt): x is brought near
    the eigenvector of |A|. Where rows are levels, |A| is nearly diagonal, and its largest eigenvalue near that of A.
    """
    if len(A) <= LARGE_BLOCK:
        return float(np.linalg.eigvalsh(A)[-1] * (1.0 + 1e-12))
    B, x = np.abs(A), np.ones(len(A))
    for _ in range(BOUND_PRODUCTS):
        y = B @ x
        x = y / max(float(y.max()), np.finfo(np.float64).tiny) + 1e-3
    return float(((B @ x) / x).max() * (1.0 + 1e-12))


def typical_gain(precision: float, penalty: Array, diagonal: Array) -> float:
    """Return the gain of a step that misses the conditions of an optimum by ``precision`` times the penalty.

    >>> (
    ...     typical_gain(0.1, np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 0.0])),
    ...     typical_gain(0.1, np.ones(1), np.zeros(1)),
    ... )
    (0.04000000000000001, 0.0)
    """
    known = diagonal > 0.0
    gains, middle = penalty[known] ** 2 / diagonal[known], np.count_nonzero(known) // 2
    return precision**2 * float(np.partition(gains, middle)[middle]) if len(gains) else 0.0  # a median, but quicker


def descend(
    H: Array | npt.NDArray[np.float32],
    r: Array,
    x: Array,
    blocks: Blocks,
    bound: Array,
    *,
    tol: float,
    sweeps: int,
    negligible: float = 0.0,
) -> int:
    """Move ``x`` towards the minimum of ``rᵀd + ½ dᵀHd + Σ_b strength_b ‖x_b + d_b‖``, and the gradient ``r`` with it.

    H may be of single precision, and a part of a larger matrix: its rows are contiguous.
    Return the number of sweeps over the blocks: fewer than ``sweeps`` if no block gained more than ``tol`` in the last.
    A single coordinate that would gain less than ``negligible`` may stay where it is.

    >>> x, r = np.zeros(2), np.array([-3.0, 0.5])
    >>> blocks = Blocks.single(np.ones(2))
    >>> descend(np.eye(2), r, x, blocks, np.ones(2), tol=0.0, sweeps=9), x.tolist(), r.tolist()
    (3, [2.0, 0.0], [-1.0, 0.5])
    """
    native = kernels()
    if native is None:
        return _descend(H, r, x, blocks, bound, tol, sweeps)
    active = np.zeros(len(blocks.strength), dtype=np.int8)
    fields = addresses(first=blocks.first, member=blocks.member, penalty=blocks.strength, bound=bound)
    fields |= addresses(H=H, x=x, r=r, active=active)
    how = {"stride": H.strides[0] // H.itemsize, "single": int(H.dtype == np.float32)}
    problem = QuadraticProblem(size=len(x), blocks=len(blocks.strength), sweeps=sweeps, tol=tol, **how, **fields)
    problem.negligible = negligible
    native("quadratic", ctypes.byref(problem))
    return int(problem.done)


def _descend(
    H: Array | npt.NDArray[np.float32], r: Array, x: Array, blocks: Blocks, bound: Array, tol: float, sweeps: int
) -> int:
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
