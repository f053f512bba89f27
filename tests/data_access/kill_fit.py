"""Kill processes that fit, each at another pass, and let others resume: ``python kill_fit.py FOLDER MODEL …``.

For every pass of the fit, a process is killed in it (by SIGKILL before it, by SIGKILL while its frame is written, by
Ctrl-C) and another one goes on; then one process after another is killed, each a pass further than the one before. Each
time the weights must be those of the fit that nobody stopped, to the bit, and no pass that had ended is made again.
Prints for each model the number of passes, of processes that died, and the bytes of the largest journal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.pieces import ListEngine, ListParts

from oddsmith import GaussianClassifier, JeffreysPrior, LeastSquaresClassifier, LogisticRegression, NaiveBayes
from oddsmith.engines.partitioned import Piece

MODELS = {
    "softmax": LogisticRegression(),
    "prior": LogisticRegression(prior=1.0),
    "jeffreys": LogisticRegression(JeffreysPrior()),
    "gaussian": GaussianClassifier(),
    "least squares": LeastSquaresClassifier(),
    "naive": NaiveBayes(),
}
CTRL_C = 3


def table(K: int) -> pa.Table:
    rng = np.random.default_rng(0)
    n = 600
    t = rng.integers(0, K, n)
    x = rng.normal(size=n) + t
    return pa.table({"x": x, "kind": rng.choice(["oak", "pine", "yew"], n), "y": np.array(["a", "b", "c"])[t]})


def weights(model: Any) -> bytes:
    made = model._folded.statistic if hasattr(model, "_folded") else model
    return b"".join(
        np.asarray(getattr(made, name)).tobytes()
        for name in ("coef_", "intercept_", "mean", "scatter", "count")
        if hasattr(made, name)
    )


def fit(name: str, journal: Path | None, before: Callable[[int], None] | None = None) -> tuple[bytes, int]:
    rows = table(2 if name == "jeffreys" else 3)
    pieces = tuple(Piece(rows[i : i + 200], number=i, name=f"rows {i}") for i in range(0, 600, 200))
    parts = ListParts(pieces, ListEngine(before), tuple(rows.column_names), fingerprint="the table")
    model = MODELS[name].fit(parts, y="y", resume=journal)
    return weights(model), len(parts.engine.folds)


def torn(descriptor: int) -> None:
    """An fsync that is not lived to see, of a frame that is not all on the disk."""
    os.ftruncate(descriptor, os.fstat(descriptor).st_size - 100)
    os.kill(os.getpid(), signal.SIGKILL)


def killer(at: int, how: str) -> Callable[[int], None]:
    def before(fold: int) -> None:
        if fold == at and how == "torn":
            os.fsync = torn
        elif fold == at:
            os.kill(os.getpid(), signal.SIGINT if how == "ctrl-c" else signal.SIGKILL)

    return before


def in_child(work: Callable[[], Any]) -> int:
    """Run something in a process of its own, and return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except KeyboardInterrupt:
            os._exit(CTRL_C)
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(folder: Path, name: str) -> dict[str, int]:
    folder.mkdir()
    expected, passes = fit(name, None)
    died = 0
    for how in ("kill", "torn", "ctrl-c"):
        for at in range(passes):
            journal = folder / f"{how}-{at}.journal"
            ended = in_child(lambda j=journal, a=at, h=how: fit(name, j, killer(a, h)))
            assert ended == (CTRL_C if how == "ctrl-c" else -signal.SIGKILL), (how, at, ended)
            found, again = fit(name, journal)
            assert found == expected, (how, at)
            assert again == passes - at, (how, at, again)
            died += 1
    journal = folder / "in turn.journal"
    for _ in range(passes - 1):
        assert in_child(lambda: fit(name, journal, killer(1, "kill"))) == -signal.SIGKILL
        died += 1
    assert fit(name, journal) == (expected, 1)
    assert fit(name, journal) == (expected, 0)  # a fit that has ended is there at once
    size = max(path.stat().st_size for path in folder.iterdir())
    return {"passes": passes, "died": died, "bytes": size}


if __name__ == "__main__":
    print(json.dumps({name: check(Path(sys.argv[1]) / name, name) for name in sys.argv[2:]}))
