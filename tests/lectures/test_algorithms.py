"""The lectures' algorithms equal a transcription of their formulas, number by number, iterate by iterate.

The transcriptions below are written from the documents alone: loops over rows and components, lists of floats.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddsmith import LogisticRegression, detect_separation
from oddsmith.errors import InvalidInputError
from oddsmith.lectures.algorithms import (
    WeightPath,
    batch_gradient,
    irls,
    perceptron,
    random_start,
    sgd,
    softmax_newton,
    with_ones,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
Vector = list[float]


# --- transcriptions ---


def logistic(a: float) -> float:
    return 1.0 / (1.0 + math.exp(-a))


def inner(w: Vector, x: Vector) -> float:
    o = 0.0
    for j in range(len(w)):
        o = o + w[j] * x[j]
    return o


def gauss(A: list[Vector], b: Vector) -> Vector:
    """Solve A z = b by elimination with pivots."""
    n, rows = len(b), [[*A[i], b[i]] for i in range(len(b))]
    for i in range(n):
        best = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[best] = rows[best], rows[i]
        for k in range(i + 1, n):
            f = rows[k][i] / rows[i][i]
            rows[k] = [rows[k][j] - f * rows[i][j] for j in range(n + 1)]
    z = [0.0] * n
    for i in reversed(range(n)):
        z[i] = (rows[i][n] - sum(rows[i][j] * z[j] for j in range(i + 1, n))) / rows[i][i]
    return z


def procedure_irls(Phi: list[Vector], t: Vector, w: Vector, theta: float) -> list[Vector]:
    """L6, algorithm IRLS, its lines 4 to 12."""
    path, M, N = [w], len(w), len(t)
    while True:
        y = [logistic(inner(w, Phi[n])) for n in range(N)]
        r = [y[n] * (1 - y[n]) for n in range(N)]
        gradient = [sum(Phi[n][i] * (y[n] - t[n]) for n in range(N)) for i in range(M)]
        H = [[sum(Phi[n][i] * r[n] * Phi[n][j] for n in range(N)) for j in range(M)] for i in range(M)]
        step = gauss(H, gradient)
        new = [w[i] - step[i] for i in range(M)]
        path.append(new)
        if math.dist(new, w) < theta:
            return path
        w = new


def repeat_gradient(X: list[Vector], r: Vector, w: Vector, eta: float, theta: float) -> list[Vector]:
    """LD, the pseudo code of gradient descent; "until convergence" is L6's threshold on the gradient."""
    path = [w]
    while True:
        delta = [0.0] * len(w)
        for t in range(len(r)):
            y = logistic(inner(w, X[t]))
            for j in range(len(w)):
                delta[j] = delta[j] + (r[t] - y) * X[t][j]
        if math.hypot(*delta) < theta:
            return path
        w = [w[j] + eta * delta[j] for j in range(len(w))]
        path.append(w)


def one_sample_steps(X: list[Vector], y: Vector, beta: Vector, rho: float, epochs: int) -> list[Vector]:
    """CL, the last slide: β ← β + ρ (yᵢ − μᵢ) xᵢ."""
    path = [beta]
    for _ in range(epochs):
        for i in range(len(y)):
            mu = 1 / (1 + math.exp(-inner(beta, X[i])))
            beta = [beta[j] + rho * (y[i] - mu) * X[i][j] for j in range(len(beta))]
            path.append(beta)
    return path


def perceptron_rule(X: list[Vector], r: Vector, w: Vector, eta: float) -> list[Vector]:
    """LD, "Perceptron with error function", until no example is wrong."""
    path = [w]
    wrong = True
    while wrong:
        wrong = False
        for t in range(len(r)):
            if inner(w, X[t]) * r[t] <= 0:
                w, wrong = [w[j] + eta * r[t] * X[t][j] for j in range(len(w))], True
                path.append(w)
    return path


