"""Grids over one or two columns of the data, the other columns held fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.design.inputs import as_table, split_target
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.evaluation.reading import codes_of
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array


@dataclass(frozen=True)
class Plane:
    """A grid of m × n points over two columns.

    Attributes
    ----------
    x, y : arrays of length n and m
        Values of the two columns.
    rows : array or table with m · n rows
        What a model is asked about, of the type of the data; row i n + j is the point (x_j, y_i).
    names : names of the two columns
    points, codes : samples, N × 2, and the codes of their classes, or None
    """

    x: Array
    y: Array
    rows: Any
    names: tuple[str, str]
    points: Array
    codes: npt.NDArray[np.intp] | None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows × columns of the grid."""
        return len(self.y), len(self.x)


def make_plane(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    columns: Any = None,
    at: Mapping[Any, Any] | None = None,
    limits: Any = None,
    resolution: int = 200,
) -> Plane:
    """Return a grid over two columns of ``X``; the others are at their median (words: the most frequent), or ``at``.

    >>> from oddsmith import GaussianClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [3.0, 3.0]], ["a", "a", "b", "b"]
    >>> plane = make_plane(GaussianClassifier("spherical").fit(X, y), X, y, limits=((0, 1), (0, 2)), resolution=2)
    >>> plane.rows.tolist(), plane.names
    ([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0], [1.0, 2.0]], ('x0', 'x1'))
    """
    if not hasattr(model, "classes_"):
        # Ours have a sentence for this; those of other libraries have no classes_ before they are fitted.
        model._check_fitted() if isinstance(model, Classifier) else None
        raise InvalidInputError(f"{type(model).__name__} is not a fitted classifier. Call fit(X, y) first.")
    X, y = split_target(X, y)
    data = columns_of(X, model)
    two = _chosen(list(data), columns)
    values = [numbers_of(data[name], name) for name in two]
    ends = [limits_of(v) for v in values] if limits is None else _read_limits(limits)
    x, height = (np.linspace(low, high, int(resolution)) for low, high in ends)
    held = _held(data, two, at)
    n = len(x) * len(height)
    grid: dict[str, Any] = {two[0]: np.tile(x, len(height)), two[1]: np.repeat(height, len(x))}
    whole = {name: grid[name] if name in grid else np.repeat(held[name], n) for name in data}
    table = as_table(X)
    rows = (
        np.column_stack(list(whole.values()))
        if table is None
        else nw.from_dict(whole, backend=table.implementation).to_native()
    )
    codes = None if y is None else codes_of(y, np.asarray(model.classes_))
    return Plane(x, height, rows, (two[0], two[1]), np.column_stack(values), codes)


def columns_of(X: Any, model: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the data that a model was fitted to, by name."""
    table = as_table(X)
    if table is not None:
        known = [str(name) for name in getattr(model, "feature_names_in_", table.columns)]
        names = [name for name in table.columns if name in known] or table.columns
        return {name: table[name].to_numpy() for name in names}
    rows = np.asarray(X.toarray() if sparse.issparse(X) else X)
    if rows.ndim != 2:
        raise InvalidInputError(f"X has {rows.ndim} dimensions; expected rows × columns.")
    names = [str(name) for name in getattr(model, "feature_names_in_", [f"x{j}" for j in range(rows.shape[1])])]
    return dict(zip(names, rows.T, strict=True))


def _chosen(names: list[str], columns: Any) -> list[str]:
    if columns is None:
        if len(names) == 2:
            return names
        raise InvalidInputError(
            f"A map has two axes, and the data has {len(names)} columns: say which two, columns=(…, …) of "
            f"{', '.join(map(repr, names[:8]))}{'…' if len(names) > 8 else ''}."
        )
    wanted = [names[c] if isinstance(c, int | np.integer) and 0 <= c < len(names) else str(c) for c in columns]
    for name in wanted:
        if name not in names:
            raise UnknownNameError("column", name, names)
    if len(set(wanted)) != 2:
        raise InvalidInputError(f"columns must be two different ones, found {columns!r}.")
    return wanted


def numbers_of(column: npt.NDArray[Any], name: str) -> Array:
    """Return a column as numbers, or say that it holds none."""
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"Column {name!r} holds no numbers, and an axis needs some. Choose another.") from None


def limits_of(values: Array) -> tuple[float, float]:
    """Return limits of an axis that hold all values, and a little more.

    >>> limits_of(np.array([0.0, 100.0])), limits_of(np.array([2.0, np.nan]))
    ((-8.0, 108.0), (1.5, 2.5))
    """
    known = values[np.isfinite(values)]
    if not len(known):
        raise InvalidInputError("There are no rows to take the limits of the axes from: pass limits=((…, …), (…, …)).")
    low, high = float(known.min()), float(known.max())
    pad = 0.08 * (high - low) if high > low else 0.5
    return low - pad, high + pad


def _read_limits(limits: Any) -> list[tuple[float, float]]:
    ends = np.asarray(limits, dtype=np.float64)
    if ends.shape != (2, 2) or not np.isfinite(ends).all() or not (ends[:, 0] < ends[:, 1]).all():
        raise InvalidInputError(f"limits must be ((left, right), (bottom, top)), each rising; found {limits!r}.")
    return [(float(low), float(high)) for low, high in ends]


def _held(data: dict[str, npt.NDArray[Any]], two: list[str], at: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Return the value at which each other column is held."""
    others = [name for name in data if name not in two]
    given = {str(name): value for name, value in (at or {}).items()}
    for name in given:
        if name not in others:
            raise UnknownNameError("column to hold", name, others)
    return {name: given.get(name, _typical(data[name])) for name in others}


def _typical(column: npt.NDArray[Any]) -> Any:
    """Return the median of numbers, else the value that is there most often."""
    if np.issubdtype(column.dtype, np.number):
        return float(np.nanmedian(column))
    missing = np.isnat(column) if column.dtype.kind in "mM" else [v is None or v != v for v in column.tolist()]
    values, counts = np.unique(column[~np.asarray(missing)], return_counts=True)
    return values[counts.argmax()]
