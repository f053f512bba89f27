"""Least squares for classification: against the pseudo-inverse, normal equations, and ridge regression."""

from dataclasses import replace

import numpy as np
import polars
import pytest
from scipy import sparse
from sklearn.linear_model import RidgeClassifier
from tests.reference_data import cases

from oddsmith import FisherDiscriminant, GaussianPrior, LeastSquaresClassifier, LogisticRegression
from oddsmith.block import Block
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError
from oddsmith.statistic import Shape
from oddsmith.statistics import Gram
from oddsmith.statistics.gram import DENSE_ABOVE
from oddsmith.testing import check_statistic

RNG = np.random.default_rng


def random_problem(seed: int, n: int = 80, D: int = 5, K: int = 3):
    rng = RNG(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    X = (
        rng.normal(size=(n, D)) * np.exp(rng.normal(size=D))
        + 3.0 * rng.normal(size=D)
        + y[:, None] * rng.normal(size=D)
    )
    return X, y


def pseudo_inverse(X, y, *, intercept: bool = True, weights=None):
    """W̃ = Φ̃†T with the rows scaled by the roots of their weights; for two classes the difference of both columns."""
    T = np.eye(int(y.max()) + 1)[y]
    Phi = np.column_stack([np.ones(len(X)), X]) if intercept else X
    root = np.ones(len(X)) if weights is None else np.sqrt(weights)
    W = np.linalg.pinv(Phi * root[:, None]) @ (T * root[:, None])
    return W if W.shape[1] > 2 else W[:, 1:] - W[:, :1]


def stacked(model):
    return np.vstack([model.intercept_, model.coef_.T]) if model.fit_intercept else model.coef_.T


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("K", [2, 3, 6, 20])
@pytest.mark.parametrize("intercept", [True, False])
def test_weights_equal_the_pseudo_inverse(K, intercept):
    for seed in range(10):
        X, y = random_problem(seed, n=150, K=K)
        model = LeastSquaresClassifier(fit_intercept=intercept).fit(X, y)
        assert relative(stacked(model), pseudo_inverse(X, y, intercept=intercept)) < 1e-10
        assert model.aliased_ == []


@pytest.mark.parametrize("case", cases("lda_*"), ids=str)
def test_weights_equal_the_pseudo_inverse_on_real_data(case):
    codes = np.unique(case.y, return_inverse=True)[1]
    model = LeastSquaresClassifier().fit(case.X, case.y)
    assert relative(stacked(model), pseudo_inverse(case.X, codes)) < 1e-10


@pytest.mark.parametrize("K", [2, 3])
def test_weighted_fit_equals_the_pseudo_inverse_of_weighted_rows(K):
    X, y = random_problem(0, K=K)
    s = RNG(1).uniform(0.1, 3.0, len(y))
    model = LeastSquaresClassifier().fit(X, y, sample_weight=s)
    assert relative(stacked(model), pseudo_inverse(X, y, weights=s)) < 1e-10


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("K", [2, 3])
def test_rank_deficient_fit_is_the_pseudo_inverse_and_names_the_columns(K, intercept):
    X, y = random_problem(3, K=K)
    X = np.column_stack([X[:, 0], np.full(len(X), 7.0), X[:, 1], 2.0 * X[:, 0] - X[:, 1], X[:, 2:], X[:, 0] + 5.0])
    with pytest.warns(CollinearityWarning, match="'x3'"):
        model = LeastSquaresClassifier(fit_intercept=intercept).fit(X, y)
    expected = pseudo_inverse(X, y, intercept=intercept)
    assert relative(stacked(model), expected) < 1e-10
    # Without a constant of its own the model takes the constant column for it.
    assert model.aliased_ == (["x1", "x3", "x7"] if intercept else ["x3", "x7"])
    assert model.n_parameters_ == (K - 1) * 6


@pytest.mark.parametrize("shape", [(10, 30), (30, 30), (31, 30), (40, 400)])
def test_more_columns_than_rows(shape):
    n, D = shape
    X, y = random_problem(4, n=n, D=D)
    if D >= n:
        with pytest.warns(CollinearityWarning):
            model = LeastSquaresClassifier().fit(X, y)
    else:
        model = LeastSquaresClassifier().fit(X, y)
    assert relative(stacked(model), pseudo_inverse(X, y)) < 1e-10
    if D >= n:
        assert np.allclose(model.decision_function(X), np.eye(3)[y], atol=1e-9)


def test_large_means_do_not_cost_digits():
    X, y = random_problem(5)
    # The shift is a power of two, and the columns have few bits: the shifted rows are exact.
    X = np.round(X * 1024) / 1024
    plain, shifted = (LeastSquaresClassifier().fit(X + shift, y) for shift in (0.0, 2.0**26))
    assert relative(shifted.coef_, plain.coef_) < 1e-10
    with pytest.warns(CollinearityWarning):  # the same with a column that is constant at a large value
        held = LeastSquaresClassifier().fit(np.column_stack([X, np.full(len(X), 1e8 + 0.1)]), y)
    assert held.aliased_ == ["x5"]
    assert relative(held.decision_function(np.column_stack([X, np.full(len(X), 1e8 + 0.1)])),
                    plain.decision_function(X)) < 1e-8  # fmt: skip


def test_discriminants_sum_to_one():
    X, y = random_problem(6, K=4)
    assert np.allclose(LeastSquaresClassifier().fit(X, y).decision_function(RNG(0).normal(size=(20, 5))).sum(axis=1), 1)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("sigma", [0.05, 1.0, 30.0])
def test_prior_of_a_width_is_ridge_regression(K, sigma):
    X, y = random_problem(7, K=K)
    s = RNG(2).uniform(0.1, 2.0, len(y))
    model = LeastSquaresClassifier(prior=sigma).fit(X, y, sample_weight=s)
    peer = RidgeClassifier(alpha=1.0 / sigma**2, solver="cholesky").fit(X, y, sample_weight=s)
    # scikit-learn's targets are ±1: twice ours for more than two classes, the same for the difference of two.
    factor = 1.0 if K == 2 else 2.0
    assert relative(factor * model.coef_, peer.coef_) < 1e-10
    assert np.array_equal(model.predict(X), peer.predict(X))


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("kind", ["vector", "matrix", "with intercept", "all classes"])
@pytest.mark.parametrize("intercept", [True, False])
def test_any_gaussian_prior_minimises_the_objective(K, kind, intercept):
    """The objective's rows and the prior's are stacked into one plain least-squares problem."""
    X, y = random_problem(8, n=40, D=3, K=K)
    rng = RNG(3)
    M, P = 3, 4
    size = {"vector": M, "matrix": M, "with intercept": P, "all classes": K * P}[kind]
    root = rng.normal(size=(size, size))
    S = rng.uniform(0.1, 2.0, size) if kind == "vector" else root @ root.T + 0.1 * np.eye(size)
    mean = rng.normal(size=(K, P if size >= P else M))
    model = LeastSquaresClassifier(prior=GaussianPrior(mean=mean, covariance=S), fit_intercept=intercept).fit(X, y)

    Q = np.zeros((K * P, K * P))
    single = np.diag(1.0 / S) if kind == "vector" else np.linalg.inv(S)
    m = np.zeros((K, P))
    m[:, P - mean.shape[1] :] = mean
    for k in range(K):
        block = slice(k * P + P - size, (k + 1) * P)
        if kind != "all classes":
            Q[block, block] = single
    Q = single if kind == "all classes" else Q
    Phi = np.column_stack([np.ones(len(X)), X])
    H = np.kron(np.eye(K), Phi.T @ Phi) + Q
    g = (Phi.T @ np.eye(K)[y]).T.ravel() + Q @ m.ravel()
    free = np.flatnonzero(np.tile([intercept, True, True, True], K))
    x = np.zeros(K * P)
    x[free] = np.linalg.solve(H[np.ix_(free, free)], g[free])
    W = x.reshape(K, P)
    W = W if K > 2 else W[1:] - W[:1]
    assert relative(model.coef_, W[:, 1:]) < 1e-9
    assert np.allclose(model.intercept_, W[:, 0], rtol=1e-8, atol=1e-9)


def test_a_prior_needs_no_independent_columns():
    X, y = random_problem(9)
    model = LeastSquaresClassifier(prior=1.0).fit(np.column_stack([X, X[:, 0], np.ones(len(X))]), y)
    assert model.aliased_ == []
    assert np.allclose(model.coef_[:, 0], model.coef_[:, 5])
    assert np.array_equal(model.coef_[:, 6], np.zeros(3))


def test_targets_of_fisher_are_centred_and_give_his_threshold():
    X, y = random_problem(10, K=2)
    s = RNG(4).uniform(0.5, 2.0, len(y))
    model = LeastSquaresClassifier("fisher").fit(X, y, sample_weight=s)
    N, N1 = s.sum(), s[y == 1].sum()
    t = np.where(y == 1, N / N1, -N / (N - N1))
    Phi = np.column_stack([np.ones(len(X)), X]) * np.sqrt(s)[:, None]
    expected = np.linalg.pinv(Phi) @ (t * np.sqrt(s))
    assert relative(np.concatenate([model.intercept_, model.coef_[0]]), expected) < 1e-10
    assert abs(model.decision_function(np.average(X, axis=0, weights=s)[None])[0]) < 1e-12


def test_far_correct_points_move_the_boundary_of_least_squares_and_not_of_logistic_regression():
    """The outlier experiment: rows of the right class, far on their own side of the boundary, are added."""
    rng = RNG(11)
    n = 100
    X = np.vstack([rng.normal([-1.5, 1.5], 0.8, (n, 2)), rng.normal([1.5, -1.5], 0.8, (n, 2))])
    y = np.repeat([0, 1], n)
    far = rng.normal([9.0, -12.0], 0.5, (25, 2))
    X_far, y_far = np.vstack([X, far]), np.concatenate([y, np.ones(25, dtype=int)])

    def shift(model):
        """How far the boundary turns (degrees) and moves, and how many of the first rows it then has wrong."""
        before, after = model.fit(X, y).boundary_, model.fit(X_far, y_far).boundary_
        angle = np.degrees(np.arccos(np.clip(before.normal @ after.normal, -1, 1)))
        return angle, abs(after.offset - before.offset), int((model.predict(X) != y).sum())

    assert LogisticRegression(prior=3.0).fit(X, y).score(X_far, y_far) > 0.99  # the new rows are on the right side
    least, logistic = shift(LeastSquaresClassifier()), shift(LogisticRegression(prior=3.0))
    assert least[0] + 20 * least[1] > 10 and least[2] >= 5
    assert logistic[0] < 0.5 and logistic[1] < 0.01 and logistic[2] <= 1


@pytest.mark.parametrize("form", ["F", "float32", "csr", "csr_matrix", "pandas", "polars", "list", "view"])
def test_the_form_of_the_rows_does_not_matter(form):
    import pandas

    X, y = random_problem(12)
    X = np.round(X, 1).astype(np.float32).astype(np.float64)
    plain = LeastSquaresClassifier().fit(X, y)
    rows = {
        "F": lambda: np.asfortranarray(X),
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: sparse.csr_array(X),
        "csr_matrix": lambda: sparse.csr_matrix(X),
        "pandas": lambda: pandas.DataFrame(X, columns=list("abcde")),
        "polars": lambda: polars.DataFrame(X, schema=list("abcde")),
        "list": lambda: X.tolist(),
        "view": lambda: np.repeat(X, 2, axis=0)[::2],
    }[form]()
    model = LeastSquaresClassifier().fit(rows, y)
    assert relative(model.coef_, plain.coef_) < 1e-12
    assert np.allclose(model.decision_function(rows), plain.decision_function(X), atol=1e-10)


def test_sparse_rows_are_as_good_as_dense_ones():
    rng = RNG(13)
    dense = np.where(rng.random((3000, 60)) < 0.03, rng.normal(size=(3000, 60)), 0.0)
    dense[:, 3] = 1e6 + rng.normal(size=3000)  # a full column, far from zero
    y = rng.integers(0, 3, 3000)
    s = rng.uniform(size=3000)
    a = LeastSquaresClassifier().fit(sparse.csr_array(dense), y, sample_weight=s)
    b = LeastSquaresClassifier().fit(dense, y, sample_weight=s)
    assert relative(a.coef_, b.coef_) < 1e-10


def test_bits_do_not_depend_on_threads():
    X, y = RNG(14).normal(size=(300_000, 6)), np.arange(300_000) % 3
    one, two = (LeastSquaresClassifier(threads=threads).fit(X, y) for threads in (1, 2))
    assert np.array_equal(one.coef_, two.coef_) and np.array_equal(one.intercept_, two.intercept_)


def test_column_of_a_table_as_labels():
    table = polars.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "kind": ["x", "x", "y", "y"]})
    model = LeastSquaresClassifier().fit(table, "kind")
    assert model.predict(table.drop("kind")).tolist() == ["x", "x", "y", "y"]


