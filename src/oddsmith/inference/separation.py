"""Separation of the classes, by linear programming.

The likelihood of logistic or softmax regression has a maximum exactly when no direction ``d ≠ 0`` of the
weights orders every row on its own class's side: ``m_nk = (d_t − d_k)ᵀ(1, x_n) ≥ 0`` for all rows n and classes
k ≠ t_n, with some m > 0. If all m > 0 can be had at once, the separation is complete, else quasi-complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from oddsmith.design.inputs import check_finite, read_labels, read_rows, read_weights, split_target
from oddsmith.numerics import Array, factor_spd
from oddsmith.records import Table

WORKING_ROWS = 2000
SLACK = 1e-9


@dataclass(frozen=True)
class Separation(Table):
    """Whether and how the classes are separated.

    Attributes
    ----------
    kind : "none", "quasi" or "complete"
    infinite : dict
        Term → +1 or −1, the direction in which its estimate runs away; (class, term) → for more than two
        classes. The intercept is called ``(intercept)``.
    """

    kind: str
    infinite: dict[Any, int]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per term that runs away."""
        return {"term": list(self.infinite), "sign": list(self.infinite.values())}

    def __str__(self) -> str:
        if self.kind == "none":
            return "The classes overlap: the maximum likelihood estimate exists."
        how = "completely" if self.kind == "complete" else "quasi-completely"
        terms = ", ".join(f"{term!r} → {'+' if sign > 0 else '−'}∞" for term, sign in self.infinite.items())
        return f"The classes are {how} separated; running away: {terms}."


def detect_separation(X: Any, y: Any, *, sample_weight: Any = None, fit_intercept: bool = True) -> Separation:
    """Return whether the maximum likelihood estimate exists, and which weights run away if not.

    Rows of weight 0 do not count. Cost: a few linear programs over a working set of rows that grows by those
    that the last answer got wrong, so that large data needs few rows in the program.

    >>> detect_separation([[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]).kind
    'complete'
    >>> detect_separation([[1.0], [2.0], [2.0], [4.0]], [0, 0, 1, 1]).infinite
    {'(intercept)': -1, 'x0': 1}
    >>> detect_separation([[1.0], [3.0], [2.0], [4.0]], [0, 0, 1, 1]).kind
    'none'
    """
    from sklearn.base import BaseEstimator

    X, y = split_target(X, y)
    probe = BaseEstimator()
    rows = read_rows(probe, X, reset=True)
    names = getattr(probe, "feature_names_in_", None)
    check_finite(rows, names)
    classes, t = read_labels(y, rows.shape[0])
    s = read_weights(sample_weight, rows.shape[0])
    if s is not None:
        rows, t = rows[s > 0], t[s > 0]
    terms = [f"x{j}" for j in range(rows.shape[1])] if names is None else [str(name) for name in names]
    return separation(rows, t, classes, terms, fit_intercept=fit_intercept)


def separation(
    rows: Any, t: npt.NDArray[np.int32], classes: npt.NDArray[Any], terms: list[str], *, fit_intercept: bool
) -> Separation:
    """Diagnose checked rows; see `detect_separation`."""
    Z, scale, kept = _scaled(rows, fit_intercept)
    D = _direction(Z, t, len(classes))
    if D is None:
        return Separation("none", {})
    direction, complete = D
    slopes = np.zeros((len(classes) - 1, len(kept)))
    slopes[:, kept] = direction / scale
    largest = np.abs(direction).max()
    infinite: dict[Any, int] = {}
    labels = classes.tolist()
    for k, row in enumerate(slopes):
        for j, value in enumerate(row):
            if kept[j] and abs(value * scale[np.count_nonzero(kept[:j])]) > 1e-6 * largest:
                term = terms[j - 1] if j else "(intercept)"
                key = term if len(classes) == 2 else (labels[k + 1], term)
                infinite[key] = 1 if value > 0 else -1
    return Separation("complete" if complete else "quasi", infinite)


