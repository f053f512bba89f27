"""Honest trouble: dependent columns, separated classes, bad input."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from tests.policies import set_policy

from oddsmith import GaussianPrior, LogisticRegression
from oddsmith.errors import (
    CollinearityWarning,
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    NotFittedError,
    OddsmithError,
    SeparationWarning,
    UnknownNameError,
)


def overlapping(n: int = 200, D: int = 3, K: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, n, D, K])
    X = rng.normal(size=(n, D))
    return X, (X @ rng.normal(size=(K, D)).T + rng.gumbel(size=(n, K))).argmax(axis=1)


def quietly(*args: Any, **options: Any) -> LogisticRegression:
    """Fit with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return LogisticRegression(**options).fit(*args)


# --- dependent columns


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("position", [1, 3])
def test_a_dependent_column_is_set_aside_and_the_rest_fitted_without_it(position: int, K: int) -> None:
    X, y = overlapping(K=K)
    copy = 2.0 * X[:, 0] - 3.0 * (X[:, 1] if position == 3 else 0.0) + 1.0
    wide = np.insert(X, position, copy, axis=1)
    with pytest.warns(CollinearityWarning, match=f"'x{position}' is a linear combination of earlier columns") as raised:
        model = LogisticRegression().fit(wide, y)
    assert len(raised) == 1
    assert model.aliased_ == [f"x{position}"]
    assert not model.coef_[:, position].any()
    expected = quietly(X, y)
    np.testing.assert_allclose(np.delete(model.coef_, position, axis=1), expected.coef_, rtol=1e-8)
    assert model.n_parameters_ == expected.n_parameters_
    assert model.log_likelihood_ == pytest.approx(expected.log_likelihood_, rel=1e-12)
    assert model.certificate_.converged


def test_several_dependent_columns_are_named_in_one_warning() -> None:
    import polars

    X, y = overlapping(D=2)
    table = polars.DataFrame(
        {"a": X[:, 0], "b": X[:, 1], "a again": X[:, 0], "sum": X.sum(axis=1), "one": np.ones(200)}
    )
    with pytest.warns(CollinearityWarning, match="'a again', 'sum', 'one' are linear combinations") as raised:
        model = LogisticRegression().fit(table, y)
    assert len(raised) == 1
    assert model.aliased_ == ["a again", "sum", "one"]


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e8, -1e-8])
@pytest.mark.parametrize("form", ["dense", "CSR"])
def test_a_constant_column_is_aliased_with_the_intercept(value: float, form: str) -> None:
    X, y = overlapping(D=2)
    wide = np.column_stack([X, np.full(200, value)])
    with pytest.warns(CollinearityWarning, match="'x2'") as raised:
        model = LogisticRegression().fit(sparse.csr_array(wide) if form == "CSR" else wide, y)
    assert len(raised) == 1
    assert model.aliased_ == ["x2"]
    np.testing.assert_allclose(model.coef_[:, :2], quietly(X, y).coef_, rtol=1e-8)


def test_a_constant_column_is_an_intercept_where_there_is_none() -> None:
    X, y = overlapping(D=2)
    model = quietly(np.column_stack([np.ones(200), X]), y, fit_intercept=False)
    expected = quietly(X, y)
    np.testing.assert_allclose(model.coef_[0], [expected.intercept_[0], *expected.coef_[0]], rtol=1e-9)
    assert model.aliased_ == []


def test_dummies_of_every_level_lose_the_last() -> None:
    rng = np.random.default_rng(0)
    level = rng.integers(0, 4, 300)
    y = (rng.random(300) < 0.2 + 0.15 * level).astype(int)
    with pytest.warns(CollinearityWarning, match="'x3'"):
        model = LogisticRegression().fit(np.eye(4)[level], y)
    assert model.aliased_ == ["x3"]
    P = model.predict_proba(np.eye(4))[:, 1]
    np.testing.assert_allclose(P, [y[level == k].mean() for k in range(4)], rtol=1e-9)


