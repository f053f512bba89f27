"""Errors about input, and our messages for those of other libraries."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.errors import InvalidInputError, LevelsWarning, caller_level
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows.codes import check_codes

if TYPE_CHECKING:
    import pyarrow as pa

    from oddsmith.design.inputs import ArrayOrCSR

MANY_CLASSES = 20  # Classes that labels may hold, however few the rows.
UNREADABLE = {
    "np.matrix is not supported": "X is an np.matrix, which is not supported. Pass np.asarray(X).",
    "Complex data not supported": "Complex data not supported: X holds complex numbers. Pass real and imaginary parts "
    "as columns of their own, or one of them.",
    "could not convert string": "X holds text where numbers are expected ({}). Pass a data frame, whose categories "
    "become columns, or encode text as numbers first.",
    "float() argument must be": "X holds values that are not numbers ({}). Pass an array of numbers or a data frame.",
    "inhomogeneous": "The rows of X have different lengths ({}). Give every row the same columns.",
    "setting an array element": "X holds sequences where numbers are expected ({}). Give every row the same columns.",
    "int too large to convert": "X holds a whole number that no float64 can hold ({}). Rescale the column.",
    "Expected unique column names": "Two columns have the same name ({}). Give every column a unique name.",
    "Cannot cast": "X holds values that are not numbers ({}). Pass an array of numbers or a data frame.",
    "ufunc": "X holds values that are not numbers ({}). Pass an array of numbers or a data frame.",
}
"""Other libraries' errors about rows, and our message for each."""


def explain_rows(text: str) -> str:
    """Return our message for another library's error about rows.

    >>> explain_rows("could not convert string to float: 'good film'")[:62]
    'X holds text where numbers are expected (could not convert str'
    """
    shape = re.match(r"Expected 2D array, got \w+ array instead", text)
    if shape is not None:
        return (
            f"{shape.group()}. Reshape your data: X.reshape(-1, 1) if it is one column, X.reshape(1, -1) if it is one "
            "row."
        )
    first = " ".join(text.split("\n")[:2]).rstrip(". ")
    found = [sentence for words, sentence in UNREADABLE.items() if words in text]
    return found[0].format(first) if found else text


def explain_numbers(what: str, text: str) -> str:
    """Return the sentence for weights or offsets that are not numbers."""
    return f"{what} holds values that are not numbers ({text}); expected a number for each row."


def nonfinite_error(rows: ArrayOrCSR, names: Labels | None) -> InvalidInputError:
    """Return the error that names the first column with missing or infinite values."""
    if sparse.issparse(rows):
        rows = rows.tocoo()  # type: ignore[union-attr]
        bad = ~np.isfinite(rows.data)
        where, values = np.column_stack([rows.row[bad], rows.col[bad]]), rows.data[bad]
    else:
        where = np.argwhere(~np.isfinite(rows))
        values = rows[where[:, 0], where[:, 1]]
    column = int(where[0, 1])
    inside = where[:, 1] == column
    count, first = int(inside.sum()), int(where[inside, 0].min())
    label = repr(str(names[column])) if names is not None else str(column)
    if count == rows.shape[0] > 1 and np.isnan(values[inside]).all():
        return InvalidInputError(f"Input X contains NaN: column {label} is missing in all {count} rows. Leave it out.")
    if np.isnan(values[inside]).any():
        what, remedy = "missing value{} (NaN)", "Drop those rows or fill them first; this model fits complete rows."
        if names is not None:
            remedy += " For tables, design=Design(missing='drop') or Design(missing='indicator') does that."
    else:
        what, remedy = "infinite value{} (inf)", "Replace them by finite numbers."
    what = what.format("s" * (count > 1))
    return InvalidInputError(
        f"Input X contains NaN or infinity: column {label} has {count} {what}, the first in row {first}. {remedy}",
        row=first,
    )


