"""Every display keeps to one convention, and refuses what it cannot draw in a sentence."""

import inspect
from collections.abc import Callable
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import SVC

from oddsmith import (
    GaussianClassifier,
    GaussianPrior,
    LogisticRegression,
    NaiveBayes,
    OneVsOne,
    PerceptronClassifier,
    compare_widths,
    gradient_descent,
    plots,
    regularization_path,
    stability,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, NotFittedError, SeparationWarning, UnknownNameError
from oddsmith.evaluation import roc_curve
from oddsmith.plots import Display
from oddsmith.plots.weight_paths import spread_apart

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2))
TWO = np.where(X[:, 0] + 0.8 * RNG.normal(size=90) > 0, "yes", "no")
THREE = np.array(["a", "b", "c"])[np.digitize(X[:, 0] + 0.5 * RNG.normal(size=90), [-0.5, 0.5])]


def logistic(y: Any = TWO, **options: Any) -> Any:
    return LogisticRegression(**options).fit(X, y)


def bowl(x: Any) -> float:
    return float(x @ x)


MAKE: dict[str, Callable[[], Display]] = {
    "ClassDensityDisplay": lambda: plots.ClassDensityDisplay.from_estimator(
        GaussianClassifier("separate").fit(X[:, :1], THREE), X[:, :1]
    ),
    "CoefficientDisplay": lambda: plots.CoefficientDisplay.from_estimator(logistic(THREE)),
    "ComparisonDisplay": lambda: plots.ComparisonDisplay.from_models(
        {"naive": NaiveBayes(), "perceptron": PerceptronClassifier(max_epochs=5), "broken": SVC(C=-1.0)}, X, TWO, cv=2
    ),
    "CostDisplay": lambda: plots.CostDisplay.from_estimator(logistic(), X, TWO, [[0, 1], [4, 0]]),
    "DecisionRegionDisplay": lambda: plots.DecisionRegionDisplay.from_estimator(logistic(THREE), X, THREE),
    "InfluenceDisplay": lambda: plots.InfluenceDisplay.from_estimator(logistic(THREE), X, THREE),
    "LaplaceDisplay": lambda: plots.LaplaceDisplay.from_density(lambda x: -(x**2) - 0.1 * x**4, 1.0),
    "LinkDisplay": lambda: plots.LinkDisplay.from_links("logit"),
    "PathDisplay": lambda: plots.PathDisplay.from_paths(
        bowl, {"down": gradient_descent(bowl, lambda x: 2 * x, [1.0, 2.0], step_size=0.2)}
    ),
    "PosteriorMapDisplay": lambda: plots.PosteriorMapDisplay.from_estimator(logistic(THREE), X, THREE, resolution=20),
    "PrecisionRecallDisplay": lambda: plots.PrecisionRecallDisplay.from_estimator(logistic(), X, TWO),
    "ProfileDisplay": lambda: plots.ProfileDisplay.from_estimator(logistic(), X, TWO, "x0", points=12),
    "ReliabilityDisplay": lambda: plots.ReliabilityDisplay.from_estimator(logistic(THREE), X, THREE, bins=4),
    "ResidualDisplay": lambda: plots.ResidualDisplay.from_estimator(logistic(THREE), X, THREE, label="b"),
    "RiskCoverageDisplay": lambda: plots.RiskCoverageDisplay.from_estimator(logistic(THREE), X, THREE),
    "RocDisplay": lambda: plots.RocDisplay.from_estimator(logistic(), X, TWO),
    "TraceDisplay": lambda: plots.TraceDisplay.from_estimator({"one": logistic(), "two": logistic(prior=0.1)}),
    "UncertaintyMapDisplay": lambda: plots.UncertaintyMapDisplay.from_estimator(
        logistic(THREE, prior=1.0), X, THREE, resolution=8
    ),
    "CrossValidationDisplay": lambda: plots.CrossValidationDisplay.from_path(regularization_path(X, TWO, n=8, cv=3)),
    "StabilityDisplay": lambda: plots.StabilityDisplay.from_stability(stability(X, TWO, n=4, scale=0.2)),
    "WeightPathDisplay": lambda: plots.WeightPathDisplay.from_path(regularization_path(X, THREE, n=8)),
    "WidthDisplay": lambda: plots.WidthDisplay.from_comparison(compare_widths(X, TWO, scales=[0.1, 1.0, 10.0])),
}