def test_more_columns_than_rows_are_set_aside_until_they_fit() -> None:
    X, y = overlapping(20, 30)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = LogisticRegression().fit(X, y)
    assert {w.category for w in raised} == {CollinearityWarning, SeparationWarning}
    assert len(model.aliased_) == 30 - 19
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("noise", [1e-5, 1e-6, 1e-7, 1e-9, 1e-12])
def test_a_nearly_dependent_column_is_aliased_or_fitted_but_never_nonsense(noise: float) -> None:
    """Columns count as dependent when less than 1e-13 of their variance is their own: noise of about 3e-7."""
    X, y = overlapping(D=2)
    rng = np.random.default_rng(5)
    near = np.column_stack([X, X[:, 0] + noise * rng.normal(size=200)])
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model = LogisticRegression().fit(near, y)
    best = quietly(X, y)
    assert np.all(np.isfinite(model.coef_))
    assert model.certificate_.converged
    assert model.log_likelihood_ >= best.log_likelihood_ - 1e-9
    if model.aliased_:
        assert model.aliased_ == ["x2"]
        assert [w.category for w in raised] == [CollinearityWarning]
        np.testing.assert_allclose(model.coef_[:, :2], best.coef_, rtol=1e-6)
    else:
        assert not raised
    assert bool(model.aliased_) == (noise <= 1e-7)


def test_correlated_but_independent_columns_are_not_set_aside() -> None:
    X, y = overlapping(D=2)
    rng = np.random.default_rng(6)
    model = quietly(np.column_stack([X, X[:, 0] + 1e-4 * rng.normal(size=200)]), y)
    assert model.aliased_ == []
    assert model.certificate_.converged


def test_with_a_prior_dependent_columns_share_the_weight() -> None:
    X, y = overlapping(D=2)
    twice = quietly(np.column_stack([X, X[:, 0]]), y, prior=1.0)
    assert twice.aliased_ == []
    np.testing.assert_allclose(twice.coef_[0, 0], twice.coef_[0, 2], rtol=1e-8)


# --- separated classes


def separated(kind: str, n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of which the second separates the classes, and labels."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    if kind == "complete":
        t = (X[:, 1] > 0.1).astype(int)
        X[:, 1] += 0.2 * t
    else:  # every row with the dummy is of class 1, the others overlap
        t = (X[:, 0] + rng.normal(size=n) > 0).astype(int)
        X[:, 1] = np.arange(n) < n // 8
        t[: n // 8] = 1
    return X, t


def check_no_optimum(model: LogisticRegression, X: Any) -> None:
    assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.intercept_))
    P = model.predict_proba(X)
    assert np.all((P >= 0) & (P <= 1))
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-12)
    certificate = model.certificate_
    assert not certificate.optimum_exists and not certificate.converged
    assert certificate.gap == np.inf
    assert np.isfinite(model.log_likelihood_)


@pytest.mark.parametrize("solver", ["auto", "newton", "truncated-newton"])
@pytest.mark.parametrize(("kind", "word"), [("complete", "completely"), ("quasi", "quasi-completely")])
def test_separation_is_named_with_its_columns_and_remedies(kind: str, word: str, solver: str) -> None:
    import pandas

    X, t = separated(kind)
    table = pandas.DataFrame(X, columns=["age", "dose"])
    with pytest.warns(SeparationWarning) as raised:
        model = LogisticRegression(solver=solver).fit(table, np.array(["no", "yes"])[t])
    assert len(raised) == 1
    message = str(raised[0].message)
    assert f"The classes are {word} separated by 'dose' (towards 'yes')" in message
    assert "no maximum" in message and "prior" in message
    assert "'age'" not in message
    assert issubclass(SeparationWarning, SklearnConvergenceWarning)
    check_no_optimum(model, table)
    assert model.coef_[0, 1] > 5.0, "the weight must be well on its way"
    if kind == "complete":
        assert model.score(table, np.array(["no", "yes"])[t]) == 1.0
        assert model.log_likelihood_ > -1e-3
    assert model.n_iter_ < 60


@pytest.mark.filterwarnings("ignore::oddsmith.errors.SeparationWarning")
def test_the_weights_of_the_other_columns_are_those_of_the_limit() -> None:
    """Quasi-separated: in the limit the rows with the dummy drop out, and the rest has an optimum of its own."""
    X, t = separated("quasi")
    rest = X[:, 1] == 0
    limit = quietly(X[rest, :1], t[rest])
    model = LogisticRegression().fit(X, t)
    np.testing.assert_allclose(model.coef_[0, 0], limit.coef_[0, 0], rtol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X)[rest], limit.predict_proba(X[rest, :1]), rtol=1e-3)
    assert model.log_likelihood_ == pytest.approx(limit.log_likelihood_, abs=1e-3)


