"""How far a pass is, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oddsmith.engines.base import Progress


@contextmanager
def following(progress: Progress | bool | None, title: str) -> Iterator[Progress | None]:
    """Yield whom to tell how far a pass is: the function given, or with True a bar on standard error.

    The bar is there for the length of the pass, and only on a terminal. ``title`` says which pass it is.

    >>> with following(lambda done, total: print(done, "of", total), "pass 1") as tell:
    ...     tell(1, 2)
    1 of 2
    >>> with following(True, "pass 1") as tell:  # no terminal, no bar
    ...     tell is None
    True
    """
    if not isinstance(progress, bool):
        yield progress
        return
    bar = _bar() if progress else None
    if bar is None:
        yield None
        return
    task = bar.add_task(title, total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _bar() -> Any:
    """Return a bar of rich, None where there is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        return None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("pieces"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)
