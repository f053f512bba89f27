"""One against the rest and one against one: ambiguous regions, votes, coupling, and any classifier inside."""

import warnings

import numpy as np
import pandas
import polars
import pytest
from joblib import parallel_config
from scipy import optimize, sparse
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_info

from oddsmith import (
    FisherDiscriminant,
    LeastSquaresClassifier,
    LogisticRegression,
    OneVsOne,
    OneVsRest,
    PerceptronClassifier,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError, OddsmithWarning
from oddsmith.models.multiclass import couple

RNG = np.random.default_rng
BOTH = pytest.mark.parametrize("reduction", [OneVsRest, OneVsOne])


def pinwheel(n: int = 60):
    """Three long classes around a centre, each pointing past it: lines between pairs do not meet in one point."""
    rng = RNG(0)
    parts = []
    for k in range(3):
        turn = 2 * np.pi * k / 3
        along = np.column_stack([rng.normal(3.0, 0.3, n), rng.normal(1.5, 1.2, n)])
        R = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        parts.append(along @ R.T)
    return np.vstack(parts), np.repeat(["C1", "C2", "C3"], n)


GRID = np.stack(np.meshgrid(np.linspace(-7, 7, 201), np.linspace(-7, 7, 201)), axis=-1).reshape(-1, 2)


@pytest.mark.parametrize(
    "inner", [LogisticRegression(prior=10.0), LeastSquaresClassifier(), FisherDiscriminant()], ids=repr
)
def test_binary_answers_leave_ambiguous_regions_and_the_maximum_none(inner):
    """The lecture's figure, on a grid: regions claimed by none, by several, and won in a circle."""
    X, y = pinwheel()
    rest, pairs = OneVsRest(inner).fit(X, y), OneVsOne(inner).fit(X, y)

    claims = rest.votes(GRID)
    assert np.array_equal(rest.ambiguous(GRID), claims.sum(axis=1) != 1)
    assert (claims.sum(axis=1) == 0).any() or (claims.sum(axis=1) == 2).any()
    assert 0.01 < rest.ambiguous(GRID).mean() < 0.9

    votes = pairs.votes(GRID)
    assert np.all(votes.sum(axis=1) == 3)
    circle = (votes == 1).all(axis=1)
    assert np.array_equal(pairs.ambiguous(GRID), circle) and circle.any() and not circle.all()

    # K discriminants and their maximum: a unique class on every point of the grid.
    for rule in (LeastSquaresClassifier(), LogisticRegression(prior=10.0), FisherDiscriminant(), rest):
        values = np.sort(rule.fit(X, y).decision_function(GRID), axis=1)
        assert np.all(values[:, -1] > values[:, -2])


def test_votes_are_the_answers_of_the_hyperplanes():
    X, y = pinwheel()
    rest, pairs = OneVsRest(LeastSquaresClassifier()).fit(X, y), OneVsOne(LeastSquaresClassifier()).fit(X, y)
    assert np.array_equal(rest.votes(GRID), (GRID @ rest.coef_.T + rest.intercept_ > 0).astype(int))
    second = pairs.distance(GRID) > 0
    expected = np.column_stack([2 - second[:, 0] - second[:, 1], 1 + second[:, 0] - second[:, 2],
                                second[:, 1].astype(int) + second[:, 2]])  # fmt: skip
    assert np.array_equal(pairs.votes(GRID), expected)


@BOTH
def test_two_classes_need_one_model_and_leave_nothing_open(reduction):
    X, y = pinwheel()
    X, y = X[y != "C3"], y[y != "C3"]
    model, plain = reduction().fit(X, y), LogisticRegression(prior=1.0).fit(X, y)
    assert len(model.models_) == 1
    assert np.allclose(model.decision_function(GRID), plain.decision_function(GRID))
    assert np.allclose(model.predict_proba(GRID), plain.predict_proba(GRID))
    assert not model.ambiguous(GRID).any() and np.all(model.votes(GRID).sum(axis=1) == 1)
    assert model.boundary_.offset == pytest.approx(plain.boundary_.offset)


@pytest.mark.parametrize("K", [3, 4, 7])
def test_coupling_finds_probabilities_that_explain_all_pairs(K):
    P = RNG(K).dirichlet(np.ones(K), size=50)
    i, j = np.triu_indices(K, 1)
    assert np.abs(couple(P[:, j] / (P[:, i] + P[:, j]), K) - P).max() < 1e-9


@pytest.mark.parametrize("K", [3, 5])
def test_coupling_minimises_its_criterion(K):
    rng = RNG(K)
    i, j = np.triu_indices(K, 1)
    second = rng.uniform(0.02, 0.98, (20, len(i)))
    found = couple(second, K)
    for r, p in zip(second, found, strict=True):

        def criterion(q, r=r):
            return 2 * (((1 - r) * q[j] - r * q[i]) ** 2).sum()

        best = optimize.minimize(
            criterion,
            np.full(K, 1 / K),
            bounds=[(0, 1)] * K,
            constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert criterion(p) <= best.fun * (1 + 1e-9) + 1e-14
        assert np.abs(p - best.x).max() < 1e-5


def test_coupling_stands_certain_answers():
    second = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.5, 0.5, 0.5]])
    P = couple(second, 3)
    assert np.all(np.isfinite(P)) and np.allclose(P.sum(axis=1), 1.0)
    assert P[0].argmax() == 0 and P[1].argmax() == 2
    assert np.allclose(P[2], 1 / 3, atol=1e-6) and np.allclose(P[3], 1 / 3)
    assert couple(np.zeros((0, 3)), 3).shape == (0, 3)


