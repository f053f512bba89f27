"""Reading of linear hypotheses, and Wald's statistic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.hypotheses import ChiSquareTest, read_hypotheses, wald_test

TERMS = ["(intercept)", "age", "age2", "log dose", "x-y"]
PAIRS = [("a", "age"), ("a", "lwt"), ("b", "age"), ("b", "lwt")]


@pytest.mark.parametrize(
    ("text", "row", "side"),
    [
        ("age = 0", [0, 1, 0, 0, 0], 0),
        ("age", [0, 1, 0, 0, 0], 0),
        ("age2 = age", [0, -1, 1, 0, 0], 0),
        ("2*age - 0.5*log dose = 1", [0, 2, 0, -0.5, 0], 1),
        ("3 = age + x-y", [0, -1, 0, 0, -1], -3),
        ("-age = -1e-3", [0, -1, 0, 0, 0], -1e-3),
        ("(intercept) + age + age = 2 - 1", [1, 2, 0, 0, 0], 1),
    ],
)
def test_text_is_read_as_an_equation(text: str, row: list[float], side: float) -> None:
    R, r, _ = read_hypotheses(text, None, TERMS)
    assert R.tolist() == [row] and r.tolist() == [side]


def test_equations_and_classes() -> None:
    R, r, _ = read_hypotheses("age[a] = age[b], lwt[b] = 2", None, PAIRS)
    assert R.tolist() == [[1, 0, -1, 0], [0, 0, 0, 1]] and r.tolist() == [0, 2]
    same, _, text = read_hypotheses([{("a", "age"): 1, "age[b]": -1}, {("b", "lwt"): 1}], [0, 2], PAIRS)
    assert same.tolist() == R.tolist() and text == "age[a] - age[b] = 0, lwt[b] = 2"


@given(seed=st.integers(0, 2**32 - 1))
def test_written_hypotheses_read_back_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    R = rng.integers(-3, 4, size=(2, 4)).astype(float)
    R[:, 0] = [1.0, -2.0]
    r = rng.integers(-2, 3, 2).astype(float)
    labels = ["a", "b", "aa", "c d"]
    text = read_hypotheses(R, r, labels)[2]
    again, side, _ = read_hypotheses(text, None, labels)
    np.testing.assert_array_equal(again, R)
    np.testing.assert_array_equal(side, r)


@pytest.mark.parametrize(
    ("R", "r", "words"),
    [
        ("agee = 0", None, "Unknown weight 'agee'.*Did you mean 'age'"),
        ("age = 0 = 1", None, "two '='"),
        ("* age = 0", None, "no number before it"),
        ("1 = 2", None, "without any weight"),
        ("age = 0", [0], "leave out r"),
        ({"wt": 1}, None, "Unknown weight 'wt'"),
        ([[1.0, 2.0]], None, "5 columns"),
        ([[np.nan] * 5], None, "finite"),
        ("", None, "without any weight"),
        (np.eye(5), [1.0, 2.0], "expected 5 numbers"),
        (object(), None, "must be a matrix"),
        ("2*3*age = 0", None, "no number before it|cannot be read"),
        ("age age2 = 0", None, "'age2' where it cannot be read"),
        ("age - -age2 = 0", None, "'-' where it cannot be read"),
        ("age = 2 3", None, "3.0 where it cannot be read"),
        ("age =", None, "ends too early"),
        ({"age": "much"}, None, "must be a number"),
        ({"age": 1}, "much", "must be numeric"),
        ({"age": 1}, np.nan, "finite"),
    ],
)
def test_bad_hypotheses_are_refused(R: object, r: object, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        read_hypotheses(R, r, TERMS)


def test_unknown_names_are_their_own_error() -> None:
    with pytest.raises(UnknownNameError):
        read_hypotheses("weight = 0", None, TERMS)


@given(seed=st.integers(0, 2**32 - 1))
def test_wald_statistic_does_not_depend_on_how_the_hypothesis_is_written(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, A, w = rng.normal(size=(4, 4)), rng.normal(size=(2, 4)), rng.normal(size=4)
    V = root @ root.T + 0.1 * np.eye(4)
    expected = (A @ w) @ np.linalg.solve(A @ V @ A.T, A @ w)
    mixed = np.array([[2.0, 1.0], [-1.0, 3.0], [1.0, 1.0]]) @ A  # the third follows from the others
    for B in (A, mixed):
        test = wald_test(B @ w, B, V)
        assert test.statistic == pytest.approx(expected, rel=1e-6) and test.df == 2


def test_contradictions_and_empty_hypotheses_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="contradict"):
        wald_test(np.array([1.0, 3.0]), np.array([[1.0], [2.0]]), np.eye(1))
    with pytest.raises(InvalidInputError, match="concern no estimated weight"):
        wald_test(np.zeros(1), np.zeros((1, 2)), np.eye(2))


def test_a_test_prints_its_hypothesis() -> None:
    printed = str(ChiSquareTest("Wald", 4.0, 1, "age = 0"))
    assert "hypothesis: age = 0" in printed and "0.0455" in printed


def test_two_weights_of_one_name_are_not_guessed() -> None:
    terms = ["(intercept)", "age", "(intercept)"]
    for R in ("(intercept) = 0", {"(intercept)": 1}):
        with pytest.raises(InvalidInputError, match="2 weights are called"):
            read_hypotheses(R, None, terms)


def test_weights_of_a_reference_class_are_zero() -> None:
    labels, zero = [("b", "age"), ("c", "age")], [("a", "age")]
    for hypothesis in ("age[b] = age[a]", {("b", "age"): 1, "age[a]": -1}):
        R, r, _ = read_hypotheses(hypothesis, None, labels, zero)
        assert R.tolist() == [[1.0, 0.0]] and r.tolist() == [0.0]
