"""Arrow tables as bytes and back; what a table takes in memory must be explained by its bytes.

A table is an IPC stream whose buffers may be compressed. Each compressed buffer begins with the length that it will
have, and a few bytes may promise gigabytes: the lengths are added up before anything is decompressed.
"""

from __future__ import annotations

from struct import unpack_from
from typing import TYPE_CHECKING, Any

import numpy as np

from oddsmith.errors import ModelFileError
from oddsmith.persistence.arrays import Bytes

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES, MOST_TIMES = 1 << 24, 64
"""Most memory of a table: a constant, 16 MB for a file of any size, and a multiple of the bytes of the file."""

DICTIONARY, RECORDS = 2, 3
"""The kinds of messages of a stream that have buffers, as the flatbuffers of Arrow number them."""


def is_arrow_table(kind: type[Any]) -> bool:
    """Whether a type is that of Arrow tables, without loading Arrow."""
    return kind.__name__ == "Table" and kind.__module__.partition(".")[0] == "pyarrow"


def largest_table(size: int) -> int:
    """Return the most bytes that a table may take, given its compressed size.

    >>> largest_table(1 << 20) // (1 << 20)
    80
    """
    return SMALL_BYTES + MOST_TIMES * size


def pack_table(table: pa.Table) -> Bytes:
    """Return an Arrow table as the bytes of an IPC stream, compressed unless that would make it suspiciously small.

    >>> import pyarrow as pa
    >>> unpack_table(pack_table(pa.table({"age": [19, None], "race": ["black", "white"]}))).to_pylist()
    [{'age': 19, 'race': 'black'}, {'age': None, 'race': 'white'}]
    """
    import pyarrow as pa

    data = _stream(table, "zstd" if pa.Codec.is_available("zstd") else None)
    if table.nbytes > largest_table(len(data)) // 2:
        data = _stream(table, None)
    return np.frombuffer(data, dtype=np.uint8)


def _stream(table: pa.Table, compression: str | None) -> pa.Buffer:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_table(table)
    return sink.getvalue()


def unpack_table(buffer: Bytes) -> pa.Table:
    """Return the Arrow table of an IPC stream."""
    import pyarrow as pa

    most = largest_table(len(buffer))
    try:
        if sum(map(_decompressed_bytes, pa.ipc.MessageReader.open_stream(pa.py_buffer(buffer)))) > most:
            raise ModelFileError(f"A table of {len(buffer)} bytes in it would take more than {most} in memory.")
        table = pa.ipc.open_stream(pa.py_buffer(buffer)).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"A table in it cannot be read ({type(error).__name__}).") from None
    if table.num_rows > max(1, table.num_columns) * most:  # nulls and runs take no bytes
        raise ModelFileError(f"A table of {len(buffer)} bytes in it says that it has {table.num_rows} rows.")
    return table


def _decompressed_bytes(message: pa.Message) -> int:
    """Return what the buffers of a message take once they are decompressed."""
    data, body = memoryview(message.metadata), message.body
    if body is None:
        return 0
    root = unpack_from("<I", data, 0)[0]
    header, kind = _field(data, root, 2), _field(data, root, 1)
    if header is None or kind is None or data[kind] not in (DICTIONARY, RECORDS):
        return 0
    batch = _target(data, header)
    if data[kind] == DICTIONARY:
        inner = _field(data, batch, 1)
        batch = batch if inner is None else _target(data, inner)
    buffers = _field(data, batch, 2)
    if _field(data, batch, 3) is None or buffers is None:
        return int(body.size)
    total, vector, content = 0, _target(data, buffers), memoryview(body)
    for place in range(unpack_from("<I", data, vector)[0]):
        offset, length = unpack_from("<qq", data, vector + 4 + 16 * place)
        if length >= 8:
            promised = unpack_from("<q", content, offset)[0]
            total += max(int(promised), length)  # -1: not compressed
    return total


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Return where a field of a flatbuffers table is, None if it has the default."""
    vtable = table - unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= unpack_from("<H", data, vtable)[0]:
        return None
    offset = unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def _target(data: memoryview, place: int) -> int:
    """Return where the offset at a place points to."""
    return place + int(unpack_from("<I", data, place)[0])
