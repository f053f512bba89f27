"""Plots as inline SVG.

Colours are variables of the page, so that they follow its dark mode; values are read by hover, touch or arrow keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oddsmith.numerics import Array
from oddsmith.report.html import Markup, as_json, clean, join, named, number, tag

COLOURS = 8
MOST_VERTICES = 400
"""Vertices of a drawn line; a longer one is thinned to these, evenly along its way."""
LONGEST_LABEL = 22


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``; with ``names`` it has a place for each of them instead of numbers."""

    label: str
    low: float = 0.0
    high: float = 1.0
    names: Sequence[str] = ()

    @classmethod
    def around(cls, label: str, *values: Any, at_zero: bool = False) -> Axis:
        """Return an axis on which all finite values have room.

        >>> axis = Axis.around("x", [1.0, 3.0, np.inf])
        >>> axis.low < 1.0 and axis.high > 3.0
        True
        """
        found = np.concatenate([np.ravel(np.asarray(v, dtype=np.float64)) for v in values])
        found = found[np.isfinite(found)]
        low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
        room = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(label, min(low, 0.0) if at_zero else low - room, high + room)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers on the axis.

        >>> Axis("p").ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        span = self.high - self.low
        raw = span / most
        size = 10.0 ** np.floor(np.log10(raw))
        step = float(next(size * f for f in (1.0, 2.0, 2.5, 5.0, 10.0) if size * f >= raw * 0.999))
        first = int(np.ceil(self.low / step - 1e-9))
        last = int(np.floor(self.high / step + 1e-9))
        return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


