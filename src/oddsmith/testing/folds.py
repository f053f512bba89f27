"""The laws of statistics, and of the engines that fold them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from oddsmith import statistics as _register_all  # noqa: F401
from oddsmith.block import Block
from oddsmith.engines import Engine, MemoryEngine, MemorySource
from oddsmith.numerics import EPS, Array
from oddsmith.rows import STORAGES, as_rows
from oddsmith.statistic import STATISTICS, Shape

Leaves = dict[str, Any]  # The numbers of a statistic, by the path of their field.
SAFETY = 256.0  # Tolerance of the laws, in multiples of the effect of rounding the data.
JITTER = 1e-10
"""By how much data is moved to see that effect, which is then scaled down to a unit in the last place: a formula
that throws digits away would hide behind its own noise if data were moved by so little."""

TINY = 1e-290  # Below this, numbers have fewer digits.
SINGLE_ROWS = 12  # Rows of a block that are also summed one by one.


def check_statistic(
    statistic: type[Any], blocks: Iterable[tuple[Block, Shape]] | None = None, *, seed: int = 0
) -> None:
    """Check a statistic against the seven laws at the top of ``oddsmith/statistic.py``.

    For every block and every set of ``statistic.example_params``: identity (to the bit), associativity, order,
    splitting, weights, emptiness (to the bit) and classes. Also: the record is frozen, can be pickled, keeps
    float64 sums whatever the input, never writes to the block, and C order, F order and CSR give the same sums.

    Integer fields count rows rather than weight, so the law of weight 2 does not apply to them.

    Parameters
    ----------
    statistic : type
        A frozen dataclass with ``zero``, ``of``, ``merge`` and ``example_params``.
    blocks : iterable of (Block, Shape), optional
        Rows to check on; default: `hostile_blocks`.
    seed : int
        Random seed of the parameters and of the splits.

    >>> from oddsmith.statistics import Counts
    >>> check_statistic(Counts)
    """
    name = statistic.__name__
    parameters = getattr(statistic, "__dataclass_params__", None)
    assert parameters is not None and parameters.frozen, f"{name} is not a frozen dataclass."
    rng = np.random.default_rng(seed)
    for block, shape in hostile_blocks(seed) if blocks is None else blocks:
        given = statistic.example_params(shape, rng)
        assert given, f"{name}.example_params gave nothing to check with."
        for params in given:
            _check_laws(statistic, _read_only(block), shape, params, rng)


def hostile_blocks(seed: int = 0) -> Iterator[tuple[Block, Shape]]:
    """Yield blocks on which sums can fail: columns of mean 1e8, weights of 0, no rows, an absent class and more.

    >>> sizes = [block.n_rows for block, shape in hostile_blocks()]
    >>> min(sizes), len(sizes) > 8
    (0, True)
    """
    rng = np.random.default_rng(seed)

    def block(
        n: int, M: int, K: int, *, mean: Any = 0.0, scale: Any = 1.0, s: Any = None, offset: bool = False
    ) -> tuple[Block, Shape]:
        X = mean + scale * rng.normal(size=(n, M))
        t = rng.integers(0, K, n).astype(np.int32)
        o = rng.normal(size=(n, max(1, K - 1))) if offset else None
        return Block(as_rows(X), t, s, o), Shape(M, K)

    yield block(40, 3, 3)
    yield block(30, 3, 2, mean=1e8)
    yield block(30, 3, 2, mean=np.array([1e8, 0.0, -3e5]), scale=np.array([1.0, 1e-6, 1e6]))
    yield block(25, 2, 3, s=rng.integers(0, 3, 25).astype(np.float64), offset=True)
    yield block(25, 2, 2, s=rng.uniform(0.0, 2.0, 25))
    yield block(9, 2, 2, s=np.zeros(9))
    absent, shape = block(20, 2, 2, s=np.repeat([0.0, 1.0], [1, 19]))
    absent.X[0] = 1e12
    yield absent, shape
    yield block(1, 2, 2)
    yield block(0, 2, 3)
    yield block(12, 1, 2, mean=1e8, scale=0.0)
    narrow, shape = block(30, 3, 2, mean=100.0)
    yield replace(narrow, Phi=as_rows(narrow.X.astype(np.float32))), shape
    lacking, shape = block(20, 2, 3)
    yield replace(lacking, t=np.where(lacking.t == 1, 2, lacking.t).astype(np.int32)), shape
    holes, shape = block(40, 4, 3)
    yield replace(holes, Phi=as_rows(sparse.csr_array(np.where(rng.random((40, 4)) < 0.7, 0.0, holes.X)))), shape


def _check_laws(statistic: type[Any], block: Block, shape: Shape, params: Any, rng: np.random.Generator) -> None:
    form, weights = "CSR" if block.is_sparse else block.Phi.dtype, "no weights" if block.s is None else "weights"
    rows = f"{block.n_rows} × {shape.M} {form} rows, {shape.K} classes, {weights}"
    label = f"{statistic.__name__} of {rows} with {params!r}"
    whole = statistic.of(block, params)
    zero = statistic.zero(shape, params)
    assert isinstance(whole, statistic), f"of() gave a {type(whole).__name__}: {label}"
    for path, value in leaves(whole).items():
        dtype = np.asarray(value).dtype
        assert dtype.kind != "f" or dtype == np.float64, f"{path} is kept in {dtype}, expected float64: {label}"
    _same_bits(f"pickling: {label}", pickle.loads(pickle.dumps(whole)), whole)
    near = _Nearness(statistic, block, shape.K, params)

    def same(law: str, found: Any, expected: Any = whole, *, counts: bool = True) -> None:
        near.compare(f"{law}: {label}", found, expected, counts=counts)

    _same_bits(f"law 1, identity: {label}", zero.merge(whole), whole)
    _same_bits(f"law 1, identity: {label}", whole.merge(zero), whole)
    empty = statistic.of(block.take(np.arange(0)), params)
    _same_bits(f"law 6, emptiness: {label}", empty, zero)
    _same_bits(f"law 6, emptiness: {label}", whole.merge(empty), whole)

    n = block.n_rows
    i, j = np.sort(rng.integers(0, n + 1, 2))
    a, b, c = (statistic.of(block.take(np.arange(*ends)), params) for ends in ((0, i), (i, j), (j, n)))
    same("law 2, associativity", (a.merge(b)).merge(c), a.merge(b.merge(c)))
    same("law 3, order", b.merge(a), a.merge(b))
    same("law 3, order", c.merge(a).merge(b))
    same("law 4, splitting", a.merge(b).merge(c))
    one_by_one = [statistic.of(block.take(np.array([r])), params) for r in range(min(n, SINGLE_ROWS))]
    rest = statistic.of(block.take(np.arange(SINGLE_ROWS, n)), params)
    same("law 4, splitting into rows", reduce(statistic.merge, [*one_by_one, rest]))

    s = block.weights()
    doubled = replace(block, s=s * 2.0)
    twice = block.take(np.repeat(np.arange(n), 2))
    same("law 5, weight 2", statistic.of(doubled, params), statistic.of(twice, params), counts=False)
    without = block.take(np.flatnonzero(s > 0))
    same("law 5, weight 0", statistic.of(without, params))
    none = statistic.of(replace(block, s=np.zeros(n)), params)
    same("law 5, no weight at all", none, zero)

    parts = [statistic.of(block.take(np.flatnonzero(block.t == k)), params) for k in range(shape.K)]
    same("law 7, classes", reduce(statistic.merge, parts, zero))
    dense = block.Phi.dense()
    forms = {
        "C order": np.ascontiguousarray(dense),
        "F order": np.asfortranarray(dense),
        "a strided view": np.repeat(dense, 2, axis=0)[::2],
        "CSR": sparse.csr_array(dense),
    }
    for form, Phi in forms.items():
        same(f"{form} as C order", statistic.of(_read_only(replace(block, Phi=as_rows(Phi))), params))
    for name, storage in STORAGES.items():
        stored = replace(block, Phi=storage.example(block.Phi.dense()))
        plain = replace(stored, Phi=as_rows(stored.Phi.dense()))
        found, expected = statistic.of(stored, params), statistic.of(plain, params)
        nearness = near if np.array_equal(plain.X, dense) else _Nearness(statistic, plain, shape.K, params)
        nearness.compare(f"{name} rows as dense ones: {label}", found, expected)


class _Nearness:
    """How far the statistic of a block moves when its data is rounded differently, field by field."""

    def __init__(self, statistic: type[Any], block: Block, K: int, params: Any) -> None:
        rng = np.random.default_rng(1)
        exact = replace(block, Phi=as_rows(block.X.astype(np.float64)), s=block.weights())
        base = leaves(statistic.of(exact, params))
        # Each row in two halves that are rounded apart: a single row, too, has the spread of its own rounding.
        halves = replace(exact.take(np.repeat(np.arange(block.n_rows), 2)), s=np.repeat(0.5 * block.weights(), 2))
        before = leaves(statistic.of(halves, params))
        floats = [path for path, value in base.items() if np.asarray(value).dtype.kind == "f"]
        self.moved = {path: EPS * np.abs(base[path]) for path in floats}
        for _ in range(6):
            after = leaves(statistic.of(_jittered(halves, rng), params))
            # What the sums would be with other labels: where these cancel to zero, their rounding does not.
            relabelled = replace(exact, t=rng.integers(0, K, block.n_rows).astype(np.int32))
            others = leaves(statistic.of(relabelled, params))
            for path in floats:
                shift = np.abs(after[path] - before[path]) * (EPS / JITTER)
                self.moved[path] = np.maximum(self.moved[path], np.maximum(shift, EPS * np.abs(others[path])))

    def compare(self, law: str, found: Any, expected: Any, *, counts: bool = True) -> None:
        a, b = leaves(found), leaves(expected)
        assert a.keys() == b.keys(), f"{law}: fields {sorted(a)} against {sorted(b)}."
        for path, value in b.items():
            if path not in self.moved:
                assert not counts or np.array_equal(a[path], value), f"{law}: {path} is {a[path]}, expected {value}."
                continue
            off = np.abs(np.asarray(a[path]) - value)
            allowed = SAFETY * self.moved[path] + TINY
            assert np.all(off <= allowed), (
                f"{law}: {path} is off by {np.max(off):.3g} where rounding allows {np.max(allowed):.3g}: "
                f"{a[path]} against {value}."
            )


def _jittered(block: Block, rng: np.random.Generator) -> Block:
    """Return the block with each value and weight moved by up to `JITTER` of itself, but for rows of weight 0."""
    s = block.weights()
    there = (s > 0).astype(np.float64)

    def jitter(values: Array, share: Array) -> Array:
        return values * (1.0 + JITTER * share * rng.uniform(-1.0, 1.0, values.shape))

    X = block.X
    if block.is_sparse:
        data = jitter(X.data, np.repeat(there, np.diff(X.indptr)))
        X = sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
    else:
        X = jitter(X, there[:, None])
    return replace(block, Phi=as_rows(X), s=jitter(s, there))


def leaves(record: Any, path: str = "") -> Leaves:
    """Return the contents of a record, an estimator or a collection, flattened, by path."""
    parts: Iterable[tuple[object, Any]]
    if is_dataclass(record):
        parts = ((field.name, getattr(record, field.name)) for field in fields(record))
    elif isinstance(record, dict | BaseEstimator):
        parts = (record if isinstance(record, dict) else vars(record)).items()
    elif isinstance(record, list | tuple):
        parts = enumerate(record)
    else:
        return {path: record}
    return {place: leaf for name, value in parts for place, leaf in leaves(value, f"{path}.{name}".lstrip(".")).items()}


def _same_bits(law: str, found: Any, expected: Any) -> None:
    a, b = leaves(found), leaves(expected)
    assert a.keys() == b.keys(), f"{law}: fields {sorted(a)} against {sorted(b)}."
    for path, value in b.items():
        assert np.array_equal(a[path], value), f"{law}: {path} is {a[path]}, expected exactly {value}."


def _read_only(block: Block) -> Block:
    """Return the block over arrays that refuse to be written to."""
    X = sparse.csr_array(block.X, copy=True) if block.is_sparse else block.X.copy(order="K")
    t, s, offset = block.t.copy(), *(None if part is None else part.copy() for part in (block.s, block.offset))
    for array in (*((X.data, X.indices, X.indptr) if block.is_sparse else (X,)), t, s, offset):
        if array is not None:
            array.flags.writeable = False
    return Block(as_rows(X), t, s, offset, block.first_row)


def check_engine(engine: Engine, make_source: Callable[..., Any] = MemorySource) -> None:
    """Check an engine against the memory engine, for every registered statistic.

    Its fold must equal that of the memory engine up to rounding, be bit-identical when repeated, give ``zero`` for no
    rows, and call ``progress`` with an increasing count that ends at the number of blocks.

    Parameters
    ----------
    engine : Engine
        The engine.
    make_source : callable
        ``make_source(X, t, K, s, offset)`` puts arrays where this engine finds them.

    >>> check_engine(MemoryEngine(threads=2))
    """
    rng = np.random.default_rng(0)
    memory = MemoryEngine(threads=1)
    for n, M, K in ((0, 2, 2), (1, 3, 2), (400, 3, 2), (1500, 4, 3)):
        X = rng.normal(size=(n, M)) * [1.0, 1e3, 1e-3, 1.0][:M] + 10.0
        t = rng.integers(0, K, n).astype(np.int32)
        s, offset = rng.uniform(0.0, 2.0, n), rng.normal(size=(n, K - 1))
        source = make_source(X, t, K, s, offset)
        reference = MemorySource(X, t, K, s, offset)
        assert source.n_rows == n and source.shape == Shape(M, K), f"The source says {source.n_rows}, {source.shape}."
        block = Block(as_rows(X), t, s, offset)
        for name, statistic in STATISTICS.items():
            for params in statistic.example_params(Shape(M, K), rng):
                what = f"{engine.name} engine, {name}, {n} rows"
                calls: list[tuple[int, int]] = []
                found = engine.fold(statistic, source, params, progress=lambda *at, calls=calls: calls.append(at))
                near = _Nearness(statistic, block, K, params)
                near.compare(f"{what}, against memory", found, memory.fold(statistic, reference, params))
                near.compare(f"{what}, against one block", found, statistic.of(block, params))
                _same_bits(f"{what}, run again", engine.fold(statistic, source, params), found)
                done = [at for at, _ in calls]
                grew = done == sorted(set(done)) and (not calls or calls[-1][0] == calls[-1][1])
                assert grew, f"{what}: progress was called with {calls}."
                if n == 0:
                    _same_bits(f"{what}, nothing to fold", found, statistic.zero(Shape(M, K), params))
