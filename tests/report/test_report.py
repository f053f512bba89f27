"""The page of a report: its parts for every model, and its numbers held against those of the library."""

import base64
import hashlib
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.utils import get_tags
from tests.report.reading import Page, check_harmless, without_time

import oddsmith
from oddsmith import (
    Design,
    GaussianClassifier,
    JeffreysPrior,
    LogisticRegression,
    PerceptronClassifier,
    compare,
    evaluate,
)
from oddsmith.data import load_dataset
from oddsmith.design.frame import read_frame
from oddsmith.errors import InvalidInputError, InvalidTypeError, ModelFileError, NotFittedError
from oddsmith.evaluation.model_output import ModelOutput
from oddsmith.report import make_report
from oddsmith.report.context import RecordedPredictions
from oddsmith.report.data import _columns
from oddsmith.report.html import number, percent
from oddsmith.report.svg import Axis, Plot
from oddsmith.testing import all_models

SECTIONS = (
    *("glance", "data", "model", "certificate", "importance", "weights", "calibration", "discrimination", "decision"),
    *("subgroups", "influence", "prior", "comparison", "use", "provenance", "signature"),
)


def overlapping(K: int, n: int = 120) -> tuple[Any, Any]:
    rng = np.random.default_rng(K)
    t = np.arange(n) % K
    X = rng.normal(size=(n, 3)) + 0.8 * t[:, None] * np.array([1.0, -0.5, 0.1])
    return X, np.array(["ash", "birch", "cedar", "elm"])[t]


def fitted(model: Any, K: int) -> tuple[Any, Any, Any]:
    X, y = overlapping(K)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", oddsmith.errors.OddsmithWarning)
        return model.fit(X, y), X, y


def check_parts(page: Page) -> None:
    """Hold a page against what every page has."""
    assert [e.attributes["id"] for e in page.all("section")] == list(SECTIONS)
    assert all(len(page.section(key).text) > 40 for key in SECTIONS)
    for picture in page.all("svg"):
        assert picture.attributes.get("aria-hidden") or (
            picture.attributes["role"] == "img" and picture.attributes["aria-label"]
        )
    for one in page.all("table"):
        assert next(e for e in one.inside if e.tag == "caption").text
    assert not re.search(r"\b(nan|inf|None|array\()\b", page.section("glance").text + page.section("decision").text)


CASES = [(model, K) for model in all_models() for K in (2, 3) if K == 2 or get_tags(model).classifier_tags.multi_class]


@pytest.mark.parametrize(("model", "K"), CASES, ids=[f"{type(model).__name__}-{K}" for model, K in CASES])
def test_every_model_has_every_part_or_a_sentence(model: Any, K: int) -> None:
    model, X, y = fitted(model, K)
    page = check_harmless(make_report(model, X, y))
    check_parts(page)
    absent = {key for key in SECTIONS if page.section(key).inside[1].attributes.get("class") == "absent"}
    probabilistic, inferring = hasattr(model, "predict_proba"), hasattr(model, "summary")
    assert ("calibration" in absent) == ("prior" in absent) == (not probabilistic)
    assert ("influence" in absent) == (not inferring)
    assert ("discrimination" not in absent and "decision" not in absent) or not probabilistic
    nav = {e.attributes["href"] for e in page.all("a") if e.attributes.get("class") == "none"}
    assert nav == {f"#{key}" for key in absent}


def test_the_policy_admits_this_style_and_this_script_alone() -> None:
    X, y = overlapping(2)
    text = make_report(LogisticRegression().fit(X, y), X, y)
    page = Page(text)
    (policy,) = [e.attributes["content"] or "" for e in page.all("meta", http_equiv="Content-Security-Policy")]
    for what in ("style", "script"):
        (inside,) = page.all(what)
        digest = base64.b64encode(hashlib.sha256(inside.text.encode()).digest()).decode()
        assert f"{what}-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none';") and "unsafe" not in policy
    assert not re.search(r"https?:|//[a-z]|@import|url\(", text)


