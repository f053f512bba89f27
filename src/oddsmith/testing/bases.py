"""The contract of bases: independent rows, learned by a fold, named outputs, the same for every form of the data."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

from oddsmith.design.basis import BASES, Basis, Expansion, learn_expansion
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import EPS, Array

DIGITS = 1e-9  # Tolerance between two computations of a column, relative to its largest value (at least 1).


def all_bases() -> Iterator[Basis]:
    """Yield an instance of every registered basis.

    >>> sorted(type(basis).__name__ for basis in all_bases())
    ['GaussianKernel', 'Polynomial', 'RadialBasis', 'SelectColumns', 'Spline', 'Standardize']
    """
    return (kind() for _, kind in BASES.items())


def check_basis(basis: Basis, X: npt.ArrayLike | None = None) -> None:
    """Check a basis against its contract, on the rows ``X`` or on difficult ones.

    1. The output is finite float64, a column for each name, and each name occurs once.
    2. A row's output depends on that row alone: rows in another order, in parts and one by one give the same result.
    3. Learning does not depend on how the rows are split into blocks, nor on the number of threads; rows of weight 0
       have no effect.
    4. float32 rows give the result of their float64 values, F order that of C order, and CSR rows that of dense rows
       (or are refused).
    5. Data and constructor arguments are unchanged; a clone learns the same, a pickle gives the same result.
    6. NaN and a wrong number of columns are refused, and a failed fit leaves the basis unchanged.

    Parameters
    ----------
    basis : transformer
        The basis, fitted or not.
    X : array, N × D, optional
        Rows to check on, at least 4.

    >>> from oddsmith import Polynomial
    >>> check_basis(Polynomial(3))
    """
    for rows in hostile_rows() if X is None else [np.array(X, dtype=np.float64)]:
        rows.flags.writeable = False
        _check_on(basis, rows)


def hostile_rows(seed: int = 0) -> Iterator[Array]:
    """Yield difficult rows: far from zero, in different units, with ties, with a constant column.

    >>> [rows.shape for rows in hostile_rows()]
    [(60, 3), (60, 3), (40, 1), (80, 2), (30, 3)]
    """
    rng = np.random.default_rng(seed)
    yield rng.normal(size=(60, 3))
    yield rng.normal(size=(60, 3)) * [1.0, 1e-3, 1e3] + [1e6, 0.0, -50.0]
    yield rng.exponential(size=(40, 1))
    yield rng.integers(0, 3, size=(80, 2)).astype(np.float64)
    yield np.column_stack([rng.normal(size=(30, 2)) * (rng.random((30, 2)) < 0.5), np.full(30, 7.0)])


def _check_on(basis: Basis, X: Array) -> None:
    label = f"{basis!r} on {X.shape[0]} × {X.shape[1]} rows"
    given = basis.get_params()
    fitted = clone(basis).fit(X)
    dense = _dense(fitted.transform(X))
    names = list(fitted.get_feature_names_out())
    assert dense.shape == (len(X), len(names)), f"{label}: shape {dense.shape}, and {len(names)} names."
    assert dense.dtype == np.float64, f"{label}: the output is {dense.dtype}, expected float64."
    assert np.isfinite(dense).all(), f"{label}: the output is not finite."
    assert len(set(names)) == len(names), f"{label}: a name occurs twice among {names}."

    near = _Near(X)
    _check_rows(label, near, fitted, X, dense)
    _check_blocks(label, near, basis, X, dense)
    _check_forms(label, near, basis, X)
    _check_copies(label, basis, fitted, given, X, dense)
    _check_refusals(label, fitted, X, dense)


def _check_rows(label: str, near: _Near, fitted: Basis, X: Array, Phi: Array) -> None:
    order = np.random.default_rng(0).permutation(len(X))
    near(f"{label}: rows in another order", fitted.transform(X[order]), Phi[order])
    cut = len(X) // 3
    parts = [_dense(fitted.transform(part)) for part in (X[:cut], X[cut:])]
    near(f"{label}: rows in two parts", np.vstack(parts), Phi)
    some = range(min(5, len(X)))
    near(f"{label}: rows one by one", np.vstack([_dense(fitted.transform(X[i : i + 1])) for i in some]), Phi[some])


def _check_blocks(label: str, near: _Near, basis: Basis, X: Array, Phi: Array) -> None:
    names = [f"x{j}" for j in range(X.shape[1])]
    source = MemorySource(X, np.zeros(len(X), dtype=np.int32), K=1)

    def learned(source: MemorySource, threads: int = 1) -> Expansion:
        return learn_expansion(basis, source, names, engine=MemoryEngine(threads))

    whole = learned(source)
    assert (whole.n_inputs, whole.n_outputs) == (X.shape[1], Phi.shape[1]), f"{label}: learned in another shape."
    near(f"{label}: learned from a source", whole(X), Phi)
    for size in (1, 7):
        near(f"{label}: learned from blocks of {size} rows", learned(replace(source, slice_rows=size), 2)(X), Phi)
    more = np.vstack([X, X[:1] + 1e3])
    s = np.append(np.ones(len(X)), 0.0)
    padded = MemorySource(more, np.zeros(len(more), dtype=np.int32), K=1, s=s)
    near(f"{label}: with a row of weight 0", learned(padded)(X), Phi)


def _check_forms(label: str, near: _Near, basis: Basis, X: Array) -> None:
    narrow = X.astype(np.float32)
    wide = narrow.astype(np.float64)
    fitted = clone(basis).fit(wide)
    expected = _dense(fitted.transform(wide))
    near(f"{label}: float32 rows", clone(basis).fit(narrow).transform(narrow), expected)
    near(f"{label}: rows in F order", clone(basis).fit(np.asfortranarray(wide)).transform(wide), expected)
    rows = sparse.csr_array(wide)
    if get_tags(basis).input_tags.sparse:
        near(f"{label}: CSR rows", clone(basis).fit(rows).transform(rows), expected)
        return
    with suppress(InvalidInputError):
        clone(basis).fit(rows)
        raise AssertionError(f"{label}: CSR rows are neither refused nor among what its tags accept.")


def _check_copies(label: str, basis: Basis, fitted: Basis, given: dict[str, Any], X: Array, Phi: Array) -> None:
    now = basis.get_params()
    assert all(now[name] is value for name, value in given.items()), f"{label}: fitting changed its arguments."
    for what, other in (("a pickle", pickle.loads(pickle.dumps(fitted))), ("a clone", clone(fitted).fit(X))):
        assert np.array_equal(_dense(other.transform(X)), Phi), f"{label}: {what} gives other bits."
        assert list(other.get_feature_names_out()) == list(fitted.get_feature_names_out()), f"{label}: {what}, names."


def _check_refusals(label: str, fitted: Basis, X: Array, Phi: Array) -> None:
    holes = X.copy()
    holes[-1, 0] = np.nan
    for what, call, rows in (
        ("NaN in fit", fitted.fit, holes),
        ("NaN in transform", fitted.transform, holes),
        ("a column too many", fitted.transform, np.column_stack([X, X[:, 0]])),
    ):
        with suppress(InvalidInputError):
            call(rows)
            raise AssertionError(f"{label}: {what} was not refused with an InvalidInputError.")
    assert np.array_equal(_dense(fitted.transform(X)), Phi), f"{label}: a fit that failed changed what it had learned."


def _dense(Phi: npt.ArrayLike | sparse.csr_array) -> Array:
    return np.asarray(Phi.toarray() if isinstance(Phi, sparse.sparray | sparse.spmatrix) else Phi)


class _Near:
    """Compares outputs, with allowance for the digits that the rows themselves do not have.

    A column of mean 1e6 and standard deviation 1e-6 says where its mean is to four digits only.
    """

    def __init__(self, X: Array) -> None:
        spread = X.std(axis=0)
        varies = spread > 0
        self.digits = DIGITS + 64.0 * EPS * float(np.max(np.abs(X).max(axis=0)[varies] / spread[varies], initial=0.0))

    def __call__(self, what: str, found: npt.ArrayLike | sparse.csr_array, expected: Array) -> None:
        dense = _dense(found)
        assert dense.shape == expected.shape, f"{what}: the shape is {dense.shape}, expected {expected.shape}."
        off = np.abs(dense - expected).max(axis=0, initial=0.0)
        allowed = self.digits * np.maximum(1.0, np.abs(expected).max(axis=0, initial=0.0))
        assert (off <= allowed).all(), f"{what}: column {int(np.argmax(off - allowed))} is off by {off.max():.3g}."