def test_rest_divides_by_the_sum():
    X, y = load_wine(return_X_y=True)
    model = OneVsRest(GaussianNB()).fit(X, y)
    parts = np.column_stack([part.predict_proba(X)[:, 1] for part in model.models_.values()])
    assert np.allclose(model.predict_proba(X), parts / parts.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("inner", [LinearSVC(random_state=0, dual=False), RidgeClassifier(), GaussianNB()], ids=repr)
def test_answers_equal_those_of_scikit_learn(inner):
    X, y = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours, theirs = OneVsRest(inner).fit(X, y), OneVsRestClassifier(inner).fit(X, y)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    ours, theirs = OneVsOne(inner).fit(X, y), OneVsOneClassifier(inner).fit(X, y)
    clear = ~ours.ambiguous(X)
    assert np.array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])
    assert clear.mean() > 0.95
    if not hasattr(inner, "predict_proba"):
        assert np.allclose(ours.decision_function(X), theirs.decision_function(X))
        assert not hasattr(ours, "predict_proba") and not hasattr(ours.fit(X, y), "predict_proba")


@BOTH
@pytest.mark.parametrize(
    "inner",
    [
        LogisticRegression(),
        LeastSquaresClassifier(),
        FisherDiscriminant(),
        PerceptronClassifier(max_epochs=2000),
        SVC(kernel="rbf"),
        RandomForestClassifier(20, random_state=0),
        KNeighborsClassifier(5),
        make_pipeline(StandardScaler(), LogisticRegression(prior=1.0)),
    ],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.filterwarnings("ignore::oddsmith.errors.OddsmithWarning")
def test_any_classifier_can_be_inside(reduction, inner):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = reduction(inner).fit(X, names)
    assert model.score(X, names) > 0.7
    assert list(model.models_) == (
        ["setosa", "versicolor", "virginica"]
        if reduction is OneVsRest
        else [("setosa", "versicolor"), ("setosa", "virginica"), ("versicolor", "virginica")]
    )
    if hasattr(model, "predict_proba"):
        P = model.predict_proba(X)
        assert np.allclose(P.sum(axis=1), 1.0) and P.min() >= 0


@BOTH
def test_fits_in_parallel_give_the_same_and_leave_blas_as_it_was(reduction):
    X, y = load_wine(return_X_y=True)
    before = [pool["num_threads"] for pool in threadpool_info()]
    one, two = (reduction(FisherDiscriminant(), n_jobs=n).fit(X, y) for n in (1, 2))
    assert np.array_equal(one.coef_, two.coef_)
    assert [pool["num_threads"] for pool in threadpool_info()] == before
    with parallel_config(backend="loky", n_jobs=2):
        three = reduction(LeastSquaresClassifier()).fit(X, y)
    assert np.array_equal(three.coef_, reduction(LeastSquaresClassifier()).fit(X, y).coef_)


@BOTH
def test_weights_are_passed_on(reduction):
    X, y = pinwheel()
    s = RNG(1).integers(0, 3, len(y)).astype(float)
    model = reduction(LeastSquaresClassifier()).fit(X, y, sample_weight=s)
    repeated = reduction(LeastSquaresClassifier()).fit(np.repeat(X, s.astype(int), axis=0), np.repeat(y, s.astype(int)))
    assert np.allclose(model.coef_, repeated.coef_, rtol=1e-10)
    with pytest.raises(InvalidInputError, match=r"KNeighborsClassifier.fit takes no sample weights"):
        reduction(KNeighborsClassifier()).fit(X, y, sample_weight=s)


@BOTH
@pytest.mark.parametrize("form", ["pandas", "polars", "csr", "list", "coo"])
def test_the_form_of_the_rows_does_not_matter(reduction, form):
    X, y = pinwheel(10)
    rows = {
        "pandas": lambda: pandas.DataFrame(X, columns=["a", "b"], index=np.arange(len(X))[::-1]),
        "polars": lambda: polars.DataFrame(X, schema=["a", "b"]),
        "csr": lambda: sparse.csr_array(X),
        "coo": lambda: sparse.coo_array(X),
        "list": lambda: X.tolist(),
    }[form]()
    plain, model = reduction().fit(X, y), reduction().fit(rows, y)
    assert np.allclose(model.predict_proba(rows), plain.predict_proba(X))
    assert np.array_equal(model.ambiguous(rows), plain.ambiguous(X))
    if form in ("pandas", "polars"):
        assert model.feature_names_in_.tolist() == ["a", "b"]
        table = rows.assign(kind=y) if form == "pandas" else rows.with_columns(polars.Series("kind", y))
        assert np.array_equal(reduction().fit(table, "kind").predict(rows), plain.predict(X))


@BOTH
def test_parameters_of_the_inner_model_can_be_searched(reduction):
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(reduction(LogisticRegression()), {"model__prior": [0.01, 10.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"model__prior": 10.0}


@BOTH
def test_distance_with_basis_functions_inside(reduction):
    from sklearn.preprocessing import PolynomialFeatures

    rng = RNG(2)
    X = rng.normal(size=(90, 2))
    y = np.digitize((X**2).sum(axis=1), [0.5, 2.5])
    inner = PerceptronClassifier(basis=PolynomialFeatures(2, include_bias=False), max_epochs=50_000)
    model = reduction(inner)
    model = model.fit(X, y) if reduction is OneVsOne else reduction(LeastSquaresClassifier()).fit(X, y)
    assert model.distance(X).shape == (90, 3)


@BOTH
def test_refusals_say_what_to_do(reduction):
    X, y = pinwheel()
    for wrong in (LogisticRegression, LinearRegression(), "logistic", StandardScaler()):
        with pytest.raises(InvalidTypeError, match="needs a classifier"):
            reduction(wrong).fit(X, y)
    with pytest.raises(NotFittedError):
        reduction().votes(X)
    with pytest.raises(NotFittedError):
        reduction().distance(X)
    hole = X.copy()
    hole[0, 0] = np.nan
    with pytest.raises(InvalidInputError, match="column 0 has 1 missing") as caught:
        reduction().fit(hole, y)
    assert any("C1" in note for note in caught.value.__notes__)
    with pytest.raises(ValueError, match="3 features"):
        reduction().fit(X, y).predict(np.ones((2, 3)))
    tree = reduction(RandomForestClassifier(3)).fit(X, y)
    assert not hasattr(tree, "coef_")
    with pytest.raises(AttributeError, match="RandomForestClassifier is not linear"):
        tree.distance(X)


@BOTH
@pytest.mark.parametrize("inner", [GaussianNB(), FisherDiscriminant()], ids=repr)
def test_scikit_learn_checks_pass_with_any_model_inside(reduction, inner):
    """With the default inside they pass as well: `test_model_keeps_the_contract`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        results = check_estimator(reduction(inner), on_fail=None, on_skip=None)
    assert [r["check_name"] for r in results if r["status"] not in ("passed", "skipped")] == []


@pytest.mark.parametrize("kind", [OneVsRest, OneVsOne])
@pytest.mark.parametrize("name", ["coef_", "intercept_", "boundary_"])
def test_a_reduction_that_is_not_fitted_has_no_weights(kind: type, name: str) -> None:
    assert not hasattr(kind(LogisticRegression()), name)
