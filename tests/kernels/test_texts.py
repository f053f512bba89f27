"""Texts as codes, and plain CSV text as columns: every instruction set finds what Arrow finds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv
from tests.kernels.kernel_cases import LEVELS

from oddsmith.design.frame import code, text_buffers
from oddsmith.design.texts import are_sorted
from oddsmith.engines.files.plain_text import read_plain
from oddsmith.engines.files.schemas import CODES
from oddsmith.kernels import native
from oddsmith.kernels.texts import count_codes, count_lines, encode_texts, recode, recode_parts

TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "a\0", "abcdefgh", "abcdefghi", "abcdefghj", "é", "x" * 40]), st.text(max_size=12)
)


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.one_of(st.none(), TEXTS), max_size=60), first=st.integers(0, 9), large=st.booleans())
def test_codes_are_those_of_arrow(texts: list[str | None], first: int, large: bool, level: str) -> None:
    array = pa.array(texts, pa.large_string() if large else pa.string())[first:]
    expected = array.dictionary_encode()
    with native.using(level):
        found = code(array)
    assert list(found.levels) == expected.dictionary.to_pylist()
    assert found.codes.tolist() == expected.indices.fill_null(-1).to_pylist()
    counts = np.bincount(found.codes.astype(int) + 1, minlength=1 + len(found.levels))
    assert found.counts is not None and found.counts.tolist() == counts.tolist()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("levels", "dtype"), [(127, "int8"), (128, "int16"), (32_767, "int16"), (32_768, "int32")])
def test_codes_widen_where_levels_are_many(levels: int, dtype: str, level: str) -> None:
    array = pa.array([f"a rather long text {k}" for k in range(levels)] * 2)
    with native.using(level):
        found = encode_texts(text_buffers(array))
    assert found is not None and found.codes.dtype == dtype
    assert found.codes.tolist() == 2 * list(range(levels))
    assert found.data.tobytes() == "".join(array[:levels].to_pylist()).encode()


FIELDS = {
    pa.int64(): st.one_of(
        st.integers(-(10**17), 10**17).map(str), st.sampled_from(["0", "007", "-12345678", "99999999"])
    ),
    pa.float64(): st.one_of(
        st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 999_999)).map(lambda part: f"{part[0]}.{part[1]}"),
        st.sampled_from(["0", "-0", "1.", ".5", "-.25", "517.0", "1234567.8", "9007199254740992", "0.0000001"]),
    ),
    pa.string(): st.sampled_from(["a", "bb", "abcdefgh", "abcdefghi", "NA", "", "null", "é", "-1.#QNAN", "x y", "0.5"]),
}
ODD = st.sampled_from(
    ["", "NA", "nan", "1e5", "x", "+1", " 5", "0x1f", "1.5", "-", ".", '"q"', "1,2", "12345678901234567890"]
)


@st.composite
def tables(draw: Any) -> tuple[bytes, dict[str, pa.DataType]]:
    types = draw(st.lists(st.sampled_from([*FIELDS]), min_size=1, max_size=4))
    odd = draw(st.booleans())
    field = [st.one_of(*[FIELDS[kind]] * 9, ODD) if odd else FIELDS[kind] for kind in types]
    lines = draw(st.lists(st.tuples(*field).map(",".join), min_size=1, max_size=30))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(lines) + (end if draw(st.booleans()) else "")
    return text.encode(), {f"c{k}": kind for k, kind in enumerate(types)}


def by_arrow(text: bytes, types: dict[str, pa.DataType]) -> pa.Table | None:
    options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
    try:
        return csv.read_csv(pa.BufferReader(text), csv.ReadOptions(column_names=[*types]), None, options)
    except pa.ArrowInvalid:
        return None


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=120, deadline=None)
@given(table=tables())
def test_plain_text_is_read_as_arrow_reads_it(table: tuple[bytes, dict[str, pa.DataType]], level: str) -> None:
    text, types = table
    with native.using(level):
        found = read_plain(text, ",.", [*types], types)
        coded = read_plain(text, ",.", [*types], {k: CODES if v == pa.string() else v for k, v in types.items()})
    assert (found is None) == (coded is None)
    if found is None or not text.strip():
        return
    expected = by_arrow(text, types)
    assert expected is not None
    assert repr(found.to_pydict()) == repr(expected.to_pydict())  # -0.0 and all digits
    assert coded is not None and coded.to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (b"1,a\n2,b\n", True),
        (b"\n1,a\n\n2,b", True),
        (b'"1","a,b"\n2,""\n', True),
        (b'1,"a""b"\n', False),
        (b'1,"a\nb"\n', False),
        (b'1,a"b"\n', False),
        (b'1,"a"b\n', False),
        (b'1,"a', False),
        (b'1,"', False),
        (b"1,a,2\n", False),
        (b"1\n", False),
        (b"1.5,a\n", False),
        (b"1," + b"a" * 20_000 + b"\n", False),  # longer than the kernel's window
        (b"1,\xff\n", False),
    ],
)
def test_what_is_plain(text: bytes, plain: bool, level: str) -> None:
    with native.using(level):
        assert (read_plain(text, ",.", ["x", "y"], {"x": pa.int64(), "y": pa.string()}) is not None) == plain


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("field", "plain"),
    [('"a,b"', True), ('""', True), ('"a"b', False), ('a"b', False), ('"a""b"', False), ('"a', False), ('a"', False)],
)
def test_quotes_at_any_place_of_the_vectors_in_which_they_are_sought(field: str, plain: bool, level: str) -> None:
    for length in range(140):
        for end in ("\n", "\r\n", ""):
            text = f"{'x' * length},{field}{end}"
            for whole in (text, f"{text or 'x'}{end or chr(10)}y,z\n" * 2):
                with native.using(level):
                    found = read_plain(whole.encode(), ",.", ["x", "y"], {"x": pa.string(), "y": pa.string()})
                assert (found is not None) == plain, (length, end)
                if found is not None:
                    assert found["y"][0].as_py() == (field.strip('"') or None)


@pytest.mark.parametrize("level", LEVELS)
def test_spellings_of_missing_values_are_those_of_arrow(level: str) -> None:
    words = csv.ConvertOptions().null_values
    text = "".join(f"{word},{word},{word},x\n" for word in words).encode()
    types = {"whole": pa.int64(), "number": pa.float64(), "text": pa.string(), "x": pa.string()}
    with native.using(level):
        found = read_plain(text, ",.", [*types], types)
    assert found is not None and [found[name].null_count for name in types] == [*[len(words)] * 3, 0]


@pytest.mark.parametrize("level", LEVELS)
def test_texts_of_many_levels_and_columns_left_out(level: str) -> None:
    rows = [(k, f"level {k * 7919 % 5000}", "x") for k in range(20_000)]
    text = "".join(f"{k};{word};{other}\n" for k, word, other in rows).encode()
    with native.using(level):
        found = read_plain(text, ";.", ["k", "word", "other"], {"word": CODES, "k": pa.int64()})
    assert found is not None and found.column_names == ["word", "k"]
    assert found["word"].to_pylist() == [word for _, word, _ in rows] and found["k"].to_pylist() == [*range(20_000)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("odd", [[], [70], [0, 63, 64, 127, 128, 299], list(range(0, 300, 9))])
def test_numbers_of_any_length_between_missing_and_long_ones_are_those_of_arrow(odd: list[int], level: str) -> None:
    rng = np.random.default_rng(3)
    numbers = [f"{x:.{k}f}" for x, k in zip(rng.normal(0.0, 300.0, 300), rng.integers(0, 7, 300), strict=True)]
    whole = [
        str(10**k * s) for k, s in zip(rng.integers(0, 9, 300).tolist(), rng.choice([-1, 1], 300).tolist(), strict=True)
    ]
    for k, row in enumerate(odd):
        numbers[row], whole[row] = (("NA", ""), ("-12345678.25", "123456789012"))[k % 2]
    text = "".join(f"{a},{b}\n" for a, b in zip(numbers, whole, strict=True)).encode()
    types = {"a": pa.float64(), "b": pa.int64()}
    options = csv.ReadOptions(column_names=["a", "b"]), csv.ConvertOptions(column_types=types)
    expected = csv.read_csv(pa.BufferReader(text), options[0], convert_options=options[1])
    with native.using(level):
        found = read_plain(text, ",.", ["a", "b"], types)
    assert found is not None and found.to_pydict() == expected.to_pydict()


DATES = (
    *("2013-01-01", "0001-01-01", "2000-02-29", "1900-02-28", "9999-12-31", "2013-01-01 05:00", "1969-12-31T23:59:59"),
    *("2013-06-30 00:00:00", "2013-12-01T23:59:59.5", "2013-12-01 00:00:00.123456789", "2013-03-01T05:00:00Z"),
    *("2013-03-01 05:00+01", "2013-03-01 05:00:00-0130", "2013-03-01 05:00:00.25+05:45", "2262-04-11T23:47:16.9Z"),
    *("1677-09-21 00:12:44", "2013-01-01 05:00:00.12", "1582-10-15", "2024-02-29T12:00:00.123Z"),
)
NO_DATES = (
    *("2013-02-29", "1900-02-29", "2013-13-01", "2013-00-10", "2013-01-00", "2013-04-31", "2013-1-1", "13-01-01"),
    *("2013/01/01", "2013-01-01 24:00", "2013-01-01 05:60", "2013-01-01 05:00:60", "2013-01-01T05:00:0", "2013-01-01x"),
    *(
        "2013-01-01 ",
        " 2013-01-01",
        "2013-01-01 05:00:00.",
        "2013-01-01T05:00:00,5",
        "2013-01-01 05:00 Z",
        "-013-01-01",
    ),
    *("2013-01-01 05:00:00z", "2013-01-01 05:00:00+1", "2013-01-01 05:00:00+01:0", "2013-01-01 05:00+0a", "2O13-01-01"),
    *("2013-01-01\0" + "05:00", "2013-01-01 05-00", "2013-01:01", "2013-01-01 05:00:00.1234567890", "\x80013-01-01"),
    *(
        "2013-01-01 05:00:00+24:00",
        "2013-01-01 05:00:00+01x00",
        "2013-01-01 05:00:00+01:60",
        "2013-01-01Z",
        "2013-01-01 05",
    ),
)
TIMES = {unit: pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")}
ZONED = {f"{unit} Z": pa.timestamp(unit, "UTC") for unit in TIMES}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_", [pa.date32(), *TIMES.values(), *ZONED.values()], ids=str)
def test_dates_and_times_are_those_of_arrow(type_: pa.DataType, level: str) -> None:
    read = set()
    for date in (*DATES, *NO_DATES):
        for text in (f"{date},1\n", f"2013-07-01{' 05:00Z' if type_ in ZONED.values() else ''},2\nNA,3\n{date},4"):
            with native.using(level):
                found = read_plain(text.encode("latin-1"), ",.", ["x", "k"], {"x": type_, "k": pa.int64()})
            if found is None:
                continue
            read.add(date)
            expected = by_arrow(text.encode(), {"x": type_, "k": pa.int64()})
            assert expected is not None, date
            number = pa.int32() if type_ == pa.date32() else pa.int64()
            assert found["x"].cast(number).equals(expected["x"].cast(number))
    days = {date for date in DATES if len(date) == 10}
    if type_ == pa.date32():
        assert read == days
    elif type_ in (pa.timestamp("s"), pa.timestamp("us")):
        assert read >= days | {"2013-01-01 05:00", "1969-12-31T23:59:59"}
    elif type_ == pa.timestamp("us", "UTC"):
        assert read >= {date for date in DATES if any(sign in date[11:] for sign in "Z+-")}
    assert not read & set(NO_DATES)


@pytest.mark.parametrize("level", LEVELS)
def test_every_day_of_four_centuries_is_that_of_arrow(level: str) -> None:
    days = np.arange("1895-01-01", "2305-01-01", dtype="datetime64[D]")
    times = days.astype("datetime64[s]") + np.arange(len(days)) * 7919 % 86_400
    text = "".join(f"{day},{time}\n" for day, time in zip(days.astype(str), times.astype(str), strict=True)).encode()
    with native.using(level):
        found = read_plain(text, ",.", ["day", "time"], {"day": pa.date32(), "time": pa.timestamp("s")})
    assert found is not None
    assert found["day"].to_numpy().tolist() == days.tolist() and found["time"].to_numpy().tolist() == times.tolist()


@pytest.mark.parametrize("level", LEVELS)
def test_numbers_with_decimal_commas_are_those_with_points(level: str) -> None:
    rng = np.random.default_rng(9)
    numbers = [f"{x:.{k}f}" for x, k in zip(rng.normal(0.0, 900.0, 400), rng.integers(0, 12, 400), strict=True)]
    text = "".join(f"{a};{k}\n" for k, a in enumerate(numbers))
    types = {"a": pa.float64(), "k": pa.int64()}
    with native.using(level):
        found = read_plain(text.replace(".", ",").encode(), ";,", [*types], types)
        point = read_plain(text.encode(), ";,", [*types], types)
    assert point is None and found is not None
    assert found["a"].to_pylist() == [float(number) for number in numbers]


def long_decimals() -> list[str]:
    """Decimal numbers of up to 18 digits, among them those halfway between two doubles."""
    rng = np.random.default_rng(4)
    shortest = [repr(float(x)) for x in rng.normal(size=300) * 10.0 ** rng.integers(-9, 20, 300)]
    spread = [f"{m}e{k}" for m, k in zip(rng.integers(0, 10**18, 300), rng.integers(-27, 28, 300), strict=True)]
    leading = [f"-0.000{m}" for m in rng.integers(0, 10**18, 100)]
    halfway = [f"{2 * m + 1}.0{'0' * k}" for k in range(2) for m in rng.integers(2**52, 2**53, 50)]
    return [*shortest, *spread, *leading, *halfway, "1E5", "2.5e+3", "1.", ".5", "0e9", "-0.0", "0." + "0" * 30 + "1"]


@pytest.mark.parametrize("level", LEVELS)
def test_decimal_numbers_are_the_nearest_doubles(level: str) -> None:
    texts, plain = long_decimals(), 0
    with native.using(level):
        for text in texts:
            found = read_plain(text.encode() + b"\n", ",.", ["x"], {"x": pa.float64()})
            if found is not None:
                plain += 1
                assert repr(found["x"].to_pylist()) == repr([float(text)]), text
    assert plain >= 0.9 * len(texts)  # others have too many places, and Arrow reads them


@pytest.mark.parametrize(
    "text", ["1e", "e5", "1e+", "1e1234", "1.2.3", "1e5.0", "--1", "1e-99", "1234567890123456789.5"]
)
@pytest.mark.parametrize("level", LEVELS)
def test_what_is_no_decimal_number_or_too_long_is_not_plain(level: str, text: str) -> None:
    with native.using(level):
        assert read_plain(text.encode() + b"\n", ",.", ["x"], {"x": pa.float64()}) is None


@pytest.mark.parametrize("level", LEVELS)
def test_texts_that_differ_in_few_bytes_have_codes_of_their_own(level: str) -> None:
    dates = [
        f"{year}{month:02d}{day:02d}" for year in range(1990, 2020) for month in range(1, 13) for day in range(1, 29)
    ]
    with native.using(level):
        found = code(pa.array(dates * 2))
    assert list(found.levels) == dates and found.codes.tolist() == [*range(len(dates))] * 2


@pytest.mark.parametrize("level", [native.REFERENCE, *LEVELS])
@pytest.mark.parametrize("text", [b"", b"a", b"a\nb\n", b"a\r\n" * 100, b"a\r" * 70 + b"b"])
def test_line_ends_are_counted(text: bytes, level: str) -> None:
    with native.using(level):
        assert count_lines(text) == (text.count(b"\n") or text.count(b"\r"))


@pytest.mark.parametrize("level", [native.REFERENCE, *LEVELS])
@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text("aπ\0", max_size=3), max_size=6), ordered=st.booleans(), large=st.booleans())
def test_the_order_of_texts_is_that_of_their_bytes(texts: list[str], ordered: bool, large: bool, level: str) -> None:
    texts = sorted(texts) if ordered else texts
    array = pa.array(["b", *texts], pa.large_string() if large else pa.string())[1:]
    with native.using(level):
        assert are_sorted(array) == all(one < two for one, two in pairwise(texts))


def test_without_kernels_arrow_reads() -> None:
    with native.using(native.REFERENCE):
        assert read_plain(b"1\n", ",.", ["x"], {"x": pa.int64()}) is None
        assert code(pa.array(["b", None, "b"])).codes.tolist() == [0, -1, 0]


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("levels", [1, 40, 100])
def test_codes_are_counted_and_recoded_as_by_numpy(level: str, dtype: type, levels: int) -> None:
    rng = np.random.default_rng(levels)
    codes = rng.integers(-1, levels, 1003).astype(dtype)
    place = rng.permutation(levels).astype(np.int32)
    with native.using(level):
        assert count_codes(codes, levels).tolist() == np.bincount(codes.astype(int) + 1, minlength=levels + 1).tolist()
        for width in (np.int8, np.int16, np.int32):
            found = np.empty(1003, dtype=width)
            recode(np.abs(codes), place.repeat(2)[: levels + 1], found)
            assert found.tolist() == place.repeat(2)[: levels + 1][np.abs(codes)].tolist()


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize("levels", [1, 40, 126, 127, 128, 300])
def test_recoded_parts_are_counted(level: str, dtype: type, levels: int) -> None:
    rng, rows = np.random.default_rng(levels), [0, 5, 5, 700, 1003]
    codes = rng.integers(0, min(levels, 127), 1003).astype(dtype)
    places = [rng.integers(-1, levels, 127).astype(np.int32) for _ in rows[1:]]
    found, expected = np.empty(1003, dtype=np.int32), np.empty(1003, dtype=np.int32)
    for place, a, b in zip(places, rows[:-1], rows[1:], strict=True):
        expected[a:b] = place[codes[a:b]]
    with native.using(level):
        counts = recode_parts(codes, rows, places, found, levels)
    assert found.tolist() == expected.tolist()
    assert counts.tolist() == np.bincount(expected + 1, minlength=levels + 1).tolist()


@pytest.mark.parametrize("level", native.available())
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_a_code_out_of_range_is_not_counted(level: str, dtype: type) -> None:
    levels = 40
    if level != "reference" and dtype != np.int64:
        with native.using(level), pytest.raises(ValueError, match="count"):
            count_codes(np.array([0, levels], dtype=dtype), levels)
