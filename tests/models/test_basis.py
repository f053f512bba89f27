"""Basis functions inside every model: the lecture's story, scikit-learn's pipelines, kernels, and blocks of rows."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, make_moons
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from oddsmith import (
    GaussianClassifier,
    GaussianKernel,
    GaussianPrior,
    LeastSquaresClassifier,
    LogisticRegression,
    PerceptronClassifier,
    Polynomial,
    RadialBasis,
    Spline,
    Standardize,
)
from oddsmith.engines import memory
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.testing import all_models

MODELS = [model for model in all_models() if "basis" in model.get_params()]


def ring(n: int = 400, K: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes around one another, which no line separates."""
    rng = np.random.default_rng([seed, K])
    y = np.arange(n) % K
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    radius = 1.5 * y + 0.9 * rng.uniform(0.2, 1.0, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def quietly(model: Any, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y)


# --- the lecture's story


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("basis", [Polynomial(2), RadialBasis(30), GaussianKernel(1.0, landmarks=60)], ids=repr)
def test_what_no_line_separates_a_basis_does(K: int, basis: Any) -> None:
    X, y = ring(K=K)
    assert LogisticRegression(prior=10.0).fit(X, y).score(X, y) < 0.75
    model = LogisticRegression(prior=10.0, basis=basis).fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.certificate_.converged


@pytest.mark.parametrize("basis", [Polynomial(3), RadialBasis(30)], ids=repr)
def test_a_prior_lowers_the_weights_and_raises_the_entropy_near_the_boundary(basis: Any) -> None:
    X, y = ring()
    rng = np.random.default_rng(1)
    X = X + rng.normal(scale=0.4, size=X.shape)
    wide, narrow = (LogisticRegression(prior=scale, basis=basis).fit(X, y) for scale in (1000.0, 2.0))
    assert np.abs(narrow.coef_).max() < np.abs(wide.coef_).max()
    near = np.argsort(np.abs(wide.decision_function(X)))[:100]

    def entropy(model: Any) -> float:
        p = model.predict_proba(X[near])
        return float(-(p * np.log(p)).sum(axis=1).mean())

    assert entropy(narrow) > entropy(wide)


# --- every model


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("basis", [[Standardize(), Polynomial(2)], RadialBasis(5, width=1.0)], ids=["list", "one"])
def test_a_model_with_a_basis_is_the_model_of_its_columns(model: Any, basis: Any) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[50:], y[50:]
    inside = quietly(clone(model).set_params(basis=basis), X, y)
    steps = [clone(step).fit(X) if i == 0 else clone(step) for i, step in enumerate(np.atleast_1d(basis))]
    Phi = make_pipeline(*steps).fit_transform(X)
    outside = quietly(clone(model), Phi, y)
    np.testing.assert_allclose(inside.decision_function(X), outside.decision_function(Phi), rtol=1e-9, atol=1e-9)
    assert inside.n_features_in_ == 4 and inside.basis_.n_outputs == Phi.shape[1]
    assert np.array_equal(pickle.loads(pickle.dumps(inside)).predict(X), inside.predict(X))
    before = inside.predict(X)
    assert np.array_equal(inside.set_params(basis=None).predict(X), before)  # a fit stands until the next one
    assert not hasattr(quietly(inside, X, y), "basis_")


@pytest.mark.parametrize("data", [load_iris, load_breast_cancer])
def test_one_object_equals_scikit_learns_pipeline(data: Any) -> None:
    X, y = data(return_X_y=True)
    X = X[:, :8]
    model = LogisticRegression(prior=1.0, basis=[Standardize(), Polynomial(2)]).fit(X, y)
    peer = make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2, include_bias=False),
        SklearnLogistic(C=1.0, tol=1e-14, max_iter=10_000, solver="newton-cholesky"),
    ).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(X), rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.coef_, peer[-1].coef_, rtol=0, atol=1e-8)


