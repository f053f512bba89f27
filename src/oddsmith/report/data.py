"""The part of the page on the data: classes, columns, missing values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from oddsmith.design.frame import KIND_WORDS, Frame
from oddsmith.numerics import Array
from oddsmith.report.context import MOST_COLUMNS, ReportContext
from oddsmith.report.html import Markup, clean, join, name_tag, number, percent, tag
from oddsmith.report.svg import Axis, Plot, figure, histogram
from oddsmith.report.tables import Column, table

BINS = 24
MOST_LEVELS = 12
MOST_CLASSES = 30


def data_section(context: ReportContext) -> Markup:
    """Describe the data: numbers of rows and columns, the balance of the classes, each column."""
    frame, total = context.frame, context.total_columns
    cells = context.n_rows * total
    words = [f"{context.n_rows:,} rows and {total:,} columns that the model reads. "]
    missing = context.total_missing
    text = f"{missing:,} of {cells:,} values are missing ({percent(missing / max(cells, 1))}). "
    words.append(text if missing else "No value is missing. ")
    if context.kept is not None:
        words.append(
            f"The model reads complete rows only: {context.n_rows - len(context.kept):,} rows with a missing value are "
            "described here and left out of everything below. "
        )
    if context.weights is not None:
        words.append(
            f"Rows have weights, {number(float(context.weights.sum()))} in all. Classes and scores count "
            f"{'them' if context.counted else 'every row once, because they are no whole numbers'}; the columns below "
            "count every row once."
        )
    first = tag("p", f"The first {MOST_COLUMNS} of {total:,} columns.", class_="note") if total > MOST_COLUMNS else ""
    classes = tag("h3", "Classes"), _classes(context)
    return join([tag("p", join(words)), *classes, tag("h3", "Columns"), first, _columns(frame)])


def _classes(context: ReportContext) -> Markup:
    counts, share = context.counts, context.counts / context.counts.sum()
    shown = np.argsort(-counts, kind="stable")[:MOST_CLASSES] if context.K > MOST_CLASSES else np.arange(context.K)
    x, y = Axis("rows", 0.0, 1.08 * float(counts.max())), Axis("", names=[str(context.classes[k]) for k in shown])
    plot = Plot(x=x, y=y, height=52 + 26 * len(shown), left=160)
    plot.bars(np.zeros(len(shown)), counts[shown], np.arange(len(shown)))
    texts = [f"{clean(context.classes[k])}: {int(counts[k]):,} rows, {percent(share[k])}" for k in shown]
    plot.read(counts[shown], np.arange(len(shown)), texts)
    columns = [
        Column.names("class", context.classes),
        Column.numbers("rows", counts.tolist()),
        Column.shares("share", share),
    ]
    description = f"Bars: rows of each class. {'; '.join(texts[:8])}."
    caption = f"Rows of each class{f', the {len(shown)} largest' if context.K > len(shown) else ''}."
    return figure(plot, caption, description, table=table("Rows of each class", columns))


def _columns(frame: Frame) -> Markup:
    rows = [_describe(frame, name) for name in list(frame.columns)[:MOST_COLUMNS]]
    missing = [row["missing"] for row in rows]
    columns = [
        Column.names("column", [row["name"] for row in rows]),
        Column("holds", [row["kind"] for row in rows]),
        Column("missing", [f"{n:,} ({percent(n / frame.n_rows)})" if n else "0" for n in missing], missing),
        Column("distribution", [row["picture"] for row in rows]),
        Column("smallest … median … largest, or levels", [row["range"] for row in rows]),
        Column.numbers("mean", [row["mean"] for row in rows]),
        Column.numbers("sd", [row["sd"] for row in rows]),
    ]
    return table("Each column that the model reads", columns)


@np.errstate(over="ignore", invalid="ignore")  # the spread of the largest numbers is none that floats can hold
def _describe(frame: Frame, name: str) -> dict[str, Any]:
    """Return the cells of the table for one column."""
    kind = frame.kinds[name]
    missing = int(frame.missing(name).sum())
    row: dict[str, Any] = {"name": name, "kind": KIND_WORDS[kind], "missing": missing}
    row |= {"mean": float("nan"), "sd": float("nan"), "picture": "", "range": ""}
    if missing == frame.n_rows:
        return row
    if kind == "category":
        return row | _levels(frame, name)
    values = frame.numbers(name)
    values = values[np.isfinite(values)]
    if not len(values):
        return row
    low, middle, high = (float(q) for q in np.quantile(values, [0.0, 0.5, 1.0]))
    if kind == "date":
        ends = " … ".join(_date(day) for day in (low, middle, high))
    else:
        ends = " … ".join(number(v) for v in (low, middle, high))
        row |= {"mean": float(values.mean()), "sd": float(values.std(ddof=1)) if len(values) > 1 else float("nan")}
    if kind == "boolean":
        ends = f"true in {percent(float(values.mean()))}"
    picture = histogram(_binned(values, low, high), f"Distribution of {clean(name)}, {ends}.")
    return row | {"range": tag("span", ends, class_="whole"), "picture": picture}


def _binned(values: Array, low: float, high: float) -> Array:
    """Return counts in bins of equal width; a column of few values has a bin for each."""
    different = np.unique(values[:1000])
    if len(different) <= MOST_LEVELS:
        different, counts = np.unique(values, return_counts=True)
        if len(different) <= MOST_LEVELS:
            return counts.astype(np.float64)
    # In units of the range, which may be wider than floating point can count in.
    place = values / 2 - low / 2
    counts, _ = np.histogram(place / max(high / 2 - low / 2, np.finfo(np.float64).tiny), bins=BINS, range=(0.0, 1.0))
    return np.asarray(counts, dtype=np.float64)


def _levels(frame: Frame, name: str) -> dict[str, Any]:
    coded = frame.coded(name)
    counts = coded.weights(None)[:-1]
    order = np.argsort(-counts, kind="stable")
    there = max(float(counts.sum()), 1.0)
    shares = [join([name_tag(coded.levels[i]), f" {percent(counts[i] / there)}"]) for i in order[:4]]
    words = [Markup(", ".join(shares)), f" and {len(counts) - 4:,} more" if len(counts) > 4 else ""]
    described = f"{len(counts):,} levels of {clean(name)}, the most frequent first."
    return {"picture": histogram(counts[order][:BINS], described), "range": tag("span", join(words), class_="levels")}


def _date(day: float) -> str:
    """Return a day since 1970 as a date, or its number where the calendar has none."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=float(day))).date().isoformat()
    except OverflowError:
        return number(day)
