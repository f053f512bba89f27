"""Two classes through every link: R's ``glm``, feasibility of bounded links, and honest trouble."""

import warnings

import numpy as np
import pytest
from scipy import optimize, stats
from tests.reference_data import Case, cases

from oddsmith import GaussianPrior, LogisticRegression, OneVsRest, ProbitRegression
from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.errors import InvalidInputError, OddsmithWarning, SeparationWarning, UnknownNameError
from oddsmith.likelihood.barrier import feasible_start
from oddsmith.likelihood.problem import Problem
from oddsmith.links import LINKS

UNBOUNDED = [name for name in LINKS if np.isinf(LINKS[name].domain).all()]
BOUNDED = [name for name in LINKS if name not in UNBOUNDED]


def draw(link: str, n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of a model with the link, its activations well inside the domain."""
    rng = np.random.default_rng([seed, n])
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    a = X @ np.array([0.9, -0.6, 0.3])
    middle = {"log": -2.2, "identity": 0.5}.get(link, 0.0)
    a = middle + a * (0.2 if link == "identity" else 1.0)
    return X, (rng.random(n) < LINKS[link].inverse(a)).astype(int)


@pytest.mark.parametrize("case", cases("link_*"), ids=str)
def test_weights_and_log_likelihood_equal_r_glm(case: Case) -> None:
    model = LogisticRegression(link=case.expected["link"])
    model.fit(case.X, case.y == case.classes[1], sample_weight=case.weights, offset=case.offset)
    found = np.concatenate([model.intercept_, model.coef_[0]])
    np.testing.assert_allclose(found, case.expected["coefficients_polished"], rtol=1e-8)
    assert model.log_likelihood_ == pytest.approx(case.expected["log_likelihood_polished"], rel=1e-10)
    assert model.log_likelihood_ >= case.expected["log_likelihood"] - 1e-9  # never below R
    assert model.certificate_.converged and not model.certificate_.rigorous
    fitted = np.array(case.expected["fitted"])
    np.testing.assert_allclose(model.predict_proba(case.X[: len(fitted)])[:, 1], fitted, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("link", [name for name in LINKS if name != "logit"])
def test_the_optimum_is_that_of_a_general_optimiser_with_a_prior(link: str) -> None:
    """The judge writes the likelihood with SciPy's distributions, not with ours."""
    X, y = draw(link)
    model = LogisticRegression(prior=0.5, link=link).fit(X, y)
    survival = {
        "probit": stats.norm.sf,
        "cloglog": stats.gumbel_l.sf,
        "loglog": stats.gumbel_r.sf,
        "cauchit": stats.cauchy.sf,
        "log": lambda a: 1.0 - np.exp(np.minimum(a, -1e-12)),
        "identity": lambda a: np.clip(1.0 - a, 1e-12, 1 - 1e-12),
    }[link]

    def objective(w: np.ndarray) -> float:
        q = survival(w[0] + X @ w[1:])
        return float(-np.log(np.where(y == 1, 1.0 - q, q)).sum() + 0.5 * (w[1:] ** 2).sum() / 0.25)

    found = np.concatenate([model.intercept_, model.coef_[0]])
    gradient = optimize.approx_fprime(found, objective, 1e-6)
    assert np.abs(gradient).max() < 1e-2
    assert objective(found) <= min(objective(found + d) for d in 1e-3 * np.random.default_rng(0).normal(size=(50, 4)))


def test_probit_regression_is_the_probit_link_by_name() -> None:
    X, y = draw("probit")
    one, other = ProbitRegression(prior=1.0).fit(X, y), LogisticRegression(prior=1.0, link="probit").fit(X, y)
    assert np.array_equal(one.coef_, other.coef_)
    assert repr(ProbitRegression(prior=1.0)) == "ProbitRegression(prior=1.0)"
    np.testing.assert_allclose(one.predict_proba(X)[:, 1], stats.norm.cdf(one.decision_function(X)), rtol=1e-12)


@pytest.mark.parametrize("link", list(LINKS))
def test_decisions_distances_and_probabilities_agree(link: str) -> None:
    X, y = draw(link)
    model = LogisticRegression(link=link).fit(X, y)
    p = model.predict_proba(X)
    assert np.allclose(p.sum(axis=1), 1.0, rtol=1e-14)
    assert np.allclose(np.log(p), model.predict_log_proba(X), rtol=1e-12)
    clear = np.abs(p[:, 1] - 0.5) > 1e-9
    assert np.array_equal(model.predict(X)[clear] == 1, p[clear, 1] > 0.5)
    assert np.array_equal(np.sign(model.distance(X))[clear], np.sign(model.decision_function(X))[clear])
    foot = X - model.distance(X)[:, None] * model.boundary_.normal
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        np.testing.assert_allclose(model.predict_proba(foot)[:, 1], 0.5, rtol=1e-9)


@pytest.mark.parametrize("link", list(LINKS))
@pytest.mark.parametrize("solver", ["newton", "gradient", "truncated-newton"])
def test_solvers_agree(link: str, solver: str) -> None:
    X, y = draw(link)
    one = LogisticRegression(prior=1.0, link=link).fit(X, y)
    other = LogisticRegression(prior=1.0, link=link, solver=solver, max_iter=20_000, tol=1e-12).fit(X, y)
    assert other.certificate_.converged
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-4, atol=1e-5)


