"""A page as a parser reads it, for tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "wbr"}
TAGS = {
    *("html", "head", "meta", "title", "style", "script", "body", "header", "nav", "main", "section", "footer", "div"),
    *("h1", "h2", "h3", "p", "a", "b", "i", "sub", "bdi", "wbr", "span", "small", "code", "pre", "button"),
    *("ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("figure", "figcaption", "details", "summary", "svg", "path", "circle", "rect", "text"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "id", "class", "href", "type", "hidden", "role", "tabindex"),
    *("aria-label", "aria-labelledby", "aria-sort", "aria-live", "aria-hidden", "scope", "data-v", "data-values"),
    *("viewbox", "d", "x", "y", "r", "cx", "cy", "width", "height", "transform"),
}


HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg/onload=alert(1)>",
    "]]><b>",
    "</title></style></script><h1>",
    "<!-- ",
    "&lt;b&gt; &amp;",
    "a\u2028b\u2029c",
    "\u202eright to left\u202c \u2066isolate",
    "\x00\x07\x1b[31m\x7f\x85",
    "\ud800 half",
    "\ufffe\uffff\ufeff",
    "{{7*7}} ${x} `y`",
    "javascript:alert(1)",
    "\u0645\u0631\u062d\u0628\u0627",
    "x" * 500,
)
"""Texts that would like to be more than text."""


@dataclass
class Element:
    tag: str
    attributes: dict[str, str | None]
    inside: list[Element] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text inside, as a reader sees it."""
        return "".join(self.words)


class Page(HTMLParser):
    """Reads a page, and refuses tags that do not close what they opened."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(page)
        self.close()
        assert not self._open, f"Not closed: {[e.tag for e in self._open]}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        assert len(element.attributes) == len(attrs), f"An attribute of {tag} is there twice."
        self.elements.append(element)
        for outer in self._open:
            outer.inside.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1].tag == tag, f"</{tag}> closes {self._open[-1:]}"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.words.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"A comment: {data}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"A declaration: {data}")

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements of a tag, with these attributes."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [e for e in self.elements if e.tag == tag and all(e.attributes.get(n) == v for n, v in wanted.items())]

    def section(self, key: str) -> Element:
        """A part of the page."""
        (found,) = self.all("section", id=key)
        return found

    def table(self, caption: str) -> list[dict[str, str]]:
        """The rows of the table whose caption begins so."""
        (found,) = [
            t for t in self.all("table") if next(e for e in t.inside if e.tag == "caption").text.startswith(caption)
        ]
        rows = [[e.text for e in row.inside if e.tag in ("th", "td")] for row in found.inside if row.tag == "tr"]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]

    def facts(self, key: str) -> dict[str, str]:
        """Names and what they are, of a part of the page."""
        inside = self.section(key).inside
        names, values = ([e.text for e in inside if e.tag == tag] for tag in ("dt", "dd"))
        return dict(zip(names, values, strict=True))


def without_time(page: str) -> str:
    """A page without the minute in which it was made."""
    return re.sub(r"\d\d:\d\d UTC", "", page)


def check_harmless(page: str) -> Page:
    """Hold a page against what it may be made of: our tags, our attributes, one script, one style, nothing loaded."""
    found = Page(page)
    assert {e.tag for e in found.elements} <= TAGS
    assert {name for e in found.elements for name in e.attributes} <= ATTRIBUTES
    assert len(found.all("script")) == len(found.all("style")) == len(found.all("h1")) == 1
    links = [e.attributes["href"] or "" for e in found.elements if "href" in e.attributes]
    ids = [e.attributes["id"] for e in found.elements if "id" in e.attributes]
    assert len(set(ids)) == len(ids)
    assert all(link.startswith("#") and link[1:] in ids for link in links)
    return found
