"""The fields of a JSON request, read one by one: each has a type and bounds, and what is wrong gets a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from oddsmith.errors import InvalidInputError, did_you_mean
from oddsmith.numerics import Array

Json: TypeAlias = Any  # What json.loads returns.
LONGEST_SHOWN = 60


class BadRequestError(InvalidInputError):
    """A request that cannot be answered, with its HTTP status."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.status)


def shown(value: object) -> str:
    """Return a value as it is named in a sentence, cut where it is long.

    >>> shown([1, 2]), shown("x" * 100)[-5:]
    ('[1, 2]', 'xxxx…')
    """
    kinds = {dict: "an object", list: "a list"}
    if isinstance(value, dict | list) and len(value) > 8:
        return f"{kinds[type(value)]} of {len(value):,}"
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        return "something that cannot be shown"
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def parse(body: bytes) -> Json:
    """Return the JSON object of a request; NaN and infinities are not JSON.

    >>> parse(b'{"n": 3}')
    {'n': 3}
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except BadRequestError:
        raise
    except RecursionError:
        raise BadRequestError("The request is nested too deeply. Expected one JSON object of plain fields.") from None
    except ValueError as error:  # JSON's errors, text that is not UTF-8, and numbers of too many digits
        raise BadRequestError(f"The request is not JSON: {str(error)[:120]}. Expected a JSON object.") from None
    if not isinstance(value, dict):
        raise BadRequestError(f"The request must be a JSON object, found {shown(value)}.")
    return value


def _refuse_constant(name: str) -> float:
    raise BadRequestError(f"The request holds {name}, which is not JSON. Expected finite numbers.")


class Fields:
    """The fields of one JSON object, by name; ``where`` says which object it is in messages.

    >>> fields = Fields({"n": 12, "model": {"kind": "fisher"}})
    >>> fields.whole("n", 1, 100), fields.inner("model").choice("kind", ("logistic", "fisher"))
    (12, 'fisher')
    >>> fields.whole("n", 50, 100)
    Traceback (most recent call last):
    ...
    oddsmith.lab.fields.BadRequestError: n must be a whole number from 50 to 100, found 12.
    """

    def __init__(self, values: dict[str, Json], where: str = "") -> None:
        self._values, self._where = values, where

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._values.get(name) is not None

    def only(self, *names: str) -> None:
        """Refuse fields of other names."""
        for name in self._values:
            if name not in names:
                known = ", ".join(names)
                place = f" in {self._where}" if self._where else ""
                raise BadRequestError(f"Unknown field {shown(name)}{place}.{did_you_mean(name, names)} Known: {known}.")

    def inner(self, name: str) -> Fields:
        """Return the fields of an object inside this one, empty if it is missing."""
        value = self._values.get(name)
        value = {} if value is None else value
        if not isinstance(value, dict):
            raise self._wrong(name, "an object", value)
        return Fields(value, self._name(name))

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """Return a finite number between two bounds."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:  # NaN, too
            raise self._wrong(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def whole(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """Return a whole number between two bounds."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._wrong(name, f"a whole number from {low:,} to {high:,}", value)
        return value

    def choice(self, name: str, known: Sequence[str], default: str | None = None) -> str:
        """Return one of the known words."""
        value = self._value(name, default)
        if not isinstance(value, str) or value not in known:
            hint = did_you_mean(value, known) if isinstance(value, str) else ""
            raise BadRequestError(f"{self._name(name)} must be one of {', '.join(known)}; found {shown(value)}.{hint}")
        return value

    def choices(self, name: str, known: Sequence[str]) -> list[str]:
        """Return a list of known words, empty if it is missing."""
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > len(known) or not all(v in known for v in value):
            raise self._wrong(name, f"a list of {', '.join(known)}", value)
        return value

    def text(self, name: str, longest: int) -> str:
        """Return a text of limited length."""
        value = self._value(name, None)
        if not isinstance(value, str) or len(value) > longest:
            found = f"{len(value):,} characters" if isinstance(value, str) else value
            raise self._wrong(name, f"text of at most {longest:,} characters", found)
        return value

    def numbers(self, name: str, n: int | None = None, *, most: int = 1000, size: float = 1e9) -> Array:
        """Return a list of finite numbers, ``n`` of them if that is given."""
        value = self._value(name, None)
        expected = f"a list of {'' if n is None else f'{n} '}numbers up to {size:g}"
        if not isinstance(value, list) or (len(value) != n if n is not None else len(value) > most):
            raise self._wrong(name, expected, value)
        return self._array(name, expected, value, size)

    def table(self, name: str, columns: int | None, *, most: int, size: float = 1e9) -> Array:
        """Return rows of finite numbers, ``columns`` in each; of as many as in the first if that is None."""
        value = self._value(name, None)
        width = columns if columns is not None else len(value[0]) if _is_rows(value) and value else 0
        expected = f"at most {most:,} rows of {width} numbers up to {size:g}"
        if not _is_rows(value) or len(value) > most or not all(len(row) == width for row in value):
            raise self._wrong(name, expected, value)
        return self._array(name, expected, [v for row in value for v in row], size).reshape(len(value), width)

    def _array(self, name: str, expected: str, values: list[Json], size: float) -> Array:
        for value in values:
            if type(value) not in (int, float) or not -size <= value <= size:  # isinstance would take booleans, too
                raise self._wrong(name, expected, value)
        return np.array(values, dtype=float)

    def _value(self, name: str, default: object) -> Json:
        value = self._values.get(name)
        value = default if value is None else value
        if value is None:
            raise BadRequestError(f"{self._name(name)} is missing from the request.")
        return value

    def _name(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def _wrong(self, name: str, expected: str, found: object) -> BadRequestError:
        return BadRequestError(f"{self._name(name)} must be {expected}, found {shown(found)}.")


def _is_rows(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(row, list) for row in value)


def plain(value: object) -> Json:
    """Return arrays and numbers as JSON has them; what is not finite becomes null.

    >>> plain({"w": np.array([1.0, np.inf]), "n": np.int64(3)})
    {'w': [1.0, None], 'n': 3}
    """
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int | str | None) else str(value)