@pytest.fixture(scope="module")
def displays() -> dict[str, Display]:
    made = {name: make() for name, make in MAKE.items()}
    plt.close("all")
    return made


def test_every_public_display_is_tested() -> None:
    public = {name for name in plots.__all__ if name.endswith("Display")} - {"Display"}
    assert public == set(MAKE)


@pytest.mark.parametrize("name", MAKE)
def test_display_draws_on_new_axes_and_on_given_ones_alike(name: str, displays: dict[str, Display]) -> None:
    before = dict(matplotlib.rcParams)
    display = displays[name]
    assert display.plot() is display
    assert plt.get_fignums() == [display.figure_.number]
    first = [ax.get_xlabel() for ax in display.axes_], [len(ax.get_children()) for ax in display.axes_]
    assert (display.axes_[-1].get_xlabel() and display.ax_.get_ylabel()) or name in {
        "CoefficientDisplay",
        "ComparisonDisplay",
        "StabilityDisplay",
    }

    own, axes = plt.subplots(1, len(display.axes_), squeeze=False)
    display.plot(axes.ravel() if len(display.axes_) > 1 else axes[0, 0])
    assert display.figure_ is own and display.ax_ is axes[0, 0] and len(plt.get_fignums()) == 2
    assert [len(ax.get_children()) for ax in display.axes_] == first[1] or name == "WidthDisplay"
    assert dict(matplotlib.rcParams) == before
    own.canvas.draw()  # no warning of a missing glyph or of a layout that collapses


@pytest.mark.parametrize("name", MAKE)
def test_display_refuses_a_wrong_number_of_axes(name: str, displays: dict[str, Display]) -> None:
    _, axes = plt.subplots(1, 7)
    with pytest.raises(InvalidInputError, match="panels"):
        displays[name].plot(axes)
    with pytest.raises((InvalidInputError, InvalidTypeError), match="axes"):
        displays[name].plot("axes")


@pytest.mark.parametrize("name", [n for n in MAKE if hasattr(getattr(plots, n), "from_estimator")])
def test_display_refuses_models_that_are_not_fitted(name: str) -> None:
    make = getattr(plots, name).from_estimator
    wanted = [p.name for p in inspect.signature(make).parameters.values() if p.default is p.empty]
    arguments = {"X": X, "y": TWO, "term": "x0"}
    given = [arguments[p] for p in wanted[1:] if p in arguments]
    with pytest.raises((NotFittedError, InvalidTypeError, InvalidInputError)):
        make(LogisticRegression(), *given)


def test_regions_are_what_the_model_predicts_at_every_point_of_the_grid() -> None:
    for model in (logistic(THREE), GaussianClassifier("separate").fit(X, THREE), OneVsOne(NaiveBayes()).fit(X, THREE)):
        d = plots.DecisionRegionDisplay.from_estimator(model, X, THREE, resolution=30)
        rows = np.stack(np.meshgrid(d.x, d.y), axis=-1).reshape(-1, 2)
        assert (np.array(d.classes)[d.regions.ravel()] == model.predict(rows)).all()
        assert (d.lead.argmax(axis=2) == d.regions).all() and (np.sort(d.lead, axis=2)[:, :, -2] <= 0).all()
        assert d.lead.max() != 1.0, "taken from the values of the model, not from its answers"


