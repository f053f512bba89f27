"""The Laplace approximation by laplace-torch, one record per case. Run in this folder, by ``sh make.sh python``.

The network is one linear layer on standardised columns. laplace-torch knows the softmax likelihood only; in the form
"reference" the layer has an output per class other than the first, whose activation is fixed at 0 (with two classes
that is the sigmoid), in the form "symmetric" an output per class. The prior N(0, scale²) covers all weights and all
biases alike. float64 throughout, the full exact Hessian, the optimum to the last digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from common import BIRTHWT, INFERT_EDUCATION, PENGUINS, PIMA, Table, save, standardised
from laplace import Laplace
from laplace.curvature import CurvlinopsHessian
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)

CASES = {
    "birthwt": (BIRTHWT, "reference", 1.0),
    "birthwt_wide": (BIRTHWT, "reference", 5.0),
    "pima": (PIMA, "reference", 2.0),
    "infert": (INFERT_EDUCATION, "reference", 1.0),
    "infert_symmetric": (INFERT_EDUCATION, "symmetric", 1.0),
    "penguins_symmetric": (PENGUINS, "symmetric", 2.0),
}
ROWS = 20
SAMPLES = 400_000


class Network(torch.nn.Module):
    """Activations of all classes: those of a linear layer, after a zero for the reference if there is one."""

    def __init__(self, D: int, K: int, form: str) -> None:
        super().__init__()
        self.pinned = form == "reference"
        self.layer = torch.nn.Linear(D, K - self.pinned)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        A = self.layer(X)
        return torch.cat([torch.zeros_like(A[:, :1]), A], dim=1) if self.pinned else A


def train(model: Network, X: torch.Tensor, t: torch.Tensor, precision: float) -> float:
    """Minimise cross entropy (a sum) + ½ precision ‖w‖² by Newton's method; return the norm of the last gradient."""
    names, shapes = zip(*[(name, p.shape) for name, p in model.named_parameters()], strict=True)
    sizes = [shape.numel() for shape in shapes]

    def objective(w: torch.Tensor) -> torch.Tensor:
        parts = {n: v.reshape(s) for n, v, s in zip(names, w.split(sizes), shapes, strict=True)}
        A = torch.func.functional_call(model, parts, (X,))
        return torch.nn.functional.cross_entropy(A, t, reduction="sum") + 0.5 * precision * (w @ w)

    w = torch.zeros(sum(sizes))
    for _ in range(50):
        g = torch.func.grad(objective)(w)
        if g.norm() < 1e-12:
            break
        w = w - torch.linalg.solve(torch.func.hessian(objective)(w), g)
    assert g.norm() < 1e-10, g.norm()
    torch.nn.utils.vector_to_parameters(w, model.parameters())
    return float(g.norm())


def answers(table: Table, form: str, scale: float) -> dict[str, Any]:
    raw, t = table.read()
    X_numpy, how = standardised(raw)
    X, target = torch.tensor(X_numpy), torch.tensor(t)
    D, K = X.shape[1], len(table.classes)
    model = Network(D, K, form)
    gradient_norm = train(model, X, target, scale**-2)
    posterior = Laplace(
        model,
        "classification",
        subset_of_weights="all",
        hessian_structure="full",
        prior_precision=scale**-2,
        backend=CurvlinopsHessian,
    )
    posterior.fit(DataLoader(TensorDataset(X, target), batch_size=len(X)))
    # torch: the weights, class after class, then the biases. Here: class after class, the bias first.
    C = K - model.pinned
    order = np.concatenate([[C * D + c, *range(c * D, (c + 1) * D)] for c in range(C)])
    mean = posterior.mean.detach().numpy()[order]
    covariance = posterior.posterior_covariance.detach().numpy()[np.ix_(order, order)]
    probit = posterior(X[:ROWS], pred_type="glm", link_approx="probit").detach().numpy()
    return {
        "form": form,
        "prior_scale": scale,
        "prior_covers_intercept": True,
        "standardised": how,
        "gradient_norm": gradient_norm,
        "map": mean.reshape(C, 1 + D),
        "covariance": covariance,
        "log_likelihood": float(posterior.log_likelihood),
        "log_evidence": float(posterior.log_marginal_likelihood()),
        "predictive_plug_in": torch.softmax(model(X[:ROWS]), dim=1).detach().numpy(),
        "predictive_probit": probit,
        **sampled(posterior, model, X[:ROWS]),
    }


def sampled(posterior: Any, model: Network, X: torch.Tensor) -> dict[str, Any]:
    """Return the mean probability over draws of laplace-torch from the posterior, and its Monte-Carlo error."""
    torch.manual_seed(0)
    total = square = torch.zeros(len(X), 1)
    for _ in range(SAMPLES // 4000):
        draws = posterior.sample(4000).detach()
        W, b = draws[:, : -model.layer.out_features], draws[:, -model.layer.out_features :]
        A = torch.einsum("nd,skd->snk", X, W.reshape(len(draws), -1, X.shape[1])) + b[:, None, :]
        if model.pinned:
            A = torch.cat([torch.zeros_like(A[..., :1]), A], dim=2)
        P = torch.softmax(A, dim=2)
        total = total + P.sum(dim=0)
        square = square + (P**2).sum(dim=0)
    mean = total / SAMPLES
    spread = torch.sqrt(square / SAMPLES - mean**2)
    return {
        "predictive_samples": mean.numpy(),
        "predictive_samples_error": (spread / SAMPLES**0.5).numpy(),
        "predictive_std": spread.numpy(),
        "n_samples": SAMPLES,
    }


def main() -> None:
    for name, (table, form, scale) in CASES.items():
        save(f"laplace_{name}", table, answers(table, form, scale), ["laplace-torch", "torch"])


if __name__ == "__main__":
    main()