@pytest.mark.parametrize("kind", ["complete", "quasi"])
@pytest.mark.parametrize("prior", [2.5, GaussianPrior(covariance=100.0), 1e3])
def test_with_a_prior_separation_is_no_trouble(kind: str, prior: Any) -> None:
    X, t = separated(kind)
    model = quietly(X, t, prior=prior)
    assert model.certificate_.converged and model.certificate_.optimum_exists
    assert np.all(np.isfinite(model.coef_))


@pytest.mark.parametrize("distance", [1.0, 1e-2, 1e-4])
def test_nearly_separated_classes_have_an_optimum_and_it_is_found(distance: float) -> None:
    """One row on the wrong side, however near to the boundary, keeps the weights finite."""
    x = np.concatenate([np.linspace(-2, -0.5, 20), np.linspace(0.5, 2, 20), [0.5 + distance]])
    t = np.concatenate([np.zeros(20), np.ones(20), [0]]).astype(int)
    model = quietly(x[:, None], t)
    assert model.certificate_.converged and model.certificate_.optimum_exists
    a = model.decision_function(x[:, None])
    residual = 1 / (1 + np.exp(-a)) - t
    np.testing.assert_allclose([residual.sum(), residual @ x], 0.0, atol=1e-8)


@pytest.mark.parametrize("solver", ["auto", "truncated-newton"])
def test_large_weights_alone_are_not_taken_for_separation(solver: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=2000)
    t = (rng.random(2000) < 1 / (1 + np.exp(-25.0 * x))).astype(int)
    model = quietly(x[:, None], t, solver=solver)
    assert model.coef_[0, 0] == pytest.approx(25.0, rel=0.3)
    assert model.certificate_.converged


@pytest.mark.parametrize("which", [0, 1, 2])
def test_one_of_three_classes_separated(which: int) -> None:
    X, t = overlapping(150, 2, 3)
    wide = np.column_stack([X, t == which])
    y = np.array(["ash", "birch", "cedar"])[t]
    with pytest.warns(SeparationWarning, match="separated by .*'x2'") as raised:
        model = LogisticRegression().fit(wide, y)
    assert len(raised) == 1
    assert "'x0'" not in str(raised[0].message) and "'x1'" not in str(raised[0].message)
    check_no_optimum(model, wide)
    rest = t != which
    np.testing.assert_array_equal(model.predict(wide) == y[~rest][0], ~rest)
    limit = quietly(X[rest], y[rest])
    a, b = (k for k in range(3) if k != which)
    np.testing.assert_allclose((model.coef_[b] - model.coef_[a])[:2], limit.coef_[0], rtol=1e-2, atol=1e-2)


def test_three_classes_all_separated() -> None:
    rng = np.random.default_rng(4)
    t = np.arange(90) % 3
    X = 0.3 * rng.normal(size=(90, 2)) + 5.0 * np.column_stack([t == 1, t == 2])
    with pytest.warns(SeparationWarning, match="completely separated"):
        model = LogisticRegression().fit(X, t)
    check_no_optimum(model, X)
    assert model.score(X, t) == 1.0


def test_separation_at_an_offset_or_with_weights_is_found_too() -> None:
    X, t = separated("complete")
    with pytest.warns(SeparationWarning):
        LogisticRegression().fit(X, t, offset=np.linspace(-1, 1, len(X)))
    with pytest.warns(SeparationWarning):
        LogisticRegression().fit(X, t, sample_weight=np.linspace(0.1, 3, len(X)))
    overlap = t.copy()
    overlap[np.argmax(X[:, 1])] = 0
    s = np.ones(len(X))
    s[np.argmax(X[:, 1])] = 0.0
    with pytest.warns(SeparationWarning):
        LogisticRegression().fit(X, overlap, sample_weight=s)


