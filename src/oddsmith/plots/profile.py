"""The profile likelihood of one weight, and the parabola of Wald's approximation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.inference.fit_record import LikelihoodModel
from oddsmith.inference.profile import Profiler, make_profiler
from oddsmith.inference.summary import check_level, normal_quantile
from oddsmith.numerics import Array
from oddsmith.plots.style import INK, QUIET, AxesLike, Display, color_of, legend_above, plain
from oddsmith.protocols import ClassifierLike

Term = str | tuple[Any, str]  # A term, or a class and a term.
WIDEST = 1.3  # How far beyond the ends of the interval the profile is drawn.


@dataclass(eq=False, kw_only=True)
class ProfileDisplay(Display):
    """The rise of the deviance as a weight moves away from its estimate and the others are refitted.

        D(v) = 2 (min {f(w): w_j = v} − f(ŵ)),     Wald:  ((v − ŵ_j) / error)²

    Attributes
    ----------
    value : array of length n
        Values of the weight.
    deviance, wald : arrays of length n
        The profile, and Wald's parabola.
    estimate, lower, upper : float
        The estimate and the ends of the profile interval.
    wald_lower, wald_upper : float
    cutoff, level : float
        The quantile of χ²₁ at which intervals end, and their level.
    term : str

    Cost: a constrained fit, a few passes, for each of n values.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0, 0, 1, 0, 1, 1]
    >>> model = LogisticRegression().fit(X, y)
    >>> display = ProfileDisplay.from_estimator(model, X, y, "x0", points=11)
    >>> summary = model.summary(X, y, intervals="profile")
    >>> bool(np.allclose([display.lower, display.upper], [summary.lower[1], summary.upper[1]]))
    True
    """

    value: Array
    deviance: Array
    wald: Array
    estimate: float
    lower: float
    upper: float
    wald_lower: float
    wald_upper: float
    cutoff: float
    level: float
    term: str

    @classmethod
    def from_estimator(
        cls,
        model: ClassifierLike,
        X: Any,
        y: Any,
        term: Term,
        *,
        level: float = 0.95,
        points: int = 60,
        ax: AxesLike = None,
        **rows: ArrayLike,
    ) -> Self:
        """Draw the profile of a term of a fitted model (``(class, term)`` for more than two classes).

        ``X`` and ``y`` are the training rows, ``rows`` the ``sample_weight`` and ``offset`` of the fit, if any.
        """
        if not isinstance(model, LikelihoodModel):
            raise InvalidTypeError(
                f"{type(model).__name__} is not fitted by likelihood, so it has no profile. Use LogisticRegression."
            )
        summary = model.summary(X, y, intervals="profile", level=level, **rows)
        fit = model._fit_record(X, y, rows.get("sample_weight"), rows.get("offset"))
        labels = fit.weights.labels
        if term not in labels:
            raise UnknownNameError("term", term, labels)
        i = labels.index(term)
        cutoff = normal_quantile(check_level(level)) ** 2
        estimate, error = float(summary.estimate[i]), float(summary.std_error[i])
        ends = float(summary.lower[i]), float(summary.upper[i])
        if not np.isfinite([estimate, error, *ends]).all():
            raise InvalidInputError(
                f"The profile of {term!r} is unbounded on one side, or the column is aliased: there is no interval to "
                "draw. Use prior=JeffreysPrior()."
            )
        c = np.zeros(fit.state.x.size)
        c[fit.state.kept] = fit.weights.J[i]
        half = normal_quantile(level) * error
        left, right = (WIDEST * max(abs(end - estimate), half) for end in ends)
        middle = points // 2
        value = estimate + np.append(np.linspace(-left, 0.0, middle), np.linspace(0.0, right, points - middle + 1)[1:])
        with one_blas_thread():
            deviance = _along(make_profiler(fit, cutoff), c, value - estimate)
        curves: dict[str, Any] = {"value": value, "deviance": deviance, "wald": ((value - estimate) / error) ** 2}
        found: dict[str, Any] = {"estimate": estimate, "cutoff": cutoff, "level": float(level)}
        found |= {"lower": ends[0], "upper": ends[1], "wald_lower": estimate - half, "wald_upper": estimate + half}
        name = term if isinstance(term, str) else " ".join(map(str, term))
        return cls(term=name, **curves, **found)._drawn(ax)

    def plot(self, ax: AxesLike = None) -> Self:
        """Draw the profile, Wald's parabola, and the intervals where they cross the quantile."""
        with self._canvas(ax) as (ax,):
            ax.axhline(self.cutoff, color=QUIET, lw=0.9, ls=":")
            text, where = f"{100 * self.level:g}% quantile of χ²₁", (self.estimate, self.cutoff)
            ax.annotate(text, where, (5, 4), textcoords="offset points", color=QUIET, fontsize=9)
            both = (
                ("profile", self.deviance, (self.lower, self.upper), "-", "o", 0),
                ("Wald", self.wald, (self.wald_lower, self.wald_upper), "--", "s", 2),
            )
            for name, values, ends, dashes, marker, k in both:
                label = f"{name}: {ends[0]:.3g} to {ends[1]:.3g}".replace("-", "−")
                ax.plot(self.value, values, color=color_of(k), ls=dashes, label=label)
                ax.plot(ends, [self.cutoff] * 2, marker, color=color_of(k), ms=7, mec="white", zorder=4)
            ax.axvline(self.estimate, color=INK, lw=0.8, ls=":", zorder=0)
            ax.set(xlabel=f"weight of {plain(self.term)}", xlim=(self.value[0], self.value[-1]))
            ax.set(ylabel="rise of the deviance", ylim=(0.0, 1.8 * self.cutoff))
            legend_above(ax)
        return self


def _along(profiler: Profiler, c: Array, shifts: Array) -> Array:
    """Return the rise of the deviance at each shift of ``cᵀx``, with warm-started fits."""
    rise: Array = np.full(len(shifts), np.nan)
    for side in (-1.0, 1.0):
        near: Any = profiler.best
        own = np.flatnonzero(side * shifts >= 0.0)
        for i in own[np.argsort(np.abs(shifts[own]))]:
            found = profiler.fit(near, c, float(shifts[i]))
            if found is None:
                break
            near, rise[i] = found, 2.0 * (found.e.value - profiler.best.value)
    return np.clip(rise, 0.0, None)
