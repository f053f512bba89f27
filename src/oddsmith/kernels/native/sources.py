"""A hash of the sources in C, which the build compiles into the library. Standard library only: the build runs it."""

from __future__ import annotations

import hashlib
from pathlib import Path

SIGNATURE = "oddsmith-sources:"


def digest(*parts: object) -> str:
    """Return a hash of what things say.

    >>> digest("a", 1) == digest("a", "1") != digest("a1")
    True
    """
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def sources_signature(folder: Path) -> str:
    """Return the beginning of the text ``oddsmith_sources`` in a library of these sources; flags and size follow."""
    files = sorted(folder.glob("*.[ch]"))
    return SIGNATURE + digest(*((path.name, path.read_bytes().replace(b"\r\n", b"\n")) for path in files))
