"""Summaries of columns: levels with their weight, means, missing values; and the categories made of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from oddsmith.cached_property import cached_property
from oddsmith.design.formula import Formula
from oddsmith.design.frame import KIND_WORDS, MANY_TEXTS, Coded, Frame, TextLevels
from oddsmith.design.inputs import take_rows
from oddsmith.design.texts import are_sorted
from oddsmith.engines.memory import available_cores, parallel_map
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.kernels.texts import count_codes
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.codes import CODES, CodeRows, narrowest

CHUNK_ROWS = 1 << 14
KEPT_DICTIONARIES = 2
MISSING = "missing"  # Name of the level of missing values.


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """What some rows hold in a column: sums that merge, whatever the parts that the rows come in.

    ``levels`` (sorted, or in the order that the column has ``declared``) have the total ``weight`` of their rows;
    ``missing`` and ``observed`` are the weights of rows without and with a value, ``mean`` is that of the numbers.
    Rows of weight 0 do not count. Many levels of text are counted in the Arrow table ``texts``, in no order, until
    the summary is `settled`.

    >>> from oddsmith.design.frame import read_frame
    >>> import polars
    >>> one, two = (read_frame(polars.DataFrame({"x": x})) for x in (["b", "a"], ["c", "a", None]))
    >>> both = summarise_column(one, "x", levels=True).merge(summarise_column(two, "x", levels=True))
    >>> both.levels, both.weight.tolist(), both.missing
    (('a', 'b', 'c'), [2.0, 1.0, 1.0], 1.0)
    """

    kind: str
    levels: Sequence[Any] = ()
    weight: Array = field(default_factory=lambda: np.zeros(0))
    declared: tuple[Any, ...] | None = None
    observed: float = 0.0
    mean: float = 0.0
    missing: float = 0.0
    texts: pa.Table | None = None

    def settled(self) -> ColumnSummary:
        """Return the summary with its levels in order."""
        if self.texts is None:
            return self
        there = self.pruned().texts
        assert there is not None
        levels, weight = _one_chunk(there["level"]), there["weight"].to_numpy()
        if are_sorted(levels):
            levels = pa.concat_arrays([levels, levels[:0]])  # a copy: a model holds no part of its data
        else:
            order = pc.sort_indices(levels)
            levels, weight = levels.take(order), weight[order.to_numpy()]
        ordered: Sequence[Any] = TextLevels(levels) if len(levels) >= MANY_TEXTS else tuple(levels.to_pylist())
        return replace(self, levels=ordered, weight=np.asarray(weight, dtype=np.float64), texts=None)

    def pruned(self) -> ColumnSummary:
        """Return the summary without levels that a dictionary has and no row."""
        if self.texts is None:
            return self
        there = self.texts["weight"].to_numpy() > 0.0
        return self if there.all() else replace(self, texts=self.texts.filter(pa.array(there)))

    def _counted(self) -> pa.Table | None:
        """The levels as an Arrow table, if they are texts without an order of their own."""
        if self.texts is not None or self.declared is not None or not all(type(one) is str for one in self.levels):
            return self.texts
        levels = pa.array(self.levels, pa.string())
        return pa.table({"level": levels, "weight": np.asarray(self.weight, dtype=np.float64)})

    def merge(self, other: ColumnSummary) -> ColumnSummary:
        """Return what the rows of both hold, which are of one kind, or nothing but missing values."""
        if self.texts is None and other.texts is None:
            return self._merge(other)
        one, two = self._counted(), other._counted()
        if one is None or two is None:
            return self.settled()._merge(other.settled())
        bare = [replace(part, levels=(), weight=np.zeros(0), declared=None, texts=None) for part in (self, other)]
        return replace(bare[0]._merge(bare[1]), texts=_merge_texts(one, two))

    def _merge(self, other: ColumnSummary) -> ColumnSummary:
        kind, missing = other.kind if self.kind == "empty" else self.kind, self.missing + other.missing
        declared = self.declared if self.declared == other.declared or not other.levels else None
        declared = other.declared if not self.levels else declared
        weights = dict(zip(self.levels, self.weight.tolist(), strict=True))
        for level, weight in zip(other.levels, other.weight.tolist(), strict=True):
            weights[level] = weights.get(level, 0.0) + weight
        levels = in_order(weights, declared)
        weight = np.array([weights[level] for level in levels], dtype=np.float64)
        observed = self.observed + other.observed
        share = other.observed / observed if observed > 0 else 0.0
        mean = self.mean + share * (other.mean - self.mean) if self.observed > 0 else other.mean
        both = ColumnSummary(kind=kind, levels=levels, weight=weight, declared=declared)
        return replace(both, observed=observed, mean=mean, missing=missing)


def _merge_texts(one: pa.Table, two: pa.Table) -> pa.Table:
    """Return the levels of two tables, with the sums of their weights."""
    known, more = (_one_chunk(part["level"]) for part in (one, two))
    if known.type == more.type and known.equals(more):  # pieces of one dictionary
        return pa.table({"level": known, "weight": one["weight"].to_numpy() + two["weight"].to_numpy()})
    if known.type != more.type:
        known, more = known.cast(pa.large_string()), more.cast(pa.large_string())
    found = pc.index_in(more, value_set=known)
    new = np.asarray(found.is_null())
    weight = one["weight"].to_numpy().copy()
    weight[np.asarray(found.drop_null())] += two["weight"].to_numpy()[~new]  # each level is there once
    if new.any():
        known = pa.concat_arrays([known, more.filter(pa.array(new))])
        weight = np.concatenate([weight, two["weight"].to_numpy()[new]])
    return pa.table({"level": known, "weight": weight})


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def summarise_column(frame: Frame, name: str, s: Array | None = None, *, levels: bool) -> ColumnSummary:
    """Return what the rows of a frame, of the weights ``s``, hold in a column: its ``levels``, or its numbers."""
    kind = frame.kinds[name]
    if levels:
        coded = frame.coded(name)
        n = len(coded.levels)
        counts = level_weights(coded.codes, n, s) if s is not None or coded.counts is None else coded.counts + 0.0
        if isinstance(coded.levels, TextLevels) and not coded.ordered:
            texts = pa.table({"level": coded.levels.array, "weight": counts[1:]})
            observed = float(counts[1:].sum())
            return ColumnSummary(kind=kind, observed=observed, missing=float(counts[0]), texts=texts)
        missing, *weight = counts.tolist()
        total = dict(zip(coded.levels, weight, strict=True))
        declared = tuple(coded.levels) if coded.ordered else None
        found = in_order([level for level, w in total.items() if w > 0], declared)
        weights, observed = np.array([total[level] for level in found]), float(np.sum(weight))
        summary = ColumnSummary(kind=kind, levels=found, weight=weights, declared=declared)
        return replace(summary, observed=observed, missing=missing)
    parts = (slice(start, start + CHUNK_ROWS) for start in range(0, max(1, frame.n_rows), CHUNK_ROWS))
    each = (_summarise_numbers(kind, frame.numbers(name, rows), None if s is None else s[rows]) for rows in parts)
    return reduce(lambda one, two: one.merge(two), each)


def _summarise_numbers(kind: str, x: Array, s: Array | None) -> ColumnSummary:
    absent = np.isnan(x)
    missing = float(absent.sum() if s is None else s[absent].sum())
    present = ~absent if s is None else ~absent & (s > 0)
    x, s = (x, s) if present.all() else (x[present], take_rows(s, np.flatnonzero(present)))
    observed = float(len(x) if s is None else s.sum())
    # No product of vectors by BLAS, whose threads would wake up for it.
    mean = float((x / observed if s is None else x / observed * s).sum()) if observed > 0 else 0.0
    return ColumnSummary(kind=kind, observed=observed, mean=mean, missing=missing)


def level_weights(codes: npt.NDArray[np.signedinteger[Any]], n: int, s: Array | None) -> Array:
    """Return the total weight of rows without a level (−1), then of each of ``n`` levels; by chunks, to save memory.

    >>> level_weights(np.array([1, -1, 1]), 2, None).tolist()
    [1.0, 0.0, 2.0]
    """
    if s is None:
        return count_codes(codes, n).astype(np.float64)
    total = np.zeros(n + 1)
    step = max(CHUNK_ROWS, n)
    for start in range(0, len(codes), step):
        part = slice(start, start + step)
        total += np.bincount(codes[part].astype(np.intp) + 1, weights=s[part], minlength=n + 1)
    return total


def in_order(levels: Iterable[Any], declared: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """Return levels in the order that is declared, or sorted."""
    if declared is not None:
        present = set(levels)
        return tuple(level for level in declared if level in present)
    try:
        return tuple(sorted(levels))
    except TypeError:
        return tuple(sorted(levels, key=str))


@dataclass(frozen=True)
class Category:
    """The levels of a column: 0/1 columns are made of all but the ``reference`` (−1: of all).

    None, if there, is "missing".
    """

    name: str
    kind: str
    levels: Sequence[Any]
    reference: int = 0

    def columns(self, *, full: bool) -> list[int]:
        """Return the levels that have a column: all (``full``), or those other than the reference."""
        return [i for i in range(len(self.levels)) if full or i != self.reference]

    def names(self, *, full: bool) -> LevelNames:
        """Return the names of the columns, such as ``race[black]``."""
        return LevelNames(self, full)

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # without what is cached

    @property
    def has_missing(self) -> bool:
        """Whether a missing value is a level: the last one."""
        return self.levels[-1:] == (None,)

    @cached_property
    def has_texts(self) -> bool:
        """Whether all levels are texts, but that of missing values."""
        if isinstance(self.levels, TextLevels):
            return True
        return set(map(type, self.levels[:-1] if self.has_missing else self.levels)) <= {str}

    @cached_property
    def _texts(self) -> pa.Array | None:
        """The levels as an Arrow array, None unless all are texts."""
        if isinstance(self.levels, TextLevels):
            return self.levels.array.cast(pa.large_string())
        levels = self.levels[:-1] if self.has_missing else self.levels
        return pa.array(levels, pa.large_string()) if self.has_texts else None

    def table(self, coded: Coded) -> Indices:
        """Return which of `levels` each of the column's levels is (−1: unknown), that of missing values last."""
        if isinstance(coded.levels, TextLevels):
            if self.levels == coded.levels:
                return np.append(np.arange(len(self.levels), dtype=np.int32), np.int32(-1))
            if self._texts is not None:
                return self._text_table(coded.levels)
        place = {level: i for i, level in enumerate(self.levels)}
        return np.array([*(place.get(level, -1) for level in coded.levels), place.get(None, -1)], dtype=np.intp)

    @cached_property
    def _known(self) -> list[tuple[pa.Array, Indices]]:
        return []

    def _text_table(self, levels: TextLevels) -> Indices:
        """As `table`; what was found for a dictionary is kept for other pieces of it."""
        for array, table in self._known:
            if array.type == levels.array.type and array.equals(levels.array):
                return table
        texts, last = levels.array.cast(pa.large_string()), len(self.levels) - 1 if self.has_missing else -1
        if texts.equals(self._texts):
            table = np.append(np.arange(len(texts), dtype=np.int32), np.int32(last))
        else:
            found = pc.index_in(texts, value_set=self._texts)
            table = np.append(np.asarray(found.fill_null(-1), dtype=np.int32), np.int32(last))
            del texts, found
            pa.default_memory_pool().release_unused()  # Arrow would keep what the search took: several times the texts
        self._known[KEPT_DICTIONARIES - 1 :] = []
        self._known.insert(0, (levels.array, table))
        return table

    def code_rows(
        self, coded: Coded, unseen: str, absent: npt.NDArray[np.bool_] | None = None, *, full: bool
    ) -> CodeRows:
        """Return the rows of the 0/1 columns (``full``: of all levels): the column's own codes, if all are known.

        An unseen level is refused or the reference, as in ``absent`` rows.
        """
        table, n = self.table(coded), len(self.levels)
        if self._has_unknown(coded, table, absent):  # such rows are refused, or those of the reference
            places = narrowest(self.places(coded, unseen, absent), n)
            return CodeRows(places, n, dropped=None if full else self.reference)
        codes = coded.codes if coded.codes.dtype in CODES else narrowest(coded.codes, len(coded.levels))
        column = np.arange(n + 1, dtype=np.int32)
        if not full:
            column[self.reference :] -= 1
            column[self.reference] = -1
        column[-1] = -1  # of levels that no row has
        columns = column[table]
        width, missing = n - (not full), int(columns[-1])
        known: dict[str, Any] = {
            "level_columns": columns[:-1],
            "n_columns": width,
            "missing": missing,
            "counts": coded.counts,
        }
        return CodeRows(codes, len(columns) - 1, **known)

    def _has_unknown(self, coded: Coded, table: Indices, absent: npt.NDArray[np.bool_] | None) -> bool:
        """Whether rows that count have a level that is unknown, or none where that is no level."""
        unknown = table < 0
        if not unknown[:-1].any() and (self.has_missing or int(coded.codes.min(initial=0)) >= 0):
            return False
        for start in range(0, len(coded), CHUNK_ROWS):
            part = slice(start, start + CHUNK_ROWS)
            found = unknown[coded.codes[part]]
            if (found if absent is None else found & ~absent[part]).any():
                return True
        return False

    def places(self, coded: Coded, unseen: str, absent: npt.NDArray[np.bool_] | None = None) -> Indices:
        """Return which of `levels` each row has; an unseen one is refused or the reference, as in ``absent`` rows."""
        table = self.table(coded)
        places: Indices = table[coded.codes]
        unknown = places < 0
        if unknown.any():
            refused = unknown if absent is None else unknown & ~absent
            if unseen == "error" and refused.any():
                new = few(coded.levels[i] for i in np.unique(coded.codes[refused]))
                known = few(level for level in self.levels if level is not None)
                row = int(np.argmax(refused))
                reference = "the mean of all levels" if self.reference < 0 else repr(self.levels[self.reference])
                raise InvalidInputError(
                    f"Column {self.name!r} has levels that did not occur in the fit: {new}, the first in row {row}. "
                    f"The known levels are {known}. Correct them, or fit again: with rows that have them, or with "
                    f"Design(unseen='reference'), which counts them as {reference}.",
                    row=row,
                )
            places = np.where(unknown, self.reference, places)
        return places


