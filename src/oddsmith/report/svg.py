"""Plots as inline SVG.

Colours are variables of the page, so that they follow its dark mode; values are read by hover, touch or arrow keys.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.protocols import Indices
from oddsmith.report.html import Markup, clean, join, name_tag, number, tag

Values = npt.ArrayLike
P = ParamSpec("P")
COLOURS, BOTTOM = 8, 42
MOST_VERTICES = 400  # Vertices of a drawn line; a longer one is thinned to these, evenly along its way.
MOST_READ = 80  # Vertices of a line at which values are read.
LONGEST_LABEL = 22
NARROW, WIDE = 440, 760  # Width of a drawing on a phone, and where the page has room for a wide one.
MOST_LEFT = {NARROW: 168, WIDE: 280}  # Room for the names beside an axis.
LETTER = 7.0  # Width of a letter beside an axis.
CAPITAL = 9.0


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``; with ``names`` it has a place for each of them instead of numbers."""

    label: str
    low: float = 0.0
    high: float = 1.0
    names: Sequence[str] = ()

    @classmethod
    def around(cls, label: str, *values: Values, at_zero: bool = False) -> Axis:
        """Return an axis that covers all finite values, with a margin.

        >>> axis = Axis.around("x", [1.0, 3.0, np.inf])
        >>> axis.low < 1.0 and axis.high > 3.0
        True
        """
        found = np.concatenate([np.ravel(np.asarray(v, dtype=np.float64)) for v in values])
        found = found[np.isfinite(found)]
        low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
        margin = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(label, min(low, 0.0) if at_zero else low - margin, high + margin)

    def share(self, values: Values) -> Array:
        """Return where values lie between the ends, from 0 to 1; the first name is at the top."""
        v = np.asarray(values, dtype=np.float64)
        if self.names:
            return 1.0 - (v + 0.5) / len(self.names)
        return np.clip((v - self.low) / (self.high - self.low), 0.0, 1.0)

    def ticks(self, most: int = 6) -> list[float]:
        """Return round numbers on the axis.

        >>> Axis("p").ticks()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        """
        raw = (self.high - self.low) / most
        size = 10.0 ** np.floor(np.log10(raw))
        step = float(next(size * f for f in (1.0, 2.0, 2.5, 5.0, 10.0) if size * f >= raw * 0.999))
        first, last = int(np.ceil(self.low / step - 1e-9)), int(np.floor(self.high / step + 1e-9))
        return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _recorded(draw: Callable[Concatenate[Plot, P], None]) -> Callable[Concatenate[Plot, P], None]:
    """Return a method that draws, and remembers how, so that the plot can be drawn in another width."""

    @wraps(draw)
    def drawn(plot: Plot, /, *args: P.args, **options: P.kwargs) -> None:
        depth, plot.recording = plot.recording, False
        draw(plot, *args, **options)
        plot.recording = depth
        if depth:
            plot.steps.append(lambda other: draw(other, *args, **options))

    return drawn


