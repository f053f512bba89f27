"""A plugin of pytest that records which tests call which functions of the package, and how long they take.

    CALLERS=build/callers.tsv python -m pytest -p tests.callers tests/inference

`tests/mutants.py` runs the tests that call the function that it changed, and no others. A line holds the seconds of
processor time, the test, and the functions as ``file:line``, the first line of each, its decorators included.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

SOURCE = str(Path(__file__).parents[1] / "src" / "oddsmith") + os.sep


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    called: dict[int, CodeType] = {}

    def trace(frame: FrameType, event: str, given: object) -> None:
        called[id(frame.f_code)] = frame.f_code

    began = time.process_time()
    threading.settrace(trace)
    sys.settrace(trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        codes = [code for code in called.values() if code.co_filename.startswith(SOURCE)]
        places = sorted({f"{code.co_filename.removeprefix(SOURCE)}:{code.co_firstlineno}" for code in codes})
        with open(os.environ["CALLERS"], "a", encoding="utf-8") as out:
            out.write("\t".join([f"{time.process_time() - began:.4f}", item.nodeid, " ".join(places)]) + "\n")
