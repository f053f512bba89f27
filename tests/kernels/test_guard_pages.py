"""No kernel reads or writes beyond its arrays: these lie between pages without access."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("guard_pages.py")


@pytest.mark.skipif(sys.platform == "win32", reason="Pages are protected by mprotect, which Windows lacks.")
def test_kernels_stay_within_their_arrays() -> None:
    """In a process of its own, which a fault ends; the last line says what it was at."""
    done = subprocess.run([sys.executable, SCRIPT, "25"], capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]} ended with {done.returncode}: {done.stderr[-2000:]}"
    assert lines[-1] == "all done"


READS_OUTSIDE = f"""
import sys
sys.path.insert(0, {str(SCRIPT.parent)!r})
import ctypes, os, numpy as np
from guard_pages import Room
for at_end in (False, True):
    child = os.fork()
    if not child:
        array = Room(np.random.default_rng(0), at_end).guard(np.ones(3))
        address = array.ctypes.data + (array.nbytes if at_end else -8)
        print("guarded", flush=True)
        ctypes.c_double.from_address(address).value
        print("not noticed", flush=True)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) < 0, at_end
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Pages are protected by mprotect, which Windows lacks.")
def test_a_read_outside_is_noticed() -> None:
    """The check itself can fail: one number beyond the end, or before the beginning, is enough."""
    done = subprocess.run([sys.executable, "-c", READS_OUTSIDE], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["guarded", "guarded"], done.stderr
    assert done.returncode == 0, done.stderr
