"""A class density with two modes, which the posterior does not show.

Above: class 2 has no density at the left mode of class 1, so that mode does not affect the posterior (below), which is
nearly a sigmoid. A discriminative model describes only the posterior.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.numerics import normal_density
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, QUIET, color_of, dashes_of, legend_above, style

x = np.linspace(-4.0, 5.0, 500)
one = 0.55 * normal_density((x + 1.6) / 0.5) / 0.5 + 0.45 * normal_density((x - 0.2) / 0.6) / 0.6
two = normal_density((x - 2.2) / 0.8) / 0.8
posterior = one / (one + two)
crossing = float(x[np.argmin(np.abs(posterior - 0.5) + 10 * (x < 0))])

rng = np.random.default_rng(0)
humps = np.where(rng.random(600) < 0.55, rng.normal(-1.6, 0.5, 600), rng.normal(0.2, 0.6, 600))
rows = np.concatenate([humps, rng.normal(2.2, 0.8, 600)])[:, None]
model = LogisticRegression().fit(rows, np.repeat(["C₂", "C₁"], [600, 600])[::-1])
fitted = model.predict_proba(x[:, None])[:, 0]  # of C₁, the first in the alphabet

above, below = new_axes(2, 1, (6.0, 5.0), sharex=True)
with style():
    above.plot(x, one, color=color_of(0), label="p(x | C₁)")
    above.plot(x, two, color=color_of(1), ls=dashes_of(1), label="p(x | C₂)")
    above.set(ylabel="density")
    legend_above(above)
    below.plot(x, posterior, color=color_of(0), label="p(C₁ | x)")
    below.plot(x, fitted, color=INK, ls=":", lw=2.0, label="logistic regression")
    below.set(xlabel="x", ylabel="probability", ylim=(-0.02, 1.05))
    for ax in (above, below):
        ax.axvline(crossing, color=QUIET, lw=1.0, ls="--")
    legend_above(below)
figure = above.figure
