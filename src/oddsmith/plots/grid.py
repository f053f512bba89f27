"""Grids over two columns of the data with the others fixed, and the base of displays over grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import narwhals as nw
import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.data_access.streamed_prediction import columns_of
from oddsmith.design.inputs import as_table, split_target
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.evaluation.model_output import class_codes
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array
from oddsmith.plots.style import AxesLike, Display, Panel, plain, scatter_classes
from oddsmith.protocols import ClassifierLike, Indices, RowsLike

Columns = Sequence[str | int]  # Names or numbers of columns.


@dataclass(frozen=True, kw_only=True)
class Plane:
    """A grid of m × n points over two columns, and the samples in that plane (N × 2) with their class codes.

    ``rows`` has the type of the data; row i n + j is the point (x_j, y_i).
    """

    x: Array
    y: Array
    rows: RowsLike
    names: tuple[str, str]
    points: Array
    codes: Indices | None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows × columns of the grid."""
        return len(self.y), len(self.x)


def make_plane(
    model: ClassifierLike,
    X: Any,
    y: Any = None,
    *,
    columns: Columns | None = None,
    at: Mapping[Any, Any] | None = None,
    limits: npt.ArrayLike | None = None,
    resolution: int = 200,
) -> Plane:
    """Return a grid over two columns of ``X``; the others are at their median (categories: mode), or ``at``.

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
    data = read_columns(X, model)
    two = _chosen(list(data), columns)
    values = [numbers_of(data[name], name) for name in two]
    ends = np.asarray([limits_of(v) for v in values] if limits is None else limits, dtype=np.float64)
    if ends.shape != (2, 2) or not np.isfinite(ends).all() or not (ends[:, 0] < ends[:, 1]).all():
        raise InvalidInputError(
            f"limits must be ((left, right), (bottom, top)), each in ascending order; found {limits!r}."
        )
    x, height = (np.linspace(low, high, int(resolution)) for low, high in ends)
    held, table, (first, second) = _held(data, two, at), as_table(X), two
    grid: dict[str, Any] = {first: np.tile(x, len(height)), second: np.repeat(height, len(x))}
    whole = {name: grid[name] if name in grid else np.repeat(held[name], len(grid[first])) for name in data}
    if table is None:
        rows: RowsLike = np.column_stack(list(whole.values()))
    else:
        rows = nw.from_dict(whole, backend=table.implementation).to_native()
    codes = None if y is None else class_codes(y, np.asarray(model.classes_))
    return Plane(x=x, y=height, rows=rows, names=(first, second), points=np.column_stack(values), codes=codes)


@dataclass(eq=False, kw_only=True)
class PlaneDisplay(Display):
    """The base of displays over the plane of two columns; attributes as in `DecisionRegionDisplay`."""

    resolution: ClassVar[int] = 200
    x: Array
    y: Array
    classes: list[Any]
    names: tuple[str, str]
    points: Array | None = None
    codes: Indices | None = None

    @classmethod
    def from_estimator(
        cls,
        model: ClassifierLike,
        X: Any,
        y: Any = None,
        *,
        columns: Columns | None = None,
        at: Mapping[Any, Any] | None = None,
        limits: npt.ArrayLike | None = None,
        resolution: int | None = None,
        ax: AxesLike = None,
    ) -> Self:
        """Draw the predictions of a fitted classifier, ours or scikit-learn's, on a grid of points.

        Parameters
        ----------
        model : fitted classifier
        X, y : rows and labels
            The samples to draw, which also set the limits. ``y`` is optional and may be the name of a column of ``X``.
        columns : two names or numbers of columns
            Required if the data has more than two.
        at : mapping from column to value
            Values of the other columns; default: their median, or most frequent level.
        limits : ((left, right), (bottom, top)), optional
        resolution : int
            Points along each axis.
        ax : matplotlib axes, optional
            Axes to draw on; default: a new figure.
        """
        cls._check(model)
        points = cls.resolution if resolution is None else resolution
        plane = make_plane(model, X, y, columns=columns, at=at, limits=limits, resolution=points)
        samples: dict[str, Any] = {} if plane.codes is None else {"points": plane.points, "codes": plane.codes}
        classes, found = np.asarray(model.classes_).tolist(), cls._predictions(model, plane)
        return cls(x=plane.x, y=plane.y, classes=classes, names=plane.names, **samples, **found)._drawn(ax)

    @classmethod
    def _check(cls, model: ClassifierLike) -> None:
        """Refuse a model that lacks the quantity to draw."""

    @classmethod
    def _predictions(cls, model: ClassifierLike, plane: Plane) -> dict[str, Any]:
        """Return the predictions of the model on the grid, by attribute."""
        raise TypeError(f"{cls.__name__} must define _predictions().")

    def _scatter(self, ax: Panel, samples: bool = True, **options: float) -> bool:
        """Draw the samples if there are any and they are requested; return whether they were drawn."""
        if not samples or self.points is None or self.codes is None:
            return False
        scatter_classes(ax, self.points, self.codes, self.classes, **options)
        return True

    def _set_axes(self, ax: Panel) -> None:
        ax.set(xlabel=plain(self.names[0]), ylabel=plain(self.names[1]))
        ax.set(xlim=(self.x[0], self.x[-1]), ylim=(self.y[0], self.y[-1]))


def read_columns(X: Any, model: ClassifierLike) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the data that a model was fitted to, by name."""
    table, known = as_table(X), columns_of(model)
    if table is not None:
        names = [name for name in table.columns if known is None or name in known] or table.columns
        return {name: table[name].to_numpy() for name in names}
    rows = np.asarray(X.toarray() if sparse.issparse(X) else X)
    if rows.ndim != 2:
        raise InvalidInputError(f"X has {rows.ndim} dimensions; expected rows × columns.")
    return dict(zip(known or [f"x{j}" for j in range(rows.shape[1])], rows.T, strict=True))


