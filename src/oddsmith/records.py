"""Small frozen result records: plain arrays with a table view for the terminal, a notebook and data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from html import escape
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt


def format_value(value: object) -> str:
    """Return a short text for a cell: six significant digits for floats.

    >>> format_value(1 / 3), format_value(np.int64(3)), format_value(True)
    ('0.333333', '3', 'True')
    """
    if isinstance(value, float | np.floating):
        return f"{float(value):.6g}"
    return str(value)


NUMBERS = (int, float, np.number)


def aligned_row(cells: list[str], text: list[bool], tag: str = "td") -> str:
    """Return a row of an HTML table, with cells marked ``text`` aligned left and the others right.

    >>> aligned_row(["a", "1"], [True, False])
    '<tr><td style="text-align:left">a</td><td style="text-align:right">1</td></tr>'
    """
    inside = zip(cells, ["left" if left else "right" for left in text], strict=True)
    return "<tr>" + "".join(f'<{tag} style="text-align:{side}">{escape(c)}</{tag}>' for c, side in inside) + "</tr>"


class Table:
    """A mixin that gives a class with ``to_dict()`` (column → list) a printed table, HTML and data frames."""

    title: str = ""
    most_rows: ClassVar[int] = 1000
    """Rows that a notebook shows."""

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        raise TypeError(f"{type(self).__name__} must define to_dict().")

    def to_pandas(self) -> Any:
        """Return a pandas data frame."""
        import pandas

        return pandas.DataFrame(self.to_dict())

    def to_polars(self) -> Any:
        """Return a polars data frame."""
        import polars

        return polars.DataFrame(self.to_dict(), strict=False)

    def _rows(self) -> Iterator[list[str]]:
        columns = self.to_dict()
        for cells in zip(*columns.values(), strict=True):
            yield [format_value(cell) for cell in cells]

    def __str__(self) -> str:
        header = list(self.to_dict())
        rows = list(self._rows())
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in [header, *rows]]
        return "\n".join([self.title, *lines] if self.title else lines)

    def _repr_html_(self) -> str:
        columns = self.to_dict()
        text = [not all(isinstance(v, NUMBERS) and not isinstance(v, bool) for v in vs) for vs in columns.values()]
        body = "".join(aligned_row(row, text) for row in islice(self._rows(), self.most_rows))
        total = len(next(iter(columns.values()), ()))
        if total > self.most_rows:
            note = f"The first {self.most_rows:,} of {total:,} rows: to_pandas() has them all."
            body += f'<tr><td colspan="{len(columns)}" style="text-align:left">{note}</td></tr>'
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}<thead>{aligned_row(list(columns), text, 'th')}</thead><tbody>{body}</tbody></table>"


@dataclass(frozen=True, kw_only=True)
class Certificate(Table):
    """A bound on the distance of a result from the optimum.

    Attributes
    ----------
    converged : bool
        Whether ``gap`` is below the requested tolerance.
    gap : float
        Upper bound on objective − optimum (a sum over rows); infinite if no bound is known.
    gradient_norm : float
        Norm of the gradient, with columns scaled to unit spread.
    condition : float
        Condition number (in the 1-norm; of more than 64 weights an estimate) of the Hessian scaled to unit diagonal, or
        of the curvature that bounds it from below; NaN where neither is formed.
    passes : int
        Passes over the whole data.
    rigorous : bool
        Whether ``gap`` is a proven bound (by self-concordance of the logistic loss) rather than an estimate.
    optimum_exists : bool
        False if the classes are separated and no prior keeps the weights finite.
    method : str
        The algorithm, stage by stage.

    >>> print(Certificate(converged=True, gap=1e-20, gradient_norm=1e-9, condition=10.0, passes=6))
        converged     True
              gap    1e-20
    gradient_norm    1e-09
        condition       10
           passes        6
         rigorous     True
    optimum exists     True
    """

    converged: bool
    gap: float
    gradient_norm: float
    condition: float
    passes: int
    rigorous: bool = True
    optimum_exists: bool = True
    method: str = ""

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row, a column per attribute."""
        return {name: [getattr(self, name)] for name in self.__dataclass_fields__}

    def __str__(self) -> str:
        cells = {name.replace("_exists", " exists"): values[0] for name, values in self.to_dict().items()}
        if not cells["method"]:
            del cells["method"]
        return "\n".join(f"{name:>13}  {format_value(value):>7}" for name, value in cells.items())


