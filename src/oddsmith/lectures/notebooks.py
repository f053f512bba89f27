"""The course as Jupyter notebooks, made from the pages of the documentation: a notebook for each lecture.

Prose and formulas become cells of Markdown, examples become cells of code with their outputs, figures become calls that
draw them, and each topic ends with its exercise. Links inside the documentation are left as plain text.
"""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from oddsmith.errors import UnknownNameError
from oddsmith.lectures.exercises import Exercise, find_exercise
from oddsmith.lectures.syllabus import documents, find_topic, sections

Cell = dict[str, Any]

LECTURES: Mapping[str, tuple[str, ...]] = {
    "Bayes' rule": ("bayes",),
    "Gaussian classes": ("shared-covariance", "several-gaussians", "separate-covariances", "partly-shared"),
    "Fit and sample": ("gaussian-fit", "naive-bayes", "sampling", "class-prior", "parameters"),
    "Lines without densities": ("discriminant", "generalised-linear", "least-squares"),
    "Fisher, perceptron": ("fisher", "fisher-least-squares", "perceptron", "several-classes"),
    "Logistic regression": ("sigmoid", "logistic"),
    "Optimisers": ("gradient", "sgd", "newton", "one-step", "irls", "trace"),
    "Curves": ("basis", "scaling", "figures"),
    "Priors": ("prior", "prior-scale", "separation"),
    "Several classes, other links": ("softmax", "probit", "links"),
    "Bayesian logistic regression": ("laplace", "posterior", "predictive"),
    "Decisions": ("decisions",),
}
"""The topics of each lecture, by their names."""
PAGES = ("derivations", "notes")  # Pages of the course that are notebooks as they are.

_PART = re.compile(
    r"^( *)```(?P<language>\w+)\n(?P<code>.*?)^\1```[ ]*$|^!\[[^\]]*\]\(\S*figures/(?P<figure>\w+)\.png\)$",
    flags=re.MULTILINE | re.DOTALL,
)
_LINK = re.compile(r"\[([^\]]+)\]\((?![a-z]+:)[^)\s]+\)")
_FOLD = re.compile(r"^</?details.*$|^<summary>.*$", re.MULTILINE)
_SETUP = "from oddsmith.lectures.exercises import check, find_exercise\nfrom oddsmith.lectures.gallery import picture"


def names() -> tuple[str, ...]:
    """Return the names of all notebooks, in their order.

    >>> names()[0], names()[-1], len(names())
    ('01-bayes-rule', 'notes', 14)
    """
    return (*(f"{i:02d}-{_slug(title)}" for i, title in enumerate(LECTURES, 1)), *PAGES)


def notebook(name: str) -> dict[str, Any]:
    """Return a notebook as JSON (format 4.5).

    >>> made = notebook("06-logistic-regression")
    >>> made["cells"][0]["source"], sum(cell["cell_type"] == "code" for cell in made["cells"]) > 10
    ('# Logistic regression', True)
    """
    if name not in names():
        raise UnknownNameError("notebook", name, names())
    page = documents() / "course" / f"{name}.md"
    cells = list(_cells(page.read_text(encoding="utf-8")) if name in PAGES else _lecture_cells(names().index(name)))
    for i, cell in enumerate(cells):
        cell["id"] = f"{name}-{i}"[:64]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}


def write_notebooks(folder: str | Path) -> Iterator[Path]:
    """Write all notebooks into a folder, and yield each file when it is there."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names():
        path = folder / f"{name}.ipynb"
        path.write_text(json.dumps(notebook(name), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        yield path


def _lecture_cells(index: int) -> Iterator[Cell]:
    title = list(LECTURES)[index]
    yield _markdown(f"# {title}")
    yield _code(_SETUP)
    for name in LECTURES[title]:
        topic = find_topic(name)
        yield _markdown(f"## {topic.number}. {topic.title}")
        yield from _cells(_syllabus()[topic.number])
        yield from _exercise_cells(find_exercise(name))


def _exercise_cells(exercise: Exercise) -> Iterator[Cell]:
    """Yield the exercise: its text, its data, a place for the answer, and the check of it."""
    blanks = "\n".join(f"{name} = None" for name in exercise.asked)
    given = ", ".join(f'"{name}": {name}' for name in exercise.asked)
    yield _markdown(f"### Exercise\n\n{exercise.text}")
    yield _code(exercise.data)
    yield _markdown(exercise.question)
    yield _code(f'{blanks}\nprint(*check(find_exercise({exercise.topic.name!r}), {{{given}}}), sep="\\n")')


def _cells(text: str) -> Iterator[Cell]:
    """Yield the cells of a page: prose, code and figures, in their order."""
    end = 0
    for part in _PART.finditer(text):
        yield from _prose(text[end : part.start()])
        end = part.end()
        if part["figure"]:
            yield _code(f'picture("{part["figure"]}")')
        elif part["language"] != "python":
            yield _markdown(part[0])
        elif ">>>" in part["code"]:
            yield from _session(part["code"])
        else:
            yield _code(part["code"])
    yield from _prose(text[end:])


def _prose(text: str) -> Iterator[Cell]:
    text = re.sub(r"\n{3,}", "\n\n", _FOLD.sub("", _LINK.sub(r"\1", text))).strip()
    if text:
        yield _markdown(text)


def _session(text: str) -> Iterator[Cell]:
    """Yield cells of a session: one ends where something is printed, so that it is seen."""
    lines: list[str] = []
    for step in doctest.DocTestParser().get_examples(text):
        lines.append(step.source.rstrip("\n"))
        if step.want:
            yield _code("\n".join(lines), step.want)
            lines = []
    if lines:
        yield _code("\n".join(lines))


def _markdown(text: str) -> Cell:
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def _code(source: str, want: str = "") -> Cell:
    outputs = [{"output_type": "stream", "name": "stdout", "text": want}] if want else []
    code = {"source": source.rstrip("\n"), "outputs": outputs}
    return {"cell_type": "code", "metadata": {}, "execution_count": None, **code}


def _slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z]+", title.lower().replace("'", "")))


@cache
def _syllabus() -> dict[int, str]:
    return sections((documents() / "syllabus.md").read_text(encoding="utf-8"))