def _chosen(names: list[str], columns: Columns | None) -> list[str]:
    if columns is None:
        if len(names) == 2:
            return names
        raise InvalidInputError(
            f"A map has two axes, but the data has {len(names)} columns. Choose two with columns=(…, …) from "
            f"{', '.join(map(repr, names[:8]))}{'…' if len(names) > 8 else ''}."
        )
    wanted = [names[c] if isinstance(c, int | np.integer) and 0 <= c < len(names) else str(c) for c in columns]
    for name in wanted:
        if name not in names:
            raise UnknownNameError("column", name, names)
    if len(set(wanted)) != 2:
        raise InvalidInputError(f"columns must name two different columns, found {columns!r}.")
    return wanted


def numbers_of(column: npt.NDArray[Any], name: str) -> Array:
    """Return a column as numbers; raise an error if it is not numeric."""
    try:
        return np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"Column {name!r} is not numeric, as an axis must be. Choose another column.") from None


def limits_of(values: Array) -> tuple[float, float]:
    """Return limits of an axis that contain all values with a small margin.

    >>> limits_of(np.array([0.0, 100.0])), limits_of(np.array([2.0, np.nan]))
    ((-8.0, 108.0), (1.5, 2.5))
    """
    known = values[np.isfinite(values)]
    if not len(known):
        raise InvalidInputError("There are no rows to determine the limits of the axes: pass limits=((…, …), (…, …)).")
    low, high = float(known.min()), float(known.max())
    pad = 0.08 * (high - low) if high > low else 0.5
    return low - pad, high + pad


def _held(data: dict[str, npt.NDArray[Any]], two: list[str], at: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Return the value at which each other column is fixed."""
    others = [name for name in data if name not in two]
    given = {str(name): value for name, value in (at or {}).items()}
    for name in given:
        if name not in others:
            raise UnknownNameError("column to hold", name, others)
    return {name: given.get(name, _typical(data[name])) for name in others}


def _typical(column: npt.NDArray[Any]) -> Any:
    """Return the median of numbers, or the most frequent value."""
    if np.issubdtype(column.dtype, np.number):
        return float(np.nanmedian(column))
    missing = np.isnat(column) if column.dtype.kind in "mM" else [v is None or v != v for v in column.tolist()]
    values, counts = np.unique(column[~np.asarray(missing)], return_counts=True)
    return values[counts.argmax()]
