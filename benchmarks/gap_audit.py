"""Duality gaps against the truth: random problems with Laplace priors, their optima in 300 bits.

    python -m benchmarks.gap_audit --problems 500

The truth is F(w) − F* at the reported weights w. A gap must never be below it, and within ten times of it or of the
floor: four roundings (2⁻⁵⁰) of each term of F, that of the activations a_n included,

    floor = 2⁻⁵⁰ (F + Σ_n s_n |∂loss_n/∂a_n| (|b| + Σ_j |x_nj w_j|)).

The optimum's weights have 64 bits of mantissa (`tests.sparse_optimum`), so that F there is F* to some 1e-30; F is
evaluated in 300 bits at both. Needs python-flint.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import flint
import numpy as np
import pandas
from scipy import sparse
from tests.sparse_optimum import BlockProblem, Optimum, block_problem, minimise
from tests.sparse_problems import WAYS, forced

from oddsmith import LaplacePrior, LogisticRegression, regularization_path
from oddsmith.errors import ConvergenceWarning

BITS = 300
PRIORS = ("lasso", "elastic net", "groups", "factors")
SHAPES = ((40, 8), (150, 12), (400, 20), (30, 70), (60, 150))
TOLERANCES = (None, None, 1e-6, 1e-10, 1e-12)


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A problem: the rows as they are given, the dense matrix they stand for, and how it is solved."""

    number: int
    way: str
    given: Any
    X: Any
    t: Any
    K: int
    scale: float
    prior: dict[str, Any]
    groups: Any
    tol: float | None
    rows: dict[str, Any] = field(default_factory=dict)
    as_path: bool = False

    @property
    def kind(self) -> str:
        prior = next((name for name in ("groups", "gaussian", "factors") if self.prior.get(name) is not None), "lasso")
        return f"{self.way}, {'path' if self.as_path else 'fit'}, {'softmax' if self.K > 2 else 'two classes'}, {prior}"


