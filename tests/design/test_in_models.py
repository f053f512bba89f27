"""Models fit tables through a design: the same bits from every library, and what a user does by hand otherwise."""

import pickle
import warnings
from typing import Any

import numpy as np
import polars
import pytest
from sklearn.base import clone
from sklearn.utils import get_tags

from oddsmith import (
    Design,
    FisherDiscriminant,
    GaussianClassifier,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsOne,
    OneVsRest,
    PerceptronClassifier,
    Polynomial,
    ProbitRegression,
    RecalibratedClassifier,
    compare,
    detect_separation,
    load,
    merge,
)
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError, OddsmithWarning
from oddsmith.models import MODELS
from oddsmith.testing import all_models

pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.errors.OddsmithWarning")

DESIGNED = [
    *(LogisticRegression(), ProbitRegression(), LeastSquaresClassifier(), FisherDiscriminant()),
    *(PerceptronClassifier(max_epochs=5), GaussianClassifier()),
]
REDUCED = [OneVsRest(), OneVsOne(), OneVsOne(LeastSquaresClassifier())]


def table(n: int = 200, seed: int = 0, K: int = 2) -> polars.DataFrame:
    rng = np.random.default_rng(seed)
    race = rng.choice(["white", "black", "other"], n)
    age, smoke = rng.normal(30.0, 5.0, n), rng.random(n) < 0.4
    a = 0.1 * (age - 30.0) + 0.8 * smoke - 0.7 * (race == "white") + rng.logistic(size=n)
    low = np.array(["no", "yes", "zero"])[np.digitize(a, [0.0, 1.0][: K - 1])]
    return polars.DataFrame({"low": low, "age": age, "race": race, "smoke": smoke})


def libraries(frame: polars.DataFrame) -> list[Any]:
    return [frame, frame.to_pandas(), frame.to_arrow()]


def by_hand(frame: polars.DataFrame) -> np.ndarray:
    race = np.array(frame["race"])
    return np.column_stack([frame["age"], race == "other", race == "white", frame["smoke"]]).astype(np.float64)


def named(model: Any) -> str:
    return f"{type(model).__name__}{type(model.model).__name__ if getattr(model, 'model', None) else ''}"


def outcome(model: Any, frame: Any) -> np.ndarray:
    return np.asarray(model.predict_proba(frame) if hasattr(model, "predict_proba") else model.decision_function(frame))


def test_every_model_but_naive_bayes_and_wrappers_takes_a_design() -> None:
    takes = {type(model) for model in all_models() if "design" in model.get_params(deep=False)}
    assert takes == {type(model) for model in DESIGNED}
    others = {kind.__name__ for _, kind in MODELS.items()} - {kind.__name__ for kind in takes}
    assert others >= {"NaiveBayes", "OneVsRest", "OneVsOne"}


@pytest.mark.parametrize(
    ("model", "K"),
    [
        pytest.param(model, K, id=f"{named(model)}-{K}")
        for model in [*DESIGNED, *REDUCED]
        for K in ([2, 3] if get_tags(model).classifier_tags.multi_class else [2])
    ],
)
def test_categories_give_the_bits_of_columns_made_by_hand(model: Any, K: int) -> None:
    frame = table(K=K)
    X, y = by_hand(frame), np.array(frame["low"])
    expected = outcome(clone(model).fit(X, y), X)
    for part in libraries(frame):
        fitted = clone(model).fit(part, "low")
        assert fitted._names().tolist() == ["age", "race[other]", "race[white]", "smoke"]
        assert fitted.feature_names_in_.tolist() == ["age", "race", "smoke"] and fitted.n_features_in_ == 3
        assert np.array_equal(outcome(fitted, part), expected)
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(outcome(again, part), expected)


@pytest.mark.parametrize("model", [NaiveBayes(), OneVsRest(NaiveBayes())], ids=named)
def test_naive_bayes_keeps_its_own_columns(model: Any) -> None:
    frame = table()
    fitted = clone(model).fit(frame, "low")
    assert not hasattr(fitted, "design_")
    P = fitted.predict_proba(frame.drop("low"))
    assert np.allclose(P.sum(axis=1), 1.0)


