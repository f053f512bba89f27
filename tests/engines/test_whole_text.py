"""A plain CSV file read at once on several threads: equal to Arrow's reading, and to the fit from pieces."""

from __future__ import annotations

import gzip
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from oddsmith import Design, LogisticRegression
from oddsmith.data_access import collected_rows
from oddsmith.engines.files import FileParts, dialect, row_blocks, text, whole_text
from oddsmith.errors import InvalidInputError
from oddsmith.kernels import native


def words(rng: np.random.Generator, n: int) -> list[str]:
    known = ["a", "bb", "é", "N14228", "a text of more than eight bytes", "NA", "", "x y", "日本"]
    return [known[i] for i in rng.integers(0, len(known), n)]


def write(path: Path, rng: np.random.Generator, n: int, *, end: str = "\n", last: bool = True) -> None:
    numbers = [f"{x:.{k}f}" for x, k in zip(rng.normal(size=n) * 100, rng.integers(0, 6, n), strict=True)]
    whole = [str(k) if k % 7 else "" for k in rng.integers(-500, 500, n)]
    lines = [",".join(row) for row in zip(numbers, words(rng, n), whole, words(rng, n), strict=True)]
    path.write_bytes((end.join(["x,a,k,b", *lines]) + (end if last else "")).encode())


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("level", native.available()[1:])
def test_random_files_equal_arrow(seed: int, level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    path = tmp_path / ("a.csv.gz" if seed % 2 else "a.csv")
    write(path, rng, int(rng.integers(1, 400)), end="\r\n" if seed % 3 == 2 else "\n", last=seed % 4 > 0)
    if seed % 2:
        path.write_bytes(gzip.compress(path.read_bytes()))
    monkeypatch.setattr(row_blocks, "BLOCK", int(rng.integers(80, 2000)))
    types = {"x": pa.float64(), "a": pa.string(), "k": pa.int64(), "b": pa.string()}
    expected = csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True))
    with native.using(level):
        for threads in (1, 2, 5):
            found = FileParts.open(path, types=types, threads=threads).with_codes(["a", "b"]).read_whole()
            assert found is not None
            for name in expected.column_names:
                values = expected[name].to_pylist()
                assert found.table[name].to_pylist() == values
                if pa.types.is_dictionary(found.table[name].type):
                    levels = found.table[name].chunk(0).dictionary.to_pylist()
                    assert levels == sorted({text for text in values if text is not None})
                    assert found.counts[name].tolist() == [values.count(level) for level in (None, *levels)]


