"""From a piece of a table to a block: what a fit over data in pieces does in every pass, where the piece is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.block import Block
from oddsmith.design.inputs import as_table, check_finite, column_major, read_offset
from oddsmith.design.labels import Labels, code_labels
from oddsmith.design.survey import Roles, at, opened, some_weights
from oddsmith.design.table import Design
from oddsmith.engines import Piece
from oddsmith.errors import InvalidInputError, as_input_errors


@dataclass(frozen=True, eq=False)
class Encoder:
    """Makes blocks of pieces: columns by a learned ``design`` (None: numbers as they are), labels as class codes.

    Values that are missing or infinite are refused, with the name of the piece, unless ``missing`` ones are allowed.

    >>> encode = Encoder(Roles(), np.array(["a", "b"]))
    >>> block = encode(Piece(np.eye(2), ["b", "a"]))
    >>> block.t.tolist(), block.Phi.tolist()
    ([1, 0], [[1.0, 0.0], [0.0, 1.0]])
    """

    roles: Roles
    classes: Labels
    design: Design | None = None
    names: tuple[str, ...] | None = None
    missing: bool = False
    dtype: str = "float64"

    def __call__(self, piece: Piece) -> Block:
        """Return the block of a piece."""
        with at(piece):
            return self._block(opened(piece))

    def _block(self, piece: Piece) -> Block:
        table = self.roles.rows(piece)
        n = len(table) if as_table(table) is not None else int(table.shape[0])
        s = some_weights(self.roles.numbers(piece, "weight"), n)
        offset = read_offset(self.roles.numbers(piece, "offset"), n, len(self.classes))
        kept: npt.NDArray[np.intp] | None = None
        if not n or self.design is None:
            rows = self._numbers(table, n)
        else:
            rows, kept = self.design.retrain(table, s if s is None or s.any() else None, part=True)
            if kept is not None:
                s, offset = (None if v is None else v[kept] for v in (s, offset))
        return Block(rows, self._codes(self.roles.labels(piece, n, kept) if n else ()), s, offset)

    def _codes(self, labels: Any) -> npt.NDArray[np.int32]:
        if not len(labels):
            return np.empty(0, dtype=np.int32)
        classes, codes = code_labels(labels)
        place = {label: k for k, label in enumerate(self.classes.tolist())}
        strange = [label for label in classes.tolist() if label not in place]
        if strange:
            known = ", ".join(map(repr, list(place)[:8]))
            raise InvalidInputError(
                f"There is the label {strange[0]!r}, which was not there in the first pass (it saw {known}): the data "
                "has changed. Fit again when it is complete."
            )
        where = np.array([place[label] for label in classes.tolist()], dtype=np.int32)
        return where[codes]

    def _numbers(self, rows: Any, n: int) -> Any:
        table = as_table(rows)
        if table is None:
            made = _array(rows, self.dtype)
        elif not n:
            M = len(table.columns) if self.design is None else len(self.design.get_feature_names_out())
            return np.empty((0, M), dtype=self.dtype)
        else:
            made = column_major(table, self.dtype)
        if not self.missing:
            check_finite(made, None if self.names is None else np.array(self.names, dtype=object))
        return made


def _array(rows: Any, dtype: str) -> Any:
    if sparse.issparse(rows):
        return sparse.csr_array(rows)
    with as_input_errors():
        made = np.asarray(rows)
        if made.ndim != 2:
            raise InvalidInputError(f"Rows have the shape {made.shape}; expected a matrix, a row each.")
        return made if made.dtype == np.float32 else np.asarray(made, dtype=dtype)
