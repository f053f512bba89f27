"""Laplace's approximation of a density by a Gaussian with the same mode and curvature; draws from Gaussians."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.numerics import EPS, Array, factor_spd
from oddsmith.records import Table
from oddsmith.solvers.general import read_start
from oddsmith.solvers.line_search import backtrack
from oddsmith.solvers.policy import POLICY

Seed: TypeAlias = int | np.random.Generator | None
Function = Callable[[Any], Any]
LOG_2PI = float(np.log(2.0 * np.pi))
MAX_ITER = 200
STEEPEST = 1e3  # Maximum decrease of the log density within one standard deviation; a Gaussian's decreases by a half.


def standard_normals(n: int, D: int, seed: Seed) -> Array:
    """Return n standard normal vectors of length D, n × D; raise if the number or seed is invalid."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise InvalidInputError(f"The number of draws must be a whole number of at least 0, found {n!r}.")
    try:
        rng = np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"seed must be None, a whole number or a Generator, found {seed!r}.") from None
    return rng.standard_normal((int(n), D))


@dataclass(frozen=True, kw_only=True)
class Laplace(Table):
    """``p(x) ≈ N(x | mode, covariance)``, and the integral of the given density.

    Attributes
    ----------
    mode : number, or vector of length D
    covariance : number, or D × D
        Inverse of the Hessian of minus the log density at the mode.
    log_density : float
        The given function at the mode.
    log_normaliser : float
        ``log ∫ exp(log_density(x)) dx ≈ log_density(mode) + ½ log det(2π covariance)``.
    evaluations : int
        Number of calls of the function.

    >>> result = laplace(lambda x: -0.5 * (x - 3.0) ** 2 / 4.0, start=0.0)
    >>> round(result.mode, 6), round(result.covariance, 6), round(float(result.logpdf(3.0)), 6)
    (3.0, 4.0, -1.612086)
    """

    mode: Any
    covariance: Any
    log_density: float
    log_normaliser: float
    evaluations: int

    def logpdf(self, x: npt.ArrayLike) -> Any:
        """Return the log density of the Gaussian at ``x`` (one point, or one per row)."""
        m, S = np.atleast_1d(self.mode), np.atleast_2d(self.covariance)
        with as_input_errors():
            points = np.asarray(x, dtype=float)
        # In one dimension every number is a point, in D every row.
        flat = points.reshape(-1, 1) if np.ndim(self.mode) == 0 else np.atleast_2d(points)
        if flat.shape[-1] != len(m):
            raise InvalidInputError(f"logpdf takes points of length {len(m)}; found an array of shape {points.shape}.")
        factor = factor_spd(S, tol=0.0)
        square = np.array([factor.norm(d) ** 2 for d in flat - m])
        result = -0.5 * (square + len(m) * LOG_2PI + factor.log_det())
        return result.reshape(points.shape if np.ndim(self.mode) == 0 else points.shape[:-1])

    def sample(self, n: int, seed: Seed = None) -> Array:
        """Return ``n`` draws from the Gaussian: length n, or n × D."""
        m, S = np.atleast_1d(self.mode), np.atleast_2d(self.covariance)
        draws: Array = m + standard_normals(n, len(m), seed) @ linalg.cholesky(S)
        return draws[:, 0] if np.ndim(self.mode) == 0 else draws

    def to_dict(self) -> dict[str, list[Any]]:
        mode = np.atleast_1d(self.mode)
        std = np.sqrt(np.diag(np.atleast_2d(self.covariance)))
        return {"coordinate": list(range(len(mode))), "mode": mode.tolist(), "std": std.tolist()}


