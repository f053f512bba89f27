"""Bases applied one after the other: learned once, then a pure function from rows ``x`` to rows ``φ(x)``."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from oddsmith.design.basis.adapted import Adapted
from oddsmith.design.basis.base import BASES, Basis, Names, S, seen_through
from oddsmith.design.basis.radial import GaussianKernel
from oddsmith.design.inputs import Rows
from oddsmith.engines import Engine
from oddsmith.errors import InvalidTypeError
from oddsmith.numerics import Array


@dataclass(frozen=True)
class Expansion:
    """Fitted bases and what they make together: ``φ = φ_last ∘ … ∘ φ_first``, from D inputs to M outputs.

    ``gram`` is the M × M matrix of the kernel between its centres, where the last basis is a `GaussianKernel`: the
    prior of kernel regression in function space has the precision ``alpha wᵀ gram w``.

    >>> from oddsmith import Polynomial, Standardize
    >>> from oddsmith.engines import MemoryEngine, MemorySource
    >>> source = MemorySource(np.array([[1.0], [3.0]]), np.zeros(2, dtype=np.int32), K=1)
    >>> expansion = learn_expansion([Standardize(), Polynomial(2)], source, ["size"], engine=MemoryEngine())
    >>> expansion(np.array([[5.0]])).tolist(), expansion.names.tolist()
    ([[3.0, 9.0]], ['size', 'size^2'])
    """

    steps: tuple[Basis, ...]
    n_inputs: int
    n_outputs: int
    names: Names

    def __call__(self, rows: Rows) -> Rows:
        """Return ``φ`` of some checked rows (dense or CSR), n × M."""
        for step in self.steps:
            rows = step.expand(rows)
        return rows

    @property
    def keeps_sparse(self) -> bool:
        """Whether CSR rows come out as CSR rows."""
        return all(step.keeps_sparse for step in self.steps)

    @property
    def gram(self) -> Array | None:
        """The matrix of the kernel between its centres, or None if the last basis is no kernel."""
        last = self.steps[-1] if self.steps else None
        return last.gram_ if isinstance(last, GaussianKernel) else None

    def split(self) -> tuple[Expansion, Array | None]:
        """Return the expansion without the linear map that it ends with (M′ outputs), and that map, M′ × M, or None.

        A linear model can have the map in its weights, which is cheaper than in every row.
        """
        last = self.steps[-1] if self.steps else None
        if not isinstance(last, GaussianKernel) or last.whitening_ is None:
            return self, None
        R, last = last.whitening_, copy(last)
        last.whitening_ = None
        return Expansion((*self.steps[:-1], last), self.n_inputs, len(R), self.names), R

    def over(self, source: S) -> S:
        """Return a source of raw rows as seen through this expansion."""
        return seen_through(source, self, self.n_outputs) if self.steps else source


def learn_expansion(
    basis: object, source: S, names: Iterable[object], *, engine: Engine, seed: int | None = None
) -> Expansion:
    """Learn one basis, or several that are applied in order, from a source of raw rows (checked finite).

    Each is cloned, then learned by folds over the source as the ones before it show it. ``seed`` is given to those
    whose own seed is None.
    """
    bases = [as_basis(one) for one in (basis if isinstance(basis, list | tuple) else [basis])]
    for one in bases:
        one.check_parameters()
    labels = np.array([str(name) for name in names], dtype=object)
    expansion = Expansion((), source.shape.M, source.shape.M, labels)
    for one in bases:
        if seed is not None and one.get_params(deep=False).get("seed", seed) is None:
            one.set_params(seed=seed)
        one.n_features_in_ = expansion.n_outputs
        one.learn(expansion.over(source), engine, expansion.names)
        outputs = np.array(one.column_names(expansion.names), dtype=object)
        expansion = Expansion((*expansion.steps, one), source.shape.M, len(outputs), outputs)
    return expansion


def as_basis(basis: object) -> Basis:
    """Return a copy of a basis that is not fitted, or say what a basis is."""
    if isinstance(basis, Basis):
        copy: Basis = clone(basis)
        return copy
    if not isinstance(basis, type) and all(hasattr(basis, name) for name in ("fit", "transform", "get_params")):
        return Adapted(clone(basis))
    known = ", ".join(f"{kind.__name__}()" for _, kind in BASES.items())
    raise InvalidTypeError(
        f"basis must be one of {known}, a transformer of scikit-learn, or a list of them; found {basis!r}."
    )
