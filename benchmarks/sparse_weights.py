"""Paths of the lasso: ``python -m benchmarks.sparse_weights [CASE …] [--only LIBRARY …] [--seed N]``.

    wide      2,000 × 10,000, neighbouring columns correlated
    tall      300,000 × 100, neighbouring columns correlated
    sparse    20,000 × 50,000, 80 non-zeros a row, heavy-tailed columns
    softmax   4,500 × 130,000, sparse, 20 classes: the shape of 20 newsgroups
    cv        50,000 × 200, five folds of the whole path
    files     62,500,000 × 40 in Parquet files (20 GB): passes of the path against those of a fit with a Gaussian prior

The objective is one, ``Σ_n loss_n + Σ_j |w_j| / scale`` with a free intercept, at 50 scales from the smallest useful
one, below which all weights are zero, to a hundred times it. Time is that of the whole path. Gaps are relative to the
best objective known of each point, and the largest of the path counts: libraries go down a ladder of tolerances until
it is 1e-5, ours must be 1e-7 by its own certificate.

The best objective known is the least of all runs, of which the first is glmnet at 1e-13, polished by Newton's method.
The harness evaluates a duality gap of its own at those weights, so it knows how good the best is. Objectives are kept
in ``--keep``, and serve the next run. Each library runs in a process of its own, stopped after ``--budget`` seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve
from scipy.special import expit, logsumexp, softmax, xlogy

from . import machine, store
from . import path_peers as peers
from .generators import chunks, zipf
from .measure import printed_records

Floats = NDArray[np.float64]
POINTS = 50
FOLDS = 5
GOAL = 1e-5
LARGEST_SUPPORT = 3_000
OUR_GOAL = 1e-7
CASES = (*peers.ALL, "files")
KEPT = store.CACHE / "sparse_weights"


@dataclass(frozen=True)
class Data:
    """A table (dense in Fortran order, or CSC), labels 0 … K − 1, the scales, ascending, and the fold of each row."""

    X: Any
    y: NDArray[np.int64]
    scales: Floats
    fold: NDArray[np.int64] | None = None

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    @property
    def folds(self) -> int:
        return 0 if self.fold is None else int(self.fold.max()) + 1

    def without_fold(self, k: int | None) -> Data:
        """The rows of the other folds, or all rows, at the same scales."""
        if k is None or self.fold is None:
            return replace(self, fold=None)
        rows = np.flatnonzero(self.fold != k)
        return Data(np.asfortranarray(self.X[rows]), self.y[rows], self.scales)


def smallest_scale(X: Any, y: NDArray[np.int64]) -> float:
    """The scale below which all weights are zero: ``1 / max |Xᵀ (Y − mean of Y)|``."""
    Y = (y[:, None] == np.arange(int(y.max()) + 1)).astype(np.float64)
    return 1.0 / float(np.abs(X.T @ (Y - Y.mean(axis=0))).max())


def path_scales(X: Any, y: NDArray[np.int64], points: int = POINTS) -> Floats:
    """Scales from the smallest useful one to a hundred times it, in equal ratios."""
    return smallest_scale(X, y) * np.geomspace(1.0, 100.0, points)


def correlated_neighbours(rows: int, columns: int, *, rho: float, active: int, seed: int) -> Data:
    """Standardised columns, each correlated with the one before; ``active`` of them matter, spread evenly.

    Columns are standardised exactly, because some libraries always penalise them so.
    """
    X = np.empty((rows, columns), order="F")
    a, y = np.empty(rows), np.empty(rows, dtype=np.int64)
    w = np.zeros(columns)
    where = np.linspace(0, columns - 1, active).astype(int)
    w[where] = np.random.default_rng(seed).choice([-1.0, 1.0], active) * np.geomspace(1.0, 0.1, active)
    for part, stream in chunks(rows, seed):
        z = stream.standard_normal((part.stop - part.start, columns))
        for j in range(1, columns):
            z[:, j] = rho * z[:, j - 1] + np.sqrt(1.0 - rho**2) * z[:, j]
        a[part] = z @ w
        y[part] = stream.random(len(z)) < expit(a[part] + 0.3)
        X[part] = z
    X -= X.mean(axis=0)
    X /= np.sqrt(np.mean(X**2, axis=0))
    return Data(X, y, path_scales(X, y))


def heavy_tailed(rows: int, columns: int, nonzeros: int, *, seed: int) -> Data:
    """Sparse rows whose column frequencies fall off like Zipf's law."""
    problem = zipf(rows, columns, nonzeros, seed=seed)
    X = problem.X.tocsc()
    X.sort_indices()
    return Data(X, problem.y, path_scales(X, problem.y))


