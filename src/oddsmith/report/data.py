"""The part of the page on the data: classes, columns, missing values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from oddsmith.design.frame import KIND_WORDS, Frame
from oddsmith.numerics import Array
from oddsmith.report.html import Markup, clean, join, named, number, percent, tag
from oddsmith.report.subject import MOST_COLUMNS, Subject
from oddsmith.report.svg import Axis, Plot, figure, histogram
from oddsmith.report.tables import Column, table

BINS = 24
MOST_LEVELS = 12
MOST_CLASSES = 30


def data_section(subject: Subject) -> Markup:
    """Return what the data are: how many rows and columns, the balance of the classes, each column."""
    frame, total = subject.frame, subject.total_columns
    cells = subject.n_rows * total
    words = [f"{subject.n_rows:,} rows and {total:,} columns that the model reads. "]
    if subject.total_missing:
        words.append(
            f"{subject.total_missing:,} of {cells:,} values are missing ({percent(subject.total_missing / cells)}). "
        )
    else:
        words.append("No value is missing. ")
    if subject.kept is not None:
        words.append(
            f"The model reads complete rows only: {subject.n_rows - len(subject.kept):,} rows with a missing value are "
            "described here and left out of everything below. "
        )
    if subject.weights is not None:
        words.append(
            f"Rows have weights, {number(float(subject.weights.sum()))} in all. Classes and scores count "
            f"{'them' if subject.counted else 'every row once, because they are no whole numbers'}; the columns below "
            "count every row once."
        )
    parts: list[Any] = [tag("p", join(words)), tag("h3", "Classes"), _classes(subject), tag("h3", "Columns")]
    if total > MOST_COLUMNS:
        parts.append(tag("p", f"The first {MOST_COLUMNS} of {total:,} columns.", class_="note"))
    parts.append(_columns(frame))
    return join(parts)


def _classes(subject: Subject) -> Markup:
    counts = np.bincount(subject.found.t, minlength=subject.K)
    share = counts / counts.sum()
    shown = np.argsort(-counts, kind="stable")[:MOST_CLASSES] if subject.K > MOST_CLASSES else np.arange(subject.K)
    labels = [subject.classes[k] for k in shown]
    plot = Plot(
        Axis("rows", 0.0, 1.08 * float(counts.max())),
        Axis("", names=[str(label) for label in labels]),
        height=52 + 26 * len(shown),
        left=160,
    )
    plot.bars(np.zeros(len(shown)), counts[shown], np.arange(len(shown)))
    texts = [f"{clean(subject.classes[k])}: {int(counts[k]):,} rows, {percent(share[k])}" for k in shown]
    plot.read(counts[shown], np.arange(len(shown)), texts)
    columns = [
        Column.names("class", subject.classes),
        Column.numbers("rows", counts.tolist()),
        Column("share", [percent(p) for p in share], share.tolist()),
    ]
    description = f"Bars: rows of each class. {'; '.join(texts[:8])}."
    caption = f"Rows of each class{f', the {len(shown)} largest' if subject.K > len(shown) else ''}."
    return figure(plot, caption, description, table=table("Rows of each class", columns))


def _columns(frame: Frame) -> Markup:
    rows = [_describe(frame, name) for name in list(frame.columns)[:MOST_COLUMNS]]
    missing = [row["missing"] for row in rows]
    columns = [
        Column.names("column", [row["name"] for row in rows]),
        Column("holds", [row["kind"] for row in rows]),
        Column("missing", [_count(n, frame.n_rows) for n in missing], missing),
        Column("distribution", [row["picture"] for row in rows]),
        Column("smallest … median … largest, or levels", [row["range"] for row in rows]),
        Column.numbers("mean", [row["mean"] for row in rows]),
        Column.numbers("sd", [row["sd"] for row in rows]),
    ]
    return table("Each column that the model reads", columns)


def _count(n: int, total: int) -> str:
    return "0" if not n else f"{n:,} ({percent(n / total)})"


@np.errstate(over="ignore", invalid="ignore")  # the spread of the largest numbers is none that floats can hold
def _describe(frame: Frame, name: str) -> dict[str, Any]:
    """Return what stands in the table about one column."""
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
    words: list[Any] = []
    for i in order[:4]:
        words += [", " if words else "", named(coded.levels[i]), f" {percent(counts[i] / there)}"]
    if len(counts) > 4:
        words.append(f" and {len(counts) - 4:,} more")
    described = f"{len(counts):,} levels of {clean(name)}, the most frequent first."
    return {"picture": histogram(counts[order][:BINS], described), "range": tag("span", join(words), class_="levels")}


def _date(day: float) -> str:
    """Return a day since 1970 as a date, or its number where the calendar has none."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=float(day))).date().isoformat()
    except OverflowError:
        return number(day)
