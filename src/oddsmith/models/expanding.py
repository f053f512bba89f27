"""Basis functions inside a model: learned with it, applied some rows at a time, kept in it.

``basis_`` is the learned `Expansion` of a model that has one. Rows are checked as they come, then seen through it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import get_tags

from oddsmith.design.basis.expansion import Expansion, learn_expansion
from oddsmith.design.basis.radial import GaussianKernel
from oddsmith.design.basis.standardize import Standardize
from oddsmith.design.inputs import check_finite, read_weights
from oddsmith.engines import MemorySource, engine_of, one_blas_thread
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.numerics import Array

SLICE_NUMBERS = 1 << 20


def learn_basis(model: Any, source: Any) -> Any:
    """Learn the model's basis from the rows of a source and return the source as seen through it."""
    basis = in_function_space(model.basis, getattr(model, "prior", None))
    if basis is None:
        model.__dict__.pop("basis_", None)
        return source
    if isinstance(source, MemorySource):
        check_finite(source.X, getattr(model, "feature_names_in_", None))
    engine = engine_of(source, getattr(model, "threads", None))
    with one_blas_thread():
        seed = getattr(model, "seed", None)
        model.basis_ = learn_expansion(basis, source, input_names(model), engine=engine, seed=seed)
        return through_basis(model, source)


def takes_sparse(basis: Any) -> bool:
    """Whether a basis, the first of a list, takes sparse rows; where there is none they are taken as they are."""
    bases = list(basis) if isinstance(basis, list | tuple) else [basis]
    if not bases or isinstance(bases[0], type) or not hasattr(bases[0], "__sklearn_tags__"):
        return True  # what is no basis is refused when it is learned
    return bool(get_tags(bases[0]).input_tags.sparse)


def has_basis(model: Any) -> bool:
    """Whether a fitted model has a basis."""
    return hasattr(model, "basis_")


def in_deviations(model: Any) -> bool:
    """Whether a fitted model sees columns in units of their standard deviations: `Standardize` comes first."""
    first = next(iter(model.basis_.steps if has_basis(model) else ()), None)
    return isinstance(first, Standardize) and bool(first.scale)


def in_function_space(basis: Any, prior: Any) -> Any:
    """Return the basis, its kernel whitened if the prior is one in function space: then ``wᵀw`` is ``vᵀK v``."""
    space = getattr(prior, "space", "weights")
    if space == "weights":
        return basis
    if space != "function":
        raise UnknownNameError("space of a prior", space, ["weights", "function"])
    bases = list(basis) if isinstance(basis, list | tuple) else [basis]
    if not isinstance(bases[-1], GaussianKernel) or prior.scale is None:
        raise InvalidInputError(
            "A prior in function space needs a scale and a model whose last basis is a GaussianKernel; found "
            f"prior={prior!r} and basis={basis!r}. Give basis=GaussianKernel(width), or space='weights'."
        )
    return [*bases[:-1], clone(bases[-1]).set_params(whiten=True)]


def through_basis(model: Any, source: Any) -> Any:
    """Return a source as seen through the model's learned basis, if it has one."""
    expansion: Expansion | None = getattr(model, "basis_", None)
    return source if expansion is None else expansion.over(source).kept()


def split_basis(model: Any, source: Any) -> tuple[Any, Array | None]:
    """Return a source of raw rows as seen through the basis but for the linear map it ends with, and that map.

    Rows that are few enough to be kept have the map in them.
    """
    expansion: Expansion | None = getattr(model, "basis_", None)
    through = through_basis(model, source)
    if expansion is None or through.transform is None:
        return through, None
    first, mix = expansion.split()
    return first.over(source), mix


def input_names(model: Any) -> npt.NDArray[Any]:
    """Return the names of the columns that come in, those of the design, or ``x0``, ``x1`` … where they had none."""
    if hasattr(model, "design_"):
        return model.design_.get_feature_names_out()  # type: ignore[no-any-return]
    names = getattr(model, "feature_names_in_", None)
    return np.array([f"x{j}" for j in range(model.n_features_in_)], dtype=object) if names is None else names


