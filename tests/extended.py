"""The objective of logistic and softmax regression in fifty digits, and its minimum: the judge of certificates."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property
from typing import Any

import numpy as np

DIGITS = 50


def _log(value: Decimal) -> Decimal:
    """The logarithm in all digits, from that of floats: sooner than Decimal.ln."""
    start = Decimal(math.log(value))
    r = value * (-start).exp() - 1  # below 1e-15: four terms of the series have all digits
    return start + r * (1 - r * (Decimal(1) / 2 - r * (Decimal(1) / 3 - r / 4)))


_ln = np.frompyfunc(_log, 1, 1)
_exp = np.frompyfunc(Decimal.exp, 1, 1)


def exact(values: Any) -> Any:
    """Return an array of the same numbers, none of them rounded."""
    return np.frompyfunc(lambda v: Decimal(float(v)), 1, 1)(np.asarray(values, dtype=np.float64))


@dataclass(frozen=True)
class Exact:
    """``E(W) = Σ_n s_n (log Σ_k exp a_nk − a_{n t_n}) + ½ Σ (W − mean)ᵀ Q (W − mean)`` over K × (1 + D) weights.

    ``W`` has the intercept first and a row per class; ``Q`` (P × P) acts on each row in ``penalised`` (all of
    them in the symmetric form, those other than the reference else). ``moving`` marks the weights that may move.
    """

    X: Any
    t: Any
    K: int
    s: Any
    offset: Any = None  # N × K
    Q: Any = None
    mean: Any = None
    moving: Any = None

    @cached_property
    def rows(self) -> Any:
        return exact(np.column_stack([np.ones(len(self.X)), self.X]))

    @cached_property
    def penalty(self) -> tuple[Any, Any]:
        return exact(self.mean), exact(self.Q)

    @cached_property
    def exact_weights(self) -> Any:
        return exact(self.s)

    @cached_property
    def exact_offset(self) -> Any:
        return exact(self.offset)

    def activations(self, W: Any) -> Any:
        A = self.rows @ W.T
        return A if self.offset is None else A + self.exact_offset

    def value(self, W: Any) -> Decimal:
        """Return the objective, to all digits."""
        A = self.activations(W)
        top = A.max(axis=1)
        loss = top - A[np.arange(len(A)), self.t] + _ln(_exp(A - top[:, None]).sum(axis=1))
        total = (self.exact_weights * loss).sum()
        if self.Q is not None:
            mean, Q = self.penalty
            delta = W - mean
            total += (delta * (delta @ Q)).sum() / 2
        return total

    def value_at_most(self, W: Any) -> Decimal:
        """Return a number that the objective does not exceed, and by little: in extended floats, with their error."""
        floats = {"dtype": np.longdouble}
        Z, V = np.column_stack([np.ones(len(self.X)), self.X]).astype(**floats), np.asarray(W, **floats)
        A = Z @ V.T
        size = np.abs(Z) @ np.abs(V).T  # what the rounding of an activation is a share of
        if self.offset is not None:
            A, size = A + self.offset, size + np.abs(self.offset)
        own = A[np.arange(len(A)), self.t]
        top = A.max(axis=1)
        loss = top - own + np.log(np.exp(A - top[:, None]).sum(axis=1))
        s = np.asarray(self.s, **floats)
        total, error = (s * loss).sum(), (s * (size.max(axis=1) + np.abs(loss) + 1)).sum()
        if self.Q is not None:
            delta = V - np.asarray(self.mean, **floats)
            square = (delta * (delta @ np.asarray(self.Q, **floats))).sum() / 2
            total, error = total + square, error + square
        bound = total + (len(A) + 50) * np.finfo(np.longdouble).eps * error
        whole = np.floor(bound)  # the digits of the extended format, in two numbers that are exact
        rest = np.nextafter(np.float64(bound - whole), np.inf)
        return Decimal(float(whole)) + Decimal(float(rest))

    def gradient(self, W: Any, A: Any) -> Any:
        """Return the gradient at weights and their activations."""
        E = _exp(A - A.max(axis=1, keepdims=True))
        R = E / E.sum(axis=1, keepdims=True)
        R[np.arange(len(A)), self.t] -= 1
        g = (R * self.exact_weights[:, None]).T @ self.rows
        if self.Q is not None:
            mean, Q = self.penalty
            g = g + (W - mean) @ Q
        return g

    def hessian(self, A: Any) -> np.ndarray:
        """Return the Hessian at activations, in float64: good enough to converge by, and to be corrected."""
        Z = np.column_stack([np.ones(len(self.X)), self.X])
        A = A.astype(np.float64)
        Y = np.exp(A - A.max(axis=1, keepdims=True))
        Y /= Y.sum(axis=1, keepdims=True)
        P = Z.shape[1]
        H = np.zeros((self.K, P, self.K, P))
        for j in range(self.K):
            for k in range(self.K):
                r = self.s * Y[:, j] * ((j == k) - Y[:, k])
                H[j, :, k, :] = Z.T @ (r[:, None] * Z)
            if self.Q is not None:
                H[j, :, j, :] += self.Q
        return H.reshape(self.K * P, self.K * P)

    def minimum(self, W: Any, steps: int = 60) -> tuple[Any, Decimal]:
        """Return the minimiser and the minimum, from a start near it, by Newton's method in all digits."""
        W = exact(W)
        moving = np.ones(W.shape, dtype=bool) if self.moving is None else self.moving.copy()
        if self.Q is not None and not self.Q[0].any() and moving[:, 0].all():
            moving[0, 0] = False  # to add the same to all intercepts changes nothing: the Hessian is singular there
        last = None
        for _ in range(steps):
            A = self.activations(W)
            g = self.gradient(W, A)[moving]
            H = self.hessian(A)[np.ix_(moving.ravel(), moving.ravel())]
            scale = max(abs(v) for v in g) or Decimal(1)
            u = np.linalg.solve(H, (g / scale).astype(np.float64))
            decrement = float(u @ (g / scale).astype(np.float64)) * float(scale) ** 2
            if decrement < 1e-40:  # what is left of the objective is half of it
                return W, self.value(W)
            last = decrement
            W = W.copy()
            W[moving] -= exact(u) * scale
        raise AssertionError(f"No optimum found in extended precision: decrement {last}.")


def in_fifty_digits(function: Callable[..., Any], *args: Any) -> Any:
    """Call with the precision of this module."""
    with localcontext() as context:
        context.prec = DIGITS
        context.Emin, context.Emax = -999_999, 999_999
        return function(*args)
