"""Checks of rows, labels and offsets (of weights: `class_weight`): bad input is refused here, before a fit starts."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, isnan, nan
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from oddsmith.design.input_errors import (
    explain_numbers,
    explain_rows,
    nonfinite_error,
    nonfinite_numbers,
    refuse_codes,
    refuse_missing,
    times_error,
    unlabelled,
    unreadable,
    warn_of_classes,
)
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import (
    InvalidInputError,
    InvalidTypeError,
    NeedsMemoryError,
    NotFittedError,
    as_input_errors,
    did_you_mean,
)
from oddsmith.numerics import Array
from oddsmith.protocols import Indices, Labels
from oddsmith.rows import ColumnRows, SplitRows

if TYPE_CHECKING:  # arrays need no Arrow: the functions that read its tables import it
    import pyarrow as pa

    from oddsmith.design.table import Design

ArrayOrCSR: TypeAlias = Array | sparse.csr_array  # Numeric rows, dense or CSR.
Codes: TypeAlias = npt.NDArray[np.signedinteger[Any]]  # The number of each row's class.


@dataclass(frozen=True)
class Encoded:
    """Rows encoded by a design: checked numeric columns with the design's names.

    Rows that are not ``present`` (None: all are) stand for those that were dropped.
    """

    rows: ArrayOrCSR | SplitRows
    present: npt.NDArray[np.bool_] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), int(self.rows.shape[1])


class restored_on_error:  # noqa: N801
    """A context that restores an estimator if an error is raised inside."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self.state, self.before = estimator.__dict__, dict(estimator.__dict__)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.state.clear()
            self.state.update(self.before)


def check_fitted(estimator: BaseEstimator, call: str) -> None:
    """Raise if an estimator is not fitted; ``call`` names the method to use first."""
    try:
        check_is_fitted(estimator)
    except ValueError:
        name = type(estimator).__name__
        raise NotFittedError(f"This {name} instance is not fitted yet. Call {call} first.") from None


def feature_names(estimator: BaseEstimator) -> Labels | None:
    """Return the names of the columns that an estimator was fitted to, None if unnamed."""
    return getattr(estimator, "feature_names_in_", None)


def learned_design(estimator: BaseEstimator) -> Design | None:
    """Return the `Design` that a model was fitted through, None if there is none."""
    return getattr(estimator, "design_", None)


def as_table(X: object) -> nw.DataFrame[Any] | None:
    """Return a narwhals view of ``X`` if it is a data frame of any library, else None."""
    if isinstance(X, nw.DataFrame):  # looked at before
        return X
    if type(X).__name__ == "RecordBatch" and type(X).__module__.startswith("pyarrow"):
        import pyarrow as pa

        X = pa.Table.from_batches([X])
    if isinstance(X, np.ndarray | list | tuple) or sparse.issparse(X):
        return None
    if is_elsewhere(X):
        what = repr(str(X)) if isinstance(X, str | PathLike) else f"a {type(X).__name__}"
        raise NeedsMemoryError(
            f"This method needs rows in memory, but X is {what}: data in pieces. fit, predict, predict_proba, "
            "decision_function, decide and evaluate accept it; for other methods, read a small enough part into a "
            "table."
        )
    with as_input_errors(explain_rows):
        table: object = nw.from_native(X, pass_through=True)
        if isinstance(table, nw.LazyFrame):
            raise InvalidTypeError(
                f"X is a {type(X).__name__} of {type(X).__module__.partition('.')[0]}, whose rows are not computed "
                "yet. Pass X.collect(), or the files that it reads: fit('rows.parquet', y='label')."
            )
        if isinstance(X, Mapping):
            raise InvalidTypeError(
                f"X is a {type(X).__name__}, but a table or a matrix is expected. Convert it: pandas.DataFrame(X), "
                "polars.DataFrame(X) or pyarrow.table(X)."
            )
        if not isinstance(table, nw.DataFrame):
            return None
        twice = [name for name, count in Counter(table.columns).items() if count > 1]
        if twice:
            raise InvalidInputError(f"Two columns have the name {twice[0]!r}. Give every column a unique name.")
        if not table.implementation.is_pyarrow():
            return table
        from oddsmith.engines.arrow_matrix import without_views

        refuse_codes(table.to_native())
        plain: nw.DataFrame[Any] = nw.from_native(without_views(table.to_native()), eager_only=True)
        return plain


def split_target(X: object, y: object) -> tuple[Any, Any]:
    """Return rows and labels; a ``y`` that names a column of the table ``X`` is taken out of it."""
    if not isinstance(y, str):
        return X, y
    table = as_table(X)
    if table is None:
        raise InvalidInputError(
            f"y={y!r} names a column, but X is a {type(X).__name__} and has no named columns. "
            "Pass a data frame, or the labels themselves as y."
        )
    if y not in table.columns:
        hint, names = did_you_mean(y, table.columns), ", ".join(map(repr, table.columns))
        raise InvalidInputError(f"There is no column {y!r}.{hint} The table has: {names}.")
    return table.drop(y).to_native(), table[y].to_numpy()


def read_rows(estimator: BaseEstimator, X: object, *, reset: bool, split: bool = False) -> Any:
    """Return ``X`` as a float array or CSR matrix, without a copy if it already is one.

    With ``split``, large tables that a design reads come in parts, with categories as codes.

    Column names and their number are stored on the estimator (``reset=True``) or compared with those seen in ``fit``.
    `check_finite` checks for NaN later. Encoded rows are used unchanged, and an estimator with a design (``design_``)
    reads later rows through it.
    """
    if isinstance(X, Encoded):
        return X.rows
    if not reset and "text_formats_" in vars(estimator):
        from oddsmith.design.text_columns import learned_formats, read_formats

        X = read_formats(X, learned_formats(estimator))
    design = None if reset else learned_design(estimator)
    if design is not None:
        return design.transform_split(X) if split else design.transform(X)
    if reset and type(X) is np.ndarray and X.ndim == 2 and X.size and X.dtype in (np.float64, np.float32):
        # Nothing to convert. The first time scikit-learn asks whether it is a table, narwhals looks for plugins: 6 ms.
        estimator.__dict__.pop("feature_names_in_", None)
        estimator.n_features_in_ = X.shape[1]
        return X
    table, X = as_table(X), plain_values(X)
    exact = isinstance(X, np.ndarray) and X.dtype.kind == "f"
    with as_input_errors(explain_rows):
        if reset and not exact:
            from oddsmith.design.whole_numbers import rounded_columns, warn_of_rounding

            warn_of_rounding(rounded_columns(X if table is None else table))
        if table is not None and not reset and 0 not in table.shape:
            validate_data(estimator, _with_names(table), reset=False, skip_check_array=True)  # other columns first
        if table is None:
            options = {"accept_sparse": "csr", "ensure_all_finite": False, "estimator": type(estimator).__name__}
            rows = check_array(X, dtype=[np.float64, np.float32], **options)
        else:
            if 0 in table.shape:
                check_array(np.empty(table.shape))  # says that there are none
            columns = [np.asarray(_column_values(column), dtype=np.float64) for column in table.iter_columns()]
            rows = np.column_stack(columns)
        if sparse.issparse(rows) and not rows.has_canonical_format:
            # An entry that is stored in parts would count in squares as if it were several.
            rows = rows.copy()
            rows.sum_duplicates()
        validate_data(estimator, X if table is None else _with_names(table), reset=reset, skip_check_array=True)
    return rows


def _with_names(table: nw.DataFrame[Any]) -> Any:
    """Return an object (pandas, Arrow) from which scikit-learn reads the same column names."""
    if table.implementation.is_pandas_like():
        return table.to_native()
    import pyarrow as pa

    return pa.table({name: pa.nulls(0) for name in table.columns})


def column_numbers(column: nw.Series[Any]) -> Array:
    """Return a column of numbers or booleans as the nearest float64, NaN if missing.

    >>> import polars
    >>> column_numbers(nw.from_native(polars.Series([2**53 + 1, None]), series_only=True)).tolist()
    [9007199254740992.0, nan]
    """
    kind = column.implementation
    in_arrow = kind.is_pyarrow() or (kind.is_pandas_like() and str(column.to_native().dtype).endswith("[pyarrow]"))
    if in_arrow or column.dtype == nw.Decimal:  # Arrow's own cast refuses whole numbers beyond 2⁵³
        return arrow_numbers(column.to_arrow())
    return np.asarray(column.cast(nw.Float64).to_numpy(), dtype=np.float64)


def column_major(table: nw.DataFrame[Any], dtype: str = "float64") -> Array:
    """Return a numeric table as an array in column-major order, without rearranging its columns.

    It is a read-only view of the table if that already is such an array.

    >>> import pyarrow as pa
    >>> column_major(nw.from_native(pa.table({"a": [1, 2], "b": [0.5, None]}))).tolist()
    [[1.0, 0.5], [2.0, nan]]
    """
    from oddsmith.engines.arrow_matrix import copy_numbers, matrix_of

    arrow = arrow_table(table)
    if arrow is not None and dtype == "float64" and (packed := matrix_of(arrow.columns)) is not None:
        return packed.T
    names = table.columns
    matrix = np.empty((len(names), len(table)), dtype=dtype)
    columns = [None] * len(names) if arrow is None else arrow.columns
    for name, column, target in zip(names, columns, matrix, strict=True):
        if column is not None and arrow_kind(column.type) == "number" and not column.null_count:
            copy_numbers(column, target)  # quicker than through a view
        else:
            target[:] = _column_values(table.get_column(name))
    return matrix.T


def arrow_table(table: nw.DataFrame[Any]) -> pa.Table | None:
    """Return the Arrow table behind a view, None if it is from another library."""
    return table.to_native() if table.implementation.is_pyarrow() else None


def arrow_kind(type_: pa.DataType) -> str | None:
    """Return the kind of an Arrow column of numbers or booleans, None for others."""
    from pyarrow import types

    if types.is_float64(type_) or types.is_integer(type_):
        return "number"
    return "boolean" if types.is_boolean(type_) else None


def _column_values(column: nw.Series[Any]) -> npt.NDArray[Any]:
    """Return the numbers of a column in their own type, if NumPy has it, else as float64; also parses text."""
    if column.dtype == nw.Decimal:
        return column_numbers(column)
    values = column.to_numpy()
    if values.dtype.kind == "m":
        raise unreadable(column.name, column.dtype, "")
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return values if values.dtype.kind in "fiub" else column_numbers(column)
    try:
        if values.dtype.kind == "c":
            raise InvalidInputError("Complex data not supported")
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"Column {column.name!r} is of type {column.dtype} and could not be read as numbers ({error}). Encode it "
            "as numbers first (0/1 columns for its levels, say: oddsmith.Design does that), or leave it out."
        ) from None


def arrow_numbers(array: pa.Array | pa.ChunkedArray) -> Array:
    """Return an Arrow array of numbers as float64, null as NaN, decimals as the nearest floats.

    Libraries convert decimals to floats differently, in the last bit.

    >>> import pyarrow as pa
    >>> from decimal import Decimal
    >>> arrow_numbers(pa.array([Decimal("0.1"), None])).tolist()
    [0.1, nan]
    """
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    array = array.cast(pa.string()) if pa.types.is_decimal(array.type) else array
    return np.asarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def dense(rows: ArrayOrCSR) -> Array:
    """Return rows as an array."""
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def check_finite(rows: ArrayOrCSR | SplitRows, names: Labels | Callable[[], Labels] | None) -> None:
    """Refuse NaN and infinity, saying in which column and row; names that take a while are given as a function."""
    parts: Sequence[Any] = (rows,)
    if isinstance(rows, SplitRows):
        # Codes and integers are finite, and columns of a design that are not plain are checked there.
        columns = [part for part in rows.parts if isinstance(part, ColumnRows)]
        arrays = [array for part in columns for array in part.arrays]
        fills = [fill for part in columns for fill in part.fills or (nan,) * len(part.arrays)]
        both = [(a, fill) for a, fill in zip(arrays, fills, strict=True) if a.dtype.kind == "f"]
        parts = [a if isnan(fill) else a[np.isinf(a)] for a, fill in both]  # NaN is filled
    elif not isinstance(rows, np.ndarray) and sparse.issparse(rows):
        parts = (rows.data,)
    with np.errstate(over="ignore", invalid="ignore"):
        for part in parts:
            if not isfinite(np.add.reduce(part, axis=None, dtype=np.float64)) and not np.isfinite(part).all():
                break
        else:
            return
    names = names() if callable(names) else names
    raise nonfinite_error(rows.concrete().X if isinstance(rows, SplitRows) else rows, names)


def read_labels(y: object, n_rows: int, *, narrow: bool = False) -> tuple[Labels, Codes]:
    """Return the sorted classes and the code of each row's class: int32 or, with ``narrow``, mostly int8.

    Labels that are such codes already, of any size, are not copied if ``narrow``.
    """
    if y is None:
        raise InvalidInputError("This classifier requires y to be passed, but the target y is None.")
    quick = _small_integers(y := without_mask(y), n_rows, narrow=narrow)
    if quick is None:
        labels = check_labels(y, n_rows)
        classes, codes = _text_codes(labels) if _are_texts(labels) else np.unique(labels, return_inverse=True)
        check_two_classes(classes)
        quick = classes, codes.astype(_code_type(len(classes), narrow=narrow))
    warn_of_classes(quick[0], n_rows)
    return quick


def check_two_classes(classes: Labels) -> None:
    """Refuse labels that are all the same."""
    if len(classes) < 2:
        raise InvalidInputError(
            f"y holds one class only ({classes.tolist()[0]!r}): a classifier needs at least two classes."
        )


def check_labels(y: object, n_rows: int) -> Labels:
    """Return labels as an array of one type; refuse missing, infinite, mixed or continuous labels."""
    with as_input_errors():
        labels: Labels = column_or_1d(as_array(y), warn=True)
        if labels.dtype.kind == "f" and not np.isfinite(labels).all():
            raise unlabelled("NaN or infinity", ~np.isfinite(labels))
        if labels.dtype.kind in "mM" and np.isnat(labels).any():
            raise unlabelled("missing values (NaT)", np.isnat(labels))
        are_texts = _are_texts(labels)
        if labels.dtype.kind == "O" and not are_texts:
            labels = _one_type(labels)
        check_consistent_length(np.empty(n_rows), labels)
        if labels.dtype.kind in "fOc" and not are_texts:
            check_classification_targets(labels)
    return labels


def _one_type(labels: Labels) -> Labels:
    """Return object labels as an array of their common type; refuse missing and mixed ones."""
    values = [v.item() if isinstance(v, np.generic) else v for v in labels.tolist()]
    refuse_missing(labels, in_fit=True)
    kinds = {type(v) for v in values}
    if len(kinds) > 1:
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        problem = f"The labels in y are of different types ({names}), which cannot be put in order."
        raise InvalidTypeError(f"{problem} Convert them all to one type.")
    return np.array(values) if kinds <= {bool, int, bytes, str} else labels


def _are_texts(labels: Labels) -> bool:
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and set(map(type, labels.tolist())) == {str})


def _text_codes(labels: Labels) -> tuple[Labels, Codes]:
    """Return the sorted classes and codes of string labels, like `numpy.unique` but without sorting all of them."""
    import pyarrow as pa

    coded = pa.array(labels.tolist(), pa.large_string()).dictionary_encode()
    classes, rank = np.unique(np.array(coded.dictionary.to_pylist(), dtype=labels.dtype), return_inverse=True)
    return classes, rank.astype(np.int32)[coded.indices.to_numpy()]


def _code_type(classes: int, *, narrow: bool) -> type[np.signedinteger[Any]]:
    return np.int8 if narrow and classes <= np.iinfo(np.int8).max else np.int32