def multiclass_newton(Phi: list[Vector], C: list[int], M: int, theta: float) -> list[list[Vector]]:
    """PR, multi-class maximum likelihood: M classes, the first weights zero, H of blocks 2 … M."""
    D, N = len(Phi[0]), len(C)
    w = [[0.0] * D for _ in range(M)]
    path = [w]
    while True:
        y = []
        for n in range(N):
            total = sum(math.exp(inner(w[j], Phi[n])) for j in range(M))
            y.append([math.exp(inner(w[k], Phi[n])) / total for k in range(M)])
        gradient = [sum((y[n][j] - (C[n] == j)) * Phi[n][a] for n in range(N)) for j in range(1, M) for a in range(D)]
        H = [
            [
                sum(y[n][k] * ((1 if j == k else 0) - y[n][j]) * Phi[n][a] * Phi[n][b] for n in range(N))
                for k in range(1, M)
                for b in range(D)
            ]
            for j in range(1, M)
            for a in range(D)
        ]
        step = gauss(H, gradient)
        w = [w[0], *([w[j][a] - step[(j - 1) * D + a] for a in range(D)] for j in range(1, M))]
        path.append(w)
        if math.hypot(*step) < theta:
            return path


# --- comparisons ---


def overlapping(seed: int, n: int = 40, K: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Rows with a constant, and labels that no hyperplane separates."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = np.argmax(x @ rng.normal(size=(2, K)) + rng.gumbel(size=(n, K)), axis=1)
    return with_ones(x), y


def equal(found: WeightPath, path: list[Any]) -> None:
    assert found.weights.shape == np.shape(path)
    np.testing.assert_allclose(found.weights, path, **CLOSE)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("start", [[0.0, 0.0, 0.0], [0.1, -0.2, 0.3]])
def test_irls_equals_the_procedure(seed: int, start: Vector) -> None:
    Phi, t = overlapping(seed)
    found = irls(Phi, t, start, 1e-8)
    equal(found, procedure_irls(Phi.tolist(), t.tolist(), start, 1e-8))
    assert found.converged
    model = LogisticRegression().fit(Phi[:, 1:], t)
    np.testing.assert_allclose(found.w, [*model.intercept_, *model.coef_[0]], rtol=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_batch_gradient_equals_the_pseudo_code(seed: int) -> None:
    Phi, t = overlapping(seed)
    start = random_start(3, seed)
    found = batch_gradient(Phi, t, start, 0.05, 1e-5)
    equal(found, repeat_gradient(Phi.tolist(), t.tolist(), start.tolist(), 0.05, 1e-5))
    assert found.converged


@pytest.mark.parametrize("seed", range(4))
def test_sgd_equals_the_one_sample_formula(seed: int) -> None:
    Phi, t = overlapping(seed)
    found = sgd(Phi, t, [0.0, 0.0, 0.0], 0.3, epochs=3)
    equal(found, one_sample_steps(Phi.tolist(), t.tolist(), [0.0, 0.0, 0.0], 0.3, 3))
    assert found.steps == 120 and found.rows is not None and found.rows.tolist() == [*range(40)] * 3
    order = np.random.default_rng(seed).permutation(40)
    equal(sgd(Phi, t, [0.0] * 3, 0.3, order=order), one_sample_steps(Phi[order].tolist(), t[order], [0.0] * 3, 0.3, 1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_perceptron_equals_the_rule(seed: int, eta: float) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(40, 2))
    x = x[np.abs(x @ [1.0, 2.0] - 0.3) > 0.2]
    Phi, t = with_ones(x), np.where(x @ [1.0, 2.0] > 0.3, 1, -1)
    found = perceptron(Phi, t, [0.0, 0.0, 0.0], eta)
    equal(found, perceptron_rule(Phi.tolist(), t.tolist(), [0.0, 0.0, 0.0], eta))
    assert found.converged and bool((t * (Phi @ found.w) > 0).all())
    assert found.rows is not None and len(found.rows) == found.steps


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("K", [2, 3, 4])
def test_softmax_newton_equals_the_block_formula(seed: int, K: int) -> None:
    Phi, c = overlapping(seed, 80, K)
    found = softmax_newton(Phi, np.eye(K)[c], np.zeros((K, 3)), 1e-8)
    equal(found, multiclass_newton(Phi.tolist(), c.tolist(), K, 1e-8))
    assert found.converged and not found.weights[:, 0].any()
    if K == 2:
        np.testing.assert_allclose(found.weights[:, 1], irls(Phi, c, np.zeros(3), 1e-8).weights, **CLOSE)


# --- laws, and what the lectures say of them ---


def test_columns_in_other_units_slow_down_the_lectures_gradient_descent_and_not_newton() -> None:
    Phi, t = overlapping(1, 60)
    metres = Phi * [1.0, 1.0, 30.0]
    newton = [irls(rows, t, np.zeros(3), 1e-8).steps for rows in (Phi, metres)]
    assert newton[0] == newton[1]
    # The step that is as long as stability allows, for each of them.
    y = LogisticRegression().fit(Phi[:, 1:], t).predict_proba(Phi[:, 1:])[:, 1]
    longest = [1 / np.linalg.eigvalsh((rows.T * (y * (1 - y))) @ rows)[-1] for rows in (Phi, metres)]
    runs = [
        batch_gradient(rows, t, np.zeros(3), eta, 1e-3).steps for rows, eta in zip((Phi, metres), longest, strict=True)
    ]
    assert runs[1] > 100 * runs[0]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_perceptron_stops_by_itself_only_where_the_classes_are_separable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(7, 2)), np.where(rng.random(7) < 0.5, 1, -1)
    t[:2] = 1, -1
    if perceptron(with_ones(x), t, [0.0, 0.0, 0.0], 1.0, max_epochs=300).converged:
        assert detect_separation(x, t).kind == "complete"


def test_separated_classes_end_in_a_sentence() -> None:
    Phi, t = with_ones([[-2.0], [-1.0], [1.0], [2.0]]), [0, 0, 1, 1]
    short = irls(Phi, t, [0.0, 0.0], 1e-8, max_iter=8)
    assert not short.converged and bool((np.diff(short.weights[:, 1]) > 0.5).all())  # the weight grows at each step
    with pytest.raises(InvalidInputError, match=r"Hessian is singular in step .* separated"):
        irls(Phi, t, [0.0, 0.0], 1e-8, max_iter=10_000)
    T = np.eye(2)[t]
    with pytest.raises(InvalidInputError, match="singular"):
        softmax_newton(Phi, T, np.zeros((2, 2)), 1e-8, max_iter=10_000)


def test_too_long_a_step_does_not_converge() -> None:
    Phi, t = overlapping(0)
    assert not batch_gradient(Phi, t, np.zeros(3), 5.0, 1e-6, max_iter=500).converged


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: irls([[1.0], [2.0]], [0, 1, 1], [0.0], 1e-6), r"Phi has shape \(2, 1\), t \(3,\) and w0 \(1,\)"),
        (lambda: irls([[1.0], [2.0]], [0, 2], [0.0], 1e-6), r"t must hold 0 and 1 only, found \[0.0, 2.0\]"),
        (lambda: perceptron([[1.0], [2.0]], [0, 1], [0.0], 1.0), "t must hold -1 and 1 only"),
        (lambda: irls([[1.0], [np.nan]], [0, 1], [0.0], 1e-6), "Phi holds values that are not finite"),
        (lambda: irls([[1.0], [2.0]], [0, 1], [0.0], 0.0), "theta must be a positive number, found 0.0"),
        (lambda: sgd([[1.0], [2.0]], [0, 1], [0.0], -1.0), "eta must be a positive number"),
        (lambda: sgd([[1.0], [2.0]], [0, 1], [0.0], 1.0, order=[0, 2]), "numbers of rows from 0 to 1"),
        (lambda: softmax_newton([[1.0]], [[1.0, 0.0]], [[1.0], [0.0]], 1.0), "first row of W0 must be zeros"),
        (lambda: softmax_newton([[1.0]], [[1.0, 1.0]], [[0.0], [0.0]], 1.0), "a single one"),
        (lambda: softmax_newton([[1.0]], [[1.0, 0.0]], [[0.0]], 1.0), "expected N × M, N × K and K × M"),
    ],
)
def test_bad_input_gets_a_sentence(call: Callable[[], WeightPath], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