@dataclass(kw_only=True)
class Plot:
    """A drawing on two axes, to which lines, bands and dots are added.

    Its size is in units of the drawing, which is scaled to the page. `resized` draws the same once more, for another
    width; one of ``fixed`` size has that size on every screen.

    >>> plot = Plot(x=Axis("x"), y=Axis("y"))
    >>> plot.line(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    >>> "<path" in plot.svg("A line")
    True
    """

    x: Axis
    y: Axis
    width: int = NARROW
    height: int = 300
    fixed: bool = False
    marks: list[Markup] = field(default_factory=list)
    values: list[tuple[float, float, str]] = field(default_factory=list)
    steps: list[Callable[[Plot], None]] = field(default_factory=list)
    recording: bool = True

    @cached_property
    def left(self) -> int:
        """The room for the numbers or names of the second axis."""
        if self.y.names:
            longest = max(text_width(clean(name)) for name in self.y.names) + 16
            return int(min(max(longest, 60), MOST_LEFT.get(self.width, MOST_LEFT[NARROW])))
        return int(max(50, 32 + LETTER * max((len(number(value)) for value in self.y.ticks(5)), default=0)))

    def resized(self, width: int) -> Plot:
        """Return the same drawing in another width.

        >>> plot = Plot(x=Axis("x"), y=Axis("y"))
        >>> plot.dots([1.0], [0.5], texts=["the end"])
        >>> plot.values[0][0], plot.resized(760).values[0][0]
        (426.0, 746.0)
        """
        plot = Plot(x=self.x, y=self.y, width=width, height=self.height)
        for step in self.steps:
            step(plot)
        return plot

    def at(self, x: Values, y: Values) -> tuple[Array, Array]:
        """Return the places of points in the drawing, those outside moved to its edge."""
        X, Y = self.x.share(x), self.y.share(y)
        return self.left + X * (self.width - self.left - 14), 10 + (1.0 - Y) * (self.height - BOTTOM - 10)

    @_recorded
    def line(self, x: Values, y: Values, k: int = 0, *, steps: bool = False) -> None:
        """Draw a line in colour and dashes ``k``; ``steps``: each value holds until the next."""
        X, Y = self.at(x, y)
        kept = spaced_vertices(X, Y, MOST_VERTICES)
        X, Y = X[kept], Y[kept]
        if steps:
            X, Y = np.repeat(X, 2)[1:], np.repeat(Y, 2)[:-1]
        if len(X):
            self._add("path", d=_path(X, Y), class_=f"line c{k % COLOURS} d{k % 6}")

    @_recorded
    def curve(self, x: Array, y: Array, text: Callable[[int], str], k: int = 0, *, steps: bool = False) -> None:
        """Draw a line; the reader sees ``text(i)`` at some of its vertices."""
        self.line(x, y, k, steps=steps)
        read = spaced_vertices(x, y, MOST_READ)
        self.read(x[read], y[read], list(map(text, read)))

    @_recorded
    def band(self, x: Values, lower: Values, upper: Values, k: int = 0) -> None:
        """Fill what lies between two lines."""
        outline = self.at(np.append(x, np.flip(x)), np.append(lower, np.flip(upper)))
        self._add("path", d=f"{_path(*outline)}Z", class_=f"band c{k % COLOURS}")

    @_recorded
    def dots(self, x: Values, y: Values, k: int = 0, *, texts: Sequence[str] | None = None, size: Values = 4.0) -> None:
        """Draw marks of the shape and colour ``k``; the reader sees ``texts`` at them."""
        for px, py, r in np.broadcast(*self.at(x, y), size):
            self._add("path", d=_marker(px, py, r, k), class_=f"dot c{k % COLOURS}")
        self.read(x, y, texts or [])

    @_recorded
    def bars(self, values: Values) -> None:
        """Draw bars from zero along the first axis, one at each place of names."""
        end, middle = self.at(values, np.arange(len(self.y.names)))
        start, tall = float(self.at(0.0, 0)[0]), 0.64 * (self.height - BOTTOM - 10) / max(len(self.y.names), 1)
        for b, c in zip(end, middle, strict=True):
            size = {"width": _short(max(b - start, 0.5)), "height": _short(tall)}
            self._add("rect", class_="bar c0", x=_short(start), y=_short(c - tall / 2), **size)

    @_recorded
    def ranges(self, lower: Values, upper: Values, place: Values, k: int = 0) -> None:
        """Draw intervals along the first axis; an end that lies outside is an arrow."""
        start, middle = self.at(lower, place)
        end, _ = self.at(upper, place)
        outside = np.asarray(lower) < self.x.low, np.asarray(upper) > self.x.high
        for a, b, c, out_left, out_right in zip(start, end, middle, *outside, strict=True):
            d = f"M{_short(a)} {_short(c)}H{_short(b)}"
            d += f"m-5 -3l5 3l-5 3m0 -3h5M{_short(a)} {_short(c)}" if out_right else ""
            d += f"M{_short(a + 5)} {_short(c - 3)}l-5 3l5 3" if out_left else ""
            self._add("path", d=d, class_=f"range c{k % COLOURS}")

    @_recorded
    def rule(self, *, x: float | None = None, y: float | None = None, quiet: bool = True) -> None:
        """Draw a line across at a value of one axis."""
        down = [-0.5, len(self.y.names) - 0.5] if self.y.names else [self.y.low, self.y.high]
        ends = self.at([x, x], down) if x is not None else self.at([self.x.low, self.x.high], np.full(2, y))
        self._add("path", d=_path(*ends), class_="rule" if quiet else "rule strong")

    @_recorded
    def diagonal(self) -> None:
        """Draw the line from one corner to the other."""
        self._add("path", d=_path(*self.at([self.x.low, self.x.high], [self.y.low, self.y.high])), class_="rule")

    @_recorded
    def read(self, x: Values, y: Values, texts: Sequence[str]) -> None:
        """Show texts at points, by hover, touch or arrow keys."""
        for a, b, text in zip(*self.at(x, y), texts, strict=False):
            if np.isfinite([a, b]).all():
                self.values.append((round(float(a), 1), round(float(b), 1), text))

    def svg(self, description: str) -> Markup:
        """Return the drawing, with a description for those who do not see it."""
        ring = tag("circle", class_="ring", r=7, cx=-20, cy=-20)
        box = f"0 0 {self.width} {self.height}"
        return tag("svg", *self._frame(), *self.marks, ring, viewBox=box, role="img", aria_label=description)

    def _names(self) -> list[str]:
        """Return the names beside the second axis, shortened to the room that they have."""
        most = int((self.left - 12) / LETTER)
        return abbreviate(self.y.names, max(most, LONGEST_LABEL)) if self.y.names else []

    def _add(self, element: str, **attributes: object) -> None:
        self.marks.append(tag(element, **attributes))

    def _frame(self) -> list[Markup]:
        right, base = self.width - 14, self.height - BOTTOM
        parts = [tag("path", d=f"M{self.left} 10V{base}H{right}", class_="axis")]
        for value in self.x.ticks(5):
            px = _short(float(self.at(value, self.y.low)[0]))
            parts.append(tag("path", d=f"M{px} {base}v4", class_="axis"))
            parts.append(tag("text", number(value), x=px, y=base + 17, class_="tick mid"))
        for i, name in enumerate(self._names()):
            py = float(self.at(self.x.low, i)[1])
            parts.append(tag("text", name, x=self.left - 8, y=_short(py + 4), class_="tick end"))
        if not self.y.names:
            for value in self.y.ticks(5):
                py = float(self.at(self.x.low, value)[1])
                parts.append(tag("path", d=f"M{self.left} {_short(py)}H{right}", class_="grid"))
                parts.append(tag("text", number(value), x=self.left - 7, y=_short(py + 4), class_="tick end"))
            turned = f"translate(13 {_short((10 + base) / 2)}) rotate(-90)"
            parts.append(tag("text", truncate(self.y.label, 48), transform=turned, class_="name mid"))
        middle = (self.left + right) / 2
        parts.append(tag("text", truncate(self.x.label, 60), x=_short(middle), y=self.height - 7, class_="name mid"))
        return parts


