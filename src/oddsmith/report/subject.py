"""What a report is about: a model, its rows, and what it says about them, asked for once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import entr

from oddsmith.decision.acting import decide_by
from oddsmith.decision.loss import LossMatrix, read_loss, read_probabilities
from oddsmith.design.frame import Frame, read_frame
from oddsmith.design.inputs import as_table, read_offset, read_weights, split_target
from oddsmith.errors import InvalidInputError, OddsmithError, OddsmithWarning, as_input_errors
from oddsmith.evaluation.reading import Answers, answers, codes_of
from oddsmith.evaluation.scoring import Evaluation, evaluate
from oddsmith.models.recalibrated import take
from oddsmith.numerics import Array
from oddsmith.plots.residuals import InfluenceDisplay

Codes = npt.NDArray[np.intp]

MOST_COLUMNS = 60
"""Columns that are described one by one."""
MOST_WRITTEN_OUT = 5_000_000
"""Rows up to which weights that are whole numbers are counted as so many rows."""
SYMMETRIC = ("logit", "probit", "cauchit")
"""Links that give one half at zero."""
SCORED = {
    "left out": "Each row is scored by the model fitted to all rows but that one (leave-one-out), so these numbers are "
    "those of rows that the model has not seen.",
    "own": "The scores are of the rows of the fit, which has no leave-one-out: it is at no optimum, or single rows "
    "determine a weight. They are too good.",
    "other": "The rows given, with their weights and offsets, are not those of the fit. The scores are fair if none of "
    "them was in it.",
    "unknown": "The scores are of the rows given here, as the model stands. They are fair only if the model has not "
    "seen these rows; on rows of the fit they are too good.",
}
"""Which rows scores are of, and what that means."""


class Said:
    """Answers that were given once, as a model that gives them again: for functions that ask a model.

    >>> said = Said(Answers(np.array(["a", "b"]), np.array([0]), np.array([1]), None, np.array([[0.0, 1.0]])))
    >>> said.predict(None).tolist(), hasattr(said, "predict_proba")
    (['b'], False)
    """

    def __init__(self, found: Answers) -> None:
        self.classes_ = found.classes
        self.labels = found.classes[found.t]
        self.predict = lambda X: found.classes[found.said]
        P = found.P
        if P is not None:
            self.predict_proba = lambda X: P
        elif found.values is not None:
            values = found.values
            self.decision_function = lambda X: values[:, 1] if found.K == 2 else values


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with the rows of its report.

    Attributes
    ----------
    model : fitted classifier
    rows : table or array
        What the model reads, of all rows that it can read.
    frame : Frame
        Columns to describe, of all rows; of an array the first ones, if there are many.
    total_missing, total_columns : int
        Missing values in all columns, and how many columns there are.
    n_rows : int
        All rows given; `kept` are those that the model can read, None for all.
    weights : array or None
        Of the rows kept.
    offset : array or None
        Of the rows kept, as in ``predict_proba``.
    found : Answers
        What the model says about each row kept, a row of weight 2 being there twice; without the row, if ``left_out``.
    scored : str
        Which rows these answers are of: a key of `SCORED`.
    loss : LossMatrix
    reject : what rejecting costs, or None
    given_loss : bool
    level : float
    seed : int
    said : list of str
        Warnings.
    """

    model: Any
    rows: Any
    frame: Frame
    total_missing: int
    total_columns: int
    n_rows: int
    kept: Codes | None
    weights: Array | None
    offset: Array | None
    counted: bool
    t: Codes
    found: Answers
    scored: str
    loss: LossMatrix
    reject: Any
    given_loss: bool
    level: float
    seed: int
    said: Sequence[str]

    @property
    def left_out(self) -> bool:
        """Whether each row was left out of the fit that it is scored by."""
        return self.scored == "left out"

    @property
    def has_optimum(self) -> bool:
        """Whether there is an optimum that the fit can be at."""
        return bool(getattr(getattr(self.model, "certificate_", None), "optimum_exists", True))

    @property
    def moved(self) -> bool:
        """Whether the intercepts were moved after the fit, for another class prior."""
        return bool(getattr(getattr(self.model, "_learned", None), "moved", False))

    @property
    def misses_offset(self) -> bool:
        """Whether the model was fitted with an offset, and none is given here."""
        return self.offset is None and fitted_with_offset(self.model)

    @property
    def name(self) -> str:
        """Of the model's class."""
        return type(self.model).__name__

    @property
    def classes(self) -> list[Any]:
        """The labels."""
        labels: list[Any] = self.found.classes.tolist()
        return labels

    @property
    def K(self) -> int:
        """Number of classes."""
        return self.found.K

    @property
    def probabilistic(self) -> bool:
        """Whether the model has probabilities."""
        return self.found.P is not None

    @cached_property
    def answering(self) -> Said:
        """The answers as a model."""
        return Said(self.found)

    @cached_property
    def scores(self) -> Evaluation:
        """Scores with intervals; with costs, if there are probabilities."""
        costs = {"loss": self.loss, "reject": self.reject} if self.probabilistic else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OddsmithWarning)  # that a class is missing is said with the classes
            return evaluate(self.answering, None, self.answering.labels, level=self.level, seed=self.seed, **costs)

    @cached_property
    def alone(self) -> dict[str, float]:
        """Scores of the class shares alone: what a model without columns would have."""
        share = np.bincount(self.found.t, minlength=self.K) / len(self.found.t)
        return {"accuracy": float(share.max()), "log_loss": float(entr(share).sum())}

    @cached_property
    def decisions(self) -> npt.NDArray[Any]:
        """The action for each row: of smallest expected loss, or the class that is predicted."""
        if self.found.P is None:
            return np.asarray(self.found.classes[self.found.said])
        return decide_by(self.found.P, self.loss, self.reject)

    @property
    def arguments(self) -> dict[str, Any]:
        """What methods that need the rows of the fit take."""
        given = {"sample_weight": self.weights, "offset": self.offset}
        return {name: values for name, values in given.items() if values is not None}

    @cached_property
    def influence(self) -> InfluenceDisplay | str:
        """How much each row moves the fit, or a sentence on why that is not known."""
        if not hasattr(self.model, "diagnostics"):
            return (
                f"{self.name} has no leverages and distances of Cook, which say how much a single row moves the fit. "
                "LogisticRegression and ProbitRegression have them."
            )
        if not self.has_optimum:
            return "Left out: the classes are separated, so there is no estimate that a row could move."
        labels = self.found.classes[self.t]
        try:
            display = InfluenceDisplay.from_estimator(self.model, self.rows, labels, **self.arguments)
        except OddsmithError as error:
            return f"Left out: {error}"
        return replace(display, rows=self.row_names, cooks_distance=np.nan_to_num(display.cooks_distance))

    @cached_property
    def row_names(self) -> Any:
        """Names of the rows kept: those of a pandas index, else their numbers in the data."""
        if hasattr(self.rows, "iloc"):
            return list(self.rows.index)
        return range(len(self.t)) if self.kept is None else self.kept.tolist()