def _small_integers(y: object, n_rows: int, *, narrow: bool) -> tuple[Labels, Codes] | None:
    """Return classes and codes of integers in a narrow range without sorting, or None for other labels."""
    if not isinstance(y, np.ndarray) or y.shape != (n_rows,) or y.dtype.kind not in "biuf" or not n_rows:
        return None
    least, most = y.min(), y.max()
    if y.dtype.kind == "f" and not (isfinite(least) and isfinite(most)):
        return None
    low, high = int(least), int(most)
    if not 0 < high - low < 4096 or max(high, -low) >= 2**62:
        return None
    kind = _code_type(high - low + 1, narrow=narrow)
    if narrow and not low and y.dtype.kind == "i" and y.dtype.isnative and y.flags.c_contiguous and y.flags.aligned:
        codes = y  # which kernels of tables read where they are
    else:
        codes = np.subtract(y, low, dtype=np.int64, casting="unsafe").astype(kind) if low else y.astype(kind)
    if y.dtype.kind == "f" and not np.array_equal(codes + np.float64(low), y):
        return None
    if high - low == 1:
        return np.array([low, high], dtype=y.dtype), codes
    present = np.zeros(high - low + 1, dtype=bool)
    present[codes] = True
    if not present.all():
        codes = (np.cumsum(present, dtype=kind) - 1)[codes]
    return (np.flatnonzero(present) + low).astype(y.dtype), codes


def as_array(values: object) -> Any:
    """Return a list, a series of any library or an array of pandas as an array; anything else unchanged."""
    if isinstance(values, np.ndarray | list | tuple):
        return np.asarray(without_mask(values))
    if (pandas := sys.modules.get("pandas")) and isinstance(values, pandas.api.extensions.ExtensionArray):
        values = pandas.Series(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    return series.to_numpy() if isinstance(series, nw.Series) else values


def without_mask(values: Any) -> Any:
    """Return a masked array with its masked values missing (NaN, or None unless it holds numbers); others unchanged.

    >>> without_mask(np.ma.masked_equal([1, -9, 3], -9)).tolist()
    [1.0, nan, 3.0]
    """
    if not isinstance(values, np.ma.MaskedArray) or not np.ma.is_masked(values):
        return values
    values = values.astype(np.float64) if values.dtype.kind in "biu" else values
    return values.filled(np.nan) if values.dtype.kind in "fc" else values.astype(object).filled(None)


def plain_values(X: Any) -> Any:
    """Return rows without a mask; refuse an array of times, whose numbers depend on their unit."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise times_error(X)
    return without_mask(X)


def take_rows(values: object, kept: Indices | None) -> Any:
    """Return the entries of the rows ``kept`` (None: all); a scalar or None is returned unchanged."""
    return values if kept is None or values is None or np.isscalar(values) else np.asarray(as_array(values))[kept]


def read_known_labels(y: object, n_rows: int, classes: Labels) -> tuple[Labels, Codes]:
    """Return the classes of a model and the code of each label; refuse unknown labels."""
    labels = np.asarray(as_array(y))
    if labels.shape != (n_rows,):
        raise InvalidInputError(f"y has shape {labels.shape}; expected ({n_rows},), a label for each row.")
    codes = {label: code for code, label in enumerate(classes.tolist())}
    new = [label for label in dict.fromkeys(labels.tolist()) if label not in codes]
    if new:
        found, known = (", ".join(map(repr, some)) for some in (new[:5], list(codes)[:8]))
        problem = f"y holds {found}, which the model was not fitted to: it knows {known}."
        raise InvalidInputError(f"{problem} Fit it anew with rows of all classes.")
    return classes, np.array([codes[label] for label in labels.tolist()], dtype=np.int32)


def read_offset(offset: object, n_rows: int, K: int, present: npt.NDArray[np.bool_] | None = None) -> Array | None:
    """Return offsets against class 0, n × (K−1), or None; the input has n values for two classes, else n × K.

    Rows that are not ``present`` may have any.
    """
    if offset is None:
        return None
    with as_input_errors(partial(explain_numbers, "offset")):
        o = np.asarray(as_array(offset), dtype=np.float64)
    expected = (n_rows,) if K == 2 else (n_rows, K)
    if o.shape != expected:
        raise InvalidInputError(f"offset has shape {o.shape}; expected {expected} for {K} classes.")
    if not np.isfinite(o).all() and present is not None:
        o = np.where(present if K == 2 else present[:, None], o, 0.0)
    if not np.isfinite(o).all():
        raise nonfinite_numbers("offset", o, "an offset")
    return np.ascontiguousarray(o[:, None] if K == 2 else o[:, 1:] - o[:, :1])
