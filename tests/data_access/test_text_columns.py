"""Text written for people, in pieces whose columns have types: read as in memory, by one rule for all pieces."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from oddsmith import Design, GaussianClassifier, LogisticRegression, NaiveBayes
from oddsmith.errors import FormatWarning, InvalidInputError, LevelsWarning

MODELS = [LogisticRegression(prior=1.0), GaussianClassifier(), NaiveBayes()]


def sales(n: int = 900) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    price, rate, day = rng.gamma(2.0, 900.0, n), rng.uniform(1.0, 40.0, n), rng.integers(0, 300, n)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")
    return pd.DataFrame(
        {
            "price": [f"{x:,.2f} €".translate(str.maketrans(",.", ".,")) for x in price],
            "rate": [f"{x:.1f}%" for x in rate],
            "day": days.strftime("%d.%m.%Y"),
            "town": np.array(["Bern", "Ulm"])[rng.integers(0, 2, n)],
            "sold": np.where(price / 1000 - rate / 20 + rng.normal(size=n) > 0, "ja", "nein"),
        }
    )


def in_pieces(table: pd.DataFrame, kind: str, folder: Path) -> Any:
    """The table in Parquet or Arrow files, or as a frame of Dask."""
    if kind == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(table, npartitions=3)
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    for part in range(3):
        some = arrow.slice(part * 300, 300)
        if kind == "parquet":
            parquet.write_table(some, folder / f"{part}.parquet")
        else:
            feather.write_feather(some, folder / f"{part}.feather", compression="uncompressed")
    return str(folder)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("kind", ["parquet", "feather", "dask"])
def test_text_in_pieces_is_read_as_in_memory(model: Any, kind: str, tmp_path: Path) -> None:
    table = sales()
    with pytest.warns(FormatWarning, match="Recognised 'price' as money"):
        expected = model.__class__(**model.get_params()).fit(table, "sold")
    with pytest.warns(
        FormatWarning, match="Recognised 'price' as money .*'rate' as percentages .*'day' as dates by day"
    ):
        found = model.__class__(**model.get_params()).fit(in_pieces(table, kind, tmp_path), "sold")
    rows = table.drop(columns="sold")
    np.testing.assert_allclose(found.predict_proba(rows), expected.predict_proba(rows), rtol=1e-7)
    assert found.text_formats_.keys() == {"price", "rate", "day"}
    if kind == "parquet":
        np.testing.assert_allclose(found.predict_proba(str(tmp_path)), expected.predict_proba(rows), rtol=1e-7)


def test_a_value_that_breaks_the_rule_of_the_first_rows_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oddsmith.engines.files.parts.SAMPLED_ROWS", 300)
    table = sales()
    table.loc[650, "price"] = "ask us"
    where = in_pieces(table, "parquet", tmp_path)
    with pytest.warns(FormatWarning), pytest.raises(InvalidInputError) as error:
        LogisticRegression(prior=1.0).fit(where, "sold")
    text = str(error.value)
    assert "2.parquet" in text and "'ask us' in row 50, where money such as" in text and "in the first rows" in text


def test_dictionaries_labels_and_plain_digits_stay_levels(tmp_path: Path) -> None:
    table = sales().assign(code=[str(i % 3) for i in range(900)], sold=["5%", "7%", "7%"] * 300)
    arrow = pa.Table.from_pandas(table[["rate", "code", "sold"]], preserve_index=False)
    arrow = arrow.set_column(0, "rate", arrow["rate"].combine_chunks().slice(0).cast(pa.string()).dictionary_encode())
    parquet.write_table(arrow, tmp_path / "t.parquet")
    with pytest.warns(LevelsWarning, match="'rate' has 3"):
        model = LogisticRegression(prior=1.0, design=Design()).fit(str(tmp_path), "sold")
    assert not hasattr(model, "text_formats_") and model.classes_.tolist() == ["5%", "7%"]
    assert "code[1]" in model.design_.get_feature_names_out().tolist()
