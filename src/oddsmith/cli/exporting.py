"""``oddsmith export sql`` and ``oddsmith export onnx``: a model for use where oddsmith is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.output import note, print_json
from oddsmith.cli.running import guarded

SQL_EXAMPLES = (
    "oddsmith export sql penguins.odds --table birds --dialect duckdb",
    "oddsmith export sql budworm.odds --table moths --dialect sqlite --intervals --keep dose -o moths.sql",
)
ONNX_EXAMPLES = ("oddsmith export onnx penguins.odds -o penguins.onnx",)


@guarded
def sql(
    model: options.Model,
    table: Annotated[str, typer.Option(help="The table to predict.", show_default=False)],
    dialect: Annotated[str, typer.Option(help="duckdb, postgres or sqlite.")] = "duckdb",
    loss: options.Loss = None,
    reject: options.Reject = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="A column to copy; can be given again.", show_default=False),
    ] = None,
    intervals: Annotated[
        bool, typer.Option("--intervals", help="Intervals of the probabilities (two classes).")
    ] = False,
    level: options.Level = 0.95,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.", show_default=False)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Write a model as one SQL query that predicts the rows of a table."""
    from oddsmith.cli.specs import read_loss, read_reject

    fitted = _load(model, "to_sql")
    classes = fitted.classes_.tolist()
    query = fitted.to_sql(
        table,
        dialect,
        loss=None if loss is None else read_loss(loss, classes),
        reject=None if reject is None else read_reject(reject, classes),
        keep=keep,
        predictive=intervals,
        level=level,
    )
    if output is not None:
        _write(output, f"{query}\n".encode())
    if as_json:
        print_json({"dialect": dialect, "table": table, "sql": query, "file": output})
    elif output is None:
        print(query)


@guarded
def onnx(
    model: options.Model,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    dtype: Annotated[str, typer.Option(help="Numbers in the graph: float64 or float32.")] = "float64",
    as_json: options.Json = False,
) -> None:
    """Write a model as an ONNX file."""
    content = _load(model, "to_onnx").to_onnx(dtype=dtype)
    _write(output, content)
    if as_json:
        print_json({"file": output, "bytes": len(content)})


def _load(path: str, method: str) -> Any:
    """Return a model that has this method of export."""
    from oddsmith.cli.loading import load_model
    from oddsmith.errors import InvalidInputError

    model = load_model(path)
    if not hasattr(model, method):
        raise InvalidInputError(
            f"This version of oddsmith cannot export a {type(model).__name__} ({method} is missing). "
            "Use 'oddsmith predict'."
        )
    return model


def _write(path: str, content: bytes) -> None:
    from oddsmith.persistence.file import write

    write(Path(path), content)
    note(f"Wrote {path}.")
