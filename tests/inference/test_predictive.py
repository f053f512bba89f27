"""The predictive distribution, against grids and laplace-torch."""

import numpy as np
import pytest
from tests.bayesian_cases import fit
from tests.reference_data import Case, cases

from oddsmith import LogisticRegression
from oddsmith.errors import InvalidInputError, UnknownNameError


def grid_problem(seed: int) -> tuple[LogisticRegression, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=50) * 2.0
    y = (rng.random(50) < 1.0 / (1.0 + np.exp(0.5 - x))).astype(int)
    return LogisticRegression(1.0).fit(x[:, None], y), np.array([-30.0, -3.0, -0.5, 0.0, 1.0, 4.0, 20.0])[:, None]


@pytest.mark.parametrize("seed", range(4))
def test_quadrature_equals_integration_of_the_posterior(seed: int) -> None:
    model, X = grid_problem(seed)
    posterior = model.posterior_
    # An independent rule: the Gaussian of both weights by its factor, on a fine grid.
    z = np.arange(-9.0, 9.0, 0.02)
    B, W = np.meshgrid(z, z, indexing="ij")
    density = np.exp(-0.5 * (B**2 + W**2))
    density /= density.sum()
    w = posterior.mean[:, None] + np.linalg.cholesky(posterior.covariance) @ np.stack([B.ravel(), W.ravel()])
    for row, found in zip(X, model.predictive(X).mean[:, 1], strict=True):
        exact = density.ravel() @ (1.0 / (1.0 + np.exp(-(w[0] + w[1] * row[0]))))
        assert np.isclose(found, exact, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_probit_is_near_and_samples_are_within_their_error(seed: int) -> None:
    model, X = grid_problem(seed)
    exact = model.predictive(X)
    assert np.abs(model.predictive(X, method="probit").mean - exact.mean).max() < 0.015
    near = np.abs(X[:, 0]) <= 4.0
    assert np.abs(model.predictive(X[near], method="probit").mean - exact.mean[near]).max() < 0.01
    sampled = model.predictive(X, method="samples", draws=20_000, seed=seed)
    assert (np.abs(sampled.mean - exact.mean) < 5.0 * exact.std / np.sqrt(20_000) + 1e-12).all()
    assert np.allclose(sampled.std[near], exact.std[near], rtol=0.03)
    assert np.allclose(sampled.noise[near], exact.noise[near], rtol=0.03)


@pytest.mark.parametrize("case", cases("laplace_*"), ids=str)
def test_predictive_equals_laplace_torch(case: Case) -> None:
    model, Z = fit(case)
    e = case.expected
    found = model.predictive(Z[:20], draws=40_000)
    error = np.array(e["predictive_samples_error"])
    if len(case.classes) == 2:
        probit = np.array(e["predictive_probit"])
        assert np.allclose(model.predictive(Z[:20], method="probit").mean, probit, atol=1e-8)
        assert (np.abs(found.mean - np.array(e["predictive_samples"])) < 5 * error).all()
        assert np.allclose(found.std, np.array(e["predictive_std"]), rtol=0.02)
    else:
        own = found.std / np.sqrt(40_000)
        assert (np.abs(found.mean - np.array(e["predictive_samples"])) < 5 * np.hypot(error, own)).all()
        assert np.allclose(found.std, np.array(e["predictive_std"]), rtol=0.05)
    assert np.allclose(model.predict_proba(Z[:20]), np.array(e["predictive_plug_in"]), atol=1e-8)


def test_interval_holds_the_probability_as_often_as_it_says() -> None:
    model, X = grid_problem(0)
    predictive = model.predictive(X, level=0.8)
    draws = model.posterior_.sample(20_000, seed=3)
    P = 1.0 / (1.0 + np.exp(-(draws[:, :1] + draws[:, 1:] @ X.T)))
    inside = ((predictive.lower[:, 1] <= P) & (predictive.upper[:, 1] >= P)).mean(axis=0)
    assert np.allclose(inside, 0.8, atol=0.02)
    assert np.allclose(predictive.lower[:, 0], 1.0 - predictive.upper[:, 1])


def test_interval_of_each_of_three_classes_leaves_as_much_below_as_above() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (1.5 * X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(60, 3))).argmax(axis=1)
    model = LogisticRegression(1.0).fit(X, y)
    found = model.predictive(X[:8], level=0.8, draws=20_000)
    W = model.posterior_.sample(20_000, seed=3).reshape(20_000, 3, 3)
    A = np.einsum("skp,np->nsk", W, np.column_stack([np.ones(8), X[:8]]))
    P = np.exp(A - A.max(axis=2, keepdims=True))
    P /= P.sum(axis=2, keepdims=True)
    assert np.abs((P < found.lower[:, None]).mean(axis=1) - 0.1).max() < 0.015
    assert np.abs((P > found.upper[:, None]).mean(axis=1) - 0.1).max() < 0.015


