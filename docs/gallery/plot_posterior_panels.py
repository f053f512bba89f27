"""Gaussian classes and their posteriors: two classes with one covariance, and three of which two share one.

Left: contours of the densities at one and two standard deviations. Right: the posterior of each class as colour, and
the boundaries in white. Green and red share a covariance, so the boundary between them is a line; blue has its own.
"""

import numpy as np

from oddsmith import GaussianClassifier
from oddsmith.plots import new_axes
from oddsmith.plots.style import style

COLORS = np.array([[0.75, 0.15, 0.2], [0.1, 0.55, 0.25], [0.1, 0.3, 0.75]])  # red, green, blue
rng = np.random.default_rng(1)
wide, small = np.linalg.cholesky([[1.0, 0.55], [0.55, 0.6]]), np.linalg.cholesky([[0.35, -0.1], [-0.1, 0.5]])


def draw_rows(roots, centres):
    """Return rows of Gaussian classes, and their labels."""
    rows = [rng.normal(size=(400, 2)) @ root.T + centre for root, centre in zip(roots, centres, strict=True)]
    return np.vstack(rows), np.repeat(np.arange(len(roots)), 400)


cases = {
    "two classes": ("shared", *draw_rows([wide, wide], [(-1.0, 0.3), (1.0, -0.3)])),
    "three classes": (
        {0: "a", 1: "a", 2: "b"},
        *draw_rows([wide, wide, small], [(-1.3, 0.6), (1.3, 0.9), (0.2, -1.3)]),
    ),
}
axes = new_axes(2, 2, (6.2, 6.0), sharex=True, sharey=True)
models, grid = {}, np.linspace(-3.0, 3.0, 160)
plane = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
circle = np.column_stack([np.cos(t := np.linspace(0, 2 * np.pi, 100)), np.sin(t)])
with style():
    for row, (name, (covariance, X, y)) in enumerate(cases.items()):
        left, right = axes[2 * row : 2 * row + 2]
        model = models[name] = GaussianClassifier(covariance).fit(X, y)
        P = model.predict_proba(plane).reshape(160, 160, -1)
        shared = np.broadcast_to(model.covariances_, (len(model.means_), 2, 2))
        for k, (mean, S) in enumerate(zip(model.means_, shared, strict=True)):
            for radius in (1, 2):
                left.plot(*(mean + radius * circle @ np.linalg.cholesky(S).T).T, color=COLORS[k], lw=1.5)
        right.imshow(
            P @ COLORS[: P.shape[2]], origin="lower", extent=(-3, 3, -3, 3), aspect="equal", interpolation="bilinear"
        )
        for k in range(P.shape[2]):
            lead = P[:, :, k] - np.delete(P, k, axis=2).max(axis=2)
            right.contour(grid, grid, lead, [0.0], colors="white", linewidths=1.4)
        left.set(title=f"{name}: densities", ylabel="x1", aspect="equal", xlim=(-3, 3), ylim=(-3, 3))
        right.set(title=f"{name}: posterior")
for ax in axes[2:]:
    ax.set_xlabel("x0")
figure = axes[0].figure
