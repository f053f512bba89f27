"""A fit over sites by files gives the model of all rows; what is wrong is said in a sentence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

import oddsmith
from oddsmith import Design, LogisticRegression
from oddsmith.data import load_dataset

COLUMNS = "bill_length_mm,body_mass_g,island"
START = ("sites", "start", "-t", "species", "--columns", COLUMNS, "--prior", 1, "--missing", "drop", "-o", "state")


@pytest.fixture
def clinics(run: Any) -> Any:
    """Three parts of the penguins, which are sorted by species: none has them all."""
    table = load_dataset("penguins")
    for i, rows in enumerate((table[:100], table[100:200], table[200:])):
        parquet.write_table(rows, f"{i}.parquet")
    return run


def test_fit_over_sites_equals_the_fit_to_all_rows(clinics: Any) -> None:
    run = clinics
    assert run(*START, "--sites", "0,1,2", "--request", "ask").code == 0
    for number in range(20):
        for i in range(3):
            ended = run("sites", "answer", "ask", f"{i}.parquet", "--site", i, "-o", f"{i}.odds", "--json")
            assert ended.code == 0 and json.loads(ended.out)["round"] == number, ended.err
        ended = run(
            "sites", "step", "state", "0.odds", "1.odds", "2.odds", "--request", "ask", "-o", "m.odds", "--json"
        )
        assert ended.code == 0, ended.err
        if json.loads(ended.out)["done"]:
            break
    columns = load_dataset("penguins").select([*COLUMNS.split(","), "species"])
    pooled = LogisticRegression(1.0, design=Design(missing="drop")).fit(columns, "species")
    np.testing.assert_allclose(oddsmith.load("m.odds").coef_, pooled.coef_, rtol=1e-9, atol=1e-12)
    ended = run("sites", "step", "state", "0.odds", "--request", "ask", "-o", "m.odds")
    assert ended.code == 1 and "This fit is done" in ended.err


def test_missing_sites_and_small_sites_are_named(clinics: Any) -> None:
    run = clinics
    assert run(*START, "--sites", "0,1,2", "--least-rows", 101, "--request", "ask").code == 0
    ended = run("sites", "answer", "ask", "0.parquet", "--site", "0", "-o", "0.odds")
    assert ended.code == 1 and "Site '0' has 100 rows" in ended.err
    assert run("sites", "answer", "ask", "2.parquet", "--site", "2", "-o", "2.odds").code == 0
    ended = run("sites", "step", "state", "2.odds", "--request", "ask", "-o", "m.odds")
    assert ended.code == 1 and "No answer from '0', '1'" in ended.err
    ended = run("sites", "step", "state", "2.parquet", "--request", "ask", "-o", "m.odds")
    assert ended.code == 1 and "'2.parquet': This is not an oddsmith answer" in ended.err
