"""Whole fits, and the laws of the statistics, with the kernels of every instruction set."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from tests.kernels.kernel_cases import LEVELS

import oddsmith
from oddsmith.kernels import native
from oddsmith.statistic import STATISTICS
from oddsmith.testing import check_statistic, hostile_blocks


def data(K: int, M: int = 11) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(K)
    X = rng.normal(size=(400, M)) * rng.uniform(0.1, 10.0, M) + rng.normal(size=M)
    A = 0.3 * X / X.std(axis=0) @ rng.normal(size=(M, K)) + rng.gumbel(size=(400, K))
    return X, A.argmax(axis=1), rng.uniform(0.0, 2.0, 400)


FITS = {
    "two classes": lambda X, t, s: oddsmith.LogisticRegression().fit(X, t),
    "columns in F order": lambda X, t, s: oddsmith.LogisticRegression().fit(np.asfortranarray(X), t),
    "float32": lambda X, t, s: oddsmith.LogisticRegression().fit(X.astype(np.float32), t),
    "CSR": lambda X, t, s: oddsmith.LogisticRegression().fit(sparse.csr_array(np.where(X > 0.0, X, 0.0)), t),
    "weights": lambda X, t, s: oddsmith.LogisticRegression().fit(X, t, sample_weight=s),
    "four classes": lambda X, t, s: oddsmith.LogisticRegression().fit(X, t),
    "four classes, weights": lambda X, t, s: oddsmith.LogisticRegression().fit(X, t, sample_weight=s),
    "L-BFGS": lambda X, t, s: oddsmith.LogisticRegression(solver="lbfgs", tol=1e-12).fit(X, t),
    "Gaussian": lambda X, t, s: oddsmith.GaussianClassifier().fit(X, t),
    "Fisher": lambda X, t, s: oddsmith.FisherDiscriminant().fit(X, t, sample_weight=s),
}


@cache
def weights(name: str, level: str) -> Any:
    with native.using(level):
        fitted = FITS[name](*data(4 if "four" in name or name == "Gaussian" else 2))
    return np.column_stack([fitted.intercept_, fitted.coef_])


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("level", LEVELS)
def test_fits_have_the_weights_of_the_reference(level: str, name: str) -> None:
    expected = weights(name, "reference")
    np.testing.assert_allclose(weights(name, level), expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["curvature", "curvature product", "curvature diagonal", "moments"])
@pytest.mark.parametrize("level", native.available()[:-1])
def test_statistics_obey_the_laws(level: str, name: str) -> None:
    """Those of the best level are tested with all the others."""
    with native.using(level):
        check_statistic(STATISTICS[name], list(hostile_blocks())[::4])
