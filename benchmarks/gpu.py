"""Fits on a GPU against what users run there: time from rows on the device to weights, peers in the same run.

    python -m benchmarks.gpu results.json            # all cases, on a machine with a GPU
    python -m benchmarks.gpu results.json --cases tall hard --repeat 5

Ours ends with a certificate (relative gap 1e-8, softmax 1e-7). A peer is given the iterations that it needs for a
relative gap of 1e-6, found beforehand by trying: it does not know itself where it is.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before SciPy is imported: scikit-learn on tensors asks for it

import numpy as np
import torch

import oddsmith

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def wait() -> None:
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(work: Callable[[], Any], repeat: int) -> tuple[float, float, Any]:
    """Return the least and the median time in milliseconds, and what came out; a first call is not counted."""
    result, times = work(), []
    for _ in range(repeat):
        wait()
        began = time.perf_counter()
        result = work()
        wait()
        times.append(1e3 * (time.perf_counter() - began))
    return min(times), sorted(times)[len(times) // 2], result


def binary(rows: int, columns: int, *, hard: bool = False, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 rows and labels: columns independent, or correlated (0.9) on scales over two decades."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    X = torch.randn(rows, columns, generator=generator, device=DEVICE)
    w = 1.5 * torch.randn(columns, generator=generator, device=DEVICE) / columns**0.5
    noise = torch.rand(rows, generator=generator, device=DEVICE)
    y = (noise < torch.sigmoid(X @ w + 0.4)).to(torch.int64)
    if hard:
        for j in range(1, columns):
            X[:, j] = 0.9 * X[:, j - 1] + (1 - 0.81) ** 0.5 * X[:, j]
        order = torch.randperm(columns, generator=torch.Generator().manual_seed(seed))
        X *= torch.logspace(-1, 1, columns)[order].to(DEVICE)
    return X, y


def embeddings(rows: int, columns: int, classes: int, *, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 rows like those of a vision model: class means and noise of a falling spectrum, and labels."""
    generator = torch.Generator(device=DEVICE).manual_seed(seed)
    spectrum = (1.0 + torch.arange(columns, device=DEVICE)).pow(-0.5)
    spectrum *= (columns / spectrum.square().sum()).sqrt()
    means = torch.randn(classes, columns, generator=generator, device=DEVICE) * spectrum
    y = torch.randint(classes, (rows,), generator=generator, device=DEVICE)
    X = torch.randn(rows, columns, generator=generator, device=DEVICE)
    for start in range(0, rows, 1 << 17):
        part = slice(start, start + (1 << 17))
        X[part] = X[part] * spectrum + 0.14 * means[y[part]]
    return X, y


def objective(X: torch.Tensor, y: torch.Tensor, W: torch.Tensor, b: torch.Tensor, scale: float) -> float:
    """Return the sum of losses and ½‖w‖²/σ² in float64."""
    total = 0.5 * float((W.double() ** 2).sum()) / scale**2
    for start in range(0, len(X), 1 << 16):
        Z = X[start : start + (1 << 16)].double()
        A = Z @ W.double().T + b.double()
        A = torch.cat([torch.zeros_like(A), A], dim=1) if len(W) == 1 else A
        total += float(torch.nn.functional.cross_entropy(A, y[start : start + (1 << 16)], reduction="sum"))
    return total


def torch_lbfgs(X: torch.Tensor, y: torch.Tensor, K: int, scale: float, iterations: int) -> Any:
    """Return weights and intercepts by torch.optim.LBFGS with its line search, on the mean of the objective."""
    outputs = 1 if K == 2 else K
    W = torch.zeros(outputs, X.shape[1], device=X.device, requires_grad=True)
    b = torch.zeros(outputs, device=X.device, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [W, b], max_iter=iterations, max_eval=2 * iterations, history_size=10, line_search_fn="strong_wolfe",
        tolerance_grad=0.0, tolerance_change=0.0,
    )  # fmt: skip
    target = y.float()[:, None] if K == 2 else y
    loss = torch.nn.functional.binary_cross_entropy_with_logits if K == 2 else torch.nn.functional.cross_entropy

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        value = loss(X @ W.T + b, target) + 0.5 / (scale**2 * len(X)) * (W * W).sum()
        value.backward()
        return value

    optimizer.step(closure)
    return W.detach(), b.detach()


def sklearn_array_api(X: torch.Tensor, y: torch.Tensor, scale: float, tol: float) -> Any:
    """Return weights and intercepts by scikit-learn's L-BFGS on tensors."""
    import sklearn
    from sklearn.linear_model import LogisticRegression

    with sklearn.config_context(array_api_dispatch=True):
        model = LogisticRegression(C=scale**2, tol=tol, max_iter=2000).fit(X, y.to(X.dtype))
    return torch.as_tensor(model.coef_), torch.as_tensor(model.intercept_)


