"""Boundaries of two Gaussian classes of three columns: a plane, an ellipsoid, a hyperboloid and a paraboloid.

A shared covariance gives a plane; a covariance for each class gives a quadric. The signs of the eigenvalues of its
quadratic part determine its type: all of one sign, both signs, or one that is zero.
"""

import numpy as np

from oddsmith.plots.style import color_of, style

# Standard deviations of both classes, and the mean of the second.
WAYS = {
    "plane": ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), (1.4, 0.8, 0.6)),
    "ellipsoid": ((1.6, 1.6, 1.6), (0.7, 0.8, 0.9), (0.0, 0.0, 0.0)),
    "hyperboloid": ((0.7, 0.7, 1.4), (1.2, 1.2, 0.8), (0.0, 0.0, 0.0)),
    "paraboloid": ((0.8, 0.8, 1.0), (1.5, 1.5, 1.0), (0.0, 0.0, 1.6)),
}


def log_odds(point, first, second, mean):
    """Return ln p(x | second) − ln p(x | first)."""
    a, b = np.array(first), np.array(second)
    one = -0.5 * (point / a) ** 2 - np.log(a)
    return (-0.5 * ((point - np.array(mean)) / b) ** 2 - np.log(b) - one).sum(axis=-1)


def surface(way, resolution=41):
    """Return points of the boundary over a grid of two angles or two columns."""
    if way == "plane":
        u, v = np.meshgrid(*[np.linspace(-2.5, 2.5, resolution)] * 2)
        start, along = np.stack([np.zeros_like(u), u, v], axis=-1), np.array([1.0, 0.0, 0.0])
        s = np.linspace(-6.0, 6.0, 481)
    elif way == "paraboloid":
        u, v = np.meshgrid(*[np.linspace(-2.5, 2.5, resolution)] * 2)
        start, along = np.stack([u, v, np.zeros_like(u)], axis=-1), np.array([0.0, 0.0, 1.0])
        s = np.linspace(-6.0, 6.0, 481)
    else:
        u, v = np.meshgrid(np.linspace(0, 2 * np.pi, resolution), np.linspace(-2.5, 2.5, resolution))
        if way == "ellipsoid":
            v = np.linspace(-np.pi / 2, np.pi / 2, resolution)[:, None] * np.ones_like(u)
            start, along = (
                np.zeros((*u.shape, 3)),
                np.stack([np.cos(u) * np.cos(v), np.sin(u) * np.cos(v), np.sin(v)], -1),
            )
        else:
            start, along = np.stack([0 * u, 0 * u, v], -1), np.stack([np.cos(u), np.sin(u), 0 * u], -1)
        s = np.linspace(0.0, 6.0, 481)
    points = start[..., None, :] + s[:, None] * np.broadcast_to(along, start.shape)[..., None, :]
    odds = log_odds(points, *WAYS[way])
    change = np.argmax(np.sign(odds[..., 1:]) != np.sign(odds[..., :1]), axis=-1)
    low, high = (np.take_along_axis(odds, (change + i)[..., None], -1)[..., 0] for i in (0, 1))
    length = s[change] + (s[1] - s[0]) * low / np.where(low == high, 1.0, low - high)
    return start + length[..., None] * np.broadcast_to(along, start.shape)


surfaces = {way: surface(way) for way in WAYS}
with style():
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(6.4, 6.2), subplot_kw={"projection": "3d"})
    for ax, (way, points) in zip(axes.ravel(), surfaces.items(), strict=True):
        inside = np.where((np.abs(points) <= 2.6).all(axis=-1, keepdims=True), points, np.nan)
        ax.plot_surface(*np.moveaxis(inside, -1, 0), color=color_of(1), alpha=0.75, rstride=2, cstride=2, linewidth=0.2)
        for k, mean in enumerate(((0.0, 0.0, 0.0), WAYS[way][2])):
            ax.scatter(*mean, color=color_of(2 * k), s=30, depthshade=False)
        ax.set(title=way, xlabel="x0", ylabel="x1", zlabel="x2", xlim=(-2.6, 2.6), ylim=(-2.6, 2.6), zlim=(-2.6, 2.6))
        ax.tick_params(labelsize=7, pad=-2)
        ax.view_init(18, -60)
        ax.set_box_aspect((1, 1, 1), zoom=0.86)
