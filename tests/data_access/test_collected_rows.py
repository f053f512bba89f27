"""Tables in files whose categories are collected as codes: the fit of memory, within the memory given, or in pieces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oddsmith import Design, LogisticRegression
from oddsmith.data_access import collected_rows
from oddsmith.engines.files import FileParts

N = 4000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    group, x, day = rng.integers(0, 40, N), rng.normal(size=N), rng.integers(0, 7, N)
    a = x + 0.7 * rng.normal(size=40)[group]
    names = {"x": x, "group": [f"g{g:02d}" for g in group], "day": day, "weight": rng.integers(0, 3, N)}
    return pa.table({**names, "y": rng.random(N) < 1.0 / (1.0 + np.exp(-a))})


@pytest.fixture(scope="module")
def path(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> str:
    name = str(tmp_path_factory.mktemp("tables") / "rows.parquet")
    pq.write_table(table, name, row_group_size=700)  # the dictionaries of the pieces differ in order
    return name


@pytest.mark.parametrize("formula", [None, "y ~ x * group + day", "y ~ x:group + C(day):group"])
@pytest.mark.parametrize("weights", [None, "weight"])
def test_the_fit_is_that_of_the_table_in_memory(
    table: pa.Table, path: str, formula: str | None, weights: str | None
) -> None:
    design, used = (None if formula is None else Design(formula)), table.drop_columns(["weight"])
    s = None if weights is None else table[weights].to_numpy()
    expected = LogisticRegression(1.0, design=design, tol=1e-12).fit(used, "y", sample_weight=s)
    collected = LogisticRegression(1.0, design=design, tol=1e-12)
    if weights is None:
        data = FileParts.open(path).choose(used.column_names)
        collected.fit(data, "y")
    else:
        collected.fit(path, "y", sample_weight=weights)
    np.testing.assert_allclose(collected.coef_, expected.coef_, atol=1e-10)
    np.testing.assert_allclose(collected.summary().posterior_sd, expected.summary().posterior_sd, rtol=1e-8)


def test_a_journal_and_little_memory_leave_the_rows_in_pieces(
    table: pa.Table, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LogisticRegression(1.0, tol=1e-12).fit(path, "y", sample_weight="weight")
    monkeypatch.setattr("oddsmith.data_access.training_stream.collect", None)  # whoever collects fails
    resumed = LogisticRegression(1.0, tol=1e-12)
    resumed.fit(path, "y", sample_weight="weight", resume=tmp_path / "journal")
    monkeypatch.setattr(collected_rows, "SHARE", 1e-9)
    streamed = LogisticRegression(1.0, tol=1e-12).fit(path, "y", sample_weight="weight")
    for other in (resumed, streamed):
        np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-9)
