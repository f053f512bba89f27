"""Commands: their examples and exit codes: 0, or 1 with an error message. typer reports usage errors (2)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import typer

from oddsmith.cli.output import as_options, print_message

F = TypeVar("F", bound=Callable[..., None])

EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {}  # Example command lines.
show_traceback = False  # Whether errors show their traceback: ``oddsmith --debug …``.


def command(*examples: str) -> Callable[[F], F]:
    """Decorate a command: an error becomes a message on standard error and exit code 1; Ctrl-C gives 130."""

    def decorate(function: F) -> F:
        @wraps(function)
        def run(*args: object, **kwargs: object) -> None:
            try:
                function(*args, **kwargs)
            except (typer.Exit, typer.Abort, typer.BadParameter, BrokenPipeError):
                raise
            except KeyboardInterrupt as stop:
                print_message("Interrupted", str(stop) or "Nothing was written.")
                raise typer.Exit(130) from None
            except Exception as error:
                if show_traceback:
                    raise
                print_message("Error", error_text(error))
                raise typer.Exit(1) from None

        EXAMPLES[run] = examples
        return run  # type: ignore[return-value]

    return decorate


def has_screen() -> bool:
    """Return whether a program can open a window."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def error_text(error: Exception) -> str:
    """Return an error as a sentence for the user.

    >>> error_text(FileNotFoundError(2, "No such file or directory", "a.csv"))
    "'a.csv': No such file or directory."
    """
    from oddsmith.errors import OddsmithError

    if isinstance(error, OddsmithError):
        return as_options(str(error))
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename!r}: {error.strerror}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for that."
    text = "This is a bug in oddsmith, or something unexpected: 'oddsmith --debug …' shows where."
    return f"{type(error).__name__}: {error}. {text}"