def test_regions_of_scikit_learn_models_whose_values_do_not_decide() -> None:
    for model in (RidgeClassifier().fit(X, TWO), SVC(decision_function_shape="ovo").fit(X, THREE)):
        d = plots.DecisionRegionDisplay.from_estimator(model, X, resolution=20)
        rows = np.stack(np.meshgrid(d.x, d.y), axis=-1).reshape(-1, 2)
        assert (np.array(d.classes)[d.regions.ravel()] == model.predict(rows)).all()
        assert d.points is None and len(d.plot().ax_.get_legend().get_texts()) == len(d.classes)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_tables_give_names_and_the_other_columns_are_held(library: str) -> None:
    columns = {"size": X[:, 0], "weight": X[:, 1], "kind": np.where(X[:, 1] > 1.0, "rare", "usual"), "label": TWO}
    module = pytest.importorskip(library)
    table = module.table(columns) if library == "pyarrow" else module.DataFrame(columns)
    model = LogisticRegression(prior=1.0).fit(table, y="label")
    make = plots.DecisionRegionDisplay.from_estimator
    d = make(model, table, "label", columns=("weight", "size"), resolution=10).plot()
    assert (d.ax_.get_xlabel(), d.ax_.get_ylabel()) == ("weight", "size")
    other = plots.PosteriorMapDisplay.from_estimator(
        model, table, "label", columns=("weight", "size"), at={"kind": "rare"}, resolution=10
    )
    same = plots.PosteriorMapDisplay.from_estimator(
        model, table, "label", columns=("weight", "size"), at={"kind": "usual"}, resolution=10
    )
    default = plots.PosteriorMapDisplay.from_estimator(model, table, "label", columns=("weight", "size"), resolution=10)
    assert np.array_equal(default.proba, same.proba) and not np.allclose(default.proba, other.proba)
    with pytest.raises(UnknownNameError, match="Did you mean 'weight'"):
        make(model, table, "label", columns=("wieght", "size"))
    with pytest.raises(InvalidInputError, match="'kind' is not numeric"):
        make(model, table, "label", columns=("kind", "size"))


def test_other_columns_may_be_dates_truths_words_or_missing() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["size", "weight"])
    table["day"] = pandas.to_datetime("2024-01-01") + pandas.to_timedelta(np.arange(90) % 7, unit="D")
    table["old"] = X[:, 1] > 0.5
    table["kind"] = pandas.Categorical(np.where(X[:, 0] > 1.0, "rare", "usual"))
    table["count"] = np.arange(90) % 5
    model = LogisticRegression(prior=1.0).fit(table, TWO)
    d = plots.DecisionRegionDisplay.from_estimator(model, table, TWO, columns=("size", "weight"), resolution=10)
    row = table.iloc[[0]].assign(
        size=d.x[3], weight=d.y[4], day=table["day"].mode()[0], old=False, kind="usual", count=2
    )
    assert d.classes[d.regions[4, 3]] == model.predict(row)[0]


def test_map_of_five_classes_leaves_no_empty_panel() -> None:
    y = np.digitize(X[:, 0], [-1.0, -0.3, 0.3, 1.0])
    d = plots.PosteriorMapDisplay.from_estimator(GaussianClassifier().fit(X, y), X, y, resolution=10).plot()
    assert len(d.axes_) == 5 == len(d.figure_.axes) - 1  # and the colour bar
    assert len(d.plot(label=3).axes_) == 1
    with pytest.raises(UnknownNameError, match="class"):
        d.plot(label=7)


def test_densities_of_a_named_column_of_a_table() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"height": X[:, 0], "label": TWO})
    model = GaussianClassifier("separate").fit(table, y="label")
    for seen in (None, table, table.drop_columns("label")):
        d = plots.ClassDensityDisplay.from_estimator(model, seen)
        assert d.name == "height" and d.x[0] < -1.5 < 1.5 < d.x[-1]
        best = np.array(d.classes)[d.posterior.argmax(axis=1)]
        assert (best == model.predict(pyarrow.table({"height": d.x}))).all()
        assert len(d.boundaries) == (best[1:] != best[:-1]).sum()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"columns": ("x0", "x0")}, "two different"),
        ({"limits": ((1, 0), (0, 1))}, "each in ascending order"),
        ({"limits": (0, 1)}, "each in ascending order"),
        ({"at": {"x0": 1.0}}, "column to hold"),
    ],
)
def test_bad_planes_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        plots.DecisionRegionDisplay.from_estimator(logistic(), X, TWO, **options)
    with pytest.raises(InvalidInputError, match="Choose two"):
        wide = np.column_stack([X, X[:, 0] ** 2])
        plots.PosteriorMapDisplay.from_estimator(LogisticRegression(1.0).fit(wide, TWO), wide, TWO)


