"""``oddsmith exercise`` and ``oddsmith check``: an exercise for each topic of the syllabus, and its grading."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import note, print_json, print_line, print_table, spinner, stdout

ANSWER = "A .py file that defines the results, or the numbers in the order of the question."


@command("oddsmith exercise", "oddsmith exercise 21", "oddsmith exercise bayes --hint --save answer.py")
def exercise(
    topic: options.Topic = None,
    save: Annotated[str | None, options.option("Write its data into a file for your answer.", metavar="FILE")] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show the hint.")] = False,
    solution: Annotated[bool, typer.Option("--solution", help="Show the solution.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print an exercise with its data, or write it to a file."""
    from oddsmith.errors import InvalidInputError
    from oddsmith.lectures.exercises import answer_file, find_exercise

    if topic is None:
        _list(as_json)
        return
    chosen = find_exercise(topic)
    if save is not None:
        if os.path.exists(save):  # perhaps an answer
            raise InvalidInputError(f"{save!r} already exists. Give another name, or remove it first.")
        Path(save).write_text(answer_file(chosen), encoding="utf-8")
    number = chosen.topic.number
    if as_json:
        parts = {name: getattr(chosen, name) for name in ("text", "data", "question", "asked", "hint")}
        print_json({"number": number, "name": chosen.topic.name, **parts})
        return
    print_line(f"{number}. {chosen.topic.title}", "bold")
    _paragraph(chosen.text)
    _code(chosen.data)
    _paragraph(chosen.question)
    if hint:
        _paragraph(f"Hint: {chosen.hint}")
    if solution:
        _code(chosen.solution)
    if save is not None:
        note(f"Wrote {save}. When it is done: oddsmith check {number} {save}")
    else:
        note(f"Answer: oddsmith check {number} NUMBER…, or oddsmith exercise {number} --save answer.py")


@command("oddsmith check 21 2.77 0 -1", "oddsmith check 1 8 -2 --json")
def check(
    topic: Annotated[str, options.argument("TOPIC", "Number, name or title of a topic.")],
    answer: Annotated[list[str], options.argument("ANSWER...", ANSWER)],
    as_json: options.Json = False,
) -> None:
    """Grade an answer and give hints; a .py file is run as your own code."""
    from oddsmith.lectures.exercises import check, check_numbers, find_exercise, run_answer

    chosen = find_exercise(topic)
    if len(answer) == 1 and answer[0].endswith(".py"):
        with spinner(f"Running {answer[0]} …"):
            parts = check(chosen, run_answer(chosen, answer[0]))
    else:
        parts = check_numbers(chosen, [_number(text) for text in answer])
    right = all(part.right for part in parts)
    if as_json:
        columns = {key: [getattr(part, key) for part in parts] for key in ("name", "right", "remark")}
        print_json({"exercise": chosen.topic.number, "right": right, "parts": columns})
    else:
        for part in parts:
            print_line(str(part), fold=False)
        if right:
            note("All correct. The solution: oddsmith exercise … --solution")
    if not right:
        raise typer.Exit(1)


def _number(text: str) -> float:
    from oddsmith.errors import InvalidInputError

    try:
        return float(text.replace("−", "-"))
    except ValueError:
        raise InvalidInputError(
            f"{text!r} is neither a number nor a .py file. Give numbers in the order of the question, or one file."
        ) from None


def _list(as_json: bool) -> None:
    from oddsmith.lectures.exercises import exercises

    found = exercises()
    columns: dict[str, list[Any]] = {
        "number": [one.topic.number for one in found],
        "name": [one.topic.name for one in found],
        "asks for": [", ".join(one.asked) for one in found],
    }
    if as_json:
        print_json({"exercises": columns})
    else:
        print_table(columns)
        note("oddsmith exercise NAME states one.")


def _paragraph(text: str) -> None:
    print_line("")
    width = stdout().width if stdout().is_terminal else 100
    for line in textwrap.wrap(text.replace("`", ""), width):
        print_line(line)


def _code(text: str) -> None:
    print_line("")
    for line in text.rstrip().splitlines():
        print_line(f"    {line}" if line else "", "cyan", fold=False)
