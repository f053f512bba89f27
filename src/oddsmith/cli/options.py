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
_MEMORY = "Read files in pieces, with this much memory for rows: 500MB, 4GB. Files above 100 MB always are."
Memory = Annotated[str | None, option(_MEMORY, metavar="SIZE")]
_CACHE = "Folder for rows that do not fit into memory; later fits to the same files reuse it."
Cache = Annotated[str | None, option(_CACHE, metavar="FOLDER")]
_RESUME = "Save the state of the fit to this file after each pass; if the file exists, resume from it."
Resume = Annotated[str | None, option(_RESUME, metavar="FILE")]
_ENCODING = "Encoding of text files: utf-8, latin-1, cp1252, utf-16 …; detected by default."
Encoding = Annotated[str | None, option(_ENCODING, metavar="NAME")]
_DELIMITER = "Field delimiter of text files: ';', tab …; detected by default."
Delimiter = Annotated[str | None, option(_DELIMITER, metavar="SIGN")]
_DECIMAL = "Decimal separator of text files, . or , (then 1.234,5 is a number); detected by default."
Decimal = Annotated[str | None, option(_DECIMAL, metavar="SIGN")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TARGET = option("The column with the classes.", "--target", "-t", metavar="COLUMN")
Target = Annotated[str, TARGET]
Basis = Annotated[str | None, option("Basis functions, in order: standardize,polynomial(2).")]
_CLASS_WEIGHT = "Weights of the classes: balanced, or {'no': 1, 'yes': 5}."
ClassWeight = Annotated[str | None, option(_CLASS_WEIGHT, metavar="WEIGHTS")]
Weights = Annotated[str | None, option("The column with the weight (count) of each row.", metavar="COLUMN")]
_MISSING = "Missing values: error (default), drop (fit without these rows) or indicator (mean and a 0/1 column)."
Missing = Annotated[str | None, option(_MISSING)]
_UNSEEN = "Levels that did not occur in the fit: error (default), or reference (treat as the reference level)."
Unseen = Annotated[str | None, option(_UNSEEN)]
_UNLABELLED = "Rows without a label: error (default), or drop (leave them out, as --missing drop also does)."
Unlabelled = Annotated[str | None, option(_UNLABELLED)]
_UNLABELLED_ROWS = "Rows without a label: error (default), or drop (leave them out)."
UnlabelledRows = Annotated[str | None, option(_UNLABELLED_ROWS)]
_IGNORE = "A column to exclude, such as an ID; repeat the option for more columns."
Ignore = Annotated[list[str] | None, option(_IGNORE, "--ignore", metavar="COLUMN")]
_TABLE = (
    "A .csv, .parquet, .arrow or .jsonl file, or (without an extension) a folder of files; written completely or not "
    "at all. Default: standard output."
)
TableOutput = Annotated[str | None, output(_TABLE)]
_LOSS = "Cost of each action in each class: [[0, 1], [5, 0]] or {class: {action: cost}}, or a JSON or CSV file."
Loss = Annotated[str | None, option(_LOSS, metavar="LOSS")]
Reject = Annotated[str | None, option("Cost of leaving a row undecided.", metavar="COST")]
Topic = Annotated[str | None, argument("TOPIC", "Number, name or title of a topic; all topics by default.")]
Level = Annotated[float, typer.Option(help="Level of the intervals.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