def peer_times(
    X: torch.Tensor, y: torch.Tensor, K: int, scale: float, best: float, ladder: list[int], repeat: int
) -> dict[str, Any]:
    """Return the time of the peers at a relative gap of 1e-6, or at the smallest one that they reach."""
    found: dict[str, Any] = {}
    for iterations in ladder:
        W, b = torch_lbfgs(X, y, K, scale, iterations)
        gap = (objective(X, y, W, b, scale) - best) / best
        if gap <= 1e-6 or iterations == ladder[-1]:
            least, median, _ = timed(partial(torch_lbfgs, X, y, K, scale, iterations), repeat)
            found["torch L-BFGS"] = {"ms": least, "median": median, "gap": gap, "iterations": iterations}
            break
    if K == 2:
        try:
            for tol in (1e-4, 1e-6, 1e-8):
                W, b = sklearn_array_api(X, y, scale, tol)
                gap = (objective(X, y, W.to(X.device).reshape(1, -1), b.to(X.device).reshape(-1), scale) - best) / best
                if gap <= 1e-6 or tol == 1e-8:
                    least, median, _ = timed(partial(sklearn_array_api, X, y, scale, tol), repeat)
                    found["scikit-learn"] = {"ms": least, "median": median, "gap": gap, "tol": tol}
                    break
        except Exception as error:
            found["scikit-learn"] = {"error": f"{type(error).__name__}: {error}"[:200]}
    return found


def fit_case(name: str, X: torch.Tensor, y: torch.Tensor, K: int, tol: float, ladder: list[int], repeat: int) -> Any:
    """Return the times of one case, ours and the peers'."""
    wait()
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    least, median, model = timed(lambda: oddsmith.LogisticRegression(prior=1.0, tol=tol).fit(X, y), repeat)
    memory = torch.cuda.max_memory_allocated() - before if DEVICE == "cuda" else 0
    W, b = (torch.as_tensor(part, device=DEVICE) for part in (model.coef_, model.intercept_))
    best = objective(X, y, W, b, 1.0)
    certificate = model.certificate_
    result: dict[str, Any] = {
        "case": name, "rows": len(X), "columns": X.shape[1], "classes": K, "ms": least, "median": median,
        "gap": certificate.gap / best, "converged": certificate.converged, "passes": certificate.passes,
        "method": certificate.method, "plan": str(model.plan_), "objective": best,
        "trace": [list(r) for r in model.trace_.records],
    }  # fmt: skip
    result["memory_above_data"] = memory
    print(name, f"ours {least:.2f} ms (median {median:.2f})", certificate.converged, f"{certificate.gap / best:.2e}",
          certificate.passes, "passes", flush=True)  # fmt: skip
    if ladder:
        result["peers"] = peer_times(X, y, K, 1.0, best, ladder, 1 if K > 2 else repeat)
        print("   ", result["peers"], flush=True)
    if K > 2:
        began = time.perf_counter()
        sweep = oddsmith.probe(X, y, scales=[float(v) for v in np.geomspace(0.01, 10.0, 45)], tol=tol)
        result["sweep"] = {**sweep.to_dict(), "total": time.perf_counter() - began}
        print("    sweep of 45 scales", result["sweep"]["total"], all(result["sweep"]["converged"]), flush=True)
    return result


CASES: dict[str, dict[str, Any]] = {
    "tall": {"rows": 20_000_000, "columns": 100},
    "wide": {"rows": 2_000_000, "columns": 1000},
    "hard": {"rows": 4_000_000, "columns": 120, "hard": True},
    "probe": {"rows": 1_281_167, "columns": 768, "classes": 1000},
}


def main() -> None:
    """Run the cases and write what they took."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out")
    options.add_argument("--cases", nargs="*", default=list(CASES))
    options.add_argument("--repeat", type=int, default=5)
    options.add_argument("--shrink", type=int, default=1, help="divide the rows, for a try on a small machine")
    options.add_argument("--no-peers", action="store_true")
    given = options.parse_args()
    warnings.simplefilter("default")
    results = []
    for name in given.cases:
        case = dict(CASES[name])
        case["rows"] //= given.shrink
        K = case.get("classes", 2)
        X, y = embeddings(**case) if K > 2 else binary(**case)
        ladder = [] if given.no_peers else [100] if K > 2 else [10, 14, 20, 28, 40, 60, 100, 200, 400]
        results.append(fit_case(name, X, y, K, 1e-7 if K > 2 else 1e-8, ladder, given.repeat))
        del X, y
        with open(given.out, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