@dataclass(frozen=True, eq=False)
class LevelNames(Sequence[str]):
    """The names of a category's columns, made when they are asked for: of many levels they would take much memory.

    >>> names = LevelNames(Category("race", "category", ("black", "other", "white")), full=False)
    >>> names[0], len(names), names == ("race[other]", "race[white]")
    ('race[other]', 2, True)
    """

    category: Category
    full: bool

    def __len__(self) -> int:
        return len(self.category.levels) - (not self.full and bool(self.category.levels))

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return tuple(self[j] for j in range(*i.indices(len(self))))
        j = range(len(self))[i]
        level = self.category.levels[j + (not self.full and j >= self.category.reference)]
        return f"{self.category.name}[{MISSING if level is None else level}]"

    def __iter__(self) -> Iterator[str]:
        for j, level in enumerate(self.category.levels):
            if self.full or j != self.category.reference:
                yield f"{self.category.name}[{MISSING if level is None else level}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LevelNames | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def few(values: Iterable[Any]) -> str:
    """Return some values as text."""
    shown = [repr(value) for value in values]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")


def choose_reference(category: Category, weight: Array, wanted: object) -> Category:
    """Return the category with the reference that is asked for: None, "most frequent", "mean", or {column: level}."""
    if wanted == "mean":
        return replace(category, reference=-1)
    if isinstance(wanted, str) and len(category.levels):
        return replace(category, reference=int(np.argmax(weight)))
    if isinstance(wanted, dict) and category.name in wanted:
        level = wanted[category.name]
        if level not in category.levels:
            raise UnknownNameError(f"reference level of column {category.name!r}", level, category.levels)
        return replace(category, reference=category.levels.index(level))
    return category


