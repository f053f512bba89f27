"""Basis functions inside a model: learned with it, applied some rows at a time, kept in it.

``basis_`` is the learned `Expansion` of a model that has one. Rows are checked as they come, then expanded by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from oddsmith.design.class_weight import read_weights
from oddsmith.design.inputs import ArrayOrCSR, Codes, check_finite, feature_names, learned_design
from oddsmith.engines import MemorySource, engine_of, one_blas_thread
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.numerics import Array
from oddsmith.priors import GaussianPrior
from oddsmith.protocols import Indices, Labels

if TYPE_CHECKING:  # a model without a basis needs none of these
    from oddsmith.design.basis.base import S
    from oddsmith.design.basis.expansion import Expansion

SLICE_NUMBERS = 1 << 20


def learned_basis(model: BaseEstimator) -> Expansion | None:
    """Return the basis that a model has learned, None if there is none."""
    return getattr(model, "basis_", None)


def learn_basis(model: BaseEstimator, source: S) -> S:
    """Learn the model's basis from the rows of a source and return the source expanded by it."""
    options = vars(model)
    basis = in_function_space(model.basis, options.get("prior"))
    if basis is None:
        model.__dict__.pop("basis_", None)
        return source
    from oddsmith.design.basis.expansion import learn_expansion

    if isinstance(source, MemorySource):
        check_finite(source.X, feature_names(model))
    engine = engine_of(source, options.get("threads"))
    with one_blas_thread():
        seed, made = options.get("seed"), made_columns(model)
        model.basis_ = learn_expansion(basis, source, input_names(model), engine=engine, seed=seed, made=made)
        return through_basis(model, source)


def made_columns(model: BaseEstimator) -> npt.NDArray[np.int8] | None:
    """Return what each column of a model's design is: a number, a product with levels, or a 0/1 column.

    None if there is no design.
    """
    from oddsmith.design.basis.standardize import INDICATOR, NUMBER, PRODUCT

    design = learned_design(model)
    if design is None:
        return None
    kinds = []
    for term in design.terms_:
        numbers = {factor.what == "numbers" for factor in term.factors}
        kinds += [PRODUCT if len(numbers) > 1 else NUMBER if numbers == {True} else INDICATOR] * term.width
    return np.array(kinds, dtype=np.int8)


def level_columns(model: BaseEstimator) -> dict[str, list[int]]:
    """Return the 0/1 columns of each category among those that have weights; none if a basis makes others of them."""
    design, basis = learned_design(model), learned_basis(model)
    if design is None or (basis is not None and basis.names.tolist() != design.get_feature_names_out().tolist()):
        return {}
    found, start = {}, 0
    for term in design.terms_:
        if len(term.factors) == 1 and term.factors[0].what == "levels":
            found[str(term.factors[0].of)] = list(range(start, start + term.width))
        start += term.width
    return found


def takes_sparse(basis: object) -> bool:
    """Whether a basis, the first of a list, takes sparse rows; where there is none they are taken as they are."""
    first = next(iter(basis), None) if isinstance(basis, list | tuple) else basis
    # What is no basis is refused when it is learned.
    return not isinstance(first, BaseEstimator) or bool(get_tags(first).input_tags.sparse)


def has_basis(model: BaseEstimator) -> bool:
    """Whether a fitted model has a basis."""
    return learned_basis(model) is not None


def in_deviations(model: BaseEstimator) -> bool:
    """Whether a fitted model sees columns in units of their standard deviations: `Standardize` comes first."""
    basis = learned_basis(model)
    if basis is None:
        return False
    from oddsmith.design.basis.standardize import Standardize

    first = basis.steps[0] if basis.steps else None
    return isinstance(first, Standardize) and bool(first.scale)


def in_function_space(basis: object, prior: object) -> Any:
    """Return the basis, its kernel whitened if the prior is one in function space: then ``wᵀw`` is ``vᵀK v``."""
    if not isinstance(prior, GaussianPrior) or prior.space == "weights":
        return basis
    if prior.space != "function":
        raise UnknownNameError("space of a prior", prior.space, ["weights", "function"])
    from oddsmith.design.basis.radial import GaussianKernel

    bases = list(basis) if isinstance(basis, list | tuple) else [basis]
    if not isinstance(bases[-1], GaussianKernel) or prior.scale is None:
        raise InvalidInputError(
            "A prior in function space needs a scale and a model whose last basis is a GaussianKernel; found "
            f"prior={prior!r} and basis={basis!r}. Give basis=GaussianKernel(width), or space='weights'."
        )
    return [*bases[:-1], clone(bases[-1]).set_params(whiten=True)]


def through_basis(model: BaseEstimator, source: S) -> S:
    """Return a source expanded by the model's learned basis, if it has one."""
    expansion = learned_basis(model)
    return source if expansion is None else expansion.over(source).kept()  # type: ignore[return-value]


