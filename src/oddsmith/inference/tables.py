"""Result tables that are meant to be read: aligned in the terminal, HTML in a notebook, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import fill
from typing import Any

import numpy as np

from oddsmith.records import Table, aligned_row

DECIMALS = 6
"""A column that would need more decimals to show three digits of its smallest number gets them cell by cell."""

IN_UNITS = ("estimate", "effect", "std_error", "posterior_sd", "lower", "upper")
ODDS = ("odds_ratio", "odds_lower", "odds_upper")
NAMES = ("class", "term")
LEAST_P = 1e-300  # A p-value below this is given as a bound: it may have underflowed.
NO_DIFFERENCE = 1e-9  # A ratio nearer to 1 than this is shown as 1.


def choose_format(values: Sequence[float]) -> str:
    """Return a format with as many decimals as show three digits of the smallest number, or one for each cell alone."""
    size = np.abs([v for v in values if np.isfinite(v) and v != 0.0])
    lead = np.floor(np.log10(size)) if len(size) else np.zeros(1)
    decimals = int(max(0.0, 2.0 - lead.min(), 4.0 - lead.max()))
    return f".{decimals}f" if decimals <= DECIMALS and lead.max() < 6 else ".4g"


def format_column(name: str, values: Sequence[Any], form: str = "") -> list[str]:
    """Return the cells of a column: numbers to a common number of decimals, p-values as they are usually given."""
    if name in NAMES:
        return [f"{v:g}" if isinstance(v, float | np.floating) else str(v) for v in values]
    if not all(isinstance(v, float | np.floating) for v in values):
        return ["" if v is None else str(v) for v in values]
    if name == "p_value":
        return [_p_value(float(v)) for v in values]
    if name == "z":
        return ["" if np.isnan(v) else f"{v:.2f}" for v in values]
    if name in ODDS:
        return [format_ratio(float(v)) for v in values]
    chosen = form or choose_format(values)
    return [_number(float(v), chosen) for v in values]


def _p_value(p: float) -> str:
    if np.isnan(p):
        return ""
    return f"<{LEAST_P:g}" if p < LEAST_P else f"{p:.4f}" if p >= 1e-4 else f"{p:.1e}"


def format_ratio(ratio: float, digits: int = 4) -> str:
    """Return a ratio as text, with two digits of its difference from 1 where it is near 1.

    >>> format_ratio(0.80421), format_ratio(1.00033), format_ratio(0.9999871), format_ratio(1.0)
    ('0.8042', '1.00033', '0.999987', '1')
    """
    away = abs(ratio - 1.0)
    near = NO_DIFFERENCE <= away < 10.0 ** (2 - digits)
    return f"{ratio:.{1 - int(np.floor(np.log10(away)))}f}" if near else _number(ratio, f".{digits}g")


def _number(value: float, form: str) -> str:
    if np.isnan(value):
        return ""
    return ("∞" if value > 0 else "-∞") if np.isinf(value) else f"{value:{form}}"


class ReportTable(Table):
    """A `Table` with a footer, for reading: also ``to_markdown()`` and ``to_latex()``.

    ``_header`` gives columns another name in print, and ``notes`` are the lines below it. A terminal and a notebook
    show ``most_rows``, and how many more there are. In an interpreter the table is its own ``repr``.
    """

    def __repr__(self) -> str:
        return str(self)

    def _header(self, name: str) -> str:
        return name.replace("_", " ")

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines below the table."""
        return ()

    def _shown(self) -> tuple[list[str], list[bool], list[list[str]], tuple[str, ...]]:
        """Return header, kinds, cells and notes for display: no empty columns, and at most ``most_rows`` rows."""
        header, text, rows = self._cells()
        more = len(rows) - self.most_rows
        notes = (f"… and {more:,} more rows: to_pandas() has them all", *self.notes) if more > 0 else self.notes
        full = [j for j in range(len(header)) if text[j] or not rows or any(row[j] for row in rows)]
        kept = [[row[j] for j in full] for row in rows[: self.most_rows]]
        return [header[j] for j in full], [text[j] for j in full], kept, notes

    def _cells(self) -> tuple[list[str], list[bool], list[list[str]]]:
        """Return the header, which columns are text, and the rows."""
        columns = self.to_dict()
        errors = columns.get("std_error", columns.get("posterior_sd"))
        # What is in the units of the errors is shown to their decimals.
        shared = "" if errors is None else choose_format(errors)
        cells = [
            format_column(name, values, shared if name.endswith(IN_UNITS) else "") for name, values in columns.items()
        ]
        text = [
            name in NAMES or not all(isinstance(v, int | float | np.number) for v in values)
            for name, values in columns.items()
        ]
        header = [self._header(name) for name in columns]
        return header, text, [list(row) for row in zip(*cells, strict=True)]

    def __str__(self) -> str:
        header, text, rows, shown = self._shown()
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]

        def line(row: list[str]) -> str:
            cells = zip(row, widths, text, strict=True)
            return "  ".join(cell.ljust(w) if left else cell.rjust(w) for cell, w, left in cells).rstrip()

        rule = "─" * (sum(widths) + 2 * len(widths) - 2)
        parts = [self.title] if self.title else []
        notes = [fill(n, 120, subsequent_indent="  ") if n.startswith("plan: ") else n for n in shown]
        return "\n".join([*parts, rule, line(header), rule, *map(line, rows), rule, *notes])

    def _repr_html_(self) -> str:
        header, text, rows, notes = self._shown()
        body = "".join(aligned_row(row, text) for row in rows)
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        foot = "".join(f'<tr><td colspan="{len(header)}">{escape(note)}</td></tr>' for note in notes)
        return (
            f"<table>{caption}<thead>{aligned_row(header, text, 'th')}</thead><tbody>{body}</tbody>"
            f'<tfoot style="text-align:left">{foot}</tfoot></table>'
        )

    def to_markdown(self) -> str:
        """Return a Markdown table, its notes below."""
        header, text, rows = self._cells()

        def line(cells: list[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

        rule = line([":--" if left else "--:" for left in text])
        notes = ["", *("  \n".join(self.notes).split("\n"))] if self.notes else []
        return "\n".join([line(header), rule, *map(line, rows), *notes])

    def to_latex(self) -> str:
        """Return a LaTeX ``tabular`` (no package needed), its notes below."""
        header, text, rows = self._cells()

        def line(cells: list[str]) -> str:
            return " & ".join(map(escape_latex, cells)) + r" \\"

        layout = "".join("l" if left else "r" for left in text)
        lines = [rf"\begin{{tabular}}{{{layout}}}", r"\hline", line(header), r"\hline", *map(line, rows), r"\hline"]
        notes = [rf"\par {escape_latex(note)}" for note in self.notes]
        return "\n".join([*lines, r"\end{tabular}", *notes])


class ColumnTable(ReportTable):
    """A `ReportTable` that holds a mapping ``columns``, each of them an attribute too (an array)."""

    columns: Mapping[str, Any]
    level: float = 0.95

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "columns":
            raise AttributeError(name)
        for candidate in (name, f"credible_{name}"):
            if candidate in self.columns:
                return np.asarray(self.columns[candidate])
        raise AttributeError(f"This table has no {name!r}; its columns are {', '.join(self.columns)}.")

    def _header(self, name: str) -> str:
        if name.endswith(("lower", "upper")):
            odds = "odds " if name.startswith("odds_") else ""
            return f"{odds}{50 * (1 + self.level * (-1 if name.endswith('lower') else 1)):.4g}%"
        return {"term": "", "p_value": "p"}.get(name, super()._header(name))

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: np.asarray(values).tolist() for name, values in self.columns.items()}


_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "∞": r"$\infty$",
    "²": r"\textsuperscript{2}",
    "−": "$-$",
    "·": r"$\cdot$",
    "½": r"$\frac{1}{2}$",
    "σ": r"$\sigma$",
    "χ": r"$\chi$",
}


def escape_latex(text: str) -> str:
    """Return a text with everything escaped that means something to LaTeX."""
    if text[:1] == "-" and (text[1:2].isdigit() or text[1:2] == "∞"):
        return "$-$" + escape_latex(text[1:])
    return "".join(_LATEX.get(c, c) for c in text)
