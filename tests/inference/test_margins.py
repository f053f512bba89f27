"""Marginal effects against differences of predicted probabilities, and their errors against differences of effects."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from oddsmith import Design, LogisticRegression
from oddsmith.errors import InvalidInputError


def data(K: int, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(K)
    X = np.column_stack([rng.normal(size=n) * 10 + 500, rng.integers(0, 2, n), rng.normal(size=n)])
    a = np.column_stack([(X[:, 0] - 500) / 10 * k + X[:, 1] * (k % 2) - 0.5 * k * X[:, 2] for k in range(K)])
    return X, (a + rng.gumbel(size=a.shape)).argmax(axis=1)


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog", "cauchit", "softmax"])
def test_effects_are_differences_of_probabilities(link: str) -> None:
    X, y = data(3 if link == "softmax" else 2)
    model = LogisticRegression(link="logit" if link == "softmax" else link).fit(X, y)
    found = model.marginal_effects(X)
    K = len(model.classes_)
    expected = []
    for j, h in enumerate((1e-3, None, 1e-4)):
        up, down = X.copy(), X.copy()
        up[:, j], down[:, j] = (1, 0) if h is None else (X[:, j] + h, X[:, j] - h)
        change = (model.predict_proba(up) - model.predict_proba(down)).mean(axis=0)
        expected.append((change if h is None else change / (2 * h))[-1 if K == 2 else slice(None)])
    np.testing.assert_allclose(found.effect, np.array(expected).T.ravel(), rtol=1e-5, atol=1e-9)
    assert found.kind.tolist() == ["slope", "difference", "slope"] * (1 if K == 2 else K)


@pytest.mark.parametrize("link", ["logit", "cloglog", "softmax"])
def test_errors_are_those_of_the_delta_method(link: str) -> None:
    """Effects of weights that are moved by hand, against the Jacobian that the errors come from."""
    X, y = data(3 if link == "softmax" else 2)
    model = LogisticRegression(link="logit" if link == "softmax" else link, reference=0 if link == "softmax" else None)
    model.fit(X, y)
    found = model.marginal_effects(X)
    learned = model._learned
    S = learned.covariance()
    rows = slice(4, None) if link == "softmax" else slice(None)  # without the reference class
    S = S[rows, rows]

    def effects(change: np.ndarray) -> np.ndarray:
        import copy
        from dataclasses import replace

        other = copy.copy(model)
        C, P = learned.x.shape
        moved = change.reshape(C, P)
        x = learned.x.copy()
        x[:, 1:] += moved[:, 1:] * learned.coordinates.scale
        x[:, 0] += moved[:, 0] + moved[:, 1:] @ learned.coordinates.center
        other._learned = replace(learned, x=x)
        return other.marginal_effects(X).effect

    step = 1e-4 * np.sqrt(np.diag(S))
    J = np.array([(effects(e) - effects(-e)) / (2 * h) for e, h in zip(np.diag(step), step, strict=True)])
    np.testing.assert_allclose(found.std_error, np.sqrt(np.einsum("ij,ik,kj->j", J, S, J)), rtol=1e-4)


def test_effects_of_all_classes_cancel() -> None:
    X, y = data(3)
    found = LogisticRegression().fit(X, y).marginal_effects(X)
    np.testing.assert_allclose(found.effect.reshape(3, 3).sum(axis=0), 0.0, atol=1e-12)
    assert found.to_dict()["class"] == [0] * 3 + [1] * 3 + [2] * 3


def test_sparse_rows_offsets_and_weights_count() -> None:
    X, y = data(2)
    X[:, 0] -= 500
    offset, s = np.linspace(-1, 1, len(y)), np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    model = LogisticRegression().fit(X, y, sample_weight=s, offset=offset)
    options: dict[str, Any] = {"sample_weight": s, "offset": offset, "discrete": False}
    dense = model.marginal_effects(X, **options)
    p = model.predict_proba(X, offset=offset)[:, 1]
    np.testing.assert_allclose(dense.effect, np.average(p * (1 - p), weights=s) * model.coef_[0], rtol=1e-9)
    np.testing.assert_allclose(model.marginal_effects(sparse.csr_array(X), **options).std_error, dense.std_error)
    at_mean = model.marginal_effects(X, at="mean", **options)
    a = np.average(X, axis=0, weights=s) @ model.coef_[0] + model.intercept_[0] + np.average(offset, weights=s)
    np.testing.assert_allclose(at_mean.effect, np.exp(-a) / (1 + np.exp(-a)) ** 2 * model.coef_[0], rtol=1e-9)


@pytest.mark.parametrize("K", [2, 3])
def test_a_row_of_weight_three_is_the_row_three_times(K: int) -> None:
    X, y = data(K)
    s = 1 + np.arange(len(y)) % 3
    again = np.repeat(np.arange(len(y)), s)
    found = LogisticRegression().fit(X, y, sample_weight=s).marginal_effects(X, sample_weight=s)
    expected = LogisticRegression().fit(X[again], y[again]).marginal_effects(X[again])
    np.testing.assert_allclose(found.effect, expected.effect, rtol=1e-7)
    np.testing.assert_allclose(found.std_error, expected.std_error, rtol=1e-7)


def test_memory_does_not_grow_with_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    from oddsmith.statistics import rowwise

    monkeypatch.setattr(rowwise, "TILE_ELEMENTS", 1 << 12)
    peaks = []
    for n in (20_000, 80_000):
        X, y = data(2, n)
        model = LogisticRegression().fit(X, y)
        tracemalloc.start()
        model.marginal_effects(X, discrete=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 60_000 * 8  # a number a row at most: the codes that a source has


def test_many_classes_need_no_matrix_for_each_row() -> None:
    import tracemalloc

    K, M, n = 30, 4, 6000
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, M))
    A = X @ rng.normal(size=(M, K))
    model = LogisticRegression(prior=1.0).fit(X, (A + rng.gumbel(size=A.shape)).argmax(axis=1))
    tracemalloc.start()
    model.marginal_effects(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * n * K * 8  # a few numbers for each row of a tile and each class


def mixed(n: int = 150) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n) + 5, "g": rng.choice(["u", "v", "w"], n)})
    return table, (table["a"] + (table["g"] == "v") + rng.logistic(size=n) > 0).to_numpy()


@pytest.mark.parametrize("K", [2, 3])
def test_the_effect_of_a_level_is_its_difference_from_the_reference(K: int) -> None:
    """A row of another level does not keep that one beside it."""
    table, y = mixed()
    labels = y.astype(int) if K == 2 else np.where(np.arange(len(y)) % 4 == 0, 2, y)
    model = LogisticRegression().fit(table, labels)
    found = model.marginal_effects(table).to_pandas()
    at = {level: model.predict_proba(table.assign(g=level)).mean(axis=0) for level in ("u", "v", "w")}
    for level in ("v", "w"):
        effect = found.loc[found["term"] == f"g[{level}]", "effect"]
        np.testing.assert_allclose(effect, (at[level] - at["u"])[-1 if K == 2 else slice(None)], rtol=1e-9)
    assert (found["kind"] == np.tile(["slope", "slope", "difference", "difference"], 1 if K == 2 else K)).all()


@pytest.mark.parametrize("formula", ["a * b", "a + log(a + 10)", "poly(a, 2) + g", "a : b", "log(a + b + 20)"])
def test_effects_of_columns_that_move_several_weights_are_refused(formula: str) -> None:
    table, y = mixed()
    model = LogisticRegression(design=Design(formula)).fit(table, y)
    with pytest.raises(InvalidInputError, match="move one weight each"):
        model.marginal_effects(table)
    assert len(LogisticRegression(design=Design("log(b + 20) + g")).fit(table, y).marginal_effects(table).effect) == 3
