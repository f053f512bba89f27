"""Predictions for data in pieces: the rows stay where they are, and what comes back are answers.

Of files the answers come as an array, read piece by piece with only the columns that the model reads; of Dask and Spark
as lazy columns. `answering` puts that in front of the methods of every classifier; rows in memory pass it untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from inspect import getattr_static
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if

from oddsmith.decision.acting import REJECT
from oddsmith.decision.loss import read_loss
from oddsmith.design.inputs import as_table
from oddsmith.design.survey import at
from oddsmith.engines import PartedSource, Parts, Piece, one_blas_thread
from oddsmith.engines.progress import following
from oddsmith.engines.scan import Scanned, Wrapped, find_parts, is_elsewhere
from oddsmith.errors import InvalidInputError
from oddsmith.numerics import Array
from oddsmith.statistic import Shape

if TYPE_CHECKING:
    from oddsmith.engines.files import FileParts

PREFIX = {
    "predict_proba": "p",
    "predict_log_proba": "log_p",
    "decision_function": "value",
    "log_density": "log_density",
}
"""What the columns of an answer are called, before the name of the class."""
METHODS = ("predict", *PREFIX, "decide")


def answering(cls: type[Any]) -> None:
    """Let the methods of a classifier that answer for each row take data in pieces, too."""
    for name in METHODS:
        found = getattr_static(cls, name, None)
        method = getattr(found, "fn", found)  # what `available_if` is put around
        if found is None or hasattr(method, "takes_pieces"):
            continue
        asked = _asked(method)
        setattr(cls, name, asked if method is found else available_if(found.check)(asked))


def _asked(method: Callable[..., Any]) -> Callable[..., Any]:
    elsewhere, ask, name = is_elsewhere, answer, method.__name__

    def asked(self, X, *args, **kwargs):  # type: ignore[no-untyped-def]
        return ask(self, name, X, args, kwargs) if elsewhere(X) else method(self, X, *args, **kwargs)

    # With the globals of the method's own module: there doctest looks for its examples.
    made = FunctionType(asked.__code__, method.__globals__, name, None, asked.__closure__)
    made.takes_pieces = True  # type: ignore[attr-defined]
    return update_wrapper(made, method)


def columns_of(model: Any) -> tuple[str, ...] | None:
    """Return the columns that a model reads; None if it was fitted to rows without names.

    >>> from oddsmith import GaussianClassifier
    >>> columns_of(GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb")))
    """
    names = getattr(model, "feature_names_in_", None)
    if names is None and hasattr(model, "_inner"):
        return columns_of(model._inner)
    return None if names is None else tuple(map(str, names))


def expected_types(model: Any) -> dict[str, Any] | None:
    """Return the Arrow types of a model's columns, for formats that leave them open: a word in the fit is a word now.

    None stands for a number or a truth value.
    """
    import pyarrow as pa

    names = columns_of(model)
    if names is None:
        return None
    known = {
        **{"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()},
        **{"float": pa.float64(), "integer": pa.int64(), "text": pa.string()},
    }
    kinds = _kinds(model)
    if kinds is None:
        return dict.fromkeys(names)
    return {name: known[kind] for name, kind in kinds.items() if kind in known}


def _kinds(model: Any) -> dict[str, str] | None:
    """Return the kinds of columns that a model, or one of those that it is made of, has learned."""
    inner = getattr(model, "_inner", None) or next(iter(getattr(model, "models_", {}).values()), None)
    if getattr(model, "design_", None) is not None:
        return dict(model.design_.kinds_)
    plan = getattr(getattr(model, "_folded", None), "plan", None)
    if plan is not None and plan.names is not None:
        return dict(zip(plan.names, plan.kinds.tolist(), strict=True))
    return None if inner is None else _kinds(inner)


def inputs(model: Any, rows: Any, name: str = "the data") -> Any:
    """Return the columns of a table that a model reads, in its order; by place, if it knows no names.

    >>> import pyarrow as pa
    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb"))
    >>> inputs(model, pa.table({"x": [1.0, 2.0]})).tolist()
    [[1.0], [2.0]]
    """
    table = as_table(rows)
    if table is None:
        return rows
    names = columns_of(model)
    if names is None:
        if len(table.columns) != model.n_features_in_:
            raise InvalidInputError(
                f"The model was fitted to {model.n_features_in_} columns without names, and {name} has "
                f"{len(table.columns)}. Give exactly those, in their order."
            )
        return np.column_stack([column.to_numpy() for column in table.iter_columns()])
    _check_columns(names, table.columns, name)
    chosen = table.select(names)
    # Models of scikit-learn read pandas.
    return chosen.to_native() if hasattr(model, "_check_fitted") else chosen.to_pandas()


def _check_columns(names: tuple[str, ...], there: Any, name: str) -> None:
    for column in names:
        if column not in there:
            alike = next((f" Is it {other!r}?" for other in there if str(other).strip().lower() == column.lower()), "")
            raise InvalidInputError(
                f"Column {column!r}, which the model was fitted to, is missing from {name}.{alike} Its columns are: "
                f"{', '.join(map(repr, there))}."
            )


def needed(model: Any, parts: Parts, *further: str) -> Parts:
    """Return data in pieces with only the columns that a model reads, and ``further`` ones; text in their types."""
    names = columns_of(model)
    if parts.columns is None:
        return parts
    if names is None:
        names = tuple(name for name in parts.columns if name not in further)
        if len(names) != model.n_features_in_:
            raise InvalidInputError(
                f"The model was fitted to {model.n_features_in_} columns without names, and the data has "
                f"{len(names)}: {', '.join(map(repr, names))}. Give exactly those, in their order."
            )
    _check_columns(names, parts.columns, "the data")
    parts = parts.choose(tuple(dict.fromkeys((*names, *further))))
    types = expected_types(model)
    return with_types(parts, dict.fromkeys(names) if types is None else types)


def with_types(parts: Parts, types: Mapping[str, Any]) -> Parts:
    """Return data in pieces with columns of text read as these types; what has types is as it was."""
    if parts.engine.name != "files" or isinstance(parts, Wrapped):
        return parts
    from oddsmith.engines.files.reading import typed

    files: FileParts = parts  # type: ignore[assignment]
    return typed(files, types)


def opened(data: Any, how: Mapping[str, Any] | None = None, apart: dict[str, Any] | None = None) -> tuple[Parts, Any]:
    """Return data in pieces without what only a fit can use, and whom to tell how far its reading is.

    ``apart`` holds labels (``y``) that are no column.
    """
    how = dict(how or {})
    progress = how.pop("progress", None)
    if "resume" in how:
        raise InvalidInputError("resume= is for fit: predictions and scores have no state to go on from. Leave it out.")
    parts = find_parts(data, apart, how)
    assert parts is not None
    if isinstance(parts, Scanned):
        progress = progress or parts.progress
    return (parts.innermost if isinstance(parts, Wrapped) else parts), progress


@dataclass(frozen=True)
class Question:
    """A method of a model to call for some rows. It can be pickled, and goes to where the rows are.

    ``offset`` is the column that holds the offsets of rows.
    """

    model: Any
    method: str
    arguments: tuple[Any, ...] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    offset: str | None = None

    def __call__(self, rows: Any) -> npt.NDArray[Any]:
        """Return the answers for rows: n of them, or n × K."""
        table = as_table(rows)
        n = int(rows.shape[0]) if table is None else len(table)
        named = dict(self.named)
        if self.offset is not None:
            if table is None:
                raise InvalidInputError(f"offset={self.offset!r} names a column, and the rows have no names.")
            named["offset"] = table.get_column(self.offset).to_numpy()
            rows = table.drop(self.offset).to_native()
        if not n:
            names, dtype = self.form()
            return np.empty(0 if isinstance(names, str) else (0, len(names)), dtype=dtype)
        return np.asarray(getattr(self.model, self.method)(inputs(self.model, rows), *self.arguments, **named))

    def form(self) -> tuple[str | tuple[str, ...], Any]:
        """Return the names of the answer's columns (a text: there is one), and the data type of what they hold.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb"))
        >>> Question(model, "predict_proba").form()
        (('p_a', 'p_b'), <class 'float'>)
        """
        classes = self.model.classes_
        if self.method == "predict":
            return "predicted", classes.dtype
        if self.method == "decide":
            return "decision", read_loss(self._given.get("loss"), classes).actions.dtype
        if self.method == "decision_function" and len(classes) == 2:
            return "value", float
        return tuple(f"{PREFIX[self.method]}_{label}" for label in classes.tolist()), float

    @property
    def is_mixed(self) -> bool:
        """Whether answers are objects: decisions, some of which may be none."""
        return self.method == "decide" and self._given.get("reject") is not None

    @property
    def _given(self) -> dict[str, Any]:
        return dict(zip(("loss", "reject"), self.arguments, strict=False)) | dict(self.named)


@dataclass(frozen=True)
class Answered:
    """The answers for some pieces, in their order: a statistic of raw pieces, as large as the answers are."""

    parts: tuple[Any, ...] = ()

    @classmethod
    def zero(cls, shape: Shape, params: Any) -> Answered:
        """Return no answers."""
        return cls()

    @classmethod
    def of(cls, piece: Piece, params: Callable[[Any], Any]) -> Answered:
        """Return what ``params`` answers for a piece."""
        with at(piece):
            return cls((params(piece.rows),))

    def merge(self, other: Answered) -> Answered:
        """Return the answers for both."""
        return Answered((*self.parts, *other.parts))


def answer(model: Any, method: str, X: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
    """Return what a method of a model says about data in pieces.

    Files: an array of all answers. A Dask DataFrame: a lazy Series or DataFrame beside it; a Dask Array: an Array. A
    Spark DataFrame: itself, with lazy columns added.

    Cost: one reading of the columns that the model reads. Memory: that of a few pieces, and of the answers.
    """
    model._check_fitted()
    getattr(model, method)  # a model that has no such method says so before anything is opened
    parts, progress = opened(X)
    offset = named.get("offset") if isinstance(named.get("offset"), str) else None
    further = () if offset is None else (offset,)
    rest = {name: value for name, value in named.items() if value is not offset}
    question = Question(model, method, arguments, rest, offset)
    names, dtype = question.form()
    engine = parts.engine.name
    if engine == "spark":
        from oddsmith.engines.spark import apply as apply_spark

        needed(model, parts, *further)  # looks whether all columns are there
        return apply_spark(parts.frame, _Marked(question), names, dtype)  # type: ignore[attr-defined]
    parts = needed(model, parts, *further)
    if engine == "dask":
        from oddsmith.engines.dask_collections import apply as apply_dask

        words = parts.columns is not None and np.dtype(dtype).kind in "US"  # pandas has no such type
        dtype = object if words or question.is_mixed else dtype
        return apply_dask(parts.data, question, names, dtype)  # type: ignore[attr-defined]
    found = collect(parts, question, progress)
    if not found:
        raise InvalidInputError("The data has no rows: found array with 0 sample(s).")
    return np.concatenate(found)


def collect(parts: Parts, question: Callable[[Any], Any], progress: Any = None) -> list[Any]:
    """Return the answers for all pieces, in order."""
    if parts.engine.name == "files":
        from oddsmith.engines.files.reading import read_once

        def told(piece: Piece) -> Any:
            with at(piece):
                return question(piece.rows)

        files: FileParts = parts  # type: ignore[assignment]
        with following(progress, "predicting") as tell, one_blas_thread():
            return read_once(files, told, list, tell)
    with following(progress, "predicting") as tell:
        return list(parts.engine.fold(Answered, PartedSource(parts), question, progress=tell).parts)  # type: ignore[type-var]


@dataclass(frozen=True)
class Hits:
    """Counts, for rows of a table, the weight of those whose class a model predicts, and that of all."""

    model: Any
    y: str
    weight: str | None = None

    def __call__(self, rows: Any) -> Array:
        """Return both weights."""
        table = as_table(rows)
        assert table is not None
        labels = table.get_column(self.y)
        if labels.null_count():
            raise InvalidInputError(
                f"Column {self.y!r} has {labels.null_count()} rows without a label. Leave them out."
            )
        roles = [name for name in (self.y, self.weight) if name is not None]
        others = [name for name in roles if name not in (columns_of(self.model) or ())]
        predicted = np.asarray(self.model.predict(inputs(self.model, table.drop(others).to_native())))
        found = labels.to_numpy()
        words = found.dtype.kind in "OUST"
        if words != (predicted.dtype.kind in "OUST"):
            raise InvalidInputError(
                f"Column {self.y!r} holds {'words' if words else 'numbers'}, and the classes of the model are like "
                f"{predicted[:1].tolist()[0]!r}. Make them alike."
            )
        s = np.ones(len(found)) if self.weight is None else table.get_column(self.weight).to_numpy()
        return np.array([s[found == predicted].sum(), s.sum()], dtype=np.float64)


def accuracy(model: Any, X: Any, y: Any, weight: Any = None) -> float:
    """Return the share of rows in pieces whose class a model predicts; ``y`` and ``weight`` name columns.

    Cost: one reading. Memory: that of a few pieces.
    """
    model._check_fitted()
    parts, progress = opened(X)
    if parts.columns is None or not isinstance(y, str) or not isinstance(weight, str | None):
        raise InvalidInputError(
            "score takes data in pieces with the names of its columns of labels and weights: score(data, 'y'). "
            "For labels that stand elsewhere use evaluate(model, data, y)."
        )
    parts = needed(model, parts, *(name for name in (y, weight) if name is not None))
    found = [part for part in collect(parts, Hits(model, y, weight), progress) if part[1] > 0]
    if not found:
        raise InvalidInputError("The data has no rows (of positive weight): found array with 0 sample(s).")
    right, total = np.sum(found, axis=0)
    return float(right / total)


@dataclass(frozen=True)
class _Marked:
    """Answers in which a row without a decision has None: columns of Spark hold no marks of ours."""

    question: Question

    def __call__(self, rows: Any) -> Array:
        answers = self.question(rows)
        if answers.dtype != object:
            return answers
        return np.array([None if one is REJECT else one for one in answers.tolist()], dtype=object)
