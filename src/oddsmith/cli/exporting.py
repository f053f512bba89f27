"""``oddsmith export sql`` and ``oddsmith export onnx``: a model for use where oddsmith is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oddsmith.cli import options
from oddsmith.cli.output import note, print_json
from oddsmith.cli.running import guarded

SQL_EXAMPLES = ("oddsmith export sql penguins.odds --table birds --dialect duckdb",)
ONNX_EXAMPLES = ("oddsmith export onnx penguins.odds -o penguins.onnx",)


@guarded
def sql(
    model: options.Model,
    table: Annotated[str, typer.Option(help="The table to read.")],
    dialect: Annotated[str, typer.Option(help="duckdb, postgres or sqlite.")] = "duckdb",
    output: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")] = None,
    as_json: options.Json = False,
) -> None:
    """Write a model as one SQL query that gives the probabilities of the classes."""
    query = str(_exporter(model, "to_sql")(table, dialect=dialect))
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
    as_json: options.Json = False,
) -> None:
    """Write a model as an ONNX file."""
    made = _exporter(model, "to_onnx")()
    content = made if isinstance(made, bytes) else made.SerializeToString()
    _write(output, content)
    if as_json:
        print_json({"file": output, "bytes": len(content)})


def _exporter(path: str, method: str) -> Any:
    from oddsmith.cli.loading import load_model
    from oddsmith.errors import InvalidInputError

    model = load_model(path)
    if not hasattr(model, method):
        raise InvalidInputError(
            f"This version of oddsmith cannot export a {type(model).__name__} ({method} is missing). "
            "Use 'oddsmith predict'."
        )
    return getattr(model, method)


def _write(path: str, content: bytes) -> None:
    from oddsmith.persistence.file import write

    write(Path(path), content)
    note(f"Wrote {path}.")
