"""The common style of all figures; it never changes the user's matplotlib settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

AxesLike: TypeAlias = "Axes | Sequence[Axes] | npt.NDArray[Any] | None"
"""Axes to draw on, one for each panel; None creates a new figure."""
Panel: TypeAlias = "Axes"  # Axes of a figure; the name of matplotlib's class is only needed by type checkers.
Look: TypeAlias = dict[str, Any]  # Keyword arguments of matplotlib: colours, widths, labels.

# The first four differ by 20 in lightness (CIE L*), so that they are distinct in greyscale; all are distinct for all
# kinds of colour vision. Markers distinguish classes when colours repeat.
PALETTE = ("#004488", "#DDAA33", "#BB5566", "#111111", "#44AA99", "#88CCEE", "#AA4499", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 2)), (0, (3, 3)))
MOST_POINTS = 4000
"""Maximum number of samples drawn; more are thinned evenly, which looks the same and keeps pages small."""
MOST_LINES = 4  # Lines of a legend above axes.
INK, QUIET = "#222222", "#777777"

SETTINGS: Any = {
    **{"figure.figsize": (6.0, 4.0), "figure.dpi": 100, "figure.facecolor": "white"},
    **{"figure.constrained_layout.use": True, "font.size": 10, "text.color": INK, "lines.linewidth": 1.8},
    **{"axes.edgecolor": INK, "axes.facecolor": "white", "axes.linewidth": 0.8},
    **{"axes.labelcolor": INK, "axes.labelsize": 10, "axes.spines.top": False, "axes.spines.right": False},
    **{"axes.titlelocation": "left", "axes.titlesize": 10, "axes.titlepad": 8},
    **{"legend.frameon": False, "legend.fontsize": 9, "hatch.linewidth": 0.6, "hatch.color": QUIET},
}


@contextmanager
def style() -> Iterator[None]:
    """Use the style of this library inside a ``with`` block; settings outside are unchanged.

    >>> import matplotlib
    >>> before = matplotlib.rcParams["axes.spines.top"]
    >>> with style():
    ...     inside = matplotlib.rcParams["axes.spines.top"]
    >>> inside, matplotlib.rcParams["axes.spines.top"] == before
    (False, True)
    """
    import matplotlib

    with matplotlib.rc_context(SETTINGS):
        yield


def color_of(k: int) -> str:
    """Return the colour of class or line ``k``.

    >>> color_of(0), color_of(8) == color_of(0)
    ('#004488', True)
    """
    return PALETTE[k % len(PALETTE)]


def marker_of(k: int) -> str:
    """Return the marker of class ``k``; markers change when colours repeat.

    >>> marker_of(0), marker_of(8)
    ('o', 's')
    """
    return MARKERS[(k + k // len(PALETTE)) % len(MARKERS)]


def dashes_of(k: int) -> Any:
    """Return the dashes of line ``k``.

    >>> dashes_of(0), dashes_of(1)
    ('-', '--')
    """
    return DASHES[k % len(DASHES)]


def line_of(k: int, label: str | None = None, **more: Any) -> Look:
    """Return the style of line ``k``: colour, dashes and label."""
    return {"color": color_of(k), "ls": dashes_of(k), "label": label, **more}


def mark_of(k: int, size: float = 6, **more: Any) -> Look:
    """Return the marker style of class or line ``k``, with a white edge."""
    return {"marker": marker_of(k), "ms": size, "mec": "white", "mew": 0.6, **more}


def new_axes(rows: int = 1, columns: int = 1, size: tuple[float, float] | None = None, **layout: Any) -> list[Axes]:
    """Return the axes of a new figure in our style, row by row; ``layout`` is passed to ``plt.subplots``.

    >>> [ax.get_subplotspec().colspan.start for ax in new_axes(1, 3)]
    [0, 1, 2]
    """
    import matplotlib.pyplot as plt

    with style():
        _, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **layout)
        flat: list[Axes] = list(axes.ravel())
        for ax in flat:
            # Ticks are created when first drawn, outside our settings: setting them here keeps the style.
            ax.tick_params(labelsize=9, color=INK, labelcolor=INK, length=3.5, width=0.8)
    return flat


def figure_of(ax: Axes) -> Figure:
    """Return the figure that axes belong to."""
    return cast("Figure", ax.figure)


class Display:
    """The base class of displays: it holds plain arrays, draws them and returns itself.

    ``from_estimator(…, ax=None)`` computes and draws; constructors that take existing results do not draw.
    ``plot(ax=None)`` draws on new or given axes (one for each panel) and sets ``ax_`` (the first), ``axes_`` (all) and
    ``figure_``; it closes a figure that ``from_estimator`` created. Nothing is shown or saved.
    """

    ax_: Axes
    axes_: npt.NDArray[Any]
    figure_: Figure
    _own_figure: Figure | None = None

    def _drawn(self, ax: AxesLike) -> Self:
        """Draw now, and remember a new figure, which the next drawing replaces."""
        self.plot(ax)
        self._own_figure = self.figure_ if ax is None else None
        return self

    @contextmanager
    def _canvas(
        self, ax: AxesLike, panels: int = 1, columns: int = 1, size: tuple[float, float] | None = None, **layout: Any
    ) -> Iterator[list[Axes]]:
        """Yield axes in our style, one for each panel: the given ones, or those of a new figure."""
        from matplotlib.axes import Axes

        if self._own_figure is not None:
            import matplotlib.pyplot as plt

            plt.close(self._own_figure)
            self._own_figure = None
        with style():
            given = new_axes(-(-panels // columns), columns, size, **layout) if ax is None else ax
            axes = list(np.ravel(np.asarray(given, dtype=object)))
            while ax is None and len(axes) > panels:
                axes.pop().remove()
            if len(axes) != panels:
                raise InvalidInputError(
                    f"{type(self).__name__} has {panels} panels, but {len(axes)} axes were given. Pass one for each "
                    "panel, or none for a new figure."
                )
            if not all(isinstance(one, Axes) for one in axes):
                raise InvalidTypeError(f"ax must be matplotlib axes, found {type(axes[0]).__name__}.")
            self.axes_ = np.array(axes, dtype=object)
            self.ax_, self.figure_ = axes[0], figure_of(axes[0])
            yield axes

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw on new or given axes, and return this display."""
        raise TypeError(f"{type(self).__name__} must define plot().")


