"""A network of logistic units: two feed a third, and together they solve what none can alone.

Each unit is a logistic regression on its inputs. On the right, the exclusive or: every hidden unit draws a line, and
the output unit combines them.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.links import LINKS
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, QUIET, color_of, scatter_classes, style

sigmoid = LINKS["logit"].inverse
rng = np.random.default_rng(0)
corner = rng.choice([-0.6, 0.6], (200, 2))
X = corner + rng.normal(0, 0.13, (200, 2))
y = (corner[:, 0] * corner[:, 1] > 0).astype(int)

# Either hidden unit is a line, fitted to tell one corner from the rest; the last unit is fitted to their answers.
corners = [(corner > 0).all(axis=1), (corner < 0).all(axis=1)]
hidden = [LogisticRegression(prior=10.0).fit(X, corner) for corner in corners]
answers = np.column_stack([unit.predict_proba(X)[:, 1] for unit in hidden])
last = LogisticRegression(prior=10.0).fit(answers, y)
alone = LogisticRegression(prior=10.0).fit(X, y)


def output(rows):
    """The probability that the network gives to class 1."""
    return last.predict_proba(np.column_stack([unit.predict_proba(rows)[:, 1] for unit in hidden]))[:, 1]


left, right = new_axes(1, 2, (7.0, 3.6), gridspec_kw={"width_ratios": [1.2, 1]})
nodes = {"1": (0, 2), "x₁": (0, 1), "x₂": (0, 0), "σ ": (1, 1.4), "σ": (1, 0.4), "σ  ": (2, 0.9)}
with style():
    for one, (a, b) in nodes.items():
        for c, d in nodes.values():
            if c == a + 1:
                left.plot([a, c], [b, d], color=QUIET, lw=1.0, zorder=1)
        left.scatter(a, b, s=650, color="white" if a == 0 else color_of(5), edgecolor=INK, zorder=2)
        left.text(a, b, one.strip(), ha="center", va="center", zorder=3)
    left.annotate("p(C₁ | x)", (2.2, 0.9), (2.45, 0.9), va="center", arrowprops={"arrowstyle": "<-"})
    left.set(xlim=(-0.3, 3.1), ylim=(-0.4, 2.4), xticks=[0, 1, 2], yticks=[], xlabel="layer", ylabel="units")
    grid = np.linspace(-1, 1, 100)
    P = output(np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)).reshape(100, 100)
    right.contourf(grid, grid, P, [0, 0.5, 1], colors=[color_of(0), color_of(1)], alpha=0.25)
    right.contour(grid, grid, P, [0.5], colors=INK, linewidths=1.4)
    for unit in hidden:
        (w1, w2), w0 = unit.coef_[0], unit.intercept_[0]
        right.axline((0, -w0 / w2), slope=-w1 / w2, color=QUIET, ls="--", lw=1.0)
    scatter_classes(right, X, y, ["0", "1"])
    right.set(xlabel="x₁", ylabel="x₂", xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
figure = left.figure
