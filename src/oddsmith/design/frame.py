"""The columns of a table by kind, the same whatever library it comes from: numbers, and categories as codes.

| kind | columns of | as numbers |
|---|---|---|
| ``"number"`` | whole numbers, floats, decimals | themselves |
| ``"boolean"`` | truth values | 0 and 1 |
| ``"date"`` | dates and times (UTC, if they have a zone) | days since 1970-01-01, with fractions |
| ``"category"`` | words, categoricals, enumerations | none: they have levels |
| ``"empty"`` | nothing but missing values | all missing |
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from oddsmith.design.columns import arrow_array, example, type_name
from oddsmith.design.inputs import arrow_kind, arrow_numbers, arrow_table, as_table, column_numbers
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

if TYPE_CHECKING:
    import pyarrow as pa

KIND_WORDS = {
    **{"number": "numbers", "boolean": "truth values", "date": "dates", "category": "categories"},
    "empty": "nothing but missing values",
}
KINDS = {
    **{"null": "empty", "boolean": "boolean", "integer": "number", "float": "number", "decimal": "number"},
    **{"date": "date", "text": "category", "dictionary": "category"},
}
"""Kinds of columns, by what their Arrow type holds."""
LEVELS = ("integer", "float", "boolean", "null", "text")
"""What levels may be as they are."""

DESIGNED = (nw.String, nw.Categorical, nw.Enum, nw.Date, nw.Datetime)
"""Types that are no numbers at first sight."""

TICKS = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
"""Ticks of a clock in a day."""


@dataclass(frozen=True)
class Coded:
    """A column as codes of its levels: −1 where it is missing. ``ordered``: the levels have an order of their own.

    >>> import pyarrow as pa
    >>> coded = code(pa.array(["b", None, "a", "b"]))
    >>> coded.levels, coded.codes.tolist(), coded.ordered
    (('b', 'a'), [0, -1, 1, 0], False)
    """

    levels: tuple[Any, ...]
    codes: Indices
    ordered: bool = False


@dataclass(frozen=True)
class Frame:
    """Some columns of a table: numbers as they came (narwhals series, columns of Arrow), all else as Arrow arrays.

    >>> import polars
    >>> frame = read_frame(polars.DataFrame({"age": [19, None], "race": ["black", "white"]}))
    >>> frame.kinds, frame.numbers("age").tolist(), frame.coded("race").codes.tolist()
    ({'age': 'number', 'race': 'category'}, [19.0, nan], [0, 1])
    """

    columns: dict[str, Any]
    kinds: dict[str, str]
    n_rows: int

    def take(self, rows: Indices) -> Frame:
        """Return the frame of some rows."""
        taken = {name: x[rows] if isinstance(x, nw.Series) else x.take(rows) for name, x in self.columns.items()}
        return Frame(taken, self.kinds, len(rows))

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
        return _days(column) if kind == "date" else arrow_numbers(column)

    def coded(self, name: str) -> Coded:
        """Return a column as codes of levels; numbers and truth values are levels in the order of their size."""
        kind = self.kinds[name]
        if kind == "category":
            return code(self.columns[name])
        values = self.numbers(name)
        present = ~np.isnan(values)
        different, inverse = np.unique(values[present], return_inverse=True)
        codes = np.full(len(values), -1, dtype=np.intp)
        codes[present] = inverse.ravel()
        return Coded(tuple(_level(value, kind) for value in different.tolist()), codes)

    def missing(self, name: str) -> npt.NDArray[np.bool_]:
        """Return where a column is missing."""
        if self.kinds[name] == "category":
            return np.asarray(self.columns[name].is_null(), dtype=bool)
        return np.isnan(self.numbers(name))


def read_frame(X: object, names: Iterable[str] | None = None) -> Frame:
    """Return the named columns of a table (default: all), or say which of them is not there."""
    table = as_table(X)
    if table is None:
        raise InvalidTypeError(
            f"A design reads tables with named columns (pandas, polars, Arrow), found a {type(X).__name__}. Pass a "
            "table, or fit the model without design=."
        )
    given = {str(name): name for name in table.columns}
    columns: dict[str, Any] = {}
    kinds = {}
    arrow = arrow_table(table)
    for name in given if names is None else names:
        if name not in given:
            found = ", ".join(map(repr, given)) or "none"
            raise InvalidInputError(f"Column {name!r} is missing from the table. Its columns are: {found}.")
        kind = None if arrow is None else arrow_kind(arrow.schema.field(name).type)
        if arrow is None or kind is None:
            columns[name], kinds[name] = _read(table.get_column(given[name]))
        else:
            columns[name], kinds[name] = arrow.column(name), kind
    return Frame(columns, kinds, len(table))


def is_plain(table: nw.DataFrame[Any]) -> bool:
    """Whether a table holds numbers and truth values only, so that it is an array with names."""
    for column in table.iter_columns():
        if column.dtype in DESIGNED:
            return False
        with suppress(InvalidInputError):  # the reader of numbers says what is wrong with it
            if column.dtype != nw.Decimal and _read(column)[1] in ("category", "date"):
                return False
    return True


def code(array: pa.Array) -> Coded:
    """Return the codes of an Arrow array; levels that are missing values themselves count as such."""
    import pyarrow as pa

    if not isinstance(array, pa.DictionaryArray):
        array = array.dictionary_encode()
    codes = np.asarray(array.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.intp)
    levels, ordered = array.dictionary.to_pylist(), bool(array.type.ordered)
    kept: dict[Any, int] = {}
    # A dictionary may hold nulls, NaN, or a level twice.
    place = [-1 if level is None or level != level else kept.setdefault(level, len(kept)) for level in levels]
    if place != list(range(len(levels))):
        codes = np.array([*place, -1], dtype=np.intp)[codes]
    return Coded(tuple(kept), codes, ordered)


def _is_number(column: nw.Series[Any]) -> bool:
    return (column.dtype.is_numeric() and column.dtype != nw.Decimal) or column.dtype == nw.Boolean


def _read(column: nw.Series[Any]) -> tuple[nw.Series[Any] | pa.Array, str]:
    if _is_number(column):
        return column, "boolean" if column.dtype == nw.Boolean else "number"
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        array = arrow_array(column)
    except (InvalidInputError, pa.ArrowNotImplementedError, TypeError, OverflowError) as error:
        values = column.to_numpy()
        if values.dtype.kind in "biuf":  # numbers in a form that Arrow does not know, such as a sparse array of pandas
            array = pa.array(values, from_pandas=True)
        elif isinstance(error, InvalidInputError):
            raise
        else:
            raise _unreadable(column.name, column.dtype, str(error)) from None
    if isinstance(array, pa.DictionaryArray) and type_name(array.type.value_type) not in LEVELS:
        array = _with_text_levels(column, array)
    if column.dtype == nw.Enum and isinstance(array, pa.DictionaryArray) and not array.type.ordered:
        # Older libraries do not order the dictionary by themselves.
        values = array.dictionary_decode()
        levels = pa.array(list(column.dtype.categories), values.type)  # type: ignore[attr-defined]
        array = pa.DictionaryArray.from_arrays(pc.index_in(values, value_set=levels), levels, ordered=True)
    kind = KINDS.get(type_name(array.type))
    if kind is None or (isinstance(array, pa.DictionaryArray) and type_name(array.type.value_type) not in LEVELS):
        raise _unreadable(column.name, array.type, "")
    return array, kind


def _with_text_levels(column: nw.Series[Any], array: pa.Array) -> pa.Array:
    """Return a categorical of pandas whose levels are no plain values (intervals, dates) with their names as levels."""
    import pyarrow as pa

    try:
        levels = pa.array([str(level) for level in column.to_native().cat.categories])
    except AttributeError:  # of another library
        return array
    return pa.DictionaryArray.from_arrays(array.indices, levels, ordered=array.type.ordered)


def _unreadable(name: str, type_: object, why: str) -> InvalidInputError:
    return InvalidInputError(
        f"Column {name!r} is of type {type_}, which is neither numbers, truth values, dates nor categories"
        f"{f' ({why})' if why else ''}. Turn it into one of these, or leave it out."
    )


def _days(array: pa.Array) -> Array:
    """Return days since 1970-01-01; whole days and the rest apart, so that the unit of the clock shows in no digit."""
    import pyarrow as pa

    if pa.types.is_date32(array.type):
        return arrow_numbers(array.cast(pa.int32()))
    per_day = TICKS["ms" if pa.types.is_date64(array.type) else array.type.unit]
    ticks = array.cast(pa.int64())
    whole, rest = np.divmod(np.asarray(ticks.drop_null(), dtype=np.int64), per_day)
    days = np.full(len(ticks), np.nan)
    days[~np.asarray(ticks.is_null(), dtype=bool)] = whole + rest / per_day
    return days


def _level(value: float, kind: str) -> Any:
    if kind == "boolean":
        return bool(value)
    return int(value) if value.is_integer() else value
