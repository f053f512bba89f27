"""Models fitted to data in pieces: the same as in memory, whatever the pieces hold, or a sentence that says where."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from tests.policies import set_policy

import oddsmith
from oddsmith import (
    Design,
    FisherDiscriminant,
    GaussianClassifier,
    GaussianKernel,
    JeffreysPrior,
    LeastSquaresClassifier,
    LogisticRegression,
    NaiveBayes,
    OneVsOne,
    OneVsRest,
    PerceptronClassifier,
    Polynomial,
    ProbitRegression,
    RadialBasis,
    Spline,
    Standardize,
)
from oddsmith.data_access import training_stream as streaming
from oddsmith.design.data_summary import SampledRows, concatenate_samples
from oddsmith.design.frame import read_frame
from oddsmith.engines import Piece
from oddsmith.errors import ConvergenceWarning, InvalidInputError, NeedsMemoryError, SeparationWarning
from oddsmith.likelihood import separation_search as nearest
from oddsmith.testing import Cut


def table(n: int = 300, K: int = 3, seed: int = 0) -> pl.DataFrame:
    """Return columns of several types and units, with classes that overlap."""
    rng = np.random.default_rng(seed)
    t = rng.integers(0, K, n)
    X = rng.normal(size=(n, 3)) + np.eye(3)[t % 3]
    return pl.DataFrame(
        {
            "a": X[:, 0],
            "b": 100 * X[:, 1] + 1e3,
            "c": 0.01 * X[:, 2],
            "group": rng.choice(["x", "y", "z"], n),
            "weight": rng.integers(0, 3, n).astype(float),
            "shift": rng.normal(size=n),
            "label": np.array(["no", "yes", "maybe"])[t],
        }
    )


def outcome(model: Any, rows: Any) -> dict[str, np.ndarray]:
    names = ("coef_", "intercept_", "log_likelihood_", "means_", "classes_")
    found = {name: np.asarray(getattr(model, name)) for name in names if hasattr(model, name)}
    return found | {"decision": model.decision_function(rows), "names": np.asarray(model._names())}


def assert_same(one: Any, other: Any, rows: Any, rtol: float = 1e-10) -> None:
    a, b = outcome(one, rows), outcome(other, rows)
    assert a.keys() == b.keys()
    for name, value in a.items():
        if value.dtype.kind in "fc":
            np.testing.assert_allclose(b[name], value, rtol=rtol, atol=rtol * np.abs(value).max(), err_msg=name)
        else:
            assert value.tolist() == b[name].tolist(), name


MODELS = [
    LogisticRegression(),
    LogisticRegression(1.0),
    LogisticRegression(reference="no"),
    LogisticRegression(basis=[Standardize(), Polynomial(2)], prior=1.0),
    LogisticRegression(basis=Spline(4), prior=2.0),
    LogisticRegression(basis=[Standardize(), RadialBasis(5, seed=1)], prior=2.0),
    LogisticRegression(basis=[Standardize(), GaussianKernel(1.0, landmarks=6)], prior=2.0),
    GaussianClassifier(),
    GaussianClassifier("diagonal"),
    GaussianClassifier(basis=Standardize()),
    NaiveBayes(),
    LeastSquaresClassifier(),
    FisherDiscriminant(),
    OneVsRest(),
    OneVsOne(LogisticRegression(2.0)),
    OneVsRest(LogisticRegression(1.0), basis=Standardize()),
]


@pytest.mark.filterwarnings("ignore::oddsmith.errors.CollinearityWarning")
@pytest.mark.parametrize("weighted", [False, True], ids=["numbers", "weighted categories"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_pieces_give_the_model_of_the_whole(model: Any, weighted: bool) -> None:
    data, columns = table(), ["a", "b", "c", "group"] if weighted else ["a", "b", "c"]
    extra = ["weight"] if weighted else []
    how = {"sample_weight": "weight"} if weighted else {}
    given = {"sample_weight": data["weight"].to_numpy()} if weighted else {}
    whole = clone(model).fit(data.select([*columns, "label"]), "label", **given)
    for rows in (47, 1000):
        pieces = clone(model).fit(Cut(data.select([*columns, *extra, "label"]), rows), "label", **how)
        assert_same(whole, pieces, data.select(columns))


@pytest.mark.parametrize(
    "model", [LogisticRegression(), LogisticRegression(JeffreysPrior()), ProbitRegression(1.0)], ids=repr
)
@pytest.mark.parametrize("offset", [False, True])
def test_two_classes_with_links_offsets_and_jeffreys(model: Any, offset: bool) -> None:
    data = table(K=2).drop("weight", "group")
    rows = data.drop("label", "shift")
    given, how = ({"offset": data["shift"].to_numpy()}, {"offset": "shift"}) if offset else ({}, {})
    whole = clone(model).fit(rows, data["label"].to_numpy(), **given)
    pieces = clone(model).fit(Cut(data if offset else data.drop("shift"), 50), "label", **how)
    assert_same(whole, pieces, rows)
    assert pieces._learned.null_log_likelihood == pytest.approx(whole._learned.null_log_likelihood, rel=1e-9)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_any_library_and_a_formula(make: Any) -> None:
    columns = table(K=2).to_dict(as_series=False)
    data, design = make(columns), Design("label ~ a * group + I(b > 1000)")
    whole = LogisticRegression(design=design).fit(data)
    pieces = LogisticRegression(design=design).fit(Cut(data, 33))
    assert_same(whole, pieces, data)


def test_incomplete_rows_are_dropped_as_the_design_says() -> None:
    data = table(K=2).select("a", "group", "label")
    holes = data.with_columns(
        pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise(pl.col("a")).alias("a"),
        pl.when(pl.int_range(pl.len()) % 50 < 10).then(None).otherwise(pl.col("group")).alias("group"),
    )
    for missing in ("drop", "indicator"):
        model = LogisticRegression(design=Design(missing=missing))
        whole, pieces = clone(model).fit(holes, "label"), clone(model).fit(Cut(holes, 10), "label")
        assert_same(whole, pieces, data)
        assert pieces._learned.n_rows == whole._learned.n_rows
    with pytest.raises(InvalidInputError, match=r"piece 0: Column 'group' has 10 missing values"):
        LogisticRegression().fit(Cut(holes, 10), "label")


def test_missing_numbers_are_fitted_by_models_that_can() -> None:
    data = (
        table()
        .select("a", "b", "label")
        .with_columns(pl.when(pl.col("a") > 1).then(None).otherwise(pl.col("a")).alias("a"))
    )
    for model in (NaiveBayes(), GaussianClassifier("diagonal")):
        assert_same(clone(model).fit(data, "label"), clone(model).fit(Cut(data, 40), "label"), data.drop("label"))
    with pytest.raises(InvalidInputError, match=r"piece 0: .*column 'a'"):
        LogisticRegression().fit(Cut(data, 40), "label")


@settings(max_examples=25, deadline=None)
@given(n=st.integers(12, 60), rows=st.integers(1, 70), seed=st.integers(0, 99))
def test_any_cut_gives_the_same_model(n: int, rows: int, seed: int) -> None:
    data = table(n, 2, seed).select("a", "group", "label")
    if data["label"].n_unique() < 2:
        return
    whole, pieces = LogisticRegression(1.0).fit(data, "label"), LogisticRegression(1.0).fit(Cut(data, rows), "label")
    assert_same(whole, pieces, data)


@pytest.mark.parametrize("prior", [None, 1.0])
@pytest.mark.parametrize("K", [2, 3])
def test_large_data_needs_few_passes(prior: float | None, K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way of large data, taken by a table that is small enough to test: a sample, then few passes over all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 4))
    t = (X @ rng.normal(size=(4, K)) + rng.gumbel(size=(40_000, K))).argmax(axis=1)
    data = pa.table({**{f"x{j}": X[:, j] for j in range(4)}, "y": t})
    exact = LogisticRegression(prior, solver="newton").fit(X, t)
    set_policy(monkeypatch, large_elements=1000)
    monkeypatch.setattr(streaming, "SAMPLE_ROWS", 4000)
    found = LogisticRegression(prior).fit(Cut(data, 5000), "y")
    np.testing.assert_allclose(found.coef_, exact.coef_, rtol=1e-9, atol=1e-9)
    assert found.certificate_.converged and found.certificate_.passes <= 8
    assert found.trace_.to_dict()["passes"] == sorted(found.trace_.to_dict()["passes"])


def test_label_of_the_last_piece_is_a_class() -> None:
    data = table(100, 2).select("a", "b", "label")
    late = pl.concat([data, data[:5].with_columns(pl.lit("never").alias("label"))])
    model = LogisticRegression(1.0).fit(Cut(late, 20), "label")
    assert model.classes_.tolist() == ["never", "no", "yes"]


def test_data_that_changes_between_passes_is_refused() -> None:
    class Growing(Cut):
        seen = 0

        def pieces(self) -> Any:
            Growing.seen += 1
            pieces = list(super().pieces())
            return iter(pieces if Growing.seen == 1 else pieces[:-1])

    with pytest.raises(InvalidInputError, match="read 80 rows, but the first one 100"):
        LogisticRegression().fit(Growing(table(100, 2).select("a", "label"), 20), "label")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": [None] * 3}, "piece 2: .*missing"),
        ({"a": [np.inf] * 3}, "piece 2: .*infinity.*'a'"),
        ({"weight": [-1.0] * 3}, "piece 2: sample_weight has 3 negative"),
    ],
)
def test_bad_values_are_named_with_their_piece(change: dict[str, Any], message: str) -> None:
    data = table(30, 2).select("a", "weight", "label")
    bad = data[20:23].with_columns(**{k: pl.Series(v, dtype=data.schema[k]) for k, v in change.items()})
    with pytest.raises(InvalidInputError, match=message):
        LogisticRegression().fit(Cut(pl.concat([data[:20], bad, data[23:]]), 10), "label", sample_weight="weight")


def test_roles_are_checked() -> None:
    data = Cut(table(40, 2), 10)
    with pytest.raises(InvalidInputError, match="There is no column 'lable'"):
        LogisticRegression().fit(data, "lable")
    with pytest.raises(InvalidInputError, match="two roles"):
        LogisticRegression().fit(data, "label", sample_weight="label")
    with pytest.raises(InvalidInputError, match="y to be passed"):
        LogisticRegression().fit(data)


def test_one_class_no_rows_and_empty_pieces() -> None:
    data = table(40, 2).select("a", "label")
    with pytest.raises(InvalidInputError, match="one class only"):
        LogisticRegression().fit(Cut(data.with_columns(pl.lit("no").alias("label")), 10), "label")
    with pytest.raises(InvalidInputError, match="no rows to fit to"):
        LogisticRegression().fit(Cut(data[:0], 10), "label")
    zero = data.with_columns((pl.int_range(pl.len()) >= 20).cast(float).alias("w"))
    whole = LogisticRegression().fit(data[20:], "label")
    assert_same(whole, LogisticRegression().fit(Cut(zero, 10), "label", sample_weight="w"), data.drop("label"))


def test_separated_classes_are_found_in_pieces() -> None:
    x = np.linspace(-1, 1, 200)
    data = pl.DataFrame({"x": x, "z": np.sin(9 * x), "y": x > 0})
    with pytest.warns(SeparationWarning, match="'x'"):
        model = LogisticRegression().fit(Cut(data, 30), "y")
    assert not model.certificate_.converged


def test_models_that_go_through_rows_one_by_one_say_so() -> None:
    data = Cut(table(40, 2).select("a", "b", "label"), 10)
    for model in (PerceptronClassifier(), LogisticRegression(solver="sgd"), LogisticRegression(link="log")):
        with pytest.raises(InvalidInputError, match="memory"):
            model.fit(data, "label")


@pytest.mark.parametrize("scale", ["evidence", "loo", "cv"])
def test_width_is_learned_or_refused_in_a_sentence(scale: str) -> None:
    data = table(400, 2).select("a", "b", "label")
    model = LogisticRegression(oddsmith.GaussianPrior(scale=scale))
    try:
        found = clone(model).fit(Cut(data, 90), "label")
    except InvalidInputError as error:
        assert "memory" in str(error)
    else:
        assert_same(clone(model).fit(data, "label"), found, data.drop("label"), rtol=1e-6)


def test_inference_of_a_fit_in_pieces_is_that_of_the_whole() -> None:
    data = table(400, 2).select("a", "b", "label")
    whole, pieces = LogisticRegression().fit(data, "label"), LogisticRegression().fit(Cut(data, 90), "label")
    a, b = whole.summary().to_dict(), pieces.summary().to_dict()
    for name in ("estimate", "std_error", "lower", "upper"):
        np.testing.assert_allclose(b[name], a[name], rtol=1e-9)


@pytest.mark.parametrize("model", [LogisticRegression(1.0), GaussianClassifier(), NaiveBayes()], ids=repr)
@pytest.mark.parametrize("columns", [["id", "a"], ["id", "a", "group"]], ids=["numbers", "categories"])
def test_whole_numbers_beyond_all_floats_are_the_nearest_ones(model: Any, columns: list[str]) -> None:
    data = table().with_columns(id=2**53 + pl.int_range(300) * 10**15)
    rows = data.select([*columns, "label"])
    whole = clone(model).fit(rows, "label")
    arrow = rows.to_pandas().convert_dtypes(dtype_backend="pyarrow")
    for other in (rows.to_arrow(), arrow, Cut(rows.to_arrow(), 40)):
        assert_same(whole, clone(model).fit(other, "label"), rows.drop("label"))


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("label", ["elsewhere", None])
def test_labels_of_incomplete_rows_do_not_matter(label: str | None, rows: int) -> None:
    data = table(60).select("a", "group", "label")
    bad = pl.int_range(60).is_in([0, 1, 2, 33])
    data = data.with_columns(
        a=pl.when(bad).then(None).otherwise("a"), label=pl.when(bad).then(pl.lit(label)).otherwise("label")
    )
    model = LogisticRegression(1.0, design=Design(missing="drop"))
    assert_same(
        clone(model).fit(data, "label"),
        clone(model).fit(Cut(data.to_arrow(), rows), "label"),
        data.filter(~bad).drop("label"),
    )


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize(
    ("labels", "message"), [([0.5, 1.5, 2.5], "continuous"), ([0.0, 1.0, np.inf], "infinity")], ids=["shares", "inf"]
)
@pytest.mark.parametrize("model", [LogisticRegression(), NaiveBayes()], ids=repr)
def test_labels_that_are_no_classes_are_refused_in_pieces_of_any_size(
    model: Any, labels: list[float], message: str, rows: int
) -> None:
    data = pl.DataFrame({"x": np.arange(30.0), "label": labels * 10})
    with pytest.raises(InvalidInputError, match=message):
        clone(model).fit(Cut(data, rows), "label")


@pytest.mark.parametrize("role", ["sample_weight", "offset"])
def test_weights_and_offsets_that_are_words_get_a_sentence(role: str) -> None:
    data = table(K=2).select("a", "group", "label")
    with pytest.raises(InvalidInputError, match="not numbers"):
        LogisticRegression().fit(Cut(data, 100), "label", **{role: "group"})


def rare(n: int, kind: str) -> pl.DataFrame:
    """Return rows with a column that moves in so few of them that no small sample shows it."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(n, 3))
    y = np.where(X @ [1.0, -1.0, 0.5] + rng.logistic(size=n) > 0, "p", "q")
    last = rng.permutation(n)[:6]
    y[last] = ["p", "q", "p", "q", "q", "q"] if kind != "separated" else "p"
    spike = np.zeros(n)
    spike[last] = [1.0, 1.0, 1.0, 2.0, 1.0, 3.0]
    column = np.where(spike > 0, "rare", rng.choice(["a", "b"], n)) if kind == "level" else spike
    return pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "d": column, "label": y})


