"""Check that every relative link in the Markdown files of the repository leads somewhere."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]\n]+\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the names under which the headings of a page can be linked to."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return a line for each relative link of a page whose file or heading does not exist."""
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f"{page.relative_to(ROOT)}: {link} leads nowhere")
    return broken


if __name__ == "__main__":
    pages = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    broken = [line for page in pages for line in broken_links(page)]
    print("\n".join(broken) or f"{len(pages)} pages, every relative link leads somewhere")
    sys.exit(bool(broken))
