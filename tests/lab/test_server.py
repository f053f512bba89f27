"""The server against hostile requests: a refusal with a sentence, and nothing else happens."""

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.conftest import TOKEN

from oddsmith.lab.actions import ACTIONS
from oddsmith.lab.server import HEADERS, LARGEST, static_files

X = [[-1.0, 0.5], [1.0, 0.2], [-0.8, -0.4], [1.2, 0.9], [0.1, 0.0], [-0.2, 0.1]]
POINTS = {"X": X, "t": [0, 1, 0, 1, 0, 1]}
VIEW = {"view": [-2, 2, -2, 2], "grid": [8, 6]}
GOOD: dict[str, dict[str, Any]] = {
    "menu": {},
    "points": {"preset": "ring", "n": 20, "noise": 1.0, "seed": 0},
    "pane": POINTS | VIEW | {"model": {"kind": "logistic", "prior": {"kind": "gaussian", "scale": 1.0}}, "layers": []},
    "walk": POINTS | {"method": "newton", "count": 5, "prior": {"kind": "gaussian", "scale": 1.0}},
    "decisions": POINTS | {"model": {"kind": "gaussian"}, "decision": {"loss": [[0, 1], [2, 0]]}},
    "widths": {"X": X + X, "t": [*POINTS["t"], *POINTS["t"]], "model": {"kind": "logistic"}},
    "columns": {"text": "a,b,c\n1,2,x\n3,4,y\n"},
    "table": {"text": "a,b,c\n1,2,x\n3,4,y\n", "x": "a", "y": "b", "label": "c"},
    "script": POINTS | {"model": {"kind": "fisher"}},
}
BAD_VALUES: tuple[Any, ...] = (
    *(True, -1, 1e300, "", "x", "__import__('os').system('id')", "../../etc/passwd", [], {}, [[]], [None]),
    *([[1, 2, 3]], [["a", "b"]], {"kind": 3}, {"kind": "exec"}, "\x00", "9" * 50, [1e309], {"a": {"b": {"c": 1}}}),
    *([[0.0, 0.0]] * 3, [[1e200, 0.0]] * 6, "a" * 5000),
)
"""Values that fit no field of any action, or few."""


def test_every_action_answers_a_good_request(client: Any) -> None:
    assert set(GOOD) == set(ACTIONS)
    for action, fields in GOOD.items():
        answer = client.post(f"/{TOKEN}/api/{action}", json=fields)
        assert answer.status_code == 200, (action, answer.text)
        assert all(answer.headers[name] == value for name, value in HEADERS.items())


def broken_fields() -> Iterator[tuple[str, bytes]]:
    """Yield actions with requests in which one field is wrong, unknown or missing."""
    for action, fields in GOOD.items():
        yield action, json.dumps(fields | {"code": "print(1)"}).encode()
        for name in fields:
            for value in BAD_VALUES:
                if value not in ([], {}) or name in ("X", "t", "view", "grid", "text", "preset"):
                    yield action, json.dumps(fields | {name: value}).encode()
            for constant in ("NaN", "Infinity", "-Infinity"):
                text = json.dumps(fields | {name: "HERE"}).replace('"HERE"', constant)
                yield action, text.encode()
    for inner in ("prior", "basis"):
        for value in (3, "x", [1], {"kind": "x"}, {"scale": "x"}, {"kind": 1}, {"nothing": 1}):
            yield "pane", json.dumps(GOOD["pane"] | {"model": {"kind": "logistic", inner: value}}).encode()
    for decision in ({"loss": [[0, 1]]}, {"reject": "x"}, {"class_prior": [0, 1]}, {"class_prior": [1]}, {"los": 1}):
        yield "decisions", json.dumps(GOOD["decisions"] | {"decision": decision}).encode()
    for weights in ([[1]], [[1, 2, "x"]], [1, 2, 3], [[1, 2, 3]] * 2, [[1e99, 0, 0]]):
        yield "pane", json.dumps(GOOD["pane"] | {"weights": weights}).encode()


def broken_bodies() -> Iterator[tuple[str, bytes]]:
    """Yield requests that are not a JSON object at all."""
    rng = random.Random(0)
    bodies = [b"", b"null", b"3", b'"x"', b"[]", b"{", b"[" * 100_000, b"{" * 5000, b'{"a":' * 5000, b"\xff\xfe"]
    bodies += [b"1" * 5000, b'{"n": ' + b"9" * 5000 + b"}", b"<xml/>", b"a=1&b=2", b"\x00" * 100]
    bodies += [rng.randbytes(rng.randrange(1, 200)) for _ in range(200)]
    text = json.dumps(GOOD["pane"]).encode()
    bodies += [text[: rng.randrange(len(text))] for _ in range(100)]
    for i, body in enumerate(bodies):
        yield list(ACTIONS)[i % len(ACTIONS)], body


