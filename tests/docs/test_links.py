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
