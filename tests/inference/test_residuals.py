"""Diagnostics of softmax rows, where R has no definition to compare with, against leaving rows out."""

import numpy as np
import pytest

from oddsmith import LogisticRegression


def softmax_data(n: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) * [1.0, 100.0] + [0.0, 1e4]
    a = np.column_stack([X[:, 0], -X[:, 0], X[:, 1] / 100 - 100]) + rng.gumbel(size=(n, 3))
    return X, a.argmax(axis=1), rng.integers(1, 3, n).astype(float)


def test_cooks_distance_is_one_newton_step_without_the_row() -> None:
    X, y, s = softmax_data()
    model = LogisticRegression(reference=0).fit(X, y, sample_weight=s)
    found = model.diagnostics(X, y, sample_weight=s)
    Z = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    P = model.predict_proba(X)

    def information(weights: np.ndarray) -> np.ndarray:
        blocks = [[(weights * P[:, j] * ((j == k) - P[:, k])) for k in (1, 2)] for j in (1, 2)]
        return np.block([[Z.T @ (Z * r[:, None]) for r in row] for row in blocks])

    H = information(s)
    for i in (0, 7, 33):
        rest = s.copy()
        rest[i] = 0.0
        score = s[i] * np.kron(np.array([y[i] == 1, y[i] == 2]) - P[i, 1:], Z[i])
        step = np.linalg.solve(information(rest), score)
        assert found.cooks_distance[i] == pytest.approx(step @ H @ step / 6, rel=1e-6)
    assert found.leverage.sum() == pytest.approx(6.0)


def test_residuals_of_three_classes() -> None:
    X, y, _ = softmax_data()
    model = LogisticRegression().fit(X, y)
    found = model.diagnostics(X, y)
    P = model.predict_proba(X)
    hit = np.eye(3)[y]
    np.testing.assert_allclose(found.pearson, (hit - P) / np.sqrt(P * (1 - P)), rtol=1e-6)
    np.testing.assert_allclose(found.deviance, np.sqrt(-2 * np.log(P[np.arange(len(y)), y])), rtol=1e-6)
    assert found.deviance @ found.deviance == pytest.approx(model.summary().deviance)
    columns = found.to_dict()
    assert {"fitted_0", "pearson_2", "deviance", "leverage"} <= set(columns) and len(columns["leverage"]) == len(found)
    assert f"row {int(np.argmax(found.cooks_distance))}:" in str(found)


@pytest.mark.parametrize("weighted", [False, True])
def test_standardised_residuals_of_three_classes_divide_by_what_the_fit_leaves(weighted: bool) -> None:
    """h is the trace of a row's block of the hat matrix V½ Z (ZᵀVZ)⁻¹ Zᵀ V½, formed whole; each of C logits has h/C."""
    X, y, s = softmax_data()
    s = s if weighted else np.ones_like(s)
    model = LogisticRegression().fit(X, y, sample_weight=s)
    found = model.diagnostics(X, y, sample_weight=s)
    z = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / X.std(axis=0)])
    P = model.predict_proba(X)[:, 1:]
    Z = np.array([np.kron(np.eye(2), row) for row in z])  # N × 2 × 6
    V = s[:, None, None] * np.array([np.diag(p) - np.outer(p, p) for p in P])
    inverse = np.linalg.inv(np.einsum("nia,nij,njb->ab", Z, V, Z))
    h = np.einsum("nij,njb,bc,nic->n", V, Z, inverse, Z)
    np.testing.assert_allclose(found.leverage, h, rtol=1e-6)
    left = np.sqrt(1.0 - h / 2)
    np.testing.assert_allclose(found.standardized_pearson, found.pearson / left[:, None], rtol=1e-6)
    np.testing.assert_allclose(found.standardized_deviance, found.deviance / left, rtol=1e-6)
    assert np.all(np.abs(found.standardized_pearson) > np.abs(found.pearson))


def test_diagnostics_do_not_depend_on_the_reference_or_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.statistics import rowwise

    X, y, s = softmax_data(700)
    one = LogisticRegression().fit(X, y, sample_weight=s).diagnostics(X, y, sample_weight=s)
    monkeypatch.setattr(rowwise, "TILE_ELEMENTS", 1)
    two = LogisticRegression(reference=1).fit(X, y, sample_weight=s).diagnostics(X, y, sample_weight=s)
    for name in ("leverage", "cooks_distance", "deviance", "pearson"):
        np.testing.assert_allclose(getattr(one, name), getattr(two, name), rtol=1e-6, atol=1e-9)


