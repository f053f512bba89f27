"""Columns by type: what kind each column of an array or table is, and its values as numbers, categories as codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from oddsmith.design.inputs import Rows, _with_names, arrow_numbers, as_table, column_major, dense, read_rows
from oddsmith.errors import InvalidInputError, as_input_errors
from oddsmith.numerics import Array

if TYPE_CHECKING:
    import pyarrow as pa

KINDS = {
    **{"boolean": "boolean", "integer": "integer", "float": "float", "decimal": "float", "null": "float"},
    **{"text": "text", "dictionary": "text"},
}
"""Kinds of columns, by what their Arrow type holds."""


@dataclass(frozen=True)
class Columns:
    """Columns of numbers in one array (or CSR matrix), or one by one as Arrow arrays."""

    names: tuple[str, ...] | None
    kinds: npt.NDArray[np.str_]
    rows: Rows | None = None
    arrays: tuple[pa.Array, ...] = ()

    def name(self, j: int) -> str:
        """Return the name of a column, ``x0``, ``x1`` … where there are none."""
        return f"x{j}" if self.names is None else self.names[j]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.rows.shape[0]) if self.rows is not None else len(self.arrays[0])

    def numbers(self, j: int) -> Array:
        """Return column ``j`` as floats, missing values as NaN."""
        if self.rows is not None:
            return np.asarray(dense(self.rows[:, [j]]), dtype=np.float64).ravel()
        if self.kinds[j] == "text":
            raise InvalidInputError(
                f"Column {self.name(j)!r} holds words, such as {example(self.arrays[j])!r}; numbers are expected. "
                "Treat it as categorical, or turn it into numbers."
            )
        return arrow_numbers(self.arrays[j])

    def categories(self, j: int) -> tuple[list[Any], Array]:
        """Return the categories of column ``j`` and the code of each row's, NaN where it is missing."""
        import pyarrow as pa

        array = pa.array(self.numbers(j), from_pandas=True) if self.rows is not None else self.arrays[j]
        encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
        codes = encoded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), np.asarray(codes, dtype=np.float64)


def read_columns(estimator: BaseEstimator, X: object, *, reset: bool) -> Columns:
    """Return the columns of an array, a sparse matrix or a table; names are kept or compared as in `read_rows`."""
    table = as_table(X)
    if table is not None and len(table) and len(table.columns):
        names, kinds = tuple(map(str, table.columns)), [_number_kind(dtype) for dtype in table.schema.values()]
        arrays = [] if all(kinds) else [arrow_array(column) for column in table.iter_columns()]
        with as_input_errors():
            validate_data(estimator, _with_names(table), reset=reset, skip_check_array=True)
        return _columns(names, arrays) if arrays else Columns(names, np.array(kinds, dtype="<U7"), column_major(table))
    values: Any = X if sparse.issparse(X) or table is not None else _values(estimator, X)
    if isinstance(values, np.ndarray) and values.dtype.kind in "OUST":
        with as_input_errors():
            validate_data(estimator, values, reset=reset, skip_check_array=True)
        return _columns(None, [_objects(values[:, j], j) for j in range(values.shape[1])])
    letter = "f" if table is not None else values.dtype.kind
    kind = {"b": "boolean", "i": "integer", "u": "integer"}.get(letter, "float")
    rows = read_rows(estimator, values, reset=reset)
    return Columns(None, np.full(rows.shape[1], kind), rows)


def _number_kind(dtype: nw.dtypes.DType) -> str:
    """Return the kind of a column of plain numbers, nothing for others."""
    if dtype == nw.Boolean:
        return "boolean"
    if dtype == nw.Decimal or not dtype.is_numeric():
        return ""
    return "integer" if dtype.is_integer() else "float"


def _values(estimator: BaseEstimator, X: object) -> Any:
    """Return an array of whatever type the values have; lists that mix words and numbers keep both."""
    with as_input_errors():
        if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US":
            X = np.array(X, dtype=object)
        return check_array(
            X, dtype=None, accept_sparse="csr", ensure_all_finite=False, estimator=type(estimator).__name__
        )


def _columns(names: tuple[str, ...] | None, arrays: list[pa.Array]) -> Columns:
    kinds = [KINDS.get(type_name(array.type), "") for array in arrays]
    columns = Columns(names, np.array(kinds, dtype="<U7"), None, tuple(arrays))
    for j, kind in enumerate(kinds):
        if not kind:
            raise InvalidInputError(
                f"Column {columns.name(j)!r} is of type {arrays[j].type}, which is neither numbers, truth values nor "
                "categories. Turn it into one of these, or leave it out."
            )
    return columns


def arrow_array(column: nw.Series[Any]) -> pa.Array:
    """Return a column as one array of Arrow; NaN stands for a missing value, as null does."""
    import pyarrow as pa

    try:
        array = column.to_arrow()
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInputError(
            f"Column {column.name!r} holds values of different types ({str(error).rstrip('.')}). Make them all of one."
        ) from None
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if not pa.types.is_floating(array.type):
        return array
    values = array.to_numpy(zero_copy_only=False)
    return pa.array(values, from_pandas=True) if np.isnan(values).any() else array


def _objects(values: npt.NDArray[Any], j: int) -> pa.Array:
    """Return a column of Python objects: numbers, words or truth values, None where missing."""
    import pyarrow as pa

    try:
        return pa.array(values.tolist(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if any(isinstance(value, str) for value in values):
            raise InvalidInputError(
                f"Column {j} holds values of different types, words and numbers. Make them all of one type."
            ) from None
    with as_input_errors():
        return pa.array(np.asarray(values, dtype=np.float64), from_pandas=True)


def type_name(type_: pa.DataType) -> str:
    """Return what an Arrow type holds: "null", "boolean", "integer" and so on; nothing where it is of no use here."""
    import pyarrow.types as is_

    names = {
        **{is_.is_null: "null", is_.is_boolean: "boolean", is_.is_integer: "integer", is_.is_floating: "float"},
        **{is_.is_decimal: "decimal", is_.is_dictionary: "dictionary", is_.is_date: "date", is_.is_timestamp: "date"},
        **dict.fromkeys((is_.is_string, is_.is_large_string, is_.is_string_view), "text"),
    }
    return next((name for test, name in names.items() if test(type_)), "")


def example(array: pa.Array) -> Any:
    """Return the first value of an array that is not missing."""
    return next((value for value in array.to_pylist() if value is not None), None)
