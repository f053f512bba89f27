"""One tree of errors and warnings: each says what was found, what was expected and what to try.

Every class is also the type that a scikit-learn user expects (``ValueError``, ``TypeError``,
``NotFittedError``, ``ConvergenceWarning``), so that existing ``except`` clauses keep working.

>>> issubclass(InvalidInputError, ValueError)
True
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning as _SklearnConvergenceWarning
from sklearn.exceptions import NotFittedError as _SklearnNotFittedError


class OddsmithError(Exception):
    """The root of all errors of this library."""


class InvalidInputError(OddsmithError, ValueError):
    """The data or an argument has a value that cannot be used.

    ``row`` is the number of the row that it stands in, from 0 on, where there is one: whoever knows where the rows come
    from says so in terms of that place.

    >>> str(InvalidInputError("Column 'x' has a missing value, the first in row 3.", row=3).at("line 5"))
    "Column 'x' has a missing value, the first in line 5."
    """

    def __init__(self, *args: object, row: int | None = None) -> None:
        super().__init__(*args)
        self.row = row

    def at(self, place: str) -> InvalidInputError:
        """Return the error with the place of its row in the words of its source."""
        return InvalidInputError(str(self).replace(f"in row {self.row}", f"in {place}"))

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, {"row": self.row}


class UnavailableError(InvalidInputError, AttributeError):
    """An attribute that this fit does not have, though others of its kind do: ``hasattr`` says False.

    >>> from oddsmith import LogisticRegression
    >>> hasattr(LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]), "log_evidence_")  # no prior
    False
    """


class InvalidTypeError(OddsmithError, TypeError):
    """The data or an argument is of a type that cannot be used."""


class NeedsMemoryError(InvalidInputError, InvalidTypeError):
    """Rows in memory are needed, and the data is in pieces, wherever it lies."""


class UnknownNameError(InvalidInputError):
    """A name is not registered; the message lists those that are.

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
        # An exception is made again from its message alone, unless it says otherwise: it may come from a worker.
        return type(self), self._given


class NotFittedError(OddsmithError, _SklearnNotFittedError):
    """A fitted model was needed."""


class ModelFileError(OddsmithError, ValueError):
    """A model file cannot be read or written: it is none, is damaged, or comes from a newer version."""


class MessageError(OddsmithError, ValueError):
    """A request, an answer or a journal cannot be used: it is none, is damaged, or belongs to something else."""


class OddsmithWarning(UserWarning):
    """The root of all warnings of this library."""


class ConvergenceWarning(OddsmithWarning, _SklearnConvergenceWarning):
    """A fit stopped before its certificate reached the tolerance."""


class SeparationWarning(OddsmithWarning, _SklearnConvergenceWarning):
    """The classes are separated, so the likelihood has no maximum."""


class CollinearityWarning(OddsmithWarning):
    """Columns that are combinations of earlier ones were set aside."""


class FormatWarning(OddsmithWarning):
    """Text was recognised as numbers, dates or levels: a note on how the data was read."""


class LevelsWarning(OddsmithWarning):
    """A column has very many levels, or as many as there are rows: each has a weight of its own."""


def caller_level() -> int:
    """Return the stack level of the first caller that is not of this package: the one that a warning is for."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("oddsmith."):
        frame, level = frame.f_back, level + 1
    return level


def did_you_mean(text: object, names: Iterable[object]) -> str:
    """Return a hint for an error message: the name that is nearest to a text, whatever its case; empty if none is."""
    from difflib import get_close_matches

    known = {str(name).lower(): str(name) for name in names}
    close = get_close_matches(str(text).lower(), known, n=1)
    return f" Did you mean {known[close[0]]!r}?" if close else ""


@contextmanager
def as_input_errors(explain: Callable[[str], str] = str) -> Iterator[None]:
    """Give errors raised inside (by scikit-learn, say) their place in this tree; ``explain`` words them."""
    try:
        yield
    except OddsmithError:
        raise
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(explain(str(error))) from None
    except TypeError as error:
        raise InvalidTypeError(explain(str(error))) from None