def test_two_rows_are_separated() -> None:
    with pytest.warns(SeparationWarning):
        model = LogisticRegression().fit([[0.0], [1.0]], ["a", "b"])
    assert model.predict([[0.0], [1.0]]).tolist() == ["a", "b"]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_separation_is_found_in_any_units(unit: float) -> None:
    X, t = separated("complete")
    with pytest.warns(SeparationWarning, match="'x1'"):
        model = LogisticRegression().fit(X * unit + 10 * unit, t)
    check_no_optimum(model, X * unit + 10 * unit)


# --- fits that stop early


def test_a_fit_that_stops_early_says_how_far_it_came() -> None:
    X, y = overlapping()
    with pytest.warns(ConvergenceWarning, match=r"stopped after 1 iterations, at most .* above .*max_iter=1"):
        model = LogisticRegression(max_iter=1).fit(X, y)
    assert not model.certificate_.converged and model.certificate_.optimum_exists
    assert issubclass(ConvergenceWarning, SklearnConvergenceWarning)


# --- bad input

X, Y = overlapping(40, 3)
X3, Y3 = overlapping(60, 3, 3)


def at(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    result = array.copy()
    result[index] = value
    return result


def table(rows: np.ndarray, names: list[str]) -> Any:
    import polars

    return polars.DataFrame(rows, schema=names)


REFUSED_DATA: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "NaN": ({"X": at(X, (7, 1), np.nan)}, InvalidInputError, "column 1 has 1 missing value.*row 7"),
    "NaN in a table": (
        {"X": table(at(X, (7, 1), np.nan), ["age", "dose", "sex"])},
        InvalidInputError,
        "column 'dose' has 1 missing value.*row 7",
    ),
    "infinity": ({"X": at(X, ([3, 5], [2, 2]), np.inf)}, InvalidInputError, "column 2 has 2 infinite.*row 3"),
    "minus infinity": ({"X": at(X, (0, 0), -np.inf)}, InvalidInputError, "column 0 has 1 infinite.*row 0"),
    "NaN in CSR": ({"X": sparse.csr_array(at(X, (7, 1), np.nan))}, InvalidInputError, "column 1 has 1 missing"),
    "text": ({"X": np.full((40, 3), "much")}, InvalidInputError, "much|numeric|numbers"),
    "bytes in a table": (
        {"X": table(X, ["age", "dose", "sex"]).with_columns(sex=__import__("polars").lit(b"f"))},
        InvalidInputError,
        "Column 'sex' is of type Binary",
    ),
    "complex": ({"X": X + 0j}, InvalidInputError, "[Cc]omplex"),
    "one dimension": ({"X": X[:, 0]}, InvalidInputError, "2D array"),
    "no rows": ({"X": X[:0], "y": Y[:0]}, InvalidInputError, "0 sample"),
    "no columns": ({"X": X[:, :0]}, InvalidInputError, r"0 feature\(s\)"),
    "one class": ({"y": np.full(40, "yes")}, InvalidInputError, "one class only \\('yes'\\)"),
    "one class of many rows": (
        {"X": np.tile(X, (50, 1)), "y": np.zeros(2000, dtype=int)},
        InvalidInputError,
        r"one class only \(0\)",
    ),
    "y too short": ({"y": Y[:-1]}, InvalidInputError, r"\[40, 39\]|39"),
    "y too long": ({"y": np.append(Y, 0)}, InvalidInputError, r"\[40, 41\]|41"),
    "y missing": ({"y": None}, InvalidInputError, "y is None"),
    "NaN in y": ({"y": at(Y.astype(float), 4, np.nan)}, InvalidInputError, "y contains NaN"),
    "None in y": ({"y": at(Y.astype(object), 4, None)}, InvalidInputError, "y contains missing"),
    "continuous y": ({"y": np.linspace(0, 1, 40)}, InvalidInputError, "continuous"),
    "y of two columns": ({"y": np.column_stack([Y, Y])}, InvalidInputError, "1d array|shape"),
    "labels of two types": ({"y": np.array([1, "one"] * 20, dtype=object)}, OddsmithError, "type"),
    "a column that y does not name": ({"y": "cured"}, InvalidInputError, "y='cured' names a column"),
    "negative weights": ({"sample_weight": at(np.ones(40), 3, -1.0)}, InvalidInputError, "1 negative.*row 3"),
    "weights of zero": ({"sample_weight": np.zeros(40)}, InvalidInputError, "All sample weights are zero"),
    "NaN weights": ({"sample_weight": at(np.ones(40), 3, np.nan)}, InvalidInputError, "sample_weight contains NaN"),
    "weights too short": ({"sample_weight": np.ones(39)}, InvalidInputError, r"sample_weight has shape \(39,\)"),
    "words for weights": ({"sample_weight": ["a"] * 40}, OddsmithError, "a"),
    "a class without weight": (
        {"sample_weight": (Y == 0).astype(float)},
        InvalidInputError,
        "All rows of class 1 have sample weight 0",
    ),
    "offset too short": ({"offset": np.zeros(39)}, InvalidInputError, r"offset has shape \(39,\)"),
    "offset of two columns": ({"offset": np.zeros((40, 2))}, InvalidInputError, r"expected \(40,\) for 2 classes"),
    "NaN offset": ({"offset": np.full(40, np.nan)}, InvalidInputError, "offset contains NaN"),
    "offset of one column": (
        {"X": X3, "y": Y3, "offset": np.zeros(60)},
        InvalidInputError,
        r"expected \(60, 3\) for 3 classes",
    ),
}

