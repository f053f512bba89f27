"""Centre and scale of columns on a device, and the device as a machine that plans are made for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from oddsmith.engines.gpu import DeviceSource
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.device.tensors import chunks
from oddsmith.numerics import Array
from oddsmith.solvers import policy
from oddsmith.solvers.facts import Machine


def column_moments(source: DeviceSource) -> tuple[Array, Array]:
    """Return mean and variance of the columns, from a sample where rows are many; of all rows where that misses one.

    The mean is rounded to float32, in which a column less its mean is exact.
    """
    settings = policy.POLICY
    part = source.X[source.spread(settings.coordinate_rows, seed=2)].to(source.device)
    if source.n_rows > 4 * settings.coordinate_rows and not source.weighted:
        X = part.to(torch.float64)
        found = torch.stack([*torch.var_mean(X, dim=0, correction=0), *torch.aminmax(X, dim=0)]).cpu().numpy()
        rows = settings.shown_rows
        if _surely_shown(found, len(X), rows) or bool(((X != X[:33].median(dim=0).values).sum(dim=0) >= rows).all()):
            return _rounded(found[1]), found[0]
    total, mean, square = 0.0, part[:1].to(torch.float64).mean(dim=0), None
    near = mean.clone()
    sums = torch.zeros((2, len(near)), dtype=torch.float64, device=source.device)
    for block in source.blocks():
        for start, stop in chunks(len(block.X) if block.rows is None else len(block.rows), 1, 1 << 16):
            chosen = slice(start, stop) if block.rows is None else block.rows[start:stop]
            z = block.X[chosen].to(torch.float64) - near
            s = torch.ones_like(z[:, 0]) if block.s is None else block.s[chosen]
            total += float(s.sum())
            sums[0] += s @ z
            sums[1] += s @ (z * z)
    shift = sums[0] / total
    mean, square = near + shift, sums[1] / total - shift**2
    found = torch.stack([mean, square.clamp(min=0.0)]).cpu().numpy()
    return _rounded(found[0]), found[1]


def _surely_shown(found: Array, n: int, rows: int) -> bool:
    """Whether it is certain that at least ``rows`` of n numbers of each column differ from its most frequent one.

    Were they fewer, the farthest of them would be nearly √(n / rows) standard deviations from the mean. ``found`` is
    the variance, the mean, the least and the largest number of each column.

    >>> _surely_shown(np.array([[1.0], [0.0], [-3.0], [4.0]]), 4000, 8)
    True
    >>> _surely_shown(np.array([[0.1], [0.0], [0.0], [20.0]]), 4000, 8)
    False
    """
    variance, mean, least, most = found
    far = np.maximum(most - mean, mean - least)
    return bool((far < (1.0 - rows / n) * np.sqrt(variance * n / rows)).all())


def _rounded(mean: Array) -> Array:
    return mean.astype(np.float32).astype(np.float64)


def device_machine(source: DeviceSource) -> Machine:
    """Return the device as a machine: its memory, and the rates of an H200 (or this machine, where that is a CPU)."""
    if source.device.type != "cuda":
        return Machine.here()
    return Machine(
        memory=float(torch.cuda.get_device_properties(source.device).total_memory),
        cores=1,
        bytes_per_second=3.4e12,
        flops_per_core=5.8e13,
        activations_per_core=1e11,
        fit_seconds=3e-3,
        pass_seconds=3e-4,
    )


@contextmanager
def device_memory(source: DeviceSource) -> Iterator[None]:
    """Turn the end of a device's memory into a sentence with the size that would fit; the fit's memory is freed."""
    try:
        yield
        return
    except torch.OutOfMemoryError:
        pass  # its traceback would keep the tensors of the fit
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(source.device).total_memory
    row = source.shape.M * source.X.element_size()
    taken = torch.cuda.memory_allocated(source.device) - (0 if source.slice_rows else row * source.n_rows)
    fits = max(0, int((total - taken) / 1.2 - 2e8) // row)
    raise InvalidInputError(
        f"The device ran out of memory: {source.n_rows:,} rows take {row * source.n_rows / 1e9:.3g} GB of its "
        f"{total / 1e9:.3g}, and other tensors {max(0, taken) / 1e9:.3g}. About {fits:,} such rows would fit. Rows in "
        "memory with device='cuda' are streamed if they are larger than the device; float16 rows take half the room."
    )
