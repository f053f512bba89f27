"""A table cut into pieces, and the plainest engine for them: what others are held against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from oddsmith.design.inputs import as_table
from oddsmith.engines import PartedSource, Piece, Progress
from oddsmith.engines.partitioned import merged
from oddsmith.statistic import Statistic

S = TypeVar("S", bound=Statistic)


@dataclass(frozen=True)
class CutEngine:
    """Folds over the pieces of a `Cut`, one after the other."""

    name: str = "cut"

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        """Return the merge of the statistics of all pieces."""
        job, pieces = source.job(statistic, params), list(source.parts.pieces())

        def parts() -> Iterator[S]:
            for done, piece in enumerate(pieces, 1):
                yield job(piece)
                if progress is not None:
                    progress(done, len(pieces))

        return merged(parts(), lambda: statistic.zero(source.shape, params))


@dataclass(frozen=True)
class Cut:
    """A table (pandas, polars, Arrow) in pieces of so many rows, for models to fit to as if it lay elsewhere.

    >>> import polars
    >>> from oddsmith import LogisticRegression
    >>> table = polars.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "b", "a", "b"]})
    >>> whole, pieces = (LogisticRegression().fit(data, y="y") for data in (table, Cut(table, 3)))
    >>> bool(abs(whole.coef_ - pieces.coef_).max() < 1e-12)
    True
    """

    table: Any
    rows: int
    chosen: tuple[str, ...] | None = None

    @property
    def engine(self) -> CutEngine:
        """The engine."""
        return CutEngine()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.chosen or tuple(as_table(self.table).columns)  # type: ignore[union-attr]

    @property
    def expected_rows(self) -> int:
        """The number of rows."""
        return len(as_table(self.table))  # type: ignore[arg-type]

    def choose(self, columns: Iterable[str]) -> Cut:
        """Return the same with these columns."""
        return replace(self, chosen=tuple(columns))

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces."""
        table = as_table(self.table).select(self.columns)  # type: ignore[union-attr]
        for number, start in enumerate(range(0, len(table), self.rows)):
            yield Piece(table[start : start + self.rows].to_native(), number=number, name=f"piece {number}")
