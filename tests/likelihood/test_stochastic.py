"""Stochastic gradients: what does not depend on how rows are read, and what a stream comes to."""

import numpy as np
import pytest

from oddsmith import LogisticRegression
from oddsmith.errors import ConvergenceWarning
from oddsmith.likelihood import stochastic
from oddsmith.solvers import SGD


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, X @ [2.0, -1.0] + rng.logistic(size=n) > 0


@pytest.mark.filterwarnings(f"ignore::{ConvergenceWarning.__module__}.ConvergenceWarning")
def test_the_average_of_an_epoch_is_the_same_in_chunks_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(500)
    whole = LogisticRegression(1.0, solver=SGD(epochs=2, seed=0)).fit(X, y)
    monkeypatch.setattr(stochastic, "CHUNK_ELEMENTS", 200)
    chunks = LogisticRegression(1.0, solver=SGD(epochs=2, seed=0)).fit(X, y)
    np.testing.assert_allclose(chunks.coef_, whole.coef_, rtol=1e-9)
    np.testing.assert_allclose(chunks.intercept_, whole.intercept_, rtol=1e-9)


def test_the_prior_of_a_stream_counts_once_for_all_its_rows() -> None:
    """A prior so narrow that it matters: counted for each batch anew, or for the first alone, it shrinks otherwise."""
    X, y = rows(8000)
    model = LogisticRegression(0.02, seed=0)
    for start in range(0, 8000, 1000):
        model.partial_fit(X[start : start + 1000], y[start : start + 1000], classes=[False, True])
    np.testing.assert_allclose(model.coef_, LogisticRegression(0.02).fit(X, y).coef_, rtol=0.2)
