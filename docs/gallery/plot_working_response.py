"""Iteratively reweighted least squares: each iteration fits a weighted line to a working response.

The area of a point is its weight. Rows near the boundary count most, rows far on the wrong side have large responses
and small weights, and the line converges after a few iterations.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.links import LINKS
from oddsmith.plots import figure_legend, new_axes
from oddsmith.plots.style import INK, color_of, marker_of, style

rng = np.random.default_rng(3)
x = rng.normal(0, 1.5, 80)
Phi = np.column_stack([np.ones(80), x])
t = (x + rng.logistic(size=80) > 0.3) * 1.0

lines = [np.zeros(2)]
axes = new_axes(1, 3, (7.0, 3.3), sharex=True, sharey=True)
with style():
    for i in range(6):
        w = lines[-1]
        y = LINKS["logit"].inverse(Phi @ w)
        R = y * (1 - y)
        z = Phi @ w - (y - t) / R  # the working response
        lines.append(np.linalg.solve((Phi.T * R) @ Phi, (Phi.T * R) @ z))
        if i in (0, 1, 5):
            ax = axes[(0, 1, None, None, None, 2)[i]]
            for k, label in enumerate(("no", "yes")):
                own = t == k
                look = {"color": color_of(k), "marker": marker_of(k), "alpha": 0.7, "linewidths": 0, "label": label}
                ax.scatter(x[own], z[own], s=160 * R[own], **look)
            ends = np.array([-4.8, 5.4])
            ax.plot(ends, lines[-1][0] + lines[-1][1] * ends, color=INK, lw=1.6)
            ax.set(title=f"iteration {i + 1}", xlabel="x", ylabel="working response z", xlim=ends, ylim=(-14, 16))
            ax.label_outer()
model = LogisticRegression(solver="newton").fit(x[:, None], t)
figure_legend(axes[0])
figure = axes[0].figure
