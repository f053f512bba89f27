"""Fits with a Laplace prior as models: what was selected, what may be asked, the fit to the selected columns."""

import pickle
import warnings

import numpy as np
import pandas
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.utils.estimator_checks import check_estimator

from oddsmith import (
    Design,
    GaussianKernel,
    LaplacePrior,
    LogisticRegression,
    OneVsRest,
    SelectColumns,
    Standardize,
    likelihood_ratio_test,
    regularization_path,
)
from oddsmith.errors import InvalidInputError, NeedsMemoryError, UnavailableError, UnknownNameError

X, Y = load_breast_cancer(return_X_y=True)
IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)


def test_cv_finds_the_scale_of_the_smallest_loss_on_a_path():
    model = LogisticRegression(LaplacePrior("cv", cv=4), basis=Standardize()).fit(X[:, :6], Y)
    table = model.selection_.to_dict()
    path = regularization_path(X[:, :6], Y, scales=table["width"], basis=Standardize(), cv=4)
    np.testing.assert_allclose(table["log_loss"], path.cv_loss, rtol=1e-4)
    assert model.prior_.scale == model.selection_.width == path.best("min")
    assert repr(model.prior_) == f"LaplacePrior(scale={path.best('min')!r}, cv=4)"
    np.testing.assert_allclose(model.coef_, path.model("min").coef_, atol=1e-2)
    sparser = clone(model).set_params(prior=LaplacePrior("cv", cv=4, one_standard_error=True)).fit(X[:, :6], Y)
    assert sparser.prior_.scale == path.best("1se") < model.prior_.scale


def test_cv_goes_on_where_the_loss_still_falls():
    model = LogisticRegression(LaplacePrior("cv", cv=3)).fit(IRIS, SPECIES)
    scales = model.selection_.table["width"]
    assert scales[-1] > 1000 * scales[0]
    assert not model.selection_.at_edge


def test_other_ways_to_find_a_scale_are_refused():
    with pytest.raises(InvalidInputError, match="a positive number or 'cv', found 'evidence'"):
        LogisticRegression(LaplacePrior("evidence")).fit(IRIS, SPECIES)
    with pytest.raises(NeedsMemoryError, match="Give a number as scale"):
        LogisticRegression(LaplacePrior("cv")).fit("nowhere.parquet", "y")


def test_selected_are_the_columns_with_a_weight():
    model = LogisticRegression(LaplacePrior(0.02)).fit(IRIS, SPECIES)
    expected = [f"x{j}" for j in np.flatnonzero(model.coef_.any(axis=0))]
    assert model.selected_ == expected
    assert 0 < len(expected) < 4
    assert not hasattr(LogisticRegression(prior=1.0).fit(IRIS, SPECIES), "selected_")
    assert pickle.loads(pickle.dumps(model)).selected_ == expected


def test_summary_shows_what_is_not_zero():
    model = LogisticRegression(LaplacePrior(0.02), basis=Standardize()).fit(X, Y)
    summary = model.summary()
    assert set(summary.term) == {"(intercept)", *model.selected_}
    assert summary.n_parameters == model.n_parameters_ == len(model.selected_) + 1
    assert summary.aic == pytest.approx(-2 * model.log_likelihood_ + 2 * model.n_parameters_)
    text = " ".join(str(summary).split())
    assert f"{len(model.selected_)} of 30 columns were selected" in text
    assert "no standard errors" in text
    none = LogisticRegression(LaplacePrior(1e-9)).fit(X, Y)
    assert none.summary().term.tolist() == ["(intercept)"]
    assert "0 of 30 columns were selected" in str(none.summary())


@pytest.mark.parametrize("labels", [SPECIES, SPECIES == 1], ids=["softmax", "two classes"])
def test_questions_about_curvature_are_refused(labels):
    model = LogisticRegression(LaplacePrior(0.5)).fit(IRIS, labels)
    asked = {
        "posterior_": lambda: model.posterior_,
        "log_evidence_": lambda: model.log_evidence_,
        "predictive": lambda: model.predictive(IRIS),
        "leave_one_out": lambda: model.leave_one_out(IRIS, labels),
        "update": lambda: model.update(IRIS, labels),
        "marginal_effects": lambda: model.marginal_effects(IRIS),
        "drop_one": lambda: model.drop_one(IRIS, labels),
        "diagnostics": lambda: model.diagnostics(IRIS, labels),
        "test_linear": lambda: model.test_linear("x0 = 0"),
        "profile": lambda: model.summary(intervals="profile"),
        "sandwich": lambda: model.summary(covariance="sandwich"),
    }
    for name, ask in asked.items():
        with pytest.raises(UnavailableError, match="no second derivative at zero"):
            ask()
            raise AssertionError(name)
    with pytest.raises(InvalidInputError, match="compares maximum likelihood fits"):
        likelihood_ratio_test(model, model)
    assert not hasattr(model, "partial_fit")


