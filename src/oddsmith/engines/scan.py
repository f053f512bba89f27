"""Opening of data that is not in memory: files, folders, Dask and Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from inspect import signature
from os import PathLike
from typing import Any

import numpy as np

from oddsmith.engines.base import Engine, Progress
from oddsmith.engines.partitioned import Parts
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError, UnknownNameError

SAMPLE_BYTES = 160_000_000
"""Size of the sample from a cluster: enough for a start near the optimum. Transferring a larger one would take longer
than the pass that it saves."""
OPENERS = {
    "files": ("oddsmith.engines.files", "FileParts", "files"),
    "dask": ("oddsmith.engines.dask", "DaskParts", "Dask data"),
    "spark": ("oddsmith.engines.spark", "SparkParts", "a Spark data frame"),
}
"""The class of each kind of data in pieces, and its name in errors."""


def scan(data: object, **options: Any) -> Parts:
    """Open data that may be larger than memory, for ``fit``, ``predict`` and ``evaluate`` of every model.

    Parameters
    ----------
    data : path, folder, glob, list of these, pyarrow dataset, Dask or Spark data frame, or Dask array
        Files are Parquet, CSV or Arrow.
    **options
        For files: ``memory="1GB"`` limits the memory used, ``cache`` (a folder, or True) keeps decoded blocks in
        memory-mapped files, ``dtype="float32"`` halves their size, and ``format`` is needed if the file name does not
        show it. For all: ``progress`` is called with (pieces done, total pieces), or True shows a progress bar in the
        terminal; ``resume`` names a small file that stores the sums of each pass, so that an interrupted fit continues
        from there, with bit-identical results.

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> from oddsmith import GaussianClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({"x": [0.0, 1.0, 4.0, 5.0], "y": list("aabb")}), f"{folder}/part.parquet")
    ...     GaussianClassifier().fit(scan(folder, memory="100MB"), y="y").means_.tolist()
    [[0.5], [4.5]]
    """
    for_fit = {name: options.pop(name, None) for name in ("resume", "progress")}
    parts = find_parts(data, options=options)
    if parts is None:
        raise InvalidInputError(
            f"scan opens files, folders, and Dask and Spark data frames; found a {type(data).__name__}. Pass data in "
            "memory to fit directly."
        )
    return parts if for_fit == dict.fromkeys(for_fit) else Scanned(parts, parts.engine, **for_fit)


def find_parts(
    data: object, apart: dict[str, Any] | None = None, options: dict[str, Any] | None = None
) -> Parts | None:
    """Return data as pieces, or None if it is in memory.

    ``apart`` holds labels, weights and offsets (``y``, ``s``, ``offset``) that are not names of columns.
    """
    apart, options, kind = apart or {}, options or {}, _kind(data)
    if kind is None and options:
        raise InvalidTypeError(
            f"{', '.join(options)}: works with files and clusters only, but X is in memory. Leave it out."
        )
    if kind == "open" and options:
        raise InvalidInputError(f"This data is already open: pass {', '.join(options)} to scan.")
    if kind not in OPENERS:
        return data if kind == "open" and isinstance(data, Parts) else None
    module, parts_class, what = OPENERS[kind]
    opener = getattr(import_module(module), parts_class).open
    arguments = list(signature(opener).parameters) if options or apart else []  # which takes a while
    beside = {"y", "s", "offset"} & set(arguments)
    if kind == "files" and apart:
        _refuse_texts(data)
    for name in [name for name in apart if name not in beside]:
        word = {"s": "sample_weight"}.get(name, name)
        raise InvalidInputError(
            f"If X is {what}, {word} must be the name of a column, such as {word}='label'; found a "
            f"{type(apart[name]).__name__}."
        )
    known = [name for name in arguments[1:] if name not in beside]
    for name in options:
        if name not in known:
            raise UnknownNameError(f"setting for {what}", name, [*known, "resume", "progress"])
    opened: Parts = opener(data, **apart, **options)
    return opened


def _refuse_texts(data: object) -> None:
    """Refuse a formula or a list of documents given as data; labels given separately show that they are not paths."""
    texts = [str(one) for one in (data if isinstance(data, Sequence) and not isinstance(data, str) else [data])]
    formula = re.fullmatch(r"\s*[\w.`]+\s*~(?!/).*", texts[0])
    if isinstance(data, str) and formula is not None:
        raise InvalidInputError(
            f"X is the formula {data!r}. A formula belongs to the model's design: "
            f"LogisticRegression(design=Design(formula={data!r})).fit(table)."
        )
    if not isinstance(data, str | PathLike) and not any(map(os.path.exists, texts[:8])):
        raise InvalidInputError(
            f"X is a list of {len(texts)} strings ({texts[0]!r:.60} …), which would be paths, but no such files "
            "exist. For documents, convert the text to columns first: "
            "make_pipeline(TfidfVectorizer(), LogisticRegression(prior=1.0)).fit(X, y), with scikit-learn's vectorizer."
        )


def is_elsewhere(data: object) -> bool:
    """Whether data is not in memory: files, Dask, Spark, or open pieces.

    >>> is_elsewhere("rows.parquet"), is_elsewhere([[1.0]])
    (True, False)
    """
    return _kind(data) is not None


def _kind(data: object) -> str | None:
    """Return "files", "dask", "spark", or "open" for data in pieces; None for data in memory."""
    if isinstance(data, np.ndarray):
        return None
    several = isinstance(data, Sequence) and not isinstance(data, str | bytes) and len(data) > 0
    if all(isinstance(one, str | PathLike) for one in (data if several else [data])):  # type: ignore[attr-defined]
        return "files"
    if comes_from(data, "pyarrow._dataset", "pyarrow.dataset"):
        return "files"
    if comes_from(data, "dask", "dask_expr"):
        return "dask"
    if comes_from(data, "pyspark"):
        return "spark"
    # A name is looked up first: the question whether a type has all that a protocol asks for takes many times longer.
    return "open" if hasattr(data, "expected_rows") and isinstance(data, Parts) else None


def comes_from(data: object, *modules: str) -> bool:
    """Whether the type of some data comes from a library, without importing it.

    >>> comes_from(np.eye(2), "numpy")
    True
    """
    kind: Any = type(data)
    return _is_from(kind, modules)


@lru_cache(maxsize=256)
def _is_from(kind: type, modules: tuple[str, ...]) -> bool:
    return any(f"{one.__module__}.".startswith(f"{module}.") for one in kind.__mro__ for module in modules)


def offers(data: object, *members: str) -> bool:
    """Whether the type of some data has these members; a lazy Dask value claims to have every attribute.

    >>> offers(np.eye(2), "shape", "sum"), offers(np.eye(2), "columns")
    (True, False)
    """
    return set(members) <= set(dir(type(data)))


@contextmanager
def explaining(explain: Callable[[Exception], OddsmithError | None]) -> Iterator[None]:
    """Replace another library's error by one that explains it, if there is one."""
    try:
        yield
    except OddsmithError:
        raise
    except Exception as error:
        explanation = explain(error)
        if explanation is None:
            raise
        raise explanation from error


@dataclass(frozen=True)
class Wrapped:
    """Pieces whose engine is wrapped in another, such as one that counts."""

    parts: Parts
    engine: Engine

    @property
    def innermost(self) -> Parts:
        """The pieces themselves, whatever wraps them."""
        return self.parts.innermost if isinstance(self.parts, Wrapped) else self.parts

    @property
    def columns(self) -> tuple[str, ...] | None:
        return self.parts.columns

    @property
    def expected_rows(self) -> int:
        return self.parts.expected_rows

    def choose(self, columns: Iterable[str]) -> Wrapped:
        return replace(self, parts=self.parts.choose(columns))


@dataclass(frozen=True)
class Scanned(Wrapped):
    """Pieces opened with options that only a fit can use: the journal file and the progress callback."""

    resume: str | PathLike[str] | None = None
    progress: Progress | bool | None = None
