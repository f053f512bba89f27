"""Three activation functions on the same data: level lines are parallel, and only their distances differ.

The lines are probabilities of 0.1, 0.3, 0.5, 0.7 and 0.9. All are perpendicular to w, whatever the function is.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes
from oddsmith.plots.style import INK, style

rng = np.random.default_rng(1)
X = rng.normal(size=(400, 2))
y = np.where(X @ [1.4, 0.8] + rng.gumbel(size=400) > 0.8, "yes", "no")

levels = (0.1, 0.3, 0.5, 0.7, 0.9)
axes = new_axes(1, 3, (7.0, 2.9), sharex=True, sharey=True)
models = {link: LogisticRegression(link=link).fit(X, y) for link in ("logit", "probit", "cloglog")}
lines = {}
for ax, (link, model) in zip(axes, models.items(), strict=True):
    shown = DecisionRegionDisplay.from_estimator(model, X, limits=((-2, 2), (-2, 2)))
    shown.plot(ax, samples=False, legend=False, title=link)
    rows = np.stack(np.meshgrid(shown.x, shown.y), axis=-1).reshape(-1, 2)
    p = model.predict_proba(rows)[:, 1].reshape(len(shown.y), len(shown.x))
    with style():
        lines[link] = ax.contour(shown.x, shown.y, p, levels, colors=INK, linewidths=0.7)
        ax.clabel(lines[link], fontsize=7)
    ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
