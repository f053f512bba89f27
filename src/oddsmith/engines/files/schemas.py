"""One type for each column, whatever file it comes from: numbers become wider, words and numbers do not mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as is_

from oddsmith.errors import InvalidInputError


def common(a: Any, b: Any) -> Any:
    """Return the type that holds the values of both, None where there is none.

    >>> common(pa.int32(), pa.float32()), common(pa.null(), pa.string()), common(pa.int64(), pa.string())
    (DataType(double), DataType(string), None)
    """
    if a == b or is_.is_null(b):
        return a
    if is_.is_null(a):
        return b
    if is_.is_dictionary(a) or is_.is_dictionary(b):
        return common(*(t.value_type if is_.is_dictionary(t) else t for t in (a, b)))
    if _is_number(a) and _is_number(b) and not (is_.is_integer(a) and is_.is_integer(b)):
        small = all(is_.is_float16(t) or is_.is_float32(t) for t in (a, b))
        return pa.float32() if small else pa.float64()
    if is_.is_boolean(a) or is_.is_boolean(b):
        return None
    if {is_.is_date(a), is_.is_date(b)} == {is_.is_timestamp(a), is_.is_timestamp(b)} == {True, False}:
        return a if is_.is_timestamp(a) else b
    try:
        both = pa.unify_schemas([pa.schema([("x", a)]), pa.schema([("x", b)])], promote_options="permissive")
    except (pa.ArrowTypeError, pa.ArrowInvalid):
        return None
    return both.field("x").type


def in_words(type_: Any) -> str:
    """Return what a column of an Arrow type holds, in words.

    >>> in_words(pa.int8()), in_words(pa.string())
    ('numbers (int8)', 'words (string)')
    """
    if _is_number(type_):
        return f"numbers ({type_})"
    if is_.is_dictionary(type_):
        return in_words(type_.value_type)
    if is_.is_string(type_) or is_.is_large_string(type_):
        return f"words ({type_})"
    return f"truth values ({type_})" if is_.is_boolean(type_) else f"values of type {type_}"


def unified(schemas: Iterable[tuple[str, Any]], names: Iterable[str]) -> Any:
    """Return the schema of the named columns over files, given with their names, or say which do not fit together."""
    types: dict[str, Any] = dict.fromkeys(names, pa.null())
    origin: dict[str, str] = {}
    checked: list[Any] = []
    for file, schema in schemas:
        if any(schema is other for other in checked):
            continue
        for name, type_ in types.items():
            place = schema.get_field_index(name)
            if place < 0:
                twice = schema.names.count(name) > 1
                raise InvalidInputError(
                    f"{file!r} has {'two columns' if twice else 'no column'} {name!r}. Every file needs each column "
                    f"that is read, once; this one has: {', '.join(map(repr, schema.names))}."
                )
            found = schema.field(place).type
            types[name] = common(type_, found)
            if types[name] is None:
                raise InvalidInputError(
                    f"Column {name!r} holds {in_words(found)} in {file!r}, and {in_words(type_)} in {origin[name]!r}. "
                    "Make them alike, or leave that column or file out."
                )
            if not is_.is_null(found):
                origin.setdefault(name, file)
        checked.append(schema)
    return pa.schema(list(types.items()))


def fitted(table: Any, schema: Any) -> Any:
    """Return a table with the columns of a schema, in its order and of its types."""
    columns = []
    for field in schema:
        column = table.column(field.name)
        if column.type != field.type:
            # Whole numbers beyond 2⁵³ become the nearest float, as they would when a model reads them.
            column = column.cast(field.type, safe=not is_.is_floating(field.type))
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema) if columns else table.select([])


def key_types(keys: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the types of keys of folders: whole numbers if all values are, else words.

    >>> key_types([{"year": "2024", "kind": "a"}, {"year": None, "kind": "7"}])
    {'year': DataType(int64), 'kind': DataType(string)}
    """
    found: dict[str, Any] = {}
    for mapping in keys:
        for key, value in mapping.items():
            if isinstance(value, pa.Scalar):
                found[key] = value.type
            elif value is not None:
                whole = value.lstrip("-").isdecimal() and value.isascii() and len(value) < 19
                found[key] = pa.int64() if whole and found.get(key, pa.int64()) == pa.int64() else pa.string()
            else:
                found.setdefault(key, pa.int64())
    return found


def _is_number(type_: Any) -> bool:
    return bool(is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_))