def test_what_has_no_such_thing_to_draw_is_refused() -> None:
    perceptron = PerceptronClassifier().fit([[0.0, 0.0], [1.0, 1.0]], ["a", "b"])
    for make in (plots.PosteriorMapDisplay, plots.UncertaintyMapDisplay, plots.CoefficientDisplay):
        with pytest.raises(InvalidTypeError, match="PerceptronClassifier has no"):
            make.from_estimator(perceptron, X, TWO)
    for make in (plots.ProfileDisplay, plots.ResidualDisplay, plots.InfluenceDisplay):
        with pytest.raises(InvalidTypeError, match="PerceptronClassifier"):
            make.from_estimator(perceptron, X, TWO, **({"term": "x0"} if make is plots.ProfileDisplay else {}))
    with pytest.raises(InvalidTypeError, match="no class densities"):
        plots.ClassDensityDisplay.from_estimator(logistic())
    with pytest.raises(InvalidInputError, match="one column, and this model has 2"):
        plots.ClassDensityDisplay.from_estimator(GaussianClassifier().fit(X, TWO))
    with pytest.raises(InvalidTypeError, match="no selection_"):
        plots.WidthDisplay.from_estimator(logistic())
    with pytest.raises(InvalidInputError, match="without a list of scales"):
        plots.WidthDisplay.from_estimator(logistic(prior=GaussianPrior("evidence")))
    with pytest.raises(UnknownNameError, match="term"):
        plots.ProfileDisplay.from_estimator(logistic(), X, TWO, "x7")
    with pytest.raises(InvalidInputError, match="Choose one"):
        plots.ResidualDisplay.from_estimator(logistic(THREE), X, THREE)
    with pytest.raises(InvalidInputError, match="empty"):
        plots.TraceDisplay.from_estimator({})
    with pytest.raises(InvalidInputError, match="points × 2"):
        plots.PathDisplay.from_paths(bowl, np.zeros((3, 3)))
    with pytest.raises(UnknownNameError, match="Unknown link"):
        plots.LinkDisplay.from_links("logitt")
    with pytest.raises(InvalidInputError, match="does not"):
        plots.LinkDisplay.from_links("log", match_slopes=True)


def test_forest_plot_shows_endless_intervals_as_arrows() -> None:
    rows, labels = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1]
    with pytest.warns(SeparationWarning):
        model = LogisticRegression().fit(rows, labels)
    d = plots.CoefficientDisplay.from_estimator(model, rows, labels, intervals="profile").plot()
    assert np.isinf(d.upper).all() and np.isfinite(d.lower).all()
    assert [line.get_marker() for line in d.ax_.lines][-1] == ">"


def test_width_display_of_a_fit_has_its_one_curve() -> None:
    model = logistic(prior=GaussianPrior("cv", scales=[0.1, 1.0, 10.0]))
    d = plots.WidthDisplay.from_estimator(model).plot()
    assert list(d.criteria) == ["cv"] and d.chosen["cv"] == pytest.approx(model.selection_.width)


def test_of_many_rows_some_are_drawn_and_the_influential_ones_always() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(20_000, 2))
    y = rng.random(20_000) < 1 / (1 + np.exp(-2 * rows[:, 0]))
    rows[12_345], y[12_345] = [9.0, 9.0], False
    model = LogisticRegression().fit(rows, y)
    d = plots.InfluenceDisplay.from_estimator(model, rows, y).plot()
    drawn = np.concatenate([c.get_offsets() for c in d.ax_.collections])
    assert d.most(1) == [12_345] and len(d.leverage) == 20_000 and 4000 <= len(drawn) <= 4100
    assert np.isclose(drawn[:, 0], d.leverage[12_345]).any()
    regions = plots.DecisionRegionDisplay.from_estimator(model, rows, y, resolution=10).plot()
    assert len(regions.points) == 20_000
    assert sum(len(c.get_offsets()) for c in regions.ax_.collections if len(c.get_offsets()) > 1) <= 4000


def test_curves_that_were_computed_before_can_be_drawn() -> None:
    curve = roc_curve(logistic(), X, TWO)
    d = plots.RocDisplay.from_curve(curve).plot()
    assert np.array_equal(d.ax_.lines[1].get_xdata(), curve.false_positive_rate)


