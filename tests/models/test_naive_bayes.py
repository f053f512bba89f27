"""NaiveBayes held against scikit-learn, SciPy's distributions, and the product of its columns."""

import warnings

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from scipy import sparse, stats
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from oddsmith import GaussianClassifier, NaiveBayes, bayes_error
from oddsmith.errors import InvalidInputError, OddsmithWarning, UnknownNameError
from oddsmith.testing.models import _check_scikit_learn

N = 500
RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, N)
NUMBERS = RNG.normal(size=(N, 4)) * [1.0, 10.0, 0.1, 1.0] + Y[:, None] * [1.0, 2.0, 0.1, 0.0] + [0.0, 1e3, 0.0, 5.0]
BITS = (RNG.random((N, 5)) < 0.2 + 0.2 * Y[:, None]).astype(float)
LEVELS = RNG.integers(0, 4, (N, 3)).astype(float)
COUNTS = RNG.poisson(2.0 + Y[:, None] * [1.0, 0.0, 2.0, 0.5]).astype(float)
FAMILIES = {
    "gaussian": (NUMBERS, GaussianNB),
    "bernoulli": (BITS, BernoulliNB),
    "categorical": (LEVELS, CategoricalNB),
    "multinomial": (COUNTS, MultinomialNB),
}


def table(library=polars, rows=slice(None)):
    """Return columns of every type, with missing values in each but the integers."""
    lost = np.random.default_rng(1).random((N, 3)) < 0.1
    columns = {
        "size": np.where(lost[:, 0], np.nan, NUMBERS[:, 0]),
        "flag": [None if gone else bool(bit) for gone, bit in zip(lost[:, 1], BITS[:, 0], strict=True)],
        "colour": [None if gone else "rgbw"[int(i)] for gone, i in zip(lost[:, 2], LEVELS[:, 0], strict=True)],
        "visits": COUNTS[:, 0].astype(int),
        "bit": BITS[:, 1].astype(int),
        "year": (2000 + 10 * NUMBERS[:, 3]).astype(int),
    }
    columns = {name: list(np.asarray(values, dtype=object)[rows]) for name, values in columns.items()}
    if library is pyarrow:
        return pyarrow.table({name: pyarrow.array(values, from_pandas=True) for name, values in columns.items()})
    return (
        library.DataFrame(columns, strict=False) if library is polars else library.DataFrame(columns).convert_dtypes()
    )


# ------------------------------------------------------------------------------------ against scikit-learn


@pytest.mark.parametrize("family", FAMILIES)
def test_one_family_equals_scikit_learn(family) -> None:
    X, peer = FAMILIES[family]
    ours, theirs = NaiveBayes(family).fit(X, Y), peer().fit(X, Y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-10)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("smoothing", [0.1, 3.0])