@pytest.mark.parametrize("model", [*DESIGNED, *REDUCED], ids=named)
def test_tables_of_numbers_and_arrays_go_as_they_are(model: Any) -> None:
    frame = table().with_columns(polars.Series("race", np.arange(200) % 3))
    X = np.ascontiguousarray(frame.drop("low").to_numpy(), dtype=np.float64)
    y = np.array(frame["low"])
    expected = outcome(clone(model).fit(X, y), X)
    fitted = clone(model).fit(table(), "low")
    assert hasattr(fitted, "design_")
    for part in libraries(frame):
        fitted.fit(part, "low")
        assert not hasattr(fitted, "design_"), "what an earlier fit learned is gone"
        rows = frame.drop("low")
        assert np.array_equal(outcome(fitted, rows), expected)


@pytest.mark.parametrize("model", DESIGNED, ids=named)
def test_later_tables_are_checked_by_name(model: Any) -> None:
    frame = table()
    fitted = clone(model).fit(frame, "low")
    expected = outcome(fitted, frame)
    assert np.array_equal(outcome(fitted, frame.select("smoke", "race", "age", polars.lit(1).alias("new"))), expected)
    for rows, match in (
        (frame.drop("age"), "Column 'age' is missing from the table"),
        (frame.with_columns(age=polars.lit("old")), "Column 'age' holds categories; in the fit it held numbers"),
        (
            frame.with_columns(race=polars.lit("green")),
            "Column 'race' has levels that did not occur in the fit: 'green'",
        ),
        (frame.with_columns(race=polars.lit(None, polars.String)), "Column 'race' has 200 missing values"),
        (by_hand(frame), "reads tables with named columns"),
    ):
        with pytest.raises(OddsmithError, match=match):
            fitted.predict(rows)


# ---------------------------------------------------------------------------------------- missing values


def with_holes(frame: polars.DataFrame) -> polars.DataFrame:
    i = np.arange(len(frame))
    return frame.with_columns(
        age=polars.when(polars.Series(i % 17 == 3)).then(None).otherwise(frame["age"]),
        race=polars.when(polars.Series(i % 23 == 5)).then(None).otherwise(frame["race"]),
    )


@pytest.mark.parametrize("model", DESIGNED, ids=named)
def test_dropped_rows_take_labels_weights_and_offsets_with_them(model: Any) -> None:
    frame = with_holes(table())
    there = np.flatnonzero(~np.array(frame["age"].is_null() | frame["race"].is_null()))
    s, offset = np.linspace(0.5, 2.0, 200), np.sin(np.arange(200.0))
    along: dict[str, np.ndarray] = {}
    if not isinstance(model, PerceptronClassifier):
        along["sample_weight"] = s
    if isinstance(model, LogisticRegression):
        along["offset"] = offset
    complete = frame[there]
    expected = clone(model).fit(complete, "low", **{name: values[there] for name, values in along.items()})
    for part in libraries(frame):
        fitted = clone(model).set_params(design=Design(missing="drop")).fit(part, "low", **along)
        assert np.array_equal(outcome(fitted, complete), outcome(expected, complete))
    for part in libraries(frame.drop("low")):
        lists = {name: values.tolist() for name, values in along.items()}
        again = clone(fitted).fit(part, frame["low"].to_list(), **lists)
        assert np.array_equal(outcome(again, complete), outcome(expected, complete))
        with pytest.raises(InvalidInputError, match=r"Column 'race' has .* left out of the fit"):
            fitted.predict(part)


def test_inference_drops_the_rows_that_the_fit_dropped() -> None:
    frame = with_holes(table())
    complete = frame.drop_nulls()
    small, whole = LogisticRegression().fit(complete, "low"), LogisticRegression(design=Design(missing="drop"))
    whole.fit(frame, "low")
    assert whole.n_rows_ == len(complete)
    left = whole.leave_one_out(frame, "low")
    assert np.array_equal(left.proba, small.leave_one_out(complete, "low").proba)
    profile = [model.summary(rows, "low", intervals="profile") for model, rows in ((whole, frame), (small, complete))]
    assert profile[0].to_dict() == profile[1].to_dict()


