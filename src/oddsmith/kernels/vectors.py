"""Loops over rows in vector registers, as LLVM instructions.

Left alone, the compiler sums the columns that do not fill a register one by one, and each row on its own. Here columns
are taken in groups, the last of which overlaps the one before it (the overlap counts once, see `pack`), and the sums of
eight rows are added pairwise together. Half-precision rows are summed in single precision, others in double.
"""

from __future__ import annotations

from collections.abc import Callable
from platform import machine
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from oddsmith.kernels.scalar import prefetch_line

FLAGS = ("contract", "reassoc", "nsz")
HALF, SINGLE, DOUBLE = ir.HalfType(), ir.FloatType(), ir.DoubleType()
INDEX, SHORT = ir.IntType(64), ir.IntType(32)
ROWS = 8
STORED = {"float64": (DOUBLE, DOUBLE, 8), "float32": (SINGLE, DOUBLE, 8), "uint16": (HALF, SINGLE, 16)}
"""Of rows that an array of a type holds: the numbers, those in which they are summed, how many are taken at a time."""
BYTES = {str(HALF): 2, str(SINGLE): 4, str(DOUBLE): 8}
VOID = types.void
N = types.uintp


def has_half_precision() -> bool:
    """Whether what is compiled for (mostly: this machine) has instructions for numbers of half precision."""
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return "+f16c" in features or machine() in ("arm64", "aarch64")


class Build:
    """What an instruction is made of: arrays as pointers to numbers, vectors loaded and widened."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.context, self.builder, self.signature, self.arguments = context, builder, signature, arguments
        self.stored, self.number, self.lanes = STORED[str(signature.args[0].dtype)]
        self.vector = ir.VectorType(self.number, self.lanes)

    def pointer(self, k: int, number: Any) -> Any:
        """Return where the numbers of argument ``k``, an array, begin."""
        array = self.context.make_array(self.signature.args[k])(self.context, self.builder, self.arguments[k])
        return self.builder.bitcast(array.data, number.as_pointer())

    def address(self, pointer: Any, index: Any, number: Any, lanes: int) -> Any:
        """Return the address of so many numbers as one vector."""
        kind = ir.VectorType(number, lanes).as_pointer()
        return self.builder.bitcast(self.builder.gep(pointer, [index]), kind)

    def load(self, pointer: Any, index: Any, number: Any) -> Any:
        """Load a vector as it is."""
        return self.builder.load(self.address(pointer, index, number, self.lanes), align=BYTES[str(number)])

    def row(self, pointer: Any, index: Any, center: Any) -> Any:
        """Load a vector of a row less the center, in the precision of the sums."""
        values = self.load(pointer, index, self.stored)
        if self.stored != self.number:
            values = self.builder.fpext(values, self.vector)
        return self.builder.fsub(values, center)

    def prefetch(self, pointer: Any, index: Any, count: int) -> None:
        """Prefetch so many numbers into L2; the addresses need not exist."""
        for k in range(0, count, 64 // BYTES[str(self.stored)]):
            prefetch_line(self.builder, self.builder.gep(pointer, [self.builder.add(index, INDEX(k))]))

    def fused(self, total: Any, left: Any, right: Any) -> Any:
        """Return total + left · right."""
        return self.builder.fadd(total, self.builder.fmul(left, right, flags=FLAGS), flags=FLAGS)

    def pick(self, left: Any, right: Any, which: list[int]) -> Any:
        """Return some of the numbers of two vectors, by their places."""
        return self.builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(SHORT, len(which)), which))

    def same(self, value: Any) -> Any:
        """Return a vector of one value."""
        blank = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(blank, value, SHORT(0))
        return self.pick(first, blank, [0] * self.lanes)

    def pairwise_add(self, left: Any, right: Any) -> Any:
        """Add neighbours: the sums of the pairs of ``left``, then those of ``right``."""
        width = left.type.count
        even = self.pick(left, right, [*range(0, 2 * width, 2)])
        odd = self.pick(left, right, [*range(1, 2 * width, 2)])
        return self.builder.fadd(even, odd, flags=FLAGS)

    def loop(self, count: Any, by: int, sums: int, body: Any, *, at: Any = None, step: Any = None) -> list[Any]:
        """Run ``body(i, k, sums)`` for i = 0, by, … below ``count``; k starts ``at`` and moves on by ``step``."""
        b, before, kind = self.builder, self.builder.block, self.vector
        inside, after = b.append_basic_block("inside"), b.append_basic_block("after")
        b.branch(inside)
        b.position_at_end(inside)
        i, k = b.phi(INDEX), b.phi(INDEX)
        totals = [b.phi(kind) for _ in range(sums)]
        added = body(i, k, totals)
        following = b.add(i, INDEX(by))
        moved = k if step is None else b.add(k, step)
        starts = [INDEX(0), INDEX(0) if at is None else at, *[ir.Constant(kind, [0.0] * kind.count)] * sums]
        for phi, first, later in zip([i, k, *totals], starts, [following, moved, *added], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(later, b.block)
        b.cbranch(b.icmp_unsigned("<", following, count), inside, after)
        b.position_at_end(after)
        return list(added)


def emitted_by(emit: Callable[[Build], Any]) -> Any:
    """Return the code generator of an instruction: ``emit`` returns its value, or None if it has none."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = emit(Build(context, builder, signature, arguments))
        return context.get_dummy_value() if value is None else value

    return codegen


