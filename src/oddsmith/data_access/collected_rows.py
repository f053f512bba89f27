"""Tables in files that fit into memory with categories as codes, collected into one source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from oddsmith.block import Block
from oddsmith.design.data_summary import BlockEncoder, DataSummary, DataSummaryParams, Roles
from oddsmith.design.frame import KINDS, Frame, type_name
from oddsmith.design.table import SPLIT_ELEMENTS, Design
from oddsmith.engines import MemorySource, PartedSource, Piece
from oddsmith.engines.memory import available_cores
from oddsmith.engines.partitioned import Parts
from oddsmith.engines.scan import Wrapped
from oddsmith.errors import OddsmithError
from oddsmith.protocols import RowsLike
from oddsmith.rows import SplitRows
from oddsmith.rows.split import TableForm, join_rows

if TYPE_CHECKING:
    from oddsmith.engines.files import FileParts

SHARE = 0.3  # Share of a fit's memory that its rows may take, besides tables in progress and cached tables.
ENTRY_BYTES, LABEL_BYTES = 8, 4


@dataclass(frozen=True)
class CollectedRows:
    """Blocks of all rows, in order; a statistic whose merge concatenates them."""

    blocks: tuple[Block, ...]

    @classmethod
    def zero(cls, shape: object, params: object) -> CollectedRows:
        """Return no rows."""
        return cls(())

    @classmethod
    def of(cls, block: Block, params: object) -> CollectedRows:
        """Return the rows of a block."""
        assert isinstance(block.Phi, SplitRows) or not block.n_rows
        return cls((block,) if block.n_rows else ())

    def merge(self, other: CollectedRows) -> CollectedRows:
        """Return the rows of both."""
        return CollectedRows((*self.blocks, *other.blocks))


def collects(parts: Parts, form: TableForm, n_rows: int) -> bool:
    """Whether to collect rows of a form with categories: files that fit into the given memory.

    A fit with a journal stores the sums of each pass, so it must make passes.
    """
    from oddsmith.engines.files import FileParts

    inside = parts.parts if isinstance(parts, Wrapped) else parts
    return isinstance(inside, FileParts) and _fit_into_memory(inside, n_rows, form.row_bytes)


def will_collect(parts: Parts, design: Design | None, columns: int) -> bool:
    """Whether the rows are expected to be collected, judged before any is read.

    Then no sample is drawn.
    """
    from oddsmith.engines.files import FileParts

    inside = parts.parts if isinstance(parts, Wrapped) else parts
    if not isinstance(inside, FileParts) or design is None or design.formula is not None:
        return False
    rows, texts = inside.expected_rows, any(KINDS.get(type_name(type_)) == "category" for type_ in inside.schema.types)
    return texts and rows * columns >= SPLIT_ELEMENTS and _fit_into_memory(inside, rows, ENTRY_BYTES * columns)


def fits(parts: Parts, n_rows: int, columns: int) -> bool:
    """Whether rows of numbers from files fit into the given memory."""
    from oddsmith.engines.files import FileParts

    inside = parts.parts if isinstance(parts, Wrapped) else parts
    return isinstance(inside, FileParts) and _fit_into_memory(inside, n_rows, ENTRY_BYTES * columns)


def _fit_into_memory(files: FileParts, n_rows: int, row_bytes: int) -> bool:
    return n_rows * (row_bytes + LABEL_BYTES) <= SHARE * files.memory


@dataclass(frozen=True)
class WholeTable:
    """A plain CSV file as one table, and its summary: the rows are in memory once."""

    piece: Piece
    summary: DataSummary
    table: pa.Table

    @classmethod
    def read(cls, parts: Wrapped, roles: Roles, design: Design | None) -> WholeTable | None:
        """Return the table; None if it must be read in pieces: what is not plain, and errors to place."""
        from oddsmith.engines.files import FileParts

        files = parts.parts
        if not isinstance(files, FileParts) or len(files.files) > 1:
            return None
        found = files.read_whole()
        if found is None:
            return None
        try:
            whole = design is not None and not roles.formats
            if design is not None and design.drops_unlabelled:  # then rows are dropped at once, and nothing is missing
                whole = whole and roles.weight is None and roles.offset is None
                names = found.table.column_names if design.missing == "drop" else filter(None, [roles.y])
                found = found.complete(names, available_cores()) if whole else found
            rows: RowsLike = Frame.of_codes(found.table, found.counts) if whole else found.table
            piece = Piece(rows)
            return cls(piece, DataSummary.of(piece, DataSummaryParams(roles=roles, design=design)), found.table)
        except OddsmithError:  # read again, it names the place
            return None

    def encoded(self, encode: BlockEncoder) -> MemorySource | None:
        """Return the rows as a source; None if some cannot be encoded."""
        try:
            block = replace(encode, compact=False)(Piece(self.table) if encode.design is None else self.piece)
        except OddsmithError:
            return None
        rows = block.Phi if isinstance(block.Phi, SplitRows) else block.X
        return MemorySource(rows, block.t, len(encode.classes), block.s, offset=block.offset, was_read=True)


def collect(parts: Parts, encode: Callable[..., Block], K: int) -> MemorySource:
    """Return all rows of files as one source in memory (one pass)."""
    from oddsmith.engines.files import FileParts

    source = PartedSource(parts, encode)
    found: CollectedRows = parts.engine.fold(CollectedRows, source, None)  # type: ignore[type-var]
    files = parts.innermost if isinstance(parts, Wrapped) else parts
    if isinstance(files, FileParts):
        files.forget()  # or the blocks that it has cached would be there twice
        pa.default_memory_pool().release_unused()
    blocks = list(found.blocks)
    t = np.concatenate([block.t for block in blocks])
    some = any(block.s is not None for block in blocks)
    s = np.concatenate([block.weights() for block in blocks]) if some else None
    shifted = blocks[0].offset is not None
    offset = np.concatenate([block.offset for block in blocks if block.offset is not None]) if shifted else None
    rows = [block.Phi for block in blocks if isinstance(block.Phi, SplitRows)]
    del found, blocks
    return MemorySource(join_rows(rows), t, K, s, offset=offset, was_read=True)
