"""GaussianClassifier held against R, scikit-learn, its own formulas and the models it contains."""

import inspect
import warnings

import numpy as np
import pandas
import polars
import pytest
from scipy import sparse, stats
from scipy.special import ndtr
from sklearn.covariance import OAS
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from tests.reference_data import cases

from oddsmith import GaussianClassifier, LogisticRegression, bayes_error
from oddsmith.errors import CollinearityWarning, InvalidInputError, NotFittedError, UnknownNameError
from oddsmith.models.gaussian import STRUCTURES
from oddsmith.numerics import softmax
from oddsmith.testing import check_model

IRIS = load_iris(return_X_y=True)
TIED = {0: "own", 1: "tied", 2: "tied"}
EVERY = [*STRUCTURES, TIED]


def three_classes(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = rng.integers(0, 3, n)
    scale = np.array([[1.0, 0.5, 2.0], [2.0, 1.0, 1.0], [0.5, 1.0, 1.5]])
    X = rng.normal(size=(n, 3)) * scale[t] + np.array([[0.0, 0.0, 0.0], [1.0, -1.0, 2.0], [-1.0, 2.0, 1.0]])[t]
    X[:, 2] += 0.5 * X[:, 0]
    return X, t


# ------------------------------------------------------------------------------- against other programs


@pytest.mark.parametrize("prior", ["proportional", "other"])
@pytest.mark.parametrize("case", [*cases("lda_*"), *cases("qda_*")], ids=str)
def test_posteriors_equal_r_mass(case, prior) -> None:
    expected = case.expected[prior]
    columns = [case.classes.index(label) for label in sorted(case.classes)]
    prior_of = None if prior == "proportional" else dict(zip(case.classes, expected["prior"], strict=True))
    model = GaussianClassifier("shared" if case.name.startswith("lda") else "separate", class_prior=prior_of)
    model.fit(case.X, case.y)
    np.testing.assert_allclose(model.predict_proba(case.X), np.array(expected["posterior"])[:, columns], atol=1e-10)
    np.testing.assert_allclose(model.class_prior_, np.array(expected["prior"])[columns], rtol=1e-14)
    np.testing.assert_allclose(model.means_, np.array(case.expected["means"])[columns], rtol=1e-12)
    covariance = np.array(case.expected["covariance"])
    covariance = covariance[columns] if covariance.ndim == 3 else np.stack([covariance] * len(columns))
    np.testing.assert_allclose(model.covariances_, covariance, rtol=1e-9)


@pytest.mark.parametrize("data", [load_iris, load_wine])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_posteriors_equal_scikit_learn_lda(data, shrinkage) -> None:
    X, y = data(return_X_y=True)
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=shrinkage or None).fit(X, y)
    ours = GaussianClassifier("shared", shrinkage=shrinkage).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-10)


@pytest.mark.parametrize("shrinkage", [0.0, 0.3, "oas"])
def test_posteriors_equal_scikit_learn_qda(shrinkage) -> None:
    if "solver" not in inspect.signature(QuadraticDiscriminantAnalysis).parameters:
        pytest.skip("this scikit-learn divides by n − 1")
    X, y = IRIS
    how = {"covariance_estimator": OAS()} if shrinkage == "oas" else {"shrinkage": shrinkage or None}
    peer = QuadraticDiscriminantAnalysis(solver="eigen", **how).fit(X, y)
    ours = GaussianClassifier("separate", shrinkage=shrinkage).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-10)


def test_oas_shrinkage_of_the_shared_covariance_equals_scikit_learn_on_centred_rows() -> None:
    X, y = load_wine(return_X_y=True)
    model = GaussianClassifier(shrinkage="oas").fit(X, y)
    peer = OAS(assume_centered=True).fit(X - model.means_[y])
    np.testing.assert_allclose(model.covariances_[0], peer.covariance_, rtol=1e-10)
    np.testing.assert_allclose(model.shrinkage_, peer.shrinkage_, rtol=1e-10)


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_log_density_equals_scipy(covariance) -> None:
    X, y = three_classes()
    model = GaussianClassifier(covariance).fit(X, y)
    values = model.log_density(X)
    for k, (mean, S) in enumerate(zip(model.means_, model.covariances_, strict=True)):
        S = S if np.ndim(S) == 2 else np.diag(np.broadcast_to(S, 3))
        np.testing.assert_allclose(values[:, k], stats.multivariate_normal(mean, S).logpdf(X), rtol=1e-11)


