"""Long files of the repository as several pages of the site: the syllabus, the gallery and the benchmarks.

The file stays one, for those who read it in the repository. On the site its first part is an overview, and its sections
are put on pages of their own. Links to a section lead to the page that it is on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown.extensions.toc import slugify

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Part:
    """A page of the site: its file, its title, and which sections (by their headings) are on it."""

    page: str
    title: str
    holds: Callable[[str], bool]


def _topics(first: int, last: int) -> Callable[[str], bool]:
    return lambda heading: first <= int(heading.partition(".")[0]) <= last


def _is(heading: str) -> Callable[[str], bool]:
    return lambda found: found == heading


def _starts(*prefixes: str) -> Callable[[str], bool]:
    return lambda heading: heading.startswith(prefixes)


GALLERY = {
    "activations": "From activations to probabilities",
    "densities": "Densities and Bayes' rule",
    "regions": "Decision regions",
    "posterior_maps": "Posterior maps",
    "uncertain_weights": "Uncertain weights",
    "outliers": "Outliers and order",
    "optimisers": "Optimisers",
    "weights": "Weights and priors",
    "evaluation": "Evaluation",
}
PARTS = {
    "docs/syllabus.md": (
        Part("syllabus/foundations.md", "Discriminants, Bayes' rule, sigmoids", _topics(1, 4)),
        Part("syllabus/generative.md", "Generative classifiers", _topics(5, 13)),
        Part("syllabus/discriminants.md", "Least squares, Fisher, perceptron", _topics(14, 18)),
        Part("syllabus/logistic_regression.md", "Basis functions and logistic regression", _topics(19, 21)),
        Part("syllabus/optimisation.md", "Gradient descent, Newton, IRLS", _topics(22, 26)),
        Part("syllabus/priors.md", "Priors, softmax, other links", _topics(27, 31)),
        Part("syllabus/bayesian.md", "Bayesian logistic regression", _topics(32, 34)),
        Part("syllabus/decisions.md", "Decisions, traces, figures, separation", _topics(35, 99)),
    ),
    "docs/gallery/README.md": tuple(Part(f"gallery/{name}.md", title, _is(title)) for name, title in GALLERY.items()),
    "benchmarks/RESULTS.md": (
        Part("benchmarks/real_tables.md", "Benchmarks: real tables", _starts("flights", "iris", "breast", "digits")),
        Part("benchmarks/growth.md", "Benchmarks: growing rows, columns and classes", _starts("growth")),
        Part("benchmarks/synthetic.md", "Benchmarks: synthetic tables", lambda heading: True),
    ),
}


@dataclass(frozen=True)
class Pages:
    """A file cut into pages: the overview, the text of each page, and the page of each anchor."""

    overview: str
    texts: dict[str, str]
    anchors: dict[str, str]


@cache
def pages_of(source: str) -> Pages:
    """Return the pages of a long file; a section belongs to the first part that takes it."""
    first, *sections = re.split(r"^(?=## )", (ROOT / source).read_text(encoding="utf-8"), flags=re.MULTILINE)
    texts = {part.page: f"# {part.title}\n\n" for part in PARTS[source]}
    anchors = {}
    for section in sections:
        heading = section.splitlines()[0].removeprefix("## ")
        part = next((part for part in PARTS[source] if part.holds(heading)), None)
        if part is None:
            raise SystemExit(f"{source}: no page takes the section {heading!r}. Add one to PARTS in split.py.")
        # A page of one section has its title already, and its subsections move up.
        alone = heading == part.title
        texts[part.page] += re.sub("^##", "#", section.partition("\n")[2], flags=re.MULTILINE) if alone else section
        for found in re.findall(r"^##+ (.+)$", section, flags=re.MULTILINE):
            anchors[slugify(found, "-")] = part.page
    return Pages(first, texts, anchors)