@intrinsic
def eight_dots(_: Any, x: Any, first: Any, M: Any, c: Any, i: Any, ahead: Any, u: Any, a: Any, v: Any, q: Any) -> Any:
    """a[i:i+8] = Σ_j u_j z_ij and, unless v and q are None, q[i:i+8] = Σ_j v_j z_ij², with z_ij = x_ij − c_j.

    The eight rows of length M begin at x[first]; u, c and v are in groups. Meanwhile as many numbers as four rows have,
    from x[ahead] on, are prefetched.
    """
    weights = [6] if isinstance(v, types.NoneType) else [6, 8]

    def emit(do: Build) -> None:
        builder, (_, first, M, _, i, ahead, *_) = do.builder, do.arguments
        x, c, u = do.pointer(0, do.stored), do.pointer(3, do.number), [do.pointer(k, do.number) for k in weights]
        starts = [builder.add(first, builder.mul(M, INDEX(row))) for row in range(ROWS)]
        last = builder.sub(M, INDEX(do.lanes))

        def body(j: Any, _: Any, sums: list[Any]) -> list[Any]:
            column = builder.select(builder.icmp_unsigned("<", j, last), j, last)
            center, weight = do.load(c, j, do.number), [do.load(pointer, j, do.number) for pointer in u]
            do.prefetch(x, builder.add(ahead, builder.mul(j, INDEX(4))), 4 * do.lanes)
            rows = [do.row(x, builder.add(start, column), center) for start in starts]
            added = [do.fused(total, z, weight[0]) for total, z in zip(sums[:ROWS], rows, strict=True)]
            for total, z in zip(sums[ROWS:], rows, strict=False):
                added.append(do.fused(total, builder.fmul(z, z), weight[1]))
            return added

        found = do.loop(M, do.lanes, ROWS * len(u), body)
        for k, place in enumerate(weights):
            sums = found[ROWS * k : ROWS * (k + 1)]
            while len(sums) > 1:
                sums = [do.pairwise_add(*sums[k : k + 2]) for k in range(0, len(sums), 2)]
            total = sums[0]
            if do.lanes > ROWS:
                total = do.pairwise_add(total, total)
                total = builder.fpext(do.pick(total, total, [*range(ROWS)]), ir.VectorType(DOUBLE, ROWS))
            builder.store(total, do.address(do.pointer(place + 1, DOUBLE), i, DOUBLE, ROWS), align=8)

    return VOID(x, N, N, c, N, N, u, a, v, q), emitted_by(emit)


