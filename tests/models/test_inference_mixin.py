"""Inference of fitted models against R (glm, confint, sandwich, drop1, brglm2, multinom) and statsmodels."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize
from scipy.special import logsumexp
from tests.likelihood.test_separation import extreme_rays, integer_design, margin_rows
from tests.reference_data import Case, _read_table, cases

from oddsmith import (
    GaussianPrior,
    JeffreysPrior,
    LogisticRegression,
    Polynomial,
    ProbitRegression,
    likelihood_ratio_test,
)
from oddsmith.design.table import Design
from oddsmith.errors import (
    InvalidInputError,
    InvalidTypeError,
    SeparationWarning,
    UnavailableError,
    UnknownNameError,
)
from oddsmith.likelihood.objective import FoldObjective
from oddsmith.links import LINKS
from oddsmith.solvers import policy
from oddsmith.testing import check_model

DIGITS = {"rtol": 1e-8, "atol": 1e-12}


def table(case: Case) -> pd.DataFrame:
    return pd.DataFrame(case.X, columns=list(case.feature_names))


def labels(case: Case) -> np.ndarray:
    """The labels with the reference class first in their order, so that signs are R's."""
    return np.array([case.classes.index(label) for label in case.y.tolist()])


def fitted(case: Case, **options: Any) -> LogisticRegression:
    link = case.expected.get("link", "logit")
    model = LogisticRegression(link=link, **options)
    return model.fit(table(case), labels(case), sample_weight=case.weights, offset=case.offset)


def rows(case: Case) -> dict[str, Any]:
    return {"X": table(case), "y": labels(case), "sample_weight": case.weights, "offset": case.offset}


def sampled(seed: int = 0, n: int = 60, K: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 100.0, -3.0]
    a = (X - X.mean(axis=0)) / X.std(axis=0) @ rng.normal(size=(3, K)) + rng.gumbel(size=(n, K))
    return X, a.argmax(axis=1)


INFERENCE = cases("inference_*")


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_summary_equals_r(case: Case) -> None:
    found, expected = fitted(case).summary(), case.expected
    assert found.term.tolist() == ["(intercept)", *case.feature_names]
    for column in ("estimate", "std_error", "z", "p_value"):
        np.testing.assert_allclose(getattr(found, column), expected[column], **DIGITS)
    np.testing.assert_allclose(np.column_stack([found.lower, found.upper]), expected["wald_interval"], **DIGITS)
    for attribute in ("log_likelihood", "deviance", "null_deviance", "aic"):
        np.testing.assert_allclose(getattr(found, attribute), expected[attribute], **DIGITS)
    # R's BIC() counts rows of weight zero, its nobs() does not: N is the latter.
    k = len(expected["estimate"])
    assert found.n_rows == expected["n_rows_bic"]
    assert found.bic == pytest.approx(expected["deviance"] + k * np.log(expected["n_rows_bic"]), rel=1e-12)
    if not np.any(case.weights == 0):
        assert found.bic == pytest.approx(expected["bic"], rel=1e-12)


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_observed_errors_equal_the_observed_information(case: Case) -> None:
    found = fitted(case).summary(covariance="observed")
    np.testing.assert_allclose(found.std_error, case.expected["std_error_observed"], **DIGITS)


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_profile_intervals_equal_the_roots_of_exact_constrained_fits(case: Case) -> None:
    found = fitted(case).summary(**rows(case), intervals="profile")
    np.testing.assert_allclose(np.column_stack([found.lower, found.upper]), case.expected["profile_interval"], **DIGITS)


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_interpolated_intervals_equal_r_confint(case: Case) -> None:
    found = fitted(case).summary(**rows(case), intervals="confint")
    expected = case.expected["profile_interval_confint"]
    np.testing.assert_allclose(np.column_stack([found.lower, found.upper]), expected, rtol=1e-8)


def test_budworm_interval_of_venables_and_ripley() -> None:
    """R interpolates by a spline, so its interval is right to four digits only."""
    (case,) = cases("inference_budworm")
    for intervals, off in (("confint", 6e-8), ("profile", 2e-5)):
        found = fitted(case).summary(**rows(case), intervals=intervals)
        assert found.term.tolist()[2] == "log2_dose"
        np.testing.assert_allclose([found.lower[2], found.upper[2]], [0.8228708, 1.3390581], rtol=0.0, atol=off)


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_robust_errors_equal_r_sandwich(case: Case) -> None:
    model, ids = fitted(case), np.array(_read_table(case.expected["data"])[case.expected["cluster"]])
    kinds: dict[str, Any] = {
        "hc0": "sandwich",
        "hc1": ("sandwich", "HC1"),
        "cluster_hc0": ("cluster", ids, "CR0"),
        "cluster_hc0_adjusted": ("cluster", ids),
        "cluster_hc1_adjusted": ("cluster", ids, "CR1S"),
    }
    for name, covariance in kinds.items():
        found = model.summary(**rows(case), covariance=covariance)
        np.testing.assert_allclose(found.std_error, np.sqrt(np.diag(case.expected[name])), **DIGITS)


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_tests_equal_r_anova_and_drop1(case: Case) -> None:
    expected, large = case.expected, fitted(case)
    small = LogisticRegression(link=case.expected["link"])
    small.fit(table(case)[expected["small"]], labels(case), sample_weight=case.weights)
    ratio = likelihood_ratio_test(small, large)
    for name in ("statistic", "df", "p_value"):
        assert getattr(ratio, name) == pytest.approx(expected["likelihood_ratio_test"][name], rel=1e-9)
    rest = {"rest": [name for name in case.feature_names if name not in expected["small"]]}
    score = large.drop_one(**rows(case), groups=rest, test="score")
    assert score.statistic[1] == pytest.approx(expected["score_test"]["statistic"], rel=1e-8)
    assert score.p_value[1] == pytest.approx(expected["score_test"]["p_value"], rel=1e-8)
    dropped = large.drop_one(**rows(case))
    assert dropped.term.tolist() == ["(none)", *expected["drop_one"]["term"]]
    np.testing.assert_allclose(dropped.statistic[1:], expected["drop_one"]["likelihood_ratio"], **DIGITS)
    np.testing.assert_allclose(dropped.p_value[1:], expected["drop_one"]["p_value"], rtol=1e-8)
    np.testing.assert_allclose(dropped.aic[1:], expected["drop_one"]["aic"], **DIGITS)
    # drop1(test = "Rao") stops its fits at R's default tolerance.
    scores = large.drop_one(**rows(case), test="score").statistic[1:]
    np.testing.assert_allclose(scores, expected["drop_one"]["score"], rtol=1e-6)
    wald = large.drop_one(**rows(case), test="wald").statistic[1:]
    np.testing.assert_allclose(wald, large.summary().z[1:] ** 2, rtol=1e-9)


