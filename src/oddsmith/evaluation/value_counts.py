"""Counts of rows by value and side: exact as long as there are few different values, else of rounded ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from oddsmith.numerics import Array
from oddsmith.protocols import Indices

Keys = npt.NDArray[np.uint64]
SIGN = np.uint64(1 << 63)


def keys_of(values: Array) -> Keys:
    """Return whole numbers in the order of the values."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # −0 is 0
    return np.where(bits & SIGN, ~bits, bits | SIGN)


def values_of(keys: Keys) -> Array:
    """Return the values that keys stand for."""
    return np.where(keys & SIGN, keys & ~SIGN, ~keys).view(np.float64)


@dataclass(frozen=True)
class ValueCounts:
    """Distinct values (as keys, in order) and the number of rows of the other side and of the own side at each.

    There are no more than ``most`` of them: the last ``drop`` binary digits of values are cut off, as few as suffice.
    How many depends on the values alone and not on how they were split, so counts merge exactly.
    """

    keys: Keys
    counts: npt.NDArray[np.int64]
    drop: int
    most: int

    @classmethod
    def of(cls, values: Array, own: npt.NDArray[np.bool_], most: int) -> ValueCounts:
        """Return the counts of some rows; ``own`` is the side of each."""
        keys, place = np.unique(keys_of(values), return_inverse=True)
        counts = np.column_stack([np.bincount(place[side], minlength=len(keys)) for side in (~own, own)])
        return cls(keys, counts.astype(np.int64), 0, most)._rounded(0)

    def merge(self, other: ValueCounts) -> ValueCounts:
        """Return the counts of both."""
        keys = np.concatenate([self.keys, other.keys])
        order = np.argsort(keys, kind="stable")
        counts = np.concatenate([self.counts, other.counts])[order]
        return ValueCounts(keys[order], counts, 0, self.most)._rounded(max(self.drop, other.drop))

    def _rounded(self, drop: int) -> ValueCounts:
        """Return the same with at least ``drop`` digits cut off, and with equal keys put together."""
        low, high = drop, 64
        while low < high:  # the fewest digits that suffice: fewer digits left, fewer keys
            middle = (low + high) // 2
            low, high = (low, middle) if len(self._starts(middle)) <= self.most else (middle + 1, high)
        starts = self._starts(low)
        if not len(starts):
            return replace(self, drop=low)
        counts = np.add.reduceat(self.counts, starts, axis=0)
        return ValueCounts(rounded(self.keys[starts], low), counts, low, self.most)

    def _starts(self, drop: int) -> Indices:
        """Return the first place of each key after its last digits are cut off; keys are in order."""
        return np.unique(rounded(self.keys, drop), return_index=True)[1]

    def placements(self) -> Array:
        """Return which share of the other side rows are on the right side of, for both sides (columns) at each key."""
        other, own = self.counts.T.astype(np.float64)
        n0, n1 = other.sum(), own.sum()
        above = (n1 - np.cumsum(own) + own / 2) / n1
        below = (np.cumsum(other) - other / 2) / n0
        return np.column_stack([above, below])

    def area(self) -> tuple[float, float]:
        """Return the area under the ROC curve, and how far from it the exact one can be.

        Where values are rounded, those of a pair at one key may be in either order.
        """
        other, own = self.counts.T.astype(np.float64)
        pairs = other.sum() * own.sum()
        value = float((self.placements()[:, 1] * own).sum() / own.sum())
        return value, float((other * own).sum() / (2.0 * pairs)) if self.drop else 0.0

    def edges(self, bins: int) -> Array:
        """Return where bins of about the same number of rows begin: those of `bin_of`, of these values."""
        n = np.cumsum(self.counts.sum(axis=1))
        ranks = np.ceil((n[-1] - 1) * (np.arange(1, bins) / bins)).astype(np.int64)
        return np.asarray(np.unique(values_of(self.keys[np.searchsorted(n, ranks, side="right")])))


def rounded(keys: Keys, drop: int) -> Keys:
    """Return keys with their last ``drop`` binary digits cut off."""
    if drop >= 64:
        return np.zeros_like(keys)
    return (keys >> np.uint64(drop)) << np.uint64(drop)
