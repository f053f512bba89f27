"""Stable functions against sixty digits; the Cholesky factor against its definition."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith.numerics import (
    SpdFactor,
    coth_excess,
    factor_spd,
    inverse_mills,
    inverse_mills_excess,
    log1mexp,
    log1pexp,
    log_normaliser,
    log_softmax,
    normal_density,
    null_vectors,
    sigmoid,
    smallest_norm,
    softmax,
    without_traces,
)

A = np.concatenate([-np.geomspace(745.0, 1e-8, 80), [0.0], np.geomspace(1e-8, 745.0, 80)])


def test_log1pexp_and_sigmoid_have_every_digit() -> None:
    with mpmath.workdps(60):
        points = [mpmath.mpf(float(a)) for a in A]
        expected = [float(mpmath.log1p(mpmath.exp(a))) for a in points]
        y = [float(1 / (1 + mpmath.exp(-a))) for a in points]
    np.testing.assert_allclose(log1pexp(A), expected, rtol=5e-16)
    normal = np.array(y) > 1e-300  # below, numbers have fewer digits
    np.testing.assert_allclose(sigmoid(A)[normal], np.array(y)[normal], rtol=5e-16)


# Either side of where a series, or another form of the function, takes over.
POSITIVE = np.concatenate([np.geomspace(1e-12, 30.0, 200), [0.02, np.nextafter(0.02, 0), np.log(2.0), 1.0]])


@pytest.mark.parametrize(
    ("function", "formula", "points"),
    [
        pytest.param(coth_excess, lambda x: x * mpmath.coth(x) - 1, POSITIVE, id="coth_excess"),
        pytest.param(log1mexp, lambda x: mpmath.log(1 - mpmath.exp(-x)), POSITIVE, id="log1mexp"),
        pytest.param(normal_density, mpmath.npdf, np.linspace(-8, 8, 161), id="normal_density"),
        pytest.param(inverse_mills, lambda a: mpmath.npdf(a) / mpmath.ncdf(a), np.linspace(-30, 30, 241), id="mills"),
    ],
)
def test_function_equals_its_formula_in_sixty_digits(function, formula, points: np.ndarray) -> None:
    with mpmath.workdps(60):
        expected = np.array([float(formula(mpmath.mpf(float(x)))) for x in points])
    # The exponential of −a²/2 has the rounding of its argument, up to 450 here.
    # One is subtracted from x coth(x), which is nearly one: the last digit of that is lost.
    atol = 3e-16 if function is coth_excess else 0.0
    np.testing.assert_allclose(function(points), expected, rtol=2e-13, atol=atol)


@pytest.mark.parametrize("function", [log1pexp, sigmoid])
def test_no_activation_overflows(function) -> None:
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        values = function(np.array([-np.inf, -1e308, 0.0, 1e308, np.inf]))
    assert not np.isnan(values).any()
    assert np.all(np.diff(values) >= 0)


@given(st.lists(st.floats(-700, 700), min_size=2, max_size=6), st.floats(-1e6, 1e6))
def test_softmax_is_a_distribution_and_knows_only_differences(a: list[float], shift: float) -> None:
    row = np.array([a])
    P = softmax(row)
    assert P.sum() == pytest.approx(1.0, rel=1e-14)
    np.testing.assert_allclose(softmax(row + shift), P, rtol=1e-7, atol=1e-300)
    np.testing.assert_allclose(np.exp(log_softmax(row)), P, rtol=1e-12, atol=1e-300)


@given(st.lists(st.floats(-500, 500), min_size=1, max_size=5))
def test_log_normaliser_is_that_of_softmax_with_a_zero_in_front(a: list[float]) -> None:
    value, P = log_normaliser(np.array([a]))
    with mpmath.workdps(60):
        exact = mpmath.log(1 + mpmath.fsum(mpmath.exp(mpmath.mpf(v)) for v in a))
    assert value[0] == pytest.approx(float(exact), rel=1e-14, abs=1e-15)
    np.testing.assert_allclose(P, softmax(np.array([[0.0, *a]])), rtol=1e-13)


# --- the factor


def spd(n: int, seed: int = 0, condition: float = 10.0) -> np.ndarray:
    Q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    return (Q * np.geomspace(1.0, 1.0 / condition, n)) @ Q.T


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_factor_solves_and_measures(condition: float) -> None:
    units = np.array([1.0, 1e6, 1e-6, 1.0, 2.0, 3.0])
    S = spd(6, condition=condition) * np.outer(units, units)
    factor = factor_spd(S)
    assert factor.kept.all() and len(factor.aliased) == 0
    x = np.arange(1.0, 7.0) / units
    np.testing.assert_allclose(factor.solve(S @ x), x, rtol=1e-13 * condition + 1e-12)
    np.testing.assert_allclose(factor.solve(S @ np.column_stack([x, -x]))[:, 1], -x, rtol=1e-13 * condition + 1e-12)
    assert factor.norm(S @ x) == pytest.approx(np.sqrt(x @ S @ x), rel=1e-10)
    assert factor.log_det() == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-9)


@pytest.mark.parametrize("n", [3, 40, 100, 300])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
def test_smallest_eigenvalue_is_never_too_large(n: int, condition: float) -> None:
    S = spd(n, condition=condition)
    bound = factor_spd(S).smallest_eigenvalue
    true = np.linalg.eigvalsh(S)[0]
    assert 0.6 * true <= bound <= true * (1 + 1e-8 * condition**0.5)


def test_an_inverse_beyond_floating_point_has_no_smallest_eigenvalue() -> None:
    assert 0.0 <= factor_spd(np.eye(80) * 1e-300, tol=0.0).smallest_eigenvalue <= 1e-300


def test_a_guess_of_the_smallest_eigenvalue_that_fails_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    S = spd(100, condition=1e4)
    true = np.linalg.eigvalsh(S)[0]
    monkeypatch.setattr(SpdFactor, "_likely_smallest", lambda self: 10.0 * true)
    assert 0.0 < factor_spd(S).smallest_eigenvalue <= true * (1 + 1e-8)


@pytest.mark.parametrize("n", [10, 60])
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_dependent_rows_are_the_later_ones(n: int, unit: float) -> None:
    rng = np.random.default_rng(n)
    X = rng.normal(size=(200, n))
    chosen = sorted(rng.choice(np.arange(2, n), size=n // 4, replace=False))
    for j in chosen:
        free = [k for k in range(j) if k not in chosen]
        X[:, j] = X[:, free] @ rng.normal(size=len(free))
    X[:, 0] *= unit
    factor = factor_spd(X.T @ X)
    assert factor.aliased.tolist() == chosen
    b = X.T @ X @ np.where(factor.kept, 1.0, 0.0)
    x = factor.solve(b)
    assert not x[chosen].any()
    np.testing.assert_allclose(X @ x, X @ np.where(factor.kept, 1.0, 0.0), rtol=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_no_more_rows_are_kept_than_the_rank(seed: int) -> None:
    """Beyond the rank every pivot is rounding, and that of an ill-conditioned matrix is not small."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(3, 15))
    X = rng.random(size=(rank, 30)) * 10.0 ** rng.uniform(-3, 3, 30)
    factor = factor_spd(X.T @ X)
    assert factor.kept[:rank].all()
    assert not factor.kept[rank:].any()


