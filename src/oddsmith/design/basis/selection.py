"""Some of the columns, by name or number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from oddsmith.design.basis.base import BASES, Basis, Names
from oddsmith.design.inputs import ArrayOrCSR
from oddsmith.engines import AnySource, Engine
from oddsmith.errors import InvalidInputError, InvalidTypeError
from oddsmith.registry import column_number


@BASES.register("select")
class SelectColumns(Basis):
    """Keep some columns: ``φ = (x_j)`` for j among ``columns``, in their order.

    Parameters
    ----------
    columns : list of names or numbers, optional
        The columns to keep; default: all. In a model that reads a table, columns of its design (``race[black]``).
    post_selection : bool
        Whether the columns were chosen with the help of the labels, as in ``LogisticRegression.refit``: the summary
        then says that its intervals ignore this choice.

    Attributes
    ----------
    kept_ : array of int
        Positions of the columns kept.

    >>> SelectColumns([2, 0]).fit_transform([[1.0, 2.0, 3.0]]).tolist()
    [[3.0, 1.0]]
    """

    kept_: npt.NDArray[np.intp]
    keeps_sparse = True

    def __init__(self, columns: Sequence[int | str] | None = None, post_selection: bool = False) -> None:
        self.columns = columns
        self.post_selection = post_selection

    def check_parameters(self) -> None:
        self._check_flag("post_selection")
        if self.columns is None:
            return
        if isinstance(self.columns, str) or not np.iterable(self.columns):
            raise InvalidTypeError(
                f"columns of SelectColumns must be a list of names or numbers, found {self.columns!r}."
            )
        if not len(self.columns) or len(set(self.columns)) < len(self.columns):
            raise InvalidInputError(
                f"columns of SelectColumns must name at least one column, and each once; found {list(self.columns)!r}."
            )

    def learn(self, source: AnySource, engine: Engine, names: Names) -> None:
        known = {str(name): j for j, name in enumerate(names)}
        wanted = range(len(known)) if self.columns is None else self.columns
        self.kept_ = np.array([column_number(column, known, "SelectColumns") for column in wanted], dtype=np.intp)

    def expand(self, rows: ArrayOrCSR) -> ArrayOrCSR:
        if isinstance(rows, np.ndarray):
            return np.ascontiguousarray(rows[:, self.kept_], dtype=np.float64)
        return rows[:, self.kept_].astype(np.float64)

    def column_names(self, names: Names) -> list[str]:
        return [str(names[j]) for j in self.kept_]
