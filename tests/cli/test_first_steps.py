"""A table as people have it: dates, an id, words among numbers; and what somebody new to the commands gets wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import oddsmith
from oddsmith.cli.data import open_data

N = 60
DAYS = [f"20{10 + i % 15}-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)]
FIT = ("fit", "t.csv", "-t", "churned", "--prior", 1, "-o", "m.odds")


def write(path: str = "t.csv", **columns: list[Any]) -> None:
    """Write a table of customers, in which calls and chance decide who stays."""
    rng = np.random.default_rng(1)
    calls = rng.poisson(2, N)
    churned = np.where(rng.random(N) < 1 / (1 + np.exp(1.5 - calls)), "yes", "no")
    csv.write_csv(
        pa.table({"calls": calls, **columns, **({"churned": churned} if "churned" not in columns else {})}), path
    )


@pytest.mark.parametrize("rest", ["", " 07:30", " 07:30:00.25", "T07:30:00Z", "T07:30:00.123456789Z"])
def test_dates_of_a_fit_are_dates_in_predictions(run: Any, rest: str) -> None:
    write(since=[day + rest for day in DAYS])
    assert run(*FIT, "--basis", "standardize").code == 0
    table = open_data("t.csv").table()
    expected = oddsmith.load("m.odds").predict_proba(table.drop_columns(["churned"]))
    parquet.write_table(table, "t.parquet")
    for data, stdin in (("t.csv", b""), ("-", Path("t.csv").read_bytes()), ("t.parquet", b"")):
        assert run("predict", "m.odds", data, "--keep", "since", "-o", "p.parquet", stdin=stdin).code == 0
        found = parquet.read_table("p.parquet")
        assert np.array_equal(found["p_yes"], expected[:, 1])
        assert [str(value)[:10] for value in found["since"].to_pylist()] == DAYS


def test_a_date_in_another_form_has_its_column_and_line(run: Any) -> None:
    write(since=DAYS)
    assert run(*FIT, "--basis", "standardize").code == 0
    Path("new.csv").write_text("calls,since\n1,2026-01-31\n2,31.01.2026\n")
    said = run("predict", "m.odds", "new.csv").err
    assert "column 'since' holds '31.01.2026' in line 3, where a date such as 2026-01-31 is expected" in said
