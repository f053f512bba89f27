"""Predictions for data in pieces: the rows stay where they are, and only predictions come back.

For files, the predictions are an array, computed piece by piece from only the columns that the model reads; for Dask
and Spark they are lazy columns. The decorator `streams` adds this to a method; rows in memory are unaffected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator

from oddsmith.decision.actions import REJECT
from oddsmith.decision.loss import read_loss
from oddsmith.design.data_summary import locate_errors
from oddsmith.design.inputs import ArrayOrCSR, as_table, feature_names, learned_design
from oddsmith.design.text_columns import Formats, learned_formats, read_formats
from oddsmith.engines import DaskParts, PartedSource, Parts, Piece, Progress, one_blas_thread
from oddsmith.engines.files import FileParts
from oddsmith.engines.files.engine import read_once
from oddsmith.engines.progress import following
from oddsmith.engines.scan import Scanned, Wrapped, find_parts
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.statistic import Shape

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

PREFIX = {
    **{"predict_proba": "p", "predict_log_proba": "log_p", "log_density": "log_density"},
    "decision_function": "value",
}
"""Prefixes of prediction columns, before the name of the class."""
METHODS = ("predict", *PREFIX, "decide")  # The methods that take data in pieces.


@runtime_checkable
class OddsmithModel(Protocol):
    """A classifier of this library."""

    def _check_fitted(self) -> None: ...


def columns_of(model: BaseEstimator) -> tuple[str, ...] | None:
    """Return the columns that a model reads; None if it was fitted to unnamed columns."""
    names, inner = feature_names(model), _inner_model(model)
    if names is None and inner is not None:
        return columns_of(inner)
    return None if names is None else tuple(map(str, names))


def _inner_model(model: BaseEstimator) -> BaseEstimator | None:
    """Return the inner model of a wrapper, or the first of its models."""
    return vars(model).get("_inner") or next(iter(vars(model).get("_parts", ())), None)


def expected_types(model: BaseEstimator) -> dict[str, Any] | None:
    """Return Arrow types of a model's columns for files without types; None is a number or a boolean.

    Text columns recognised in the fit have a `TextFormat` instead of a type.
    """
    names, kinds, formats = columns_of(model), _kinds(model), formats_of(model)
    if names is None or kinds is None:
        return None if names is None else {**dict.fromkeys(names), **formats}
    known = {"number": pa.float64(), "float": pa.float64(), "integer": pa.int64(), "boolean": pa.bool_()}
    known |= {"category": pa.string(), "text": pa.string()}
    return {**{name: known[kind] for name, kind in kinds.items() if kind in known}, **formats}


def formats_of(model: BaseEstimator) -> Formats:
    """Return the formats of the text columns that a model, or one inside it, was fitted to."""
    inner = _inner_model(model)
    return learned_formats(model) or ({} if inner is None else formats_of(inner))


def _kinds(model: BaseEstimator) -> dict[str, str] | None:
    """Return the kinds of columns that a model, or one inside it, has learned."""
    design = learned_design(model)
    if design is not None:
        return dict(design.kinds_)
    folded, inner = vars(model).get("_folded"), _inner_model(model)
    if folded is not None and folded.plan is not None and folded.plan.names is not None:
        return dict(zip(folded.plan.names, folded.plan.kinds.tolist(), strict=True))
    return None if inner is None else _kinds(inner)


def model_inputs(model: BaseEstimator, rows: object, name: str = "the data") -> Any:
    """Return the columns of a table that a model reads, in its order; by position if it has no names.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb"))
    >>> model_inputs(model, pa.table({"x": [1.0, 2.0]})).tolist()
    [[1.0], [2.0]]
    """
    table = as_table(rows)
    if table is None:
        return rows
    names = _read_columns(model, table.columns, name)
    if columns_of(model) is None:
        return np.column_stack([column.to_numpy() for column in table.iter_columns()])
    chosen = nw.from_native(read_formats(table.select(names), formats_of(model)), eager_only=True)
    # Models of scikit-learn read pandas.
    return chosen.to_native() if isinstance(model, OddsmithModel) else chosen.to_pandas()


def _read_columns(model: BaseEstimator, given: Sequence[str], name: str, further: tuple[str, ...] = ()) -> list[str]:
    """Return which of the given columns a model reads; all except ``further`` if it has no names."""
    names = columns_of(model)
    if names is None:
        rest = [column for column in given if column not in further]
        if len(rest) != model.n_features_in_:
            raise InvalidInputError(
                f"The model was fitted to {model.n_features_in_} unnamed columns, but {name} has {len(rest)}: "
                f"{', '.join(map(repr, rest))}. Give exactly the columns of the fit, in the same order."
            )
        return rest
    for column in names:
        if column not in given:
            alike = next((f" Is it {other!r}?" for other in given if str(other).strip().lower() == column.lower()), "")
            raise InvalidInputError(
                f"Column {column!r}, which the model was fitted to, is missing from {name}.{alike} Its columns are: "
                f"{', '.join(map(repr, given))}."
            )
    return list(names)


def select_columns(model: BaseEstimator, parts: Parts, *further: str) -> Parts:
    """Return data in pieces with only the columns that a model reads and ``further`` ones, text with its types."""
    if parts.columns is None:
        return parts
    names, types = _read_columns(model, parts.columns, "the data", further), expected_types(model)
    parts = parts.choose(tuple(dict.fromkeys((*names, *further))))
    return with_types(parts, dict.fromkeys(names) if types is None else types)


def with_types(parts: Parts, types: Mapping[str, Any]) -> Parts:
    """Return data in pieces with text columns read as these types; typed columns are unchanged."""
    return parts.with_types(types) if isinstance(parts, FileParts) else parts


def open_pieces(
    data: object, how: Mapping[str, Any] | None = None, apart: dict[str, Any] | None = None
) -> tuple[Parts, Progress | bool | None]:
    """Return data in pieces, and the progress callback; ``apart`` holds labels (``y``) that are not a column."""
    how = dict(how or {})
    progress = how.pop("progress", None)
    if "resume" in how:
        raise InvalidInputError(
            "resume= works only in fit: predictions and scores have no state to resume from. Leave it out."
        )
    parts = find_parts(data, apart, how)
    assert parts is not None
    if isinstance(parts, Scanned):
        progress = progress or parts.progress
    return (parts.innermost if isinstance(parts, Wrapped) else parts), progress


@dataclass(frozen=True, kw_only=True)
class PredictionTask:
    """A method of a model for some rows; ``offset`` names a column, ``null_rejected`` replaces `REJECT` by None."""

    model: BaseEstimator
    method: str
    options: dict[str, Any]
    offset: str | None = None
    null_rejected: bool = False

    def __call__(self, rows: ArrayOrCSR | pa.Table) -> npt.NDArray[Any]:
        table, options = as_table(rows), self.options
        if self.offset is not None:
            if table is None:
                raise InvalidInputError(f"offset={self.offset!r} names a column, but the rows have no column names.")
            options = options | {"offset": table.get_column(self.offset).to_numpy()}
            rows = table.drop(self.offset).to_native()
        if not rows.shape[0]:
            names, dtype = self.form()
            return np.empty(0 if isinstance(names, str) else (0, len(names)), dtype=dtype)
        found = np.asarray(getattr(self.model, self.method)(model_inputs(self.model, rows), **options))
        if self.null_rejected and found.dtype == object:
            found[found == REJECT] = None
        return found

    def form(self) -> tuple[str | tuple[str, ...], npt.DTypeLike]:
        """Return the names of the prediction columns (a string for a single one), and their data type."""
        classes = self.model.classes_
        if self.method == "predict":
            return "predicted", classes.dtype
        if self.method == "decide":
            return "decision", read_loss(self.options.get("loss"), classes).actions.dtype
        if self.method == "decision_function" and len(classes) == 2:
            return "value", float
        return tuple(f"{PREFIX[self.method]}_{label}" for label in classes.tolist()), float


@dataclass(frozen=True)
class _Collected:
    """The predictions for some pieces, in order: a statistic of raw pieces, as large as the predictions."""

    parts: tuple[Any, ...] = ()

    @classmethod
    def zero(cls, shape: Shape, params: object) -> _Collected:
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: Callable[[Any], Any]) -> _Collected:
        with locate_errors(piece):
            return cls((params(piece.rows),))

    def merge(self, other: _Collected) -> _Collected:
        return _Collected((*self.parts, *other.parts))


def predict_stream(model: BaseEstimator, method: str, X: object, options: dict[str, Any]) -> Any:
    """Return the predictions of a method of a model for data in pieces.

    Files give an array of all predictions; a Dask DataFrame gives an aligned lazy Series or DataFrame, a Dask Array an
    Array; a Spark DataFrame gets additional lazy columns.

    Cost: one pass over the columns that the model reads. Memory: a few pieces, and the predictions.
    """
    model._check_fitted()
    parts, progress = open_pieces(X)
    offset = options.pop("offset") if isinstance(options.get("offset"), str) else None
    on_spark = parts.engine.name == "spark"
    task = PredictionTask(model=model, method=method, options=options, offset=offset, null_rejected=on_spark)
    names, dtype = task.form()
    chosen: Any = select_columns(model, parts, *(() if offset is None else (offset,)))
    if isinstance(parts, DaskParts):
        from oddsmith.engines.dask_collections import apply as apply_dask

        is_text = parts.columns is not None and np.dtype(dtype).kind in "US"  # pandas has no such type
        may_reject = method == "decide" and options.get("reject") is not None
        return apply_dask(chosen.data, task, names, object if is_text or may_reject else dtype)
    if on_spark:
        from oddsmith.engines.spark import apply as apply_spark

        all_columns: Any = parts
        return apply_spark(all_columns.frame, task, names, dtype)
    found = collect(chosen, task, progress)
    if not found:
        raise InvalidInputError("The data has no rows: found array with 0 sample(s).")
    return np.concatenate(found)


def collect(parts: Parts, task: Callable[[Any], T], progress: Progress | bool | None = None) -> list[T]:
    """Return ``task(rows)`` for all pieces, in order."""
    with following(progress, "predicting") as report:
        if not isinstance(parts, FileParts):
            source = PartedSource(parts)
            return list(parts.engine.fold(_Collected, source, task, progress=report).parts)  # type: ignore[type-var]

        def work(piece: Piece) -> T:
            with locate_errors(piece):
                return task(piece.rows)

        with one_blas_thread():
            return read_once(parts, work, list, report)


@dataclass(frozen=True)
class CorrectWeight:
    """Sums the weight of correctly predicted rows of a table, and of all rows."""

    model: BaseEstimator
    y: str
    weight: str | None = None

    def __call__(self, rows: object) -> Array:
        table = as_table(rows)
        assert table is not None
        labels = table.get_column(self.y)
        missing = labels.null_count()
        if missing:
            raise InvalidInputError(f"Column {self.y!r} has {missing} rows without a label. Leave them out.")
        used = columns_of(self.model) or ()
        others = [name for name in (self.y, self.weight) if name is not None and name not in used]
        predicted = np.asarray(self.model.predict(model_inputs(self.model, table.drop(others).to_native())))
        true = labels.to_numpy()
        is_text = true.dtype.kind in "OUST"
        if is_text != (predicted.dtype.kind in "OUST"):
            raise InvalidInputError(
                f"Column {self.y!r} holds {'text' if is_text else 'numbers'}, but the classes of the model are of "
                f"another type, such as {predicted[:1].tolist()[0]!r}. Use one type."
            )
        s = np.ones(len(true)) if self.weight is None else table.get_column(self.weight).to_numpy()
        return np.array([s[true == predicted].sum(), s.sum()], dtype=np.float64)


def accuracy(model: BaseEstimator, X: object, y: object, weight: object = None) -> float:
    """Return the accuracy of a model, in one pass; ``y`` and ``weight`` are names of columns."""
    model._check_fitted()
    parts, progress = open_pieces(X)
    if parts.columns is None or not isinstance(y, str) or not isinstance(weight, str | None):
        raise InvalidInputError(
            "For data in pieces, score takes labels and weights as names of columns: score(data, 'y'). For separate "
            "labels, use evaluate(model, data, y)."
        )
    parts = select_columns(model, parts, *(name for name in (y, weight) if name is not None))
    found = [sums for sums in collect(parts, CorrectWeight(model, y, weight), progress) if sums[1] > 0]
    if not found:
        raise InvalidInputError("The data has no rows (of positive weight): found array with 0 sample(s).")
    right, total = np.sum(found, axis=0)
    return float(right / total)
