"""How Φ is stored: one file a storage, all with the same verbs and the same laws."""

from oddsmith.rows.base import STORAGES as STORAGES
from oddsmith.rows.base import Rows as Rows
from oddsmith.rows.base import as_rows as as_rows
from oddsmith.rows.dense import DenseRows as DenseRows
from oddsmith.rows.half import HalfRows as HalfRows
from oddsmith.rows.lazy import LazyRows as LazyRows
from oddsmith.rows.runs import RunRows as RunRows
from oddsmith.rows.sparse import CentredRows as CentredRows
from oddsmith.rows.sparse import SparseRows as SparseRows
