"""The topics of the syllabus, read from the page that shows them: one source for the page and the command line."""

from __future__ import annotations

import contextlib
import doctest
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from oddsmith.errors import InvalidInputError

_ROW = re.compile(r"^\| (\d+) \| \[(.+?)\]\(#.+?\) \| `(.+?)` \|$", re.MULTILINE)
_SECTION = re.compile(r"^## (\d+)\. (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)\s]+\)")
_FIGURE = re.compile(r"!?\[([^\]]*)\]\(gallery/figures/(\w+)\.png\)")


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A topic: its number, its name in a terminal and its title, then what its section of the page has.

    ``equation`` is LaTeX, ``where`` the names in oddsmith, ``example`` an interactive Python session, ``figure`` the
    name of its script in the gallery and ``caption`` what the figure shows; ``also`` are the names of further figures.
    """

    number: int
    name: str
    title: str
    idea: str
    equation: str
    where: str
    example: str
    figure: str
    caption: str
    also: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """The number and the name, as files are called: ``'24-newton'``."""
        return f"{self.number:02d}-{self.name}"


def documents() -> Path:
    """Return the folder with the syllabus and the scripts of the gallery: in the wheel, or in the repository."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "docs", here.parents[3] / "docs"):
        if (folder / "syllabus.md").is_file():
            return folder
    raise InvalidInputError(
        "The syllabus and the gallery are missing from this installation. Reinstall oddsmith from its wheel, or run "
        "it in its repository."
    )


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics in their order.

    >>> topics()[0].name, topics()[0].figure
    ('discriminant', 'distance')
    """
    return read_topics((documents() / "syllabus.md").read_text(encoding="utf-8"))


def read_topics(page: str) -> tuple[Topic, ...]:
    """Return the topics of a page: a table of numbers, titles and names, then a section for each."""
    parts = _SECTION.split(page)
    names = {int(number): (title, name) for number, title, name in _ROW.findall(parts[0])}
    found = []
    for number, title, section in zip(map(int, parts[1::3]), parts[2::3], parts[3::3], strict=True):
        listed, name = names.pop(number, ("", ""))
        if listed != title:
            raise InvalidInputError(f"Topic {number} is {title!r} in its section and {listed!r} in the table above.")
        found.append(_read(number, name, title, section))
    if names:
        raise InvalidInputError(f"The table lists topics that have no section: {sorted(names)}.")
    return tuple(found)


def _read(number: int, name: str, title: str, section: str) -> Topic:
    match = re.fullmatch(
        r"\s*(?P<idea>.+?)\n\n\$\$\n(?P<equation>.+?)\n\$\$\n\nIn oddsmith: (?P<where>.+?)\n\n"
        r"```python\n(?P<example>.+?)\n\n```\n\n(?P<figures>.+?)\s*",
        section,
        flags=re.DOTALL,
    )
    figures = _FIGURE.findall(match["figures"]) if match else []
    if match is None or not figures:
        raise InvalidInputError(
            f"Topic {number}, {title!r}, is not made of an idea, an equation, the names in oddsmith, an example and a "
            "figure, in this order."
        )
    (caption, figure), *more = figures
    texts = {part: re.sub(r"\s+", " ", _LINK.sub(r"\1", match[part])) for part in ("idea", "where")}
    texts |= {"equation": match["equation"], "example": match["example"], "figure": figure, "caption": caption}
    return Topic(number=number, name=name, title=title, also=tuple(name for _, name in more), **texts)


def sections(page: str) -> dict[int, str]:
    """Return the sections of a page under headings such as ``## 7. Title``, by their numbers."""
    parts = _SECTION.split(page)
    return dict(zip(map(int, parts[1::3]), parts[3::3], strict=True))


def find_topic(wanted: str) -> Topic:
    """Return a topic by its number, its name, its title or the name of its figure; case does not matter.

    >>> find_topic("24") is find_topic("Newton-Raphson") is find_topic("newton")
    True
    """
    word, known = " ".join(wanted.casefold().split()), topics()
    names = {key: t for t in known for key in (t.name, str(t.number), t.title.casefold(), t.stem)}
    figures = {name: t for t in reversed(known) for name in (*t.also, t.figure)}
    if word in names or word in figures:
        return names.get(word) or figures[word]
    within = [topic for topic in known if word and word in f"{topic.name} {topic.title.casefold()}"]
    if len(within) == 1:
        return within[0]
    if within:
        meant = ", ".join(f"{topic.name!r} ({topic.title})" for topic in within)
        raise InvalidInputError(f"{wanted!r} may be any of these topics: {meant}. Name one of them.")
    spelt = [] if word.isdigit() else get_close_matches(word, names, n=5, cutoff=0.5)  # 99 is not meant to be 9
    close = dict.fromkeys(names[key].name for key in spelt)
    hint = f" Did you mean {' or '.join(map(repr, list(close)[:3]))}?" if close else ""
    raise InvalidInputError(
        f"There is no topic {wanted!r}.{hint} 'oddsmith lecture' lists all {len(known)} of them, by number and name."
    )


def run_example(topic: Topic) -> Iterator[tuple[str, str]]:
    """Run the example of a topic, and yield each statement with what it prints.

    The outputs are those of this run, not those on the page.

    >>> source, printed = list(run_example(find_topic("sigmoid")))[-1]
    >>> print(printed, end="")
    True
    """
    namespace: dict[str, Any] = {"__name__": f"lecture_{topic.number}"}
    for step in doctest.DocTestParser().get_examples(topic.example):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(step.source, f"<{topic.stem}>", "single"), namespace)
        yield step.source, printed.getvalue()
