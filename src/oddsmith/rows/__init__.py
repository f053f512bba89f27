"""How Φ is stored: one file a storage, all with the same verbs and the same laws."""

from oddsmith.rows.base import STORAGES, Rows, as_rows
from oddsmith.rows.dense import DenseRows
from oddsmith.rows.half import HalfRows
from oddsmith.rows.lazy import LazyRows
from oddsmith.rows.runs import RunRows
from oddsmith.rows.sparse import CentredRows, SparseRows

__all__ = [
    "STORAGES",
    "CentredRows",
    "DenseRows",
    "HalfRows",
    "LazyRows",
    "Rows",
    "RunRows",
    "SparseRows",
    "as_rows",
]
