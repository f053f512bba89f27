"""A table as people have it: dates, an id, words among numbers; and what somebody new to the commands gets wrong."""

import subprocess
import sys
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
    assert "column 'since' holds '31.01.2026' in line 3, where dates such as '2026-01-31' are expected" in said


IDS = [f"C-{i:04}" for i in range(N)]
SUSPECT = {
    "an id": (IDS, "'x y' has 60 different values in 60 rows: it is an ID"),
    "a number called an id": ([str(1000 + 7 * i) for i in range(N)], "Exclude it with --ignore 'x id'"),
    "day or month first": ([f"{1 + i % 12:02}/{1 + i % 7:02}/2024" for i in range(N)], "day and month are ambiguous"),
    "a dash for a gap": (["-" if i == 7 else str(20 + i % 30) for i in range(N)], "numbers: '-' is not a number, so"),
    "two spellings": ([("Red", "red", "blue")[i % 3] for i in range(N)], "has 'Red' and 'red' as two levels"),
}
INNOCENT = {
    "numbers": list(range(N)),
    "dates": DAYS,
    "words": [("north", "south")[i % 2] for i in range(N)],
    "some numbers and a word": [("1", "2", "3", "4+")[i % 4] for i in range(N)],
    "gaps": [None if i == 7 else float(i) for i in range(N)],
}


@pytest.mark.parametrize("kind", SUSPECT)
@pytest.mark.parametrize("command", ["fit", "compare"])
def test_columns_that_are_not_what_they_seem_are_named(run: Any, command: str, kind: str) -> None:
    values, words = SUSPECT[kind]
    name = "x id" if kind == "a number called an id" else "x y"
    write(**{name: values})
    models = ("--models", "naive-bayes") if command == "compare" else ("--prior", 1)
    ended = run(command, "t.csv", "-t", "churned", *models, "-o", "m.odds")
    assert words in ended.err
    assert words not in run(command, "t.csv", "-t", "churned", "--ignore", name, *models, "-o", "m.odds").err


@pytest.mark.parametrize("kind", INNOCENT)
def test_columns_that_are_what_they_seem_are_let_alone(run: Any, kind: str) -> None:
    write(x=INNOCENT[kind])
    ended = run(*FIT, "--missing", "indicator", "--basis", "standardize")
    assert (ended.code, ended.err) == (0, "")


def test_columns_outside_the_formula_are_let_alone(run: Any) -> None:
    pytest.importorskip("formulaic", reason="formulas are read by the package formulaic")
    write(code=IDS)
    ended = run("fit", "t.csv", "--formula", "churned ~ calls", "--prior", 1, "-o", "m.odds")
    assert (ended.code, ended.err) == (0, "")


def test_an_id_beside_standardize_is_named_and_fitted(run: Any) -> None:
    rows = "".join(f"c{i},{i % 7},{('no', 'yes')[i % 3 == 0]}\n" for i in range(1200))
    Path("t.csv").write_text("id,calls,churned\n" + rows)
    ended = run(*FIT, "--basis", "standardize")
    assert ended.code == 0 and "'id' has 1,200 different values in 1,200 rows" in ended.err


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["stay", "Stay", "go"], "the target, has 'stay' and 'Stay' as two classes"),
        (list(range(30)), "the target, holds 30 different numbers, each of which is a class"),
    ],
)
def test_classes_that_are_hardly_meant_are_named(run: Any, labels: list[Any], words: str) -> None:
    write(churned=[labels[i % len(labels)] for i in range(N)])
    assert words in run(*FIT).err


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
@pytest.mark.parametrize("name", ["t.xlsx", "t.csv"])
def test_a_workbook_is_called_one(run: Any, name: str, start: bytes) -> None:
    Path(name).write_bytes(start + bytes(99) + b"\n1,2\n")
    ended = run("fit", name, "-t", "churned", "-o", "m.odds")
    assert ended.code == 1 and "Excel workbook" in ended.err and "Save the sheet as CSV" in ended.err


