"""The certificate is true: the objective at the result is within ``gap`` of its minimum in fifty digits."""

import warnings
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.extended import Exact, exact, in_fifty_digits
from tests.policies import set_policy

from oddsmith import GaussianPrior, LogisticRegression, newton_raphson
from oddsmith.errors import ConvergenceWarning
from oddsmith.solvers import SGD, Gradient, gap_bound
from oddsmith.solvers.base import ObjectiveValue
from oddsmith.solvers.certificate import InverseBound, certify, decrement_bound
from oddsmith.solvers.newton import unchecked_newton_step
from oddsmith.testing.solvers import constructed_problems

PROBLEMS = 200
LOOSE = [
    {"tol": 1e-2},
    {"solver": "newton", "max_iter": 2},
    {"solver": "truncated-newton", "tol": 1e-2},
    {"solver": "gradient", "max_iter": 15},
    {"solver": SGD(epochs=4, seed=0)},
]


@dataclass(frozen=True)
class Drawn:
    """A random problem, as `LogisticRegression` takes it and as the objective is written down."""

    X: Any
    y: Any
    weights: Any
    offset: Any
    parameters: dict[str, Any]
    objective: Exact

    def can_be_fitted_by(self, way: dict[str, Any]) -> bool:
        """SGD takes priors that leave the intercept alone."""
        covers_intercept = self.objective.Q is not None and self.objective.Q[0, 0] > 0
        return not (covers_intercept and isinstance(way.get("solver"), SGD))

    def fit(self, **options: Any) -> LogisticRegression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(**self.parameters, **options)
            return model.fit(self.X, self.y, sample_weight=self.weights, offset=self.offset)


def draw(seed: int, *, rows: int | None = None, prior: bool | None = None) -> Drawn:
    """Draw classes, columns of any scale, weights, offsets and a prior of any form (or none)."""
    rng = np.random.default_rng([7, seed])
    K, D = int(rng.integers(2, 5)), int(rng.integers(1, 5))
    n = rows or int(rng.integers(25 * K, 40 * K))
    scale, shift = 10.0 ** rng.uniform(-3, 3, D), rng.normal(size=D) * 10.0 ** rng.uniform(-2, 2, D)
    Z = rng.normal(size=(n, D))
    A = np.column_stack([np.zeros(n), Z @ rng.normal(size=(D, K - 1))]) + rng.gumbel(size=(n, K)) * 1.3
    y = A.argmax(axis=1)
    y[:K] = np.arange(K)
    X = (Z + shift) * scale
    weights = rng.uniform(0.2, 3.0, n) if rng.random() < 0.5 else None
    offset = rng.normal(size=n if K == 2 else (n, K)) if rng.random() < 0.3 else None
    reference = int(rng.integers(0, K)) if K > 2 and rng.random() < 0.5 else None
    given_prior, Q, mean = _draw_prior(rng, D, scale, bool(rng.random() < 0.6) if prior is None else prior)
    fixed = 0 if K == 2 or given_prior is None else reference
    M, moving = np.tile(mean, (K, 1)), np.ones((K, D + 1), dtype=bool)
    if fixed is not None:
        M[fixed], moving[fixed] = 0.0, False
    full_offset = offset if K > 2 or offset is None else np.column_stack([np.zeros(n), offset])
    s = np.ones(n) if weights is None else weights
    objective = Exact(X, y, K, s, full_offset, Q, M, moving)
    return Drawn(X, y, weights, offset, {"prior": given_prior, "reference": reference}, objective)


def _draw_prior(rng: np.random.Generator, D: int, scale: Any, wanted: bool) -> tuple[Any, Any, Any]:
    """Return a prior, its precision on (intercept, weights) and its mean."""
    mean = np.zeros(D + 1)
    if not wanted:
        return None, None, mean
    form = rng.integers(0, 4)
    sigma = float(10.0 ** rng.uniform(-2, 3))
    if form == 0:
        return sigma, np.diag([0.0] + [sigma**-2.0] * D), mean
    if form == 1:
        mean[1:] = rng.normal(size=D) / scale
        return GaussianPrior(scale=sigma, mean=mean[1:]), np.diag([0.0] + [sigma**-2.0] * D), mean
    variances = (rng.uniform(0.5, 2.0, D) / scale) ** 2
    if form == 2:
        return GaussianPrior(covariance=variances), np.diag(np.concatenate([[0.0], 1.0 / variances])), mean
    mean = rng.normal(size=D + 1) / np.concatenate([[1.0], scale])
    variances = np.concatenate([[4.0], variances])
    return GaussianPrior(covariance=variances, mean=mean), np.diag(1.0 / variances), mean