def laplace(
    log_density: Function, start: npt.ArrayLike, gradient: Function | None = None, hessian: Function | None = None
) -> Laplace:
    """Approximate a density, known up to a factor, by a Gaussian at its mode.

    With ``A = −∇∇ log f(mode)``: ``f(x)/Z ≈ N(x | mode, A⁻¹)`` and ``Z ≈ f(mode) (2π)^{D/2} / √det A``.
    Each iteration
      1. evaluates the gradient g and A at x (by extrapolated central differences if not given, with steps scaled to the
         function in each coordinate),
      2. solves A p = g, with negative eigenvalues of A made positive,
      3. stops when p is short relative to the spread of the Gaussian,
      4. shortens the step until the density rises.

    Parameters
    ----------
    log_density : callable
        ``log f(x)``, up to a constant, for a number or a vector of length D. It may return −∞.
    start : number or vector
        Starting point; ``log f`` must be finite there.
    gradient, hessian : callables, optional
        Derivatives of ``log_density``.

    Cost: about 16 D² calls an iteration without derivatives. If the result is not a maximum, no Gaussian exists: an
    error names the direction.

    >>> import numpy as np
    >>> result = laplace(lambda x: 3.0 * np.log(x) - x if x > 0 else -np.inf, start=1.0)
    >>> round(result.mode, 6), round(float(np.exp(result.log_normaliser)), 4)  # the integral is Γ(4) = 6
    (3.0, 5.8362)
    """
    for name, f in (("log_density", log_density), ("gradient", gradient), ("hessian", hessian)):
        if not callable(f) and (f is not None or name == "log_density"):
            raise InvalidTypeError(f"{name} must be a function, found {f!r}.")
    x, scalar = read_start(start)
    if x.size == 0:
        raise InvalidInputError(f"start must be a finite number or vector, found {start!r}.")
    target = _Target(function=log_density, scalar=scalar, gradient=gradient, hessian=hessian)
    value = target.value(x)
    if not np.isfinite(value):
        raise InvalidInputError(
            f"The log density is {value} at the start {np.asarray(start).tolist()}: start where it is finite."
        )
    last = np.inf
    for _ in range(MAX_ITER):
        g, A = target.derivatives(x, value)  # 1
        p, decrement = _newton_direction(A, g)  # 2
        # Numerical derivatives have noise: when the steps are tiny and no longer shrink, they are nothing else.
        if decrement < 1e-9 or (decrement < 1e-5 and decrement > 0.5 * last):  # 3
            break
        moved, last = _search(target, x, value, p, decrement), decrement  # 4
        if moved is None:
            # No step rises although the slope says that one should: this is an edge, or a kink.
            if 0.5 * decrement**2 > 1e-8 + 1e4 * EPS * abs(value):
                raise InvalidInputError(
                    f"The log density has no smooth maximum: at {_show(x)} its slope is {_show(g)}, and no step tried "
                    "rises. It may end at an edge, have a kink, or the gradient be wrong. Give another start, or other "
                    "coordinates."
                )
            break
        x, value = moved
    else:
        raise InvalidInputError(
            f"No mode was found in {MAX_ITER} steps; the last point is {_show(x)}, where the log density is "
            f"{value:.6g} and still rises. It may have no maximum: give another start, or a proper density."
        )
    S, log_det = _inverse(target, x, value, A)
    total, calls = value + 0.5 * (len(x) * LOG_2PI - log_det), target.calls[0]
    mode, covariance = (float(x[0]), float(S[0, 0])) if target.scalar else (x, S)
    return Laplace(mode=mode, covariance=covariance, log_density=value, log_normaliser=total, evaluations=calls)


@dataclass(frozen=True, kw_only=True)
class _Target:
    """The function with its derivatives, given or numerical."""

    function: Function
    scalar: bool
    gradient: Function | None
    hessian: Function | None
    calls: list[int] = field(default_factory=lambda: [0])

    def _at(self, function: Function, x: Array) -> Any:
        return function(float(x[0]) if self.scalar else x)

    def value(self, x: Array) -> float:
        self.calls[0] += 1
        with np.errstate(all="ignore"):
            result = np.asarray(self._at(self.function, x), dtype=float)
        if result.size != 1 or np.isnan(result).any() or result == np.inf:
            raise InvalidInputError(
                f"log_density must return one number below infinity; at {_show(x)} it returned {result.tolist()}."
            )
        return float(result.reshape(()))

    def derivatives(self, x: Array, value: float) -> tuple[Array, Array]:
        """Return the gradient of the log density and minus its Hessian."""
        D = len(x)
        h = self._steps(x, value) if self.gradient is None or self.hessian is None else np.ones(D)
        E = np.diag(h)
        if self.gradient is None:
            g = np.array([self._slope(x, d) for d in E]) / h
        else:
            g = self._shaped(self.gradient, x, (D,))
        if self.hessian is not None:
            H = self._shaped(self.hessian, x, (D, D))
            if not np.allclose(H, H.T, rtol=1e-6, atol=1e-9 * np.abs(H).max()):
                raise InvalidInputError(f"The Hessian must be symmetric; at {_show(x)} it is {H.tolist()}.")
            return g, -0.5 * (H + H.T)
        A = np.empty((D, D))
        for i in range(D):
            for j in range(i + 1):
                A[i, j] = A[j, i] = self._curvature(x, value, E[i], None if i == j else E[j])
        return g, -A / np.outer(h, h)

    def _shaped(self, function: Function, x: Array, shape: tuple[int, ...]) -> Array:
        result = np.asarray(self._at(function, x), dtype=float)
        if result.size != np.prod(shape) or not np.all(np.isfinite(result)):
            what = "gradient" if len(shape) == 1 else "Hessian"
            raise InvalidInputError(
                f"For a start of length {len(x)} the {what} must be finite and of shape {shape}; at {_show(x)} it is "
                f"{result.tolist()}."
            )
        return result.reshape(shape)

    def _steps(self, x: Array, value: float) -> Array:
        """Return the step in each coordinate that changes the log density by about a tenth."""
        steps = np.empty(len(x))
        for i, e in enumerate(np.eye(len(x))):
            h, low, high = 1e-2 * max(1.0, abs(x[i])), 0.0, np.inf
            for _ in range(80):
                change = max(abs(self.value(x + h * e) - value), abs(self.value(x - h * e) - value))
                if 0.02 <= change <= 0.5:
                    break
                low, high = (h, high) if change < 0.02 else (low, h)
                h = 4.0 * h if high == np.inf else 0.25 * h if low == 0.0 else float(np.sqrt(low * high))
            steps[i] = h
        return steps

    def _slope(self, x: Array, d: Array) -> float:
        """Return the derivative along ``d``."""
        return _extrapolate(lambda t: 0.5 * (self.value(x + t * d) - self.value(x - t * d)), 1)

    def _curvature(self, x: Array, value: float, d: Array, e: Array | None) -> float:
        """Return the second derivative along ``d``, or the mixed one along ``d`` and ``e``."""

        def both_sides(step: Array) -> float:
            return self.value(x + step) + self.value(x - step)

        if e is None:
            return _extrapolate(lambda t: self.value(x + t * d) - 2.0 * value + self.value(x - t * d), 2)
        return _extrapolate(lambda t: 0.25 * (both_sides(t * (d + e)) - both_sides(t * (d - e))), 2)


