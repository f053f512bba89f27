"""Text in tables is recognised in a fit and read alike later, whatever the table comes from."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest

import oddsmith
from oddsmith import Design, GaussianClassifier, LogisticRegression, NaiveBayes, OneVsRest, Standardize
from oddsmith.engines.text_formats import find_format
from oddsmith.errors import FormatWarning, InvalidInputError, LevelsWarning

N = 300
rng = np.random.default_rng(0)
PRICE, SHARE, DAY = rng.gamma(2.0, 900.0, N).round(2), rng.integers(1, 90, N), rng.integers(0, 600, N)
DAYS = np.datetime64("2024-01-01") + DAY
Y = np.where(PRICE / 2000 + SHARE / 50 + rng.normal(size=N) > 2, "yes", "no")
TEXT = {
    "price": [f"${value:,.2f}" for value in PRICE],
    "share": [f"{value}%" for value in SHARE],
    "day": [str(day) for day in DAYS],
    "member": [(" yes", "NO ", "no", "yes")[i % 4] for i in range(N)],
    "y": Y.tolist(),
}
CLEAN = {
    **TEXT,
    "price": PRICE,
    "share": SHARE,
    "day": DAYS,
    "member": [("yes", "no", "no", "yes")[i % 4] for i in range(N)],
}
TABLES = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(1.0, basis=Standardize()),
        GaussianClassifier(),
        NaiveBayes(),
        OneVsRest(LogisticRegression(1.0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_table_of_text_is_fitted_as_the_table_that_is_meant(model: Any, library: str, tmp_path: Path) -> None:
    table = TABLES[library]
    expected = model.fit(table(CLEAN), y="y").predict_proba(without_labels(table(CLEAN)))
    with pytest.warns(
        FormatWarning, match=r"'price' as money \('\$.*'share' as percentages .*'member' as levels in one"
    ):
        model.fit(table(TEXT), y="y")
    rows = without_labels(table({name: values[:5] for name, values in TEXT.items()}))
    np.testing.assert_allclose(model.predict_proba(rows), expected[:5], rtol=1e-9)
    model.save(tmp_path / "m.odds")
    again = oddsmith.load(tmp_path / "m.odds")
    assert np.array_equal(again.predict_proba(rows), model.predict_proba(rows))
    bad = table({**{name: values[:3] for name, values in TEXT.items()}, "price": ["$1", "$2", "free"]})
    with pytest.raises(InvalidInputError, match="'price' holds 'free' in row 2, where money such as"):
        again.predict_proba(without_labels(bad))


def without_labels(table: Any) -> Any:
    """A table of any library without its labels."""
    return table.drop(columns="y") if isinstance(table, pandas.DataFrame) else table.drop(["y"])


def test_files_tables_and_clean_tables_give_one_fit(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    pandas.DataFrame(TEXT).to_csv(path, index=False)
    with pytest.warns(FormatWarning):
        by_file = LogisticRegression(1.0).fit(path, y="y")
    with pytest.warns(FormatWarning):
        by_table = LogisticRegression(1.0).fit(pandas.DataFrame(TEXT), y="y")
    expected = LogisticRegression(1.0).fit(pandas.DataFrame(CLEAN), y="y")
    for model in (by_file, by_table):
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)
        np.testing.assert_allclose(
            model.predict_proba(path), expected.predict_proba(pandas.DataFrame(CLEAN)), rtol=1e-6
        )
    assert {name: one for name, one in by_file.text_formats_.items() if name != "day"} == {
        name: one for name, one in by_table.text_formats_.items() if name != "day"
    }
    result = oddsmith.evaluate(by_file, path, "y")
    assert result.accuracy == oddsmith.evaluate(expected, pandas.DataFrame(CLEAN), "y").accuracy


def test_a_model_of_a_messy_file_predicts_clean_rows_and_a_clean_model_messy_files(tmp_path: Path) -> None:
    pandas.DataFrame(TEXT).to_csv(tmp_path / "t.csv", index=False)
    pandas.DataFrame(CLEAN).to_parquet(tmp_path / "t.parquet")
    with pytest.warns(FormatWarning):
        messy = LogisticRegression(1.0).fit(tmp_path / "t.csv", y="y")
    numbers = pandas.DataFrame(CLEAN).drop(columns="member")
    clean = LogisticRegression(1.0).fit(numbers, y="y")
    for model in (messy, clean):
        found = [model.predict_proba(tmp_path / name) for name in ("t.csv", "t.parquet")]
        np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_decimal_commas_of_the_fit_hold_for_later_tables_and_break_with_a_line(tmp_path: Path) -> None:
    comma = pandas.DataFrame({"x": [f"{value}".replace(".", ",") for value in PRICE], "y": Y})
    comma.to_csv(tmp_path / "t.csv", index=False, sep=";")
    with pytest.warns(FormatWarning, match="semicolons between fields, decimal commas"):
        model = LogisticRegression(1.0).fit(tmp_path / "t.csv", y="y")
    expected = LogisticRegression(1.0).fit(pandas.DataFrame({"x": PRICE, "y": Y}), y="y")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    rows = pandas.DataFrame({"x": ["1200,5", "7"]})
    np.testing.assert_allclose(
        model.predict_proba(rows), expected.predict_proba(pandas.DataFrame({"x": [1200.5, 7.0]}))
    )
    (tmp_path / "new.csv").write_text("x;z\n1,5;1\n2;1\n2.5;1\n")
    with pytest.raises(InvalidInputError, match=r"column 'x' holds '2\.5' in line 4, where numbers such as '1,5'"):
        model.predict_proba(tmp_path / "new.csv")


def test_a_column_that_breaks_off_behind_the_sample_stays_text() -> None:
    table = pandas.DataFrame({"x": [*TEXT["price"], *["$5.00"] * 2000, "free"], "y": [*Y, *["no"] * 2000, "yes"]})
    with pytest.warns(LevelsWarning, match="most of it looks like numbers: 'free' is not a number"):
        model = LogisticRegression(1.0).fit(table, y="y")
    assert not hasattr(model, "text_formats_")


def test_labels_by_name_have_one_spelling() -> None:
    table = pandas.DataFrame({"x": PRICE, "y": [f"{label.upper()} " if i % 3 else label for i, label in enumerate(Y)]})
    with pytest.warns(FormatWarning):
        model = LogisticRegression(1.0).fit(table, y="y")
    assert len(model.classes_) == 2
    assert model.score(table, "y") == oddsmith.evaluate(model, table, "y").accuracy > 0.5
    with pytest.warns(FormatWarning):
        found = oddsmith.compare({"one": LogisticRegression(1.0)}, table, "y", cv=3)
    assert found.best == "one"


@pytest.mark.parametrize("where", ["table", "file"])
def test_dropping_missing_values_drops_rows_without_a_label(where: str, tmp_path: Path) -> None:
    gaps = np.arange(N) % 10 == 3
    table = pandas.DataFrame({"x": PRICE, "z": SHARE, "y": np.where(gaps, None, Y)})
    table.loc[5, "x"] = np.nan
    table.to_csv(tmp_path / "t.csv", index=False)
    expected = LogisticRegression(1.0).fit(table.dropna()[["x", "z"]], table.dropna()["y"])
    model = LogisticRegression(1.0, design=Design(missing="drop"))
    model.fit(table if where == "table" else tmp_path / "t.csv", y="y")
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-7)
    labels = table["y"].to_numpy()
    np.testing.assert_allclose(model.fit(table[["x", "z"]], labels).coef_, expected.coef_, rtol=1e-7)
    with pytest.raises(InvalidInputError, match="missing"):
        LogisticRegression(1.0).fit(table[["z", "y"]], y="y")


def test_many_levels_and_ids_are_named_before_the_fit_in_memory_and_of_files(tmp_path: Path) -> None:
    table = pandas.DataFrame({"tail": [f"N{i % 120}" for i in range(N)], "name": [f"p{i}" for i in range(N)], "y": Y})
    table.to_csv(tmp_path / "t.csv", index=False)
    for data in (table, tmp_path / "t.csv"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            LogisticRegression(1.0, max_iter=1).fit(data, y="y")
        texts = [str(one.message) for one in caught if one.category is LevelsWarning]
        assert texts[0].startswith("Column 'name' has 300 different values in 300 rows: it is an ID")
        assert texts[1].startswith("Column 'tail' has 120 levels")


def test_standardize_leaves_the_columns_of_levels_dense_or_sparse() -> None:
    states = [f"s{i % 25:02}" for i in range(N)]
    for levels in (states, [state if state < "s10" else "s10" for state in states]):
        table = pandas.DataFrame({"x": PRICE, "state": levels})
        model = LogisticRegression(1.0, basis=Standardize()).fit(table, Y)
        made = model.design_.transform(table)
        rows = np.asarray(made.toarray() if model.design_.sparse_ else made)
        rows[:, 0] = (rows[:, 0] - rows[:, 0].mean()) / rows[:, 0].std()
        np.testing.assert_allclose(model.coef_, LogisticRegression(1.0).fit(rows, Y).coef_, rtol=1e-6)
    assert not LogisticRegression(1.0, basis=Standardize()).fit(table, Y).design_.sparse_


def test_standardize_scales_products_with_levels_and_does_not_centre_them() -> None:
    pytest.importorskip("formulaic", reason="formulas are read by the package formulaic")
    table = pandas.DataFrame({"x": PRICE, "g": [("a", "b")[i % 2] for i in range(N)]})
    model = LogisticRegression(1.0, basis=Standardize(), design=Design("x * g")).fit(table, Y)
    names, first = model.design_.get_feature_names_out(), model.basis_.steps[0]
    step = {name: (first.mean_[j], first.scale_[j]) for j, name in enumerate(names)}
    assert step["g[b]"] == (0.0, 1.0) and step["x:g[b]"][0] == 0.0 and step["x:g[b]"][1] > 1.0
    assert step["x"] == pytest.approx((PRICE.mean(), PRICE.std()))


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["5%", "1.250%", "3.125%"], [5.0, 1.25, 3.125]),  # not 1250
        (["5%", "1,250%", "3,125%"], [5.0, 1250.0, 3125.0]),
        (["€12", "€1.234", "€3.125"], [12.0, 1234.0, 3125.0]),
        (["12", "1.234", "3.125"], None),  # plain numbers in text stay levels
    ],
)
def test_point_is_a_decimal_sign_unless_it_groups_digits_of_money(texts: list[str], values: list[float] | None) -> None:
    format_ = find_format(pa.array(texts))
    assert (format_ and format_.parse(pa.array(texts))[0].to_pylist()) == values


@pytest.mark.parametrize("library", TABLES)
@pytest.mark.parametrize("stray", ["-", "unknown"])
def test_few_texts_among_numbers_are_named(library: str, stray: str) -> None:
    table = TABLES[library]({"age": [stray if i == 7 else str(20 + i % 40) for i in range(N)], "y": Y.tolist()})
    with pytest.warns(LevelsWarning, match=f"looks like numbers: '{stray}' is not a number, so each of the 41"):
        LogisticRegression(1.0).fit(table, "y")


def test_numbers_as_text_and_codes_with_letters_stay_levels() -> None:
    codes = [("V" if i % 3 else "") + str(i % 30) for i in range(N)]
    table = pa.table({"zip": [f"{i % 40:05d}" for i in range(N)], "code": codes, "y": Y})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LogisticRegression(1.0).fit(table, "y")


def test_file_with_a_text_among_numbers_is_named(tmp_path: Path) -> None:
    rows = "".join(f"{y},{'n.b.' if i == 200 else 20 + i % 40}\n" for i, y in enumerate(Y))
    (tmp_path / "a.csv").write_text("y,age\n" + rows)
    with pytest.warns(LevelsWarning, match=r"'n\.b\.' is not a number"):
        LogisticRegression(1.0).fit(str(tmp_path / "a.csv"), y="y")


def test_workbook_named_csv_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InvalidInputError, match=r"'a\.csv' is an Excel workbook or a zip archive"):
        LogisticRegression().fit(str(tmp_path / "a.csv"), y="y")
