"""Where a model meets a table: rows for fitting come through the model's design, if it has or needs one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from oddsmith.design.frame import is_plain
from oddsmith.design.inputs import Encoded, _series, as_table, split_target
from oddsmith.design.table import Design
from oddsmith.errors import InvalidInputError, InvalidTypeError


def through_design(
    model: Any, design: Any, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, *, reset: bool
) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels, weights and offsets for fitting; rows of a table that is more than numbers are `Encoded`.

    ``design`` is a `Design`, None (automatic), or False (none). With ``reset`` it is learned from these rows and kept
    as ``model.design_``; otherwise the one that was learned is used. Arrays, sparse matrices and tables of numbers pass
    as they are if there is no `Design`.
    """
    if reset:
        model.__dict__.pop("design_", None)
        learned = _new_design(design, X, y)
    else:
        learned = getattr(model, "design_", None)
    if learned is None:
        return (*split_target(X, y), sample_weight, offset)
    table = split_target(X, y)[0] if isinstance(y, str) else X
    if reset:
        rows, kept = learned.learn(table, sample_weight)
        check_intercept(model, learned)
        model.design_ = learned
        model.feature_names_in_, model.n_features_in_ = learned.feature_names_in_, learned.n_features_in_
    else:
        rows, kept = learned.retrain(table, sample_weight)
    y = _labels(learned, X, y)
    return Encoded(rows), _take(y, kept), _take(sample_weight, kept), _take(offset, kept)


def _new_design(design: Any, X: Any, y: Any) -> Design | None:
    if design is False:
        return None
    if design is not None:
        if not isinstance(design, Design):
            raise InvalidTypeError(f"design must be None or a Design(…), found {design!r}.")
        return clone(design)  # type: ignore[no-any-return]
    table = as_table(X)
    if table is None:
        return None
    rest = table.drop(y) if isinstance(y, str) and y in table.columns else table
    return None if not len(rest.columns) or is_plain(rest) else Design()


def check_intercept(model: Any, design: Design) -> None:
    """Refuse a formula without a constant for a model that adds one."""
    if not design.intercept_ and getattr(model, "fit_intercept", True):
        raise InvalidInputError(
            f"The formula {design.formula!r} has no constant (0 or -1), and {type(model).__name__} adds one. Give the "
            "model fit_intercept=False, if it has that, or leave the constant in the formula."
        )


def _labels(design: Design, X: Any, y: Any) -> Any:
    """Return the labels: those given, those of the column that ``y`` names, or of the left side of the formula."""
    target = design.target_
    if isinstance(y, str) and target is not None and y != target:
        raise InvalidInputError(f"The left side of the formula is {target!r}, and y={y!r} names another. Leave out y.")
    if y is None and target is not None:
        y = target
    return split_target(X, y)[1]


def _take(values: Any, kept: npt.NDArray[np.intp] | None) -> Any:
    return values if kept is None or values is None or np.isscalar(values) else np.asarray(_series(values))[kept]
