"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, Arrow or JSON-lines file, folder or glob of them; database table or query "
        "(shop.db::orders); - for standard input; or the name of a bundled data set.",
        show_default=False,
    ),
]
Several = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="CSV, Parquet, Arrow or JSON-lines files, folder or glob of them; database table or query "
        "(shop.db::orders); - for standard input; or the name of a bundled data set.",
        show_default=False,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Read files in pieces, with so much memory for rows: 500MB, 4GB. Files above 100 MB are anyway.",
        show_default=False,
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Keep rows there that are too many for the memory, and for later fits to the same files.",
        show_default=False,
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Keep the state of the fit in this file after each pass; if it is there, go on from it.",
        show_default=False,
    ),
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file that 'oddsmith fit' wrote.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[
    str, typer.Option("--target", "-t", metavar="COLUMN", help="The column with the classes.", show_default=False)
]
Missing = Annotated[
    str | None,
    typer.Option(
        help="Missing values: error (if not given), drop (fit without these rows) or indicator (mean and a 0/1 column)."
    ),
]
Unseen = Annotated[
    str | None,
    typer.Option(
        help="Words in later tables that were not there in the fit: error (if not given), or reference (count as that "
        "level)."
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="COLUMN",
        help="A column to leave out, such as an id; can be given again.",
        show_default=False,
    ),
]
Table = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A .csv, .parquet, .arrow or .jsonl file, or (without an ending) a folder of files; written whole or not "
        "at all. Default: standard output.",
        show_default=False,
    ),
]
Loss = Annotated[
    str | None,
    typer.Option(
        metavar="LOSS",
        help="Cost of each action in each class: [[0, 1], [5, 0]] or {class: {action: cost}}, or a JSON or CSV file.",
        show_default=False,
    ),
]
Reject = Annotated[
    str | None, typer.Option(metavar="COST", help="What it costs to leave a row undecided.", show_default=False)
]
Level = Annotated[float, typer.Option(help="Of the intervals.")]
Seed = Annotated[int, typer.Option(help="Seed of what is random.")]
