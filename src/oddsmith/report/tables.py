"""Tables of the page: sorted by a click or a key, scrolled where the screen is narrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.report.html import Markup, clean, name_tag, number, percent, tag

Fact = tuple[str, object]  # A name and its value.
LONG = 30  # Rows of a table from which it is scrolled on its own, below its header.
WIDE = 8  # Columns of a table from which they have all the same width on paper, where nothing can be scrolled.


@dataclass(frozen=True)
class Column:
    """A column of a table: a header, cells as they are read, and the values that sort them (None: the text does)."""

    header: str
    cells: Sequence[str]
    values: Sequence[float] | None = None

    @classmethod
    def numbers(cls, header: str, values: npt.ArrayLike, digits: int = 4) -> Column:
        """Return a column of numbers."""
        found = np.asarray(values).tolist()
        return cls(header, [number(value, digits) for value in found], list(map(float, found)))

    @classmethod
    def shares(cls, header: str, values: npt.ArrayLike) -> Column:
        """Return a column of shares, in per cent."""
        found = np.asarray(values, dtype=np.float64).tolist()
        return cls(header, [percent(value) for value in found], found)

    @classmethod
    def names(cls, header: str, values: Sequence[Any]) -> Column:
        """Return a column of names from the data."""
        return cls(header, [name_tag(value) for value in values])

    @classmethod
    def of(cls, header: str, values: Sequence[Any], cells: Sequence[str] | None = None) -> Column:
        """Return a column of numbers or names, by the type of its values; ``cells`` are texts of numbers, if known."""
        if all(isinstance(value, int | float | np.number) and not isinstance(value, bool) for value in values):
            own = cls.numbers(header, values)
            return own if cells is None else cls(header, [cell.replace("-", "−") for cell in cells], own.values)
        return cls.names(header, values)


def table(caption: str, columns: Sequence[Column], *, sortable: bool = True) -> Markup:
    """Return a table; the first column names its rows.

    >>> html = table("Classes", [Column.names("class", ["a", "b"]), Column.numbers("rows", [3, 4])])
    >>> html.count("<button"), html.count("<tr>"), 'data-v="3.0"' in html
    (2, 3, True)
    """
    n = len(columns[0].cells)
    head = (_header(column, sortable and n > 1) for column in columns)
    body = (tag("tr", *(_cell(column, i, j) for j, column in enumerate(columns))) for i in range(n))
    content = tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body)
    kind = f"scroll{' long' if n > LONG else ''}{' wide' if len(columns) > WIDE else ''}"
    # It can be scrolled by the keyboard too, so it takes the focus and has a name.
    return tag("div", tag("table", *content), class_=kind, role="region", tabindex=0, aria_label=clean(caption))


def facts(pairs: Sequence[Fact], *, many: bool = False) -> Markup:
    """Return names with their values, one a line; with ``many``, short ones side by side.

    >>> facts([("rows", 3)])
    '<dl><div><dt>rows</dt><dd>3</dd></div></dl>'
    """
    items = (tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs)
    return tag("dl", *items, class_="many" if many else None)


def _header(column: Column, sortable: bool) -> Markup:
    content = tag("button", column.header, type="button") if sortable else column.header
    kind, sort = None if column.values is None else "n", "none" if sortable else None
    return tag("th", content, scope="col", class_=kind, aria_sort=sort)


def _cell(column: Column, i: int, j: int) -> Markup:
    if column.values is None:
        return tag("th", column.cells[i], scope="row") if j == 0 else tag("td", column.cells[i])
    value = column.values[i]
    return tag("td", column.cells[i], class_="n", data_v=None if value != value else value)
