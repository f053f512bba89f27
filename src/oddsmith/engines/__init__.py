"""Where rows come from: ``fold(statistic, source, params)`` over memory now, files and clusters later."""

from oddsmith.engines.base import ENGINES, Engine, Progress, Source
from oddsmith.engines.blas import one_blas_thread
from oddsmith.engines.memory import MemoryEngine, MemorySource

__all__ = ["ENGINES", "Engine", "MemoryEngine", "MemorySource", "Progress", "Source", "one_blas_thread"]
