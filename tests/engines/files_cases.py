"""A statistic of raw pieces that remembers all rows, and folds of it: what tests of the files engine look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oddsmith.engines import FilesEngine, PartedSource, Piece
from oddsmith.engines.files import FileParts


@dataclass(frozen=True)
class Seen:
    """Tables in the order in which they were merged, and the names of their pieces."""

    tables: tuple[Any, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @classmethod
    def zero(cls, shape: Any, params: Any) -> Seen:
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: Any) -> Seen:
        return cls((piece.rows,), (piece.name,), (piece.number,))

    def merge(self, other: Seen) -> Seen:
        return Seen(self.tables + other.tables, self.names + other.names, self.numbers + other.numbers)


def see(parts: FileParts, threads: int = 2, **how: Any) -> Seen:
    """Return all pieces."""
    return FilesEngine(threads).fold(Seen, PartedSource(parts), None, **how)  # type: ignore[type-var]


def read(data: Any, columns: Any = None, **how: Any) -> pa.Table:
    """Return all rows, in order."""
    parts = FileParts.open(data, **how)
    parts = parts if columns is None else parts.choose(columns)
    seen = see(parts)
    return pa.concat_tables(seen.tables) if seen.tables else parts.schema.empty_table()
