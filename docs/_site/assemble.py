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
from markdown.extensions.toc import slugify
from split import PARTS, pages_of

ROOT = Path(__file__).resolve().parents[2]

# Files that a reader of the repository finds elsewhere are pages of the site as well.
PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "licence.md",
    "benchmarks/RESULTS.md": "benchmarks/index.md",
}
MOVED = PAGES | {
    "README.md": "index.md",
    "docs/syllabus.md": "syllabus/index.md",
    "docs/benchmarks.md": "benchmarks/index.md",
}
LEFT_OUT = {"_site", "__pycache__", "conftest.py", "build.py", "animate.py"}

_CODE = re.compile(r"(^ *```.*?^ *```|(`+)(?!`)(?:(?!\n\n).)+?(?<!`)\2(?!`))", flags=re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^)\s#:]*)(#[^)\s]*)?(\))")
_SESSION = re.compile(r"^( *)```python\n(?=( *[^\n`][^\n]*\n)*? *>>> )", flags=re.MULTILINE)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\w$])", flags=re.DOTALL)


def relink(text: str, source: str, page: str) -> str:
    """Return a text in which links from a file of the repository fit the page of the site that it becomes."""

    def replace(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2])) if match[2] else source
        section = pages_of(target).anchors.get((match[3] or "#")[1:]) if target in PARTS else None
        target = section or MOVED.get(target, target.removeprefix("docs/"))
        if target == page:
            return f"{match[1]}{match[3] or posixpath.basename(page)}{match[4]}"
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
            source = f"docs/{inside.as_posix()}"
            yield source, MOVED.get(source, inside.as_posix())
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
        if source in PARTS:
            write(target, overview(source, folder), source, page)
            for part, text in pages_of(source).texts.items():
                write(folder / part, text, source, part)
            continue
        text = (ROOT / source).read_text(encoding="utf-8")
        if source == "LICENSE":
            text = f"# Licence\n\n```text\n{text}```\n"
        elif page.startswith("reference/classifiers/"):
            text = with_members(text)
        write(target, text, source, page)


def write(target: Path, text: str, source: str, page: str) -> None:
    """Write a page of the site: links led, formulas drawn, sessions marked as such."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source == "benchmarks/RESULTS.md":
        text = re.sub(r"(\d)e-(\d)", "\\1e\u2011\\2", text)  # no line ends inside of a number
    text = outside_code(text, lambda prose: draw(relink(prose, source, page)))
    text = _SESSION.sub(r"\1```pycon\n", text)  # prompts and output in colours of their own
    target.write_text(text, encoding="utf-8")


def overview(source: str, folder: Path) -> str:
    """Return the first page of a long file, with links to the others."""
    text = pages_of(source).overview
    if source == "benchmarks/RESULTS.md":
        text = text.replace("# Results", "# Benchmarks", 1)
        headings = re.findall(r"^## ((\S+): .+)$", (ROOT / source).read_text(encoding="utf-8"), flags=re.MULTILINE)
        for heading, case in headings:
            text = text.replace(f"\n| {case} |", f"\n| [{case}](#{slugify(heading, '-')}) |", 1)
    elif source == "docs/gallery/README.md":
        text = re.sub(r"^!\[.*contact_sheet.*$", lambda _: thumbnails(folder), text, flags=re.MULTILINE)
        return text
    return f"---\nhide: [toc]\n---\n\n{text}"  # one table: there is no list of contents


def thumbnails(folder: Path) -> str:
    """Return small pictures of all figures, section by section, each a link to its figure; and make them."""
    from PIL import Image

    parts, small = [], folder / "gallery" / "small"
    small.mkdir(parents=True, exist_ok=True)
    for page, text in pages_of("docs/gallery/README.md").texts.items():
        title = text.splitlines()[0].removeprefix("# ")
        parts.append(f'## [{title}]({posixpath.basename(page)})\n\n<div class="thumbnails" markdown>\n')
        for heading, name in re.findall(r"^## (.+?)$.*?\(figures/(\w+)\.png\)", text, flags=re.MULTILINE | re.DOTALL):
            with Image.open(ROOT / "docs" / "gallery" / "figures" / f"{name}.png") as picture:
                picture = picture.convert("RGB")
                picture.thumbnail((360, 270), Image.Resampling.LANCZOS)
                picture.quantize(96).save(small / f"{name}.png", optimize=True)
            words = name.replace("_", " ")
            parts.append(f"[![{heading}](small/{name}.png){{ loading=lazy }} {words}](#{slugify(heading, '-')})\n")
        parts.append("</div>\n")
    return "\n".join(parts)


FIRST = ("fit", "predict", "predict_proba", "predict_log_proba", "decision_function", "score", "decide", "summary")


def with_members(text: str) -> str:
    """Return a page of the reference in which the methods that everybody needs come first."""
    import oddsmith

    found = re.match(r"::: oddsmith\.(\w+)\n    options:\n", text)
    if found is None:
        return text
    kind = getattr(oddsmith, found[1])
    own = [name for cls in kind.__mro__ for name in vars(cls) if cls.__module__.startswith("oddsmith")]
    names = [name for name in own if not name.startswith("_") and (getattr(kind, name, None).__doc__ or "").strip()]
    described = [name for name in (*FIRST, *names) if name in names]
    listed = ", ".join(dict.fromkeys(described))
    return f"{text.rstrip()}\n      group_by_category: false\n      members: [{listed}]\n"


if __name__ == "__main__":
    os.chdir(ROOT)
    assemble(Path(sys.argv[1] if sys.argv[1:] else "build/pages"))
