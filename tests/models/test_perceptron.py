"""The perceptron: against the convergence theorem, a linear program, and its own rule written out."""

import warnings

import numpy as np
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from oddsmith import PerceptronClassifier, detect_separation
from oddsmith.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError
from oddsmith.kernels import native
from oddsmith.kernels import perceptron as kernel

RNG = np.random.default_rng


def separable(seed: int):
    """Rows of 2 to 4 classes that random linear functions separate, with some margin."""
    rng = RNG(seed)
    K, D, n = int(rng.integers(2, 5)), int(rng.integers(1, 9)), int(rng.integers(8, 200))
    D = max(D, K - 1)
    W, b = rng.normal(size=(K, D)), 0.5 * rng.normal(size=K)
    X = rng.normal(size=(20 * n, D)) * np.exp(0.5 * rng.normal(size=D))
    A = np.sort(X @ W.T + b, axis=1)
    gap = rng.uniform(0.05, 0.5) * np.median(A[:, -1] - A[:, -2])
    X = X[A[:, -1] - A[:, -2] > gap][:n]
    return X, (X @ W.T + b).argmax(axis=1)


def signed_rows(X, t):
    """The rows whose positive product with the weights is what a separation asks for (Kesler's for K > 2)."""
    Phi = np.column_stack([np.ones(len(X)), X])
    K = int(t.max()) + 1
    if K == 2:
        return Phi * (2 * t - 1)[:, None]
    parts = []
    for other in range(K):
        inside = t != other
        Z = np.zeros((int(inside.sum()), K, Phi.shape[1]))
        Z[np.arange(len(Z)), t[inside]] += Phi[inside]
        Z[:, other] -= Phi[inside]
        parts.append(Z.reshape(len(Z), -1))
    return np.concatenate(parts)


def largest_margin(Z):
    """The margin of the best weights of length one: they point to the hull's point nearest to the origin."""
    scale = np.abs(Z).max()
    A = np.vstack([Z.T / scale, np.ones(len(Z))])
    alpha, _ = optimize.nnls(A, np.concatenate([np.zeros(Z.shape[1]), [1.0]]), maxiter=50 * A.shape[1])
    w = Z.T @ alpha
    return (Z @ w).min() / np.linalg.norm(w)


@pytest.mark.parametrize("seed", range(100))
def test_converges_within_the_bound_on_mistakes(seed):
    """Novikoff's theorem: no more than (R/γ)² mistakes, whatever the order and the step."""
    X, y = separable(seed)
    _, t = np.unique(y, return_inverse=True)
    Z = signed_rows(X, t)
    gamma = largest_margin(Z)
    assert gamma > 0
    bound = (np.linalg.norm(Z, axis=1).max() / gamma) ** 2
    for order in (None, seed):
        model = PerceptronClassifier(0.1 + seed, max_epochs=10**6, seed=order).fit(X, y)
        assert model.converged_ and model.n_errors_ == 0
        assert np.array_equal(model.predict(X), y)
        assert model.n_mistakes_ <= bound
        assert model.n_mistakes_ == sum(model.trace_.mistakes)


@pytest.mark.parametrize("seed", range(30))
def test_never_claims_convergence_where_the_program_finds_no_separation(seed):
    rng = RNG(seed)
    K = 2 + seed % 3
    X = rng.normal(size=(60, 3))
    y = np.concatenate([np.arange(K), rng.integers(0, K, 60 - K)])
    assert detect_separation(X, y).kind == "none"
    with pytest.warns(ConvergenceWarning, match="best found"):
        model = PerceptronClassifier(max_epochs=30).fit(X, y)
    assert not model.converged_
    assert model.n_errors_ == int((model.predict(X) != y).sum()) == min(model.trace_.best_errors)


@settings(max_examples=60)
@given(st.data())
def test_convergence_and_the_program_agree_on_small_grids(data):
    """Rows on a grid: ties, duplicates, touching classes. Converged exactly if the separation is complete."""
    K = data.draw(st.integers(2, 3))
    n, D = data.draw(st.integers(K, 8)), data.draw(st.integers(1, 2))
    values = st.integers(-2, 2)
    X = np.array(data.draw(st.lists(st.lists(values, min_size=D, max_size=D), min_size=n, max_size=n)), dtype=float)
    y = np.array([*range(K), *data.draw(st.lists(st.integers(0, K - 1), min_size=n - K, max_size=n - K))])
    X = 0.7 * X + 0.1  # so that nothing is exact
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = PerceptronClassifier(max_epochs=1500).fit(X, y)
    assert model.converged_ == (detect_separation(X, y).kind == "complete")


