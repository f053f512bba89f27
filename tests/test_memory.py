"""A fit holds little besides the rows: no copy of them, in whatever order they are stored."""

import os
import subprocess
import sys

import pytest

MEMORY = """
import resource, sys


def memory(field):  # in bytes: VmRSS is what is held now, VmHWM the most that ever was
    try:
        with open("/proc/self/status") as lines:
            return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
"""

PROGRAM = (
    MEMORY
    + """
import numpy as np
from oddsmith import LogisticRegression

N, D, order, dtype, K = int(sys.argv[1]), 50, sys.argv[2], sys.argv[3], int(sys.argv[4])


rng = np.random.default_rng(0)
X, y = np.empty((N, D), dtype=dtype, order=order), np.empty(N, dtype=np.int64)
W = rng.normal(size=(D, K)) / 5
for start in range(0, N, 20_000):
    rows = slice(start, min(start + 20_000, N))
    X[rows] = rng.standard_normal(X[rows].shape)
    y[rows] = (X[rows] @ W + rng.gumbel(size=(len(X[rows]), K))).argmax(axis=1)
LogisticRegression().fit(X[:70_000], y[:70_000])  # what a fit has to load and to compile
before = memory("VmRSS")
model = LogisticRegression().fit(X, y)
assert model.certificate_.converged
print((memory("VmHWM") - before) / X.nbytes)
"""
)


def share(rows: int, order: str, dtype: str, K: int) -> float:
    """The most memory that a fit takes, in a process of its own, as a share of its rows'."""
    arguments = [str(rows), order, dtype, str(K)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def rows_that_fit() -> int:
    """A million, but on a machine with less than 2 GB to spare, where swapping would be measured, 200,000."""
    try:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 1_000_000
    return 1_000_000 if available > 2 << 30 else 200_000


@pytest.mark.slow
def test_a_fit_on_a_million_rows_takes_at_most_30_percent_of_their_memory() -> None:
    assert share(rows_that_fit(), "C", "float64", 2) <= 0.30


@pytest.mark.slow
@pytest.mark.parametrize(("order", "dtype", "K"), [("F", "float64", 2), ("C", "float32", 2), ("C", "float64", 3)])
def test_no_form_of_rows_is_copied(order: str, dtype: str, K: int) -> None:
    """A copy would be all of it, one in float64 of float32 rows twice as much."""
    assert share(400_000, order, dtype, K) <= 0.30


TABLE_PROGRAM = (
    MEMORY
    + """
import ctypes, gc, warnings
import numpy as np
import pandas as pd
from oddsmith import LogisticRegression

case = sys.argv[1]
N, D, levels, prior = {
    "factors": (1_500_000, 8, (3, 50, 1_000, 20_000), 1.0),
    "nested": (1_000_000, 4, (20, 100, 4_000), 1.0),
    "groups": (1_000_000, 4, (50_000,), None),
}[case]
warnings.simplefilter("ignore")


rng = np.random.default_rng(0)
frame = pd.DataFrame({f"x{j}": rng.standard_normal(N) for j in range(D)}, copy=False)
a = frame["x0"].to_numpy() / 2
last = rng.integers(0, levels[-1], N)
for j, count in enumerate(levels):
    code = last if count == levels[-1] else (last * 7 + rng.integers(0, 3, N)) % count  # few of all pairs occur
    a = a + (rng.standard_normal(count) / 2)[code]
    frame[f"f{j}"] = pd.Categorical.from_codes(code, categories=[f"level {k:06}" for k in range(count)])
y = (a + rng.logistic(size=N) > 0).astype(np.int64)
del a, last, code
table = frame.memory_usage(index=False, deep=True).sum()
LogisticRegression(prior=prior).fit(frame[: N // 8], y[: N // 8])  # loads modules, and pages of libraries
gc.collect()
if sys.platform == "linux":
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the peak starts anew
before = memory("VmRSS")
model = LogisticRegression(prior=prior).fit(frame, y)
assert model.certificate_.converged or not model.certificate_.optimum_exists
print((memory("VmHWM") - before) / table)
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "most"), [("factors", 0.30), ("nested", 0.30), ("groups", 0.75)])
def test_a_table_takes_little_more_than_its_own_bytes(case: str, most: float) -> None:
    """Dense sums beside the largest factor took 0.74 in ``nested``. A vector of 50,000 weights is 1% of ``groups``."""
    command = [sys.executable, "-c", TABLE_PROGRAM, case]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= most
