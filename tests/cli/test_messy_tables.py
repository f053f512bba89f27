"""Tables as spreadsheets write them, from the command line: what is recognised is said, and holds for later files."""

import bz2
import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import oddsmith
from oddsmith.cli import data

N = 400
rng = np.random.default_rng(3)
SIZE, PRICE = rng.normal(50.0, 12.0, N).round(2), rng.gamma(2.0, 900.0, N).round(2)
SOLD = np.where(SIZE / 20 + PRICE / 2000 + rng.normal(size=N) > 3.3, "ja", "nein")
EXPORT = "Größe;Umsatz;Ort;Tag;verkauft\n" + "".join(
    f"{size};{price};{('Köln', 'Ulm')[i % 2]};{1 + i % 28:02}.{1 + i % 12:02}.2024;{sold}\n"
    for i, (size, price, sold) in enumerate(
        zip(
            [f"{x:.2f}".replace(".", ",") for x in SIZE],
            [f"{x:,.2f}".translate(str.maketrans(",.", ".,")) for x in PRICE],
            SOLD,
            strict=True,
        )
    )
)
FIT = ("fit", "t.csv", "-t", "verkauft", "--prior", 1, "--basis", "standardize", "-o", "m.odds")


@pytest.mark.parametrize("pieces", [False, True])
def test_a_spreadsheet_export_is_fitted_said_and_predicted(run: Any, pieces: bool) -> None:
    Path("t.csv").write_bytes(EXPORT.encode("latin-1"))
    ended = run(*FIT, *(("--memory", "100MB") if pieces else ()))
    assert ended.code == 0 and ended.err.count("Note: ") == 1
    for words in (
        "Latin-1",
        "semicolons",
        "decimal commas",
        "'Umsatz' as numbers",
        "'Tag' as dates by day, month, year",
    ):
        assert words in ended.err
    assert "pass --encoding, --delimiter or --decimal" in ended.err
    model = oddsmith.load("m.odds")
    assert model.design_.get_feature_names_out().tolist() == ["Größe", "Umsatz", "Ort[Ulm]", "Tag"]
    np.testing.assert_allclose(model.basis_.steps[0].mean_[:2], [SIZE.mean(), PRICE.mean()])
    Path("new.csv").write_text(EXPORT, encoding="utf-8-sig")
    how = ("--memory", "100MB") if pieces else ()
    assert run("predict", "m.odds", "new.csv", *how, "-o", "p.parquet").code == 0
    shares = parquet.read_table("p.parquet")["p_ja"].to_numpy()
    assert shares.shape == (N,) and np.corrcoef(shares, SOLD == "ja")[0, 1] > 0.3
    Path("new.csv").write_text(EXPORT.replace("\n", "\n", 1).replace("Ulm;", "Ulm;", 1) + "1;12.5;Ulm;01.01.2024;ja\n")
    said = run("predict", "m.odds", "new.csv", *how, "-o", "p.parquet").err
    assert f"column 'Umsatz' holds '12.5' in line {N + 2}, where numbers such as" in said
    assert run("evaluate", "m.odds", "t.csv", "-t", "verkauft", *how).code == 0
    if not pieces:
        assert run("report", "m.odds", "t.csv", "-t", "verkauft", "-o", "r.html").code == 0


def test_options_say_how_text_is_read(run: Any) -> None:
    rows = "".join(f"{1 + i % 7},234;{('no', 'yes')[i % 3 == 0]}\n" for i in range(60))
    Path("t.csv").write_text("x;y\n" + rows)
    fit = ("fit", "t.csv", "-t", "y", "--prior", 1, "-o", "m.odds")
    assert "'x' as numbers ('7,234')" in run(*fit).err
    ended = run(*fit, "--decimal", ",", "--delimiter", ";", "--encoding", "ascii")
    assert ended.code == 0 and "'x' as" not in ended.err
    fraction = oddsmith.load("m.odds").text_formats_["x"]
    assert (fraction.decimal, fraction.thousands) == (",", "")