def test_refusals_say_what_to_do():
    X, y = random_problem(15)
    with pytest.raises(InvalidInputError, match="two classes, but y has 3"):
        LeastSquaresClassifier("fisher").fit(X, y)
    with pytest.raises(InvalidInputError, match="Did you mean 'one-hot'"):
        LeastSquaresClassifier("onehot").fit(X, y)
    with pytest.raises(InvalidTypeError, match="prior must be"):
        LeastSquaresClassifier(prior="weak").fit(X, y)
    with pytest.raises(InvalidInputError, match="threads"):
        LeastSquaresClassifier(threads=0).fit(X, y)
    hole = X.copy()
    hole[4, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"column 2 has 1 missing value \(NaN\), the first in row 4"):
        LeastSquaresClassifier().fit(hole, y)
    with pytest.raises(InvalidInputError, match="column 2 has 1 missing"):
        LeastSquaresClassifier().fit(sparse.csr_array(hole), y)
    with pytest.raises(InvalidInputError, match="squares of column 'x1'"):
        LeastSquaresClassifier().fit(X * [1.0, 1e200, 1.0, 1.0, 1.0], y)
    with pytest.raises(InvalidInputError, match="20000 columns at most"):
        LeastSquaresClassifier().fit(sparse.csr_array((10, 30_000)), np.arange(10) % 2)
    with pytest.raises(InvalidInputError, match="sample weight 0"):
        LeastSquaresClassifier().fit(X, y, sample_weight=(y != 1).astype(float))