@pytest.mark.parametrize("family", ["bernoulli", "categorical", "multinomial"])
def test_smoothing_equals_scikit_learn(family, smoothing) -> None:
    X, peer = FAMILIES[family]
    ours, theirs = NaiveBayes(family, smoothing=smoothing).fit(X, Y), peer(alpha=smoothing).fit(X, Y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_and_prior_equal_scikit_learn(family) -> None:
    X, peer = FAMILIES[family]
    s, prior = np.random.default_rng(2).uniform(0.0, 2.0, N), [0.2, 0.5, 0.3]
    theirs = (peer(priors=prior) if family == "gaussian" else peer(class_prior=prior)).fit(X, Y, sample_weight=s)
    ours = NaiveBayes(family, class_prior=prior).fit(X, Y, sample_weight=s)
    # Their smoothing of variances looks at unweighted rows: 1e-9 of something else.
    np.testing.assert_allclose(
        ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6 if family == "gaussian" else 1e-10
    )


def test_mixed_columns_are_the_product_of_the_families() -> None:
    X = np.column_stack([X for X, _ in FAMILIES.values()])
    families = [name for name, (X, _) in FAMILIES.items() for _ in range(X.shape[1])]
    order = np.random.default_rng(3).permutation(len(families))
    model = NaiveBayes([families[j] for j in order]).fit(X[:, order], Y)
    joint = sum(peer().fit(X, Y).predict_joint_log_proba(X) for X, peer in FAMILIES.values())
    joint -= 3.0 * np.log(np.bincount(Y) / N)
    joint -= np.logaddexp.reduce(joint, axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_log_proba(X[:, order]), joint, rtol=1e-10, atol=1e-10)


def test_gaussian_columns_equal_the_diagonal_gaussian_classifier() -> None:
    ours = NaiveBayes(variance_smoothing=0.0).fit(NUMBERS, Y)
    peer = GaussianClassifier("diagonal").fit(NUMBERS, Y)
    np.testing.assert_allclose(ours.log_density(NUMBERS), peer.log_density(NUMBERS), rtol=1e-12)
    assert ours.n_parameters_ == peer.n_parameters_
    for found, expected in zip(ours.quadratic_, peer.quadratic_, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_log_density_equals_scipy() -> None:
    X = np.column_stack([NUMBERS[:, 0], BITS[:, 0], LEVELS[:, 0], COUNTS[:, 0], COUNTS[:, 1:]])
    model = NaiveBayes(["gaussian", "bernoulli", "categorical", "poisson", *["multinomial"] * 3]).fit(X, Y)
    found, p = model.log_density(X), model.parameters_
    for k in range(3):
        shares = [p[f"x{j}"]["share"][k] for j in (4, 5, 6)]
        expected = (
            stats.norm(p["x0"]["mean"][k], np.sqrt(p["x0"]["variance"][k])).logpdf(X[:, 0])
            + stats.bernoulli(p["x1"]["probability"][k]).logpmf(X[:, 1])
            + np.log(p["x2"]["probability"][k, X[:, 2].astype(int)])
            + stats.poisson(p["x3"]["rate"][k]).logpmf(X[:, 3])
            + np.array([stats.multinomial(row.sum(), shares).logpmf(row) for row in X[:, 4:]])
        )
        np.testing.assert_allclose(found[:, k], expected, rtol=1e-9)


def test_linear_families_give_the_weights_of_a_softmax_function() -> None:
    X = np.column_stack([BITS, COUNTS])
    model = NaiveBayes([*["bernoulli"] * 5, *["poisson"] * 4]).fit(X, Y)
    A = X @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(
        model.predict_log_proba(X), A - np.logaddexp.reduce(A, axis=1, keepdims=True), atol=1e-10
    )
    two = NaiveBayes("bernoulli").fit(BITS[Y < 2], Y[Y < 2])
    assert two.coef_.shape == (1, 5)
    np.testing.assert_allclose(
        two.decision_function(BITS), BITS @ two.coef_[0] + two.intercept_[0], rtol=1e-9, atol=1e-12
    )
    assert not hasattr(NaiveBayes().fit(NUMBERS, Y), "coef_")
    assert not hasattr(NaiveBayes("categorical").fit(LEVELS, Y), "quadratic_")


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
@pytest.mark.parametrize("family", ["bernoulli", "multinomial", "poisson", "gaussian"])
def test_sparse_rows_equal_dense_rows(family, make) -> None:
    X = BITS if family == "bernoulli" else COUNTS
    dense, loose = NaiveBayes(family).fit(X, Y), NaiveBayes(family).fit(make(X), Y)
    np.testing.assert_allclose(loose.predict_proba(make(X)), dense.predict_proba(X), rtol=1e-10)
    np.testing.assert_allclose(loose.log_density(make(X)), dense.log_density(X), rtol=1e-10)


def test_a_wide_sparse_matrix_is_never_made_dense() -> None:
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 200_000, (2000, 20))
    X = sparse.csr_array((np.ones(columns.size), columns.ravel(), np.arange(0, columns.size + 1, 20)), (2000, 200_000))
    X.sum_duplicates()
    X.data[:] = 1.0
    y = rng.integers(0, 2, 2000)
    for family in ("bernoulli", "multinomial", "poisson"):
        model = NaiveBayes(family).fit(X, y)
        assert model.predict_proba(X).shape == (2000, 2)


# ----------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("library", [polars, pandas, pyarrow])
def test_tables_go_straight_in(library) -> None:
    model = NaiveBayes().fit(table(library), Y)
    assert model.features_ == {
        "size": "gaussian",
        "flag": "bernoulli",
        "colour": "categorical",
        "visits": "poisson",
        "bit": "bernoulli",
        "year": "gaussian",
    }
    assert model.levels_ == {"colour": ["b", "g", "r", "w"]}
    reference = NaiveBayes().fit(table(polars), Y)
    np.testing.assert_allclose(model.predict_proba(table(library)), reference.predict_proba(table(polars)), rtol=1e-12)
    drawn, labels = model.sample(50, seed=0)
    assert type(drawn) is type(table(library)) and len(labels) == 50
    again = NaiveBayes({"year": "gaussian"}).fit(*model.sample(400, seed=0))
    assert again.features_ == model.features_


def test_categories_keep_their_declared_levels() -> None:
    column = pandas.Categorical(["u", "v", "u", None], categories=["w", "v", "u"])
    model = NaiveBayes().fit(pandas.DataFrame({"c": column}), [0, 1, 0, 1])
    assert model.levels_ == {"c": ["u", "v", "w"]}
    np.testing.assert_allclose(model.parameters_["c"]["probability"], [[3 / 5, 1 / 5, 1 / 5], [1 / 4, 2 / 4, 1 / 4]])
    numbers = NaiveBayes().fit(pandas.DataFrame({"c": pandas.Categorical([3, 1, 3, 1])}), [0, 1, 0, 1])
    assert numbers.levels_ == {"c": [1, 3]}


def test_arrays_of_words_and_lists_go_in() -> None:
    rows = [["red", 1.0, True], ["blue", 2.5, False], ["red", 1.5, True], ["blue", None, False], ["blue", 2.0, None]]
    model = NaiveBayes().fit(rows, ["a", "b", "a", "b", "b"])
    assert model.features_ == {"x0": "categorical", "x1": "gaussian", "x2": "bernoulli"}
    assert model.predict([["blue", 2.0, False], ["red", None, None]]).tolist() == ["b", "a"]
    words = np.array([["red"], ["blue"], ["red"], ["blue"]])
    assert NaiveBayes().fit(words, [0, 1, 0, 1]).predict([["red"]]).tolist() == [0]
    drawn, _ = model.sample(5, seed=0)
    assert drawn.shape == (5, 3) and drawn.dtype == object


@pytest.mark.parametrize(
    ("values", "family"),
    [
        (np.array([0, 1, 1, 0, 1, 0]), "bernoulli"),
        (np.array([True, False, True, False, True, True]), "bernoulli"),
        (np.array([0, 1, 3, 2, 0, 1], dtype=np.uint8), "poisson"),
        (np.array([30_000, 52_000, 18_000, 75_000, 41_000, 39_000]), "gaussian"),
        (np.array([2001, 2003, 2002, 2000, 2004, 2002]), "gaussian"),
        (np.array([-1, 0, 1, 2, 0, 1]), "gaussian"),
        (np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0]), "gaussian"),
    ],
)
def test_families_are_chosen_by_type(values, family) -> None:
    model = NaiveBayes().fit(values[:, None], [0, 1, 0, 1, 0, 1])
    assert model.features_ == {"x0": family}


