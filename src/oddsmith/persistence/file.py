"""One safetensors file: written whole or not at all, and used only if it agrees with its own checksum.

    8 bytes   length of the header
    header    JSON: for each tensor its type, shape and place; under ``__metadata__`` the document, a JSON text
    body      the tensors

The document begins with the SHA-256 of the whole file, taken with 64 zeros in its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from oddsmith.errors import ModelFileError
from oddsmith.persistence.arrays import TENSOR_TYPES, Bytes, as_shape

Tensors = dict[str, Any]

KEY = "oddsmith"
LARGEST_HEADER = 1 << 26  # Bytes of JSON beyond which a header is refused, when it is written and when it is read.
MOST_CONTAINERS = 2_000_000  # Lists and objects in a header beyond which it is refused.
CHUNK = 1 << 20
NO_CHECKSUM = "0" * 64
_CHECKSUM = re.compile(rb'\{\\"checksum\\":\\"([0-9a-f]{64})\\"')
_ITEM_SIZE = {name: np.dtype(kind).itemsize for name, kind in TENSOR_TYPES.items()}


def pack(document: dict[str, Any], tensors: Tensors) -> bytes:
    """Return the bytes of a file with a document (JSON) and tensors.

    >>> data = pack({"schema": 1}, {"w": np.ones(2)})
    >>> int.from_bytes(data[:8], "little") + 8 + 16 == len(data)
    True
    """
    from safetensors.numpy import save

    text = json.dumps({"checksum": NO_CHECKSUM, **document}, separators=(",", ":"), allow_nan=False)
    if len(text) > LARGEST_HEADER // 2 or _containers(text.encode()) > MOST_CONTAINERS // 2:
        raise ModelFileError(f"The model has {len(text):,} bytes beside its arrays: too many for a model file.")
    data = save(tensors, {KEY: text})
    checksum = hashlib.sha256(data).hexdigest().encode()
    place = _find_checksum(data)
    return b"".join([data[: place.start], checksum, data[place.stop :]])


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that at every moment its name stands for the old content or for the new, whatever happens.

      1. The bytes go into a file of another name in the same folder,
      2. to the disk,
      3. and only then that file takes the name, in one step of the operating system.

    A process that is killed in 1 or 2 leaves a file ``.odds-….tmp`` behind, which can be deleted.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/m.odds", pack({"schema": 1}, {"w": np.ones(2)}))
    ...     document, tensors = read(f"{folder}/m.odds")
    >>> document["schema"], tensors["w"].view("<f8").tolist()
    (1, [1.0, 1.0])
    """
    target = Path(os.path.realpath(path))  # a link keeps pointing to the file
    temporary = target.with_name(f".odds-{secrets.token_hex(8)}.tmp")
    try:
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)  # 1
                file.flush()
                os.fsync(file.fileno())  # 2
            if mode is not None:  # the new file keeps the permissions of the old one
                os.chmod(temporary, mode)
            os.replace(temporary, target)  # 3
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
        _sync_folder(target.parent)
    except OSError as error:
        raise ModelFileError(
            f"{os.fspath(path)!r} could not be written ({error.strerror or error}); the previous file is unchanged."
        ) from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Return the document of a file, and the bytes of each tensor.

      1. The length of the header is held against the size of the file,
      2. the file against its checksum,
      3. and the places of the tensors against one another, and against what is there.

    So nothing is allocated that is larger than the file. It is not mapped into memory: being cut short while it is read
    would end the process.
    """
    # Checked before opening: opening a pipe would block until something writes to it.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ModelFileError("It is a folder or a device, not a file.")
    with open(path, "rb") as file:
        return _read(file, os.fstat(file.fileno()).st_size)


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Return the document in the bytes of `pack`, and the bytes of each tensor; as `read`, from memory."""
    return _read(BytesIO(data), len(data))


def _read(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, Bytes]]:
    length = int.from_bytes(file.read(8), "little")
    if size < 10 or not 2 <= length <= LARGEST_HEADER:  # 1
        raise ModelFileError("This is not an oddsmith model file.")
    if length > size - 8:
        raise ModelFileError(f"It has {size} bytes, but its header alone should have {length}: it is truncated.")
    header = file.read(length)
    if _containers(header) > MOST_CONTAINERS:
        raise ModelFileError(f"Its header has more than {MOST_CONTAINERS:,} lists and objects.")
    place = _find_checksum(header)  # 2
    whole = hashlib.sha256(length.to_bytes(8, "little"))
    whole.update(header[: place.start] + NO_CHECKSUM.encode() + header[place.stop :])
    while chunk := file.read(CHUNK):
        whole.update(chunk)
    if whole.hexdigest().encode() != header[place]:
        raise ModelFileError("It was damaged or cut short: its checksum does not match. Save the model again.")
    document, places = _parse(header, size - 8 - length)  # 3
    tensors = {}
    for name, (start, end) in places.items():
        file.seek(8 + length + start)
        tensors[name] = np.empty(end - start, dtype=np.uint8)
        if file.readinto(tensors[name].data) != end - start:  # type: ignore[attr-defined]
            raise ModelFileError("It became shorter while it was being read.")
    return document, tensors


def _containers(text: bytes) -> int:
    """Return how many lists and objects a JSON text can have: each takes a hundred bytes of memory, and two here."""
    return text.count(b"[") + text.count(b"{")


def _find_checksum(header: bytes) -> slice:
    found = _CHECKSUM.search(header)
    if found is None:
        raise ModelFileError("This is not an oddsmith model file: it has no checksum.")
    return slice(*found.span(1))


def _parse(header: bytes, body: int) -> tuple[dict[str, Any], dict[str, tuple[int, int]]]:
    """Return the document of a header and the place of each tensor in a body of that many bytes."""
    try:
        entries = json.loads(header)
        document = json.loads(entries.pop("__metadata__")[KEY])
        if not isinstance(document, dict):
            raise TypeError("no document")
        places: dict[str, tuple[int, int]] = {}
        for name, entry in entries.items():
            start, end = as_shape(entry["data_offsets"])
            places[name] = start, end
            if end - start != prod(as_shape(entry["shape"])) * _ITEM_SIZE[entry["dtype"]]:
                raise ModelFileError("The size of a tensor is not that of its type and shape.")
    except ModelFileError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelFileError(f"Its header is not a model file header ({type(error).__name__}).") from None
    end = 0
    for start, stop in sorted(places.values()):
        if start != end:
            raise ModelFileError("Its tensors overlap, or leave gaps.")
        end = stop
    if end != body:
        raise ModelFileError(f"Its tensors should have {end} bytes, but {body} were found.")
    return document, places


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Put the name of the file into errors."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded. {error}") from None
    except OSError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be read ({error.strerror or error}).") from error


def _sync_folder(folder: Path) -> None:
    """Write the new name to the disk as well, where the system can."""
    with suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
