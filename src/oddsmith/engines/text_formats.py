"""Formats of numbers, dates and levels in text columns: one format per column, detected from a sample.

| text | format | becomes |
|---|---|---|
| ``1.654,60``, ``1 654.60``, ``1'654.60`` | number, with its decimal and thousands separator | 1654.6 |
| ``$1,654.60``, ``12,50 €``, ``(USD 5)`` | number with a currency | 1654.6, 12.5, −5 |
| ``24%`` | number in per cent | 24 |
| ``31.01.2026``, ``1/31/2026 5:00 PM``, ``2026-01-31T17:00:00Z`` | date, with the order of day and month | a time |
| `` yes``, ``NO ``, ``Yes`` | levels, with one spelling for each | ``yes``, ``no`` |
| `` TRUE``, ``false`` | boolean | true, false |

A format is detected in a sample (`find_format`) and verified for every value read (`TextFormat.parse`). A model stores
the formats of its columns, so that later tables are read by the same rules.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

HEAD_ROWS, SPREAD_ROWS, SPREAD = 1000, 250, 4
"""Rows for detecting a format: the first ones, and some at each of several places."""
SAMPLED_ROWS = HEAD_ROWS + SPREAD * SPREAD_ROWS
"""Size of a table from which only some rows are checked."""
FEWEST = 3
"""Minimum number of values for detecting a format."""
SYMBOLS = "$€£¥₹₽₩₺₪฿₫₴₦"
CURRENCY = rf"US\$|R\$|[{SYMBOLS}]|USD|EUR|GBP|CHF|JPY|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|INR|CNY|BRL|MXN|ZAR|kr|zł|Kč"
SPACES = "[\u00a0\u2009\u202f]"
"""Spaces that spreadsheets put between groups of digits."""
NUMBER = re.compile(
    rf"(\()?[-+−]?\s*(?P<before>{CURRENCY})?\s*[-+−]?\s*(?P<body>\d[\d.,' ]*|[.,]\d+)(?<! )"
    rf"\s*(?P<after>{CURRENCY}|%)?\s*(?(1)\)|)"
)
SEPARATORS = ((".", ""), (",", ""), (".", ","), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "'"))
"""Decimal and thousands separators to try."""
DAY = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2\d{4}")
YEAR_FIRST = re.compile(r"\d{4}([./])\d{1,2}\1\d{1,2}")
NAMED_MONTHS = ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%b %d %Y", "%d. %b %Y")
TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p", ", %I:%M:%S %p")
DIGITS = {"%d": r"(?P<day>\d{1,2})", "%m": r"\d{1,2}", "%Y": r"\d{4}", "%b": "[A-Za-z.]+"}
_FIELD = re.compile("%[a-zA-Z]")
ISO = r"^\s*\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)?"
ISO_START, LETTERS = re.compile(ISO), re.compile("[A-Za-z]{3}")
ZONE = r" ?(?:Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)"
YES_NO = {"yes": "yes", "y": "yes", "no": "no", "n": "no", "on": "on", "off": "off", "true": "true", "false": "false"}
"""Levels that are the same in any case, and their meaning."""


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """The text format of one column.

    ``kind`` is "number", "date", "boolean" or "levels". For numbers, every value may have the ``currency``, and must
    have a percent sign if ``percent``. For dates, ``pattern`` is a ``strptime`` pattern, "ISO", or "ISO Z" with a time
    zone. For levels, ``spellings`` maps the stripped lower-case text to one spelling; other levels are unchanged.
    ``example`` is a value of the column.

    >>> price = find_format(pa.array(["$1,654.60", "$3.20", "$12"]))
    >>> price.currency, price.thousands, price.parse(pa.array(["$2,000", "5.5", None, "($1)"]))[0].to_pylist()
    ('$', ',', [2000.0, 5.5, None, -1.0])
    """

    kind: str
    decimal: str = "."
    thousands: str = ""
    currency: str = ""
    percent: bool = False
    pattern: str = ""
    spellings: tuple[tuple[str, str], ...] = ()
    example: str = ""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the values."""
        zone = "UTC" if self.pattern == "ISO Z" else None
        types = {"number": pa.float64(), "date": pa.timestamp("us", zone), "boolean": pa.bool_()}
        return types.get(self.kind, pa.string())

    def parse(self, column: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, str | None]:
        """Return the values of a column of text, and the first text that breaks the format, None if none does.

        Cost: one pass over the distinct values of the column.
        """
        array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
        texts = encoded.dictionary.cast(pa.string())
        values = getattr(self, f"_{self.kind}")(texts)
        broken = pc.and_(values.is_null(), texts.is_valid())
        if pc.any(broken).as_py():
            return values, texts.filter(broken)[0].as_py()
        return values.take(encoded.indices), None

    def _number(self, texts: pa.Array) -> pa.Array:
        D, T, currency = re.escape(self.decimal), re.escape(self.thousands), re.escape(self.currency)
        groups = rf"[1-9]\d{{0,2}}(?:{T}\d{{3}})+|" if self.thousands else ""
        body = rf"(?:(?:{groups}\d+)(?:{D}\d*)?|{D}\d+)"
        money = f"(?:{currency})?" if self.currency else ""
        sign = r"[-+−]?\s*"
        number = rf"{sign}{money}\s*{sign}{body}\s*{money}" + (r"\s*%" if self.percent else "")
        texts = pc.replace_substring_regex(texts, SPACES, " ")
        right = pc.match_substring_regex(texts, rf"^\s*(?:{number}|\({number}\s*\))\s*$")
        digits = pc.replace_substring_regex(pc.if_else(right, texts, None), rf"[^0-9{D}]", "")
        values = pc.cast(pc.replace_substring(digits, self.decimal, "."), pa.float64())
        return pc.if_else(pc.match_substring_regex(texts, "[(−-]"), pc.negate(values), values)

    def _date(self, texts: pa.Array) -> pa.Array:
        if not self.pattern.startswith("ISO"):
            texts = pc.utf8_trim_whitespace(texts)
            found = pc.strptime(texts, self.pattern, "s", error_is_null=True)
            # A 31st of February has become one of March.
            day = pc.extract_regex(texts, _date_regex(self.pattern))
            same = pc.equal(pc.struct_field(day, "day").cast(pa.int64()), pc.day(found))
            return pc.if_else(same, found, None).cast(pa.timestamp("us"))
        right = pc.match_substring_regex(texts, f"{ISO}{ZONE if self.pattern == 'ISO Z' else ''}\\s*$")
        texts = pc.utf8_trim_whitespace(pc.if_else(right, texts, None))
        if self.pattern == "ISO Z":
            texts = pc.replace_substring_regex(texts, " ?(?:UTC|GMT)$", "Z")
            texts = pc.replace_substring_regex(texts, r" ?([Z+-][0-9:]*)$", r"\1")
        try:
            # No more digits than a clock of microseconds has.
            return pc.cast(pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1"), self.type)
        except pa.ArrowInvalid:  # a month of 13: each text for itself
            return pa.array([_iso_or_none(text, self.type) for text in texts.to_pylist()], self.type)

    def _boolean(self, texts: pa.Array) -> pa.Array:
        words = pc.utf8_lower(pc.utf8_trim_whitespace(texts))
        return pc.if_else(pc.equal(words, "true"), True, pc.if_else(pc.equal(words, "false"), False, None))

    def _levels(self, texts: pa.Array) -> pa.Array:
        spellings = dict(self.spellings)
        trimmed = pc.utf8_trim_whitespace(texts).to_pylist()
        return pa.array([t if t is None else spellings.get(t.lower(), t) for t in trimmed], pa.string())

    def __str__(self) -> str:
        """A description of the format.

        >>> str(TextFormat(kind="number", currency="€", decimal=",", thousands=".", example="1.654,60 €"))
        "money ('1.654,60 €')"
        """
        if self.kind == "levels":
            one = ", ".join(repr(level) for level in dict.fromkeys(spelling for _, spelling in self.spellings))
            return f"levels in one spelling ({one or 'no spaces around them'})"
        return f"{self._what} ({self.example!r})"

    @property
    def _what(self) -> str:
        if self.kind == "number":
            return "money" if self.currency else "percentages" if self.percent else "numbers"
        order = {"%d": "day", "%m": "month", "%b": "month", "%Y": "year"}
        parts = [order[part] for part in re.findall(r"%[dmbY]", self.pattern)]
        return (
            "booleans" if self.kind == "boolean" else " ".join(["dates", *(["by", ", ".join(parts)] if parts else [])])
        )

    def with_decimal(self, decimal: str | None) -> TextFormat:
        """Return the format of the same numbers with another decimal sign; None changes nothing.

        >>> price = TextFormat(kind="number", currency="€", decimal=",", thousands=".", example="1.654,60 €")
        >>> str(price.with_decimal("."))
        "money ('1,654.60 €')"
        """
        if self.kind != "number" or decimal is None or decimal == self.decimal:
            return self
        thousands = self.decimal if self.thousands == decimal else self.thousands
        example = self.example.translate(str.maketrans(self.decimal + decimal, decimal + self.decimal))
        return replace(self, decimal=decimal, thousands=thousands, example=example)

    def describe_error(self, name: str, text: str, where: str) -> str:
        """Return the error message for a value that breaks the format.

        >>> TextFormat(kind="number", percent=True, example="24%").describe_error("rate", "0.2", "line 7")
        "column 'rate' holds '0.2' in line 7, where percentages such as '24%' are expected."
        """
        expected = f"{self._what} such as {self.example!r} {'is' if self.currency else 'are'}"
        return f"column {name!r} holds {text!r} in {where}, where {expected} expected."


def find_format(column: pa.Array | pa.ChunkedArray, decimal: str | None = None) -> TextFormat | None:
    """Return the format of a text column, detected from a sample of its rows; None if it has none.

    Plain numbers are not a format: numbers given as text are meant as levels. ``decimal`` is the decimal separator of
    the file, if known; it determines the meaning of ``1,234``.

    >>> find_format(pa.array(["03.02.2026", "17.01.2026", "01.12.2025"])).pattern
    '%d.%m.%Y'
    >>> find_format(pa.array(["1/2/2026", "3/4/2026", "5/6/2026"])) is None  # day or month first?
    True
    """
    if pa.types.is_dictionary(column.type) and _has_no_format(column):
        return None
    texts = sample_texts(column)
    if len(texts) < FEWEST and len(column) < FEWEST:
        return None
    return _find_number(texts, decimal) or _find_date(texts) or _find_levels(texts)


def _has_no_format(column: pa.DictionaryArray | pa.ChunkedArray) -> bool:
    """Whether the first value and the levels of a column show that it has no format, so that no row is looked up.

    >>> column = pa.array(["UA", "AA"]).dictionary_encode()
    >>> _has_no_format(column), _has_no_format(pa.array(["UA", "AA "]).dictionary_encode())
    (True, False)
    """
    first = column[0].as_py() if len(column) else None
    if first is None or are_numbers([first]) or _may_be_date(first.strip()) or first.strip().lower() in YES_NO:
        return False
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return all(pc.utf8_trim_whitespace(chunk.dictionary).equals(chunk.dictionary) for chunk in chunks)


def sampled_rows(n: int) -> list[int]:
    """Return the numbers of the rows that `sample_texts` reads of many."""
    starts = [HEAD_ROWS + k * (n - HEAD_ROWS) // SPREAD for k in range(SPREAD)]
    return [*range(HEAD_ROWS), *(row for start in starts for row in range(start, start + SPREAD_ROWS))]


def sample_texts(column: pa.Array | pa.ChunkedArray) -> Counter[str]:
    """Return the values in the first rows and in some rows spread over the others, with their counts."""
    n = len(column)
    parts = [column.slice(0, HEAD_ROWS)]
    if n > HEAD_ROWS:
        parts += [column.slice(HEAD_ROWS + k * (n - HEAD_ROWS) // SPREAD, SPREAD_ROWS) for k in range(SPREAD)]
    chunks = chain.from_iterable(part.chunks if isinstance(part, pa.ChunkedArray) else [part] for part in parts)
    found = pc.value_counts(pa.chunked_array(chunks, column.type).cast(pa.string()))
    texts = Counter(dict(zip(*(one.to_pylist() for one in found.flatten()), strict=True)))
    texts.pop(None, None)
    return texts


def decimal_sign(texts: Sequence[str]) -> str | None:
    """Return the decimal separator of numbers in text, None if it is ambiguous.

    >>> decimal_sign(["1,5", "2,25"]), decimal_sign(["1.234,5"]), decimal_sign(["1,234"]), decimal_sign(["a,b"])
    (',', ',', None, None)
    """
    found = _number_bodies(texts)
    used = set() if found is None else _separators(found[0])
    signs = {decimal for decimal, _ in used}
    return signs.pop() if len(signs) == 1 and None not in signs else None


def are_numbers(texts: Sequence[str]) -> bool:
    """Whether texts may be numbers of one kind.

    >>> are_numbers(["$1,5", "$7"]), are_numbers(["1,5", "seven"])
    (True, False)
    """
    return _number_bodies(texts) is not None


def _number_bodies(texts: Sequence[str]) -> tuple[list[str], str, bool] | None:
    """Return the digits and separators of numbers, their currency, and whether they are per cent; None if not alike."""
    bodies, currencies, percents = [], set(), set()
    for text in texts:
        match = NUMBER.fullmatch(re.sub(SPACES, " ", text).strip())
        if match is None:
            return None
        percents.add(match["after"] == "%")
        currencies |= {sign for sign in (match["before"], match["after"]) if sign not in (None, "%")}
        bodies.append(match["body"])
    if not bodies or len(currencies) > 1 or len(percents) > 1 or (currencies and True in percents):
        return None
    return bodies, next(iter(currencies), ""), True in percents


def _separators(bodies: Sequence[str]) -> set[tuple[str | None, str]]:
    """Return the decimal (None: there is none) and thousands separators that all numbers can have."""
    found = set()
    for decimal, thousands in SEPARATORS:
        D, T = re.escape(decimal), re.escape(thousands)
        groups = rf"[1-9]\d{{0,2}}(?:{T}\d{{3}})+|" if thousands else ""
        body = re.compile(rf"(?:{groups}\d+)(?:{D}\d*)?|{D}\d+")
        if all(map(body.fullmatch, bodies)):
            grouped = bool(thousands) and any(thousands in body for body in bodies)
            found.add((decimal if any(decimal in body for body in bodies) else None, thousands if grouped else ""))
    return found


def _find_number(texts: Counter[str], decimal: str | None) -> TextFormat | None:
    found = _number_bodies(list(texts))
    if found is None:
        return None
    bodies, currency, percent = found
    ways = {way for way in _separators(bodies) if decimal is None or way[0] in (None, decimal)}
    ways = {way for way in ways if decimal is None or way[1] != decimal}
    if len(ways) > 1:  # 1,234 or 1.234: groups of digits if it is money; else only commas that are not decimal signs
        grouped = {way for way in ways if way[0] is None and (currency or way[1] == ",")}
        plain = {way for way in ways if way[0] == "."}
        ways = (grouped if currency or decimal != "," else ways) or plain
    if len(ways) != 1:
        return None
    ((sign, thousands),) = ways
    marked = any(mark in text for text in texts for mark in "(−")  # Negative numbers that only this format reads.
    if not (currency or percent or thousands or sign == "," or marked):
        return None  # plain numbers
    other = {",": ".", ".": ","}.get(thousands, ".")
    shown = max(texts, key=lambda text: (sum(text.count(mark) for mark in (thousands, sign) if mark), len(text), text))
    return TextFormat(
        kind="number",
        decimal=sign or (decimal if decimal and decimal != thousands else other),
        thousands=thousands,
        currency=currency,
        percent=percent,
        example=shown.strip(),
    )


def _find_date(texts: Counter[str]) -> TextFormat | None:
    if not _may_be_date(next(iter(texts), "").strip()):
        return None
    words = list(map(str.strip, texts))
    iso = ("ISO", "ISO Z") if ISO_START.match(words[0]) else ()
    patterns = (pattern for pattern in _date_patterns(words) if re.search(_date_regex(pattern), words[0]))
    for pattern in (*iso, *patterns):
        format_ = TextFormat(kind="date", pattern=pattern, example=words[0])
        if format_.parse(pa.array(words))[1] is None:
            return format_
    return None


def _date_regex(pattern: str) -> str:
    """Return a regular expression that finds the day in dates of a pattern."""
    return _FIELD.sub(lambda sign: DIGITS.get(sign[0], ".*"), re.escape(pattern))


def _may_be_date(text: str) -> bool:
    """Whether a text may be a date: it has digits, and a pattern of `_date_patterns` begins like it.

    >>> _may_be_date("2026-01-31"), _may_be_date("3 May 2026"), _may_be_date("N14228")
    (True, True, False)
    """
    if not text[:1].isalnum() or not any(map(str.isdigit, text)):
        return False
    return any(pattern.match(text) for pattern in (ISO_START, YEAR_FIRST, DAY)) or bool(LETTERS.search(text))


def _date_patterns(words: Sequence[str]) -> list[str]:
    """Return the possible patterns of dates; none if day and month are ambiguous."""
    first = words[0]
    if year := YEAR_FIRST.match(first):
        days = [f"%Y{year[1]}%m{year[1]}%d"]
    elif DAY.match(first):
        parts = [DAY.match(word) for word in words]
        if not all(parts):
            return []
        sign = parts[0][2]  # type: ignore[index]
        above = [any(int(part[i]) > 12 for part in parts if part) for i in (1, 3)]
        if all(above) or (not any(above) and sign != "."):
            return []
        days = [f"%m{sign}%d{sign}%Y" if above[1] else f"%d{sign}%m{sign}%Y"]
    else:
        days = list(NAMED_MONTHS) if LETTERS.search(first) else []
    return [day + time for day in days for time in TIMES]


def _find_levels(texts: Counter[str]) -> TextFormat | None:
    """Return the common spelling of levels that are written in several ways, if any."""
    alike = set(map(str.strip, texts))
    if len(alike) == len(texts) and not all(text.lower() in YES_NO for text in alike):
        return None
    trimmed: Counter[str] = Counter()
    for text, count in texts.items():
        trimmed[text.strip()] += count
    folded = {text.lower() for text in trimmed}
    if folded == {"true", "false"}:
        return TextFormat(kind="boolean", example=max(texts, key=len))
    spellings: dict[str, str] = {}
    if folded <= YES_NO.keys() and len({YES_NO[word] for word in folded}) < len(trimmed):
        # Of several spellings the whole word, then the most frequent one.
        for text in sorted(
            trimmed, key=lambda text: (text.lower() not in YES_NO.values(), -trimmed[text], text.lower() != text)
        ):
            first = next(
                (spelling for word, spelling in spellings.items() if YES_NO[word] == YES_NO[text.lower()]), text
            )
            spellings.setdefault(text.lower(), first)
    if not spellings and len(trimmed) == len(texts):
        return None
    return TextFormat(kind="levels", spellings=tuple(sorted(spellings.items())))


def _iso_or_none(text: str | None, type_: pa.DataType) -> Any:
    try:
        return None if text is None else pa.scalar(text).cast(type_).as_py()
    except pa.ArrowInvalid:
        return None
