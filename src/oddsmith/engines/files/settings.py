"""The memory limit of a fit from files, and its allocation."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError

UNITS = {"": 1, "b": 1, **{f"{sign}b": 1000**i for i, sign in enumerate("kmgt", 1)}}
UNITS |= {f"{sign}ib": 1024**i for i, sign in enumerate("kmgt", 1)}
PIECE = 1 << 23  # Bytes of a piece, if there is memory for that.
LEAST = 1 << 24  # Minimum memory for reading, in bytes.


def parse_memory(text: str | float) -> int:
    """Parse a number of bytes.

    >>> parse_memory("1GB"), parse_memory("1.5 GiB"), parse_memory(1e9)
    (1000000000, 1610612736, 1000000000)
    """
    if isinstance(text, int | float) and not isinstance(text, bool) and np.isfinite(text):
        size = int(text)
    else:
        found = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-z]*)\s*", str(text).lower())
        if found is None or found[2] not in UNITS:
            raise InvalidInputError(
                f"memory={text!r} is not a number of bytes. Pass '500MB', '2GB' or '1.5GiB', for example."
            )
        size = int(float(found[1]) * UNITS[found[2]])
    if size < LEAST:
        raise InvalidInputError(f"memory={text!r} is too little to read files with. Pass at least '{LEAST >> 20}MiB'.")
    return size


def parse_cache(cache: object) -> str | bool:
    """Return a folder, True or False for a temporary one or none, or "auto"."""
    if not isinstance(cache, bool | str | os.PathLike | None):
        raise InvalidInputError(f"cache={cache!r} is unknown. Pass True, False, 'auto' or the path of a folder.")
    return "auto" if cache is None else cache if isinstance(cache, bool) else os.fspath(cache)


@dataclass(frozen=True, kw_only=True)
class FileSettings:
    """The allocation of ``memory`` bytes: a third for cached data, three eighths for pieces in progress.

    The rest is for uncounted memory: reader buffers, sums, memory not yet returned to the system. Pieces depend on
    ``memory`` and the data, never on the number of threads, and so do the sums.
    """

    memory: int
    cache: str | bool = "auto"
    dtype: npt.DTypeLike | None = None
    threads: int | None = None
    piece_rows: int | None = None

    def __post_init__(self) -> None:
        if self.dtype is not None and np.dtype(self.dtype) not in (np.float32, np.float64):
            raise InvalidInputError(f"dtype={self.dtype!r} is unknown. Pass 'float32' or 'float64'.")
        for name, value in (("threads", self.threads), ("piece_rows", self.piece_rows)):
            if value is not None and value < 1:
                raise InvalidInputError(f"{name}={value} is not positive.")

    @property
    def piece(self) -> int:
        """Bytes of a piece."""
        return min(PIECE, self.memory // 32)

    @property
    def kept(self) -> int:
        """Bytes of data cached between passes."""
        return self.memory // 3

    @property
    def in_flight(self) -> int:
        """Bytes of pieces in progress."""
        return 3 * self.memory // 8
