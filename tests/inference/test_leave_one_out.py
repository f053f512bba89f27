"""Approximate leave-one-out, against refits without each row and against R."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine
from tests.bayesian_cases import codes
from tests.reference_data import Case, cases

from oddsmith import LogisticRegression
from oddsmith.errors import InvalidInputError
from oddsmith.inference.leave_one_out import leave_out
from oddsmith.losses import row_losses


def standardised(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return (case.X - case.X.mean(axis=0)) / case.X.std(axis=0), codes(case)


def exact(X: np.ndarray, y: np.ndarray, prior: float, **how) -> np.ndarray:
    """The probabilities of each row by the fit of all others."""
    P, index = [], np.arange(len(y))
    model = LogisticRegression(prior, warm_start=True, **how).fit(X, y)
    for n in index:
        P.append(model.fit(X[index != n], y[index != n]).predict_proba(X[[n]])[0])
    return np.array(P)


@pytest.mark.parametrize("name, prior", [("glm_birthwt", 1.0), ("glm_pima", 0.5), ("glm_infert", 1.0)])
def test_log_loss_is_that_of_refits(name: str, prior: float) -> None:
    X, y = standardised(cases(name)[0])
    found = LogisticRegression(prior).fit(X, y).leave_one_out(X, y)
    P = exact(X, y, prior)
    loss = -np.log(P[np.arange(len(y)), y]).mean()
    assert abs(found.log_loss / loss - 1.0) < 0.0005
    assert np.abs(found.proba - P).max() < 0.003


@pytest.mark.parametrize("prior", [0.5, 7.0])
def test_softmax_log_loss_is_that_of_refits_even_where_single_rows_matter(prior: float) -> None:
    X, y = load_wine(return_X_y=True)
    X, y = ((X - X.mean(axis=0)) / X.std(axis=0))[::2], y[::2]
    found = LogisticRegression(prior).fit(X, y).leave_one_out(X, y)
    P = exact(X, y, prior)
    assert abs(found.log_loss / -np.log(P[np.arange(len(y)), y]).mean() - 1.0) < 0.002


def test_width_of_the_smallest_loss_is_that_of_refits() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = ((X - X.mean(axis=0)) / X.std(axis=0))[::6, :6]
    y = y[::6]
    widths = np.logspace(-1.0, 1.5, 20)
    found = [LogisticRegression(w).fit(X, y).leave_one_out(X, y).log_loss for w in widths]
    k = int(np.argmin(found))
    refits = {j: -np.log(exact(X, y, widths[j])[np.arange(len(y)), y]).mean() for j in range(k - 2, k + 3)}
    assert abs(min(refits, key=refits.__getitem__) - k) <= 1


# For other links R takes the expected information.
LOGIT = [case for case in cases("inference_*") if "probit" not in case.name]


@pytest.mark.parametrize("case", LOGIT, ids=str)
def test_leverage_and_cooks_distance_equal_r(case: Case) -> None:
    model = LogisticRegression().fit(case.X, case.y, sample_weight=case.weights)
    found = model.leave_one_out(case.X, case.y, sample_weight=case.weights)
    there = np.array([v is not None for v in case.expected["leverage"]])
    leverage = np.array(case.expected["leverage"], dtype=float)[there]
    assert np.allclose(found.leverage[: len(there)][there], leverage, rtol=1e-7)
    if case.weights is None:  # R leaves out all of a row's weight
        cook = np.array(case.expected["cooks_distance"], dtype=float)
        assert np.allclose(found.influence[: len(there)], cook, rtol=1e-6)


def test_leverages_add_up_to_the_number_of_weights() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 4)), rng.integers(0, 3, 100)
    model = LogisticRegression().fit(X, y)
    assert np.isclose(model.leave_one_out(X, y).leverage.sum(), 10.0, rtol=1e-9)
    assert LogisticRegression(0.3).fit(X, y).leave_one_out(X, y).leverage.sum() < 9.0


@pytest.mark.parametrize("K", [2, 3])
def test_weight_two_is_the_row_twice(K: int) -> None:
    rng = np.random.default_rng(K)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, K, 60)
    s = rng.integers(0, 3, 60).astype(float)
    s[:K], y[:K] = 1.0, np.arange(K)
    offset = rng.normal(size=60 if K == 2 else (60, K))
    times = s.astype(int)
    weighted = LogisticRegression(1.0).fit(X, y, s, offset).leave_one_out(X, y, sample_weight=s, offset=offset)
    written = (np.repeat(X, times, axis=0), np.repeat(y, times))
    more = np.repeat(offset, times, axis=0)
    twice = LogisticRegression(1.0).fit(*written, None, more).leave_one_out(*written, offset=more)
    assert np.isclose(weighted.log_loss, twice.log_loss, rtol=1e-9)
    assert np.allclose(np.repeat(weighted.proba, times, axis=0), twice.proba, rtol=1e-7)


def test_row_that_determines_a_weight_alone_cannot_be_left_out() -> None:
    # Curvature ¼ times variance 4 is a leverage of 1: nothing is left without the first row.
    for A, B in (
        (np.zeros((2, 1)), np.array([4.0, 1.0])[:, None, None]),
        (np.zeros((2, 2)), np.array([9.0, 1.0])[:, None, None] * np.eye(2)),
    ):
        *_, possible = leave_out(row_losses(A, np.array([1, 0]), None), B, np.ones(2))
        assert possible.tolist() == [False, True]


def test_other_rows_are_refused() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), np.arange(50) % 2
    model = LogisticRegression(1.0).fit(X, y)
    with pytest.raises(InvalidInputError, match="classes"):
        model.leave_one_out(X, np.arange(50) % 3)
    assert model.leave_one_out().log_loss > 0.0  # the rows are still in memory
    assert set(model.leave_one_out().to_dict()) == {"row", "loss", "leverage", "influence"}


@pytest.mark.parametrize("link", ["logit", "loglog", "cauchit"])
def test_rows_that_move_the_weights_far_are_followed_to_the_end(link: str) -> None:
    rng = np.random.default_rng(11)  # nearly separated: without some rows the weights go far, and Newton's step too far
    X = rng.normal(size=(40, 3)) * [1.0, 5.0, 0.2]
    y = (X @ [8.0, -4.0, 2.0] + rng.logistic(size=40) > 0).astype(int)
    found = LogisticRegression(100.0, link=link).fit(X, y).leave_one_out(X, y)
    P = exact(X, y, 100.0, link=link)
    assert abs(found.log_loss / -np.log(P[np.arange(40), y]).mean() - 1.0) < 0.002


def test_rows_without_which_the_weights_are_no_minimum_leave_another_one() -> None:
    rng = np.random.default_rng(2)  # −log of the cauchit is not convex
    X = rng.normal(size=(40, 3)) * [1.0, 5.0, 0.2]
    y = (X @ [6.0, -3.0, 1.5] + rng.logistic(size=40) > 0).astype(int)
    found = LogisticRegression(100.0, link="cauchit").fit(X, y).leave_one_out(X, y)
    for n in np.flatnonzero(np.isnan(found.influence)):  # no Newton step
        rest = LogisticRegression(100.0, link="cauchit", warm_start=True).fit(X, y)
        rest.fit(np.delete(X, n, axis=0), np.delete(y, n))
        assert np.isclose(found.loss[n], -rest.predict_log_proba(X[[n]])[0, y[n]], rtol=1e-3)
    assert np.isnan(found.influence).any()
    assert "most influential" in str(found)


def test_a_loss_too_large_for_any_digit_of_the_others_is_left_out_first() -> None:
    X = np.array([[-3.0], [-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0], [400.0]])
    y = np.array([0, 0, 1, 0, 1, 1, 1, 0])
    found = LogisticRegression(2.0, link="cloglog").fit(X, y).leave_one_out(X, y)
    rest = LogisticRegression(2.0, link="cloglog", tol=1e-12).fit(X[:-1], y[:-1])
    assert np.isclose(np.log(found.loss[-1]), np.log(-rest.predict_log_proba(X[-1:])[0, 0]), rtol=1e-4)