@pytest.mark.parametrize("shift", [0.0, 1.0, 1e3, 1e6, 1e9])
def test_rounding_is_no_separation(shift):
    """A row in the middle of two of the other class: right by rounding at best."""
    for seed in range(20):
        rng = RNG(seed)
        a, b = rng.normal(size=(2, 3)) + shift
        share = rng.uniform(0.2, 0.8)
        X = np.array([a, b, share * a + (1 - share) * b])
        with pytest.warns(ConvergenceWarning):
            model = PerceptronClassifier(max_epochs=300).fit(X, [0, 0, 1])
        assert not model.converged_


def rule_written_out(X, t, K, epochs):
    """The rule, row by row."""
    W = np.zeros((1 if K == 2 else K, X.shape[1] + 1))
    Phi = np.column_stack([np.ones(len(X)), X])
    mistakes = 0
    for _ in range(epochs):
        for phi, k in zip(Phi, t, strict=True):
            a = W @ phi
            if K == 2:
                sign = 2 * k - 1
                if sign * a[0] <= 0:
                    W[0] += sign * phi
                    mistakes += 1
                continue
            a[k], own = -np.inf, a[k]
            if own <= a.max():
                W[k] += phi
                W[a.argmax()] -= phi
                mistakes += 1
    return W, mistakes


@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("sparsely", [False, True])
@pytest.mark.parametrize("level", native.available())
def test_every_kernel_follows_the_rule_exactly(K, level, sparsely):
    """Whole numbers leave no rounding, so that all weights are the same to the bit."""
    rng = RNG(K)
    X = rng.integers(-6, 7, size=(90, 4)).astype(float)
    X[rng.random(X.shape) < 0.4] = 0.0
    t = np.concatenate([np.arange(K), rng.integers(0, K, 90 - K)]).astype(np.int32)
    rows = sparse.csr_array(X) if sparsely else X
    state = kernel.PocketState(V=np.zeros((1 if K == 2 else K, 5)))
    for _ in range(7):
        with native.using(level):
            kernel.run_epoch(rows, t, np.arange(90), 1.0, 1.0, state)
    W, mistakes = rule_written_out(X, t, K, 7)
    assert np.array_equal(state.V, W) and state.mistakes == mistakes
    errors = int((kernel.margins(X, t, state.best, 1.0)[0] <= 0).sum())
    assert errors == state.best_errors


def test_first_update_is_a_step_of_gradient_descent_on_the_criterion():
    """One row a time: w ← w − η ∇E with E = −Σ_wrong t wᵀφ; two mistakes from zero, by hand."""
    X = np.array([[2.0, 1.0], [3.0, -1.0]])
    with pytest.warns(ConvergenceWarning):
        model = PerceptronClassifier(0.5, max_epochs=1, seed=None).fit(X, [1, 0])
    # w = ½(1, 2, 1); then row 2 has a = ½(1 + 6 − 1) > 0, a mistake: w −= ½(1, 3, −1).
    assert model.trace_.mistakes.tolist() == [2]
    best = np.concatenate([model.intercept_, model.coef_[0]])
    assert best.tolist() in ([0.0, -0.5, 1.0], [0.5, 1.0, 0.5])


def test_scale_of_the_step_changes_nothing_but_the_scale():
    X, y = separable(5)
    one, other = (PerceptronClassifier(step).fit(X, y) for step in (1.0, 8.0))
    assert np.array_equal(8.0 * one.coef_, other.coef_) and one.n_mistakes_ == other.n_mistakes_


def test_seed_makes_the_order():
    X, y = separable(6)
    a, b = (PerceptronClassifier(seed=seed).fit(X, y) for seed in (1, 1))
    assert np.array_equal(a.coef_, b.coef_)
    orders = {PerceptronClassifier(seed=seed).fit(X, y).n_mistakes_ for seed in (None, *range(8))}
    assert len(orders) > 1


