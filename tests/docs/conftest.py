"""The site, built and served on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.docs.reading import ROOT

# The generator is no part of the test environment: `make docs` brings it, and runs these as well.
collect_ignore = [] if find_spec("mkdocs") else ["test_site.py"]


@dataclass(frozen=True)
class Site:
    """A folder, what was printed when it was made, and its address."""

    folder: Path
    output: str
    address: str

    def pages(self) -> list[str]:
        """Return the paths of all pages."""
        found = sorted(page.relative_to(self.folder).as_posix() for page in self.folder.rglob("*.html"))
        return [page.removesuffix("index.html") for page in found]


class Handler(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, pages = tmp_path_factory.mktemp("site"), str(tmp_path_factory.mktemp("pages"))
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "ODDSMITH_PAGES": pages}
    printed = ""
    for command in (
        ["docs/_site/assemble.py", pages],
        ["-m", "mkdocs", "build", "--strict", "-d", str(folder)],
    ):
        ended = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        printed += ended.stdout + ended.stderr
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Site(folder, printed, f"http://127.0.0.1:{server.server_port}/")
    server.shutdown()
    server.server_close()
