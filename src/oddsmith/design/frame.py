"""The columns of a table by kind, independent of its library: numbers, and categories as codes.

| kind | columns of | as numbers |
|---|---|---|
| ``"number"`` | whole numbers, floats, decimals | themselves |
| ``"boolean"`` | booleans | 0 and 1 |
| ``"date"`` | dates and times (UTC, if they have a zone) | days since 1970-01-01, with fractions |
| ``"category"`` | text, categoricals, enumerations | none: they have levels |
| ``"empty"`` | nothing but missing values | all missing |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import eq
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from oddsmith.design import inputs
from oddsmith.design.input_errors import unreadable
from oddsmith.design.inputs import arrow_numbers, as_table, column_numbers
from oddsmith.design.texts import TextColumn, are_sorted, text_buffers
from oddsmith.design.whole_numbers import refuse_rounded_levels, rounded_column
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.kernels.texts import TextCodes, encode_pieces, encode_texts
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.rows.codes import check_codes

KIND_WORDS = {
    **{"number": "numbers", "boolean": "booleans", "date": "dates", "category": "categories"},
    "empty": "nothing but missing values",
}
KINDS = {
    **{"null": "empty", "boolean": "boolean", "integer": "number", "float": "number", "decimal": "number"},
    **{"date": "date", "text": "category", "dictionary": "category"},
}
"""Kinds of columns by Arrow type."""
LEVELS = ("integer", "float", "boolean", "null", "text")  # What levels may be as they are.
DESIGNED = (nw.String, nw.Categorical, nw.Enum, nw.Date, nw.Datetime)  # Types that need conversion to numbers.
TICKS = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}  # Time units per day.


CHUNK_ROWS = 1 << 14
MANY_TEXTS = 1000  # Number of text levels from which they stay in Arrow, without Python objects.


class TextLevels(Sequence[Any]):
    """Many distinct strings in an Arrow array: a sequence that creates Python objects on access.

    >>> levels = TextLevels(pa.array(["b", "a"]))
    >>> len(levels), levels[1], levels[-1:], levels == ("b", "a")
    (2, 'a', ('a',), True)
    """

    def __init__(self, array: pa.Array) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, i: Any) -> Any:
        return tuple(self.array[i].to_pylist()) if isinstance(i, slice) else self.array[int(i)].as_py()

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self.array), MANY_TEXTS):  # some at a time, to save memory
            yield from self.array.slice(start, MANY_TEXTS).to_pylist()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TextLevels) and other.array.type == self.array.type:
            return bool(self.array.equals(other.array))
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True)
class Coded:
    """A column as codes of its levels, −1 for missing values. ``ordered``: the levels have a declared order.

    ``counts`` are the rows without a level, then those of each level, if they are known.

    >>> coded = code(pa.array(["b", None, "a", "b"]))
    >>> coded.levels, coded.codes.tolist(), coded.ordered
    (('b', 'a'), [0, -1, 1, 0], False)
    """

    levels: Sequence[Any]
    codes: npt.NDArray[np.signedinteger[Any]]
    ordered: bool = False
    counts: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.codes)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """Some columns of a table: numbers unchanged (narwhals series, Arrow columns), all others as Arrow arrays.

    ``finite`` are columns of numbers that are known to be finite.

    >>> import polars
    >>> frame = read_frame(polars.DataFrame({"age": [19, None], "race": ["black", "white"]}))
    >>> frame.kinds, frame.numbers("age").tolist(), frame.coded("race").codes.tolist()
    ({'age': 'number', 'race': 'category'}, [19.0, nan], [0, 1])
    """

    columns: dict[str, Any] = field(kw_only=False)
    kinds: dict[str, str] = field(kw_only=False)
    n_rows: int = field(kw_only=False)
    finite: frozenset[str] = frozenset()
    _codes: dict[str, Coded] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_codes(cls, table: pa.Table, counts: Mapping[str, npt.NDArray[np.int64]]) -> Frame:
        """Return a table of finite numbers and codes of different texts, whose ``counts`` are known; −1 is missing.

        >>> codes = pa.DictionaryArray.from_arrays(np.array([1, 0, 1], dtype=np.int8), ["a", "b"])
        >>> Frame.of_codes(pa.table({"x": codes}), {"x": np.array([0, 1, 2])}).coded("x").levels
        ('a', 'b')
        """
        columns: dict[str, Any] = dict(zip(table.column_names, table.columns, strict=True))
        coded = {}
        for name in counts:
            array = columns[name] = columns[name].chunk(0)
            codes = np.frombuffer(array.indices.buffers()[1], array.indices.type.to_pandas_dtype())
            coded[name] = Coded(_text_levels(array.dictionary), codes, counts=counts[name])
        kinds = {name: KINDS[type_name(column.type)] for name, column in columns.items()}
        finite = frozenset(name for name in columns if name not in counts and not columns[name].null_count)
        return cls(columns, kinds, table.num_rows, finite=finite, _codes=coded)

    @property
    def shape(self) -> tuple[int, int]:
        return self.n_rows, len(self.columns)

    def select(self, names: Iterable[str]) -> Frame:
        """Return some of the columns; raise if one does not exist."""
        for name in (names := list(names)):
            if name not in self.columns:
                raise absent_column(name, self.columns)
        columns, kinds = ({name: of[name] for name in names} for of in (self.columns, self.kinds))
        return Frame(columns, kinds, self.n_rows, finite=self.finite, _codes=self._codes)

    def take(self, rows: Indices) -> Frame:
        taken = {
            name: _rows_of(x, rows) if isinstance(x, nw.Series) else x.take(rows) for name, x in self.columns.items()
        }
        return Frame(taken, self.kinds, len(rows))

    __getitem__ = take  # as rows are taken from an array

    def numbers(self, name: str, rows: slice | None = None) -> Array:
        """Return a column as float64, missing values as NaN."""
        column, kind = self.columns[name], self.kinds[name]
        if rows is not None:
            column = column[rows]
        if kind == "empty":
            return np.full(len(column), np.nan)
        if kind == "category":
            raise InvalidTypeError(
                f"Column {name!r} holds categories, such as {example(column)!r}, where numbers are expected."
            )
        if isinstance(column, nw.Series):
            return column_numbers(column)
        return days_of(column) if kind == "date" else arrow_numbers(column)

    def coded(self, name: str) -> Coded:
        """Return a column as codes of levels; numbers and booleans are levels in the order of their size."""
        if name not in self._codes:
            self._codes[name] = self._coded(name)
        return self._codes[name]

    def _coded(self, name: str) -> Coded:
        kind = self.kinds[name]
        if kind == "category":
            array = self.columns[name]
            if isinstance(array, pa.DictionaryArray) and len(array) > array.null_count:
                raw, levels = _raw_codes(array.indices), len(array.dictionary)
                if not (raw.min() >= -1 and raw.max() < levels):  # which may be where none is valid
                    extremes = pc.min_max(array.indices).as_py().values()
                    check_codes(np.array(list(extremes)), levels, f"Column {name!r}")
            return code(array)
        refuse_rounded_levels(name, self._rounded(name))
        values = self.numbers(name)
        present = ~np.isnan(values)
        different, inverse = np.unique(values[present], return_inverse=True)
        codes = np.full(len(values), -1, dtype=np.intp)
        codes[present] = inverse.ravel()
        numbers = [int(value) if value.is_integer() else value for value in different.tolist()]
        return Coded(tuple(map(bool, numbers) if kind == "boolean" else numbers), codes)

    def rounded(self) -> list[str]:
        """Return the columns with whole numbers that float64 rounds."""
        return [name for name in self.columns if self._rounded(name) is not None]

    def _rounded(self, name: str) -> int | None:
        column = self.columns[name]
        if self.kinds[name] != "number" or (isinstance(column, pa.ChunkedArray) and is_.is_floating(column.type)):
            return None
        column = pa.chunked_array([column]) if isinstance(column, pa.Array) else column
        return rounded_column(nw.from_native(column, series_only=True))

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return a numeric column in its own type, without a copy if possible; float64 if values are missing."""
        column = self.columns[name]
        if self.kinds[name] in ("number", "boolean"):
            if isinstance(column, nw.Series):
                whole = column.dtype != nw.Decimal
            else:
                whole = column.null_count == 0 and type_name(column.type) in ("integer", "float")
                whole = whole and isinstance(column, pa.ChunkedArray)
            if whole and (values := column.to_numpy()).dtype.kind in "iufb":
                return np.asarray(values)
        return self.numbers(name)

    def is_complete(self, name: str) -> bool:
        """Whether a column is known to have no missing values."""
        coded = self._codes.get(name)
        return name in self.finite or (coded is not None and coded.counts is not None and not coded.counts[0])

    def missing(self, name: str) -> npt.NDArray[np.bool_]:
        """Return where a column is missing."""
        if self.kinds[name] == "category":
            return np.asarray(self.columns[name].is_null(), dtype=bool)
        found = np.empty(self.n_rows, dtype=bool)
        for start in range(0, self.n_rows, CHUNK_ROWS):  # some at a time, to save memory
            rows = slice(start, start + CHUNK_ROWS)
            found[rows] = np.isnan(self.numbers(name, rows))
        return found


def read_frame(X: object, names: Iterable[str] | None = None) -> Frame:
    """Return the named columns of a table (default: all); raise if one does not exist."""
    if isinstance(X, Frame):
        return X if names is None else X.select(names)
    table = as_table(X)
    if table is None:
        raise InvalidTypeError(
            f"A design reads tables with named columns (pandas, polars, Arrow), found a {type(X).__name__}. Pass a "
            "table, or fit the model without design=."
        )
    given = {str(name): name for name in table.columns}
    columns: dict[str, Any] = {}
    kinds = {}
    arrow = inputs.arrow_table(table)
    for name in given if names is None else names:
        if name not in given:
            raise absent_column(name, given)
        kind = None if arrow is None else inputs.arrow_kind(arrow.schema.field(name).type)
        if arrow is None or kind is None:
            columns[name], kinds[name] = _read(table.get_column(given[name]))
        else:
            columns[name], kinds[name] = arrow.column(name), kind
    return Frame(columns, kinds, len(table))


def absent_column(name: str, columns: Iterable[str]) -> InvalidInputError:
    """Return the error that a table lacks a column."""
    found = ", ".join(map(repr, columns)) or "none"
    return InvalidInputError(f"Column {name!r} is missing from the table. Its columns are: {found}.")


def read_some_rows(X: object, names: Iterable[str]) -> Frame:
    """Return these columns of a table; refuse one without rows."""
    frame = read_frame(X, names)
    if not frame.n_rows:
        raise InvalidInputError("The table has 0 rows: found array with 0 sample(s), while a minimum of 1 is required.")
    return frame


def is_plain(table: nw.DataFrame[Any]) -> bool:
    """Whether a table has only numbers and booleans, like an array with column names."""
    for column in table.iter_columns():
        if column.dtype in DESIGNED:
            return False
        with suppress(InvalidInputError):  # the reader of numbers says what is wrong with it
            if column.dtype != nw.Decimal and _read(column)[1] in ("category", "date"):
                return False
    return True


def _rows_of(column: nw.Series[Any], rows: Indices) -> nw.Series[Any]:
    """Return some rows of a column, those of pandas without an index of their own, which takes as much as numbers."""
    some = column[rows]
    if not some.implementation.is_pandas():
        return some
    return nw.from_native(some.to_native().reset_index(drop=True), series_only=True)


def code(array: pa.Array | TextColumn) -> Coded:
    """Return the codes of an Arrow array or texts; levels that are missing values count as missing."""
    if isinstance(array, TextColumn):
        found = encode_pieces(map(text_buffers, array.pieces()), len(array))
        if found is not None:
            return _coded_texts(found, pa.large_string())
        array = array.whole()
    if not isinstance(array, pa.DictionaryArray):
        if is_.is_string(array.type) or is_.is_large_string(array.type):
            found = encode_texts(text_buffers(array))
            if found is not None:
                return _coded_texts(found, array.type)
        array = array.dictionary_encode()
    indices = array.indices
    if not pa.types.is_signed_integer(indices.type) or pa.types.is_int64(indices.type):
        indices = indices.cast(pa.int32())
    codes = _plain_codes(indices)
    dictionary, ordered = array.dictionary, bool(array.type.ordered)
    if len(dictionary) >= MANY_TEXTS and is_text(dictionary.type) and not dictionary.null_count:
        if _are_unique(dictionary):
            return Coded(TextLevels(dictionary), codes, ordered)
    levels = dictionary.to_pylist()
    kept: dict[Any, int] = {}
    # A dictionary may hold nulls, NaN, or a level twice.
    place = [-1 if level is None or level != level else kept.setdefault(level, len(kept)) for level in levels]
    if place != list(range(len(levels))):
        codes = np.array([*place, -1], dtype=codes.dtype)[codes]
    return Coded(tuple(kept), codes, ordered)