REFUSED_PARAMETERS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "solver": (
        {"solver": "newtn"},
        UnknownNameError,
        "'newtn'.*'truncated-newton'.*Did you mean 'newton'",
    ),
    "solver type": ({"solver": 3}, InvalidTypeError, "solver must be a name or a solver, found 3"),
    "link": ({"link": "logti"}, UnknownNameError, "Unknown link 'logti'.*Did you mean 'logit'"),
    "reference": ({"reference": "birch"}, UnknownNameError, r"Unknown reference class 'birch'. Known: 0, 1"),
    "tol": ({"tol": 0.0}, InvalidInputError, "tol must be a .*number.*found 0.0"),
    "tol type": ({"tol": "small"}, InvalidInputError, "tol must be a .*number.*found 'small'"),
    "max_iter": ({"max_iter": 0}, InvalidInputError, "max_iter must be a whole number of at least 1, found 0"),
    "max_iter type": ({"max_iter": 1.5}, InvalidInputError, "max_iter must be .* found 1.5"),
    "threads": ({"threads": 0}, InvalidInputError, "threads must be None or a whole number of at least 1, found 0"),
    "basis": ({"basis": "cubic"}, InvalidTypeError, "basis must be one of .*found 'cubic'"),
    "prior of zero": ({"prior": 0.0}, InvalidInputError, "positive number .*found 0.0.*prior=None"),
    "negative prior": ({"prior": -1.0}, InvalidInputError, "positive number .*found -1.0"),
    "infinite prior": ({"prior": np.inf}, InvalidInputError, "positive number .*found inf"),
    "criterion for a prior": (
        {"prior": "loo"},
        InvalidTypeError,
        r"found .loo.. To select σ, use GaussianPrior\(.loo.\)",
    ),
    "word for a prior": ({"prior": "ridge"}, InvalidTypeError, "prior must be None, a positive number.*'ridge'"),
    "True for a prior": ({"prior": True}, InvalidTypeError, "prior must be None"),
    "empty prior": ({"prior": GaussianPrior()}, InvalidInputError, "either scale.*or covariance"),
    "overfull prior": ({"prior": GaussianPrior(1.0, covariance=2.0)}, InvalidInputError, "not both"),
    "word for a scale": ({"prior": GaussianPrior("wide")}, UnknownNameError, "'wide'"),
    "prior of the wrong size": (
        {"prior": GaussianPrior(covariance=np.ones(7))},
        InvalidInputError,
        r"shape \(7,\); for this data its size must be one of 3 \(weights\), 4 \(weights with the intercept\)",
    ),
    "prior not square": ({"prior": GaussianPrior(covariance=np.ones((3, 4)))}, InvalidInputError, r"\(3, 4\)"),
    "prior not symmetric": (
        {"prior": GaussianPrior(covariance=np.eye(3) + np.eye(3, k=1))},
        InvalidInputError,
        "not symmetric",
    ),
    "prior not definite": (
        {"prior": GaussianPrior(covariance=np.diag([1.0, 1.0, -2.0]))},
        InvalidInputError,
        "smallest eigenvalue is -2",
    ),
    "variance of zero": ({"prior": GaussianPrior(covariance=[1.0, 0.0, 1.0])}, InvalidInputError, "entry 1 is 0"),
    "NaN variance": ({"prior": GaussianPrior(covariance=np.nan)}, InvalidInputError, "covariance.*NaN"),
    "word for a covariance": ({"prior": GaussianPrior(covariance="wide")}, InvalidTypeError, "covariance.*numeric"),
    "mean of the wrong size": (
        {"prior": GaussianPrior(scale=1.0, mean=np.ones(5))},
        InvalidInputError,
        r"mean of the GaussianPrior has shape \(5,\).*length 3",
    ),
    "mean of an intercept without a prior": (
        {"prior": GaussianPrior(scale=1.0, mean=np.ones(4))},
        InvalidInputError,
        r"shape \(4,\)",
    ),
    "joint prior for two classes": (
        {"prior": GaussianPrior(covariance=np.ones(8))},
        InvalidInputError,
        r"shape \(8,\)",
    ),
}


