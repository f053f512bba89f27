"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_DATA = (
    "CSV, Parquet, Arrow or JSON-lines file{s}, folder or glob of them; database table or query (shop.db::orders); "
    "- for standard input; or the name of a bundled data set."
)


def _argument(metavar: str, help_: str) -> Any:
    return typer.Argument(metavar=metavar, help=help_, show_default=False)


def option(help_: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option whose help names no default value."""
    return typer.Option(*names, metavar=metavar, help=help_, show_default=False)


Data = Annotated[str, _argument("DATA", _DATA.format(s=""))]
DataFiles = Annotated[list[str], _argument("DATA", _DATA.format(s="s"))]
ModelFile = Annotated[str, _argument("MODEL", "A model file that 'oddsmith fit' wrote.")]
Memory = Annotated[
    str | None,
    option(
        "Read files in pieces, with so much memory for rows: 500MB, 4GB. Files above 100 MB are anyway.", metavar="SIZE"
    ),
]
Cache = Annotated[
    str | None,
    option("Keep rows there that are too many for the memory, and for later fits to the same files.", metavar="FOLDER"),
]
Resume = Annotated[
    str | None,
    option("Keep the state of the fit in this file after each pass; if it is there, go on from it.", metavar="FILE"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[str, option("The column with the classes.", "--target", "-t", metavar="COLUMN")]
Basis = Annotated[str | None, typer.Option(help="Basis functions, in order: standardize,polynomial(2).")]
Weights = Annotated[str | None, typer.Option(metavar="COLUMN", help="The column that counts rows.")]
Missing = Annotated[
    str | None,
    option("Missing values: error (if not given), drop (fit without these rows) or indicator (mean and a 0/1 column)."),
]
Unseen = Annotated[
    str | None,
    option(
        "Words in later tables that were not there in the fit: error (if not given), or reference (count as that "
        "level)."
    ),
]
Ignore = Annotated[
    list[str] | None, option("A column to leave out, such as an id; can be given again.", "--ignore", metavar="COLUMN")
]
TableOutput = Annotated[
    str | None,
    option(
        "A .csv, .parquet, .arrow or .jsonl file, or (without an ending) a folder of files; written whole or not "
        "at all. Default: standard output.",
        *("--output", "-o"),
        metavar="FILE",
    ),
]
Loss = Annotated[
    str | None,
    option(
        "Cost of each action in each class: [[0, 1], [5, 0]] or {class: {action: cost}}, or a JSON or CSV file.",
        metavar="LOSS",
    ),
]
Reject = Annotated[str | None, option("What it costs to leave a row undecided.", metavar="COST")]
Level = Annotated[float, typer.Option(help="Of the intervals.")]
Seed = Annotated[int, typer.Option(help="Seed of what is random.")]
