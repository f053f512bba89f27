"""Whole paths of a Laplace prior: each point is the fit at its scale, and the choice of a scale is what it says."""

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import KFold, StratifiedKFold

from oddsmith import (
    Design,
    GaussianPrior,
    LaplacePrior,
    LogisticRegression,
    ProbitRegression,
    Standardize,
    regularization_path,
)
from oddsmith.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError, NeedsMemoryError, UnknownNameError

X, Y = load_breast_cancer(return_X_y=True)
X = (X[:, :8] - X[:, :8].mean(axis=0)) / X[:, :8].std(axis=0)
IRIS, SPECIES = load_iris(return_X_y=True)
RNG = np.random.default_rng(0)


def loss(model, rows, labels, weight=None):
    """Mean log loss of some rows."""
    log_p = model.predict_log_proba(rows)[np.arange(len(labels)), np.searchsorted(model.classes_, labels)]
    return -np.average(log_p, weights=weight)


CASES = {
    "two classes": (X, Y, {}),
    "softmax": (IRIS, SPECIES, {}),
    "reference": (IRIS, SPECIES, {"reference": 1}),
    "groups of classes": (IRIS, SPECIES, {"prior": LaplacePrior(1.0, groups="class")}),
    "elastic net": (X, Y, {"prior": LaplacePrior(1.0, gaussian=0.5)}),
    "groups": (X, Y, {"prior": LaplacePrior(1.0, groups=[[0, 1], [2, 3, 4]])}),
    "free column": (X, Y, {"prior": LaplacePrior(1.0, factors=[0.0] + [1.0] * 7)}),
    "no intercept": (X, Y, {"fit_intercept": False}),
    "probit": (X, Y, {"model": ProbitRegression()}),
    "sparse rows": (sparse.csr_array(np.where(np.abs(X) < 0.3, 0.0, X)), Y, {}),
    "basis": (X, Y, {"basis": Standardize()}),
    "weights": (X, Y, {"sample_weight": RNG.integers(0, 3, len(Y)).astype(float)}),
    "offset": (IRIS, SPECIES, {"offset": RNG.normal(size=(150, 3))}),
    "class weights": (X, Y, {"class_weight": "balanced"}),
}


