"""The page: one file with style and script inside, and a policy that admits nothing else."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files

import oddsmith
from oddsmith.report.html import Markup, clean, join, tag


@dataclass(frozen=True)
class Section:
    """A part of the page; one that does not apply is a sentence that says so."""

    key: str
    title: str
    body: Markup

    @property
    def absent(self) -> bool:
        """Whether it does not apply."""
        return self.body.startswith('<p class="absent">')


@cache
def _asset(name: str) -> Markup:
    return Markup(files("oddsmith.report").joinpath(name).read_text(encoding="utf-8"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def policy() -> str:
    """Return the Content-Security-Policy: nothing is loaded, and only our own style and script apply."""
    style, script = _hash(_asset("style.css")), _hash(_asset("script.js"))
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


def make_page(title: str, lead: str, sections: list[Section]) -> str:
    """Return the whole page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"oddsmith {oddsmith.__version__}"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", clean(title)),
        tag("style", _asset("style.css")),
    )
    links = (
        tag("li", tag("a", part.title, href=f"#{part.key}", class_="none" if part.absent else None))
        for part in sections
    )
    nav = tag("nav", tag("h2", "Contents"), tag("ol", join(links)), aria_label="Contents")
    parts = (
        tag(
            "section",
            tag("h2", part.title, id=f"{part.key}-title"),
            part.body,
            id=part.key,
            aria_labelledby=f"{part.key}-title",
        )
        for part in sections
    )
    date = datetime.now(UTC).strftime("%d %B %Y")
    body = tag(
        "body",
        tag("a", "To the report", href="#main", class_="skip"),
        tag(
            "div",
            tag(
                "header",
                tag("p", f"Model report · {date}", class_="kicker"),
                tag("h1", tag("bdi", clean(title))),
                tag("p", lead, class_="lead"),
                tag("button", "Theme: system", id="theme", type="button", hidden=True),
            ),
            nav,
            tag("main", join(parts), id="main"),
            tag("footer", f"Made by oddsmith {oddsmith.__version__}. This page is one file and loads nothing."),
            class_="page",
        ),
        tag("script", _asset("script.js")),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"
