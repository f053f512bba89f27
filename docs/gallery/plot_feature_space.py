"""Two radial basis functions make classes linearly separable: the plane of x, and the plane of the basis functions.

No line separates the cluster in the middle from the two outside. Each row has a value of the basis function at either
centre; in the plane of these values a line separates the classes, and it corresponds to the curve on the left.
"""

import numpy as np

from oddsmith import LogisticRegression, RadialBasis
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes
from oddsmith.plots.style import INK, scatter_classes, style

rng = np.random.default_rng(2)
first = np.vstack([rng.normal([-1.2, -0.6], 0.28, (40, 2)), rng.normal([1.2, 0.6], 0.28, (40, 2))])
second = rng.normal([0.0, 0.0], 0.22, (80, 2)) @ np.array([[1.2, -1.6], [0.2, 1.4]])
X, y = np.vstack([first, second]), np.repeat(["A", "B"], 80)
centers = np.array([[-1.2, -0.6], [1.2, 0.6]])

basis = RadialBasis(centers, 0.6)
model = LogisticRegression(prior=20.0, basis=basis).fit(X, y)
line = LogisticRegression(prior=20.0).fit(X, y)
Phi = basis.fit(X).transform(X)

left, right = new_axes(1, 2, (7.0, 4.3))
shown = DecisionRegionDisplay.from_estimator(model, X, y).plot(left, legend=False, title="input space")
LABEL = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
circle = np.column_stack([np.cos(t := np.linspace(0, 2 * np.pi, 100)), np.sin(t)])
with style():
    for k, centre in enumerate(centers):
        left.plot(*centre, "+", color=INK, ms=10, mew=2)
        left.text(centre[0], centre[1] + 0.72, f"c{'₁₂'[k]}", ha="center", va="center", bbox=LABEL)
        for distance in (0.6, 1.2):
            left.plot(*(centre + distance * circle).T, color="#44AA99", lw=1.0)
    left.set_aspect("equal")
    scatter_classes(right, Phi, (y == "B") * 1, ["A", "B"])
    (w1, w2), w0 = model.coef_[0], model.intercept_[0]
    right.axline((0.0, -w0 / w2), slope=-w1 / w2, color=INK, lw=1.4)
    right.set(
        xlabel="φ₁(x)", ylabel="φ₂(x)", title="feature space", xlim=(-0.05, 1.05), ylim=(-0.05, 1.05), aspect="equal"
    )
figure_legend(right)
figure = left.figure
