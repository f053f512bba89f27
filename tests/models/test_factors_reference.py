"""Tables with factors against R's ``glm``: the same weights and standard errors, whichever library holds the table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from tests.policies import set_policy
from tests.reference.common import rule_table

from oddsmith import Design, LogisticRegression
from oddsmith.design import table as design_table
from oddsmith.errors import CollinearityWarning, SeparationWarning
from oddsmith.rows import SplitRows

FOLDER = Path(__file__).parents[1] / "reference"


def read_records(pattern: str) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob(pattern))]


MANY = "factors_2600"
RECORDS = [record for record in read_records("factors_*.json") if record["name"] != MANY]
CASES = [
    pytest.param(record, fit, id=f"{record['name']}: {fit['formula']}") for record in RECORDS for fit in record["fits"]
]
pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning")
DIGITS = 1e-8
"""Eight significant digits."""
Record = dict[str, Any]
Form = Callable[[Record], Any]
rule_columns = cache(rule_table)


def columns(record: Record) -> dict[str, list[Any]]:
    if record["rule"] is not None:
        return rule_columns(**record["rule"])
    numbers = {name for name, values in record["table"].items() if any(isinstance(value, float) for value in values)}
    return {
        name: [None if value is None else float(value) for value in values] if name in numbers else values
        for name, values in record["table"].items()
    }


def factors(record: Record) -> dict[str, list[str]]:
    """The levels of every column of text, those declared or those seen."""
    texts = {name: values for name, values in columns(record).items() if any(isinstance(v, str) for v in values)}
    declared = record["levels"] or {}
    return {name: declared.get(name) or sorted(set(values) - {None}) for name, values in texts.items()}


def pandas_strings(record: Record) -> Any:
    return pandas.DataFrame(columns(record))


def pandas_categoricals(record: Record) -> Any:
    types = {name: pandas.CategoricalDtype(levels, record["ordered"]) for name, levels in factors(record).items()}
    return pandas_strings(record).astype(types)


def polars_strings(record: Record) -> Any:
    return polars.DataFrame(columns(record))


def polars_categoricals(record: Record) -> Any:
    return polars_strings(record).cast(dict.fromkeys(factors(record), polars.Categorical))


def polars_enums(record: Record) -> Any:
    return polars_strings(record).cast({name: polars.Enum(levels) for name, levels in factors(record).items()})


def arrow_strings(record: Record) -> Any:
    return pyarrow.table(columns(record))


def arrow_dictionaries(record: Record) -> Any:
    arrays = {}
    for name, values in columns(record).items():
        levels = factors(record).get(name)
        if levels is not None:
            place = {level: i for i, level in enumerate(levels)}
            codes = pyarrow.array([place.get(value) for value in values], pyarrow.int16())
            values = pyarrow.DictionaryArray.from_arrays(codes, levels, ordered=record["ordered"])
        arrays[name] = values
    return pyarrow.table(arrays)


FORMS = [
    *(pandas_strings, pandas_categoricals, polars_strings, polars_categoricals, polars_enums),
    *(arrow_strings, arrow_dictionaries),
]
UNORDERED = (pandas_strings, polars_strings, polars_categoricals, arrow_strings)
"""Forms that carry no order of the levels."""


def by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep factors as codes, and eliminate the largest, however small the table."""
    monkeypatch.setattr(design_table, "SPLIT_ELEMENTS", 0)
    set_policy(monkeypatch, eliminated_columns=1, eliminated_levels=1)


def fit(record: Record, fit: Record, form: Form) -> LogisticRegression:
    first = {name: levels for name, levels in factors(record).items() if record["ordered"] and form in UNORDERED}
    seen = {name: next(level for level in levels if level in columns(record)[name]) for name, levels in first.items()}
    design = Design(f"{record['target']} ~ {fit['formula']}", missing="drop", reference=seen or None)
    model = LogisticRegression(design=design, fit_intercept=fit["intercept"], link=record["link"] or "logit")
    weights, offset = (
        None if record[what] is None else columns(record)[record[what]] for what in ("weights", "offset")
    )
    return model.fit(form(record), sample_weight=weights, offset=offset)


