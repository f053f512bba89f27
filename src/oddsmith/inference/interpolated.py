"""Profile intervals as R's ``confint`` gives them: the profile on a grid, and a spline through it.

The spline is right to about four digits, so these are for comparison with R; `oddsmith.inference.profile` finds
the ends themselves.
"""

from __future__ import annotations

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.inference.constrained import Minimum
from oddsmith.inference.profile import Profiler
from oddsmith.inference.summary import normal_quantile
from oddsmith.numerics import Array
from oddsmith.solvers.base import Evaluation

STEPS = 9
"""Most steps of the grid to a side."""


def interpolated_ends(profiler: Profiler, c: Array, error: float, level: float) -> tuple[float, float]:
    """Return where the interval of ``cᵀx`` ends, relative to the estimate, by the method of ``confint(glm)``.

    1. The signed root of the profile, at steps of a fifth of the normal quantile of level 1 − (1 − level)/4 (in
       standard errors), until it is beyond that quantile or nine steps are done.
    2. A cubic spline through these points, at three times as many places at equal distances.
    3. Linear interpolation between them.
    """
    farthest = normal_quantile(1.0 - (1.0 - level) / 4.0)
    values, roots = [0.0], [0.0]
    for side in (-1, 1):  # 1
        near: Minimum | Evaluation = profiler.best
        for step in range(1, STEPS + 1):
            v = side * step * farthest / 5.0 * error
            found = profiler.fit(near, c, v)
            if found is None:
                break
            near = found
            values.append(v)
            roots.append(side * float(np.sqrt(max(2.0 * (found.e.value - profiler.best.value), 0.0))))
            if abs(roots[-1]) >= farthest:
                break
    order = np.argsort(values)
    x, y = np.array(values)[order], np.array(roots)[order]
    if len(x) < 4:
        raise InvalidInputError(
            "The profile could be followed to fewer than four points, too few for a spline: use intervals='profile'."
        )
    places = np.linspace(x[0], x[-1], 3 * len(x))
    heights = fmm_spline(x, y, places)  # 2
    cutoff = normal_quantile(level)
    rising = np.argsort(heights, kind="stable")
    ends = np.interp([-cutoff, cutoff], heights[rising], places[rising], left=np.nan, right=np.nan)  # 3
    return float(ends[0]), float(ends[1])


def fmm_spline(x: Array, y: Array, places: Array) -> Array:
    """Return the cubic spline of Forsythe, Malcolm and Moler through ``(x, y)``, R's default, at ``places``.

    Its third derivative at each end is that of the cubic through the four points there.

    >>> x = np.array([0.0, 1.0, 3.0, 4.0, 6.0])
    >>> fmm_spline(x, x**3 - x, np.array([0.5, 5.0])).round(9).tolist()
    [-0.375, 120.0]
    """
    h, slope = np.diff(x), np.diff(y) / np.diff(x)
    n = len(x)
    M, r = np.zeros((n, n)), np.zeros(n)
    for i in range(1, n - 1):
        M[i, i - 1 : i + 2] = h[i - 1], 2.0 * (h[i - 1] + h[i]), h[i]
        r[i] = slope[i] - slope[i - 1]
    # sigma, a sixth of the second derivative, changes linearly: its slope at the ends is a third divided difference.
    for row, first, sign in ((0, 0, 1), (n - 1, n - 4, -1)):
        d = np.diff(slope[first : first + 3]) / (x[first + 2 : first + 4] - x[first : first + 2])
        third = (d[1] - d[0]) / (x[first + 3] - x[first])
        edge = 0 if row == 0 else n - 2
        M[row, row], M[row, row + sign] = -sign / h[edge], sign / h[edge]
        r[row] = third
    sigma = np.linalg.solve(M, r)
    k = np.clip(np.searchsorted(x, places, side="right") - 1, 0, n - 2)
    w, d = (places - x[k]) / h[k], 1.0 - (places - x[k]) / h[k]
    bend = h[k] ** 2 * ((w**3 - w) * sigma[k + 1] + (d**3 - d) * sigma[k])
    result: Array = w * y[k + 1] + d * y[k] + bend
    return result
