"""Spark's daemon of Python workers, with what a fold needs loaded before it forks them.

Otherwise each worker loads it for itself, in a second or more, and Spark ends workers that were idle for a minute. A
new session takes it by the setting ``spark.python.daemon.module=oddsmith.engines.spark_daemon``.
"""

from __future__ import annotations

import gc
from importlib import import_module

NEEDED = ("oddsmith.engines.spark_files", "oddsmith.engines.spark_tasks", "oddsmith.kernels.curvature", "pandas")


def main() -> None:
    """Load, set what is loaded aside from collections of garbage, and serve."""
    for name in NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
