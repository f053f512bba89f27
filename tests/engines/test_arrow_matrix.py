"""Columns of Arrow as a matrix without a copy: only where they lie so, and as long as somebody looks at them."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from oddsmith.engines.arrow_matrix import matrix_of
from oddsmith.engines.files import FileParts


def columns(rows: Any) -> list[Any]:
    return [pa.chunked_array([pa.array(row)]) for row in rows]


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_rows_of_an_array_are_a_view_and_slices_of_them_too(M: int, n: int, before: int, after: int) -> None:
    made = np.arange(float(M * (before + n + after))).reshape(M, -1)
    some = [column.slice(before, n) for column in columns(made)]
    found = matrix_of(some)
    if before % 2:  # it begins where no array does
        assert found is None
        return
    assert found is not None
    np.testing.assert_array_equal(found, made[:, before : before + n])
    assert np.shares_memory(found, made)


@pytest.mark.parametrize(
    "strange",
    [
        columns([np.zeros(3), np.zeros(3, dtype=np.int64)]),
        columns(np.zeros((3, 3)))[::-1],
        [pa.chunked_array([[1.0, None]]), pa.chunked_array([[1.0, 2.0]])],
        [pa.chunked_array([[1.0], [2.0]])],
        columns(np.zeros((2, 0))),
        columns([*np.zeros((2, 3)), np.zeros(3)]),
        [],
    ],
    ids=["other type", "backwards", "nulls", "chunks", "no rows", "one apart", "no columns"],
)
def test_all_else_is_not(strange: list[Any]) -> None:
    assert matrix_of(strange) is None


def test_columns_live_as_long_as_their_matrix() -> None:
    found = [matrix_of(columns(np.full((3, 50_000), float(i)))) for i in range(20)]
    gc.collect()
    filled = [np.full((3, 50_000), -1.0) for _ in range(20)]
    assert [float(one.max()) for one in found if one is not None] == list(range(20)) and len(filled) == 20


def test_numbers_of_a_row_group_are_a_matrix_as_they_are_read(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {"a": rng.normal(size=50), "k": rng.integers(0, 9, 50), "b": rng.normal(size=50)}
        | {"c": pa.array([None, *rng.normal(size=49)]), "d": rng.normal(size=50)}
    )
    parquet.write_table(table, tmp_path / "t.parquet")
    parts = FileParts.open(tmp_path / "t.parquet", piece_rows=20)
    tables = [some for task in parts.tasks() for some in parts.read(task)]
    assert [some.num_rows for some in tables] == [20, 20, 10]
    assert pa.concat_tables(tables).equals(table)
    for some in tables:
        assert matrix_of(some.select(["a", "b", "d"]).columns) is not None
        assert matrix_of(some.columns) is None