@pytest.mark.parametrize("case", INFERENCE, ids=str)
def test_diagnostics_equal_r(case: Case) -> None:
    found = fitted(case).diagnostics(**rows(case))
    names = {"pearson": "residuals_pearson", "deviance": "residuals_deviance"}
    for name in ("pearson", "deviance", "leverage", "cooks_distance"):
        expected = [0.0 if v is None else v for v in case.expected[names.get(name, name)]]  # rows of weight zero
        np.testing.assert_allclose(getattr(found, name)[: len(expected)], expected, **DIGITS)
    left = np.sqrt(1.0 - found.leverage)
    np.testing.assert_allclose(found.standardized_deviance, found.deviance / left)
    np.testing.assert_allclose(found.standardized_pearson, found.pearson / left)
    assert found.leverage.sum() == pytest.approx(len(case.expected["estimate"]))


@pytest.mark.parametrize("case", [c for c in cases("glm*") if "diamonds" not in c.name], ids=str)
def test_errors_and_null_likelihood_equal_r_glm(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fitted(case, fit_intercept=case.expected["intercept"]).summary()
    expected = np.array([np.nan if v is None else v for v in case.expected["std_errors"]])
    np.testing.assert_allclose(found.std_error, expected, **DIGITS)
    assert found.null_log_likelihood == pytest.approx(case.expected["null_log_likelihood"], rel=1e-12)
    assert list(found.aliased) == [name for name in np.ravel(case.expected["aliased"]) if name]


@pytest.mark.parametrize("case", [c for c in cases("multinom_*") if "diamonds" not in c.name], ids=str)
def test_errors_equal_multinom(case: Case) -> None:
    K = len(case.classes)
    model = LogisticRegression(reference=0 if K > 2 else None)
    found = model.fit(case.X, labels(case), sample_weight=case.weights).summary()
    expected = np.reshape(case.expected["std_errors_polished"], (K - 1, -1))
    np.testing.assert_allclose(found.std_error.reshape(K - 1, -1), expected, rtol=1e-6)
    if K > 2:
        assert found.to_dict()["class"] == [k for k in range(1, K) for _ in range(expected.shape[1])]


@pytest.mark.parametrize("case", cases("brglm_*") + cases("brmultinom_*"), ids=str)
def test_jeffreys_prior_equals_brglm2_without_a_warning(case: Case) -> None:
    K = len(case.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LogisticRegression(JeffreysPrior(), reference=0 if K > 2 else None)
        found = model.fit(case.X, labels(case), sample_weight=case.weights).summary()
    assert model.certificate_.converged and not model.certificate_.rigorous
    digits = 1e-8 if K == 2 else 1e-6
    name = "coefficients_polished" if "coefficients_polished" in case.expected else "coefficients"
    np.testing.assert_allclose(found.estimate, np.ravel(case.expected[name]), rtol=digits)
    np.testing.assert_allclose(
        found.std_error, np.ravel(case.expected[name.replace("coefficients", "std_errors")]), rtol=digits
    )


WITH_INTERVALS = [
    case for case in cases("brglm_*") + cases("brmultinom_*") if None not in np.ravel(case.expected["profile_lower"])
]


@pytest.mark.parametrize("case", WITH_INTERVALS, ids=str)
def test_penalised_profile_intervals_equal_the_reference(case: Case) -> None:
    y, K = labels(case), len(case.classes)
    model = LogisticRegression(JeffreysPrior(), reference=0 if K > 2 else None)
    model.fit(case.X, y, sample_weight=case.weights)
    found = model.summary(case.X, y, sample_weight=case.weights, intervals="profile")
    for side in ("lower", "upper"):
        ours, theirs = getattr(found, side), np.ravel(case.expected[f"profile_{side}"]).astype(float)
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)


@pytest.mark.parametrize("case", cases("margins_*"), ids=str)
def test_marginal_effects_equal_statsmodels(case: Case) -> None:
    link = "probit" if case.expected["model"] == "probit" else "logit"
    model = LogisticRegression(link=link).fit(case.X, labels(case))
    for expected in case.expected["effects"]:
        at = {"overall": "average"}.get(expected["at"], expected["at"])
        found = model.marginal_effects(case.X, at=at, discrete="auto" if expected["dummy"] else False)
        effect, error = np.array(expected["effect"]).T.ravel(), np.array(expected["std_error"]).T.ravel()
        np.testing.assert_allclose(found.effect, effect, rtol=1e-8, atol=1e-14)
        np.testing.assert_allclose(found.std_error, error, rtol=1e-8)


# Beyond the references: softmax, other links, separation, large means.


def profile_end(f: Any, w: np.ndarray, j: int, side: int, width: float) -> float:
    """The end of a profile interval by brute force: a root of the likelihood ratio of scipy's constrained minima."""
    best, others = f(w), [i for i in range(len(w)) if i != j]

    def excess(value: float) -> float:
        full = np.empty(len(w))
        full[j] = value

        def inner(rest: np.ndarray) -> float:
            full[others] = rest
            return f(full)

        least = optimize.minimize(inner, w[others], method="BFGS", options={"gtol": 1e-9}).fun
        return 2.0 * (least - best) - 3.841458820694124

    return optimize.brentq(excess, w[j] + 0.05 * side * width, w[j] + 6 * side * width, xtol=1e-8)


def test_softmax_profile_interval_equals_brute_force() -> None:
    X, y = sampled(1, n=50, K=3)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(reference=0).fit(Z, y)
    found = model.summary(Z, y, intervals="profile")
    one = np.column_stack([np.ones(len(Z)), Z])

    def f(w: np.ndarray) -> float:
        A = np.column_stack([np.zeros(len(Z)), one @ w.reshape(2, 4).T])
        return float((np.log(np.exp(A).sum(axis=1)) - A[np.arange(len(Z)), y]).sum())

    for j, side in ((1, 1), (4, -1), (6, 1)):
        end = profile_end(f, found.estimate, j, side, found.std_error[j])
        assert (found.upper if side > 0 else found.lower)[j] == pytest.approx(end, abs=1e-5)


@pytest.mark.parametrize("link", ["cloglog", "cauchit", "log"])
def test_profile_intervals_of_other_links_equal_brute_force(link: str) -> None:
    """The log link ends at activations of 0: its constrained optima may lie close to that end."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-1.0, 1.0, size=80)
    y = (rng.random(80) < np.exp(-1.0 + 0.6 * x)).astype(int)
    model = LogisticRegression(link=link).fit(x[:, None], y)
    found = model.summary(x[:, None], y, intervals="profile")

    def f(b: float, w: float) -> float:
        value = -float(np.where(y == 1, *LINKS[link].log_probability(b + w * x)).sum())
        return value if np.isfinite(value) else 1e10

    def excess(w: float) -> float:
        top = -np.abs(w) if link == "log" else 5.0
        inner = optimize.minimize_scalar(
            lambda b: f(b, w), bounds=(top - 10.0, top + 5.0), method="bounded", options={"xatol": 1e-12}
        )
        return 2.0 * (inner.fun - f(*found.estimate)) - 3.841458820694124

    for side, ends in ((-1, found.lower), (1, found.upper)):
        assert excess(ends[1]) == pytest.approx(0.0, abs=1e-6)
        assert side * (ends[1] - found.estimate[1]) > 0


def test_separated_profile_is_infinite_on_one_side_and_exact_on_the_other() -> None:
    """With x = 0 for both classes and 1 only for one: the intercept is free of it, the lower end of x has a formula."""
    x = np.repeat([0.0, 0.0, 1.0], [6, 10, 5])
    y = np.repeat([1, 0, 1], [6, 10, 5])
    with pytest.warns(match="quasi-completely separated"):
        model = LogisticRegression().fit(x[:, None], y)
    found = model.summary(x[:, None], y, intervals="profile")
    assert found.upper[1] == np.inf and np.isfinite(found.lower).all() and np.isfinite(found.upper[0])
    assert np.isinf(found.std_error[1]) and np.isnan(found.p_value[1])
    assert "JeffreysPrior" in str(found)
    best = 6 * np.log(6 / 16) + 10 * np.log(10 / 16)

    def profile(value: float) -> float:
        least = optimize.minimize_scalar(
            lambda b: 6 * np.logaddexp(0, -b) + 10 * np.logaddexp(0, b) + 5 * np.logaddexp(0, -b - value)
        ).fun
        return 2.0 * (least + best) - 3.841458820694124

    assert found.lower[1] == pytest.approx(optimize.brentq(profile, -3.0, 8.0, xtol=1e-12), abs=1e-6)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.SeparationWarning")
@pytest.mark.parametrize("K", [2, 3])
def test_columns_of_separated_classes_are_dropped_at_the_limit(K: int) -> None:
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(60, 3))
        y = np.digitize(X[:, 0], [0.0] if K == 2 else [-0.5, 0.5])
        model = LogisticRegression().fit(X, y)
        found = model.drop_one(X, y)
        without = LogisticRegression().fit(X[:, 1:], y)
        assert found.statistic[1] == pytest.approx(-2.0 * without.log_likelihood_, abs=1e-5)
        np.testing.assert_allclose(found.statistic[2:], 0.0, atol=1e-5)
        for call in (lambda: model.test_linear("x0 = 0"), lambda: model.drop_one(X, y, test="wald")):  # noqa: B023
            with pytest.raises(InvalidInputError, match="Wald's test says nothing"):
                call()


def test_completely_separated_classes_have_unbounded_intervals() -> None:
    x = np.arange(8.0)
    y = (x > 3).astype(int)
    with pytest.warns(match="completely separated"):
        model = LogisticRegression().fit(x[:, None], y)
    found = model.summary(x[:, None], y, intervals="profile")
    assert found.upper[1] == np.inf and found.lower[0] == -np.inf
    assert np.isfinite(found.lower[1]) and found.lower[1] > 0
    firth = LogisticRegression(JeffreysPrior()).fit(x[:, None], y)
    assert np.isfinite(firth.coef_).all() and firth.certificate_.converged
    assert np.isfinite(firth.summary().std_error).all()


@pytest.mark.filterwarnings("ignore::oddsmith.errors.SeparationWarning")
def test_infinite_ends_are_those_of_the_cone_of_ordering_directions() -> None:
    """Separated designs in whole numbers; finite ends are held against constrained fits of scipy."""
    checked = 0
    for seed in range(24):
        X, t, K, D = integer_design(seed)
        rays = extreme_rays(margin_rows(X[:, :D], t, K))
        if not len(rays):
            continue
        model = LogisticRegression(reference=0 if K > 2 else None).fit(X[:, :D], t)
        found = model.summary(X[:, :D], t, intervals="profile")
        np.testing.assert_array_equal(np.isinf(found.upper), (rays > 0).any(axis=0))
        np.testing.assert_array_equal(np.isinf(found.lower), (rays < 0).any(axis=0))
        Z = np.column_stack([np.ones(len(X)), X[:, :D]])

        def loss(w: np.ndarray, Z: np.ndarray = Z, t: np.ndarray = t, K: int = K) -> float:
            A = np.column_stack([np.zeros(len(Z)), Z @ w.reshape(K - 1, -1).T])
            return float((logsumexp(A, axis=1) - A[np.arange(len(Z)), t]).sum())

        for j in np.flatnonzero(np.isfinite(found.lower))[:1]:
            start = np.delete(np.clip(found.estimate, -20.0, 20.0), j)
            inner = [
                optimize.minimize(lambda r: loss(np.insert(r, j, found.lower[j])), x0, options={"gtol": 1e-7}).fun  # noqa: B023
                for x0 in (start, 0.0 * start)
            ]
            assert 2.0 * (min(inner) + model.log_likelihood_) == pytest.approx(3.841458820694124, abs=1e-4)
            checked += 1
    assert checked > 4


@pytest.mark.parametrize("K", [2, 3])
def test_inference_does_not_depend_on_units(K: int) -> None:
    X, y = sampled(2, K=K)
    scale, shift = np.array([1e-6, 1.0, 1e5]), np.array([0.0, 1e6, 0.0])
    a = LogisticRegression().fit(X, y)
    b = LogisticRegression().fit(X * scale + shift, y)
    for options in ({"intervals": "profile"}, {"covariance": "sandwich"}):
        one, two = a.summary(X, y, **options), b.summary(X * scale + shift, y, **options)
        slope = one.term != "(intercept)"
        unit = np.tile(scale, K if K > 2 else 1)
        for column in ("estimate", "std_error", "lower", "upper"):
            np.testing.assert_allclose(getattr(two, column)[slope] * unit, getattr(one, column)[slope], rtol=1e-6)
    np.testing.assert_allclose(
        b.drop_one(X * scale + shift, y).statistic[1:], a.drop_one(X, y).statistic[1:], rtol=1e-6
    )


@pytest.mark.parametrize("K", [2, 3])
def test_a_weight_of_two_is_the_row_twice(K: int) -> None:
    X, y = sampled(3, K=K)
    s = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    twice = np.repeat(np.arange(len(y)), s.astype(int))
    model, long = LogisticRegression().fit(X, y, sample_weight=s), LogisticRegression().fit(X[twice], y[twice])
    for covariance in ("information", "sandwich", ("sandwich", "HC1")):
        one = model.summary(X, y, sample_weight=s, covariance=covariance)
        two = long.summary(X[twice], y[twice], covariance=covariance)
        np.testing.assert_allclose(one.std_error, two.std_error, rtol=1e-8)
    one = LogisticRegression(JeffreysPrior()).fit(X, y, sample_weight=s)
    two = LogisticRegression(JeffreysPrior()).fit(X[twice], y[twice])
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-7)
    np.testing.assert_allclose(
        model.marginal_effects(X, sample_weight=s).std_error, long.marginal_effects(X[twice]).std_error, rtol=1e-8
    )


def test_contrasts_between_softmax_classes_do_not_depend_on_the_reference() -> None:
    X, y = sampled(5, n=90, K=3)
    texts = [f"x0[{a}] = x0[{b}], x1[{a}] = x1[{b}]" for a, b in ((1, 2),)]
    symmetric = LogisticRegression().fit(X, y)
    found = [symmetric.test_linear(text) for text in texts]
    against = LogisticRegression(reference=2).fit(X, y).test_linear("x0[1] = 0, x1[1] = 0")
    assert found[0].statistic == pytest.approx(against.statistic, rel=1e-9) and found[0].df == against.df == 2
    named = LogisticRegression(reference=2).fit(X, y).test_linear(texts[0])  # the weights of class 2 are zero
    assert named.statistic == pytest.approx(against.statistic, rel=1e-12) and named.df == 2
    by_key = symmetric.test_linear([{(1, "x0"): 1, (2, "x0"): -1}, {(1, "x1"): 1, (2, "x1"): -1}])
    assert by_key.statistic == pytest.approx(against.statistic, rel=1e-9)
    whole = symmetric.test_linear("x0[0] = 0, x0[1] = 0, x0[2] = 0")  # the three sum to zero: two count
    assert whole.df == 2
    assert whole.statistic == pytest.approx(symmetric.drop_one(X, y, test="wald").statistic[1], rel=1e-9)


def test_map_fit_reports_a_posterior() -> None:
    X, y = sampled(6)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(prior=0.7).fit(Z, y)
    found = model.summary()
    assert set(found.to_dict()) == {
        "term",
        "estimate",
        "posterior_sd",
        "credible_lower",
        "credible_upper",
        "odds_ratio",
        "odds_lower",
        "odds_upper",
    }
    p = model.predict_proba(Z)[:, 1]
    one = np.column_stack([np.ones(len(Z)), Z])
    H = one.T @ (one * (p * (1 - p))[:, None]) + np.diag([0.0, *[0.7**-2] * 3])
    np.testing.assert_allclose(found.posterior_sd, np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-7)
    np.testing.assert_allclose(found.upper - found.estimate, 1.959963984540054 * found.posterior_sd)
    assert np.isnan(found.aic) and "credible" in str(found)
    for options in ({"covariance": "sandwich"}, {"intervals": "profile"}):
        with pytest.raises(InvalidInputError, match="Gaussian prior"):
            model.summary(Z, y, **options)
    with pytest.raises(InvalidInputError, match="prior"):
        model.drop_one(Z, y)


def test_jeffreys_times_a_gaussian_maximises_the_product() -> None:
    X, y = sampled(7, n=30)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    one = np.column_stack([np.ones(len(Z)), Z])

    def f(w: np.ndarray) -> float:
        a = one @ w
        p = 1 / (1 + np.exp(-a))
        I = one.T @ (one * (p * (1 - p))[:, None])  # noqa: E741
        return float(
            (np.logaddexp(0, a) - y * a).sum() - 0.5 * np.linalg.slogdet(I)[1] + 0.5 * (w[1:] ** 2).sum() / 0.25
        )

    best = optimize.minimize(f, np.zeros(4), method="BFGS", options={"gtol": 1e-9}).x
    for gaussian in (0.5, GaussianPrior(scale=0.5)):
        model = LogisticRegression(JeffreysPrior(gaussian=gaussian)).fit(Z, y)
        np.testing.assert_allclose(np.append(model.intercept_, model.coef_), best, atol=1e-6)
    assert "posterior_sd" in model.summary().to_dict()


@pytest.mark.parametrize("link", ["probit", "cloglog"])
def test_jeffreys_prior_through_another_link_maximises_the_penalised_likelihood(link: str) -> None:
    X, y = sampled(8, n=40)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    one = np.column_stack([np.ones(len(Z)), Z])

    def f(w: np.ndarray) -> float:
        a = one @ w
        up, down = LINKS[link].score(a)
        value = -np.where(y == 1, *LINKS[link].log_probability(a)).sum()
        return float(value - 0.5 * np.linalg.slogdet(one.T @ (one * (-up * down)[:, None]))[1])

    model = LogisticRegression(JeffreysPrior(), link=link).fit(Z, y)
    w = np.append(model.intercept_, model.coef_)
    best = optimize.minimize(f, w, method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(w, best.x, atol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_jeffreys_prior_sets_collinear_columns_aside_and_takes_no_intercept(K: int) -> None:
    X, y = sampled(9, K=K)
    more = np.column_stack([X, X[:, 0] - X[:, 1]])
    with pytest.warns(match="'x3' is a linear combination"):
        model = LogisticRegression(JeffreysPrior()).fit(more, y)
    alone = LogisticRegression(JeffreysPrior()).fit(X, y)
    np.testing.assert_allclose(model.coef_[:, :3], alone.coef_, rtol=1e-6)
    found = model.summary(more, y, intervals="profile")
    assert np.isnan(found.estimate[found.term == "x3"]).all() and "aliased (set aside): x3" in str(found)
    without = LogisticRegression(JeffreysPrior(), fit_intercept=False).fit(X, y)
    assert "(intercept)" not in without.summary().term and without.certificate_.converged


def test_jeffreys_prior_keeps_the_contract_of_models() -> None:
    check_model(LogisticRegression(JeffreysPrior()))


@pytest.mark.parametrize("K", [2, 3])
def test_robust_errors_are_the_sandwich_of_its_definition(K: int) -> None:
    X, y = sampled(16, n=90, K=K)
    ids = np.arange(90) // 6
    model = LogisticRegression(reference=0 if K > 2 else None).fit(X, y)
    Z = np.column_stack([np.ones(90), (X - X.mean(axis=0)) / X.std(axis=0)])
    P = model.predict_proba(X)
    H = sum(np.kron(np.diag(p[1:]) - np.outer(p[1:], p[1:]), np.outer(z, z)) for p, z in zip(P, Z, strict=True))
    G = np.array([np.kron(np.eye(K)[k][1:] - p[1:], z) for k, p, z in zip(y, P, Z, strict=True)])
    sums = np.array([G[ids == i].sum(axis=0) for i in range(15)])
    for covariance, meat in (("sandwich", G.T @ G), (("cluster", ids, "CR0"), sums.T @ sums)):
        V = np.linalg.solve(H, np.linalg.solve(H, meat).T)
        errors = np.sqrt(np.diag(V)).reshape(K - 1, 4)[:, 1:] / X.std(axis=0)
        found = model.summary(X, y, covariance=covariance).std_error.reshape(K - 1, 4)
        np.testing.assert_allclose(found[:, 1:], errors, rtol=1e-7)


def test_jeffreys_prior_is_refused_where_it_cannot_be() -> None:
    X, y = sampled(10)
    with pytest.raises(InvalidInputError, match="solver='auto'"):
        LogisticRegression(JeffreysPrior(), solver="sgd").fit(X, y)
    assert not hasattr(LogisticRegression(JeffreysPrior()), "partial_fit")
    with pytest.raises(InvalidInputError, match="has no estimate"):
        LogisticRegression(JeffreysPrior(), link="log").fit(X, y)
    firth = LogisticRegression(JeffreysPrior()).fit(X, y)
    with pytest.raises(InvalidInputError, match="maximum likelihood fits"):
        likelihood_ratio_test(firth, firth)
    with pytest.raises(InvalidInputError, match="score"):
        firth.drop_one(X, y, test="score")
    assert firth.drop_one(X, y).test == "penalised likelihood-ratio"


def test_a_likelihood_ratio_test_names_a_few_of_many_columns() -> None:
    rng = np.random.default_rng(5)
    D = pd.DataFrame({"x": rng.normal(size=600), "ward": [f"ward {k:02}" for k in rng.integers(0, 30, 600)]})
    y = rng.integers(0, 2, 600)
    test = likelihood_ratio_test(LogisticRegression().fit(D[["x"]], y), LogisticRegression().fit(D, y))
    assert test.df == 29
    assert test.hypothesis.startswith("no effect of ward[ward 01], ward[ward 02], ")
    assert test.hypothesis.endswith("ward[ward 08] and 21 more")


def test_rows_are_asked_for_only_where_they_are_needed() -> None:
    model = LogisticRegression().fit(*[part.tolist() for part in sampled(11)])
    model.summary()
    model.test_linear("x0 = 0")
    for call in (
        lambda: model.summary(intervals="profile"),
        lambda: model.summary(covariance="sandwich"),
        lambda: model.drop_one(),
        lambda: model.diagnostics(),
    ):
        with pytest.raises(InvalidInputError, match="pass X and y"):
            call()
    X, y = sampled(11)
    held = LogisticRegression().fit(X, y)
    assert held.summary(intervals="profile").lower[1] == held.summary(X, y, intervals="profile").lower[1]


def test_other_rows_are_refused() -> None:
    X, y = sampled(12)
    model = LogisticRegression().fit(X, y)
    other = X + 0.01 * np.arange(len(X))[:, None]
    for call in (
        lambda: model.summary(other, y, intervals="profile"),
        lambda: model.summary(other, y, covariance="sandwich"),
        lambda: model.summary(other, y, covariance=("cluster", y)),
        lambda: model.drop_one(other, y),
        lambda: model.diagnostics(other, y),
    ):
        with pytest.raises(InvalidInputError, match="not the rows that the model was fitted to"):
            call()
    with pytest.raises(InvalidInputError, match="was fitted to the classes"):
        model.diagnostics(X, y + 1)


def test_bad_arguments_are_refused_in_words() -> None:
    X, y = sampled(13)
    model = LogisticRegression().fit(X, y)
    with pytest.raises(InvalidInputError, match="level must be"):
        model.summary(level=95)
    with pytest.raises(UnknownNameError, match="intervals 'wild'"):
        model.summary(intervals="wild")
    with pytest.raises(UnknownNameError, match="covariance 'robust'"):
        model.summary(covariance="robust")
    with pytest.raises(InvalidInputError, match="3 clusters were given for 60 rows"):
        model.summary(X, y, covariance=("cluster", [1, 2, 3]))
    with pytest.raises(UnknownNameError, match="column 'z'"):
        model.drop_one(X, y, groups={"a": ["z"]})
    with pytest.raises(InvalidTypeError, match="groups must be a mapping"):
        model.drop_one(X, y, groups=["x0"])
    with pytest.raises(UnknownNameError, match="place 'top'"):
        model.marginal_effects(X, at="top")
    with pytest.raises(InvalidInputError, match="values other than 0 and 1"):
        model.marginal_effects(X, discrete=["x0"])
    with pytest.raises(InvalidInputError, match="basis"):
        LogisticRegression(basis=Polynomial(2)).fit(X[:, :1], y).marginal_effects(X[:, :1])
    early = LogisticRegression(max_iter=1)
    with pytest.warns(match="stopped after"):
        early.fit(X, y)
    assert "NOT CONVERGED" in str(early.summary())
    with pytest.raises(InvalidInputError, match="stopped early"):
        early.summary(X, y, intervals="profile")


def test_null_likelihood_of_a_bounded_link_with_an_offset() -> None:
    """One constant besides the offset, found by a search on a line."""
    rng = np.random.default_rng(17)
    x, offset = rng.uniform(0.0, 1.0, 60), rng.uniform(-0.1, 0.1, 60)
    y = (rng.random(60) < 0.3 + 0.4 * x + offset).astype(int)
    found = LogisticRegression(link="identity").fit(x[:, None], y, offset=offset).summary()
    best = optimize.minimize_scalar(
        lambda b: -np.log(np.where(y == 1, b + offset, 1.0 - b - offset)).sum(), bounds=(0.1, 0.9), method="bounded"
    )
    assert found.null_log_likelihood == pytest.approx(-best.fun, rel=1e-9)
    assert "odds_ratio" not in found.to_dict()


def test_categories_are_dropped_whole_and_interactions_before_their_parts() -> None:
    """The numbers are those of drop1(glm(low ~ age + race * smoke + lwt, binomial), test = "Chisq") in R."""
    (case,) = cases("glm_birthwt")
    data, y = table(case), labels(case)
    data["race"] = np.select([data.race_black == 1, data.race_other == 1], ["black", "other"], "white")
    data = data[["age", "race", "smoke", "lwt"]]
    found = LogisticRegression().fit(data, y).drop_one(data, y)
    assert found.term.tolist() == ["(none)", "age", "race", "smoke", "lwt"] and found.df.tolist() == [0, 1, 2, 1, 1]
    np.testing.assert_allclose(found.statistic[1:], [0.4374, 8.3021, 8.0834, 4.2850], atol=6e-5)
    crossed = LogisticRegression(design=Design("~ age + race * smoke + lwt")).fit(data, y).drop_one(data, y)
    assert crossed.term.tolist() == ["(none)", "age", "lwt", "race:smoke"] and crossed.df.tolist() == [0, 1, 1, 2]
    np.testing.assert_allclose(crossed.statistic[1:], [0.3171, 3.7369, 2.2829], atol=6e-5)


def test_models_that_do_not_nest_are_refused() -> None:
    X, y = sampled(14)
    D = pd.DataFrame(X, columns=["a", "b", "c"])
    large, small = LogisticRegression().fit(D, y), LogisticRegression().fit(D[["a"]], y)
    assert likelihood_ratio_test(small, large).df == 2
    with pytest.raises(InvalidInputError, match="small has 'b', 'c'"):
        likelihood_ratio_test(large, small)
    with pytest.raises(InvalidInputError, match="different rows"):
        likelihood_ratio_test(LogisticRegression().fit(D[["a"]][:50], y[:50]), large)
    with pytest.raises(InvalidInputError, match="different links"):
        likelihood_ratio_test(ProbitRegression().fit(D[["a"]], y), large)
    with pytest.raises(InvalidInputError, match="not nested"):
        likelihood_ratio_test(large, large)
    with pytest.raises(InvalidTypeError, match="expected a model"):
        likelihood_ratio_test("small", large)


def test_profile_intervals_take_few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 20 columns of 20,000 rows cost fewer passes than 40 fits of four."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    y = (X @ rng.normal(size=20) * 0.4 + rng.logistic(size=20_000) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    passes = []
    fold = FoldObjective.fold
    monkeypatch.setattr(FoldObjective, "fold", lambda self, *a: (passes.append(1), fold(self, *a))[1])
    model.summary(X, y, intervals="profile")
    assert len(passes) < 160
    passes.clear()
    model.summary()
    model.summary(X, y, covariance="sandwich")
    assert not passes  # of the likelihood: the scores take their own


def test_marginal_effects_at_other_places() -> None:
    X, y = sampled(15)
    model = LogisticRegression().fit(X, y)
    for at, row in {
        "median": np.median(X, axis=0),
        "zero": np.zeros(3),
        "mean": X.mean(axis=0),
    }.items():
        p = model.predict_proba(row[None])[0, 1]
        np.testing.assert_allclose(model.marginal_effects(X, at=at).effect, p * (1 - p) * model.coef_[0], rtol=1e-9)
    row = X.mean(axis=0)
    row[1] = 90.0
    p = model.predict_proba(row[None])[0, 1]
    found = model.marginal_effects(X, at={"x1": 90})
    np.testing.assert_allclose(found.effect, p * (1 - p) * model.coef_[0], rtol=1e-9)
    assert "x1 = 90" in str(found)


def test_likelihood_ratio_of_fits_with_different_offsets_is_refused() -> None:
    X, y = sampled(3, n=120)
    offset = np.where(y == y[0], 0.5, -0.5) * np.linspace(0.0, 1.0, len(y))  # the larger model gains by it alone
    small, large = LogisticRegression().fit(X[:, :1], y), LogisticRegression().fit(X, y, offset=-offset)
    with pytest.raises(InvalidInputError, match="different offsets"):
        likelihood_ratio_test(small, large)
    both = [LogisticRegression().fit(rows, y, offset=offset) for rows in (X[:, :1], X)]
    assert likelihood_ratio_test(*both).df == X.shape[1] - 1


def test_summary_of_a_model_with_another_class_prior_says_so() -> None:
    X, y = sampled(3, n=120)
    model = LogisticRegression().fit(X, y)
    moved = model.with_class_prior(dict.fromkeys(model.classes_.tolist(), 0.5))
    assert any("intercepts moved" in note for note in moved.summary().notes)
    assert not any("intercepts moved" in note for note in model.summary().notes)


@pytest.mark.parametrize("value", ["much", None, np.nan, np.inf])
def test_marginal_effects_at_no_number_are_refused(value: object) -> None:
    X, y = sampled(3, n=60)
    with pytest.raises(InvalidInputError, match="finite number"):
        LogisticRegression().fit(X, y).marginal_effects(X, at={"x0": value})


def test_no_weight_has_an_error_where_the_classes_are_completely_separated() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = (X[:, 0] > 0).astype(int)
    with pytest.warns(SeparationWarning):
        model = LogisticRegression().fit(X, y)
    for found in (model.summary(), model.marginal_effects(X)):
        assert np.isinf(found.std_error).all() and np.isnan(found.p_value).all()
        assert (found.lower == -np.inf).all() and (found.upper == np.inf).all()


@pytest.mark.parametrize("link", ["probit", "cloglog", "loglog", "cauchit"])
def test_separation_is_seen_with_every_link(link: str) -> None:
    """With loglog the likelihood is flat after a few steps, which looks like an optimum."""
    x = np.repeat([0.0, 0.0, 1.0], [36, 69, 10])[:, None]
    with pytest.warns(SeparationWarning, match="x0"):
        model = LogisticRegression(link=link).fit(x, np.repeat([0, 1, 0], [36, 69, 10]))
    assert np.isinf(model.summary().std_error[1])


def penalised(w: np.ndarray, Z: np.ndarray, y: np.ndarray) -> float:
    """Minus the log likelihood with Jeffreys' prior, from its definition."""
    a = Z @ w
    p = 1.0 / (1.0 + np.exp(-a))
    sign, half = np.linalg.slogdet(Z.T @ (Z * (p * (1.0 - p))[:, None]))
    return float((np.logaddexp(0.0, a) - y * a).sum() - 0.5 * half) if sign > 0 else 1e10


@pytest.mark.parametrize(("seed", "j"), [(15, 1), (21, 1), (33, 2), (41, 1)])
def test_penalised_profiles_end_on_their_highest_branch(seed: int, j: int) -> None:
    """Separated rows whose profile has several maxima: at the upper end, no start climbs into the interval."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(int(rng.integers(8, 16)), 2)), 1)
    y = (X[:, 0] > 0).astype(int)
    model = LogisticRegression(JeffreysPrior()).fit(X, y)
    end = model.summary(X, y, intervals="profile").upper[j]
    Z, best = np.column_stack([np.ones(len(X)), X]), np.append(model.intercept_, model.coef_)
    ray = np.delete(best, j) * end / best[j]
    starts = [np.delete(best, j), *(c * ray + d for c in (0.8, 1.0, 1.2) for d in (-2.0, 0.0, 2.0))]
    options = {"xatol": 1e-7, "fatol": 1e-10, "maxfev": 1000}
    found = [
        optimize.minimize(
            lambda rest: penalised(np.insert(rest, j, end), Z, y), start, method="Nelder-Mead", options=options
        ).fun
        for start in starts
    ]
    assert 2.0 * (min(found) - penalised(best, Z, y)) == pytest.approx(3.841458820694124, abs=1e-5)


# ------------------------------------------------ corrections by leverage, clusters by name, odds, many weights


@pytest.mark.parametrize("factor", ["HC0", "HC1", "HC2", "HC3"])
@pytest.mark.parametrize("case", cases("robust_*"), ids=str)
def test_errors_corrected_by_leverages_equal_r_sandwich(case: Case, factor: str) -> None:
    model = LogisticRegression(link=case.expected["link"], tol=1e-14)
    given = {"sample_weight": case.weights}
    model.fit(table(case), labels(case), **given)
    found = model.summary(table(case), labels(case), **given, covariance=("sandwich", factor))
    np.testing.assert_allclose(found.std_error, case.expected["std_errors"][factor], rtol=1e-6)
    assert f"robust standard errors ({factor} sandwich)" in str(found)


def test_hc3_of_softmax_is_the_spread_of_one_step_without_each_row() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = (X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(50, 3))).argmax(axis=1)
    model = LogisticRegression(reference=0, tol=1e-14).fit(X, y)
    Z, P = np.column_stack([np.ones(50), X]), model.predict_proba(X)

    def information(rows: Any) -> Any:
        return sum(np.kron(np.diag(P[i, 1:]) - np.outer(P[i, 1:], P[i, 1:]), np.outer(Z[i], Z[i])) for i in rows)

    steps = []
    for i in range(50):
        score = np.kron(np.array([y[i] == 1, y[i] == 2]) - P[i, 1:], Z[i])
        steps.append(np.linalg.solve(information(set(range(50)) - {i}), score))
    found = model.summary(X, y, covariance=("sandwich", "HC3"))
    np.testing.assert_allclose(found.std_error, np.sqrt((np.array(steps) ** 2).sum(axis=0)), rtol=1e-6)
    with pytest.raises(InvalidInputError, match=r"HC2 is for two classes. Use \('sandwich', 'HC3'\)"):
        model.summary(X, y, covariance=("sandwich", "HC2"))


def test_clusters_may_be_a_column_of_the_table() -> None:
    case = cases("inference_birthwt")[0]
    data = table(case).assign(ward=np.arange(len(case.X)) % 17, clinic=[f"c{i % 5}" for i in range(len(case.X))])
    y = labels(case)
    plain = data[list(case.feature_names)]
    model = LogisticRegression().fit(plain, y)
    for name in ("ward", "clinic"):
        by_name = model.summary(data, y, covariance=("cluster", name, "CR1S"))
        by_value = model.summary(plain, y, covariance=("cluster", data[name].to_numpy(), "CR1S"))
        np.testing.assert_array_equal(by_name.std_error, by_value.std_error)
        assert f"cluster-robust standard errors of {data[name].nunique()} clusters (CR1S)" in str(by_name)
        one = model.test_linear("age = 0", None, data, y, covariance=("cluster", name))
        other = model.test_linear("age = 0", None, plain, y, covariance=("cluster", data[name].to_numpy()))
        assert one.statistic == other.statistic
    whole = data.assign(low=y)
    formula = LogisticRegression(design=Design("low ~ age + smoke")).fit(whole)
    for X, target in ((whole, None), (whole, "low")):
        found = formula.summary(X, target, covariance=("cluster", "clinic"))
        assert "cluster-robust standard errors of 5 clusters" in str(found)
    numbers = data.drop(columns="clinic")
    kept = LogisticRegression().fit(numbers, y)
    by_name = kept.summary(covariance=("cluster", "ward"))  # the table is still in memory
    np.testing.assert_array_equal(by_name.std_error, kept.summary(covariance=("cluster", data["ward"])).std_error)
    with pytest.raises(UnknownNameError, match=r"column for the clusters 'wrad'.*'ward'"):
        model.summary(data, y, covariance=("cluster", "wrad"))
    with pytest.raises(InvalidInputError, match="no table to take it from"):
        LogisticRegression().fit(case.X, y).summary(case.X, y, covariance=("cluster", "ward"))


@pytest.mark.parametrize("intervals", ["wald", "profile"])
def test_the_odds_ratio_has_the_interval_of_the_estimate(intervals: str) -> None:
    case = cases("inference_birthwt")[0]
    found = fitted(case).summary(table(case), labels(case), intervals=intervals)
    np.testing.assert_array_equal(found.odds_lower, np.exp(found.lower))
    np.testing.assert_array_equal(found.odds_upper, np.exp(found.upper))
    if intervals == "profile":
        ends = np.exp(case.expected["profile_interval"])
        np.testing.assert_allclose(np.column_stack([found.odds_lower, found.odds_upper]), ends, rtol=1e-6)
    assert "odds ratio  odds 2.5%  odds 97.5%" in str(found)
    posterior = fitted(case, prior=1.0).summary()
    np.testing.assert_array_equal(posterior.odds_upper, np.exp(posterior.credible_upper))
    assert "odds_lower" not in ProbitRegression().fit(case.X, case.y).summary().to_dict()


def test_tiny_p_values_float_labels_and_the_interpreter() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=60_000)
    y = np.where(x + 0.7 * rng.logistic(size=60_000) > 0, 1.0, 0.0)
    found = LogisticRegression().fit(x[:, None], y).summary()
    assert found.p_value[1] == 0.0 and "<1e-300" in str(found) and " 0.0000" not in str(found).splitlines()[5]
    assert repr(found) == str(found) and "<1e-300" in found.to_markdown()
    labels = rng.integers(1, 4, 300) * 1.0
    several = LogisticRegression().fit(rng.normal(size=(300, 2)), labels).summary()
    assert [line.split()[0] for line in str(several).splitlines()[4:13]] == ["1"] * 3 + ["2"] * 3 + ["3"] * 3


def test_a_model_of_many_weights_lists_its_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = sparse.random(400, 9000, density=0.01, format="csr", random_state=0)
    y = (np.asarray(X[:, :4000].sum(axis=1)).ravel() + rng.normal(size=400) > 20).astype(int)
    model = LogisticRegression(prior=1.0).fit(X, y)
    found = model.summary()
    assert not found.has_errors and found.term[0] == "(intercept)" and len(found.term) == 9001
    assert (np.diff(np.abs(found.estimate[1:])) <= 0).all() and np.isnan(found.posterior_sd).all()
    place = {name: i for i, name in enumerate(found.term.tolist())}
    np.testing.assert_allclose(found.estimate[[place[f"x{j}"] for j in range(9000)]], model.coef_[0], rtol=1e-12)
    shown = str(found)
    assert shown.count("\n") < 70 and "… and 8,951 more rows: to_pandas() has them all" in shown
    assert (
        "no standard errors: there are 9,001 weights, and the limit is 5,000" in shown and "posterior sd" not in shown
    )
    # Fewer weights, but a fit that needed no Hessian, and whose rows are no longer in memory.
    monkeypatch.setattr("oddsmith.models.inference_mixin.POLICY", replace(policy.POLICY, largest_summary=20_000))
    rows = X.copy()
    gone = LogisticRegression(prior=1.0).fit(rows, y)
    del rows
    assert "its rows are not in memory; pass them as X and y" in str(gone.summary())
    with pytest.raises(UnavailableError, match="Hessian"):
        gone.summary(covariance="sandwich")
    monkeypatch.setattr("oddsmith.likelihood.fitted_state.Machine.here", lambda: SimpleNamespace(memory=1e9))
    with pytest.raises(UnavailableError, match=r"Hessian of 9,001 weights: 2.59 GB, and 1 GB are free"):
        model.summary()


def test_the_footer_names_the_errors() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    y = X[:, 0] + rng.normal(size=80) > 0
    model = ProbitRegression().fit(X, y)
    ids = np.arange(80) % 9
    for covariance, words in {
        "information": "standard errors from the expected information",
        "observed": "standard errors from the observed information",
        "sandwich": "robust standard errors (HC0 sandwich)",
        ("sandwich", "HC1"): "robust standard errors (HC1 sandwich)",
    }.items():
        remark = f"maximum likelihood; {words}; 95% Wald intervals"
        assert remark in model.summary(X, y, covariance=covariance).remarks
    for factor, shown in ((), "CR1"), (("CR0",), "CR0"), (("CR1S",), "CR1S"):
        remark = f"maximum likelihood; cluster-robust standard errors of 9 clusters ({shown}); 90% Wald intervals"
        assert remark in model.summary(X, y, covariance=("cluster", ids, *factor), level=0.9).remarks
