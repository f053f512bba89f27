"""What is kept on disk between runs: a case's data, the facts about it, and the best objective known."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from .cases import Case
from .polish import optimum
from .problem import Facts, Problem

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
RESULTS = HERE / "results"
FORMAT = 1
"""Raise it when a generator changes, so that older data is built anew."""


def _folder(key: str) -> Path:
    return CACHE / f"v{FORMAT}" / key


def prepare(case: Case, *, polish: bool = True) -> Facts:
    """Build a case's data and (with ``polish``) its optimum unless they are there already, and describe them."""
    folder = _folder(case.key)
    described = folder / "case.json"
    if not described.exists():
        folder.mkdir(parents=True, exist_ok=True)
        problem = case.problem()
        _save(folder, problem)
        try:
            value: float | None = optimum(problem)[1] if polish else None
        except ValueError:
            value = None
        described.write_text(json.dumps({"facts": asdict(problem.facts()), "optimum": value}, indent=1))
    return facts(case.key)


def discard(key: str) -> None:
    """Delete a case's data."""
    shutil.rmtree(_folder(key), ignore_errors=True)


def _save(folder: Path, problem: Problem) -> None:
    np.save(folder / "y.npy", problem.y)
    names = ("data", "indices", "indptr") if sparse.issparse(problem.X) else ("X",)
    for name, array in zip(names, problem.arrays, strict=True):
        np.save(folder / f"{name}.npy", array)


def _described(key: str) -> dict[str, Any]:
    return dict(json.loads((_folder(key) / "case.json").read_text()))


def facts(key: str) -> Facts:
    """The facts about a case that was prepared."""
    return Facts(**_described(key)["facts"])


def best_known(key: str) -> float | None:
    """The lowest objective known for a case: the harness's own optimum, or a run that went lower."""
    found = [record["objective"] for run in results(key).values() for record in run.get("fits", [])]
    own = _described(key)["optimum"]
    known = [v for v in (own, *found) if v is not None and np.isfinite(v)]
    return min(known) if known else None


def load(key: str) -> Problem:
    """Read a case's data into memory."""
    folder = _folder(key)
    about = facts(key)
    y = np.load(folder / "y.npy")
    if not about.sparse:
        return Problem(np.load(folder / "X.npy"), y, about.sigma)
    parts = tuple(np.load(folder / f"{name}.npy") for name in ("data", "indices", "indptr"))
    return Problem(sparse.csr_matrix(parts, shape=(about.rows, about.columns)), y, about.sigma)


def _results_file(key: str) -> Path:
    return (CACHE if key.endswith("-quick") else RESULTS) / f"{key}.json"


def results(key: str) -> dict[str, dict[str, Any]]:
    """The recorded runs of a case, by peer."""
    return dict(_recorded(key)["runs"]) if _results_file(key).exists() else {}


def _recorded(key: str) -> dict[str, Any]:
    return dict(json.loads(_results_file(key).read_text()))


def recorded_facts(key: str) -> Facts:
    """The facts about a case, as kept with its results: the data itself need not be here."""
    return Facts(**_recorded(key)["facts"])


def recorded_optimum(key: str) -> float | None:
    """The harness's own optimum, as kept with the results."""
    found = _recorded(key)["optimum"]
    return None if found is None else float(found)


def record(key: str, peer: str, run: dict[str, Any]) -> None:
    """Keep a peer's run on a case, in the place of its earlier one."""
    runs = results(key)
    runs[peer] = run
    path = _results_file(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    described = _described(key)
    known = {"case": key, "facts": described["facts"], "optimum": described["optimum"], "runs": runs}
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