def figure(
    plot: Plot, caption: str, description: str, *, legend: Sequence[tuple[int, Any]] = (), table: Markup | None = None
) -> Markup:
    """Return a plot with its legend, the line where values are read, a caption and the values as a table."""
    items = (tag("li", _swatch(k), name_tag(label)) for k, label in legend)
    what = description.partition(":")[0].partition(". ")[0].rstrip(".")  # and not what it shows
    box = {"tabindex": 0, "role": "group", "aria_label": f"{what}. Arrow keys read the values."}
    # The page shows the drawing that its width has room for.
    sizes = [("plot", plot)] if plot.fixed else [("plot small", plot), ("plot large", plot.resized(WIDE))]
    drawings = (tag("div", p.svg(description), data_values=_json(p.values), class_=kind, **box) for kind, p in sizes)
    return tag(
        "figure",
        tag("ul", join(items), class_="legend") if legend else "",
        *drawings,
        tag("p", " ", class_="readout", aria_live="polite"),
        tag("figcaption", caption),
        "" if table is None else tag("details", tag("summary", "Values as a table"), table),
    )


def _json(values: list[tuple[float, float, str]]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def histogram(counts: Array, description: str) -> Markup:
    """Return a small picture of a distribution, for a cell of a table.

    >>> histogram(np.array([1.0, 2.0]), "rising").count("<rect")
    2
    """
    tall = 24.0 * np.asarray(counts) / max(float(np.max(counts, initial=0.0)), 1e-300)
    wide = 108.0 / max(len(counts), 1)
    bars = [
        tag("rect", x=_short(i * wide), y=_short(25 - h), width=_short(max(wide - 1, 0.8)), height=_short(h))
        for i, h in enumerate(tall)
        if h > 0
    ]
    return tag("svg", join(bars), viewBox="0 0 108 26", class_="spark", role="img", aria_label=description)


def spaced_vertices(x: Array, y: Array, most: int) -> Indices:
    """Return which vertices of a line to keep: at most so many, evenly along its way, its ends among them.

    >>> kept = spaced_vertices(np.arange(10_000.0), np.zeros(10_000), 100)
    >>> len(kept) <= 100, kept[0], kept[-1]
    (True, np.int64(0), np.int64(9999))
    """
    if len(x) <= most:
        return np.arange(len(x))
    way = np.append(0.0, np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y))))
    found = np.searchsorted(way, np.linspace(0.0, way[-1], most - 1))
    return np.unique(np.append(found, len(x) - 1))