@dataclass
class Plot:
    """A drawing on two axes, to which lines, bands and dots are added.

    Attributes
    ----------
    x, y : Axis
    width, height : int
        In units of the drawing, which is scaled to the page.
    left, bottom : int
        Room for the numbers and names of the axes.

    >>> plot = Plot(Axis("x"), Axis("y"))
    >>> plot.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    >>> "<path" in plot.svg("A line")
    True
    """

    x: Axis
    y: Axis
    width: int = 440
    height: int = 300
    left: int = 50
    bottom: int = 42
    marks: list[Markup] = field(default_factory=list)
    values: list[tuple[float, float, str]] = field(default_factory=list)

    def at(self, x: Any, y: Any) -> tuple[Array, Array]:
        """Return the places of points in the drawing, those outside moved to its edge."""
        X = np.clip((np.asarray(x, dtype=np.float64) - self.x.low) / (self.x.high - self.x.low), 0.0, 1.0)
        Y = np.clip((np.asarray(y, dtype=np.float64) - self.y.low) / (self.y.high - self.y.low), 0.0, 1.0)
        if self.y.names:  # from top to bottom
            Y = 1.0 - (np.asarray(y, dtype=np.float64) + 0.5) / len(self.y.names)
        inner = self.width - self.left - 14, self.height - self.bottom - 10
        return self.left + X * inner[0], 10 + (1.0 - Y) * inner[1]

    def line(self, x: Any, y: Any, k: int = 0, *, steps: bool = False, dashed: int | None = None) -> None:
        """Draw a line in colour and dashes ``k``; ``steps``: each value holds until the next."""
        X, Y = thinned(*self.at(x, y))
        if steps:
            X, Y = np.repeat(X, 2)[1:], np.repeat(Y, 2)[:-1]
        if len(X):
            self._add("path", d=_path(X, Y), class_=f"line c{k % COLOURS} d{(k if dashed is None else dashed) % 6}")

    def band(self, x: Any, lower: Any, upper: Any, k: int = 0) -> None:
        """Fill what lies between two lines."""
        X, low = self.at(x, lower)
        _, high = self.at(x, upper)
        outline = np.append(X, X[::-1]), np.append(low, high[::-1])
        self._add("path", d=f"{_path(*outline)}Z", class_=f"band c{k % COLOURS}")

    def dots(self, x: Any, y: Any, k: int = 0, *, texts: Sequence[str] | None = None, size: Any = 4.0) -> None:
        """Draw marks of the shape and colour ``k``; ``texts`` are read at them."""
        X, Y = self.at(x, y)
        sizes = np.broadcast_to(np.asarray(size, dtype=np.float64), X.shape)
        for px, py, r in zip(X, Y, sizes, strict=True):
            self._add("path", d=_marker(px, py, r, k), class_=f"dot c{k % COLOURS}")
        self.read(x, y, texts or [])

    def bars(self, left: Any, right: Any, place: Any, k: int = 0, *, half: float = 0.32) -> None:
        """Draw bars along the first axis, one at each place of names."""
        start, middle = self.at(left, place)
        end, _ = self.at(right, place)
        tall = half * 2 * (self.height - self.bottom - 10) / max(len(self.y.names), 1)
        for a, b, c in zip(start, end, middle, strict=True):
            box = {"x": _short(a), "y": _short(c - tall / 2), "width": _short(max(b - a, 0.5)), "height": _short(tall)}
            self._add("rect", class_=f"bar c{k % COLOURS}", **box)

    def ranges(self, lower: Any, upper: Any, place: Any, k: int = 0) -> None:
        """Draw intervals along the first axis; an end that lies outside is an arrow."""
        start, middle = self.at(lower, place)
        end, _ = self.at(upper, place)
        outside = np.asarray(lower) < self.x.low, np.asarray(upper) > self.x.high
        for a, b, c, out_left, out_right in zip(start, end, middle, *outside, strict=True):
            d = f"M{_short(a)} {_short(c)}H{_short(b)}"
            d += f"m-5 -3l5 3l-5 3m0 -3h5M{_short(a)} {_short(c)}" if out_right else ""
            d += f"M{_short(a + 5)} {_short(c - 3)}l-5 3l5 3" if out_left else ""
            self._add("path", d=d, class_=f"range c{k % COLOURS}")

    def rule(self, *, x: float | None = None, y: float | None = None, quiet: bool = True) -> None:
        """Draw a line across at a value of one axis."""
        ends = ([x, x], [self.y.low, self.y.high]) if x is not None else ([self.x.low, self.x.high], [y, y])
        if x is not None and self.y.names:
            X, Y = self.at(ends[0], [-0.5, len(self.y.names) - 0.5])
        else:
            X, Y = self.at(*ends)
        self._add("path", d=_path(X, Y), class_="rule" if quiet else "rule strong")

    def diagonal(self) -> None:
        """Draw the line from one corner to the other."""
        self._add("path", d=_path(*self.at([self.x.low, self.x.high], [self.y.low, self.y.high])), class_="rule")

    def read(self, x: Any, y: Any, texts: Sequence[str]) -> None:
        """Let values be read at points."""
        X, Y = self.at(x, y)
        for a, b, text in zip(X, Y, texts, strict=False):
            if np.isfinite([a, b]).all():
                self.values.append((round(float(a), 1), round(float(b), 1), text))

    def svg(self, description: str) -> Markup:
        """Return the drawing, with a description for those who do not see it."""
        box = f"0 0 {self.width} {self.height}"
        ring = tag("circle", class_="ring", r=7, cx=-20, cy=-20)
        content = join([*self._frame(), *self.marks, ring])
        return tag("svg", content, viewBox=box, role="img", aria_label=description)

    def _add(self, element: str, **attributes: Any) -> None:
        self.marks.append(tag(element, **attributes))

    def _frame(self) -> list[Markup]:
        right, base = self.width - 14, self.height - self.bottom
        parts = [tag("path", d=f"M{self.left} 10V{base}H{right}", class_="axis")]
        for value in self.x.ticks(5):
            px = _short(float(self.at(value, self.y.low)[0]))
            parts.append(tag("path", d=f"M{px} {base}v4", class_="axis"))
            parts.append(tag("text", number(value), x=px, y=base + 17, class_="tick mid"))
        if self.y.names:
            for i, name in enumerate(told_apart(self.y.names)):
                py = float(self.at(self.x.low, i)[1])
                parts.append(tag("text", name, x=self.left - 8, y=_short(py + 4), class_="tick end"))
        else:
            for value in self.y.ticks(5):
                py = float(self.at(self.x.low, value)[1])
                parts.append(tag("path", d=f"M{self.left} {_short(py)}H{right}", class_="grid"))
                parts.append(tag("text", number(value), x=self.left - 7, y=_short(py + 4), class_="tick end"))
            middle = (10 + base) / 2
            turned = f"translate(13 {_short(middle)}) rotate(-90)"
            parts.append(tag("text", shortened(self.y.label, 48), transform=turned, class_="name mid"))
        middle = (self.left + right) / 2
        parts.append(tag("text", shortened(self.x.label, 60), x=_short(middle), y=self.height - 7, class_="name mid"))
        return parts


def figure(
    plot: Plot, caption: Any, description: str, *, legend: Sequence[tuple[int, Any]] = (), table: Any = None
) -> Markup:
    """Return a plot with its legend, the line where values are read, a caption and the values as a table."""
    content: list[Any] = []
    if legend:
        content.append(tag("ul", join(tag("li", _swatch(k), named(label)) for k, label in legend), class_="legend"))
    label = f"{caption_start(description)}. Arrow keys read the values."
    box = {"class_": "plot", "tabindex": 0, "role": "group", "aria_label": label}
    content.append(tag("div", plot.svg(description), data_values=as_json(plot.values), **box))
    content.append(tag("p", " ", class_="readout", aria_live="polite"))
    content.append(tag("figcaption", caption))
    if table is not None:
        content.append(tag("details", tag("summary", "Values as a table"), table))
    return tag("figure", join(content))


