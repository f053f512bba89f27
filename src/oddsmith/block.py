"""Some rows, in the form in which every statistic takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of a design with their targets, weights and offsets.

    Parameters
    ----------
    Phi : array or scipy CSR array, n × M
        Basis rows, float32 or float64, never copied.
    t : integer array of length n
        Class codes 0 … K−1.
    s : array of length n, optional
        Weights; a row of weight 2 is the row twice, one of weight 0 is not there. ``None`` is all ones.
    offset : array n × C, optional
        Added to the activations of the classes 1 … C against class 0.
    first_row : int
        Number of the first row in the whole data.
    memo : array of length n, optional
        Room for what the last evaluation found for each row (its curvature), so that Hessian products need not find
        it again. A cache: no sum depends on it.
    origin : array or scipy CSR array, n rows, optional
        The rows that ``Phi`` was made of, where a transform made it: what a sample knows them by, since the last digit
        of ``Phi`` may depend on how means were summed up.
    half : array n × M, optional
        Room for the rows in half precision, centred and scaled, which a pass that looks for the longest of them fills.
    runs : (length, apart), optional
        Only the first rows of every stretch count: so many, of every so many. The compiled sums of two classes know it.

    >>> block = Block(np.eye(2), np.array([0, 1], dtype=np.int32))
    >>> block.n_rows, block.n_columns
    (2, 2)
    """

    Phi: Any
    t: npt.NDArray[np.int32]
    s: npt.NDArray[np.float64] | None = None
    offset: npt.NDArray[np.float64] | None = None
    first_row: int = 0
    memo: npt.NDArray[np.float64] | None = None
    origin: Any = None
    half: npt.NDArray[np.float16] | None = None
    runs: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        n = self.Phi.shape[0]
        for name, part in (("t", self.t), ("s", self.s), ("offset", self.offset)):
            if part is not None and part.shape[0] != n:
                raise InvalidInputError(f"A block of {n} rows came with {part.shape[0]} entries in {name!r}.")

    @property
    def n_rows(self) -> int:
        """Number of rows that count."""
        n = int(self.Phi.shape[0])
        if self.runs is None:
            return n
        length, apart = self.runs
        return n // apart * length + min(n % apart, length)

    @property
    def n_columns(self) -> int:
        """Number of columns of ``Phi``."""
        return int(self.Phi.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Whether ``Phi`` is a CSR matrix."""
        return hasattr(self.Phi, "indptr")

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weights, ones where none were given."""
        return np.ones(self.n_rows) if self.s is None else self.s
