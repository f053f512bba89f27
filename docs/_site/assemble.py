"""Puts the pages of the documentation site together in build/pages, from docs/ and from files at the root.

Links are led to where the pages stand, and formulas between dollar signs become MathML, which browsers draw alone.
So the generator needs no plugins of ours, and can be exchanged.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parents[2]

# Files that a reader of the repository finds elsewhere are pages of the site as well.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "licence.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
MOVED = PAGES | {"README.md": "index.md"}
LEFT_OUT = {"_site", "__pycache__", "conftest.py", "build.py", "animate.py"}

_CODE = re.compile(r"(^ *```.*?^ *```|(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\2(?!`))", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
_SESSION = re.compile(r"^( *)```python\n(?=( *[^\n`][^\n]*\n)*? *>>> )", flags=re.MULTILINE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])", flags=re.DOTALL)


def relink(text: str, source: str, page: str) -> str:
    """Return a text in which links from a file of the repository fit the page of the site that it becomes."""

    def replace(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        target = MOVED.get(target, target.removeprefix("docs/"))
        return f"{match[1]}{posixpath.relpath(target, posixpath.dirname(page) or '.')}{match[3] or ''}{match[4]}"

    return _LINK.sub(replace, text)


def draw(text: str) -> str:
    """Return a text with its formulas as MathML."""

    def replace(match: re.Match[str]) -> str:
        block = match[1] is not None
        # The converter knows aligned lines under this name alone.
        latex = (match[1] or match[2]).strip().replace("{aligned}", "{align*}")
        maths = convert(latex, display="block" if block else "inline")
        maths = maths.replace("*", "&#42;").replace("_", "&#95;").replace("\n", " ")
        return f'\n\n<div class="formula">{maths}</div>\n\n' if block else f'<span class="formula">{maths}</span>'

    return _FORMULA.sub(replace, text)


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change a text, but not its code."""
    parts: list[str] = []
    end = 0
    for code in _CODE.finditer(text):
        parts += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, change(text[end:])])


def files() -> Iterator[tuple[str, str]]:
    """Yield every file of the site: where it stands in the repository, and where in the site."""
    for path in sorted((ROOT / "docs").rglob("*")):
        inside = path.relative_to(ROOT / "docs")
        if path.is_file() and not LEFT_OUT & set(inside.parts):
            yield f"docs/{inside.as_posix()}", inside.as_posix()
    yield from PAGES.items()


def assemble(folder: Path) -> None:
    """Write all pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for source, page in files():
        target = folder / page
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix != ".md":
            shutil.copyfile(ROOT / source, target)
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "LICENSE":
            text = f"# Licence\n\n```text\n{text}```\n"
        elif source == "benchmarks/RESULTS.md":
            text = text.replace("# Results", "# Benchmarks", 1)
        text = outside_code(text, lambda prose, at=(source, page): draw(relink(prose, *at)))  # type: ignore[misc]
        text = _SESSION.sub(r"\1```pycon\n", text)  # prompts and output in colours of their own
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.chdir(ROOT)
    assemble(Path(sys.argv[1] if sys.argv[1:] else "build/pages"))