def legend_above(ax: Axes, *others: Axes) -> Legend:
    """Put a legend above the axes, where it hides nothing; it includes the entries of ``others``.

    A legend of many entries goes beside the axes instead, which keeps their height.
    """
    found = [one.get_legend_handles_labels() for one in (ax, *others)]
    handles = [handle for handles, _ in found for handle in handles]
    labels = _shortened([label for _, labels in found for label in labels])
    width, height = ax.get_position().size * figure_of(ax).get_size_inches()
    columns = columns_that_fit(labels, width)
    look: Look = {"handletextpad": 0.5, "columnspacing": 1.4, "borderaxespad": 0.3}
    if len(labels) <= MOST_LINES * columns:
        return ax.legend(handles, labels, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns, **look)
    handles, labels = _first(handles, labels, max(2, int(height / 0.19)))
    return ax.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0), **look)


def columns_that_fit(labels: Sequence[str], width: float) -> int:
    """Return the number of columns for a legend with these labels on ``width`` inches; a wider one squeezes the axes.

    Letters are about 0.07 inches wide, a handle takes 0.45, and the axes grow a little when the figure is laid out.

    >>> columns_that_fit(["a", "b"], 4.0), columns_that_fit(["a long explanation of a line", "another one"], 2.0)
    (2, 1)
    """
    for columns in range(len(labels), 1, -1):
        rows = -(-len(labels) // columns)
        parts = [labels[i : i + rows] for i in range(0, len(labels), rows)]
        if sum(0.45 + 0.07 * max(map(len, part)) for part in parts) <= width + 0.4:
            return len(parts)
    return 1


def figure_legend(ax: Axes, columns: int = 6) -> Legend:
    """Put one legend above the whole figure, for panels with the same entries."""
    handles, labels = ax.get_legend_handles_labels()
    labels = _shortened(labels)
    columns = max(1, min(len(labels), columns, columns_that_fit(labels, figure_of(ax).get_figwidth() - 0.4)))
    handles, labels = _first(handles, labels, MOST_LINES * columns)
    with style():
        return figure_of(ax).legend(handles, labels, loc="outside upper left", ncols=columns, handletextpad=0.5)


def _shortened(labels: Sequence[str]) -> list[str]:
    """Return the labels of a legend, shortened if there are many."""
    return [shortened(label, 44 if len(labels) <= 6 else 24) for label in labels]


def _first(handles: list[Any], labels: list[str], most: int) -> tuple[list[Any], list[str]]:
    """Return the first entries of a legend; the last one states how many more there are."""
    if len(labels) <= most:
        return handles, labels
    from matplotlib.lines import Line2D

    kept = most - 1
    return [*handles[:kept], Line2D([], [], ls="")], [*labels[:kept], f"… and {len(labels) - kept} more"]


def shortened(text: str, longest: int) -> str:
    """Return a text of limited length; a longer one keeps its two ends.

    >>> shortened("class_17", 24), shortened("a class with a rather long name", 13)
    ('class_17', 'a clas…g name')
    """
    if len(text) <= longest:
        return text
    half = (longest - 1) // 2
    return f"{text[:half]}…{text[-half:]}".replace("\\…", "…")  # never half of an escaped sign


def plain(label: object) -> str:
    r"""Return a name from the data with matplotlib's special characters escaped.

    >>> plain("$x$"), plain("_hidden"), plain(3)
    ('\\$x\\$', ' _hidden', '3')
    """
    text = str(label).replace("$", "\\$")
    return f" {text}" if text.startswith("_") else text


def label_rows(ax: Axes, places: Sequence[float] | Array, names: Sequence[object]) -> None:
    """Name the rows of a forest plot instead of drawing an axis."""
    ax.set_yticks(places, [plain(name) for name in names])
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)