def test_scores_are_those_of_leave_one_out() -> None:
    X, y = overlapping(3)
    model = LogisticRegression(prior=1.0).fit(X, y)
    page = Page(make_report(model, X, y))
    P = model.leave_one_out(X, y).proba
    t = np.searchsorted(model.classes_, y)
    expected = evaluate(RecordedPredictions(ModelOutput.of_probabilities(model.classes_, t, P)), None, y)
    for key, name, label in (
        ("discrimination", "auc", "AUC"),
        ("calibration", "log_loss", "log loss"),
        ("calibration", "calibration_slope", "calibration slope"),
    ):
        low, high = expected.interval(name)
        value = expected.scores[name].value
        assert page.facts(key)[label] == f"{number(value)} ({number(low)} to {number(high)})"
    assert "leave-one-out" in page.section("calibration").text
    assert expected.log_loss > evaluate(model, X, y).log_loss  # the fit's own rows flatter it


def test_scores_of_other_rows_are_those_of_evaluate_and_the_page_says_so() -> None:
    X, y = overlapping(2)
    model = LogisticRegression().fit(X[:60], y[:60])
    page = Page(make_report(model, X[60:], y[60:], loss=[[0, 1], [5, 0]], reject=0.4))
    expected = evaluate(model, X[60:], y[60:], [[0, 1], [5, 0]], reject=0.4)
    for name, label, form in (
        ("expected_cost", "expected loss per row", number),
        ("rejected", "rows without a decision", percent),
    ):
        low, high = expected.interval(name)
        assert page.facts("decision")[label] == f"{form(expected.scores[name].value)} ({form(low)} to {form(high)})"
    assert "are not the training rows" in page.section("glance").text
    assert "not the rows that the model was fitted to" in page.section("influence").text


def test_confusion_counts_the_decisions() -> None:
    X, y = overlapping(2)
    model = GaussianClassifier().fit(X, y)
    loss = {"ash": {"wait": 0, "cut": 4, "ask": 1}, "birch": {"wait": 3, "cut": 0, "ask": 1}}
    page = Page(make_report(model, X, y, loss=loss, reject=0.6))
    decided = model.decide(X, loss, reject=0.6)
    for row in page.table("Rows by true class"):
        for action, header in (("wait", "wait"), ("cut", "cut"), ("ask", "ask"), (oddsmith.REJECT, "no decision")):
            count = int(np.sum((y == row["true class"]) & (decided == action)))
            assert row[header].split(" ")[0] == str(count)
    regions = oddsmith.decision_regions(loss, 0.6, classes=["ash", "birch"])
    shown = page.table("Best action")
    assert [row["to"] for row in shown] == [number(edge) for edge in regions.edges[1:]]


def test_another_class_prior_does_what_with_class_prior_does() -> None:
    X, y = overlapping(3)
    model = GaussianClassifier().fit(X, y)
    loss = 1.0 - np.eye(3)
    rows = Page(make_report(model, X, y, loss=loss)).table("If a class is more")
    before = model.decide(X, loss)
    for row in rows:
        prior = model.class_prior_.copy()
        prior[model.classes_.tolist().index(row["class"])] *= float(row["odds of the class"].removeprefix("× "))
        prior /= prior.sum()
        after = model.with_class_prior(prior).decide(X, loss)
        assert row["decisions that change"] == percent(float(np.mean(before != after)))
        for said, decided in (("loss without the change", before), ("loss with the change", after)):
            cost = sum(
                p * np.mean(decided[y == label] != label) for p, label in zip(prior, model.classes_, strict=True)
            )
            assert row[said] == number(cost)


def test_influential_rows_are_those_of_the_diagnostics() -> None:
    X, y = overlapping(2)
    table = pd.DataFrame(X, columns=["a", "b", "c"], index=[f"tree {i}" for i in range(len(X))])
    model = LogisticRegression().fit(table, y)
    rows = Page(make_report(model, table, y)).table("The 10 most influential")
    cook = model.diagnostics(table, y).cooks_distance
    order = np.argsort(-cook)[:10]
    assert [row["row"] for row in rows] == [f"tree {i}" for i in order]
    assert [row["Cook's distance"] for row in rows] == [number(cook[i]) for i in order]