def test_direction_equals_fisher_discriminant_up_to_scale():
    """The lecture's theorem: targets N/N₁, −N/N₂ make least squares find S_W⁻¹(m₂ − m₁)."""
    for seed in range(20):
        X, y = random_problem(seed, n=60 + 10 * seed, D=1 + seed % 9, K=2)
        s = RNG(seed).uniform(0.2, 2.0, len(y)) if seed % 2 else None
        least = LeastSquaresClassifier("fisher").fit(X, y, sample_weight=s)
        fisher = FisherDiscriminant().fit(X, y, sample_weight=s)
        u, v = least.coef_[0], fisher.scalings_[:, 0]
        assert np.abs(u / np.linalg.norm(u) - v / np.linalg.norm(v)).max() < 1e-10


@pytest.mark.parametrize("K", [2, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_laws_of_the_gram_matrix_on_rows_of_few_entries(K, weighted):
    """The path of sparse blocks, which is taken below one entry in ten; with a full column far from zero."""
    rng = RNG(6)
    dense = np.where(rng.random((60, 40)) < 0.03, rng.normal(size=(60, 40)), 0.0)
    dense[:, 7] = 1e8 + rng.normal(size=60)
    s = rng.integers(0, 3, 60).astype(float) if weighted else None
    block = Block(sparse.csr_array(dense), rng.integers(0, K, 60).astype(np.int32), s)
    assert block.X.nnz < DENSE_ABOVE * dense.size
    check_statistic(Gram, [(block, Shape(40, K))])
    # Entries that stand twice in a row are added up.
    X = block.X
    twice = sparse.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)
    a, b = Gram.of(block, Shape(40, K)), Gram.of(replace(block, Phi=twice), Shape(40, K))
    assert np.allclose(np.delete(a.PhiPhi, 7, axis=1), np.delete(b.PhiPhi, 7, axis=1), rtol=1e-6, atol=1e-6)
