"""The encoder of pieces: a fit to data in pieces makes blocks of them in every pass, where they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from oddsmith.block import Block
from oddsmith.design.data_summary import Roles, locate_errors, some_weights, with_table_view
from oddsmith.design.inputs import Codes, Rows, as_table, check_finite, column_major, read_offset, take_rows
from oddsmith.design.labels import code_labels
from oddsmith.design.table import Design
from oddsmith.engines import Piece
from oddsmith.errors import InvalidInputError, as_input_errors
from oddsmith.protocols import Indices, Labels
from oddsmith.rows import as_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Encoder:
    """Makes blocks of pieces: columns by a learned ``design`` (None: numbers as they are), labels as class codes.

    Values that are missing or infinite are refused, with the name of the piece, unless ``missing`` ones are allowed.

    >>> encode = Encoder(roles=Roles(), classes=np.array(["a", "b"]))
    >>> block = encode(Piece(np.eye(2), ["b", "a"]))
    >>> block.t.tolist(), block.X.tolist()
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
        with locate_errors(piece):
            return self._block(with_table_view(piece))

    def _block(self, piece: Piece) -> Block:
        table = self.roles.rows(piece)
        n = int(table.shape[0])
        s = some_weights(self.roles.numbers(piece, "weight"), n)
        offset = read_offset(self.roles.numbers(piece, "offset"), n, len(self.classes))
        kept: Indices | None = None
        if not n or self.design is None:
            rows = self._numbers(table)
        else:
            rows, kept = self.design.retrain(table, s if s is None or s.any() else None, part=True)
        t = self._codes(self.roles.labels(piece, n, kept) if n else ())
        return Block(as_rows(rows), t, take_rows(s, kept), take_rows(offset, kept))

    def _codes(self, labels: Sequence[object]) -> Codes:
        if not len(labels):
            return np.empty(0, dtype=np.int32)
        classes, codes = code_labels(labels)
        place = {label: k for k, label in enumerate(self.classes.tolist())}
        unknown = [label for label in classes.tolist() if label not in place]
        if unknown:
            known = ", ".join(map(repr, list(place)[:8]))
            raise InvalidInputError(
                f"There is the label {unknown[0]!r}, which was not there in the first pass (it saw {known}): the data "
                "has changed. Fit again when it is complete."
            )
        return np.array([place[label] for label in classes.tolist()], dtype=np.int32)[codes]

    def _numbers(self, rows: object) -> Rows:
        table = as_table(rows)
        if table is not None and not len(table):
            M = len(table.columns) if self.design is None else len(self.design.get_feature_names_out())
            return np.empty((0, M), dtype=self.dtype)
        numbers = _array(rows, self.dtype) if table is None else column_major(table, self.dtype)
        if not self.missing:
            check_finite(numbers, None if self.names is None else np.array(self.names, dtype=object))
        return numbers


def _array(rows: object, dtype: str) -> Rows:
    if sparse.issparse(rows):
        return sparse.csr_array(rows)
    with as_input_errors():
        array = np.asarray(rows)
        if array.ndim != 2:
            raise InvalidInputError(f"Rows have the shape {array.shape}; expected a matrix, a row each.")
        return array if array.dtype == np.float32 else np.asarray(array, dtype=dtype)
