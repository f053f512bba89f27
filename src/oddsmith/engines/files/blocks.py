"""Blocks in memory-mapped files, written completely or not at all, and read without a copy."""

from __future__ import annotations

import json
import mmap
import os
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.rows import CodeRows, ColumnRows, Rows, SplitRows, as_rows

MAGIC = b"oddsmith blocks 1"
ALIGN = 64


def nbytes(thing: object) -> int:
    """Return the memory of the arrays of a record, a table or a sequence of these.

    >>> nbytes(Block(np.eye(2), np.zeros(2, dtype=np.int32)))
    40
    """
    if isinstance(thing, sparse.csr_array | sparse.csr_matrix):
        thing = (thing.data, thing.indices, thing.indptr)
    elif is_dataclass(thing) and not isinstance(thing, type):
        thing = [getattr(thing, field.name) for field in fields(thing)]
    if isinstance(thing, list | tuple):
        return sum(map(nbytes, thing))
    return int(getattr(thing, "nbytes", 0))


class BlockWriter:
    """Writes blocks to a temporary file, which is renamed when it is complete.

    ``durable`` waits for the disk, so that the file is complete even after a power failure.
    """

    def __init__(self, path: str, *, durable: bool = False) -> None:
        self._path, self._part = path, f"{path}.{os.getpid()}.part"
        self._durable = durable
        self._file: BinaryIO = open(self._part, "wb")
        self._index: list[dict[str, Any]] = []

    def add(self, block: Block) -> None:
        """Write one more block."""
        entry: dict[str, Any] = {"first_row": block.first_row, **self._put_rows(block.Phi)}
        for name, array in {"t": block.t, "s": block.s, "offset": block.offset}.items():
            if array is not None:
                entry[name] = self._put(np.asarray(array))
        self._index.append(entry)

    def _put_rows(self, rows: Rows) -> dict[str, Any]:
        if isinstance(rows, SplitRows):
            return {"parts": [self._put_rows(part) for part in rows.parts]}
        if isinstance(rows, ColumnRows):
            return {"n": rows.n_rows, "columns": [self._put(array) for array in rows.filled().arrays]}
        if isinstance(rows, CodeRows) and rows.level_columns is None:
            numbers = {} if rows.x is None else {"x": self._put(rows.x)}
            return {"codes": self._put(rows.codes), "levels": rows.levels, "dropped": rows.dropped, **numbers}
        Phi: Any = rows.concrete().X
        if not sparse.issparse(Phi):
            return {"Phi": self._put(Phi)}
        arrays = {"data": Phi.data, "indices": Phi.indices, "indptr": Phi.indptr}
        return {"shape": list(Phi.shape), **{name: self._put(array) for name, array in arrays.items()}}

    def _put(self, array: npt.NDArray[Any]) -> list[Any]:
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        self._file.write(b"\0" * (-self._file.tell() % ALIGN))
        place = self._file.tell()
        straight: Any = np.ascontiguousarray(array.T if order == "F" else array)
        self._file.write(memoryview(straight).cast("B") if straight.size else b"")
        return [place, array.dtype.str, list(array.shape), order]

    def finish(self) -> None:
        """Put the file in its place."""
        index = json.dumps(self._index).encode()
        self._file.write(index + len(index).to_bytes(8, "little") + MAGIC)
        self._file.flush()
        if self._durable:
            os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._part, self._path)

    def abandon(self) -> None:
        """Remove the temporary file."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.remove(self._part)


def read_blocks(path: str) -> list[Block] | None:
    """Return the blocks of a file as views of it; None if it is missing or incomplete.

    The file stays mapped while one of the blocks is in use.
    """
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    end = len(data) - len(MAGIC)
    start = end - 8 - int.from_bytes(data[end - 8 : end], "little")
    if start < 0 or data[end:] != MAGIC:
        return None
    return [_block(data, entry) for entry in json.loads(data[start : end - 8])]


def _block(data: mmap.mmap, entry: dict[str, Any]) -> Block:
    t, s, offset = (_array(data, entry.get(name)) for name in ("t", "s", "offset"))
    return Block(_rows(data, entry), t, s, offset, entry["first_row"])


def _array(data: mmap.mmap, placed: list[Any] | None) -> Any:
    if placed is None:
        return None
    place, dtype, shape, order = placed
    count = int(np.prod(shape))
    flat: Any = np.frombuffer(data, dtype, count, place) if count else np.empty(0, dtype)
    return flat.reshape(shape, order=order)


def _rows(data: mmap.mmap, entry: dict[str, Any]) -> Rows:
    if "parts" in entry:
        return SplitRows(tuple(_rows(data, part) for part in entry["parts"]))
    if "columns" in entry:
        return ColumnRows(tuple(_array(data, placed) for placed in entry["columns"]), entry["n"])
    if "codes" in entry:
        codes, x = _array(data, entry["codes"]), _array(data, entry.get("x"))
        return CodeRows(codes, entry["levels"], dropped=entry["dropped"], x=x)
    if "Phi" in entry:
        return as_rows(_array(data, entry["Phi"]))
    # Filled by hand: the constructor may copy.
    Phi = sparse.csr_array(tuple(entry["shape"]), dtype=entry["data"][1])
    Phi.data, Phi.indices, Phi.indptr = (_array(data, entry[name]) for name in ("data", "indices", "indptr"))
    return as_rows(Phi)
