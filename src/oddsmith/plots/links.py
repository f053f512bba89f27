"""Links: the maps from an activation to a probability."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.links import LINKS, Link
from oddsmith.numerics import Array
from oddsmith.plots.style import QUIET, AxesLike, Display, legend_above, line_of

Limits = tuple[float, float]
WIDE = (-6.0, 6.0)


@dataclass(eq=False)
class LinkDisplay(Display):
    """Inverse links ``y = f(a)`` against the activation, one curve each.

    Attributes
    ----------
    a : array of length n
        Activations, or values of x if curves differ by the length of w.
    curves : dict from name to array of length n
    xlabel : str

    >>> display = LinkDisplay.from_links(["logit", "probit"])
    >>> list(display.curves), round(float(np.interp(0.0, display.a, display.curves["logit"])), 6)
    (['logit', 'probit'], 0.5)
    """

    a: Array
    curves: dict[str, Array]
    xlabel: str

    @classmethod
    def from_links(
        cls, links: str | Iterable[str] = ("logit", "probit"), *, limits: Limits = WIDE, match_slopes: bool = False
    ) -> Self:
        """Compute inverse links by name; ``match_slopes`` rescales activations to equal slopes at zero."""
        a, curves = np.linspace(*limits, 601), {}
        for name in [links] if isinstance(links, str) else links:
            scale = _scale(name) if match_slopes else 1.0
            label = name if np.isclose(scale, 1.0) else f"{name} of {scale:.3g} a"
            curves[label] = _inverse(LINKS[name], scale * a)
        return cls(a, curves, "activation a")

    @classmethod
    def from_lengths(cls, lengths: Iterable[float], *, link: str = "logit", limits: Limits = WIDE) -> Self:
        """Compute ``f(‖w‖ x)`` for several lengths of w: the longer, the steeper."""
        x = np.linspace(*limits, 601)
        values = [float(length) for length in lengths]
        if not values or min(values) < 0:
            raise InvalidInputError(f"lengths must be non-negative numbers, found {values}.")
        return cls(x, {f"‖w‖ = {w:g}": _inverse(LINKS[link], w * x) for w in values}, "distance from the boundary")

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the curves with lines at probability ½ and activation zero."""
        with self._canvas(ax) as (ax,):
            ax.axhline(0.5, color=QUIET, lw=0.6, zorder=0)
            ax.axvline(0.0, color=QUIET, lw=0.6, zorder=0)
            for k, (name, values) in enumerate(self.curves.items()):
                ax.plot(self.a, values, **line_of(k, name))
            ax.set(xlabel=self.xlabel, ylabel="probability y", ylim=(-0.03, 1.03), xlim=(self.a[0], self.a[-1]))
            ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
            legend_above(ax)
        return self


def _scale(name: str) -> float:
    """Return the factor of the activation that gives a link the sigmoid's slope at zero."""
    if not np.isinf(LINKS[name].domain).all():
        raise InvalidInputError(f"match_slopes needs links that accept any activation, and {name!r} does not.")
    steep, own = (float(LINKS[link].derivative(np.zeros(1))[0]) for link in ("logit", name))
    return steep / own


def _inverse(link: Link, a: Array) -> Array:
    """Return the inverse link; NaN for activations without a probability (links log and identity)."""
    low, high = link.domain
    return np.where((a >= low) & (a <= high), link.inverse(np.clip(a, low, high)), np.nan)