def test_missing_values_are_refused_by_default_and_the_message_helps() -> None:
    frame = with_holes(table())
    match = r"Column 'race' has 9 missing values .* row 5, .* Design\(missing='drop'\) or Design\(missing='indicator'\)"
    with pytest.raises(InvalidInputError, match=match):
        LogisticRegression().fit(frame, "low")


def test_indicators_are_columns_like_any_other() -> None:
    frame = with_holes(table())
    fitted = LogisticRegression(design=Design(missing="indicator")).fit(frame, "low")
    assert fitted._names().tolist() == [
        *("age", "age[missing]", "race[other]", "race[white]", "race[missing]", "smoke"),
    ]
    gone = np.array(frame["age"].is_null())
    age = np.array(frame["age"].fill_null(frame["age"].mean()))
    race = np.array(frame["race"].fill_null("?"))
    X = np.column_stack([age, gone, race == "other", race == "white", race == "?", frame["smoke"]]).astype(float)
    expected = LogisticRegression().fit(X, np.array(frame["low"]))
    np.testing.assert_allclose(fitted.coef_, expected.coef_, rtol=1e-9)
    assert np.isfinite(fitted.predict_proba(frame)).all()
    # Whatever stands for the missing numbers, the fit is the same.
    other = LogisticRegression().fit(np.column_stack([np.where(gone, 0.0, age), X[:, 1:]]), np.array(frame["low"]))
    np.testing.assert_allclose(other.log_likelihood_, fitted.log_likelihood_, rtol=1e-12)


# --------------------------------------------------------------------------------------------- formulas


@pytest.mark.parametrize("model", DESIGNED, ids=named)
def test_the_left_side_of_a_formula_is_the_target(model: Any) -> None:
    frame = table()
    expected = clone(model).fit(frame.select("low", "age", "race"), "low")
    for part in libraries(frame):
        fitted = clone(model).set_params(design=Design("low ~ age + race")).fit(part)
        assert np.array_equal(outcome(fitted, part), outcome(expected, part))
        same = clone(fitted).fit(part, "low")
        given = clone(fitted).fit(part, frame["low"].to_list())
        assert np.array_equal(outcome(same, part), outcome(expected, part))
        assert np.array_equal(outcome(given, part), outcome(expected, part))
        assert np.array_equal(outcome(fitted, frame.drop("low")), outcome(expected, part)), "it is not needed later"
    with pytest.raises(InvalidInputError, match="left-hand side of the formula is 'low', but y='smoke'"):
        clone(fitted).fit(frame, "smoke")
    with pytest.raises(InvalidInputError, match="y is None"):
        clone(model).set_params(design=Design("age + race")).fit(frame)
    with pytest.raises(OddsmithError, match="no column 'lov'"):
        clone(model).set_params(design=Design("lov ~ age + race")).fit(frame)


def test_a_constant_is_the_models_business() -> None:
    frame = table()
    for model in (LogisticRegression(), GaussianClassifier()):
        with pytest.raises(InvalidInputError, match=r"no constant \(0 or -1\)"):
            clone(model).set_params(design=Design("low ~ 0 + race")).fit(frame)
    with_it = LogisticRegression(design=Design("low ~ race + age")).fit(frame)
    without = LogisticRegression(design=Design("low ~ 0 + race + age"), fit_intercept=False).fit(frame)
    np.testing.assert_allclose(with_it.predict_proba(frame), without.predict_proba(frame), rtol=1e-9)


def test_bad_designs_are_refused() -> None:
    for wrong in ("low ~ age", True, Polynomial(2), Design):
        with pytest.raises(InvalidTypeError, match="design must be None or a Design"):
            LogisticRegression(design=wrong).fit(table(), "low")
    with pytest.raises(InvalidTypeError, match="reads tables with named columns"):
        LogisticRegression(design=Design()).fit(by_hand(table()), np.array(table()["low"]))