def is_refused(answer: Any) -> bool:
    return 400 <= answer.status_code < 500 and answer.json()["error"].endswith((".", "?")) and len(answer.text) < 2000


def test_a_thousand_malformed_requests_get_a_sentence(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    test_every_action_answers_a_good_request(client)  # whatever is imported late is imported now
    opened: list[str] = []
    listening = True

    def listen(event: str, args: tuple[Any, ...]) -> None:
        if listening and event in ("open", "os.system", "subprocess.Popen", "exec", "socket.connect", "os.remove"):
            opened.append(f"{event} {args[0]!r}")

    sys.addaudithook(listen)
    requests = [*broken_fields(), *broken_bodies()]
    try:
        for action, body in requests:
            answer = client.post(f"/{TOKEN}/api/{action}", content=body, headers={"content-type": "application/json"})
            assert is_refused(answer), (action, body[:300], answer.status_code, answer.text[:300])
    finally:
        listening = False
    assert len(requests) >= 1000
    # A fit looks up how much memory the machine has. No other file, no program, no code.
    memory = ("open '/proc/meminfo'", "open '/sys/fs/cgroup/memory")
    assert not [what for what in opened if not what.startswith(memory)]
    assert list(tmp_path.iterdir()) == []
    test_every_action_answers_a_good_request(client)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "example.com"}, 421),
        ({"host": "127.0.0.1:8001"}, 421),
        ({"host": "127.0.0.1.example.com:8000"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://example.com"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"origin": "http://127.0.0.1:9"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_other_hosts_and_origins_are_refused(client: Any, headers: dict[str, str], status: int) -> None:
    for answer in (
        client.get(f"/{TOKEN}/", headers=headers),
        client.post(f"/{TOKEN}/api/menu", json={}, headers=headers),
    ):
        assert answer.status_code == status and is_refused(answer)


def test_the_own_page_is_let_in(client: Any) -> None:
    for host in ("127.0.0.1", "localhost"):
        headers = {"host": f"{host}:8000", "origin": f"http://{host}:8000", "sec-fetch-site": "same-origin"}
        assert client.post(f"/{TOKEN}/api/menu", json={}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/", "", "/lab.html", f"/{TOKEN}", "/wrong/", f"/{TOKEN[:-1]}/", f"/{TOKEN}x/", f"//{TOKEN}/", "/%00/"),
        *(f"/{TOKEN}/static/../server.py", f"/{TOKEN}/static/..%2fserver.py", f"/{TOKEN}/static/%2e%2e/server.py"),
        *(f"/{TOKEN}/static/..\\server.py", f"/{TOKEN}/static//etc/passwd", f"/{TOKEN}/static/%2fetc%2fpasswd"),
        *(f"/{TOKEN}/static/", f"/{TOKEN}/static/lab.html%00.js", f"/{TOKEN}/static/LAB.HTML", f"/{TOKEN}/server.py"),
        *(f"/{TOKEN}/api/", f"/{TOKEN}/api/menu/..", f"/{TOKEN}/api/__init__", f"/{TOKEN}/é/", "/é/"),
    ],
)
def test_paths_that_are_none_are_refused(client: Any, path: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = client.request(method, f"http://127.0.0.1:8000{path}", follow_redirects=False)
        assert is_refused(answer), (method, path, answer.status_code, answer.text[:200])


def test_large_and_other_kinds_of_requests_are_refused(client: Any) -> None:
    address = f"/{TOKEN}/api/menu"
    large = client.post(address, content=b" " * (LARGEST + 1), headers={"content-type": "application/json"})
    assert large.status_code == 413 and is_refused(large)
    pieces = (b" " * 1_000_000 for _ in range(LARGEST // 1_000_000 + 1))
    unannounced = client.post(address, content=pieces, headers={"content-type": "application/json"})
    assert unannounced.status_code == 413 and is_refused(unannounced)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        other = client.post(address, content=b"{}", headers={"content-type": kind})
        assert other.status_code == 415 and is_refused(other)


def test_files_are_served_and_name_nothing_outside(client: Any) -> None:
    for name, (content, kind) in static_files().items():
        answer = client.get(f"/{TOKEN}/static/{name}")
        assert answer.content == content and answer.headers["content-type"].startswith(kind)
        text = content.decode().replace("http://www.w3.org/", "")  # the names of SVG are addresses
        assert "http://" not in text and "https://" not in text and "//cdn" not in text, name
        for word in ("eval(", "innerHTML", "document.write", "new Function"):
            assert word not in text, (name, word)
