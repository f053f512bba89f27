"""``oddsmith lecture`` and ``oddsmith gallery``."""

import json
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli import lectures
from oddsmith.lectures import topics


@pytest.fixture(autouse=True)
def no_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)


def test_lecture_without_a_topic_lists_all(run: Any) -> None:
    ended = run("lecture")
    assert ended.code == 0 and len(ended.out.splitlines()) == 39
    for topic in topics():
        assert f"{topic.name}" in ended.out and topic.title in ended.out
    assert json.loads(run("lecture", "--json").out)["topics"]["name"] == [topic.name for topic in topics()]


def test_lecture_prints_the_topic_with_its_example_as_it_runs(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = run("lecture", "decisions", "--no-open")
    assert ended.code == 0 and ended.err == ""
    assert ended.out.startswith("35. Decisions under a loss\n\nChoose the action of smallest expected loss")
    assert "    a(x) = arg minₐ ∑ₖ Lₖₐ p(Cₖ | x)\n" in ended.out
    assert "In oddsmith: decide(proba, loss, reject=…), expected_loss" in ended.out
    assert ">>> decide(proba).tolist()  # all errors cost the same\n[0, 0, 1]\n" in ended.out
    assert "Figure: The cost of decisions" in ended.out and "--save FILE" in ended.out
    assert list(Path().iterdir()) == []
    # What is printed is what happened now, not what stands on the page.
    monkeypatch.setattr("oddsmith.decide", lambda proba, *rest, **more: __import__("numpy").array([7]), raising=False)
    assert ">>> decide(proba).tolist()  # all errors cost the same\n[7]\n" in run("lecture", "35", "--no-open").out


@pytest.mark.parametrize("name", ["figure.png", "figure.svg", "figure.PDF"])
def test_lecture_saves_its_figure(run: Any, name: str) -> None:
    ended = run("lecture", "newton", "--save", name)
    assert ended.code == 0 and ended.out.rstrip().endswith(f"Saved as {name}")
    assert Path(name).stat().st_size > 5_000


@pytest.mark.parametrize(("place", "said"), [("x.gif", "Unknown format"), ("nowhere/x.png", "There is no folder")])
def test_a_place_that_cannot_be_written_to_is_refused_before_the_lecture(run: Any, place: str, said: str) -> None:
    ended = run("lecture", "newton", "--save", place)
    assert ended.code != 0 and ended.out == "" and said in ended.err


def test_lecture_without_a_screen_says_where_the_figure_is(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lectures, "_folder", lambda: tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(lectures.typer, "launch", lambda path: opened.append(path) or 0)
    ended = run("lecture", "newton")
    path = tmp_path / "24-newton.png"
    assert ended.code == 0 and path.is_file() and f"Saved as {path}" in ended.out and not opened


def test_lecture_opens_its_figure_where_there_is_a_screen(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    opened: list[str] = []
    monkeypatch.setattr(lectures.typer, "launch", lambda path: opened.append(path) or 0)
    assert lectures._open(tmp_path / "a.png") and opened == [str(tmp_path / "a.png")]
    monkeypatch.setattr(lectures.typer, "launch", lambda path: 3)  # no program takes it
    assert not lectures._open(tmp_path / "a.png")


def test_lecture_as_json_has_every_part(run: Any) -> None:
    found = json.loads(run("lecture", "1", "--json", "--save", "one.svg").out)
    assert found["name"] == "discriminant" and found["figure"] == "distance" and found["file"] == "one.svg"
    assert found["run"][-1]["output"] == "[1.414, -1.414, 0.0]\n"
    assert Path("one.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("lecture", "newtn"), "Did you mean 'newton'?"),
        (("lecture", "newton", "--save", "figure.gif"), "Unknown format of a figure 'gif'"),
        (("lecture", "newton", "--save", "no/such/folder/figure.png"), "There is no folder to write"),
        (("gallery", "zigzg"), "Did you mean 'zigzag'?"),
        (("gallery", "--format", "bmp"), "Unknown format of a figure 'bmp'"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(run: Any, arguments: tuple[str, ...], words: str) -> None:
    ended = run(*arguments)
    assert ended.code == 1 and words in ended.err and ended.err.startswith("Error: ")
    assert not Path("gallery").exists()


def test_gallery_writes_the_figures_under_their_topics(run: Any) -> None:
    ended = run("gallery", "newton", "roc", "-o", "for/class", "--dpi", 50)
    assert ended.code == 0 and ended.out == "Wrote 2 figures to for/class; for/class/index.html shows them.\n"
    assert sorted(path.name for path in Path("for/class").iterdir()) == [
        *("24-newton.png", "35-decisions-roc.png", "index.html")
    ]
    page = Path("for/class/index.html").read_text(encoding="utf-8")
    assert 'src="24-newton.png"' in page and 'alt="ROC and precision–recall curves' in page
    found = json.loads(run("gallery", "newton", "-o", "for/class", "--format", "svg", "--json").out)
    assert found == {"figures": {"newton": "for/class/24-newton.svg"}, "index": "for/class/index.html"}


def test_gallery_refuses_a_file_as_its_folder(run: Any) -> None:
    Path("taken").write_text("mine")
    ended = run("gallery", "newton", "-o", "taken")
    assert ended.code == 1 and "'taken' is a file. Name a folder" in ended.err
    assert Path("taken").read_text() == "mine"


def test_notebooks_are_written_into_a_folder(run: Any) -> None:
    ended = run("notebooks", "-o", "course")
    assert ended.code == 0 and ended.out == "Wrote 14 notebooks to course.\n"
    assert len(list(Path("course").glob("*.ipynb"))) == 14
    Path("file").write_text("")
    refused = run("notebooks", "-o", "file")
    assert refused.code == 1 and "is a file. Name a folder" in refused.err
    assert len(json.loads(run("notebooks", "-o", "again", "--json").out)["notebooks"]) == 14