def test_a_row_of_zeros_is_set_aside() -> None:
    factor = factor_spd(np.diag([1.0, 0.0, 2.0]))
    assert factor.aliased.tolist() == [1]
    np.testing.assert_allclose(factor.solve(np.array([1.0, 5.0, 2.0])), [1.0, 0.0, 1.0], rtol=1e-15)
    empty = factor_spd(np.zeros((2, 2)))
    assert not empty.kept.any()
    assert empty.solve(np.ones(2)).tolist() == [0.0, 0.0]
    assert empty.norm(np.ones(2)) == 0.0 and empty.log_det() == 0.0


def test_rows_that_must_stay_stay() -> None:
    S = np.ones((3, 3))
    assert factor_spd(S).aliased.tolist() == [1, 2]
    assert factor_spd(S, may_alias=np.array([True, False, True])).aliased.tolist() == [2]


def test_coth_excess_has_every_digit_on_both_sides_of_its_series() -> None:
    """Against fifty digits; below 0.02 it is a series of three terms."""
    x = np.concatenate([[1e-8, 1e-4], np.linspace(0.005, 0.0199999, 40), [0.02, 0.021, 0.1, 1.0, 30.0]])
    with mpmath.workdps(50):
        exact = [float(mpmath.mpf(v) * mpmath.coth(mpmath.mpf(v)) - 1) for v in x.tolist()]
    np.testing.assert_allclose(coth_excess(x), exact, rtol=3e-12)
    np.testing.assert_allclose(coth_excess(x[x < 0.02]), np.array(exact)[x < 0.02], rtol=1e-13)


