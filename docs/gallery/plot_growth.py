"""The logistic curve as growth: exponential at first, then slower, up to a limit.

Left: bacteria on a dish and unlimited growth, which look the same at first. Right: the spread of two inventions; the
share of owners is a sigmoid of time, and its logit is a line.
"""

import numpy as np

from oddsmith.links import LINKS
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, QUIET, color_of, dashes_of, legend_above, style

sigmoid = LINKS["logit"].inverse
hours, room, start, rate = np.linspace(0, 14, 200), 1000.0, 5.0, 0.8
limited = room * sigmoid(rate * hours + np.log(start / (room - start)))
free = start * np.exp(rate * hours)
slope = np.gradient(limited, hours)  # grows as the curve times the room that is left

years = np.linspace(1900, 2000, 200)
inventions = {"slow": (1950, 0.09), "fast": (1965, 0.25)}
shares = {name: sigmoid(speed * (years - middle)) for name, (middle, speed) in inventions.items()}

left, right = new_axes(1, 2, (7.0, 3.5))
with style():
    left.plot(hours, limited, color=color_of(0), label="with a limit")
    left.plot(hours, free, color=color_of(2), ls=dashes_of(1), label="without")
    left.axhline(room, color=QUIET, lw=1.0, ls=":")
    left.annotate("room for 1,000", (0.2, room), (0, -12), textcoords="offset points", color=INK)
    left.set(xlabel="hours", ylabel="bacteria", ylim=(0, 1200))
    legend_above(left)
    for k, (name, share) in enumerate(shares.items()):
        right.plot(years, share, color=color_of(k), ls=dashes_of(k), label=f"{name} invention")
    right.set(xlabel="year", ylabel="share of households", ylim=(-0.02, 1.05))
    legend_above(right)
figure = left.figure
