"""The exercises of the course, read from their page and that of their solutions, and the check of an answer."""

from __future__ import annotations

import ast
import contextlib
import doctest
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.lectures.syllabus import Topic, documents, find_topic, sections, topics
from oddsmith.numerics import Array

RELATIVE = 5e-3  # An answer may be off by this much, so that three significant digits are enough.
ABSOLUTE = 1e-6

_EXERCISE = re.compile(
    r"\s*(?P<text>.+?)\n\n```python\n(?P<data>.+?)\n```\n\n(?P<question>Find .+?)\s*", flags=re.DOTALL
)
_SOLUTION = re.compile(
    r"\s*Hint: (?P<hint>.+?)\n\n```python\n(?P<code>.+?)\n\n```\n\n"
    r"\| if you found \| then \|\n\|---\|---\|\n(?P<rows>(?:\|[^\n]+\|\n?)+)\s*",
    flags=re.DOTALL,
)
_ROW = re.compile(r"^\| `(.+?)` \| (.+?) \|$", re.MULTILINE)

_RUNNER = """
import json, runpy, sys
import numpy as np
path, out, *names = sys.argv[1:]
found = runpy.run_path(path)
given = {name: np.asarray(found[name], dtype=float).ravel().tolist() for name in names if name in found}
with open(out, "w") as file:
    json.dump(given, file)
"""


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """An exercise: its topic, what it says, its data as code, the question with the names asked for, and its solution.

    ``mistakes`` are pairs: a statement that makes a common wrong answer, and what is wrong with it.
    """

    topic: Topic
    text: str
    data: str
    question: str
    hint: str
    solution: str
    mistakes: tuple[tuple[str, str], ...]

    @property
    def asked(self) -> tuple[str, ...]:
        """The names of what is asked for, in their order.

        >>> find_exercise("21").asked
        ('E', 'g')
        """
        return tuple(dict.fromkeys(re.findall(r"`(\w+)`", self.question)))


@dataclass(frozen=True)
class PartVerdict:
    """Whether one of the numbers asked for is right, and a sentence that helps where it is not.

    >>> print(PartVerdict("w", False, "Try again."))
    w: not right. Try again.
    """

    name: str
    right: bool
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.name}: right" if self.right else f"{self.name}: not right. {self.remark}"


@cache
def exercises() -> tuple[Exercise, ...]:
    """Return all exercises, in the order of their topics.

    >>> len(exercises()), exercises()[0].topic.name
    (38, 'discriminant')
    """
    folder = documents() / "course"
    read = {name: (folder / f"{name}.md").read_text(encoding="utf-8") for name in ("exercises", "solutions")}
    return read_exercises(read["exercises"], read["solutions"])


def read_exercises(page: str, solutions: str) -> tuple[Exercise, ...]:
    """Return the exercises of a page, with the solutions of another."""
    asked, solved = sections(page), sections(solutions)
    if set(asked) != set(solved):
        raise InvalidInputError(f"These have an exercise or a solution, not both: {sorted(set(asked) ^ set(solved))}.")
    found = []
    for number, section in asked.items():
        exercise, solution = _EXERCISE.fullmatch(section), _SOLUTION.fullmatch(solved[number])
        if exercise is None or solution is None:
            raise InvalidInputError(
                f"Exercise {number} is not made of a text, its data and a question that begins with Find, or its "
                "solution not of a hint, an example and a table of mistakes."
            )
        prose = {"text": exercise["text"], "question": exercise["question"], "hint": solution["hint"]}
        texts = {name: re.sub(r"\s+", " ", text) for name, text in prose.items()}
        texts |= {"data": exercise["data"], "solution": solution["code"]}
        found.append(Exercise(topic=topics()[number - 1], mistakes=tuple(_ROW.findall(solution["rows"])), **texts))
    return tuple(found)


def find_exercise(wanted: str) -> Exercise:
    """Return an exercise by the number, name or title of its topic.

    >>> find_exercise("bayes").question.split(",")[0]
    'Find `p`'
    """
    topic = find_topic(wanted)
    for exercise in exercises():
        if exercise.topic == topic:
            return exercise
    raise InvalidInputError(f"Topic {topic.number} has no exercise.")


def data(wanted: int | str) -> tuple[Any, ...]:
    """Return what the data of an exercise defines, in its order.

    >>> data(12)
    (2.0, -3.0, 0.1)
    """
    return tuple(_run(find_exercise(str(wanted)).data, {}).values())


def solve(exercise: Exercise) -> dict[str, Array]:
    """Return the right answer, by running the solution.

    >>> {name: value.tolist() for name, value in solve(find_exercise("1")).items()}
    {'r': [8.0], 'r0': [-2.0]}
    """
    return _answer(exercise, _solved(exercise))


