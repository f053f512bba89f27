"""Designs by formula equal R's model matrices, and their fits R's ``glm``, on tables with factors and interactions."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest

from oddsmith import Design, LogisticRegression
from oddsmith.errors import CollinearityWarning

FOLDER = Path(__file__).parents[1] / "reference"
RECORDS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("design_*.json"))]
CASES = [pytest.param(record, fit, id=f"{record['name']}: {fit['r']}") for record in RECORDS for fit in record["fits"]]


def tables(record: dict[str, Any]) -> dict[str, Any]:
    table = polars.DataFrame(record["table"])
    return {"polars": table, "pandas": table.to_pandas(), "arrow": table.to_arrow()}


def test_there_are_two_data_sets_and_one_with_missing_values() -> None:
    assert [record["name"] for record in RECORDS] == ["design_birthwt", "design_birthwt_gaps", "design_infert"]
    assert len(CASES) == 15


@pytest.mark.parametrize(("record", "fit"), CASES)
def test_columns_equal_r_model_matrix(record: dict[str, Any], fit: dict[str, Any]) -> None:
    table = tables(record)["polars"]
    design = Design(f"{record['target']} ~ {fit['formula']}", missing="drop")
    rows, kept = design.learn(table)
    expected = np.array(fit["matrix"])
    assert design.target_ == record["target"] and design.intercept_ == fit["intercept"]
    assert rows.shape == expected.shape == (len(table) if kept is None else len(kept), len(fit["names"]))
    np.testing.assert_allclose(rows, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("record", "fit"), CASES)
@pytest.mark.parametrize("library", ["polars", "pandas", "arrow"])
def test_weights_equal_r_glm(record: dict[str, Any], fit: dict[str, Any], library: str) -> None:
    design = Design(f"{record['target']} ~ {fit['formula']}", missing="drop")
    model = LogisticRegression(design=design, fit_intercept=fit["intercept"])
    aliased = None in fit["coefficients"]  # R has none for a combination of levels that no row has
    with pytest.warns(CollinearityWarning, match="induced") if aliased else nullcontext():
        model.fit(tables(record)[library])
    found = np.concatenate([model.intercept_ if fit["intercept"] else [], model.coef_[0]])
    expected = np.array([0.0 if value is None else value for value in fit["coefficients"]])
    assert len(model.aliased_) == fit["coefficients"].count(None)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())
    assert abs(model.log_likelihood_ - fit["log_likelihood"]) < 1e-9 * abs(fit["log_likelihood"])


@pytest.mark.parametrize("record", [RECORDS[0], RECORDS[2]], ids=lambda record: record["name"])
def test_without_a_formula_main_effects_equal_r_glm(record: dict[str, Any]) -> None:
    """The first formula of each table is the sum of some columns: the same without it, to the last bit."""
    fit = record["fits"][0]
    names = [*fit["formula"].split(" + "), record["target"]]
    by_formula = LogisticRegression(design=Design(f"{record['target']} ~ {fit['formula']}"))
    by_formula.fit(tables(record)["polars"])
    for library, table in tables(record).items():
        model = LogisticRegression().fit(table[names] if library == "pandas" else table.select(names), record["target"])
        found = np.concatenate([model.intercept_, model.coef_[0]])
        np.testing.assert_allclose(found, fit["coefficients"], rtol=1e-8)
        assert np.array_equal(model.coef_, by_formula.coef_) and model.intercept_ == by_formula.intercept_
