"""The starts of rows in a CSV: line ends outside quoted fields, as Arrow's reader interprets them.

A quote opens a field only at its beginning, a doubled quote inside is a literal quote, and after the closing quote the
field continues unquoted. Lines end with a line feed, a carriage return, or both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

QUOTE, FEED, RETURN = b'"'[0], b"\n"[0], b"\r"[0]
LINE_END = re.compile(rb"[\n\r]")
QUOTED = rb'(?<![^%s\n\r])"(?:[^"]|"")*+("|\Z)'
"""A quoted field, by the delimiter: its closing quote may be missing at the end of the text."""


@dataclass(frozen=True)
class Lines:
    r"""Text that begins with a row, and its quoted ranges: ``opens[i]`` to ``closes[i]``.

    >>> lines = Lines.of(b'a,"1\n2"\nb,3\n', ",")
    >>> lines.next_row(1), lines.next_row(9), lines.last_row()
    (8, 12, 12)
    """

    text: bytes | bytearray
    opens: npt.NDArray[np.intp]
    closes: npt.NDArray[np.intp]

    @classmethod
    def of(cls, text: bytes | bytearray, delimiter: str) -> Lines:
        """Return text with its quotes located; a quote still open at the end closes beyond it."""
        if b'"' not in text:
            return cls(text, np.empty(0, np.intp), np.empty(0, np.intp))
        signs = np.frombuffer(text, np.uint8)
        at = np.flatnonzero(signs == QUOTE)
        # Every other quote opens a field, or comes back into one after a doubled quote: then counting is enough.
        opens = np.zeros(256, dtype=bool)
        opens[[ord(delimiter), FEED, RETURN, QUOTE]] = True
        if not opens[signs[at[::2] - 1][int(at[0] == 0) :]].all():
            fields = re.finditer(QUOTED % re.escape(delimiter.encode()), text)
            ends = [(field.start(), field.end() - 1) if field[1] else (field.start(),) for field in fields]
            at = np.array([place for each in ends for place in each], dtype=np.intp)
        if len(at) % 2:
            at = np.append(at, len(text))
        return cls(text, at[::2], at[1::2])

    def next_row(self, target: int, *, at_end: bool = False) -> int | None:
        """Return the start of the first row at or after ``target``, None if it is not in the text.

        A carriage return at the end of the text may be half of a line end, unless it also ends the file (``at_end``).
        """
        if target <= 0:
            return 0
        place = target - 1
        while True:
            found = LINE_END.search(self.text, place)
            if found is None:
                return None
            place = found.start()
            i = int(np.searchsorted(self.opens, place, side="right")) - 1
            if i >= 0 and self.closes[i] > place:
                place = int(self.closes[i])
                continue
            if self.text[place] == FEED:
                return place + 1
            if place + 1 == len(self.text):
                return place + 1 if at_end else None
            return place + 1 + (self.text[place + 1] == FEED)

    def last_row(self) -> int:
        """Return the start of the last row, 0 if no line ends in the text."""
        end = len(self.text)
        while True:
            place = max(self.text.rfind(b"\n", 0, end), self.text.rfind(b"\r", 0, end))
            if place < 0:
                return 0
            i = int(np.searchsorted(self.opens, place, side="right")) - 1
            if i >= 0 and self.closes[i] > place:
                end = int(self.opens[i])
                continue
            return place + 1
