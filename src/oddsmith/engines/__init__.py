"""Where rows come from: ``fold(statistic, source, params)`` over arrays, files and clusters."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from oddsmith.engines.base import ENGINES, Engine, Progress, Source, is_device_source
from oddsmith.engines.blas_threads import one_blas_thread
from oddsmith.engines.memory import MemoryEngine, MemorySource
from oddsmith.engines.partitioned import AnySource, PartedSource, Parts, Piece

if TYPE_CHECKING:
    from oddsmith.engines.dask import DaskEngine, DaskParts
    from oddsmith.engines.files import FilesEngine

# These need libraries that are slow to import, or that not everybody has.
for _name in ("files", "dask", "spark"):
    ENGINES.later(_name, f"oddsmith.engines.{_name}")
_LATER = {"DaskEngine": "dask", "DaskParts": "dask", "FilesEngine": "files"}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"oddsmith.engines.{_LATER[name]}"), name)


def engine_of(source: Source, threads: int | None = None) -> Engine:
    """Return the engine that folds over a source: that of its pieces or its device, or the memory engine.

    >>> import numpy as np
    >>> engine_of(MemorySource(np.eye(2), np.array([0, 1], dtype=np.int32), K=2)).name
    'memory'
    """
    if is_device_source(source):
        from oddsmith.engines.gpu import GpuEngine

        return GpuEngine()
    engine: Engine = source.parts.engine if isinstance(source, PartedSource) else MemoryEngine(threads)
    return engine


__all__ = [
    "ENGINES",
    "AnySource",
    "DaskEngine",
    "DaskParts",
    "Engine",
    "FilesEngine",
    "MemoryEngine",
    "MemorySource",
    "PartedSource",
    "Parts",
    "Piece",
    "Progress",
    "Source",
    "engine_of",
    "is_device_source",
    "one_blas_thread",
]