def test_weights_that_count_rows_are_rows() -> None:
    table = load_dataset("budworm")
    count = table["count"].to_numpy()
    long = table.take(np.repeat(np.arange(len(count)), count)).drop_columns(["count"])
    rows = table.drop_columns(["count"])
    design = Design("dead ~ sex + log(dose)")
    weighted = GaussianClassifier("diagonal", design=design).fit(rows, None, sample_weight=count)
    page = Page(make_report(weighted, rows, "dead", sample_weight=count))
    other = Page(make_report(weighted, long, "dead"))
    assert page.facts("calibration") == other.facts("calibration")
    assert page.table("Rows by true class") == other.table("Rows by true class")
    halves = Page(make_report(weighted, rows, "dead", sample_weight=count / 7))
    assert "count every row once" in halves.section("glance").text


def test_summary_and_certificate_are_those_of_the_model() -> None:
    X, y = overlapping(2)
    model = LogisticRegression().fit(X, y)
    page = Page(make_report(model, X, y, level=0.9))
    summary = model.summary(level=0.9)
    shown = page.table("Weights with 90% confidence")
    assert [row["term"] for row in shown] == summary.to_dict()["term"]
    assert [float(row["estimate"].replace("−", "-")) for row in shown] == pytest.approx(summary.estimate, abs=1e-3)
    assert "5%" in shown[0] and "95%" in shown[0]
    assert page.facts("certificate")["gap: objective above its optimum, at most"] == number(model.certificate_.gap)


def test_separated_classes_are_named_before_signing() -> None:
    X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], list("aaabbb")
    with pytest.warns(oddsmith.errors.OddsmithWarning):
        model = LogisticRegression().fit(X, y)
    page = Page(make_report(model, X, y))
    assert "no optimum" in page.section("certificate").text
    assert "separated" in page.section("glance").text
    cured = Page(make_report(LogisticRegression(JeffreysPrior()).fit(X, y), X, y))
    assert "at its optimum" in cured.section("glance").text


@pytest.mark.parametrize("missing", ["drop", "indicator"])
def test_missing_values_are_counted_and_rows_left_out_are_named(missing: str) -> None:
    table = load_dataset("penguins")
    model = LogisticRegression(1.0, design=Design(missing=missing)).fit(table, "species")
    page = check_harmless(make_report(model, table, "species"))
    holes = sum(table[name].null_count for name in table.column_names)
    assert f"{holes} of {7 * 344:,} values are missing" in page.section("data").text
    shown = {row["column"]: row["missing"].split(" ")[0] for row in page.table("Columns that")}
    assert shown == {name: str(table[name].null_count) for name in table.column_names if name != "species"}
    assert ("11 rows with a missing value" in page.section("data").text) == (missing == "drop")


def test_the_page_is_the_same_from_every_library_and_way_to_give_labels() -> None:
    table = load_dataset("penguins").drop_null()
    model = LogisticRegression(1.0).fit(table, "species")
    frames = {"arrow": table, "pandas": table.to_pandas(), "polars": pl.from_arrow(table)}
    pages = {name: without_time(make_report(model, frame, "species", title="t")) for name, frame in frames.items()}
    shuffled = table.select(["species", "year", *table.column_names[1:-1]]).append_column("other", pa.nulls(len(table)))
    pages["other columns"] = without_time(make_report(model, shuffled, "species", title="t"))
    apart = table.drop_columns(["species"])
    pages["apart"] = without_time(make_report(model, apart, table["species"].to_numpy(), title="t"))
    assert len(set(pages.values())) == 1, {name: len(page) for name, page in pages.items()}


def test_sparse_and_wide_rows_are_described() -> None:
    from scipy import sparse

    rng = np.random.default_rng(0)
    X = sparse.random(80, 300, density=0.05, random_state=0, format="csr")
    y = rng.integers(0, 2, 80)
    model = LogisticRegression(1.0).fit(X, y)
    page = check_harmless(make_report(model, X, y))
    assert len(page.table("Columns that")) == 60 and "300 columns" in page.section("data").text
    assert "terms farthest from zero" in page.section("weights").text


def test_many_classes_are_drawn_in_part_and_counted_in_full() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(400) % 20
    X = rng.normal(size=(400, 4)) + t[:, None] * np.array([0.5, -0.2, 0.1, 0.0])
    model = GaussianClassifier().fit(X, t)
    page = check_harmless(make_report(model, X, t))
    check_parts(page)
    assert len(page.table("Rows by true class")) == 20
    assert "most frequent classes" in page.section("discrimination").text


NUMBERS = st.floats(allow_nan=True, allow_infinity=False) | st.sampled_from([0.0, 1.0, 1e308, -1e308, 5e-324])


