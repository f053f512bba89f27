"""Run every kernel over arrays between two pages without access: whatever reads outside ends this process.

    python tests/kernels/guard_pages.py [rounds] [seed]

Arrays end exactly where a page without access begins, or begin where one ends. The last line of the output names the
problem under way. `test_guard_pages` runs this in a process of its own.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from oddsmith.kernels import native
from oddsmith.kernels.native import (
    ClassesProblem,
    ColumnsProblem,
    CsrProblem,
    CsvColumn,
    CsvProblem,
    DenseProblem,
    EpochRows,
    FactorProblem,
    GramProblem,
    GramStepProblem,
    Kernels,
    KnownProblem,
    LbfgsProblem,
    ModelHessiansProblem,
    MomentsProblem,
    NewtonProblem,
    PackedProblem,
    ProductsProblem,
    QuadraticProblem,
    SgdProblem,
    TableProblem,
    TextLevelTable,
    TextsProblem,
)
from oddsmith.kernels.packed_columns import MORE_ROWS, PADDING, STORED, padded
from oddsmith.likelihood.product_columns import ROW_PARTS

PAGE = mmap.PAGESIZE
KINDS = {"float64": 0, "float32": 1, "float16": 2}
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Room:
    """Arrays at one side of their pages; they live as long as the room does."""

    def __init__(self, rng: np.random.Generator, at_end: bool) -> None:
        self.rng, self.at_end, self.arrays = rng, at_end, [np.empty(0)]
        self.kept: list[Any] = []

    def guard(self, array: Any) -> Any:
        """Return a copy of an array (in C order) whose neighbour is a page without access."""
        array = np.ascontiguousarray(array)
        size = -(-max(array.nbytes, 1) // PAGE) * PAGE
        memory = mmap.mmap(-1, size + 2 * PAGE)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for page in (begin, begin + PAGE + size):
            assert LIBC.mprotect(page, PAGE, 0) == 0, ctypes.get_errno()
        start = PAGE + (size - array.nbytes if self.at_end else 0)
        copy: Any = np.ndarray(array.shape, array.dtype, memory, start)
        copy[...] = array
        self.arrays.append(copy)
        return copy

    def put(self, array: Any) -> int | None:
        """Return the address of a guarded copy; None for None."""
        return None if array is None else int(self.guard(array).ctypes.data)

    def normal(self, *shape: int) -> int | None:
        return self.put(self.rng.normal(size=shape))

    def zeros(self, *shape: int) -> int | None:
        return self.put(np.zeros(shape))

    def weights(self, n: int) -> int | None:
        return self.put(self.rng.choice([0.0, 0.5, 2.0], n)) if self.rng.random() < 0.5 else None

    def maybe(self, *shape: int) -> int | None:
        return self.normal(*shape) if self.rng.random() < 0.5 else None

    def codes(self, n: int, classes: int) -> int | None:
        return self.put(self.rng.integers(0, classes, n).astype(np.int32))

    def size(self, *edges: int) -> int:
        """Return a number near one of the edges, mostly, or a small one."""
        return int(max(1, self.rng.choice(edges) + self.rng.integers(-2, 3)))

    def rows(self, n: int, m: int, dtype: str, layout: str) -> tuple[int, int, int]:
        """Return rows in a layout: the address, and the distances of rows and of columns."""
        X = self.rng.normal(size=(n, m)).astype(dtype)
        if layout == "C":
            return self.guard(X).ctypes.data, m, 1
        if layout == "F":
            return self.guard(X.T).ctypes.data, 1, n
        if layout == "part of F":  # some rows of a larger array, up to its end or from its beginning
            whole = self.guard(np.zeros((m, n + 3), dtype=dtype))
            part = whole[:, 3:] if self.at_end else whole[:, :-3]
            part[...] = X.T
            return part.ctypes.data, 1, n + 3
        wide = self.guard(np.zeros((n, 2 * m - 1), dtype=dtype))  # every second number
        wide[:, ::2] = X
        return wide.ctypes.data, 2 * m - 1, 2

    def csr(self, n: int, m: int, dtype: str, index: str) -> tuple[int | None, ...]:
        """Return the addresses of the arrays of random CSR rows, and the number of entries."""
        full = self.rng.random((n, m)) < self.rng.choice([0.0, 0.1, 0.6])
        data = self.rng.normal(size=int(full.sum())).astype(dtype)
        indptr = np.concatenate([[0], np.cumsum(full.sum(axis=1))]).astype(index)
        return self.put(data), self.put(np.nonzero(full)[1].astype(index)), self.put(indptr)


def dense(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng = room.rng
    task = str(rng.choice(["gradient", "gradient", "hessian", "product", "root", "moments", "half rows", "runs"]))
    C = 1 if task in ("root", "moments") else int(rng.choice([1, 1, 2, 3, 5]))
    kinds = ["float64", "float32", *(["float16"] if kernels.has_half and task in ("gradient", "runs") else [])]
    dtype = str(rng.choice(kinds))
    whole = task == "half rows" or (dtype == "float16" and C == 1) or task == "runs"
    layout = "C" if whole else str(rng.choice(["C", "F", "part of F", "strided"]))
    n, m = room.size(1, 4, 8, 16, 32, 64, 96, 128, 256, 384), room.size(1, 4, 8, 16, 24, 32, 63, 64)
    if task == "half rows" and not kernels.has_half:
        return ()
    m = max(m, 16) if "half" in task or dtype == "float16" else m
    run, apart, count = n, n, n
    if task == "runs":
        run, apart = room.size(1, 8, 40), 0
        apart, runs = run + room.size(1, 8), int(rng.integers(1, 5))
        n, count = (runs - 1) * apart + run, runs * run
    x, row, column = room.rows(n, m, dtype, layout)
    plain = dtype == "float16" and C > 1
    problem = DenseProblem(
        *(x, KINDS[dtype], n, m, row, column, run, apart),
        t=None if task == "moments" else room.codes(count, C + 1),
        s=None if plain else room.weights(count),
        offset=None if plain else room.maybe(count, C),
        C=C,
        W=room.normal(C, m),
        b=room.normal(C),
        center=room.normal(m),
        inverse=room.put(np.ones(m)) if task == "half rows" else None if plain else room.put(np.ones(m)),
        g=room.zeros(C, m + 1),
    )
    if task in ("hessian", "moments"):
        problem.H = room.zeros(C * (m + 1), C * (m + 1))
    elif task == "product":
        problem.V, problem.v = room.normal(C, m), room.normal(C)
    elif task == "root":
        problem.root_rows = room.zeros(n, m + 1)
    elif task == "half rows":
        problem.half_rows = room.put(np.zeros((n, m), dtype=np.float16))
    print(task, dtype, layout, f"n={n} m={m} C={C} run={run} apart={apart}", flush=True)
    return "dense", problem


def csr(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, task = room.rng, int(room.rng.integers(5))
    n, m = room.size(1, 8, 64, 128), room.size(1, 8, 40)
    dtype, index = str(rng.choice(["float64", "float32"])), str(rng.choice(["int32", "int64"]))
    data, indices, indptr = room.csr(n, m, dtype, index)
    problem = CsrProblem(data, indices, indptr, dtype == "float32", index == "int32", n, m)
    if task == 0:
        problem.t, problem.s, problem.offset = room.codes(n, 2), room.weights(n), room.maybe(n)
        problem.w, problem.v, problem.h = room.normal(m), room.maybe(m), room.put(np.zeros(n))
    elif task == 1:
        problem.v, problem.h = room.normal(m), room.normal(n)
    elif task == 3:
        problem.s, problem.w, problem.v = room.weights(n), room.maybe(m), room.normal(m)
    else:
        problem.h, problem.H = room.normal(n), room.zeros(m + 1) if task == 2 else room.zeros(m, m)
    if task != 4:
        problem.g = room.zeros(m + 1)
    print("task", task, dtype, index, f"n={n} m={m}", flush=True)
    return "csr", problem, task


def cells(room: Room, problem: TableProblem) -> tuple[Any, int]:
    """Give a problem the words of its cells, none set, and return them and the number of columns that they are for."""
    problem.words = -(-problem.size // 64)
    words = room.guard(np.zeros((problem.levels + 1, problem.words, 2), dtype=np.uint64))
    problem.cells = words.ctypes.data
    return words, problem.size - 1


def all_cells(room: Room, problem: TableProblem) -> int:
    """Give a problem cells of which all are there, and return their number."""
    words, columns = cells(room, problem)
    for j in range(columns):
        words[:-1, j // 64, 0] |= np.uint64(1) << np.uint64(j % 64)
    counts = np.bitwise_count(words[:, :, 0]).ravel()
    words[:, :, 1] = (np.cumsum(counts) - counts).reshape(words.shape[:2])
    return int(counts.sum())


def hessian_room(room: Room, problem: TableProblem, size: int, task: int, e: int) -> None:
    """Give a problem room for a Hessian, or for the cells beside a factor ``e`` that is eliminated."""
    gone = int(problem.levels) if e >= 0 else 0
    problem.size = size + 1 - gone
    if task == 4:
        cells(room, problem)
        return
    if task == 5:
        count = all_cells(room, problem)
        problem.indices = room.put(np.zeros(count, dtype=np.int32)) if room.rng.random() < 0.7 else None
        return
    problem.A = room.zeros(problem.size, problem.size)
    if e >= 0 and room.rng.random() < 0.5:
        problem.D, problem.B = room.zeros(gone + 1), room.zeros(gone + 1, problem.size)
    elif e >= 0:
        problem.D, problem.C = room.zeros(gone + 1), room.zeros(all_cells(room, problem) + 1)
        problem.N = room.zeros((gone + 1) * (1 + problem.m) + 8)


def table(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, task = room.rng, int(room.rng.integers(6))
    n, m, f = room.size(1, 64, 128, 256), int(rng.integers(0, 4)), int(rng.integers(0, 4))
    kinds, steps = rng.integers(0, 7, m), rng.choice([0, 1, 1, 3], m)
    types = ("float64", "float32", "int64", "int32", "int16", "int8", "uint8")
    sizes = [max(0, (n - 1) * step + 1) for step in steps]
    columns = [room.put((9.0 * rng.random(n)).astype(types[kind])) for n, kind in zip(sizes, kinds, strict=True)]
    levels, code_kinds = rng.integers(1, 9, f), rng.integers(3, 6, f)
    codes = [room.put(rng.integers(-1, L, n).astype(types[kind])) for L, kind in zip(levels, code_kinds, strict=True)]
    firsts = 1 + m + np.concatenate([[0], np.cumsum(levels)])  # the numbers come first
    size = int(firsts[-1])
    entries = [room.put(np.arange(-1, L).astype(np.int32)) for L in levels]
    values = [room.maybe(n) for _ in range(f)]
    pointers = [
        room.put(np.array([p or 0 for p in some], dtype=np.uint64)) for some in (columns, codes, values, entries)
    ]
    problem = TableProblem(n=n, m=m, f=f, eliminated=-1, start=size + 1, nowhere=size)
    problem.columns, problem.codes, problem.values, problem.entries = pointers
    problem.column_kinds, problem.code_kinds = room.put(kinds), room.put(code_kinds)
    problem.column_steps, problem.fills = room.put(steps), room.maybe(m)
    problem.code_levels, problem.firsts = room.put(levels), room.put(firsts[:-1])
    problem.numbers, problem.center = room.put(np.arange(1, 1 + m)), room.normal(m)
    problem.t_kind, problem.s_kind = rng.choice([3, 5]), rng.choice([0, 6])
    problem.t = room.put(rng.integers(0, 2, n).astype(types[problem.t_kind]))
    problem.s = room.put(rng.integers(0, 2, n).astype(types[problem.s_kind])) if rng.random() < 0.5 else None
    problem.offset, problem.w, problem.inverse = room.maybe(n), room.normal(size + 1), room.maybe(size + 1)
    problem.rows, problem.g, problem.squares = room.normal(n), room.zeros(size + 1), room.maybe(size + 1)
    task = 2 if task >= 4 and f == 0 else task
    e = int(rng.integers(0 if task >= 4 else -1, f)) if f else -1
    if task != 3 and (task >= 4 or rng.random() < 0.7):
        if e >= 0:
            problem.eliminated, problem.start, problem.levels = e, int(firsts[e]), int(levels[e])
        hessian_room(room, problem, size, task, e)
    print("table", f"task={task} n={n} m={m} f={f} eliminated={problem.eliminated} N={bool(problem.N)}", flush=True)
    return "table", problem, task


def border(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, rows, columns = room.rng, room.size(1, 8, 64), room.size(1, 8, 64)
    m = int(rng.integers(0, columns + 1))
    places = rng.permutation(columns)
    cells = csr_array((rng.random((rows, columns)) < 0.3) & ~np.isin(np.arange(columns), places[:m]), dtype=np.float64)
    arrays = [room.put(array) for array in (cells.data, cells.indices, cells.indptr)]
    print("border", f"rows={rows} columns={columns} m={m}", flush=True)
    numbers = room.normal(rows, m), room.put(places[:m].astype(np.int64))
    return "border", rows, m, *numbers, *arrays, room.normal(rows), columns, room.zeros(columns, columns)


def text_levels(room: Room, most: int, texts: list[bytes]) -> TextLevelTable:
    """Room for so many texts, of which none is known yet."""
    size = max(1, sum(map(len, texts)))
    slots = 1 << int(2 * most).bit_length()
    levels = TextLevelTable(levels=0, most=most, room=size, slots_less_one=slots - 1)
    levels.ends, levels.bytes = room.put(np.zeros(most, dtype=np.int64)), room.put(np.zeros(size, dtype=np.uint8))
    levels.slots = room.put(np.zeros((slots, 2), dtype=np.int64))
    return levels


def some_texts(room: Room, n: int) -> list[bytes]:
    rng = room.rng
    return [b"a text of some length"[: int(rng.integers(0, 22))] for _ in range(n)]


def texts(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, n = room.rng, room.size(1, 8, 64)
    some, wide, width = some_texts(room, n), bool(rng.random() < 0.5), int(rng.choice([1, 2, 4]))
    offsets = np.concatenate([[0], np.cumsum([len(text) for text in some])])
    data = np.frombuffer(b"".join(some), dtype=np.uint8)
    problem = TextsProblem(n=n, wide=wide, size=len(data), width=width)
    problem.offsets, problem.data = room.put(offsets.astype(np.int64 if wide else np.int32)), room.put(data)
    if rng.random() < 0.5:
        problem.first = int(rng.integers(0, 9))
        problem.valid = room.put(rng.integers(0, 256, (problem.first + n + 7) // 8).astype(np.uint8))
    most = int(rng.integers(1, 23))
    problem.codes, problem.counts = room.put(np.zeros(n, dtype=f"int{8 * width}")), room.put(np.zeros(most, np.int64))
    problem.levels = text_levels(room, most, sorted(set(some)))
    print("texts", f"n={n} wide={wide} width={width} most={most}", flush=True)
    return "texts", problem


def csv(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, n = room.rng, room.size(1, 8, 64)
    kinds = rng.integers(0, 8, int(rng.integers(1, 5)))
    some, odd = some_texts(room, n), bool(rng.random() < 0.3)
    fields = {
        0: lambda i: some[i],
        1: lambda i: b"%d" % (7**i % 10**11),
        2: lambda i: b"%.4f" % i,
        3: lambda i: some[i],
        4: lambda i: b"2026-01-%02d" % (i % 28 + 1),
        5: lambda i: b"2026-01-31%.*s" % (i % 10, b" 05:00:00"),
        6: lambda i: b"2026-01-31 05:%02d+01:00"[: 19 + i % 7] % (i % 60),
        7: lambda i: b"2026-01-31 05:00:00.%d" % i,
    }
    lines = [b",".join(fields[int(kind)](i) for kind in kinds) for i in range(n)]
    text = b"\n".join(lines) + (b"" if rng.random() < 0.5 else b"\r\n") + (b",x" if odd else b"")
    columns = (CsvColumn * len(kinds))()
    for column, kind in zip(columns, kinds.tolist(), strict=True):
        column.kind = kind
        column.values = room.put(np.zeros(n + 1, dtype=np.int32 if kind == 3 else np.int64))
        if kind == 3:
            levels = text_levels(room, int(rng.integers(1, 24)), sorted(set(some)))
            room.kept.append(levels)
            column.levels = ctypes.addressof(levels)
    room.kept.append(columns)
    problem = CsvProblem(size=len(text), delimiter=ord(","), point=ord("."), count=len(kinds), room=n + 1)
    problem.text = room.put(np.frombuffer(text, dtype=np.uint8))
    problem.columns = ctypes.addressof(columns) if rng.random() < 0.9 else None
    print("csv", f"n={n} kinds={kinds.tolist()} odd={odd}", flush=True)
    return "csv", problem


def softmax(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, C = room.size(1, 8, 64, 128), room.size(2, 9)
    Y, value = room.zeros(n, C + 1) if room.rng.random() < 0.5 else None, ctypes.c_double()
    print("softmax", f"n={n} C={C}", flush=True)
    by_class = int(room.rng.integers(2))
    return "softmax", room.normal(n, C), n, C, by_class, room.codes(n, C + 1), room.weights(n), Y, value


def moments(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng = room.rng
    n, m, K = room.size(1, 64, 128, 512), room.size(1, 8, 16, 40), room.size(1, 4)
    dtype, layout = str(rng.choice(["float64", "float32"])), str(rng.choice(["C", "F", "part of F", "strided"]))
    G, full = int(rng.integers(1, K + 1)), bool(rng.random() < 0.6)
    group = np.sort(rng.integers(0, G, K))[rng.permutation(K)] if full else np.arange(K)
    rank = np.argsort(np.argsort(group, kind="stable"), kind="stable")
    x, row, column = room.rows(n, m, dtype, layout)
    problem = MomentsProblem(
        *(x, dtype == "float32", n, m, row, column),
        *(room.codes(n, K) if K > 1 else None, room.weights(n), K, G if full else K),
        *(room.put(rank.astype(np.int64)), room.put(group.astype(np.int64)), room.put(np.zeros(K, dtype=bool))),
        *(room.zeros(K, m), room.zeros(K), room.zeros(K, m)),
        *((None, room.zeros(G, m, m)) if full else (room.zeros(K, m), None)),
    )
    centred = not full and bool(rng.integers(2))
    print("moments", dtype, layout, f"n={n} m={m} K={K} G={G} full={full} centred={centred}", flush=True)
    return ("centred_moments", problem, int(rng.integers(2)), 0.99) if centred else ("moments", problem)


def perceptron(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng = room.rng
    n, m, K = room.size(1, 20, 60), room.size(1, 8, 16, 40), int(rng.choice([2, 3, 5]))
    index, C = str(rng.choice(["dense", "int32", "int64"])), K if K > 2 else 1
    arrays = (room.normal(n, m), None, None, None) if index == "dense" else (None, *room.csr(n, m, "float64", index))
    state = room.put(np.array([0, 0, 0, n + 1]))
    epoch = room.put(rng.permutation(n).astype(np.int64)), 1.0, 1.0, C, room.normal(C, m + 1), room.zeros(C, m + 1)
    print("perceptron", index, f"n={n} m={m} K={K}", flush=True)
    return "perceptron", EpochRows(*arrays, index == "int32", n, m), room.codes(n, K), *epoch, state


def sgd(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, m, C = room.size(1, 20), room.size(1, 8, 16, 40), int(room.rng.choice([1, 2, 4]))
    problem = SgdProblem(
        *(room.normal(n, m), n, m, C, room.codes(n, C + 1), room.put(np.ones(n)), room.normal(n, C), room.normal(m)),
        *(room.put(np.ones(m)), room.put(np.eye(C)), room.put(np.ones((C, m + 1))), room.normal(C, m + 1)),
        *(room.put(np.full(n, 1e-3)), room.normal(C, m + 1), room.zeros(C, m + 1)),
    )
    print("sgd", f"n={n} m={m} C={C}", flush=True)
    return "sgd", problem


def function(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, which = 8 * room.size(1, 8), int(room.rng.integers(3))
    print("function", which, n, flush=True)
    return "function", which, room.put(np.full(n, -1.0 if which == 0 else 1.0)), n, room.zeros(n)


def models(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, C = room.rng, int(room.rng.choice([1, 3, 4, 8]))
    dtype, layout = str(rng.choice(["float64", "float32"])), str(rng.choice(["C", "F", "part of F", "strided"]))
    n, m = room.size(1, 8, 64, 128, 256), room.size(1, 8, 16, 63, 64)
    x, row, column = room.rows(n, m, dtype, layout)
    rows = {"t": room.codes(n, 2), "s": room.weights(n), "offset": room.maybe(n)}
    at = {"C": C, "W": room.normal(C, m), "b": room.normal(C), "center": room.normal(m), "g": room.zeros(C, m + 1)}
    print("models", dtype, layout, f"n={n} m={m} C={C}", flush=True)
    hessians = None
    if rng.random() < 0.5:
        members = [np.flatnonzero(rng.random(m + 1) < 0.5) for _ in range(C)]
        sizes = np.array([len(each) for each in members])
        first, begin = (np.append(0, np.cumsum(each)) for each in (sizes, sizes**2))
        member = room.put(np.concatenate(members).astype(np.int32))
        hessians = ModelHessiansProblem(room.put(first), member, room.put(begin), room.zeros(max(1, int(begin[-1]))))
    return "models", DenseProblem(x, KINDS[dtype], n, m, row, column, n, n, **rows, **at), room.zeros(C), hessians


def newton(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, P = room.rng, room.size(2, 4, 8, 16, 24, 40)
    dtype, layout = str(rng.choice(["float64", "float32"])), str(rng.choice(["C", "F", "part of F", "strided"]))
    P, n, steps = max(P, 2), room.size(1, 8, 64, 128), int(rng.integers(1, 5))
    x, row, column = room.rows(n, P - 1, dtype, layout)
    rows = {"t": room.codes(n, 2), "s": room.weights(n), "offset": room.maybe(n), "C": 1, "center": room.normal(P - 1)}
    at = {"W": room.zeros(P - 1), "b": room.zeros(1), "g": room.zeros(P + P * P)}
    problem = DenseProblem(x, KINDS[dtype], n, P - 1, row, column, n, n, **rows, **at)
    problem.H = problem.g + 8 * P
    parts = (room.put(np.full(P, 2.0)), room.put(np.ones(P)), room.normal(P), room.normal(P), room.zeros(4 * steps))
    print("newton", dtype, layout, f"n={n} P={P} steps={steps}", flush=True)
    known = int(rng.integers(2))
    room.kept.append(problem)
    last = {"diagonal": room.zeros(P), "step": room.zeros(P), "scaled": room.zeros(P, P), "lower": room.zeros(P, P)}
    at_rows = ctypes.addressof(problem)
    rough = int(rng.integers(2))
    return "newton", NewtonProblem(at_rows, *parts, room.maybe(P - 1), known, steps, armijo=1e-4, rough=rough, **last)


def lbfgs(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    rng, C, P = room.rng, int(room.rng.choice([1, 3])), max(2, room.size(2, 8, 24))
    dtype, layout = str(rng.choice(["float64", "float32"])), str(rng.choice(["C", "F", "part of F", "strided"]))
    n, steps, slices = room.size(1, 8, 64, 128), int(rng.integers(1, 20)), int(rng.choice([1, 2, 5]))
    x, row, column = room.rows(n, P - 1, dtype, layout)
    rows = {"t": room.codes(n, C + 1), "s": room.weights(n), "offset": room.maybe(n * C), "C": C}
    at = {"center": room.normal(P - 1), "inverse": room.maybe(P - 1), "W": room.zeros(C * (P - 1)), "b": room.zeros(C)}
    problem = DenseProblem(x, KINDS[dtype], n, P - 1, row, column, n, n, **rows, **at, g=room.zeros(C * P))
    mixed = room.put(np.eye(C)) if C > 1 else None
    parts = {"T": mixed, "unit": room.put(np.full(P, 2.0)), "prior": room.put(np.ones(P)), "mean": room.normal(C, P)}
    parts |= {"vectors": mixed, "diagonal": room.put(np.full((C, P), 0.2 * n + 1.0)), "measure": room.maybe(P)}
    parts |= {"free": room.put(np.ones(P)), "w": room.zeros(C * P), "trace": room.zeros(5 * steps + 5)}
    rules = {"memory": 3, "steps": steps, "few": 4, "near": 1e-12, "patience": 30.0, "armijo": 1e-4}
    more = {"smallest": 1e-9, "halvings": 9.0, "rounding": 1e-15, "distances": room.zeros(steps + 1)}
    room.kept.append(problem)
    print("lbfgs", dtype, layout, f"n={n} P={P} C={C} steps={steps} slices={slices}", flush=True)
    return "lbfgs", LbfgsProblem(rows=ctypes.pointer(problem), slices=slices, **parts, **rules, **more)


def column_arrays(room: Room, n: int, count: int) -> dict[str, Any]:
    """Return the fields of columns one after another, or in CSC form."""
    if room.rng.random() < 0.5:
        return {"n": n, "count": count, "data": room.normal(count, n)}
    full = room.rng.random((count, n)) < 0.4
    indptr = np.concatenate([[0], np.cumsum(full.sum(axis=1))]).astype(np.int64)
    indices = room.put(np.nonzero(full)[1].astype(np.int32))
    data = room.normal(int(full.sum()))
    return {"n": n, "count": count, "data": data, "indices": indices, "indptr": room.put(indptr)}


def columns(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count, task = room.size(1, 8, 32, 64), room.size(1, 5), int(room.rng.integers(4))
    places = {"h": room.put(np.full(n, 0.2)), "v": room.normal(n), "mean": room.zeros(count)}
    weights = {"ridge": room.zeros(count), "penalty": room.put(np.ones(count)), "x": room.normal(count)}
    more = {"diagonal": room.put(np.ones(count)), "active": room.put(np.zeros(count, dtype=np.int8))}
    print("columns", task, f"n={n} count={count}", flush=True)
    fields = {**column_arrays(room, n, count), **places, **weights, **more}
    if task == 2 and room.rng.random() < 0.5:
        fields["which"] = room.put(room.rng.permutation(count).astype(np.int64))
    return "columns", ColumnsProblem(sweeps=4, total=0.2 * n, **fields), task


def products(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count = room.size(1, 8, 64), room.size(1, 5, 20)
    full = room.rng.random((count, n)) < 0.4
    indptr = np.concatenate([[0], np.cumsum(full.sum(axis=1))]).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(full.sum(axis=0))[:-1]]).astype(np.int64)
    given = {"indices": room.put(np.nonzero(full)[1].astype(np.int32)), "data": room.normal(int(full.sum()))}
    given |= {"indptr": room.put(indptr), "which": room.put(np.arange(count, dtype=np.int64))}
    room.kept.append(source := ColumnsProblem(n=n, count=count, **given))
    fields = {"indices": room.put(np.zeros(int(full.sum()), np.int32)), "data": room.zeros(int(full.sum()))}
    fields |= {
        "all": ctypes.addressof(source),
        "indptr": room.put(indptr),
        "starts": room.put(starts),
        "lengths": room.put(np.zeros(n, np.int32)),
    }
    fields |= {"entries": room.put(np.zeros(2 * int(full.sum()), np.int32)), "h": room.put(np.full(n, 0.2))}
    fields |= {"mean": room.normal(count), "G": room.put(np.zeros((count, count), np.float32))}
    fields["splits"] = room.put(np.zeros((count, ROW_PARTS + 1), np.int64))
    problem = ProductsProblem(count=count, stride=count, total=0.2 * n, **fields)
    kernels("products", ctypes.byref(problem), 0)
    print("products", f"n={n} count={count}", flush=True)
    return "products", problem, 1


def packed(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count, task = room.size(1, 8, 64, 520), room.size(1, 5, 70), int(room.rng.integers(2))
    stored = int(room.rng.integers(3 if kernels.has_half and task == 0 else 2))
    if stored == 2 and room.rng.random() < 0.5:
        print("halve_columns", f"n={n} count={count}", flush=True)
        halves = room.put(np.zeros((count, n), np.float16))
        return "halve_columns", room.normal(count, n), n, count, halves, room.zeros(count), room.zeros(count)
    kind = STORED[stored]
    some = int(room.rng.integers(1, count + 1))
    u = room.normal(some) if task else room.put(np.ones(n, np.float32 if stored else np.float64))
    which = room.put(room.rng.permutation(count)[:some].astype(np.int64)) if room.rng.random() < 0.5 else None
    fields = {"data": room.put(np.ones((count, n), kind)), "which": which, "u": u}
    print("packed", f"n={n} count={count} {task=} {stored=}", flush=True)
    problem = PackedProblem(n=n, apart=n, count=some, stored=stored, result=room.zeros(n if task else some), **fields)
    return "packed", None, problem, task


def gram(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count = room.size(1, 8, 64), room.size(1, 5, 70)
    first, width = int(room.rng.integers(count)), padded(n)
    fields = {"data": room.normal(count, n), "h": room.put(np.full(n, 0.2)), "root": room.put(np.full(n, 0.2**0.5))}
    fields |= {"mean": room.zeros(count), "scaled": room.put(np.zeros((count + MORE_ROWS, width), np.float32))}
    fields |= {"which": room.put(room.rng.permutation(count))}
    print("gram", f"n={n} {first=} count={count}", flush=True)
    size = {"n": n, "first": first, "count": count, "apart": count, "width": width, "total": 0.2 * n}
    return "gram", None, GramProblem(**size, **fields, G=room.put(np.zeros((count, count), np.float32)))


def factor_fields(room: Room, count: int, unused: int = 8) -> dict[str, Any]:
    """Return the fields of a factor of products between so many columns, of which none is in it yet."""
    rows = count + count // 4 + unused
    A = room.rng.normal(size=(count, count)).astype(np.float32)
    fields = {
        "L": room.put(np.zeros((rows, rows + PADDING), np.float32)),
        "columns": room.put(np.zeros(rows, np.int64)),
    }
    fields |= {name: room.put(np.zeros(rows, np.float32)) for name in ("inverse", "sign")}
    fields |= {name: room.put(np.full(count, -1)) for name in ("place", "held")}
    fields |= {"G": room.put(A @ A.T + np.eye(count, dtype=np.float32)), "apart": rows + PADDING, "between": count}
    return fields | {"least": 1e-6, "count": count, "unused": unused}


def factor(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    """Columns come, go and come back."""
    count = room.size(1, 5, 70)
    problem, b, x = FactorProblem(**factor_fields(room, count)), room.normal(count), room.zeros(count)
    for share in (0.7, 0.9, 0.6):
        some = room.put((room.rng.random(count) < share).astype(np.int8))
        kernels("factor_solve", None, ctypes.byref(problem), some, b, x)
    print("factor", f"{count=}", flush=True)
    return "factor_solve", None, problem, room.put(np.ones(count, np.int8)), b, x


def gram_step(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count = room.size(1, 8, 64), room.size(1, 5, 40)
    A = room.rng.normal(size=(count, count))
    model = {"G": room.put((A @ A.T).astype(np.float32)), "diagonal": room.put(np.diag(A @ A.T).copy())}
    model |= {"h": room.put(np.full(n, 0.2)), "mean": room.zeros(count)}
    rows = {"sign": room.put(np.ones(n)), "s": room.put(np.ones(n)), "offset": room.zeros(n)}
    state = {"a": room.zeros(n), "x": room.zeros(count), "theta": room.zeros(n), "g": room.zeros(count)}
    state |= {"r": room.zeros(n), "curvature": room.zeros(n), "penalty": room.put(np.ones(count))}
    columns = ColumnsProblem(**column_arrays(room, n, count))
    dense, owned = {}, FactorProblem(**factor_fields(room, count))
    if columns.indices is None:
        columns.which = room.put(room.rng.permutation(count))
        owned.G, dense = model["G"], {"factor": ctypes.addressof(owned), "width": padded(n)}
        dense |= {"scaled": room.put(np.ones((count, padded(n)), np.float32)), "root": room.put(np.full(n, 0.2**0.5))}
    else:  # all entries in the last part of the rows
        indptr = np.array((ctypes.c_int64 * (count + 1)).from_address(columns.indptr))
        dense = {"splits": room.put(np.column_stack([indptr[:-1]] * ROW_PARTS + [indptr[1:]]))}
    print("gram_step", f"n={n} count={count} dense={columns.indices is None}", flush=True)
    problem = GramStepProblem(
        columns=columns,
        **dense,
        **{"stride": count, "intercept": 1, "total": 0.2 * n, "drift": 1.0, "gain": 1e-3, "precision": 1e-3},
        **{"rounding": 1.0, "ridge": room.put(np.full(count, float(n)))},
        **model,
        **rows,
        **state,
    )
    problem.owned = owned  # it must live as long
    return "gram_step", problem


def known_products(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count, known = room.size(1, 8, 64), room.size(1, 5, 40), int(room.rng.integers(4))
    chosen = room.rng.permutation(count)[: count // 3].astype(np.int64)
    each = {name: room.put(np.ones(count)) for name in ("norms", "sums", "limit")}
    part = ColumnsProblem(v=room.normal(n), **column_arrays(room, n, count))
    low = {}
    if part.indices is None:
        low = {"low": room.put(np.ones((count, n), np.float32)), "low_v": room.put(np.ones(n, np.float32))}
        low |= {"stored": 1, "units": room.put(np.ones(count))}
    print("known_products", f"n={n} count={count} low={bool(low)}", flush=True)
    if known == 3:
        return "column_norms", part, room.zeros(count), room.zeros(count)
    return "known_products", KnownProblem(
        columns=part,
        **low,
        **{"known": known, "chosen_count": len(chosen), "shares": room.normal(known), "g": room.normal(known, count)},
        **{"chosen": room.put(chosen), "products": room.normal(len(chosen)), "euclidean": 0.5, "largest": 0.5},
        **{"mark": room.put(np.zeros(count, np.int8)), "estimate": room.zeros(count), "most_read": 0.5},
        **each,
    )


def row_lengths(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count = room.size(1, 8, 64), room.size(1, 5)
    full = room.rng.random((count, n)) < 0.4
    indptr = np.concatenate([[0], np.cumsum(full.sum(axis=1))]).astype(np.int64)
    fields = {"indices": room.put(np.nonzero(full)[1].astype(np.int32)), "indptr": room.put(indptr)}
    print("row_lengths", f"n={n} count={count}", flush=True)
    return "row_lengths", ColumnsProblem(n=n, count=count, **fields), room.put(np.zeros(n, np.int64))


def logistic(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, value = room.size(1, 8, 64), room.zeros(1)
    rows = {"sign": room.put(np.ones(n)), "s": room.put(np.full(n, 2.0))}
    number = ctypes.cast(value, ctypes.POINTER(ctypes.c_double))
    print("logistic", f"n={n}", flush=True)
    if room.rng.random() < 0.5:
        return "logistic_conjugate", room.put(np.full(n, 0.7)), n, rows["s"], 0.9, number
    return "logistic", room.normal(n), n, *rows.values(), room.zeros(n), room.zeros(n), number


def classes(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    n, count, C = room.size(1, 8, 32), room.size(1, 5), room.size(2, 4)
    grouped = bool(room.rng.random() < 0.5)
    rows = {"p": room.put(np.full((n, C), 1.0 / C)), "r": room.normal(n, C), "s": room.put(np.ones(n))}
    state = {"z": room.zeros(n, C), "center": room.zeros(n), "b": room.zeros(C), "x": room.zeros(count, C)}
    more = {"ridge": room.zeros(count), "penalty": room.put(np.full(count, 0.1))}
    more["active"] = room.put(np.zeros(count, dtype=np.int8))
    diagonal = room.zeros(count) if grouped else room.zeros(count, C)
    print("classes", f"n={n} count={count} C={C} grouped={grouped}", flush=True)
    fields = {**column_arrays(room, n, count), **rows, **state, **more, "diagonal": diagonal}
    return "classes", ClassesProblem(C=C, sweeps=4, grouped=grouped, inverse=room.put(np.eye(C)), **fields)


def quadratic(kernels: Kernels, room: Room) -> tuple[Any, ...]:
    size = room.size(2, 8, 70)
    edges = np.unique(np.concatenate([[0, size], room.rng.integers(0, size, 3)]))
    blocks = len(edges) - 1
    A = room.rng.normal(size=(size, size))
    single = int(room.rng.integers(2))
    H = (A @ A.T).astype(np.float32 if single else np.float64)
    problem = QuadraticProblem(
        *(size, blocks, 4, size, single, room.put(H), room.put(edges.astype(np.int64))),
        *(room.put(room.rng.permutation(size).astype(np.int64)), room.put(np.ones(blocks))),
        *(room.put(np.full(blocks, 4.0 * size)), room.normal(size), room.normal(size), 0.0),
        active=room.put(np.zeros(blocks, dtype=np.int8)),
    )
    print("quadratic", f"size={size} blocks={blocks} single={single}", flush=True)
    return "quadratic", problem


DESCENTS = (models, models, columns, classes, quadratic, products, logistic, gram_step, known_products, row_lengths)
PROBLEMS = (
    *[dense] * 8,
    *[csr] * 3,
    *[table] * 3,
    texts,
    csv,
    csv,
    softmax,
    border,
    moments,
    moments,
    perceptron,
    sgd,
    function,
    newton,
    lbfgs,
    packed,
    gram,
    factor,
    *DESCENTS,
)


def main(rounds: int, seed: int) -> None:
    for level in native.available()[1:]:
        with native.using(level) as kernels:
            assert kernels is not None
            for number in range(rounds):
                rng = np.random.default_rng([seed, number])
                for make in PROBLEMS:
                    room = Room(rng, at_end=bool(number % 2))
                    print(level, f"{number=} {make.__name__} at_end={room.at_end}", end=" ", flush=True)
                    call = make(kernels, room)
                    if call:
                        kernels(*call)
    print("all done")


if __name__ == "__main__":
    main(*(int(word) for word in (*sys.argv[1:], "20", "0")[:2]))
