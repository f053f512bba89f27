"""Progress of a pass, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oddsmith.engines.base import Progress


@contextmanager
def following(progress: Progress | bool | None, title: str) -> Iterator[Progress | None]:
    """Yield the progress callback of a pass: the given function or, for True, a bar on standard error.

    The bar is shown during the pass, only on a terminal. ``title`` names the pass.

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
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not progress or not console.is_terminal:
        yield None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("pieces"), TimeElapsedColumn())
    with Bar(TextColumn("{task.description}"), *columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
