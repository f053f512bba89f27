"""The command line, run in this process and in a folder of its own."""

import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs ``oddsmith`` with the arguments given, in an empty folder, without a terminal."""
    from oddsmith.cli.app import app

    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: Any, stdin: bytes = b"") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            app([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Ended(int(end.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture
def fitted(run: Run) -> Path:
    """Return a model of the penguins."""
    assert run("fit", "penguins", "-t", "species", "--prior", 1, "--missing", "indicator", "-o", "p.odds").code == 0
    return Path("p.odds")
