"""Bad input ends with one sentence that helps, the exit code 1, and no traceback; a wrong use of options with 2."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.cli import command

FIT = ("fit", "data.csv", "-t", "y", "-o", "m.odds")

GOOD = "a,b,y\n1,2,no\n2,1,yes\n3,5,no\n4,3,yes\n"

BAD_FILES = {
    "a,b,y\n1,2,no\n2,1\n3,5,yes\n": "line 3 has 2 fields, but the header has 3 (a, b, y)",
    'a,b,y\n1,"two\nlines",no\n2,1,yes,more\n': "line 4 has 4 fields",
    "": "'data.csv' cannot be read as CSV: it is empty",
    "a,b,y\n1,2,only\n2,1,only\n": "one class only ('only')",
    "a,b,y\n1,2,no\n2,1,\n3,4,yes\n": "Column 'y', the target, is missing in 1 of 3 rows",
    "a,b,y\n1,,no\n2,1,yes\n3,4,yes\n": "column 'b' has 1 missing value",
    "a,a,y\n1,2,no\n2,1,yes\n": "two columns named 'a'",
    "a,b,y\n": "'data.csv' has no rows, only the names of columns",
}


@pytest.mark.parametrize("content", BAD_FILES, ids=BAD_FILES.values())
def test_a_bad_file_is_explained(run: Any, content: str) -> None:
    Path("data.csv").write_text(content)
    check(run(*FIT), BAD_FILES[content])
    assert not Path("m.odds").exists()


BAD_OPTIONS = {
    ("fit", "nowhere.csv", "-t", "y", "-o", "m.odds"): "There is no file, folder or data set 'nowhere.csv'",
    ("fit", "pengins", "-t", "y", "-o", "m.odds"): "Did you mean 'penguins'?",
    ("fit", "data.csv", "-t", "Y", "-o", "m.odds"): "There is no column 'Y' for --target. Did you mean 'y'?",
    ("fit", "data.csv", "-t", "z", "-o", "m.odds"): "The columns are: 'a', 'b', 'y'.",
    ("fit", "data.csv", "-t", "y", "-o", "nowhere/m.odds"): "The folder of 'nowhere/m.odds' does not exist",
    (*FIT, "--model", "forest"): "Unknown model 'forest'. Known: 'fisher', 'gaussian'",
    (*FIT, "--model", "gaussian('round')"): "Unknown covariance 'round'",
    (*FIT, "--model", "gaussian(shape=1)"): "Unknown argument of model 'gaussian': 'shape'",
    (*FIT, "--model", "__import__('os')"): "The model \"__import__('os')\" cannot be read",
    (*FIT, "--model", "gaussian(open('/etc/passwd'))"): "cannot be read",
    (*FIT, "--model", "gaussian", "--prior", "1"): "The model 'gaussian' takes no --prior. Leave it out, or choose",
    (*FIT, "--model", "naive-bayes", "--missing", "drop"): "naive-bayes reads categories and missing values by itself",
    (*FIT, "--model", "logistic(prior=1)", "--prior", "2"): "'prior' is given twice",
    (*FIT, "--basis", "fourier(3)"): "Unknown basis 'fourier'. Known: 'kernel', 'polynomial'",
    (*FIT, "--basis", "polynomial(2"): "cannot be read",
    (*FIT, "--basis", "polynomial(0)"): "degree of Polynomial must be a whole number of at least 1, found 0",
    (*FIT, "--basis", "polynomial(1, 2, 3, 4, 5)"): "too many positional arguments",
    (*FIT, "--prior", "cauchy"): "Unknown prior 'cauchy'",
    (*FIT, "--prior", "-1"): "a positive number",
    (*FIT, "--prior", "nan"): "a positive number",
    (*FIT, "--missing", "guess"): "Unknown missing 'guess'. Known: 'drop', 'error', 'indicator'",
    (*FIT, "--unseen", "guess"): "Unknown unseen 'guess'",
    (*FIT, "--weights", "w"): "There is no column 'w' for --weights",
    (*FIT, "--ignore", "w"): "There is no column 'w' for --ignore",
    (*FIT, "--formula", "y ~ a +"): "formula 'y ~ a +' cannot be read",
    (*FIT, "--formula", "y ~ open(a)"): "open",
    ("compare", "data.csv", "-t", "y", "--models", "tree"): "Unknown model 'tree'",
    ("compare", "data.csv", "-t", "y", "--models", "logistic", "--cv", "2", "--missing", "x"): "Unknown missing 'x'",
    ("compare", "data.csv", "-t", "y", "--models", "logistic", "--cv", "9"): "more folds than there are rows (4)",
    ("compare", "data.csv", "-t", "y", "--cv", "2", "--by", "luck"): "Unknown score to compare by 'luck'",
    ("predict", "data.csv", "data.csv"): "'data.csv' cannot be loaded. This is not an oddsmith model file",
    ("summary", "nothing.odds"): "'nothing.odds' cannot be read (No such file or directory)",
    ("datasets", "titanic"): "Unknown data set 'titanic'. Known: 'breast_cancer'",
    (
        "datasets",
        "iris",
        "-o",
        "iris.xlsx",
    ): "Unknown format of 'iris.xlsx': 'xlsx'. Known: 'arrow', 'csv', 'jsonl', 'parquet'",
    ("datasets", "iris", "-o", "nowhere/iris.csv"): "does not exist. Create it first",
}


@pytest.mark.parametrize("arguments", BAD_OPTIONS, ids=" ".join)
def test_bad_options_are_explained(run: Any, arguments: tuple[str, ...]) -> None:
    Path("data.csv").write_text(GOOD)
    check(run(*arguments), BAD_OPTIONS[arguments])


HEADER = "species,island,bill_length_mm,bill_depth_mm,flipper_length_mm,body_mass_g,sex,year\n"
FIRST = "Adelie,Dream,39.1,18.7,181,3750,male,2007\n"
BAD_ROWS = {
    "species,island\nAdelie,Dream\n": "'bill_length_mm', which the model was fitted to, is missing from 'rows.csv'",
    HEADER + FIRST + "Adelie,Dream,long,18.7,181,3750,male,2007\n": (
        "column 'bill_length_mm' holds 'long' in line 3, where a number is expected"
    ),
    HEADER + FIRST + "Adelie,Atlantis,39,18.7,181,3750,male,2007\n": (
        "Column 'island' has levels that did not occur in the fit: 'Atlantis'"
    ),
    HEADER: "no rows",
    HEADER.replace("year", "sex") + FIRST: "two columns named 'sex'",
}


@pytest.mark.parametrize("rows", BAD_ROWS, ids=["no column", "a word for a number", "a new level", "no rows", "twice"])
@pytest.mark.parametrize("command", ["predict", "decide", "evaluate -t species"])
def test_rows_that_do_not_suit_the_model_are_explained(run: Any, fitted: Path, command: str, rows: str) -> None:
    Path("rows.csv").write_text(rows)
    name, *options = command.split()
    check(run(name, fitted, "rows.csv", *options), BAD_ROWS[rows])


BAD_USE = {
    ("decide", "--loss", "[[1, 2]"): "--loss is not valid JSON",
    ("decide", "--loss", "[[0, 1], [1, 0]]"): "expected 3 × A",
    ("decide", "--loss", "loss.txt"): "neither JSON nor a file that can be read",
    ("decide", "--loss", '{"Adelie": {"a": 1}}'): "loss does not mention class 'Chinstrap'",
    ("decide", "--reject", "much"): "--reject is not valid JSON",
    ("predict", "--keep", "beak"): "There is no column 'beak' for --keep",
    ("evaluate", "-t", "beak"): "There is no column 'beak' for --target",
    ("evaluate", "-t", "island"): "Unknown class in y",
    ("evaluate", "-t", "species", "--level", "2"): "level must be a number between 0 and 1",
}


@pytest.mark.parametrize("arguments", BAD_USE, ids=" ".join)
def test_bad_use_of_a_model_is_explained(run: Any, fitted: Path, arguments: tuple[str, ...]) -> None:
    command, *rest = arguments
    check(run(command, fitted, "penguins", *rest), BAD_USE[arguments])


def test_a_discriminative_model_draws_no_samples(run: Any, fitted: Path) -> None:
    check(run("sample", fitted), "it cannot generate rows")


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "noise"])
def test_a_damaged_model_file_is_refused(run: Any, fitted: Path, damage: str) -> None:
    content = bytearray(fitted.read_bytes())
    content[len(content) // 2] ^= 1
    whole = fitted.read_bytes()
    damaged = {"cut": whole[:-5], "flipped": bytes(content), "empty": b"", "noise": np.random.default_rng(0).bytes(500)}
    Path("bad.odds").write_bytes(damaged[damage])
    for arguments in (("summary", "bad.odds"), ("predict", "bad.odds", "penguins")):
        check(run(*arguments), "'bad.odds' cannot be loaded")


def test_broken_lines_of_json_and_standard_input_have_their_number(run: Any) -> None:
    Path("data.jsonl").write_text('{"a": 1, "y": "no"}\n{"a": 2, "y": \n')
    check(run("fit", "data.jsonl", "-t", "y", "-o", "m.odds"), "line 2 is not valid JSON")
    check(run("fit", "-", "-t", "y", "-o", "m.odds", stdin=b"a,y\n1,no\n2\n"), "line 3 has 1 field")
    assert run("fit", "iris", "-t", "species", "--model", "gaussian", "-o", "iris.odds").code == 0
    check(run("predict", "iris.odds", "-", "-o", "p.csv", stdin=b"a,y\n1,no\n2\n"), "line 3 has 1 field")


def test_bytes_that_are_no_text_are_refused(run: Any) -> None:
    Path("data.csv").write_bytes("a,y\n1,no\n2,straße\n".encode("latin-1"))
    check(run(*FIT, "--encoding", "utf-8"), "not UTF-8")
    check(run(*FIT, "--encoding", "ebcdic-9"), "Unknown encoding 'ebcdic-9'")
    check(run(*FIT, "--delimiter", "::"), "is not a delimiter")
    check(run(*FIT, "--decimal", "'"), "Pass '.' or ','")
    Path("data.parquet").write_bytes(b"PAR1 but no more")
    check(run("fit", "data.parquet", "-t", "y", "-o", "m.odds"), "'data.parquet' cannot be read as PARQUET")


def test_databases_say_what_they_have(run: Any) -> None:
    with sqlite3.connect("shop.db") as connection:
        connection.execute("CREATE TABLE orders (a REAL, y TEXT)")
        connection.execute("CREATE TABLE people (a REAL, y TEXT)")
    check(run("fit", "shop.db", "-t", "y", "-o", "m.odds"), "The database has 2 tables ('orders', 'people')")
    check(run("fit", "shop.db::order", "-t", "y", "-o", "m.odds"), "Unknown table 'order'")
    check(run("fit", "shop.db::SELECT b FROM orders", "-t", "y", "-o", "m.odds"), "no such column: b")
    check(run("fit", "shop.db::DROP TABLE orders", "-t", "y", "-o", "m.odds"), "Unknown table 'DROP TABLE orders'")
    drop = "shop.db::WITH x AS (SELECT 1) DELETE FROM orders"
    check(run("fit", drop, "-t", "y", "-o", "m.odds"), "readonly database")


@pytest.mark.parametrize(
    "arguments", [("fit", "iris"), ("fit", "iris", "-o", "m.odds"), ("fly",), ("predict", "--wings")]
)
def test_wrong_usage_ends_with_2(run: Any, arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert ended.code == 2 and "Usage:" in ended.err and "Traceback" not in ended.err


def test_debug_shows_the_traceback(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.cli.app import app
    from oddsmith.errors import InvalidInputError

    monkeypatch.setattr(command, "show_traceback", False)
    with pytest.raises(InvalidInputError, match="There is no file"):
        app(["--debug", "fit", "nowhere.csv", "-t", "y", "-o", "m.odds"])


def test_an_error_of_ours_is_no_traceback_either(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from oddsmith.cli import data

    monkeypatch.setattr(data, "open_data", lambda text, dialect: 1 / 0)
    check(run("fit", "iris", "-t", "species", "-o", "m.odds"), "ZeroDivisionError: division by zero. This is a bug in")


def check(ended: Any, words: str) -> None:
    """Whether a command ended with one sentence on standard error that has these words."""
    assert ended.code == 1, ended
    assert ended.out == ""
    assert words in ended.err, ended.err
    assert ended.err.startswith("Error: ") and ended.err.count("\n") == 1 and "Traceback" not in ended.err
    assert ended.err.rstrip()[-1] in ".?)", ended.err