def test_a_refused_fit_leaves_the_model_as_it_was() -> None:
    frame = table()
    model = LogisticRegression(design=Design("low ~ age * race")).fit(frame)
    before = outcome(model, frame)
    for broken in (frame.drop("race"), frame.with_columns(low=polars.lit("no")), with_holes(frame)):
        with pytest.raises(OddsmithError):
            model.fit(broken)
        assert np.array_equal(outcome(model, frame), before)


# ----------------------------------------------------------------------------------- what else models do


def test_a_level_that_a_pair_of_classes_lacks_is_known_all_the_same() -> None:
    frame = table(300, K=3)
    frame = frame.with_columns(
        race=polars.when(polars.col("low") == "zero").then(polars.lit("only zero")).otherwise(polars.col("race"))
    )
    model = OneVsOne(LogisticRegression(prior=1.0)).fit(frame, "low")
    assert len(model.predict(frame)) == 300
    own = OneVsRest(LogisticRegression(prior=1.0, design=Design("age + race"))).fit(frame, "low")
    assert not hasattr(own, "design_") and own.coef_.shape == (3, 4)
    assert len(own.predict(frame.drop("low"))) == 300


def test_many_levels_are_fitted_sparse() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    frame = polars.DataFrame(
        {"city": [f"c{i}" for i in rng.integers(0, 300, n)], "x": rng.normal(size=n), "y": rng.random(n) < 0.4}
    )
    model = LogisticRegression(prior=1.0).fit(frame, "y")
    assert model.design_.sparse_ and model.coef_.shape == (1, 300) and model.certificate_.converged
    dense = LogisticRegression(prior=1.0).fit(model.design_.transform(frame).toarray(), np.array(frame["y"]))
    np.testing.assert_allclose(model.coef_, dense.coef_, atol=1e-5)


def test_updates_and_batches_read_through_the_first_design() -> None:
    frame = table(400)
    model = LogisticRegression(prior=1.0).fit(frame[:200], "low").update(frame[200:], "low")
    assert model.n_rows_ == 400 and model.coef_.shape == (1, 4)
    online = LogisticRegression(seed=0).partial_fit(frame[:200].drop("low"), frame[:200]["low"], classes=["no", "yes"])
    assert online.partial_fit(frame[200:].drop("low"), frame[200:]["low"]).coef_.shape == (1, 4)
    both = GaussianClassifier().partial_fit(frame[:200], "low").partial_fit(frame[200:], "low")
    np.testing.assert_allclose(both.means_, GaussianClassifier().fit(frame, "low").means_, rtol=1e-12)


def test_models_of_like_designs_merge() -> None:
    frame = table(400)
    for model in (GaussianClassifier(), LeastSquaresClassifier(), FisherDiscriminant()):
        parts = [clone(model).fit(part, "low") for part in (frame[:200], frame[200:])]
        whole = clone(model).fit(frame, "low")
        np.testing.assert_allclose(outcome(merge(*parts), frame), outcome(whole, frame), rtol=1e-9)
        other = clone(model).set_params(design=Design(missing="indicator"))
        holes = [clone(other).fit(with_holes(part), "low") for part in (frame[:200], frame[200:])]
        with pytest.raises(InvalidInputError, match="designs are equal"):
            merge(*holes)
    with pytest.raises(InvalidInputError, match="With basis functions or a design"):
        GaussianClassifier().fit(frame, "low").sample(3)


@pytest.mark.parametrize("model", [*DESIGNED, *REDUCED], ids=named)
def test_designs_are_kept_in_model_files(model: Any, tmp_path: Any) -> None:
    frame = table()
    formulas = (
        "low ~ race * scale(age) + smoke",
        "low ~ race + spline(age, 4)",
        "low ~ poly(age, 2) + center(age):smoke",
    )
    designs = [Design(formula, unseen="reference", missing="indicator") for formula in formulas]
    for design in designs if "design" in model.get_params(deep=False) else [None]:
        fitted = clone(model) if design is None else clone(model).set_params(design=design)
        fitted.fit(frame if design is None else with_holes(frame), "low").save(tmp_path / "m.odds")
        again = load(tmp_path / "m.odds")
        assert np.array_equal(outcome(again, frame), outcome(fitted, frame))
        assert again._names().tolist() == fitted._names().tolist()


