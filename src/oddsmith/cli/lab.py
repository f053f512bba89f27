"""``oddsmith lab`` and ``oddsmith explore``: browser pages, served on the local machine only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Annotated

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command, has_screen
from oddsmith.cli.output import note, print_line

Port = Annotated[int, typer.Option(min=0, max=65535, help="Port on the local address; 0 for any free port.")]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the address; do not open a browser.")]


@command("oddsmith lab", "oddsmith lab --no-open --port 8765")
def lab(port: Port = 0, no_open: NoOpen = False) -> None:
    """Open the lab in the browser: movable points, models side by side, algorithms step by step."""
    from oddsmith.lab.actions import ACTIONS
    from oddsmith.lab.server import serve

    serve(ACTIONS, "lab.html", port, _announce(no_open))


@command("oddsmith explore penguins.odds", "oddsmith explore cancer.odds breast_cancer --loss '[[0, 1], [10, 0]]'")
def explore(
    model: options.ModelFile,
    data: Annotated[str | None, options.argument("[DATA]", "Rows to click through.")] = None,
    loss: options.Loss = None,
    reject: options.Reject = None,
    port: Port = 0,
    no_open: NoOpen = False,
) -> None:
    """Explore a fitted model in the browser: a form of its columns, the probability, and changes of the decision."""
    from oddsmith.cli.data import load_model, open_data
    from oddsmith.cli.model_spec import read_costs
    from oddsmith.data_access.streamed_prediction import expected_types
    from oddsmith.lab.explorer import Explorer
    from oddsmith.lab.server import serve

    fitted = load_model(model)
    table = None if data is None else open_data(data).table(expected_types(fitted))
    explorer = Explorer.of(fitted, os.path.basename(model), table, read_costs(loss, reject, fitted.classes_))
    serve(explorer.actions(), "explore.html", port, _announce(no_open))


def _announce(no_open: bool) -> Callable[[str], None]:
    """Return the callback for the address of a ready page: print it, and open it if there is a screen."""

    def announce(address: str) -> None:
        print_line(address, fold=False)
        note("The page is served to this machine alone, until Ctrl-C.")
        if has_screen() and not no_open:
            typer.launch(address)

    return announce
