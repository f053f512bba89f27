"""The harness's own optimum: plain Newton in float64, slow and exact, so that gaps have something to be from.

Parameters are one vector θ: for each class (one for two classes) D weights, then the intercept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit, softmax

from .objective import Floats, objective, row_chunks
from .problem import Matrix, Problem, Weights

FULL_HESSIAN_PARAMETERS = 1_100
MAX_ITERATIONS = 60
DECREMENT = 1e-13

Direction = Callable[[Floats], tuple[Floats, Floats]]


def optimum(problem: Problem) -> tuple[Weights, float]:
    """Minimise f by Newton's method and return the weights and the value.

    Each iteration
      1. evaluates the gradient g at θ, and a direction p with H p = g,
      2. halves the step until f falls,
      3. stops when gᵀp is below 1e-13 of f, or f no longer falls.
    """
    facts = problem.facts()
    groups = 1 if facts.classes == 2 else facts.classes
    full = facts.parameters <= FULL_HESSIAN_PARAMETERS
    direction = _full_direction(problem, groups) if full else _conjugate_direction(problem, groups)
    theta = np.zeros(facts.parameters)
    value = objective(problem, unpack(theta, groups))
    for _ in range(MAX_ITERATIONS):
        g, p = direction(theta)  # 1
        step, trial = 1.0, np.inf
        while step > 1e-8:  # 2
            trial = objective(problem, unpack(theta - step * p, groups))
            if trial < value:
                break
            step /= 2
        if trial >= value:
            break
        theta, value = theta - step * p, trial
        if g @ p <= DECREMENT * value:  # 3
            break
    return unpack(theta, groups), value


def unpack(theta: Floats, groups: int) -> Weights:
    """Split θ into weights (groups, D) and intercepts (groups,)."""
    table = theta.reshape(groups, -1)
    return table[:, :-1].copy(), table[:, -1].copy()


def _prior_precision(problem: Problem, groups: int) -> Floats:
    alpha = 0.0 if problem.sigma is None else problem.sigma**-2
    return np.tile(np.r_[np.full(problem.X.shape[1], alpha), 0.0], groups)


def _probabilities(problem: Problem, rows: slice, W: Floats, b: Floats) -> tuple[Matrix, Floats, Floats]:
    """A chunk in float64, its probabilities and its residuals, each (n, groups)."""
    X = problem.X[rows].astype(np.float64, copy=False)
    a = X @ W.T + b
    t = problem.y[rows]
    if len(b) == 1:
        P = expit(a)
        return X, P, P - t[:, None]
    P = softmax(a, axis=1)
    R = P.copy()
    R[np.arange(len(t)), t] -= 1
    return X, P, R


def _curvature(P: Floats, k: int, m: int) -> Floats:
    """The weight of a row in block (k, m) of the Hessian."""
    if P.shape[1] == 1:
        return P[:, 0] * (1 - P[:, 0])
    return P[:, k] * ((k == m) - P[:, m])


def _full_direction(problem: Problem, groups: int) -> Direction:
    """Solve H p = g by Cholesky, H summed block by block."""
    precision = _prior_precision(problem, groups)
    width = problem.X.shape[1] + 1

    def direction(theta: Floats) -> tuple[Floats, Floats]:
        W, b = unpack(theta, groups)
        g, H = precision * theta, np.diag(precision)
        for rows in row_chunks(problem.X):
            X, P, R = _probabilities(problem, rows, W, b)
            if sparse.issparse(X):
                X = X.toarray()
            Phi = np.column_stack([X, np.ones(len(P))])
            g = g + (R.T @ Phi).ravel()
            for k in range(groups):
                for m in range(k + 1):
                    block = Phi.T @ (Phi * _curvature(P, k, m)[:, None])
                    H[k * width : (k + 1) * width, m * width : (m + 1) * width] += block
        H = np.tril(H) + np.tril(H, -1).T
        return g, _solve(H, g, width, groups, flat=problem.sigma is None)

    return direction


def _solve(H: Floats, g: Floats, width: int, groups: int, *, flat: bool) -> Floats:
    """Solve, after lifting the directions along which softmax is flat (a shift common to all classes)."""
    if groups > 1:
        for j in range(width) if flat else (width - 1,):
            H[np.ix_(range(j, groups * width, width), range(j, groups * width, width))] += H[j, j] + 1
    return np.asarray(cho_solve(cho_factor(H), g))


def _conjugate_direction(problem: Problem, groups: int) -> Direction:
    """Solve H p = g by conjugate gradients, preconditioned by H's diagonal; two classes only."""
    if groups > 1:
        raise ValueError(f"This softmax has over {FULL_HESSIAN_PARAMETERS} parameters: no optimum of its own.")
    precision = _prior_precision(problem, 1)
    X = problem.X.astype(np.float64, copy=False)
    squared = X.multiply(X).tocsr() if sparse.issparse(X) else X**2

    def direction(theta: Floats) -> tuple[Floats, Floats]:
        P = expit(X @ theta[:-1] + theta[-1])
        r, s = P - problem.y, P * (1 - P)
        g = np.r_[X.T @ r, r.sum()] + precision * theta

        def product(v: Floats) -> Floats:
            u = s * (X @ v[:-1] + v[-1])
            return np.asarray(np.r_[X.T @ u, u.sum()] + precision * v)

        diagonal = np.r_[squared.T @ s, s.sum()] + precision
        shape = (len(g), len(g))
        H = LinearOperator(shape, matvec=product, dtype=np.float64)
        M = LinearOperator(shape, matvec=lambda v: v / diagonal, dtype=np.float64)
        p, _ = cg(H, g, rtol=1e-3, maxiter=500, M=M)
        return g, p

    return direction
