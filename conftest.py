"""What pytest collects: every docstring example in ``src``, and under ``tests`` the tests alone."""

import doctest
import inspect
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parent / "tests"

_from_module = doctest.DocTestFinder._from_module  # type: ignore[attr-defined]


def _unwrapped_from_module(finder: doctest.DocTestFinder, module: ModuleType, thing: object) -> bool:
    """Whether something is defined in a module, below its decorators: so the examples of decorated methods run."""
    return bool(_from_module(finder, module, inspect.unwrap(thing) if callable(thing) else thing))


doctest.DocTestFinder._from_module = _unwrapped_from_module  # type: ignore[attr-defined]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # --doctest-modules imports every module that it meets. The scripts beside the reference numbers need R,
    # or libraries that are no part of the test environment: they are run by hand, never imported.
    if collection_path.suffix != ".py" or TESTS not in collection_path.parents:
        return None
    is_test = collection_path.name.startswith("test_") or collection_path.name == "conftest.py"
    return None if is_test else True
