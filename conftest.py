"""What pytest collects: every docstring example in ``src``, and under ``tests`` the tests alone."""

from pathlib import Path

TESTS = Path(__file__).parent / "tests"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    # --doctest-modules imports every module that it meets. The scripts beside the reference numbers need R,
    # or libraries that are no part of the test environment: they are run by hand, never imported.
    if collection_path.suffix != ".py" or TESTS not in collection_path.parents:
        return None
    is_test = collection_path.name.startswith("test_") or collection_path.name == "conftest.py"
    return None if is_test else True
