"""Numbers, dates and levels as people write them: found in text, and read by one rule a column."""

import datetime

import pyarrow as pa
import pytest

from oddsmith.engines.text_formats import TextFormat, decimal_sign, find_format

NUMBERS = {
    "dollars": (["$1,654.60", "$3.20", "-$12", "($7.50)"], [1654.6, 3.2, -12.0, -7.5]),
    "euros": (["12,50 €", "3 €", "1.200,00 €"], [12.5, 3.0, 1200.0]),
    "codes": (["CHF 1'200.50", "CHF 3", "CHF -2"], [1200.5, 3.0, -2.0]),
    "money without cents": (["€1.234", "€2.345", "€12.345"], [1234.0, 2345.0, 12345.0]),
    "percent": (["24%", "7.5 %", "-3%"], [24.0, 7.5, -3.0]),
    "decimal commas": (["51,51", "2,3", "3"], [51.51, 2.3, 3.0]),
    "decimal commas after zero": (["0,123", "0,500", "0,250"], [0.123, 0.5, 0.25]),
    "points between thousands": (["1.300,46", "937,5", "12"], [1300.46, 937.5, 12.0]),
    "commas between thousands": (["1,234", "2,345,678", "12"], [1234.0, 2345678.0, 12.0]),
    "narrow spaces": (["1\u202f234,5", "2\u00a0000", "3"], [1234.5, 2000.0, 3.0]),
}
DATES = {
    "ISO": (["2013-01-02T10:00:00", "2013-01-02 10:00", "2013-01-02"], "ISO"),
    "ISO with a zone": (["2013-01-02T10:00:00Z", "2013-01-02 05:00:00-05:00", "2013-01-02T10:00:00.000001Z"], "ISO Z"),
    "day first": (["02.01.2013", "2.1.2013", "02.01.2013"], "%d.%m.%Y"),
    "month first": (["1/2/2013 10:00 AM", "1/31/2013 10:00 PM", "2/2/2013 1:30 PM"], "%m/%d/%Y %I:%M %p"),
    "day of a month by name": (["2-Jan-2013", "31-Dec-2012", "1-Feb-2013"], "%d-%b-%Y"),
    "American names": (["Jan 2, 2013", "Dec 31, 2012", "May 5, 2013"], "%b %d, %Y"),
    "year first": (["2013/01/02", "2013/1/3", "2012/12/31"], "%Y/%m/%d"),
}
NOTHING = {
    "plain numbers": ["1", "2", "3.5"],
    "words": ["a", "b", "c"],
    "versions": ["1.2.3", "1.2.4", "2.0.1"],
    "telephones": ["555-1234", "555-2222", "555-3333"],
    "two currencies": ["$5", "€6", "$7"],
    "per cent and not": ["24%", "0.3", "5%"],
    "day or month": ["1/2/2013", "3/4/2013", "5/6/2013"],
    "both above twelve": ["31/1/2013", "1/31/2013", "2/2/2013"],
    "a month of 13": ["2013-13-01", "2013-01-01", "2013-02-01"],
    "levels in one spelling": ["yes", "no", "yes"],
    "levels by case": ["Red", "red", "blue"],
    "too few": ["$5", "$6"],
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_those_that_people_mean(kind: str) -> None:
    texts, values = NUMBERS[kind]
    format_ = find_format(pa.array([*texts, None]))
    assert format_ is not None and format_.kind == "number"
    found, broken = format_.parse(pa.chunked_array([[None, *texts], texts]))
    assert broken is None and found.to_pylist() == [None, *values, *values]
    assert format_.parse(pa.array(["12 apples"]))[1] == "12 apples"


@pytest.mark.parametrize("kind", DATES)
def test_dates_have_one_pattern(kind: str) -> None:
    texts, pattern = DATES[kind]
    format_ = find_format(pa.array(texts))
    assert format_ is not None and (format_.kind, format_.pattern) == ("date", pattern)
    first = format_.parse(pa.array(texts))[0][0].as_py()
    assert first.date() == datetime.date(2013, 1, 2)
    assert format_.parse(pa.array([texts[0], "soon"]))[1] == "soon"


def test_a_day_that_no_month_has_breaks_the_format() -> None:
    format_ = TextFormat(kind="date", pattern="%d.%m.%Y", example="01.02.2013")
    assert format_.parse(pa.array(["28.02.2013", "31.02.2013"]))[1] == "31.02.2013"


@pytest.mark.parametrize(
    "texts",
    [
        *(texts for texts, _ in (*NUMBERS.values(), *DATES.values())),
        *NOTHING.values(),
        ["x", " x", "y"],
        ["a", "yes", "YES"],
    ],
)
def test_codes_have_the_format_of_their_texts(texts: list[str]) -> None:
    for column in (pa.array(texts), pa.array([None, *texts]), pa.chunked_array([texts, texts])):
        assert find_format(column.dictionary_encode()) == find_format(column)


@pytest.mark.parametrize("kind", NOTHING)
def test_what_may_be_meant_otherwise_stays_text(kind: str) -> None:
    assert find_format(pa.array(NOTHING[kind])) is None


@pytest.mark.parametrize(
    ("texts", "levels"),
    [
        ([" yes", "NO ", "Yes", "no", "yes"], ["yes", "no", "yes", "no", "yes"]),
        (["Y", "yes", "N", "no"], ["yes", "yes", "no", "no"]),
        (["red ", "red", " blue"], ["red", "red", "blue"]),
        ([" TRUE", "false", "True"], [True, False, True]),
    ],
)
def test_levels_have_one_spelling(texts: list[str], levels: list[object]) -> None:
    format_ = find_format(pa.array(texts))
    assert format_ is not None and format_.parse(pa.array(texts))[0].to_pylist() == levels


def test_the_decimal_sign_of_a_file_decides_what_a_comma_is() -> None:
    texts = pa.array(["1,234", "5,678", "9,012"])
    assert find_format(texts, ",").parse(texts)[0].to_pylist() == [1.234, 5.678, 9.012]
    assert find_format(texts, ".").parse(texts)[0].to_pylist() == [1234.0, 5678.0, 9012.0]
    assert find_format(pa.array(["1,5", "2,5", "3,5"]), ".") is None
    assert decimal_sign(["1.234,5"]) == "," and decimal_sign(["1,234.5"]) == "." and decimal_sign(["1,234"]) is None


def test_a_format_is_found_beyond_the_first_rows() -> None:
    days = [f"{1 + i % 12}/{1 + i % 12}/2013" for i in range(1200)] + [f"{13 + i % 9}/1/2013" for i in range(1200)]
    assert find_format(pa.array(days)).pattern == "%d/%m/%Y"
    assert find_format(pa.array(days[:1200])) is None
