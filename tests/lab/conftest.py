"""A client of the lab's application, and a server of it for a browser."""

import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oddsmith.lab.actions import ACTIONS
from oddsmith.lab.server import create_app, open_socket

TOKEN = "a-token-of-the-tests"


@pytest.fixture(scope="session")
def client() -> Iterator[Any]:
    """A client that talks to the application without a network."""
    reason = "Starlette or httpx is not installed: the extra 'test' brings both."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of Starlette would like another HTTP client
        pytest.importorskip("httpx", reason=reason)
        testclient = pytest.importorskip("starlette.testclient", reason=reason)
    app = create_app(ACTIONS, "lab.html", TOKEN, 8000)
    yield testclient.TestClient(app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)


@pytest.fixture(scope="session")
def ask(client: Any) -> Callable[..., dict[str, Any]]:
    """Return a function that asks for an action and returns what it answers."""

    def ask(action: str, **fields: object) -> dict[str, Any]:
        answer = client.post(f"/{TOKEN}/api/{action}", json=fields)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    return ask


@pytest.fixture(scope="session")
def serve_app() -> Iterator[Callable[..., str]]:
    """Return a function that serves actions and a page on a free local port, and returns the address."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: the extra 'test' brings it.")
    running = []

    def serve_app(actions: Any, page: str) -> str:
        listener = open_socket()
        port = listener.getsockname()[1]
        app = create_app(actions, page, TOKEN, port)
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        running.append((server, thread, listener))
        return f"http://127.0.0.1:{port}/{TOKEN}/"

    yield serve_app
    for server, thread, listener in running:
        server.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture(scope="session")
def lab(serve_app: Callable[..., str]) -> str:
    """The address of the lab."""
    return serve_app(ACTIONS, "lab.html")