def _extrapolate(difference: Callable[[float], float], order: int) -> float:
    """Return the limit of ``difference(t) / tᵒʳᵈᵉʳ`` at t = 0, whose error is a series in t² (Richardson)."""
    row = [difference(t) / t**order for t in (1.0, 0.5, 0.25, 0.125)]
    for level in range(1, len(row)):
        row = [b + (b - a) / (4.0**level - 1.0) for a, b in pairwise(row)]
    return row[0]


def _newton_direction(A: Array, g: Array) -> tuple[Array, float]:
    """Return the Newton direction uphill, and its length in units of the Gaussian's spread."""
    d = np.sqrt(np.maximum(np.abs(np.diag(A)), np.finfo(float).tiny))
    values, V = linalg.eigh(A / np.outer(d, d))
    # Where the density is not concave, a direction is followed uphill as far as its curvature is certain.
    size = np.maximum(np.abs(values), 1e-8)
    with np.errstate(over="ignore"):  # a slope without curvature
        c = V.T @ (g / d)
        return (V @ (c / size)) / d, float(np.sqrt((c * c / size).sum()))


def _search(target: _Target, x: Array, value: float, p: Array, decrement: float) -> tuple[Array, float] | None:
    """Return the first of the points x + p, x + p/2, … at which the density rises enough, or None."""
    noise, slope = 8.0 * EPS * abs(value), POLICY.armijo * decrement**2
    first = min(1.0, 1e3 / decrement)
    found = backtrack(
        lambda step: target.value(x + step * p),
        lambda reached, step: reached >= value + step * slope - noise,
        first,
        smallest=1e-12,
    )
    return None if found is None else (x + found[1] * p, found[0])


def _inverse(target: _Target, x: Array, value: float, A: Array) -> tuple[Array, float]:
    """Return the covariance and log det of A; raise with the direction along which the point is not a maximum."""
    d = np.sqrt(np.maximum(np.abs(np.diag(A)), np.finfo(float).tiny))
    values, V = linalg.eigh(A / np.outer(d, d))
    for size, v in zip(values, (V / d[:, None]).T, strict=True):
        if size <= 1e-7:
            raise _no_maximum(x, v, "is flat" if size > -1e-7 else "curves upwards", A)
        # One standard deviation away the density of a Gaussian has fallen by half in the logarithm.
        sides = [target.value(x + sign * v / np.sqrt(size)) for sign in (1.0, -1.0)]
        if max(sides) > value - 1e-3:
            raise _no_maximum(x, v, "does not fall", A)
        if max(sides) < value - STEEPEST:
            raise _no_maximum(x, v, "is flat at first and then falls steeply: no Gaussian does that", A)
    factor = factor_spd(A, tol=0.0)
    S = factor.solve(np.eye(len(x)))
    return (S + S.T) / 2.0, factor.log_det()


def _no_maximum(x: Array, v: Array, how: str, A: Array) -> InvalidInputError:
    v = v / v[np.argmax(np.abs(v))]
    return InvalidInputError(
        f"The log density has no maximum at {_show(x)}: along the direction {_show(v)} it {how} (second derivative "
        f"{-float(v @ A @ v):.3g}). Give another start, fix that direction, or use a proper density."
    )


def _show(x: Array) -> str:
    return np.array2string(x, precision=6, threshold=8, separator=", ", suppress_small=True)