def named(things: object, default: str | None = None) -> dict[str, Any]:
    """Return an object or a mapping of objects as ``{name: object}``; a single object is named by its type.

    >>> named({"a": 1}), named(1.5), named(1.5, "")
    ({'a': 1}, {'float': 1.5}, {'': 1.5})
    """
    if not isinstance(things, Mapping):
        return {type(things).__name__ if default is None else default: things}
    if not things:
        raise InvalidInputError("There is nothing to draw: the mapping is empty.")
    return {str(name): thing for name, thing in things.items()}


def thinned(n: int, keep: Indices | None = None) -> Indices:
    """Return which of n samples to draw: all, or evenly spaced ones and those to ``keep``.

    >>> len(thinned(100)), len(thinned(1_000_000)), 7 in thinned(1_000_000, np.array([7]))
    (100, 4000, True)
    """
    shown = np.linspace(0, n - 1, min(n, MOST_POINTS)).astype(np.intp)
    return shown if keep is None else np.union1d(shown, keep)


def scatter_classes(ax: Axes, points: Array, codes: Indices, classes: Sequence[Any], **options: float) -> None:
    """Draw samples, each class with its colour and marker; larger samples get smaller markers."""
    shown = thinned(len(points))
    points, codes = points[shown], codes[shown]
    size = float(np.clip(4500.0 / max(len(points), 1), 12.0, 26.0))
    look: Look = {"s": size, "edgecolors": "white", "linewidths": 0.5, "zorder": 3, **options}
    for k, label in enumerate(classes):
        x, y = points[codes == k].T
        ax.scatter(x, y, c=color_of(k), marker=marker_of(k), label=plain(label), **look)
