"""Blocks of rows, the input of every statistic."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError
from oddsmith.protocols import Indices
from oddsmith.rows import Rows, as_rows


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a design with their targets, weights and offsets.

    Parameters
    ----------
    Phi : storage of rows, n × M
        See `oddsmith.rows`; an array or a CSR matrix is wrapped in a suitable storage, without a copy.
    t : integer array of length n
        Class codes 0 … K−1.
    s : array of length n, optional
        Weights; a row of weight 2 counts twice, a row of weight 0 does not count. ``None`` means all ones. Booleans
        serve as weights 0 and 1.
    offset : array n × C, optional
        Added to the activations of the classes 1 … C against class 0.
    first_row : int
        Number of the first row in the whole data.

    >>> block = Block(np.eye(2), np.array([0, 1], dtype=np.int32))
    >>> block.n_rows, block.n_columns, block.Phi.dense(1, 2).tolist()
    (2, 2, [[0.0, 1.0]])
    """

    Phi: Rows
    t: npt.NDArray[np.signedinteger[Any]]
    s: npt.NDArray[Any] | None = None
    offset: npt.NDArray[np.float64] | None = None
    first_row: int = 0
    addresses: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    """Cache of the compiled kernels: the addresses of the block's arrays."""

    def __getstate__(self) -> tuple[Any, ...]:
        return self.Phi, self.t, self.s, self.offset, self.first_row  # addresses are those of this process

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(("Phi", "t", "s", "offset", "first_row", "addresses"), (*state, []), strict=True):
            object.__setattr__(self, name, value)

    def __post_init__(self) -> None:
        if not isinstance(self.Phi, Rows):
            object.__setattr__(self, "Phi", as_rows(self.Phi))
        n = self.Phi.shape[0]
        for name, part in (("t", self.t), ("s", self.s), ("offset", self.offset)):
            if part is not None and part.shape[0] != n:
                raise InvalidInputError(f"A block of {n} rows came with {part.shape[0]} entries in {name!r}.")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.Phi.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns of ``Phi``."""
        return self.Phi.shape[1]

    @property
    def X(self) -> Any:
        """The rows as one array or one CSR matrix."""
        return self.Phi.concrete().X

    @property
    def is_sparse(self) -> bool:
        """Whether ``X`` is a CSR matrix."""
        return self.Phi.is_sparse

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weights, ones if none were given."""
        return np.ones(self.n_rows) if self.s is None else np.asarray(self.s, dtype=np.float64)

    def concrete(self) -> Block:
        """Return the block with its rows as one array or one CSR matrix."""
        Phi = self.Phi.concrete()
        return self if Phi is self.Phi else replace(self, Phi=Phi)

    def slice(self, start: int, stop: int) -> Block:
        """Return the rows from ``start`` to ``stop``, without a copy."""
        s, offset = (None if part is None else part[start:stop] for part in (self.s, self.offset))
        return Block(self.Phi.slice(start, stop), self.t[start:stop], s, offset, self.first_row + start)

    def take(self, rows: Indices) -> Block:
        """Return some of the rows."""
        first = int(rows[0]) if len(rows) else 0
        s, offset = (None if part is None else part[rows] for part in (self.s, self.offset))
        return Block(self.Phi.take(rows), self.t[rows], s, offset, self.first_row + first)
