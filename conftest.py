"""What pytest collects: every docstring example in ``src``, and under ``tests`` the tests alone. What runs together."""

import doctest
import gc
import inspect
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TESTS, SOURCES = (Path(__file__).parent / name for name in ("tests", "src"))

_from_module = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]


def _unwrapped_from_module(finder: doctest.DocTestFinder, module: ModuleType, thing: object) -> bool:
    """Whether something is defined in a module, below its decorators: so the examples of decorated methods run."""
    return bool(_from_module(finder, module, inspect.unwrap(thing) if callable(thing) else thing))


doctest.DocTestFinder._from_module = _unwrapped_from_module  # type: ignore[attr-defined]


@cache
def _needs_device_library(path: Path) -> bool:
    """Whether a module of ours imports PyTorch or Triton, itself or by others, and these are not installed."""
    if path.suffix != ".py" or "src" not in path.parts or not path.exists():
        return False
    lines = path.read_text(encoding="utf-8").splitlines()
    if any(f"import {name}" in lines and find_spec(name) is None for name in ("torch", "triton")):
        return True
    ours = (line.split()[1].replace(".", "/") for line in lines if line.startswith("from oddsmith."))
    return "device" in path.stem and any(_needs_device_library(SOURCES / f"{name}.py") for name in ours)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # --doctest-modules imports every module that it meets. The scripts beside the reference numbers need R,
    # or libraries that are no part of the test environment: they are run by hand, never imported.
    if collection_path.suffix != ".py" or TESTS not in collection_path.parents:
        return True if _needs_device_library(collection_path) else None
    is_test = collection_path.name.startswith("test_") or collection_path.name == "conftest.py"
    return None if is_test else True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import GroupScheduling

    return GroupScheduling(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        from tests.scheduling import sort_key

        items.sort(key=lambda item: sort_key(item.nodeid))


# What is collected stays: thousands of tests and all that they import. The collector of garbage would go through it
# again and again, while tests are collected and while they run.
@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