def read_subject(
    model: Any, X: Any, y: Any, *, loss: Any, reject: Any, sample_weight: Any, offset: Any, level: float, seed: int
) -> Subject:
    """Read rows and labels, and ask the model about them."""
    model._check_fitted()
    if y is None:
        y = getattr(getattr(model, "design_", None), "target_", None)
    if y is None:
        raise InvalidInputError("A report needs the labels: give y, or the name of their column in the table.")
    rows, labels = split_target(X, y)
    rows, frame, missing, columns = _columns(model, rows)
    t = codes_of(labels, np.asarray(model.classes_))
    if frame.n_rows != len(t):
        raise InvalidInputError(f"X has {frame.n_rows} rows and y {len(t)} labels: give one label for each row.")
    weights, offset = read_weights(sample_weight, len(t)), _offset(model, offset, len(t))
    kept = _readable(model, frame)
    if kept is not None:
        rows, t = take(rows, kept), t[kept]
        weights, offset = (None if values is None else values[kept] for values in (weights, offset))
    matrix = read_loss(loss, model.classes_)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        found, scored = _ask(model, rows, t, weights, offset)
    counted = weights is None or _is_count(weights)
    if weights is not None and counted:
        found = _repeated(found, weights.astype(np.intp))
    return Subject(
        model,
        *(rows, frame, missing, columns, len(labels), kept, weights, offset, counted, t, found, scored),
        *(matrix, reject, loss is not None or reject is not None, level, seed),
        tuple(dict.fromkeys(str(w.message) for w in raised if issubclass(w.category, OddsmithWarning))),
    )


def _columns(model: Any, X: Any) -> tuple[Any, Frame, int, int]:
    """Return the rows as the model reads them, a frame of the columns to describe, missing values, columns."""
    table = as_table(X)
    if table is not None:
        names = [str(name) for name in getattr(model, "feature_names_in_", table.columns)]
        own = {str(name): name for name in table.columns}
        if set(names) <= set(own) and len(names) < len(own):
            table = table.select([own[name] for name in names])
            X = table.to_native()
        frame = read_frame(X, [name for name in names if name in own])
    else:
        X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise InvalidInputError(f"X has shape {X.shape}; expected a table, or rows × columns of numbers.")
        with as_input_errors():
            data = np.asarray(X.data if sparse.issparse(X) else X, dtype=np.float64)
        missing = int(np.isnan(data).sum())
        return X, _array_frame(model, X), missing, int(X.shape[1])
    missing = sum(int(frame.missing(name).sum()) for name in frame.columns)
    return X, frame, missing, len(frame.columns)


