"""Bases and scikit-learn transformers applied one after another: a pure function from ``x`` to ``φ(x)``."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from oddsmith.design.basis.base import BASES, AllRows, Basis, Names, S, seen_through
from oddsmith.design.basis.radial import GaussianKernel
from oddsmith.design.basis.standardize import Standardize
from oddsmith.design.inputs import ArrayOrCSR, dense
from oddsmith.engines import AnySource, Engine, MemorySource
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.numerics import Array


@dataclass(frozen=True)
class Expansion:
    """The composition of fitted bases: ``φ = φ_last ∘ … ∘ φ_first``, from D inputs to M outputs.

    If the last basis is a `GaussianKernel`, ``gram`` is the M × M kernel matrix of its centres: in function space, the
    prior of kernel regression has the precision ``alpha wᵀ gram w``.

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

    def __call__(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        with np.errstate(over="ignore", invalid="ignore"):
            for step in self.steps:
                rows = step.expand(rows)
            values: Any = rows.data if sparse.issparse(rows) else rows
            if self.steps and not np.isfinite(values.sum(dtype=np.float64)) and not np.isfinite(values).all():
                raise self._too_large(rows)
        return rows

    def _too_large(self, rows: ArrayOrCSR) -> InvalidInputError:
        """Return the error that names the first function without a finite value."""
        matrix = dense(rows)
        row, j = np.argwhere(~np.isfinite(matrix))[0]
        name = str(self.names[j]) if matrix.shape[1] == len(self.names) else f"number {j}"
        return InvalidInputError(
            f"The basis function {name!r} is {matrix[row, j]:g} in row {row}: the value of its column there is out of "
            "range. Divide the column by a power of ten, put Standardize() first, or use a lower degree."
        )

    @property
    def keeps_sparse(self) -> bool:
        """Whether CSR rows come out as CSR rows."""
        return all(step.keeps_sparse for step in self.steps)

    @property
    def gram(self) -> Array | None:
        """The kernel matrix of the centres, or None if the last basis is not a kernel."""
        last = self.steps[-1] if self.steps else None
        return last.gram_ if isinstance(last, GaussianKernel) else None

    def split(self) -> tuple[Expansion, Array | None]:
        """Return the expansion without its final linear map (M′ outputs), and that map, M′ × M, or None.

        A linear model can absorb the map into its weights, which is cheaper than applying it to every row.
        """
        last = self.steps[-1] if self.steps else None
        if not isinstance(last, GaussianKernel) or last.whitening_ is None:
            return self, None
        R, last = last.whitening_, copy(last)
        last.whitening_ = None
        return replace(self, steps=(*self.steps[:-1], last), n_outputs=len(R)), R

    def over(self, source: S) -> S:
        """Return a source with this expansion applied to its raw rows."""
        return seen_through(source, self, self.n_outputs) if self.steps else source


def learn_expansion(
    basis: object,
    source: S,
    names: Iterable[object],
    *,
    engine: Engine,
    seed: int | None = None,
    made: npt.NDArray[np.int8] | None = None,
) -> Expansion:
    """Learn one basis, or several that are applied in order, from a source of raw rows (checked finite).

    Each is cloned, then learned by folds over the output of the bases before it. ``seed`` is used where a basis has
    none. ``made`` describes the columns of a design: see `Standardize`, which leaves indicators unchanged.
    """
    bases = [as_basis(one) for one in (basis if isinstance(basis, list | tuple) else [basis])]
    for one in bases:
        one.check_parameters()
    D, labels = source.shape.M, np.array([str(name) for name in names], dtype=object)
    expansion = Expansion((), D, D, labels)
    for one in bases:
        if seed is not None and one.get_params(deep=False).get("seed", seed) is None:
            one.set_params(seed=seed)
        one.n_features_in_ = expansion.n_outputs
        if isinstance(one, Standardize) and all(isinstance(step, Standardize) for step in expansion.steps):
            one.made = made
        one.learn(expansion.over(source), engine, expansion.names)
        outputs = np.array(one.column_names(expansion.names), dtype=object)
        expansion = Expansion((*expansion.steps, one), D, len(outputs), outputs)
    return expansion


def as_basis(basis: object) -> Basis:
    """Return an unfitted copy of a basis, or raise an error that says what a basis is."""
    if isinstance(basis, Basis):
        copied: Basis = clone(basis)
        return copied
    if not isinstance(basis, type) and all(hasattr(basis, name) for name in ("fit", "transform", "get_params")):
        return Adapted(clone(basis))
    known = ", ".join(f"{kind.__name__}()" for _, kind in BASES.items())
    raise InvalidTypeError(
        f"basis must be one of {known}, a transformer of scikit-learn, or a list of them; found {basis!r}."
    )


class Adapted(Basis):
    """A scikit-learn transformer in a list of bases: fitted to all rows at once, applied block by block.

    It cannot learn by a fold, so all its training rows are in memory. A transformer is refused if it needs labels,
    ignores given sample weights, or computes a row's output from other rows.

    >>> from sklearn.preprocessing import MaxAbsScaler
    >>> Adapted(MaxAbsScaler()).fit_transform([[1.0], [4.0]]).tolist()
    [[0.25], [1.0]]
    """

    fitted_: Any
    sparse_: bool

    def __init__(self, transformer: BaseEstimator) -> None:
        self.transformer = transformer

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(self.transformer).input_tags.sparse
        return tags

    @property
    def keeps_sparse(self) -> bool:  # type: ignore[override]
        """Whether CSR rows come out as CSR rows."""
        return self.sparse_

    def check_parameters(self) -> None:
        if get_tags(self.transformer).target_tags.required:
            raise InvalidTypeError(
                f"{self.transformer!r} needs labels, but a basis sees rows only. Put it before the model in a pipeline."
            )

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        """Fit a clone to all rows."""
        if not isinstance(source, MemorySource):
            raise InvalidInputError(
                f"{self.transformer!r} needs all rows in memory, but the data is in pieces. Use a basis of oddsmith, "
                "such as Standardize(), or read a small enough table into memory."
            )
        rows, options = engine.fold(AllRows, source, None).joined(source.shape.M), {}
        s = None if source.s is None else source.s[source.s > 0]
        if s is not None and (s != s[0]).any():
            if not has_fit_parameter(self.transformer, "sample_weight"):
                raise InvalidInputError(
                    f"{type(self.transformer).__name__} does not accept the sample weights of this fit. Put it before "
                    "the model in a pipeline, or leave the weights out."
                )
            options["sample_weight"] = s
        with as_input_errors():
            self.fitted_ = clone(self.transformer).fit(rows, **options)
            self.sparse_ = sparse.issparse(rows) and sparse.issparse(self.fitted_.transform(rows[:1]))
        some = rows[:8]
        together, alone = dense(self.expand(some)), dense(self.expand(some[:1]))
        if together.shape[0] != some.shape[0] or not np.allclose(together[:1], alone, rtol=1e-6, atol=1e-9):
            raise InvalidInputError(
                f"{self.transformer!r} does not treat each row independently: the output for one row depends on the "
                f"others, which a basis does not allow."
            )

    def expand(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        Phi = self.fitted_.transform(rows)
        if self.sparse_ and sparse.issparse(rows):
            return sparse.csr_array(Phi, dtype=np.float64)
        return np.asarray(Phi.toarray() if sparse.issparse(Phi) else Phi, dtype=np.float64)

    def column_names(self, names: Names) -> list[str]:
        """Return the transformer's own names, or numbered names if it has none."""
        try:
            return [str(name) for name in self.fitted_.get_feature_names_out(names)]
        except AttributeError:
            width = self.expand(np.zeros((1, len(names)))).shape[1]
            return [f"{type(self.transformer).__name__.lower()}{j}" for j in range(width)]
