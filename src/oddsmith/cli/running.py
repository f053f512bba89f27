"""How a command ends: 0, or 1 with a sentence about what the user can change. Usage errors (2) are typer's."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import typer

from oddsmith.cli.output import as_options, complain

F = TypeVar("F", bound=Callable[..., None])

debugging = False
"""Whether errors come with their traceback: ``oddsmith --debug …``."""


def guarded(command: F) -> F:
    """Decorate a command: an error becomes one sentence on standard error, and the exit code 1; Ctrl-C is 130."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
            raise
        except KeyboardInterrupt as stop:
            complain("Interrupted", str(stop) or "Nothing was written.")
            raise typer.Exit(130) from None
        except Exception as error:
            if debugging:
                raise
            complain("Error", sentence(error))
            raise typer.Exit(1) from None

    return run  # type: ignore[return-value]


def sentence(error: Exception) -> str:
    """Return what an error means to somebody who did not write this program.

    >>> sentence(FileNotFoundError(2, "No such file or directory", "a.csv"))
    "'a.csv': No such file or directory."
    """
    from oddsmith.errors import OddsmithError

    if isinstance(error, OddsmithError):
        return as_options(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename!r}: {error.strerror}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for that."
    return (
        f"{type(error).__name__}: {error}. That is an error of oddsmith, or something that it did not expect: "
        "'oddsmith --debug …' shows where."
    )
