"""Reading tables for a model: training rows go through the model's design, if it has or needs one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone

from oddsmith.design.inputs import Encoded, as_array, as_table, feature_names, learned_design, split_target, take_rows
from oddsmith.design.text_columns import keep_formats, learned_formats, read_formats, recognise
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.priors import GaussianPrior
from oddsmith.protocols import Labels
from oddsmith.rows import SplitRows

if TYPE_CHECKING:
    from oddsmith.design.table import Design


def through_design(
    model: BaseEstimator,
    design: object,
    X: object,
    y: object,
    sample_weight: object = None,
    offset: object = None,
    *,
    reset: bool,
    split: bool = False,
) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels, weights and offsets for fitting; rows of a table that is more than numbers are `Encoded`.

    ``design`` is a `Design`, None (automatic), or False (none). With ``reset`` it is learned from these rows and kept
    as ``model.design_``; otherwise the learned one is used. Without a `Design`, arrays, sparse matrices and numeric
    tables are unchanged. With ``split``, large tables come in parts, with categories as codes.
    """
    if reset:
        model.__dict__.pop("design_", None)
        X, formats = recognise(X, y)
        keep_formats(model, formats)
    else:
        X = read_formats(X, learned_formats(model))
    new = reset and not (design is None and _is_numbers(X, y))
    learned = as_design(design, model) if new else learned_design(model)
    if learned is None:
        return (*split_target(X, y), sample_weight, offset)
    if learned.drops_unlabelled:
        X, y, sample_weight, offset = _labelled(learned, X, y, sample_weight, offset)
    table = split_target(X, y)[0]
    if reset:
        rows, kept = learned.learn(table, sample_weight, split=split)
        check_intercept(model, learned)
        keep_design(model, learned)
    else:
        split = split and learned.is_split(len(table))
        rows, kept = learned.retrain(table, sample_weight, split=split)
    # The labels: those given, those of the column that y names, or of the left side of the formula.
    target = learned.target_
    if isinstance(y, str) and target is not None and y != target:
        raise InvalidInputError(f"The left-hand side of the formula is {target!r}, but y={y!r}. Leave out y.")
    labels = split_target(X, target if y is None else y)[1]
    if kept is not None and kept.dtype == bool:
        return Encoded(rows, kept), labels, sample_weight, offset
    return Encoded(rows), *(take_rows(values, kept) for values in (labels, sample_weight, offset))


def column_names(estimator: BaseEstimator, rows: object) -> Labels | Callable[[], Labels] | None:
    """Return the names of the columns of checked rows for `check_finite`: rows in parts have those of the design."""
    design = learned_design(estimator) if isinstance(rows, SplitRows) else None
    return feature_names(estimator) if design is None else design.get_feature_names_out


def _labelled(design: Design, X: Any, y: Any, *others: Any) -> tuple[Any, ...]:
    """Return the labelled rows with their weights and offsets; labels in a column stay there."""
    table = as_table(X)
    target = y if isinstance(y, str) else _target_of(design) if y is None else None
    if table is None or (target is not None and target not in table.columns):
        return X, y, *others
    labels = as_array(y) if target is None else table[target]
    if isinstance(labels, nw.Series):
        missing = labels.is_null().to_numpy() | (labels.is_nan().to_numpy() if labels.dtype.is_float() else False)
    else:
        missing = _missing_labels(np.asarray(labels).ravel())
    if not missing.any() or missing.all() or len(missing) != len(table):
        return X, y, *others
    kept = np.flatnonzero(~missing)
    y = y if target is not None else take_rows(y, kept)
    return table[kept].to_native(), y, *(take_rows(values, kept) for values in others)


def _missing_labels(labels: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which labels are None or NaN."""
    if labels.dtype.kind != "O":
        return np.asarray(labels != labels, dtype=bool)
    return np.fromiter((label is None or label != label for label in labels), dtype=bool, count=len(labels))


def as_design(design: object, model: BaseEstimator) -> Design | None:
    """Return an unfitted copy of a design: of all columns for None, none for False.

    If the model's prior has a scale for each category, levels shrink towards their mean unless a reference is given.
    """
    if design is False:
        return None
    from oddsmith.design.table import Design

    if design is not None and not isinstance(design, Design):
        raise InvalidTypeError(f"design must be None or a Design(…), found {design!r}.")
    made: Design = Design() if design is None else clone(design)
    prior = vars(model).get("prior")
    if isinstance(prior, GaussianPrior) and isinstance(prior.groups, str) and prior.groups == "factor":
        made.reference = "mean" if made.reference is None else made.reference
    return made


def _is_numbers(X: object, y: object) -> bool:
    """Whether rows need no design: an array, or a table with only numbers besides ``y``."""
    table = as_table(X)
    if table is None:
        return True
    from oddsmith.design.frame import is_plain

    return is_plain(table.drop(y) if isinstance(y, str) and y in table.columns else table)


def keep_design(model: BaseEstimator, design: Design) -> None:
    """Keep a learned design and its columns on a model."""
    model.design_ = design
    model.feature_names_in_, model.n_features_in_ = design.feature_names_in_, design.n_features_in_


def check_intercept(model: BaseEstimator, design: Design) -> None:
    """Refuse a formula without a constant for a model that adds one."""
    if not design.intercept_ and vars(model).get("fit_intercept", True):
        raise InvalidInputError(
            f"The formula {design.formula!r} has no constant (0 or -1), but {type(model).__name__} adds one. Give the "
            "model fit_intercept=False, if it has this option, or leave the constant in the formula."
        )


def _target_of(design: Design) -> str | None:
    """Return the name on the left-hand side of a design's formula, None if it has none."""
    left, tilde, _ = (design.formula or "").partition("~")
    return left.strip().strip("`") or None if tilde else None