def weights_of(model: LogisticRegression) -> np.ndarray:
    W = np.column_stack([model.intercept_, model.coef_])
    return np.vstack([np.zeros_like(W), W]) if len(W) == 1 else W


def gaps(problem: Drawn, models: list[LogisticRegression], *, bounds: bool = True) -> list[Decimal]:
    """Return objective − minimum of each model, the minimum found from the first of them.

    With ``bounds`` it may be a little more: fifty digits are not needed where fewer, with their error, say enough.
    """

    def measure() -> list[Decimal]:
        start = weights_of(models[0])
        if problem.objective.Q is None:
            start = start - start[0]  # the likelihood only knows differences
        _, minimum = problem.objective.minimum(start)
        return [gap(model, minimum) for model in models]

    def gap(model: LogisticRegression, minimum: Decimal) -> Decimal:
        W = weights_of(model)
        bound = problem.objective.value_at_most(W) - minimum
        is_enough = bounds and bound <= Decimal(model.certificate_.gap)
        return bound if is_enough else problem.objective.value(exact(W)) - minimum

    return in_fifty_digits(measure)


@pytest.mark.parametrize("chunk", range(10))
def test_gap_bounds_the_true_gap_on_random_problems(chunk: int) -> None:
    finite, loose = 0, 0
    size = PROBLEMS // 10
    for seed in range(chunk * size, (chunk + 1) * size):
        problem = draw(seed)
        ways = [{}, *(way for way in LOOSE if problem.can_be_fitted_by(way))]
        models = [problem.fit(**way) for way in ways]
        for i, (model, true) in enumerate(zip(models, gaps(problem, models), strict=True)):
            certificate = model.certificate_
            what = f"seed {seed}, {ways[i] or 'default'}: {true:.3g} against {certificate.gap:.3g}"
            assert certificate.rigorous and certificate.optimum_exists, what
            assert true <= Decimal(certificate.gap), what
            if i == 0:
                assert certificate.converged, what
            if certificate.converged:
                assert certificate.gap <= 1.01 * model.tol * max(1.0, abs(float(model.trace_.objective[-1]))), what
            elif i > 0:
                loose += 1
                finite += np.isfinite(certificate.gap)
    # A bound that is infinite whenever it is needed would pass all of the above.
    assert loose > 0 and finite > 0.3 * loose


@pytest.mark.parametrize("K", [2, 3])
def test_gap_is_true_where_a_prior_alone_tells_columns_apart(K: int) -> None:
    """Of their difference the likelihood knows nothing, and rounding is large beside the prior."""
    rng = np.random.default_rng(K)
    z = rng.normal(size=60 * K)
    y = (np.outer(z, np.arange(K)) + rng.gumbel(size=(60 * K, K))).argmax(axis=1)
    X, moving = np.column_stack([z, z]) * 1e7, np.ones((K, 3), dtype=bool)
    moving[0] = K > 2
    objective = Exact(X, y, K, np.ones(len(z)), None, np.diag([0.0, 1.0, 1.0]), np.zeros((K, 3)), moving)
    problem = Drawn(X, y, None, None, {"prior": 1.0, "reference": None}, objective)
    model = problem.fit()
    (true,) = gaps(problem, [model])
    assert model.certificate_.converged and model.certificate_.rigorous
    assert true <= Decimal(model.certificate_.gap)


def test_a_column_twice_is_the_column_with_a_wider_prior() -> None:
    rng = np.random.default_rng(0)
    z = 1e5 * rng.normal(size=(20_000, 1))
    y = (z[:, 0] / 1e5 + rng.logistic(size=20_000) > 0).astype(int)
    once, twice = LogisticRegression(np.sqrt(2.0)).fit(z, y), LogisticRegression(1.0).fit(np.hstack([z, z]), y)
    assert twice.certificate_.converged
    np.testing.assert_allclose(twice.coef_, np.full((1, 2), 0.5) * once.coef_, rtol=1e-6)
    np.testing.assert_allclose(twice.trace_.objective[-1], once.trace_.objective[-1], rtol=1e-12)


def test_gap_is_tight_where_the_fit_is_loose() -> None:
    """Half the squared decrement is the gap itself near the optimum, so the bound is within a small factor of it."""
    ratios = []
    for seed in range(40):
        problem = draw(seed)
        tight, loose = problem.fit(), problem.fit(solver="newton", max_iter=3, tol=1e-12)
        true = float(gaps(problem, [tight, loose], bounds=False)[1])
        if np.isfinite(loose.certificate_.gap) and true > 1e-9:
            ratios.append(loose.certificate_.gap / true)
    assert len(ratios) >= 10
    assert np.median(ratios) < 1.5
    assert np.min(ratios) >= 1.0


