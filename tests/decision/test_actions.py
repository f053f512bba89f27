"""Decisions against exhaustive minimisation, their ties, names and refusals."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith import REJECT, decide, decision_regions, expected_loss
from oddsmith.decision import threshold_for
from oddsmith.decision.loss import _few
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError


def cheapest(p: Any, loss: Any) -> int:
    """The action of smallest expected loss by going through them all, in plain Python."""
    costs = [sum(float(p[k]) * float(loss[k][a]) for k in range(len(p))) for a in range(len(loss[0]))]
    return min(range(len(costs)), key=costs.__getitem__)


def test_decisions_equal_exhaustive_minimisation_on_1000_random_cases() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1000):
        K, A = rng.integers(2, 7), rng.integers(1, 8)
        p, loss = rng.dirichlet(np.ones(K)), rng.normal(size=(K, A))
        assert decide(p[None], loss, actions=range(A)).tolist() == [cheapest(p, loss)]
        costs = expected_loss(p[None], loss, actions=range(A))
        assert costs.shape == (1, A)
        np.testing.assert_allclose(costs[0], [sum(p[k] * loss[k, a] for k in range(K)) for a in range(A)], rtol=1e-12)


@given(st.integers(2, 6), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_equal_errors_give_the_most_probable_class_and_reject_exactly_above_the_cost(
    K: int, c: float, seed: int
) -> None:
    P = np.random.default_rng(seed).dirichlet(np.ones(K), 50)
    assert decide(P).tolist() == P.argmax(axis=1).tolist()
    assert decide(P, 3.0 * (1.0 - np.eye(K))).tolist() == P.argmax(axis=1).tolist()
    decided = decide(P, reject=c)
    assert ((decided == REJECT) == (1.0 - P.max(axis=1) > c)).all()
    assert decided[decided != REJECT].tolist() == P.argmax(axis=1)[decided != REJECT].tolist()


def test_reject_is_exact_at_the_edge() -> None:
    p = 0.7
    for c in (0.3, np.nextafter(1 - p, 0.0), 1 - p, np.nextafter(1 - p, 1.0)):
        assert (decide([[p, 1 - p]], reject=c)[0] is REJECT) == (1 - p > c)


def test_a_cost_that_only_rounding_puts_above_that_of_rejecting_is_kept() -> None:
    costs = [[0.0, 1.0], [3.0, 0.0]]
    assert 0.1 * 3.0 > 0.3  # in floating point alone
    assert decide([[0.9, 0.1]], costs, reject=0.3).tolist() == [0]
    assert decide([[0.9, 0.1]], costs, reject=0.3 - 1e-9)[0] is REJECT


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 5e-4)])
def test_probabilities_may_sum_to_one_within_the_rounding_of_their_type(dtype: Any, tolerance: float) -> None:
    for sign in (-1.0, 1.0):
        decide(np.array([[0.5, 0.5 + 0.95 * sign * tolerance]], dtype=dtype))
        with pytest.raises(InvalidInputError, match="sum to"):
            decide(np.array([[0.5, 0.5 + 1.05 * sign * tolerance]], dtype=dtype))
    decide(np.array([[1.0 + 0.45 * tolerance, -0.45 * tolerance]], dtype=dtype))
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        decide(np.array([[1.0 + 1.05 * tolerance, -1.05 * tolerance]], dtype=dtype))


def test_reject_is_one_more_action() -> None:
    rng = np.random.default_rng(1)
    P, loss, costs = rng.dirichlet(np.ones(3), 200), rng.random((3, 4)) + 0.1, np.array([0.4, 0.1, 0.2])
    whole = np.column_stack([loss, costs])
    expected = [REJECT if cheapest(p, whole) == 4 else cheapest(p, whole) for p in P]
    assert decide(P, loss, reject=costs).tolist() == expected
    assert REJECT in expected and 0 in expected
    assert decide(P, loss, reject=dict(enumerate(costs))).tolist() == expected
    assert expected_loss(P, loss, reject=costs).shape == (200, 5)


def test_ties_go_to_the_first_action_and_never_to_rejecting() -> None:
    P = [[0.5, 0.5], [0.3, 0.7]]
    assert decide(P[:1]).tolist() == [0]
    assert decide(P[:1], reject=0.5).tolist() == [0]
    # Costs that are equal in mathematics and differ in the last digit: 0.1 · 3 + 0.2 · 3 and 0.3 · 3, say.
    thirds = np.array([[0.1, 0.2, 0.7]])
    loss = np.array([[3.0, 0.9 / 0.1 * 1.0], [3.0, 0.0], [0.0, 0.0]])
    costs = expected_loss(thirds, loss, actions="ab")
    assert abs(costs[0, 0] - costs[0, 1]) < 1e-15
    assert decide(thirds, loss, actions="ab").tolist() == ["a"]
    assert decide(thirds, loss[:, ::-1], actions="ba").tolist() == ["b"]


def test_names_of_classes_and_actions_in_any_order_mean_the_same() -> None:
    P = np.random.default_rng(2).dirichlet(np.ones(3), 100)
    loss = {"c": {"go": 1, "stay": 4}, "a": {"stay": 0, "go": 3}, "b": {"go": 2, "stay": 2}}
    expected = decide(P, [[3, 0], [2, 2], [1, 4]], classes="abc", actions=["go", "stay"])
    named = decide(P, loss, classes=["a", "b", "c"])
    assert named.tolist() == expected.tolist() and set(named) == {"go", "stay"}


def test_a_pandas_table_of_losses_is_read_by_its_names() -> None:
    import pandas

    P = np.random.default_rng(2).dirichlet(np.ones(2), 50)
    table = pandas.DataFrame({"go": [1, 0], "stay": [0, 4]}, index=["b", "a"])
    expected = decide(P, [[0, 4], [1, 0]], classes="ab", actions=["go", "stay"])
    assert decide(P, table, classes=["a", "b"]).tolist() == expected.tolist()
    with pytest.raises(UnknownNameError, match="Unknown class in loss 0"):
        decide(P, table.reset_index(drop=True), classes=["a", "b"])


def test_actions_are_the_classes_or_numbers_unless_named() -> None:
    P = [[0.1, 0.9]]
    assert decide(P, [[0, 1], [1, 0]], classes=["no", "yes"]).tolist() == ["yes"]
    assert decide(P, [[0, 1, 5], [1, 0, 5]], classes=["no", "yes"]).tolist() == [1]
    assert decide(P, [[2], [3]]).tolist() == [0]


def test_the_mark_of_rejection_is_one_object() -> None:
    assert pickle.loads(pickle.dumps(REJECT)) is REJECT and copy.deepcopy(REJECT) is REJECT
    assert (np.array([REJECT, "a", 1], dtype=object) == REJECT).tolist() == [True, False, False]
    assert decide([[0.5, 0.5]], reject=1.0).dtype == object
    assert f"{REJECT}" == repr(REJECT) == "REJECT"


costs = st.floats(-100, 100).map(lambda x: round(x, 3))


@given(costs, costs, costs, costs)
def test_threshold_is_where_the_decision_changes(l00: float, l01: float, l10: float, l11: float) -> None:
    loss = [[l00, l01], [l10, l11]]
    try:
        threshold = threshold_for(loss)
    except InvalidInputError:
        assert l01 <= l00 or l10 <= l11
        return
    assert 0.0 <= threshold <= 1.0
    for p in np.linspace(0, 1, 41):
        if abs(p - threshold) > 1e-9:
            assert decide([[1 - p, p]], loss).tolist() == [int(p > threshold)]


@given(st.integers(1, 6), st.booleans(), st.integers(0, 2**32 - 1))
def test_regions_are_those_of_the_decisions(A: int, rejecting: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    loss, reject = rng.random((2, A)).round(2), 0.3 if rejecting else None
    regions = decision_regions(loss, reject, actions=range(A))
    assert regions.edges[0] == 0.0 and regions.edges[-1] == 1.0 and (np.diff(regions.edges) > 0).all()
    for p in rng.random(50):
        i = int(np.searchsorted(regions.edges, p)) - 1
        assert decide([[1 - p, p]], loss, reject, actions=range(A))[0] == regions.actions[i]
    assert len(regions.to_dict()["action"]) == len(regions.actions)


HALF = [[0.5, 0.5]]
REFUSED: list[tuple[str, type[Exception], str, dict[str, Any]]] = [
    ("wrong shape", InvalidInputError, r"loss has shape \(3, 2\); expected 2 × A", {"loss": np.ones((3, 2))}),
    ("a vector", InvalidInputError, r"loss has shape \(2,\)", {"loss": [1, 2]}),
    ("NaN", InvalidInputError, "NaN or infinity", {"loss": [[0, np.nan], [1, 0]]}),
    ("words", InvalidTypeError, "must be numeric", {"loss": [["a", "b"], ["c", "d"]]}),
    (
        "unknown class",
        UnknownNameError,
        "Unknown class in loss 'yess'.*Did you mean 'yes'",
        {"loss": {"yess": {"a": 1}, "no": {"a": 1}}, "classes": ["no", "yes"]},
    ),
    (
        "a class without costs",
        InvalidInputError,
        "does not mention class 'yes'",
        {"loss": {"no": {"a": 1}}, "classes": ["no", "yes"]},
    ),
    (
        "an action without cost",
        InvalidInputError,
        "for class 'yes'.*'b' is not on both sides",
        {"loss": {"no": {"a": 1, "b": 2}, "yes": {"a": 1}}, "classes": ["no", "yes"]},
    ),
    ("no mapping inside", InvalidTypeError, "{class: {action: cost}}", {"loss": {0: 1, 1: 2}}),
    ("reject of the wrong length", InvalidInputError, "reject has shape", {"reject": [1, 2, 3]}),
    ("reject of an unknown class", UnknownNameError, "Unknown class in reject", {"reject": {"x": 1}}),
    ("infinite reject", InvalidInputError, "NaN or infinity", {"reject": np.inf}),
    ("two names for three classes", InvalidInputError, "expected 2 different names", {"classes": ["a"]}),
    ("names twice", InvalidInputError, "different names", {"loss": np.ones((2, 2)), "actions": ["a", "a"]}),
    ("actions without loss", InvalidInputError, "no loss", {"actions": ["a", "b"]}),
]


@pytest.mark.parametrize(("error", "words", "arguments"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_bad_losses_are_refused_in_words(error: type[Exception], words: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(error, match=words):
        decide(HALF, **arguments)


@pytest.mark.parametrize(
    ("proba", "error", "words"),
    [
        ([[0.5, 0.6]], InvalidInputError, "row 0 sum to 1.1, not to 1"),
        ([[0.5, 0.5], [0.2, 0.2]], InvalidInputError, "row 1 sum to 0.4"),
        ([[-0.5, 1.5]], InvalidInputError, "between 0 and 1"),
        ([[np.nan, 1.0]], InvalidInputError, "between 0 and 1"),
        ([0.5, 0.5], InvalidInputError, "expected N × K"),
        ([["a", "b"]], InvalidTypeError, "array of numbers"),
    ],
)
def test_bad_probabilities_are_refused_in_words(proba: Any, error: type[Exception], words: str) -> None:
    for function in (decide, expected_loss):
        with pytest.raises(error, match=words):
            function(proba)


def test_probabilities_in_single_precision_are_taken() -> None:
    P = np.random.default_rng(0).dirichlet(np.ones(50), 100).astype(np.float32)
    assert decide(P).tolist() == P.argmax(axis=1).tolist()


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ([[0, 1, 2], [1, 0, 2]], "3 actions"),
        ([[1, 0], [0, 1]], "rewards errors"),
        ([[0, 0], [1, 1]], "does not distinguish"),
        ([[1, 0], [1, 0]], "1 costs less"),
        ([[0, 1], [0, 1]], "0 costs less"),
    ],
)
def test_losses_without_a_threshold_say_why(loss: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        threshold_for(loss)


def test_many_names_are_counted_from_the_ninth_on() -> None:
    assert _few(list("abcdefgh")) == "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'"
    assert _few(list("abcdefghij")).endswith("'h' and 2 more")
