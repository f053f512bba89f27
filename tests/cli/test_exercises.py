"""``oddsmith exercise`` and ``oddsmith check``."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest


def test_exercise_without_a_topic_lists_all(run: Any) -> None:
    ended = run("exercise")
    assert ended.code == 0 and len(ended.out.splitlines()) == 39
    assert json.loads(run("exercise", "--json").out)["exercises"]["number"] == list(range(1, 39))


def test_exercise_states_its_text_data_and_question_but_no_hint_unless_asked(run: Any) -> None:
    ended = run("exercise", "21")
    assert ended.code == 0 and ended.out.startswith("21. Logistic regression\n\nThe cross-entropy")
    assert "    t = np.array([0, 1, 0, 1])\n" in ended.out and ended.out.rstrip().endswith("at w = 0.")
    more = run("exercise", "logistic", "--hint", "--solution").out
    assert "Hint: at w = 0 every probability is ½" in more and ">>> g = Phi.T @ (y - t)" in more
    assert set(json.loads(run("exercise", "21", "--json").out)["asked"]) == {"E", "g"}


def test_answers_are_judged_part_by_part(run: Any) -> None:
    assert run("check", "21", "2.77", "0", "-1").out == "E: right\ng: right\n"
    wrong = run("check", "21", "0.693", "0", "-1")
    assert "x: not right. Hint: add the difference" in run("check", "12", "2.5").out
    assert wrong.code == 1 and "E: not right. That is the mean over the rows" in wrong.out and "g: right" in wrong.out
    found = json.loads(run("check", "1", "8", "2", "--json").out)
    assert (found["right"], found["parts"]["right"]) == (False, [True, False])
    assert run("check", "1", "8", "−2").code == 0  # a typographic minus


def test_own_file_is_written_once_and_checked(run: Any) -> None:
    assert run("exercise", "12", "--save", "answer.py").code == 0
    text = Path("answer.py").read_text(encoding="utf-8")
    assert "w, w0 = 2.0, -3.0" in text and text.endswith("x = ...\n")
    again = run("exercise", "12", "--save", "answer.py")
    assert again.code == 1 and "already exists" in again.err and Path("answer.py").read_text("utf-8") == text
    Path("answer.py").write_text(text.replace("x = ...", "import math\nx = (3 + math.log(9)) / 2"), encoding="utf-8")
    assert run("check", "12", "answer.py").out == "x: right\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "21", "abc"), "'abc' is neither a number nor a .py file"),
        (("check", "21", "--jsn", "1"), "'--jsn' is neither a number nor"),
        (("check", "21", "1"), "asks for 3 numbers (E, g with 2), but you gave 1"),
        (("check", "21", "none.py"), "There is no file 'none.py'"),
        (("check", "99", "1"), "There is no topic '99'"),
        (("exercise", "newtn"), "Did you mean 'newton'?"),
    ],
)
def test_errors_are_sentences(run: Any, arguments: tuple[str, ...], said: str) -> None:
    ended = run(*arguments)
    assert ended.code == 1 and ended.out == "" and said in ended.err.replace("\n", " ")


def test_examples_in_the_help_run(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    for command in ("exercise", "check"):
        lines = [line.strip() for line in run(command, "--help").out.splitlines()]
        examples = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        assert len(examples) >= 2
        for example in examples:
            assert run(*shlex.split(example)[1:]).code == 0, example