@intrinsic
def add_columns(_: Any, x: Any, first: Any, M: Any, n: Any, r: Any, center: Any, g: Any, j: Any, ahead: Any) -> Any:
    """g[j:j+lanes] += Σ_i r_i (x_ij − c_j) over n rows, a multiple of four, of the columns that begin at x[first].

    Meanwhile half as many numbers, from x[ahead] on, are prefetched.
    """

    def emit(do: Build) -> None:
        builder, (_, first, M, n, _, _, _, j, ahead) = do.builder, do.arguments
        x, r, g = do.pointer(0, do.stored), do.pointer(4, do.number), do.pointer(6, DOUBLE)
        center = do.load(do.pointer(5, do.number), j, do.number)

        def body(i: Any, k: Any, sums: list[Any]) -> list[Any]:
            added = []
            do.prefetch(x, builder.add(ahead, builder.mul(i, INDEX(do.lanes // 2))), 2 * do.lanes)
            for row, total in enumerate(sums):
                residual = builder.load(builder.gep(r, [builder.add(i, INDEX(row))]))
                added.append(do.fused(total, do.row(x, k, center), do.same(residual)))
                k = builder.add(k, M)
            return added

        sums = do.loop(n, 4, 4, body, at=first, step=builder.mul(M, INDEX(4)))
        total = builder.fadd(builder.fadd(sums[0], sums[1]), builder.fadd(sums[2], sums[3]))
        if do.number != DOUBLE:
            total = builder.fpext(total, ir.VectorType(DOUBLE, do.lanes))
        target = do.address(g, j, DOUBLE, do.lanes)
        builder.store(builder.fadd(builder.load(target, align=8), total), target, align=8)

    return VOID(x, N, N, N, r, center, g, N, N), emitted_by(emit)


@intrinsic
def value_at(_: Any, x: Any, k: Any) -> Any:
    """Return x[k] in double precision."""

    def emit(do: Build) -> Any:
        value = do.builder.load(do.builder.gep(do.pointer(0, do.stored), [do.arguments[1]]))
        return value if do.stored == DOUBLE else do.builder.fpext(value, DOUBLE)

    return types.float64(x, N), emitted_by(emit)


@intrinsic
def pack_half_row(_: Any, x: Any, k: Any, M: Any, center: Any, inverse: Any, root: Any, half: Any) -> Any:
    """Write (x − c) · root of the row of length M at x[k] to half[k:k+M]; return Σ inverse (x − c)².

    It does nothing where there is no half precision: code for that could not even be linked.
    """

    def emit(do: Build) -> Any:
        if do.stored == HALF or not has_half_precision():
            return DOUBLE(0.0)
        builder, (_, k, M, *_) = do.builder, do.arguments
        x, half = do.pointer(0, do.stored), do.pointer(6, HALF)
        c, inverse, root = (do.pointer(place, do.number) for place in (3, 4, 5))
        last = builder.sub(M, INDEX(do.lanes))

        def body(j: Any, _: Any, sums: list[Any]) -> list[Any]:
            place = builder.add(k, builder.select(builder.icmp_unsigned("<", j, last), j, last))
            z = do.row(x, place, do.load(c, j, do.number))
            single = builder.fptrunc(builder.fmul(z, do.load(root, j, do.number)), ir.VectorType(SINGLE, do.lanes))
            target = do.address(half, place, HALF, do.lanes)
            builder.store(builder.fptrunc(single, ir.VectorType(HALF, do.lanes)), target, align=2)
            return [do.fused(sums[0], builder.fmul(z, z), do.load(inverse, j, do.number))]

        (total,) = do.loop(M, do.lanes, 1, body)
        for _ in range(3):
            total = do.pairwise_add(total, total)
        return builder.extract_element(total, SHORT(0))

    return types.float64(x, N, N, center, inverse, root, half), emitted_by(emit)


@njit(cache=True, nogil=True, error_model="numpy")
def pack_half_rows(x: Any, first: Any, n: Any, M: Any, center: Any, inverse: Any, root: Any, half: Any) -> float:
    """Write n rows that begin at x[first] to the same place of ``half`` as `pack_half_row` does; return the longest."""
    longest = 0.0
    for i in range(n):
        longest = max(longest, pack_half_row(x, first + i * M, M, center, inverse, root, half))
    return longest


def scratch(itemsize: int, M: int) -> Any:
    """Return room for what `pack` makes of rows of M numbers of a size; none where they are too short for it."""
    lanes = 16 if itemsize == 2 else 8
    width = -(-M // lanes) * lanes if M >= lanes else 0
    return np.empty((4, width), np.float32 if itemsize == 2 else np.float64)


@njit(cache=True, nogil=True, error_model="numpy")
def pack(wide: Any, u: Any, center: Any, inverse: Any) -> None:
    """Write u, center, inverse and its root in groups as they are taken, the last of which ends with the row's end.

    Of u and inverse, what a group has in common with the one before is zero the second time: it counts once.
    """
    lanes = 16 if wide.itemsize == 4 else 8
    size, whole = wide.shape[1], wide.shape[1] - lanes
    for k in range(size):
        j = k if k < whole else k - size + u.size
        once = k < whole or j >= whole
        wide[0, k] = u[j] if once else 0.0
        wide[1, k] = center[j]
        if inverse.size:
            wide[2, k] = inverse[j] if once else 0.0
            wide[3, k] = np.sqrt(inverse[j])


@njit(cache=True, nogil=True, error_model="numpy")
def add_sums(sums: Any, lanes: int, g: Any) -> None:
    """Add to g the sums that were collected in such groups, if there are any."""
    whole = sums.size - lanes
    for k in range(sums.size):
        if k < whole:
            g[k] += sums[k]
        elif k - sums.size + g.size >= whole:
            g[k - sums.size + g.size] += sums[k]
