"""Calibration maps against R, scikit-learn and what they promise."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression as Theirs
from tests.reference_data import Case, cases

from oddsmith.decision.calibration import LinearMap, activations, fit_linear, fit_map, influence, mean_log_loss
from oddsmith.errors import InvalidInputError, OddsmithWarning, UnknownNameError
from oddsmith.numerics import log_softmax, softmax


def stated(case: Case) -> tuple[Any, Any]:
    """Log probabilities, N × K, and codes of the labels."""
    p = np.array(case.expected["stated"])
    P = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    return np.log(P), np.array([case.classes.index(label) for label in case.y.tolist()])


@pytest.mark.parametrize("case", cases("calibration_*"), ids=str)
def test_slope_and_shifts_equal_r(case: Case) -> None:
    A, t = stated(case)
    found = fit_linear(A, np.eye(A.shape[1])[t])
    assert found.slope == pytest.approx(case.expected["slope"], rel=1e-8)
    shifts = case.expected.get("shifts", [0.0, case.expected.get("intercept")])
    np.testing.assert_allclose(found.shift - found.shift[0], shifts, rtol=1e-7, atol=1e-9)
    # Rows that follow the map have a sandwich variance near that of the likelihood.
    errors = np.sqrt((influence(A, np.eye(A.shape[1])[t], found) ** 2).sum(axis=0))
    slope_error = case.expected["std_errors"][1 if A.shape[1] == 2 else 0]
    assert 0.6 < errors[0] / slope_error < 1.5


@given(st.integers(2, 5), st.floats(0.2, 3.0), st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_the_map_has_the_largest_likelihood(K: int, slope: float, seed: int, shifts: bool, free: bool) -> None:
    rng = np.random.default_rng(seed)
    A = 1.5 * rng.normal(size=(300, K))
    t = (slope * A + rng.gumbel(size=A.shape)).argmax(axis=1)
    T, s = np.eye(K)[t], rng.integers(0, 4, 300).astype(float)

    def loss(theta: Any) -> float:
        b = np.append(0.0, theta[1:]) if shifts else np.zeros(K)
        return -float(s @ log_softmax((theta[0] if free else 1.0) * A + b)[np.arange(300), t])

    found = fit_linear(A, T, s, shifts=shifts, slope=free)
    best = minimize(loss, np.append(1.0, np.zeros(K - 1)), method="BFGS", options={"gtol": 1e-9}).fun
    assert loss(np.append(found.slope, found.shift[1:] - found.shift[0])) <= best + 1e-7
    assert abs(found.shift.sum()) < 1e-9


def test_a_row_of_weight_two_is_the_row_twice() -> None:
    rng = np.random.default_rng(0)
    A, t = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    s = rng.integers(0, 3, 60)
    for method in ("logistic", "temperature", "isotonic"):
        one, two = fit_map(A, t, method, s.astype(float)), fit_map(A.repeat(s, axis=0), t.repeat(s), method)
        np.testing.assert_allclose(np.exp(one(A)), np.exp(two(A)), rtol=1e-8, atol=1e-12)


def test_separated_and_constant_activations_are_told_apart() -> None:
    T = np.eye(2)[[0, 0, 1, 1]]
    for a in ([-2.0, -1.0, 1.0, 2.0], [-2.0, -1.0, -1.0, 2.0]):
        assert fit_linear(np.column_stack([np.zeros(4), a]), T).slope == np.inf
    assert np.isnan(fit_linear(np.zeros((4, 2)), T).slope)
    assert np.isnan(fit_linear(np.ones((4, 2)) * [0.0, 1.0], T).slope)
    assert np.isfinite(fit_linear(np.ones((4, 2)) * [0.0, 1.0], T, slope=False).shift).all()


def test_platt_targets_keep_a_separated_map_finite() -> None:
    A = np.column_stack([np.zeros(6), [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0]])
    found = fit_map(A, np.array([0, 0, 0, 1, 1, 1]), "logistic")
    assert isinstance(found, LinearMap) and 0 < found.slope < 10
    assert np.exp(found(A))[:, 1].max() < 1.0


def test_the_logistic_map_of_two_classes_is_scikit_learns() -> None:
    """Platt's map of a decision function, as in CalibratedClassifierCV of a model that is fitted already."""
    frozen = pytest.importorskip("sklearn.frozen")
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.logistic(size=400) > 0).astype(int)
    model = Theirs(C=100.0).fit(X[:100], y[:100])
    theirs = CalibratedClassifierCV(frozen.FrozenEstimator(model), method="sigmoid").fit(X[100:], y[100:])
    a = model.decision_function(X)
    ours = fit_map(np.column_stack([np.zeros(300), a[100:]]), y[100:], "logistic")
    np.testing.assert_allclose(
        np.exp(ours(np.column_stack([np.zeros(400), a]))), theirs.predict_proba(X), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("K", [2, 3])
def test_the_isotonic_map_is_scikit_learns_for_each_class(K: int) -> None:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(250, K)).repeat(2, axis=0)
    t = (1.5 * A + rng.gumbel(size=A.shape)).argmax(axis=1)
    P, grid = softmax(A), rng.normal(size=(200, K))
    Q = np.column_stack(
        [IsotonicRegression(out_of_bounds="clip").fit(P[:, k], t == k).predict(softmax(grid)[:, k]) for k in range(K)]
    )
    if K == 2:
        Q[:, 0] = 1.0 - Q[:, 1]
    expected = Q / Q.sum(axis=1, keepdims=True)
    found = fit_map(A, t, "isotonic", stated=True)
    np.testing.assert_allclose(np.exp(found(grid)), expected, atol=1e-12)
    assert found.x.dtype == found.y.dtype == np.float64 and len(found.x) < 500


