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
    from oddsmith.kernels.device.fused import hessian_tiles

    H = torch.empty((P, P), dtype=torch.float64, device=G.device)
    launch(hessian_tiles, P, (G, Q, H, P, G.stride(0), each), {"BP": 1 << (P - 1).bit_length()}, 4)
    return H


def take_step(
    sums: Tensor, p: Tensor, g: Tensor, info: Tensor, at: Tensor, known: Tensor, before: Tensor, log: Tensor,
    each: float, *, paired: bool,
) -> None:  # fmt: skip
    """Take a step from a point where the gradient is g and its solution p; nothing waits for it.

    ``before`` holds the point, and the last point with its gradient and solution; with ``paired``, the step is that of
    L-BFGS with the pair of these two. It is overwritten by what the next step needs, and so are intercepts, weights and
    the slope of the prior in ``at`` (as `logistic.point`, with slope and factors behind it). ``known`` is the prior's
    mean and precision. ``log`` is what `LOGGED` says.
    """
    P = len(g)
    if has_triton(g):
        from oddsmith.kernels.device.fused import step_tile

        given = (sums, p, g, info, at, known, before, log, each, P)
        launch(step_tile, 1, given, {"PAIRED": paired, "BP": 1 << (P - 1).bit_length()}, 4)
        return
    (mean, Q), (x, x0, g0, p0) = known.reshape(2, P), before.reshape(4, P).clone()
    d, curvature = p, torch.ones_like(g[0])
    if paired:
        dx, dg, dp = x - x0, g - g0, p - p0
        curvature = dx @ dg
        alpha = (dx @ g) / curvature
        d = (p - alpha * dp) * (curvature / (dg @ dp))
        d = d + dx * (alpha - (dg @ d) / curvature)
    delta = x - mean
    log[:] = torch.stack([sums[0] * each, 0.5 * (Q * delta) @ delta, g @ g, g @ p, curvature, info[0].to(g.dtype)])
    new = x - d
    before[:] = torch.cat([new, x, g, p])
    w = new[1:] * at[2 * P : 3 * P - 1]
    at[0], at[1], at[2 : P + 1] = new[0], new[0] - w @ at[P + 1 : 2 * P], w
    at[3 * P - 1 : 4 * P - 1] = Q * (new - mean)
