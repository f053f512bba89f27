"""Passes of two classes over the rows of a table, made ready by one thread and run by any.

All that takes time is the call of the kernel, which is not Python: threads that make arrays wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oddsmith.block import Block
from oddsmith.kernels.native import Kernels, TableProblem
from oddsmith.kernels.reference import CurvatureParams, Sums
from oddsmith.kernels.table import LOGISTIC, HessianRoom, Layout, TableKernel
from oddsmith.numerics import Array


@dataclass(frozen=True, eq=False, kw_only=True)
class LogisticPass:
    """A pass of two classes over some rows, ready for any thread: `run` alone takes time, and is not Python."""

    kernels: Kernels
    problem: TableProblem
    g: Array
    room: HessianRoom | None

    @classmethod
    def over(
        cls, kernels: Kernels, block: Block, at: CurvatureParams, h: Array | None, slices: Sequence[tuple[int, int]]
    ) -> list[LogisticPass]:
        """Return a pass over each slice of the rows of a block; ``h`` takes the curvatures of all of them."""
        layout, passes = Layout.of(block), list[LogisticPass]()
        table, (w, inverse) = TableKernel(kernels, layout, at.center), _point(layout, at)
        for start, stop in slices:
            part = layout.problem if stop - start == block.n_rows else layout.rows(start, stop)
            room = HessianRoom.of(layout, at.eliminated, at.cells) if at.order >= 2 else None
            fields, g = {} if room is None else room.fields(), layout.zeros()
            rows = None if h is None else h[start:stop]
            problem = table.problem(part, w=w, inverse=inverse, rows=rows, g=g, **fields)
            passes.append(cls(kernels=kernels, problem=problem, g=g, room=room))
        return passes

    def run(self) -> None:
        """Read the rows."""
        self.kernels("table", self.problem, LOGISTIC)

    @staticmethod
    def total(passes: Iterable[LogisticPass]) -> Sums:
        """Return the sums of all passes, which have run, in the memory of the first."""
        first, *others = passes
        value, longest = first.problem.value, first.problem.max_norm2
        for one in others:
            value, longest = value + one.problem.value, max(longest, one.problem.max_norm2)
            np.add(first.g, one.g, out=first.g)
            if first.room is not None and one.room is not None:
                first.room.add(one.room)
        return value, first.g[None, :-1], None if first.room is None else first.room.result(), longest


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelSums:
    """The sums of two classes, over the rows of each of some ranges of levels of the factor eliminated.

    The sums of the levels, ``g`` and those in ``room``, are shared: no two ranges of levels write to the same ones.
    ``passes`` are those of the ranges, each with its sums of all other columns and its part of the Hessian.
    """

    kernels: Kernels
    eliminated: tuple[int, int]
    g: Array
    room: HessianRoom
    passes: list[tuple[TableProblem, Array, Array]]

    @classmethod
    def of(
        cls, kernels: Kernels, block: Block, at: CurvatureParams, ranges: list[tuple[int, int]], h: Array | None
    ) -> LevelSums:
        """Return sums over ranges of levels (from, to), of which the last one is that of no column.

        ``h`` takes the curvatures of the rows.
        """
        layout, columns = Layout.of(block), at.eliminated
        assert columns is not None
        room, g = HessianRoom.of(layout, columns, at.cells, len(ranges)), layout.zeros()
        w, inverse = _point(layout, at)
        table, passes = TableKernel(kernels, layout, at.center), []
        for k, (first, end) in enumerate(ranges):
            own, A = np.zeros(len(room.A)), room.A if k == 0 else np.zeros_like(room.A)
            fields = {**room.fields(), "A": A, "spare": k, "first_level": first, "end_level": end, "level_g": g}
            passes.append((table.problem(layout.problem, w=w, inverse=inverse, rows=h, g=own, **fields), own, A))
        return cls(kernels=kernels, eliminated=columns, g=g, room=room, passes=passes)

    def run(self, k: int) -> None:
        """Read the rows of range k."""
        self.kernels("table", self.passes[k][0], LOGISTIC)

    def total(self) -> Sums:
        """Return the sums of all ranges."""
        value, longest, (first, last) = 0.0, 0.0, self.eliminated
        for problem, own, A in self.passes:
            value, longest = value + problem.value, max(longest, problem.max_norm2)
            self.g[: 1 + first] += own[: 1 + first]
            self.g[1 + last : -1] += own[1 + first : -1]
            if A is not self.room.A:
                np.add(self.room.A, A, out=self.room.A)
        return value, self.g[None, :-1], self.room.result(), longest


def _point(layout: Layout, at: CurvatureParams) -> tuple[Array, Array | None]:
    """Return the weights of two classes and, if they are asked for, the inverse scales, as the kernel takes them."""
    inverse = None if at.inverse is None else layout.weights(at.inverse, 0.0)
    return layout.weights(at.W[0], float(at.b[0])), inverse
