"""Tables of predictions, written piece by piece for data of any size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import narwhals as nw
import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from oddsmith.data_access.streamed_prediction import (
    OddsmithModel,
    model_inputs,
    open_pieces,
    select_columns,
    with_types,
)
from oddsmith.data_access.table_writer import FILE_ROWS, write_tables
from oddsmith.decision.actions import REJECT, expected_loss
from oddsmith.decision.loss import LossLike, LossMatrix, RejectLike, read_loss
from oddsmith.design.data_summary import locate_errors
from oddsmith.design.inputs import Encoded, as_table, learned_design
from oddsmith.engines import Piece, one_blas_thread
from oddsmith.engines.files import FileParts
from oddsmith.engines.files.engine import read_once
from oddsmith.engines.progress import following
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.protocols import RowsLike
from oddsmith.records import Table

T = TypeVar("T")

ROWS = 1 << 16  # Rows of a table in memory per batch of predictions.


@dataclass(frozen=True, kw_only=True)
class PredictionTable:
    """Which predictions to write for each row: class, probabilities, intervals, decisions.

    See `write_predictions`. ``loss`` is a checked loss matrix, or None for no decisions.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> PredictionTable(model=model)(np.array([[0.0]])).column_names
    ['predicted', 'p_no', 'p_yes']
    """

    model: BaseEstimator
    predicted: bool = True
    proba: bool = True
    intervals: bool = False
    level: float = 0.95
    loss: LossMatrix | None = None
    reject: RejectLike = None

    def __call__(self, rows: object) -> pa.Table:
        model, columns = self.model, {}
        needs_proba = self.proba or self.loss is not None
        P = model.predict_proba(rows) if needs_proba and _is_probabilistic(model) else None
        if self.predicted:
            columns["predicted"] = pa.array(model.predict(rows).tolist())
        if self.proba and P is not None:
            columns |= self._by_class("p", P)
        if self.intervals:
            found = model.predictive(rows, level=self.level)
            columns |= self._by_class("lower", found.lower) | self._by_class("upper", found.upper)
        if self.loss is not None:
            actions = model.decide(rows, self.loss, self.reject).tolist()
            decisions = [None if action is REJECT else action for action in actions]
            columns["decision"] = pa.array(decisions, type=pa.array(self.loss.actions.tolist()).type)
            if self.reject is not None:
                columns["rejected"] = pa.array([action is None for action in decisions])
            assert P is not None
            costs = expected_loss(P, self.loss, self.reject, classes=model.classes_)
            columns["expected_loss"] = pa.array(costs.min(axis=1))
        return pa.table(columns)

    def _by_class(self, prefix: str, values: Array) -> dict[str, pa.Array]:
        labels = self.model.classes_.tolist()
        return {f"{prefix}_{label}": pa.array(np.ascontiguousarray(values[:, k])) for k, label in enumerate(labels)}


def _is_probabilistic(model: BaseEstimator) -> bool:
    return hasattr(model, "predict_proba")


@dataclass(frozen=True)
class WriteResult(Table):
    """The path of written predictions, with the number of rows, files and seconds."""

    path: str
    rows: int
    files: int
    seconds: float

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: [value] for name, value in vars(self).items()}


def write_predictions(
    model: BaseEstimator,
    data: object,
    path: str | os.PathLike[str],
    *,
    proba: bool = True,
    intervals: bool = False,
    level: float = 0.95,
    loss: LossLike = None,
    reject: RejectLike = None,
    columns: Iterable[str] = (),
    format: str | None = None,
    file_rows: int = FILE_ROWS,
    escape: bool = True,
    **how: Any,
) -> WriteResult:
    """Write the predictions of a model for each row of a table, which may be larger than memory.

    Parameters
    ----------
    model : fitted classifier
    data : path, folder, glob, list of these, pyarrow dataset, `scan` of them, or a table in memory
        For Dask and Spark, ``model.predict_proba(frame)`` returns lazy columns: write those instead.
    path : str or path
        A ``.parquet``, ``.csv``, ``.arrow`` or ``.jsonl`` file; without an extension, a folder of files. It appears
        only when everything is written.
    proba : bool
        Whether to write the probability ``p_CLASS`` of each class in addition to ``predicted``.
    intervals, level : bool, float
        Whether to write ``lower_CLASS`` and ``upper_CLASS`` as well, for models with a posterior; the level of the
        interval.
    loss, reject : optional
        As in ``decide``: either adds the columns ``decision`` and ``expected_loss``; ``reject`` also adds ``rejected``,
        and decisions of rejected rows are null.
    columns : names
        Columns of the data to copy. Columns of a CSV file are copied as text, unchanged.
    format, file_rows : str, int
        Format of the files in a folder: "parquet" (default), "csv", "arrow" or "jsonl"; maximum rows of each.
    escape : bool
        Whether to put an apostrophe before text in a CSV file that a spreadsheet would run as a formula (``=cmd|…``).
    **how
        As in `scan`: ``memory``, ``progress`` and so on.

    Returns
    -------
    WriteResult
        Path, rows, files, seconds.

    Cost: one pass over the columns needed, on all cores. Memory: a few pieces, whatever the size of the data.

    >>> import tempfile, pyarrow as pa
    >>> from pyarrow import parquet
    >>> from oddsmith import GaussianClassifier
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     parquet.write_table(
    ...         pa.table({"id": [1, 2, 3, 4], "x": [0.0, 1.0, 4.0, 5.0], "y": list("aabb")}), f"{folder}/a"
    ...     )
    ...     model = GaussianClassifier().fit(parquet.read_table(f"{folder}/a", columns=["x", "y"]), "y")
    ...     done = write_predictions(model, f"{folder}/a", f"{folder}/b.parquet", columns=["id"], proba=False)
    ...     parquet.read_table(f"{folder}/b.parquet").to_pydict(), done.rows
    ({'id': [1, 2, 3, 4], 'predicted': ['a', 'a', 'b', 'b']}, 4)
    """
    start = time.perf_counter()
    predictions = make_prediction_table(model, proba=proba, intervals=intervals, level=level, loss=loss, reject=reject)

    def write(tables: Iterator[pa.Table]) -> tuple[int, int]:
        with write_tables(path, format, file_rows, escape=escape) as writer:
            for table in tables:
                writer.write(table)
            if not writer.rows:
                raise InvalidInputError("The data has no rows, so there is nothing to predict.")
        return writer.rows, writer.files

    rows, files = predict_tables(predictions, data, tuple(columns), write, how)
    return WriteResult(os.fspath(path), rows, files, time.perf_counter() - start)


def make_prediction_table(
    model: BaseEstimator, *, loss: LossLike = None, reject: RejectLike = None, intervals: bool = False, **options: Any
) -> PredictionTable:
    """Return which predictions to write; raise an error if the model lacks one of them."""
    if isinstance(model, OddsmithModel):
        model._check_fitted()
    if intervals and not hasattr(model, "predictive"):
        name = type(model).__name__
        raise InvalidInputError(
            f"{name} has no posterior, so it has no intervals. Use LogisticRegression with a prior."
        )
    decides = loss is not None or reject is not None
    if decides and not _is_probabilistic(model):
        model.decide(np.zeros((1, 1)), loss, reject)  # says why it cannot
    matrix = read_loss(loss, model.classes_) if decides else None
    return PredictionTable(model=model, intervals=intervals, loss=matrix, reject=reject, **options)


def predict_tables(
    predictions: PredictionTable,
    data: object,
    kept: Sequence[str],
    consume: Callable[[Iterator[pa.Table]], T],
    how: Mapping[str, Any] | None = None,
) -> T:
    """Return ``consume(tables)``, called again if needed: kept columns of the data, then the predictions."""
    if not is_elsewhere(data):
        table = as_table(data)
        rows = cast("RowsLike", data if table is None else table)
        batches = (rows[start : start + ROWS] for start in range(0, int(rows.shape[0]), ROWS))
        return consume(_predict(predictions, Piece(nw.to_native(some, pass_through=True)), kept) for some in batches)
    parts, progress = open_pieces(data, how)
    if not isinstance(parts, FileParts):
        raise InvalidInputError(
            f"Predictions for data of {parts.engine.name.capitalize()} are lazy columns: write those of "
            "model.predict_proba(data), with to_parquet or write.parquet."
        )
    for name in kept:
        if name not in parts.columns:
            known = ", ".join(map(repr, parts.columns))
            raise InvalidInputError(f"There is no column {name!r} to copy. The data has: {known}.")
    # Columns to copy are text as it is.
    files: Any = with_types(select_columns(predictions.model, parts, *kept), dict.fromkeys(kept, pa.string()))
    with following(progress, "predicting") as report, one_blas_thread():
        return read_once(files, lambda piece: _predict(predictions, piece, kept), consume, report)


def _predict(predictions: PredictionTable, piece: Piece, kept: Sequence[str]) -> pa.Table:
    """Return kept columns of a piece, then the predictions for its rows."""
    with locate_errors(piece):
        rows = model_inputs(predictions.model, piece.rows)
        design = learned_design(predictions.model)
        # Encoded once, however many methods of the model are called.
        predicted = predictions(rows if design is None else Encoded(design.transform(rows)))
    if not kept:
        return predicted
    table = as_table(piece.rows)
    if table is None:
        raise InvalidInputError("Columns can be copied only from a table; the rows are an array without column names.")
    twice = [name for name in kept if name in predicted.column_names]
    if twice:
        what = f"The data has a column {twice[0]!r}, and so has what is written."
        raise InvalidInputError(f"{what} Do not copy it, or rename it.")
    tables = dict.fromkeys(kept, table.select(kept).to_arrow()) | dict.fromkeys(predicted.column_names, predicted)
    return pa.table({name: columns[name] for name, columns in tables.items()})
