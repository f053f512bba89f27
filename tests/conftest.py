"""Settings of Hypothesis (HYPOTHESIS_PROFILE=explore looks for new examples), and what one process makes once."""

import os
import shutil
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer.main
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None, max_examples=40)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """One browser for all tests of a process: a second one would not start beside it."""
    how = "install it (apt-get install chromium) and the extra 'test', which brings playwright and axe-core"
    program = next((path for name in ("chromium", "chromium-browser") if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"Pages are not tested in a browser, since Chromium is not installed: {how}.")
    playwright = pytest.importorskip("playwright.sync_api", reason=f"playwright is not installed: {how}.")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        yield opened
        opened.close()


@pytest.fixture(scope="session", autouse=True)
def commands() -> Iterator[None]:
    """Build the commands once: typer does it again at every call, and a test of the command line calls many times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield
