"""Columns of text that hold numbers, dates or levels as people write them: recognised in a fit, read alike later.

A model keeps the formats of its columns as ``text_formats_``. A table that was read from a text file has them in the
metadata of its columns.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Container, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.design.inputs import arrow_table, as_table
from oddsmith.errors import FormatWarning, InvalidInputError, caller_level

if TYPE_CHECKING:  # arrays need no Arrow
    import pyarrow as pa

    from oddsmith.engines.text_formats import TextFormat

KEY, PLAIN, DIALECT = b"oddsmith.format", b"oddsmith.plain", b"oddsmith.dialect"
"""Metadata of Arrow columns that were read by a format, recognised or plain; and of a table that was read from text."""

Formats = Mapping[str, "TextFormat"]
FEW_ROWS = 1 << 14  # Rows up to which texts are looked at as a whole.


def learned_formats(model: BaseEstimator) -> Formats:
    """Return the formats of the text columns that a model was fitted to, by column."""
    formats: Formats = vars(model).get("text_formats_", {})
    return formats


def keep_formats(model: BaseEstimator, formats: Formats) -> None:
    """Keep the formats of text columns on a model that is being fitted."""
    model.__dict__.pop("text_formats_", None)
    if formats:
        model.text_formats_ = dict(formats)


def recognise(X: Any, y: object = None) -> tuple[Any, dict[str, TextFormat]]:
    """Return a table with its text columns as the numbers, dates and levels that they hold, and their formats.

    A `FormatWarning` says what was found; rows that are not a table are unchanged. ``y`` may name the
    column of labels, of which only the spelling of levels is taken.

    >>> import polars
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     table, formats = recognise(polars.DataFrame({"price": ["$5.50", "$1,200", "$3"]}))
    >>> table["price"].to_list(), str(formats["price"])
    ([5.5, 1200.0, 3.0], "money ('$1,200')")
    """
    table = as_table(X)
    if table is None:
        return X, {}
    arrow = arrow_table(table)
    known = _attached(arrow)
    found = {} if read_as_text(arrow) else find_formats(X, y, known)
    if not found:
        return X, known
    warnings.warn(describe(found), FormatWarning, stacklevel=caller_level())
    return read_formats(X, found), {**known, **found}


def read_as_text(table: pa.Table | None) -> bool:
    """Return whether a table comes from a text file: its reader has looked for formats."""
    return table is not None and DIALECT in (table.schema.metadata or {})


def find_formats(X: Any, y: object = None, known: Container[str] = ()) -> dict[str, TextFormat]:
    """Return the formats of the text columns of a table, those ``known`` left out; see `recognise`."""
    table = as_table(X)
    found: dict[str, TextFormat] = {}
    for column in () if table is None else table.iter_columns():
        if column.dtype != nw.String or column.name in known:
            continue
        from oddsmith.engines.text_formats import find_format, sampled_rows

        sample = _as_arrow(column if len(column) <= FEW_ROWS else column[sampled_rows(len(column))])
        format_ = None if sample is None else find_format(sample)
        if format_ is None or (isinstance(y, str) and column.name == y and format_.kind != "levels"):
            continue
        array = _as_arrow(column)
        if array is not None and format_.parse(array)[1] is None:  # what breaks off after the sample stays text
            found[str(column.name)] = format_
    return found


def read_formats(X: Any, formats: Formats, seen: str = "the fit") -> Any:
    """Return a table with columns of text read by the formats of a fit; a value that breaks its format is refused.

    Columns that are not text are unchanged. ``seen`` is where the formats come from, for the sentence.
    """
    table = as_table(X) if formats else None
    if table is None:
        return X
    columns = []
    for column in table.iter_columns():
        format_ = formats.get(str(column.name))
        if format_ is None or column.dtype != nw.String:
            continue
        values, broken = format_.parse(_as_arrow(column))
        if broken is not None:
            row = column.to_list().index(broken)
            why = format_.describe_error(str(column.name), broken, f"row {row}")
            raise InvalidInputError(f"{why[0].upper()}{why[1:]} So the column was written in {seen}.", row=row)
        columns.append(_series(column.name, values, table))
    return table.with_columns(*columns).to_native() if columns else X


def describe(formats: Formats, dialect: str = "") -> str:
    """Return the sentence that says how text was read.

    >>> from oddsmith.engines.text_formats import TextFormat
    >>> describe({"rate": TextFormat(kind="number", percent=True, example="24%")})
    "Recognised 'rate' as percentages ('24%')."
    >>> describe({}, "decimal commas")
    'Recognised decimal commas. If that is wrong, pass encoding=, delimiter= or decimal=.'
    """
    words = [f"{name!r} as {format_}" for name, format_ in formats.items()]
    shown = words[:8] + ([f"{len(words) - 8} more columns"] if len(words) > 8 else [])
    remedy = " If that is wrong, pass encoding=, delimiter= or decimal=." if dialect else ""
    return f"Recognised {'; '.join(filter(None, (dialect, ', '.join(shown))))}.{remedy}"


def attach(table: pa.Table, formats: Formats, plain: Formats, dialect: str = "") -> pa.Table:
    """Return an Arrow table whose columns have their formats in their metadata, for a later fit.

    ``plain`` formats are those that nobody needs to be told. `attached_note` says what was attached.
    """
    for key, some in ((KEY, formats), (PLAIN, plain)):
        for name, format_ in some.items():
            place = table.schema.get_field_index(name)
            if place >= 0:
                field = table.schema.field(place).with_metadata({key: json.dumps(asdict(format_)).encode()})
                table = table.set_column(place, field, table.column(place))
    return table.replace_schema_metadata({DIALECT: dialect.encode()})


def attached_note(table: pa.Table) -> str:
    """Return the sentence on how a table was read from text, empty if there is nothing to be said."""
    formats = _attached(table, (KEY,))
    dialect = (table.schema.metadata or {}).get(DIALECT, b"").decode()
    return describe(formats, dialect) if formats or dialect else ""


def _attached(arrow: pa.Table | None, keys: tuple[bytes, ...] = (KEY, PLAIN)) -> dict[str, TextFormat]:
    found = {}
    for field in () if arrow is None else arrow.schema:
        for key in keys:
            if field.metadata and key in field.metadata:
                from oddsmith.engines.text_formats import TextFormat

                facts = json.loads(field.metadata[key])
                found[field.name] = TextFormat(**{**facts, "spellings": tuple(map(tuple, facts["spellings"]))})
    return found


def _as_arrow(column: nw.Series[Any]) -> Any:
    import pyarrow as pa

    try:
        array = column.to_arrow()
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        plain = pa.types.is_string(array.type) or pa.types.is_large_string(array.type)
        return array if plain else array.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # texts beside other objects: whoever reads them says so
        return None


def _series(name: str, values: pa.Array, table: nw.DataFrame[Any]) -> Any:
    """Return values as a column of the library of a table."""
    import pyarrow.types as is_

    if is_.is_timestamp(values.type):
        ticks = np.asarray(values.cast("int64").fill_null(np.iinfo(np.int64).min)).view("datetime64[us]")
        series = nw.new_series(name, ticks, nw.Datetime("us"), backend=table.implementation)
        return series.dt.replace_time_zone("UTC") if values.type.tz else series
    kinds: Any = {"double": nw.Float64, "bool": nw.Boolean}
    return nw.new_series(name, values.to_pylist(), kinds.get(str(values.type), nw.String), backend=table.implementation)