def test_a_mapping_names_columns_by_name_or_number() -> None:
    chosen = NaiveBayes({"visits": "gaussian", "year": "categorical", 4: "poisson"}).fit(table(), Y)
    assert [chosen.features_[name] for name in ("visits", "year", "bit")] == ["gaussian", "categorical", "poisson"]
    assert chosen.features_["flag"] == "bernoulli"


# ---------------------------------------------------------------------------------------- missing values


@pytest.mark.parametrize("family", [*FAMILIES, "poisson"])
def test_missing_values_at_prediction_are_marginalised(family) -> None:
    X = FAMILIES.get(family, (COUNTS, None))[0]
    model = NaiveBayes(family).fit(X, Y)
    hole = X.copy()
    hole[:, 1] = np.nan
    rest = np.delete(np.arange(X.shape[1]), 1)
    part = NaiveBayes(family).fit(X[:, rest], Y)
    if family == "gaussian":
        model, part = (NaiveBayes(family, variance_smoothing=0.0).fit(Z, Y) for Z in (X, X[:, rest]))
    if family == "multinomial":
        # Of the counts that are left, given their total, the shares are those among them.
        shares = np.array([model.parameters_[f"x{j}"]["share"] for j in rest]).T
        expected = X[:, rest] @ np.log(shares / shares.sum(axis=1, keepdims=True)).T + np.log(model.class_prior_)
        expected -= np.logaddexp.reduce(expected, axis=1, keepdims=True)
    else:
        expected = part.predict_log_proba(X[:, rest])
    np.testing.assert_allclose(model.predict_log_proba(hole), expected, rtol=1e-9, atol=1e-10)
    nothing = model.predict_proba(np.full((1, X.shape[1]), np.nan))
    np.testing.assert_allclose(nothing, [model.class_prior_], rtol=1e-12)
    assert model.predict(hole).shape == (N,)