@dataclass(frozen=True)
class ExpandedRows:
    """Rows as seen through an expansion, made when they are asked for: sliced, multiplied, or taken whole.

    >>> from oddsmith import Polynomial
    >>> from oddsmith.engines import MemoryEngine
    >>> source = MemorySource(np.array([[1.0], [3.0]]), np.zeros(2, dtype=np.int32), K=1)
    >>> rows = ExpandedRows(source.X, learn_expansion(Polynomial(2), source, ["x"], engine=MemoryEngine()))
    >>> rows.shape, rows[1:].tolist(), (rows @ np.ones(2)).tolist(), np.asarray(rows).tolist()
    ((2, 2), [[3.0, 9.0]], [2.0, 12.0], [[1.0, 1.0], [3.0, 9.0]])
    """

    rows: Any
    expansion: Expansion

    @property
    def shape(self) -> tuple[int, int]:
        """Rows × outputs."""
        return int(self.rows.shape[0]), self.expansion.n_outputs

    def __getitem__(self, which: Any) -> Any:
        return self.expansion(self.rows[which])

    def __matmul__(self, B: Array) -> Array:
        first, mix = self.expansion.split()
        if mix is not None:
            return ExpandedRows(self.rows, first) @ (mix @ B)
        n, M = self.shape
        result = np.empty((n, *B.shape[1:]))
        step = max(256, SLICE_NUMBERS // max(1, M))
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            result[part] = self[part] @ B
        return result

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:], dtype=dtype)


def learn_rows(model: Any, rows: Any, sample_weight: Any = None, *, reset: bool) -> Any:
    """Return checked rows for fitting, seen through the model's basis, which is learned from them if ``reset``."""
    if reset:
        n = rows.shape[0]
        learn_basis(model, MemorySource(rows, np.broadcast_to(np.int32(0), n), 1, read_weights(sample_weight, n)))
    elif has_basis(model):
        check_finite(rows, getattr(model, "feature_names_in_", None))
    return expanded(model, rows)


def as_source(rows: Any, t: npt.NDArray[np.int32], K: int, s: Array | None) -> MemorySource:
    """Return rows, expanded or not, as something to fold."""
    if not isinstance(rows, ExpandedRows):
        return MemorySource(rows, t, K, s)
    return rows.expansion.over(MemorySource(rows.rows, t, K, s)).kept()


def whole(rows: Any) -> Any:
    """Return rows as an array or CSR matrix, the expansion made."""
    return rows[:] if isinstance(rows, ExpandedRows) else rows


def check_same_design(one: Any, other: Any) -> None:
    """Refuse to merge models whose designs learned different levels, or different numbers for what is missing."""
    mine, its = getattr(one, "design_", None), getattr(other, "design_", None)
    if (mine is None) != (its is None) or (mine is not None and not mine.is_like(its)):
        raise InvalidInputError(
            "Models merge only if their designs are the same, and these learned different levels or means. Make one "
            "Design of all rows first, and fit both models to the columns that its transform gives."
        )


def check_same_basis(one: Any, other: Any) -> None:
    """Refuse to merge models whose bases learned different things."""
    check_same_design(one, other)
    mine, its = getattr(one, "basis_", None), getattr(other, "basis_", None)
    if mine is None and its is None:
        return
    if mine is None or its is None or not all(map(_same, mine.steps, its.steps)):
        raise InvalidInputError(
            "Models merge only if their basis functions are the same, and these learned different ones. "
            "Give both the same centres, knots or scales, or transform the rows before fitting."
        )


def _same(a: Any, b: Any) -> bool:
    mine, its = vars(a), vars(b)
    return mine.keys() == its.keys() and all(_equal(mine[name], its[name]) for name in mine)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, list):  # the knots of several columns, say, which may differ in number
        return isinstance(b, list) and len(a) == len(b) and all(map(_equal, a, b))
    return np.array_equal(a, b)


def expanded(model: Any, rows: Any) -> Any:
    """Return rows for prediction, seen through the model's basis if it has one."""
    expansion: Expansion | None = getattr(model, "basis_", None)
    return rows if expansion is None else ExpandedRows(rows, expansion)
