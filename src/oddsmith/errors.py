"""Errors and warnings: each message says what was found, what was expected and what to try.

Every class is also the type that a scikit-learn user expects (``ValueError``, ``TypeError``,
``NotFittedError``, ``ConvergenceWarning``), so that existing ``except`` clauses keep working.

>>> issubclass(InvalidInputError, ValueError)
True
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning
from sklearn.exceptions import NotFittedError as _SklearnNotFittedError


class OddsmithError(Exception):
    """Base class of all oddsmith errors."""


class InvalidInputError(OddsmithError, ValueError):
    """The data or an argument has an invalid value.

    ``row`` is the number of the offending row, from 0, if there is one. Code that knows the source of the rows can
    replace it by a place in that source with `at`.

    >>> str(InvalidInputError("Column 'x' has a missing value, the first in row 3.", row=3).at("line 5"))
    "Column 'x' has a missing value, the first in line 5."
    """

    def __init__(self, *args: object, row: int | None = None) -> None:
        super().__init__(*args)
        self.row = row

    def at(self, place: str) -> InvalidInputError:
        """Return the error with its row number replaced by a place in the source."""
        return InvalidInputError(str(self).replace(f"in row {self.row}", f"in {place}"))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {"row": self.row}


class UnavailableError(InvalidInputError, AttributeError):
    """An attribute that other fits of the class have is missing from this one: ``hasattr`` returns False.

    >>> from oddsmith import LogisticRegression
    >>> hasattr(LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]), "log_evidence_")  # no prior
    False
    """


class InvalidTypeError(OddsmithError, TypeError):
    """The data or an argument has an unsupported type."""


class NeedsMemoryError(InvalidInputError, InvalidTypeError):
    """The method needs all rows in memory, but the data is read in pieces (files, Dask, Spark)."""


class UnknownNameError(InvalidInputError):
    """A name is not registered; the message lists the registered ones.

    >>> raise UnknownNameError("solver", "newtn", ["newton", "sgd"])
    Traceback (most recent call last):
    ...
    oddsmith.errors.UnknownNameError: Unknown solver 'newtn'. Known: 'newton', 'sgd'. Did you mean 'newton'?
    """

    def __init__(self, what: str, found: object, known: Iterable[object]) -> None:
        names = sorted(known, key=str)
        listed = ", ".join(map(repr, names)) or "(none)"
        InvalidInputError.__init__(self, f"Unknown {what} {found!r}. Known: {listed}.{did_you_mean(found, names)}")
        self._given = (what, found, names)

    def __reduce__(self) -> tuple[object, ...]:
        # Unpickling (from a worker process) would otherwise call the constructor with the message alone.
        return type(self), self._given


class NotFittedError(OddsmithError, _SklearnNotFittedError):
    """The model is not fitted yet."""


class ModelFileError(OddsmithError, ValueError):
    """A model file cannot be read or written: it is damaged, from a newer version, or not a model file."""


class MessageError(OddsmithError, ValueError):
    """A request, answer or journal is unusable: it is damaged, belongs to another fit, or is some other file."""


class OddsmithWarning(UserWarning):
    """Base class of all oddsmith warnings."""


class ConvergenceWarning(OddsmithWarning, _SklearnConvergenceWarning):
    """A fit stopped before its certificate reached the tolerance."""


class SeparationWarning(OddsmithWarning, _SklearnConvergenceWarning):
    """The classes are separated, so the likelihood has no maximum."""


class CollinearityWarning(OddsmithWarning):
    """Some columns are linear combinations of earlier ones; the fit leaves them out."""


class FormatWarning(OddsmithWarning):
    """Reports how values were interpreted: text as numbers, dates or levels; whole numbers that float64 rounds."""


class LevelsWarning(OddsmithWarning):
    """A column has very many levels, or a different one in each row; every level (or class of y) has its own weight."""


def caller_level() -> int:
    """Return the stack level of the first caller outside this package, for ``warnings.warn``."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("oddsmith."):
        frame, level = frame.f_back, level + 1
    return level


def did_you_mean(text: object, names: Iterable[object]) -> str:
    """Return a hint for an error message with the closest name, ignoring case; empty if none is close.

    >>> did_you_mean("Age", ["age", "sex"]), did_you_mean("1", [0, 1])
    (" Did you mean 'age'?", ' Did you mean 1, of type int?')
    """
    from difflib import get_close_matches

    known = {str(name).lower(): name for name in names}
    close = get_close_matches(str(text).lower(), known, n=1)
    if not close:
        return ""
    name = known[close[0]]
    if str(name) == str(text):
        return f" Did you mean {name!r}, of type {type(name).__name__}?"
    return f" Did you mean {str(name)!r}?"


def import_extra(package: str, what: str, extra: str) -> Any:
    """Return an optional package; without it, raise an error that says what needs it and which extra to install.

    >>> import_extra("no_such_package", "This", "dask")
    Traceback (most recent call last):
    oddsmith.errors.InvalidInputError: This needs the package no_such_package, which is not installed: pip install ...
    """
    try:
        return import_module(package)
    except ImportError:
        raise InvalidInputError(
            f"{what} needs the package {package}, which is not installed: pip install 'oddsmith[{extra}]'."
        ) from None


@contextmanager
def as_input_errors(explain: Callable[[str], str] = str) -> Iterator[None]:
    """Convert errors raised inside (by scikit-learn, say) to ours; ``explain`` rewrites the message."""
    try:
        yield
    except OddsmithError:
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(explain(str(error))) from None
    except TypeError as error:
        raise InvalidTypeError(explain(str(error))) from None