def test_a_column_is_still_whose_spread_is_below_four_units_in_the_last_place_of_its_mean() -> None:
    mean, weight = np.array([1e6, 1e6, 1.0]), 100.0
    unit = 1e6 * np.finfo(float).eps
    spread = np.array([3.9 * unit, 4.1 * unit, 1.0])
    scatter = weight * np.outer(spread, spread)
    expected = np.where(np.arange(3)[:, None] * np.arange(3) > 0, scatter, 0.0)
    np.testing.assert_array_equal(without_traces(scatter, mean, weight), expected)


def test_the_excess_of_mills_ratio_has_every_digit_on_both_sides_of_its_fraction() -> None:
    """Against fifty digits; below −8 it is a continued fraction, where the formula would lose two digits."""
    a = np.concatenate([np.linspace(-30.0, -8.0, 89), np.linspace(-7.9, 8.0, 40)])
    with mpmath.workdps(50):
        exact = np.array([float(mpmath.npdf(v) / mpmath.ncdf(v) + mpmath.mpf(v)) for v in a.tolist()])
    np.testing.assert_allclose(inverse_mills_excess(a)[a < -8.0], exact[a < -8.0], rtol=2e-15)
    np.testing.assert_allclose(inverse_mills_excess(a), exact, rtol=2e-13)


@pytest.mark.parametrize(("n", "share"), [(64, 1.0), (65, 0.7), (80, 0.7)])
def test_the_smallest_eigenvalue_of_a_large_matrix_is_bounded_by_seven_tenths(n: int, share: float) -> None:
    """Of 1 + 3 v vᵀ it is 1; from the bound the rounding of a factor is taken off."""
    v = np.full(n, n**-0.5)
    S = np.eye(n) + 3.0 * np.outer(v, v)
    rounding = 0.0 if share == 1.0 else n**2 * np.finfo(float).eps * (1.0 + 3.0 / n)
    assert factor_spd(S).smallest_eigenvalue == pytest.approx(share - rounding, rel=4e-14, abs=0.0)


def test_the_guess_of_the_smallest_eigenvalue_takes_ten_products(monkeypatch: pytest.MonkeyPatch) -> None:
    S = np.diag(np.linspace(1.0, 200.0, 100))
    factor = factor_spd(S)
    solved: list[int] = []
    solve = SpdFactor.solve
    monkeypatch.setattr(SpdFactor, "solve", lambda self, b: (solved.append(1), solve(self, b))[1])
    assert 1.0 <= factor._likely_smallest() < 1.5 and len(solved) == 10
    few = factor_spd(np.diag(np.repeat([1.0, 4.0], 50)))
    solved.clear()
    assert few._likely_smallest() == pytest.approx(1.0) and len(solved) <= 4


@pytest.mark.parametrize(("pivot", "kept"), [(1.25e-13, False), (1.32e-13, True)])
@pytest.mark.parametrize("more", [0, 1])
def test_a_pivot_is_above_the_tolerance_and_its_rounding(pivot: float, kept: bool, more: int) -> None:
    """1e-13, and 32 units in the last place for the square of one and the weight of the row before it: 1.284e-13."""
    along = np.sqrt(1.0 - pivot)
    S = np.eye(2 + more)
    S[0, 1] = S[1, 0] = along
    if more:  # a row of zeros takes the way row by row
        S[2, 2] = 0.0
    assert factor_spd(S).kept[:2].tolist() == [True, kept]


def test_the_condition_is_that_of_the_matrix_of_unit_diagonal() -> None:
    S = np.array([[4.0, 1.2], [1.2, 1.0]])  # correlation 0.6
    assert factor_spd(S).condition == pytest.approx(1.6 / 0.4)
    large = np.eye(70) + 0.5 * np.outer(np.ones(70), np.ones(70)) * (1.0 - np.eye(70))
    assert factor_spd(large).condition == pytest.approx(np.linalg.cond(large, 1), rel=1e-9)


def test_columns_set_aside_are_combinations_of_the_others() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    X = np.column_stack([X, 2.0 * X[:, 0] - X[:, 1]])
    S = X.T @ X
    N = null_vectors(S, factor_spd(S))
    np.testing.assert_allclose(N / N[2], np.array([[-2.0], [1.0], [1.0]]), rtol=1e-9)
    found = smallest_norm(np.array([1.0, 1.0, 0.0]), N)
    np.testing.assert_allclose(X @ found, X @ [1.0, 1.0, 0.0], atol=1e-12)
    assert found @ N[:, 0] == pytest.approx(0.0, abs=1e-12)
