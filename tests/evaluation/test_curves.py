"""The data of curves against scikit-learn and against going through every threshold."""

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn import metrics
from sklearn.calibration import calibration_curve

from oddsmith import REJECT, GaussianClassifier, LeastSquaresClassifier, LogisticRegression, evaluate
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation import (
    cost_curve,
    precision_recall_curve,
    reliability_curve,
    risk_coverage_curve,
    roc_curve,
)


def rows(K: int, n: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(K)
    t = rng.integers(0, K, n)
    return rng.normal(size=(n, 2)) + t[:, None] * [1.0, -0.4], np.array(["a", "b", "c"])[t]


@pytest.fixture(scope="module")
def two() -> Any:
    X, y = rows(2)
    return LogisticRegression().fit(X, y), X, y


@pytest.fixture(scope="module")
def three() -> Any:
    X, y = rows(3)
    return GaussianClassifier().fit(X, y), X, y


def test_roc_and_precision_recall_are_scikit_learns(two: Any, three: Any) -> None:
    for (model, X, y), label, k in ((two, None, 1), (three, "a", 0), (three, "c", 2)):
        p, positive = model.predict_proba(X)[:, k], y == model.classes_[k]
        curve = roc_curve(model, X, y, label)
        for found, expected in zip(curve.columns.values(), metrics.roc_curve(positive, p), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert curve.area == pytest.approx(metrics.roc_auc_score(positive, p), rel=1e-12)
        curve = precision_recall_curve(model, X, y, label)
        precision, recall, threshold = metrics.precision_recall_curve(positive, p)
        np.testing.assert_array_equal(curve.precision, precision)
        np.testing.assert_array_equal(curve.recall, recall)
        np.testing.assert_array_equal(curve.threshold[:-1], threshold)
        assert curve.average_precision == metrics.average_precision_score(positive, p)
    assert roc_curve(*two).area == pytest.approx(evaluate(*two).auc, rel=1e-12)


def test_reliability_is_scikit_learns_and_adds_up_to_the_calibration_error(two: Any, three: Any) -> None:
    model, X, y = two
    curve = reliability_curve(model, X, y, bins=10)
    frequency, probability = calibration_curve(y == "b", model.predict_proba(X)[:, 1], n_bins=10, strategy="quantile")
    np.testing.assert_allclose(curve.probability, probability, rtol=0.02)
    np.testing.assert_allclose(curve.frequency, frequency, atol=0.04)
    for case in (two, three):
        curve = reliability_curve(*case)
        assert curve.calibration_error == pytest.approx(evaluate(*case, replicates=100).calibration_error, rel=1e-12)
        assert ((curve.lower <= curve.frequency) & (curve.frequency <= curve.upper)).all()
        assert curve.count.sum() == 300 * (1 if len(case[0].classes_) == 2 else 3)
    assert set(curve.columns["class"]) == {"a", "b", "c"}


LOSSES = [None, [[0, 1, 4], [2, 0, 1], [3, 3, 0]], {c: {"go": k, "stay": 1.2} for k, c in enumerate("abc")}]


@pytest.mark.parametrize("loss", LOSSES, ids=["errors", "matrix", "named"])
def test_risk_and_coverage_are_those_of_the_reject_option(three: Any, loss: Any) -> None:
    model, X, y = three
    curve = risk_coverage_curve(model, X, y, loss)
    assert curve.coverage[-1] == 1.0 and (np.diff(curve.coverage) > 0).all() and (np.diff(curve.reject) > 0).all()
    place = {c: k for k, c in enumerate("abc")}
    for i in (0, len(curve.coverage) // 2, len(curve.coverage) - 1):
        decided = model.decide(X, loss, reject=curve.reject[i] + 1e-9)
        inside = decided != REJECT
        assert inside.mean() == pytest.approx(curve.coverage[i])
        if loss is None:
            cost = decided[inside] != y[inside]
        elif isinstance(loss, dict):
            cost = [loss[c][a] for c, a in zip(y[inside], decided[inside], strict=True)]
        else:
            cost = [loss[place[c]][place[a]] for c, a in zip(y[inside], decided[inside], strict=True)]
        assert np.mean(cost) == pytest.approx(curve.risk[i], abs=1e-12)
    widths = np.diff(np.append(0.0, curve.coverage))
    assert curve.area == pytest.approx(float((widths * curve.risk).sum()))


def test_costs_over_thresholds_are_those_of_every_threshold(two: Any) -> None:
    model, X, y = two
    loss = [[0, 1], [4, 0]]
    curve, p = cost_curve(model, X, y, loss), model.predict_proba(X)[:, 1]
    for i in range(0, len(curve.threshold), 17):
        second = p > curve.threshold[i]
        cost = np.where(second, (y == "a") * 1.0, (y == "b") * 4.0)
        assert cost.mean() == pytest.approx(curve.cost[i], abs=1e-12)
        assert second.mean() == pytest.approx(curve.second[i], abs=1e-12)
    assert curve.cost.min() == curve.cost[curve.threshold == curve.best_threshold][0]
    assert curve.right_threshold == model.threshold_for(loss) == 0.2
    assert curve.cost_there == pytest.approx(evaluate(model, X, y, loss, replicates=100).realised_cost, rel=1e-12)


def test_curves_are_tables_that_travel(two: Any) -> None:
    curve = roc_curve(*two)
    again = pickle.loads(pickle.dumps(curve))
    assert again.area == curve.area and curve.to_pandas().shape[1] == 3
    with pytest.raises(AttributeError):
        curve.aera  # noqa: B018


def test_what_has_no_curve_says_why(two: Any, three: Any) -> None:
    model, X, y = three
    with pytest.raises(InvalidInputError, match="choose the positive one"):
        roc_curve(model, X, y)
    with pytest.raises(UnknownNameError, match="Unknown class 'd'"):
        roc_curve(model, X, y, "d")
    with pytest.raises(InvalidInputError, match="needs two classes"):
        cost_curve(model, X, y)
    with pytest.raises(InvalidInputError, match="no rows of class 'c'"):
        roc_curve(model, X[y != "c"], y[y != "c"], "c")
    plain = LeastSquaresClassifier().fit(*two[1:])
    assert roc_curve(plain, *two[1:]).area > 0.5
    for function in (reliability_curve, risk_coverage_curve, cost_curve):
        with pytest.raises(InvalidTypeError, match="no probabilities"):
            function(plain, *two[1:])


@pytest.mark.parametrize("settings", [{"bins": 0}, {"bins": 2.5}, {"level": 95}, {"level": 0.0}])
def test_a_reliability_curve_needs_bins_and_a_level(settings: dict[str, Any]) -> None:
    X = np.random.default_rng(0).normal(size=(40, 1))
    model = GaussianClassifier().fit(X, np.arange(40) % 2)
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        reliability_curve(model, X, np.arange(40) % 2, **settings)