def test_maps_are_increasing_and_a_useless_order_gives_the_shares() -> None:
    rng = np.random.default_rng(3)
    a = rng.normal(size=400)
    A, t = (
        np.column_stack([np.zeros(400), a]),
        (rng.random(400) < softmax(np.column_stack([a, 0 * a]))[:, 1]).astype(int),
    )
    found = fit_map(A, t, "logistic")
    assert isinstance(found, LinearMap) and found.slope == 0.0
    np.testing.assert_allclose(np.exp(found(A))[:, 1], (t.sum() + 0.0) / 400, atol=0.01)
    with pytest.warns(OddsmithWarning, match="no better than chance"):
        nearly = fit_map(A, t, "temperature")
    assert isinstance(nearly, LinearMap) and nearly.slope > 0, "predictions stay the same"
    np.testing.assert_allclose(np.exp(nearly(A)), 0.5, atol=1e-3)
    with pytest.raises(UnknownNameError, match="Unknown way of calibrating 'plat'"):
        fit_map(A, t, "plat")


# --------------------------------------------------------------------------------------------- degenerate scores


SCORES = {
    "random": lambda rng, n, K: 3.0 * rng.normal(size=(n, K)),
    "huge": lambda rng, n, K: 1e5 * rng.normal(size=(n, K)),
    "overflowing": lambda rng, n, K: 1e280 * rng.normal(size=(n, K)),
    "tiny": lambda rng, n, K: 1e-9 * rng.normal(size=(n, K)),
    "vanishing": lambda rng, n, K: 1e-300 * rng.normal(size=(n, K)),
    "heavy tails": lambda rng, n, K: rng.standard_cauchy(size=(n, K)) ** 5,
    "constant": lambda rng, n, K: np.tile(rng.normal(size=K), (n, 1)),
    "equal": lambda rng, n, K: np.zeros((n, K)),
    "two values": lambda rng, n, K: np.eye(K)[rng.integers(0, K, n)],
    "zeros of a forest": lambda rng, n, K: np.log(rng.multinomial(5, np.full(K, 1 / K), n) / 5),
    "a tree": lambda rng, n, K: np.log(np.eye(K)[rng.integers(0, K, n)]),
}


