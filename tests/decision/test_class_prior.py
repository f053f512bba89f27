"""Another class prior: against refitting, against training on everything, and found without labels."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression as Theirs

from oddsmith import (
    FisherDiscriminant,
    GaussianClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsRest,
    ProbitRegression,
    estimate_class_prior,
    evaluate,
)
from oddsmith.decision.class_prior import estimate_prior
from oddsmith.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.numerics import log_softmax, softmax

GENERATIVE = [GaussianClassifier(), GaussianClassifier("separate"), NaiveBayes(), FisherDiscriminant()]


def rows(n: int, prior: Any, seed: int = 0) -> tuple[Any, Any]:
    """Gaussian classes in two dimensions with these shares."""
    rng = np.random.default_rng(seed)
    t = rng.choice(len(prior), n, p=prior)
    means = np.array([[0.0, 0.0], [1.5, 0.5], [-0.5, 1.8]])
    return rng.normal(size=(n, 2)) + means[t], np.array(["a", "b", "c"])[t]


def by_bayes(model: Any, X: Any, prior: Any) -> Any:
    """Bayes' rule once more, on the probabilities."""
    P = model.predict_proba(X) * np.asarray(prior) / model.class_prior_
    return P / P.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("model", GENERATIVE, ids=repr)
@pytest.mark.parametrize("K", [2, 3])
def test_generative_models_equal_those_fitted_with_that_prior(model: Any, K: int) -> None:
    X, y = rows(600, np.ones(K) / K)
    prior = dict(zip("abc", [0.7, 0.3] if K == 2 else [0.6, 0.3, 0.1], strict=False))
    moved = clone(model).fit(X, y).with_class_prior(prior)
    refitted = clone(model).set_params(class_prior=prior).fit(X, y)
    np.testing.assert_allclose(moved.predict_proba(X), refitted.predict_proba(X), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(moved.predict_proba(X), by_bayes(clone(model).fit(X, y), X, list(prior.values())))


LINEAR = [LogisticRegression(), LogisticRegression(prior=1.0), LogisticRegression(reference="b")]


@pytest.mark.parametrize("model", [*LINEAR, OneVsRest()], ids=repr)
@pytest.mark.parametrize("K", [2, 3])
def test_discriminative_models_follow_bayes_rule_and_can_go_back(model: Any, K: int) -> None:
    X, y = rows(600, [0.5, 0.5] if K == 2 else [0.5, 0.3, 0.2])
    model = clone(model).fit(X, y)
    np.testing.assert_allclose(model.class_prior_, [np.mean(y == c) for c in model.classes_])
    prior = [0.9, 0.1] if K == 2 else [0.1, 0.3, 0.6]
    moved = model.with_class_prior(dict(zip("abc", prior, strict=False)))
    np.testing.assert_allclose(moved.predict_proba(X), by_bayes(model, X, prior), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(moved.class_prior_, prior)
    assert moved.decide(X).tolist() == moved.predict(X).tolist()
    back = moved.with_class_prior(model.class_prior_)
    np.testing.assert_allclose(back.predict_proba(X), model.predict_proba(X), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("model", LINEAR, ids=repr)
@pytest.mark.parametrize("K", [2, 3])
def test_only_the_intercepts_of_a_logistic_model_move_and_keep_their_gauge(model: Any, K: int) -> None:
    X, y = rows(600, np.ones(K) / K)
    model = clone(model).fit(X, y)
    before = {name: np.copy(getattr(model, name)) for name in ("coef_", "intercept_", "class_prior_")}
    prior = [0.9, 0.1] if K == 2 else [0.1, 0.3, 0.6]
    moved = model.with_class_prior(prior)
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(model, name), value, err_msg="the model itself changed")
    np.testing.assert_array_equal(moved.coef_, model.coef_)
    if K == 2:
        shift = np.log(prior[1] / prior[0]) - np.log(model.class_prior_[1] / model.class_prior_[0])
        np.testing.assert_allclose(moved.intercept_ - model.intercept_, shift, rtol=1e-12)
    elif model.reference is None:
        assert abs(moved.intercept_.sum()) < 1e-12
    else:
        assert moved.intercept_[1] == 0.0
    # What the posterior of the weights comes from has moved along.
    np.testing.assert_allclose(moved._learned.weights()[:, 0], moved.intercept_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moved._learned.weights()[:, 1:], moved.coef_, rtol=1e-9, atol=1e-12)


def test_another_link_is_shifted_by_bayes_rule_too() -> None:
    X, y = rows(600, [0.5, 0.5])
    model = ProbitRegression().fit(X, y)
    moved = model.with_class_prior({"a": 0.8, "b": 0.2})
    np.testing.assert_allclose(moved.predict_proba(X), by_bayes(model, X, [0.8, 0.2]), rtol=1e-12)
    again = moved.with_class_prior({"a": 0.3, "b": 0.7})
    np.testing.assert_allclose(again.predict_proba(X), by_bayes(model, X, [0.3, 0.7]), rtol=1e-12)
    assert moved.model_ is model and again.predict(X).shape == y.shape


@pytest.mark.parametrize("model", [*GENERATIVE, LogisticRegression()], ids=repr)
def test_undoing_a_resampling_divides_its_rates_out_of_the_prior(model: Any) -> None:
    X, y = rows(400, [0.5, 0.3, 0.2])
    model = clone(model).fit(X, y)
    undone = model.undo_resampling({"a": 0.1, "c": 3.0})
    expected = model.class_prior_ / [0.1, 1.0, 3.0]
    np.testing.assert_allclose(undone.class_prior_, expected / expected.sum(), rtol=1e-12)
    np.testing.assert_allclose(undone.predict_proba(X), by_bayes(model, X, expected), rtol=1e-10, atol=1e-15)


def binary(n: int, seed: int) -> tuple[Any, Any]:
    """Rows of a rare class, whose log odds are linear."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X @ [1.0, -0.7, 0.3] - 2.5 + rng.logistic(size=n) > 0, "yes", "no")


@pytest.fixture(scope="module")
def rare() -> Any:
    """Rows to learn from, rows to be judged by, and the log loss of a model of them all."""
    X, y = binary(100_000, 0)
    new = binary(100_000, 2)
    return X, y, new, evaluate(LogisticRegression().fit(X, y), *new, replicates=100).log_loss


@pytest.mark.parametrize("how", ["prior", "rates", "labels", "weights"])
def test_a_model_of_resampled_classes_is_calibrated_once_that_is_undone(how: str, rare: Any) -> None:
    """Trained on half and half, corrected to the true prior: slope 1 ± 0.05, intercept 0 ± 0.05 on 100,000 rows."""
    X, y, new, whole = rare
    positive = np.flatnonzero(y == "yes")
    negative = np.random.default_rng(1).choice(np.flatnonzero(y == "no"), len(positive), replace=False)
    half, rate = np.concatenate([positive, negative]), len(positive) / (len(y) - len(positive))
    if how == "weights":
        model = LogisticRegression().fit(X, y, sample_weight=np.where(y == "yes", 1.0, rate))
        corrected = model.undo_resampling({"no": rate})
    else:
        model = LogisticRegression().fit(X[half], y[half])
        corrected = {
            "prior": lambda: model.with_class_prior({"yes": len(positive) / len(y), "no": 1 - len(positive) / len(y)}),
            "rates": lambda: model.undo_resampling({"no": rate, "yes": 1.0}),
            "labels": lambda: model.undo_resampling(y=y),
        }[how]()
    found = evaluate(corrected, *new, replicates=100)
    few = new[0][:5000], new[1][:5000]
    assert abs(evaluate(model, *few, replicates=100).calibration_intercept) > 1.0, "without correction it is far off"
    assert abs(found.calibration_slope - 1.0) < 0.05 and abs(found.calibration_intercept) < 0.05
    assert abs(found.log_loss - whole) < 1e-3
    np.testing.assert_allclose(corrected.class_prior_, [np.mean(y == "no"), np.mean(y == "yes")], rtol=1e-9)


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianClassifier(), NaiveBayes()], ids=repr)
@pytest.mark.parametrize("prior", [[0.1, 0.2, 0.7], [0.8, 0.15, 0.05]], ids=str)
def test_em_finds_a_shifted_prior_without_labels(model: Any, prior: Any) -> None:
    model = clone(model).fit(*rows(20_000, np.ones(3) / 3))
    X, y = rows(20_000, prior, seed=1)
    found = estimate_class_prior(model, X)
    for label, share in zip("abc", prior, strict=True):
        assert abs(found[label] - share) < 0.02
    assert found.gap <= 1e-3 and (found.std_error < 0.02).all() and abs(found.prior.sum() - 1.0) < 1e-12
    before, after = (evaluate(m, X, y, replicates=100).log_loss for m in (model, model.with_class_prior(found)))
    assert after < before
    assert list(found.to_dict()) == ["class", "prior", "std_error"] and len(found) == 3


def test_em_reaches_the_maximum_of_the_likelihood() -> None:
    """Against a fine grid, and its certificate against the gap that is left."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(500, 2))
    trained = np.array([0.4, 0.6])
    R = softmax(A) / trained

    def likelihood(p: float) -> float:
        return float(np.log(R @ [1 - p, p]).sum())

    grid = np.linspace(1e-6, 1 - 1e-6, 20_001)
    best = grid[np.argmax([likelihood(p) for p in grid])]
    found = estimate_prior(log_softmax(A), trained, np.array(["a", "b"]), tol=1e-10)
    assert abs(found["b"] - best) < 1e-3
    for stop in (1, 3, 10):
        early = estimate_prior(log_softmax(A), trained, np.array(["a", "b"]), tol=0.0, max_iter=stop)
        assert early.n_iter == stop
        assert 0 <= likelihood(found["b"]) - likelihood(early["b"]) <= early.gap


def test_standard_errors_of_the_prior_are_those_seen_in_repeats() -> None:
    model = GaussianClassifier().fit(*rows(8000, [0.5, 0.5]))
    found = [estimate_class_prior(model, rows(1000, [0.8, 0.2], seed)[0]) for seed in range(60)]
    seen = np.std([f["b"] for f in found])
    assert 0.75 < np.mean([f.std_error[1] for f in found]) / seen < 1.3


def test_models_of_scikit_learn_are_taken_with_their_prior() -> None:
    X, y = rows(5000, [0.5, 0.5])
    X_new, _ = rows(5000, [0.8, 0.2], 1)
    lda = estimate_class_prior(LinearDiscriminantAnalysis().fit(X, y), X_new)
    given = estimate_class_prior(Theirs().fit(X, y), X_new, trained={"a": np.mean(y == "a"), "b": np.mean(y == "b")})
    assert abs(lda["b"] - 0.2) < 0.04 and abs(given["b"] - 0.2) < 0.04
    with pytest.raises(InvalidInputError, match=r"Give them as trained=\{class: share\}"):
        estimate_class_prior(Theirs().fit(X, y), X_new)


def test_what_cannot_be_estimated_or_shifted_is_refused_in_words() -> None:
    from oddsmith import PerceptronClassifier

    X, y = rows(200, [0.5, 0.5])
    flat = LogisticRegression().fit(np.random.default_rng(0).normal(size=(200, 1)) * 1e-9, y)
    flat.coef_ = 0.0 * flat.coef_
    with pytest.raises(InvalidInputError, match="say nothing about the class prior"):
        estimate_class_prior(flat, X[:, :1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        perceptron = PerceptronClassifier(max_epochs=1).fit(X, y)
    with pytest.raises(InvalidTypeError, match="recalibrate"):
        estimate_class_prior(perceptron, X)
    model = LogisticRegression().fit(X, y)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter"):
        estimate_class_prior(model, X + 2.0, max_iter=2)
    for prior, words in [
        ({"a": 0.5, "z": 0.5}, "names the classes"),
        ({"a": 0.5, "b": 0.6}, "sum to 1"),
        ([0.2, 0.3, 0.5], "shape"),
        ([0.0, 1.0], "positive"),
    ]:
        with pytest.raises(InvalidInputError, match=words):
            model.with_class_prior(prior)
    with pytest.raises(UnknownNameError, match="Unknown class in rates 'z'"):
        model.undo_resampling({"z": 2.0})
    for arguments in ({}, {"rates": {"a": 2.0}, "y": y}):
        with pytest.raises(InvalidInputError, match="either rates"):
            model.undo_resampling(**arguments)
    with pytest.raises(InvalidInputError, match="positive number"):
        model.undo_resampling({"a": 0.0})
    with pytest.raises(InvalidInputError, match="other labels too: z"):
        model.undo_resampling(y=["a", "b", "z"])
    with pytest.raises(InvalidInputError, match="lacks some"):
        model.undo_resampling(y=["a", "a"])


def test_partial_fit_keeps_no_shares_and_says_so() -> None:
    X, y = rows(200, [0.5, 0.5])
    model = LogisticRegression(seed=0).partial_fit(X, y, classes=["a", "b"])
    with pytest.raises(InvalidInputError, match="partial_fit keeps none"):
        model.with_class_prior({"a": 0.5, "b": 0.5})
    moved = model.undo_resampling({"a": 0.5})
    np.testing.assert_allclose(moved.intercept_ - model.intercept_, -np.log(2.0))


@pytest.mark.parametrize("K", [2, 3])
def test_predictive_distributions_move_along_and_what_needs_the_fit_is_refused(K: int) -> None:
    X, y = rows(120, np.ones(K) / K)
    model = LogisticRegression(prior=1.0).fit(X, y)
    prior = [0.9, 0.1] if K == 2 else [0.1, 0.3, 0.6]
    moved = model.with_class_prior(prior)
    shift = np.log(np.array(prior) / model.class_prior_)
    # The posterior of the weights is that of the fit, its mean moved in the intercepts.
    before, after = model.posterior_, moved.posterior_
    np.testing.assert_allclose(after.covariance, before.covariance, rtol=1e-12)
    offset = np.full(120, shift[1] - shift[0]) if K == 2 else np.tile(shift, (120, 1))
    np.testing.assert_allclose(moved.predictive(X).mean, model.predictive(X, offset=offset).mean, rtol=1e-6)
    assert moved.decide(X, predictive=True).shape == y.shape
    for question in (lambda: moved.leave_one_out(X, y), lambda: moved.log_evidence_):
        with pytest.raises(InvalidInputError, match="were moved by with_class_prior"):
            question()
    assert np.isfinite(model.log_evidence_)
    again = moved.fit(X, y)
    assert np.isfinite(again.log_evidence_), "a new fit has an optimum again"