# ------------------------------------------------------------------------------ the estimate's formulas


def test_the_estimate_is_class_shares_means_and_averaged_scatter() -> None:
    X, y = three_classes()
    shared, separate = GaussianClassifier().fit(X, y), GaussianClassifier("separate").fit(X, y)
    parts = [X[y == k] for k in range(3)]
    S = np.array([np.cov(part.T, bias=True) for part in parts])
    share = np.array([len(part) / len(X) for part in parts])
    np.testing.assert_allclose(shared.class_prior_, share, rtol=1e-14)
    np.testing.assert_allclose(shared.means_, [part.mean(axis=0) for part in parts], rtol=1e-12)
    np.testing.assert_allclose(separate.covariances_, S, rtol=1e-11)
    np.testing.assert_allclose(shared.covariances_[0], np.einsum("k,kij->ij", share, S), rtol=1e-11)
    variance = np.array([part.var(axis=0) for part in parts])
    np.testing.assert_allclose(GaussianClassifier("diagonal").fit(X, y).covariances_, variance, rtol=1e-11)
    np.testing.assert_allclose(
        GaussianClassifier("spherical").fit(X, y).covariances_, variance.mean(axis=1), rtol=1e-11
    )
    pooled = GaussianClassifier("shared-diagonal").fit(X, y).covariances_
    np.testing.assert_allclose(pooled, np.tile(share @ variance, (3, 1)), rtol=1e-11)


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_no_other_parameters_have_a_higher_likelihood(covariance) -> None:
    X, y = three_classes()
    model = GaussianClassifier(covariance).fit(X, y)
    best = model.log_likelihood_
    joint = (model.log_density(X) + np.log(model.class_prior_))[np.arange(len(X)), y].sum()
    assert best == pytest.approx(joint, rel=1e-12)
    rng = np.random.default_rng(0)
    for _ in range(10):
        worse = GaussianClassifier(covariance).fit(X, y, sample_weight=rng.uniform(0.9, 1.1, len(X)))
        other = (worse.log_density(X) + np.log(worse.class_prior_))[np.arange(len(X)), y].sum()
        assert other < best


def test_one_dimension_is_the_sigmoid_of_the_lecture() -> None:
    """p(C₁|x) = σ(βx + γ), β = (μ₁ − μ₂)/σ², γ = (μ₂² − μ₁²)/2σ² + log π₁/π₂."""
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.3).astype(int)
    x = rng.normal(size=400) * 2.0 + 3.0 * y
    model = GaussianClassifier().fit(x[:, None], y)
    mu0, mu1 = model.means_[:, 0]
    variance, (p0, p1) = model.covariances_[0, 0, 0], model.class_prior_
    beta, gamma = (mu1 - mu0) / variance, (mu0**2 - mu1**2) / (2.0 * variance) + np.log(p1 / p0)
    assert model.coef_[0, 0] == pytest.approx(beta, rel=1e-12)
    assert model.intercept_[0] == pytest.approx(gamma, rel=1e-12)
    np.testing.assert_allclose(
        model.predict_proba(x[:, None])[:, 1], 1.0 / (1.0 + np.exp(-(beta * x + gamma))), rtol=1e-12
    )


def test_two_classes_give_the_weights_of_a_logistic_function() -> None:
    X, y = three_classes()
    X, y = X[y < 2], y[y < 2]
    model = GaussianClassifier().fit(X, y)
    w = np.linalg.solve(model.covariances_[0], model.means_[1] - model.means_[0])
    np.testing.assert_allclose(model.coef_, [w], rtol=1e-11)
    midpoint = w @ (model.means_[1] + model.means_[0]) / 2.0
    np.testing.assert_allclose(
        model.intercept_, np.log(model.class_prior_[1] / model.class_prior_[0]) - midpoint, rtol=1e-11
    )
    np.testing.assert_allclose(model.decision_function(X), X @ w + model.intercept_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.distance(X) * np.linalg.norm(w), model.decision_function(X), rtol=1e-9, atol=1e-12)