def _scaled(rows: Any, fit_intercept: bool) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Return the independent columns, the intercept first, scaled to unit length; and which they are.

    Columns are shifted by their mean only inside the rank check; a direction is the same in either form
    because the intercept takes up the shift.
    """
    dense = np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
    Z = np.column_stack([np.full(len(dense), float(fit_intercept)), dense])
    scale = np.sqrt((Z**2).mean(axis=0))
    centred = Z / np.where(scale > 0, scale, 1.0)
    if fit_intercept:
        centred[:, 1:] -= centred[:, 1:].mean(axis=0)
    kept = factor_spd(centred.T @ centred).kept & (scale > 0)
    return Z[:, kept] / scale[kept], scale[kept], kept


def _direction(Z: Array, t: npt.NDArray[np.int32], K: int) -> tuple[Array, bool] | None:
    """Return a separating direction (K−1 × P) and whether it is complete, or None.

    1. Solve the program on a working set of rows. 2. None there, at full rank: none at all.
    3. Check the direction on all rows; add rows on the wrong side, or not strictly separated; repeat.
    """
    rng = np.random.default_rng(0)
    n, P = Z.shape
    order = rng.permutation(n)
    working = np.zeros(n, dtype=bool)
    working[order[:WORKING_ROWS]] = True
    while True:
        D = _program(Z[working], t[working], K)  # 1
        if D is None:
            if working.all() or np.linalg.matrix_rank(Z[working]) == P:  # 2
                return None
            working[rng.permutation(np.flatnonzero(~working))[:WORKING_ROWS]] = True
            continue
        margins = _margins(Z, t, D)  # 3
        tight = margins <= SLACK * np.abs(D).max()
        if margins.min() < -SLACK * np.abs(D).max():
            if working.all():
                return None  # the program's own tolerance let a wrong side pass
            wrong = np.flatnonzero(~working & tight)
        else:
            wrong = np.flatnonzero(~working & tight)
            if not len(wrong):
                return D, not tight.any()
        working[wrong[np.argsort(margins[wrong])[:WORKING_ROWS]]] = True


def _margins(Z: Array, t: npt.NDArray[np.int32], D: Array) -> Array:
    """Return the smallest margin of each row against the other classes."""
    A = np.column_stack([np.zeros(len(Z)), Z @ D.T])
    own = A[np.arange(len(Z)), t]
    A[np.arange(len(Z)), t] = -np.inf
    result: Array = own - A.max(axis=1)
    return result


def _program(Z: Array, t: npt.NDArray[np.int32], K: int) -> Array | None:
    """Maximise Σ v over directions with margins m ≥ v, 0 ≤ v ≤ 1; None if only v = 0 is possible."""
    P = Z.shape[1]
    C = K - 1
    parts = []
    for k in range(K):
        for other in range(K):
            inside = np.flatnonzero(t == k)
            if other == k or not len(inside):
                continue
            A = np.zeros((len(inside), C, P))
            if k > 0:
                A[:, k - 1] += Z[inside]
            if other > 0:
                A[:, other - 1] -= Z[inside]
            parts.append(A.reshape(len(inside), C * P))
    margins = np.concatenate(parts)
    m = len(margins)
    matrix = sparse.hstack([sparse.csr_array(-margins), sparse.eye_array(m)], format="csr")
    cost = np.concatenate([np.zeros(C * P), -np.ones(m)])
    bounds = np.concatenate([np.tile([-1e5, 1e5], (C * P, 1)), np.tile([0.0, 1.0], (m, 1))])
    answer = optimize.linprog(cost, A_ub=matrix, b_ub=np.zeros(m), bounds=bounds, method="highs")
    if answer.x is None or -answer.fun < 0.5:
        return None
    D = answer.x[: C * P].reshape(C, P)
    result: Array = D / np.abs(D).max()
    return result