TRACE_COLUMNS = ("iteration", "objective", "log_likelihood", "gradient_norm", "step_size", "passes", "seconds", "stage")
WEIGHTS = "weights"
_recording: ContextVar[bool] = ContextVar("recording", default=False)


@contextmanager
def record_weights() -> Iterator[None]:
    """Record the weights of every iteration of the fits inside the ``with`` block, in ``trace_.weights``.

    The shape is iterations × (1 + M) for two classes, intercept first, and iterations × K × (1 + M) for K classes. The
    weights are in the user's units, whatever coordinates the solver uses. A final step that the certificate covers
    without another pass is not in the trace. Fits on other threads (``n_jobs``) are not recorded. Cost: memory for the
    weights.

    >>> from oddsmith import LogisticRegression
    >>> with record_weights():
    ...     model = LogisticRegression(solver="newton").fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> model.trace_.weights[-1].round(3).tolist(), model.intercept_.round(3).tolist(), model.coef_.round(3).tolist()
    ([-1.362, 0.908], [-1.362], [[0.908]])
    """
    token = _recording.set(True)
    try:
        yield
    finally:
        _recording.reset(token)


def records_weights() -> bool:
    """Whether the current fit records its weights.

    >>> records_weights()
    False
    """
    return _recording.get()


@dataclass(frozen=True)
class Trace(Table):
    """One row per iteration of a fit; each column is also an attribute (an array).

    A fit inside `record_weights` also has ``weights``, which tables leave out.

    >>> trace = Trace(((0, 2.0, -2.0, 1.0, 0.0, 1, 0.1, "newton"), (1, 1.5, -1.5, 0.1, 1.0, 2, 0.2, "newton")))
    >>> trace.objective.tolist(), len(trace)
    ([2.0, 1.5], 2)
    """

    records: tuple[tuple[Any, ...], ...] = ()
    columns: tuple[str, ...] = TRACE_COLUMNS

    def __len__(self) -> int:
        return len(self.records)

    def __getattr__(self, name: str) -> Any:
        if name in self.columns:
            return np.array([record[self.columns.index(name)] for record in self.records])
        if name == WEIGHTS:
            raise AttributeError(
                "This trace has no weights. Fit inside 'with oddsmith.record_weights():' to keep them."
            )
        raise AttributeError(name)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists, without the weights."""
        return {name: [record[i] for record in self.records] for i, name in enumerate(self.columns) if name != WEIGHTS}

    def map_weights(self, function: Callable[[Any], Any]) -> Trace:
        """Return the trace with a function applied to the weights of each iteration, if they were recorded."""
        if WEIGHTS not in self.columns:
            return self
        i = self.columns.index(WEIGHTS)
        return replace(self, records=tuple((*r[:i], function(r[i]), *r[i + 1 :]) for r in self.records))


@dataclass(frozen=True)
class Boundary(Table):
    """The decision boundary of a linear model, one hyperplane ``normalᵀ x + offset = 0`` for each pair of classes.

    Attributes
    ----------
    classes : list of pairs
        (negative side, positive side) of each hyperplane.
    normal : array
        Unit normal, pointing to the positive side: length D for two classes, pairs × D for more.
    offset : float or array
        Signed distance term: ``normalᵀ x + offset`` is the signed distance of ``x``.
    origin_distance : float or array
        Signed distance of the hyperplane from the origin along the normal, ``−offset`` (``−w₀/‖w‖``).
    """

    classes: list[tuple[Any, Any]]
    normal: npt.NDArray[np.float64]
    offset: float | npt.NDArray[np.float64]
    origin_distance: float | npt.NDArray[np.float64]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per hyperplane."""
        normal = np.atleast_2d(self.normal)
        result: dict[str, list[Any]] = {"classes": [f"{a} | {b}" for a, b in self.classes]}
        for j in range(normal.shape[1]):
            result[f"normal_{j}"] = normal[:, j].tolist()
        result["offset"] = np.atleast_1d(self.offset).tolist()
        result["origin_distance"] = np.atleast_1d(self.origin_distance).tolist()
        return result