def test_money_percent_and_spellings_are_recognised_and_no_good_column_is_to_be_dropped(run: Any) -> None:
    table = pa.table(
        {
            "": list(range(N)),
            "customer_id": (rng.permutation(N) * 3 + 1000).tolist(),
            "price": [f"${x:,.2f}" for x in PRICE],
            "rate": [f"{x:.0f}%" for x in SIZE],
            "member": [(" yes", "NO ", "yes", "no")[i % 4] for i in range(N)],
            "sold": SOLD,
        }
    )
    csv.write_csv(table, "t.csv")
    ended = run("fit", "t.csv", "-t", "sold", "--prior", 1, "-o", "m.odds")
    assert "'price' as money" in ended.err and "'rate' as percentages" in ended.err
    assert "'member' as levels in one spelling ('no', 'yes')" in ended.err
    assert "A column without a name counts the rows" in ended.err and "--ignore ''" in ended.err
    assert "Exclude it with --ignore customer_id" in ended.err
    assert not any(f"--ignore {name}" in ended.err for name in ("price", "rate", "member"))
    ended = run("fit", "t.csv", "-t", "sold", "--ignore", "", "--ignore", "customer_id", "-o", "m.odds")
    assert ended.code == 0 and "Warning" not in ended.err


def test_notes_come_before_the_fit(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("t.csv").write_text("name,y\n" + "".join(f"n{i},{'ab'[i % 2]}\n" for i in range(150)))
    from oddsmith import LogisticRegression

    def fail(*args: object, **more: object) -> None:
        raise MemoryError

    monkeypatch.setattr(LogisticRegression, "fit", fail)
    said = run("fit", "t.csv", "-t", "y", "-o", "m.odds").err
    assert said.index("'name' has 150 different values in 150 rows: it is an ID") < said.index("Error: There is not")


def test_errors_give_the_line_of_the_file(run: Any) -> None:
    rows = "".join(f'{i},"{i}\n{i}",{"ab"[i % 3 == 0]}\n\n' for i in range(30))
    Path("t.csv").write_text(f"x,n,y\n{rows},,a\n")
    fit = ("fit", "t.csv", "-t", "y", "--ignore", "n", "--prior", 1, "-o", "m.odds")
    assert "has 1 missing value (NaN), the first in line 92" in run(*fit).err
    assert "has 1 missing value (NaN), the first in line 92" in run(*fit, "--memory", "100MB").err
    assert run(*fit, "--missing", "drop").code == 0
    assert "first in line 92" in run("predict", "m.odds", "t.csv").err
    Path("t.csv").write_text("x,y\n1,a\n2,\n3,b\n4,a\n")
    said = run("fit", "t.csv", "-t", "y", "--prior", 1, "-o", "m.odds").err
    assert "the target, is missing in 1 of 4 rows, the first in line 3" in said and "--missing drop" in said


@pytest.mark.parametrize("pieces", [False, True])
def test_missing_drop_drops_rows_without_a_class(run: Any, pieces: bool) -> None:
    rows = "".join(f"{i % 7 if i % 11 else ''},{['a', 'b', ''][i % 5 if i % 5 < 3 else 1]}\n" for i in range(60))
    Path("t.csv").write_text("x,y\n" + rows)
    how = ("--memory", "100MB") if pieces else ()
    assert run("fit", "t.csv", "-t", "y", "--prior", 1, "--missing", "drop", "-o", "m.odds", *how).code == 0
    found = oddsmith.load("m.odds")
    table = data.open_data("t.csv").table().drop_null()
    expected = oddsmith.LogisticRegression(1.0).fit(table, "y")
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)