def check(exercise: Exercise, given: Mapping[str, Any]) -> tuple[PartVerdict, ...]:
    """Grade an answer: values by the names asked for.

    >>> [(part.name, part.right) for part in check(find_exercise("1"), {"r": 8.0, "r0": 2.0})]
    [('r', True), ('r0', False)]
    """
    namespace = _solved(exercise)
    right = _answer(exercise, namespace)
    return tuple(_check_part(exercise, name, right[name], given, namespace) for name in exercise.asked)


def check_numbers(exercise: Exercise, numbers: Sequence[float]) -> tuple[PartVerdict, ...]:
    """Grade numbers in the order in which they are asked for.

    >>> all(part.right for part in check_numbers(find_exercise("1"), [8.0, -2.0]))
    True
    """
    right, given, start = solve(exercise), {}, 0
    total = sum(len(values) for values in right.values())
    if len(numbers) != total:
        shapes = [name if len(values) == 1 else f"{name} with {len(values)}" for name, values in right.items()]
        raise InvalidInputError(
            f"Exercise {exercise.topic.number} asks for {total} number{'s' * (total != 1)} ({', '.join(shapes)}), but "
            f"you gave {len(numbers)}."
        )
    for name, values in right.items():
        given[name] = list(numbers[start : start + len(values)])
        start += len(values)
    return check(exercise, given)


def run_answer(exercise: Exercise, path: str | Path, *, timeout: float = 60.0) -> dict[str, list[float]]:
    """Run a user's file in a separate process, and return the values that it defines among those asked for."""
    if not Path(path).is_file():
        raise InvalidInputError(
            f"There is no file {str(path)!r}. 'oddsmith exercise {exercise.topic.number} --save FILE' writes one to "
            "start with."
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answer.json"
        command = [sys.executable, "-c", _RUNNER, str(path), str(out), *exercise.asked]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise InvalidInputError(f"{str(path)!r} did not end within {timeout:g} seconds.") from None
        if ended.returncode or not out.is_file():
            last = (ended.stderr.strip().splitlines() or ["it ended early"])[-1]
            raise InvalidInputError(f"{str(path)!r} did not run to its end: {last}")
        found: dict[str, list[float]] = json.loads(out.read_text(encoding="utf-8"))
    return found


def answer_file(exercise: Exercise) -> str:
    """Return a file to write an answer into: the exercise as a comment, its data, and names to fill in.

    >>> print(answer_file(find_exercise("12")).splitlines()[-1])
    x = ...
    """
    said = [f"# {exercise.topic.number}. {exercise.topic.title}", f"# {exercise.text}", f"# {exercise.question}"]
    blanks = [f"{name} = ..." for name in exercise.asked]
    return "\n".join([*said, "", exercise.data, "", *blanks, ""])


def _check_part(
    exercise: Exercise, name: str, right: Array, given: Mapping[str, Any], namespace: dict[str, Any]
) -> PartVerdict:
    if name not in given:
        return PartVerdict(name, False, f"The answer does not define {name}.")
    found = np.asarray(given[name], dtype=np.float64).ravel()
    if found.shape != right.shape:
        return PartVerdict(name, False, f"Expected {len(right)} number{'s' * (len(right) != 1)}, found {len(found)}.")
    if _close(found, right):
        return PartVerdict(name, True)
    for code, remark in exercise.mistakes:
        wrong = _run(code, namespace)
        if name in wrong and _close(found, np.asarray(wrong[name], dtype=np.float64).ravel()):
            return PartVerdict(name, False, remark)
    return PartVerdict(name, False, f"Hint: {exercise.hint}")


def _close(found: Array, right: Array) -> bool:
    scale = float(np.abs(right).max(initial=0.0))
    return found.shape == right.shape and bool((np.abs(found - right) <= RELATIVE * scale + ABSOLUTE).all())


def _run(code: str, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return what statements assign, in their order."""
    scope = dict(namespace)
    exec(compile(code, "<exercise>", "exec"), scope)
    targets = [target for node in ast.parse(code).body if isinstance(node, ast.Assign) for target in node.targets]
    names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return {name: scope[name] for name in names}


@cache
def _solved(exercise: Exercise) -> dict[str, Any]:
    """Return what is defined after the solution has run; nobody may change it."""
    namespace: dict[str, Any] = {"data": data, "np": np}
    with contextlib.redirect_stdout(io.StringIO()):
        for step in doctest.DocTestParser().get_examples(exercise.solution):
            exec(compile(step.source, f"<solution {exercise.topic.number}>", "single"), namespace)
    return namespace


def _answer(exercise: Exercise, namespace: Mapping[str, Any]) -> dict[str, Array]:
    return {name: np.asarray(namespace[name], dtype=np.float64).ravel() for name in exercise.asked}
