"""``oddsmith export sql`` and ``oddsmith export onnx``: a model for use without oddsmith."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oddsmith.cli import options
from oddsmith.cli.command import command
from oddsmith.cli.output import note, print_json


@command(
    "oddsmith export sql penguins.odds --table birds --dialect duckdb",
    "oddsmith export sql budworm.odds --table moths --dialect sqlite --intervals --keep dose -o moths.sql",
)
def sql(
    model: options.ModelFile,
    table: Annotated[str, options.option("The table to predict.")],
    dialect: Annotated[str, typer.Option(help="duckdb, postgres, sqlite, mysql, snowflake or bigquery.")] = "duckdb",
    loss: options.Loss = None,
    reject: options.Reject = None,
    keep: Annotated[list[str] | None, options.option("A column to copy; repeat it for more.", metavar="COLUMN")] = None,
    intervals: Annotated[bool, options.option("Intervals of the probabilities (two classes).", "--intervals")] = False,
    level: options.Level = 0.95,
    output: Annotated[str | None, options.output("Where to write it.")] = None,
    as_json: options.Json = False,
) -> None:
    """Write a model as one SQL query that predicts the rows of a table."""
    from oddsmith.cli.data import load_model
    from oddsmith.cli.model_spec import read_costs

    fitted = load_model(model)
    costs = read_costs(loss, reject, fitted.classes_)
    query = fitted.to_sql(table, dialect, **costs, keep=keep, predictive=intervals, level=level)
    if output is not None:
        _write(output, f"{query}\n".encode())
    if as_json:
        print_json({"dialect": dialect, "table": table, "sql": query, "file": output})
    elif output is None:
        print(query)


@command("oddsmith export onnx penguins.odds -o penguins.onnx")
def onnx(
    model: options.ModelFile,
    output: Annotated[str, options.output("The file to write.")],
    dtype: Annotated[str, typer.Option(help="Numbers in the graph: float64 or float32.")] = "float64",
    as_json: options.Json = False,
) -> None:
    """Write a model as an ONNX file."""
    from oddsmith.cli.data import load_model

    content = load_model(model).to_onnx(dtype=dtype)
    _write(output, content)
    if as_json:
        print_json({"file": output, "bytes": len(content)})


def _write(path: str, content: bytes) -> None:
    from oddsmith.persistence.file import write

    write(Path(path), content)
    note(f"Wrote {path}.")
