"""The site, built and served on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
    """Serves files, which the browser may keep, and says nothing."""

    def end_headers(self) -> None:
        self.send_header("Cache-Control", "max-age=600")
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None: ...


class UnindexedHandler(Handler):
    """Serves the site with nothing to search for: indexing all text again for each page takes longer than the page."""

    def do_GET(self) -> None:
        if self.path.endswith("/search_index.json"):
            index = json.loads(Path(self.translate_path(self.path)).read_text(encoding="utf-8"))
            body = json.dumps(index | {"docs": []}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            super().do_GET()


@contextmanager
def serve(folder: Path, handler: type[Handler] = Handler) -> Iterator[str]:
    """Serve a folder on this machine, and return the address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def build(folder: Path, pages: Path) -> str:
    """Build the site into a folder, and return what was printed."""
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "ODDSMITH_PAGES": str(pages)}
    printed = ""
    for command in (
        ["docs/_site/assemble.py", str(pages)],
        ["-m", "mkdocs", "build", "--strict", "-d", str(folder)],
    ):
        ended = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        printed += ended.stdout + ended.stderr
    return printed


def wait_for(status: Path, seconds: float = 300.0) -> None:
    """Wait until a build beside the tests has left its status, which must be 0."""
    end = time.monotonic() + seconds
    while not status.exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert status.exists(), f"The site was not built within {seconds:.0f} seconds."
    assert status.read_text(encoding="utf-8").strip() == "0", "The site could not be built."


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if built := os.environ.get("ODDSMITH_SITE"):  # by `make site`, a moment ago or at this moment
        if status := os.environ.get("ODDSMITH_SITE_STATUS"):
            wait_for(ROOT / status)
        folder, printed = ROOT / built, (ROOT / "build" / "site.log").read_text(encoding="utf-8")
    else:
        folder = tmp_path_factory.mktemp("site")
        printed = build(folder, tmp_path_factory.mktemp("pages"))
    with serve(folder) as address:
        yield Site(folder, printed, address)


@pytest.fixture(scope="session")
def unindexed(site: Site) -> Iterator[str]:
    """The address of the site without its search: for looking at many pages."""
    with serve(site.folder, UnindexedHandler) as address:
        yield address