@pytest.mark.parametrize("level", native.available()[1:])
def test_random_quotes_are_read_as_arrow_reads_them_or_not_at_all(
    level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK", 150)
    rng, path, plain = np.random.default_rng(11), tmp_path / "a.csv", 0
    types = {"x": pa.int64(), "a": pa.string(), "b": pa.string()}
    convert = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    signs = ['""', '"', "\n", "\r\n", "a", ",", '"x,y"']

    def word(odd: bool) -> str:
        text = "".join(rng.choice(["a", "b", ",", "é", " "], int(rng.integers(0, 70 if rng.random() < 0.1 else 5))))
        text = f'"{text}"' if rng.random() < 0.5 else text.replace(",", "")
        place = int(rng.integers(0, len(text) + 1))
        return text[:place] + str(rng.choice(signs)) + text[place:] if odd else text

    for _ in range(250):
        share = float(rng.choice([0.0, 0.01]))
        numbers = ('"7"', "8", '"NA"') * 20
        rows = [f"{number},{word(rng.random() < share)},{word(rng.random() < share)}" for number in numbers]
        path.write_text("\n".join(['"x",a,b', *rows]) + ("\n" if rng.random() < 0.5 else ""), "utf-8", newline="")
        found = None
        with native.using(level), suppress(InvalidInputError):  # a row of too many fields, among the first
            files = FileParts.open(path, types=types, delimiter=",", encoding="utf-8", threads=2)
            found = files.with_codes(["a", "b"]).read_whole()
        if found is not None:
            plain += 1
            expected = csv.read_csv(path, None, csv.ParseOptions(newlines_in_values=True), convert)
            assert found.table.to_pydict() == expected.to_pydict()
    assert 100 < plain < 220


VALUES = {
    "quoted": lambda i: f'"t{i % 50}"',
    "quoted numbers": lambda i: f'"{i / 7:.3f}"',
    "whole": lambda i: str(i * 37 % 1000 - 100),
    "long": lambda i: str(10**17 + i),
    "decimal": lambda i: f"{i / 7:.3f}",
    "mixed": lambda i: f"{i / 7:.1f}" if i > 900 else str(i),
    "power": lambda i: f"{i}e-3" if i > 300 else f"{i / 2}",
    "text": lambda i: f"t{i % 50}",
    "accents": lambda i: f"é{i % 9}",
    "digits": lambda i: f"{i}a",
    "late text": lambda i: "x" if i == 990 else str(i),
    "truth": lambda i: "true" if i % 3 else "False",
    "yes": lambda i: (" yes", "no", "NO")[i % 3],
    "odd": lambda i: ("inf", "nan", "Infinity", "1.5")[i % 4],
    "date": lambda i: f"2026-01-{1 + i % 28:02}",
    "day": lambda i: f"{1 + i % 28}.01.2026",
    "time": lambda i: f"12:{i % 60:02}",
    "slash": lambda i: f"{1 + i % 12}/{1 + i % 28}/2026",
    "stamp": lambda i: f"2026-01-{1 + i % 28:02} 0{i % 9}:00",
    "zone": lambda i: f"2026-01-{1 + i % 28:02}T0{i % 9}:00:00Z",
    "moment": lambda i: f"2026-01-{1 + i % 28:02}" + f" 0{i % 9}:00:00.{i}" * (i % 5 > 2),
    "money": lambda i: f"${i}.50",
    "thousand": lambda i: f"{i / 1000 + 1:.3f}",
    "comma": lambda i: f'"{i},5"',
    "nothing": lambda i: "",
    "code": lambda i: f"0{i}",
}


@pytest.mark.parametrize("seed", range(120))
def test_types_and_formats_are_those_that_arrow_infers(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    kinds = [list(VALUES)[k] for k in rng.choice(len(VALUES), 3)] if seed % 3 else ["whole", "decimal", "text"]
    kinds += [list(VALUES)[seed % len(VALUES)]] if seed % 2 else []
    n, missing = int(rng.integers(1, 1200)), (0.0, 0.02, 0.9)[seed % 3] * (seed % 4 > 0)
    rows = [",".join("NA" if rng.random() < missing else VALUES[kind](i) for kind in kinds) + ",1" for i in range(n)]
    path = tmp_path / "a.csv"
    end = "\r\n" if seed % 5 == 0 else "\n"
    lines = [",".join(f"c{j}" for j in range(len(kinds) + 1)), *rows, *([""] * (seed % 2))]
    if seed % 7 < 3:
        lines = [line.replace(",", ";").replace(".", ",") for line in lines]
    path.write_text(end.join(lines), "utf-8", newline="")
    opened = [FileParts.open(path)]
    monkeypatch.setattr(text, "guess_types", lambda *_: None)
    opened.append(FileParts.open(path))
    one, two = opened
    assert one.schema.equals(two.schema)
    assert one.formats == two.formats and one.plain_formats == two.plain_formats and one.dialect == two.dialect
    assert one.expected_rows == two.expected_rows


@pytest.mark.parametrize("kind", [kind for kind in VALUES if kind not in ("comma", "late text", "mixed", "power")])
def test_later_places_show_the_same_formats_however_they_are_read(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, later = tmp_path / "a.csv", {"yes": "no ", "text": "t ", "digits": "1a "}
    rows = [f"{VALUES[kind](i)},1.5,t{i % 9}" for i in range(2000)] + [f"{later.get(kind, 'NA')},2.5,u"] * 9
    path.write_text("\n".join(["c0,c1,c2", *rows, ""]), "utf-8")
    for module, name, size in ((text, "HEAD", 4096), (text, "SAMPLE", 1024), (dialect, "CHUNK", 1024)):
        monkeypatch.setattr(module, name, size)
    opened = [FileParts.open(path)]
    monkeypatch.setattr(text, "guess_types", lambda *_: None)
    one, two = [*opened, FileParts.open(path)]
    assert one.schema.equals(two.schema) and one.formats == two.formats and one.dialect == two.dialect
    assert one.expected_rows == pytest.approx(2009, rel=0.3)


@pytest.mark.parametrize(
    ("rows", "plain"),
    [
        (b"1,a\n" * 5000, True),
        (b"1,a\n" * 40 + b"2," + b"long" * 700 + b"\n" + b"1,b\n" * 400, False),  # longer than a block
        (b"1,a\n" * 40 + b"2," + b"long" * 200 + b"\n" + b"1,b\n" * 400, True),
        (b'1,"a, b"\n' * 5000, True),
        (b'1,"a"\n' * 100 + b'2,"' + b"a\n" * 300 + b'"\n' + b"3,b\n" * 500, False),
        (b"1,a\n" * 600 + b"1,\x00\n" * 600, True),
        (b"1,a\n" * 600 + b'1,"\n', False),
        (b"", False),
        (b"1,a", True),
    ],
)
@pytest.mark.parametrize("ending", [".csv.gz", ".csv"])
def test_blocks_of_a_file_and_of_a_stream_end_with_a_row(
    ending: str, rows: bytes, plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_blocks, "BLOCK", 1000)
    monkeypatch.setattr(row_blocks, "MARGIN", 50)
    monkeypatch.setattr(row_blocks, "LONGEST", 1000)
    path, text = tmp_path / f"a{ending}", b"x,y\n" + rows
    path.write_bytes(gzip.compress(text, 0) if ending.endswith("gz") else text)  # as many rows as expected of its size
    files = FileParts.open(path, types={"x": pa.int64(), "y": pa.string()}, encoding="utf-8", delimiter=",", threads=3)
    found = files.with_codes(["y"]).read_whole()
    assert (found is not None) == plain
    if found is not None:
        options = csv.ConvertOptions(column_types={"x": pa.int64(), "y": pa.string()}, strings_can_be_null=True)
        assert found.table.to_pydict() == csv.read_csv(pa.BufferReader(text), convert_options=options).to_pydict()


def test_more_rows_than_the_size_of_a_compressed_file_promises_are_left_to_the_reader_of_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + b"1,a\n" * 100_000))
    files = FileParts.open(path).with_codes(["y"])
    assert files.expected_rows < 10_000
    assert files.read_whole() is None


def test_a_compressed_file_that_is_cut_ends_with_the_same_error_as_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rng = tmp_path / "a.csv.gz", np.random.default_rng(3)
    monkeypatch.setattr(collected_rows, "SPLIT_ELEMENTS", 1000)
    text = "".join(f"{x},t{i % 9},{i % 2}\n" for i, x in enumerate(rng.normal(size=300_000)))
    path.write_bytes(gzip.compress(b"x,y,z\n" + text.encode(), 1)[:-100_000])
    errors = []
    for _ in range(2):
        with pytest.raises(InvalidInputError) as error:
            LogisticRegression(prior=1.0).fit(path, y="z")
        errors.append(str(error.value))
        monkeypatch.setattr(FileParts, "read_whole", lambda self: None)
    assert errors[0] == errors[1] and "cannot be read" in errors[0]


LATER = {"yes": "maybe", "truth": "TRUE", "money": "-$7", "comma": '"1,25"', "time": "23:59"}


@pytest.mark.parametrize("kind", sorted(VALUES.keys() - {"late text", "mixed", "time", "nothing", "odd"}))
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns_of_every_format_are_those_of_the_pieces(kind: str, end: str, tmp_path: Path) -> None:
    """Those at once and those in pieces; a text that breaks the format is left to the reader of pieces."""
    path = tmp_path / "a.csv"
    rows = [f"{VALUES[kind](i) if i % 11 else 'NA'};{i};{i % 7},5;t{i % 3}" for i in range(1200)]
    rows += [f"{LATER.get(kind, VALUES[kind](8))};7;2,5;t2"]
    if kind in ("decimal", "quoted numbers", "power", "money"):  # points are not decimal signs here
        rows = [row.replace(".", ",") for row in rows]
    for odd in ("", "?2?;7;2,5;t1" + end):
        path.write_text(end.join(["c;k;x;a", *rows, odd]), "utf-8", newline="")
        files = FileParts.open(path, threads=2)
        names = [name for name in files.columns if name not in files.formats]
        coded = files.with_codes([name for name in names if pa.types.is_string(files.schema.field(name).type)])
        found = coded.read_whole()
        if odd and not pa.types.is_dictionary(coded.schema.field("c").type) and kind != "yes":
            assert found is None
            continue
        assert found is not None, kind
        pieces = pa.concat_tables(table for task in coded.tasks() for table in coded.read(task))
        assert found.table.to_pydict() == pieces.to_pydict()
        for name, counts in found.counts.items():
            levels = found.table[name].chunk(0).dictionary.to_pylist()
            seen = Counter(pieces[name].to_pylist())
            assert counts.tolist() == [seen[level] for level in (None, *levels)]


def test_blanks_that_make_a_text_a_missing_value_are_left_to_the_reader_of_pieces(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1, yes\n2,no\n3,yes\n" * 40 + "3, NA\n")
    files = FileParts.open(path)
    assert files.formats["y"].kind == "levels" and files.read_whole() is None


@pytest.mark.parametrize(
    "drop", [Design(missing="drop"), Design(unlabelled="drop", missing="indicator"), Design(unlabelled="drop")], ids=str
)
def test_rows_with_missing_values_are_dropped_as_in_pieces(
    drop: Design, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collected_rows, "SPLIT_ELEMENTS", 100_000)
    rng, path = np.random.default_rng(2), tmp_path / "a.csv"
    columns = table(rng, 40_000)
    columns["truth"] = np.where(rng.random(40_000) < 0.5, "true", "false")
    columns["day"] = np.datetime64("2013-01-01") + rng.integers(0, 365, 40_000)
    columns["clock"] = np.datetime64("2013-01-01T00:00:00") + rng.integers(0, 9_000_000, 40_000)
    holes = ["late"] if drop.missing == "error" else [*columns]
    some = {
        name: pa.array(values, mask=rng.random(40_000) < 0.03 * (name in holes)) for name, values in columns.items()
    }
    some["shop"] = pa.array(["rare", *some["shop"].to_pylist()[1:]])  # a level that only a dropped row has
    some["late"] = pa.array([None, *some["late"].to_pylist()[1:]])
    csv.write_csv(pa.table(some), path, csv.WriteOptions(quoting_style="none"))
    read, pieces = [], []
    whole = FileParts.read_whole
    monkeypatch.setattr(FileParts, "read_whole", lambda self: read.append(whole(self)) or read[-1])
    monkeypatch.setattr(FileParts, "cut", lambda *_: pieces.append(1))
    one = LogisticRegression(prior=1.0, design=drop).fit(path, y="late")
    assert read[0] is not None and not pieces
    monkeypatch.undo()
    monkeypatch.setattr(FileParts, "read_whole", lambda self: None)
    two = LogisticRegression(prior=1.0, design=drop).fit(path, y="late")
    assert one.design_.is_like(two.design_) and one.classes_.tolist() == two.classes_.tolist()
    assert one.certificate_.converged and two.certificate_.converged
    np.testing.assert_allclose(one.coef_, two.coef_, rtol=0.0, atol=1e-5)


@pytest.mark.parametrize("longest", [3, 8, 12])
def test_many_levels_are_in_order(longest: int) -> None:
    rng = np.random.default_rng(longest)
    letters = list("aAz 0~é日") + (["\0"] if longest == 12 else [])
    every = ["".join(rng.choice(letters, int(rng.integers(0, longest // 2)))) for _ in range(3000)] + ["NA", "nan"]
    arrays = [pa.array(sorted(set(some), key=hash)) for some in (every[:1800], every[1500:])]
    assert sum(map(len, arrays)) > whole_text.FEW or longest == 3
    known, places = whole_text._in_order(arrays)
    texts = known.to_pylist()
    assert texts == sorted(set(every) - whole_text.MISSING_WORDS)
    for array, place in zip(arrays, places, strict=True):
        assert place.tolist() == [texts.index(one) if one in texts else -1 for one in array.to_pylist()]


@pytest.mark.parametrize(
    "last",
    [
        b'1,"a""b"\n',
        b'1,"a\nb"\n',
        b'1,"a',
        b"\n2,b\n",
        b"2\n",
        b"2,b,c\n",
        b"z,b\n",
        b"2,\xc3\n3,\xa9\n",
        b"1,a\r2,b\r",
        b"2," + b"long" * 30_000 + b"\n",
    ],
)
def test_text_that_is_not_plain_is_left_to_the_reader_of_pieces(last: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x,y\n" + b"1,a\n" * 80_000 + last)  # the first rows are plain, as those that show the types
    files = FileParts.open(path, types={"x": pa.int64(), "y": pa.string()}, encoding="utf-8").with_codes(["y"])
    assert files.read_whole() is None


def table(rng: np.random.Generator, n: int) -> dict[str, Any]:
    shop = rng.integers(0, 60, n)
    late = rng.random(n) < 1.0 / (1.0 + np.exp(-rng.normal(size=60)[shop]))
    numbers = {"x": np.round(rng.normal(size=n), 4), "k": rng.integers(0, 9, n)}
    return {**numbers, "shop": [f"s{i}" for i in shop], "late": np.where(late, "yes", "no")}


def test_fits_equal_those_from_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.csv"
    csv.write_csv(pa.table(table(np.random.default_rng(0), 40_000)), path, csv.WriteOptions(quoting_style="none"))
    monkeypatch.setattr(collected_rows, "SPLIT_ELEMENTS", 100_000)
    read = []
    whole = FileParts.read_whole
    monkeypatch.setattr(FileParts, "read_whole", lambda self: read.append(whole(self)) or read[-1])
    one = LogisticRegression(prior=1.0).fit(path, y="late", threads=1)
    two = LogisticRegression(prior=1.0).fit(path, y="late", threads=3)
    assert len(read) == 2 and all(found is not None for found in read)
    assert one.coef_.tolist() == two.coef_.tolist()
    monkeypatch.setattr(FileParts, "read_whole", lambda self: None)
    pieces = LogisticRegression(prior=1.0).fit(path, y="late")
    np.testing.assert_allclose(one.coef_, pieces.coef_, rtol=1e-10, atol=1e-12)
    assert one.classes_.tolist() == pieces.classes_.tolist() == ["no", "yes"]
    assert one.design_.is_like(pieces.design_)


def test_numbers_with_labels_of_text_are_fitted_like_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was expected to be collected, because of its labels, is not, and draws its sample later."""
    monkeypatch.setattr(collected_rows, "SPLIT_ELEMENTS", 1000)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 3)).round(4)
    y = np.where(rng.random(900) < 1.0 / (1.0 + np.exp(-X[:, 0])), "yes", "no")
    lines = (",".join([*map(str, row), label]) for row, label in zip(X.tolist(), y.tolist(), strict=True))
    path = tmp_path / "numbers.csv"
    path.write_text("a,b,c,y\n" + "\n".join(lines) + "\n")
    found, expected = LogisticRegression(prior=1.0).fit(path, y="y"), LogisticRegression(prior=1.0).fit(X, y)
    assert np.allclose(found.coef_, expected.coef_, rtol=0.0, atol=1e-6)


def test_a_missing_value_is_placed_by_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collected_rows, "SPLIT_ELEMENTS", 100_000)
    rows = table(np.random.default_rng(1), 40_000)
    rows["x"] = [None if i == 31_234 else x for i, x in enumerate(rows["x"].tolist())]
    path = tmp_path / "a.csv"
    csv.write_csv(pa.table(rows), path, csv.WriteOptions(quoting_style="none"))
    with pytest.raises(ValueError, match="line 31236"):
        LogisticRegression(prior=1.0).fit(path, y="late")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_are_read_once_and_fitted_like_rows_in_memory(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(3000, 3)).astype(dtype)
    y = np.where(X[:, 0] + rng.logistic(size=3000) > 0, "yes", "no")
    path = tmp_path / "numbers.csv"
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    csv.write_csv(pa.table({**columns, "y": y}), path, csv.WriteOptions(quoting_style="none"))
    monkeypatch.setattr(FileParts, "read", None)  # nothing is read in pieces
    found = LogisticRegression(prior=1.0).fit(path, y="y", dtype=dtype)
    expected = LogisticRegression(prior=1.0).fit(X, y)
    assert found.certificate_.converged
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0.0, atol=1e-6)