def test_best_weights_are_kept_on_overlapping_classes():
    rng = RNG(7)
    X = np.vstack([rng.normal(0, 1, (300, 2)), rng.normal(2.5, 1, (300, 2))])
    y = np.repeat([0, 1], 300)
    with pytest.warns(ConvergenceWarning, match="detect_separation"):
        model = PerceptronClassifier().fit(X, y)
    assert model.n_iter_ == 200 == len(model.trace_)
    assert model.n_errors_ <= min(model.trace_.errors)
    assert model.score(X, y) > 0.94
    assert np.all(np.diff(model.trace_.best_errors) <= 0)


def test_trace_has_a_record_per_epoch():
    X, y = separable(8)
    model = PerceptronClassifier().fit(X, y)
    columns = model.trace_.to_dict()
    assert list(columns) == ["iteration", "objective", "mistakes", "errors", "best_errors", "seconds"]
    assert columns["iteration"] == list(range(1, model.n_iter_ + 1))
    assert columns["errors"][-1] == 0 and columns["objective"][-1] == 0.0
    assert all(value > 0 for value, errors in zip(columns["objective"], columns["errors"], strict=True) if errors)


def test_basis_makes_what_is_not_separable_separable():
    rng = RNG(9)
    X = rng.normal(size=(200, 2))
    radius = (X**2).sum(axis=1)
    X, y = X[np.abs(radius - 1.5) > 0.3], (radius > 1.5)[np.abs(radius - 1.5) > 0.3]
    with pytest.warns(ConvergenceWarning):
        assert not PerceptronClassifier(max_epochs=20).fit(X, y).converged_
    model = PerceptronClassifier(basis=PolynomialFeatures(2, include_bias=False)).fit(X, y)
    assert model.converged_ and model.score(X, y) == 1.0
    assert model.n_features_in_ == 2 and model.coef_.shape == (1, 5)
    Phi = model.basis_(X)
    assert np.allclose(model.distance(X), (Phi @ model.coef_[0] + model.intercept_[0]) / np.linalg.norm(model.coef_))
    chained = PerceptronClassifier(basis=[StandardScaler(), PolynomialFeatures(2)]).fit(X, y)
    assert chained.converged_ and chained.basis_.n_outputs == 6 and chained.basis_.names[0] == "1"
    assert not hasattr(chained.basis[0], "mean_")  # what was passed in stays unfitted


def test_no_intercept():
    X, y = np.array([[1.0, 2.0], [2.0, -1.0], [-1.0, -2.0]]), np.array([1, 1, 0])
    model = PerceptronClassifier(fit_intercept=False).fit(X, y)
    assert model.converged_ and model.intercept_.tolist() == [0.0]


@pytest.mark.parametrize("form", ["csr", "float32", "polars"])
def test_the_form_of_the_rows_does_not_matter(form):
    X, y = separable(10)
    X = np.round(X * 64) / 64
    rows = {
        "csr": lambda: sparse.csr_array(X),
        "float32": lambda: X.astype(np.float32),
        "polars": lambda: polars.DataFrame(X),
    }[form]()
    plain, model = PerceptronClassifier().fit(X, y), PerceptronClassifier().fit(rows, y)
    assert np.array_equal(model.coef_, plain.coef_) and np.array_equal(model.predict(rows), y)


def test_many_rows():
    rng = RNG(11)
    X = rng.normal(size=(120_000, 20))
    a = X @ rng.normal(size=20)
    X, y = X[np.abs(a) > 1.0], (a > 0)[np.abs(a) > 1.0]
    model = PerceptronClassifier().fit(X, y)
    assert model.converged_ and model.score(X, y) == 1.0


def test_refusals_say_what_to_do():
    X, y = separable(12)
    for step in (0, -1.0, np.nan, "1"):
        with pytest.raises(InvalidInputError, match="step_size must be a positive number"):
            PerceptronClassifier(step).fit(X, y)
    with pytest.raises(InvalidInputError, match="max_epochs"):
        PerceptronClassifier(max_epochs=0).fit(X, y)
    with pytest.raises(InvalidTypeError, match="basis must be"):
        PerceptronClassifier(basis=PolynomialFeatures).fit(X, y)
    with pytest.raises(InvalidTypeError, match="basis must be"):
        PerceptronClassifier(basis=["quadratic"]).fit(X, y)
    hole = X.copy()
    hole[3, 0] = np.nan
    with pytest.raises(InvalidInputError, match="column 0 has 1 missing"):
        PerceptronClassifier().fit(hole, y)