def caption_start(description: str) -> str:
    """Return what a plot is, without what it shows.

    >>> caption_start("ROC curve: true against false positives.")
    'ROC curve'
    """
    return description.partition(":")[0].partition(". ")[0].rstrip(".")


def histogram(counts: Array, description: str) -> Markup:
    """Return a small picture of a distribution, for a cell of a table.

    >>> histogram(np.array([1.0, 2.0]), "rising").count("<rect")
    2
    """
    n = len(counts)
    tall = 24.0 * np.asarray(counts) / max(float(np.max(counts, initial=0.0)), 1e-300)
    wide = 108.0 / max(n, 1)
    bars = [
        tag("rect", x=_short(i * wide), y=_short(25 - h), width=_short(max(wide - 1, 0.8)), height=_short(h))
        for i, h in enumerate(tall)
        if h > 0
    ]
    return tag("svg", join(bars), viewBox="0 0 108 26", class_="spark", role="img", aria_label=description)


def thinned(x: Array, y: Array, most: int = MOST_VERTICES) -> tuple[Array, Array]:
    """Return at most so many vertices of a line, evenly along its way, its ends among them.

    >>> x, y = thinned(np.arange(10_000.0), np.zeros(10_000), 100)
    >>> len(x) <= 100, x[0], x[-1]
    (True, np.float64(0.0), np.float64(9999.0))
    """
    kept = evenly(x, y, most)
    return x[kept], y[kept]


def evenly(x: Array, y: Array, most: int) -> Any:
    """Return which vertices of a line to keep for that."""
    if len(x) <= most:
        return np.arange(len(x))
    way = np.append(0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y))))
    found = np.searchsorted(way, np.linspace(0.0, way[-1], most - 1))
    return np.unique(np.append(found, len(x) - 1))


def shortened(name: Any, most: int = LONGEST_LABEL) -> str:
    """Return a name that has room beside an axis.

    >>> shortened("a_very_long_name_of_a_column"), shortened("age")
    ('a_very_long_name_of_a…', 'age')
    """
    text = clean(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def told_apart(names: Sequence[Any], most: int = LONGEST_LABEL) -> list[str]:
    """Return names that have room beside an axis, cut where they can still be told apart: at the end or around it.

    >>> told_apart(["mean_consumption_of_week_1_kwh", "mean_consumption_of_week_2_kwh"])
    ['mean_consum…week_1_kwh', 'mean_consum…week_2_kwh']
    """
    full = [clean(name) for name in names]
    start, end = _alike(full), _alike([text[::-1] for text in full])
    room = max(most - 2 - (max(map(len, full)) - start - end), 0)  # for some of what they have in common
    start, end = max(start - room * 2 // 3, 0), max(end - room // 3, 0)
    ways = (
        [shortened(text, most) for text in full],
        [text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 - most + 1 :]}" for text in full],
        [f"{'…' if start else ''}{shortened(text[start : len(text) - end], most - 2)}…" for text in full],
    )
    return next((way for way in ways if len(set(way)) == len(set(full))), ways[0])


def _alike(texts: Sequence[str]) -> int:
    """Return how many letters all texts begin with alike."""
    return next((i for i, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1), 0)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(X: Array, Y: Array) -> str:
    return "M" + "L".join(f"{_short(a)} {_short(b)}" for a, b in zip(X, Y, strict=True))


def _marker(x: float, y: float, r: float, k: int) -> str:
    """Return the outline of a mark: round, square, triangles, diamond."""
    a, b = _short(x), _short(y)
    shape = k % 5
    if shape == 0:
        half = f"a{_short(r)} {_short(r)} 0 1 0"
        return f"M{_short(x - r)} {b}{half} {_short(2 * r)} 0{half} {_short(-2 * r)} 0Z"
    if shape == 1:
        return f"M{_short(x - 0.9 * r)} {_short(y - 0.9 * r)}h{_short(1.8 * r)}v{_short(1.8 * r)}h{_short(-1.8 * r)}Z"
    if shape == 2:
        return f"M{a} {_short(y - 1.1 * r)}L{_short(x + 1.1 * r)} {_short(y + r)}H{_short(x - 1.1 * r)}Z"
    if shape == 3:
        return (
            f"M{a} {_short(y - 1.3 * r)}L{_short(x + 1.3 * r)} {b}L{a} {_short(y + 1.3 * r)}L{_short(x - 1.3 * r)} {b}Z"
        )
    return f"M{a} {_short(y + 1.1 * r)}L{_short(x + 1.1 * r)} {_short(y - r)}H{_short(x - 1.1 * r)}Z"


def _swatch(k: int) -> Markup:
    line = tag("path", d="M0 6H22", class_=f"line c{k % COLOURS} d{k % 6}")
    dot = tag("path", d=_marker(11, 6, 3.6, k), class_=f"dot c{k % COLOURS}")
    return tag("svg", line, dot, viewBox="0 0 22 12", class_="swatch", aria_hidden="true")
