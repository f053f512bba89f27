"""Logistic and softmax regression against R's ``glm`` and ``nnet::multinom`` on real data."""

import warnings

import numpy as np
import pytest
from tests.reference_data import Case, cases

from oddsmith import LogisticRegression
from oddsmith.errors import CollinearityWarning

GLM = [case for case in cases("glm*") if not any(case.expected["aliased"])]
ALIASED = [case for case in cases("glm*") if any(case.expected["aliased"])]
MULTINOM = cases("multinom_*")
DIGITS = 1e-8
"""Eight significant digits."""


def fit(case: Case, **options: object) -> LogisticRegression:
    return LogisticRegression(**options).fit(case.X, case.y, sample_weight=case.weights, offset=case.offset)


def against_reference(case: Case, model: LogisticRegression) -> np.ndarray:
    """Return the weights as R has them: a row per class other than its first, the intercept first, R's order."""
    W = np.column_stack([model.intercept_, model.coef_])
    if len(model.classes_) == 2:
        return W if model.classes_[1] == case.classes[1] else -W
    order = [model.classes_.tolist().index(label) for label in case.classes]
    return W[order[1:]] - W[order[0]]


def probabilities(case: Case, model: LogisticRegression, rows: int) -> np.ndarray:
    """Return the fitted probabilities of the first rows, classes in R's order."""
    offset = None if case.offset is None else case.offset[:rows]
    order = [model.classes_.tolist().index(label) for label in case.classes]
    return model.predict_proba(case.X[:rows], offset=offset)[:, order]


@pytest.mark.parametrize("case", GLM, ids=str)
def test_weights_and_log_likelihood_equal_r_glm(case: Case) -> None:
    model = fit(case, fit_intercept=case.expected["intercept"])
    expected = np.array(case.expected["coefficients"])
    found = against_reference(case, model)[0]
    if not case.expected["intercept"]:
        assert found[0] == 0.0
        found = found[1:]
    np.testing.assert_allclose(found, expected, rtol=DIGITS)
    assert model.log_likelihood_ == pytest.approx(case.expected["log_likelihood"], rel=1e-12)
    assert model.certificate_.converged
    assert model.n_parameters_ == len(expected)
    assert model.aliased_ == []
    fitted = np.array(case.expected["fitted"])
    np.testing.assert_allclose(probabilities(case, model, len(fitted))[:, 1], fitted, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("case", ALIASED, ids=str)
def test_aliased_columns_are_those_that_r_sets_aside(case: Case) -> None:
    import pandas

    table = pandas.DataFrame(case.X, columns=list(case.feature_names))
    with pytest.warns(CollinearityWarning, match="race_other.*lwt_kg") as raised:
        model = LogisticRegression().fit(table, case.y)
    assert len(raised) == 1
    assert model.aliased_ == case.expected["aliased"]
    expected = np.array([0.0 if v is None else v for v in case.expected["coefficients"]])
    found = against_reference(case, model)[0]
    np.testing.assert_allclose(found, expected, rtol=DIGITS)
    assert model.log_likelihood_ == pytest.approx(case.expected["log_likelihood"], rel=1e-12)
    assert model.n_parameters_ == np.count_nonzero(expected)
    assert model.certificate_.converged


@pytest.mark.parametrize("reference", [True, False], ids=["reference", "symmetric"])
@pytest.mark.parametrize("case", MULTINOM, ids=str)
def test_weights_and_probabilities_equal_r_multinom(case: Case, reference: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(case, reference=case.classes[0] if reference and len(case.classes) > 2 else None)
    expected = np.atleast_2d(case.expected["coefficients_polished"])
    found = against_reference(case, model)
    # The weights of nearly collinear columns hang together: each is as good as the digits of the largest.
    np.testing.assert_allclose(found, expected, rtol=DIGITS, atol=1e-14 * np.abs(expected).max())
    polished = case.expected["log_likelihood_polished"]
    assert model.log_likelihood_ == pytest.approx(polished, rel=1e-12)
    slack = 1e-13 * abs(polished)
    assert model.log_likelihood_ >= case.expected["log_likelihood"] - slack, "R found a higher likelihood"
    fitted = np.array(case.expected["fitted_polished"])
    if fitted.ndim == 1:
        fitted = np.column_stack([1.0 - fitted, fitted])
    np.testing.assert_allclose(probabilities(case, model, len(fitted)), fitted, rtol=1e-8, atol=1e-12)
    early = np.array(case.expected["fitted"])
    if early.ndim == 2:
        np.testing.assert_allclose(probabilities(case, model, len(early)), early, atol=1e-6)
    assert model.certificate_.converged
    if reference and len(case.classes) > 2:
        assert not model.coef_[model.classes_.tolist().index(case.classes[0])].any()
    elif len(case.classes) > 2:
        np.testing.assert_allclose(model.coef_.sum(axis=0), 0.0, atol=1e-12 * np.abs(model.coef_).max())


@pytest.mark.parametrize("solver", ["newton", "truncated-newton"])
@pytest.mark.parametrize("case", [case for case in GLM if len(case.X) < 1000], ids=str)
def test_every_newton_solver_gives_r_glm(case: Case, solver: str) -> None:
    model = fit(case, solver=solver, fit_intercept=case.expected["intercept"])
    expected = np.array(case.expected["coefficients"])
    found = against_reference(case, model)[0][0 if case.expected["intercept"] else 1 :]
    np.testing.assert_allclose(found, expected, rtol=DIGITS)


def test_reference_cases_are_those_that_were_promised() -> None:
    """Six data sets at least: binary, three classes and more, weights, offset, dummies, more than 10,000 rows."""
    every = [*GLM, *ALIASED, *MULTINOM]
    assert len({case.expected["data"] for case in every}) >= 6
    assert any(len(case.classes) > 2 for case in every)
    assert any(case.weights is not None for case in every)
    assert any(case.offset is not None for case in every)
    assert any(len(case.X) > 10_000 for case in every)


def test_two_class_softmax_of_r_equals_glm() -> None:
    glm, multinom = cases("glm_pima")[0], cases("multinom_pima")[0]
    np.testing.assert_allclose(
        np.ravel(multinom.expected["coefficients_polished"]), glm.expected["coefficients"], rtol=1e-8
    )
    np.testing.assert_array_equal(glm.X, multinom.X)