@pytest.mark.parametrize("family", ["gaussian", "bernoulli", "categorical", "poisson"])
def test_missing_values_in_fitting_are_left_out(family) -> None:
    X = FAMILIES.get(family, (COUNTS, None))[0]
    hole = np.where(np.random.default_rng(4).random(X.shape) < 0.3, np.nan, X)
    model = NaiveBayes(family, variance_smoothing=0.0).fit(hole, Y)
    for j in range(X.shape[1]):
        there = ~np.isnan(hole[:, j])
        alone = NaiveBayes(family, variance_smoothing=0.0).fit(hole[there, j : j + 1], Y[there])
        for name, expected in alone.parameters_["x0"].items():
            np.testing.assert_allclose(model.parameters_[f"x{j}"][name], expected, rtol=1e-12)
    np.testing.assert_allclose(model.class_prior_, np.bincount(Y) / N)


def test_missing_counts_of_a_multinomial_are_refused_in_fitting() -> None:
    hole = COUNTS.copy()
    hole[3, 2] = np.nan
    with pytest.raises(InvalidInputError, match=r"'x2' has missing values.*poisson"):
        NaiveBayes("multinomial").fit(hole, Y)


def test_a_category_that_was_not_there_counts_as_missing() -> None:
    model = NaiveBayes().fit(table(), Y)
    strange = table(rows=[0, 1]).with_columns(polars.Series("colour", ["violet", "r"]))
    with pytest.warns(OddsmithWarning, match=r"'colour' .*'violet'.*count as missing"):
        found = model.predict_proba(strange)
    blank = strange.with_columns(polars.Series("colour", [None, "r"], dtype=polars.String))
    np.testing.assert_array_equal(found, model.predict_proba(blank))


# ---------------------------------------------------------------------------------------------- sampling


def test_samples_give_the_parameters_back_within_their_standard_errors() -> None:
    X = np.column_stack([NUMBERS[:, 0], BITS[:, 0], LEVELS[:, 0], COUNTS[:, 0], COUNTS[:, 1:3]])
    families = ["gaussian", "bernoulli", "categorical", "poisson", "multinomial", "multinomial"]
    how = {"features": families, "smoothing": 0.0, "variance_smoothing": 0.0}
    truth = NaiveBayes(**how).fit(X, Y)
    n, z, p = 4000, [], truth.parameters_
    rows = truth.class_prior_ * n
    errors = {
        ("x0", "mean"): np.sqrt(p["x0"]["variance"] / rows),
        ("x0", "variance"): p["x0"]["variance"] * np.sqrt(2.0 / rows),
        ("x1", "probability"): np.sqrt(p["x1"]["probability"] * (1.0 - p["x1"]["probability"]) / rows),
        ("x2", "probability"): np.sqrt(p["x2"]["probability"] * (1.0 - p["x2"]["probability"]) / rows[:, None]),
        ("x3", "rate"): np.sqrt(p["x3"]["rate"] / rows),
    }
    share, mean_total = p["x4"]["share"], COUNTS[:, 1:3].sum() / N
    errors["x4", "share"] = np.sqrt(share * (1.0 - share) / (rows * mean_total))
    for seed in range(20):
        again = NaiveBayes(**how).fit(*truth.sample(n, seed=seed)).parameters_
        z += [((again[column][name] - p[column][name]) / e).ravel() for (column, name), e in errors.items()]
    everything = np.abs(np.concatenate(z))
    assert everything.max() < 4.5 and 0.6 < np.mean(everything < 1.0) < 0.76 and np.mean(everything < 2.0) > 0.93


