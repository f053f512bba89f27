"""Rows of plain CSV text, read by a kernel of its own: numbers and dates, texts by code; faster than Arrow's reader.

Text that is not plain (quotes within fields, other dates, fields too many or too few) is left to Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from oddsmith.engines.files.schemas import CODES
from oddsmith.kernels.texts import (
    DAYS,
    DECIMAL,
    SKIP,
    TEXT,
    UNITS,
    WHOLE,
    CsvValues,
    TextCodes,
    read_csv_text,
    time_kind,
)

ZONE = "UTC"
KINDS = {
    **{pa.int64(): WHOLE, pa.float64(): DECIMAL, pa.string(): TEXT, CODES: TEXT, pa.date32(): DAYS},
    **{pa.timestamp(unit, zone): time_kind(unit, zoned=zone is not None) for unit in UNITS for zone in (None, ZONE)},
}
"""Kinds of columns by their Arrow type."""
MISSING_WORDS = frozenset(csv.ConvertOptions().null_values)
"""Spellings of missing values, as Arrow has them."""
MISSING = pa.array(sorted(MISSING_WORDS))


WHOLE_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)
DECIMAL_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?", re.ASCII)
TIME = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[ T]\d\d:\d\d(?::\d\d(?P<fraction>\.\d{1,9})?)?(?P<zone>Z)?)?", re.ASCII)
OTHER_POINT = str.maketrans(",.", ".,")
TEXT_SIGN = re.compile(r"[/$€£%#_()]|\.\d+\.")
"""What no value has that Arrow infers to be a number or a time."""
READABLE = frozenset({"true", "false", "inf", "infinity", "nan"})
"""Words that Arrow does not infer to be text."""
FIRST_ROWS, FIRST_BYTES = 16, 1 << 12
"""Rows that show the types of columns, if these are plain, and the bytes in which they must be."""


def guess_types(text: bytes | bytearray, signs: str, columns: Sequence[str]) -> dict[str, pa.DataType] | None:
    r"""Return the types that Arrow infers from the first rows, texts as codes; None unless all are beyond doubt.

    ``signs`` are the delimiter and the decimal sign.

    They are those of any text that `read_plain` reads by them: a number stays one, and text is not a number elsewhere.

    >>> [str(type_) for type_ in guess_types(b"1,0.5\n2,NA\n", ",.", ["x", "y"]).values()]
    ['int64', 'double']
    >>> guess_types(b"1,true\n", ",.", ["x", "y"]) is None
    True
    """
    lines = bytes(text[:FIRST_BYTES]).split(b"\n", FIRST_ROWS)[:-1]
    rows = [split_plain(line.rstrip(b"\r").decode("utf-8", "replace"), signs[0]) for line in lines]
    if any(len(row) != len(columns) for row in rows):
        return None
    fields = zip(columns, zip(*rows, strict=True), strict=False)
    found = {name: _guess_type(values, signs[1]) for name, values in fields}
    types = {name: type_ for name, type_ in found.items() if type_ is not None}
    return types if len(types) == len(columns) else None


def split_plain(line: str, delimiter: str) -> list[str]:
    """Return the fields of a row, without quotes around them; none if one has quotes elsewhere.

    >>> split_plain('1,"a b",', ","), split_plain('"a,b"', ",")
    (['1', 'a b', ''], [])
    """
    fields = line.split(delimiter)
    if '"' in line:
        fields = [each[1:-1] if len(each) > 1 and each[0] == each[-1] == '"' else each for each in fields]
    return [] if any('"' in each for each in fields) else fields


def _guess_type(values: Sequence[str], point: str) -> pa.DataType | None:
    present = [value for value in values if value not in MISSING_WORDS]
    if any(value[0].isascii() and value[0].isalpha() and value.lower() not in READABLE for value in present):
        return CODES
    if any(map(TEXT_SIGN.search, present)):
        return CODES
    times = [match for match in map(TIME.fullmatch, present) if match]
    if times and len(times) == len(present):
        zones = {match["zone"] for match in times}
        if len(zones) > 1:
            return None
        if not any(match["time"] for match in times):
            return pa.date32()
        return pa.timestamp("ns" if any(match["fraction"] for match in times) else "s", ZONE if "Z" in zones else None)
    if point == ",":
        present = [value.translate(OTHER_POINT) for value in present]
    if not present or not all(map(DECIMAL_NUMBER.fullmatch, present)):
        return None
    return pa.int64() if all(map(WHOLE_NUMBER.fullmatch, present)) else pa.float64()


def read_plain(
    text: bytes | bytearray, signs: str, columns: Sequence[str], types: Mapping[str, pa.DataType]
) -> pa.Table | None:
    r"""Return the columns in ``types`` of plain text whose rows have the given ``columns``; None if it is not plain.

    >>> table = read_plain(b"1,a\n2,NA\n", ",.", ["x", "y"], {"x": pa.int64(), "y": pa.string()})
    >>> table is None or table.to_pydict()
    {'x': [1, 2], 'y': ['a', None]}
    """
    kinds = [KINDS.get(types[name]) if name in types else SKIP for name in columns]
    if None in kinds or len(set(columns)) < len(columns):
        return None
    found = read_csv_text(text, signs, [kind or SKIP for kind in kinds])
    if found is None:
        return None
    arrays = {}
    for name, values in zip(columns, found, strict=True):
        if values is None:
            continue
        array = _array(values, types[name])
        if array is None:
            return None
        arrays[name] = array
    return pa.table({name: arrays[name] for name in types})


def _array(values: CsvValues, type_: pa.DataType) -> pa.Array | None:
    if isinstance(values.values, TextCodes):
        return _texts(values.values, type_)
    return number_array(values.values, values.valid, type_)


def number_array(values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None, type_: pa.DataType) -> pa.Array:
    """Return numbers as an Arrow array, times without a copy; ``valid`` is False where one is missing."""
    present = None if valid is None else pack_bits(valid)
    values = values.astype(np.int32) if pa.types.is_date32(type_) else values
    return pa.Array.from_buffers(type_, len(values), [present, pa.py_buffer(values)])


def text_array(ends: npt.NDArray[np.int64], data: npt.NDArray[np.uint8]) -> pa.Array | None:
    """Return texts that end at these places of their bytes; None if one is not UTF-8."""
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    offsets[1:] = ends
    texts = pa.Array.from_buffers(pa.string(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data.tobytes())])
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return texts


def _texts(found: TextCodes, type_: pa.DataType) -> pa.Array | None:
    """Return texts by code, or as they are; None if they are not UTF-8."""
    levels = text_array(found.ends, found.data)
    if levels is None:
        return None
    codes, missing = found.codes, np.asarray(pc.is_in(levels, value_set=MISSING))
    valid = None
    if missing.any():
        place = np.where(missing, -1, np.cumsum(~missing) - 1).astype(np.int32)
        codes, levels = place[codes], levels.filter(pa.array(~missing))
        valid = pack_bits(codes >= 0)
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [valid, pa.py_buffer(codes)])
    coded = pa.DictionaryArray.from_arrays(indices, levels)
    return coded if type_ == CODES else coded.dictionary_decode()


def pack_bits(valid: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> pa.Buffer:
    """Return one bit for each value, as Arrow has them."""
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
