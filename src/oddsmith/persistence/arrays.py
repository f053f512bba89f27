"""Arrays as tensors and back: values, type, shape and order in memory are kept to the bit.

Order matters to the bit, too: BLAS sums a transposed matrix in another order.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.errors import ModelFileError

Bytes = npt.NDArray[np.uint8]

TENSOR_TYPES = {
    **{"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4"},
    **{"U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8"},
}
"""The tensors that a model file may hold, by their names in safetensors. All other arrays are kept as bytes (U8)."""

# Nothing that holds a pointer (objects) or depends on the machine (long double).
_DTYPE = re.compile(
    r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[SU][1-9]\d{0,8}|[mM]8(\[[1-9]?\d{0,8}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)
_LAST_CHARACTER = 0x10FFFF


def is_kept(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of a type can be kept in a model file."""
    return _DTYPE.fullmatch(dtype.str) is not None


def to_tensor(array: npt.NDArray[Any]) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    """Return the description of an array in JSON, and the tensor that holds its numbers, in C order.

    >>> description, tensor = to_tensor(np.array(["no", "yes"]))
    >>> description, tensor.dtype, tensor.shape
    ({'dtype': '<U3', 'shape': [2], 'order': 'C'}, dtype('uint8'), (24,))
    """
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    description = {"dtype": array.dtype.str, "shape": list(array.shape), "order": order}
    flat = np.array(array.T if order == "F" else array, order="C", copy=None)
    if array.dtype.str not in TENSOR_TYPES.values():
        flat = np.frombuffer(flat.tobytes(), dtype=np.uint8)
    return description, flat


def from_bytes(buffer: Bytes, description: dict[str, Any]) -> npt.NDArray[Any]:
    """Return the array of a description, in the memory of its bytes.

    >>> from_bytes(np.frombuffer(b"abc", dtype=np.uint8), {"dtype": "|S1", "shape": [3], "order": "C"}).tolist()
    [b'a', b'b', b'c']
    """
    name, shape, order = description["dtype"], as_shape(description["shape"]), description["order"]
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise ModelFileError(f"It holds an array of type {name!r}, which model files do not use.")
    dtype = np.dtype(name)
    if order not in ("C", "F") or prod(shape) * dtype.itemsize != len(buffer):
        raise ModelFileError(f"An array of type {dtype.str} and shape {shape} does not fit into {len(buffer)} bytes.")
    array = buffer.view(dtype)
    # Python and NumPy rely on these limits, and may do anything where they do not hold.
    numbers, most = (buffer.view(dtype.str[0] + "u4"), _LAST_CHARACTER) if dtype.kind == "U" else (buffer, 1)
    if dtype.kind in "bU" and (numbers > most).any():
        raise ModelFileError(f"An array of type {dtype.str} holds values that are not of that type.")
    return array.reshape(shape, order=order)


def as_shape(sizes: object) -> tuple[int, ...]:
    """Return a shape, checked to be one."""
    if not isinstance(sizes, list) or len(sizes) > 32 or not all(type(size) is int and size >= 0 for size in sizes):
        raise ModelFileError(f"It says that an array has shape {sizes!r:.60}, which is not a shape.")
    return tuple(sizes)


def pack_texts(texts: list[str]) -> tuple[Bytes, npt.NDArray[np.int64]]:
    r"""Return many texts as bytes one after another, and the length of each.

    >>> joined, lengths = pack_texts(["é", "", "b"])
    >>> joined.tobytes(), lengths.tolist()
    (b'\xc3\xa9b', [2, 0, 1])
    """
    coded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return np.frombuffer(b"".join(coded), dtype=np.uint8), np.array([len(text) for text in coded], dtype="<i8")


def unpack_texts(joined: Bytes, lengths: Bytes, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an object array of the texts in the bytes of ``pack_texts``."""
    sizes = lengths.view("<i8")
    ends = np.cumsum(sizes)
    strange = (sizes < 0).any() or (sizes > len(joined)).any()
    if strange or len(sizes) != prod(shape) or (ends[-1] if len(ends) else 0) != len(joined):
        raise ModelFileError(f"Texts of shape {shape} do not fit into {len(joined)} bytes.")
    data = joined.tobytes()
    texts = [data[end - size : end].decode("utf-8", "surrogatepass") for size, end in zip(sizes, ends, strict=True)]
    return fill(texts, shape)


def fill(values: list[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return an object array of a shape with these values, whatever they are."""
    if len(values) != prod(shape):
        raise ModelFileError(f"It says that {len(values)} values have shape {shape}.")
    return np.fromiter(values, dtype=object, count=len(values)).reshape(shape)
