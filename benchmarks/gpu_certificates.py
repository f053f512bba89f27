"""Certificates of fits on a device against optima in float64: on random problems, none may claim too much.

    python -m benchmarks.gpu_certificates results.json                # 200 problems, on a machine with a GPU
    python -m benchmarks.gpu_certificates results.json --problems 20  # fewer, also on PyTorch's CPU device

Rows are float64, float32 or bfloat16; classes two to seven; columns independent, correlated or far from zero; classes
from hardly to nearly separated. The optimum is found by a Newton method of its own, in float64.
"""

from __future__ import annotations

import argparse
import json
import warnings
from typing import Any

import numpy as np
import torch

import oddsmith
from benchmarks.gpu import DEVICE

KINDS = (torch.float64, torch.float32, torch.bfloat16)


def problem(seed: int) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Return rows, labels and the scale of the prior."""
    rng = np.random.default_rng(seed)
    K = 2 if seed % 2 else int(rng.integers(3, 8))
    # Few different widths, since Triton compiles kernels for each; 200 are many weights.
    M = 9 if K > 2 else 200 if seed % 20 == 1 else int(rng.choice([3, 17, 60]))
    N = int(rng.integers(500, 9_000)) if K > 2 else int(rng.integers(20_000, 60_000))
    X = rng.normal(size=(N, M))
    if rng.random() < 0.4:
        X = X @ (np.eye(M) + 0.9 * rng.normal(size=(M, M)) / np.sqrt(M))
    X = X * np.exp(rng.normal(size=M)) + rng.choice([0.0, 1.0, 20.0]) * rng.normal(size=M)
    rows = torch.as_tensor(X).to(KINDS[seed % 3])
    exact = rows.to(torch.float64).numpy()
    strength = float(rng.choice([0.2, 1.5, 6.0]))
    A = strength * (exact - exact.mean(axis=0)) / exact.std(axis=0) @ rng.normal(size=(M, K)) / np.sqrt(M)
    y = (A + rng.gumbel(size=A.shape)).argmax(axis=1)
    y[:K] = np.arange(K)
    return rows.to(DEVICE), torch.as_tensor(y, device=DEVICE), float(10.0 ** rng.uniform(-1.5, 1.5))


def objective(Z: torch.Tensor, y: torch.Tensor, W: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return the sum of losses and the penalty, in float64; a row of weights a class, the intercept last."""
    loss = torch.nn.functional.cross_entropy(Z @ W.T, y, reduction="sum")
    return loss + 0.5 * (W * W * q).sum()


def optimum(Z: torch.Tensor, y: torch.Tensor, W: torch.Tensor, q: torch.Tensor) -> float:
    """Return the least value that Newton's method finds from ``W``; of two classes the first row stays zero."""
    K, P = W.shape
    free = slice(P, None) if K == 2 else slice(None)
    best = float(objective(Z, y, W, q))
    for _ in range(30):
        Y = torch.softmax(Z @ W.T, dim=1)
        R = Y - torch.nn.functional.one_hot(y, K)
        g = (R.T @ Z + W * q).ravel()
        H = torch.diag(q.expand(K, P).ravel())
        for j in range(K):
            for k in range(K):
                h = Y[:, j] * ((1.0 if j == k else 0.0) - Y[:, k])
                H[j * P : j * P + P, k * P : k * P + P] += Z.T @ (Z * h[:, None])
        step = torch.zeros_like(g)
        step[free] = (
            torch.linalg.lstsq(H[free, free].cpu(), g[free, None].cpu(), driver="gelsd").solution[:, 0].to(g.device)
        )
        length = 1.0
        while length > 1e-4 and not float(objective(Z, y, W - length * step.reshape(K, P), q)) <= best:
            length *= 0.5
        value = float(objective(Z, y, W - length * step.reshape(K, P), q))
        if not value < best - 1e-15 * abs(best):
            break
        W, best = W - length * step.reshape(K, P), value
    return best


def check(seed: int) -> dict[str, Any]:
    """Return what the certificate of one problem claims, and what is true."""
    rows, y, scale = problem(seed)
    tol = 1e-7 if len(torch.unique(y)) > 2 else 1e-8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = oddsmith.LogisticRegression(prior=scale, tol=tol).fit(rows, y)
    X = rows.to(torch.float64)
    center = X.mean(dim=0)
    Z = torch.cat([X - center, torch.ones_like(X[:, :1])], dim=1)
    W, b = (torch.as_tensor(part, device=DEVICE) for part in (model.coef_, model.intercept_))
    V = torch.cat([W, (b + W @ center)[:, None]], dim=1)
    V = torch.cat([torch.zeros_like(V), V]) if len(V) == 1 else V
    q = torch.full((V.shape[1],), scale**-2.0, dtype=torch.float64, device=DEVICE)
    q[-1] = 0.0
    reached, best = float(objective(Z, y, V, q)), optimum(Z, y, V, q)
    certificate = model.certificate_
    true = reached - best <= certificate.gap + 1e-13 * len(rows) ** 0.5 * abs(best)
    return {
        "seed": seed, "rows": list(rows.shape), "kind": str(rows.dtype), "classes": len(V), "scale": scale,
        "gap": certificate.gap, "above": reached - best, "value": best, "true": bool(true),
        "converged": certificate.converged, "passes": certificate.passes, "method": certificate.method,
    }  # fmt: skip


def main() -> None:
    """Check the problems and write what was found."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("out")
    options.add_argument("--problems", type=int, default=200)
    options.add_argument("--first", type=int, default=0)
    given = options.parse_args()
    results = []
    for seed in range(given.first, given.first + given.problems):
        results.append(check(seed))
        if not (results[-1]["true"] and results[-1]["converged"]):
            print(results[-1], flush=True)
    with open(given.out, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
    print(f"{sum(r['true'] for r in results)} of {len(results)} certificates are true, "
          f"{sum(r['converged'] for r in results)} within the tolerance", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
