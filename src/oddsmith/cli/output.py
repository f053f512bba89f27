"""Output of the commands: tables that fit the terminal, JSON, warnings as sentences, progress.

Results go to standard output; warnings, errors and progress to standard error. If standard output is not a terminal, it
contains only the result, without colours or folded lines.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN = {"markup": False, "emoji": False, "highlight": False}
"""Disables rich's markup: ``[red]`` and ``:smile:`` are plain text."""

GAP = 2


def stdout() -> Console:
    """Return the console for results; without a terminal, lines are not folded."""
    console = Console(**PLAIN)  # type: ignore[arg-type]
    return console if console.is_terminal else Console(**PLAIN, width=100_000)  # type: ignore[arg-type]


_busy: list[Console] = []  # The console of the active spinner, so that other output appears above it.


def stderr() -> Console:
    """Return the console for everything else."""
    return _busy[-1] if _busy else Console(stderr=True, soft_wrap=True, **PLAIN)  # type: ignore[arg-type]


def visible(text: object) -> str:
    r"""Return a text in which control characters are written out.

    >>> visible("age\x1b[31m"), visible("[red]bärtig")
    ('age\\x1b[31m', '[red]bärtig')
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in str(text))


def print_json(result: Mapping[str, Any]) -> None:
    """Print a result as JSON."""
    from oddsmith.data_access.table_writer import plain

    print(json.dumps(plain(result), indent=2, ensure_ascii=False, allow_nan=False))


def print_line(text: str, style: str = "", *, fold: bool = True) -> None:
    """Print a line of a result; an unfolded line of any length can be copied from a terminal."""
    stdout().print(Text(visible(text), style=style), soft_wrap=not (fold and stdout().is_terminal))


def note(text: str) -> None:
    """Print a remark on standard error, if there is a terminal."""
    if Console().is_terminal:
        stderr().print(Text(visible(text), style="dim"))


IN_PYTHON = {
    r"Drop these rows first, such as table\.dropna\(.*\) in pandas; for tables, design=Design\(unlabelled='drop'\) "
    "leaves them out": "Drop these rows with --unlabelled drop",
    r"(Drop these rows first), such as table\.dropna\(.*\) in pandas": r"\1",
    r"(?:design=)?(?:oddsmith\.)?Design\((missing|unseen|unlabelled)='(\w+)'\)": r"--\1 \2",
    r"\b(missing|unseen)='(\w+)'": r"--\1 \2",
    r"prior=JeffreysPrior\(\)": "--prior jeffreys",
    r"basis=Standardize\(\)": "--basis standardize",
    r"a GaussianPrior\b": "--prior 1.0",
    r"\bencoding=, delimiter= or decimal=": "--encoding, --delimiter or --decimal",
    r"\bdecimal='(.)'": r"--decimal '\1'",
    r"(?<=\bset aside with weight 0), as in aliased_": "",
    r"^y holds (?=one class|[\d,]+ classes)": "The target holds ",
    r"^This classifier requires y to be passed.*": "There is no target. Name it with --target, or in --formula.",
    r"^Found array with 0 feature\(s\).*": "No columns are left to fit with: --ignore leaves out all but the target.",
    r"\b([Cc]olumn ('.*?'|\".*?\") .*\b[Ll]eave (?:it|that column) out\b)(?! \()": r"\1 (--ignore \2)",
    r"^(Columns .*\b[Ll]eave them out\b)": r"\1 (--ignore)",
    r"\bleave these columns out\b": "leave these columns out (--ignore)",
    r"\bLeave out the columns that they come from\b": "Leave out the columns that they come from (--ignore)",
    r"\bin row (\d+)\b": r"in row \1 (counted from 0)",
}


def as_options(text: str) -> str:
    """Return a message with command-line options in place of Python arguments.

    >>> as_options("Use Design(missing='drop') or missing='indicator'; or prior=JeffreysPrior().")
    'Use --missing drop or --missing indicator; or --prior jeffreys.'
    >>> as_options("For tables, design=Design(missing='drop') does that.")
    'For tables, --missing drop does that.'
    """
    for python, option in IN_PYTHON.items():
        text = re.sub(rf"(?<![\"'])(?:{python})", option, text)  # what stands in quotes is a name
    return text


def print_message(kind: str, text: str) -> None:
    """Print an error, a warning or an interruption on standard error."""
    stderr().print(
        Text.assemble((f"{kind}: ", {"Note": "cyan", "Warning": "yellow"}.get(kind, "bold red")), visible(text))
    )


def print_table(
    columns: Mapping[str, Sequence[Any]],
    *,
    headers: Callable[[str], str] = lambda name: name.replace("_", " "),
    optional: Sequence[str] = (),
    group: str | None = None,
    formatted: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Print columns of equal length as a table.

    On a narrow terminal, ``optional`` columns are dropped, the last one first, and long words are folded, but never
    numbers. A ``group`` column becomes headings there. ``formatted`` gives the text of cells, if not the default.
    """
    from oddsmith.inference.tables import format_column

    console = stdout()
    texts = formatted or {name: format_column(name, values) for name, values in columns.items()}
    cells = {name: list(map(visible, column)) for name, column in texts.items()}
    words = {name for name, values in columns.items() if not all(isinstance(v, int | float) for v in values)}
    heads = {name: visible(headers(name)) for name in cells}
    groups = cells.pop(group, None) if group is not None and console.is_terminal else None
    left_out = _fit(cells, heads, optional, console.width)
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name in cells:
        justify: Literal["left", "right"] = "left" if name in words else "right"
        table.add_column(Text(heads[name]), justify=justify, no_wrap=name not in words, overflow="fold")
    for i, row in enumerate(zip(*cells.values(), strict=True)):
        if groups is not None and (i == 0 or groups[i] != groups[i - 1]):
            table.add_row(Text(groups[i], style="bold cyan"))
        table.add_row(*map(Text, row))
    if console.is_terminal:
        console.print(table)
    else:
        with console.capture() as lines:
            console.print(table)
        print("\n".join(line.rstrip() for line in lines.get().splitlines()))
    if left_out:
        note(f"(Not shown for lack of space; --json has them: {', '.join(left_out)}.)")


