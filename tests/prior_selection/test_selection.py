"""Widths of priors: stationary evidence, known widths, relevance, cross-validation, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from tests.policies import set_policy

from oddsmith import Design, GaussianKernel, GaussianPrior, LogisticRegression, Polynomial, compare_widths
from oddsmith.data import load_dataset
from oddsmith.design import table as design_table
from oddsmith.engines import MemorySource
from oddsmith.errors import (
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    OddsmithError,
    SeparationWarning,
    UnknownNameError,
)
from oddsmith.prior_selection.quadratic_model import lowest, one_standard_error


def make(seed: int, N: int = 300, D: int = 8, K: int = 2, width: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D)) * np.linspace(0.5, 2.0, D)
    A = X @ rng.normal(size=(D, K)) * (width / np.sqrt(2.0) if K == 2 else width)
    return X, (A + rng.gumbel(size=A.shape)).argmax(axis=1)


def slope(X, y, variances: np.ndarray, j: int | None = None, **how) -> float:
    """Numerical derivative of the log evidence in the log width (of column j)."""
    ends = []
    for h in (1e-3, -1e-3):
        v = (
            variances * np.exp(2 * h)
            if j is None
            else np.where(np.arange(len(variances)) == j, variances * np.exp(2 * h), variances)
        )
        ends.append(LogisticRegression(GaussianPrior(covariance=v), tol=1e-12, **how).fit(X, y).log_evidence_)
    return (ends[0] - ends[1]) / 2e-3


@pytest.mark.parametrize(
    "K, how", [(2, {}), (3, {}), (3, {"reference": 0}), (2, {"link": "probit"}), (2, {"link": "cloglog"})]
)
def test_width_is_a_stationary_point_of_the_evidence(K: int, how: dict) -> None:
    X, y = make(1, K=K, width=0.5)
    model = LogisticRegression(GaussianPrior(scale="evidence"), **how).fit(X, y)
    assert abs(slope(X, y, np.full(8, model.prior_.scale**2), **how)) < 1e-3
    assert np.isclose(model.selection_.table["log_evidence"][-1], model.log_evidence_, atol=1e-6)
    assert model.certificate_.converged
    # It is a maximum, and the highest: no width of a grid is better.
    grid = [LogisticRegression(float(w), **how).fit(X, y).log_evidence_ for w in np.logspace(-2, 2, 15)]
    assert max(grid) <= model.log_evidence_ + 1e-9


def test_nearly_separated_classes_have_a_width() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y)
    assert abs(slope(X, y, np.full(30, model.prior_.scale**2))) < 1e-3


def test_evidence_without_a_maximum_is_said() -> None:
    X = np.linspace(-1.0, 1.0, 50)[:, None]
    with pytest.warns(SeparationWarning, match="without a maximum"):
        model = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, X[:, 0] > 0)
    assert model.selection_.at_edge
    noise = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, np.arange(50) % 2)
    assert noise.selection_.at_edge and noise.prior_.scale < 1e-3  # nothing to learn: no warning


def test_search_that_does_not_end_keeps_the_best_width_met_and_says_so() -> None:
    # Columns of very different size and separated classes: a step of the search once ended at a width of 1e-7.
    penguins = load_dataset("penguins")
    with pytest.warns(ConvergenceWarning, match="still rising"):
        model = LogisticRegression(GaussianPrior("evidence"), design=Design(missing="indicator")).fit(
            penguins, "species"
        )
    assert model.prior_.scale > 1.0
    assert model.log_evidence_ >= max(model.selection_.to_dict()["log_evidence"][:30])
    assert model.score(penguins, penguins["species"].to_pylist()) > 0.99


@pytest.mark.parametrize("how", ["evidence", "loo", "cv"])
def test_any_rows_have_a_width(how: str) -> None:
    X, y = make(13, N=200, D=4)
    prior = GaussianPrior(scale=how)
    dense = LogisticRegression(prior).fit(X, y)
    s = np.ones(200)
    for rows, more in ((sparse.csr_array(X), {}), (pd.DataFrame(X), {}), (X, {"sample_weight": s, "offset": 0.0 * s})):
        if isinstance(rows, pd.DataFrame):
            rows.columns = list("abcd")
        other = LogisticRegression(prior).fit(rows, y, **more)
        assert np.isclose(other.prior_.scale, dense.prior_.scale, rtol=1e-4)
    curved = LogisticRegression(prior, basis=Polynomial(2)).fit(X, y)
    assert len(curved.posterior_.mean) == 15 and curved.predictive(X[:3]).mean.shape == (3, 2)
    assert curved.leave_one_out(X, y).leverage.sum() < 15.0
    assert curved.update(X[:50], y[:50]).n_rows_ == 250


def test_known_width_is_found_on_average() -> None:
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 20))
        y = (rng.random(400) < 1.0 / (1.0 + np.exp(-X @ rng.normal(size=20) * 0.7))).astype(int)
        ratios.append(LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y).prior_.scale / 0.7)
    assert 1.0 / 1.5 < np.exp(np.mean(np.log(ratios))) < 1.5


def test_useless_columns_shrink_and_each_width_is_stationary() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    y = (rng.random(500) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] - X[:, 1]))).astype(int)
    model = LogisticRegression(GaussianPrior(scale="evidence", groups="each")).fit(X, y)
    width = model.selection_.width
    assert width[:2].min() > 0.5 and width[2:].max() < 0.3 and (width[2:] < 0.01).any()
    for j in range(6):
        assert abs(slope(X, y, np.asarray(model.prior_.covariance), j)) < 1e-3
    one = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y)
    assert model.log_evidence_ > one.log_evidence_


def test_groups_by_name_and_number_with_the_rest_as_one_more() -> None:
    X, y = make(3)
    model = LogisticRegression(GaussianPrior(scale="evidence", groups=[["x0", 1], [5]])).fit(X, y)
    assert model.selection_.groups == (("x0", "x1"), ("x5",), ("x2", "x3", "x4", "x6", "x7"))
    v = np.asarray(model.prior_.covariance)
    assert v[0] == v[1] and v[2] == v[7] and v[5] not in (v[0], v[2])
    assert "width[x0 x1]" in model.selection_.to_dict()


def test_units_of_all_columns_move_the_width_along() -> None:
    X, y = make(4)
    for how in ("evidence", "loo", "cv"):
        one = LogisticRegression(GaussianPrior(scale=how)).fit(X, y).prior_.scale
        other = LogisticRegression(GaussianPrior(scale=how)).fit(X * 1e3, y).prior_.scale
        assert np.isclose(one, 1e3 * other, rtol=1e-3)


def test_leave_one_out_width_has_the_smallest_loss() -> None:
    X, y = make(5, N=120)
    model = LogisticRegression(GaussianPrior(scale="loo")).fit(X, y)
    best = model.leave_one_out(X, y).log_loss
    others = [LogisticRegression(w).fit(X, y).leave_one_out(X, y).log_loss for w in np.logspace(-2, 2, 20)]
    assert best <= min(others) * 1.0005
    table = model.selection_.to_dict()
    assert list(table) == ["width", "log_loss", "std_error"] and len(table["width"]) == 20


def test_first_order_curve_of_many_rows_is_that_of_leaving_rows_out() -> None:
    X, y = make(6, N=20_000, D=4, width=0.05)
    model = LogisticRegression(GaussianPrior(scale="loo")).fit(X, y)
    table = model.selection_.to_dict()
    for k in (4, 8, 12, 16):
        exact = LogisticRegression(table["width"][k]).fit(X, y).leave_one_out(X, y).log_loss
        assert np.isclose(table["log_loss"][k], exact, rtol=1e-6)


def test_cross_validation_is_scikit_learns() -> None:
    X, y = make(7, N=200, D=4)
    widths = np.logspace(-1.5, 0.5, 6)
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    model = LogisticRegression(GaussianPrior(scale="cv", scales=widths, cv=splits)).fit(X, y)
    how = {"Cs": widths**2, "cv": splits, "scoring": "neg_log_loss", "tol": 1e-7, "max_iter": 1000}
    try:
        peer = LogisticRegressionCV(**how, use_legacy_attributes=False, l1_ratios=(0,)).fit(X, y)
        scores = np.asarray(peer.scores_).reshape(3, -1)
    except TypeError:  # versions before 1.8
        peer = LogisticRegressionCV(**how).fit(X, y)
        scores = peer.scores_[1]
    assert np.allclose(model.selection_.table["log_loss"], -scores.mean(axis=0), rtol=1e-5)
    assert model.prior_.scale == widths[np.argmax(scores.mean(axis=0))]


def test_one_standard_error_rule_takes_a_smaller_width() -> None:
    X, y = make(8, N=100)
    best = LogisticRegression(GaussianPrior(scale="cv")).fit(X, y)
    careful = LogisticRegression(GaussianPrior(scale="cv", one_standard_error=True)).fit(X, y)
    table = best.selection_.to_dict()
    k = table["width"].index(careful.prior_.scale)
    j = int(np.argmin(table["log_loss"]))
    assert k <= j and table["log_loss"][k] <= table["log_loss"][j] + table["std_error"][j]
    assert k == 0 or table["log_loss"][k - 1] > table["log_loss"][j] + table["std_error"][j]


def test_folds_follow_the_seed_and_not_the_threads() -> None:
    X, y = make(9)
    curves = [
        LogisticRegression(GaussianPrior(scale="cv"), seed=seed, threads=threads).fit(X, y).selection_.table["log_loss"]
        for seed, threads in ((1, 1), (1, 2), (2, 2))
    ]
    assert curves[0] == curves[1] and curves[0] != curves[2]


def test_comparison_holds_all_three() -> None:
    X, y = make(10)
    comparison = compare_widths(X, y, scales=np.logspace(-1.5, 1.0, 8))
    assert list(comparison.to_dict()) == ["method", "width", "log_evidence", "loo", "cv"]
    assert set(comparison.curve) == {"width", "log_evidence", "loo", "loo_error", "cv", "cv_error"}
    for k, width in enumerate(comparison.curve["width"]):
        model = LogisticRegression(width).fit(X, y)
        assert np.isclose(comparison.curve["log_evidence"][k], model.log_evidence_, atol=1e-6)
        assert np.isclose(comparison.curve["loo"][k], model.leave_one_out(X, y).log_loss, rtol=1e-6)
    for method in ("evidence", "loo", "cv"):
        prior = GaussianPrior(scale=method, scales=np.logspace(-1.5, 1.0, 8))
        assert np.isclose(
            comparison.selections[method].width, LogisticRegression(prior).fit(X, y).prior_.scale, rtol=1e-6
        )


def test_mean_of_the_prior_counts() -> None:
    X, y = make(11)
    w = LogisticRegression().fit(X, y).coef_[0]
    at_zero = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y).prior_.scale
    near = LogisticRegression(GaussianPrior(scale="evidence", mean=w)).fit(X, y)
    assert near.prior_.scale < 0.1 * at_zero
    assert near.prior_.mean is w


def test_found_prior_serves_all_that_comes_after() -> None:
    X, y = make(12)
    model = LogisticRegression(GaussianPrior(scale="evidence")).fit(X, y)
    same = LogisticRegression(model.prior_).fit(X, y)
    assert np.allclose(model.coef_, same.coef_, rtol=1e-6)
    assert np.isclose(model.leave_one_out(X, y).log_loss, same.leave_one_out(X, y).log_loss, rtol=1e-6)
    assert not hasattr(same, "selection_")
    assert not hasattr(model.set_params(prior=1.0).fit(X, y), "selection_")


@pytest.mark.parametrize(
    "prior, error, words",
    [
        (GaussianPrior(scale="evidense"), UnknownNameError, "Did you mean 'evidence'"),
        (GaussianPrior(scale="evidence", covariance=1.0), InvalidInputError, "not both"),
        (GaussianPrior(scale="evidence", groups=[[0, 1], [1]]), InvalidInputError, "Column 'x1' is in two groups"),
        (GaussianPrior(scale="evidence", groups=[["x9"]]), UnknownNameError, "Unknown column in groups= 'x9'"),
        (GaussianPrior(scale="evidence", groups=[[12]]), InvalidInputError, "there are columns 0 to 7"),
        (GaussianPrior(scale="evidence", groups=[[0], []]), InvalidInputError, "Group 1 has no columns"),
        (GaussianPrior(scale="evidence", groups="all"), UnknownNameError, "Known: 'each'"),
        (GaussianPrior(scale="cv", groups="each"), InvalidInputError, "groups= is for scale='evidence'"),
        (GaussianPrior(scale="cv", cv=1), InvalidInputError, "number of folds from 2"),
        (GaussianPrior(scale="cv", cv="five"), InvalidTypeError, "a number of folds, a splitter"),
        (GaussianPrior(scale="cv", cv=[([0, 1], [99])]), InvalidInputError, "row numbers from 0 to 59"),
        (GaussianPrior(scale="cv", scales=[1.0, -1.0]), InvalidInputError, "positive numbers"),
        (GaussianPrior(scale="loo", scales="wide"), InvalidTypeError, "list of numbers"),
        (GaussianPrior(covariance=[[1.0, 2.0], [2.0, 1.0]]), InvalidInputError, "its size must be one of 8"),
        (
            GaussianPrior(covariance=np.eye(8) - 0.5),
            InvalidInputError,
            "not positive definite: its smallest eigenvalue",
        ),
    ],
)
def test_bad_requests_are_refused_in_words(prior: GaussianPrior, error: type, words: str) -> None:
    X, y = make(0, N=60)
    model = LogisticRegression(prior)
    with pytest.raises(error, match=words):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


def test_other_models_refuse_an_open_width() -> None:
    from oddsmith import LeastSquaresClassifier

    X, y = make(0, N=60)
    with pytest.raises(InvalidInputError, match="can select the scale"):
        LeastSquaresClassifier(prior=GaussianPrior(scale="evidence")).fit(X, y)


@pytest.mark.parametrize("scale", ["evidence", "loo", "cv"])
def test_width_in_function_space_is_the_same_whether_rows_are_kept_or_not(
    scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + rng.logistic(size=len(X)) > 1.0
    model = LogisticRegression(GaussianPrior(scale=scale, space="function"), basis=GaussianKernel(1.0, landmarks=20))
    kept = model.fit(X, y).prior_.scale
    monkeypatch.setattr(MemorySource, "kept", lambda source: source)
    assert np.isclose(model.fit(X, y).prior_.scale, kept, rtol=1e-2)


@pytest.mark.parametrize("cv", [[(0, 1)], [5], [([True, False], [False, True])], [([0.5, 1.0], [2.0])], [([-1], [0])]])
def test_folds_that_are_no_row_numbers_are_refused(cv: list) -> None:
    X, y = make(0, 40, 2)
    with pytest.raises(OddsmithError):
        LogisticRegression(GaussianPrior(scale="cv", cv=cv)).fit(X, y)


@pytest.mark.parametrize("groups", [5, [None], [[0.5]]])
def test_groups_that_name_no_columns_are_refused(groups: object) -> None:
    X, y = make(0, 40, 2)
    with pytest.raises(OddsmithError, match="groups"):
        LogisticRegression(GaussianPrior(scale="evidence", groups=groups)).fit(X, y)


def test_a_width_for_each_column_whatever_its_units_or_if_it_is_constant() -> None:
    X, y = make(1, N=150, D=3)
    each = GaussianPrior(scale="evidence", groups="each")
    found = LogisticRegression(each).fit(X, y).selection_.width
    units = np.array([1e8, 1.0, 1e-8])
    assert np.allclose(LogisticRegression(each).fit(X * units, y).selection_.width * units, found, rtol=1e-3)
    constant = np.column_stack([X, np.full(len(X), 7.0)])
    assert np.allclose(LogisticRegression(each).fit(constant, y).selection_.width[:3], found, rtol=1e-3)


def test_comparison_keeps_the_space_of_the_prior() -> None:
    X, y = make(2, N=150, D=2)
    how = {"basis": GaussianKernel(2.0, landmarks=10)}
    model = LogisticRegression(GaussianPrior(scale=1.0, space="function"), **how)
    found = compare_widths(X, y, model=model).selections["evidence"]
    assert found.prior.space == "function"
    alone = LogisticRegression(GaussianPrior(scale="evidence", space="function"), **how).fit(X, y)
    assert np.isclose(found.width, alone.selection_.width, rtol=1e-4)
    with pytest.raises(InvalidInputError, match="has a covariance"):
        compare_widths(X, y, model=LogisticRegression(GaussianPrior(covariance=[1.0, 2.0])))
    with pytest.raises(InvalidTypeError, match="needs a LogisticRegression"):
        compare_widths(X, y, model=Polynomial())


@pytest.mark.parametrize(
    "scale, words",
    [
        ("loo", "only one of its class"),
        ("cv", "which has 1 rows in all. Leave out a class that rare"),
    ],
)
def test_a_class_of_one_row_cannot_be_left_out(scale: str, words: str) -> None:
    X, _ = make(2, N=30, D=2)
    with pytest.raises(InvalidInputError, match=words):
        LogisticRegression(GaussianPrior(scale=scale)).fit(X, np.arange(30) == 4)


def test_rows_of_no_weight_are_in_no_fold() -> None:
    X, y = make(3, N=60, D=2)
    more, weight = np.vstack([X, 50.0 * X, 50.0 * X]), np.r_[np.ones(60), np.zeros(120)]
    prior = GaussianPrior(scale="cv", scales=[0.1, 1.0, 10.0])
    alone = LogisticRegression(prior, seed=1).fit(X, y).selection_.table
    among = LogisticRegression(prior, seed=1).fit(more, np.r_[y, 1 - y, y], sample_weight=weight).selection_.table
    assert np.allclose(among["log_loss"], alone["log_loss"], rtol=1e-4)
    halves = GaussianPrior(scale="cv", cv=[(np.arange(60), np.arange(60, 180))])
    with pytest.raises(InvalidInputError, match="weight 0"):
        LogisticRegression(halves).fit(more, np.r_[y, 1 - y, y], sample_weight=weight)


def test_the_minimum_of_a_curve_and_the_smallest_scale_near_it() -> None:
    assert lowest(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.0, 1.0])) == (1.0, False)
    loss, error = np.array([0.5, 0.42, 0.4]), np.array([0.1, 0.05, 0.03])
    assert one_standard_error(np.array([0.1, 1.0, 10.0]), loss, error) == 1


def test_a_scale_for_each_factor_is_that_of_its_columns() -> None:
    """``groups="factor"`` names no columns; the levels of each category share a scale, and the numbers one more."""
    import polars

    rng = np.random.default_rng(5)
    city, kind, x = rng.integers(0, 12, 1500), rng.integers(0, 4, 1500), rng.normal(size=(1500, 2))
    a = 1.2 * rng.normal(size=12)[city] + 0.1 * rng.normal(size=4)[kind] + 0.5 * x[:, 0]
    y = rng.random(1500) < 1.0 / (1.0 + np.exp(-a))
    columns = {"city": [f"c{i:02d}" for i in city], "u": x[:, 0], "kind": [f"k:{i}" for i in kind], "v": x[:, 1]}
    table = polars.DataFrame(columns)
    found = LogisticRegression(GaussianPrior("evidence", groups="factor")).fit(table, y)
    names = [str(name) for name in found.design_.get_feature_names_out()]
    groups = [[name for name in names if name.startswith(f"{column}[")] for column in ("city", "kind")]
    design = Design(reference="mean")  # which groups="factor" implies
    named = LogisticRegression(GaussianPrior("evidence", groups=[*groups, ["u", "v"]]), design=design).fit(table, y)
    np.testing.assert_allclose(found.coef_, named.coef_, atol=1e-8)
    scales = dict(zip(names, np.sqrt(np.asarray(found.prior_.covariance)), strict=True))
    assert scales["city[c01]"] == scales["city[c11]"] > 2.0 * scales["kind[k:1]"]
    assert scales["u"] == scales["v"] != scales["city[c01]"]
    with pytest.raises(InvalidInputError, match=r"'column'.*'each', 'factor'"):
        LogisticRegression(GaussianPrior("evidence", groups="column")).fit(table, y)


@pytest.mark.parametrize("form", ["dense", "sparse", "table", "many levels"])
def test_cross_validated_losses_are_those_of_fits_however_rare_a_column(
    monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A sample of the rows hardly has such a column, so its Hessian would lead far away at large scales."""
    rng = np.random.default_rng(8)
    level = np.zeros(40_000, dtype=int)
    level[:360] = np.repeat(np.arange(1, 61), 6)
    x = rng.normal(size=(40_000, 2))
    y = (x[:, 0] + 2.0 * (level % 3 == 1) - (level % 3 == 2) + rng.logistic(size=40_000) > 0).astype(int)
    X: object = np.column_stack([x, level[:, None] == np.arange(1, 61)]).astype(float)
    if form == "sparse":
        X = sparse.csr_matrix(X)
    elif form != "dense":
        monkeypatch.setattr(design_table, "SPLIT_ELEMENTS", 0)
        X = pd.DataFrame({"u": x[:, 0], "v": x[:, 1], "level": pd.Categorical(level)})
    if form == "many levels":
        set_policy(monkeypatch, largest_hessian=3, eliminated_columns=1, eliminated_levels=2)
    scales, fold = np.geomspace(0.1, 100.0, 12), np.arange(40_000) % 2
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(2)]
    found = LogisticRegression(GaussianPrior("cv", scales=scales, cv=splits)).fit(X, y).selection_.to_dict()
    taken = X.iloc if isinstance(X, pd.DataFrame) else X
    for scale, loss in list(zip(scales, found["log_loss"], strict=True))[-4::3]:
        expected = []
        for train, test in splits:
            model = LogisticRegression(scale).fit(taken[train], y[train])
            expected.append(-np.log(model.predict_proba(taken[test])[np.arange(len(test)), y[test]]).mean())
        assert loss == pytest.approx(np.mean(expected), abs=5e-6)


def test_a_search_that_stops_early_shows_a_few_of_many_scales() -> None:
    rng = np.random.default_rng(0)
    X = np.eye(30)[np.arange(300) % 30]
    with pytest.warns(ConvergenceWarning, match=r"is the scale ([\d.e+-]+, ){4}[\d.e+-]+ and 25 more\. Give a number"):
        LogisticRegression(GaussianPrior(groups="each")).fit(
            X + 1e-3 * rng.normal(size=X.shape), np.arange(300) % 30 < 15
        )
