"""HTML from Python: one function escapes all text, so nothing in the data can become markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape as entities
from math import isfinite

MOST_NAMES = 12  # Names of columns in a sentence.
LONGEST = 200  # Characters of a name that are shown.

# What a reader cannot see or what would turn the text around it: controls, directions, line separators, invisible
# spaces, halves of characters and those that HTML does not allow.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
    + "]"
)

EMPTY = {"meta": ">", "wbr": ">", "circle": "/>", "path": "/>", "rect": "/>"}
"""Elements without content; those of SVG say so themselves."""


_JOINT = re.compile(r"(?<=[_./:,;|-])(?=\w)")


class Markup(str):
    """Text that is already HTML; only `tag` and `escape` create it."""

    __slots__ = ()


def clean(value: object) -> str:
    r"""Return a text of limited length in which invisible characters are written out.

    >>> clean("a\u202eb\x00"), len(clean("x" * 1000))
    ('a⟨U+202E⟩b⟨U+0000⟩', 200)
    """
    text = str(value)
    return visible(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def visible(text: str) -> str:
    """Return a text in which invisible characters are written out."""
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)


def escape(value: object) -> Markup:
    """Return a text as HTML that reads the same, between tags and inside of quoted attributes.

    >>> escape('<b title="x">')
    '&lt;b title=&quot;x&quot;&gt;'
    """
    return value if isinstance(value, Markup) else Markup(entities(visible(str(value)), quote=True))


def tag(element: str, /, *children: object, **attributes: object) -> Markup:
    """Return an element; children that are not `Markup` are escaped.

    Attributes are written with ``-`` for ``_`` and lose one at their end; None and False leave one out.

    >>> tag("p", "a < b", tag("b", "!"), class_="x", data_t=1, hidden=None)
    '<p class="x" data-t="1">a &lt; b<b>!</b></p>'
    """
    written = [element]
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        key = name.rstrip("_").replace("_", "-")
        written.append(key if value is True else f'{key}="{escape(value)}"')
    start = f"<{' '.join(written)}"
    return Markup(start + EMPTY[element] if element in EMPTY else f"{start}>{join(children)}</{element}>")


def join(parts: Iterable[object]) -> Markup:
    """Return parts, escaped, one after the other.

    >>> join(["<", Markup("<br>")])
    '&lt;<br>'
    """
    return Markup("".join(escape(part) for part in parts))


def name_tag(value: object) -> Markup:
    """Return a name from the data, shortened and isolated from the text direction around it.

    >>> name_tag("<age>_at_3")
    '<bdi>&lt;age&gt;_<wbr>at_<wbr>3</bdi>'
    """
    # A long name may be broken behind its joints.
    return tag("bdi", Markup(tag("wbr").join(map(escape, _JOINT.split(clean(value))))))


def name_list(values: Iterable[object], most: int | None = None) -> Markup:
    """Return names from the data, with commas between them, the first ``most`` and how many more there are.

    >>> name_list(["a", "b"]), name_list(["a", "b", "c"], 1)
    ('<bdi>a</bdi>, <bdi>b</bdi>', '<bdi>a</bdi> and 2 more')
    """
    names = list(values)
    more = 0 if most is None else max(0, len(names) - most)
    shown = Markup(", ".join(map(name_tag, names[: len(names) - more])))
    return join([shown, f" and {more:,} more"]) if more else shown


def absent(text: object) -> Markup:
    """Return the sentence that replaces a part of the page that does not apply."""
    return tag("p", text, class_="absent")


def number(value: float, digits: int = 4) -> str:
    """Return a number as text: a few digits, thousands separators, a true minus sign; nothing for NaN.

    >>> number(1234567), number(-0.0123456), number(float("nan")), number(float("inf")), number(3e-12)
    ('1,234,567', '−0.01235', '', '∞', '3e−12')
    >>> number(1234.5), number(79220.4)
    ('1234', '79,220')
    """
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        text = f"{value:,}"
    else:
        x = float(value) + 0.0  # no negative zero
        if not isfinite(x):
            return "" if x != x else "∞" if x > 0 else "−∞"
        text = f"{x:.{digits}g}" if x == 0.0 or 1e-4 <= abs(x) < 1e5 else f"{x:.{max(digits - 2, 0)}e}"
        if 10.0 ** min(digits, 5) <= abs(x) < 1e9:
            text = f"{x:,.0f}"
        text = re.sub(r"(?:\.0+)?e([+-])0*(\d+)", lambda found: f"e{found[1].replace('+', '')}{found[2]}", text)
    return text.replace("-", "−")


def percent(share: float) -> str:
    """Return a share in per cent.

    >>> percent(0.3333), percent(1.0), percent(1e-5)
    ('33.3%', '100%', '0.001%')
    """
    return "" if share != share else f"{100 * share:.3g}%"
