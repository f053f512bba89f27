"""One type for each column over all files: numeric types are widened; text and numbers do not mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.types as is_

from oddsmith.errors import InvalidInputError

DATE = pa.timestamp("us")
"""The type of dates and times, unless a CSV begins with days alone, or with a zone or more digits."""


def row_bytes(schema: pa.Schema) -> int:
    """Return about how much memory a row takes.

    >>> row_bytes(pa.schema([("a", pa.float64()), ("b", pa.string())]))
    40
    """
    total = 0
    for type_ in schema.types:
        try:
            total += max(1, type_.bit_width // 8)
        except ValueError:  # text, lists: no fixed width
            total += 32
    return total


CODES = pa.dictionary(pa.int32(), pa.string())  # The type of texts that are read as the codes of a dictionary.


def text_columns(schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """Return those of the named columns that hold text.

    >>> text_columns(pa.schema([("a", pa.string()), ("b", pa.int8())]), ["b", "a"])
    ['a']
    """
    types = dict(zip(schema.names, schema.types, strict=True))
    return [
        name for name in names if name in types and (is_.is_string(types[name]) or is_.is_large_string(types[name]))
    ]


def as_codes(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return a schema with the named columns as codes.

    >>> as_codes(pa.schema([("a", pa.string())]), ["a"]).types
    [DictionaryType(dictionary<values=string, indices=int32, ordered=0>)]
    """
    for name in names:
        schema = schema.set(schema.get_field_index(name), pa.field(name, CODES))
    return schema


def check_unique(names: list[str], where: str) -> None:
    """Refuse a table in which two columns have one name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        if twice.strip():
            raise InvalidInputError(f"{where} has two columns named {twice!r}. Give every column a unique name.")
        raise InvalidInputError(
            f"{where} has {names.count(twice)} columns without a name. The first line must hold the names of the "
            "columns: delete titles above it and empty columns, or name them."
        )


def common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of both, None where there is none.

    >>> common_type(pa.int32(), pa.float32()), common_type(pa.null(), pa.string()), common_type(pa.int64(), pa.string())
    (DataType(double), DataType(string), None)
    """
    if a == b or is_.is_null(b):
        return a
    if is_.is_null(a):
        return b
    if is_.is_dictionary(a) or is_.is_dictionary(b):
        return common_type(*(t.value_type if is_.is_dictionary(t) else t for t in (a, b)))
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


def refine_type(expected: pa.DataType | None, seen: pa.DataType) -> pa.DataType:
    """Return the type to read a column of text as, from what is expected and the type that its first rows have.

    None expects a number or a boolean, `DATE` a date or a time.

    >>> refine_type(None, pa.int64()), refine_type(DATE, pa.date32()), refine_type(pa.string(), pa.int64())
    (DataType(double), DataType(date32[day]), DataType(string))
    """
    if expected is None:
        return pa.bool_() if is_.is_boolean(seen) else pa.float64()
    if expected == DATE and is_.is_date32(seen):
        return seen
    if expected == DATE and is_.is_timestamp(seen):
        return pa.timestamp("ns" if seen.unit == "ns" else DATE.unit, seen.tz)
    return expected


def describe_type(type_: pa.DataType) -> str:
    """Describe the content of a column of an Arrow type.

    >>> describe_type(pa.int8()), describe_type(pa.string())
    ('numbers (int8)', 'text (string)')
    """
    if _is_number(type_):
        return f"numbers ({type_})"
    if is_.is_dictionary(type_):
        return describe_type(type_.value_type)
    if is_.is_string(type_) or is_.is_large_string(type_):
        return f"text ({type_})"
    return f"booleans ({type_})" if is_.is_boolean(type_) else f"values of type {type_}"


def unify(schemas: Iterable[tuple[str, pa.Schema]], names: Iterable[str]) -> pa.Schema:
    """Return the schema of the named columns over files, given with their names, or say which do not fit together."""
    types: dict[str, pa.DataType] = dict.fromkeys(names, pa.null())
    origin: dict[str, str] = {}
    checked: list[pa.Schema] = []
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
            types[name] = common_type(type_, found)
            if types[name] is None:
                raise InvalidInputError(
                    f"Column {name!r} holds {describe_type(found)} in {file!r}, and {describe_type(type_)} in "
                    f"{origin[name]!r}. Use one type, or leave that column or file out."
                )
            if not is_.is_null(found):
                origin.setdefault(name, file)
        checked.append(schema)
    return pa.schema(list(types.items()))


def conform(table: pa.Table, schema: pa.Schema, keys: Mapping[str, object] | None = None) -> pa.Table:
    """Return a table with the columns of a schema, in its order and of its types; keys of folders are columns."""
    columns = []
    for field in schema:
        if keys and field.name in keys:
            value = keys[field.name]
            scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value).cast(field.type)
            column = pa.repeat(scalar, table.num_rows)
        else:
            column = table.column(field.name)
        if column.type != field.type:
            # Whole numbers beyond 2⁵³ become the nearest float, as they would when a model reads them.
            column = column.cast(field.type, safe=not is_.is_floating(field.type))
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema) if columns else table.select([])


def key_types(keys: Iterable[Mapping[str, object]]) -> dict[str, pa.DataType]:
    """Return the types of partition keys in folder names: integers if all values are, else text.

    >>> key_types([{"year": "2024", "kind": "a"}, {"year": None, "kind": "7"}])
    {'year': DataType(int64), 'kind': DataType(string)}
    """
    found: dict[str, pa.DataType] = {}
    for mapping in keys:
        for key, value in mapping.items():
            if isinstance(value, pa.Scalar):
                found[key] = value.type
            elif isinstance(value, str):
                whole = value.lstrip("-").isdecimal() and value.isascii() and len(value) < 19
                found[key] = pa.int64() if whole and found.get(key, pa.int64()) == pa.int64() else pa.string()
            else:
                found.setdefault(key, pa.int64())
    return found


def _is_number(type_: pa.DataType) -> bool:
    return bool(is_.is_integer(type_) or is_.is_floating(type_) or is_.is_decimal(type_))