def unlabelled(what: str, missing: npt.NDArray[np.bool_], *, in_fit: bool = True) -> InvalidInputError:
    """Return the error for rows without a label."""
    row = int(np.argmax(missing))
    option = "; for tables, design=Design(unlabelled='drop') leaves them out" if in_fit else ""
    return InvalidInputError(
        f"Input y contains {what}, the first in row {row}; every row needs a class. Drop these rows first, such as "
        f"table.dropna(subset=['y']) in pandas{option}.",
        row=row,
    )


def refuse_missing(labels: Labels, *, in_fit: bool = False) -> None:
    """Refuse labels of which one is None, NaN or the NA of pandas.

    >>> refuse_missing(np.array(["no", None, "yes"], dtype=object))
    Traceback (most recent call last):
    ...
    oddsmith.errors.InvalidInputError: Input y contains missing values (None or NaN), the first in row 1; every row ...
    """
    if labels.dtype.kind not in "fO":
        return
    missing = np.isnan(labels) if labels.dtype.kind == "f" else np.array(list(map(_is_missing, labels.tolist())))
    if missing.any():
        raise unlabelled("missing values (None or NaN)", missing, in_fit=in_fit)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # neither true nor false
        return True


def unreadable(name: str, type_: object, why: str) -> InvalidInputError:
    """Return the error for a column of a type that no design reads."""
    return InvalidInputError(
        f"Column {name!r} is of type {type_}, which is neither numeric, boolean, date nor categorical"
        f"{f' ({why})' if why else ''}. Convert it to one of these, or leave it out."
    )


def nonfinite_numbers(name: str, values: Array, what: str) -> InvalidInputError:
    """Return the error for weights or offsets that are missing or infinite."""
    bad = ~np.isfinite(values if values.ndim == 1 else values.sum(axis=1))
    row = int(np.argmax(bad))
    return InvalidInputError(
        f"{name} contains NaN or infinity in {int(bad.sum())} rows, the first in row {row}; expected {what} for each "
        "row. Fill these values, or leave these rows out.",
        row=row,
    )


def negative_weights(weights: Array) -> InvalidInputError:
    """Return the error for negative weights."""
    row = int(np.argmax(weights < 0))
    return InvalidInputError(
        f"sample_weight has {int((weights < 0).sum())} negative values, the first in row {row}; weights must be zero "
        "or positive.",
        row=row,
    )


def times_error(X: npt.NDArray[Any]) -> InvalidInputError:
    """Return the error for an array of dates or durations."""
    return InvalidInputError(
        f"X is an array of times ({X.dtype}), whose numbers depend on their unit. Pass a data frame, whose dates "
        "become days, or convert X to numbers."
    )


def warn_of_classes(classes: Labels, n_rows: float) -> None:
    """Warn about labels of which most are classes of their own: an ID or a number, and a long fit."""
    if len(classes) > max(MANY_CLASSES, 0.5 * n_rows):
        warnings.warn(
            f"y holds {len(classes):,} classes in {round(n_rows):,} rows: is it an ID, or a number? Each class has its "
            "own weights. Cut numbers into a few ranges first, or choose another column.",
            LevelsWarning,
            stacklevel=caller_level(),
        )


def refuse_codes(table: pa.Table) -> None:
    """Refuse a dictionary column of an Arrow table whose codes are out of range, which Arrow does not check.

    >>> import pyarrow as pa
    >>> codes = pa.DictionaryArray.from_arrays(np.array([0, 3], dtype=np.int8), ["a", "b"], safe=False)
    >>> refuse_codes(pa.table({"race": codes}))
    Traceback (most recent call last):
    oddsmith.errors.InvalidInputError: Column 'race' has 2 levels, so codes are −1 (missing) to 1; found 3.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(table.column_names, table.columns, strict=True):
        for chunk in column.chunks if pa.types.is_dictionary(column.type) else ():
            ends = pc.min_max(chunk.indices).as_py()
            if ends["min"] is None:
                continue
            check_codes(np.array([ends["min"], ends["max"]]), len(chunk.dictionary), f"Column {name!r}")
            if ends["min"] < 0:
                raise InvalidInputError(
                    f"Column {name!r} has the code −1, which is not a level, in a value that Arrow does not mark as "
                    "missing. Give missing values to Arrow as nulls."
                )
