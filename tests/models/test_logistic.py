"""Logistic and softmax regression: laws, constructed optima, other formulations of the same problem."""

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy import optimize, sparse
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.metrics import log_loss

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.errors import ConvergenceWarning, InvalidInputError
from oddsmith.kernels import native
from oddsmith.records import TRACE_COLUMNS
from oddsmith.solvers import SGD, Gradient


def make(n: int = 300, D: int = 4, K: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal columns and labels drawn from a softmax of them: classes that overlap."""
    rng = np.random.default_rng([n, D, K, seed])
    X = rng.normal(size=(n, D))
    W = rng.normal(size=(K, D))
    return X, (X @ W.T + rng.normal(size=K) + rng.gumbel(size=(n, K))).argmax(axis=1)


def weights(model: LogisticRegression) -> np.ndarray:
    """Return K (or 1) × (1 + D) weights, the intercept first."""
    return np.column_stack([model.intercept_, model.coef_])


def assert_weights(found: LogisticRegression, expected: LogisticRegression, rtol: float) -> None:
    W = weights(expected)
    np.testing.assert_allclose(weights(found), W, rtol=rtol, atol=rtol * np.abs(W).max())


# --- solvers


@pytest.mark.parametrize("prior", [None, 0.7])
@pytest.mark.parametrize("K", [2, 3, 5])
def test_newton_and_truncated_newton_agree_to_eight_digits(K: int, prior: float | None) -> None:
    X, y = make(400, 5, K)
    X = X * [1.0, 50.0, 0.02, 1.0, 3.0] + [0.0, 10.0, 1.0, -5.0, 0.0]
    newton = LogisticRegression(prior, solver="newton").fit(X, y)
    truncated = LogisticRegression(prior, solver="truncated-newton").fit(X, y)
    assert_weights(truncated, newton, 1e-8)
    assert truncated.log_likelihood_ == pytest.approx(newton.log_likelihood_, rel=1e-12)


@pytest.mark.parametrize("prior", [None, 0.7])
@pytest.mark.parametrize("K", [2, 3])
def test_gradient_descent_agrees_with_newton_to_five_digits(K: int, prior: float | None) -> None:
    X, y = make(400, 5, K)
    X = X * [1.0, 50.0, 0.02, 1.0, 3.0] + [0.0, 10.0, 1.0, -5.0, 0.0]
    newton = LogisticRegression(prior, solver="newton").fit(X, y)
    gradient = LogisticRegression(prior, solver="gradient", max_iter=5000).fit(X, y)
    assert_weights(gradient, newton, 1e-5)
    assert gradient.certificate_.converged


@pytest.mark.parametrize("K", [2, 3])
def test_sgd_log_loss_is_within_a_percent_of_the_optimum(K: int) -> None:
    X, y = make(1000, 5, K)
    best = LogisticRegression().fit(X, y)
    with pytest.warns(ConvergenceWarning):
        near = LogisticRegression(solver="sgd", seed=1).fit(X, y)
    assert log_loss(y, near.predict_proba(X)) <= 1.01 * log_loss(y, best.predict_proba(X))
    assert near.certificate_.gap >= best.log_likelihood_ - near.log_likelihood_


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
def test_sgd_repeats_itself_by_its_seed() -> None:
    X, y = make(200, 3)
    one, two, other = (LogisticRegression(solver="sgd", seed=seed).fit(X, y) for seed in (5, 5, 6))
    assert np.array_equal(one.coef_, two.coef_)
    assert not np.array_equal(one.coef_, other.coef_)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
@pytest.mark.parametrize("level", native.available()[1:])
def test_compiled_sgd_takes_the_steps_of_the_reference(level: str) -> None:
    X, y = make(200, 3, 3)
    solver = SGD(epochs=3, seed=0)
    with native.using("reference"):
        plain = LogisticRegression(1.0, solver=solver).fit(X, y)
    with native.using(level):
        assert_weights(LogisticRegression(1.0, solver=solver).fit(X, y), plain, 1e-12)


@pytest.mark.filterwarnings("ignore::oddsmith.errors.ConvergenceWarning")
@pytest.mark.parametrize("prior", [None, 0.1, GaussianPrior(covariance=np.full(4, 1e-8))])
def test_sgd_is_stable_under_any_prior(prior: Any) -> None:
    X, y = make(300, 4)
    model = LogisticRegression(prior, solver="sgd", seed=0).fit(X * 1e-3, y)
    best = LogisticRegression(prior).fit(X * 1e-3, y)
    assert np.all(np.isfinite(model.coef_))
    assert model.log_likelihood_ >= best.log_likelihood_ - 0.02 * abs(best.log_likelihood_)


@pytest.mark.parametrize("covariance", [np.ones(5), np.eye(4) + 0.1])
def test_sgd_refuses_a_prior_that_it_cannot_take_row_by_row(covariance: np.ndarray) -> None:
    X, y = make(100, 4)
    for fit in (
        lambda model: model.fit(X, y),
        lambda model: model.partial_fit(X, y, classes=[0, 1]),
    ):
        with pytest.raises(InvalidInputError, match="solver='newton'"):
            fit(LogisticRegression(GaussianPrior(covariance=covariance), solver="sgd"))


def test_gradient_with_a_step_size_is_that_of_the_lecture() -> None:
    """w ← w − η (1/N) Σ (y − t) φ, from the class frequencies; on columns of mean 0 and spread 1 to the letter."""
    X, y = make(150, 3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.warns(ConvergenceWarning):
        model = LogisticRegression(solver=Gradient(step_size=0.5), max_iter=6).fit(X, y)
    Z = np.column_stack([np.ones(len(X)), X])
    w = np.array([np.log(y.mean() / (1 - y.mean())), 0.0, 0.0, 0.0])
    for objective in model.trace_.objective:
        a = Z @ w
        assert objective == pytest.approx(np.sum(np.logaddexp(0.0, a) - y * a), rel=1e-10)
        last, w = w, w - 0.5 * Z.T @ (1 / (1 + np.exp(-a)) - y) / len(X)
    np.testing.assert_allclose(weights(model)[0], last, rtol=1e-9)
    assert model.n_iter_ == 6


def test_auto_is_newton_for_a_small_table() -> None:
    X, y = make()
    assert np.array_equal(LogisticRegression().fit(X, y).coef_, LogisticRegression(solver="newton").fit(X, y).coef_)


# --- laws of the data


def test_two_class_softmax_equals_binary() -> None:
    """The symmetric softmax objective with two classes, minimised on its own, has the binary weights as difference."""
    X, y = make(200, 3)
    Z = np.column_stack([np.ones(len(X)), X])
    T = np.eye(2)[y]

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        A = Z @ w.reshape(2, -1).T
        return -np.sum(T * log_softmax(A, axis=1)), ((softmax(A, axis=1) - T).T @ Z).ravel()

    W = optimize.minimize(loss, np.zeros(8), jac=True, method="BFGS", options={"gtol": 1e-9}).x.reshape(2, -1)
    model = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(W[1] - W[0], weights(model)[0], rtol=1e-6)


def test_a_class_of_vanishing_weight_leaves_the_binary_fit() -> None:
    X, y = make(200, 3)
    binary = LogisticRegression().fit(X, y)
    rng = np.random.default_rng(0)
    more = np.vstack([X, rng.normal(size=(60, 3))])
    labels, s = np.append(y, np.full(60, 2)), np.append(np.ones(200), np.full(60, 1e-9))
    softmax_fit = LogisticRegression(reference=0).fit(more, labels, sample_weight=s)
    np.testing.assert_allclose(weights(softmax_fit)[1], weights(binary)[0], rtol=1e-6)


@pytest.mark.parametrize("K", [2, 3])
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(K: int) -> None:
    X, y = make(120, 3, K)
    rng = np.random.default_rng(1)
    s = rng.integers(0, 3, 120).astype(float)
    s[:K] = 1.0
    y[:K] = np.arange(K)
    weighted = LogisticRegression().fit(X, y, sample_weight=s)
    repeated = LogisticRegression().fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    assert_weights(weighted, repeated, 1e-11)
    assert weighted.log_likelihood_ == pytest.approx(repeated.log_likelihood_, rel=1e-13)


def test_a_row_of_weight_zero_can_hold_anything() -> None:
    X, y = make(100, 2)
    far = np.vstack([np.full((1, 2), 1e12), X, np.full((1, 2), -1e12)])
    s = np.concatenate([[0.0], np.ones(100), [0.0]])
    found = LogisticRegression().fit(far, np.concatenate([[1], y, [0]]), sample_weight=s)
    assert_weights(found, LogisticRegression().fit(X, y), 1e-11)


@pytest.mark.parametrize("form", ["F order", "every second row", "CSR", "list", "float32"])
@pytest.mark.parametrize("K", [2, 3])
def test_every_form_of_rows_gives_the_same_weights(form: str, K: int) -> None:
    X, y = make(150, 4, K)
    X = np.where(X > 0.5, X, 0.0).astype(np.float32).astype(np.float64)
    expected = LogisticRegression(2.0).fit(X, y)
    rows = {
        "F order": np.asfortranarray(X),
        "every second row": np.repeat(X, 2, axis=0)[::2],
        "CSR": sparse.csr_array(X),
        "list": X.tolist(),
        "float32": X.astype(np.float32),
    }[form]
    found = LogisticRegression(2.0).fit(rows, y)
    assert_weights(found, expected, 1e-11)
    np.testing.assert_allclose(found.predict_proba(rows), expected.predict_proba(X), rtol=1e-6)


def test_csr_entries_stored_in_parts_are_summed() -> None:
    X, y = make(80, 3)
    coo = sparse.coo_array(X)
    parts = (np.concatenate([0.25 * coo.data, 0.75 * coo.data]), (np.tile(coo.row, 2), np.tile(coo.col, 2)))
    twice = sparse.coo_array(parts, shape=X.shape)
    indptr = np.arange(0, 2 * X.size + 1, 2 * X.shape[1])
    order = np.argsort(twice.row, kind="stable")
    in_parts = sparse.csr_array((twice.data[order], twice.col[order], indptr), shape=X.shape)
    assert not in_parts.has_canonical_format
    assert_weights(LogisticRegression().fit(in_parts, y), LogisticRegression().fit(X, y), 1e-11)
    assert in_parts.nnz == 2 * X.size, "the user's matrix must stay as it was"


@pytest.mark.parametrize("K", [2, 4])
def test_the_order_of_rows_does_not_matter(K: int) -> None:
    X, y = make(200, 3, K)
    order = np.random.default_rng(0).permutation(200)
    assert_weights(LogisticRegression().fit(X[order], y[order]), LogisticRegression().fit(X, y), 1e-11)


# --- constructed optima


@pytest.mark.parametrize("solver", ["newton", "truncated-newton"])
@pytest.mark.parametrize("K", [2, 3, 4])
def test_constructed_optimum_is_recovered_to_ten_digits(K: int, solver: str) -> None:
    """Each row appears once with every label, weighted by its probability: the gradient vanishes at these weights."""
    rng = np.random.default_rng(K)
    D, n = 4, 60
    shift = np.array([0.0, 3.0, 1.0, 0.0])
    X = rng.normal(size=(n, D)) * [1.0, 10.0, 0.1, 1.0] + shift
    W = rng.normal(size=(K, D + 1)) / [1.0, 1.0, 10.0, 0.1, 1.0]
    W[:, 0] -= W[:, 1:] @ shift  # activations of moderate size
    W[0] = 0.0
    Y = softmax(np.column_stack([np.ones(n), X]) @ W.T, axis=1)
    rows, labels = np.repeat(X, K, axis=0), np.tile(np.arange(K), n)
    model = LogisticRegression(reference=0 if K > 2 else None, solver=solver, tol=1e-10)
    model.fit(rows, labels, sample_weight=Y.ravel())
    found = weights(model) if K == 2 else weights(model)[1:]
    np.testing.assert_allclose(found, W[1:], rtol=1e-10, atol=1e-10 * np.abs(W).max())
    assert model.log_likelihood_ == pytest.approx(np.sum(Y * np.log(Y)), rel=1e-13)


def test_constructed_map_estimate_is_recovered_to_ten_digits() -> None:
    """A prior whose mean is w + S g, with g the gradient of the likelihood at w, has its maximum at w."""
    X, y = make(150, 3)
    rng = np.random.default_rng(0)
    w = rng.normal(size=4)
    Z = np.column_stack([np.ones(len(X)), X])
    L = rng.normal(size=(4, 4))
    S = L @ L.T + np.eye(4)
    g = Z.T @ (1 / (1 + np.exp(-Z @ w)) - y)
    model = LogisticRegression(GaussianPrior(mean=w + S @ g, covariance=S)).fit(X, y)
    np.testing.assert_allclose(weights(model)[0], w, rtol=1e-10)


# --- units


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize(
    ("scale", "shift"), [(1e6, 0.0), (1e-6, 0.0), (1.0, 1e6), ([1e6, 1e-6, 1.0, 1e3], [0.0, 1.0, 1e6, -1e6])]
)
def test_units_change_the_weights_by_their_units_alone(scale: Any, shift: Any, solver: str, K: int) -> None:
    X, y = make(300, 4, K)
    scale, shift = np.broadcast_to(scale, 4), np.broadcast_to(shift, 4)
    plain = LogisticRegression(solver=solver).fit(X, y)
    moved = LogisticRegression(solver=solver).fit(X * scale + shift, y)
    assert moved.n_iter_ <= 15
    assert moved.certificate_.converged
    size = np.abs(plain.coef_).max()
    np.testing.assert_allclose(moved.coef_ * scale, plain.coef_, rtol=1e-6, atol=1e-6 * size)
    np.testing.assert_allclose(moved.intercept_ + moved.coef_ @ shift, plain.intercept_, rtol=1e-6, atol=1e-6 * size)
    np.testing.assert_allclose(moved.predict_proba(X * scale + shift), plain.predict_proba(X), rtol=1e-6)
    assert moved.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-9)


def test_a_column_of_mean_1e8_keeps_its_digits() -> None:
    X, y = make(300, 2)
    X[:, 0] = np.round(X[:, 0] * 64) / 64  # so that adding 1e8 is exact
    plain = LogisticRegression().fit(X, y)
    moved = LogisticRegression().fit(X + np.array([1e8, 0.0]), y)
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-9)
    assert moved.n_iter_ <= 15


def test_no_intercept_leaves_the_origin_where_it_is() -> None:
    X, y = make(200, 3)
    model = LogisticRegression(fit_intercept=False).fit(X + 1.0, y)
    assert np.array_equal(model.intercept_, [0.0])
    a = (X + 1.0) @ model.coef_[0]
    gradient = (X + 1.0).T @ (1 / (1 + np.exp(-a)) - y)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)
    assert model.n_parameters_ == 3


# --- labels and tables


def label_kinds() -> dict[str, np.ndarray]:
    return {
        "bool": np.array([False, True]),
        "int": np.array([-7, 12]),
        "uint8": np.array([3, 250], dtype=np.uint8),
        "float": np.array([0.0, 1.0]),
        "str": np.array(["no", "yes"]),
        "object": np.array(["no", "yes"], dtype=object),
        "three words": np.array(["ash", "birch", "cedar"]),
        "three ints": np.array([10, 20, 31]),
    }


@pytest.mark.parametrize("n", [60, 1500])
@pytest.mark.parametrize("kind", label_kinds())
def test_labels_of_any_type_come_back(kind: str, n: int) -> None:
    labels = label_kinds()[kind]
    X, t = make(n, 3, len(labels))
    model = LogisticRegression(1.0).fit(X, labels[t])
    assert model.classes_.dtype == labels.dtype
    assert model.classes_.tolist() == labels.tolist()
    assert model.predict(X).dtype == labels.dtype
    np.testing.assert_array_equal(model.coef_, LogisticRegression(1.0).fit(X, t).coef_)
    np.testing.assert_array_equal(model.predict(X), labels[LogisticRegression(1.0).fit(X, t).predict(X)])


def test_labels_can_be_a_series_of_any_library() -> None:
    import pandas
    import polars
    import pyarrow

    X, t = make(60, 2, 3)
    words = np.array(["ash", "birch", "cedar"])[t]
    expected = LogisticRegression(1.0).fit(X, words)
    for y in (
        pandas.Series(words),
        pandas.Series(words, dtype="category"),
        pandas.Categorical(words),
        polars.Series(words),
        polars.Series(words, dtype=polars.Categorical),
        pyarrow.chunked_array([words]),
        words.tolist(),
        words[:, None].ravel(),
    ):
        model = LogisticRegression(1.0).fit(X, y)
        assert model.classes_.tolist() == ["ash", "birch", "cedar"]
        assert np.array_equal(model.coef_, expected.coef_)


def tables(X: np.ndarray, names: list[str]) -> dict[str, Any]:
    import pandas
    import polars
    import pyarrow

    return {
        "pandas": pandas.DataFrame(X, columns=names),
        "polars": polars.DataFrame(X, schema=names),
        "pyarrow": pyarrow.table(dict(zip(names, X.T, strict=True))),
    }


NAMES = ["age", "dose", "weight"]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_of_any_library_give_identical_weights(library: str) -> None:
    X, y = make(100, 3)
    table = tables(X, NAMES)[library]
    expected, found = LogisticRegression().fit(X, y), LogisticRegression().fit(table, y)
    assert np.array_equal(found.coef_, expected.coef_)
    assert np.array_equal(found.intercept_, expected.intercept_)
    assert found.feature_names_in_.tolist() == NAMES
    assert np.array_equal(found.predict_proba(table), expected.predict_proba(X))
    for other in tables(X, NAMES).values():
        assert np.array_equal(found.predict_proba(other), expected.predict_proba(X))


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_target_can_be_a_column_of_the_table(library: str) -> None:
    X, y = make(100, 3)
    table = tables(np.column_stack([X[:, 0], y, X[:, 1:]]), ["age", "cured", "dose", "weight"])[library]
    model = LogisticRegression().fit(table, y="cured")
    assert model.feature_names_in_.tolist() == NAMES
    assert np.array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)
    with pytest.raises(InvalidInputError, match=r"no column 'healed'.*'age', 'cured'"):
        LogisticRegression().fit(table, y="healed")


def test_whole_numbers_and_booleans_are_numbers() -> None:
    import polars

    rng = np.random.default_rng(0)
    flag, count, y = rng.random(80) < 0.5, rng.integers(0, 9, 80), np.arange(80) % 2
    table = polars.DataFrame({"flag": flag, "count": count.astype(np.int16), "x": rng.normal(size=80)})
    expected = LogisticRegression().fit(np.column_stack([flag, count, table["x"]]).astype(float), y)
    assert np.array_equal(LogisticRegression().fit(table, y).coef_, expected.coef_)


# --- classes and their weights


@pytest.mark.parametrize("reference", [0, 1, 2])
def test_reference_and_symmetric_form_are_the_same_model(reference: int) -> None:
    X, y = make(200, 3, 3)
    symmetric = LogisticRegression().fit(X, y)
    fixed = LogisticRegression(reference=reference).fit(X, y)
    assert not fixed.coef_[reference].any() and fixed.intercept_[reference] == 0.0
    np.testing.assert_allclose(symmetric.coef_.sum(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(symmetric.intercept_.sum(), 0.0, atol=1e-12)
    W = weights(symmetric)
    np.testing.assert_allclose(weights(fixed), W - W[reference], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(fixed.predict_proba(X), symmetric.predict_proba(X), rtol=1e-9)
    assert fixed.log_likelihood_ == pytest.approx(symmetric.log_likelihood_, rel=1e-13)
    assert fixed.n_parameters_ == symmetric.n_parameters_ == 2 * 4


def test_the_reference_is_a_label_not_a_number() -> None:
    X, t = make(200, 2, 3)
    y = np.array(["ash", "birch", "cedar"])[t]
    model = LogisticRegression(reference="cedar").fit(X, y)
    assert not model.coef_[2].any() and model.coef_[:2].all()


def test_reference_changes_the_map_estimate_and_symmetric_does_not_care_for_order() -> None:
    X, y = make(150, 2, 3)
    one, other = (LogisticRegression(0.5, reference=k).fit(X, y) for k in (0, 1))
    assert np.abs(one.predict_proba(X) - other.predict_proba(X)).max() > 1e-3
    symmetric = LogisticRegression(0.5).fit(X, y)
    mirrored = LogisticRegression(0.5).fit(X, 2 - y)
    np.testing.assert_allclose(mirrored.coef_[::-1], symmetric.coef_, rtol=1e-8)


# --- priors


def spd(size: int, seed: int = 0) -> np.ndarray:
    L = np.random.default_rng(seed).normal(size=(size, size))
    return L @ L.T / size + 0.3 * np.eye(size)


D = 3
M = np.array([0.5, -1.0, 0.25])
FORMS: dict[str, tuple[GaussianPrior | float, np.ndarray, Any]] = {
    # name: (prior, precision of (intercept, weights), mean of the same)
    "number": (0.8, np.diag([0.0, *[0.8**-2] * D]), 0.0),
    "scale": (GaussianPrior(scale=0.8), np.diag([0.0, *[0.8**-2] * D]), 0.0),
    "scale, mean": (GaussianPrior(scale=0.8, mean=M), np.diag([0.0, *[0.8**-2] * D]), np.append(0.0, M)),
    "scale, number mean": (GaussianPrior(scale=0.8, mean=0.3), np.diag([0.0, *[0.8**-2] * D]), [0.0, 0.3, 0.3, 0.3]),
    "variance": (GaussianPrior(covariance=0.5), np.diag([0.0, 2.0, 2.0, 2.0]), 0.0),
    "variances": (GaussianPrior(covariance=[0.5, 1.0, 4.0]), np.diag([0.0, 2.0, 1.0, 0.25]), 0.0),
    "variances with intercept": (
        GaussianPrior(covariance=[2.0, 0.5, 1.0, 4.0], mean=np.append(0.7, M)),
        np.diag([0.5, 2.0, 1.0, 0.25]),
        np.append(0.7, M),
    ),
    "matrix": (GaussianPrior(covariance=spd(D), mean=M), np.pad(np.linalg.inv(spd(D)), (1, 0)), np.append(0.0, M)),
    "matrix with intercept": (
        GaussianPrior(covariance=spd(D + 1), mean=np.append(-0.4, M)),
        np.linalg.inv(spd(D + 1)),
        np.append(-0.4, M),
    ),
}


def minimise_written_out(X: Any, y: Any, K: int, penalty: Any, free: np.ndarray, s: Any = 1.0) -> np.ndarray:
    """Minimise −Σ s log p(t | x) + penalty(W) over the rows of W (K × (1 + D)) in ``free``, by SciPy."""
    Z, T = np.column_stack([np.ones(len(X)), X]), np.eye(K)[y] * np.reshape(s, (-1, 1))

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        W = np.zeros((K, Z.shape[1]))
        W[free] = w.reshape(-1, Z.shape[1])
        A = Z @ W.T
        value, gradient = penalty(W)
        R = softmax(A, axis=1) * T.sum(axis=1, keepdims=True) - T
        return -np.sum(T * log_softmax(A, axis=1)) + value, (R.T @ Z + gradient)[free].ravel()

    start = np.zeros(np.count_nonzero(free) * Z.shape[1])
    found = optimize.minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 5000})
    W = np.zeros((K, Z.shape[1]))
    W[free] = found.x.reshape(-1, Z.shape[1])
    assert np.abs(objective(found.x)[1]).max() < 1e-5
    return W


@pytest.mark.parametrize("shift", [0.0, 5.0])
@pytest.mark.parametrize("classes", ["two", "three, symmetric", "three, reference"])
@pytest.mark.parametrize("form", FORMS)
def test_map_estimate_minimises_the_objective_written_out(form: str, classes: str, shift: float) -> None:
    prior, Q, mean = FORMS[form]
    K = 2 if classes == "two" else 3
    X, y = make(120, D, K)
    X = X * [1.0, 3.0, 0.5] + shift
    rows = np.ones(K, dtype=bool)
    if classes != "three, symmetric":
        rows[0] = False

    def penalty(W: np.ndarray) -> tuple[float, np.ndarray]:
        delta = np.where(rows[:, None], W - mean, 0.0)
        return 0.5 * np.sum(delta * (delta @ Q)), delta @ Q

    W = minimise_written_out(X, y, K, penalty, rows)
    model = LogisticRegression(prior, reference=0 if classes == "three, reference" else None).fit(X, y)
    found = np.vstack([np.zeros(D + 1), weights(model)]) if K == 2 else weights(model)
    if classes == "three, symmetric":
        # An intercept without a prior is only known up to what all classes share.
        free = np.diag(Q) == 0
        W = W - np.where(free, W.mean(axis=0), 0.0)
        found = found - np.where(free, found.mean(axis=0), 0.0)
    np.testing.assert_allclose(found, W, rtol=2e-5, atol=2e-5)
    a = np.column_stack([np.ones(len(X)), X]) @ found.T
    residual = softmax(a, axis=1) - np.eye(K)[y]
    gradient = (residual.T @ np.column_stack([np.ones(len(X)), X]) + penalty(found)[1])[rows]
    np.testing.assert_allclose(gradient, 0.0, atol=1e-8)
    assert model.certificate_.converged


@pytest.mark.parametrize("form", ["vector", "matrix", "matrix and mean"])
def test_a_joint_prior_on_all_classes_minimises_the_objective_written_out(form: str) -> None:
    K, P = 3, D + 1
    X, y = make(120, D, K)
    X = X + 2.0
    S = spd(2 * P) if "matrix" in form else np.diag(np.linspace(0.2, 2.0, 2 * P))
    mean = np.linspace(-1.0, 1.0, 2 * P) if "mean" in form else np.zeros(2 * P)
    Q = np.linalg.inv(S)

    def penalty(W: np.ndarray) -> tuple[float, np.ndarray]:
        delta = np.delete(W, 1, axis=0).ravel() - mean
        return 0.5 * delta @ Q @ delta, np.insert((Q @ delta).reshape(2, P), 1, 0.0, axis=0)

    W = minimise_written_out(X, y, K, penalty, np.array([True, False, True]))
    prior = GaussianPrior(covariance=S if "matrix" in form else np.diag(S), mean=mean if "mean" in form else None)
    model = LogisticRegression(prior, reference=1).fit(X, y)
    np.testing.assert_allclose(weights(model), W, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("sigma", [0.1, 1.0, 10.0])
def test_a_scale_is_scikit_learns_c_squared_root(sigma: float, K: int) -> None:
    X, y = make(200, 4, K)
    theirs = SklearnLogisticRegression(C=sigma**2, tol=1e-10, max_iter=10_000).fit(X, y)
    ours = LogisticRegression(sigma).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)


def test_a_vague_prior_tends_to_maximum_likelihood_and_a_narrow_one_to_its_mean() -> None:
    X, y = make(200, 3)
    assert_weights(LogisticRegression(1e6).fit(X, y), LogisticRegression().fit(X, y), 1e-8)
    narrow = LogisticRegression(GaussianPrior(scale=1e-6, mean=[1.0, 2.0, 3.0])).fit(X, y)
    np.testing.assert_allclose(narrow.coef_[0], [1.0, 2.0, 3.0], rtol=1e-8)


def test_a_prior_counts_once_however_many_rows_there_are() -> None:
    X, y = make(100, 3)
    once = LogisticRegression(1.0).fit(X, y, sample_weight=np.full(100, 5.0))
    again = LogisticRegression(1.0).fit(np.tile(X, (5, 1)), np.tile(y, 5))
    assert_weights(once, again, 1e-11)


# --- offsets, warm starts, learning row by row


def test_an_offset_takes_the_place_of_what_it_holds() -> None:
    X, y = make(200, 3)
    v = np.array([0.3, -0.2, 0.5])
    plain, moved = LogisticRegression().fit(X, y), LogisticRegression().fit(X, y, offset=X @ v + 0.7)
    np.testing.assert_allclose(moved.coef_[0], plain.coef_[0] - v, rtol=1e-9)
    np.testing.assert_allclose(moved.intercept_, plain.intercept_ - 0.7, rtol=1e-9)
    np.testing.assert_allclose(moved.decision_function(X, offset=X @ v + 0.7), plain.decision_function(X), rtol=1e-9)
    np.testing.assert_allclose(moved.predict_proba(X, offset=X @ v + 0.7), plain.predict_proba(X), rtol=1e-9)
    assert moved.log_likelihood_ == pytest.approx(plain.log_likelihood_, rel=1e-13)


def test_softmax_offsets_are_a_column_a_class_and_only_their_differences_count() -> None:
    X, y = make(200, 2, 3)
    rng = np.random.default_rng(0)
    offset = rng.normal(size=(200, 3))
    one = LogisticRegression().fit(X, y, offset=offset)
    same = LogisticRegression().fit(X, y, offset=offset + rng.normal(size=(200, 1)))
    assert_weights(same, one, 1e-9)
    Z = np.column_stack([np.ones(200), X])
    residual = softmax(Z @ weights(one).T + offset, axis=1) - np.eye(3)[y]
    np.testing.assert_allclose(residual.T @ Z, 0.0, atol=1e-9)
    np.testing.assert_allclose(
        one.predict_proba(X, offset=offset), softmax(Z @ weights(one).T + offset, axis=1), rtol=1e-10
    )


@pytest.mark.parametrize("K", [2, 3])
def test_warm_start_begins_where_the_last_fit_ended(K: int) -> None:
    X, y = make(200, 3, K)
    model = LogisticRegression(warm_start=True).fit(X, y)
    cold, first = model.n_iter_, weights(model)
    model.fit(X, y)
    assert model.n_iter_ <= 1 < cold
    np.testing.assert_allclose(weights(model), first, rtol=1e-9)
    model.fit(X[:150], y[:150])
    assert_weights(model, LogisticRegression().fit(X[:150], y[:150]), 1e-9)
    model.fit(X[:, :2], y)  # other columns: the old weights are of no use
    assert_weights(model, LogisticRegression().fit(X[:, :2], y), 1e-9)
    model.fit(X[:, :2], np.where(y == 0, 7, y))  # other classes
    assert model.classes_.max() == 7
    plain = LogisticRegression().fit(X, y)
    assert plain.fit(X, y).n_iter_ == cold


@pytest.mark.parametrize("K", [2, 3])
def test_partial_fit_comes_near_the_optimum_over_a_stream(K: int) -> None:
    X, y = make(6000, 3, K)
    X = X * [1.0, 100.0, 0.01] + [0.0, 5.0, 1.0]
    model = LogisticRegression(seed=0)
    for _ in range(3):
        for part in np.array_split(np.arange(6000), 20):
            model.partial_fit(X[part], y[part], classes=np.arange(K))
    best = LogisticRegression().fit(X, y)
    assert log_loss(y, model.predict_proba(X)) <= 1.02 * log_loss(y, best.predict_proba(X))
    assert model.classes_.tolist() == list(range(K))
    assert model.n_iter_ == 3 * 6000


@pytest.mark.parametrize("prior", [None, 0.1])
def test_partial_fit_comes_as_near_in_small_batches_as_in_large_ones(prior: float | None) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = (rng.random(6000) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.5]))).astype(int)
    optimum = LogisticRegression(prior).fit(X, y).coef_
    for batch in (20, 600):
        model = LogisticRegression(prior, seed=0)
        for start in range(0, 6000, batch):
            model.partial_fit(X[start : start + batch], y[start : start + batch], classes=[0, 1])
        np.testing.assert_allclose(model.coef_, optimum, atol=0.1)  # three standard errors


def test_partial_fit_takes_parts_without_a_class_and_goes_on_from_a_fit() -> None:
    X, y = make(400, 3, 3)
    model = LogisticRegression(seed=0)
    model.partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    model.partial_fit(X[y == 2], y[y == 2])
    assert model.coef_.shape == (3, 3)
    fitted = LogisticRegression(seed=0).fit(X, y)
    before = weights(fitted)
    fitted.partial_fit(X[:20], y[:20])
    assert 0 < np.abs(weights(fitted) - before).max() < 1.0


def test_partial_fit_refuses_what_does_not_match() -> None:
    X, y = make(50, 3)
    with pytest.raises(InvalidInputError, match="needs classes="):
        LogisticRegression().partial_fit(X, y)
    with pytest.raises(InvalidInputError, match="at least two labels"):
        LogisticRegression().partial_fit(X, y, classes=[1])
    model = LogisticRegression(seed=0).partial_fit(X, y, classes=[0, 1])
    before = weights(model)
    with pytest.raises(InvalidInputError, match="label 5, which is not among the classes"):
        model.partial_fit(X, np.full(50, 5))
    with pytest.raises(InvalidInputError, match="differ from those of the first call"):
        model.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InvalidInputError, match="features"):
        model.partial_fit(X[:, :2], y)
    assert np.array_equal(weights(model), before)


# --- what a fitted model says


def test_boundary_and_distance_follow_the_projection_formula() -> None:
    """x = x⊥ + r w/‖w‖ with x⊥ on the boundary, and the boundary −w₀/‖w‖ from the origin."""
    X, t = make(100, 3)
    model = LogisticRegression().fit(X, np.array(["no", "yes"])[t])
    w, w0 = model.coef_[0], model.intercept_[0]
    boundary, r = model.boundary_, model.distance(X)
    np.testing.assert_allclose(boundary.normal, w / np.linalg.norm(w), rtol=1e-14)
    assert np.linalg.norm(boundary.normal) == pytest.approx(1.0, rel=1e-14)
    assert boundary.origin_distance == pytest.approx(-w0 / np.linalg.norm(w), rel=1e-14)
    assert boundary.classes == [("no", "yes")]
    np.testing.assert_allclose(r, (X @ w + w0) / np.linalg.norm(w), rtol=1e-12)
    foot = X - r[:, None] * boundary.normal
    np.testing.assert_allclose(model.decision_function(foot), 0.0, atol=1e-12)
    np.testing.assert_allclose(foot @ boundary.normal + boundary.offset, 0.0, atol=1e-12)
    assert np.array_equal(r > 0, model.predict(X) == "yes")


def test_boundaries_of_three_classes_are_one_for_each_pair() -> None:
    X, y = make(150, 2, 3)
    model = LogisticRegression().fit(X, y)
    boundary, r = model.boundary_, model.distance(X)
    assert boundary.classes == [(0, 1), (0, 2), (1, 2)]
    assert r.shape == (150, 3)
    A = model.decision_function(X)
    for i, (a, b) in enumerate(boundary.classes):
        w = model.coef_[b] - model.coef_[a]
        np.testing.assert_allclose(r[:, i], (A[:, b] - A[:, a]) / np.linalg.norm(w), rtol=1e-10)
        foot = X - r[:, [i]] * boundary.normal[i]
        between = model.decision_function(foot)
        np.testing.assert_allclose(between[:, a], between[:, b], atol=1e-12)
    assert boundary.to_pandas().shape == (3, 5)


@pytest.mark.parametrize(("K", "intercept", "expected"), [(2, True, 5), (2, False, 4), (3, True, 10), (4, False, 12)])
def test_number_of_parameters(K: int, intercept: bool, expected: int) -> None:
    X, y = make(300, 4, K)
    assert LogisticRegression(fit_intercept=intercept).fit(X, y).n_parameters_ == expected


@pytest.mark.parametrize("solver", ["newton", "truncated-newton", "gradient", "sgd"])
def test_trace_has_a_record_per_iteration(solver: str) -> None:
    X, y = make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(solver=solver, seed=0).fit(X, y)
    trace = model.trace_
    assert tuple(trace.to_dict()) == TRACE_COLUMNS
    assert trace.iteration.tolist() == list(range(len(trace)))
    assert len(trace) - 1 == model.n_iter_
    assert np.all(np.diff(trace.passes) >= 0) and np.all(np.diff(trace.seconds) >= 0)
    assert trace.log_likelihood[-1] == pytest.approx(model.log_likelihood_, rel=1e-12)
    np.testing.assert_allclose(trace.objective, -trace.log_likelihood, rtol=1e-14)
    assert trace.objective[-1] < trace.objective[0]


def test_objective_in_the_trace_has_the_prior_in_it() -> None:
    X, y = make()
    model = LogisticRegression(0.5).fit(X, y)
    penalty = 0.5 * np.sum(model.coef_**2) / 0.25
    assert model.trace_.objective[-1] == pytest.approx(penalty - model.log_likelihood_, rel=1e-12)


def test_records_become_frames_of_any_library() -> None:
    X, y = make(100, 2, 3)
    model = LogisticRegression().fit(X, y)
    for record in (model.trace_, model.certificate_, model.boundary_):
        columns = list(record.to_dict())
        assert list(record.to_pandas().columns) == columns == record.to_polars().columns
        assert len(record.to_pandas()) == len(record.to_polars()) == len(next(iter(record.to_dict().values())))
        assert str(record)
        assert record._repr_html_().count("<tr>") == len(record.to_pandas()) + 1
    assert model.certificate_.to_pandas().converged.tolist() == [True]


def test_log_likelihood_is_the_sum_of_the_log_probabilities_of_the_labels() -> None:
    X, y = make(100, 3, 3)
    s = np.random.default_rng(0).uniform(0.5, 2.0, 100)
    model = LogisticRegression(1.0).fit(X, y, sample_weight=s)
    expected = np.sum(s * model.predict_log_proba(X)[np.arange(100), y])
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X), rtol=1e-12)


def test_log_probabilities_stay_finite_far_from_the_boundary() -> None:
    X, y = make(100, 1)
    model = LogisticRegression().fit(X, y)
    log_p = model.predict_log_proba([[1e5], [-1e5]])
    assert np.all(np.isfinite(log_p)) and log_p.min() < -1e4
    np.testing.assert_allclose(model.predict_proba([[1e5], [-1e5]]).sum(axis=1), 1.0)


def test_a_model_survives_pickling_and_cloning() -> None:
    X, y = make(100, 2, 3)
    model = LogisticRegression(GaussianPrior(scale=2.0), reference=1, solver=Gradient(), tol=1e-6).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    copy = clone(model)
    assert repr(copy) == repr(model)
    assert not hasattr(copy, "coef_")


def test_a_class_no_larger_than_a_row_is_fitted_with_a_prior() -> None:
    X, y = make(60, 2)
    y = np.append(y, 2)
    X = np.vstack([X, [[0.1, 0.1]]])
    model = LogisticRegression(1.0).fit(X, y)
    assert model.certificate_.converged
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=0), [np.sum(y == k) for k in range(3)], rtol=1e-8)


def test_maximum_likelihood_reproduces_the_class_frequencies() -> None:
    """The gradient of the intercepts vanishes, so that fitted probabilities sum to the counts."""
    X, y = make(300, 3, 4)
    P = LogisticRegression().fit(X, y).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=0), np.bincount(y), rtol=1e-9)


def test_iterations_on_a_subsample_do_not_count() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80_000, 5))
    model = LogisticRegression().fit(X, X[:, 0] + rng.logistic(size=80_000) > 0)
    on_part = sum(" on " in stage and not stage.endswith("all rows") for stage in model.trace_.stage)
    assert on_part >= 2 and model.n_iter_ == len(model.trace_) - on_part - 1