@pytest.mark.parametrize("seed", range(12))
def test_gap_holds_without_a_hessian(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide problems are certified by the prior's curvature and the intercepts' alone."""
    set_policy(monkeypatch, largest_hessian=1)
    problem = draw(seed, prior=True)
    models = [problem.fit(**options) for options in ({"tol": 1e-12}, {"tol": 1e-2}, {"solver": "gradient"})]
    for model, true in zip(models, gaps(problem, models), strict=True):
        if model.certificate_.rigorous:
            assert true <= Decimal(model.certificate_.gap)


@pytest.mark.parametrize("seed", range(6))
def test_gap_holds_when_the_fit_starts_on_a_sample(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_policy(monkeypatch, large_elements=1000)
    problem = draw(seed, rows=3000, prior=bool(seed % 2))
    models = [problem.fit(), problem.fit(tol=1e-3)]
    for model, true in zip(models, gaps(problem, models), strict=True):
        assert model.certificate_.converged
        assert true <= Decimal(model.certificate_.gap)


def test_newton_objective_falls_at_every_iteration() -> None:
    for seed in range(20):
        objective = draw(seed).fit(solver="newton").trace_.objective
        assert np.all(np.diff(objective) <= 1e-12 * np.abs(objective[:-1]))


def test_certificate_counts_every_pass() -> None:
    trace = draw(3).fit(solver="newton")
    assert trace.certificate_.passes >= trace.trace_.passes[-1] >= len(trace.trace_)
    assert np.all(np.diff(trace.trace_.passes) >= 1)


@given(st.floats(1e-12, 10.0), st.floats(1e-12, 10.0), st.floats(0.0, 100.0), st.floats(0.0, 100.0))
def test_gap_bound_grows_with_decrement_and_reach(a: float, b: float, rho: float, other: float) -> None:
    low, high = sorted((a, b))
    assert gap_bound(low, rho) <= gap_bound(high, rho)
    near, far = sorted((rho, other))
    assert gap_bound(a, near) <= gap_bound(a, far) * (1 + 1e-9)
    assert gap_bound(a, rho) >= 0.5 * a**2 * (1 - 1e-9)


@pytest.mark.parametrize("rho", [0.0, 1e-9, 0.5, 3.0, 50.0])
def test_gap_bound_is_infinite_beyond_its_range_and_half_the_square_near_zero(rho: float) -> None:
    assert gap_bound(1e-9, rho) == pytest.approx(0.5e-18, rel=1e-6)
    assert gap_bound(0.0, rho) == 0.0
    if rho:
        assert gap_bound(1.001 / rho, rho) == np.inf
        assert gap_bound(float("nan"), rho) == np.inf


def test_gap_bound_has_no_step_where_its_series_begins() -> None:
    below, above = gap_bound(1e-3 * (1 - 1e-9), 1.0), gap_bound(1e-3 * (1 + 1e-9), 1.0)
    assert above == pytest.approx(below, rel=1e-6)


def test_gap_bound_is_the_worst_case_of_its_class() -> None:
    """f(x) = (e^{ρx} − ρx − 1)/ρ² has the third derivative at its limit: from the left the bound is reached."""
    rho = 2.0
    for x in (-0.1, -0.5, -2.0):
        value = (np.exp(rho * x) - rho * x - 1.0) / rho**2
        slope, bend = (np.exp(rho * x) - 1.0) / rho, np.exp(rho * x)
        decrement = abs(slope) / np.sqrt(bend)
        reach = rho / np.sqrt(bend)  # a unit step in the norm of the Hessian moves x by 1/√f″
        assert value <= gap_bound(decrement, reach) * (1 + 1e-12)
        if reach * decrement < 1:
            mirrored = (np.exp(-rho * x) + rho * x - 1.0) / rho**2
            assert mirrored >= 0.5 * ((1 - np.exp(-rho * x)) / rho) ** 2 / np.exp(-rho * x) * (1 - 1e-12)


def test_weights_agree_with_a_general_newton_raphson() -> None:
    """The certified optimum is a stationary point of the loss written out in one line."""
    x, t = np.array([-2.0, -1.0, 0.0, 1.0, 3.0]), np.array([0, 1, 0, 1, 1])
    Z = np.column_stack([np.ones(5), x])

    def gradient_of(w: np.ndarray) -> np.ndarray:
        return Z.T @ (1 / (1 + np.exp(-Z @ w)) - t)

    def hessian_of(w: np.ndarray) -> np.ndarray:
        y = 1 / (1 + np.exp(-Z @ w))
        return Z.T @ (Z * (y * (1 - y))[:, None])

    found = newton_raphson(None, gradient_of, hessian_of, np.zeros(2)).x
    model = LogisticRegression().fit(x[:, None], t)
    np.testing.assert_allclose([model.intercept_[0], model.coef_[0, 0]], found, rtol=1e-12)


def test_a_fixed_step_that_is_too_long_is_an_error_that_says_so() -> None:
    problem = draw(0)
    with pytest.raises(ValueError, match="step_size"):
        Gradient(step_size=-1.0)
    loose = problem.fit(solver=Gradient(step_size=0.5), max_iter=5)
    assert not loose.certificate_.converged or loose.certificate_.gap <= 1e-8


def test_nothing_is_certified_where_the_objective_is_infinite() -> None:
    """Any gap is a small share of infinity, an infinite one too."""

    class Lost:
        self_concordance, rounding, passes = 1.0, 0.0, 1

    e = ObjectiveValue(
        w=np.zeros(1), value=np.inf, log_likelihood=-np.inf, gradient=np.ones(1), hessian=np.eye(1) * 1e-9
    )
    assert np.isinf(certify(Lost(), e, 1e-8).gap) and not certify(Lost(), e, 1e-8).converged


@pytest.mark.parametrize("prior", [0.01, 1.0, 100.0])
def test_the_constant_without_a_hessian_holds_for_all_rows_and_is_near_the_largest(prior: float) -> None:
    """A row (1, z) with |z| ≤ c moves by at most ρ in a unit step of the norm: the square root of its own bound."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        P, c = int(rng.integers(2, 5)), float(10.0 ** rng.uniform(-1, 1))
        columns = np.concatenate([rng.uniform(0.5, 5.0, 1), rng.normal(size=P - 1)])[None, None]
        bound = InverseBound.eliminating(columns, np.full(P - 1, prior), c, 0.0)
        # The farthest row lies opposite to the intercept's share in the others.
        shift = columns[0, 0, 1:] / columns[0, 0, 0]
        farthest = np.concatenate([[1.0], -c * shift / np.linalg.norm(shift)])
        assert 0.5 * bound.rho**2 <= bound.square(farthest) <= bound.rho**2 * (1 + 1e-12)


def test_the_noise_of_a_bound_without_a_hessian_is_that_of_a_rounded_gradient() -> None:
    """Each of the weights of a gradient is off by the rounding, and the smallest precision makes the most of it."""
    bound = InverseBound.eliminating(np.array([[[4.0, 1.0, 2.0]]]), np.array([0.25, 9.0]), 1.0, 1e-3)
    assert bound.norm(np.zeros(3)) == pytest.approx(1e-3 * np.sqrt(3 / 0.25), rel=1e-12)


@pytest.mark.parametrize("C", [2, 4])
def test_the_bound_of_columns_that_are_not_kept_is_above_that_of_all_columns(C: int) -> None:
    """By what the intercepts' share and the rest cancel: without either they are the same."""
    rng = np.random.default_rng(C)
    columns = rng.normal(size=(C, C, 5))
    columns += columns.transpose(1, 0, 2)
    columns[:, :, 0] += 9.0 * C * np.eye(C)
    prior, r = rng.uniform(0.5, 2.0, size=(C, 4)), rng.normal(size=(C, 5))
    one = InverseBound.eliminating(iter(columns), prior, 2.0, 1e-3)
    whole = InverseBound.eliminating(columns, prior, 2.0, 1e-3)
    assert (one.rho, one.noise) == pytest.approx((whole.rho, whole.noise), rel=1e-12)
    assert whole.square(r) <= one.square(r)
    for part in (slice(0, 1), slice(1, 5)):
        alone = np.zeros((C, 5))
        alone[:, part] = r[:, part]
        assert one.square(alone) == pytest.approx(whole.square(alone), rel=1e-12)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("distance", [1e-2, 1e-4])
def test_what_an_unchecked_newton_step_leaves_is_within_its_bound(place: int, distance: float) -> None:
    """The decrement after a step of decrement λ is at most e^(ρλ) ρλ²/2, and the gap is that of its certificate."""
    objective, optimum, _ = list(constructed_problems())[place]
    e = objective.evaluate(optimum + distance * np.random.default_rng(0).normal(size=len(optimum)), order=2)
    before = decrement_bound(e.factor(), e, objective)
    final, certificate = unchecked_newton_step(objective, e, e.factor(), 1e-8)
    after = objective.evaluate(final.w, order=2)
    u = before.rho * before.decrement
    assert certificate.gradient_norm == pytest.approx(0.5 * u * before.decrement * np.exp(u), rel=1e-9)
    assert after.factor().norm(after.gradient) <= certificate.gradient_norm
    noise = 1e-14 * abs(after.value)
    assert after.value - objective.evaluate(optimum).value <= certificate.gap + noise
    assert final.value == pytest.approx(after.value, rel=1e-6) and certificate.gap < certify(objective, e, 1e-8).gap
