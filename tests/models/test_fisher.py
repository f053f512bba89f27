"""Fisher's discriminant: against its formulas, MASS's lda, scikit-learn's LDA, and random projections."""

import numpy as np
import pandas
import polars
import pytest
from scipy import sparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from tests.reference_data import cases

from oddsmith import FisherDiscriminant, LogisticRegression
from oddsmith.errors import CollinearityWarning, InvalidInputError, InvalidTypeError, NotFittedError, SeparationWarning

RNG = np.random.default_rng


def random_problem(seed: int, n: int = 120, D: int = 5, K: int = 3, apart: float = 1.0):
    rng = RNG(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, n - K)])
    mix = rng.normal(size=(D, D))
    X = rng.normal(size=(n, D)) @ mix + apart * rng.normal(size=(K, D))[y] + 5.0 * rng.normal(size=D)
    return X, y


def scatters(X, y, s=None):
    """S_W and S_B by their definitions, in two passes."""
    s = np.ones(len(y)) if s is None else s
    m = np.average(X, axis=0, weights=s)
    S_W, S_B = np.zeros((2, X.shape[1], X.shape[1]))
    for k in np.unique(y):
        inside = y == k
        m_k = np.average(X[inside], axis=0, weights=s[inside])
        Z = (X[inside] - m_k) * np.sqrt(s[inside])[:, None]
        S_W += Z.T @ Z
        S_B += s[inside].sum() * np.outer(m_k - m, m_k - m)
    return S_W, S_B


def same_direction(u, v):
    return np.abs(u / np.linalg.norm(u) - v / np.linalg.norm(v)).max()


def test_two_classes_have_the_direction_of_the_formula():
    for seed in range(20):
        X, y = random_problem(seed, D=1 + seed % 8, K=2)
        s = RNG(seed).uniform(0.2, 2.0, len(y)) if seed % 2 else None
        S_W, _ = scatters(X, y, s)
        means = [np.average(X[y == k], axis=0, weights=None if s is None else s[y == k]) for k in (0, 1)]
        model = FisherDiscriminant().fit(X, y, sample_weight=s)
        assert same_direction(model.scalings_[:, 0], np.linalg.solve(S_W, means[1] - means[0])) < 1e-10
        assert same_direction(model.coef_[0], model.scalings_[:, 0]) < 1e-10


@pytest.mark.parametrize("case", cases("lda_*"), ids=str)
def test_scalings_equal_those_of_mass_lda_up_to_sign(case):
    expected = np.array(case.expected["proportional"]["scaling"])
    model = FisherDiscriminant().fit(case.X, case.y)
    signs = np.sign((model.scalings_ * expected).sum(axis=0))
    assert np.abs(model.scalings_ * signs - expected).max() < 1e-9 * np.abs(expected).max()
    values = np.array(case.expected["proportional"]["singular_values"])
    # MASS's values are standard deviations of the class means over K − 1; ours are ratios of scatter.
    shares = values**2 / (values**2).sum()
    assert np.allclose(model.explained_variance_ratio_, shares, rtol=1e-9)


@pytest.mark.parametrize("prior", ["proportional", "other"])
@pytest.mark.parametrize("case", cases("lda_*"), ids=str)
def test_posteriors_equal_those_of_mass_lda(case, prior):
    """With all components the classifier is linear discriminant analysis, whatever the prior."""
    order = [case.classes.index(label) for label in sorted(case.classes)]
    expected = np.array(case.expected[prior]["posterior"])[:, order]
    priors = dict(zip(case.classes, case.expected[prior]["prior"], strict=True))
    model = FisherDiscriminant(class_prior=priors).fit(case.X, case.y)
    assert np.abs(model.predict_proba(case.X) - expected).max() < 1e-10
    assert np.abs(np.exp(model.predict_log_proba(case.X)) - expected).max() < 1e-10
    shifted = FisherDiscriminant().fit(case.X, case.y).with_class_prior(priors)
    assert np.abs(shifted.predict_proba(case.X) - expected).max() < 1e-10