def test_trace_says_which_hessian_a_step_used() -> None:
    X, y = draw("cauchit")
    offset = np.where(y == 1, -3.0, 3.0) * (X[:, 0] > 0)  # rows so far on the wrong side that the loss bends down
    trace = LogisticRegression(link="cauchit").fit(X, y, offset=offset).trace_
    assert set(trace.hessian) == {"observed", "expected"} and trace.hessian[-1] == "observed"
    assert set(LogisticRegression(link="probit").fit(*draw("probit")).trace_.hessian) == {"observed"}
    assert "hessian" not in LogisticRegression().fit(*draw("logit")).trace_.columns


# --- links whose domain ends


@pytest.mark.parametrize("link", BOUNDED)
def test_probabilities_of_the_training_rows_stay_inside(link: str) -> None:
    for seed in range(4):
        X, y = draw(link, n=150, seed=seed)
        model = LogisticRegression(link=link).fit(X, y)
        p = model.predict_proba(X)[:, 1]
        assert 0.0 < p.min() and p.max() < 1.0 and model.certificate_.converged


def test_an_optimum_hard_by_the_end_is_found() -> None:
    """A saturated table: the estimates are the shares, one of them 0.98."""
    X = np.repeat([[0.0], [1.0]], 100, axis=0)
    y = np.concatenate([np.arange(100) < 30, np.arange(100) < 98]).astype(int)
    for link in BOUNDED:
        model = LogisticRegression(link=link).fit(X, y)
        np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]])[:, 1], [0.3, 0.98], rtol=1e-9)


@pytest.mark.parametrize("link", BOUNDED)
def test_no_feasible_optimum_is_said(link: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = (rng.random(300) < 1.0 / (1.0 + np.exp(-3.0 * X[:, 0]))).astype(int)
    with pytest.raises(InvalidInputError, match=rf"link='{link}' has no optimum .* Use another link"):
        LogisticRegression(link=link).fit(X, y)


@pytest.mark.parametrize("link", BOUNDED)
def test_a_start_is_found_without_an_intercept(link: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0.2, 1.0, size=(400, 2))
    a = X @ ([-0.9, -0.4] if link == "log" else [0.3, 0.4])
    y = (rng.random(400) < LINKS[link].inverse(a)).astype(int)
    model = LogisticRegression(link=link, fit_intercept=False).fit(X, y)
    assert model.certificate_.converged and model.intercept_[0] == 0.0
    with pytest.raises(InvalidInputError, match="No weights give every row an activation inside"):
        LogisticRegression(link=link, fit_intercept=False).fit(np.vstack([X, -X]), np.concatenate([y, y]))


def test_new_rows_outside_the_domain_are_said_and_bounded() -> None:
    X, y = draw("identity")
    model = LogisticRegression(link="identity").fit(X, y)
    far = np.vstack([X[:2], 100.0 * model.boundary_.normal, -100.0 * model.boundary_.normal])
    with pytest.warns(OddsmithWarning, match=r"2 rows, the first number 2, have activations outside \(0, 1\)"):
        p = model.predict_proba(far)
    assert p[2].tolist() == [0.0, 1.0] and p[3].tolist() == [1.0, 0.0]


# --- trouble


@pytest.mark.parametrize("link", UNBOUNDED)
@pytest.mark.parametrize("kind", ["completely", "quasi-completely"])
def test_separation_is_diagnosed_through_every_link(link: str, kind: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 2))
    X[:, 0] = np.round(X[:, 0])
    y = (X[:, 0] > 0).astype(int)
    if kind != "completely":
        y[X[:, 0] == 1] = rng.integers(0, 2, (X[:, 0] == 1).sum())
    with pytest.warns(SeparationWarning, match=f"are {kind} separated by 'x0' "):
        model = LogisticRegression(link=link).fit(X, y)
    assert not model.certificate_.converged and not model.certificate_.optimum_exists
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LogisticRegression(prior=GaussianPrior(scale=1.0), link=link).fit(X, y).certificate_.converged


