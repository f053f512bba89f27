"""What a model says about rows as tables, and those tables written piece by piece, for data of any size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oddsmith.decision.acting import REJECT, expected_loss
from oddsmith.decision.loss import LossMatrix, read_loss
from oddsmith.design.inputs import Encoded, as_table
from oddsmith.design.survey import at
from oddsmith.engines import Parts, Piece, one_blas_thread
from oddsmith.engines.progress import following
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import InvalidInputError
from oddsmith.models.answering import inputs, needed, opened, with_types
from oddsmith.persistence.tables import FILE_ROWS, write_tables
from oddsmith.records import Table

if TYPE_CHECKING:
    from oddsmith.engines.files import FileParts

ROWS = 1 << 16
"""Rows of a table in memory that are predicted at a time."""


@dataclass(frozen=True)
class Saying:
    """What is written about rows: the class, the probabilities, intervals of these, decisions; see `write_predictions`.

    ``loss`` has been read; None: no decisions.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["no", "no", "yes", "yes"])
    >>> Saying(model)(np.array([[0.0]])).column_names
    ['predicted', 'p_no', 'p_yes']
    """

    model: Any
    predicted: bool = True
    proba: bool = True
    intervals: bool = False
    level: float = 0.95
    loss: LossMatrix | None = None
    reject: Any = None

    def __call__(self, rows: Any) -> Any:
        """Return a table (Arrow) with a row for each row."""
        import pyarrow as pa

        model, columns = self.model, {}
        names = [str(label) for label in model.classes_.tolist()]
        asked = (self.proba or self.loss is not None) and hasattr(model, "predict_proba")
        P = model.predict_proba(rows) if asked else None
        if self.predicted:
            columns["predicted"] = pa.array(model.predict(rows).tolist())
        if self.proba and P is not None:
            columns |= _by_class("p", names, P)
        if self.intervals:
            found = model.predictive(rows, level=self.level)
            columns |= _by_class("lower", names, found.lower) | _by_class("upper", names, found.upper)
        return pa.table(columns if self.loss is None else columns | self._decisions(rows, P, self.loss))

    def _decisions(self, rows: Any, P: Any, loss: LossMatrix) -> dict[str, Any]:
        """Return the decision (null if rejected) and its expected loss for each row."""
        import pyarrow as pa

        actions = self.model.decide(rows, loss, self.reject)
        costs = expected_loss(P, loss, self.reject, classes=self.model.classes_)
        said = [None if action is REJECT else action for action in actions.tolist()]
        columns = {"decision": pa.array(said, type=pa.array(loss.actions.tolist()).type)}
        if self.reject is not None:
            columns["rejected"] = pa.array([action is None for action in said])
        return {**columns, "expected_loss": pa.array(costs.min(axis=1))}


def _by_class(prefix: str, names: list[str], values: Any) -> dict[str, Any]:
    import pyarrow as pa

    return {f"{prefix}_{name}": pa.array(np.ascontiguousarray(values[:, k])) for k, name in enumerate(names)}


@dataclass(frozen=True)
class Written(Table):
    """What was written: where, how many rows in how many files, and in how many seconds."""

    path: str
    rows: int
    files: int
    seconds: float

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row."""
        return {name: [value] for name, value in vars(self).items()}