@given(st.lists(NUMBERS, min_size=1, max_size=30))
@example([1e308, -7.976931348623158e307])
def test_any_numbers_can_be_described_and_drawn(values: list[float]) -> None:
    table = pd.DataFrame({"a": values, "b": pd.to_datetime(["2024-02-29"] * len(values)), "c": [None] * len(values)})
    page = Page(_columns(read_frame(table)))
    row = page.table("Columns that")[0]
    there = [value for value in values if value == value]
    assert row["missing"].split(" ")[0] == str(len(values) - len(there))
    if there:
        assert row[next(name for name in row if name.startswith("smallest"))].startswith(number(min(there)))
    there = [value for value in there if abs(value) < 1e290]
    if there:
        axis = Axis.around("a", there)
        plot = Plot(x=axis, y=Axis.around("b", there, at_zero=True))
        plot.line(there, there)
        plot.dots(there, there, texts=["t"] * len(there))
        Page(plot.svg("A line"))
        assert all(axis.low <= tick <= axis.high for tick in axis.ticks())


def test_classes_that_are_alike_are_told_apart_no_better_than_by_a_guess() -> None:
    # Every row is there twice, once in each class: there is nothing to learn.
    X, y = np.repeat(np.random.default_rng(0).normal(size=(100, 3)), 2, axis=0), np.arange(200) % 2
    assert "no better than guessing" in Page(make_report(LogisticRegression().fit(X, y), X, y)).section("glance").text
    X, y = overlapping(2)
    assert "guess" not in Page(make_report(LogisticRegression().fit(X, y), X, y)).section("glance").text


def test_weights_of_the_fit_that_are_not_given_are_missed() -> None:
    X, y = overlapping(2)
    model = LogisticRegression().fit(X, y, sample_weight=np.where(y == "ash", 3.0, 1.0))
    assert "fitted with weights" in Page(make_report(model, X, y)).section("glance").text


def test_rows_of_one_class_say_what_they_cannot_tell() -> None:
    X, y = overlapping(2)
    model = GaussianClassifier().fit(X, y)
    page = check_harmless(make_report(model, X[y == "ash"], y[y == "ash"]))
    assert "one class" in page.section("discrimination").text
    assert "not defined" in page.facts("calibration")["calibration slope"]
    assert "has 0 rows" in page.section("glance").text


def test_a_comparison_is_shown_with_its_verdicts() -> None:
    X, y = overlapping(2)
    found = compare({"<b>": GaussianClassifier(), "perceptron": PerceptronClassifier(max_epochs=2)}, X, y)
    page = check_harmless(make_report(GaussianClassifier().fit(X, y), X, y, comparison=found))
    shown = page.table("Scores of the models")
    assert [row["model"] for row in shown] == found.columns["model"] and "<b>" in [row["model"] for row in shown]
    assert [row["verdict"] for row in shown] == found.columns["verdict"]
    assert "mistakes" in page.section("comparison").text  # the perceptron's warning


def test_the_model_file_is_named_with_its_checksum(tmp_path: Path) -> None:
    X, y = overlapping(2)
    model = GaussianClassifier().fit(X, y)
    model.save(tmp_path / "it's.odds")
    model.report(X, y, tmp_path / "r.html", model_path=tmp_path / "it's.odds")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    page = check_harmless(text)
    digest = hashlib.sha256((tmp_path / "it's.odds").read_bytes()).hexdigest()
    assert page.facts("provenance")["its SHA-256"] == digest
    assert "oddsmith predict 'it'\"'\"'s.odds' new.csv" in page.section("use").text
    assert str(tmp_path) not in text


def test_the_query_on_the_page_is_that_of_to_sql() -> None:
    X, y = overlapping(2)
    model = LogisticRegression().fit(X, y)
    page = Page(make_report(model, X, y))
    assert model.to_sql("new", "duckdb") in [e.text for e in page.all("code")]


def test_a_hundred_thousand_rows_make_a_small_page() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 10))
    y = X[:, 0] + rng.normal(size=100_000) > 0
    page = make_report(LogisticRegression().fit(X, y), X, y)
    assert len(page.encode()) < 500_000
    assert int(Page(page).table("Rows of each class")[1]["rows"].replace(",", "")) == y.sum()


