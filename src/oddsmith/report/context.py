"""The input of a report: a model, its rows, and its predictions for them, computed once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import entr

from oddsmith.cached_property import cached_property
from oddsmith.data_access.streamed_prediction import columns_of
from oddsmith.decision.actions import decide_by
from oddsmith.decision.loss import LossLike, LossMatrix, read_loss, read_probabilities, read_reject
from oddsmith.design.class_weight import read_weights
from oddsmith.design.frame import Frame, read_frame
from oddsmith.design.inputs import as_table, read_offset, split_target
from oddsmith.design.missing_values import complete_rows
from oddsmith.design.table import Design
from oddsmith.design.text_columns import read_formats
from oddsmith.errors import InvalidInputError, OddsmithError, OddsmithWarning, as_input_errors
from oddsmith.evaluation.model_output import ModelOutput, class_codes, predict_output
from oddsmith.evaluation.scoring import Evaluation, evaluate
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.models.base import Classifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.models.selection_mixin import selected_columns
from oddsmith.models.wrapper_mixin import take
from oddsmith.numerics import Array
from oddsmith.plots.residuals import InfluenceDisplay, row_names
from oddsmith.protocols import Indices, Labels, RowsLike
from oddsmith.report.duplicates import Duplicate, near_duplicates
from oddsmith.report.subgroups import Grouping, read_groups

MOST_COLUMNS = 60  # Columns that are described one by one.
MOST_WRITTEN_OUT = 5_000_000  # Rows up to which a row with a whole-number weight is repeated by it.
SYMMETRIC = ("logit", "probit", "cauchit")  # Links that give one half at zero.
SCORED = {
    "left out": (
        "Each row is scored by the model fitted to all rows but that one (leave-one-out), so these scores are for "
        "rows that the model has not seen."
    ),
    "own": (
        "The scores are for the training rows, without leave-one-out, because the fit is not at an optimum, or "
        "single rows determine a weight. They are optimistic."
    ),
    "selected": (
        "The scores are for the training rows, from which the LaplacePrior selected columns; such a fit has no "
        "leave-one-out. They are optimistic: regularization_path(X, y, cv=5) gives the cross-validated loss."
    ),
    "other": (
        "The given rows, with their weights and offsets, are not the training rows. The scores are unbiased if the "
        "model has not seen any of them."
    ),
    "unknown": (
        "The scores are for the given rows. They are unbiased only if the model has not seen these rows; on training "
        "rows they are optimistic."
    ),
}
"""Which rows scores are of, and what that means."""


class RecordedPredictions:
    """Stored predictions as a classifier, for functions that call a model.

    >>> classes, values = np.array(["a", "b"]), np.array([[0.0, 1.0]])
    >>> found = ModelOutput(classes=classes, t=np.array([0]), predicted=np.array([1]), P=None, values=values)
    >>> recorded = RecordedPredictions(found)
    >>> recorded.predict(None).tolist(), "predict_proba" in dir(recorded)
    (['b'], False)
    """

    def __init__(self, found: ModelOutput) -> None:
        self.classes_ = found.classes
        self.predict = lambda X: found.classes[found.predicted]
        P, values = found.P, found.values
        if P is not None:
            self.predict_proba = lambda X: P
        elif values is not None:
            self.decision_function = lambda X: values[:, 1] if found.K == 2 else values


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportContext:
    """A model with the rows of its report.

    ``rows``, ``t``, ``weights`` and ``offset`` belong to the rows ``kept`` (None: all), which the model can read;
    ``frame`` has the columns to describe, for all rows. ``answers`` are the predictions for the kept rows, with a row
    of weight 2 repeated if weights are ``counted``; ``scored``, a key of `SCORED`, says which rows these are.
    ``given_loss`` says whether ``loss`` or ``reject`` was given; ``groups`` are the subgroups to score separately.
    """

    model: Classifier
    rows: RowsLike
    frame: Frame
    total_missing: int
    total_columns: int
    kept: Indices | None
    weights: Array | None
    offset: Array | None
    counted: bool
    t: Indices
    answers: ModelOutput
    scored: str
    loss: LossMatrix
    reject: Any
    given_loss: bool
    groups: tuple[Grouping, ...]
    level: float
    seed: int
    warnings: Sequence[str]

    @property
    def fitted(self) -> FittedState | None:
        """The fitted state of a likelihood, None for other models."""
        return self.model._learned if isinstance(self.model, LogisticRegression) else None

    @property
    def has_optimum(self) -> bool:
        """Whether an optimum exists."""
        return not isinstance(self.model, LogisticRegression) or self.model.certificate_.optimum_exists

    @property
    def moved(self) -> bool:
        """Whether the intercepts were moved after the fit, for another class prior."""
        return self.fitted is not None and self.fitted.moved

    @property
    def misses_offset(self) -> bool:
        """Whether the model was fitted with an offset but none is given here."""
        return self.offset is None and fitted_with_offset(self.model)

    @cached_property
    def duplicates(self) -> list[Duplicate]:
        """Pairs of columns that carry almost the same information."""
        return near_duplicates(self.frame, list(self.frame.columns)[:MOST_COLUMNS])

    @property
    def name(self) -> str:
        """Name of the model's class."""
        return type(self.model).__name__

    @property
    def classes(self) -> list[Any]:
        """The labels."""
        return list(self.answers.classes.tolist())

    @property
    def K(self) -> int:
        """Number of classes."""
        return self.answers.K

    @property
    def probabilistic(self) -> bool:
        """Whether the model has probabilities."""
        return self.answers.P is not None

    @cached_property
    def labelled(self) -> tuple[RecordedPredictions, None, Labels]:
        """The predictions as a model, and the labels, for functions of evaluation."""
        return RecordedPredictions(self.answers), None, self.answers.classes[self.answers.t]

    def subset(self, rows: Indices) -> ReportContext:
        """Return the report of some of the predictions."""
        return replace(self, answers=_select(self.answers, rows), groups=())

    @cached_property
    def counts(self) -> Indices:
        """Rows of each class."""
        return np.bincount(self.answers.t, minlength=self.K)

    @cached_property
    def scores(self) -> Evaluation:
        """Scores with intervals; with costs, if there are probabilities."""
        costs = {"loss": self.loss, "reject": self.reject} if self.probabilistic else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OddsmithWarning)  # that a class is missing is said with the classes
            return evaluate(*self.labelled, level=self.level, seed=self.seed, **costs)

    @cached_property
    def reject_costs(self) -> Array | None:
        """The cost of rejecting in each class, None if every row gets a decision."""
        return None if self.reject is None else read_reject(self.reject, self.loss.classes)

    @cached_property
    def alone(self) -> dict[str, float]:
        """Scores of the class shares alone, that is, of a model without columns."""
        share = self.counts / len(self.answers.t)
        return {"accuracy": float(share.max()), "log_loss": float(entr(share).sum())}

    @cached_property
    def decisions(self) -> Labels:
        """The action for each row: of smallest expected loss, or the predicted class."""
        if self.answers.P is None:
            return np.asarray(self.answers.classes[self.answers.predicted])
        return decide_by(self.answers.P, self.loss, self.reject)

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments for methods that need the training rows."""
        given = {"sample_weight": self.weights, "offset": self.offset}
        return {name: values for name, values in given.items() if values is not None}

    @property
    def row_arguments(self) -> tuple[dict[str, Any], ...]:
        """What to try in turn: no rows, and the training rows, from which a large fit forms its Hessian on demand."""
        return {}, {"X": self.rows, "y": self.answers.classes[self.t], **self.arguments}

    @cached_property
    def influence(self) -> InfluenceDisplay | str:
        """The influence of each row, or a sentence on why it is unknown."""
        if not isinstance(self.model, LogisticRegression):
            return (
                f"{self.name} has no leverage or Cook's distance, which measure how much a single row moves the fit. "
                "LogisticRegression and ProbitRegression have them."
            )
        if not self.has_optimum:
            return "Left out: the classes are separated, so there is no estimate that a row could move."
        labels = self.answers.classes[self.t]
        try:
            display = InfluenceDisplay.computed(self.model, self.rows, labels, **self.arguments)
        except OddsmithError as error:
            return f"Left out: {error}"
        names = row_names(self.rows, range(len(self.t)) if self.kept is None else self.kept.tolist())
        return replace(display, rows=names, cooks_distance=np.nan_to_num(display.cooks_distance))


def read_context(
    model: Classifier,
    X: Any,
    y: Any,
    *,
    loss: LossLike,
    reject: object,
    sample_weight: npt.ArrayLike | None,
    offset: npt.ArrayLike | None,
    level: float,
    seed: int,
    by: object = None,
) -> ReportContext:
    """Read rows and labels, and let the model predict them."""
    model._check_fitted()
    design: Design | None
    design = getattr(model._inner if isinstance(model, RecalibratedClassifier) else model, "design_", None)
    y = design.target_ if y is None and design is not None else y
    if y is None:
        raise InvalidInputError("A report needs the labels: give y, or the name of their column in the table.")
    given, labels = split_target(read_formats(X, vars(model).get("text_formats_", {})), y)
    rows, frame, missing, columns = _columns(model, given)
    t = class_codes(labels, np.asarray(model.classes_))
    if frame.n_rows != len(t):
        raise InvalidInputError(f"X has {frame.n_rows} rows and y {len(t)} labels: give one label for each row.")
    offsets, weights = _read_offsets(model, offset, len(t)), read_weights(sample_weight, len(t))
    groups = read_groups(by, given, len(t))
    kept = _complete_rows(frame) if design is not None and design.missing == "drop" else None
    if kept is not None:
        rows, t, groups = take(rows, kept), t[kept], tuple(grouping.take(kept) for grouping in groups)
        weights, offsets = (None if values is None else values[kept] for values in (weights, offsets))
    matrix = read_loss(loss, model.classes_)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        found, scored = _predict(model, rows, t, weights, offsets)
    counted = weights is None or bool(np.all(weights == np.floor(weights)) and 0 < weights.sum() <= MOST_WRITTEN_OUT)
    if weights is not None and counted:
        index = np.repeat(np.arange(len(t)), weights.astype(np.intp))
        found, groups = _select(found, index), tuple(grouping.take(index) for grouping in groups)
    return ReportContext(
        model=model,
        rows=rows,
        frame=frame,
        total_missing=missing,
        total_columns=columns,
        kept=kept,
        weights=weights,
        offset=offsets,
        counted=counted,
        t=t,
        answers=found,
        scored=scored,
        loss=matrix,
        reject=reject,
        given_loss=loss is not None or reject is not None,
        groups=groups,
        level=level,
        seed=seed,
        warnings=tuple(dict.fromkeys(str(w.message) for w in raised if issubclass(w.category, OddsmithWarning))),
    )


def _read_offsets(model: Classifier, offset: npt.ArrayLike | None, n: int) -> Array | None:
    if offset is None:
        return None
    if not isinstance(model, LogisticRegression):
        raise InvalidInputError(f"{type(model).__name__} takes no offsets: leave offset out.")
    read_offset(offset, n, len(model.classes_))
    return np.asarray(offset, dtype=np.float64)


def _columns(model: Classifier, X: Any) -> tuple[Any, Frame, int, int]:
    """Return the rows as the model reads them, a frame of the columns to describe, missing values, columns."""
    table = as_table(X)
    if table is None:
        X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
        if X.ndim != 2:
            raise InvalidInputError(f"X has shape {X.shape}; expected a table, or rows × columns of numbers.")
        with as_input_errors():
            data = np.asarray(X.data if sparse.issparse(X) else X, dtype=np.float64)
        return X, _array_frame(model, X), int(np.isnan(data).sum()), int(X.shape[1])
    own = {str(name): name for name in table.columns}
    names = columns_of(model) or tuple(own)
    if set(names) <= set(own) and len(names) < len(own):
        X = table.select([own[name] for name in names]).to_native()
    frame = read_frame(X, [name for name in names if name in own])
    missing = sum(int(frame.missing(name).sum()) for name in frame.columns)
    return X, frame, missing, len(frame.columns)


def _array_frame(model: Classifier, X: Any) -> Frame:
    import pyarrow

    names = columns_of(model) or ()
    if len(names) != X.shape[1]:
        names = tuple(f"x{j}" for j in range(X.shape[1]))
    shown = X[:, :MOST_COLUMNS].toarray() if sparse.issparse(X) else X[:, :MOST_COLUMNS]
    columns = dict(zip(names, np.asarray(shown, dtype=np.float64).T, strict=False))
    series = {name: nw.new_series(name, pyarrow.array(x), backend="pyarrow") for name, x in columns.items()}
    return Frame(dict(series), dict.fromkeys(series, "number"), int(X.shape[0]))


def _complete_rows(frame: Frame) -> Indices | None:
    """Return the rows without missing values, None if that is all of them."""
    complete = complete_rows(frame, empty_ok=True)
    if complete is not None and not complete.any():
        raise InvalidInputError("Every row has a missing value, and the model reads complete rows only.")
    return None if complete is None else np.flatnonzero(complete)


def fitted_with_offset(model: Classifier) -> bool:
    """Return whether a likelihood was fitted with an offset, which changes the null log likelihood.

    >>> from oddsmith import LogisticRegression
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> [fitted_with_offset(LogisticRegression().fit(X, y, offset=o)) for o in (None, [0.0, 1.0, 2.0, 0.0])]
    [False, True]
    """
    if not isinstance(model, LogisticRegression) or model._learned is None:
        return False
    if not model.fit_intercept and model.link_ not in SYMMETRIC:
        return False
    counts = model._learned.class_weight
    if model.fit_intercept:
        alone = float(counts @ np.log(np.where(counts > 0, counts, 1.0) / counts.sum()))
    else:  # at the activation 0 all classes are alike
        alone = -float(counts.sum() * np.log(len(counts)))
    return not np.isclose(model._learned.null_log_likelihood, alone, rtol=1e-9, atol=1e-9)


def _predict(
    model: Classifier, rows: object, t: Indices, weights: Array | None, offset: Array | None
) -> tuple[ModelOutput, str]:
    """Return predictions, by leave-one-out for the rows of the fit if possible, and a key of `SCORED`."""
    classes = np.asarray(model.classes_)
    if not isinstance(model, LogisticRegression) or model._learned is None:
        return predict_output(model, rows, t, classes), "unknown"
    known = not model._learned.moved and not model._earlier.n_rows
    # Refused: other rows than those of the fit, or a fit that is at no optimum. The model itself is asked then.
    with suppress(OddsmithError):
        P = model.leave_one_out(rows, classes[t], sample_weight=weights, offset=offset).proba if known else None
        if P is not None and np.isfinite(P).all():
            return ModelOutput.of_probabilities(classes, t, read_probabilities(P, len(classes))), "left out"
    P = model.predict_proba(rows, **({} if offset is None else {"offset": offset}))
    found = ModelOutput.of_probabilities(classes, t, read_probabilities(P, len(classes)))
    if not known:
        return found, "unknown"
    likelihood = np.log(found.own) @ (np.ones(len(t)) if weights is None else weights)
    same = np.isclose(likelihood, model._learned.log_likelihood, rtol=1e-6, atol=1e-6)
    own = "own" if selected_columns(model) is None else "selected"
    return found, own if same else "other"


def _select(found: ModelOutput, index: Indices) -> ModelOutput:
    """Return the predictions of some rows, which may occur more than once."""
    P = None if found.P is None else found.P[index]
    values = P if found.values is found.P else None if found.values is None else found.values[index]
    return replace(found, t=found.t[index], predicted=found.predicted[index], P=P, values=values)
