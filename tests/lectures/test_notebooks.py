"""The notebooks are whole, hold every topic once, and run from the top with the outputs that they show."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import _get_checker

from oddsmith.errors import InvalidInputError
from oddsmith.lectures import gallery, topics
from oddsmith.lectures.notebooks import LECTURES, PAGES, names, notebook, write_notebooks

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.register_optionflag("NUMBER")
TEACHER = Path(__file__).parents[2] / "docs" / "tutorials" / "teacher.md"


def test_every_topic_is_in_one_lecture_as_the_teachers_page_says() -> None:
    placed = [name for topics_of in LECTURES.values() for name in topics_of]
    assert sorted(placed) == sorted(topic.name for topic in topics())
    rows = re.findall(r"^\| \d+ · (.+?) \|.*?\| (\[.+?) \|", TEACHER.read_text(encoding="utf-8"), flags=re.MULTILINE)
    shown = {title: tuple(re.findall(r"\[([\w-]+)\]", links)) for title, links in rows}
    assert shown == dict(LECTURES)


def run(source: str, scope: dict[str, Any]) -> str:
    """Run a cell as a notebook does, and return what it shows: what is printed, then the value of its last line."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), scope)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


@pytest.mark.parametrize("name", names())
def test_notebook_runs_from_the_top_and_shows_what_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    # The scripts of the figures are run by the tests of the gallery.
    monkeypatch.setattr(gallery, "picture", drawn.append)
    scope: dict[str, Any] = {"__name__": "__main__"}
    cells = notebook(name)["cells"]
    for cell in cells:
        if cell["cell_type"] == "code":
            shown = run(cell["source"], scope)
            for output in cell["outputs"]:
                assert _get_checker().check_output(output["text"], shown, FLAGS), (cell["source"], shown)
    assert sum(bool(cell.get("outputs")) for cell in cells) >= 2
    assert set(drawn) <= set(gallery.scripts()) and (name in PAGES or drawn)


def test_cells_have_what_the_format_asks_for() -> None:
    for name in names():
        made = notebook(name)
        assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
        ids = [cell["id"] for cell in made["cells"]]
        assert len(set(ids)) == len(ids) and all(re.fullmatch(r"[\w-]{1,64}", one) for one in ids)
        for cell in made["cells"]:
            code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
            assert set(cell) == {"id", "cell_type", "metadata", "source"} | code
            if cell["cell_type"] == "markdown":
                assert ">>>" not in cell["source"] and "<details" not in cell["source"]
                assert not re.search(r"\]\((?!https?:)", cell["source"]), "a link that leads nowhere from a notebook"


def test_every_lecture_asks_the_exercises_of_its_topics() -> None:
    for name, topics_of in zip(names(), LECTURES.values(), strict=False):
        sources = "\n".join(cell["source"] for cell in notebook(name)["cells"])
        assert re.findall(r"find_exercise\('([\w-]+)'\)", sources) == list(topics_of)


def test_files_are_json_and_the_same_again(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in write_notebooks(tmp_path / "a")}
    second = {path.name: path.read_bytes() for path in write_notebooks(tmp_path / "b")}
    assert first == second and len(first) == 14
    assert all(json.loads(content)["cells"] for content in first.values())


def test_unknown_notebook_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"Unknown notebook '01-bayes'.*Did you mean"):
        notebook("01-bayes")
