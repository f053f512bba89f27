"""Storages of Φ: one file each, all with the same methods and laws."""

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, issparse

from oddsmith.errors import InvalidInputError
from oddsmith.rows.base import STORAGES as STORAGES
from oddsmith.rows.base import Rows as Rows
from oddsmith.rows.codes import CodeRows as CodeRows
from oddsmith.rows.columns import ColumnRows as ColumnRows
from oddsmith.rows.dense import DenseRows as DenseRows
from oddsmith.rows.half import HalfRows as HalfRows
from oddsmith.rows.lazy import LazyRows as LazyRows
from oddsmith.rows.runs import RunRows as RunRows
from oddsmith.rows.sparse import CentredRows as CentredRows
from oddsmith.rows.sparse import SparseRows as SparseRows
from oddsmith.rows.split import SplitRows as SplitRows


def as_rows(X: Rows | npt.ArrayLike | csr_array) -> Rows:
    """Return the storage for an array or a CSR matrix; storages are returned unchanged.

    >>> as_rows(np.eye(2)).activations(np.array([[1.0], [2.0]])).tolist()
    [[1.0], [2.0]]
    """
    if isinstance(X, Rows):
        return X
    if isinstance(X, np.ndarray):
        return HalfRows(X) if X.dtype == np.float16 else DenseRows(X)
    if issparse(X):
        return SparseRows(X)
    raise InvalidInputError(f"Rows are an array, a CSR matrix or a storage of rows, found {type(X).__name__}.")
