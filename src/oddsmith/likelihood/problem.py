"""The record of a likelihood to fit, and the facts for its plan."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from oddsmith.engines import AnySource, Engine, MemorySource, PartedSource, Progress, is_device_source
from oddsmith.errors import NeedsMemoryError
from oddsmith.kernels.curvature import has_half_precision
from oddsmith.likelihood.coordinates import Coordinates, is_large
from oddsmith.links import Link
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior, LaplacePrior
from oddsmith.protocols import Indices, Labels
from oddsmith.solvers.base import Solver
from oddsmith.solvers.facts import Facts, Machine, Storage


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Rows, prior, classes, and the options of a fit.

    ``class_weight`` is the total weight of the rows of each class. ``start`` has weights against class 0 in the user's
    units. ``explain`` raises an error about the data if sums are not finite; ``names`` returns the names of the
    columns, ``some_names`` those of some. With ``whitening`` (M′ × M), the columns are linear combinations of the
    source's. ``jeffreys`` and ``laplace`` are priors in addition to the Gaussian one; ``levels`` has the columns of
    each factor.
    """

    engine: Engine
    source: AnySource
    prior: GaussianPrior | None
    intercept: bool
    reference: int | None
    solver: str | Solver  # type: ignore[type-arg]
    tol: float
    max_iter: int
    class_weight: Array
    start: tuple[Array, Array] | None = None
    explain: Callable[[], None] | None = None
    names: Callable[[], Labels] | Callable[[], list[str]] = list
    some_names: Callable[[Indices], list[str]] | None = None
    progress: Progress | None = None
    link: Link | None = None
    whitening: Array | None = None
    jeffreys: bool = False
    laplace: LaplacePrior | None = None
    levels: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def M(self) -> int:
        """Number of columns that have weights."""
        return int(self.source.shape.M if self.whitening is None else self.whitening.shape[1])

    @property
    def K(self) -> int:
        """Number of classes."""
        return len(self.class_weight)

    @property
    def memory_source(self) -> MemorySource:
        """The rows, where they must be in memory."""
        if not isinstance(self.source, MemorySource):
            raise NeedsMemoryError(
                "This needs individual training rows, but they are in files or on a cluster: pass rows in memory, or "
                "fit to a table in memory."
            )
        return self.source

    def names_at(self, columns: Indices) -> dict[int, str]:
        """Return the names of some columns, without making those of all if possible."""
        if self.some_names is not None:
            return dict(zip(columns.tolist(), self.some_names(columns), strict=True))
        names = self.names()
        return {j: str(names[j]) for j in columns.tolist()}

    @property
    def in_parts(self) -> bool:
        """Whether the rows are a table in parts, with factors as codes."""
        return self.source.form is not None

    @property
    def largest_matrix(self) -> float:
        """Numbers in the largest matrix of the solve: the rows or the Hessian."""
        hessian = (self.K * (self.M + 1)) ** 2
        return float(max(self.source.n_rows * self.source.shape.M, hessian))


def facts_of(problem: Problem, coordinates: Coordinates, eliminated: tuple[int, int] | None = None) -> Facts:
    """Return the facts about a problem before it is solved."""
    source = problem.source
    in_memory = isinstance(source, MemorySource)
    drawn = source.drawn.n_rows if isinstance(source, PartedSource) and source.drawn is not None else None
    return Facts(
        n_rows=source.n_present,
        n_columns=problem.M,
        n_classes=problem.K,
        elements=source.size,
        storage="table" if problem.in_parts else _storage(source),
        itemsize=source.X.dtype.itemsize if isinstance(source, MemorySource) else 8,
        in_memory=in_memory,
        drawn_rows=drawn,
        sample_shows_columns=coordinates.from_sample,
        weighted=source.weighted,
        has_offset=source.has_offset,
        has_prior=problem.prior is not None,
        intercept=problem.intercept,
        link="logit" if problem.link is None else problem.link.name,
        whitened=problem.whitening is not None,
        eliminated=0 if eliminated is None else eliminated[1] - eliminated[0],
    )


def _storage(source: AnySource) -> Storage:
    if is_device_source(source):
        return "device"
    if source.is_sparse:
        return "sparse"
    if source.transform is not None:
        return "lazy"
    if isinstance(source, MemorySource) and not source.X.flags.c_contiguous:
        return "dense by columns"
    return "dense"


def machine_of(problem: Problem) -> Machine:
    """Return the machine for the plan of a problem: this one, or the device of its rows."""
    if is_device_source(problem.source):
        from oddsmith.likelihood.device_coordinates import device_machine

        return device_machine(problem.source)  # type: ignore[arg-type]
    return _this_machine(int(time.monotonic()), is_large(problem.source) and has_half_precision())


@lru_cache(maxsize=2)
def _this_machine(second: int, half_precision: bool) -> Machine:
    """Return this machine as it is in a ``second``, since to look at it takes as long as an iteration on few rows."""
    return Machine.here(half_precision=half_precision)


def constant_log_likelihood(problem: Problem) -> float:
    """Return the log likelihood of the intercepts alone, ``Σ_k W_k log(W_k / W)``; without intercepts, of weights 0.

    NaN where an offset leaves it without a closed form.
    """
    if problem.source.has_offset:
        return math.nan
    weights = problem.class_weight.tolist()
    if problem.intercept:
        total = math.fsum(weights)
        return math.fsum(w * math.log(w / total) for w in weights if w > 0.0)  # an update may lack a class
    if problem.link is None:
        return -math.fsum(weights) * math.log(len(weights))
    log_p = [float(v[0]) for v in problem.link.log_probability(np.zeros(1))]
    return float(weights[1] * log_p[0] + weights[0] * log_p[1])


def log_odds(class_weight: Array, link: Link | None) -> Array:
    """Return the activations of the classes 1 … C that give the class frequencies."""
    weight = np.where(class_weight > 0, class_weight, 0.5)  # an update may lack a class
    if link is not None:
        return link.link(weight[1:] / weight.sum())
    odds: Array = np.log(weight[1:] / weight[0])
    return odds