def test_bayes_error_is_that_of_counting_on_samples() -> None:
    model = NaiveBayes().fit(table(), Y)
    found = bayes_error(model, n=20_000, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, labels = model.sample(20_000, seed=1)
        wrong = np.mean(model.predict(rows) != labels)
    assert abs(found.error - wrong) < 4.0 * np.sqrt(wrong / 20_000)


def test_another_class_prior_equals_a_refit_with_it() -> None:
    prior = {0: 0.7, 1: 0.2, 2: 0.1}
    moved = NaiveBayes().fit(table(), Y).with_class_prior(prior)
    np.testing.assert_array_equal(
        moved.predict_proba(table()), NaiveBayes(class_prior=prior).fit(table(), Y).predict_proba(table())
    )
    plain = NaiveBayes("bernoulli").fit(BITS, Y)
    shift = plain.with_class_prior(prior).intercept_ - plain.intercept_
    np.testing.assert_allclose(shift, np.log([0.7, 0.2, 0.1] / plain.class_prior_), rtol=1e-10)
    np.testing.assert_array_equal(plain.with_class_prior(prior).coef_, plain.coef_)


# --------------------------------------------------------------------------------------------- bad input


def named(X: np.ndarray) -> pandas.DataFrame:
    return pandas.DataFrame(X, columns=[f"col{j}" for j in range(X.shape[1])])


@pytest.mark.parametrize(
    ("family", "value", "said"),
    [
        ("bernoulli", 2.0, r"'col1' has values other than 0 and 1, the first in row 3 \(2\).*'gaussian'"),
        ("bernoulli", 0.5, r"'col1' .*row 3 \(0.5\)"),
        ("poisson", -1.0, r"'col1' has negative values, the first in row 3 \(-1\)"),
        ("poisson", 1.5, r"'col1' has values that are not whole numbers, the first in row 3 \(1.5\)"),
        ("multinomial", -2.0, r"'col1' has negative values, the first in row 3 \(-2\)"),
        ("gaussian", np.inf, r"'col1' has 1 infinite value, the first in row 3"),
        ("poisson", np.inf, r"'col1' has 1 infinite value, the first in row 3"),
    ],
)
def test_values_outside_a_family_are_refused_by_name_in_fitting_and_prediction(family, value, said) -> None:
    X = BITS.copy()
    model = NaiveBayes(family).fit(named(X), Y)
    X[3, 1] = value
    with pytest.raises(InvalidInputError, match=said):
        NaiveBayes(family).fit(named(X), Y)
    with pytest.raises(InvalidInputError, match=said):
        model.predict(named(X))
    if np.isfinite(value):
        with pytest.raises(InvalidInputError, match=said.replace("col1", "x1")):
            NaiveBayes(family).fit(sparse.csr_array(X), Y)


@pytest.mark.parametrize(
    ("features", "error", "said"),
    [
        ("gauss", UnknownNameError, "'gauss'.*Did you mean 'gaussian'"),
        ({"col1": "binomial"}, UnknownNameError, "'col1'.*'binomial'"),
        ({"age": "poisson"}, UnknownNameError, "column in features: 'age'.*'col0'"),
        ({9: "poisson"}, UnknownNameError, "column in features: 9"),
        (["poisson"], InvalidInputError, "1 families.*5 columns"),
        (3, TypeError, "features must be"),
    ],
)
def test_unknown_families_and_columns_are_refused(features, error, said) -> None:
    with pytest.raises(error, match=said):
        NaiveBayes(features).fit(named(BITS), Y)


@pytest.mark.parametrize("name", ["smoothing", "variance_smoothing"])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "much", True])
def test_smoothing_is_a_number_of_at_least_zero(name, value) -> None:
    with pytest.raises(InvalidInputError, match=f"^{name} must be"):
        NaiveBayes(**{name: value}).fit(BITS, Y)