def refuse(model: LogisticRegression, data: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"X": X, "y": Y} | data
    with pytest.raises(error, match=f"(?s){message}") as caught:
        model.fit(**given)
    assert isinstance(caught.value, OddsmithError)
    assert isinstance(caught.value, ValueError | TypeError), "not what users of scikit-learn catch"


def fitted_names(model: LogisticRegression) -> list[str]:
    return [name for name in vars(model) if name.endswith("_")]


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
@pytest.mark.parametrize("case", REFUSED_DATA)
def test_bad_data_is_refused_and_nothing_half_fitted_left(
    case: str, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if large:  # large data is checked on the way, by the sums of the first pass
        set_policy(monkeypatch, large_elements=50)
    data, error, message = REFUSED_DATA[case]
    fresh = LogisticRegression()
    refuse(fresh, data, error, message)
    assert fitted_names(fresh) == []
    good = table(X[:, :2], ["age", "dose"])
    model = LogisticRegression().fit(good, Y)
    before = {name: getattr(model, name) for name in fitted_names(model)}
    predicted = model.predict_proba(good)
    refuse(model, data, error, message)
    assert fitted_names(model) == list(before)
    assert all(getattr(model, name) is value for name, value in before.items())
    assert np.array_equal(model.predict_proba(good), predicted)


@pytest.mark.parametrize("case", REFUSED_PARAMETERS)
def test_bad_parameters_are_refused_and_nothing_half_fitted_left(case: str) -> None:
    parameters, error, message = REFUSED_PARAMETERS[case]
    fresh = LogisticRegression(**parameters)
    refuse(fresh, {}, error, message)
    assert fitted_names(fresh) == []
    model = LogisticRegression().fit(X, Y)
    before = model.predict_proba(X)
    refuse(model.set_params(**parameters), {}, error, message)
    assert np.array_equal(model.predict_proba(X), before)


@pytest.mark.parametrize("case", ["solver", "link", "tol", "max_iter"])
def test_bad_parameters_are_refused_by_partial_fit_too(case: str) -> None:
    parameters, error, message = REFUSED_PARAMETERS[case]
    model = LogisticRegression(**parameters)
    with pytest.raises(error, match=f"(?s){message}"):
        model.partial_fit(X, Y, classes=[0, 1])
    assert fitted_names(model) == []


@pytest.mark.filterwarnings("error")
def test_rows_whose_numbers_are_too_large_are_refused_by_partial_fit() -> None:
    rows, y = overlapping()
    model = LogisticRegression(1.0, seed=0)
    with pytest.raises(InvalidInputError, match="'x1' has a spread of"):
        model.partial_fit(rows * [1.0, 1e200, 1.0], y, classes=[0, 1])
    model.partial_fit(rows, y, classes=[0, 1])
    before = model.predict_proba(rows)
    with pytest.raises(InvalidInputError, match="the model is unchanged"):
        model.partial_fit(rows * [1.0, 1e200, 1.0], y)
    assert np.array_equal(model.predict_proba(rows), before)
    twin = LogisticRegression(1.0, seed=0).partial_fit(rows, y, classes=[0, 1])
    assert np.array_equal(model.partial_fit(rows, y).coef_, twin.partial_fit(rows, y).coef_)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n", [200, 40_000])
@pytest.mark.parametrize("fill", [1e16, 9.96921e36, 1e200])
@pytest.mark.parametrize("prior", [None, 1.0])
def test_a_first_row_of_weight_zero_may_hold_anything(n: int, fill: float, prior: Any) -> None:
    rows, y = overlapping(n)
    filled, s = rows.copy(), np.ones(n)
    filled[0], s[0] = fill, 0.0
    model = LogisticRegression(prior).fit(filled, y, sample_weight=s)
    without = LogisticRegression(prior).fit(rows[1:], y[1:])
    np.testing.assert_allclose(model.coef_, without.coef_, rtol=1e-9)
    assert model.certificate_.converged and model.aliased_ == []


@pytest.mark.parametrize("solver", ["newton", "auto"])
def test_weights_that_leave_hardly_any_curvature_are_no_crash(solver: str) -> None:
    rows, y = overlapping(500, 70)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(solver=solver).fit(rows, y, sample_weight=np.full(500, 1e-200))
    assert np.isfinite(model.coef_).all() and not (model.certificate_.converged and np.isinf(model.certificate_.gap))


def test_a_reference_for_two_classes_must_be_one_of_them() -> None:
    with pytest.raises(UnknownNameError, match="'birch'"):
        LogisticRegression(reference="birch").fit(X, Y)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "decision_function", "distance"])