def text_width(text: str) -> float:
    """Return about how wide a text is beside an axis.

    >>> text_width("rent"), text_width("RENT")
    (28.0, 36.0)
    """
    return LETTER * len(text) + (CAPITAL - LETTER) * sum(letter.isupper() for letter in text)


def truncate(name: object, most: int = LONGEST_LABEL) -> str:
    """Return a name that fits beside an axis.

    >>> truncate("a_very_long_name_of_a_column"), truncate("age")
    ('a_very_long_name_of_a…', 'age')
    """
    text = clean(name)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def abbreviate(names: Sequence[Any], most: int = LONGEST_LABEL) -> list[str]:
    """Return names that fit beside an axis, shortened so that they stay distinct.

    >>> abbreviate(["mean_consumption_of_week_1_kwh", "mean_consumption_of_week_2_kwh"])
    ['mean_consum…week_1_kwh', 'mean_consum…week_2_kwh']
    """
    full = [clean(name) for name in names]
    start, end = _alike(full), _alike([text[::-1] for text in full])
    spare = max(most - 2 - (max(map(len, full)) - start - end), 0)  # for some of what they have in common
    start, end = max(start - spare * 2 // 3, 0), max(end - spare // 3, 0)
    ways = (
        [truncate(text, most) for text in full],
        [text if len(text) <= most else f"{text[: most // 2]}…{text[most // 2 - most + 1 :]}" for text in full],
        [f"{'…' if start else ''}{truncate(text[start : len(text) - end], most - 2)}…" for text in full],
    )
    return next((way for way in ways if len(set(way)) == len(set(full))), ways[0])


def _alike(texts: Sequence[str]) -> int:
    """Return the length of the common prefix."""
    return next((i for i, letters in enumerate(zip(*texts, strict=False)) if len(set(letters)) > 1), 0)


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _path(X: Array, Y: Array) -> str:
    return "M" + "L".join(f"{_short(a)} {_short(b)}" for a, b in zip(X, Y, strict=True))


def _marker(x: float, y: float, r: float, k: int) -> str:
    """Return the outline of a mark: round, square, triangles, diamond."""
    shape = k % 5
    if shape == 0:
        half = f"a{_short(r)} {_short(r)} 0 1 0"
        return f"M{_short(x - r)} {_short(y)}{half} {_short(2 * r)} 0{half} {_short(-2 * r)} 0Z"
    if shape == 1:
        side = _short(1.8 * r)
        return f"M{_short(x - 0.9 * r)} {_short(y - 0.9 * r)}h{side}v{side}h{_short(-1.8 * r)}Z"
    if shape == 3:
        corners = (x, x + 1.3 * r, x, x - 1.3 * r), (y - 1.3 * r, y, y + 1.3 * r, y)
        return f"{_path(*map(np.array, corners))}Z"
    up = 1.0 if shape == 2 else -1.0
    return f"M{_short(x)} {_short(y - up * 1.1 * r)}L{_short(x + 1.1 * r)} {_short(y + up * r)}H{_short(x - 1.1 * r)}Z"


def _swatch(k: int) -> Markup:
    line = tag("path", d="M0 6H22", class_=f"line c{k % COLOURS} d{k % 6}")
    dot = tag("path", d=_marker(11, 6, 3.6, k), class_=f"dot c{k % COLOURS}")
    return tag("svg", line, dot, viewBox="0 0 22 12", class_="swatch", aria_hidden="true")