def r_name(term: str) -> str:
    """``colour[red]:size[S]`` as R has it, ``colourred:sizeS``."""
    return re.sub(r"\[(.*?)\]", r"\1", term)


@pytest.mark.parametrize("codes", [False, True], ids=["as it comes", "by code"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("record", "expected"), CASES)
def test_weights_and_standard_errors_equal_r_glm(
    record: Record, expected: Record, form: Form, codes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if codes:
        by_code(monkeypatch)
    names = ["(intercept)"] * expected["intercept"] + expected["names"]
    by_name = dict(zip(names, zip(expected["coefficients"], expected["std_errors"], strict=True), strict=True))
    aliased = {name for name, (estimate, _) in by_name.items() if estimate is None}
    with pytest.warns(CollinearityWarning) if aliased else nullcontext():
        model = fit(record, expected, form)
    assert model.certificate_.converged
    assert {r_name(name) for name in model.aliased_} == aliased
    summary = model.summary().to_dict()
    terms = [r_name(term) for term in summary["term"]]
    assert sorted(terms) == sorted(by_name)
    wanted = np.array([by_name[term] for term in terms], dtype=np.float64)  # None becomes NaN
    np.testing.assert_allclose(np.column_stack([summary["estimate"], summary["std_error"]]), wanted, rtol=DIGITS)
    assert model.log_likelihood_ == pytest.approx(expected["log_likelihood"], rel=1e-12)
    assert model.summary().n_rows == expected["n_rows"]


def test_there_are_eight_tables_and_two_with_many_levels() -> None:
    assert len(RECORDS) == 8 and len(CASES) == 17
    assert max(len(fit["coefficients"]) for record in RECORDS for fit in record["fits"]) == 305


def test_forced_tables_are_kept_as_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cases above by code are what they are called."""
    record = RECORDS[1]  # a small one
    design = Design(f"y ~ {record['fits'][0]['formula']}").fit(pandas_strings(record))
    assert not isinstance(design.transform_split(pandas_strings(record)), SplitRows)
    by_code(monkeypatch)
    assert isinstance(design.transform_split(pandas_strings(record)), SplitRows)


@pytest.mark.parametrize("form", FORMS)
def test_2600_levels_equal_r_glm(form: Form) -> None:
    """More weights than a whole Hessian is formed for: errors come from the factor's elimination."""
    (record,) = read_records(f"{MANY}.json")
    (expected,) = record["fits"]
    model = fit(record, expected, form)
    assert model.certificate_.converged
    assert model._learned.hessian is None
    summary = model.summary().to_dict()
    np.testing.assert_allclose(summary["estimate"], expected["coefficients"], rtol=DIGITS)
    np.testing.assert_allclose(summary["std_error"], expected["std_errors"], rtol=DIGITS)
    assert model.log_likelihood_ == pytest.approx(expected["log_likelihood"], rel=1e-12)


@pytest.mark.parametrize("form", [pandas_strings, pandas_categoricals, polars_enums, arrow_dictionaries])
@pytest.mark.parametrize("record", read_records("groups_*.json"), ids=lambda record: record["name"])
def test_slopes_beside_thousands_of_groups_equal_pyfixest(record: Record, form: Form) -> None:
    """Groups whose labels are all alike say nothing about the slopes: pyfixest leaves them out."""
    alone = record["one_class"]
    with pytest.warns(SeparationWarning, match=f"{alone} levels of 'g'") if alone else nullcontext():
        model = LogisticRegression().fit(form({**record, "levels": None, "ordered": False}), "y")
    assert model.certificate_.converged == (not alone)
    slopes = dict(zip(model.design_.get_feature_names_out(), model.coef_[0], strict=True))
    np.testing.assert_allclose([slopes[term] for term in record["terms"]], record["slopes"], rtol=1e-9)
