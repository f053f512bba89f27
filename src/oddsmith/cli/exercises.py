"""``oddsmith exercise`` and ``oddsmith check``: an exercise for each topic of the syllabus, and its grading."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import note, print_json, print_line, print_table, spinner, stdout

if TYPE_CHECKING:
    from oddsmith.lectures.exercises import Exercise

Number = Annotated[str, options.argument("TOPIC", "Number, name or title of a topic.")]


@command("oddsmith exercise", "oddsmith exercise 21", "oddsmith exercise bayes --hint --save answer.py")
def exercise(
    topic: Annotated[
        str | None, options.argument("TOPIC", "Number, name or title of a topic; all topics by default.")
    ] = None,
    save: Annotated[str | None, options.option("Write its data into a file for your answer.", metavar="FILE")] = None,
    hint: Annotated[bool, typer.Option("--hint", help="Show the hint.")] = False,
    solution: Annotated[bool, typer.Option("--solution", help="Show the solution.")] = False,
    as_json: options.Json = False,
) -> None:
    """Print an exercise with its data, or write it to a file."""
    from oddsmith.lectures.exercises import answer_file, find_exercise

    if topic is None:
        _list(as_json)
        return
    chosen = find_exercise(topic)
    if save is not None:
        _write_new(Path(save), answer_file(chosen))
    if as_json:
        _print_json(chosen)
        return
    number = chosen.topic.number
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
    topic: Number,
    answer: Annotated[
        list[str],
        options.argument(
            "ANSWER...", "A .py file that defines the results, or the numbers in the order of the question."
        ),
    ],
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


def _print_json(chosen: Exercise) -> None:
    print_json(
        {
            "number": chosen.topic.number,
            "name": chosen.topic.name,
            "text": chosen.text,
            "data": chosen.data,
            "question": chosen.question,
            "asked": list(chosen.asked),
            "hint": chosen.hint,
        }
    )


def _write_new(path: Path, text: str) -> None:
    """Write a file, but never overwrite an existing one, which may be an answer."""
    from oddsmith.errors import InvalidInputError

    if os.path.exists(path):
        raise InvalidInputError(f"{str(path)!r} already exists. Give another name, or remove it first.")
    path.write_text(text, encoding="utf-8")


def _paragraph(text: str) -> None:
    print_line("")
    width = stdout().width if stdout().is_terminal else 100
    for line in textwrap.wrap(text.replace("`", ""), width):
        print_line(line)


def _code(text: str) -> None:
    print_line("")
    for line in text.rstrip().splitlines():
        print_line(f"    {line}" if line else "", "cyan", fold=False)
