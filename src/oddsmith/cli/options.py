"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_DATA = (
    "CSV, Parquet, Arrow or JSON-lines file{s}, folder or glob of them; database table or query (shop.db::orders); "
    "- for standard input; or the name of a bundled data set."
)


def argument(metavar: str, help_: str) -> Any:
    """Return an argument whose help names no default value."""
    return typer.Argument(metavar=metavar, help=help_, show_default=False)


def option(help_: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option whose help names no default value."""
    return typer.Option(*names, metavar=metavar, help=help_, show_default=False)


def output(help_: str, metavar: str = "FILE") -> Any:
    """Return the option that says where the result of a command goes."""
    return option(help_, "--output", "-o", metavar=metavar)


Data = Annotated[str, argument("DATA", _DATA.format(s=""))]
DataFiles = Annotated[list[str], argument("DATA", _DATA.format(s="s"))]
ModelFile = Annotated[str, argument("MODEL", "A model file that 'oddsmith fit' wrote.")]
_MEMORY = "Read files in pieces, with so much memory for rows: 500MB, 4GB. Files above 100 MB are anyway."
Memory = Annotated[str | None, option(_MEMORY, metavar="SIZE")]
_CACHE = "Keep rows there that are too many for the memory, and for later fits to the same files."
Cache = Annotated[str | None, option(_CACHE, metavar="FOLDER")]
_RESUME = "Keep the state of the fit in this file after each pass; if it is there, go on from it."
Resume = Annotated[str | None, option(_RESUME, metavar="FILE")]
_ENCODING = "Of text files: utf-8, latin-1, cp1252, utf-16 …; found in the data if not given."
Encoding = Annotated[str | None, option(_ENCODING, metavar="NAME")]
_DELIMITER = "What separates the fields of text files: ';', tab …; found in the data if not given."
Delimiter = Annotated[str | None, option(_DELIMITER, metavar="SIGN")]
_DECIMAL = "The decimal separator of text files, . or , (then 1.234,5 is a number); found in the data if not given."
Decimal = Annotated[str | None, option(_DECIMAL, metavar="SIGN")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TARGET = option("The column with the classes.", "--target", "-t", metavar="COLUMN")
Target = Annotated[str, TARGET]
Basis = Annotated[str | None, option("Basis functions, in order: standardize,polynomial(2).")]
_CLASS_WEIGHT = "Weights of the classes: balanced, or {'no': 1, 'yes': 5}."
ClassWeight = Annotated[str | None, option(_CLASS_WEIGHT, metavar="WEIGHTS")]
Weights = Annotated[str | None, option("The column that counts rows.", metavar="COLUMN")]
_MISSING = "Missing values: error (if not given), drop (fit without these rows) or indicator (mean and a 0/1 column)."
Missing = Annotated[str | None, option(_MISSING)]
_UNSEEN = "Levels in later tables that the fit has not seen: error (if not given), or reference (count as that level)."
Unseen = Annotated[str | None, option(_UNSEEN)]
_IGNORE = "A column to leave out, such as an id; can be given again."
Ignore = Annotated[list[str] | None, option(_IGNORE, "--ignore", metavar="COLUMN")]
_TABLE = (
    "A .csv, .parquet, .arrow or .jsonl file, or (without an ending) a folder of files; written whole or not at all. "
    "Default: standard output."
)
TableOutput = Annotated[str | None, output(_TABLE)]
_LOSS = "Cost of each action in each class: [[0, 1], [5, 0]] or {class: {action: cost}}, or a JSON or CSV file."
Loss = Annotated[str | None, option(_LOSS, metavar="LOSS")]
Reject = Annotated[str | None, option("What it costs to leave a row undecided.", metavar="COST")]
Level = Annotated[float, typer.Option(help="Of the intervals.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
