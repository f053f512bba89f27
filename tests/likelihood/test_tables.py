"""Tables with factors by code: the same fits as the expanded columns, at any size."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.likelihood.fit import LikelihoodFit, fit_likelihood
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.likelihood.problem import Problem
from oddsmith.priors import GaussianPrior
from oddsmith.rows import CodeRows, ColumnRows, SplitRows
from oddsmith.rows.codes import narrowest
from oddsmith.solvers import policy
from oddsmith.solvers.base import TableSample


@st.composite
def tables(draw: st.DrawFn) -> tuple[SplitRows, np.ndarray, np.ndarray | None]:
    """Rows in parts with labels and weights: empty levels, rows without a level, one level, all rows in one."""
    n = draw(st.integers(12, 160))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts: list[CodeRows | ColumnRows] = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["numbers", "factor", "one level", "product"]))
        levels = draw(st.integers(1, 12))
        codes = rng.integers(-1 if draw(st.booleans()) else 0, draw(st.integers(1, levels)), n)
        dropped = draw(st.sampled_from([None, 0, levels - 1])) if levels > 1 else None
        if kind == "numbers":
            arrays = (rng.normal(size=n) * 10.0 ** draw(st.integers(-3, 3)), rng.integers(0, 5, n), rng.random(n) < 0.5)
            parts.append(ColumnRows(arrays, n))
        elif kind == "one level":
            parts.append(CodeRows(np.zeros(n, dtype=np.int8), 2, dropped=0))
        else:
            x = rng.normal(size=n) if kind == "product" else None
            parts.append(CodeRows(narrowest(codes, levels), levels, dropped=dropped, x=x))
    s = draw(st.sampled_from([None, rng.random(n), rng.integers(0, 3, n).astype(np.float64)]))
    return SplitRows(tuple(parts)), rng.integers(0, 2, n).astype(np.int32), s


def problem(rows: object, t: np.ndarray, s: np.ndarray | None, scale: float | None, solver: str = "auto") -> Problem:
    weight = np.bincount(t, weights=s, minlength=2).astype(np.float64)
    return Problem(
        engine=MemoryEngine(threads=1),
        source=MemorySource(rows, t, 2, s),
        prior=None if scale is None else GaussianPrior(scale),
        intercept=True,
        reference=None,
        solver=solver,
        tol=1e-10,
        max_iter=200,
        class_weight=weight,
    )


def both_fits(
    rows: SplitRows, t: np.ndarray, s: np.ndarray | None, scale: float | None, eliminated: bool
) -> tuple[LikelihoodFit, LikelihoodFit]:
    """Return the fit by codes, the largest factor eliminated or not, and that of the expanded columns."""
    forced = replace(policy.POLICY, eliminated_columns=1, eliminated_levels=1) if eliminated else policy.POLICY
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(policy, "POLICY", forced)
        warnings.simplefilter("ignore")
        return fit_likelihood(problem(rows, t, s, scale)), fit_likelihood(problem(rows.dense(), t, s, scale))


@pytest.mark.parametrize("eliminated", [False, True])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), scale=st.sampled_from([0.3, 2.0]))
def test_fits_by_code_equal_those_of_expanded_columns(table: object, scale: float, eliminated: bool) -> None:
    rows, t, s = table
    if np.bincount(t, weights=s, minlength=2).min() <= 0:
        return
    one, other = both_fits(rows, t, s, scale, eliminated)
    assert one.certificate.converged and other.certificate.converged
    size = 1.0 + np.abs(other.coef).max(initial=0.0)
    np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(one.intercept, other.intercept, rtol=0, atol=1e-8 * size)
    assert one.result.final.value == pytest.approx(other.result.final.value, rel=1e-12)
    for fit in (one, other):
        assert fit.learned.hessian is not None
    # Both are in user units before they are compared: coordinates differ in the centre of factors.
    assert one.learned.covariance() == pytest.approx(other.learned.covariance(), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("eliminated", [False, True])
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables())
def test_maximum_likelihood_sets_the_same_columns_aside(table: object, eliminated: bool) -> None:
    rows, t, s = table
    if np.bincount(t, weights=s, minlength=2).min() <= 0:
        return
    one, other = both_fits(rows, t, s, None, eliminated)
    assert one.aliased.tolist() == other.aliased.tolist()
    if not other.certificate.converged:  # separated classes have no optimum
        return
    assert one.certificate.converged
    size = 1.0 + np.abs(other.coef).max(initial=0.0)
    np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-8 * size)
    assert one.result.final.value == pytest.approx(other.result.final.value, rel=1e-12)


LONG = {"one_thread_elements": 0.0, "eliminated_columns": 1, "eliminated_levels": 2, "table_sample": 0.3}
"""Settings under which a short table is fitted as a long one is."""


@pytest.mark.parametrize("room", [0.0, 1e9], ids=["apart", "in slices"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), scale=st.sampled_from([0.3, 2.0, None]))
def test_long_tables_reach_the_optimum_that_they_certify(table: object, scale: float | None, room: float) -> None:
    """The gap is at least the true one, however the sample misleads; without a prior all digits are there."""
    rows, t, s = table
    if np.bincount(t, weights=s, minlength=2).min() <= 0:
        return
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(policy, "POLICY", replace(policy.POLICY, **LONG, table_room=room))
        warnings.simplefilter("ignore")
        one = fit_likelihood(problem(rows, t, s, scale))
    other = fit_likelihood(problem(rows.dense(), t, s, scale, solver="newton"))
    if scale is None and not other.certificate.converged:  # separated classes have no optimum
        return
    assert one.certificate.converged and one.certificate.rigorous
    best = other.result.final.value
    assert -1e-11 * best <= one.result.final.value - best <= one.certificate.gap + 1e-11 * best
    if scale is None:
        size = 1.0 + np.abs(other.coef).max(initial=0.0)
        np.testing.assert_allclose(one.coef, other.coef, rtol=0, atol=1e-8 * size)


def test_dependent_numbers_beside_many_levels_are_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers in large units, of which one is a sum: their prior is next to nothing, that of the levels is not.

    So neither the least precision of the prior nor a bound without it is enough.
    """
    rng = np.random.default_rng(0)
    n, levels = 30_000, 600
    x, codes = rng.normal(size=(2, n)) * 1e3, rng.integers(0, levels, n).astype(np.int16)
    few = rng.integers(0, 20, n).astype(np.int8)
    t = ((2.0 * x[1] + x[0]) / 1e3 + rng.logistic(size=n) > 0).astype(np.int32)
    numbers = ColumnRows((x[0], x[1], x[0] + x[1], 1e6 * rng.normal(size=n)), n)
    rows = SplitRows((numbers, CodeRows(few, 20, dropped=0), CodeRows(codes, levels, dropped=0)))
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, one_thread_elements=0.0))
    fit = fit_likelihood(replace(problem(rows, t, None, 1.0), tol=1e-8))
    assert fit.certificate.converged and fit.certificate.rigorous and fit.certificate.passes <= 12


