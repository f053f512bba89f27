"""The command ``oddsmith``: what it knows, and what it says about itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from oddsmith.cli import describing, exporting, fitting, reporting, running, sites, teaching, using

app = typer.Typer(
    name="oddsmith",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from oddsmith import __version__

        print(f"oddsmith {__version__}")
        raise typer.Exit


@app.callback()
def oddsmith(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Probabilistic classification of tables: fit, compare, evaluate, predict, decide."""
    running.debugging = debug


def _add(group: typer.Typer, command: Callable[..., None], examples: Sequence[str]) -> None:
    """Add a command, with examples below its help that can be typed as they are."""
    # The backspace keeps the lines below it as they are.
    group.command(epilog="\b\nExamples:\n" + "\n".join(f"  $ {line}" for line in examples))(command)


_add(app, fitting.fit, fitting.FIT_EXAMPLES)
_add(app, fitting.compare, fitting.COMPARE_EXAMPLES)
_add(app, describing.summary, describing.SUMMARY_EXAMPLES)
_add(app, reporting.report, reporting.REPORT_EXAMPLES)
_add(app, using.evaluate, using.EVALUATE_EXAMPLES)
_add(app, using.predict, using.PREDICT_EXAMPLES)
_add(app, using.decide, using.DECIDE_EXAMPLES)
_add(app, using.sample, using.SAMPLE_EXAMPLES)
export = typer.Typer(help="Write a model as SQL or ONNX, for use where oddsmith is not.", no_args_is_help=True)
_add(export, exporting.sql, exporting.SQL_EXAMPLES)
_add(export, exporting.onnx, exporting.ONNX_EXAMPLES)
app.add_typer(export, name="export")
over_sites = typer.Typer(help="Fit over sites that send sums and no rows, by files.", no_args_is_help=True)
_add(over_sites, sites.start, sites.START_EXAMPLES)
_add(over_sites, sites.answer, sites.ANSWER_EXAMPLES)
_add(over_sites, sites.step, sites.STEP_EXAMPLES)
app.add_typer(over_sites, name="sites")
_add(app, describing.datasets, describing.DATASETS_EXAMPLES)
_add(app, teaching.lecture, teaching.LECTURE_EXAMPLES)
_add(app, teaching.gallery, teaching.GALLERY_EXAMPLES)


def main() -> None:
    """Run the command line."""
    app()
