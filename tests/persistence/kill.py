"""Kill processes that save a model, each at another moment: ``python kill.py FILE COUNT``.

Half of them are killed by the parent after a random time, half kill themselves before a random system call of a save.
After each the file must be that of one of the two models which took turns. Prints how often it was which, and how many
temporary files were left behind.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith
from oddsmith import LogisticRegression

CALLS = [(os, "open"), (os, "fsync"), (os, "replace"), (os, "close"), (os, "fstat")]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def armed(call: Any, left: list[int]) -> Any:
    """Return a system call that kills its process once ``left`` calls have been made."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            die()
        return call(*args, **kwargs)

    return counted


def save_for_ever(models: list[Any], path: Path, calls: int | None) -> None:
    if calls is not None:
        left = [calls]
        for module, name in CALLS:
            setattr(module, name, armed(getattr(module, name), left))
    for model in cycle(models):
        model.save(path)


def main(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 40))
    y = rng.random(200) < 0.5
    models = [LogisticRegression(prior=scale).fit(X, y) for scale in (0.1, 10.0)]
    expected = [model.coef_.tobytes() for model in models]
    models[0].save(path)
    seen, left_behind = [0, 0], 0
    for i in range(count):
        child = os.fork()
        if child == 0:
            save_for_ever(models, path, int(rng.integers(12)) + i % 12 if i % 2 else None)
        if i % 2 == 0:
            time.sleep(float(rng.random() * 0.03))
            os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        seen[expected.index(oddsmith.load(path).coef_.tobytes())] += 1
        for temporary in path.parent.glob(".odds-*.tmp"):
            temporary.unlink()
            left_behind += 1
    print(json.dumps({"seen": seen, "left_behind": left_behind}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
