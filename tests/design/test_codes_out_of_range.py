"""Codes of Arrow dictionaries that are out of range: refused by name, never a crash or a wrong number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pytest

from oddsmith import GaussianClassifier, LogisticRegression, NaiveBayes, evaluate
from oddsmith.errors import InvalidInputError
from oddsmith.rows import CodeRows

N = 3000
FEW, MANY = ("a", "b", "c"), tuple(f"level {k:04}" for k in range(2000))


def dictionary(levels: tuple[str, ...], code: int | None, kind: Any = np.int32) -> pa.DictionaryArray:
    """Return a column of levels, one row of which has the given code."""
    codes: npt.NDArray[Any] = np.random.default_rng(0).integers(0, len(levels), N).astype(kind)
    if code is not None:
        codes[1700] = code
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(levels), safe=False)


def table(race: pa.DictionaryArray) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"race": race, "x": rng.normal(size=N), "y": rng.integers(0, 2, N)})


CASES = {
    "beyond the last": (dictionary(FEW, 3), "found 3"),
    "far beyond": (dictionary(FEW, 2**40, np.int64), f"found {2**40}"),
    "unsigned": (dictionary(FEW, 200, np.uint8), "found 200"),
    "negative": (dictionary(FEW, -4), "found -4"),
    "not marked as missing": (dictionary(FEW, -1), "code −1"),
    "of many levels": (dictionary(MANY, 2000), "found 2000"),
    "of many levels, negative": (dictionary(MANY, -7), "found -7"),
    "of no levels": (
        pa.DictionaryArray.from_arrays(pa.array(np.zeros(N, np.int8)), pa.array([], pa.string()), safe=False),
        "found 0",
    ),
    "from buffers": (
        pa.DictionaryArray.from_buffers(
            pa.dictionary(pa.int32(), pa.string()),
            N,
            [None, pa.py_buffer(np.full(N, 9, dtype=np.int32))],
            pa.array(FEW),
        ),
        "found 9",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_codes_out_of_range_are_refused_by_name(name: str, tmp_path: Path) -> None:
    race, found = CASES[name]
    bad = table(race)
    good = LogisticRegression(1.0).fit(table(dictionary(FEW, None)), "y")
    refused = pytest.raises(InvalidInputError, match=f"Column 'race' .*{found}")
    for model in (LogisticRegression(1.0), GaussianClassifier(), NaiveBayes()):
        with refused:
            model.fit(bad, "y")
    for use in (good.predict, good.predict_proba, lambda rows: evaluate(good, rows, bad["y"])):
        with refused:
            use(bad.drop_columns("y"))
    with refused:
        LogisticRegression(1.0).fit(bad, "race")
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file, pa.ipc.new_file(file, bad.schema) as writer:
        writer.write_table(bad, max_chunksize=1000)
    for memory in ("1GB", "16MiB"):
        with refused:
            LogisticRegression(1.0).fit(tmp_path / "rows.arrow", y="y", memory=memory)


def test_missing_codes_that_are_marked_may_be_anything() -> None:
    codes = np.array([0, 1, 2, 0, 77, 1] * 500, dtype=np.int8)
    indices = pa.array(codes, mask=codes == 77)
    race = pa.DictionaryArray.from_arrays(indices, pa.array(FEW))
    with pytest.raises(InvalidInputError, match="Column 'race' has 500 missing values"):
        LogisticRegression(1.0).fit(table(race), "y")


def test_a_storage_refuses_them() -> None:
    for code in (2, -2):
        with pytest.raises(InvalidInputError, match=f"has 2 levels.*found {code}"):
            CodeRows(np.array([0, code], dtype=np.int8), 2)


@pytest.mark.parametrize("code", [3, 70, -5])
def test_those_of_pandas_are_refused_by_name(code: int) -> None:
    codes = np.random.default_rng(0).integers(0, 3, N).astype(np.int8)
    codes[1700] = code
    race = pd.Categorical.from_codes(codes, list(FEW), validate=False)
    rows = pd.DataFrame({"race": race, "x": np.random.default_rng(1).normal(size=N)})
    good = LogisticRegression(1.0).fit(rows.assign(race=np.resize(FEW, N)), rows["x"] > 0.0)
    refused = pytest.raises(InvalidInputError, match=f"Column 'race' has 3 levels.*found {code}")
    for model in (LogisticRegression(1.0), GaussianClassifier(), NaiveBayes()):
        with refused:
            model.fit(rows, rows["x"] > 0.0)
    with refused:
        good.predict(rows)