@pytest.mark.parametrize("K", [2, 3, 5])
def test_no_random_projection_has_a_larger_criterion(K):
    """J(W) = Tr{(WᵀS_W W)⁻¹(WᵀS_B W)} at the solution is the sum of the eigenvalues, and no W has more."""
    X, y = random_problem(K, D=6, K=K)
    S_W, S_B = scatters(X, y)
    for n in range(1, K):
        model = FisherDiscriminant(n_components=n).fit(X, y)

        def criterion(W):
            return np.trace(np.linalg.solve(W.T @ S_W @ W, W.T @ S_B @ W))

        best = criterion(model.scalings_)
        assert best == pytest.approx(model.eigenvalues_.sum(), rel=1e-10)
        rng = RNG(n)
        tries = [criterion(rng.normal(size=(6, n))) for _ in range(1000)]
        near = [criterion(model.scalings_ + 0.01 * rng.normal(size=(6, n))) for _ in range(100)]
        assert max(tries + near) <= best * (1 + 1e-12)


@pytest.mark.parametrize("K", [2, 4])
def test_projected_rows_have_unit_covariance_within_and_uncorrelated_means(K):
    X, y = random_problem(7, D=6, K=K)
    s = RNG(0).uniform(0.5, 2.0, len(y))
    model = FisherDiscriminant().fit(X, y, sample_weight=s)
    S_W, S_B = scatters(model.transform(X), y, s)
    assert np.allclose(S_W / s.sum(), np.eye(K - 1), atol=1e-10)
    assert np.allclose(S_B / s.sum(), np.diag(model.eigenvalues_), atol=1e-10 * model.eigenvalues_[0])
    assert np.all(np.diff(model.eigenvalues_) <= 0) and model.explained_variance_ratio_.sum() == pytest.approx(1.0)
    assert np.allclose(np.average(model.transform(X), axis=0, weights=s), 0.0, atol=1e-10)


@pytest.mark.parametrize("n_components", [1, 2, None])
def test_ratio_and_projection_equal_those_of_scikit_learn(n_components):
    X, y = random_problem(8, K=4)
    model = FisherDiscriminant(n_components).fit(X, y)
    peer = LinearDiscriminantAnalysis(n_components=n_components).fit(X, y)
    assert np.allclose(model.explained_variance_ratio_, peer.explained_variance_ratio_, rtol=1e-10)
    ratio = peer.transform(X) / model.transform(X)
    assert np.allclose(ratio, ratio.mean(axis=0), rtol=1e-7)


@pytest.mark.parametrize("shrinkage", [0.0, 0.2, 1.0])
def test_shrinkage_equals_that_of_scikit_learn(shrinkage):
    X, y = random_problem(9, K=3)
    model = FisherDiscriminant(shrinkage=shrinkage).fit(X, y)
    peer = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(X, y)
    assert np.abs(model.predict_proba(X) - peer.predict_proba(X)).max() < 1e-10


def test_fewer_components_classify_in_the_projected_space():
    X, y = random_problem(10, K=4, apart=2.0)
    model = FisherDiscriminant(2).fit(X, y)
    Z = model.transform(X)
    means = model.transform(model.means_)
    log_odds = -0.5 * ((Z[:, None] - means) ** 2).sum(axis=2) + np.log(model.class_prior_)
    P = np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    assert np.allclose(model.predict_proba(X), P / P.sum(axis=1, keepdims=True), atol=1e-12)
    assert np.array_equal(model.predict(X), P.argmax(axis=1))