def test_a_report_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    X, y = overlapping(2)
    model, path = GaussianClassifier().fit(X, y), tmp_path / "r.html"
    path.write_text("before")
    for wrong in ({"loss": [[1]]}, {"level": 2}, {"seed": -1}, {"reject": "much"}, {"sample_weight": [1.0]}):
        with pytest.raises((InvalidInputError, InvalidTypeError)):
            model.report(X, y, path, **wrong)
    assert path.read_text() == "before" and [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_wrong_arguments_are_refused_with_a_sentence(tmp_path: Path) -> None:
    X, y = overlapping(2)
    model, path = GaussianClassifier().fit(X, y), tmp_path / "r.html"
    with pytest.raises(NotFittedError, match="not fitted"):
        GaussianClassifier().report(X, y, path)
    with pytest.raises(InvalidTypeError, match=r"oddsmith\.compare"):
        model.report(X, y, path, comparison="all")
    with pytest.raises(InvalidTypeError, match="title must be a text"):
        model.report(X, y, path, title=3)
    with pytest.raises(InvalidInputError, match="needs the labels"):
        model.report(X, None, path)
    with pytest.raises(InvalidInputError, match="one label for each row"):
        model.report(X, y[:-1], path)
    with pytest.raises(InvalidInputError, match="names a column"):
        model.report(X, "species", path)
    with pytest.raises(oddsmith.errors.UnknownNameError, match="class in y"):
        model.report(X, np.where(y == "ash", "oak", y), path)
    with pytest.raises(InvalidTypeError, match="needs rows in memory"):
        model.report("rows.csv", y, path)
    with pytest.raises(InvalidInputError, match="rows × columns of numbers"):
        model.report(X[0], y, path)
    with pytest.raises(InvalidInputError, match="could not convert"):
        model.report(np.array([["a", "b", "c"]] * len(y)), y, path)
    with pytest.raises(InvalidInputError, match="path must be"):
        model.report(X, y, None)
    with pytest.raises(ModelFileError, match="could not be written"):
        model.report(X, y, tmp_path / "nowhere" / "r.html")
    assert not path.exists()


@pytest.mark.parametrize(
    ("labels", "loss", "reject"),
    [
        (["ash", "birch"], [[0, 1], [2.5, 0]], 0.3),
        ([0, 1], {0: {"go": 1, "wait a bit": 0}, 1: {"go": 0, "wait a bit": 9}}, {1: 0.5, 0: 0.25}),
        ([True, False], {True: {"it's": 1, 'a "b"': 0}, False: {"it's": 0, 'a "b"': 2}}, None),
    ],
    ids=["numbers", "names", "quotes"],
)
def test_the_instructions_can_be_followed(
    labels: list[Any], loss: Any, reject: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oddsmith.cli.app import app

    monkeypatch.chdir(tmp_path)
    X, y = overlapping(2)
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    y = np.array(labels)[(y == "birch") * 1]
    model = GaussianClassifier().fit(table, y)
    table.to_csv("new.csv", index=False)
    model.save("m.odds")
    page = Page(make_report(model, table, y, loss=loss, reject=reject, model_path="m.odds"))
    python, shell = (e.text for e in page.all("pre")[:2])
    space: dict[str, Any] = {"table": table}
    *statements, decide = python.splitlines()
    exec("\n".join(statements), space)
    expected = model.decide(table, loss, reject=reject).tolist()
    assert eval(decide, space).tolist() == expected
    for line in shell.splitlines():
        with pytest.raises(SystemExit) as end:
            app(shlex.split(line)[1:])
        assert end.value.code == 0, line
    decided = pd.read_csv("decisions.csv", dtype=str, keep_default_na=False)["decision"].tolist()
    assert decided == ["" if action is oddsmith.REJECT else str(action) for action in expected]
    assert "SELECT" in Path("predict.sql").read_text(encoding="utf-8")


def test_descriptions_are_escaped_once() -> None:
    X, y = overlapping(2)
    y = np.where(y == "ash", "<a>", "<b>")
    page = Page(make_report(LogisticRegression().fit(X, y), X, y))
    labels = [e.attributes["aria-label"] or "" for e in page.elements if "aria-label" in e.attributes]
    assert any("<b>" in label for label in labels) and not any("&lt;" in label for label in labels)
