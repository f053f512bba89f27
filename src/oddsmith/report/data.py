"""The part of the page on the data: classes, columns, missing values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from oddsmith.design.frame import KIND_WORDS, Frame
from oddsmith.numerics import Array
from oddsmith.report.context import MOST_COLUMNS, ReportContext
from oddsmith.report.duplicates import duplicates_part
from oddsmith.report.html import Markup, clean, join, name_tag, number, percent, tag
from oddsmith.report.svg import Axis, Plot, figure, histogram
from oddsmith.report.tables import Column, table

BINS, MOST_LEVELS, MOST_CLASSES = 24, 12, 30


def data_section(context: ReportContext) -> Markup:
    """Describe the data: numbers of rows and columns, the balance of the classes, each column."""
    n, total, missing = context.frame.n_rows, context.total_columns, context.total_missing
    text = f"{missing:,} of {n * total:,} values are missing ({percent(missing / max(n * total, 1))}). "
    words = [f"{n:,} rows and {total:,} columns that the model reads. ", text if missing else "No value is missing. "]
    if context.kept is not None:
        words.append(
            f"The model reads complete rows only: {n - len(context.kept):,} rows with a missing value are described "
            "here and left out of everything below. "
        )
    if context.weights is not None:
        words.append(
            f"Rows have weights, {number(float(context.weights.sum()))} in all. Classes and scores count "
            f"{'them' if context.counted else 'every row once, because they are not whole numbers'}; the columns below "
            "count every row once."
        )
    first = tag("p", f"The first {MOST_COLUMNS} of {total:,} columns.", class_="note") if total > MOST_COLUMNS else ""
    classes = tag("h3", "Classes"), _classes(context)
    columns = tag("h3", "Columns"), first, _columns(context.frame), duplicates_part(context.duplicates)
    return join([tag("p", join(words)), *classes, *columns])


def _classes(context: ReportContext) -> Markup:
    counts, share = context.counts, context.counts / context.counts.sum()
    shown = np.argsort(-counts, kind="stable")[:MOST_CLASSES] if context.K > MOST_CLASSES else np.arange(context.K)
    x, y = Axis("rows", 0.0, 1.08 * float(counts.max())), Axis("", names=[str(context.classes[k]) for k in shown])
    plot = Plot(x=x, y=y, height=52 + 26 * len(shown))
    plot.bars(counts[shown])
    texts = [f"{clean(context.classes[k])}: {int(counts[k]):,} rows, {percent(share[k])}" for k in shown]
    plot.read(counts[shown], np.arange(len(shown)), texts)
    names, rows = Column.names("class", context.classes), Column.numbers("rows", counts)
    values = table("Rows of each class", [names, rows, Column.shares("share", share)])
    caption = f"Rows of each class{f', the {len(shown)} largest' if context.K > len(shown) else ''}."
    return figure(plot, caption, f"Bars: rows of each class. {'; '.join(texts[:8])}.", table=values)


def _columns(frame: Frame) -> Markup:
    names = list(frame.columns)[:MOST_COLUMNS]
    missing = [int(frame.missing(name).sum()) for name in names]
    described = [_describe(frame, name, n) for name, n in zip(names, missing, strict=True)]
    picture, ends, mean, sd = zip(*described, strict=True)
    columns = [
        Column.names("column", names),
        Column("holds", [KIND_WORDS[frame.kinds[name]] for name in names]),
        Column("missing", [f"{n:,} ({percent(n / frame.n_rows)})" if n else "0" for n in missing], missing),
        Column("distribution", picture),
        Column("smallest … median … largest, or levels", ends),
        Column.numbers("mean", mean),
        Column.numbers("sd", sd),
    ]
    return table("Columns that the model reads", columns)


@np.errstate(over="ignore", invalid="ignore")  # the spread of the largest numbers is none that floats can hold
def _describe(frame: Frame, name: str, missing: int) -> tuple[str, str, float, float]:
    """Return the distribution of a column as a picture and in words, its mean and standard deviation."""
    kind, mean, sd = frame.kinds[name], float("nan"), float("nan")
    if kind == "category" and missing < frame.n_rows:
        return *_levels(frame, name), mean, sd
    values = frame.numbers(name) if missing < frame.n_rows else np.zeros(0)
    values = values[np.isfinite(values)]
    if not len(values):
        return "", "", mean, sd
    low, high = float(values.min()), float(values.max())
    one, two = (float(np.quantile(values, 0.5, method=side)) for side in ("lower", "higher"))
    middle = one if one == two else 0.5 * one + 0.5 * two  # the difference of large numbers is none that floats hold
    ends = " … ".join(map(_date if kind == "date" else number, (low, middle, high)))
    if kind != "date":
        mean, sd = float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else sd
    if kind == "boolean":
        ends = f"true in {percent(mean)}"
    picture = histogram(_binned(values, low, high), f"Distribution of {clean(name)}, {ends}.")
    return picture, tag("span", ends, class_="whole"), mean, sd


def _binned(values: Array, low: float, high: float) -> Array:
    """Return counts in bins of equal width; a column of few values has a bin for each."""
    if len(np.unique(values[:1000])) <= MOST_LEVELS:
        different, counts = np.unique(values, return_counts=True)
        if len(different) <= MOST_LEVELS:
            return counts.astype(np.float64)
    # In units of the range, which may be wider than floating point can count in.
    place = values / 2 - low / 2
    counts, _ = np.histogram(place / max(high / 2 - low / 2, np.finfo(np.float64).tiny), bins=BINS, range=(0.0, 1.0))
    return np.asarray(counts, dtype=np.float64)


def _levels(frame: Frame, name: str) -> tuple[Markup, Markup]:
    coded = frame.coded(name)
    # The code −1 is a missing value.
    counts = np.bincount(coded.codes + 1, minlength=len(coded.levels) + 1)[1:].astype(np.float64)
    order = np.argsort(-counts, kind="stable")
    there = max(float(counts.sum()), 1.0)
    shares = [join([name_tag(coded.levels[i]), f" {percent(counts[i] / there)}"]) for i in order[:4]]
    words = Markup(", ".join(shares)), f" and {len(counts) - 4:,} more" if len(counts) > 4 else ""
    described = f"{len(counts):,} levels of {clean(name)}, the most frequent first."
    return histogram(counts[order][:BINS], described), tag("span", *words, class_="levels")


def _date(day: float) -> str:
    """Return a day since 1970 as a date, or its number where the calendar has none."""
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=float(day))).date().isoformat()
    except OverflowError:
        return number(day)
