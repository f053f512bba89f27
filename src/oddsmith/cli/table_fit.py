"""Fits to tables, whole or in pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oddsmith.cli.data import InputData, check_column
from oddsmith.cli.data_lint import check_columns
from oddsmith.cli.model_spec import ModelSpec
from oddsmith.cli.output import spinner
from oddsmith.design.text_columns import attach
from oddsmith.engines.files import FileParts
from oddsmith.engines.files.text import TypeInferenceError
from oddsmith.engines.scan import Wrapped
from oddsmith.errors import InvalidInputError, NeedsMemoryError, UnknownNameError
from oddsmith.models.base import Classifier
from oddsmith.persistence.model_file import provenance


@dataclass(frozen=True)
class ColumnRoles:
    """The columns with a role of their own: values of --target, --weights and --ignore."""

    target: str | None
    weights: str | None = None
    ignore: list[str] | None = None

    def kept(self, names: list[str]) -> list[str]:
        """Return the names that are not ignored, once every column with a role is known to exist."""
        ignored = self.ignore or []
        for name in ignored:
            check_column(names, name, "--ignore")
        kept = [name for name in names if name not in ignored]
        for role, option in ((self.target, "--target"), (self.weights, "--weights")):
            if role is not None:
                check_column(kept, role, option)
        return kept

    def read(self, data: InputData) -> pa.Table:
        """Return the whole table, without the columns that are ignored."""
        table = data.table()
        return table.select(self.kept(table.column_names))

    def split_weights(self, table: pa.Table) -> tuple[pa.Table, dict[str, Any]]:
        """Return a table without the column of weights, and these as an argument of a fit."""
        if self.weights is None:
            return table, {}
        return table.drop_columns([self.weights]), {"sample_weight": table[self.weights].to_numpy()}


def fit_table(
    estimator: Classifier,
    data: InputData,
    columns: ColumnRoles,
    spec: ModelSpec,
    how: dict[str, str | None],
    output: str,
    report: str | None,
) -> int:
    """Fit to a table in pieces or whole, write the model, and a report if one is wanted; return the number of rows.

    Small files are read whole, and large ones for a model that needs all rows in memory, unless ``how`` (values of
    --memory, --cache and --resume) says how pieces are to be read.
    """
    given = [name for name, value in how.items() if value is not None]
    if report is not None and given:
        raise InvalidInputError(
            f"A report needs all rows in memory, so --{given[0]} cannot be combined with --report. Leave one of them "
            "out; 'oddsmith report MODEL DATA' writes the page later, for a part of the rows that fits into memory."
        )
    pieces = data.pieces(**how) if report is None else None
    if pieces is not None:
        try:
            n_rows = _fit_pieces(estimator, pieces, columns, data.name, how["resume"])
            estimator.save(output)
            return n_rows
        except NeedsMemoryError:
            if data.keyed or given:
                raise
    return _fit_whole(estimator, data, columns, spec, output, report)


def _fit_pieces(estimator: Classifier, pieces: FileParts, columns: ColumnRoles, name: str, resume: str | None) -> int:
    kept = columns.kept(list(pieces.columns))
    check_columns(_head(pieces.choose(kept)), columns.target, name)
    try:
        weights = {} if columns.weights is None else {"sample_weight": columns.weights}
        estimator.fit(pieces.choose(kept) if columns.ignore else pieces, columns.target, **weights)
    except KeyboardInterrupt:
        text = "Nothing was written. With --resume FILE a fit to files resumes where it was interrupted."
        if resume is not None:
            text = f"No model was written. The passes so far are in {resume}: run the same command to resume."
        raise KeyboardInterrupt(text) from None
    seen = provenance(estimator)  # models keep the number of rows, or their total weight, or neither
    return int(seen["rows"] or (seen["weight"] if columns.weights is None else 0) or pieces.expected_rows)


def _head(pieces: Any) -> pa.Table:
    """Return the first rows of files, which show most problems with columns."""
    try:
        files: Any = pieces.innermost if isinstance(pieces, Wrapped) else pieces
        head = files.head()
        return head if files.text_sample(files.columns) else attach(head, {}, {})  # formats of text files are known
    except TypeInferenceError:  # the fit finds out which types hold all rows
        return pa.table({name: pa.nulls(1) for name in pieces.columns})


def _fit_whole(
    estimator: Classifier, data: InputData, columns: ColumnRoles, spec: ModelSpec, output: str, report: str | None
) -> int:
    target = columns.target
    with spinner(f"reading {data.name}") as update:
        table = columns.read(data)
        check_columns(table, target, data.name, spec.formula)
        with data.locating():
            table, rows = with_target(table, target, drop=drops_unlabelled(spec.unlabelled, spec.missing))
        update(f"fitting {spec.model} to {table.num_rows:,} rows")
        table, given = columns.split_weights(table)
        with data.locating(rows):
            estimator.fit(table, target, **given)
        estimator.save(output)  # before the report, which has the checksum of this file
        if report is not None:
            update("writing the report")
            estimator.report(table, target, report, model_path=output, data_path=data.files, **given)
    return int(table.num_rows)


def drops_unlabelled(unlabelled: str | None, missing: str | None = None) -> bool:
    """Whether options say that rows without a class are dropped."""
    if unlabelled not in (None, "error", "drop"):
        raise UnknownNameError("unlabelled", unlabelled, ["error", "drop"])
    return "drop" in (missing, unlabelled)


def with_target(
    table: pa.Table, target: str | None, *, drop: bool, other: str = "--missing drop"
) -> tuple[pa.Table, list[int] | None]:
    """Return the rows that have a class, and their numbers if some are dropped; refuse others without that policy.

    ``other`` is an option of the command that drops these rows, too.
    """
    if target is None or not table[target].null_count:
        return table, None
    there, count = table[target].is_valid(), table[target].null_count
    if not drop:
        first, more = there.index(False).as_py(), other and f", or (with every row that has a missing value) {other}"
        raise InvalidInputError(
            f"Column {target!r}, the target, is missing in {count} of {table.num_rows} rows, the first in row {first}. "
            f"Drop these rows with --unlabelled drop{more}.",
            row=first,
        )
    return table.filter(there), there.combine_chunks().to_numpy(zero_copy_only=False).nonzero()[0].tolist()
