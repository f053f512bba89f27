"""Fits on two Spark executors, processes of their own, one of which is killed in the middle: prints what came out."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.spark import QUICK, lay_out_spark

from oddsmith import LogisticRegression
from oddsmith.engines import spark_files
from oddsmith.engines.spark import SparkEngine

SETTINGS = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "600m",
    "spark.log.level": "OFF",
    "spark.python.daemon.module": "oddsmith.engines.spark_daemon",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def executors(application: str) -> list[int]:
    """The processes of the executors."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_text()
        except OSError:
            continue
        if "CoarseGrainedExecutorBackend" in command and application in command:
            found.append(int(path.parent.name))
    return found


def fitted(session: Any, frame: Any) -> dict[str, Any]:
    """Fit undisturbed, then with an executor killed before the third pass; return how they compare."""
    expected = LogisticRegression(1.0).fit(frame, y="y")
    fold, passes, killed = SparkEngine.fold, [], []

    def deadly(self: Any, *given: Any, **options: Any) -> Any:
        passes.append(given[0].__name__)
        if len(passes) == 3:
            killed.extend(executors(session.sparkContext.applicationId)[:1])
            os.kill(killed[0], signal.SIGKILL)
        return fold(self, *given, **options)

    SparkEngine.fold = deadly  # type: ignore[method-assign]
    try:
        found = LogisticRegression(1.0).fit(frame, y="y")
    finally:
        SparkEngine.fold = fold  # type: ignore[method-assign]
    return {
        "passes": len(passes),
        "killed": len(killed),
        "same": bool(np.array_equal(found.coef_, expected.coef_)),
        "certificates": found.certificate_ == expected.certificate_,
        "rows": found.summary().n_rows,
    }


def main() -> None:
    """Fit rows that Spark hands over, and rows that tasks read from Parquet files."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = SparkSession.builder.master("local-cluster[2,1,600]").config(map=SETTINGS).getOrCreate()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 2))
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": (X @ [1.0, -1.0] + rng.logistic(size=800) > 0)})
    pq.write_table(table, "rows.parquet", row_group_size=200)
    spark_files.PIECE = spark_files.LARGEST = 4000
    frames = lay_out_spark(table, 200), session.read.parquet("rows.parquet")
    assert [len(spark_files.file_partitions(frame)) for frame in frames] == [0, 4]
    print(json.dumps([fitted(session, frame) for frame in frames]))
    session.stop()


if __name__ == "__main__":
    main()