def newsgroups(rows: int, columns: int, classes: int, *, seed: int) -> Data:
    """Documents as counts of words, each row of length 1: Zipf's law over all words, and some words of a class's own.

    A document has about 160 distinct words, of which one in eight comes from the 400 words of its class.
    """
    rng = np.random.default_rng(seed)
    share = np.cumsum(1.0 / (np.arange(columns) + 20.0) ** 1.05)
    topics = [rng.choice(np.arange(50, columns // 4), 400, replace=False) for _ in range(classes)]
    within = np.cumsum(1.0 / (np.arange(400) + 5.0))
    y = np.sort(rng.integers(classes, size=rows))
    rng.shuffle(y)
    lengths = np.clip(rng.lognormal(5.2, 0.6, size=rows), 20, 3_000).astype(int)
    row = np.repeat(np.arange(rows), lengths)
    word = np.searchsorted(share, rng.random(len(row)) * share[-1])
    own = rng.random(len(row)) < 0.125
    pick = np.searchsorted(within, rng.random(int(own.sum())) * within[-1])
    word[own] = np.stack(topics)[y[row[own]], pick]
    X = sparse.csr_matrix((np.ones(len(row)), (row, word)), shape=(rows, columns))
    X.sum_duplicates()
    lengths_of_rows = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X = sparse.csc_matrix(sparse.diags(1.0 / lengths_of_rows) @ X)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    X.sort_indices()
    return Data(X, y.astype(np.int64), path_scales(X, y))


def make(case: str, share: float = 1.0, seed: int = 0) -> Data:
    """Build the table of a case, or of a share of its rows; another ``seed``, another table of the same kind."""
    if case == "wide":
        return correlated_neighbours(int(2_000 * share), 10_000, rho=0.5, active=30, seed=seed + 1)
    if case == "tall":
        return correlated_neighbours(int(300_000 * share), 100, rho=0.5, active=20, seed=seed + 2)
    if case == "sparse":
        return heavy_tailed(int(20_000 * share), 50_000, 80, seed=seed + 3)
    if case == "softmax":
        return newsgroups(int(4_500 * share), 130_000, 20, seed=seed + 4)
    data = correlated_neighbours(int(50_000 * share), 200, rho=0.5, active=20, seed=seed + 5)
    return replace(data, fold=np.random.default_rng(0).permutation(len(data.y)) % FOLDS)


def write_files(folder: Path, gigabytes: float = 20.0, columns: int = 40, files: int = 40) -> int:
    """Write Parquet files with columns x0 … and y, of so many bytes as numbers; return the rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    rows = int(gigabytes * 1e9 / 8 / columns / files)
    w = np.zeros(columns)
    w[::4] = np.random.default_rng(6).normal(size=len(w[::4])) / 2
    for number, stream in enumerate(np.random.SeedSequence(6).spawn(files)):
        rng = np.random.default_rng(stream)
        X = rng.standard_normal((columns, rows))
        for j in range(1, columns):
            X[j] = 0.5 * X[j - 1] + np.sqrt(0.75) * X[j]
        y = (rng.random(rows) < expit(w @ X + 0.3)).astype(np.int64)
        table = pa.table({**{f"x{j}": X[j] for j in range(columns)}, "y": y})
        # Random doubles do not compress: plain pages are read as fast as the disk gives them.
        pq.write_table(table, folder / f"part-{number:03}.parquet", compression="none", use_dictionary=["y"])
    return rows * files


def activations(data: Data, W: Any, b: Floats) -> Floats:
    """The log odds of each class, (rows, K); two classes have 0 and the log odds of the second."""
    a = np.asarray(data.X @ W.toarray()) + b
    return np.column_stack([np.zeros(len(a)), a[:, 0]]) if a.shape[1] == 1 else a


def objectives(data: Data, path: peers.Path) -> Floats:
    """The objective at every point of a path."""
    values = []
    for scale, W, b in zip(data.scales, path.weights, path.intercepts, strict=True):
        a = activations(data, W, b)
        loss = logsumexp(a, axis=1) - a[np.arange(len(a)), data.y]
        values.append(math.fsum(loss) + float(abs(W).sum()) / scale if np.isfinite(a).all() else math.inf)
    return np.array(values)


def polished(data: Data, path: peers.Path, steps: int = 2) -> peers.Path:
    """Newton's method on the weights that are not zero, two classes: a path within rounding of the optimum.

    A point is left as it is where a weight would change its sign, or where more than ``LARGEST_SUPPORT`` are not zero.
    """
    if data.classes > 2:
        return path
    weights, intercepts = list(path.weights), path.intercepts.copy()
    for k, scale in enumerate(data.scales):
        support = weights[k].tocoo().row[weights[k].tocoo().data != 0]
        if len(support) > LARGEST_SUPPORT:
            continue
        X = data.X[:, support]
        X = np.column_stack([np.ones(len(data.y)), X.toarray() if sparse.issparse(X) else X])
        w = np.r_[intercepts[k], weights[k].toarray()[support, 0]]
        signs = np.sign(w) * (np.arange(len(w)) > 0)
        for _ in range(steps):
            p = expit(X @ w)
            g = X.T @ (p - data.y) + signs / scale
            H = X.T @ (X * (p * (1.0 - p))[:, None])
            w = w - solve(H + 1e-12 * np.diag(np.diag(H)), g, assume_a="pos")
        if np.array_equal(np.sign(w[1:]), signs[1:]):
            column = sparse.csc_matrix((w[1:], (support, np.zeros_like(support))), shape=weights[k].shape)
            weights[k], intercepts[k] = column, w[0]
    return replace(path, weights=weights, intercepts=intercepts)


def lower_bounds(data: Data, path: peers.Path) -> Floats:
    """The value of a dual feasible point at every point of a path: no objective can be below it.

    Residuals R = Y − P at refitted intercepts sum to zero; shrunk by c until |Xᵀ R| ≤ 1 / scale they are dual feasible,
    and the dual is the entropy of (1 − c) Y + c P.
    """
    Y, values = (data.y[:, None] == np.arange(data.classes)).astype(np.float64), []
    for scale, W, b in zip(data.scales, path.weights, path.intercepts, strict=True):
        a = activations(data, W, b)
        for _ in range(30):
            P = softmax(a, axis=1)
            g = (Y - P).sum(axis=0)
            H = np.diag(P.sum(axis=0)) - P.T @ P
            a = a + np.linalg.lstsq(H, g, rcond=1e-12)[0]
        R = Y - softmax(a, axis=1)
        R = R[:, 1:] if data.classes == 2 else R
        c = min(1.0, 1.0 / (scale * float(np.abs(data.X.T @ R).max())))
        Q = (1.0 - c) * Y + c * softmax(a, axis=1)
        values.append(-math.fsum(xlogy(Q, Q).ravel()))
    return np.array(values)


def small(data: Data) -> Data:
    """Some rows and columns, for the first fit of a process, which imports and compiles."""
    rows = np.arange(0, len(data.y), max(1, len(data.y) // 400))
    X = (data.X.tocsr() if sparse.issparse(data.X) else data.X)[rows][:, :300]
    X = X.tocsc() if sparse.issparse(X) else np.asfortranarray(X)
    scales = path_scales(X, data.y[rows], 3)
    return Data(X, data.y[rows], scales, None if data.fold is None else data.fold[rows])


def climb(given: argparse.Namespace) -> None:
    """Fit with one library, in this process, and print a record for each tolerance."""
    warnings.simplefilter("ignore")
    name, case = given.peer, given.what[0]
    peer, data = peers.PEERS[name], make(case, given.share, given.seed)
    if name == "glmnet" and given.tol is not None:
        reference(data, given)
        return
    if peer.module != "Rscript":
        peer.fit(small(data), 1e-3, 1)
    own = name == "oddsmith"
    ladder = [peer.first] if own else [given.tol] if given.tol else [peer.first * 10.0**-k for k in range(12)]
    for tol in ladder:
        path, cpu = peer.fit(data, tol, 1), list(peers.cpu_seconds)
        part = data.without_fold(path.fold)
        values = objectives(part, path)
        best = best_known(given, data.scales, path.fold)
        gap = float((values / np.minimum(best, values) - 1.0).max()) if np.isfinite(best).all() else math.inf
        if (gap <= GOAL or own) and given.repeats > 1:
            path = replace(path, seconds=path.seconds + peer.fit(data, tol, given.repeats - 1).seconds)
            cpu += peers.cpu_seconds
        record = {"tol": tol, "seconds": path.seconds, "cpu": min(cpu), "gap": gap, "fold": path.fold}
        record["certified"] = None if path.gaps is None else float(path.gaps.max())
        keep(given, name, values, data.scales, record)
        print(json.dumps(record), flush=True)
        if gap <= GOAL:
            break


def reference(data: Data, given: argparse.Namespace) -> None:
    """Keep objectives and lower bounds of glmnet at a tight tolerance, for the training rows of the first fold too."""
    for fold in (None, 0) if data.fold is not None else (None,):
        part = data.without_fold(fold)
        path = polished(part, peers.glmnet(part, given.tol, 1))
        values, bounds = objectives(part, path), lower_bounds(part, path)
        record = {"tol": given.tol, "seconds": path.seconds, "fold": fold, "gap": float((values / bounds - 1.0).max())}
        keep(given, "reference", values, data.scales, record, bounds)
        print(json.dumps(record), flush=True)


def kept(given: argparse.Namespace) -> Path:
    share, seed = f"-{given.share:g}" if given.share != 1.0 else "", f"-seed{given.seed}" if given.seed else ""
    return Path(given.keep) / f"{given.what[0]}{share}{seed}"


def keep(
    given: argparse.Namespace, name: str, values: Floats, scales: Floats, record: Any, bounds: Floats | None = None
) -> None:
    """Keep the objectives of a path, so that they are known to the next run."""
    folder = kept(given)
    folder.mkdir(parents=True, exist_ok=True)
    where = "all" if record["fold"] is None else f"fold{record['fold']}"
    arrays = {"objective": values, "scales": scales, "seconds": np.array(record["seconds"])}
    arrays |= {} if bounds is None else {"bound": bounds}
    np.savez(folder / f"{where}-{name.replace(' ', '_')}-{record['tol']:g}.npz", **arrays)


def best_known(given: argparse.Namespace, scales: Floats, fold: int | None) -> Floats:
    """The least objective of all runs kept, at each point."""
    best = np.full(len(scales), np.inf)
    for file in kept(given).glob(f"{'all' if fold is None else f'fold{fold}'}-*.npz"):
        with np.load(file) as found:
            if np.allclose(found["scales"], scales, rtol=1e-12, atol=0.0):
                best = np.fmin(best, found["objective"])
    return best


def records(case: str, peer: str, given: argparse.Namespace, **options: Any) -> Iterator[dict[str, Any]]:
    """Run a library in a process of its own, and yield what it says until the budget is spent."""
    arguments = [case, "--peer", peer, "--repeats", str(given.repeats), "--share", str(given.share)]
    arguments += ["--seed", str(given.seed), "--keep", str(Path(given.keep).resolve())]
    arguments += [text for name, value in options.items() for text in (f"--{name}", str(value))]
    return printed_records("sparse_weights", arguments, given.budget)


def run(case: str, given: argparse.Namespace) -> None:
    """Measure every library on a case, and print one line for each."""
    print(f"\n{case}", flush=True)
    given = argparse.Namespace(**{**vars(given), "what": [case]})
    if not list(kept(given).glob("all-reference-*.npz")):
        for record in records(case, "glmnet", argparse.Namespace(**{**vars(given), "budget": 3_600.0}), tol=1e-13):
            print(
                f"  reference: {record.get('problem') or 'duality gap {gap:.1e}, {seconds[0]:.1f} s'.format(**record)}"
            )
    mine = None
    for name, peer in peers.PEERS.items():
        if case not in peer.cases or (given.only and name not in given.only):
            continue
        if not peer.installed:
            print(f"  {name:28} not installed", flush=True)
            continue
        found = list(records(case, name, given))
        mine = report(name, found, mine)


def report(name: str, found: list[dict[str, Any]], mine: float | None) -> float | None:
    """Print a library's last record, and return the seconds of ours."""
    said = "; ".join(record["problem"] for record in found if "problem" in record)
    fits = [record for record in found if "problem" not in record]
    if not fits:
        print(f"  {name:28} {said}", flush=True)
        return mine
    last, own = fits[-1], name == "oddsmith"
    seconds = min(last["seconds"])
    if last["gap"] > (OUR_GOAL if own else GOAL):
        said = said or "not at the optimum"
    if own:
        mine = seconds
        said = said or f"own certificate {last['certified']:.1e}"
    ratio = f"{seconds / mine:7.1f} × our time" if mine and not own else ""
    times = f"{seconds:9.3f} s  CPU {last['cpu']:8.3f} s"
    line = f"  {name:28} {times}  gap {last['gap']:8.1e}  tol {last['tol']:<7.0e} {ratio:20} {said}"
    print(line.rstrip(), flush=True)
    return mine


def run_files(given: argparse.Namespace) -> None:
    """Count the passes over the files: of a fit with a Gaussian prior, and of the whole path."""
    from oddsmith import LaplacePrior, LogisticRegression, regularization_path

    folder = Path(given.keep) / f"files-{given.gigabytes:g}"
    if not (folder / "rows").exists():
        (folder / "rows").write_text(str(write_files(folder, given.gigabytes)))
    print(f"\nfiles: {int((folder / 'rows').read_text()):,} rows, {given.gigabytes:g} GB", flush=True)
    data = str(folder / "*.parquet")
    start = time.perf_counter()
    one = LogisticRegression(prior=1.0).fit(data, y="y", memory="1GB").certificate_
    print(f"  one fit, Gaussian prior      {time.perf_counter() - start:9.1f} s  {one.passes} passes", flush=True)
    start = time.perf_counter()
    path = regularization_path(data, y="y", n=POINTS, prior=LaplacePrior(1.0), memory="1GB")
    seconds, gap = time.perf_counter() - start, float(np.max(path.gap))
    print(f"  path of {POINTS} scales            {seconds:9.1f} s  {path.passes} passes, gap {gap:.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="cases, default: all but files", metavar="CASE")
    parser.add_argument("--only", nargs="*", choices=peers.PEERS, help="libraries, default: all", metavar="LIBRARY")
    parser.add_argument("--repeats", type=int, default=3, help="paths at the tolerance that counts; the least is shown")
    parser.add_argument("--budget", type=float, default=600.0, help="most seconds for a library")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows")
    parser.add_argument("--seed", type=int, default=0, help="of the tables: other numbers make other tables")
    parser.add_argument("--gigabytes", type=float, default=20.0, help="of the files")
    parser.add_argument("--keep", default=str(KEPT), help="folder of the objectives found")
    parser.add_argument("--peer", choices=peers.PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--tol", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.what) - set(CASES)
    if unknown:
        parser.error(f"There is no case {', '.join(sorted(unknown))}. Cases are: {', '.join(CASES)}.")
    if given.peer:
        climb(given)
        return
    print(machine.in_words())
    for case in given.what or peers.ALL:
        if case == "files":
            run_files(given)
        else:
            run(case, given)


if __name__ == "__main__":
    main()
