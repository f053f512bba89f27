"""Draw the map of sizes: the fastest peer's time over oddsmith's in each cell, panels by classes and conditioning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

DECADES = math.log10(20)
"""The colour scale runs from 1 / 20 to 20: what is further off has the colour of the end."""
KINDS = {"well": "well conditioned", "hard": "hard: correlated, scales over two decades"}


def size_in_words(n: int) -> str:
    """300, 1k, 10M."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if n >= unit:
            return f"{n / unit:g}{letter}"
    return str(n)


def number(ratio: float) -> str:
    """Two digits; what is below 1 looks so."""
    return f"{ratio:.0f}" if ratio >= 9.5 else f"{ratio:.1f}" if ratio >= 1 else f"{min(ratio, 0.99):.2f}"


def draw(records: Sequence[dict[str, Any]], ratios: dict[str, float], path: Path) -> Path:
    """Draw a panel for each number of classes and each conditioning; a cell that is lost has a frame."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    panels = [(k, kind) for k in sorted({r["classes"] for r in records}) for kind in KINDS]
    figure = plt.figure(figsize=(13, 7.2), layout="constrained", facecolor="white")  # readable on a dark page, too
    places = figure.add_gridspec(2, 6, height_ratios=(6, 4))
    colours = ScalarMappable(Normalize(-DECADES, DECADES), "RdBu")
    for place, (k, kind) in enumerate(panels):
        wide = place < len(KINDS)
        axis = figure.add_subplot(places[0, 3 * place : 3 * place + 3] if wide else places[1, place - len(KINDS)])
        cells = [r for r in records if r["classes"] == k]
        sizes = [sorted({r[name] for r in cells}) for name in ("rows", "columns")]
        _panel(axis, [r for r in cells if r["cell"].endswith(kind)], ratios, sizes, colours)
        axis.set_title(f"{k} classes, {KINDS[kind] if wide else kind}", fontsize=11 if wide else 10)
    bar = figure.colorbar(colours, ax=figure.axes, location="bottom", shrink=0.5, aspect=50, pad=0.02)
    marks = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
    bar.set_ticks([math.log10(m) for m in marks], labels=[f"{m:g}×" for m in marks])
    bar.set_label("time of the fastest other library, at a gap of 10⁻⁶ / time of oddsmith, at 10⁻⁸ (framed: below 1)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    return path


def _panel(axis: Any, cells: Sequence[dict[str, Any]], ratios: dict[str, float], sizes: Any, colours: Any) -> None:
    """Rows of the table along x, columns along y."""
    from matplotlib.patches import Rectangle

    rows, columns = sizes
    for record in cells:
        ratio = ratios.get(record["cell"])
        x, y = rows.index(record["rows"]), columns.index(record["columns"])
        level = None if ratio is None else math.log10(ratio)
        colour = "0.85" if level is None else colours.to_rgba(level)
        axis.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1))
        if level is not None and level < 0:
            axis.add_patch(Rectangle((x - 0.44, y - 0.42), 0.88, 0.84, fill=False, edgecolor="black", linewidth=2))
        ink = "white" if level is not None and abs(level) > 0.6 * DECADES else "black"
        weight = "bold" if level is not None and level < 0 else "normal"
        text = "alone" if ratio is None else number(ratio)
        axis.text(x, y, text, ha="center", va="center", fontsize=9, color=ink, weight=weight)
    axis.set(xlim=(-0.5, len(rows) - 0.5), ylim=(-0.5, len(columns) - 0.5), xlabel="rows N", ylabel="columns D")
    axis.set_xticks(range(len(rows)), [size_in_words(n) for n in rows])
    axis.set_yticks(range(len(columns)), [size_in_words(d) for d in columns])
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
