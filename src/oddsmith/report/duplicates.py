"""Columns of a table that carry almost the same information."""

from __future__ import annotations

import numpy as np

from oddsmith.design.frame import Frame
from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.report.html import Markup, join, number, percent, tag
from oddsmith.report.tables import Column, table

SAME = 0.98  # A correlation, or a share of rows that one column tells of the other, from which columns are duplicates.
MOST_ROWS, MOST_LEVELS, MOST_PAIRS = 20_000, 200, 30
Duplicate = tuple[str, str, str]  # Two columns, and in what they agree.


def near_duplicates(frame: Frame, columns: list[str]) -> list[Duplicate]:
    """Return pairs of columns of which one nearly determines the other, by correlation or level by level.

    >>> import polars
    >>> from oddsmith.design.frame import read_frame
    >>> table = polars.DataFrame({"kg": [1.0, 2.0, 4.0, 3.0], "lb": [2.2, 4.4, 8.8, 6.6], "x": [1.0, 0.0, 0.0, 1.0]})
    >>> near_duplicates(read_frame(table), ["kg", "lb", "x"])
    [('kg', 'lb', 'correlation 1')]
    """
    step = max(1, frame.n_rows // MOST_ROWS)
    if step > 1:
        frame = frame.take(np.arange(0, frame.n_rows, step))
    known = [name for name in columns if frame.kinds[name] != "empty"]
    numeric = [name for name in known if frame.kinds[name] != "category"]
    found = _correlated(numeric, [frame.numbers(name) for name in numeric])
    coded = {}
    for name in known:
        codes = frame.coded(name).codes
        if 1 < len(np.unique(codes[codes >= 0])) <= min(MOST_LEVELS, frame.n_rows // 5):
            coded[name] = codes
    names = list(coded)
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            if not {one, other} <= set(numeric) and (share := _agreement(coded[one], coded[other])) >= SAME:
                found.append((one, other, f"each tells the other in {percent(share)} of rows"))
    return found[:MOST_PAIRS]


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _correlated(names: list[str], columns: list[Array]) -> list[Duplicate]:
    if len(names) < 2:
        return []
    X = np.column_stack(columns)
    there = np.isfinite(X)
    counts = np.maximum(there.sum(axis=0), 1)
    X = np.where(there, X, 0.0)
    X = np.where(there, X - X.sum(axis=0) / counts, 0.0)
    X /= np.where((size := np.abs(X).max(axis=0)) > 0, size, 1.0)
    # The correlation over the rows in which both are there, each about its own mean: close enough to tell duplicates.
    cross, squares = X.T @ X, (X * X).T @ there
    r = cross / np.sqrt(squares * squares.T)
    enough = there.T.astype(np.float64) @ there >= 3
    pairs = np.argwhere(np.triu(enough & (np.abs(r) >= SAME), 1))
    return [(names[i], names[j], f"correlation {number(float(r[i, j]), 4)}") for i, j in pairs.tolist()]


def _agreement(one: Indices, other: Indices) -> float:
    """Return the smaller of the two shares of rows in which a level's most frequent partner is right."""
    both = (one >= 0) & (other >= 0)
    if not both.any():
        return 0.0
    a, b = one[both], other[both]
    counts = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(counts, (a, b), 1.0)
    if min(np.count_nonzero(counts.sum(axis=0)), np.count_nonzero(counts.sum(axis=1))) < 2:
        return 0.0
    return float(min(counts.max(axis=0).sum(), counts.max(axis=1).sum()) / counts.sum())


def duplicates_part(found: list[Duplicate]) -> Markup:
    """Return the pairs as a table, nothing if there are none."""
    if not found:
        return Markup()
    text = (
        "These columns carry almost the same information. Their weights are poorly determined, and they share their "
        "importance: keep one of each pair unless there is a reason for both."
    )
    one, other, how = zip(*found, strict=True)
    columns = [Column.names("column", one), Column.names("near-duplicate", other), Column("how alike", how)]
    return join([tag("h3", "Near-duplicate columns"), tag("p", text), table("Pairs of columns", columns)])
