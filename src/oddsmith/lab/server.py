"""The local server of the lab: static files and JSON actions behind one gate. Needs the extra ``lab``.

The gate lets a request through only if it names this host, comes from this page, and carries the token of this run in
its path. What the page may read is a fixed set of files, loaded at the start: a path is looked up, never opened.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.errors import InvalidInputError, OddsmithError
from oddsmith.lab.fields import BadRequestError, Fields, parse, plain

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

Actions = Mapping[str, Callable[[Fields], dict[str, Any]]]

LARGEST = 4_000_000  # Bytes of a request.
HOME = "127.0.0.1"
NAMES = (HOME, "localhost")
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_lock = threading.Lock()
"""One fit at a time: the collection of warnings is the process's, and the fits share two cores anyway."""


def static_files() -> dict[str, tuple[bytes, str]]:
    """Return the files that the page may ask for, by name, with their kind.

    >>> static_files()["lab.html"][1]
    'text/html'
    """
    folder = Path(__file__).parent / "static"
    return {p.name: (p.read_bytes(), KINDS[p.suffix]) for p in sorted(folder.iterdir()) if p.suffix in KINDS}


class Gate:
    """Refuses requests of other hosts, of other pages, and without the token, before anything reads them."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with a refusal."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        error = self._refusal(scope)
        await (self._app if error is None else _error(*error))(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[str, int] | None:
        """Return why a request is refused, with its status; None if it is not."""
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name.lower(), []).append(value)
        host = [value.decode("latin-1").lower() for value in given.get(b"host", [])]
        if len(host) != 1 or host[0] not in self._hosts:
            return "This server answers only to its own local address. Open the address that it printed.", 421
        origins = {value.decode("latin-1") for value in given.get(b"origin", [])}
        if not origins <= {f"http://{name}" for name in self._hosts}:
            return "This request comes from another page. The lab answers to its own page only.", 403
        sites = {value.decode("latin-1") for value in given.get(b"sec-fetch-site", [])}
        if not sites <= {"same-origin", "none"}:
            return "This request comes from another site. The lab answers to its own page only.", 403
        parts = scope["path"].split("/", 2)
        if len(parts) < 3 or not secrets.compare_digest(parts[1].encode("utf-8", "replace"), self._token):
            return "The address lacks the token of this run. Open the address that the command printed.", 403
        return None


def _json_response(content: Any, status: int = 200) -> Response:
    from starlette.responses import Response

    body = json.dumps(content, allow_nan=False, separators=(",", ":")).encode()
    return Response(body, status, HEADERS, "application/json")


def _error(sentence: str, status: int) -> Response:
    return _json_response({"error": sentence}, status)


def create_app(actions: Actions, page: str, token: str, port: int) -> ASGIApp:
    """Return the application: a page, its files, and its actions under ``/token/api/``.

    >>> type(create_app({}, "lab.html", "secret", 8000)).__name__
    'Gate'
    """
    from starlette.applications import Starlette
    from starlette.routing import Route

    files = static_files()

    async def show(request: Request) -> Response:
        from starlette.responses import Response

        name = request.path_params.get("name") or page
        if name not in files:
            return _error("There is no such page.", 404)
        content, kind = files[name]
        return Response(content, 200, HEADERS, kind)

    async def act(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in actions:
            return _error(f"There is no such action. Known: {', '.join(actions)}.", 404)
        return await _answer(request, actions[name])

    async def refuse(request: Request, error: Exception) -> Response:
        from starlette.exceptions import HTTPException

        status = error.status_code if isinstance(error, HTTPException) else 500
        sentences = {404: "There is no such page.", 405: "Use GET for pages and POST for actions."}
        return _error(sentences.get(status, "The request cannot be answered."), status)

    root = f"/{token}"
    routes = [
        Route(f"{root}/", show, methods=["GET"]),
        Route(f"{root}/static/{{name}}", show, methods=["GET"]),
        Route(f"{root}/api/{{name}}", act, methods=["POST"]),
    ]
    inner: Starlette = Starlette(routes=routes, exception_handlers={404: refuse, 405: refuse})
    inner.router.redirect_slashes = False
    return Gate(inner, token, port)


async def _answer(request: Request, action: Callable[[Fields], dict[str, Any]]) -> Response:
    """Read a request's fields, run its action in a thread, and return what it found or what was wrong."""
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import ClientDisconnect

    try:
        fields = Fields(parse(await _body(request)))
        return await run_in_threadpool(_run, action, fields)
    except BadRequestError as error:
        return _error(str(error), error.status)
    except ClientDisconnect:
        return _error("The request ended before it was complete.", 400)


def _run(action: Callable[[Fields], dict[str, Any]], fields: Fields) -> Response:
    """Answer a request. What the library refuses is the request's fault; nothing else may go wrong here."""
    import numpy as np

    try:
        with _lock, np.errstate(all="ignore"):
            return _json_response(plain(action(fields)))
    except BadRequestError as error:
        return _error(str(error), error.status)
    except (OddsmithError, np.linalg.LinAlgError) as error:
        return _error(str(error), 422)
    except MemoryError:
        return _error("There is not enough memory for that. Use fewer points or functions.", 413)


async def _body(request: Request) -> bytes:
    """Return the body of a request, if it is JSON and not too large; no more than that is ever held."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise BadRequestError("The request must be of content type application/json.", 415)
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > LARGEST:
        raise BadRequestError(f"The request is larger than {LARGEST:,} bytes. Send fewer points.", 413)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST:
            raise BadRequestError(f"The request is larger than {LARGEST:,} bytes. Send fewer points.", 413)
    return bytes(body)


def open_socket(port: int = 0) -> socket.socket:
    """Return a socket on the local address; port 0 is any that is free.

    >>> with open_socket() as listener:
    ...     listener.getsockname()[0]
    '127.0.0.1'
    """
    # The protocol is named, since only then asyncio switches off Nagle's algorithm, which costs 40 ms an answer.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere another program could listen there, too
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOME, port))
    except OSError as error:
        listener.close()
        raise InvalidInputError(
            f"Port {port} cannot be opened ({error.strerror}). Name another, or leave --port out for a free one."
        ) from None
    return listener


def serve(actions: Actions, page: str, port: int = 0, ready: Callable[[str], None] = print) -> None:
    """Serve a page until Ctrl-C; ``ready`` is called with its address, token and all, once it can be opened."""
    try:
        import uvicorn
    except ImportError:
        raise InvalidInputError("The lab needs Starlette and uvicorn: pip install 'oddsmith[lab]'.") from None

    token = secrets.token_urlsafe(24)
    with open_socket(port) as listener:
        port = listener.getsockname()[1]
        app = create_app(actions, page, token, port)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        server = uvicorn.Server(config)
        listener.listen(128)
        ready(f"http://{HOME}:{port}/{token}/")
        server.run([listener])
