"""Against Spark MLlib on one machine: ``python -m benchmarks.spark_mllib [--rows N] [--repeats R] …``.

Writes a table to Parquet, then fits it by MLlib's ``LogisticRegression``, by ours on the same Spark session, and by
ours from the files, each from the Parquet folder on, and prints seconds and the relative gap to the optimum. From files
it is fitted twice: with memory for all rows, as Spark has, and with the default of 1 GB, decoding them in every pass.

The objective is one: ``Σ_n loss_n + ‖w‖² / (2σ²)``, the intercept left out of the norm. MLlib divides it by N, so that
its ``regParam`` is ``1 / (N σ²)``, with ``elasticNetParam = 0`` and ``standardization = False``. Its ``tol`` is
made smaller until the gap is at most ``--gap``; its time is that of the largest that does it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from oddsmith import LogisticRegression, scan

from .generators import chunks, correlated

Weights = NDArray[np.float64]
LADDER = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
"""Tolerances for MLlib, the coarsest first."""


def write(folder: Path, rows: int, columns: int, correlation: float) -> None:
    """Write rows of a known logistic model as a folder of Parquet files."""
    w = 1.5 * np.random.default_rng(0).standard_normal(columns) / np.sqrt(columns)
    transform = correlated(columns, correlation, 0.0)
    names = [f"x{j}" for j in range(columns)]
    for part, rng in chunks(rows, seed=0):
        Z = rng.standard_normal((part.stop - part.start, columns))
        y = (Z @ w + 0.5 + rng.logistic(size=len(Z)) > 0).astype(np.float64)
        pq.write_table(pa.table([*transform(Z).T, y], names=[*names, "y"]), folder / f"part-{part.start:09}.parquet")


def objective(folder: Path, weights: dict[str, Weights], sigma: float) -> dict[str, float]:
    """The objective at each of some weights (intercept first), summed exactly file by file."""
    totals = {name: 0.5 * float(w[1:] @ w[1:]) / sigma**2 for name, w in weights.items()}
    for path in sorted(folder.glob("*.parquet")):
        table = pq.read_table(path)
        y = table.column("y").to_numpy()
        X = np.column_stack([table.column(i).to_numpy() for i in range(table.num_columns - 1)])
        for name, w in weights.items():
            a = w[0] + X @ w[1:]
            totals[name] += float(np.sum(np.logaddexp(0.0, a) - y * a))
    return totals


def by_mllib(frame: Any, columns: list[str], rows: int, sigma: float, tol: float) -> Weights:
    from pyspark.ml.classification import LogisticRegression as MLlib
    from pyspark.ml.feature import VectorAssembler

    features = VectorAssembler(inputCols=columns, outputCol="features").transform(frame).select("features", "y")
    model = MLlib(
        labelCol="y",
        regParam=1.0 / (rows * sigma**2),
        elasticNetParam=0.0,
        standardization=False,
        maxIter=1000,
        tol=tol,
    ).fit(features)
    return np.r_[model.intercept, model.coefficients.toArray()]


def by_us(data: Any, sigma: float, **options: Any) -> tuple[Weights, Any]:
    model = LogisticRegression(prior=sigma, **options).fit(data, y="y")
    return np.r_[model.intercept_, model.coef_.ravel()], model.certificate_


def timed(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least time of several, and the last result."""
    seconds, result = [], None
    for _ in range(repeats):
        began = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - began)
    return min(seconds), result


def open_session(memory: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.driver.memory": memory,
        "spark.log.level": "ERROR",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return SparkSession.builder.master("local[*]").config(map=settings).getOrCreate()


def run(folder: Path, given: argparse.Namespace) -> None:
    """Fit by all three, and print."""
    session = open_session(given.memory)
    frame, columns = session.read.parquet(str(folder)), [f"x{j}" for j in range(given.columns)]
    some = frame.limit(20_000).repartition(8).persist()  # compilation is not measured
    by_us(some, given.sigma)
    by_mllib(some, columns, 20_000, given.sigma, 1e-6)
    by_us(scan(folder, memory=given.files_memory), given.sigma)
    files = timed(lambda: by_us(scan(folder, memory=given.files_memory), given.sigma), given.repeats)
    little = timed(lambda: by_us(str(folder), given.sigma), given.repeats)
    ours = timed(lambda: by_us(frame, given.sigma), given.repeats)
    weights = {"oddsmith on Spark": ours[1][0], "oddsmith from files": files[1][0], "in 1 GB": little[1][0]}
    weights["best"] = by_us(str(folder), given.sigma, tol=1e-12)[0]
    for tol in LADDER:
        theirs = timed(lambda tol=tol: by_mllib(frame, columns, given.rows, given.sigma, tol), given.repeats)
        values = objective(folder, weights | {"MLlib": theirs[1]}, given.sigma)
        gaps = {name: value / min(values.values()) - 1.0 for name, value in values.items()}
        print(f"MLlib with tol={tol:g}: {theirs[0]:.1f} s, gap {gaps['MLlib']:.2g}")
        if gaps["MLlib"] <= given.gap:
            break
    print(f"\n{given.rows:,} × {given.columns}, σ = {given.sigma:g}, Spark {session.version}")
    times = {"MLlib": theirs[0], "oddsmith on Spark": ours[0], "oddsmith from files": files[0], "in 1 GB": little[0]}
    for name, seconds in times.items():
        print(f"  {name:20} {seconds:8.2f} s  {theirs[0] / seconds:5.1f} times  gap {gaps[name]:.2g}")
    for name, certificate in (("Spark", ours[1][1]), ("files", files[1][1])):
        print(f"  {name}: {certificate}")


def main() -> None:
    """Read the options, write the table, run, and delete the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=5_000_000)
    options.add_argument("--columns", type=int, default=50)
    options.add_argument("--correlation", type=float, default=0.0, help="of neighbouring columns")
    options.add_argument("--sigma", type=float, default=1.0)
    options.add_argument("--gap", type=float, default=1e-8)
    options.add_argument("--repeats", type=int, default=2, help="the least time of so many counts, once Java is warm")
    options.add_argument("--memory", default="10g", help="the driver's, in which local Spark computes")
    options.add_argument("--files-memory", default="6GB", help="for the fit from files, which is also made in 1 GB")
    options.add_argument("--folder", type=Path, help="where the table is written; default: a temporary folder")
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        write(folder, given.rows, given.columns, given.correlation)
        run(folder, given)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
