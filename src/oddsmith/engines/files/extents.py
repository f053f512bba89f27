"""What every kind of table file can do, and the stretches of rows that it is read in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa

from oddsmith.engines.files.finding import Found
from oddsmith.errors import InvalidInputError


@dataclass(frozen=True)
class Extent:
    """Some rows of one file that are read one after the other: row groups, record batches, or bytes of text.

    ``first`` to ``last`` are their numbers; ``text`` is given where the bytes have been read already. ``nbytes`` is how
    much memory their columns take, ``aside`` what reading takes beside a piece of them, as far as is known.
    """

    file: TableFile
    first: int
    last: int
    nbytes: int
    aside: int = 0
    by_column: bool = False
    text: bytes | bytearray | None = None

    @property
    def name(self) -> str:
        """Where the rows are, for those who read an error."""
        return self.file.where(self.first, self.last)

    def singly(self) -> Iterator[Extent]:
        """Yield its row groups or record batches one by one; text has no such parts."""
        if self.file.is_text:
            yield self
        else:
            yield from (replace(self, first=i, last=i + 1) for i in range(self.first, self.last))


class TableFile(Protocol):
    """A file with a table in it."""

    @property
    def found(self) -> Found:
        """The file."""
        ...

    @property
    def schema(self) -> Any:
        """Its columns and their types."""
        ...

    @property
    def expected_rows(self) -> int:
        """The number of its rows, as far as it is known without reading them."""
        ...

    @property
    def is_text(self) -> bool:
        """Whether reading is slow, so that rows are worth a cache."""
        ...

    def extents(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[Extent]:
        """Yield the rows in stretches of about so many bytes, the same ones every time.

        Those that are not ``needed`` will not be read, only counted.
        """
        ...

    def read(self, extent: Extent, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the rows of an extent as tables of the schema, about ``rows`` rows at a time."""
        ...

    def where(self, first: int, last: int) -> str:
        """Return the name of an extent."""
        ...


@contextmanager
def named(where: str) -> Iterator[None]:
    """Say of which file and part of it an error of Arrow speaks."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        why = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise InvalidInputError(
            f"{where} cannot be read: {why}. Nothing was fitted. Write the file again, or leave it out."
        ) from error
