"""Hessians and steps from sums on a device, so that several steps follow on one another without a wait for any."""

from __future__ import annotations

import torch

from oddsmith.kernels.device.tensors import Tensor, has_triton, launch

LOGGED = 6
"""Numbers that a step is judged by: loss, penalty, ``gᵀg``, ``gᵀA⁻¹g``, curvature of the pair, failure of a factor."""


def complete_hessian(G: Tensor, Q: Tensor, each: float) -> Tensor:
    """Return ``each · G + diag(Q)`` in float64, where the last of the first P rows of a Gram matrix becomes the first.

    >>> complete_hessian(torch.tensor([[1.0, 2.0], [2.0, 3.0]]), torch.tensor([0.0, 10.0]).double(), 2.0).tolist()
    [[6.0, 4.0], [4.0, 12.0]]
    """
    P = len(Q)
    if not has_triton(G):
        return torch.roll(G[:P, :P], (1, 1), (0, 1)).to(torch.float64) * each + torch.diag(Q)
    return _completed(G, Q, None, each)[0]


def newton_system(G: Tensor, Q: Tensor, slope: Tensor, each: float) -> tuple[Tensor, Tensor]:
    """Return the Hessian as `complete_hessian`, and the gradient, from what `logistic_gram` returns."""
    return _completed(G, Q, slope, each)


def _completed(G: Tensor, Q: Tensor, slope: Tensor | None, each: float) -> tuple[Tensor, Tensor]:
    from oddsmith.kernels.device.fused import hessian_tiles

    P = len(Q)
    out = torch.empty(P * P + P, dtype=torch.float64, device=G.device)
    H, g = out[: P * P].view(P, P), out[P * P :]
    constants = {"GRADIENT": slope is not None, "BP": 1 << (P - 1).bit_length()}
    launch(hessian_tiles, P, (G, Q, Q if slope is None else slope, H, g, P, G.stride(0), each), constants, 4)
    return H, g


def take_step(
    sums: Tensor, p: Tensor, g: Tensor, info: Tensor, at: Tensor, known: Tensor, before: Tensor, log: Tensor,
    each: float, *, paired: bool, fresh: bool = False,
) -> None:  # fmt: skip
    """Take a step from a point where the gradient is g and its solution p; nothing waits for it.

    ``before`` holds the point, and the last point with its gradient and solution; with ``paired``, the step is that of
    L-BFGS with the pair of these two. Behind them are the point that the Hessian is of (this one if it is ``fresh``)
    and what `logistic_sums` takes as ``moved``: the step's end less that point. All is overwritten by what the next
    step needs, and so are intercepts, weights and the slope of the prior in ``at`` (as `logistic.point`, with slope
    and factors behind it). ``known`` is the prior's mean and precision. ``log`` is what `LOGGED` says.
    """
    P = len(g)
    if has_triton(g):
        from oddsmith.kernels.device.fused import step_tile

        given = (sums, p, g, info, at, known, before, log, each, P)
        launch(step_tile, 1, given, {"PAIRED": paired, "FRESH": fresh, "BP": 1 << (P - 1).bit_length()}, 4)
        return
    (mean, Q), (x, x0, g0, p0, curved) = known.reshape(2, P), before[: 5 * P].reshape(5, P).clone()
    d, curvature = p, torch.ones_like(g[0])
    if paired:
        dx, dg, dp = x - x0, g - g0, p - p0
        curvature = dx @ dg
        alpha = (dx @ g) / curvature
        d = (p - alpha * dp) * (curvature / (dg @ dp))
        d = d + dx * (alpha - (dg @ d) / curvature)
    delta = x - mean
    log[:] = torch.stack([sums[0] * each, 0.5 * (Q * delta) @ delta, g @ g, g @ p, curvature, info[0].to(g.dtype)])
    new, curved = x - d, x if fresh else curved
    center, inverse = at[P + 1 : 2 * P], at[2 * P : 3 * P - 1]
    w, change = new[1:] * inverse, (new - curved)[1:] * inverse
    moved = (new - curved)[:1]
    before[: 6 * P + 1] = torch.cat([new, x, g, p, curved, moved, moved - change @ center, change])
    at[0], at[1], at[2 : P + 1] = new[0], new[0] - w @ center, w
    at[3 * P - 1 : 4 * P - 1] = Q * (new - mean)