def test_more_classes_give_the_weights_of_a_softmax_function() -> None:
    X, y = three_classes()
    model = GaussianClassifier().fit(X, y)
    np.testing.assert_allclose(model.coef_, np.linalg.solve(model.covariances_[0], model.means_.T).T, rtol=1e-10)
    w0 = -0.5 * (model.coef_ * model.means_).sum(axis=1) + np.log(model.class_prior_)
    np.testing.assert_allclose(model.intercept_, w0, rtol=1e-11)
    A = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), A, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(model.predict_proba(X), softmax(A), atol=1e-12)
    assert model.boundary_.normal.shape == (3, 3) and not model.quadratic_.W.any()


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("covariance", ["separate", "diagonal", "spherical", TIED], ids=str)
def test_the_quadratic_function_is_the_posterior(covariance, classes) -> None:
    X, y = three_classes()
    X, y = X[y < classes], y[y < classes]
    model = GaussianClassifier(covariance).fit(X, y)
    W, w, w0 = model.quadratic_
    A = np.einsum("nd,kde,ne->nk", X, W, X) + X @ w.T + w0
    assert A.shape[1] == (1 if classes == 2 else classes)
    np.testing.assert_allclose(model.decision_function(X), A[:, 0] if classes == 2 else A, rtol=1e-9, atol=1e-9)
    probability = softmax(np.column_stack([np.zeros(len(X)), A]) if classes == 2 else A)
    np.testing.assert_allclose(model.predict_proba(X), probability, atol=1e-12)


def test_there_are_no_linear_weights_where_nothing_is_linear() -> None:
    model = GaussianClassifier("separate").fit(*IRIS)
    assert not hasattr(model, "coef_") and not hasattr(model, "boundary_")
    with pytest.raises(AttributeError, match="quadratic_"):
        model.intercept_  # noqa: B018
    with pytest.raises(AttributeError, match="quadratic"):
        model.distance(IRIS[0])


def test_within_a_group_the_log_odds_are_linear() -> None:
    X, y = three_classes()
    model = GaussianClassifier(TIED).fit(X, y)
    odds = model.predict_log_proba(X)
    linear = X @ (model.coef_[2] - model.coef_[1]) + model.intercept_[2] - model.intercept_[1]
    np.testing.assert_allclose(odds[:, 2] - odds[:, 1], linear, rtol=1e-9, atol=1e-11)


