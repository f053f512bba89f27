"""Losses over the rows of a table, and the curvature sums that come of them."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal
from oddsmith.kernels.native import Kernels, address, contiguous
from oddsmith.kernels.reference import CurvatureParams, Sums
from oddsmith.kernels.table import (
    DIRECTION,
    GIVEN,
    GRADIENT,
    OWN,
    PAIRS,
    HessianRoom,
    Layout,
    TableKernel,
    by_place,
    check_codes,
)
from oddsmith.kernels.table_passes import LogisticPass
from oddsmith.losses import row_losses
from oddsmith.numerics import Array

CHUNK, LEAST_ROWS = 1 << 13, 1 << 12
"""Activations that are held at a time, to save memory, and rows at least (ten classes with 4,037 levels: 38 s of
processor time, 68 with 1,024)."""


def curvature(kernels: Kernels, block: Block, at: CurvatureParams, h: Array | None = None) -> Sums:
    """As `reference.curvature`; ``h`` takes the curvatures of the rows of two classes, if it is given."""
    table, C = TableKernel(kernels, Layout.of(block), at.center), len(at.b)
    if C == 1 and at.link is None:
        (whole,) = LogisticPass.over(kernels, block, at, h, [(0, block.n_rows)])
        whole.run()
        return LogisticPass.total([whole])
    longest = 0.0 if at.inverse is None else table.longest(at.inverse)
    if C > 1 and at.order < 2:
        value, gradient, _ = table.classes(block, at, GRADIENT, C)
        return value, gradient, None, longest
    pairs = _pairs(C) if at.order >= 2 else []
    G, rooms = np.zeros((C, table.layout.size + 1)), [HessianRoom.of(table.layout, at.eliminated) for _ in pairs]
    total = 0.0
    for some, losses in _class_losses(kernels, block, at):
        total += losses.value
        some.add_gradient(losses.gradient, G)
        for room, (j, k) in zip(rooms, pairs, strict=True):
            some.run(GIVEN, rows=losses.curvature(j, k), **room.fields())
    blocks: Any = {pair: room.result() for pair, room in zip(pairs, rooms, strict=True)}
    if C == 1 or not blocks:
        return total, G[:, :-1], blocks.get((0, 0)), longest
    return total, G[:, :-1], np.block([[blocks[max(j, k), min(j, k)] for k in range(C)] for j in range(C)]), longest


def curvature_product(kernels: Kernels, block: Block, at: CurvatureParams, h: Array | None) -> Array:
    """As `reference.curvature_product`; ``h`` are the curvatures of the rows of two classes, where they are known."""
    table, C, (V, v) = TableKernel(kernels, Layout.of(block), at.center), len(at.b), at.direction
    if C == 1 and at.link is None:
        return table.product(table.curvatures(at) if h is None else h, V, v)
    if C > 1:
        return table.classes(block, at, DIRECTION, C, by_place(V, v))[1]
    G = np.zeros((C, table.layout.size + 1))
    for some, losses in _class_losses(kernels, block, at):
        some.add_gradient(losses.curvature(0, 0) * some.activations(V, v), G)
    return G[:, :-1]


def curvature_diagonal(kernels: Kernels, block: Block, at: CurvatureParams, h: Array | None) -> tuple[Array, Array]:
    """As `reference.curvature_diagonal`."""
    table, C = TableKernel(kernels, Layout.of(block), at.center), len(at.b)
    if C == 1 and at.link is None:
        flat = h is None and not (at.W.any() or at.b.any() or block.offset is not None)
        cross, diagonal = table.sums_of(table.curvatures(at) if h is None and not flat else h, squares=True)
        return diagonal[None], cross[None]
    if C > 1:
        return table.classes(block, at, OWN, C)[:0:-1]
    cross, diagonal = np.zeros((2, C, table.layout.size + 1))
    for some, losses in _class_losses(kernels, block, at):
        some.run(GIVEN, rows=losses.curvature(0, 0), g=cross[0], squares=diagonal[0])
    return diagonal[:, :-1], cross[:, :-1]


def curvature_intercepts(kernels: Kernels, block: Block, at: CurvatureParams) -> Array:
    """As `reference.curvature_intercepts`."""
    C = len(at.b)
    return TableKernel(kernels, Layout.of(block), at.center).classes(block, at, PAIRS, C * (C + 1) // 2)[1]


def class_hessians(
    kernels: Kernels, block: Block, at: CurvatureParams, columns: tuple[int, int], *, common: bool
) -> tuple[Array, list[BorderedDiagonal]]:
    """Return the Hessian of each pair of classes, (0, 0), (1, 0), (1, 1) …, the factor of ``columns`` as a diagonal.

    Or one that is ``common`` to them, each row times the trace of its second derivatives. Before, the sum of those of
    all rows (C × C).
    """
    layout, C = Layout.of(block), len(at.b)
    pairs = [(-1, -1)] if common else _pairs(C)
    rooms, total, found = [HessianRoom.of(layout, columns, at.cells) for _ in pairs], np.zeros((C, C)), []
    for some, losses in _class_losses(kernels, block, at):
        total += losses.between()
        for room, (j, k) in zip(rooms, pairs, strict=True):
            some.run(GIVEN, rows=losses.trace() if common else losses.curvature(j, k), **room.fields())
    for room in rooms:
        H = room.result()
        assert isinstance(H, BorderedDiagonal)
        found.append(H)
    return total, found


def _pairs(C: int) -> list[tuple[int, int]]:
    return [(j, k) for j in range(C) for k in range(j + 1)]


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassLosses:
    """The losses of some rows times their weights ``s``: the sum, and ``gradient`` in the activations (C × n).

    Their curvatures come from the probabilities ``P`` of several classes (K × n), or are those of a link, ``second``.
    """

    value: float
    gradient: Array
    s: Array | None
    P: Array | None = None
    second: Array | None = None

    @classmethod
    def of(cls, table: TableKernel, block: Block, at: CurvatureParams) -> ClassLosses:
        A, s = table.activations(at.W, at.b), block.s
        if block.offset is not None:
            A += block.offset.T
        if at.link is None:
            total, P = ctypes.c_double(), np.empty((len(A) + 1, block.n_rows))
            t, weights = np.ascontiguousarray(block.t, dtype=np.int32), contiguous(s)
            rows = block.n_rows, len(A), 1
            table.kernels("softmax", address(A), *rows, address(t), address(weights), address(P), total)
            return cls(value=total.value, gradient=A, s=s, P=P)
        if s is not None:
            A = np.where(s > 0, A, at.link.link(np.array([0.5])))  # a row of weight 0 may be impossible
        losses = row_losses(A.T, block.t, at.link, expected=at.expected)
        value, gradient = losses.value, losses.gradient.T
        if s is not None:
            value, gradient = value * s, gradient * s
        return cls(value=float(value.sum()), gradient=gradient, s=s, second=losses.curvature(0, 0))

    def curvature(self, j: int, k: int) -> Array:
        """Return the second derivatives between two activations (n)."""
        h = self.second
        if self.P is not None:
            h = (1.0 - np.eye(len(self.P)))[j + 1] @ self.P if j == k else -self.P[k + 1]
            h *= self.P[j + 1]
        assert h is not None
        return np.ascontiguousarray(h if self.s is None else h * self.s)

    def trace(self) -> Array:
        """Return the sum of the second derivatives in the activations of all K classes (n)."""
        assert self.P is not None
        h: Array = 1.0 - np.einsum("kn,kn->n", self.P, self.P)
        return h if self.s is None else h * self.s

    def between(self) -> Array:
        """Return the sum of the second derivatives of all rows (C × C)."""
        assert self.P is not None
        P = self.P[1:]
        weighted = P if self.s is None else P * self.s
        total: Array = np.diag(weighted.sum(axis=1)) - weighted @ P.T
        return total


def _class_losses(kernels: Kernels, block: Block, at: CurvatureParams) -> Iterator[tuple[TableKernel, ClassLosses]]:
    """Yield the kernel over some rows at a time, to save memory, with their losses."""
    if at.link is None:
        check_codes(block, len(at.b))
    step = max(LEAST_ROWS, CHUNK // len(at.b))
    for start in range(0, block.n_rows, step):
        rows = slice(start, start + step)
        part = block
        if block.n_rows > step:
            s, offset = (None if array is None else array[rows] for array in (block.s, block.offset))
            part = Block(block.Phi.slice(start, min(start + step, block.n_rows)), block.t[rows], s, offset)
        table = TableKernel(kernels, Layout.of(part), at.center)
        yield table, ClassLosses.of(table, part, at)
