"""Every code block of the site and of the README runs and prints what stands under it."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from tests.docs.reading import LOOKED_UP, ROOT, RUN, SHOWN, Block, contents, name, pages
from tests.docs.running import Session

import oddsmith

RUNNABLE = [
    page for page in pages() if any(not isinstance(part, Block) or part.language in RUN for part in contents(page))
]


@pytest.mark.parametrize("page", RUNNABLE, ids=name)
def test_page_runs_from_top_to_bottom(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(variable, raising=False)
    session = Session(page, capsys, monkeypatch)
    for part in contents(page):
        if not isinstance(part, Block) or part.language in RUN:
            session.run(part)


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_block_says_what_it_is(page: Path) -> None:
    known = RUN | LOOKED_UP | SHOWN
    text = page.read_text(encoding="utf-8")
    blocks = [part for part in contents(page) if isinstance(part, Block)]
    assert 2 * len(blocks) == len(re.findall(r"^ *```", text, flags=re.MULTILINE)), "a fence that does not end"
    unknown = {f"line {block.line}: {block.language!r}" for block in blocks if block.language not in known}
    assert not unknown, f"blocks are one of {sorted(known)}"
    hidden = [block.line for block in blocks if block.language == "text" and re.search(r"^(>>> |\$ )", block.text)]
    assert not hidden, "these lines look as if they could run"


def test_commands_of_setting_up_exist() -> None:
    extras = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    )
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    lines = [
        line
        for page in pages()
        for part in contents(page)
        if isinstance(part, Block) and part.language in LOOKED_UP
        for line in part.text.splitlines()
    ]
    assert lines
    for line in lines:
        words = shlex.split(line.removeprefix(".venv/bin/"), comments=True)
        if words[0] == "make":
            assert words[1] in targets, line
        elif words[:4] == ["python", "-m", "pip", "install"]:
            assert {extra for found in re.findall(r"\[(.*?)\]", words[-1]) for extra in found.split(",")} <= extras, (
                line
            )
        else:
            assert words[:3] in (["python", "-m", "venv"], ["python", "-m", "http.server"]) or words[0] in {
                "git",
                "cd",
                "export",
            }, line


def test_tables_of_migration_say_what_to_write() -> None:
    for page in (ROOT / "docs" / "migration").glob("*.md"):
        assert any(not isinstance(part, Block) for part in contents(page)), f"{page.name} has no table that is run"


def test_reference_describes_every_public_name_once() -> None:
    pages_of_reference = (ROOT / "docs" / "reference").rglob("*.md")
    described = [
        line for page in pages_of_reference for line in re.findall(r"^::: (\S+)", page.read_text(), flags=re.MULTILINE)
    ]
    assert len(described) == len(set(described)), "described twice"
    missing = {f"oddsmith.{name}" for name in oddsmith.__all__} - {*described, "oddsmith.__version__"}
    assert not missing, "add them to a page of docs/reference"
