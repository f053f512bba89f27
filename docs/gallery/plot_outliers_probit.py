"""A few wrong labels far from the boundary affect probit regression more than logistic regression.

The tails of the Gaussian are thin, so a row far on the wrong side costs the square of its distance.
"""

import numpy as np

from oddsmith import LogisticRegression, ProbitRegression
from oddsmith.plots import figure_legend, new_axes
from oddsmith.plots.style import color_of, dashes_of, marker_of, style

rng = np.random.default_rng(2)
x = np.concatenate([rng.normal(-1.2, 0.8, 80), rng.normal(1.2, 0.8, 80)])
y = np.repeat([0, 1], 80)
x_wrong, y_wrong = np.append(x, [5.0, 5.5, 6.0]), np.append(y, [0, 0, 0])

grid = np.linspace(-4, 6.5, 300)
axes = new_axes(1, 2, (6.6, 3.2), sharey=True)
slopes = {}
with style():
    for ax, (title, a, b) in zip(
        axes, [("clean", x, y), ("three wrong labels at the right", x_wrong, y_wrong)], strict=True
    ):
        for k, make in enumerate((LogisticRegression, ProbitRegression)):
            model = make().fit(a[:, None], b)
            ax.plot(
                grid, model.predict_proba(grid[:, None])[:, 1], color=color_of(k), ls=dashes_of(k), label=make.__name__
            )
            slopes[make.__name__, title] = float(model.coef_[0, 0])
        for k in (0, 1):
            ax.plot(
                a[b == k],
                np.full((b == k).sum(), k) * 1.06 - 0.03,
                marker_of(k),
                color=color_of(3),
                ms=4,
                alpha=0.4,
                mew=0,
            )
        ax.set_title(title)
        ax.set(xlabel="x0", xlim=(-4, 6.5))
    axes[0].set_ylabel("p(1 | x0)")
figure_legend(axes[0])
figure = axes[0].figure