def test_another_class_prior_moves_the_boundary_parallel_to_itself():
    X, y = random_problem(11, K=2)
    model = FisherDiscriminant().fit(X, y)
    other = model.with_class_prior({0: 0.99, 1: 0.01})
    assert np.allclose(other.boundary_.normal, model.boundary_.normal, rtol=0, atol=1e-14)
    old, new = model.class_prior_, np.array([0.99, 0.01])
    expected = np.log(new[1] / new[0]) - np.log(old[1] / old[0])
    assert other.intercept_[0] - model.intercept_[0] == pytest.approx(expected, rel=1e-12)
    assert other.predict(X).mean() < model.predict(X).mean()
    assert model.class_prior is None and np.allclose(model.class_prior_, np.bincount(y) / len(y))
    assert np.allclose(FisherDiscriminant(class_prior=[0.99, 0.01]).fit(X, y).intercept_, other.intercept_)


def test_classes_far_apart_keep_their_digits():
    """Where nearly all scatter is between the classes, the scatter within is not a difference of two large numbers."""
    X, y = random_problem(12, n=300, K=3)
    X = X + 1e6 * np.array([[0.0], [1.0], [3.0]])[y]
    S_W, _ = scatters(X, y)
    model = FisherDiscriminant().fit(X, y)
    assert np.allclose(model.covariance_, S_W / len(y), rtol=1e-9, atol=1e-9)
    W = model.scalings_
    assert np.allclose(W.T @ S_W @ W / len(y), np.eye(2), atol=1e-6)


def test_dependent_columns_are_named_and_change_nothing():
    X, y = random_problem(13)
    plain = FisherDiscriminant().fit(X, y)
    wide = np.column_stack([X, X[:, 0] - 2 * X[:, 3] + 1.0, np.full(len(X), 0.1)])
    with pytest.warns(CollinearityWarning, match="'x5', 'x6'"):
        model = FisherDiscriminant().fit(wide, y)
    assert model.aliased_ == ["x5", "x6"]
    assert np.allclose(model.transform(wide), plain.transform(X), atol=1e-9)
    assert np.allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-9)
    assert np.linalg.norm(model.scalings_) < np.linalg.norm(plain.scalings_)  # the smallest of all that do the same


def test_a_direction_without_spread_within_is_found_and_said():
    X, y = random_problem(14, K=3)
    X = np.column_stack([X, np.array([0.0, 0.0, 1.0])[y]])
    with pytest.warns(SeparationWarning, match="no class varies"):
        model = FisherDiscriminant().fit(X, y)
    u = model.scalings_[:, 0]
    assert abs(u[5]) > 1e3 * np.abs(u[:5]).max()
    assert np.array_equal(model.predict(X) == 2, y == 2)
    # The second component still tells the other two apart as well as it can.
    rest = FisherDiscriminant().fit(X[y < 2, :5], y[y < 2])
    assert (model.predict(X)[y < 2] == y[y < 2]).mean() >= rest.score(X[y < 2, :5], y[y < 2]) - 0.05


def test_more_columns_than_rows_separate_the_training_rows_and_shrinkage_avoids_it():
    X, y = random_problem(15, n=30, D=60)
    with pytest.warns(SeparationWarning), pytest.warns(CollinearityWarning):
        assert FisherDiscriminant().fit(X, y).score(X, y) == 1.0
    for shrinkage in (0.5, "oas"):
        model = FisherDiscriminant(shrinkage=shrinkage).fit(X, y)
        assert model.aliased_ == [] and model.eigenvalues_[0] < 1e4


@pytest.mark.parametrize("form", ["F", "float32", "csr", "pandas", "polars"])
def test_the_form_of_the_rows_does_not_matter(form):
    X, y = random_problem(16)
    X = X.astype(np.float32).astype(np.float64)
    rows = {
        "F": lambda: np.asfortranarray(X),
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: sparse.csr_array(X),
        "pandas": lambda: pandas.DataFrame(X, columns=list("abcde")),
        "polars": lambda: polars.DataFrame(X, schema=list("abcde")),
    }[form]()
    plain, model = FisherDiscriminant().fit(X, y), FisherDiscriminant().fit(rows, y)
    assert np.allclose(model.transform(rows), plain.transform(X), atol=1e-9)
    assert np.allclose(model.predict_proba(rows), plain.predict_proba(X), atol=1e-9)