@given(
    st.sampled_from(sorted(SCORES)),
    st.sampled_from(["logistic", "temperature", "isotonic"]),
    st.integers(2, 4),
    st.integers(2, 40),
    st.sampled_from(["noise", "right", "wrong", "one class"]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=200)
def test_no_map_is_worse_than_none_on_its_own_rows_and_all_are_finite(
    kind: str, method: str, K: int, n: int, labels: str, weighted: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(divide="ignore", over="ignore"):
        A = SCORES[kind](rng, n, K)
    best = A.argmax(axis=1)
    t = {
        "noise": rng.integers(0, K, n),
        "right": best,
        "wrong": (best + 1) % K,
        "one class": np.zeros(n, dtype=int),
    }[labels]
    s = rng.exponential(size=n) * (rng.random(n) < 0.8) if weighted else np.ones(n)
    s[0] = 1.0
    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.simplefilter("ignore", OddsmithWarning)
        A = log_softmax(A)
        found = fit_map(A, t, method, s, stated=True)
        L = found(A)
    P = np.exp(L)
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1.0, atol=1e-9)
    if isinstance(found, LinearMap):
        assert np.isfinite([found.slope, found.floor, *found.shift]).all() and found.slope >= 0
        assert np.isfinite(L).all()
    assert mean_log_loss(L, t, s) <= mean_log_loss(A, t, s) + 1e-14, "up to the rounding of 1"


@given(
    st.sampled_from(sorted(set(SCORES) - {"zeros of a forest", "a tree"})),
    st.sampled_from(["logistic", "temperature"]),
    st.integers(2, 4),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=100)
def test_maps_of_decision_values_are_finite_and_do_not_depend_on_their_unit(
    kind: str, method: str, K: int, right: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    A = SCORES[kind](rng, 30, K)
    t = A.argmax(axis=1) if right else rng.integers(0, K, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        one, other = fit_map(A, t, method), fit_map(2.0**7 * A, t, method)
    assert isinstance(one, LinearMap) and isinstance(other, LinearMap)
    assert np.isfinite([one.slope, *one.shift]).all() and one.slope >= 0
    if kind != "vanishing" and np.ptp(A, axis=0).max() > 0:
        np.testing.assert_allclose(np.exp(one(A)), np.exp(other(2.0**7 * A)), atol=1e-6)


@pytest.mark.parametrize("factor", [1e-6, 1.0, 30.0, 100.0, 1e6])
def test_large_scores_have_the_map_of_small_ones(factor: float) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=500)
    t = (a + rng.logistic(size=500) > 0).astype(int)
    expected = Theirs(C=np.inf, tol=1e-10).fit(a[:, None], t).coef_.item()
    found = fit_linear(np.column_stack([0 * a, factor * a]), np.eye(2)[t])
    assert found.slope * factor == pytest.approx(expected, rel=1e-5)


def test_a_temperature_of_one_stays_one_on_the_rows_of_a_fit_by_likelihood() -> None:
    """At the maximum of the likelihood no slope is better than 1; a prior towards 1 changes nothing there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X @ [1.0, -2.0] + rng.logistic(size=60) > 0).astype(int)
    A = Theirs(C=np.inf, tol=1e-12, max_iter=1000).fit(X, y).predict_log_proba(X)
    found = fit_map(A, y, "temperature", stated=True)
    assert isinstance(found, LinearMap) and found.slope == pytest.approx(1.0, abs=1e-6)


def test_the_prior_is_worth_as_many_rows_as_classes() -> None:
    """Right about all of N rows with probability 0.6: wrong by 0.4 · 2 rows of N + 2."""
    n = 100
    t = np.arange(n) % 2
    A = np.log(np.where(t[:, None] == [0, 1], 0.6, 0.4))
    found = fit_map(A, t, "temperature", stated=True)
    np.testing.assert_allclose(np.exp(found(A))[np.arange(n), t], 1 - 2 * 0.4 / (n + 2), rtol=1e-9)


def test_an_exact_zero_counts_as_often_as_it_was_wrong() -> None:
    """A forest of ten trees: a zero for 40 rows, of which 2 are of that class."""
    t = np.append(np.repeat([0, 1], [38, 2]), np.repeat([0, 1], 30))
    p = np.append(np.zeros(40), np.full(60, 0.4))
    with np.errstate(divide="ignore"):
        A = np.log(np.column_stack([1 - p, p]))
    found = fit_map(A, t, "logistic", stated=True)
    assert isinstance(found, LinearMap) and found.floor == pytest.approx(np.log(2 / 40))
    np.testing.assert_allclose(np.exp(found(A))[[0, -1], 1], [2 / 40, 30 / 60], atol=0.01)


def test_values_that_cannot_be_calibrated_are_refused_by_row() -> None:
    class Broken(SimpleNamespace):
        def decision_function(self, X: Any) -> Any:
            return np.array([0.0, np.inf])

    with pytest.raises(InvalidInputError, match=r"Broken.decision_function returned inf for row 1"):
        activations(Broken(), None)