def _plain_codes(indices: pa.Array) -> npt.NDArray[Any]:
    """Return codes with −1 for null: those of pandas have it there already."""
    if not indices.null_count:
        return np.asarray(indices.to_numpy(zero_copy_only=False))
    raw = _raw_codes(indices)
    negative = sum(np.count_nonzero(raw[k : k + CHUNK_ROWS] < 0) for k in range(0, len(raw), CHUNK_ROWS))
    same = negative == indices.null_count and int(raw.min(initial=0)) == -1 and (pc.min(indices).as_py() or 0) >= 0
    return raw if same else np.asarray(indices.fill_null(-1).to_numpy(zero_copy_only=False))


def _raw_codes(indices: pa.Array) -> npt.NDArray[Any]:
    """Return codes as they are stored, whatever it is where none is valid."""
    return np.frombuffer(indices.buffers()[1], indices.type.to_pandas_dtype())[indices.offset :][: len(indices)]


def _are_unique(texts: pa.Array) -> bool:
    """Whether no text occurs twice; the kernel's memory serves others afterwards, unlike that of Arrow."""
    if are_sorted(texts):
        return True
    plain = is_.is_string(texts.type) or is_.is_large_string(texts.type)
    found = encode_texts(text_buffers(texts)) if plain else None
    return len(texts.dictionary_encode().dictionary if found is None else found.ends) == len(texts)


def _coded_texts(found: TextCodes, type_: pa.DataType) -> Coded:
    offsets = np.concatenate([[0], found.ends]).astype(np.int64 if is_.is_large_string(type_) else np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(found.data)]
    levels = pa.Array.from_buffers(type_, len(found.ends), buffers)
    counts = np.concatenate([[found.missing], found.counts])
    return Coded(_text_levels(levels), found.codes, counts=counts)


def _text_levels(texts: pa.Array) -> Sequence[Any]:
    """Return different texts as levels; many stay in Arrow."""
    return TextLevels(texts) if len(texts) >= MANY_TEXTS else tuple(texts.to_pylist())


def _read(column: nw.Series[Any]) -> tuple[nw.Series[Any] | pa.Array | TextColumn, str]:
    kind: str | None = number_kind(column.dtype)
    if kind:
        return column, KINDS[kind]
    if (texts := TextColumn.of(column)) is not None:
        return texts, "category"
    array = _categorical(column) if column.dtype == nw.Categorical else None
    try:
        array = arrow_array(column) if array is None else array
    except (InvalidInputError, pa.ArrowNotImplementedError, TypeError, OverflowError) as error:
        values = column.to_numpy()
        if values.dtype.kind in "biuf":  # numbers in a form that Arrow does not know, such as a sparse array of pandas
            array = pa.array(values, from_pandas=True)
        elif isinstance(error, InvalidInputError):
            raise
        else:
            raise unreadable(column.name, column.dtype, str(error)) from None
    if isinstance(array, pa.DictionaryArray) and type_name(array.type.value_type) not in LEVELS:
        # Levels of pandas that are no plain values (intervals, dates) go by their names.
        with suppress(AttributeError):  # of another library
            names = pa.array([str(level) for level in column.to_native().cat.categories])
            array = pa.DictionaryArray.from_arrays(array.indices, names, ordered=array.type.ordered)
    if column.dtype == nw.Enum and isinstance(array, pa.DictionaryArray) and not array.type.ordered:
        # Older libraries do not order the dictionary by themselves.
        values = array.dictionary_decode()
        levels = pa.array(list(column.dtype.categories), values.type)  # type: ignore[attr-defined]
        array = pa.DictionaryArray.from_arrays(pc.index_in(values, value_set=levels), levels, ordered=True)
    kind = KINDS.get(type_name(array.type))
    if kind is None or (isinstance(array, pa.DictionaryArray) and type_name(array.type.value_type) not in LEVELS):
        raise unreadable(column.name, array.type, "")
    return array, kind


