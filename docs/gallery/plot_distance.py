"""The geometry of a linear discriminant: the value over the length of w is the signed distance to the boundary.

The boundary is perpendicular to w; points on one side have positive distances, points on the other side negative ones.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.plots import DecisionRegionDisplay
from oddsmith.plots.style import INK, style

rng = np.random.default_rng(5)
X = np.vstack([rng.normal([1.7, 0.1], 0.6, (30, 2)), rng.normal([4.0, 2.4], 0.6, (30, 2))])
y = np.repeat(["negative", "positive"], 30)

model = LogisticRegression(prior=2.0).fit(X, y)
display = DecisionRegionDisplay.from_estimator(model, X, y, limits=((-1.4, 6.2), (-1.9, 4.0)))
points = np.array([[5.4, 1.2], [0.6, 2.4], [3.2, -1.4], [0.0, 0.0]])
distances = model.distance(points)
feet = points - distances[:, None] * model.boundary_.normal
with style():
    for point, foot, distance in zip(points, feet, distances, strict=True):
        display.ax_.plot(*np.transpose([point, foot]), color=INK, lw=1.2, marker="o", ms=4)
        text = f"{distance:.2f}".replace("-", "−")
        text = text if point.any() else f"origin: {text}"
        away = 14 * np.sign(distance) * model.boundary_.normal
        display.ax_.annotate(text, point, away, textcoords="offset points", ha="center", va="center")
display.ax_.set_aspect("equal")
figure = display.figure_