def test_parameters_are_counted_as_in_the_lecture() -> None:
    """Two classes: D(D+1)/2 + 2D + 1 for the densities, D + 1 for the boundary alone."""
    X, y = load_wine(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    D = X.shape[1]
    assert GaussianClassifier().fit(X, y).n_parameters_ == D * (D + 1) // 2 + 2 * D + 1
    assert LogisticRegression(prior=1.0).fit(X, y).n_parameters_ == D + 1
    assert GaussianClassifier("separate").fit(X, y).n_parameters_ == 2 * D * (D + 1) // 2 + 2 * D + 1
    assert GaussianClassifier("diagonal").fit(X, y).n_parameters_ == 4 * D + 1
    assert GaussianClassifier("spherical").fit(X, y).n_parameters_ == 2 * D + 2 + 1
    assert GaussianClassifier(class_prior=[0.5, 0.5]).fit(X, y).n_parameters_ == D * (D + 1) // 2 + 2 * D


# --------------------------------------------------------------------------------------- tied covariances


def test_a_group_for_each_class_is_separate_and_one_group_is_shared() -> None:
    X, y = three_classes()
    for groups, name in (({0: "a", 1: "b", 2: "c"}, "separate"), ({0: 1, 1: 1, 2: 1}, "shared")):
        tied, plain = GaussianClassifier(groups).fit(X, y), GaussianClassifier(name).fit(X, y)
        np.testing.assert_allclose(tied.covariances_, plain.covariances_, rtol=1e-12)
        np.testing.assert_allclose(tied.predict_proba(X), plain.predict_proba(X), atol=1e-12)
        assert tied.n_parameters_ == plain.n_parameters_


def test_a_known_model_with_two_tied_classes_is_recovered() -> None:
    rng = np.random.default_rng(1)
    L = {"tied": np.array([[1.0, 0.0], [0.8, 0.6]]), "own": np.array([[0.5, 0.0], [-0.3, 2.0]])}
    mean = np.array([[0.0, 0.0], [2.0, 1.0], [-1.0, 3.0]])
    t = rng.choice(3, 60_000, p=[0.2, 0.3, 0.5])
    z = rng.normal(size=(len(t), 2))
    X = np.where((t == 0)[:, None], z @ L["own"].T, z @ L["tied"].T) + mean[t]
    model = GaussianClassifier({0: "own", 1: "tied", 2: "tied"}).fit(X, t)
    np.testing.assert_allclose(model.means_, mean, atol=0.05)
    np.testing.assert_allclose(model.covariances_[0], L["own"] @ L["own"].T, atol=0.1)
    np.testing.assert_allclose(model.covariances_[1], L["tied"] @ L["tied"].T, atol=0.03)
    assert np.array_equal(model.covariances_[1], model.covariances_[2])
    again = GaussianClassifier(model.covariance).fit(*model.sample(60_000, seed=0))
    np.testing.assert_allclose(again.covariances_, model.covariances_, atol=0.1)


# ---------------------------------------------------------------------------------------------- sampling


def standard_errors(model: GaussianClassifier, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Asymptotic standard errors of prior, means and covariances of a model with full covariances."""
    prior, S = model.class_prior_, model.covariances_
    groups = {g: sum(p for p, h in zip(prior, model._folded.statistic.group, strict=True) if h == g) for g in range(3)}
    rows = np.array([groups[int(g)] for g in model._folded.statistic.group]) * n
    diagonal = np.einsum("kii->ki", S)
    spread = np.sqrt((diagonal[:, :, None] * diagonal[:, None, :] + S**2) / rows[:, None, None])
    return np.sqrt(prior * (1 - prior) / n), np.sqrt(diagonal / (prior * n)[:, None]), spread


@pytest.mark.parametrize("covariance", ["shared", "separate", TIED], ids=str)
def test_samples_give_the_parameters_back_within_their_standard_errors(covariance) -> None:
    truth = GaussianClassifier(covariance).fit(*three_classes(5000))
    n, z = 4000, []
    for seed in range(20):
        again = GaussianClassifier(covariance).fit(*truth.sample(n, seed=seed))
        errors = standard_errors(truth, n)
        for name, error in zip(("class_prior_", "means_", "covariances_"), errors, strict=True):
            z.append(((getattr(again, name) - getattr(truth, name)) / error).ravel())
    everything = np.abs(np.concatenate(z))
    assert everything.max() < 4.5
    # Some 68 of 100 are within one standard error, 95 within two.
    assert 0.6 < np.mean(everything < 1.0) < 0.76
    assert np.mean(everything < 2.0) > 0.93


def test_samples_repeat_with_their_seed_and_are_tables_if_the_rows_were() -> None:
    X, y = three_classes()
    model = GaussianClassifier().fit(X, y)
    first, labels = model.sample(10, seed=3)
    assert np.array_equal(first, model.sample(10, seed=3)[0]) and first.shape == (10, 3) and len(labels) == 10
    for library in (pandas, polars):
        table = library.DataFrame({name: X[:, j] for j, name in enumerate("abc")})
        drawn, _ = GaussianClassifier().fit(table, y).sample(10, seed=3)
        assert isinstance(drawn, library.DataFrame) and list(drawn.columns) == ["a", "b", "c"]
        np.testing.assert_allclose(drawn.to_numpy(), first)


@pytest.mark.parametrize("prior", [[0.5, 0.5], [0.9, 0.1]])
def test_bayes_error_agrees_with_the_closed_form(prior) -> None:
    X, y = three_classes()
    X, y = X[y < 2], y[y < 2]
    model = GaussianClassifier(class_prior=prior).fit(X, y)
    delta = model.means_[1] - model.means_[0]
    distance = np.sqrt(delta @ np.linalg.solve(model.covariances_[0], delta))
    exact, sampled = bayes_error(model), bayes_error(model, n=200_000, seed=0)
    assert exact.std_error == 0.0 and exact.n == 0
    if prior == [0.5, 0.5]:
        assert exact.error == pytest.approx(ndtr(-distance / 2.0), rel=1e-12)
    assert abs(sampled.error - exact.error) < 4.0 * sampled.std_error and sampled.std_error < 1e-3
    # The same by counting wrong decisions.
    rows, labels = model.sample(200_000, seed=1)
    wrong = np.mean(model.predict(rows) != labels)
    assert abs(wrong - exact.error) < 4.0 * np.sqrt(exact.error / 200_000)


def test_bayes_error_of_more_classes_is_sampled() -> None:
    model = GaussianClassifier("separate").fit(*three_classes())
    found = bayes_error(model, seed=0)
    assert found.n == 100_000 and 0.0 < found.error < 0.3 and 0.0 < found.std_error < 1e-2
    assert float(found) == found.error and "±" in str(found)
    with pytest.raises(TypeError, match="LogisticRegression"):
        bayes_error(LogisticRegression())


# ------------------------------------------------------------------------------------------- class prior


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_another_class_prior_equals_a_refit_with_it(covariance) -> None:
    X, y = three_classes()
    prior = {0: 0.1, 1: 0.6, 2: 0.3}
    moved = GaussianClassifier(covariance).fit(X, y).with_class_prior(prior)
    refit = GaussianClassifier(covariance, class_prior=prior).fit(X, y)
    np.testing.assert_array_equal(moved.predict_proba(X), refit.predict_proba(X))
    np.testing.assert_array_equal(moved.class_prior_, refit.class_prior_)
    assert moved.get_params() == refit.get_params()


def test_another_class_prior_moves_the_boundary_parallel_to_itself() -> None:
    X, y = three_classes()
    model = GaussianClassifier().fit(X, y)
    moved = model.with_class_prior({0: 0.1, 1: 0.6, 2: 0.3})
    np.testing.assert_array_equal(moved.coef_, model.coef_)
    np.testing.assert_allclose(moved.boundary_.normal, model.boundary_.normal, rtol=1e-14)
    shift = np.log(moved.class_prior_ / model.class_prior_)
    np.testing.assert_allclose(moved.intercept_ - model.intercept_, shift, rtol=1e-10)
    assert model.class_prior is None and not np.array_equal(model.class_prior_, moved.class_prior_)


@pytest.mark.parametrize("prior", [{0: 0.5, 1: 0.5}, [0.5, 0.5], [0.5, 0.6, 0.1], [1.0, 0.0, 0.0], "uniform"])
def test_a_class_prior_that_is_none_is_refused(prior) -> None:
    with pytest.raises((ValueError, TypeError), match="class_prior"):
        GaussianClassifier(class_prior=prior).fit(*IRIS)
    with pytest.raises((ValueError, TypeError), match="class_prior"):
        GaussianClassifier().fit(*IRIS).with_class_prior(prior)


# ---------------------------------------------------------------------------------------- missing values


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_missing_values_at_prediction_are_marginalised(covariance) -> None:
    """The marginal of the fitted Gaussian is the Gaussian fitted to the other columns (but for 'spherical')."""
    X, y = three_classes()
    model = GaussianClassifier(covariance, missing="marginalise").fit(X, y)
    for lost in ([0], [1, 2]):
        some, rest = X.copy(), [j for j in range(3) if j not in lost]
        some[::2, lost] = np.nan
        found = model.predict_proba(some)
        np.testing.assert_allclose(found[1::2], model.predict_proba(X[1::2]), rtol=1e-11)
        if "spherical" not in str(covariance):
            part = GaussianClassifier(covariance).fit(X[:, rest], y)
            np.testing.assert_allclose(found[::2], part.predict_proba(X[::2, rest]), atol=1e-11)
            np.testing.assert_allclose(
                model.log_density(some)[::2], part.log_density(X[::2, rest]), rtol=1e-9, atol=1e-9
            )
        assert np.array_equal(model.predict(some), found.argmax(axis=1))
    np.testing.assert_allclose(model.predict_proba(np.full((1, 3), np.nan)), [model.class_prior_], rtol=1e-12)
    table = polars.DataFrame({"x0": [None, 1.0], "x1": [0.5, None], "x2": [1.0, 1.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        nulls = model.predict_proba(table)
    np.testing.assert_allclose(nulls, model.predict_proba([[np.nan, 0.5, 1.0], [1.0, np.nan, 1.0]]))


def test_predict_of_incomplete_rows_is_refused_unless_asked_for() -> None:
    X, y = three_classes()
    hole = X.copy()
    hole[7, 1] = np.nan
    table = pandas.DataFrame(hole, columns=["a", "b", "c"])
    model = GaussianClassifier().fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)
    with pytest.raises(InvalidInputError, match=r"'b' has 1 missing .* row 7.*missing='marginalise'"):
        model.predict(table)
    assert model.predict_proba(table).shape == (600, 3)
    assert GaussianClassifier("diagonal").fit(X, y).predict(hole).shape == (600,)


@pytest.mark.parametrize("covariance", ["diagonal", "spherical", "shared-diagonal"])
def test_missing_values_in_fitting_are_left_out_where_columns_are_independent(covariance) -> None:
    X, y = three_classes()
    rng = np.random.default_rng(0)
    hole = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    model = GaussianClassifier(covariance).fit(hole, y)
    parts = [hole[y == k] for k in range(3)]
    np.testing.assert_allclose(model.means_, [np.nanmean(part, axis=0) for part in parts], rtol=1e-12)
    if covariance == "diagonal":
        np.testing.assert_allclose(model.covariances_, [np.nanvar(part, axis=0) for part in parts], rtol=1e-12)
    np.testing.assert_allclose(model.class_prior_, np.bincount(y) / len(y), rtol=1e-14)
    joint = (model.log_density(hole) + np.log(model.class_prior_))[np.arange(len(X)), y].sum()
    assert model.log_likelihood_ == pytest.approx(joint, rel=1e-12)


@pytest.mark.parametrize("covariance", ["shared", "separate", TIED], ids=str)
def test_missing_values_in_fitting_are_refused_by_name_where_they_are_not(covariance) -> None:
    X, y = three_classes()
    X[[3, 9], 1] = np.nan
    with pytest.raises(InvalidInputError, match=r"'b' has 2 missing values .*row 3.*drop or fill.*'diagonal'"):
        GaussianClassifier(covariance).fit(pandas.DataFrame(X, columns=["a", "b", "c"]), y)


def test_infinite_values_are_refused_by_name_everywhere() -> None:
    X, y = three_classes()
    bad = X.copy()
    bad[4, 2] = -np.inf
    for covariance in EVERY:
        with pytest.raises(InvalidInputError, match=r"inf.*'x2'.*row 4"):
            GaussianClassifier(covariance).fit(bad, y)
        with pytest.raises(InvalidInputError, match=r"inf.*'x2'.*row 4"):
            GaussianClassifier(covariance).fit(X, y).predict_proba(bad)
    with pytest.raises(InvalidInputError, match=r"inf.*'x2'.*row 4"):
        GaussianClassifier().fit(X, y).predict_proba(sparse.csr_array(bad))


# ------------------------------------------------------------------------------------ singular covariances


def test_a_dependent_column_is_named_with_those_it_depends_on() -> None:
    X, y = three_classes()
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    table["d"] = 2.0 * table["a"] - table["c"] + 5.0
    for covariance in ("shared", "separate", TIED):
        with pytest.raises(InvalidInputError, match=r"'d' is a linear combination of 'a', 'c'\..*shrinkage"):
            GaussianClassifier(covariance).fit(table, y)
    for shrinkage in (0.1, "oas"):
        fitted = GaussianClassifier("separate", shrinkage=shrinkage).fit(table, y)
        assert np.isfinite(fitted.log_density(table)).all()


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_a_constant_column_is_named(covariance) -> None:
    X, y = three_classes()
    X[:, 1] = 0.1
    with (
        pytest.raises(InvalidInputError, match=r"'x1' .*zero variance.*0\.1.*shrinkage")
        if ("spherical" not in str(covariance))
        else warnings.catch_warnings()
    ):
        GaussianClassifier(covariance).fit(X, y)


@pytest.mark.parametrize("covariance", ["separate", "diagonal", TIED], ids=str)
def test_a_column_constant_in_a_class_is_named_with_the_class(covariance) -> None:
    X, y = three_classes()
    X[y == 0, 1] = 7.0
    with pytest.raises(InvalidInputError, match=r"'x1' has zero variance in class 0 .*7"):
        GaussianClassifier(covariance).fit(X, y)


@pytest.mark.parametrize("covariance", ["separate", "diagonal", "spherical", TIED], ids=str)
def test_a_class_with_one_row_is_named(covariance) -> None:
    X, y = three_classes()
    rows = np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y == 0)[:1]])
    with pytest.raises(InvalidInputError, match=r"[Cc]lass 0 has 1 row"):
        GaussianClassifier(covariance).fit(X[rows], y[rows])
    assert GaussianClassifier().fit(X[rows], y[rows]).predict(X).shape == (600,)
    assert np.isfinite(GaussianClassifier().fit(X[rows], y[rows]).coef_).all()


def test_too_few_rows_for_a_separate_covariance_are_counted() -> None:
    X, y = three_classes()
    rows = np.concatenate([np.flatnonzero(y > 0), np.flatnonzero(y == 0)[:3]])
    with pytest.raises(InvalidInputError, match=r"Class 0 has 3 rows, too few .* 3 columns \(at least 4"):
        GaussianClassifier("separate").fit(X[rows], y[rows])
    assert GaussianClassifier("separate", shrinkage=0.1).fit(X[rows], y[rows]).score(X, y) > 0.6


def test_more_columns_than_rows_are_fitted_with_a_warning() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 20)), np.arange(12) % 2
    with pytest.warns(CollinearityWarning, match="12 rows of 2 classes are too few.*'oas'"):
        model = GaussianClassifier().fit(X, y)
    assert len(model.aliased_) == 10 and not model.coef_[0, 10:].any() and np.isfinite(model.log_density(X)).all()
    assert model.n_parameters_ == 10 * 11 // 2 + 2 * 10 + 1
    assert model.sample(5, seed=0)[0].shape == (5, 20)


def test_a_column_that_is_constant_within_every_class_is_set_aside_with_a_warning() -> None:
    X, y = three_classes()
    X[:, 1] = y
    with pytest.warns(CollinearityWarning, match="'x1' was set aside, since they do not vary inside any class"):
        model = GaussianClassifier().fit(X, y)
    np.testing.assert_allclose(
        model.predict_proba(X), GaussianClassifier().fit(X[:, [0, 2]], y).predict_proba(X[:, [0, 2]])
    )


# --------------------------------------------------------------------------------------- numbers and forms


def test_columns_far_from_zero_keep_their_digits() -> None:
    X, y = three_classes()
    far = X + np.array([1e8, -1e8, 1e6])
    exact = far - np.array([1e8, -1e8, 1e6])
    for covariance in EVERY:
        model, near = GaussianClassifier(covariance).fit(far, y), GaussianClassifier(covariance).fit(exact, y)
        np.testing.assert_allclose(model.covariances_, near.covariances_, rtol=1e-6)
        np.testing.assert_allclose(model.predict_proba(far), near.predict_proba(exact), atol=1e-6)


def test_units_of_the_columns_do_not_matter() -> None:
    X, y = three_classes()
    scale = np.array([1e6, 1.0, 1e-6])
    for covariance in ("shared", "separate", "diagonal", TIED):
        P = GaussianClassifier(covariance).fit(X, y).predict_proba(X)
        np.testing.assert_allclose(
            GaussianClassifier(covariance).fit(X * scale, y).predict_proba(X * scale), P, atol=1e-9
        )


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_sparse_float32_and_column_order_give_the_same(covariance) -> None:
    X, y = three_classes()
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    model = GaussianClassifier(covariance).fit(X, y)
    for form in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, np.asfortranarray, list):
        other = GaussianClassifier(covariance).fit(form(X), y)
        np.testing.assert_allclose(other.predict_proba(form(X)), model.predict_proba(X), atol=1e-10)
    narrow = X.astype(np.float32)
    np.testing.assert_allclose(
        GaussianClassifier(covariance).fit(narrow, y).covariances_,
        GaussianClassifier(covariance).fit(narrow.astype(np.float64), y).covariances_,
        rtol=1e-12,
    )


@pytest.mark.parametrize("covariance", EVERY, ids=str)
def test_weights_count_rows(covariance) -> None:
    X, y = three_classes()
    s = np.random.default_rng(0).integers(0, 4, len(X))
    weighted = GaussianClassifier(covariance).fit(X, y, sample_weight=s)
    repeated = GaussianClassifier(covariance).fit(np.repeat(X, s, axis=0), np.repeat(y, s))
    np.testing.assert_allclose(weighted.predict_log_proba(X), repeated.predict_log_proba(X), rtol=1e-9, atol=1e-9)
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_, rel=1e-12)


def test_the_number_of_threads_changes_no_bit() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 500_000)
    X = rng.normal(size=(len(y), 10)) + y[:, None]
    for covariance in ("shared", "separate", "diagonal"):
        one, two = (GaussianClassifier(covariance, threads=threads).fit(X, y) for threads in (1, 2))
        assert np.array_equal(one.covariances_, two.covariances_) and np.array_equal(one.means_, two.means_)


def test_a_column_of_the_table_can_be_the_target() -> None:
    X, y = three_classes()
    table = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": np.array(["u", "v", "w"])[y]})
    model = GaussianClassifier({"u": 1, "v": 1, "w": 2}).fit(table, y="kind")
    assert model.classes_.tolist() == ["u", "v", "w"] and model.feature_names_in_.tolist() == ["a", "b"]
    np.testing.assert_allclose(model.predict_proba(table.drop("kind")).sum(axis=1), 1.0)


# --------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"covariance": "pooled"}, UnknownNameError, "'pooled'.*'shared'"),
        ({"covariance": 3}, TypeError, "mapping from class to group"),
        ({"covariance": {0: 1, 1: 1}}, InvalidInputError, "no group to class 2"),
        ({"shrinkage": 1.5}, InvalidInputError, "shrinkage must be.*1.5"),
        ({"shrinkage": "lw"}, InvalidInputError, "shrinkage must be.*'lw'"),
        ({"missing": "drop"}, UnknownNameError, "'drop'.*'marginalise'"),
        ({"threads": 0}, InvalidInputError, "threads"),
    ],
)
def test_bad_parameters_are_refused_before_the_data_is_read(given, error, said) -> None:
    with pytest.raises(error, match=said):
        GaussianClassifier(**given).fit(*IRIS)


def test_a_refused_fit_leaves_the_earlier_one() -> None:
    X, y = three_classes()
    model = GaussianClassifier("separate").fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(InvalidInputError):
        model.fit(np.zeros((6, 2)), [0, 1, 0, 1, 0, 1])
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_an_unfitted_model_says_so() -> None:
    model = GaussianClassifier()
    assert not hasattr(model, "means_")
    for ask in (lambda: model.predict([[0.0]]), lambda: model.sample(3), lambda: model.with_class_prior([0.5, 0.5])):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask()


@pytest.mark.slow
@pytest.mark.parametrize("shrinkage", [0.0, "oas"])
def test_the_model_passes_every_check_of_models(shrinkage) -> None:
    check_model(GaussianClassifier(shrinkage=shrinkage))
