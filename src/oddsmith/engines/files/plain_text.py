"""Rows of plain CSV text, read by a kernel of its own: numbers as they are, texts by code; faster than Arrow's reader.

Text that is not plain (quotes, exponents, dates, fields too many or too few) is left to Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from oddsmith.engines.files.schemas import CODES
from oddsmith.kernels.texts import DECIMAL, SKIP, TEXT, WHOLE, CsvValues, TextCodes, read_csv_text

KINDS = {pa.int64(): WHOLE, pa.float64(): DECIMAL, pa.string(): TEXT, CODES: TEXT}
"""Kinds of columns by their Arrow type."""
MISSING = pa.array(csv.ConvertOptions().null_values)
"""Spellings of missing values, as Arrow has them."""


def read_plain(
    text: bytes | bytearray, delimiter: str, columns: Sequence[str], types: Mapping[str, pa.DataType]
) -> pa.Table | None:
    r"""Return the columns in ``types`` of plain text whose rows have the given ``columns``; None if it is not plain.

    >>> table = read_plain(b"1,a\n2,NA\n", ",", ["x", "y"], {"x": pa.int64(), "y": pa.string()})
    >>> table is None or table.to_pydict()
    {'x': [1, 2], 'y': ['a', None]}
    """
    kinds = [KINDS.get(types[name]) if name in types else SKIP for name in columns]
    if None in kinds or len(set(columns)) < len(columns):
        return None
    found = read_csv_text(text, delimiter, [kind or SKIP for kind in kinds])
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
    valid = None if values.valid is None else _bits(values.valid)
    return pa.Array.from_buffers(type_, len(values.values), [valid, pa.py_buffer(values.values)])


def _texts(found: TextCodes, type_: pa.DataType) -> pa.Array | None:
    """Return texts by code, or as they are; None if they are not UTF-8."""
    data = found.data.tobytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    offsets = np.append(0, found.ends).astype(np.int32)
    levels = pa.Array.from_buffers(pa.string(), len(found.ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    codes, missing = found.codes, np.asarray(pc.is_in(levels, value_set=MISSING))
    valid = None
    if missing.any():
        place = np.where(missing, -1, np.cumsum(~missing) - 1).astype(np.int32)
        codes, levels = place[codes], levels.filter(pa.array(~missing))
        valid = _bits(codes >= 0)
    indices = pa.Array.from_buffers(pa.int32(), len(codes), [valid, pa.py_buffer(codes)])
    coded = pa.DictionaryArray.from_arrays(indices, levels)
    return coded if type_ == CODES else coded.dictionary_decode()


def _bits(valid: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))
