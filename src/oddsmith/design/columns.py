"""The columns of rows one by one, numbers or text, for models that look at each alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from oddsmith.design import inputs
from oddsmith.design.frame import arrow_array, days_of, example, number_kind, type_name
from oddsmith.design.input_errors import explain_rows
from oddsmith.design.inputs import ArrayOrCSR, arrow_numbers, as_table
from oddsmith.design.whole_numbers import rounded_columns, warn_of_rounding
from oddsmith.errors import InvalidInputError, as_input_errors
from oddsmith.numerics import Array

COLUMN_KINDS = {
    **{"boolean": "boolean", "integer": "integer", "float": "float", "decimal": "float", "null": "float"},
    **{"text": "text", "dictionary": "text", "date": "date"},
}
"""Kinds of columns by Arrow type; dates are days since 1970-01-01."""


@dataclass(frozen=True)
class Columns:
    """Columns of numbers in one array (or CSR matrix), or one by one as Arrow arrays."""

    names: tuple[str, ...] | None
    kinds: npt.NDArray[np.str_]
    rows: ArrayOrCSR | None = None
    arrays: tuple[pa.Array, ...] = ()

    def name(self, j: int) -> str:
        """Return the name of a column, ``x0``, ``x1`` … if unnamed."""
        return f"x{j}" if self.names is None else self.names[j]

    @property
    def n_rows(self) -> int:
        return int(self.rows.shape[0]) if self.rows is not None else len(self.arrays[0])

    def numbers(self, j: int) -> Array:
        """Return column ``j`` as floats, missing values as NaN."""
        if self.rows is not None:
            return np.asarray(inputs.dense(self.rows[:, [j]]), dtype=np.float64).ravel()
        if self.kinds[j] == "text":
            raise InvalidInputError(
                f"Column {self.name(j)!r} holds text, such as {example(self.arrays[j])!r}; numbers are expected. "
                "Treat it as categorical, or convert it to numbers."
            )
        return arrow_numbers(self.arrays[j])

    def categories(self, j: int) -> tuple[list[Any], Array]:
        """Return the categories of column ``j`` and the code of each row's, NaN where it is missing."""
        array = pa.array(self.numbers(j), from_pandas=True) if self.rows is not None else self.arrays[j]
        encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
        codes = encoded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False)
        return encoded.dictionary.to_pylist(), np.asarray(codes, dtype=np.float64)


def read_columns(estimator: BaseEstimator, X: object, *, reset: bool) -> Columns:
    """Return the columns of an array, a sparse matrix or a table; names are kept or compared as in `read_rows`."""
    if not reset and "text_formats_" in vars(estimator):
        from oddsmith.design.text_columns import learned_formats, read_formats

        X = read_formats(X, learned_formats(estimator))
    table = as_table(X)
    if table is not None and len(table) and len(table.columns):
        names, kinds = tuple(map(str, table.columns)), [number_kind(dtype) for dtype in table.schema.values()]
        arrays = [] if all(kinds) else [arrow_array(column) for column in table.iter_columns()]
        with as_input_errors(explain_rows):
            validate_data(estimator, inputs._with_names(table), reset=reset, skip_check_array=True)
        if reset:
            warn_of_rounding(rounded_columns(table))
        if arrays:
            return _columns(names, arrays)
        return Columns(names, np.array(kinds, dtype="<U7"), inputs.column_major(table))
    values: Any = inputs.plain_values(X)
    with as_input_errors(explain_rows):
        if table is None and not sparse.issparse(X):
            # Lists that mix text and numbers keep both.
            mixed = isinstance(values, list | tuple) and np.asarray(values).dtype.kind in "US"
            options = {"accept_sparse": "csr", "ensure_all_finite": False, "estimator": type(estimator).__name__}
            values = check_array(np.array(values, dtype=object) if mixed else values, dtype=None, **options)
        if isinstance(values, np.ndarray) and values.dtype.kind in "OUST":
            validate_data(estimator, values, reset=reset, skip_check_array=True)
            return _columns(None, [_objects(values[:, j], j) for j in range(values.shape[1])])
    letter = "f" if table is not None else values.dtype.kind
    kind = {"b": "boolean", "i": "integer", "u": "integer"}.get(letter, "float")
    rows = inputs.read_rows(estimator, values, reset=reset)
    return Columns(None, np.full(rows.shape[1], kind), rows)


def _columns(names: tuple[str, ...] | None, arrays: list[pa.Array]) -> Columns:
    kinds = [COLUMN_KINDS.get(type_name(array.type), "") for array in arrays]
    arrays = [pa.array(days_of(x), from_pandas=True) if type_name(x.type) == "date" else x for x in arrays]
    columns = Columns(names, np.array(kinds, dtype="<U7"), None, tuple(arrays))
    for j, kind in enumerate(kinds):
        if not kind:
            raise InvalidInputError(
                f"Column {columns.name(j)!r} is of type {arrays[j].type}, which is neither numeric, boolean nor "
                f"categorical. Convert it to one of these, or leave it out."
            )
    return columns


def _objects(values: npt.NDArray[Any], j: int) -> pa.Array:
    """Return a column of Python objects: numbers, text or booleans, None where missing."""
    try:
        return pa.array(values.tolist(), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if any(isinstance(value, str) for value in values):
            raise InvalidInputError(
                f"Column {j} holds values of different types, text and numbers. Convert them all to one type."
            ) from None
    return pa.array(np.asarray(values, dtype=np.float64), from_pandas=True)