def test_ignorance_grows_away_from_the_data_and_noise_does_not() -> None:
    model = LogisticRegression(1.0).fit([[-1.0], [0.0], [1.0], [2.0]], [0, 1, 0, 1])
    predictive = model.predictive([[1.0], [100.0]])
    assert predictive.ignorance[0] < 0.2 < 0.5 < predictive.ignorance[1]
    assert predictive.noise[1] < predictive.noise[0]
    assert np.allclose(predictive.entropy, predictive.noise + predictive.ignorance)
    assert predictive.activation_std[1] > 10 * predictive.activation_std[0]


def test_rows_and_seeds_do_not_depend_on_their_neighbours() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 60)), rng.integers(0, 3, 3000)
    model = LogisticRegression(1.0).fit(X, y)
    whole = model.predictive(X, draws=40)
    part = model.predictive(X[2900:], draws=40)
    assert np.allclose(whole.mean[2900:], part.mean, rtol=1e-9)
    assert np.allclose(whole.upper[2900:], part.upper, rtol=1e-9)
    assert not np.allclose(whole.mean, model.predictive(X, draws=40, seed=1).mean, rtol=1e-9)
    assert np.allclose(whole.mean.sum(axis=1), 1.0)


@pytest.mark.parametrize("link", ["probit", "cloglog", "cauchit"])
def test_links_are_integrated(link: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(100, 2))
    y = (X[:, 0] + rng.normal(size=100) > 0).astype(int)
    model = LogisticRegression(1.0, link=link).fit(X, y)
    exact = model.predictive(X[:20])
    sampled = model.predictive(X[:20], method="samples", draws=20_000)
    assert (np.abs(sampled.mean - exact.mean) < 5.0 * exact.std / np.sqrt(20_000)).all()


def test_offset_moves_the_activation() -> None:
    model, X = grid_problem(1)
    shifted = model.predictive(X, offset=np.full(len(X), 50.0))
    assert (shifted.mean[2:, 1] > 0.999).all()


def test_record_is_a_table() -> None:
    model, X = grid_problem(0)
    assert list(model.predictive(X).to_dict()) == ["row", "mean[1]", "lower[1]", "upper[1]", "noise", "ignorance"]


def test_bad_requests_are_refused_in_words() -> None:
    model, X = grid_problem(0)
    with pytest.raises(UnknownNameError, match="Unknown method"):
        model.predictive(X, method="montecarlo")
    with pytest.raises(InvalidInputError, match="level"):
        model.predictive(X, level=1.5)
    with pytest.raises(InvalidInputError, match="draws"):
        model.predictive(X, method="samples", draws=1)
    three = LogisticRegression(1.0).fit(X, [0, 1, 2, 0, 1, 2, 0])
    with pytest.raises(InvalidInputError, match="two classes"):
        three.predictive(X, method="quadrature")
    probit = LogisticRegression(1.0, link="cloglog").fit(X, [0, 1, 0, 1, 0, 1, 1])
    with pytest.raises(InvalidInputError, match="logistic sigmoid"):
        probit.predictive(X, method="probit")


def test_interval_of_a_class_that_is_nearly_ruled_out_keeps_its_digits() -> None:
    model = LogisticRegression(prior=1.0).fit([[-1.0], [0.0], [1.0], [2.0]] * 50, [0, 0, 1, 1] * 50)
    found = model.predictive([[40.0], [-40.0]])
    for row, k in ((0, 0), (1, 1)):
        assert 0.0 < found.lower[row, k] < found.upper[row, k] < 1e-20


@pytest.mark.parametrize("method", ["quadrature", "samples"])
def test_probabilities_outside_the_domain_of_a_link_add_up(method: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((400, 1))
    y = rng.random(400) < 0.1 + 0.3 * X[:, 0]
    found = LogisticRegression(link="identity").fit(X, y).predictive([[-5.0], [0.5], [20.0]], method=method)
    assert np.allclose(found.mean.sum(axis=1), 1.0)
    assert np.allclose(found.lower[:, 0], 1.0 - found.upper[:, 1])
    assert found.mean[0, 0] > 0.99


@pytest.mark.parametrize("K", [2, 3])
def test_rows_beyond_floating_point_are_refused_and_those_before_it_are_not(K: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 1))
    model = LogisticRegression(1.0).fit(X, np.arange(90) % K)
    found = model.predictive([[1e100], [-1e100]])
    assert np.allclose(found.mean.sum(axis=1), 1.0)
    with pytest.raises(InvalidInputError, match="Row 1 of X lies so far out"):
        model.predictive([[1.0], [1e200]])
