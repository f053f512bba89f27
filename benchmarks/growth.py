"""The growth curves: seconds against rows, columns and classes, one picture of three panels."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from . import report, store
from .cases import GROWTH
from .peers import SUBJECT

PEERS = (
    SUBJECT,
    "scikit-learn lbfgs",
    "scikit-learn newton-cholesky",
    "scikit-learn newton-cg",
    "glum irls-ls",
    "intelex lbfgs",
    "mlpack lbfgs",
    "snapml primal",
)
"""Those measured by default: every peer would take hours, and the rest are slower throughout."""

PANELS = {"N": "rows N (20 columns)", "D": "columns D (50,000 rows)", "K": "classes K (100,000 rows, 20 columns)"}

Curves = dict[str, dict[str, list[tuple[int, float]]]]


def curves() -> Curves:
    """Panel → peer → points (size, seconds), of the runs that count only."""
    found: Curves = {panel: defaultdict(list) for panel in PANELS}
    for case in GROWTH:
        assert case.growth is not None
        panel, size = case.growth
        for r in report.results(case):
            if r.counts and r.seconds is not None:
                found[panel][r.peer].append((size, r.seconds))
    return found


def draw(path: Path = store.RESULTS / "growth.png") -> Path:
    """Draw the three panels on logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.ticker import NullFormatter

    found = curves()
    peers = sorted({p for panel in found.values() for p in panel}, key=lambda p: (p != SUBJECT, p))
    colours = {p: "black" if p == SUBJECT else f"C{i}" for i, p in enumerate(peers)}
    figure, axes = plt.subplots(1, len(PANELS), figsize=(13, 4.5), sharey=True, layout="constrained")
    for axis, (panel, label) in zip(axes, PANELS.items(), strict=True):
        for peer in peers:
            points = sorted(found[panel].get(peer, []))
            width = 2.5 if peer == SUBJECT else 1.2
            axis.plot(*zip(*points, strict=True) if points else ([], []), "o-", lw=width, ms=4, color=colours[peer])
        axis.set(xscale="log", yscale="log", xlabel=label)
        axis.xaxis.set_minor_formatter(NullFormatter())
        if panel == "K":
            sizes = sorted({size for points in found[panel].values() for size, _ in points})
            axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.grid(alpha=0.3, which="both", lw=0.5)
    axes[0].set_ylabel("seconds to a counting gap")
    handles = [Line2D([], [], color=colours[p], marker="o", ms=4, label=p) for p in peers]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