def test_standardize_takes_a_category_of_many_levels(run: Any) -> None:
    rows = "".join(f"{i * 7 % 61},S{i % 25:02},{'ab'[i * i % 5 < 2]}\n" for i in range(500))
    Path("t.csv").write_text("age,state,y\n" + rows)
    ended = run("fit", "t.csv", "-t", "y", "--basis", "standardize", "--prior", 1, "-o", "m.odds", "--report", "r.html")
    assert (ended.code, ended.err) == (0, "")
    assert "0/1 columns of levels are not scaled" in Path("r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("raw", [False, True])
def test_text_that_a_spreadsheet_would_run_is_escaped_in_csv(run: Any, raw: bool) -> None:
    texts = ["=cmd|' /C calc'!A0", "@SUM(1)", "+1-1", "-5", "+49 (30) 123", "-x", "plain", "\tx"]
    table = pa.table({"id": texts, "x": [float(i) for i in range(8)], "y": ["=no", "yes"] * 4})
    csv.write_csv(table, "t.csv")
    assert run("fit", "t.csv", "-t", "y", "--ignore", "id", "--prior", 1, "-o", "m.odds").code == 0
    how = ("--raw-text",) if raw else ()
    assert run("predict", "m.odds", "t.csv", "--keep", "id", "-o", "p.csv", *how).code == 0
    found = csv.read_csv("p.csv", convert_options=csv.ConvertOptions(column_types={"id": pa.string()}))
    escaped = ["'=cmd|' /C calc'!A0", "'@SUM(1)", "+1-1", "-5", "+49 (30) 123", "'-x", "plain", "'\tx"]
    assert found["id"].to_pylist() == (texts if raw else escaped)
    assert ("=no" in found["predicted"].to_pylist()) == raw
    assert run("predict", "m.odds", "t.csv", "--keep", "id", "-o", "p.parquet").code == 0
    assert parquet.read_table("p.parquet")["id"].to_pylist() == texts, "only text files are opened in spreadsheets"


def test_help_cuts_no_description(run: Any) -> None:
    said = " ".join(run("--help").out.split())
    assert "…" not in said and "..." not in said.replace("[ARGS]...", "")
    assert "the probability, and changes of the decision." in said


def test_there_is_a_lecture_on_separation(run: Any) -> None:
    said = run("lecture", "separation", "--no-open").out
    assert "38. Separated classes" in said and "does it hold the answer?" in said


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_what_is_said_about_a_file_holds_against_what_the_fit_has_seen(run: Any, how: tuple[str, ...]) -> None:
    """A model of decimal commas predicts a file of decimal points, if that is said, and advises to say so."""
    Path("t.csv").write_bytes(EXPORT.encode("latin-1"))
    assert run(*FIT, *how).code == 0
    assert run("predict", "m.odds", "t.csv", *how, "-o", "expected.parquet").code == 0
    table = csv.read_csv("t.csv", csv.ReadOptions(encoding="latin-1"), csv.ParseOptions(delimiter=";"))
    points = table.set_column(0, "Größe", pa.array(SIZE)).set_column(1, "Umsatz", pa.array(PRICE))
    csv.write_csv(points, "points.csv")
    said = run("predict", "m.odds", "points.csv", *how, "-o", "p.parquet")
    assert said.code == 1 and "If this file has '.' as its decimal sign, pass --decimal '.'." in said.err
    assert run("predict", "m.odds", "points.csv", "--decimal", ".", *how, "-o", "p.parquet").code == 0
    assert parquet.read_table("p.parquet").equals(parquet.read_table("expected.parquet"))
    if not how:
        assert run("evaluate", "m.odds", "points.csv", "-t", "verkauft", "--decimal", ".").code == 0


def test_numbers_in_json_need_not_be_text_as_in_the_fit(run: Any) -> None:
    Path("t.csv").write_bytes(EXPORT.encode("latin-1"))
    assert run(*FIT).code == 0
    assert run("predict", "m.odds", "t.csv", "-o", "expected.parquet").code == 0
    rows = [line.split(";") for line in EXPORT.splitlines()[1:]]
    facts = [{"Größe": x, "Umsatz": y, "Ort": r[2], "Tag": r[3]} for x, y, r in zip(SIZE, PRICE, rows, strict=True)]
    Path("t.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in facts))
    assert run("predict", "m.odds", "t.jsonl", "-o", "p.parquet").code == 0
    assert parquet.read_table("p.parquet").equals(parquet.read_table("expected.parquet"))


def test_plain_numbers_in_json_are_predicted(run: Any) -> None:
    """Columns of plain numbers have no type of their own before they are read."""
    csv.write_csv(pa.table({"size": SIZE, "price": PRICE, "sold": SOLD}), "t.csv")
    assert run("fit", "t.csv", "-t", "sold", "--prior", 1, "-o", "m.odds").code == 0
    facts = [{"price": y, "size": x} for x, y in zip(SIZE, PRICE, strict=True)]
    Path("t.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in facts))
    for name in ("t.csv", "t.jsonl"):
        assert run("predict", "m.odds", name, "-o", f"{name}.parquet").code == 0
    assert parquet.read_table("t.jsonl.parquet").equals(parquet.read_table("t.csv.parquet"))
    Path("t.jsonl").write_text("")
    said = run("predict", "m.odds", "t.jsonl", "-o", "none.parquet")
    assert said.code == 1 and "has no rows" in said.err


def test_target_and_columns_that_are_not_there_are_asked_for_by_option(run: Any) -> None:
    csv.write_csv(pa.table({"size": SIZE, "sold": SOLD}), "t.csv")
    assert "Name it with --target" in run("fit", "t.csv", "--formula", "~ size", "-o", "m.odds").err
    assert "No columns are left" in run("fit", "t.csv", "-t", "sold", "--ignore", "size", "-o", "m.odds").err


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_decimal_points_that_were_asked_for_leave_commas_text(run: Any, how: tuple[str, ...]) -> None:
    """In memory and in pieces alike: no column is called text at first and recognised as numbers then."""
    rows = "".join(f"{x:.2f};{sold}\n" for x, sold in zip(SIZE, SOLD, strict=True))
    Path("t.csv").write_text("size;sold\n" + rows.replace(".", ","))
    ended = run("fit", "t.csv", "-t", "sold", "--prior", 1, "--decimal", ".", *how, "-o", "m.odds")
    assert ended.code == 0 and "'size' holds text" in ended.err and "'size' as numbers" not in ended.err
    assert len(oddsmith.load("m.odds").design_.get_feature_names_out()) == len(set(SIZE.tolist())) - 1


@pytest.mark.parametrize("model", ["logistic", "probit", "least-squares"])
def test_standardize_takes_sparse_levels_in_pieces(run: Any, model: str) -> None:
    """A column with a new level in every row makes the rows of the basis sparse."""
    rows = "".join(f"{x:.2f},C-{i:04},{sold}\n" for i, (x, sold) in enumerate(zip(SIZE, SOLD, strict=True)))
    Path("t.csv").write_text("size,customer,sold\n" + rows)
    fit = ("fit", "t.csv", "-t", "sold", "--model", model, "--basis", "standardize", "--prior", 1)
    assert run(*fit, "-o", "whole.odds").code == 0
    assert run(*fit, "-o", "pieces.odds", "--memory", "100MB").code == 0
    whole, pieces = oddsmith.load("whole.odds"), oddsmith.load("pieces.odds")
    np.testing.assert_allclose(pieces.coef_, whole.coef_, atol=1e-6)


TEXTS = {
    "two decimal signs": (
        [f"{x:.2f}".replace(".", ".,"[i % 2]) for i, x in enumerate(SIZE)],
        "'{0}' and '{1}' are not",
    ),
    "some percent signs": ([f"{x:.1f}{'%' * (i % 2)}" for i, x in enumerate(SIZE)], "'{0}' and '{1}' are not written"),
    "short years": (
        [f"{1 + i % 28:02}.{1 + i % 12:02}.{10 + i % 15}" for i in range(N)],
        "but the years have two digits",
    ),
    "a word for a date": ([f"2024-01-{1 + i % 28:02}" if i else "soon" for i in range(N)], "but 'soon' does not."),
}


@pytest.mark.parametrize("case", TEXTS)
def test_text_that_is_not_recognised_is_named_once_with_the_reason(run: Any, case: str) -> None:
    texts, reason = TEXTS[case]
    csv.write_csv(pa.table({"size": SIZE, "x": texts, "sold": SOLD}), "t.csv")
    said = run("fit", "t.csv", "-t", "sold", "--prior", 1, "-o", "m.odds").err
    assert reason.format(*texts) in said and said.count("Column 'x'") == 1


def test_times_in_utc_are_dates(run: Any) -> None:
    days = [f"2024-{1 + i % 12:02}-{1 + i % 28:02} 07:30:00" for i in range(N)]
    expected = None
    for zone in ("Z", " UTC", " GMT"):
        csv.write_csv(pa.table({"since": [day + zone for day in days], "sold": SOLD}), "t.csv")
        ended = run("fit", "t.csv", "-t", "sold", "--basis", "standardize", "-o", "m.odds")
        assert (ended.code, "Warning" in ended.err) == (0, False)
        assert run("predict", "m.odds", "t.csv", "-o", "p.parquet").code == 0
        found = parquet.read_table("p.parquet")["p_ja"].to_numpy()
        expected = found if expected is None else expected
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_utf_16_needs_no_byte_order_mark(run: Any, encoding: str, how: tuple[str, ...]) -> None:
    Path("t.csv").write_bytes(EXPORT.encode(encoding))
    ended = run(*FIT, *how)
    assert ended.code == 0 and f"Recognised {encoding.upper()} text" in ended.err
    assert oddsmith.load("m.odds").design_.get_feature_names_out().tolist() == ["Größe", "Umsatz", "Ort[Ulm]", "Tag"]


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_rows_without_a_label_are_dropped_by_every_command_that_reads_labels(run: Any, how: tuple[str, ...]) -> None:
    rows = [f"{x:.2f},{'' if i % 9 == 4 else sold}\n" for i, (x, sold) in enumerate(zip(SIZE, SOLD, strict=True))]
    Path("t.csv").write_text("size,sold\n" + "".join(rows))
    Path("labelled.csv").write_text("size,sold\n" + "".join(row for row in rows if not row.endswith(",\n")))
    assert run("fit", "t.csv", "-t", "sold", "--unlabelled", "drop", *how, "-o", "m.odds").code == 0
    commands: list[tuple[str, ...]] = [("evaluate", "m.odds", "t.csv", "-t", "sold", *how)]
    if not how:
        commands += [("compare", "t.csv", "-t", "sold", "--models", "logistic", "--cv", "2")]
        commands += [("path", "t.csv", "-t", "sold", "-n", "3")]
        commands += [("report", "m.odds", "t.csv", "-t", "sold", "-o", "r.html")]
    for command in commands:
        said = run(*command)
        assert said.code == 1 and "in line 6" in said.err and "with --unlabelled drop" in said.err
        found = run(*command, "--unlabelled", "drop")
        expected = run(*(word.replace("t.csv", "labelled.csv") for word in command))
        assert found.code == expected.code == 0
        if command[0] in ("evaluate", "path"):
            assert found.out == expected.out.replace("labelled.csv", "t.csv")
        assert "Unknown unlabelled 'guess'" in run(*command, "--unlabelled", "guess").err


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_lines_count_the_rows_that_are_dropped(run: Any, how: tuple[str, ...]) -> None:
    rows = "".join(f"{i},\n" for i in range(10)) + "".join(f"{i // 2 % 5},{'ab'[i % 2]}\n" for i in range(20)) + ",b\n"
    Path("t.csv").write_text("x,y\n" + rows)
    said = run("fit", "t.csv", "-t", "y", "--prior", 1, "--unlabelled", "drop", *how, "-o", "m.odds").err
    assert "has 1 missing value (NaN), the first in line 32" in said and "bytes" not in said


FIRST_LINES = {
    "a title": ("Customers,,\n\nsize,n,sold\n", "2 columns without a name. The first line must hold the names"),
    "empty columns": ("size,sold,,\n", "2 columns without a name"),
    "a comment": ("# exported today\nsize,n,sold\n", "the header has 1 (# exported today). Delete titles above"),
    "no header": ("", "There is no column 'sold' for --target. The first line must hold the names of the columns"),
}


@pytest.mark.parametrize("case", FIRST_LINES)
def test_a_first_line_that_does_not_name_the_columns_is_explained(run: Any, case: str) -> None:
    line, reason = FIRST_LINES[case]
    rest = ",," if case == "empty columns" else ""
    Path("t.csv").write_text(
        line + "".join(f"{x:.2f},{'' if rest else '5,'}{sold}{rest}\n" for x, sold in zip(SIZE, SOLD, strict=True))
    )
    assert reason in run("fit", "t.csv", "-t", "sold", "-o", "m.odds").err


def test_an_empty_column_is_named_with_the_option_that_excludes_it(run: Any) -> None:
    rows = "".join(f"{x:.2f},,{sold}\n" for x, sold in zip(SIZE, SOLD, strict=True))
    Path("t.csv").write_text("size,my notes,sold\n" + rows)
    fit = ("fit", "t.csv", "-t", "sold", "-o", "m.odds")
    for policy in ((), ("--missing", "indicator")):
        said = run(*fit, *policy).err
        assert "'my notes' is missing in " in said and "Leave it out (--ignore 'my notes')." in said
    assert run(*fit, "--ignore", "my notes").code == 0


def test_yes_and_no_in_several_ways_are_named(run: Any) -> None:
    ways = [("0", "no", "FALSE", "f")[i % 4] if i % 3 else ("1", "yes", "TRUE", "t")[i % 4] for i in range(N)]
    Path("t.csv").write_text("member,sold\n" + "".join(f"{way},{sold}\n" for way, sold in zip(ways, SOLD, strict=True)))
    said = run("fit", "t.csv", "-t", "sold", "--prior", 1, "-o", "m.odds").err
    assert "Column 'member' has 'no' and 'FALSE' as two levels. If they are the same, use one spelling." in said


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_a_line_that_names_the_delimiter_to_excel_is_read(run: Any, mark: str, how: tuple[str, ...]) -> None:
    Path("t.csv").write_text(EXPORT, encoding="utf-8")
    assert run(*FIT, *how).code == 0
    assert run("predict", "m.odds", "t.csv", "-o", "expected.parquet").code == 0
    Path("t.csv").write_text(f"{mark}sep=;\r\n{EXPORT}", encoding="utf-8")
    assert run(*FIT, *how).code == 0
    assert run("predict", "m.odds", "t.csv", *how, "-o", "p.parquet").code == 0
    assert parquet.read_table("p.parquet").equals(parquet.read_table("expected.parquet"))
    Path("t.csv").write_text(f"{mark}sep=;\r\n{EXPORT}1;x;Ulm;01.01.2024;ja\n", encoding="utf-8")
    assert f"holds 'x' in line {N + 3}" in run("predict", "m.odds", "t.csv", *how, "-o", "p.parquet").err


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_compressed_files_and_pages_named_csv_are_refused_by_name(run: Any, how: tuple[str, ...]) -> None:
    for pack, name in ((gzip.compress, "gz"), (bz2.compress, "bz2")):
        Path("t.csv").write_bytes(pack(EXPORT.encode()))
        assert f"'t.csv' is compressed, not a CSV. Add .{name} to its name, or unpack it." in run(*FIT, *how).err
        Path(f"t.csv.{name}").write_bytes(pack(EXPORT.encode()))
        assert run("fit", f"t.csv.{name}", *FIT[2:], *how).code == 0
    Path("t.csv").write_text("\n<HTML><table><tr><td>a</td></tr></table></HTML>")
    assert "'t.csv' is a page of HTML or XML, not a CSV. Open it in a spreadsheet" in run(*FIT, *how).err


@pytest.mark.parametrize("text", ['"=""{}"""', "'{}", "{} kg", "{}k"])
def test_numbers_in_the_wrapping_of_a_spreadsheet_or_with_a_unit_are_named(run: Any, text: str) -> None:
    rows = "".join(f"{text.format(20 + i % 40)},{sold}\n" for i, sold in enumerate(SOLD))
    Path("t.csv").write_text("age,sold\n" + rows)
    said = run("fit", "t.csv", "-t", "sold", "--prior", 1, "-o", "m.odds").err
    assert "Column 'age' holds text, though most of it looks like numbers" in said and "is not a number" in said


def test_json_of_two_types_names_the_column(run: Any) -> None:
    Path("t.jsonl").write_text('{"a": 1, "y": "no"}\n{"a": "2", "y": "yes"}\n')
    said = run("fit", "t.jsonl", "-t", "y", "-o", "m.odds").err
    assert "column 'a' holds a number in one line and a string in another" in said


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_string_views_are_text(run: Any, how: tuple[str, ...]) -> None:
    """As polars writes them into Arrow files, alone and as the categories of a dictionary."""
    views = pa.array([("Ulm", "Trier")[i % 2] for i in range(N)], pa.string_view())
    codes = pa.array([i % 3 for i in range(N)], pa.int32())
    coded = pa.DictionaryArray.from_arrays(codes, pa.array(["a", "b", "c"], pa.string_view()))
    price = pa.array([f"${x:,.2f}" if i else None for i, x in enumerate(PRICE)], pa.string_view())
    table = pa.table({"price": price, "town": views, "kind": coded, "sold": pa.array(SOLD.tolist(), pa.string_view())})
    with pa.OSFile("t.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    fit = ("fit", "t.arrow", "-t", "sold", "--basis", "standardize", "--prior", 1, "--missing", "drop")
    assert run(*fit, *how, "-o", "m.odds").code == 0
    names = oddsmith.load("m.odds").design_.get_feature_names_out().tolist()
    assert names == ["price", "town[Ulm]", "kind[b]", "kind[c]"]
    assert "has 1 missing value" in run("evaluate", "m.odds", "t.arrow", "-t", "sold", *how).err
    table = table.slice(1)
    with pa.OSFile("t.arrow", "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    assert run("evaluate", "m.odds", "t.arrow", "-t", "sold", *how).code == 0
    assert how or run("report", "m.odds", "t.arrow", "-t", "sold", "-o", "r.html").code == 0


def test_the_index_of_pandas_is_no_column(run: Any) -> None:
    table = pa.table({"size": SIZE, "__index_level_0__": [f"r{i}" for i in range(N)], "sold": SOLD})
    parquet.write_table(table, "t.parquet")
    for how in ((), ("--memory", "100MB")):
        assert run("fit", "t.parquet", "-t", "sold", *how, "-o", "m.odds").code == 0
        assert oddsmith.load("m.odds").feature_names_in_.tolist() == ["size"]


def test_one_json_array_is_explained(run: Any) -> None:
    Path("t.json").write_text('[{"a": 1, "y": "no"},\n {"a": 2, "y": "yes"}]')
    assert "it is one array, but every row needs a line" in run("fit", "t.json", "-t", "y", "-o", "m.odds").err


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_an_empty_table_and_one_column_are_explained(run: Any, how: tuple[str, ...]) -> None:
    Path("t.csv").write_text("size,sold\n")
    assert "'t.csv' has no rows" in run("fit", "t.csv", "-t", "sold", *how, "-o", "m.odds").err
    Path("t.csv").write_text("size:sold\n" + "1:a\n2:b\n" * 30)
    assert "another sign than commas, pass --delimiter." in run("fit", "t.csv", "-t", "sold", *how, "-o", "m.odds").err
    assert run("fit", "t.csv", "-t", "sold", "--prior", 1, "--delimiter", ":", *how, "-o", "m.odds").code == 0


def test_very_wide_tables_take_time_in_proportion(run: Any) -> None:
    """3,000 columns: the types of all columns were listed again for each column, and all names compared with all."""
    X = np.random.default_rng(0).normal(size=(60, 3000)).round(2)
    table = pa.table({**{f"v{j}": X[:, j] for j in range(3000)}, "y": np.where(X[:, 0] > 0, "a", "b")})
    csv.write_csv(table, "t.csv")
    began = time.process_time()
    fit = ("fit", "t.csv", "-t", "y", "--prior", 1, "--basis", "standardize", "--memory", "100MB", "-o", "m.odds")
    assert run(*fit).code == 0
    assert "3000 columns; a formula of more than 1000" in run("export", "sql", "m.odds", "--table", "t").err
    assert time.process_time() - began < 30, "it took minutes"


@pytest.mark.parametrize("negative", ["({:.2f})", "−{:.2f}"])
@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_negative_numbers_of_bookkeepers_and_typesetters_are_numbers(
    run: Any, negative: str, how: tuple[str, ...]
) -> None:
    gain = np.where(np.arange(N) % 3 == 0, -SIZE, SIZE)
    texts = [f"{x:.2f}" if x > 0 else negative.format(-x) for x in gain]
    csv.write_csv(pa.table({"gain": texts, "sold": SOLD}), "t.csv")
    ended = run("fit", "t.csv", "-t", "sold", "--basis", "standardize", *how, "-o", "m.odds")
    assert ended.code == 0 and "Recognised 'gain' as numbers" in ended.err
    np.testing.assert_allclose(oddsmith.load("m.odds").basis_.steps[0].mean_, [gain.mean()])


@pytest.mark.parametrize("how", [(), ("--memory", "100MB")])
def test_dates_as_text_in_parquet_are_recognised_without_a_warning_that_they_are_not(
    run: Any, how: tuple[str, ...]
) -> None:
    days = [f"2024-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(N)]
    parquet.write_table(pa.table({"day": days, "size": SIZE, "sold": SOLD}), "t.parquet")
    ended = run("fit", "t.parquet", "-t", "sold", *how, "-o", "m.odds")
    assert ended.code == 0 and "Recognised 'day' as dates" in ended.err and "Warning" not in ended.err