def test_three_classes_and_unknown_links_are_refused() -> None:
    X, _ = draw("probit")
    y = np.arange(len(X)) % 3
    with pytest.raises(InvalidInputError, match=r"link='probit' is for two classes, but y has 3.*OneVsRest"):
        ProbitRegression().fit(X, y)
    assert OneVsRest(ProbitRegression(prior=1.0)).fit(X, y).predict(X).shape == y.shape
    with pytest.raises(UnknownNameError, match=r"Unknown link 'probti'. Known: 'cauchit', .*Did you mean 'probit'"):
        LogisticRegression(link="probti").fit(X, y > 0)
    with pytest.raises(InvalidInputError, match="Stochastic gradient descent is for link='logit'"):
        ProbitRegression(solver="sgd").fit(X, y > 0)
    assert not hasattr(ProbitRegression(), "partial_fit")


def test_later_parameters_do_not_change_a_fitted_model() -> None:
    X, y = draw("cloglog")
    model = LogisticRegression(link="cloglog").fit(X, y)
    before = model.predict_proba(X)
    assert np.array_equal(model.set_params(link="cauchit").predict_proba(X), before)


@pytest.mark.parametrize("link", sorted(LINKS))
def test_a_row_of_no_weight_may_lie_anywhere(link: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 2))
    y = (rng.random(200) < 0.3).astype(int)
    model = LogisticRegression(link=link).fit(X, y)
    far = np.vstack([X, [[1e4, -1e4], [-1e4, 1e4]]])
    weighted = LogisticRegression(link=link).fit(far, [*y, 1, 1], sample_weight=[1.0] * 200 + [0.0] * 2)
    assert np.allclose(weighted.coef_, model.coef_, rtol=1e-9)
    assert np.isclose(weighted.log_likelihood_, model.log_likelihood_, rtol=1e-12)


@pytest.mark.parametrize("rows", [2, 60])
def test_columns_that_one_class_does_not_vary_in_are_not_set_aside(rows: int) -> None:
    # With the log link only one class has curvature, and here it has too few rows for all weights.
    X = np.random.default_rng(0).normal(size=(rows, rows // 15 or 1)) * 0.1
    y = np.arange(rows) >= max(1, rows // 30)
    with pytest.raises(InvalidInputError, match="no optimum with every activation inside"):
        LogisticRegression(link="log").fit(X, y)


@pytest.mark.parametrize("link", BOUNDED)
def test_a_constant_offset_moves_the_intercept_alone(link: str) -> None:
    """The start is inside the domain with the offset, too."""
    X, y = draw(link)
    plain, moved = LogisticRegression(link=link).fit(X, y), LogisticRegression(link=link)
    for shift in (-3.0, 3.0):
        moved.fit(X, y, offset=np.full(len(y), shift))
        np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-6, atol=1e-8)
        assert moved.intercept_[0] == pytest.approx(plain.intercept_[0] - shift, abs=1e-6)


@pytest.mark.parametrize("name", BOUNDED)
def test_a_program_finds_a_start_inside_the_domain_with_large_offsets(name: str) -> None:
    X, y = draw(name)
    offset = np.random.default_rng(0).exponential(0.05 if name == "identity" else 2.0, size=(len(X), 1))
    problem = Problem(
        engine=MemoryEngine(),
        source=MemorySource(X, y.astype(np.int32), 2, None, offset),
        prior=None,
        intercept=True,
        reference=0,
        solver="auto",
        tol=1e-8,
        max_iter=100,
        class_weight=np.bincount(y).astype(np.float64),
        link=LINKS[name],
    )
    W, b = feasible_start(problem)
    a = X @ W[0] + b[0] + offset[:, 0]
    low, high = LINKS[name].domain
    assert (a > low).all() and (a < high).all()