def test_standardised_residuals_of_a_one_way_layout_have_a_closed_form() -> None:
    """With a weight for each level and class, p is the share of the class in the level, of n rows.

    A row moves its own share by 1/n, so the variance of t − p is p (1 − p) (1 − 1/n).
    """
    rng = np.random.default_rng(3)
    level = np.repeat([0, 1, 2], [12, 20, 31])
    y = rng.integers(0, 4, len(level))
    y[:4], y[12:16], y[32:36] = np.arange(4), np.arange(4), np.arange(4)  # every class in every level
    X = np.eye(3)[level][:, 1:]
    found = LogisticRegression(tol=1e-14).fit(X, y).diagnostics(X, y)
    n = np.bincount(level)[level]
    P = np.array([[np.mean(y[level == g] == k) for k in range(4)] for g in range(3)])[level]
    left = np.sqrt(1.0 - 1.0 / n)
    np.testing.assert_allclose(found.leverage, 3.0 / n, rtol=1e-7)
    pearson = (np.eye(4)[y] - P) / np.sqrt(P * (1 - P))
    np.testing.assert_allclose(found.standardized_pearson, pearson / left[:, None], rtol=1e-6)
    deviance = np.sqrt(-2 * np.log(P[np.arange(len(y)), y]))
    np.testing.assert_allclose(found.standardized_deviance, deviance / left, rtol=1e-6)


def test_leverages_and_standardised_residuals_of_softmax_are_those_of_the_whole_hat_matrix() -> None:
    """The hat matrix of all rows and contrasts, formed: W^½ Z (Zᵀ W Z)⁻¹ Zᵀ W^½, of 2 N rows."""
    X, y, s = softmax_data(40)
    model = LogisticRegression().fit(X, y, sample_weight=s)
    found = model.diagnostics(X, y, sample_weight=s)
    P, N = model.predict_proba(X), len(X)
    Z = np.column_stack([np.ones(N), (X - X.mean(axis=0)) / X.std(axis=0)])
    big, root = np.zeros((2 * N, 6)), np.zeros((2 * N, 2 * N))
    for i in range(N):
        rows = slice(2 * i, 2 * i + 2)
        big[rows] = np.kron(np.eye(2), Z[i])
        w, U = np.linalg.eigh(s[i] * (np.diag(P[i, 1:]) - np.outer(P[i, 1:], P[i, 1:])))
        root[rows, rows] = (U * np.sqrt(w)) @ U.T
    half = root @ big
    hat = half @ np.linalg.solve(half.T @ half, half.T)
    leverage = np.diag(hat).reshape(N, 2).sum(axis=1)
    np.testing.assert_allclose(found.leverage, leverage, rtol=1e-6)
    pearson = np.sqrt(s)[:, None] * (np.eye(3)[y] - P) / np.sqrt(P * (1 - P))
    np.testing.assert_allclose(found.standardized_pearson, pearson / np.sqrt(1 - leverage / 2)[:, None], rtol=1e-6)


def test_a_notebook_shows_the_head_of_many_rows() -> None:
    X, y, _ = softmax_data(700)
    found = LogisticRegression().fit(X, y).diagnostics(X, y)
    page = found._repr_html_()
    assert page.count("<tr>") == 1 + 10 + 1 and "The first 10 of 700 rows: to_pandas() has them all." in page
    assert repr(found) == str(found) and str(found).startswith("700 rows: leverage up to")
    few = LogisticRegression().fit(X[:8], [0, 1, 0, 1, 0, 1, 1, 0]).diagnostics(X[:8], [0, 1, 0, 1, 0, 1, 1, 0])
    assert few._repr_html_().count("<tr>") == 1 + 8 and "The first" not in few._repr_html_()


def test_in_print_are_the_five_rows_with_the_largest_cooks_distance() -> None:
    X, y, _ = softmax_data()
    found = LogisticRegression().fit(X, y).diagnostics(X, y)
    largest = sorted(range(len(y)), key=lambda i: -found.cooks_distance[i])[:5]
    assert [int(line.split()[1].rstrip(":")) for line in str(found).splitlines()[1:]] == largest
