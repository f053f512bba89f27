"""Tables that the commands write, to a file or to standard output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from oddsmith.cli.data import InputData, check_column
from oddsmith.cli.output import note, print_json
from oddsmith.data_access.prediction_table import PredictionTable
from oddsmith.data_access.streamed_prediction import columns_of, expected_types, model_inputs
from oddsmith.data_access.table_writer import FolderWriter, TableWriter, write_tables
from oddsmith.design.inputs import Encoded
from oddsmith.engines.files.schemas import DATE
from oddsmith.errors import InvalidInputError


@contextmanager
def _standard_output(kind: str, escape: bool) -> Iterator[TableWriter | FolderWriter]:
    sys.stdout.flush()
    writer = TableWriter(sys.stdout.buffer, kind, escape=escape)
    yield writer
    writer.close()
    sys.stdout.buffer.flush()


def write_rows(
    tables: Iterable[pa.Table],
    name: str,
    path: str | None,
    as_json: bool,
    update: Callable[[str], None] | None = None,
    *,
    escape: bool = True,
) -> int:
    """Write tables, and return the number of their rows; none at all is an error.

    A file or folder has its name only once all is written. No path, or ``-``, is standard output: CSV or JSON lines.
    """
    as_text = _standard_output("jsonl" if as_json else "csv", escape)
    with as_text if path is None or path == "-" else write_tables(path, escape=escape) as writer:
        for table in tables:
            writer.write(table)
            if update is not None:
                update(f"{writer.rows:,} rows written")
        if not writer.rows:
            raise InvalidInputError(f"{name!r} has no rows.")
    return writer.rows


def print_written(rows: int, output: str | None, as_json: bool) -> None:
    """Say how many rows were written to a file."""
    if output in (None, "-"):
        return
    if as_json:
        print_json({"file": output, "rows": rows})
    else:
        note(f"Wrote {rows:,} rows to {output}.")


def add_columns(table: pa.Table, kept: Sequence[str], added: pa.Table) -> pa.Table:
    """Return kept columns of a table with other columns of the same rows at their right."""
    for name in kept:
        check_column(table.column_names, name, "--keep")
        if name in added.column_names:
            raise InvalidInputError(
                f"DATA has a column {name!r}, and so does the output. Leave it out of --keep, or rename it."
            )
    return pa.table({**{name: table[name] for name in kept}, **{name: added[name] for name in added.column_names}})


def predict_batches(predictions: PredictionTable, data: InputData, keep: list[str] | None) -> Iterator[pa.Table]:
    """Yield predictions for some rows at a time, beside the columns of ``keep`` (None: all)."""
    model = predictions.model
    names, types = columns_of(model), expected_types(model)
    wanted = None if names is None or keep is None else dict.fromkeys([*keep, *names])
    if names is not None and types is not None:
        types = {**dict.fromkeys(names, DATE), **types}  # what is not a number, a boolean or a text is a date
    design = getattr(model, "design_", None)
    before = 0
    for table in data.batches(types, wanted):
        with data.locating(before):
            rows = model_inputs(model, table, repr(data.name))
            if not len(table):
                continue
            encoded = rows if design is None else Encoded(design.transform(rows))  # once, whatever the model is asked
            found = predictions(encoded)
        before += len(table)
        yield add_columns(table, table.column_names if keep is None else keep, found)
