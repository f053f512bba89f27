"""What a user may give in place of rows in memory, and how it is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import signature
from os import PathLike
from typing import Any

import numpy as np

from oddsmith.engines.base import Engine, Progress
from oddsmith.engines.parted import Parts
from oddsmith.errors import InvalidInputError, UnknownNameError


def scan(data: Any, **how: Any) -> Parts:
    """Open data that need not fit into memory, for ``fit``, ``predict`` and ``evaluate`` of every model.

    Parameters
    ----------
    data : path, folder, glob, list of these, pyarrow dataset, Dask or Spark data frame, or Dask array
        Files are Parquet, CSV or Arrow.
    **how
        For files: ``memory="1GB"`` bounds what is held, ``cache`` (a folder, or True) keeps decoded blocks in
        memory-mapped files, ``dtype="float32"`` halves what is kept, ``format`` where the name does not tell.
        For all: ``progress`` is called with (pieces done, pieces in all), or with True a bar in the terminal shows
        them; ``resume`` names a small file in which the
        sums of each pass are kept, so that a fit that was interrupted goes on from there, to the same bits.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> from oddsmith import GaussianClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"x": [0.0, 1.0, 4.0, 5.0], "y": list("aabb")}), f"{folder}/part.parquet")
    ...     GaussianClassifier().fit(scan(folder, memory="100MB"), y="y").means_.tolist()
    [[0.5], [4.5]]
    """
    later = {name: how.pop(name, None) for name in ("resume", "progress")}
    parts = find_parts(data, how=how)
    if parts is None:
        raise InvalidInputError(
            f"scan opens files, folders, and data frames of Dask and Spark; found a {type(data).__name__}. What is in "
            "memory is given to fit as it is."
        )
    return parts if later == {"resume": None, "progress": None} else Scanned(parts, parts.engine, **later)


def find_parts(data: Any, apart: dict[str, Any] | None = None, how: dict[str, Any] | None = None) -> Parts | None:
    """Return data as pieces, or None if it is in memory.

    ``apart`` holds labels, weights and offsets (``y``, ``s``, ``offset``) that are no names of columns.
    """
    how = how or {}
    if isinstance(data, np.ndarray):
        _check_none(how)
        return None
    if isinstance(data, str | PathLike) or _are_paths(data) or _of(data, "pyarrow._dataset", "pyarrow.dataset"):
        from oddsmith.engines.files import FileParts

        _none_apart(apart, "files")
        return FileParts.open(data, **_known(how, FileParts.open, "files"))
    if _of(data, "dask", "dask_expr"):
        from oddsmith.engines.dask import DaskParts

        return DaskParts.open(data, **(apart or {}), **_known(how, DaskParts.open, "Dask data", ("y", "s", "offset")))
    if _of(data, "pyspark"):
        from oddsmith.engines.spark import SparkParts

        _none_apart(apart, "a Spark data frame")
        return SparkParts.open(data, **_known(how, SparkParts.open, "a Spark data frame"))
    if hasattr(data, "engine") and hasattr(data, "expected_rows"):
        if how:
            raise InvalidInputError(f"This data is open already: give {', '.join(how)} to scan.")
        parts: Parts = data
        return parts
    _check_none(how)
    return None


def _known(how: dict[str, Any], opener: Any, what: str, apart: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the settings, or say which of them this kind of data does not have."""
    known = [name for name in list(signature(opener).parameters)[1:] if name not in apart]
    for name in how:
        if name not in known:
            raise UnknownNameError(f"setting for {what}", name, [*known, "resume", "progress"])
    return how


def is_elsewhere(data: Any) -> bool:
    """Whether data is not in memory: files, a cluster's, or open pieces.

    >>> is_elsewhere("rows.parquet"), is_elsewhere([[1.0]])
    (True, False)
    """
    if isinstance(data, np.ndarray):
        return False
    named = isinstance(data, str | PathLike) or _are_paths(data)
    known = _of(data, "pyarrow._dataset", "pyarrow.dataset", "dask", "dask_expr", "pyspark")
    return named or known or (hasattr(data, "engine") and hasattr(data, "expected_rows"))


def _check_none(how: dict[str, Any]) -> None:
    if how:
        raise TypeError(f"{', '.join(how)}: for files and clusters only, and X is in memory. Leave it out.")


def _are_paths(data: Any) -> bool:
    many = isinstance(data, Sequence) and not isinstance(data, str | bytes) and len(data) > 0
    return many and all(isinstance(one, str | PathLike) for one in data)


def _of(data: Any, *modules: str) -> bool:
    """Whether the type of some data comes from a library, which is not imported for the question."""
    kind: Any = type(data)
    return _is_from(kind, modules)


@lru_cache(maxsize=256)
def _is_from(kind: type[Any], modules: tuple[str, ...]) -> bool:
    return any(f"{one.__module__}.".startswith(f"{module}.") for one in kind.__mro__ for module in modules)


def _none_apart(apart: dict[str, Any] | None, what: str) -> None:
    for name in apart or {}:
        word = {"y": "y", "s": "sample_weight", "offset": "offset"}[name]
        raise InvalidInputError(
            f"With {what} as X, {word} is the name of a column, such as {word}='label'; found a "
            f"{type((apart or {})[name]).__name__}."
        )


@dataclass(frozen=True)
class Wrapped:
    """Pieces with another engine around their own: one that counts, say."""

    parts: Parts
    engine: Engine

    @property
    def innermost(self) -> Parts:
        """The pieces themselves, whatever wraps them."""
        return self.parts.innermost if isinstance(self.parts, Wrapped) else self.parts

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns."""
        return self.parts.columns

    @property
    def expected_rows(self) -> int:
        """The number of rows, as far as it is known."""
        return self.parts.expected_rows

    def choose(self, columns: Any) -> Wrapped:
        """Return the same with only these columns."""
        return replace(self, parts=self.parts.choose(columns))


@dataclass(frozen=True)
class Scanned(Wrapped):
    """Pieces that were opened with what only a fit can use: the file of its journal, and whom to tell how far it is."""

    resume: str | PathLike[str] | None = None
    progress: Progress | bool | None = None
