"""The lectures' iterative methods, with every iterate: gradient descent, SGD, Newton's method, the perceptron.

Sums over rows, no scaling, the given start: what a book prints, not what `oddsmith.solvers` does. Weights are a matrix
W of C × M: one row for two classes, one for each of more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from oddsmith.numerics import Array, log_softmax
from oddsmith.protocols import Indices
from oddsmith.solvers.certificate import gap_bound

FARTHEST = 1e6  # A path that leaves this box has diverged.


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """The objective of the steps: E(W) = −Σ log p(t | φ) + ½ α‖W‖², the intercept's column free of the prior.

    ``firth`` adds −½ log det of the information (Jeffreys' prior), for two classes. ``Phi`` has a first column of ones,
    ``t`` the codes of the classes from 0 to K − 1.
    """

    Phi: Array
    t: Indices
    K: int
    alpha: float = 0.0
    firth: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the weights."""
        return (1 if self.K == 2 else self.K), self.Phi.shape[1]

    def log_probabilities(self, W: Array) -> Array:
        """Return log p(C_k | φ) of each row, N × K."""
        A = self.Phi @ W.T
        return log_softmax(np.column_stack([np.zeros(len(A)), A]) if self.K == 2 else A)

    def residuals(self, W: Array) -> Array:
        """Return y − t of each row and function, N × C."""
        R = np.exp(self.log_probabilities(W)) - np.eye(self.K)[self.t]
        return R[:, 1:] if self.K == 2 else R

    def log_likelihood(self, W: Array) -> float:
        """Return Σ log p(t | φ)."""
        return float(self.log_probabilities(W)[np.arange(len(self.t)), self.t].sum())

    def value(self, W: Array) -> float:
        """Return the objective."""
        E = -self.log_likelihood(W) + 0.5 * self.alpha * float((W[:, 1:] ** 2).sum())
        return E - 0.5 * float(np.linalg.slogdet(self.hessian(W))[1]) if self.firth else E

    def gradient(self, W: Array) -> Array:
        """Return ∇E, C × M; with Firth's correction y − t becomes y − t + h (y − ½), h the leverages."""
        R = self.residuals(W)
        if self.firth:
            y = np.exp(self.log_probabilities(W))[:, 1]
            S, *_ = np.linalg.lstsq(self.hessian(W), self.Phi.T, rcond=None)
            h = y * (1 - y) * np.einsum("nm,mn->n", self.Phi, S)
            R = R + (h * (y - 0.5))[:, None]
        G = R.T @ self.Phi
        G[:, 1:] += self.alpha * W[:, 1:]
        return np.asarray(G)

    def hessian(self, W: Array) -> Array:
        """Return the Hessian of −log p(t | W) + ½ α‖W‖², CM × CM, a block for each pair of functions."""
        Y = np.exp(self.log_probabilities(W))
        Y = Y[:, 1:] if self.K == 2 else Y
        C, M = self.shape
        H = np.zeros((C, M, C, M))
        for i in range(C):
            for j in range(C):
                h = Y[:, i] * ((i == j) - Y[:, j])
                H[i, :, j, :] = self.Phi.T @ (h[:, None] * self.Phi)
            H[i, np.arange(1, M), i, np.arange(1, M)] += self.alpha
        return H.reshape(C * M, C * M)

    def is_flat(self, W: Array) -> bool:
        """Whether the Hessian is singular to rounding, beside the direction that all functions share."""
        C, M = self.shape
        roots = np.linalg.eigvalsh(self.hessian(W))
        return bool(roots[M if C > 1 else 0] <= 1e-12 * max(roots[-1], len(self.t) * 1e-3))

    def gap(self, W: Array) -> float:
        """Return a bound on E(W) − min E from the Newton decrement λ; infinite where none holds, NaN for Firth.

        A step of unit length in the norm of H changes no difference of two activations by more than ρ, and
        `gap_bound` needs λ and ρ.
        """
        if self.firth:
            return np.nan
        if self.is_flat(W):
            return np.inf
        (C, M), g = self.shape, self.gradient(W).ravel()
        S = np.linalg.pinv(self.hessian(W), hermitian=True).reshape(C, M, C, M)
        pairs = [(0, 0)] if C == 1 else list(combinations(range(C), 2))
        blocks = [S[i, :, i] if i == j else S[i, :, i] + S[j, :, j] - S[i, :, j] - S[j, :, i] for i, j in pairs]
        rho = np.sqrt(max(float(np.einsum("nm,ml,nl->n", self.Phi, B, self.Phi).max()) for B in blocks))
        decrement = np.sqrt(max(float(g @ S.reshape(C * M, C * M) @ g), 0.0))
        return gap_bound(float(decrement), float(rho))


def gradient_step(problem: Likelihood, W: Array, step_size: float) -> Array:
    """Return W − η ∇E(W): batch gradient descent, with the gradient a sum over all rows."""
    return np.asarray(W - step_size * problem.gradient(W))


def newton_step(problem: Likelihood, W: Array) -> Array:
    """Return W − H⁻¹ ∇E(W), which on a likelihood is one round of IRLS; the shortest solution where H is singular."""
    p, *_ = np.linalg.lstsq(problem.hessian(W), problem.gradient(W).ravel(), rcond=None)
    return np.asarray(W - p.reshape(W.shape))


def sgd_step(problem: Likelihood, W: Array, step_size: float, row: int) -> Array:
    """Return W − η (y_n − t_n) φ_n, one row's share of the gradient, with its share of the prior."""
    one = Likelihood(Phi=problem.Phi[[row]], t=problem.t[[row]], K=problem.K, alpha=problem.alpha / len(problem.t))
    return gradient_step(one, W, step_size)


def perceptron_step(problem: Likelihood, W: Array, step_size: float, first: int) -> tuple[Array, int | None]:
    """Return W + η t_n φ_n of the next mistake from row ``first`` on, and its row; None if there is no mistake.

    Targets are −1 and 1; a row on the boundary is a mistake. Of more classes, the functions of the right and of the
    largest class move towards and away from φ_n.
    """
    A = problem.Phi @ W.T
    N, rows = len(A), np.arange(len(A))
    if problem.K == 2:
        wrong = A[:, 0] * (2 * problem.t - 1) <= 0
    else:
        own = A[rows, problem.t]
        rest = np.where(np.eye(problem.K, dtype=bool)[problem.t], -np.inf, A)
        wrong = rest.max(axis=1) >= own
    order = (first + rows) % N
    mistakes = order[wrong[order]]
    if not len(mistakes):
        return W, None
    n = int(mistakes[0])
    moved = W.copy()
    if problem.K == 2:
        moved[0] += step_size * (2 * problem.t[n] - 1) * problem.Phi[n]
    else:
        moved[problem.t[n]] += step_size * problem.Phi[n]
        moved[int(rest[n].argmax())] -= step_size * problem.Phi[n]
    return moved, n


@dataclass(frozen=True)
class Path:
    """Weights after each step, S + 1 × C × M with the start; the rows that steps looked at; why it ended."""

    weights: Array
    rows: list[int]
    ending: str


def iterate(
    problem: Likelihood, W0: Array, method: str, *, step_size: float, count: int, theta: float, seed: int
) -> Path:
    """Return the path of a method from a start: at most ``count`` steps, until no weight moves by more than ``theta``.

    >>> Phi, t = np.array([[1.0, -1.0], [1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([0, 1, 0, 1])
    >>> problem = Likelihood(Phi=Phi, t=t, K=2, alpha=1.0)
    >>> path = iterate(problem, np.zeros((1, 2)), "newton", step_size=1.0, count=20, theta=1e-8, seed=0)
    >>> path.weights[-1].round(6).tolist(), path.ending
    ([[-0.226438, 0.452875]], 'converged')
    """
    rng = np.random.default_rng(seed)
    N, path, rows, n, ending = len(problem.t), [W0], [], 0, "stopped"
    order = rng.permutation(N)
    plain: dict[str, Callable[[Array], Array]] = {
        "gradient": lambda W: gradient_step(problem, W, step_size),
        "newton": lambda W: newton_step(problem, W),
    }
    for i in range(count):
        W = path[-1]
        if method in plain:
            new = plain[method](W)
        elif method == "sgd":
            if i and i % N == 0:
                order = rng.permutation(N)
            rows.append(int(order[i % N]))
            new = sgd_step(problem, W, step_size, rows[-1])
        else:
            new, found = perceptron_step(problem, W, step_size, n)
            if found is None:
                ending = "no mistakes"
                break
            rows.append(found)
            n = found + 1
        lost = method == "newton" and problem.is_flat(W)
        if lost or not np.isfinite(new).all() or np.abs(new).max() > FARTHEST:
            ending = "diverged"
            break
        path.append(new)
        if method in plain and np.abs(new - W).max() <= theta:
            ending = "converged"
            break
    return Path(np.array(path), rows, ending)


def trace_of(problem: Likelihood, path: Array, most: int = 300) -> dict[str, Array]:
    """Return what can be plotted over a path, at up to ``most`` of its points.

    ``gap`` bounds the objective less its optimum; infinite where no bound holds yet.
    """
    at = np.unique(np.linspace(0, len(path) - 1, min(len(path), most)).round().astype(int))
    measures: dict[str, Callable[[Array], float]] = {
        "objective": problem.value,
        "log_likelihood": problem.log_likelihood,
        "gradient_norm": lambda W: float(np.linalg.norm(problem.gradient(W))),
        "gap": problem.gap,
    }
    return {"step": at, **{name: np.array([measure(W) for W in path[at]]) for name, measure in measures.items()}}
