"""Spark's daemon of Python workers, with the modules of a fold loaded before it forks them.

Otherwise each worker loads them in a second or more, and Spark stops workers that were idle for a minute. Enable it for
a new session with the setting ``spark.python.daemon.module=oddsmith.engines.spark_daemon``.
"""

from __future__ import annotations

import gc
from importlib import import_module

NEEDED = ("oddsmith.engines.spark_files", "oddsmith.engines.spark_tasks", "oddsmith.kernels.curvature", "pandas")


def main() -> None:
    """Load the modules, freeze them for the garbage collector, and serve."""
    for name in NEEDED:
        import_module(name)
    gc.collect()
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
