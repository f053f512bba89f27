"""Rows in memory that do not fit on the device, streamed in every pass; and rows of a Parquet file.

    python -m benchmarks.gpu_streaming results.json --gigabytes 60 --limit 10

All but ``limit`` GB of the device's memory is taken first. What the bus does by itself is measured beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import oddsmith
from benchmarks.gpu import binary


def bus_rate() -> float:
    """Return GB a second from pinned memory to the device."""
    source = torch.empty(1 << 30, dtype=torch.uint8).pin_memory()
    target = torch.empty_like(source, device="cuda")
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        began = time.perf_counter()
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return len(source) / min(times) / 1e9


def rows_in_memory(gigabytes: float, columns: int = 250) -> tuple[torch.Tensor, np.ndarray]:
    """Return float32 rows in memory and their labels, made on the device a part at a time."""
    part = 1_000_000
    parts = max(1, round(gigabytes * 1e9 / (4 * columns * part)))
    X, y = torch.empty((parts * part, columns)), np.empty(parts * part, dtype=np.int64)
    for k in range(parts):
        # The same weights each time: only the rows are new.
        generator = torch.Generator(device="cuda").manual_seed(k)
        Z = torch.randn(part, columns, generator=generator, device="cuda")
        w = 1.5 * torch.randn(columns, generator=torch.Generator(device="cuda").manual_seed(12345), device="cuda")
        noise = torch.rand(part, generator=generator, device="cuda")
        X[k * part : (k + 1) * part] = Z.cpu()
        y[k * part : (k + 1) * part] = (noise < torch.sigmoid(Z @ w / columns**0.5 + 0.4)).cpu().numpy()
    return X, y


def streamed(gigabytes: float, limit: float) -> dict[str, Any]:
    """Return the time of a fit whose rows are streamed, with the rate of its passes."""
    rate = bus_rate()
    X, y = rows_in_memory(gigabytes)
    oddsmith.LogisticRegression(prior=1.0, tol=1e-8).fit(X[:500_000].cuda(), y[:500_000])  # it compiles the kernels
    torch.cuda.empty_cache()
    ballast = torch.empty(max(0, torch.cuda.mem_get_info()[0] - int(limit * 1e9)), dtype=torch.uint8, device="cuda")
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    model = oddsmith.LogisticRegression(prior=1.0, tol=1e-8).fit(X, y, device="cuda")
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() - before
    records = model.trace_.records
    # Passes follow on one another unseen; the first begins before the steps on subsamples are recorded.
    begun = max(r[6] for r in records if not r[7].startswith("L-BFGS"))
    others, size = sum(r[7].startswith("L-BFGS") for r in records) - 1, X.numel() * 4 / 1e9
    del ballast
    return {
        "gigabytes": size, "seconds": seconds, "passes": model.certificate_.passes, "bus": rate,
        "rate": others * size / (records[-1][6] - begun), "converged": model.certificate_.converged, "peak": peak / 1e9,
        "trace": [list(r) for r in records],
    }  # fmt: skip


def from_parquet(rows: int = 2_000_000, columns: int = 60) -> dict[str, Any]:
    """Return the time of a fit to a Parquet file on the device, and of its reading alone; weights as from the array."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = binary(rows, columns)
    table = pa.table({**{f"x{j}": X[:, j].cpu().numpy() for j in range(columns)}, "y": y.cpu().numpy()})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(table, path, row_group_size=200_000)
        began = time.perf_counter()
        pq.read_table(path)
        alone = time.perf_counter() - began
        other = oddsmith.LogisticRegression(prior=1.0).fit(X, y)  # it compiles the kernels
        began = time.perf_counter()
        model = oddsmith.LogisticRegression(prior=1.0).fit(str(path), "y", device="cuda")
        seconds = time.perf_counter() - began
    return {
        "rows": rows, "columns": columns, "seconds": seconds, "reading_alone": alone,
        "same": float(np.abs(model.coef_ - other.coef_).max()), "converged": model.certificate_.converged,
    }  # fmt: skip


def main() -> None:
    """Stream, read, and write what it took."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out")
    options.add_argument("--gigabytes", type=float, default=60.0)
    options.add_argument("--limit", type=float, default=10.0)
    given = options.parse_args()
    results = {"parquet": from_parquet(), "streamed": streamed(given.gigabytes, given.limit)}
    print(json.dumps(results), flush=True)
    with open(given.out, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