def test_other_forms_of_a_model_read_tables_as_it_does() -> None:
    frame = table()
    other = frame.select("smoke", "race", "age", polars.lit(1).alias("new"))
    prior = {"no": 0.9, "yes": 0.1}
    for model in (LogisticRegression(), ProbitRegression(), GaussianClassifier(), FisherDiscriminant()):
        moved = clone(model).fit(frame, "low").with_class_prior(prior)
        assert np.array_equal(moved.predict_proba(other), moved.predict_proba(frame))
    calibrated = RecalibratedClassifier(LogisticRegression(prior=1.0)).fit(frame, "low")
    assert np.array_equal(calibrated.predict_proba(other), calibrated.predict_proba(frame))
    result = compare({"all": LogisticRegression(), "age": LogisticRegression(design=Design("age"))}, frame, "low", cv=3)
    assert sorted(result.columns["model"]) == ["age", "all"]


def test_separation_is_found_in_the_columns_of_the_design() -> None:
    frame = table().with_columns(
        race=polars.when(polars.col("low") == "yes").then(polars.lit("x")).otherwise(polars.lit("a"))
    )
    assert detect_separation(frame, "low").infinite["race[x]"] == 1
    found = detect_separation(with_holes(table()), design=Design("low ~ age * race", missing="drop"))
    assert found.kind == "none"
    with pytest.raises(InvalidInputError, match="no constant"):
        detect_separation(frame, design=Design("low ~ 0 + race"))


def test_warnings_of_a_design_point_at_the_line_that_called_fit() -> None:
    frame = table().with_columns(one=polars.lit("level"))
    for model in DESIGNED:
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            clone(model).fit(frame, "low")
        found = [
            w for w in raised if issubclass(w.category, OddsmithWarning) and "'one' holds one level" in str(w.message)
        ]
        assert [w.filename for w in found] == [__file__]


@pytest.mark.parametrize("missing", ["error", "indicator", "drop"])
@pytest.mark.parametrize("library", ["pandas", "polars", "csv"])
def test_rows_without_a_label_are_left_out_alone(missing, library, tmp_path):
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=80), [None if i % 9 == 0 else "ab"[int(rng.random() < 0.5)] for i in range(80)]
    numbers = [None if missing == "indicator" and i % 7 == 0 else float(v) for i, v in enumerate(x)]
    table = polars.DataFrame({"x": numbers, "z": rng.normal(size=80), "g": rng.choice(["u", "v"], 80), "y": labels})
    whole = table.filter(polars.col("y").is_not_null())
    data = {"pandas": table.to_pandas, "polars": lambda: table, "csv": lambda: tmp_path / "rows.csv"}[library]()
    if library == "csv":
        table.write_csv(data)
    model = LogisticRegression(1.0, design=Design(missing=missing, unlabelled="drop"))
    expected = LogisticRegression(1.0, design=Design(missing=missing)).fit(whole, "y")
    np.testing.assert_allclose(model.fit(data, y="y").coef_, expected.coef_, rtol=1e-9)
    assert model.n_rows_ == len(whole)
    if missing != "drop" and library != "csv":
        with pytest.raises(InvalidInputError, match=r"design=Design\(unlabelled='drop'\) leaves them out"):
            LogisticRegression(design=Design(missing=missing)).fit(data, y="y")


def test_infinite_number_beside_a_category_stored_as_codes_is_refused_by_its_name() -> None:
    rng = np.random.default_rng(0)
    table = polars.DataFrame({"id": rng.integers(0, 30, 300).astype(str), "x": rng.normal(size=300)})
    infinite = table.with_columns(x=polars.when(polars.col("x") > 2.0).then(np.inf).otherwise(polars.col("x")))
    y = rng.integers(0, 2, 300)
    model = LogisticRegression(prior=1.0).fit(table, y)
    for refused in (lambda: LogisticRegression(prior=1.0).fit(infinite, y), lambda: model.predict(infinite)):
        with pytest.raises(InvalidInputError, match=r"column 'x' has .* infinite values"):
            refused()
