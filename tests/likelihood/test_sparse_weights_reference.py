"""Sparse weights against R's glmnet: the objective at every point of its path, and the weights where unique."""

import warnings

import numpy as np
import pytest
from tests.reference_data import Case, cases
from tests.sparse_optimum import BlockProblem, block_problem, minimise

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
from oddsmith.errors import ConvergenceWarning

CASES = cases("lasso_*")
PURE = [case for case in CASES if case.expected["gaussian"] is None]


def table(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Columns of one size, and the number of each row's class."""
    number = {label: k for k, label in enumerate(case.classes)}
    return case.X / np.array(case.expected["divisors"]), np.array([number[label] for label in case.y.tolist()])


def glmnet_weights(case: Case) -> np.ndarray:
    """Points × (1 + D) × G."""
    values = np.array(case.expected["coefficients_polished"])
    G = 1 if len(case.classes) == 2 else len(case.classes)
    return values.reshape(len(values), G, -1).transpose(0, 2, 1)


def prior(case: Case, point: int) -> LaplacePrior:
    found = case.expected
    return LaplacePrior(
        found["scale"][point],
        groups="class" if found["grouped"] else None,
        gaussian=None if found["gaussian"] is None else found["gaussian"][point],
        factors=None if set(found["factors"]) == {1} else found["factors"],
    )


def judged(case: Case, point: int) -> BlockProblem:
    X, t = table(case)
    given = prior(case, point)
    options = {"scale": given.scale, "gaussian": given.gaussian, "factors": given.factors, "groups": given.groups}
    return block_problem(X, t, len(case.classes), s=case.weights, offset=case.offset, **options)


def centred(W: np.ndarray) -> np.ndarray:
    """Differences between classes: what all classes share may be split in several ways."""
    return W if W.shape[1] == 1 else W - W.mean(axis=1, keepdims=True)


def fitted(case: Case, point: int, tol: float) -> tuple[LogisticRegression, np.ndarray]:
    """The model, and its weights with the intercept first, (1 + D) × G."""
    X, t = table(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(prior=prior(case, point), tol=tol)
        model.fit(X, t, sample_weight=case.weights, offset=case.offset)
    return model, np.vstack([model.intercept_, model.coef_.T])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_objective_is_never_above_that_of_glmnet(case):
    for point, objective in enumerate(case.expected["objective"]):
        model, W = fitted(case, point, tol=1e-10)
        assert model.certificate_.converged, f"point {point}"
        assert float(judged(case, point).value(W)) <= objective * (1 + 1e-9), f"point {point}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_equal_those_of_glmnet_where_they_are_unique(case):
    """At a tolerance so tight that rounding may forbid the certificate: 1e-6 of a weight is 1e-12 of the objective."""
    for point in np.flatnonzero(case.expected["unique"])[1::4]:
        model, W = fitted(case, point, tol=1e-14)
        assert model.certificate_.gap <= 1e-11 * case.expected["objective"][point]
        expected = centred(glmnet_weights(case)[point])
        np.testing.assert_allclose(centred(W), expected, rtol=0, atol=1e-6 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("case", PURE, ids=str)
def test_paths_are_no_worse_than_glmnet(case):
    X, t = table(case)
    given = {"scales": case.expected["scale"], "prior": prior(case, 0)}
    path = regularization_path(X, t, sample_weight=case.weights, offset=case.offset, **given)
    assert np.max(path.gap) <= 1e-7
    for point, W in enumerate(path.weights):
        objective = float(judged(case, point).value(W.reshape(glmnet_weights(case).shape[1:])))
        assert objective <= case.expected["objective"][point] * (1 + 1e-7)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_glmnet_is_at_the_optimum_in_extended_precision(case):
    """Else the penalties of the records would not mean what they say."""
    for point in (0, len(case.expected["scale"]) // 2, -1):
        found = minimise(judged(case, point), glmnet_weights(case)[point])
        assert float(found.used.max()) <= 1 + 1e-10
        assert case.expected["objective"][point] == pytest.approx(float(found.value), rel=1e-10)