def test_a_model_that_is_not_fitted_says_so(method: str) -> None:
    with pytest.raises(NotFittedError, match=r"not fitted yet. Call fit") as caught:
        getattr(LogisticRegression(), method)(X)
    assert isinstance(caught.value, SklearnNotFittedError)
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, AttributeError)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_other_columns_at_prediction_are_refused_by_name(library: str) -> None:
    def frame(rows: np.ndarray, names: list[str]) -> Any:
        polars_table = table(rows, names)
        return {"polars": lambda t: t, "pandas": lambda t: t.to_pandas(), "pyarrow": lambda t: t.to_arrow()}[library](
            polars_table
        )

    model = LogisticRegression().fit(frame(X, ["age", "dose", "sex"]), Y)
    expected = model.predict_proba(frame(X, ["age", "dose", "sex"]))
    with pytest.raises(InvalidInputError, match=r"(?s)unseen at fit time.*height.*missing.*sex"):
        model.predict(frame(X, ["age", "dose", "height"]))
    with pytest.raises(InvalidInputError, match="same order"):
        model.predict(frame(X[:, [1, 0, 2]], ["dose", "age", "sex"]))
    with pytest.raises(InvalidInputError, match=r"(?s)missing.*sex"):
        model.predict(frame(X[:, :2], ["age", "dose"]))
    with pytest.raises(InvalidInputError, match="column 'dose' has 1 missing"):
        model.predict(frame(at(X, (0, 1), np.nan), ["age", "dose", "sex"]))
    assert np.array_equal(model.predict_proba(frame(X, ["age", "dose", "sex"])), expected)


def test_another_number_of_columns_at_prediction_is_refused() -> None:
    model = LogisticRegression().fit(X, Y)
    with pytest.raises(InvalidInputError, match="X has 2 features, but LogisticRegression is expecting 3"):
        model.predict(X[:, :2])
    with pytest.raises(InvalidInputError, match="column 2 has 1 infinite"):
        model.predict_proba(at(X, (0, 2), np.inf))


def test_errors_of_the_library_have_one_root() -> None:
    for kind in (InvalidInputError, InvalidTypeError, UnknownNameError, NotFittedError):
        assert issubclass(kind, OddsmithError)
    assert issubclass(UnknownNameError, ValueError)
    assert issubclass(InvalidTypeError, TypeError)


@pytest.mark.parametrize("value", ["no", None, 2])
def test_an_intercept_is_fitted_or_not(value: object) -> None:
    with pytest.raises(InvalidInputError, match="fit_intercept must be True or False"):
        LogisticRegression(fit_intercept=value).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])


