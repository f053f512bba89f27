"""Docstrings as the reference shows them: examples under a heading of their own, tables as Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_LISTS = {"Attributes", "Parameters", "Returns"}
_MAPPING = re.compile(r"^(\w+ : )\{(\w+): (\w+)\}", flags=re.MULTILINE)  # else taken for a set of choices
_RULE = re.compile(r"^=+( +=+)+$")


class Readable(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the text of an object's docstring."""
        if obj.docstring:
            text = _MAPPING.sub(r"\1mapping from \2 to \3", obj.docstring.value)
            obj.docstring.value = with_examples(with_notes(with_tables(text)))


def with_tables(text: str) -> str:
    """Write tables of reStructuredText (columns below rules of ``=``) as those of Markdown."""
    lines, out, inside = text.splitlines(), [], False
    spans: list[tuple[int, int | None]] = []
    rows: list[list[str]] = []
    for i, line in enumerate(lines):
        if not _RULE.match(line.strip()):
            if not inside:
                out.append(line)
            elif line.strip():
                cells = [line[start:end].strip() for start, end in spans]
                if cells[0] or not rows:
                    rows.append(cells)
                else:  # a line without a first cell goes on with the row above
                    rows[-1] = [f"{old} {new}".strip() for old, new in zip(rows[-1], cells, strict=True)]
            continue
        if not inside:
            starts = [match.start() for match in re.finditer("=+", line)]
            spans = list(zip(starts, [*starts[1:], None], strict=True))
            inside, rows, has_header = True, [], False
        elif any(_RULE.match(later.strip()) for later in lines[i + 1 : i + 60]) and len(rows) == 1:
            has_header = True
        else:
            head = rows.pop(0) if has_header else [""] * len(spans)
            table = [head, ["---"] * len(spans), *rows]
            out += ["", *("| " + " | ".join(cells) + " |" for cells in table), ""]
            inside = False
    return "\n".join(out)


def with_notes(text: str) -> str:
    """Give the paragraph that follows a list of parameters, attributes or results a heading: it is none of them."""
    lines, out, section = text.splitlines(), [], ""
    for i, line in enumerate(lines):
        if lines[i + 1 : i + 2] and re.fullmatch("-{3,}", lines[i + 1]):
            section = line
        elif section in _LISTS and i and not lines[i - 1].strip() and re.match(r"[^\s>-]", line):
            out += ["Notes", "-----"]
            section = "Notes"
        out.append(line)
    return "\n".join(out)


def with_examples(text: str) -> str:
    """Give the examples at the end of a docstring their heading."""
    head, prompt, examples = text.partition("\n\n>>> ")
    if not prompt or "\nExamples\n---" in head:
        return text
    return f"{head}\n\nExamples\n--------\n>>> {examples}"
