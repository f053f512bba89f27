"""The search for a calibration map: where it begins and ends, how often it evaluates, and what counts as nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oddsmith.decision import calibration
from oddsmith.decision.calibration import (
    LinearMap,
    MapCoordinates,
    activations,
    fit_linear,
    fit_map,
    mean_log_loss,
    solve_linear,
    zero_floor,
)
from oddsmith.decision.class_prior import estimate_prior, read_class_prior
from oddsmith.errors import InvalidInputError, OddsmithWarning
from oddsmith.numerics import log_softmax


def scores(n: int, K: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng([n, K, seed])
    A = rng.normal(size=(n, K)) * 2.0
    return log_softmax(A), (0.7 * A + rng.gumbel(size=A.shape)).argmax(axis=1)


PROBLEMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "two classes": (scores(60, 2), {}),
    "two classes, times 30": ((30.0 * scores(60, 2)[0], scores(60, 2)[1]), {}),
    "two classes, times 1e5": ((1e5 * scores(60, 2)[0], scores(60, 2)[1]), {}),
    "three classes": (scores(60, 3), {}),
    "three classes, no shifts": (scores(60, 3), {"shifts": False}),
    "three classes, no slope": (scores(60, 3), {"slope": False}),
    "one class far above": ((scores(60, 2)[0] + np.array([9.0, 0.0]), scores(60, 2)[1]), {}),
    "small": ((1e-3 * scores(60, 3)[0], scores(60, 3)[1]), {}),
}
# Evaluations, slope, first shift.
SEARCHES: dict[str, tuple[int, float, float]] = {
    "two classes": (7, 0.5433872, -0.080774),
    "two classes, times 30": (10, 0.01811291, -0.080774),
    "two classes, times 1e5": (10, 5.433872e-06, -0.080774),
    "three classes": (6, 0.6779153, -0.1084598),
    "three classes, no shifts": (6, 0.676771, 0.0),
    "three classes, no slope": (4, 1.0, -0.1616501),
    "one class far above": (23, 0.5433872, -2.526016),
    "small": (6, 677.9153, -0.1084598),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_evaluations_of_a_search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (A, t), how = PROBLEMS[name]
    seen: list[Any] = []
    entropy = calibration.cross_entropy
    monkeypatch.setattr(calibration, "cross_entropy", lambda *given: (seen.append(given), entropy(*given))[1])
    found = fit_linear(A, np.eye(A.shape[1])[t], **how)
    evaluations, slope, shift = SEARCHES[name]
    assert len(seen) == evaluations
    assert found.slope == pytest.approx(slope, rel=1e-5) and found.shift[0] == pytest.approx(shift, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(("spread", "flat"), [(0.9e-12, True), (1.2e-12, False)])
def test_a_spread_of_rounding_is_none(spread: float, flat: bool) -> None:
    A = np.array([[1.0, 1.0], [1.0, 1.0]]) + spread * np.array([[1.0, -1.0], [-1.0, 1.0]])
    assert np.isnan(fit_linear(A, np.eye(2)).slope) == flat


def single(decrement: float, step: float) -> Any:
    """Return a function of the slope alone with a Newton step and decrement as asked for, and its calls."""
    calls: list[float] = []

    def entropy(theta: Any) -> Any:
        calls.append(float(theta[0]))
        h = decrement / step**2
        return 1.0 + 1e-6 * len(calls), np.array([h * step, 0.0, 0.0]), np.diag([h, h, h])

    return entropy, calls


@pytest.mark.parametrize(("decrement", "evaluations"), [(0.9e-20, 1), (1.2e-20, 101)])
def test_a_decrement_below_rounding_is_the_end(decrement: float, evaluations: int) -> None:
    """Else it goes on, for 100 steps at most."""
    entropy, calls = single(decrement, 1e-6)
    solve_linear(entropy, MapCoordinates(1.0, np.zeros(2)), shifts=False)
    assert len(calls) == evaluations


@pytest.mark.parametrize(("step", "slope"), [(1.9e-4, 1.0 - 1.9e-4), (2.2e-4, np.nan)])
def test_a_long_step_without_gain_goes_to_infinity(step: float, slope: float) -> None:
    """From the slope 1: longer than 1e-4 (1 + 1)."""
    entropy, _ = single(1e-21, step)
    found = solve_linear(entropy, MapCoordinates(1.0, np.zeros(2)), shifts=False)
    assert found.slope == pytest.approx(slope, nan_ok=True)


@pytest.mark.parametrize(("decrement", "trials"), [(0.9e-10, 101), (1.2e-10, 1 + 34)])
def test_a_small_step_is_taken_unseen_and_others_are_halved(decrement: float, trials: int) -> None:
    """Of a function that never falls: 34 halvings reach 1e-10."""
    entropy, calls = single(decrement, 1e-3)
    solve_linear(entropy, MapCoordinates(1.0, np.zeros(2)), shifts=False)
    assert len(calls) == trials


@pytest.mark.parametrize(("scale", "slope", "start"), [(3.0, True, 3.0), (5.0, True, 4.0), (5.0, False, 5.0)])
def test_a_search_begins_where_activations_are_of_size_four(scale: float, slope: bool, start: float) -> None:
    where = MapCoordinates(scale, np.array([1.0, -1.0])).start(slope)
    assert where == pytest.approx([start, start / scale, -start / scale])


def test_coordinates_give_slope_and_shifts() -> None:
    found = MapCoordinates(2.0, np.array([1.0, 0.0, 2.0])).linear_map(np.array([3.0, 1.0, 2.0, 6.0]))
    assert found.slope == 1.5 and found.shift == pytest.approx(np.array([-0.5, 2.0, 3.0]) - 1.5)


def test_values_of_a_decision_function_are_cut_off() -> None:
    model: Any = SimpleNamespace(decision_function=lambda X: np.array([1e300, -3.0]))
    assert activations(model, [[0.0], [1.0]]).tolist() == [[-0.5e290, 0.5e290], [1.5, -1.5]]


def test_an_order_worse_than_chance_has_nearly_equal_probabilities() -> None:
    A = np.array([[3.0, 0.0], [0.0, 5.0], [2.0, 0.0], [0.0, 1.0]])
    with pytest.warns(OddsmithWarning, match="no better than chance"):
        found = fit_map(A, np.array([1, 0, 1, 0]), "temperature")
    assert isinstance(found, LinearMap) and found.slope == pytest.approx(1e-3 / 2.5)


def test_logistic_calibration_of_separated_values_has_platts_targets() -> None:
    """Targets of (N + 1) / (N + 2) and 1 / (N + 2): with values of ±1 the slope is half their log odds."""
    A = np.column_stack([-np.repeat([-1.0, 1.0], 3), np.repeat([-1.0, 1.0], 3)]) / 2.0
    found = fit_map(A, np.repeat([0, 1], 3), "logistic")
    assert isinstance(found, LinearMap)
    assert found.slope == pytest.approx(np.log(4.0)) and found.shift == pytest.approx([0.0, 0.0], abs=1e-12)
    weighted = fit_map(A, np.repeat([0, 1], 3), "logistic", np.full(6, 2.0))
    assert isinstance(weighted, LinearMap) and weighted.slope == pytest.approx(np.log(7.0))


def test_temperature_of_stated_probabilities_has_a_prior_worth_two_rows() -> None:
    """Four rows of which all are right at 0.8: the target is (4 + 2 · 0.8) / 6, and the slope the ratio of log odds."""
    A = np.log([[0.8, 0.2], [0.8, 0.2], [0.2, 0.8], [0.2, 0.8]])
    found = fit_map(A, np.array([0, 0, 1, 1]), "temperature", stated=True)
    target = (4.0 + 2.0 * 0.8) / 6.0
    assert isinstance(found, LinearMap) and found.slope == pytest.approx(np.log(target / (1.0 - target)) / np.log(4.0))


def test_exact_zeros_count_as_often_as_they_are_wrong() -> None:
    with np.errstate(divide="ignore"):
        A = np.log([[1.0, 0.0]] * 9 + [[0.0, 1.0]] + [[0.3, 0.7]])
    t = np.array([0] * 8 + [1, 1, 1])
    assert zero_floor(A, t, np.ones(11)) == pytest.approx(np.log(0.1))  # one of ten
    assert zero_floor(A, np.array([0] * 9 + [1, 1]), np.ones(11)) == pytest.approx(np.log(np.finfo(float).eps))
    heavy = np.where(np.arange(11) == 8, 30.0, 1.0)
    assert zero_floor(A, t, heavy) == pytest.approx(np.log(0.3))  # no more than the smallest other probability


def test_log_loss_counts_no_probability_below_rounding() -> None:
    L = np.log([[1.0, 1e-30], [0.25, 0.75]])
    eps = np.finfo(float).eps
    found = mean_log_loss(L, np.array([1, 0]), np.array([1.0, 3.0]))
    assert found == pytest.approx((-np.log(eps) + 3.0 * np.log(4.0)) / 4.0, rel=1e-12)
    assert mean_log_loss(L, np.array([0, 1]), np.array([1.0, 0.0])) == pytest.approx(eps, rel=1e-6, abs=0.0)


@pytest.mark.parametrize(("excess", "refused"), [(0.9e-8, False), (1.2e-8, True)])
def test_a_class_prior_sums_to_one_to_eight_digits(excess: float, refused: bool) -> None:
    given = [0.25, 0.75 + excess]
    if refused:
        with pytest.raises(InvalidInputError, match="sum to 1"):
            read_class_prior(given, np.array([0, 1]))
    else:
        assert read_class_prior(given, np.array([0, 1])).tolist() == given


@pytest.mark.parametrize(("apart", "refused"), [(0.95e-6, True), (1.1e-6, False)])
def test_rows_that_say_nothing_about_the_prior_are_refused(apart: float, refused: bool) -> None:
    log_proba = np.log([[0.5 + apart / 4, 0.5 - apart / 4], [0.5 - apart / 4, 0.5 + apart / 4]])
    if refused:
        with pytest.raises(InvalidInputError, match="say nothing about the class prior"):
            estimate_prior(log_proba, np.array([0.5, 0.5]), np.array([0, 1]))
    else:
        found = estimate_prior(log_proba, np.array([0.5, 0.5]), np.array([0, 1]))
        assert found.std_error[0] == pytest.approx(1.0 / np.sqrt(2.0) / apart, rel=1e-3)


@pytest.mark.parametrize(("apart", "refused"), [(0.9e-8, True), (1.2e-8, False)])
def test_rows_that_are_all_alike_are_refused(apart: float, refused: bool) -> None:
    log_proba = np.log([[0.6, 0.4], [0.6, 0.4]]) + np.array([[0.0, 0.0], [0.0, apart]])
    if refused:
        with pytest.raises(InvalidInputError, match="say nothing about the class prior"):
            estimate_prior(log_proba, np.array([0.5, 0.5]), np.array([0, 1]))
    else:
        assert estimate_prior(log_proba, np.array([0.5, 0.5]), np.array([0, 1]))[0] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("tol", "iterations"), [(1e-4, 22), (1e-8, 37)])
def test_iterations_of_em(tol: float, iterations: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=300) + np.where(rng.random(300) < 0.2, 1.0, -1.0)
    log_proba = log_softmax(np.column_stack([np.zeros(300), 2.0 * a]))
    found = estimate_prior(log_proba, np.array([0.5, 0.5]), np.array(["no", "yes"]), tol=tol)
    assert found.n_iter == iterations and found.gap <= tol
    # The optimum, by its own equation: the mean of the posteriors is the prior.
    R = np.exp(2.0 * a)
    p = found["yes"]
    assert (R * p / (R * p + 1.0 - p)).mean() == pytest.approx(p, abs=1e-3)


def test_em_ends_after_ten_thousand_iterations() -> None:
    """Rows that are all a little more probable under one class: its share goes to one by a thousandth a step."""
    log_proba = np.log([[0.5, 0.4995], [0.5, 0.4995], [0.5, 0.4990]]) - np.log(0.9995)
    assert estimate_prior(log_proba, np.array([0.5, 0.5]), np.array([0, 1]), tol=1e-9).n_iter == 10_000