def test_sparse_rows_with_few_entries():
    rng = RNG(17)
    dense = np.where(rng.random((2000, 40)) < 0.05, rng.normal(size=(2000, 40)), 0.0)
    y = rng.integers(0, 3, 2000)
    dense[:, 0] += (y == 2) * (rng.random(2000) < 0.1)
    a, b = FisherDiscriminant().fit(sparse.csr_array(dense), y), FisherDiscriminant().fit(dense, y)
    assert np.allclose(a.predict_proba(dense), b.predict_proba(dense), atol=1e-10)


def test_names_of_components_and_containers():
    X, y = random_problem(18, K=3)
    table = pandas.DataFrame(X, columns=list("abcde"))
    model = FisherDiscriminant().fit(table, y).set_output(transform="pandas")
    Z = model.transform(table)
    assert list(Z.columns) == list(model.get_feature_names_out()) == ["fisherdiscriminant0", "fisherdiscriminant1"]
    named = table.assign(kind=y)
    projected = FisherDiscriminant().fit_transform(named, "kind")
    assert np.allclose(projected, Z.to_numpy())
    chain = make_pipeline(FisherDiscriminant(2), LogisticRegression(prior=1.0)).fit(X, y)
    assert chain.score(X, y) > 0.5


def test_direction_points_from_earlier_classes_to_later_ones():
    X, y = random_problem(19, K=2)
    for labels in (y, 1 - y):
        model = FisherDiscriminant().fit(X, labels)
        Z = model.transform(X)[:, 0]
        assert Z[labels == 1].mean() > Z[labels == 0].mean()


def test_bits_do_not_depend_on_threads():
    X, y = RNG(20).normal(size=(300_000, 6)), np.arange(300_000) % 3
    one, two = (FisherDiscriminant(threads=threads).fit(X, y) for threads in (1, 2))
    assert np.array_equal(one.scalings_, two.scalings_) and np.array_equal(one.intercept_, two.intercept_)


def test_refusals_say_what_to_do():
    X, y = random_problem(21, K=3)
    with pytest.raises(
        InvalidInputError, match="n_components=3, but 3 classes and 5 independent columns give 2 at most"
    ):
        FisherDiscriminant(3).fit(X, y)
    with pytest.raises(InvalidInputError, match="n_components must be"):
        FisherDiscriminant(0).fit(X, y)
    with pytest.raises(InvalidInputError, match="shrinkage must be a number from 0 to 1"):
        FisherDiscriminant(shrinkage=1.5).fit(X, y)
    with pytest.raises(InvalidInputError, match="or 'oas', found 'auto'"):
        FisherDiscriminant(shrinkage="auto").fit(X, y)
    with pytest.raises(InvalidInputError, match="names the classes"):
        FisherDiscriminant(class_prior={0: 0.5, 1: 0.5}).fit(X, y)
    with pytest.raises(InvalidInputError, match="sum to 1"):
        FisherDiscriminant(class_prior=[0.5, 0.5, 0.5]).fit(X, y)
    with pytest.raises(InvalidTypeError, match="class_prior must be"):
        FisherDiscriminant(class_prior="flat").fit(X, y)
    with pytest.raises(InvalidInputError, match="No column of X varies"):
        FisherDiscriminant().fit(np.ones((6, 2)), [0, 1, 0, 1, 0, 1])
    with pytest.raises(NotFittedError):
        FisherDiscriminant().with_class_prior([0.5, 0.5])
    hole = X.copy()
    hole[4, 2] = np.inf
    with pytest.raises(InvalidInputError, match="column 2 has 1 infinite"):
        FisherDiscriminant().fit(hole, y)