def _array_frame(model: Any, X: Any) -> Frame:
    import pyarrow

    given = getattr(model, "feature_names_in_", None)
    names = [f"x{j}" for j in range(X.shape[1])] if given is None or len(given) != X.shape[1] else map(str, given)
    columns = {}
    for j, name in enumerate(list(names)[:MOST_COLUMNS]):
        column = X[:, [j]].toarray()[:, 0] if sparse.issparse(X) else X[:, j]
        columns[name] = pyarrow.array(np.asarray(column, dtype=np.float64))
    series = {name: nw.new_series(name, values, backend="pyarrow") for name, values in columns.items()}
    return Frame(dict(series), dict.fromkeys(columns, "number"), int(X.shape[0]))


def _readable(model: Any, frame: Frame) -> Codes | None:
    """Return the rows that a model reads if its design leaves out those with missing values."""
    design = getattr(model, "design_", None) or getattr(getattr(model, "_inner", None), "design_", None)
    if getattr(design, "missing", None) != "drop":
        return None
    whole = np.ones(frame.n_rows, dtype=bool)
    for name in frame.columns:
        whole &= ~frame.missing(name)
    if not whole.any():
        raise InvalidInputError("Every row has a missing value, and the model reads complete rows only.")
    return None if whole.all() else np.flatnonzero(whole)


def _offset(model: Any, offset: Any, n_rows: int) -> Array | None:
    """Return the offsets of the rows as they are given, once they have been checked."""
    if offset is None:
        return None
    if not hasattr(model, "leave_one_out"):
        raise InvalidInputError(f"{type(model).__name__} knows no offsets: leave offset out.")
    read_offset(offset, n_rows, len(model.classes_))
    return np.asarray(offset, dtype=np.float64)


def fitted_with_offset(model: Any) -> bool:
    """Return whether a likelihood was fitted with an offset: the constant alone then has another log likelihood.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> [fitted_with_offset(LogisticRegression().fit(X, y, offset=o)) for o in (None, [0.0, 1.0, 2.0, 0.0])]
    [False, True]
    """
    learned = getattr(model, "_learned", None)
    if learned is None or not (model.fit_intercept or model.link_ in SYMMETRIC):
        return False
    counts = learned.class_weight
    if model.fit_intercept:
        alone = float(counts @ np.log(np.where(counts > 0, counts, 1.0) / counts.sum()))
    else:  # at the activation 0 all classes are alike
        alone = -float(counts.sum() * np.log(len(counts)))
    return not np.isclose(learned.null_log_likelihood, alone, rtol=1e-9, atol=1e-9)


def _ask(model: Any, rows: Any, t: Codes, weights: Array | None, offset: Array | None) -> tuple[Answers, str]:
    """Return what the model says, and of which rows: of those of its fit by leave-one-out, where it can do that."""
    classes = np.asarray(model.classes_)
    learned = getattr(model, "_learned", None)
    if learned is None or not hasattr(model, "leave_one_out"):
        return answers(model, rows, t, classes), "unknown"
    known = not learned.moved and not model._earlier.n_rows
    if known:
        try:
            P = model.leave_one_out(rows, classes[t], sample_weight=weights, offset=offset).proba
            if np.isfinite(P).all():
                P = read_probabilities(P, len(classes))
                return Answers(classes, t, P.argmax(axis=1), P, P), "left out"
        except OddsmithError:
            pass  # other rows than those of the fit, or a fit that is at no optimum: the model itself is asked
    P = read_probabilities(model.predict_proba(rows, **({} if offset is None else {"offset": offset})), len(classes))
    found = Answers(classes, t, P.argmax(axis=1), P, P)
    if not known:
        return found, "unknown"
    likelihood = np.log(found.own) @ (np.ones(len(t)) if weights is None else weights)
    return found, "own" if np.isclose(likelihood, learned.log_likelihood, rtol=1e-6, atol=1e-6) else "other"


def _is_count(weights: Array) -> bool:
    return bool(np.all(weights == np.floor(weights)) and 0 < weights.sum() <= MOST_WRITTEN_OUT)


def _repeated(found: Answers, counts: Codes) -> Answers:
    """Return answers in which a row of weight 2 is there twice."""
    index = np.repeat(np.arange(len(counts)), counts)
    P = None if found.P is None else found.P[index]
    values = P if found.values is found.P else None if found.values is None else found.values[index]
    return Answers(found.classes, found.t[index], found.said[index], P, values)
