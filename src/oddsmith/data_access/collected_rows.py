"""Tables in files that fit into memory once their categories are codes: all rows in one source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.design.table import Design
from oddsmith.engines import MemorySource, PartedSource
from oddsmith.engines.partitioned import Parts
from oddsmith.engines.scan import Wrapped
from oddsmith.rows import CodeRows, ColumnRows, Rows, SparseRows, SplitRows
from oddsmith.rows.codes import narrowest

SHARE = 0.3
"""Part of the memory for a fit that its rows may take, beside the tables in flight and those kept."""
ENTRY_BYTES = 8


@dataclass(frozen=True)
class CollectedRows:
    """Blocks of all rows, in their order; a statistic whose merge puts them one after another."""

    blocks: tuple[Block, ...]

    @classmethod
    def zero(cls, shape: object, params: object) -> CollectedRows:
        """Return no rows."""
        return cls(())

    @classmethod
    def of(cls, block: Block, params: object) -> CollectedRows:
        """Return the rows of a block, as arrays of their own: its views would keep the whole piece."""
        Phi = block.Phi
        assert isinstance(Phi, SplitRows) or not block.n_rows
        parts = tuple(_detached(part) for part in Phi.parts) if isinstance(Phi, SplitRows) else ()
        return cls((replace(block, Phi=SplitRows(parts)),) if parts else ())

    def merge(self, other: CollectedRows) -> CollectedRows:
        """Return the rows of both."""
        return CollectedRows((*self.blocks, *other.blocks))


def collects(parts: Parts, design: Design, n_rows: int) -> bool:
    """Whether the rows are to be collected: files, of a table with categories that fits into the memory given.

    A fit with a journal keeps the sums of each pass, so there must be passes.
    """
    from oddsmith.engines.files import FileParts

    inside = parts.parts if isinstance(parts, Wrapped) else parts
    if not isinstance(inside, FileParts) or not design.is_split(n_rows):
        return False
    entries = sum(max(1, term.entries) for term in design.terms_)
    return n_rows * (ENTRY_BYTES * entries + 4) <= SHARE * inside.memory


def collect(parts: Parts, encode: Callable[..., Block], K: int) -> MemorySource:
    """Return all rows of files as one source in memory (one pass)."""
    source = PartedSource(parts, encode)
    found: CollectedRows = parts.engine.fold(CollectedRows, source, None)  # type: ignore[type-var]
    blocks = list(found.blocks)
    rows = _joined([block.Phi for block in blocks])
    t = np.concatenate([block.t for block in blocks])
    some = any(block.s is not None for block in blocks)
    s = np.concatenate([block.weights() for block in blocks]) if some else None
    shifted = blocks[0].offset is not None
    offset = np.concatenate([block.offset for block in blocks if block.offset is not None]) if shifted else None
    return MemorySource(rows, t, K, s, offset=offset)


def _detached(part: Rows) -> Rows:
    if isinstance(part, ColumnRows):
        return ColumnRows(tuple(np.array(array) for array in part.arrays), part.n_rows)
    if isinstance(part, CodeRows):
        # Each piece has a dictionary of its own: what they share is the column of each level.
        M = part.shape[1]
        x = None if part.x is None else np.array(part.x)
        return CodeRows(narrowest(part.places(), M), M, x=x)
    return part


def _joined(rows: list[Rows]) -> SplitRows:
    """Return the rows of several blocks as one; arrays are let go as they are joined."""
    parts: list[Rows] = []
    pieces = [list(piece.parts) for piece in rows if isinstance(piece, SplitRows)]
    for k in range(len(pieces[0])):
        some = [piece[k] for piece in pieces]
        for piece in pieces:
            piece[k] = None  # type: ignore[call-overload]
        parts.append(_joined_part(some))
    return SplitRows(tuple(parts))


def _joined_part(some: list[Rows]) -> Rows:
    first = some[0]
    if isinstance(first, ColumnRows):
        columns = zip(*(part.arrays for part in some if isinstance(part, ColumnRows)), strict=True)
        return ColumnRows(tuple(np.concatenate(arrays) for arrays in columns), sum(part.shape[0] for part in some))
    if isinstance(first, CodeRows):
        factors = [part for part in some if isinstance(part, CodeRows)]
        x: npt.NDArray[np.float64] | None = None
        if first.x is not None:
            x = np.concatenate([part.x for part in factors if part.x is not None])
        return replace(first, codes=np.concatenate([part.codes for part in factors]), x=x)
    from scipy import sparse

    stacked = sparse.csr_array(sparse.vstack([part.concrete().X for part in some], format="csr"))
    return SparseRows(stacked)
