"""General methods for any function: Newton–Raphson and gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg

from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.numerics import Array
from oddsmith.records import Table, format_value
from oddsmith.solvers.line_search import backtrack

Function = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class Optimum(Table):
    """The result of a general method: the point, its value and gradient, whether it converged, and its path.

    ``x`` is a number if the start was one. ``path`` contains every point visited, one per row.
    """

    x: Any
    value: float
    gradient_norm: float
    converged: bool
    iterations: int
    path: Array

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the path, one row per iteration."""
        table: dict[str, list[Any]] = {"iteration": list(range(len(self.path)))}
        for j in range(self.path.shape[1]):
            table[f"x{j}"] = self.path[:, j].tolist()
        return table

    def __str__(self) -> str:
        state = "converged" if self.converged else "did not converge"
        where = np.array2string(np.atleast_1d(self.x), precision=6)
        return f"{state} after {self.iterations} iterations at {where}, value {format_value(self.value)}"


def newton_raphson(
    f: Function | None,
    gradient: Function,
    hessian: Function,
    start: npt.ArrayLike,
    *,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> Optimum:
    """Find a stationary point of any function by Newton–Raphson, in one or D dimensions.

    Each iteration
      1. evaluates gradient g and Hessian H at x,
      2. solves H u = g (H may be indefinite: the method finds a nearby maximum, minimum or saddle point),
      3. stops when ‖u‖ ≤ ``tol`` · (1 + ‖x‖),
      4. steps x ← x − u.

    Parameters
    ----------
    f : callable or None
        The function; used for reporting only.
    gradient, hessian : callables
        First and second derivatives: numbers in one dimension, else a vector and a matrix.
    start : number or vector
        Starting point.

    >>> newton_raphson(lambda x: x**2 - 4 * x, lambda x: 2 * x - 4, lambda x: 2.0, start=10.0).x
    2.0
    """
    x, scalar = read_start(start)
    path = [x]
    while True:
        g = np.atleast_1d(np.asarray(_call(gradient, x, scalar), dtype=float))  # 1
        H = np.atleast_2d(np.asarray(_call(hessian, x, scalar), dtype=float))
        _check_derivatives(g, H, x)
        if not g.any():
            return _optimum(f, g, path, scalar, True)
        try:
            u = linalg.solve(H, g, assume_a="sym")  # 2
        except linalg.LinAlgError:
            raise InvalidInputError(
                f"The Hessian is singular at x = {x.tolist()}: Newton's step is not defined there. "
                "Try another start, or gradient_descent."
            ) from None
        converged = bool(np.linalg.norm(u) <= tol * (1.0 + np.linalg.norm(x)))  # 3
        if converged or len(path) > max_iter:
            return _optimum(f, g, path, scalar, converged)
        x = x - u  # 4
        path.append(x)


def gradient_descent(
    f: Function,
    gradient: Function,
    start: npt.ArrayLike,
    *,
    step_size: float | None = None,
    tol: float = 1e-8,
    max_iter: int = 10_000,
) -> Optimum:
    """Find a minimum of any function by gradient descent, in one or D dimensions.

    Each iteration
      1. evaluates the gradient g at x,
      2. stops when ‖g‖ ≤ ``tol``,
      3. steps x ← x − η g, with η = ``step_size``, or by backtracking if it is None.

    For a maximum, pass −f and −gradient.

    >>> result = gradient_descent(lambda x: (x - 2) ** 2, lambda x: 2 * (x - 2), start=10.0, step_size=0.25)
    >>> round(result.x, 6), result.converged
    (2.0, True)
    """
    if step_size is not None and not step_size > 0:
        raise InvalidInputError(f"step_size must be a positive number, found {step_size!r}.")
    x, scalar = read_start(start)
    path = [x]
    eta = step_size or 1.0
    value = float(_call(f, x, scalar))
    while True:
        g = np.atleast_1d(np.asarray(_call(gradient, x, scalar), dtype=float))  # 1
        _check_derivatives(g, None, x)
        converged = bool(np.linalg.norm(g) <= tol)  # 2
        if converged or len(path) > max_iter:
            return _optimum(f, g, path, scalar, converged)
        if step_size is None:
            found = backtrack(
                lambda step, x=x, g=g: float(_call(f, x - step * g, scalar)),  # type: ignore[misc]
                lambda trial, step, value=value, g=g: trial <= value - 1e-4 * step * float(g @ g),  # type: ignore[misc]
                2.0 * eta,
                smallest=1e-18,
            )
            if found is None:
                return _optimum(f, g, path, scalar, False)
            value, eta = found
        x = x - eta * g  # 3
        path.append(x)


def read_start(start: npt.ArrayLike) -> tuple[Array, bool]:
    """Return a starting point as a vector, and whether it was given as a number."""
    try:
        x = np.asarray(start, dtype=float)
    except (TypeError, ValueError):
        raise InvalidTypeError(f"start must be a number or a vector of numbers, found {start!r}.") from None
    if x.ndim > 1 or not np.all(np.isfinite(x)):
        raise InvalidInputError(f"start must be a finite number or vector, found {start!r}.")
    return np.atleast_1d(x), x.ndim == 0


def _call(function: Function, x: Array, scalar: bool) -> Any:
    return function(float(x[0]) if scalar else x)


def _check_derivatives(g: Array, H: Array | None, x: Array) -> None:
    D = len(x)
    if g.shape != (D,) or (H is not None and H.shape != (D, D)):
        shapes = f"{g.shape}" + ("" if H is None else f" and {H.shape}")
        raise InvalidInputError(
            f"For a start of length {D} the gradient must have shape ({D},) and the Hessian ({D}, {D}); found {shapes}."
        )
    if not np.all(np.isfinite(g)) or (H is not None and not np.all(np.isfinite(H))):
        raise InvalidInputError(
            f"The derivatives are not finite at x = {x.tolist()}. Try another start or a smaller step."
        )


def _optimum(f: Function | None, g: Array, path: list[Array], scalar: bool, converged: bool) -> Optimum:
    x = path[-1]
    value = float("nan") if f is None else float(_call(f, x, scalar))
    at: Any = float(x[0]) if scalar else x
    norm, points = float(np.linalg.norm(g)), np.array(path)
    return Optimum(x=at, value=value, gradient_norm=norm, converged=converged, iterations=len(path) - 1, path=points)
