"""Training data as a source to fold over: rows in memory here, data in pieces in `training_stream`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from oddsmith.design import inputs
from oddsmith.design.class_weight import leave_out, read_weights, weigh_classes
from oddsmith.design.fitted_design import column_names, through_design
from oddsmith.engines import AnySource, Engine, MemorySource, engine_of
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import NeedsMemoryError
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.rows import SplitRows
from oddsmith.rows.device import import_torch, is_on_device
from oddsmith.rows.sparse import LateRows


def refuse_pieces(X: object, what: str, instead: str) -> None:
    """Refuse data in pieces for methods that need rows in memory."""
    if is_elsewhere(X):
        kind = "" if type(X).__module__.startswith("oddsmith.") else f"a {type(X).__name__}: "
        raise NeedsMemoryError(
            f"{what} needs rows in memory, but X is {kind}data in pieces. {instead}, or read a small enough table "
            "into memory."
        )


@dataclass(frozen=True)
class TrainingData:
    """Classes and a source. ``class_weight`` is known if a first pass was made; ``explain`` looks for bad values."""

    classes: Labels
    source: AnySource
    class_weight: Array | None = None
    explain: Callable[[], None] | None = None

    def engine(self, threads: int | None) -> Engine:
        """The engine that folds over the source."""
        return engine_of(self.source, threads)


def read_data(
    model: BaseEstimator,
    X: object,
    y: object,
    sample_weight: object = None,
    offset: object = None,
    how: dict[str, Any] | None = None,
    *,
    reset: bool,
    known: bool = False,
    draw: bool = False,
    split: bool = False,
    by_columns: bool = False,
) -> TrainingData:
    """Read rows and labels; with ``reset``, learn the columns and classes from them.

    With ``known``, the classes are those of the model, even if the labels lack some. Rows in memory are not yet checked
    for NaN. Data in pieces (``how``: see `scan`) takes one pass, which may ``draw`` a sample. With ``split``, large
    tables come in parts, with categories as codes. With ``by_columns``, a matrix that is so is arranged by rows only
    when these are read.
    """
    if is_on_device(X) or (how and "device" in how):
        import_torch()
        from oddsmith.data_access.device_data import read_for_device

        return read_for_device(model, X, y, sample_weight, offset, how or {}, reset=reset)
    if how or is_elsewhere(X):
        from oddsmith.data_access.training_stream import open_stream, read_stream

        stream = open_stream(X, y, sample_weight, offset, how)
        if stream is not None:
            return read_stream(model, model.design, stream, reset=reset, draw=draw, split=split)
    X, y, sample_weight, offset = through_design(
        model, model.design, X, y, sample_weight, offset, reset=reset, split=split
    )
    late = _late_rows(model, X) if by_columns and reset else None
    rows = inputs.read_rows(model, X, reset=reset) if late is None else late
    n = rows.shape[0]
    narrow = isinstance(rows, SplitRows)  # which kernels of tables read
    classes, t = inputs.read_known_labels(y, n, model.classes_) if known else inputs.read_labels(y, n, narrow=narrow)
    s = read_weights(sample_weight, n)
    present = X.present if isinstance(X, inputs.Encoded) else None
    if present is not None:
        t = t.astype(np.int8 if len(classes) < 128 else np.int32) if t is y else t  # which is written to
        classes, t = (classes, t) if known else leave_out(present, classes, t)
        s = present.view(np.uint8) if s is None else np.where(present, s, 0.0)
    offset = inputs.read_offset(offset, n, len(classes), present)
    s = weigh_classes(model, classes, t, s, reset=reset)
    source = MemorySource(rows, t, len(classes), s, offset=offset, given=_given_columns(X, rows))
    counts = None if late is None else np.bincount(t, weights=s, minlength=len(classes)).astype(np.float64)
    return TrainingData(classes, source, counts, lambda: inputs.check_finite(rows, column_names(model, rows)))


def _late_rows(model: BaseEstimator, X: Any) -> LateRows | None:
    """Return rows that are arranged when they are read, and learn their number of columns; None for other matrices."""
    known = sparse.issparse(X) and X.format == "csc" and X.dtype in (np.float64, np.float32) and 0 not in X.shape
    if not (known and X.has_canonical_format):
        return None
    model.__dict__.pop("feature_names_in_", None)
    model.n_features_in_ = X.shape[1]
    return LateRows.of(X)


def _given_columns(X: Any, rows: inputs.ArrayOrCSR | SplitRows) -> tuple[Any, Any] | None:
    """Return the rows with the matrix that they were made from, if it has their numbers by columns."""
    same = sparse.issparse(X) and X.format == "csc" and X.dtype == rows.dtype and X.has_canonical_format
    return (rows, X) if same else None
