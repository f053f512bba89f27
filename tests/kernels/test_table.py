"""Tables by code: the kernel of every instruction set gives the sums of the reference over the expanded columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from tests.kernels.kernel_cases import LEVELS

from oddsmith.block import Block
from oddsmith.bordered import BorderedDiagonal, SparseBorder
from oddsmith.kernels import curvature as kernels
from oddsmith.kernels import native, reference, table_folds
from oddsmith.kernels.reference import CurvatureParams, RowBuffers
from oddsmith.kernels.table import Cells, border_gram
from oddsmith.links import LINKS
from oddsmith.rows import CodeRows, ColumnRows, SplitRows

NUMBERS = (np.float64, np.float32, np.int64, np.int32, np.int16, np.int8, np.uint8, np.bool_, np.uint32)


@st.composite
def blocks(draw: Any) -> tuple[Block, CurvatureParams]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, C = draw(st.sampled_from([1, 2, 63, 128, 129, 300])), draw(st.sampled_from([1, 1, 2]))
    parts: list[Any] = []
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            kinds = draw(st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=3))
            parts.append(ColumnRows(tuple((5.0 * rng.random(n)).astype(kind) for kind in kinds), n))
        else:
            levels = draw(st.sampled_from([1, 2, 9, 30]))
            codes = rng.integers(-1, levels, n).astype(draw(st.sampled_from([np.int8, np.int16, np.int32])))
            x = rng.normal(size=n) if draw(st.booleans()) else None
            if draw(st.booleans()):
                columns = rng.permutation(levels).astype(np.int32) - 1  # in any order, one of them without a column
                parts.append(CodeRows(codes, levels, x=x, level_columns=columns, n_columns=levels + 1))
            else:
                parts.append(CodeRows(codes, levels, dropped=draw(st.sampled_from([None, 0])), x=x))
    Phi = SplitRows(tuple(parts))
    M = Phi.shape[1]
    center = np.concatenate([rng.normal(size=p.shape[1]) * isinstance(p, ColumnRows) for p in parts])
    s = draw(st.sampled_from([None, rng.choice([0.0, 0.5, 3.0], n), rng.random(n) < 0.7]))
    offset = rng.normal(size=(n, C)) if draw(st.booleans()) else None
    link = LINKS["probit"] if C == 1 and draw(st.booleans()) else None
    W, V = rng.normal(size=(2, C, M))
    params = CurvatureParams(
        W=W, b=rng.normal(size=C), center=center, V=V, v=rng.normal(size=C), inverse=rng.random(M) + 0.5, link=link
    )
    t = rng.integers(0, C + 1, n).astype(draw(st.sampled_from([np.int8, np.int32])))
    return Block(Phi, t, s, offset), params


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * (1.0 + np.abs(expected).max(initial=0.0)))


def summed_by_cells(block: Block, at: CurvatureParams) -> Any:
    """The Hessian whose block beside the factor eliminated is summed where it is not zero, in two parts of the rows."""
    assert at.eliminated is not None
    factors = [part for part in block.Phi.parts if isinstance(part, CodeRows)]
    cells = Cells()
    if len(factors) > 1:
        cells = table_folds.count_cells(block, at.eliminated, table_folds.find_cells(block, at.eliminated))
    half = block.n_rows // 2
    parts = [block.take(np.arange(block.n_rows)[rows]) for rows in (slice(None, half), slice(half, None))]
    found = [kernels.curvature(part, replace(at, cells=cells))[2] for part in parts]
    assert isinstance(found[0], BorderedDiagonal) and isinstance(found[1], BorderedDiagonal)
    both = (found[0] + found[1]).toarray()
    found[0].add(found[1])
    np.testing.assert_array_equal(found[0].toarray(), both)
    return both


def summed_by_levels(block: Block, at: CurvatureParams, middle: int) -> Any:
    """All sums, over the rows of some levels of the factor eliminated and then over those of the others."""
    assert at.eliminated is not None
    cells = Cells()
    if sum(isinstance(part, CodeRows) for part in block.Phi.parts) > 1:
        cells = table_folds.count_cells(block, at.eliminated, table_folds.find_cells(block, at.eliminated))
    levels, h = at.eliminated[1] - at.eliminated[0], np.full(block.n_rows, np.nan)
    at = replace(at, cells=cells, buffers=RowBuffers(curvature=h))
    sums = table_folds.level_sums(block, at, [(0, middle), (middle, levels + 1)])
    sums.run(1)
    sums.run(0)
    found = sums.total()
    A = kernels.activations(block, at.W, at.b, at.center) + (0.0 if block.offset is None else block.offset)
    p = 0.5 + 0.5 * np.tanh(0.5 * A[:, 0])
    close(h, p * (1.0 - p) * (1.0 if block.s is None else block.s))
    return found


@pytest.mark.parametrize("level", [native.REFERENCE, *LEVELS])
@settings(max_examples=40, deadline=None)
@given(problem=blocks())
def test_sums_equal_those_of_the_expanded_columns(problem: tuple[Block, CurvatureParams], level: str) -> None:
    block, at = problem
    dense = replace(block, Phi=block.Phi.dense())
    factors = [
        columns
        for part, columns in zip(block.Phi.parts, block.Phi.ranges, strict=True)
        if isinstance(part, CodeRows) and columns[0] < columns[1]
    ]
    with native.using(level):
        for eliminated in (None, *factors) if len(at.b) == 1 else (None,):
            value, g, H, longest = kernels.curvature(block, replace(at, eliminated=eliminated))
            expected = reference.curvature(dense, at)
            assert isinstance(H, np.ndarray if eliminated is None else BorderedDiagonal)
            close(value, expected[0])
            close(g, expected[1])
            close(H if isinstance(H, np.ndarray) else H.toarray(), expected[2])
            close(longest, expected[3])
            if (
                eliminated is not None
                and block.n_rows > 1
                and table_folds.has_cells(block, replace(at, eliminated=eliminated))
            ):
                close(summed_by_cells(block, replace(at, eliminated=eliminated)), expected[2])
                if all(part.x is None for part in block.Phi.parts if isinstance(part, CodeRows)):
                    for middle in {1, eliminated[1] - eliminated[0], (1 + eliminated[1] - eliminated[0]) // 2}:
                        value, g, H, longest = summed_by_levels(block, replace(at, eliminated=eliminated), middle)
                        for one, wanted in zip((value, g, H.toarray(), longest), expected, strict=True):
                            close(one, wanted)
        close(kernels.curvature_product(block, at), reference.curvature_product(dense, at))
        for found, wanted in zip(
            kernels.curvature_diagonal(block, at), reference.curvature_diagonal(dense, at), strict=True
        ):
            close(found, wanted)
        close(kernels.curvature_intercepts(block, at), reference.curvature_intercepts(dense, at))
        close(kernels.activations(block, at.W, at.b, at.center), (block.Phi.dense() - at.center) @ at.W.T + at.b)


@pytest.mark.parametrize("sparse", [False, True])
@settings(max_examples=40, deadline=None)
@given(size=st.integers(1, 6), levels=st.integers(1, 9), seed=st.integers(0, 2**32 - 1))
def test_a_bordered_matrix_is_the_whole_one(size: int, levels: int, seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    G, start = rng.normal(size=(levels + size, size)), int(rng.integers(0, size + 1))
    G[:levels][rng.random((levels, size)) < 0.4] = 0.0
    B, d = G[:levels], rng.random(levels) + 0.1
    A, whole_columns = G.T @ G + B.T @ (B / d[:, None]), int(rng.integers(0, size + 1))

    def bordered() -> BorderedDiagonal:
        cells = B.copy()
        cells[:, :whole_columns] = 0.0
        csr, numbers, places = csr_array(cells), B[:, :whole_columns].copy(), np.arange(whole_columns)
        arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr}
        border = SparseBorder(numbers=numbers, places=places, columns=size, **arrays)
        return BorderedDiagonal(A=A, B=border if sparse else B.copy(), d=d.copy(), start=start)

    H = bordered()
    whole, factor, b = H.toarray(), H.factor(), rng.normal(size=levels + size)
    close(H @ b, whole @ b)
    close(factor.solve(whole @ b), b)
    for level in native.available()[1:] if sparse else ():
        with native.using(level):
            close(H.factor(gram=border_gram()).solve(whole @ b), b)
    close(factor.norm(b) ** 2, b @ np.linalg.solve(whole, b))
    close(factor.log_det(), np.linalg.slogdet(whole)[1])
    close(factor.inverse_diagonal(), np.linalg.inv(whole).diagonal())
    least = np.linalg.eigvalsh(whole)[0]
    assert 0.0 < factor.smallest_eigenvalue <= least * (1.0 + 1e-9)
    unit = rng.random(levels + size) + 0.5
    close(H.scaled(unit).toarray(), whole / np.outer(unit, unit))
    close(H.toarray(), whole)
    fixed = rng.random(levels + size) < 0.3
    cleared = np.where(fixed | fixed[:, None], 0.0, whole)
    cleared[fixed, fixed] = 7.0
    close(bordered().fix(fixed, 7.0).toarray(), cleared)
    close((H + H).plus_diagonal(unit).toarray(), 2.0 * whole + np.diag(unit))
    # What a prior adds to the levels bounds the eigenvalues, scaled or with some coordinates fixed, too.
    raised = H.plus_diagonal(unit)
    held = bordered().plus_diagonal(unit).fix(fixed, 7.0)
    for one in (raised, (raised + raised) * 0.3, raised.scaled(unit), held):
        least = np.linalg.eigvalsh(one.toarray())[0]
        assert one.floor > 0.0
        assert 0.0 < one.factor().smallest_eigenvalue <= least * (1.0 + 1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("numbers", [0, 1, 2, 4, 9])
def test_ranges_of_levels_touch_no_sums_of_each_other(numbers: int, level: str) -> None:
    """Two threads sum them at the same time: whole vectors reached into the sums of the other, and some got lost.

    A sum of −0 that nobody touches stays so.
    """
    rng, levels, middle = np.random.default_rng(0), 40, 20
    codes = CodeRows(np.tile(np.arange(levels, dtype=np.int8), 3), levels)
    X = ColumnRows(tuple(rng.normal(size=(numbers, 3 * levels))), 3 * levels)
    M = numbers + levels
    block = Block(SplitRows((X, codes) if numbers else (codes,)), rng.integers(0, 2, 3 * levels).astype(np.int8))
    at = CurvatureParams(W=np.zeros((1, M)), b=np.zeros(1), center=np.zeros(M), order=2, cells=Cells())
    with native.using(level):
        at = replace(at, eliminated=(numbers, M))
        sums = table_folds.level_sums(block, at, [(0, middle), (middle, levels + 1)])
        assert sums.room.N is not None
        sums.room.N[:] = -0.0
        first, second = np.split(sums.room.N[: levels * (1 + numbers)], [middle * (1 + numbers)])
        sums.run(0)
        assert np.signbit(second).all() and (first.reshape(middle, -1)[:, 0] > 0.0).all()
        before = first.copy()
        sums.run(1)
        np.testing.assert_array_equal(first, before)
