"""The objective of logistic and softmax regression in fifty digits, and its minimum: the judge of certificates."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

DIGITS = 50

_ln = np.frompyfunc(Decimal.ln, 1, 1)
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

    def activations(self, W: Any) -> Any:
        A = self.rows() @ W.T
        return A if self.offset is None else A + exact(self.offset)

    def rows(self) -> Any:
        return np.column_stack([exact(np.ones(len(self.X))), exact(self.X)])

    def value(self, W: Any) -> Decimal:
        """Return the objective, to all digits."""
        A = self.activations(W)
        own = A[np.arange(len(A)), self.t]
        loss = _ln(_exp(A - own[:, None]).sum(axis=1))
        total = (exact(self.s) * loss).sum()
        if self.Q is not None:
            delta = W - exact(self.mean)
            total += (delta * (delta @ exact(self.Q))).sum() / 2
        return total

    def gradient(self, W: Any) -> Any:
        A = self.activations(W)
        E = _exp(A - A.max(axis=1, keepdims=True))
        R = E / E.sum(axis=1, keepdims=True)
        R[np.arange(len(A)), self.t] -= 1
        g = (R * exact(self.s)[:, None]).T @ self.rows()
        if self.Q is not None:
            g = g + (W - exact(self.mean)) @ exact(self.Q)
        return g

    def hessian(self, W: Any) -> np.ndarray:
        """Return the Hessian in float64: good enough to converge by, and to be corrected."""
        Z = np.column_stack([np.ones(len(self.X)), self.X])
        A = self.activations(W).astype(np.float64)
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
            g = self.gradient(W)[moving]
            H = self.hessian(W)[np.ix_(moving.ravel(), moving.ravel())]
            scale = max(abs(v) for v in g) or Decimal(1)
            u = np.linalg.solve(H, (g / scale).astype(np.float64))
            decrement = float(u @ (g / scale).astype(np.float64)) * float(scale) ** 2
            if decrement < 1e-60 or (last is not None and decrement >= last and decrement < 1e-40):
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