def _fit(cells: dict[str, list[str]], heads: dict[str, str], optional: Sequence[str], width: int) -> list[str]:
    """Take optional columns out of ``cells`` until the rest fits; return their headers."""
    wide = {name: max(map(cell_len, [heads[name], *column])) for name, column in cells.items()}
    left_out: list[str] = []
    for name in reversed([name for name in optional if name in cells]):
        if sum(wide[kept] for kept in cells) + GAP * len(cells) <= width:
            break
        del cells[name]
        left_out.insert(0, heads[name])
    return left_out


@contextmanager
def warnings_as_sentences() -> Iterator[list[str]]:
    """Print warnings raised inside immediately, each once, and collect them; reports on reading data are notes.

    A column that was named for how its text is written is not named again for the levels that follow from that.
    """
    from oddsmith.errors import FormatWarning, LevelsWarning, OddsmithWarning

    texts: list[str] = []

    def is_known(text: str, category: type[Warning]) -> bool:
        name = re.match(r"Column ('.*?'|\".*?\") has ", text) if issubclass(category, LevelsWarning) else None
        return text in texts or (name is not None and any(t.startswith(f"Column {name[1]} holds text") for t in texts))

    def show(message: Warning | str, category: type[Warning], *where: object, **more: object) -> None:
        text = as_options(str(message))
        if issubclass(category, OddsmithWarning) and not is_known(text, category):
            texts.append(text)
            print_message("Note" if issubclass(category, FormatWarning) else "Warning", text)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield texts


@contextmanager
def spinner(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner on standard error while something takes time, and yield a function that changes its text."""
    console = stderr()
    if not console.is_terminal:
        yield lambda words: None
        return
    with console.status(Text(visible(what))) as status:
        _busy.append(console)
        try:
            yield lambda words: status.update(Text(visible(words)))
        finally:
            _busy.pop()
