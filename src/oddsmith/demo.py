"""The demonstration behind ``make demo``: penguins from a table to a decision, all by the command line."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from contextlib import chdir
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.data import load_dataset

COLUMNS = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")

STEPS = {
    "Three species, missing values, categories: which model is best?": (
        "oddsmith compare penguins --target species --missing indicator --ignore year -o penguins.odds"
    ),
    "The best was fitted to all rows. What has it learned?": "oddsmith summary penguins.odds",
    "How good is it? (On its training rows, so the scores are slightly optimistic.)": (
        "oddsmith evaluate penguins.odds penguins --target species"
    ),
    "A prediction for each row, with probabilities.": (
        "oddsmith predict penguins.odds penguins --keep species -o predictions.csv"
    ),
    "Decide only if the probability of an error is below 5%.": (
        "oddsmith decide penguins.odds penguins --reject 0.05 --keep species -o decisions.csv"
    ),
    "The same model without Python.": (
        "oddsmith export sql penguins.odds --table penguins --dialect duckdb -o penguins.sql"
    ),
}
SHOWN = {".csv": 4, ".sql": 16}  # Number of lines shown from each file.
WIDTH = 100
LAST = """
# That was the whole workflow; its files were deleted. For your own table, from this folder:
$ .venv/bin/oddsmith fit TABLE.csv --target COLUMN --missing indicator --basis standardize --prior 1 -o model.odds \\
      --report report.html
$ .venv/bin/oddsmith predict model.odds NEW.csv -o predictions.csv
"""


def penguins() -> tuple[npt.NDArray[np.float64], npt.NDArray[Any]]:
    """Return measurements and species of the penguins without missing measurements.

    >>> X, species = penguins()
    >>> X.shape, sorted(set(species.tolist()))
    ((342, 4), ['Adelie', 'Chinstrap', 'Gentoo'])
    """
    table = load_dataset("penguins").select([*COLUMNS, "species"]).drop_null()
    X = np.column_stack([table[name].to_numpy().astype(np.float64) for name in COLUMNS])
    return X, np.array(table["species"].to_pylist())


def main() -> int:
    """Run the steps in a folder of their own, and return 1 if one of them fails."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        code = max(run(words, command) for words, command in STEPS.items())
    print(LAST, end="")
    return code


def run(words: str, command: str) -> int:
    """Say what a command is for, run it, and show what it wrote; return its exit code."""
    from rich.console import Console
    from rich.text import Text

    from oddsmith.cli.app import app

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(f"\n# {words}", style="bold green"))
    console.print(Text(f"$ {command}\n", style="bold"))
    sys.stdout.flush()
    arguments = shlex.split(command)[1:]
    try:
        app(arguments)
    except SystemExit as end:
        code = int(end.code or 0)
    written = arguments[-1]
    lines = SHOWN.get(os.path.splitext(written)[1], 0)
    if lines and not code:
        with open(written, encoding="utf-8") as file:
            for line in islice(map(str.rstrip, file), lines):
                print(line if len(line) <= WIDTH else line[: WIDTH - 1] + "…")
        print("…")
    return code


if __name__ == "__main__":
    sys.exit(main())