@pytest.mark.parametrize("labels", [SPECIES, SPECIES == 1], ids=["softmax", "two classes"])
def test_another_class_prior_moves_intercepts_only(labels):
    model = LogisticRegression(LaplacePrior(0.5)).fit(IRIS, labels)
    K = len(model.classes_)
    prior = dict(zip(model.classes_.tolist(), np.arange(1, K + 1) / (K * (K + 1) / 2), strict=True))
    moved = model.with_class_prior(prior)
    odds = np.log(moved.predict_proba(IRIS) / model.predict_proba(IRIS))
    ratio = np.log(np.array(list(prior.values())) / model.class_prior_)
    np.testing.assert_allclose(odds - odds[:, :1], np.broadcast_to(ratio - ratio[0], odds.shape), atol=1e-9)
    np.testing.assert_array_equal(moved.coef_, model.coef_)
    shown = moved.summary()
    np.testing.assert_allclose(np.sort(shown.estimate[shown.term == "(intercept)"]), np.sort(moved.intercept_))


def test_refit_is_maximum_likelihood_on_the_selected_columns():
    model = LogisticRegression(LaplacePrior(0.05), basis=Standardize()).fit(X, Y)
    again = model.refit(X, Y)
    columns = [int(name[1:]) for name in model.selected_]
    assert 0 < len(columns) < 30
    alone = LogisticRegression(basis=Standardize()).fit(X[:, columns], Y)
    np.testing.assert_allclose(again.coef_, alone.coef_, rtol=1e-8)
    np.testing.assert_allclose(again.summary().std_error, alone.summary().std_error, rtol=1e-8)
    assert again.summary().term.tolist() == ["(intercept)", *model.selected_]
    assert "intervals are too short" in " ".join(str(again.summary()).split())
    assert "too short" not in str(alone.summary())
    assert again.prior is None
    assert model.prior_.scale == 0.05
    np.testing.assert_allclose(again.predict_proba(X), alone.predict_proba(X[:, columns]), atol=1e-10)


def test_refit_of_a_table_keeps_its_design():
    frame = pandas.DataFrame(
        {"a": RNG.normal(size=200), "b": RNG.normal(size=200), "c": RNG.choice(["u", "v", "w"], 200)}
    )
    frame["y"] = np.where(2 * frame["a"] + 3 * (frame["c"] == "v") + RNG.logistic(size=200) > 0, "yes", "no")
    model = LogisticRegression(LaplacePrior(0.08), design=Design()).fit(frame, "y")
    assert model.selected_ == ["a", "c[v]"]
    again = model.refit(frame, "y")
    by_hand = LogisticRegression().fit(np.column_stack([frame["a"], frame["c"] == "v"]), frame["y"])
    np.testing.assert_allclose(again.coef_, by_hand.coef_, rtol=1e-8)


def test_refit_needs_a_selection():
    with pytest.raises(InvalidInputError, match="No column was selected"):
        LogisticRegression(LaplacePrior(1e-9)).fit(X, Y).refit(X, Y)
    with pytest.raises(AttributeError):
        LogisticRegression(prior=1.0).fit(IRIS, SPECIES).refit(IRIS, SPECIES)


def test_links_without_theory_are_refused():
    for link in ("cauchit", "log", "identity"):
        with pytest.raises(InvalidInputError, match=f"link='{link}'"):
            LogisticRegression(LaplacePrior(1.0), link=link).fit(IRIS, SPECIES == 1)


def test_other_models_take_it_as_a_part_and_kernels_as_a_basis():
    parts = OneVsRest(LogisticRegression(LaplacePrior(0.1))).fit(IRIS, SPECIES)
    assert (parts.coef_ == 0.0).any()
    kernel = LogisticRegression(LaplacePrior(0.2), basis=GaussianKernel(2.0, landmarks=30)).fit(IRIS, SPECIES)
    assert 0 < len(kernel.selected_) < 30
    assert kernel.score(IRIS, SPECIES) > 0.9


def test_select_columns_by_name_and_number():
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0, 6.0]})
    basis = SelectColumns(["c", 0]).fit(frame)
    assert basis.transform(frame).tolist() == [[5.0, 1.0], [6.0, 2.0]]
    assert basis.get_feature_names_out().tolist() == ["c", "a"]
    with pytest.raises(UnknownNameError, match="'d'"):
        SelectColumns(["d"]).fit(frame)
    with pytest.raises(InvalidInputError, match="from 0 to 2, found 3"):
        SelectColumns([3]).fit(frame)
    with pytest.raises(InvalidInputError, match="each once"):
        SelectColumns([0, 0]).fit(frame)


@pytest.mark.parametrize("prior", [LaplacePrior(1.0), LaplacePrior(0.5, gaussian=1.0, groups="class")])
def test_scikit_learns_checks_pass_with_sparse_weights(prior):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(LogisticRegression(prior), on_skip=None)
