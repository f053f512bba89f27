"""The weights of every iteration, kept on request: they give the log likelihood that the trace has beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oddsmith import JeffreysPrior, LogisticRegression, PerceptronClassifier, load, record_weights
from oddsmith.links import LINKS
from oddsmith.numerics import log_softmax
from oddsmith.solvers import SOLVERS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2)) * [1.0, 40.0] + [0.0, 300.0]  # in other units, and far from zero
A = (X - [0.0, 300.0]) / [1.0, 40.0]
TWO = (A @ [1.0, -1.0] + RNG.logistic(size=80) > 0).astype(int)
THREE = np.argmax(A @ RNG.normal(size=(2, 3)) + RNG.gumbel(size=(80, 3)), axis=1)


def log_likelihood(w: np.ndarray, y: np.ndarray, link: str = "logit") -> float:
    """From weights as the trace has them, the intercept first."""
    rows = np.column_stack([np.ones(len(X)), X])
    if w.ndim == 2:
        return float(log_softmax(rows @ w.T)[np.arange(len(y)), y].sum())
    p = LINKS[link].inverse(rows @ w)
    return float(np.log(np.where(y == 1, p, 1 - p)).sum())


CASES = [
    *(({"solver": name}, y) for name in SOLVERS for y in (TWO, THREE)),
    *(({"link": link}, TWO) for link in ("probit", "cauchit")),
    ({"prior": JeffreysPrior()}, TWO),
    ({"prior": 0.5}, THREE),
    ({"reference": 1}, THREE),
]


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
@pytest.mark.parametrize(("how", "y"), CASES, ids=lambda part: str(part) if isinstance(part, dict) else "")
def test_weights_of_the_trace_give_its_log_likelihood(how: dict[str, object], y: np.ndarray) -> None:
    with record_weights():
        model = LogisticRegression(**({"seed": 0} | how)).fit(X, y)
    trace = model.trace_
    assert trace.weights.shape[1:] == ((3,) if y is TWO else (3, 3)) and len(trace.weights) == len(trace)
    for weights, stage, value in zip(trace.weights, trace.stage, trace.log_likelihood, strict=True):
        if not stage.endswith(" rows") or stage.endswith("all rows"):  # a part of the rows only estimates it
            assert log_likelihood(weights, y, model.link) == pytest.approx(value, rel=1e-9, abs=1e-8)
    last = np.column_stack([model.intercept_, model.coef_]).squeeze()
    np.testing.assert_allclose(trace.weights[-1], last, rtol=1e-5, atol=1e-6)  # a last, sure step may be beyond it
    if "reference" in how:
        assert not trace.weights[:, 1].any()
    assert "weights" not in trace.to_dict() and "weights" not in str(trace)


def test_fit_inside_a_bounded_domain_and_partial_fit_keep_theirs() -> None:
    exposed, ill = [[0.0]] * 100 + [[1.0]] * 100, [1] * 10 + [0] * 90 + [1] * 30 + [0] * 70
    with record_weights():
        for link in ("log", "identity"):
            model = LogisticRegression(link=link).fit(exposed, ill)
            np.testing.assert_allclose(model.trace_.weights[-1], [*model.intercept_, *model.coef_[0]], rtol=1e-4)
        stream = LogisticRegression(seed=0).partial_fit(X, TWO, classes=[0, 1])
    np.testing.assert_array_equal(stream.trace_.weights[-1], [*stream.intercept_, *stream.coef_[0]])


@pytest.mark.parametrize("K", [2, 3])
def test_perceptron_keeps_the_weights_at_the_end_of_each_epoch(K: int) -> None:
    y = np.digitize(A @ [1.0, 2.0], [0.2] if K == 2 else [-1.0, 1.0])
    with record_weights():
        model = PerceptronClassifier().fit(A, y)
    assert model.converged_ and len(model.trace_.weights) == model.n_iter_
    np.testing.assert_array_equal(model.trace_.weights[-1], np.column_stack([model.intercept_, model.coef_]).squeeze())
    for w, errors in zip(model.trace_.weights, model.trace_.errors, strict=True):
        a = np.column_stack([np.ones(len(A)), A]) @ w.T
        assert int(((a > 0) != y).sum() if K == 2 else (a.argmax(axis=1) != y).sum()) == errors


def test_weights_are_kept_only_on_request_and_survive_a_file(tmp_path: Path) -> None:
    with record_weights():
        inside = LogisticRegression().fit(X, TWO)
    outside = LogisticRegression().fit(X, TWO)
    with pytest.raises(AttributeError, match=r"no weights\. Fit inside 'with oddsmith\.record_weights"):
        outside.trace_.weights  # noqa: B018
    np.testing.assert_array_equal(inside.coef_, outside.coef_)
    inside.save(tmp_path / "model.odds")
    np.testing.assert_array_equal(load(tmp_path / "model.odds").trace_.weights, inside.trace_.weights)
