"""Newton–Raphson in one dimension: each step goes to the minimum of the osculating parabola.

Dashed: the parabolas at the first points. Each step roughly squares the error.
"""

import numpy as np

from oddsmith import newton_raphson
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, color_of, dashes_of, legend_above, style


def f(x):
    """A convex function whose minimum is at log 2."""
    return np.exp(x) - 2.0 * x


result = newton_raphson(f, lambda x: np.exp(x) - 2.0, lambda x: np.exp(x), start=2.2)
points = result.path[:, 0]
errors = np.abs(points - np.log(2.0))

x = np.linspace(-0.4, 2.5, 300)
left, right = new_axes(1, 2, (7.0, 3.5))
parabolas = []
with style():
    left.plot(x, f(x), color=INK, label="function")
    for k, z in enumerate(points[:2]):
        slope, bend = np.exp(z) - 2.0, np.exp(z)
        parabolas.append(f(z) + slope * (x - z) + 0.5 * bend * (x - z) ** 2)
        left.plot(x, parabolas[k], color=color_of(k), ls=dashes_of(k + 1), lw=1.4, label=f"parabola at x{'₀₁'[k]}")
        low = f(z) - 0.5 * slope**2 / bend
        left.plot([points[k + 1]] * 2, [low, f(points[k + 1])], color=color_of(k), lw=0.8)
    left.plot(points[:3], f(points[:3]), "o", color=INK, ms=6)
    for k, z in enumerate(points[:3]):
        left.annotate(f"x{'₀₁₂'[k]}", (z, f(z)), (6, -11), textcoords="offset points")
    left.set(xlabel="x", ylabel="f(x)", ylim=(-0.4, 5.5))
    legend_above(left)
    right.semilogy(np.arange(len(errors)), np.maximum(errors, 1e-17), "o-", color=color_of(0), ms=6)
    right.set(xlabel="step", ylabel="distance from the minimum")
figure = left.figure