def test_a_level_that_is_new_says_how_to_fit(run: Any) -> None:
    write(x=INNOCENT["words"])
    assert run(*FIT).code == 0
    Path("new.csv").write_text("calls,x\n1,west\n")
    assert (
        "or fit again: with rows that have them, or with --unseen reference" in run("predict", "m.odds", "new.csv").err
    )
    Path("new.csv").write_text("calls,X\n1,west\n")
    assert "Is it 'X'?" in run("predict", "m.odds", "new.csv").err


@pytest.mark.parametrize("basis", ["standardize", "standardize(center=False)", None])
def test_weights_of_standardised_columns_say_their_unit(run: Any, basis: str | None) -> None:
    write(x=INNOCENT["numbers"])
    given = () if basis is None else ("--basis", basis)
    assert run(*FIT, *given, "--report", "r.html").code == 0
    page, said = Path("r.html").read_text(encoding="utf-8"), run("summary", "m.odds").out
    assert ("a unit of a column is one standard deviation of it" in said) == (basis is not None)
    assert ("is one standard deviation of it" in page) == (basis is not None)
    assert ("and 0 is its mean" in page) == (basis == "standardize")


@pytest.mark.parametrize(
    "command",
    [
        "fit t.csv -t churned --prior 1 -o t.csv",
        "fit t.csv -t churned --prior 1 -o n.odds --report ./t.csv",
        "compare t.csv -t churned --models logistic -o t.csv",
        "predict m.odds t.csv -o t.csv",
        "decide m.odds t.csv -o t.csv",
        "report m.odds t.csv -t churned -o t.csv",
        "report m.odds t.csv -t churned -o m.odds",
    ],
)
def test_nothing_is_written_over_what_is_read(run: Any, command: str) -> None:
    write()
    assert run(*FIT).code == 0
    before = [Path(name).read_bytes() for name in ("t.csv", "m.odds")]
    ended = run(*command.split())
    assert ended.code == 1 and "is the input, and would be overwritten" in ended.err
    assert [Path(name).read_bytes() for name in ("t.csv", "m.odds")] == before


def test_small_slips_are_understood(run: Any) -> None:
    write(a=INNOCENT["numbers"], b=INNOCENT["words"])
    assert "Give --ignore again for each column" in run(*FIT, "--ignore", "a,b").err
    assert "The model comes first, and then the data" in run("predict", "t.csv", "m.odds").err
    Path("t.csv").write_bytes("a,churned\nÅland,no\nOslo,yes\n".encode("latin-1"))
    assert "'CSV UTF-8' in Excel" in run(*FIT, "--encoding", "utf-8").err


def test_a_row_that_the_fit_left_out_is_to_be_removed_not_a_column(run: Any) -> None:
    lines = [f"{i % 7},{(i * 3) % 11},{'ab'[(i % 7) * (i % 2) > 2]}" for i in range(80)]
    Path("t.csv").write_text("\n".join(["x,z,y", *lines, ",4,a", "5,3,"]))
    assert run("fit", "t.csv", "-t", "y", "--missing", "drop", "--prior", 1, "-o", "m.odds").code == 0
    said = run("predict", "m.odds", "t.csv").err
    assert "Remove these rows, or fit with --missing indicator." in said and "--ignore" not in said
    said = run("fit", "t.csv", "-t", "y", "--missing", "indicator", "-o", "m.odds").err
    assert "Drop these rows with --unlabelled drop, or (with every row that has a missing value) --missing drop" in said
    assert (
        run(
            "fit", "t.csv", "-t", "y", "--unlabelled", "drop", "--missing", "indicator", "--prior", 1, "-o", "u.odds"
        ).code
        == 0
    )


def test_the_package_runs_as_a_module() -> None:
    ended = subprocess.run([sys.executable, "-m", "oddsmith", "--version"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and oddsmith.__version__ in ended.stdout
