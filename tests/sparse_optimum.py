"""The minimum of a likelihood with norms of blocks of weights as penalties, in extended precision.

    F(W) = Σ_n s_n loss_n(W) + Σ_b p_b ‖W_b‖₂ + ½ Σ_j q_j W_j²

Blocks are single weights (lasso), columns together (group lasso), or a column's weights of all classes. The judge of
duality gaps and of supports: it stops by the optimality conditions, in 64 bits of mantissa where the platform has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Long = np.longdouble
LARGEST = float(np.log(np.finfo(Long).max)) - 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockProblem:
    """Rows, and the blocks of the penalty over W, (1 + D) × G with the intercepts first; G = 1 for two classes, else K.

    ``block`` numbers the block of each weight, −1 for a free one; ``penalty`` is p of each block, ``ridge`` q of each
    weight.
    """

    X: Any
    t: Any
    K: int
    s: Any
    offset: Any
    block: Any
    penalty: Any
    ridge: Any

    def __post_init__(self) -> None:
        Z = np.column_stack([np.ones(len(self.X)), self.X]).astype(Long)
        own = np.flatnonzero(self.block.ravel() >= 0)
        T = np.eye(self.K, dtype=Long)[self.t]
        members = [np.flatnonzero(self.block.ravel() == b) for b in range(len(self.penalty))]
        for name, value in {"Z": Z, "own": own, "T": T, "members": members}.items():
            object.__setattr__(self, name, value)

    def loss(self, W: Any) -> tuple[Any, Any]:
        """Loss of each row, and residuals P − T (rows, G)."""
        A = self.Z @ W
        if self.offset is not None:
            A = A + np.asarray(self.offset, dtype=Long).reshape(len(A), -1)
        if W.shape[1] == 1:
            A = np.column_stack([np.zeros(len(A), dtype=Long), A[:, 0]])
        rows = np.arange(len(A))
        E = np.exp(np.clip(A - A[rows, self.t][:, None], None, LARGEST))
        E[rows, self.t] = 0
        others = E.sum(axis=1)
        R = E / (1 + others)[:, None]
        R[rows, self.t] = -others / (1 + others)  # 1 − p of a row's own class keeps its digits
        return np.log1p(others), R[:, 1:] if W.shape[1] == 1 else R

    def norms(self, W: Any) -> Any:
        """‖W_b‖ of each block."""
        total = np.zeros(len(self.penalty), dtype=Long)
        np.add.at(total, self.block.ravel()[self.own], W.ravel()[self.own] ** 2)
        return np.sqrt(total)

    def value(self, W: Any) -> Any:
        """F(W)."""
        W = np.asarray(W, dtype=Long)
        return (self.s * self.loss(W)[0]).sum() + (self.penalty * self.norms(W)).sum() + (self.ridge * W**2).sum() / 2

    def gradient(self, W: Any) -> Any:
        """Gradient of F without the norms."""
        return self.Z.T @ (self.s[:, None] * self.loss(W)[1]) + self.ridge * W

    def floor(self, W: Any) -> float:
        """Four roundings in double precision of each term of F, those of the activations included."""
        sizes = np.abs(self.Z) @ np.abs(W).max(axis=1)
        pull = np.abs(self.loss(np.asarray(W, dtype=Long))[1]).max(axis=1)
        return float(2.0**-50 * (self.value(W) + self.s @ (pull * sizes)))

    def feasibility_floor(self, W: Any) -> float:
        """Two roundings of the gradient, relative to the smallest penalty: a point of the dual is no closer known."""
        residuals = np.abs(self.loss(np.asarray(W, dtype=Long))[1]).max(axis=1)
        gradient = np.abs(self.Z).T @ (self.s * residuals)
        return float(2.0**-51 * gradient.max() / self.penalty.min(initial=np.inf) * self.value(W))

    def hessian(self, W: Any, active: Any) -> Any:
        """Hessian of F on the active weights, in float64: good enough to converge by."""
        Z, G = self.Z.astype(np.float64), W.shape[1]
        P = (self.loss(W)[1] + (self.T[:, 1:] if G == 1 else self.T)).astype(np.float64)
        H = np.zeros((Z.shape[1], G, Z.shape[1], G))
        for j in range(G):
            for k in range(j + 1):
                # 1 − p from the residual of a row whose class it is would be exact; these digits suffice.
                h = self.s * P[:, j] * ((j == k) - P[:, k])
                H[:, j, :, k] = Z.T @ (h[:, None] * Z)
                H[:, k, :, j] = H[:, j, :, k]
        H = H.reshape(active.size, active.size)[np.ix_(active, active)]
        return H + np.diag(self.ridge.ravel()[active].astype(np.float64))


def block_problem(
    X: Any, t: Any, K: int, *, scale: float, gaussian: Any = None, factors: Any = None, groups: Any = None, **rows: Any
) -> BlockProblem:
    """The problem of ``LaplacePrior(scale, groups, gaussian, factors)``; ``rows`` are ``s`` and ``offset``.

    Groups of columns have a penalty of sqrt(size) / scale, those of classes (``"class"``) one of 1 / scale.
    """
    X, G = np.asarray(X, dtype=np.float64), 1 if K == 2 else K
    D = X.shape[1]
    f = np.ones(D) if factors is None else np.asarray(factors, dtype=np.float64)
    number = np.arange(D * G).reshape(D, G)
    share = np.repeat(f[:, None], G, axis=1)
    if groups == "class":
        number = np.repeat(np.arange(D)[:, None], G, axis=1)
    elif groups is not None:
        for members in groups:
            number[members] = number[members[0]]  # each class has groups of its own
            share[members] = np.sqrt(len(members))
    number = np.where(share > 0, number, -1)
    kept, block = np.unique(number[number >= 0], return_inverse=True)
    penalty = np.array([share[number == b][0] for b in kept], dtype=Long) / Long(scale)
    full = np.full((1 + D, G), -1)
    full[1:][number >= 0] = block
    ridge = np.zeros((1 + D, G), dtype=Long)
    ridge[1:] = 0 if gaussian is None else 1 / Long(gaussian) ** 2
    s = np.ones(len(X)) if rows.get("s") is None else np.asarray(rows["s"], dtype=np.float64)
    return BlockProblem(
        X=X, t=np.asarray(t), K=K, s=s, offset=rows.get("offset"), block=full, penalty=penalty, ridge=ridge
    )


@dataclass(frozen=True, eq=False)
class Optimum:
    """The minimiser, the minimum, an estimate of what is left, and for each block the share of its penalty used.

    A block is zero for sure where ``used`` is below 1. ``unique`` says whether curvature holds all weights that may
    differ from zero.
    """

    W: Any
    value: Any
    left: float
    used: Any
    unique: bool


def minimise(problem: BlockProblem, W: Any = None, rounds: int = 200) -> Optimum:
    """Minimise F.

    Each round
      1. takes a proximal step in every block that is not zero or violates its condition,
      2. takes Newton steps in the weights that are not zero, cut off where a single weight changes its sign,
      3. stops when no block violates its condition and the Newton decrement is at rounding.
    """
    shape = problem.block.shape
    W = np.zeros(shape, dtype=Long) if W is None else np.array(W, dtype=Long).reshape(shape)
    left, last = np.inf, np.inf
    for _ in range(rounds):
        W = proximal_sweep(problem, W)  # 1
        for _ in range(30):  # 2
            W, left, cut = newton_step(problem, W)
            if not cut and left <= 1e-24 * float(problem.value(W)):
                break
        used = used_share(problem, W)  # 3
        if float(used.max(initial=0.0)) <= 1 + 1e-13 and (left <= 1e-26 * float(problem.value(W)) or left >= last):
            break
        last = left
    may = np.isin(problem.block, np.flatnonzero(used >= 1 - 1e-6)) | (problem.block < 0)
    return Optimum(W, problem.value(W), left, used, _is_curved(problem, W, may.ravel()))


def _is_curved(problem: BlockProblem, W: Any, may: Any) -> bool:
    H = curvature(problem, W, may)
    if W.shape[1] > 1:  # a shift common to all intercepts changes nothing
        first = np.zeros(W.size)
        first[: W.shape[1]] = 1.0
        H = H + np.outer(first[may], first[may]) * max(1.0, float(H.max()))
    size = np.sqrt(np.maximum(np.diag(H), 1e-300))
    return bool(np.linalg.eigvalsh(H / np.outer(size, size))[0] > 1e-9)


def used_share(problem: BlockProblem, W: Any) -> Any:
    """‖gradient‖ / penalty of each block."""
    return problem.norms(problem.gradient(W)) / problem.penalty


def proximal_sweep(problem: BlockProblem, W: Any) -> Any:
    """One proximal step in each block that is not zero or that violates its condition, one after the other."""
    W = W.copy()
    used, norms = used_share(problem, W), problem.norms(W)
    bound = (problem.s[:, None] * problem.Z**2).sum(axis=0) * (Long(0.25) if W.shape[1] == 1 else Long(0.5))
    steepest = (bound[:, None] + problem.ridge).ravel()
    for b in np.flatnonzero((norms > 0) | (used > 1)):
        own = problem.members[b]
        L = steepest[np.unique(own // W.shape[1]) * W.shape[1]].sum() * Long(1 + 1e-12)
        if L == 0:  # columns of zeros
            W.ravel()[own] = 0
            continue
        v = W.ravel()[own] - problem.gradient(W).ravel()[own] / L
        size = np.sqrt((v**2).sum())
        W.ravel()[own] = v * max(Long(0), 1 - problem.penalty[b] / (L * size)) if size > 0 else v
    return W


def curvature(problem: BlockProblem, W: Any, active: Any) -> Any:
    """Hessian of F on the active weights, that of the norms of blocks which are not zero included."""
    H, norms, place = problem.hessian(W, active), problem.norms(W), np.cumsum(active) - 1
    for b in np.flatnonzero(norms > 0):
        own = problem.members[b]
        if len(own) > 1:
            at, u = place[own], (W.ravel()[own] / norms[b]).astype(np.float64)
            H[np.ix_(at, at)] += float(problem.penalty[b] / norms[b]) * (np.eye(len(own)) - np.outer(u, u))
    return H


def newton_step(problem: BlockProblem, W: Any) -> tuple[Any, float, bool]:
    """A Newton step in the weights that are not zero: the new weights, half the decrement, whether it was cut off."""
    norms = problem.norms(W)
    block = problem.block.ravel()
    active = (block < 0) | (norms > 0)[block]
    g = problem.gradient(W).ravel()
    H = curvature(problem, W, active)
    for b in np.flatnonzero(norms > 0):
        own = problem.members[b]
        g[own] += problem.penalty[b] * W.ravel()[own] / norms[b]
    h = g[active]
    size = np.sqrt(np.maximum(np.diag(H), 1e-300))
    values, vectors = np.linalg.eigh(H / np.outer(size, size))
    largest = np.abs(h).max(initial=Long(0)) or Long(1)
    scaled = (h / largest).astype(np.float64) / size
    d = -(vectors @ ((vectors.T @ scaled) / np.maximum(values, 1e-13))) / size * largest
    left = float(-(h @ d)) / 2
    w, step, cut = W.ravel()[active], Long(1), -1
    single = np.isin(block[active], [b for b, own in enumerate(problem.members) if len(own) == 1])
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(single & (w * d < 0), -w / d, np.inf)
    if len(reach) and reach.min() < 1:
        step, cut = reach.min(), int(reach.argmin())
    before = problem.value(W)
    for _ in range(60):
        new = W.copy()
        moved = w + step * d
        if cut >= 0 and step == reach[cut]:
            moved[cut] = 0
        new.ravel()[active] = moved
        if problem.value(new) <= before:
            return new, left, cut >= 0
        step /= 2
    return W, left, False
