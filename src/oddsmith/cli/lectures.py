"""The course in a terminal: ``oddsmith lecture``, ``gallery``, ``notebooks``, ``exercise`` and ``check``."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command, has_screen
from oddsmith.cli.output import note, print_json, print_line, print_table, spinner, stdout, warnings_as_sentences

if TYPE_CHECKING:
    from oddsmith.lectures import Topic


FIGURES, NOTEBOOKS = "Where to write the figures.", "Where to write the notebooks."
ANSWER = "A .py file that defines the results, or the numbers in the order of the question."


@command("oddsmith lecture", "oddsmith lecture newton", "oddsmith lecture 14 --save outliers.svg --no-open")
def lecture(
    topic: options.Topic = None,
    save: Annotated[str | None, options.option("Where to write the figure (PNG, SVG, PDF).", metavar="FILE")] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the figure.")] = False,
    as_json: options.Json = False,
) -> None:
    """Explain a topic of the syllabus: idea, equation, a running example and its figure."""
    from oddsmith.lectures import find_topic
    from oddsmith.lectures.gallery import format_of

    if topic is None:
        _list_topics(as_json)
        return
    chosen = find_topic(topic)
    if save is not None:
        format_of(save)  # a place that cannot be written to is refused before the lecture, not after it
    if as_json:
        _print_json(chosen, save)
        return
    _explain(chosen)
    if save is None and no_open:
        print_line(f"Figure: {chosen.caption}. (--save FILE writes it.)")
        return
    path = Path(save) if save is not None else _folder() / f"{chosen.stem}.png"
    with spinner(f"Drawing {path.name} …"):
        _draw(chosen, path)
    opened = not no_open and _open(path)
    print_line(f"Figure: {chosen.caption}. {'Opened' if opened else 'Saved as'} {path}")
    note(f"Its exercise: oddsmith exercise {chosen.number}")


@command("oddsmith gallery -o figures", "oddsmith gallery -o slides --format pdf zigzag prior_width")
def gallery(
    figures: Annotated[list[str] | None, options.argument("[FIGURE]...", "Names of figures; all by default.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help=FIGURES)] = "gallery",
    kind: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    dpi: Annotated[int, typer.Option(help="Dots per inch of a PNG.", min=30, max=1200)] = 200,
    as_json: options.Json = False,
) -> None:
    """Write the figures of the gallery, each under the name of its topic, and an index.html that shows them."""
    from oddsmith.lectures.gallery import save_all, scripts

    _check_folder(output)
    _without_a_screen()
    count, written = len(figures or scripts()), {}
    with warnings_as_sentences(), spinner("Drawing the gallery …") as update:
        for name, path in save_all(output, kind, figures, dpi=dpi):
            written[name] = str(path)
            update(f"{min(len(written), count)} of {count}: {path.name}")
    index = written.pop("index")
    if as_json:
        print_json({"figures": written, "index": index})
    else:
        note("Each file is named after its topic: oddsmith lecture lists them.")
        print_line(f"Wrote {count} figure{'' if count == 1 else 's'} to {output}; {index} shows them.")


@command("oddsmith notebooks -o course")
def notebooks(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FOLDER", help=NOTEBOOKS)] = "notebooks",
    as_json: options.Json = False,
) -> None:
    """Write the course as Jupyter notebooks, one for each lecture: text, examples, figures and exercises."""
    from oddsmith.lectures.notebooks import write_notebooks

    _check_folder(output)
    written = [str(path) for path in write_notebooks(output)]
    if as_json:
        print_json({"notebooks": written})
    else:
        print_line(f"Wrote {len(written)} notebooks to {output}.")


def _check_folder(output: str) -> None:
    from oddsmith.errors import InvalidInputError

    if os.path.exists(output) and not os.path.isdir(output):
        raise InvalidInputError(f"{output!r} is a file. Name a folder, which is created if it does not exist.")


def _list_topics(as_json: bool) -> None:
    from oddsmith.lectures import topics

    names = {"number": "number", "name": "name", "topic": "title"}
    columns = {head: [getattr(topic, name) for topic in topics()] for head, name in names.items()}
    _print_list("topics", columns, "oddsmith lecture NAME explains one.", as_json)


def _print_list(what: str, columns: dict[str, list[Any]], remark: str, as_json: bool) -> None:
    if as_json:
        print_json({what: columns})
    else:
        print_table(columns)
        note(remark)


def _explain(topic: Topic) -> None:
    """Print the parts of a topic; the example is run now, statement by statement."""
    from oddsmith.lectures import run_example
    from oddsmith.lectures.equations import as_text

    print_line(f"{topic.number}. {topic.title}", "bold")
    width = stdout().width if stdout().is_terminal else 100
    equation, where = textwrap.indent(as_text(topic.equation), "    "), topic.where.replace("`", "")
    for paragraph in (topic.idea, equation, f"In oddsmith: {where}"):
        print_line("")
        for line in paragraph.split("\n"):
            margin = " " * (len(line) - len(line.lstrip()))
            for short in textwrap.wrap(line, width, subsequent_indent=margin):
                print_line(short)
    print_line("")
    with warnings_as_sentences():
        for source, printed in run_example(topic):
            for i, line in enumerate(source.rstrip("\n").split("\n")):
                print_line(f"{'...' if i else '>>>'} {line}", "cyan", fold=False)
            for line in printed.splitlines():
                print_line(line, fold=False)
    print_line("")


def _print_json(topic: Topic, save: str | None) -> None:
    from dataclasses import asdict

    from oddsmith.lectures import run_example
    from oddsmith.lectures.equations import as_text

    steps = [{"source": source, "output": printed} for source, printed in run_example(topic)]
    if save is not None:
        _draw(topic, Path(save))
    print_json({**asdict(topic), "text": as_text(topic.equation), "run": steps, "file": save})


def _draw(topic: Topic, path: Path) -> None:
    from oddsmith.lectures.gallery import draw, save

    _without_a_screen()
    with warnings_as_sentences():
        save(draw(topic.figure)["figure"], path)


def _without_a_screen() -> None:
    """Draw in memory, whatever windows the user's matplotlib would open."""
    import matplotlib

    matplotlib.use("agg")


def _folder() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="oddsmith-"))


def _open(path: Path) -> bool:
    """Open a file with the system's program for it, and return whether that worked."""
    return has_screen() and stdout().is_terminal and typer.launch(str(path)) == 0


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
        _list_exercises(as_json)
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


def _list_exercises(as_json: bool) -> None:
    from oddsmith.lectures.exercises import exercises

    rows = [(one.topic.number, one.topic.name, ", ".join(one.asked)) for one in exercises()]
    columns = dict(zip(("number", "name", "asks for"), map(list, zip(*rows, strict=True)), strict=True))
    _print_list("exercises", columns, "oddsmith exercise NAME states one.", as_json)


def _paragraph(text: str) -> None:
    print_line("")
    width = stdout().width if stdout().is_terminal else 100
    for line in textwrap.wrap(text.replace("`", ""), width):
        print_line(line)


def _code(text: str) -> None:
    print_line("")
    for line in text.rstrip().splitlines():
        print_line(f"    {line}" if line else "", "cyan", fold=False)