def make_case(number: int) -> Case:
    """Build problem ``number``: ways and priors take turns, all else is drawn."""
    rng = np.random.default_rng([27, number])
    way, prior_kind = list(WAYS)[number % len(WAYS)], PRIORS[number // len(WAYS) % len(PRIORS)]
    K = int(rng.choice([2, 2, 3, 4]))
    if way == "together":
        K = 2
    if way == "by columns" and prior_kind in ("groups", "factors"):
        K = max(K, 3) if prior_kind == "groups" else K
    N, D = SHAPES[int(rng.integers(len(SHAPES)))]
    if way == "together":
        N, D = int(rng.integers(400, 1500)), int(rng.integers(4, 13))
    X = rng.normal(size=(N, D)) @ (np.eye(D) + rng.choice([0.0, 0.3]))
    X = X * 10.0 ** rng.uniform(-2, 2, D if rng.random() < 0.3 else 1) + (rng.random() < 0.3) * rng.normal(size=D)
    given: Any = X
    form = rng.choice(["dense", "CSR", "table"], p=[0.5, 0.3, 0.2])
    if form == "CSR":
        X = X * (rng.random(X.shape) < 0.5)
        given = sparse.csr_array(X)
    if form == "table" and way in ("all columns", "one Hessian"):
        names = [f"x{j}" for j in range(D - 3)]
        given = pandas.DataFrame(X[:, : D - 3], columns=names)
        given["level"] = pandas.Categorical([f"l{i % 4}" for i in range(N)])
        X = np.column_stack([X[:, : D - 3], *((np.arange(N) % 4 == level).astype(float) for level in (1, 2, 3))])
    a = X @ (rng.normal(size=(D, K)) * (rng.random((D, 1)) < 0.5))
    t = np.argmax(2.0 * a / max(a.std(), 1e-300) + rng.gumbel(size=(N, K)), axis=1)
    t[: 2 * K] = np.repeat(np.arange(K), 2)
    rows: dict[str, Any] = {}
    if rng.random() < 0.25:
        rows["sample_weight"] = rng.uniform(0.2, 3.0, N)
    if rng.random() < 0.2 and way != "together":
        rows["offset"] = rng.normal(size=N if K == 2 else (N, K))
    prior: dict[str, Any] = {}
    groups: Any = None
    if prior_kind == "elastic net":
        prior["gaussian"] = float(10.0 ** rng.uniform(-1, 1) / X.std())
    if prior_kind == "groups":
        if K > 2 and (way == "by columns" or rng.random() < 0.5):
            prior["groups"] = groups = "class"
        elif way != "by columns":
            prior["groups"] = groups = [list(range(j, j + 3)) for j in range(0, D - 2, 3)]
    if prior_kind == "factors":
        factors = rng.uniform(0.5, 2.0, D)
        if way != "by columns":
            factors[rng.integers(D)] = 0.0
        prior["factors"] = factors
    if isinstance(given, pandas.DataFrame) and groups not in (None, "class"):
        prior["groups"] = "factor"
        groups = [list(range(D - 3, D))]
    Y, s = np.eye(K)[t], rows.get("sample_weight", np.ones(N))
    smallest = 1.0 / float(np.abs(X.T @ (s[:, None] * (Y - s @ Y / s.sum()))).max())
    scale = smallest * 10.0 ** rng.uniform(0.1, 1.8)
    tol = TOLERANCES[int(rng.integers(len(TOLERANCES)))]
    return Case(
        number=number, way=way, given=given, X=X, t=t, K=K, scale=scale, prior=prior, groups=groups, tol=tol,
        rows=rows, as_path=way == "together" or bool(rng.random() < 0.4),
    )  # fmt: skip


def solutions(case: Case) -> Iterator[tuple[float, Any, float, float]]:
    """Yield scale, weights ((1 + D) × G), gap and tolerance of each solution of a case."""
    tol = {} if case.tol is None else {"tol": case.tol}
    with warnings.catch_warnings(), forced(case.way):
        warnings.simplefilter("ignore", ConvergenceWarning)
        if case.as_path:
            scales = case.scale * np.geomspace(0.2, 1.0, 7)
            prior = LaplacePrior(1.0, **case.prior)
            path = regularization_path(case.given, case.t, scales=scales, prior=prior, **case.rows, **tol)
            for k in (1, 3, 5, 6):
                gap = float(path.gap[k] * max(1.0, abs(path.objective[k])))
                W = path.points[k].toarray().T
                yield float(path.scales[k]), W, gap, path.origin.tol
        else:
            model = LogisticRegression(LaplacePrior(case.scale, **case.prior), **tol)
            model.fit(case.given, case.t, **case.rows)
            yield case.scale, np.vstack([model.intercept_, model.coef_.T]), model.certificate_.gap, model.tol


# Extended precision --------------------------------------------------------------------------------------------------


def exact(x: Any) -> flint.arb:
    """Return a number of up to 64 bits of mantissa without rounding."""
    high = float(x)
    return flint.arb(high) + flint.arb(float(x - np.longdouble(high)))


@dataclass(frozen=True)
class Wide:
    """A problem in 300 bits: F with its derivatives over some weights."""

    problem: BlockProblem

    def activations(self, W: list[list[flint.arb]]) -> list[list[flint.arb]]:
        Z = flint.arb_mat([[flint.arb(float(z)) for z in row] for row in self.problem.Z])
        A = (Z * flint.arb_mat(W)).tolist()
        if self.problem.offset is not None:
            offset = np.asarray(self.problem.offset).reshape(len(A), -1)
            A = [[a + float(o) for a, o in zip(row, given, strict=True)] for row, given in zip(A, offset, strict=True)]
        return [[flint.arb(0), *row] for row in A] if len(W[0]) == 1 else A

    def probabilities(self, A: list[list[flint.arb]]) -> tuple[flint.arb, list[list[flint.arb]]]:
        """Return the loss, and the residuals of each row times its weight."""
        loss, residuals = flint.arb(0), []
        for row, k, s in zip(A, self.problem.t, self.problem.s, strict=True):
            powers = [(a - row[k]).exp() for a in row]
            total = sum(powers, flint.arb(0))
            loss += float(s) * total.log()
            residuals.append([float(s) * (power / total - (i == k)) for i, power in enumerate(powers)])
        return loss, residuals

    def penalty(self, W: list[list[flint.arb]]) -> flint.arb:
        G, total = len(W[0]), flint.arb(0)
        for b, own in enumerate(self.problem.members):
            total += exact(self.problem.penalty[b]) * sum((W[i // G][i % G] ** 2 for i in own), flint.arb(0)).sqrt()
        ridge = self.problem.ridge
        for row, q in zip(W, ridge, strict=True):
            total += sum((exact(r) * w * w for r, w in zip(q, row, strict=True)), flint.arb(0)) / 2
        return total

    def value(self, W: list[list[flint.arb]]) -> flint.arb:
        return self.probabilities(self.activations(W))[0] + self.penalty(W)


def truth_of(problem: BlockProblem, W: Any, optimum: Optimum) -> float:
    """Return F(W) − F* with F in 300 bits at both."""
    flint.ctx.prec = BITS
    wide = Wide(problem)
    given = [[flint.arb(float(w)) for w in row] for row in W]
    best = [[exact(w) for w in row] for row in optimum.W]
    return float((wide.value(given) - wide.value(best)).mid())


def main() -> None:
    """Judge problems and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    found, start = defaultdict(list), time.perf_counter()
    solved = 0.0
    for number in range(given.first, given.first + given.problems):
        if time.perf_counter() - start > given.seconds:
            break
        case = make_case(number)
        begun = time.perf_counter()
        each = list(solutions(case))
        solved += time.perf_counter() - begun
        for scale, W, gap, tol in each:
            rows = {"s": case.rows.get("sample_weight"), "offset": case.rows.get("offset")}
            known = {**case.prior, "groups": case.groups}
            judged = block_problem(case.X, case.t, case.K, scale=scale, **known, **rows)
            optimum = minimise(judged, W)
            truth, floor = truth_of(judged, W, optimum), judged.floor(W)
            value = float(optimum.value)
            sound = optimum.left <= 1e-20 * value and float(optimum.used.max(initial=0.0)) <= 1 + 1e-10
            row = (number, gap / value, truth / value, floor / value, gap <= tol * max(1.0, value), sound)
            found[case.kind].append(row)
            ratio = gap / max(truth, floor)
            if given.verbose or (gap < truth) or ratio > 10.0 or not row[4] or not sound:
                print(
                    f"{number:4d} {case.kind}, {case.X.shape}, tol {tol:.0e}: gap {gap / value:.1e}, "
                    f"truth {truth / value:.1e}, floor {floor / value:.1e}, ratio {ratio:.1f}"
                    + ("" if row[4] else ", NOT CONVERGED") + ("" if sound else ", NO OPTIMUM")
                    + (", BELOW" if gap < truth - floor else ", below by rounding" if gap < truth else ""),
                    flush=True,
                )  # fmt: skip
    report(found, solved)


def report(found: dict[str, list[Any]], solved: float) -> None:
    """Print how many gaps are true, and how many within ten times of it."""
    print(f"{'kind':50} solutions  below truth  within 10  median ratio  largest  converged")
    everything = [row for rows in found.values() for row in rows]
    for kind, judged in [*sorted(found.items()), ("all", everything)]:
        _, gap, truth, floor, converged, _ = np.array([row for row in judged if row[-1]]).T
        ratio = gap / np.maximum(truth, floor)
        print(
            f"{kind:50} {len(ratio):9d} {int((gap < truth - floor).sum()):12d} {np.mean(ratio <= 10.0):10.1%} "
            f"{np.median(ratio):13.2g} {ratio.max():8.2g} {np.mean(converged):10.1%}"
        )
    print(f"{solved:.1f} s in fits")


if __name__ == "__main__":
    main()
