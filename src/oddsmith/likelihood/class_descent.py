"""Descent by columns for more than two classes: the weights of all classes, each zero or a column's together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy.special import xlogy

from oddsmith.cached_property import cached_property
from oddsmith.engines import MemorySource
from oddsmith.kernels.columns import ClassModel
from oddsmith.kernels.coordinate_descent import Blocks
from oddsmith.likelihood.column_descent import ColumnDescent, ColumnPoint, present_rows, typical_gain
from oddsmith.numerics import Array, log_softmax

SWEEPS = 3000
"""Most sweeps over the columns in a step."""


@dataclass(kw_only=True)
class ClassDescent(ColumnDescent):
    """Softmax regression with weights (columns × K) of all classes."""

    @classmethod
    def of(
        cls,
        source: MemorySource,
        strength: Array,
        ridge: Array,
        *,
        intercept: bool,
        threads: int | None,
        grouped: bool = False,
    ) -> Self:
        """Return the problem of a source in memory."""
        X, t, s, offset = present_rows(source)
        return cls(
            X=X,
            t=t,
            s=s,
            offset=np.column_stack([np.zeros(len(t)), offset]),
            strength=strength,
            ridge=ridge,
            intercept=intercept,
            threads=threads,
            grouped=grouped,
        )

    @cached_property
    def own(self) -> npt.NDArray[np.bool_]:
        """Which class each row is of (n × K)."""
        return np.asarray(self.t[:, None] == np.arange(self.offset.shape[1]))

    def losses(self, a: Array) -> tuple[float, Array]:
        logs = log_softmax(a)
        return -float(self.s @ logs[self.own]), self.s[:, None] * (np.exp(logs) - self.own)

    def sizes(self, g: Array) -> Array:
        return np.asarray(np.linalg.norm(g, axis=1) if self.grouped else np.abs(g).max(axis=1, initial=0.0))

    def norms(self, w: Array) -> Array:
        return np.asarray(np.linalg.norm(w, axis=1) if self.grouped else np.abs(w).sum(axis=1))

    def entropy(self, theta: Array, shrink: float) -> float:
        c = np.maximum(self.own + shrink * theta / self.s[:, None], 0.0)
        return float(self.s @ xlogy(c, c).sum(axis=1))

    def feasible(self, theta: Array) -> Array:
        p = np.maximum(self.own + theta / self.s[:, None], 0.0)
        p /= p.sum(axis=1, keepdims=True)
        if self.intercept:
            p = _balanced(p, self.s, self.s @ self.own)
        return np.asarray(self.s[:, None] * (p - self.own))

    def step(self, at: ColumnPoint, penalty: Array, precision: float) -> ColumnPoint:
        assert self.columns is not None
        p = np.exp(log_softmax(at.a))
        model = ClassModel(p, self.s[:, None] * (p - self.own), self.s, self.ridge[self.chosen])
        x, some = at.weights_of(self.chosen, len(penalty)), penalty[self.chosen]
        squares = self.columns.model(self.s, np.zeros(len(some)), centred=False).diagonal
        gain = typical_gain(precision, some, squares * float((p * (1.0 - p)).mean()))
        z, b, _ = self.columns.descend_classes(
            model, x, some, grouped=self.grouped, intercept=self.intercept, tol=gain, sweeps=SWEEPS
        )
        if not self.ridge.any():
            x = self._settled(x)
        if self.intercept:  # to the last digit: the dual asks for it
            slope = model.residuals(z).sum(axis=0)
            H = np.diag(self.s @ p) - (p * self.s[:, None]).T @ p
            shift = -np.linalg.pinv(H, hermitian=True) @ slope
            z, b = z + shift, b + shift
        return self.stepped(at, x, b, z, model.residuals(z), penalty)

    def _settled(self, x: Array) -> Array:
        """Return weights with what all classes share chosen for the least penalty: it changes no probability."""
        strength = np.ones(len(x) if self.grouped else x.size)
        sizes = np.full(len(strength), x.shape[1] if self.grouped else 1)
        place = np.arange(x.size).reshape(x.shape[::-1]).T.ravel() if self.grouped else np.arange(x.size)
        blocks = Blocks(np.concatenate([[0], np.cumsum(sizes)]), place, strength, x.shape[1])
        return np.ascontiguousarray(blocks.settled(x.T.ravel()).reshape(x.shape[::-1]).T)


def _balanced(p: Array, s: Array, total: Array) -> Array:
    """Return probabilities with the class totals given: classes with too much give to those with too little."""
    found = s @ p
    over, under = found > total, found < total
    lacking = np.where(under, total - found, 0.0)
    if not (over.any() and under.any()):
        return p
    kept = np.where(over, p * (total / np.where(found > 0.0, found, 1.0)), p)
    given = (p - kept).sum(axis=1, keepdims=True)
    return np.asarray(kept + given * (lacking / lacking.sum()))