def write_predictions(
    model: Any,
    data: Any,
    path: str | os.PathLike[str],
    *,
    proba: bool = True,
    intervals: bool = False,
    level: float = 0.95,
    loss: Any = None,
    reject: Any = None,
    columns: Iterable[str] = (),
    format: str | None = None,
    file_rows: int = FILE_ROWS,
    **how: Any,
) -> Written:
    """Write what a model predicts for each row of a table that may be larger than memory.

    Parameters
    ----------
    model : fitted classifier
    data : path, folder, glob, list of these, pyarrow dataset, `scan` of them, or a table in memory
        Predictions for Dask and Spark are lazy columns (``model.predict_proba(frame)``): write those.
    path : str or path
        A ``.parquet``, ``.csv``, ``.arrow`` or ``.jsonl`` file; without an ending, a folder of files. It is there when
        all is written, and only then.
    proba : bool
        Whether to write the probability ``p_CLASS`` of each class beside ``predicted``.
    intervals, level : bool, float
        Whether to write ``lower_CLASS`` and ``upper_CLASS`` too, of models with a posterior.
    loss, reject : optional
        As for ``decide``; with one of them there are the columns ``decision`` and ``expected_loss``, and with
        ``reject`` the column ``rejected``, where decisions are null.
    columns : names
        Columns of the data to copy. Those of a CSV are copied as the text that they are.
    format, file_rows : str, int
        Of the files in a folder: "parquet" (default), "csv", "arrow" or "jsonl"; most rows of each.
    **how
        As for `scan`: ``memory``, ``progress`` and so on.

    Returns
    -------
    Written
        Path, rows, files, seconds.

    Cost: one reading of the columns needed, on all cores. Memory: that of a few pieces, whatever the size.

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
    began, kept = time.perf_counter(), tuple(columns)
    saying = make_saying(model, proba=proba, intervals=intervals, level=level, loss=loss, reject=reject)

    def use(tables: Iterator[Any]) -> tuple[int, int]:
        with write_tables(path, format, file_rows) as writer:
            for table in tables:
                writer.write(table)
            if not writer.rows:
                raise InvalidInputError("The data has no rows, so there is nothing to predict.")
        return writer.rows, writer.files

    rows, files = answer_tables(saying, data, kept, use, how)
    return Written(os.fspath(path), rows, files, time.perf_counter() - began)


def make_saying(model: Any, *, loss: Any = None, reject: Any = None, intervals: bool = False, **further: Any) -> Saying:
    """Return what is to be written about rows, or say what the model lacks for it.

    >>> from oddsmith import GaussianClassifier
    >>> make_saying(
    ...     GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb")), reject=0.1
    ... ).loss.actions.tolist()
    ['a', 'b']
    """
    name = type(model).__name__
    if hasattr(model, "_check_fitted"):
        model._check_fitted()
    if intervals and not hasattr(model, "predictive"):
        raise InvalidInputError(f"{name} has no posterior, and so no intervals. Use a LogisticRegression with a prior.")
    decides = loss is not None or reject is not None
    if decides and not hasattr(model, "predict_proba"):
        model.decide(np.zeros((1, 1)), loss, reject)  # says why it cannot
    matrix = read_loss(loss, model.classes_) if decides else None
    return Saying(model, intervals=intervals, loss=matrix, reject=reject, **further)


def answer_tables(
    saying: Saying, data: Any, kept: Sequence[str], use: Callable[[Iterator[Any]], Any], how: Any = None
) -> Any:
    """Return ``use(tables)``: kept columns of the data with what is said at their right, some rows at a time.

    ``use`` may be called again from the first table on, as in `read_once`.
    """
    if not is_elsewhere(data):
        table = as_table(data)
        rows = data if table is None else table
        starts = range(0, int(rows.shape[0]), ROWS)
        return use(_said(saying, Piece(_native(rows[i : i + ROWS])), kept) for i in starts)
    parts, progress = opened(data, how)
    if parts.engine.name != "files":
        raise InvalidInputError(
            f"Predictions for data of {parts.engine.name.capitalize()} are lazy columns: write those of "
            "model.predict_proba(data), with to_parquet or write.parquet."
        )
    from oddsmith.engines.files.reading import read_once

    files: FileParts = _chosen(saying.model, parts, kept)  # type: ignore[assignment]
    with following(progress, "predicting") as tell, one_blas_thread():
        return read_once(files, lambda piece: _said(saying, piece, kept), use, tell)


def _native(rows: Any) -> Any:
    return rows.to_native() if hasattr(rows, "to_native") else rows


def _chosen(model: Any, parts: Parts, kept: Sequence[str]) -> Parts:
    """Return the pieces with the columns of the model and those to copy, which of text are copied as they are."""
    import pyarrow as pa

    for name in kept:
        if name not in (parts.columns or ()):
            there = ", ".join(map(repr, parts.columns or ()))
            raise InvalidInputError(f"There is no column {name!r} to copy. The data has: {there}.")
    chosen = needed(model, parts, *kept)
    return with_types(chosen, dict.fromkeys(kept, pa.string()))


def _said(saying: Saying, piece: Piece, kept: Sequence[str]) -> Any:
    """Return kept columns of a piece with what was said about its rows at their right."""
    import pyarrow as pa

    with at(piece):
        rows = inputs(saying.model, piece.rows)
        if getattr(saying.model, "design_", None) is not None:
            rows = Encoded(saying.model.design_.transform(rows))  # once, whatever the model is asked
        said = saying(rows)
    if not kept:
        return said
    table = as_table(piece.rows)
    if table is None:
        raise InvalidInputError("Columns can be copied from a table, and the rows are an array without names.")
    for name in kept:
        if name in said.column_names:
            raise InvalidInputError(
                f"The data has a column {name!r}, and so has what is written. Do not copy it, or rename it."
            )
    copied = table.select(kept).to_arrow()
    return pa.table({**{name: copied[name] for name in kept}, **{name: said[name] for name in said.column_names}})
