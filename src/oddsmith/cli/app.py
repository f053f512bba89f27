"""The command ``oddsmith`` and its subcommands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from oddsmith import __version__
from oddsmith.cli import command, sites
from oddsmith.cli.export import onnx, sql
from oddsmith.cli.fit import compare, fit
from oddsmith.cli.lab import explore, lab
from oddsmith.cli.lectures import check, exercise, gallery, lecture, notebooks
from oddsmith.cli.path import path
from oddsmith.cli.predict import decide, evaluate, predict, sample
from oddsmith.cli.report import datasets, report, summary

app = typer.Typer(
    name="oddsmith",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"oddsmith {__version__}")
        raise typer.Exit


@app.callback()
def oddsmith(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Probabilistic classification of tables: fit, compare, evaluate, predict, decide."""
    command.show_traceback = debug


def _add(group: typer.Typer, *functions: Callable[..., None], negative_numbers: bool = False) -> None:
    """Add commands, with examples below their help that can be typed as they are.

    With ``negative_numbers`` an argument may be -1: then what looks like an unknown option is an argument, too.
    """
    for function in functions:
        # The backspace keeps the lines below it as they are.
        examples = "\n".join(f"  $ {line}" for line in command.EXAMPLES[function])
        settings = {"ignore_unknown_options": True} if negative_numbers else None
        # The first paragraph, whole: click would cut it off at the width of the terminal.
        short = " ".join((function.__doc__ or "").partition("\n\n")[0].split())
        how = {"epilog": f"\b\nExamples:\n{examples}", "context_settings": settings, "short_help": short}
        group.command(**how)(function)  # type: ignore[arg-type]


_add(app, fit, compare, path, summary, report, evaluate, predict, decide, sample)
exports = typer.Typer(help="Write a model as SQL or ONNX, for use without oddsmith.", no_args_is_help=True)
_add(exports, sql, onnx)
app.add_typer(exports, name="export")
rounds = typer.Typer(help="Fit over sites that exchange sums, not rows, as files.", no_args_is_help=True)
_add(rounds, sites.start, sites.answer, sites.step)
app.add_typer(rounds, name="sites")
_add(app, datasets, lecture, exercise)
_add(app, check, negative_numbers=True)
_add(app, gallery, notebooks, lab, explore)


def main() -> None:
    """Run the command line."""
    app()
