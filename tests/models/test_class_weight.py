"""Class weights: scikit-learn's numbers, those of explicit sample weights, on every engine and in files."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

import oddsmith
from oddsmith import GaussianClassifier, LogisticRegression, NaiveBayes, OneVsRest, PerceptronClassifier
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.testing import all_models

RNG = np.random.default_rng(7)
X = RNG.normal(size=(400, 3))
TWO = np.where(X[:, 0] + RNG.normal(size=400) > 1.2, "yes", "no")
THREE = np.digitize(X[:, 0] + RNG.normal(size=400), [0.5, 1.4])
WEIGHTS = ["balanced", {"no": 0.5, "yes": 4.0}, {"yes": 3}]


def factors(class_weight: Any, y: Any, s: Any = None) -> Any:
    """The explicit sample weights of class weights."""
    s = np.ones(len(y)) if s is None else s
    classes, t = np.unique(y, return_inverse=True)
    if class_weight == "balanced":
        return s * (s.sum() / (len(classes) * np.bincount(t, weights=s)))[t]
    return s * np.array([class_weight.get(label, 1.0) for label in y.tolist()])


@pytest.mark.parametrize("class_weight", WEIGHTS, ids=str)
@pytest.mark.parametrize("sample_weight", [None, RNG.uniform(0.5, 2.0, size=400)], ids=["unit", "weighted"])
def test_weights_equal_those_of_scikit_learn(class_weight: Any, sample_weight: Any) -> None:
    theirs = SklearnLogisticRegression(C=4.0, class_weight=class_weight, tol=1e-10, max_iter=10_000)
    given = sample_weight
    if class_weight == "balanced" and sample_weight is not None:  # there weights did not count before version 1.8
        theirs.set_params(class_weight=None)
        given = factors("balanced", TWO, sample_weight)
    theirs.fit(X, TWO, sample_weight=given)
    ours = LogisticRegression(prior=2.0, class_weight=class_weight).fit(X, TWO, sample_weight=sample_weight)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)


@pytest.mark.parametrize("model", list(all_models()), ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("class_weight", WEIGHTS, ids=str)
def test_class_weights_are_sample_weights(model: Any, class_weight: Any) -> None:
    weighted = clone(model).set_params(class_weight=class_weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oddsmith.errors.ConvergenceWarning)
        weighted.fit(X, TWO)
        plain = clone(model).fit(X, TWO)
        assert (weighted.predict(X) != plain.predict(X)).any()
        if isinstance(model, PerceptronClassifier):  # which takes no sample weights
            return
        explicit = clone(model).fit(X, TWO, sample_weight=factors(class_weight, TWO))
    np.testing.assert_allclose(weighted.decision_function(X), explicit.decision_function(X), rtol=1e-7, atol=1e-9)
    expected = factors(class_weight, TWO)
    np.testing.assert_allclose(weighted.class_weight_, [expected[TWO == label][0] for label in ("no", "yes")])
    if hasattr(plain, "class_prior_"):
        np.testing.assert_allclose(weighted.class_prior_, explicit.class_prior_)


def test_perceptron_corrects_by_the_class_weight() -> None:
    rows, labels = np.array([[1.0], [-1.0]]), np.array([1, 0])
    model = PerceptronClassifier(seed=None, class_weight={1: 3.0}).fit(rows, labels)
    # The first row is a mistake of weight 3, the second (then on the boundary) one of weight 1.
    assert model.coef_.tolist() == [[3.0 + 1.0]] and model.intercept_.tolist() == [3.0 - 1.0]
    sparse_rows = PerceptronClassifier(seed=3, class_weight="balanced", max_epochs=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = clone(sparse_rows).fit(X, TWO), clone(sparse_rows).fit(sparse.csr_array(X), TWO)
    np.testing.assert_allclose(one.coef_, other.coef_)
    assert np.mean(one.predict(X)[TWO == "yes"] == "yes") > 0.6


def test_three_classes_and_the_way_back_to_the_true_shares() -> None:
    model = GaussianClassifier("separate", class_weight="balanced").fit(X, THREE)
    np.testing.assert_allclose(model.class_prior_, 1 / 3)
    shares = dict(enumerate((np.bincount(THREE) / len(THREE)).tolist()))
    back = model.with_class_prior(shares)
    np.testing.assert_allclose(back.predict_proba(X), GaussianClassifier("separate").fit(X, THREE).predict_proba(X))


@pytest.mark.parametrize("model", [LogisticRegression(), GaussianClassifier(), NaiveBayes(), OneVsRest()], ids=repr)
@pytest.mark.parametrize("class_weight", ["balanced", {0: 3.0}], ids=str)
def test_files_and_dask_equal_memory(model: Any, class_weight: Any, tmp_path: Path) -> None:
    table = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": THREE})
    for part in range(3):
        table[part * 150 : (part + 1) * 150].write_parquet(tmp_path / f"{part}.parquet")
    model = clone(model).set_params(class_weight=class_weight)
    expected = clone(model).fit(table, "y")
    found = clone(model).fit(str(tmp_path), "y")
    np.testing.assert_allclose(found.predict_proba(table.drop("y")), expected.predict_proba(table.drop("y")), rtol=1e-7)
    np.testing.assert_allclose(found.class_weight_, expected.class_weight_)
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(table.to_pandas(), npartitions=3)
    found = clone(model).fit(frame, "y")
    np.testing.assert_allclose(found.predict_proba(table.drop("y")), expected.predict_proba(table.drop("y")), rtol=1e-7)


def test_what_needs_the_rows_again_weighs_them_alike() -> None:
    model = LogisticRegression(class_weight="balanced").fit(X, TWO)
    explicit = LogisticRegression().fit(X, TWO, sample_weight=(s := factors("balanced", TWO)))
    one = model.summary(X, TWO, intervals="profile").to_dict()
    other = explicit.summary(X, TWO, sample_weight=s, intervals="profile").to_dict()
    np.testing.assert_allclose(one["lower"], other["lower"])
    np.testing.assert_allclose(model.leave_one_out(X, TWO).proba, explicit.leave_one_out(X, TWO, sample_weight=s).proba)


def test_model_file_keeps_class_weights(tmp_path: Path) -> None:
    for class_weight in ("balanced", {"yes": 3}):
        model = LogisticRegression(class_weight=class_weight).fit(X, TWO)
        model.save(tmp_path / "m.odds")
        loaded = oddsmith.load(tmp_path / "m.odds")
        assert loaded.class_weight == class_weight
        np.testing.assert_array_equal(loaded.class_weight_, model.class_weight_)
    assert "class_weight_" not in vars(model.set_params(class_weight=None).fit(X, TWO))


def test_shards_merge_with_given_weights_and_not_with_balanced_ones() -> None:
    given = [NaiveBayes(class_weight={"yes": 3}).fit(X[i::2], TWO[i::2]) for i in range(2)]
    whole = NaiveBayes(class_weight={"yes": 3}).fit(X, TWO)
    np.testing.assert_allclose(oddsmith.merge(*given).predict_proba(X), whole.predict_proba(X))
    balanced = [GaussianClassifier(class_weight="balanced").fit(X[i::2], TWO[i::2]) for i in range(2)]
    with pytest.raises(InvalidInputError, match="class counts of its own rows"):
        oddsmith.merge(*balanced)
    for model in (NaiveBayes(), LogisticRegression(), oddsmith.LeastSquaresClassifier()):
        with pytest.raises(InvalidInputError, match="partial_fit sees a part"):
            model.set_params(class_weight="balanced").partial_fit(X, TWO, classes=["no", "yes"])
    one = LogisticRegression(class_weight={"yes": 3}, seed=0).partial_fit(X, TWO, classes=["no", "yes"])
    s = factors({"yes": 3}, TWO)
    other = LogisticRegression(seed=0).partial_fit(X, TWO, classes=["no", "yes"], sample_weight=s)
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.parametrize(
    ("class_weight", "error", "text"),
    [
        ("balance", InvalidInputError, "Unknown class_weight 'balance'.*Did you mean 'balanced'"),
        ({"maybe": 2}, InvalidInputError, "Unknown class in class_weight 'maybe'. Known: 'no', 'yes'"),
        ({"no": 0}, InvalidInputError, "class 'no' the weight 0; expected a positive number"),
        ({"no": float("nan")}, InvalidInputError, "expected a positive number"),
        ({"no": "much"}, InvalidInputError, "the weight 'much'; expected a positive number"),
        ([1, 2], InvalidTypeError, "class_weight must be None, 'balanced' or a dictionary"),
    ],
    ids=str,
)
@pytest.mark.parametrize("model", list(all_models()), ids=lambda model: type(model).__name__)
def test_bad_class_weights_get_a_sentence(model: Any, class_weight: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        model.set_params(class_weight=class_weight).fit(X, TWO)


def test_reductions_refuse_weights_that_their_parts_do_not_take() -> None:
    with pytest.raises(InvalidInputError, match=r"give it to the model inside \(PerceptronClassifier"):
        OneVsRest(PerceptronClassifier(), class_weight="balanced").fit(X, THREE)
    with pytest.raises(InvalidInputError, match="sample_weight was given"):
        OneVsRest(PerceptronClassifier()).fit(X, THREE, sample_weight=np.ones(400))


def test_weights_out_of_range_get_a_sentence() -> None:
    with pytest.raises(InvalidInputError, match="exceeds the range of floating point"):
        LogisticRegression(class_weight={"yes": 1e200}).fit(X, TWO, sample_weight=np.full(400, 1e200))