def test_a_sample_that_misleads_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample has the labels of the other class."""
    rng = np.random.default_rng(0)
    n, codes = 4000, rng.integers(0, 30, 4000).astype(np.int8)
    x = rng.normal(size=n)
    t = (x + rng.logistic(size=n) > 0).astype(np.int32)
    table = problem(SplitRows((ColumnRows((x,), n), CodeRows(codes, 30, dropped=0))), t, None, 1.0)
    sample = FoldObjective.table_sample

    def flipped(self: FoldObjective, rows: int, seed: int) -> TableSample:
        found = sample(self, rows, seed)
        rest, whole = (
            replace(part, source=replace(part.memory_source, t=1 - part.memory_source.t))
            for part in (found.rest, found.whole)
        )
        return replace(found, rest=rest, whole=whole)

    expected = fit_likelihood(table)
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, **LONG))
    for method in (sample, flipped):
        monkeypatch.setattr(FoldObjective, "table_sample", method)
        fit = fit_likelihood(table)
        assert fit.certificate.converged
        assert fit.result.final.value == pytest.approx(expected.result.final.value, rel=1e-10)


def test_nested_factors_are_set_aside_as_in_r() -> None:
    """Counties within states: R leaves out the last county of each state but the first."""
    rng = np.random.default_rng(0)
    county = rng.integers(0, 12, 600)
    rows = SplitRows(
        (CodeRows(county.astype(np.int8) // 3, 4, dropped=0), CodeRows(county.astype(np.int8), 12, dropped=0))
    )
    t = (rng.random(600) < 0.5).astype(np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "POLICY", replace(policy.POLICY, eliminated_columns=1, eliminated_levels=1))
        fit = fit_likelihood(problem(rows, t, None, None))
    assert np.flatnonzero(fit.aliased).tolist() == [3 + 4, 3 + 7, 3 + 10]
    assert fit.certificate.converged


def test_codes_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"codes are −1 \(missing\) to 1; found 3"):
        CodeRows(np.array([0, 3], dtype=np.int8), 2)