def _categorical(column: nw.Series[Any]) -> pa.DictionaryArray | None:
    """Return a pandas categorical with its codes in place; None if its levels are not strings."""
    if not column.implementation.is_pandas():
        return None
    values = column.to_native().array
    levels, codes = values.categories, np.asarray(values.codes)
    check_codes(codes, len(levels), f"Column {column.name!r}")
    if levels.inferred_type != "string" or not codes.flags.c_contiguous:
        return None
    type_ = pa.from_numpy_dtype(codes.dtype)
    whole = int(codes.min(initial=0)) >= 0
    bitmap = None if whole else pa.py_buffer(np.packbits(codes >= 0, bitorder="little"))
    indices = pa.Array.from_buffers(type_, len(codes), [bitmap, pa.py_buffer(codes)])
    return pa.DictionaryArray.from_arrays(indices, pa.array(levels, type=pa.string()), ordered=bool(values.ordered))


def days_of(array: pa.Array) -> Array:
    """Return days since 1970-01-01, whole days and fractions separately, so that the time unit affects no digit."""
    if pa.types.is_date32(array.type):
        return arrow_numbers(array.cast(pa.int32()))
    per_day = TICKS["ms" if pa.types.is_date64(array.type) else array.type.unit]
    ticks = array.cast(pa.int64())
    whole, rest = np.divmod(np.asarray(ticks.drop_null(), dtype=np.int64), per_day)
    days = np.full(len(ticks), np.nan)
    days[~np.asarray(ticks.is_null(), dtype=bool)] = whole + rest / per_day
    return days


def number_kind(dtype: nw.dtypes.DType) -> str:
    """Return the kind of a column of plain numbers, nothing for others."""
    if dtype == nw.Boolean:
        return "boolean"
    if dtype == nw.Decimal or not dtype.is_numeric():
        return ""
    return "integer" if dtype.is_integer() else "float"


def arrow_array(column: nw.Series[Any]) -> pa.Array:
    """Return a column as one array of Arrow; NaN stands for a missing value, as null does."""
    try:
        array = column.to_arrow()
    except pa.ArrowIndexError:  # a categorical of pandas
        values = column.to_native().array
        check_codes(values.codes, len(values.categories), f"Column {column.name!r}")
        raise
    except pa.ArrowNotImplementedError as error:
        raise InvalidInputError(
            f"Column {column.name!r} is of type {column.dtype}, which is neither numeric, boolean nor categorical "
            f"({str(error).rstrip('.')}). Convert it to one of these, or leave it out."
        ) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        found = _two_types(column.to_list()) or str(error).rstrip(".")
        raise InvalidInputError(
            f"Column {column.name!r} holds values of different types ({found}). Convert them all to one type."
        ) from None
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if not pa.types.is_floating(array.type):
        return array
    values = array.to_numpy(zero_copy_only=False)
    return pa.array(values, from_pandas=True) if np.isnan(values).any() else array


def _two_types(values: list[Any]) -> str:
    """Return the first two values that are of different types, with their rows; nothing if there are none.

    >>> _two_types([None, 1.5, 2.5, "n/a"])
    "1.5 in row 1, 'n/a' in row 3"
    """
    first: dict[type, str] = {}
    for row, value in enumerate(values):
        if value is not None and value == value:
            value = value.item() if isinstance(value, np.generic) else value
            first.setdefault(type(value), f"{value!r} in row {row}")
        if len(first) > 1:
            return ", ".join(first.values())
    return ""


def type_name(type_: pa.DataType) -> str:
    """Return the content of an Arrow type: "null", "boolean", "integer" and so on; empty if unsupported."""
    names = {
        **{is_.is_null: "null", is_.is_boolean: "boolean", is_.is_integer: "integer", is_.is_floating: "float"},
        **{is_.is_decimal: "decimal", is_.is_dictionary: "dictionary", is_.is_date: "date", is_.is_timestamp: "date"},
        **dict.fromkeys((is_.is_string, is_.is_large_string, is_.is_string_view), "text"),
    }
    return next((name for test, name in names.items() if test(type_)), "")


def is_text(type_: pa.DataType) -> bool:
    """Whether an Arrow type holds texts: those of ``pa.large_string()``, not those of ``pa.binary()``."""
    return type_name(type_) == "text"


def example(array: pa.Array) -> Any:
    """Return the first value of an array that is not missing."""
    return next((value for value in array.to_pylist() if value is not None), None)
