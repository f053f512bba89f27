"""Tables with categories on every engine: folded by codes, and the model of the same table in memory."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from tests.spark import lay_out_spark, why_no_spark

from oddsmith import Design, Fit, LogisticRegression
from oddsmith.data_access import collected_rows
from oddsmith.design.data_summary import BlockEncoder, Roles
from oddsmith.engines import ENGINES, Piece
from oddsmith.engines.files import FileParts
from oddsmith.errors import SeparationWarning
from oddsmith.kernels.table_folds import passes_over
from oddsmith.likelihood import table_sums
from oddsmith.rows import SplitRows
from oddsmith.statistics import Curvature
from oddsmith.testing import lay_out_dask

N, LEVELS = 3000, 130
pytestmark = [
    pytest.mark.filterwarnings("ignore::oddsmith.errors.LevelsWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def table(K: int = 2) -> pa.Table:
    """Numbers of several types, a category of many levels and one of few, weights, labels of K classes."""
    rng = np.random.default_rng(K)
    group = np.concatenate([np.arange(LEVELS), rng.integers(0, LEVELS, N - LEVELS)])
    x, day = rng.normal(1e3, 2.0, size=N), rng.integers(0, 7, N)
    a = 0.5 * (x - 1e3) + 0.5 * rng.normal(size=LEVELS)[group]
    t = (rng.random(N) < 1.0 / (1.0 + np.exp(-a))) * rng.integers(1, K, N)
    names = {"x": x, "count": rng.integers(0, 300, N), "group": [f"g{g:03d}" for g in group]}
    days = pa.array([f"d{d}" for d in day]).dictionary_encode()
    return pa.table({**names, "day": days, "s": rng.integers(1, 4, N), "y": [f"k{k}" for k in t]})


def in_files(rows: pa.Table, folder: Path) -> Any:
    path = str(folder / "rows.parquet")
    pq.write_table(rows, path, row_group_size=700)
    return FileParts.open(path, piece_rows=400)


def on_spark(rows: pa.Table, folder: Path) -> Any:
    if missing := why_no_spark():
        pytest.skip(missing)
    return lay_out_spark(rows.to_pandas().astype({"day": str}), 400)


LAYOUTS = {
    "memory": lambda rows, folder: rows,
    "files": in_files,
    "dask": lambda rows, folder: lay_out_dask(rows.to_pandas(), 400),
    "spark": on_spark,
}
CASES = {
    "prior": (LogisticRegression(1.0, tol=1e-12), 2, None),
    "maximum likelihood": (LogisticRegression(tol=1e-12), 2, None),
    "weights": (LogisticRegression(1.0, tol=1e-12, design=Design("y ~ x + group")), 2, "s"),
    "products": (LogisticRegression(1.0, tol=1e-12, design=Design("y ~ count * group + day")), 2, None),
    "softmax": (LogisticRegression(1.0, tol=1e-12, design=Design("y ~ x + group")), 3, None),
    "probit": (LogisticRegression(1.0, tol=1e-10, link="probit", design=Design("y ~ x + group")), 2, None),
}


def assert_same(found: LogisticRegression, expected: LogisticRegression) -> None:
    assert found.certificate_.converged
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, rtol=1e-8, atol=1e-9)


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[type[Any]]:
    """The storages of the blocks of rows that were folded here."""
    monkeypatch.setattr(collected_rows, "SHARE", 0.0)
    storages: list[type[Any]] = []
    of = Curvature.of.__func__

    def watched(cls: Any, block: Any, params: Any) -> Any:
        storages.append(type(block.Phi))
        return of(cls, block, params)

    def watched_passes(block: Any, params: Any, slices: Any) -> Any:
        storages.append(type(block.Phi))
        return passes_over(block, params, slices)

    monkeypatch.setattr(Curvature, "of", classmethod(watched))
    monkeypatch.setattr(table_sums, "passes_over", watched_passes)
    return storages


@pytest.mark.parametrize("case", list(CASES))
@pytest.mark.parametrize("name", [name for name in ENGINES if name != "spark"])
def test_an_engine_folds_codes_to_the_model_of_memory(
    name: str, case: str, folded: list[type[Any]], tmp_path: Path
) -> None:
    assert name in LAYOUTS, f"Say in LAYOUTS how a table is put where the engine {name!r} finds it."
    check_engine(name, case, folded, tmp_path)
    assert set(folded) == {SplitRows}


@pytest.mark.parametrize("case", ["prior", "softmax"])  # a fit takes seconds there
def test_spark_folds_codes_to_the_model_of_memory(case: str, folded: list[type[Any]], tmp_path: Path) -> None:
    check_engine("spark", case, folded, tmp_path)


def check_engine(name: str, case: str, folded: list[type[Any]], folder: Path) -> None:
    """Compare the fit of a table where an engine finds it with that of the table in memory."""
    model, K, weight = CASES[case]
    rows = table(K) if weight else table(K).drop_columns(["s"])
    s = None if weight is None else rows[weight].to_numpy()
    expected = clone(model).fit(rows, "y", sample_weight=s)
    folded.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        data = LAYOUTS[name](rows, folder)
        found = clone(model).fit(data, "y", sample_weight=s if name == "memory" else weight)
    assert_same(found, expected)


def test_sites_send_sums_of_codes(folded: list[type[Any]]) -> None:
    rows = table().drop_columns(["s"])
    model = LogisticRegression(1.0, tol=1e-12)
    names = [name for name in rows.column_names if name != "y"]
    state = Fit.start(model, names, y="y")
    while not state.done:
        state = Fit.step(state, [state.request.statistic(rows[k::3], site=f"site {k}") for k in range(3)])
    assert_same(state.model, LogisticRegression(1.0, tol=1e-12).fit(rows, "y"))
    assert set(folded) == {SplitRows}


def test_codes_that_memory_cannot_keep_go_to_a_folder_and_come_back(folded: list[type[Any]], tmp_path: Path) -> None:
    rows = table().drop_columns(["s"])
    path, cache = str(tmp_path / "rows.parquet"), tmp_path / "cache"
    pq.write_table(rows, path, row_group_size=700)
    expected = LogisticRegression(1.0, tol=1e-12).fit(rows, "y")
    assert_same(LogisticRegression(1.0, tol=1e-12).fit(path, "y", cache=cache), expected)
    (blocks,) = {file.parent for file in cache.rglob("*.blocks")}
    times = {file: file.stat().st_mtime_ns for file in blocks.iterdir()}
    again = LogisticRegression(1.0, tol=1e-12).fit(path, "y", cache=cache)
    assert_same(again, expected)
    assert {file: file.stat().st_mtime_ns for file in cache.rglob("*.blocks")} == times  # read, not written again


def test_numbers_and_codes_are_kept_in_the_narrowest_type_that_holds_them() -> None:
    rows = table().drop_columns(["s"])
    names = tuple(name for name in rows.column_names if name != "y")
    design = Design().fit(rows.select(names))
    encode = BlockEncoder(roles=Roles("y", features=names), classes=np.array(["k0", "k1"]), design=design, split=True)
    numbers, *factors = encode(Piece(rows)).Phi.parts  # type: ignore[attr-defined]
    assert [array.dtype.name for array in numbers.arrays] == ["float64", "int16"]
    assert [part.codes.dtype.name for part in factors] == ["int16", "int8"]
    np.testing.assert_array_equal(encode(Piece(rows)).Phi.dense(), design.transform(rows).toarray())
    short = replace(encode, dtype="float32")(Piece(rows)).Phi.parts[0]  # type: ignore[attr-defined]
    assert [array.dtype.name for array in short.arrays] == ["float32", "int16"]


def test_an_infinite_number_beside_codes_is_named_with_its_place(tmp_path: Path, folded: list[type[Any]]) -> None:
    rows = table().drop_columns(["s"])
    x = rows["x"].to_numpy().copy()
    x[1500] = np.inf
    path = str(tmp_path / "rows.parquet")
    pq.write_table(rows.set_column(0, "x", pa.array(x)), path, row_group_size=700)
    with pytest.raises(ValueError, match=r"row group 2.*column 'x' has 1 infinite"):
        LogisticRegression(1.0).fit(FileParts.open(path, piece_rows=400), "y")


def test_levels_of_one_class_are_named_by_counting(folded: list[type[Any]], tmp_path: Path) -> None:
    rows = table().drop_columns(["s"])
    y, group = np.array(rows["y"].to_pylist()), np.array(rows["group"].to_pylist())
    y[group == "g007"], y[group == "g000"] = "k1", "k0"  # the latter is the reference
    used = rows.set_column(rows.column_names.index("y"), "y", pa.array(y)).select(["x", "group", "y"])
    with pytest.warns(SeparationWarning, match="level"):
        model = LogisticRegression().fit(in_files(used, tmp_path), "y")
    assert not model.certificate_.optimum_exists
    with pytest.warns(SeparationWarning):
        expected = LogisticRegression().fit(used, "y")
    assert model._separation is not None and expected._separation is not None
    assert model._separation.infinite == expected._separation.infinite
    assert model.coef_[0, 0] == pytest.approx(expected.coef_[0, 0], rel=1e-5)