def test_rounding_of_weights_that_cannot_hold_the_optimum_is_admitted() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4500, 60))
    y = (X.sum(axis=1) / 4.0 + rng.logistic(size=4500) > 0).astype(int)
    X[:, 0] = 1e8 + 1e-6 * X[:, 0]
    with pytest.warns(ConvergenceWarning, match="so far from zero.* Subtract a constant"):
        model = LogisticRegression().fit(X, y)
    assert not model.certificate_.converged and model.certificate_.gap > 1e-3
    X[:, 0] -= 1e8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LogisticRegression().fit(X, y).certificate_.converged


@pytest.mark.parametrize("variance", [1e-4, 1e-6])
def test_a_prior_of_the_intercept_far_from_the_columns_leaves_an_honest_gap(variance: float) -> None:
    """The prior's gradient is a difference of large terms there, whose rounding no step takes away."""
    rng = np.random.default_rng(0)
    n, M = 20_000, 20
    Z = rng.normal(size=(n, M))
    y = (Z.sum(axis=1) / 3.0 + rng.logistic(size=n) > 0).astype(int)
    X = Z + 1e5
    model = LogisticRegression(GaussianPrior(covariance=np.full(M + 1, variance))).fit(X, y)
    # The gradient in extended precision, in coordinates about the columns' means.
    wide, w, b = X.astype(np.longdouble), model.coef_[0].astype(np.longdouble), np.longdouble(model.intercept_[0])
    p = 1.0 / (1.0 + np.exp(-(wide @ w + b)))
    center = wide.mean(axis=0)
    R = np.column_stack([np.ones(n), wide - center])
    J = np.eye(M + 1, dtype=np.longdouble)
    J[0, 1:] = -center
    g = R.T @ (p - y) + J.T @ np.append(b, w) / variance
    rows = (R * np.sqrt(p * (1.0 - p))[:, None]).astype(float)
    H = rows.T @ rows + (J.T @ J).astype(float) / variance
    gap = 0.5 * float(g @ np.linalg.solve(H, g.astype(float)))
    assert gap <= model.certificate_.gap and model.certificate_.converged


@pytest.mark.parametrize("tol", [1e-8, 1e-6, 1e-4])
def test_errors_after_a_fit_of_any_tolerance(tol: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(16_000, 100))
    y = (X.sum(axis=1) + rng.logistic(size=16_000) > 0).astype(int)
    model = LogisticRegression(10.0, tol=tol).fit(X, y)
    exact = LogisticRegression(10.0, solver="newton").fit(X, y)
    np.testing.assert_allclose(model.posterior_.std, exact.posterior_.std, rtol=3.0 * np.sqrt(tol))


@pytest.mark.parametrize(("n", "M"), [(20_000, 20), (4500, 60)])
def test_a_few_enormous_cells_do_not_mislead_a_sample_for_long(n: int, M: int) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, M))
    y = (X.sum(axis=1) / 3.0 + rng.logistic(size=n) > 0).astype(int)
    X[rng.integers(0, n, 20), rng.integers(0, M, 20)] = 1e6
    model, exact = (LogisticRegression(1.0, solver=solver).fit(X, y) for solver in ("auto", "newton"))
    assert model.certificate_.converged and model.certificate_.passes <= 100
    np.testing.assert_allclose(model.trace_.objective[-1], exact.trace_.objective[-1], rtol=1e-8)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("n", [2000, 60_000])
def test_sparse_rows_of_many_columns_form_no_hessian_before_it_is_asked_for(n: int, classes: int) -> None:
    rng = np.random.default_rng(3)
    X = sparse.random(n, 450, density=0.06, format="csr", random_state=0)
    a = X @ rng.normal(size=(450, classes)) + rng.gumbel(size=(n, classes))
    y = a.argmax(axis=1)
    model = LogisticRegression(1.0).fit(X, y)
    assert model.certificate_.converged and model.certificate_.rigorous and model._learned.hessian is None
    if n == 2000 and classes == 2:
        exact = LogisticRegression(1.0, solver="newton").fit(X, y)
        np.testing.assert_allclose(model.coef_, exact.coef_, rtol=0, atol=1e-3)
        np.testing.assert_allclose(model.posterior_.std, exact.posterior_.std, rtol=1e-4)