@pytest.mark.parametrize("name", CASES)
def test_point_equals_the_fit_at_its_scale(name):
    rows, labels, options = CASES[name]
    path = regularization_path(rows, labels, n=6, tol=1e-11, **options)
    assert (path.gap <= 1e-11).all()
    assert (np.diff(path.scales) > 0).all()
    D, K = rows.shape[1], len(np.unique(labels))
    assert path.weights.shape == ((6, D + 1) if K == 2 else (6, D + 1, K))
    assert path.n_selected[0] == (1 if name == "free column" else 0)
    assert path.n_selected[-1] > 0
    found = path.model(float(path.scales[3]))
    data = {key: options[key] for key in ("sample_weight", "offset") if key in options}
    parameters = {k: v for k, v in options.items() if k not in (*data, "prior", "model")}
    model = options.get("model", LogisticRegression()).set_params(prior=found.prior, tol=1e-11, **parameters)
    fitted = model.fit(rows, labels, **data)
    W = path.weights[3] if K > 2 else path.weights[3][:, None]
    np.testing.assert_array_equal(found.coef_, W[1:].T)
    np.testing.assert_array_equal(found.intercept_, W[0])
    np.testing.assert_allclose(found.coef_, fitted.coef_, rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(found.log_likelihood_, fitted.log_likelihood_, rtol=1e-5)
    assert found.n_parameters_ == fitted.n_parameters_ == path.n_parameters[3]
    assert found.selected_ == fitted.selected_ == path.selected(float(path.scales[3]))
    theirs, ours = fitted.summary(), found.summary()
    np.testing.assert_allclose(ours.null_log_likelihood, theirs.null_log_likelihood, rtol=1e-9)
    assert sorted(ours.term) == sorted(theirs.term)
    np.testing.assert_allclose(found.predict_proba(rows), fitted.predict_proba(rows), atol=1e-4)


def test_model_of_a_table_reads_the_table():
    import pandas

    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(
        word=np.array(["x", "y", "z"])[np.digitize(X[:, 7], [-0.5, 0.5])], y=np.where(Y, "yes", "no")
    )
    path = regularization_path(frame, "y", n=12, prior=LaplacePrior(1.0, groups="factor"), design=Design(), cv=3)
    model = path.model("min")
    assert path.names.tolist() == ["a", "b", "c", "word[y]", "word[z]"]
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(frame, frame["y"]) > 0.85
    both = [{"word[y]", "word[z]"} & set(path.selected(float(s))) for s in path.scales]
    assert {len(names) for names in both} == {0, 2}


@pytest.mark.parametrize("name", ["two classes", "softmax", "probit", "weights", "basis", "reference"])
def test_loss_of_folds_equals_that_of_models(name):
    rows, labels, options = CASES[name]
    splits = list(StratifiedKFold(3, shuffle=True, random_state=0).split(rows, labels))
    scales = [0.05, 0.3]
    if name == "basis":  # learned from all rows
        rows, options = Standardize().fit_transform(rows), {}
    path = regularization_path(rows, labels, scales=scales, cv=splits, tol=1e-10, **options)
    weight = options.get("sample_weight", np.ones(len(labels)))
    parameters = {k: v for k, v in options.items() if k not in ("sample_weight", "model")}
    expected = np.empty((3, 2))
    for i, (train, test) in enumerate(splits):
        for j, scale in enumerate(scales):
            model = options.get("model", LogisticRegression()).set_params(prior=LaplacePrior(scale), **parameters)
            model.fit(rows[train], labels[train], sample_weight=weight[train])
            expected[i, j] = loss(model, rows[test], labels[test], weight[test])
    np.testing.assert_allclose(path.cv_loss, expected.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(path.cv_error, expected.std(axis=0, ddof=1) / np.sqrt(3), rtol=1e-2)


def test_choices():
    path = regularization_path(X, Y, n=25, cv=5)
    k = path.index("min")
    assert path.cv_loss[k] == path.cv_loss.min()
    near = path.scales[path.cv_loss <= path.cv_loss[k] + path.cv_error[k]]
    assert path.best("1se") == near.min() < path.best("min")
    np.testing.assert_allclose(path.aic, -2 * path.log_likelihood + 2 * path.n_parameters)
    assert path.best("aic") == path.scales[np.argmin(path.aic)]
    assert path.best("bic") <= path.best("aic")
    assert path.best("ebic", gamma=0.0) == path.best("bic")
    k = path.n_selected  # C(8, k) models of k columns
    extra = [2 * np.log([1, 8, 28, 56, 70, 56, 28, 8, 1][i]) for i in k]
    np.testing.assert_allclose(path.ebic(1.0) - path.bic, extra, atol=1e-9)
    assert path.model("1se").summary().aic == pytest.approx(path.aic[path.index("1se")])


def test_cv_is_a_number_a_splitter_or_rows_and_does_not_depend_on_threads():
    splitter = KFold(4, shuffle=True, random_state=3)
    given = {"scales": [0.02, 0.1, 0.5]}
    one = regularization_path(X, Y, cv=splitter, threads=1, **given)
    two = regularization_path(X, Y, cv=list(splitter.split(X)), threads=2, **given)
    np.testing.assert_array_equal(one.cv_loss, two.cv_loss)
    np.testing.assert_array_equal(one.weights, two.weights)
    first, again = (regularization_path(X, Y, cv=4, seed=1, **given) for _ in range(2))
    np.testing.assert_array_equal(first.cv_loss, again.cv_loss)
    assert (regularization_path(X, Y, cv=4, seed=2, **given).cv_loss != first.cv_loss).all()


def test_record_prints_becomes_a_frame_and_can_be_pickled():
    path = regularization_path(IRIS, SPECIES, n=5, cv=3)
    assert list(path.to_dict()) == ["scale", "n_selected", "log_likelihood", "gap", "aic", "bic", "cv_loss", "cv_error"]
    assert path.to_pandas().shape == (5, 8)
    assert path.to_polars().height == len(path) == 5
    assert len(str(path).splitlines()) == 6
    assert "<table>" in path._repr_html_()
    table = path.weight_table()
    np.testing.assert_array_equal(table["x2[0]"], path.weights[:, 3, 0])
    again = pickle.loads(pickle.dumps(path))
    np.testing.assert_array_equal(again.model("min").coef_, path.model("min").coef_)
    assert len(pickle.dumps(path)) < 20_000  # no rows in it


def test_refuses_what_it_cannot_do(tmp_path):
    with pytest.raises(InvalidTypeError, match=r"This needs a LaplacePrior, found prior=GaussianPrior\(scale=1.0\)"):
        regularization_path(X, Y, prior=GaussianPrior(1.0))
    with pytest.raises(InvalidInputError, match="scales must be positive numbers, at least one; found"):
        regularization_path(X, Y, scales=[0.0, 1.0])
    with pytest.raises(InvalidTypeError, match="scales must be a list of numbers"):
        regularization_path(X, Y, scales="many")
    with pytest.raises(InvalidInputError, match="at least 2, found 1"):
        regularization_path(X, Y, n=1)
    with pytest.raises(InvalidInputError, match="No column has any relation"):
        regularization_path(np.zeros((6, 2)), [0, 1, 0, 1, 0, 1])
    path = regularization_path(X, Y, scales=[0.1, 1.0])
    with pytest.raises(InvalidInputError, match="'min' needs cross-validation: pass cv="):
        path.best()
    with pytest.raises(UnknownNameError, match=r"'mini'.*Did you mean 'min'"):
        path.model("mini")
    with pytest.raises(InvalidInputError, match=r"0\.2 is not a scale of this path; the nearest is 0.1"):
        path.model(0.2)
    with pytest.raises(InvalidInputError, match="needs at least two folds"):
        regularization_path(X, Y, scales=[0.1, 1.0], cv=[(np.arange(300), np.arange(300, 569))]).best("1se")
    np.savetxt(tmp_path / "t.csv", np.column_stack([X[:50, :2], Y[:50]]), delimiter=",", header="a,b,y", comments="")
    with pytest.raises(NeedsMemoryError, match="rows in memory"):
        regularization_path(str(tmp_path / "t.csv"), "y", n=3, cv=3)


def test_path_of_a_file_equals_that_of_its_rows(tmp_path):
    np.savetxt(tmp_path / "t.csv", np.column_stack([X[:, :3], Y]), delimiter=",", header="a,b,c,y", comments="")
    path = regularization_path(str(tmp_path / "t.csv"), "y", n=5, tol=1e-11)
    rows = regularization_path(X[:, :3], Y, n=5, tol=1e-11)
    np.testing.assert_allclose(path.weights, rows.weights, rtol=1e-5, atol=1e-6)
    assert path.names.tolist() == ["a", "b", "c"]


def test_points_that_are_not_certified_are_a_warning():
    with pytest.warns(ConvergenceWarning, match=r"of 4 points of the path are not certified.*requested: 1e-07"):
        path = regularization_path(X, Y, n=4, max_iter=1)
    assert (path.gap > 1e-7).any()
    assert not path.model(float(path.scales[int(np.argmax(path.gap))])).certificate_.converged


def test_separated_classes_have_a_path():
    rows = np.column_stack([np.linspace(-1, 1, 30), RNG.normal(size=30)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = regularization_path(rows, rows[:, 0] > 0, n=8)
    assert (path.gap <= 1e-7).all()
    assert np.abs(path.weights[-1]).max() > 5
