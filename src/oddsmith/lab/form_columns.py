"""The columns of a model as fields of a form: sliders over a range, menus of levels, with a value to begin with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from oddsmith.data_access.streamed_prediction import columns_of
from oddsmith.design.inputs import learned_design
from oddsmith.lab.fields import BadRequestError, Fields, shown
from oddsmith.models.base import Classifier
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.numerics import Array


@dataclass(frozen=True, kw_only=True)
class FormColumn:
    """A column: a number in a range, or one of some levels; ``default`` is its usual value.

    ``source`` is its name in the data, ``known`` whether its range comes from a fit or from data. Dates are days since
    1970-01-01, as in the model.
    """

    name: str
    source: str
    default: Any
    levels: tuple[str, ...] = ()
    low: float = -10.0
    high: float = 10.0
    whole: bool = False
    boolean: bool = False
    date: bool = False
    known: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the column as the page reads it."""
        return {
            "name": self.name,
            "kind": "level" if self.levels else "number",
            "levels": list(self.levels),
            "low": self.low,
            "high": self.high,
            "whole": self.whole,
            "default": self.plain(self.default),
        }

    def read(self, fields: Fields) -> Any:
        """Return the value of a request; one that is missing is the usual one."""
        if self.levels:
            found = fields.choice(self.name, self.levels, self.plain(self.default))
            return found == "True" if self.boolean else found
        return fields.number(self.name, -1e15, 1e15, self.default)

    def plain(self, value: object) -> Any:
        """Return a value of the data as the form has it."""
        if value is None or (isinstance(value, float) and np.isnan(value)):
            return None
        if isinstance(value, date):
            if not self.date:
                raise BadRequestError(
                    f"Column {self.name!r} holds dates ({shown(value)}), but the model reads numbers."
                )
            return float(_days(pa.chunked_array([[value]])).item())
        return str(value) if self.levels else float(value)  # type: ignore[arg-type]

    def values(self, count: int, most: int) -> list[Any]:
        """Return values to try: over the range, or the levels."""
        if self.boolean:
            return [False, True]
        if self.levels:
            return list(self.levels[:most])
        tried = np.linspace(self.low, self.high, count)
        return [float(v) for v in (np.unique(tried.round()) if self.whole else tried)]


def form_columns(model: Classifier, table: pa.Table | None) -> tuple[FormColumn, ...]:
    """Return the form of a model; ranges and usual values are those of the table, or else what the fit has kept.

    >>> from oddsmith import GaussianClassifier
    >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], list("aabb"))
    >>> form_columns(model, None)[0].default
    2.5
    """
    names = columns_of(model)
    if names is None:
        count = int(model.n_features_in_)
        sources = [f"x{j}" for j in range(count)] if table is None else table.column_names[:count]
        return tuple(_number(model, f"x{j}", source, j, table) for j, source in enumerate(sources))
    design = learned_design(model)
    kinds = dict(design.kinds_) if design is not None else {}
    levels = {name: tuple(map(str, category.levels)) for name, category in design.categories_.items()} if design else {}
    if isinstance(model, NaiveBayes):
        levels = {name: tuple(map(str, found)) for name, found in model.levels_.items()}
    found = []
    for j, name in enumerate(names):
        if kinds.get(name) == "boolean":
            found.append(_levels(name, ("False", "True"), table, boolean=True))
        elif name in levels:
            found.append(_levels(name, levels[name], table))
        else:
            column = _number(model, name, name, j, table)
            found.append(replace(column, date=True) if kinds.get(name) == "date" else column)
    return tuple(found)


def _days(column: pa.ChunkedArray) -> Array:
    """Return dates and times as days since 1970-01-01."""
    return np.asarray(column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy(), dtype=float) / 86_400e6


def _levels(name: str, levels: tuple[str, ...], table: pa.Table | None, boolean: bool = False) -> FormColumn:
    usual = levels[0]
    if table is not None and name in table.column_names:
        counts = pc.value_counts(table[name].drop_null())
        most = max(counts.to_pylist(), key=lambda pair: pair["counts"], default=None)
        usual = str(most["values"]) if most is not None and str(most["values"]) in levels else usual
    default: Any = usual == "True" if boolean else usual
    return FormColumn(name=name, source=name, default=default, levels=levels, boolean=boolean)


def _number(model: Classifier, name: str, source: str, j: int, table: pa.Table | None) -> FormColumn:
    if table is not None and source in table.column_names:
        column = table[source]
        if pa.types.is_temporal(column.type):
            column = pa.chunked_array([_days(column.drop_null())])
        elif not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            column = column.cast(pa.float64())
        values = np.asarray(column.drop_null().to_numpy(), dtype=float)
        values = values[np.isfinite(values)]
        if len(values):
            whole = bool((values % 1 == 0).all())
            middle = float(np.quantile(values, 0.5, method="nearest"))
            low, high = float(values.min()), float(values.max())
            return FormColumn(
                name=name, source=source, default=middle, low=low, high=max(high, low + 1e-9), whole=whole
            )
    centre, spread = _learned_range(model, name, j)
    if spread is None:
        return FormColumn(name=name, source=source, default=0.0, known=False)
    return FormColumn(name=name, source=source, default=centre, low=centre - 3 * spread, high=centre + 3 * spread)


def _learned_range(model: Classifier, name: str, j: int) -> tuple[float, float | None]:
    """Return the centre of a column and its spread in the fit, None where the model does not keep it."""
    if isinstance(model, GaussianClassifier) and model.basis is None:
        share = np.asarray(model.class_prior_)
        centre = float(share @ model.means_[:, j])
        within = np.array([np.asarray(S)[j, j] if np.ndim(S) == 2 else np.nan for S in model.covariances_])
        between = (model.means_[:, j] - centre) ** 2
        spread = float(np.sqrt(share @ (within + between)))
        return centre, spread if np.isfinite(spread) and spread > 0 else None
    if isinstance(model, LogisticRegression) and model.basis is None and model._learned is not None:
        names, frame = [str(n) for n in model._names()], model._learned.coordinates
        if name in names and len(frame.center) == len(names):
            at = names.index(name)
            return float(frame.center[at]), float(frame.scale[at])
    return 0.0, None
