"""A process that is forked while other threads fit can fit, too; and a thread fits as the main thread does."""

import os
import subprocess
import sys

import pytest

PARENT = """
import os, sys, threading, time, warnings
import numpy as np
import oddsmith
from oddsmith.cached_property import cached_property
from oddsmith.engines import blas_threads

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.normal(size=(20_000, 12))
y = (X[:, 0] + rng.normal(size=20_000) > 0).astype(int)

def child_ends(work, seconds=20.0):
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return True
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return False

def fit():
    oddsmith.GaussianClassifier().fit(X, y)
    oddsmith.LogisticRegression(prior=1.0).fit(X, y)
"""

LOCK = """
taken, done = threading.Event(), threading.Event()
def hold():
    with blas_threads._lock:
        taken.set()
        done.wait(60)
thread = threading.Thread(target=hold, daemon=True)
thread.start()
taken.wait()
assert child_ends(fit, 15.0), "the child waits for a lock that nobody will release"
done.set()
"""

CACHED = """
inside, done = threading.Event(), threading.Event()
class Kept:
    def __init__(self, wait): self.wait = wait
    @cached_property
    def value(self):
        inside.set()
        return done.wait(60) if self.wait else 1
thread = threading.Thread(target=lambda: Kept(True).value, daemon=True)
thread.start()
inside.wait()
assert child_ends(lambda: Kept(False).value, 5.0), "the child waits for the lock of a cached property"
done.set()
"""

LIMIT = """
before = [library.get_threads() for library in blas_threads.blas_libraries()]
inside, done = threading.Event(), threading.Event()
def hold():
    with blas_threads.one_blas_thread():
        inside.set()
        done.wait(60)
thread = threading.Thread(target=hold, daemon=True)
thread.start()
inside.wait()
def work():
    fit()
    after = [library.get_threads() for library in blas_threads.blas_libraries()]
    if after != before:
        time.sleep(60)
assert child_ends(work, 20.0), "the child keeps the limit of a fit in its parent"
done.set()
"""

LOOP = """
stop = False
def go_on():
    while not stop:
        fit()
fit()  # Python itself holds locks on modules that another thread imports
threads = [threading.Thread(target=go_on, daemon=True) for _ in range(3)]
[thread.start() for thread in threads]
for _ in range(8):
    time.sleep(float(rng.random()) * 0.05)
    assert child_ends(fit), "a child hangs"
stop = True
os._exit(0)
"""

THREAD = """
from sklearn.base import clone
wide = np.hstack([X[:300], rng.normal(size=(300, 120))])
def estimates(model, rows):
    fitted = clone(model).fit(rows, y[:300])
    return fitted.decision_function(rows).tobytes()
for model in (oddsmith.LogisticRegression(prior=1.0), oddsmith.GaussianClassifier(shrinkage=0.1), oddsmith.OneVsRest()):
    here, there = estimates(model, wide), []
    thread = threading.Thread(target=lambda: there.append(estimates(model, wide)))
    thread.start()
    thread.join()
    assert here == there[0], f"{model!r} has other bits in a thread"
# A limit that one thread set is lifted by another.
limits = [library.get_threads() for library in blas_threads.blas_libraries()]
inside, done = threading.Event(), threading.Event()
def hold():
    with blas_threads.one_blas_thread():
        inside.set()
        done.wait(60)
thread = threading.Thread(target=hold)
with blas_threads.one_blas_thread():
    thread.start()
    inside.wait()
done.set()
thread.join()
assert limits == [library.get_threads() for library in blas_threads.blas_libraries()]
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_children_and_threads_fit() -> None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2"}
    environment.pop("OMP_NUM_THREADS", None)
    program = PARENT + LOCK + CACHED + LIMIT + THREAD + LOOP  # one process: it imports more than it computes
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=240)
    assert done.returncode == 0, done.stderr