def test_dates_are_days() -> None:
    days = pandas.date_range("2020", periods=4)
    model = NaiveBayes().fit(pandas.DataFrame({"when": days}), [0, 1, 0, 1])
    numbers = NaiveBayes().fit(pandas.DataFrame({"when": [18262.0, 18263.0, 18264.0, 18265.0]}), [0, 1, 0, 1])
    rows = pandas.DataFrame({"when": days[:2]})
    assert np.allclose(model.predict_proba(rows), numbers.predict_proba(pandas.DataFrame({"when": [18262.0, 18263.0]})))


def test_columns_that_are_neither_numbers_nor_words_are_refused_by_name() -> None:
    with pytest.raises(InvalidInputError, match="'when' is of type duration"):
        NaiveBayes().fit(pandas.DataFrame({"when": pandas.to_timedelta([1, 2, 3, 4], "D")}), [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="'mix' holds values of different types"):
        NaiveBayes().fit(pandas.DataFrame({"mix": [1, "a", 2, "b"]}, dtype=object), [0, 1, 0, 1])
    with pytest.raises(InvalidInputError, match="Column 1 holds values of different types"):
        NaiveBayes().fit(np.array([[1, "a"], [2, 3.0]], dtype=object), [0, 1])
    with pytest.raises(InvalidInputError, match="'c' holds text, such as 'u'"):
        NaiveBayes("gaussian").fit(pandas.DataFrame({"c": ["u", "v"]}), [0, 1])
    with pytest.raises(InvalidInputError, match="'c' holds text"):
        NaiveBayes().fit(polars.DataFrame({"c": [0.5, 1.5]}), [0, 1]).predict(polars.DataFrame({"c": ["u"]}))
    with pytest.raises(TypeError, match=r"'x0' is categorical.*sparse"):
        NaiveBayes("categorical").fit(sparse.csr_array(LEVELS), Y)


def test_without_smoothing_what_was_never_seen_is_impossible() -> None:
    model = NaiveBayes("bernoulli", smoothing=0.0).fit([[0, 1], [0, 0], [1, 1], [1, 0]], [0, 0, 1, 1])
    np.testing.assert_array_equal(model.predict_proba([[0, 1], [1, 1]]), [[1.0, 0.0], [0.0, 1.0]])
    counts = NaiveBayes("poisson", smoothing=0.0).fit([[0, 1], [0, 2], [0, 1], [0, 5]], [0, 0, 1, 1])
    with pytest.raises(InvalidInputError, match="Row 1 has density zero under every class"):
        counts.predict_proba([[0, 1], [1, 1]])
    with pytest.raises(InvalidInputError, match="'x1' has zero variance in class 0"):
        NaiveBayes("gaussian", variance_smoothing=0.0).fit(
            [[0.0, 1.0], [1.0, 1.0], [0.0, 1.0], [3.0, 2.0]], [0, 0, 1, 1]
        )
    with pytest.raises(InvalidInputError, match="Class 1 has 1 row"):
        NaiveBayes("gaussian", variance_smoothing=0.0).fit([[0.0], [1.0], [2.0]], [0, 0, 1])


def test_a_column_missing_throughout_a_class_is_named() -> None:
    X = NUMBERS.copy()
    X[Y == 2, 1] = np.nan
    with pytest.raises(InvalidInputError, match="'x1' is missing in every row of class 2"):
        NaiveBayes().fit(X, Y)
    bits = BITS.copy()
    bits[Y == 2, 1] = np.nan
    assert NaiveBayes("bernoulli").fit(bits, Y).parameters_["x1"]["probability"][2] == 0.5
    with pytest.raises(InvalidInputError, match="'x1' is missing in every row of class 2"):
        NaiveBayes("bernoulli", smoothing=0.0).fit(bits, Y)


def test_the_model_passes_every_check_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OddsmithWarning)
        _check_scikit_learn(NaiveBayes())