def split_basis(model: BaseEstimator, source: S) -> tuple[S, Array | None]:
    """Return a source expanded but for the linear map at the end, and that map, None for rows that are kept with it."""
    expansion, through = learned_basis(model), through_basis(model, source)
    if expansion is None or through.transform is None:
        return through, None
    first, mix = expansion.split()
    return first.over(source), mix


def input_names(model: BaseEstimator) -> Labels:
    """Return the names of the columns that come in, those of the design, or ``x0``, ``x1`` … where they had none."""
    design, names = learned_design(model), feature_names(model)
    if design is not None:
        return design.get_feature_names_out()
    return np.array([f"x{j}" for j in range(model.n_features_in_)], dtype=object) if names is None else names


@dataclass(frozen=True)
class ExpandedRows:
    """Rows as seen through an expansion, made when they are asked for: sliced, multiplied, or taken whole.

    >>> from oddsmith import Polynomial
    >>> from oddsmith.design.basis import learn_expansion
    >>> from oddsmith.engines import MemoryEngine
    >>> source = MemorySource(np.array([[1.0], [3.0]]), np.zeros(2, dtype=np.int32), K=1)
    >>> rows = ExpandedRows(source.X, learn_expansion(Polynomial(2), source, ["x"], engine=MemoryEngine()))
    >>> rows.shape, rows[1:].tolist(), (rows @ np.ones(2)).tolist(), np.asarray(rows).tolist()
    ((2, 2), [[3.0, 9.0]], [2.0, 12.0], [[1.0, 1.0], [3.0, 9.0]])
    """

    rows: ArrayOrCSR
    expansion: Expansion

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.rows.shape[0]), self.expansion.n_outputs

    def __getitem__(self, which: slice | Indices) -> Any:
        return self.expansion(self.rows[which])

    def __matmul__(self, B: Array) -> Array:
        first, mix = self.expansion.split()
        if mix is not None:
            return ExpandedRows(self.rows, first) @ (mix @ B)
        n, M = self.shape
        result, step = np.empty((n, *B.shape[1:])), max(256, SLICE_NUMBERS // max(1, M))
        for part in (slice(start, min(start + step, n)) for start in range(0, n, step)):
            result[part] = self[part] @ B
        return result

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


def learn_rows(model: BaseEstimator, rows: ArrayOrCSR, sample_weight: object = None, *, reset: bool) -> Any:
    """Return checked rows for fitting, expanded by the model's basis, which is learned from them if ``reset``."""
    if reset:
        n = rows.shape[0]
        learn_basis(model, MemorySource(rows, np.broadcast_to(np.int32(0), n), 1, read_weights(sample_weight, n)))
    elif has_basis(model):
        check_finite(rows, feature_names(model))
    return expanded(model, rows)


def as_source(rows: ArrayOrCSR | ExpandedRows, t: Codes, K: int, s: Array | None) -> MemorySource:
    """Return rows, expanded or not, as something to fold."""
    if not isinstance(rows, ExpandedRows):
        return MemorySource(rows, t, K, s)
    return rows.expansion.over(MemorySource(rows.rows, t, K, s)).kept()


def whole(rows: ArrayOrCSR | ExpandedRows) -> Any:
    """Return rows as an array or CSR matrix, the expansion made."""
    return rows[:] if isinstance(rows, ExpandedRows) else rows


def check_same_basis(one: BaseEstimator, other: BaseEstimator) -> None:
    """Refuse to merge models whose designs or bases learned different things."""
    mine, its = learned_design(one), learned_design(other)
    if mine is not its and (mine is None or its is None or not mine.is_like(its)):
        raise InvalidInputError(
            "Models merge only if their designs are equal, but these learned different levels or means. Fit one "
            "Design to all rows first, and fit both models to the columns of its transform."
        )
    bases = learned_basis(one), learned_basis(other)
    if not _equal(*([] if basis is None else [vars(step) for step in basis.steps] for basis in bases)):
        raise InvalidInputError(
            "Models merge only if their basis functions are equal, but these learned different ones. Give both the "
            "same centres, knots or scales, or transform the rows before fitting."
        )


def _equal(a: object, b: object) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_equal(value, b[name]) for name, value in a.items())
    if isinstance(a, list):  # the knots of several columns, say, which may differ in number
        return isinstance(b, list) and len(a) == len(b) and all(map(_equal, a, b))
    return np.array_equal(a, b)  # type: ignore[arg-type]


def expanded(model: BaseEstimator, rows: ArrayOrCSR) -> Any:
    """Return rows for prediction, expanded by the model's basis if it has one."""
    expansion = learned_basis(model)
    return rows if expansion is None else ExpandedRows(rows, expansion)
