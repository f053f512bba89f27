"""Scores against scikit-learn and R, their parts and their intervals."""

import pickle
import warnings
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtri
from sklearn import metrics
from sklearn.linear_model import LogisticRegression as Theirs
from sklearn.svm import LinearSVC
from tests.reference_data import Case, cases

from oddsmith import (
    REJECT,
    GaussianClassifier,
    LeastSquaresClassifier,
    LogisticRegression,
    decide,
    evaluate,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning, UnknownNameError
from oddsmith.evaluation.bootstrap import (
    GROUPS,
    auc_interval,
    bca_interval,
    log_odds_interval,
    resample,
    wilson_interval,
)
from oddsmith.evaluation.model_output import ModelOutput
from oddsmith.evaluation.sums import add_auc, auc_of, placements
from oddsmith.numerics import softmax


@dataclass
class Stated:
    """A model whose rows are its probabilities."""

    classes_: Any

    def predict_proba(self, P: Any) -> Any:
        return P

    def predict(self, P: Any) -> Any:
        return self.classes_[np.asarray(P).argmax(axis=1)]


def drawn(K: int, n: int = 400, seed: int = 0, slope: float = 1.3) -> tuple[Stated, Any, Any]:
    """Stated probabilities, some of them equal, and labels that follow others."""
    rng = np.random.default_rng(seed)
    A = (1.5 * rng.normal(size=(n, K))).round(1)
    t = (A + rng.gumbel(size=A.shape)).argmax(axis=1)
    classes = np.array(["ash", "birch", "cedar", "elm"])[:K]
    return Stated(classes), softmax(slope * A), classes[t]


@pytest.mark.parametrize("K", [2, 3, 4])
def test_scores_equal_scikit_learns(K: int) -> None:
    model, P, y = drawn(K)
    found = evaluate(model, P, y)
    T = y[:, None] == model.classes_
    exact = {"rel": 1e-12, "abs": 1e-14}
    assert found.log_loss == pytest.approx(metrics.log_loss(y, P, labels=model.classes_), **exact)
    assert found.accuracy == metrics.accuracy_score(y, model.predict(P))
    assert (found.confusion == metrics.confusion_matrix(y, model.predict(P))).all()
    if K == 2:
        assert found.brier == pytest.approx(metrics.brier_score_loss(y, P[:, 1], pos_label="birch"), **exact)
        assert found.auc == pytest.approx(metrics.roc_auc_score(y, P[:, 1]), **exact)
    else:
        assert found.brier == pytest.approx(((P - T) ** 2).sum(axis=1).mean(), **exact)
        assert found.auc == pytest.approx(metrics.roc_auc_score(y, P, multi_class="ovr"), **exact)
    parts = found.brier_reliability - found.brier_resolution + found.brier_uncertainty
    assert found.brier == pytest.approx(parts, **exact)


def test_impossible_answers_cost_what_they_cost_in_scikit_learn() -> None:
    model = Stated(np.array([0, 1]))
    P, y = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]), np.array([1, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert evaluate(model, P, y).log_loss == pytest.approx(metrics.log_loss(y, P), rel=1e-12)


def test_brier_of_several_classes_is_scikit_learns() -> None:
    model, P, y = drawn(3)
    try:
        expected = metrics.brier_score_loss(y, P, labels=model.classes_)
    except (TypeError, ValueError):
        pytest.skip("this version of scikit-learn has it for two classes only")
    assert evaluate(model, P, y).brier == pytest.approx(expected, rel=1e-12)


@given(st.integers(2, 4), st.integers(1, 12), st.integers(0, 2**32 - 1))
def test_brier_parts_add_up_and_are_those_of_the_bins(K: int, bins: int, seed: int) -> None:
    model, P, y = drawn(K, 60, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evaluate(model, P, y, bins=bins, replicates=100)
    parts = found.brier_reliability - found.brier_resolution + found.brier_uncertainty
    assert found.brier == pytest.approx(parts, abs=1e-14)
    assert found.brier_reliability >= 0 and 0 <= found.calibration_error <= 1
    if bins == 1 and K == 2:
        t = y == "birch"
        assert found.calibration_error == pytest.approx(abs(P[:, 1].mean() - t.mean()), abs=1e-14)
        assert found.brier_uncertainty == pytest.approx(t.mean() * (1 - t.mean()), abs=1e-14)


def test_constant_probabilities_within_bins_give_murphys_parts() -> None:
    """With one probability a bin, resolution is the spread of the bins' frequencies, as in the textbook."""
    rng = np.random.default_rng(0)
    p = np.repeat([0.1, 0.4, 0.8], 50)
    t = rng.random(150) < p**2
    found = evaluate(Stated(np.array([False, True])), np.column_stack([1 - p, p]), t, bins=3)
    means = np.array([t[p == q].mean() for q in (0.1, 0.4, 0.8)])
    assert found.brier_reliability == pytest.approx(((means - [0.1, 0.4, 0.8]) ** 2).mean(), abs=1e-14)
    assert found.brier_resolution == pytest.approx(((means - t.mean()) ** 2).mean(), abs=1e-14)


@pytest.mark.parametrize("case", cases("calibration_*"), ids=str)
def test_slope_intercept_and_auc_equal_r(case: Case) -> None:
    p = np.array(case.expected["stated"])
    P = np.column_stack([1.0 - p, p]) if p.ndim == 1 else p
    found = evaluate(Stated(np.array(case.classes)), P, case.y)
    assert found.calibration_slope == pytest.approx(case.expected["slope"], rel=1e-7)
    if p.ndim == 2:
        shifts = np.array(case.expected["shifts"])
        np.testing.assert_allclose(found.calibration_intercept, shifts - shifts.mean(), rtol=1e-6, atol=1e-8)
        assert "calibration_intercept[setosa]" in found.to_dict()["score"]
        return
    assert found.calibration_intercept == pytest.approx(case.expected["intercept"], rel=1e-7)
    assert found.auc == pytest.approx(case.expected["auc"], rel=1e-12)


@pytest.mark.parametrize("case", cases("auc_*"), ids=str)
def test_the_interval_of_an_auc_is_that_of_proc_on_the_scale_of_log_odds(case: Case) -> None:
    """AUC 0.993 and 0.643, with ties; DeLong's own interval, which goes up to 1 and beyond, is near."""
    p = np.array(case.expected["stated"])
    found = evaluate(Stated(np.array(case.classes)), np.column_stack([1.0 - p, p]), case.y, replicates=100)
    assert found.auc == pytest.approx(case.expected["auc"], rel=1e-12)
    output = ModelOutput.of_probabilities(
        np.array([0, 1]), np.searchsorted(case.classes, case.y), np.column_stack([1.0 - p, p])
    )
    error = add_auc(output).error
    np.testing.assert_allclose(log_odds_interval(found.auc, error, 0.95), case.expected["log_odds"], rtol=1e-9)
    assert found.scores["auc"].interval == "DeLong"
    (low, high), known = found.interval("auc"), case.expected["log_odds"]
    assert low <= known[0] + 1e-12 and known[1] - 1e-12 <= high  # widened where few rows are out of order
    np.testing.assert_allclose((low, high), case.expected["delong"], atol=0.006)


def delong(values: Any, positive: Any) -> tuple[float, Any]:
    """The mean and the placements of both sides, from all pairs: no ranks."""
    pairs = values[positive][:, None] - values[~positive]
    kernel = (pairs > 0) + 0.5 * (pairs == 0)
    return kernel.mean(), (kernel.mean(axis=1), kernel.mean(axis=0))


@pytest.mark.parametrize(("K", "n"), [(2, 60), (3, 60), (2, GROUPS + 400)])
def test_the_error_of_an_auc_is_delongs_from_all_pairs(K: int, n: int) -> None:
    model, P, y = drawn(K, n, slope=3.0)
    areas, influence = [], np.zeros(n)
    for k in [1] if K == 2 else range(K):
        positive = y == model.classes_[k]
        area, sides = delong(P[:, k], positive)
        for side, place in zip((positive, ~positive), sides, strict=True):
            influence[side] += (place - area) / np.sqrt(len(place) * (len(place) - 1))
        areas.append(area)
    area, error = np.mean(areas), np.sqrt((influence**2).sum()) / len(areas)
    t = np.searchsorted(model.classes_, y)
    assert add_auc(ModelOutput.of_probabilities(model.classes_, t, P)).error == pytest.approx(error, rel=1e-9)
    low, high = evaluate(model, P, y, replicates=100).interval("auc")
    width = np.log(high / (1 - high)) - np.log(low / (1 - low))
    assert width >= 2 * 1.9599 * error / (area * (1 - area))


@pytest.mark.parametrize(
    ("area", "rows", "spread", "held_by_delong"),
    [(0.8, (100, 100), 1.0, True), (0.98, (100, 100), 1.0, True), (0.99, (300, 30), 2.0, False)],
)
def test_the_interval_of_an_auc_holds_it_as_often_as_it_says(
    area: float, rows: tuple[int, int], spread: float, held_by_delong: bool
) -> None:
    """Two normal densities, 400 repeats: 95 ± 3.3 of 100 (3 σ); more near 1, where DeLong's alone holds 72."""
    rng, held, held_alone = np.random.default_rng(0), 0, 0
    t = np.repeat([0, 1], rows)
    far = ndtri(area) * np.sqrt(1.0 + spread**2)
    for _ in range(400):
        p = expit(rng.normal(size=len(t)) * np.where(t == 1, spread, 1.0) + far * t)
        output = ModelOutput.of_probabilities(np.array([0, 1]), t, np.column_stack([1 - p, p]))
        value, error = auc_of(output), add_auc(output).error
        if value == 1.0:
            held, held_alone = held + 1, held_alone + 1
            continue
        low, high = auc_interval(value, error, rows, 0.95)
        alone = log_odds_interval(value, error, 0.95)
        assert low <= alone[0] + 1e-12 and alone[1] - 1e-12 <= high < 1.0
        held, held_alone = held + (low <= area <= high), held_alone + (alone[0] <= area <= alone[1])
    assert 0.915 <= held / 400 <= 0.99 and (held_alone / 400 >= 0.915) == held_by_delong


def test_a_widened_interval_of_an_auc_is_delongs_where_rows_are_many() -> None:
    error = 0.002
    np.testing.assert_allclose(
        auc_interval(0.98, error, (50_000, 40_000), 0.95), log_odds_interval(0.98, error, 0.95), atol=2e-4
    )
    assert np.allclose(
        auc_interval(0.01, 0.002, (30, 300), 0.95), 1.0 - np.array(auc_interval(0.99, 0.002, (30, 300), 0.95))[::-1]
    )


def test_a_side_of_one_row_says_little_about_an_auc() -> None:
    p, t = np.linspace(0.1, 0.9, 50), np.arange(50) == 40
    low, high = evaluate(Stated(np.array([0, 1])), np.column_stack([1 - p, p]), t * 1, replicates=100).interval("auc")
    assert low < 0.1 and high > 0.95


@pytest.mark.parametrize("seed", [1, 7, 12])
def test_every_interval_holds_its_estimate_on_the_rows_of_the_fit(seed: int) -> None:
    """There, calibration is better than chance allows. An interval was [0, 0] around 0.0022 (seed 7)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 8))
    y = (X[:, 0] + rng.logistic(size=300) > 0).astype(int)
    found = evaluate(LogisticRegression().fit(X, y), X, y, replicates=400)
    for name in ("calibration_error", "brier_reliability"):
        low, high = found.interval(name)
        assert low == 0.0 and high >= getattr(found, name) > 0.0, name


def test_placement_values_give_delongs_standard_error() -> None:
    for case in cases("calibration_*"):
        if "auc_std_error" in case.expected:
            positive = case.y == case.classes[1]
            place = placements(np.array(case.expected["stated"]), positive)
            up, down = place[positive], place[~positive]
            error = np.sqrt(up.var(ddof=1) / len(up) + down.var(ddof=1) / len(down))
            assert error == pytest.approx(case.expected["auc_std_error"], rel=1e-10)


def test_costs_are_those_of_the_decisions() -> None:
    model, P, y = drawn(3)
    loss, reject = np.array([[0.0, 1.0], [4.0, 0.5], [2.0, 0.0]]), 0.8
    actions = decide(P, loss, reject, classes=model.classes_, actions=["go", "stay"])
    named = {c: {"go": row[0], "stay": row[1]} for c, row in zip(model.classes_.tolist(), loss, strict=True)}
    found = evaluate(model, P, y, named, reject=reject)
    place = {"ash": 0, "birch": 1, "cedar": 2}
    realised = [0.8 if a is REJECT else named[c][a] for c, a in zip(y.tolist(), actions.tolist(), strict=True)]
    expected = [
        0.8 if a is REJECT else sum(p[place[c]] * named[c][a] for c in place)
        for p, a in zip(P, actions.tolist(), strict=True)
    ]
    assert found.realised_cost == pytest.approx(np.mean(realised), rel=1e-12)
    assert found.expected_cost == pytest.approx(np.mean(expected), rel=1e-12)
    assert found.rejected == pytest.approx(np.mean(actions == REJECT)) and 0 < found.rejected < 1
    assert found.decisions == ["go", "stay", REJECT]
    for k, label in enumerate(model.classes_):
        inside = actions[y == label]
        assert found.confusion[k].tolist() == [sum(a is d or a == d for a in inside) for d in found.decisions]
    plain = evaluate(model, P, y, 1.0 - np.eye(3))
    assert plain.decisions == ["ash", "birch", "cedar"]
    assert plain.realised_cost == pytest.approx(1.0 - plain.accuracy)


def test_models_of_scikit_learn_and_those_without_probabilities() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    assert evaluate(Theirs().fit(X, y), X, y).accuracy == Theirs().fit(X, y).score(X, y)
    for model in (LinearSVC().fit(X, y), LeastSquaresClassifier().fit(X, y)):
        found = evaluate(model, X, y)
        assert list(found.scores) == ["auc", "accuracy"] and np.isnan(found.log_loss)
        assert found.auc == pytest.approx(metrics.roc_auc_score(y, model.decision_function(X)), rel=1e-12)
        with pytest.raises(InvalidTypeError, match="no probabilities"):
            evaluate(model, X, y, loss=[[0, 1], [1, 0]])


def test_the_record_prints_travels_and_becomes_a_table() -> None:
    model, P, y = drawn(2)
    found = evaluate(model, P, y)
    assert found.to_pandas().shape == (10, 5) and "log_loss" in str(found)
    assert found.to_polars().columns == ["score", "estimate", "lower", "upper", "interval"]
    assert pickle.loads(pickle.dumps(found)).auc == found.auc
    assert evaluate(model, P, y).scores == found.scores, "the same seed gives the same intervals"
    with pytest.raises(AttributeError):
        found.acuracy  # noqa: B018
    with pytest.raises(InvalidInputError, match="The scores are: log_loss"):
        found.interval("acuracy")


# --------------------------------------------------------------------------------------------- intervals


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """A quick look at what benchmarks/coverage.py measures at length: 200 repeats, so 95 ± 4.6 of 100 (3 σ)."""
    true = {"calibration_slope": 1 / 1.3, "calibration_intercept": 0.0}
    model, P, y = drawn(2, 400_000, 99)
    whole = evaluate(model, P, y, replicates=100)
    true |= {name: getattr(whole, name) for name in ("log_loss", "brier", "auc", "accuracy", "calibration_error")}
    held = dict.fromkeys(true, 0)
    for seed in range(200):
        model, P, y = drawn(2, 300, seed)
        found = evaluate(model, P, y, replicates=300)
        for name, value in true.items():
            low, high = found.interval(name)
            held[name] += low <= value <= high
    assert all(0.90 <= count / 200 <= 0.995 for count in held.values()), held


def test_groups_of_rows_give_the_intervals_that_rows_give(monkeypatch: pytest.MonkeyPatch) -> None:
    model, P, y = drawn(3, 3000)
    rowwise = evaluate(model, P, y)
    monkeypatch.setattr("oddsmith.evaluation.bootstrap.GROUPS", 600)
    grouped = evaluate(model, P, y)
    for name in rowwise.scores:
        if name in ("brier_uncertainty", "calibration_error", "brier_reliability"):
            continue  # at the edge of what they can be
        a, b = (np.diff(found.interval(name)).item() for found in (rowwise, grouped))
        assert a == pytest.approx(b, rel=0.2), name
    assert GROUPS == 4096


def test_resampled_sums_are_those_of_resampled_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    sums = resample({"n": np.ones((50, 1)), "x": x[:, None]}, 3000, rng)
    means = sums["x"][:, 0] / sums["n"][:, 0]
    assert (sums["n"] == 50).all()
    assert means.std() == pytest.approx(x.std() / np.sqrt(50), rel=0.05)
    assert means.mean() == pytest.approx(x.mean(), abs=4 * x.std() / np.sqrt(50 * 3000))


def test_bca_interval_is_scipys() -> None:
    from scipy.stats import bootstrap

    x = np.random.default_rng(0).exponential(size=60)
    seed = "rng" if "rng" in signature(bootstrap).parameters else "random_state"  # older versions of SciPy
    theirs = bootstrap((x,), np.mean, method="BCa", n_resamples=20_000, **{seed: np.random.default_rng(1)})
    draws = np.random.default_rng(2).choice(x, (20_000, 60)).mean(axis=1)
    ours = bca_interval(x.mean(), draws, (x.sum() - x) / 59, 0.95)
    np.testing.assert_allclose(ours, theirs.confidence_interval, rtol=0.02)


@given(st.integers(1, 300), st.floats(0, 1), st.sampled_from([0.5, 0.9, 0.95]))
def test_wilsons_interval_is_scipys(n: int, share: float, level: float) -> None:
    from scipy.stats import binomtest

    k = round(share * n)
    expected = binomtest(k, n).proportion_ci(level, method="wilson")
    np.testing.assert_allclose(wilson_interval(k / n, n, level), expected, atol=1e-12)


def test_a_perfect_model_is_not_certain() -> None:
    model = Stated(np.array([0, 1]))
    y = np.arange(40) % 2
    P = np.where(y[:, None] == [0, 1], 0.9, 0.1)
    found = evaluate(model, P, y)
    assert found.auc == found.accuracy == 1.0 and found.calibration_slope == np.inf
    assert found.interval("auc") == (pytest.approx(0.025 ** (1 / 20)), 1.0)
    assert found.interval("accuracy")[0] == pytest.approx(0.9124, abs=1e-4)
    assert np.isnan(found.calibration_intercept)


# --------------------------------------------------------------------------------------------- bad input


def test_rows_of_one_class_are_scored_as_far_as_they_can_be() -> None:
    model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["a", "a", "b", "b"])
    with pytest.warns(OddsmithWarning, match="All rows are of class 'a'"):
        found = evaluate(model, [[0.0], [1.0], [2.0]], ["a", "a", "a"])
    assert np.isnan(found.auc) and np.isnan(found.calibration_slope) and np.isfinite(found.log_loss)
    with pytest.warns(OddsmithWarning, match="All rows are of class 'b'"):
        single = evaluate(model, [[1.0]], ["b"])
    assert np.isfinite(single.log_loss) and np.isnan(single.interval("log_loss")).all()


def test_a_class_without_rows_is_left_out_of_auc_and_calibration() -> None:
    model, P, y = drawn(3)
    inside = y != "cedar"
    found = evaluate(model, P[inside], y[inside])
    areas = [metrics.roc_auc_score(y[inside] == c, P[inside][:, k]) for k, c in enumerate(["ash", "birch"])]
    assert found.auc == pytest.approx(np.mean(areas), rel=1e-12)
    pair = P[inside][:, :2] / P[inside][:, :2].sum(axis=1, keepdims=True)
    alone = evaluate(Stated(model.classes_[:2]), pair, y[inside])
    assert found.calibration_slope == pytest.approx(alone.calibration_slope, rel=1e-9)
    assert found.confusion.shape == (3, 3)


def test_bad_input_is_refused_in_words() -> None:
    model, P, y = drawn(2)
    refused: list[tuple[Any, type[Exception], str]] = [
        ((model, P, ["ash"] * 399 + ["oak"]), UnknownNameError, "Unknown class in y 'oak'"),
        ((model, P[:10], y), InvalidInputError, "10 rows and y 400"),
        ((model, P * 2, y), InvalidInputError, "between 0 and 1|sum to"),
        ((model, P[:0], y[:0]), InvalidInputError, "no rows"),
        ((LogisticRegression(), P, y), InvalidTypeError, "fitted classifier"),
        ((model, P, y, np.ones((3, 2))), InvalidInputError, "expected 2 × A"),
        ((model, P, np.arange(400)), InvalidTypeError, "text and numbers"),
        ((model, P, [None, *y[1:]]), InvalidInputError, "y contains missing values .* the first in row 0"),
    ]
    for arguments, error, words in refused:
        with pytest.raises(error, match=words):
            evaluate(*arguments)
    for settings in ({"bins": 0}, {"level": 95}, {"replicates": 10}, {"seed": "x"}):
        with pytest.raises(InvalidInputError, match=next(iter(settings))):
            evaluate(model, P, y, **settings)  # type: ignore[arg-type]


def test_labels_may_be_a_column_of_a_table() -> None:
    import pandas

    table = pandas.DataFrame({"x": [0.0, 2.0, 1.0, 3.0, 1.5], "kind": ["a", "a", "b", "b", "b"]})
    model = GaussianClassifier().fit(table, y="kind")
    assert evaluate(model, table, "kind").accuracy == model.score(table[["x"]], table["kind"])


def test_one_row_has_no_interval_by_the_bootstrap() -> None:
    model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], [0, 0, 1, 1])
    with pytest.warns(OddsmithWarning, match="All rows are of class"):
        found = evaluate(model, [[1.0]], [0])
    for name, score in found.scores.items():
        assert score.interval == "Wilson" or np.isnan(found.interval(name)).all(), name


# ------------------------------------------------------------------------------------- degenerate probabilities


@pytest.mark.parametrize("spread", [0.0, 1e-15, 1e-11, 1e-9, 1e-7])
def test_probabilities_that_hardly_differ_have_no_calibration_slope(spread: float) -> None:
    """Their slope was −4e8 or so: noise, divided by a spread that is next to nothing."""
    rng = np.random.default_rng(0)
    p, t = 0.3 + spread * rng.normal(size=200), rng.integers(0, 2, 200)
    found = evaluate(Stated(np.array([0, 1])), np.column_stack([1 - p, p]), t, replicates=100)
    assert np.isnan([found.calibration_slope, found.calibration_intercept]).all()
    assert np.isfinite(found.log_loss)


def test_an_exact_zero_counts_as_in_the_log_loss() -> None:
    rng = np.random.default_rng(0)
    p = rng.integers(0, 11, 500) / 10
    t = (rng.random(500) < 0.1 + 0.8 * p).astype(int)
    found = evaluate(Stated(np.array([0, 1])), np.column_stack([1 - p, p]), t, replicates=100)
    raised = np.clip(p, np.finfo(float).eps, 1 - np.finfo(float).eps)
    logit = np.log(raised / (1 - raised))
    expected = Theirs(C=np.inf, tol=1e-10, max_iter=1000).fit(logit[:, None] / 10, t).coef_.item() / 10
    assert found.calibration_slope == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("gap", [None, np.nan])
def test_missing_labels_are_named_or_dropped(gap: Any) -> None:
    """The error named a class that the model knows."""
    x = np.linspace(-2.0, 2.0, 40)
    y = np.where(np.arange(40) % 3 == 0, "no", "yes").astype(object)
    model = LogisticRegression(1.0).fit(x[:, None], y.astype(str))
    y[7] = gap
    for score in (evaluate, LogisticRegression.score):
        with pytest.raises(InvalidInputError, match=r"y contains missing values .*the first in row 7; every row needs"):
            score(model, x[:, None], y)
    named = LogisticRegression(1.0).fit(pa.table({"x": x, "y": np.where(y == "no", "no", "yes")}), "y")
    table = pa.table({"x": x, "y": [None if label is gap else label for label in y]})
    found = evaluate(named, table, "y", unlabelled="drop")
    expected = evaluate(named, table.filter(table["y"].is_valid()), "y")
    assert found.n_rows == 39 and found.log_loss == expected.log_loss
    with pytest.raises(UnknownNameError, match="Unknown unlabelled 'guess'"):
        evaluate(named, table, "y", unlabelled="guess")
