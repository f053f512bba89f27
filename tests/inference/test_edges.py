"""Inference where one rule hands over to another, and what its tables and messages round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from oddsmith import LogisticRegression, bayes_error
from oddsmith.errors import InvalidInputError
from oddsmith.inference import bayes_error as bayes_module
from oddsmith.inference import hypotheses
from oddsmith.inference import predictive as predictive_module
from oddsmith.inference.hypotheses import _check_nested, wald_test
from oddsmith.inference.laplace import _extrapolate, _newton_direction, _show
from oddsmith.inference.leave_one_out import leave_out
from oddsmith.inference.predictive import _kappa, _softmax
from oddsmith.inference.profile import fmm_spline, interpolated_ends
from oddsmith.inference.quadrature import _integrated_normal, _peak, _Side
from oddsmith.inference.summary import Summary
from oddsmith.links import LINKS
from oddsmith.losses import row_losses


def rows(n: int, D: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng([n, D, seed])
    X = rng.normal(size=(n, D))
    return X, (X @ np.linspace(1.0, -0.5, D) + rng.logistic(size=n) > 0).astype(int)


def test_the_newton_direction_and_its_length() -> None:
    A, g = np.array([[4.0, 1.0], [1.0, 9.0]]), np.array([1.0, -2.0])
    p, decrement = _newton_direction(A, g)
    np.testing.assert_allclose(p, np.linalg.solve(A, g))
    assert decrement == pytest.approx(np.sqrt(g @ np.linalg.solve(A, g)))
    saddle, _ = _newton_direction(np.diag([4.0, -9.0]), g)  # uphill along both
    np.testing.assert_allclose(saddle, [0.25, -2.0 / 9.0])
    flat, _ = _newton_direction(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([1.0, -1.0]))
    np.testing.assert_allclose(flat, [1e8, -1e8])


def test_differences_are_extrapolated_to_all_digits() -> None:
    """sin(t)/t has the limit 1, with errors in t², t⁴, t⁶: those are taken out."""
    assert _extrapolate(lambda t: np.sin(0.5 * t) / 0.5, 1) == pytest.approx(1.0, abs=1e-11)
    assert _extrapolate(lambda t: 2.0 * (np.cosh(t) - 1.0), 2) == pytest.approx(1.0, abs=1e-9)


def test_points_are_shown_to_six_digits_and_eight_numbers() -> None:
    assert _show(np.array([1.0 / 3.0, 2.0])) == "[0.333333, 2.      ]"
    assert "..." not in _show(np.arange(8.0)) and "..." in _show(np.arange(9.0))


@pytest.mark.parametrize(("apart", "refused"), [(0.9e-7, False), (1.15e-7, True)])
def test_models_with_other_offsets_are_told_by_their_null_models(apart: float, refused: bool) -> None:
    def record(null: float) -> Any:
        state = SimpleNamespace(
            n_rows=50, class_weight=np.array([20.0, 30.0]), free=np.ones((1, 2), dtype=bool), null_log_likelihood=null
        )
        return SimpleNamespace(state=state, classes=[0, 1], link_name="logit", names=["x"], named=True)

    pair = record(-100.0), record(-100.0 * (1.0 + apart))
    if refused:
        with pytest.raises(InvalidInputError, match="different offsets"):
            _check_nested(*pair)
    else:
        _check_nested(*pair)


@pytest.mark.parametrize(("away", "refused"), [(0.9e-6, False), (1.3e-6, True)])
def test_hypotheses_that_follow_from_others_may_differ_by_rounding(away: float, refused: bool) -> None:
    """Of a value 1 with variance 1: a millionth of one and of its size."""
    A, V = np.array([[1.0], [1.0]]), np.eye(1)
    value = np.array([1.0, 1.0 + 2.0 * away])
    if refused:
        with pytest.raises(InvalidInputError, match="contradict"):
            wald_test(value, A, V)
    else:
        assert wald_test(value, A, V).df == 1


def test_dropping_columns_compares_aic() -> None:
    X, y = rows(80, 3)
    model = LogisticRegression().fit(X, y)
    table = model.drop_one(X, y)
    assert table.deviance[0] == pytest.approx(-2.0 * model.log_likelihood_)
    assert table.aic[0] == pytest.approx(-2.0 * model.log_likelihood_ + 2.0 * 4.0)
    without = LogisticRegression().fit(X[:, 1:], y)
    assert table.aic[1] == pytest.approx(-2.0 * without.log_likelihood_ + 2.0 * 3.0)
    assert table.statistic[1] == pytest.approx(2.0 * (model.log_likelihood_ - without.log_likelihood_))


def test_the_error_of_a_leave_one_out_loss_is_that_of_a_mean() -> None:
    X, y = rows(70, 2)
    s = 1.0 + np.arange(70) % 2
    found = LogisticRegression(1.0).fit(X, y, sample_weight=s).leave_one_out(X, y, sample_weight=s)
    mean = np.average(found.loss, weights=s)
    assert found.log_loss == pytest.approx(mean)
    assert found.std_error == pytest.approx(np.sqrt(np.average((found.loss - mean) ** 2, weights=s) / s.sum()))


def test_rows_of_weight_zero_do_not_hold_a_separated_weight() -> None:
    X = np.array([[-2.0], [-1.0], [1.0], [2.0], [5.0]])
    y, s = np.array([0, 0, 1, 1, 0]), np.array([1.0, 1.0, 1.0, 1.0, 0.0])
    with pytest.warns(Warning):
        model = LogisticRegression().fit(X, y, sample_weight=s)
    table = model.summary(X, y, sample_weight=s, intervals="profile")
    assert np.isposinf(table.upper[1]) and np.isfinite(table.lower[1]) and table.lower[1] > 0.0


def test_a_spline_of_forsythe_malcolm_and_moler_is_a_cubic_of_a_cubic() -> None:
    x = np.array([-2.0, -1.0, 0.5, 1.0, 3.0])
    places = np.linspace(-2.0, 3.0, 17)
    np.testing.assert_allclose(fmm_spline(x, x**3 - 2.0 * x, places), places**3 - 2.0 * places, atol=1e-11)


def test_interpolated_ends_follow_a_grid_of_a_fifth_of_the_quantile() -> None:
    """A parabola of curvature 1: D = v², so the ends are the quantile, and the grid ends at 2.4977."""
    asked: list[float] = []

    def fit(near: Any, c: Any, v: float) -> Any:
        asked.append(v)
        return SimpleNamespace(e=SimpleNamespace(value=0.5 * v**2))

    profiler: Any = SimpleNamespace(best=SimpleNamespace(value=0.0), fit=fit)
    ends = interpolated_ends(profiler, np.ones(1), 1.0, 0.95)
    assert ends == pytest.approx([-1.959964, 1.959964], abs=1e-6)
    assert np.sort(asked) == pytest.approx(0.4995411 * np.array([-5.0, -4, -3, -2, -1, 1, 2, 3, 4, 5]), rel=1e-6)
    asked.clear()
    slow: Any = SimpleNamespace(
        best=SimpleNamespace(value=0.0),
        fit=lambda near, c, v: (asked.append(v), SimpleNamespace(e=SimpleNamespace(value=0.1 * v**2)))[1],
    )
    interpolated_ends(slow, np.ones(1), 1.0, 0.95)
    assert len(asked) == 18  # nine steps to a side at most


def test_the_probit_approximation_by_hand() -> None:
    found = _kappa(LINKS["logit"], np.array([1.5]), np.array([2.0]))
    kappa = 1.0 / np.sqrt(1.0 + np.pi * 4.0 / 8.0)
    assert found[0] == pytest.approx([1.0 / (1.0 + np.exp(1.5 * kappa)), 1.0 / (1.0 + np.exp(-1.5 * kappa))])


def test_three_classes_by_samples_have_the_moments_of_the_draws() -> None:
    rng = np.random.default_rng(0)
    normals = rng.normal(size=(500, 2))
    mu, cov = np.array([[0.3, -0.4]]), np.array([[[0.5, 0.2], [0.2, 0.4]]])
    found = _softmax(mu, cov, 0.9, normals)
    A = mu + normals @ np.linalg.cholesky(cov[0]).T
    E = np.exp(np.column_stack([np.zeros(500), A]))
    P = E / E.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found["mean"][0], P.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(found["std"][0], P.std(axis=0), rtol=1e-8)
    np.testing.assert_allclose(found["lower"][0], np.quantile(P, 0.05, axis=0), rtol=1e-8)
    np.testing.assert_allclose(found["upper"][0], np.quantile(P, 0.95, axis=0), rtol=1e-8)
    np.testing.assert_allclose(found["noise"][0], -(P * np.log(P)).sum(axis=1).mean(), rtol=1e-10)
    full = np.zeros((3, 3))
    full[1:, 1:] = cov[0]
    centre = np.eye(3) - 1.0 / 3.0
    np.testing.assert_allclose(found["activation_std"][0], np.sqrt(np.diag(centre @ full @ centre)), rtol=1e-10)


@pytest.mark.parametrize(("draws", "parts"), [(2**20, 1), (2**20 + 2**19, 1), (2**21, 2)])
def test_samples_of_two_rows_hold_two_million_numbers(draws: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(f: Any, A: Any) -> Any:
        seen.append(A.size)
        return np.ones((len(A), 1)), np.ones((len(A), 1))

    monkeypatch.setattr(predictive_module, "probabilities", counted)
    normals = np.zeros((draws, 1))
    predictive_module._two_by_samples(LINKS["logit"], np.zeros(2), np.ones(2), normals)
    assert len(seen) == parts


def test_the_bayes_error_is_sampled_in_batches() -> None:
    asked: list[int] = []

    class Even:
        def sample(self, n: int, seed: Any) -> Any:
            asked.append(n)
            return np.zeros((n, 1)), None

        def predict_proba(self, X: Any) -> Any:
            return np.tile([0.25, 0.75], (len(X), 1))

    assert bayes_error(Even()).n == 100_000
    assert asked == [65_536, 34_464]
    assert bayes_module._closed_form(4.0, np.array([0.3, 0.7])) == pytest.approx(
        0.3 * 0.5 * (1.0 + _erf((-1.0 + 0.5 * np.log(7.0 / 3.0)) / np.sqrt(2.0)))
        + 0.7 * 0.5 * (1.0 + _erf((-1.0 - 0.5 * np.log(7.0 / 3.0)) / np.sqrt(2.0)))
    )


def _erf(x: float) -> float:
    from math import erf

    return erf(float(x))


def test_the_integral_of_the_normal_distribution_has_its_digits_far_to_the_left() -> None:
    """z Φ(z) + φ(z), against fifty digits; below −5 it is a continued fraction."""
    z = np.concatenate([np.linspace(-35.0, -5.0, 31), [-4.9, -1.0, 0.0, 3.0]])
    with mpmath.workdps(50):
        exact = [float(mpmath.mpf(v) * mpmath.ncdf(v) + mpmath.npdf(v)) for v in z.tolist()]
    np.testing.assert_allclose(_integrated_normal(z), exact, rtol=2e-13)


@pytest.mark.parametrize("name", ["logit", "cloglog", "loglog"])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("mirrored", [False, True])
def test_the_peak_of_a_link_under_a_gaussian(name: str, power: int, mirrored: bool) -> None:
    """Where it is far from the mean: power · score(a) = (a − mu) / sigma²."""
    side = _Side(LINKS[name], mirrored)
    mu, sigma = (grid.ravel() for grid in np.meshgrid([-60.0, -20.0, -8.0, -3.0, 2.0], [1.5, 3.0, 8.0]))
    peak = _peak(side, mu, sigma, power)
    far = power * sigma**2 * side.score(mu) > 2.0 * sigma
    assert far.sum() >= 5
    np.testing.assert_allclose((power * side.score(peak) * sigma**2)[far], (peak - mu)[far], rtol=1e-6, atol=1e-6)
    assert (peak >= mu - 1e-12).all()


@pytest.mark.parametrize("C", [1, 2])
def test_a_row_of_half_a_weight_is_left_out_by_half(C: int) -> None:
    """Δa = B (I − s R B)⁻¹ s g, leverage s tr(R B), influence vᵀ B v; of a weight of two one is left out."""
    rng = np.random.default_rng(C)
    root = rng.normal(size=(3, C, C))
    A, B, s = rng.normal(size=(3, C)), np.einsum("nij,nkj->nik", root, root) * 0.3, np.array([0.5, 1.0, 2.0])
    rows = row_losses(A, np.array([1, 0, 1]), None)
    change, leverage, influence, possible = leave_out(rows, B, s)
    assert possible.all()
    R = np.array([[[rows.curvature(j, k)[n] for k in range(C)] for j in range(C)] for n in range(3)])
    for n in range(3):
        out = min(s[n], 1.0)
        v = np.linalg.solve(np.eye(C) - out * R[n] @ B[n], out * rows.gradient[n])
        np.testing.assert_allclose(np.ravel(change[n]), B[n] @ v, rtol=1e-9)
        assert leverage[n] == pytest.approx(s[n] * np.trace(R[n] @ B[n]))
        assert influence[n] == pytest.approx(v @ B[n] @ v)


@pytest.mark.parametrize(("terms", "shown"), [(1000, 1000), (1001, 50)])
def test_a_summary_shows_a_thousand_terms_or_fifty(terms: int, shown: int) -> None:
    stub: Any = SimpleNamespace(has_errors=True, columns={"term": ["x"] * terms})
    assert Summary.most_rows.fget(stub) == shown  # type: ignore[attr-defined]
    assert Summary.most_rows.fget(SimpleNamespace(has_errors=False, columns={"term": []})) == 50  # type: ignore[attr-defined]


@pytest.mark.parametrize(("below", "refused"), [(0.9e-9, False), (1.2e-9, True)])
def test_a_larger_model_may_be_worse_by_rounding(below: float, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(40, 2)
    models = LogisticRegression().fit(X[:, :1], y), LogisticRegression().fit(X, y)
    values = {id(models[0]): (2, -50.0), id(models[1]): (3, -50.0 - 0.5 * 50.0 * below)}

    def record(self: Any, **given: Any) -> Any:
        parameters, value = values[id(self)]
        return SimpleNamespace(n_parameters=parameters, log_likelihood=value, named=False, names=[])

    monkeypatch.setattr(LogisticRegression, "_fit_record", record)
    monkeypatch.setattr(hypotheses, "_check_nested", lambda small, large: None)
    if refused:
        with pytest.raises(InvalidInputError, match="not nested"):
            hypotheses.likelihood_ratio_test(*models)
    else:
        assert hypotheses.likelihood_ratio_test(*models).statistic == 0.0