Summaries = dict[tuple[str, bool], ColumnSummary]
"""Summaries of columns, by name and by whether their levels were counted."""


@dataclass(frozen=True)
class TableSchema:
    """The kinds of the columns of some rows, and their summaries.

    >>> import polars
    >>> from oddsmith import Design
    >>> one, two = (Design().look(polars.DataFrame({"x": x})) for x in (["a", "b"], ["c"]))
    >>> both = one.merge(two)
    >>> both.kinds, both.seen["x", True].levels
    ({'x': 'category'}, ('a', 'b', 'c'))
    """

    kinds: dict[str, str]
    seen: Summaries

    def merge(self, other: TableSchema) -> TableSchema:
        kinds: dict[str, str] = {}
        seen: Summaries = {}
        for name, kind in other.kinds.items():
            before = self.kinds.get(name, "empty")
            if "empty" not in (before, kind) and before != kind:
                raise InvalidTypeError(
                    f"Column {name!r} holds {KIND_WORDS[before]} in one part of the table and {KIND_WORDS[kind]} in "
                    f"another. Use one type."
                )
            kinds[name] = kind if before == "empty" else before
        for name, levels in dict.fromkeys([*self.seen, *other.seen]):
            levels = levels or (name, True) in self.seen or (name, True) in other.seen
            # A column of nothing but missing values has no levels and no numbers: its summary serves as both.
            parts = [part.seen.get((name, levels)) or part.seen.get((name, not levels)) for part in (self, other)]
            known = [part for part in parts if part is not None]
            seen[name, levels] = known[0] if len(known) == 1 else known[0].merge(known[1])
        return TableSchema(kinds, seen)

    def pruned(self) -> TableSchema:
        """Return the schema without levels that no row has, as it may leave its place."""
        return TableSchema(self.kinds, {use: summary.pruned() for use, summary in self.seen.items()})

    @property
    def is_plain(self) -> bool:
        """Whether the columns hold nothing but numbers and booleans, so that no design is needed."""
        return not {"category", "date"} & set(self.kinds.values())


def summarise(frame: Frame, formula: Formula, s: Array | None, *, numbers: bool) -> Summaries:
    """Return summaries of the columns that a formula uses for their levels, and (``numbers``) of the others."""
    uses = dict.fromkeys(
        (name, factor.category is not None or (factor.column is not None and frame.kinds[name] == "category"))
        for term in formula.terms
        for factor in term
        for name in factor.columns
    )
    # Texts are coded without the interpreter's lock, a column on each core.
    deque(parallel_map(frame.coded, [name for name, levels in uses if levels], available_cores()), maxlen=0)
    return {use: summarise_column(frame, use[0], s, levels=use[1]) for use in uses if use[1] or numbers}
