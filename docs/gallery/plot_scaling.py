"""One column in other units: gradient descent is slow along the valley, and direct after scaling.

Above: the second column is five times larger than the first. Below: both have standard deviation one. The axes have
equal scales, so each step is perpendicular to its contour.
"""

import numpy as np

from oddsmith import Standardize, gradient_descent
from oddsmith.links import LINKS
from oddsmith.plots import PathDisplay, new_axes

rng = np.random.default_rng(2)
X = rng.normal(size=(150, 2)) * [1.0, 5.0]
sigmoid = LINKS["logit"].inverse
t = (rng.random(150) < sigmoid(X @ [1.5, 0.2])) * 1.0


def descend(Z, start):
    """Minimise the cross-entropy with the best of all fixed steps, and return it with the path."""

    def f(w):
        return np.logaddexp(0.0, Z @ w).sum() - t @ Z @ w

    def gradient(w):
        return Z.T @ (sigmoid(Z @ w) - t)

    curvature = np.linalg.eigvalsh(0.25 * Z.T @ Z)
    step = 2.0 / (curvature[0] + curvature[-1])
    return f, gradient_descent(f, gradient, start, step_size=step, tol=1e-2 * np.linalg.norm(gradient(start)))


rows = {"as they are": X, "standardised": Standardize().fit(X).transform(X)}
axes = new_axes(2, 1, (5.6, 6.0))
limits = (-0.8, 2.9), (-0.8, 1.6)
paths = {}
for ax, (name, Z) in zip(axes, rows.items(), strict=True):
    f, paths[name] = descend(Z, np.array([-0.5, 0.5 if name == "as they are" else -0.5]))
    PathDisplay.from_paths(f, {name: paths[name]}, limits=limits).plot(ax)
    ax.set_aspect("equal")
figure = axes[0].figure
