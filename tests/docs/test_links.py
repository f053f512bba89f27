"""Every relative link in the Markdown files of the repository leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.docs.reading import ROOT, name

PAGES = [page for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md") for page in sorted(ROOT.glob(pattern))]
# Pages that the site makes from files at the root: docs/_site/hooks.py.
MADE = {"docs/benchmarks.md", "docs/changelog.md", "docs/contributing.md", "docs/licence.md"}
_LINK = re.compile(r"!?\[[^\]\n]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^( *)```.*?^\1```|`[^`\n]+`", flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the names under which the headings of a page can be linked to."""
    text = re.sub(r"^( *)```.*?^\1```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.*)$", text, flags=re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r"""(?:\bid="|\{ *#)([\w.-]+)""", text))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", link) or (target.is_relative_to(ROOT) and name(target) in MADE):
            continue
        is_page = target.suffix == ".md" and "reference" not in target.parts  # the reference is made of docstrings
        if not target.exists() or (anchor and is_page and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


ARCHITECTURE = [page for page in PAGES if page.stem in ("how_it_works", "glossary", "CONTRIBUTING", "add_an_engine")]
ARCHITECTURE += [page for page in PAGES if page.stem.startswith("add_a_")]
NAMED = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?|[a-z_]+\.py)`|^ {3}([a-z_]+/)", re.MULTILINE)


@pytest.mark.parametrize("page", ARCHITECTURE, ids=name)
def test_files_and_rooms_that_the_architecture_pages_name_exist(page: Path) -> None:
    named = {first or second for first, second in NAMED.findall(page.read_text(encoding="utf-8"))}
    places = (ROOT / "src" / "oddsmith", ROOT / "src", ROOT)
    built = {"site/", "dist/", "build/"}
    assert not sorted(name for name in named - built if not any((place / name).exists() for place in places))
