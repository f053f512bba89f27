"""What a page of the documentation holds that can be run: its code blocks, and the tables "you wrote, you write"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

RUN = {"python", "console"}
# Set up the machine: not run, but the targets of make and the extras that they name are looked up.
LOOKED_UP = {"sh"}
# Not run, because it is no code (output, diagrams, files) or needs another program.
SHOWN = {"text", "json", "sql", "r", "scala", "pyspark"}

_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```[ ]*$", flags=re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"^\|[^\n]*\| you write \|[^\n]*\n\|[-| :]+\|\n((?:\|[^\n]*\n?)+)", flags=re.MULTILINE)
_INLINE = re.compile(r"(`+)(.+?)\1")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text without the indentation, and its first line."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Row:
    """A row of a table "you wrote, you write": the code of either side, and what is said about the difference."""

    wrote: tuple[str, ...]
    write: tuple[str, ...]
    remark: str
    line: int


def pages() -> list[Path]:
    """Return every page of the site, and the README."""
    top = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")]
    return [*top, *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_site" not in page.parts)]


def name(page: Path) -> str:
    """Return the name of a page, for messages."""
    return page.relative_to(ROOT).as_posix()


def contents(page: Path) -> list[Block | Row]:
    """Return what can be run on a page, in its order."""
    text = page.read_text(encoding="utf-8")
    blocks = list(_blocks(text))
    prose = _FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)  # same lines, no code
    return sorted([*blocks, *_rows(prose)], key=lambda part: part.line)


def _blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        body = re.sub(f"^{match[1]}", "", match[3], flags=re.MULTILINE)
        yield Block((match[2].split() or [""])[0], body, text.count("\n", 0, match.start()) + 2)


def _rows(text: str) -> Iterator[Row]:
    for table in _TABLE.finditer(text):
        first = text.count("\n", 0, table.start(1)) + 1
        for i, row in enumerate(table[1].splitlines()):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
            codes = [tuple(code.replace("\\|", "|").strip() for _, code in _INLINE.findall(cell)) for cell in cells]
            yield Row(codes[0], codes[1], " ".join(cells[2:]), first + i)