@pytest.mark.parametrize("model", [LogisticRegression, LeastSquaresClassifier, PerceptronClassifier])
def test_scikit_learns_checks_pass_with_a_basis(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(model(basis=[Standardize(), Polynomial(2, interactions=False)]))


def test_terms_have_the_names_of_the_basis() -> None:
    import polars

    table = polars.DataFrame({"age": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "dose": [1.0, 1.0, 2.0, 2.0, 3.0, 1.0]})
    model = LogisticRegression(prior=1.0, basis=Polynomial(2)).fit(table, [0, 1, 0, 1, 1, 0])
    assert model.basis_.names.tolist() == ["age", "dose", "age^2", "age dose", "dose^2"]
    with pytest.warns(match="'age\\^2', 'dose\\^2' are linear combinations of earlier columns"):
        ones = table.with_columns(age=polars.Series([0.0, 1.0, 0.0, 1.0, 0.0, 1.0]), dose=polars.Series([1.0, 0.0] * 3))
        LogisticRegression(basis=Polynomial(2, interactions=False)).fit(
            ones.with_columns(dose=polars.Series([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])), [0, 1, 1, 0, 1, 0]
        )


# --- blocks of rows


class Watched(Polynomial):
    """A basis that notes how many rows it is given at a time."""

    most = 0

    def expand(self, rows: Any) -> Any:
        Watched.most = max(Watched.most, rows.shape[0])
        return super().expand(rows)


def test_rows_are_expanded_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is too large to be kept is never made whole, in fitting or predicting."""
    monkeypatch.setattr(memory, "KEPT_BYTES", 0)
    monkeypatch.setattr(memory, "MADE_BYTES", 1 << 16)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 3))
    y = (X[:, 0] * X[:, 1] + 0.5 * rng.logistic(size=len(X)) > 0).astype(int)
    whole = Polynomial(2).fit_transform(X)
    for model in (LogisticRegression(prior=1.0), LogisticRegression(), GaussianClassifier(), LeastSquaresClassifier()):
        Watched.most = 0
        inside = clone(model).set_params(basis=Watched(2)).fit(X, y)
        assert 0 < Watched.most < 10_000
        expected = clone(model).fit(whole, y)
        np.testing.assert_allclose(inside.coef_, expected.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(inside.decision_function(X), expected.decision_function(whole), rtol=1e-5, atol=1e-6)


# --- kernels


def kernel_matrix(A: np.ndarray, B: np.ndarray, width: float) -> np.ndarray:
    return np.exp(-((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2) / (2.0 * width**2))


def test_kernel_logistic_regression_at_every_row_has_a_certified_optimum() -> None:
    X, y = make_moons(600, noise=0.3, random_state=0)
    model = LogisticRegression(prior=1.0, basis=GaussianKernel(0.5)).fit(X, y)
    assert model.coef_.shape == (1, 600)
    assert model.certificate_.converged and model.certificate_.rigorous
    K = kernel_matrix(X, X, 0.5)
    peer = SklearnLogistic(C=1.0, tol=1e-12, max_iter=1000, solver="newton-cholesky").fit(K, y)
    np.testing.assert_allclose(model.predict_proba(X), peer.predict_proba(K), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kept", [True, False])
def test_a_prior_in_function_space_penalises_the_norm_of_the_function(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge minimises ``Σ ℓ + ½ vᵀK v / σ²`` over the function's values at the centres, f = K v."""
    if not kept:
        monkeypatch.setattr(memory, "KEPT_BYTES", 0)
    X, y = make_moons(150, noise=0.3, random_state=1)
    centers = X[:40]
    prior = GaussianPrior(scale=2.0, space="function")
    model = LogisticRegression(prior=prior, basis=GaussianKernel(0.7, landmarks=centers)).fit(X, y)
    assert model.certificate_.converged and model.certificate_.rigorous
    K, Phi, t = kernel_matrix(centers, centers, 0.7), kernel_matrix(X, centers, 0.7), 2.0 * y - 1.0

    def objective(p: np.ndarray) -> tuple[float, np.ndarray]:
        a = p[0] + Phi @ p[1:]
        value = np.logaddexp(0.0, -t * a).sum() + 0.5 * p[1:] @ K @ p[1:] / 4.0
        r = -t / (1.0 + np.exp(t * a))
        return float(value), np.concatenate([[r.sum()], Phi.T @ r + K @ p[1:] / 4.0])

    best = optimize.minimize(
        objective, np.zeros(41), jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 20_000}
    )
    a = best.x[0] + Phi @ best.x[1:]
    np.testing.assert_allclose(model.decision_function(X), a, rtol=0, atol=1e-4)
    mine = np.logaddexp(0.0, -t * model.decision_function(X)).sum() + 0.5 * (model.coef_**2).sum() / 4.0
    assert mine == pytest.approx(best.fun, rel=1e-9)


def test_function_space_needs_a_kernel() -> None:
    X, y = make_moons(50, noise=0.3, random_state=0)
    for basis in (None, Polynomial(2), [GaussianKernel(1.0), Standardize()]):
        with pytest.raises(InvalidInputError, match="needs a scale and a model whose last basis is a Gaussian"):
            LogisticRegression(prior=GaussianPrior(scale=1.0, space="function"), basis=basis).fit(X, y)
    with pytest.raises(UnknownNameError, match="Unknown space of a prior 'weight'"):
        LogisticRegression(prior=GaussianPrior(scale=1.0, space="weight"), basis=GaussianKernel(1.0)).fit(X, y)


# --- bad input


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_what_is_no_basis_is_refused(model: Any) -> None:
    X, y = load_iris(return_X_y=True)
    for wrong in ("cubic", [Polynomial(2), 3]):
        with pytest.raises(InvalidTypeError, match="basis must be one of GaussianKernel"):
            clone(model).set_params(basis=wrong).fit(X[50:], y[50:])


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        (GaussianKernel(0.0), "width of GaussianKernel must be a positive number, found 0.0"),
        (GaussianKernel(1.0, landmarks=101), "landmarks=101 of GaussianKernel is more than there are different rows"),
        (RadialBasis(1000), "centers=1000 of RadialBasis is more than there are different rows"),
        (Polynomial(0), "degree of Polynomial must be a whole number of at least 1, found 0"),
        (Polynomial(9, limit=500), "Polynomial would make 714 columns .*the limit is 500.*limit=714"),
        (Spline([3.0, 2.0]), "knots"),
    ],
)
def test_bad_bases_are_refused_in_a_sentence(basis: Any, message: str) -> None:
    X, y = load_iris(return_X_y=True)
    model = LogisticRegression(prior=1.0, basis=basis)
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        model.fit(X[50:], y[50:])
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_basis_sees_the_columns_of_the_design() -> None:
    import pandas

    table = pandas.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "colour": ["red", "blue", "red", "blue"]})
    model = LogisticRegression(prior=1.0, basis=Polynomial(2)).fit(table, [0, 1, 0, 1])
    assert model.basis_.names.tolist() == ["age", "colour[red]", "age^2", "age colour[red]", "colour[red]^2"]
    table["colour"] = [b"red", b"blue", b"red", b"blue"]
    with pytest.raises(InvalidInputError, match=r"Column 'colour' .* could not be read as numbers"):
        LogisticRegression(prior=1.0, basis=Polynomial(2)).fit(table, [0, 1, 0, 1])
