"""Texts as codes: a code for each different text, in the order in which they first occur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.kernels.native import Kernels, TextsProblem, address, kernels

WIDTHS = (np.int8, np.int16, np.int32)
"""Types of codes, from the narrowest."""
FIRST_BYTES = 1 << 11
LEAST_SLOTS = 1 << 9


@dataclass(frozen=True, kw_only=True)
class TextBuffers:
    """Where ``n`` texts lie, as Arrow stores them: ``offsets`` of 32 or 64 bits, bytes, bits of those that are there.

    ``valid`` begins ``first`` bits before the first text; None if no text is missing.
    """

    n: int
    offsets: npt.NDArray[Any]
    data: npt.NDArray[np.uint8]
    valid: npt.NDArray[np.uint8] | None = None
    first: int = 0


@dataclass(frozen=True, kw_only=True)
class TextCodes:
    """The code of each text (−1: missing), and the different texts: where they end in ``data``, and their counts."""

    codes: npt.NDArray[Any]
    ends: npt.NDArray[np.int64]
    data: npt.NDArray[np.uint8]
    counts: npt.NDArray[np.int64]
    missing: int


def encode_texts(texts: TextBuffers) -> TextCodes | None:
    """Return texts as codes; None without compiled kernels.

    >>> texts = TextBuffers(n=3, offsets=np.array([0, 1, 3, 4], dtype=np.int32), data=np.frombuffer(b"abba", np.uint8))
    >>> found = encode_texts(texts)
    >>> found is None or (found.codes.tolist(), found.counts.tolist(), found.data.tobytes())
    ([0, 1, 0], [2, 1], b'abb')
    """
    native = kernels()
    return None if native is None else _Encoder(native, texts).run()


class _Encoder:
    """Room for the levels found so far, which grows."""

    def __init__(self, native: Kernels, texts: TextBuffers) -> None:
        self.native, self.texts, self.width = native, texts, 0
        self.codes: npt.NDArray[Any] = np.empty(texts.n, dtype=WIDTHS[0])
        self.ends, self.counts = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        self.data = np.zeros(FIRST_BYTES, dtype=np.uint8)
        offsets = texts.offsets
        self.problem = TextsProblem(
            n=texts.n,
            offsets=address(offsets),
            wide=offsets.itemsize == 8,
            data=address(texts.data),
            size=len(texts.data),
            valid=address(texts.valid),
            first=texts.first,
        )

    def run(self) -> TextCodes:
        problem = self.problem
        self._grow()
        while True:
            self.native("texts", problem)
            if problem.next == problem.n:
                break
            self._grow()
        levels = problem.levels
        used = int(self.ends[levels - 1]) if levels else 0
        return TextCodes(
            codes=self.codes,
            ends=self.ends[:levels],
            data=self.data[:used],
            counts=self.counts[:levels],
            missing=problem.missing,
        )

    def _grow(self) -> None:
        """Make room for more levels, and wider codes if they are too many for the type."""
        problem, row = self.problem, self.problem.next
        levels = int(problem.levels)
        if levels >= np.iinfo(WIDTHS[self.width]).max:
            self.width += 1
            codes = np.empty(problem.n, dtype=WIDTHS[self.width])
            codes[:row] = self.codes[:row]
            self.codes = codes
        most = min(max(LEAST_SLOTS // 4, 4 * levels), int(np.iinfo(WIDTHS[self.width]).max))
        self.ends, self.counts = (
            np.concatenate([some[:levels], np.zeros(most - levels, dtype=np.int64)])
            for some in (self.ends, self.counts)
        )
        used = int(self.ends[levels - 1]) if levels else 0
        length = int(self.texts.offsets[row + 1] - self.texts.offsets[row]) if row < problem.n else 0
        room = max(len(self.data), used + length)
        if used + length > len(self.data) // 2:
            room = 4 * room
        data = np.zeros(room, dtype=np.uint8)
        data[:used] = self.data[:used]
        self.data = data
        slots = 1 << int(2 * most).bit_length()
        self.keys, self.slots = np.zeros(slots, dtype=np.uint64), np.empty(slots, dtype=np.int64)
        problem.codes, problem.width, problem.most = address(self.codes), self.codes.itemsize, most
        problem.ends, problem.counts = address(self.ends), address(self.counts)
        problem.bytes, problem.room = address(self.data), room
        problem.keys, problem.slots, problem.slots_less_one = address(self.keys), address(self.slots), slots - 1