def test_names_from_the_data_are_text_and_never_markup() -> None:
    names = ["$\\frac{$", "_size"]
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=names)
    y = np.where(TWO == "yes", "$\\wrong{$", "_b")
    model = LogisticRegression(1.0).fit(table, y)
    made = [
        plots.DecisionRegionDisplay.from_estimator(model, table, y, resolution=10).plot(),
        plots.PosteriorMapDisplay.from_estimator(model, table, y, resolution=10).plot(),
        plots.CoefficientDisplay.from_estimator(model).plot(),
        plots.InfluenceDisplay.from_estimator(LogisticRegression().fit(table, y), table, y).plot(),
        plots.ResidualDisplay.from_estimator(LogisticRegression().fit(table, y), table, y).plot(),
        plots.ProfileDisplay.from_estimator(LogisticRegression().fit(table, y), table, y, names[0], points=6).plot(),
        plots.RocDisplay.from_estimator({"$\\no{$": model}, table, y).plot(),
        plots.TraceDisplay.from_estimator({"$\\no{$": model, "_b": model}).plot(),
    ]
    for d in made:
        d.figure_.canvas.draw()  # a formula that cannot be read would raise
    assert [text.get_text().strip() for text in made[0].ax_.get_legend().get_texts()] == ["\\$\\wrong{\\$", "_b"]


ESTIMATOR_DISPLAYS = [name for name in plots.__all__ if hasattr(getattr(plots, name), "from_estimator")]


def test_displays_made_from_an_estimator_are_drawn_at_once() -> None:
    assert len(ESTIMATOR_DISPLAYS) > 10
    for name in ESTIMATOR_DISPLAYS:
        assert "ax" in inspect.signature(getattr(plots, name).from_estimator).parameters, name
    for name, make in MAKE.items():
        plt.close("all")
        display = make()
        given = {"CrossValidationDisplay", "LaplaceDisplay", "LinkDisplay", "PathDisplay", "WeightPathDisplay"}
        drawn = name not in given | {"StabilityDisplay", "WidthDisplay"}
        assert len(plt.get_fignums()) == drawn, name
        if drawn:
            assert display.figure_.axes and any(ax.has_data() for ax in display.figure_.axes), name
            display.plot()
            assert len(plt.get_fignums()) == 1, "the drawing that nobody asked for twice is closed"


def test_a_display_is_drawn_on_the_axes_given() -> None:
    plt.close("all")
    figure, ax = plt.subplots()
    display = plots.RocDisplay.from_estimator(logistic(), X, TWO, ax=ax)
    assert display.ax_ is ax and plt.get_fignums() == [figure.number]
    plots.RocDisplay.from_estimator(logistic(), X, TWO, ax=ax).plot()
    assert len(plt.get_fignums()) == 2, "axes that were given stay"


def test_a_path_of_many_classes_has_a_panel_for_each_or_for_one() -> None:
    path = regularization_path(X, THREE, n=6)
    d = plots.path(path, choice=["aic", "bic"])
    assert [ax.get_ylabel() for ax in d.axes_] == ["weight, a", "weight, b", "weight, c"]
    assert set(d.chosen) == {"aic", "bic"}
    one = plots.path(path, label="b")
    assert len(one.axes_) == 1
    np.testing.assert_array_equal(one.weights[:, :, 0], path.weights[:, 1:, 1])
    with pytest.raises(UnknownNameError, match="class 'z'"):
        plots.path(path, label="z")
    with pytest.raises(InvalidInputError, match="not cross-validated"):
        plots.cv_curve(path)


@pytest.mark.parametrize("draw", [plots.path, plots.cv_curve])
def test_a_model_is_no_path(draw: Any) -> None:
    model = LogisticRegression(prior=1.0).fit(np.arange(6.0)[:, None], [0, 1, 0, 1, 1, 0])
    with pytest.raises(InvalidTypeError, match="the result of regularization_path; found a LogisticRegression"):
        draw(model)


def test_a_path_of_one_scale_is_drawn_in_the_middle() -> None:
    path = regularization_path(X, TWO, scales=[0.5], cv=2)
    for draw in (plots.path, plots.cv_curve):
        assert draw(path).axes_[0].get_xlim() == (0.25, 1.0)


def test_labels_are_spread_apart_as_little_as_needed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        wanted = rng.random(9)
        places = spread_apart(wanted, 0.1)
        assert (np.diff(places[np.argsort(wanted)]) >= 0.1 - 1e-12).all()
    assert spread_apart(np.array([0.9, 0.1]), 0.1).tolist() == [0.9, 0.1]