@pytest.fixture
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SAMPLE_ROWS": 300, "SAMPLE_NUMBERS": 1000}.items():
        monkeypatch.setattr(streaming, name, value)
    set_policy(monkeypatch, large_elements=1000)
    monkeypatch.setattr(nearest, "NEAREST", 400)


@pytest.mark.usefixtures("small_samples")
@pytest.mark.parametrize("kind", ["number", "level"])
def test_a_column_that_the_sample_does_not_show_is_not_lost(kind: str) -> None:
    data = rare(20_000, kind)
    pieces = LogisticRegression().fit(Cut(data, 3000), "label")
    assert_same(LogisticRegression(solver="newton").fit(data, "label"), pieces, data.drop("label"), 1e-9)
    assert pieces.certificate_.converged and pieces.certificate_.passes <= 12


@pytest.mark.usefixtures("small_samples")
def test_a_column_that_the_sample_does_not_show_separates() -> None:
    data = rare(20_000, "separated")
    for rows in (data, Cut(data, 3000)):
        with pytest.warns(SeparationWarning, match="quasi-completely separated by 'd'"):
            LogisticRegression().fit(rows, "label")


@pytest.mark.parametrize(("kind", "verdict", "terms"), [("number", "none", []), ("separated", "quasi", ["d"])])
def test_what_few_rows_say_of_separation_is_held_against_all_others(
    kind: str, verdict: str, terms: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program sees five rows a round, and none of a sample: it seems that they are separated, or lack a column."""
    monkeypatch.setattr(nearest, "NEAREST", 5)
    found, find_separation = [], nearest.find_separation

    def asked(problem: Any, fit: Any, classes: Any, names: list[str], levels: Any) -> Any:
        few = replace(problem, source=replace(problem.source, drawn=None))
        found.append(find_separation(few, fit, classes, names))
        return found[-1]

    monkeypatch.setattr(nearest, "find_separation", asked)
    with pytest.warns((ConvergenceWarning, SeparationWarning)):
        LogisticRegression(solver="newton", max_iter=1).fit(Cut(rare(2000, kind), 300), "label")
    assert [one.kind for one in found] == [verdict]
    assert list(found[0].infinite) == terms


def test_settings_that_the_data_does_not_have_are_named(tmp_path: Any) -> None:
    path = tmp_path / "a.parquet"
    table(40, 2).select("a", "label").write_parquet(path)
    with pytest.raises(InvalidInputError, match=r"Unknown setting for files 'memroy'. .*'memory'"):
        LogisticRegression().fit(str(path), "label", memroy="1GB")
    with pytest.raises(TypeError, match="memory: works with files and clusters only"):
        LogisticRegression().fit(np.eye(2), [0, 1], memory="1GB")


def test_dictionaries_without_room_for_each_other_are_drawn_apart() -> None:
    def piece(letter: str) -> SampledRows:
        words = pa.array([f"{letter}{i}" for i in range(100)])
        column = pa.DictionaryArray.from_arrays(pa.array(range(100), pa.int8()), words)
        return SampledRows(np.zeros(100), Piece(pa.table({"word": column})))

    apart = concatenate_samples((piece("a"), piece("b")), most=200)
    assert [len(read_frame(one.rows).coded("word").levels) for one in apart] == [100, 100]


def test_diagnostics_of_rows_in_files_are_refused_in_a_sentence(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": (X[:, 0] + rng.logistic(size=60) > 0).astype(int)})
    table.to_csv(tmp_path / "rows.csv", index=False)
    model = LogisticRegression(1.0).fit(tmp_path / "rows.csv", y="y")
    with pytest.raises(NeedsMemoryError, match="in files or on a cluster"):
        model.diagnostics(tmp_path / "rows.csv", "y")
