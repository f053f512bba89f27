"""Rows in every layout that kernels meet, for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from oddsmith.kernels import native

LEVELS = native.available()[1:]
DENSE_LAYOUTS = ["C", "F", "strided", "part of F", "F backwards", "odd F"]
LAYOUTS = [*DENSE_LAYOUTS, "csr32", "csr64"]


def laid_out(X: Any, layout: str) -> Any:
    if layout.startswith("csr"):
        rows = sparse.csr_array(X)
        kind = np.int32 if layout == "csr32" else np.int64
        rows.indices, rows.indptr = rows.indices.astype(kind), rows.indptr.astype(kind)
        return rows
    if layout == "strided":
        wide = np.zeros((X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
        wide[:, ::2] = X
        return wide[:, ::2]
    if layout == "part of F":  # columns are further apart than they are long
        return np.asarray(np.vstack([X, X, X]), order="F")[len(X) : 2 * len(X)]
    if layout == "F backwards":
        return np.asarray(X[:, ::-1], order="F")[:, ::-1]
    if layout == "odd F":  # columns begin in the middle of a number
        n, M = X.shape
        apart = n * X.itemsize + 2
        memory = np.zeros(apart * M + X.itemsize, dtype=np.uint8)
        rows = np.ndarray((n, M), X.dtype, memory, strides=(X.itemsize, apart))
        rows[:] = X
        return rows
    return np.asarray(X, order=layout)


def shifted(array: Any, by: int) -> Any:
    """Return a copy that begins so many numbers after a multiple of 64 bytes."""
    memory = np.zeros(array.nbytes + 128, dtype=np.uint8)
    begin = -memory.ctypes.data % 64 + by * array.itemsize
    order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
    copy: Any = np.ndarray(array.shape, array.dtype, memory, begin, order=order)
    copy[:] = array
    return copy
