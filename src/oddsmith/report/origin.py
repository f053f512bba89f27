"""Where a report comes from: the files of the model and of the data, the period, the purpose and the author."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oddsmith.errors import InvalidTypeError
from oddsmith.report.html import clean, tag

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None
MOST_FILES = 20


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The files that a report is about, and what its reader has to know beside them.

    >>> Origin(author="A. Turing", period="2025").heading
    'Author: A. Turing. Period: 2025.'
    """

    model_path: str | None = None
    data_paths: tuple[str, ...] = ()
    period: str | None = None
    purpose: str | None = None
    author: str | None = None

    @classmethod
    def of(cls, model_path: Any, data_path: Any, **texts: str | None) -> Origin:
        """Return the origin with checked paths."""
        paths = [data_path] if isinstance(data_path, str | os.PathLike) else data_path or []
        if not isinstance(paths, Sequence) or not all(isinstance(path, str | os.PathLike) for path in paths):
            raise InvalidTypeError(f"data_path must be the path of a file, or a list of them; found {data_path!r}.")
        data = tuple(os.fspath(path) for path in paths)
        return cls(model_path=None if model_path is None else os.fspath(model_path), data_paths=data, **texts)

    @property
    def heading(self) -> str:
        """Author, period and purpose, as sentences."""
        texts = {"Author": self.author, "Period": self.period, "Purpose": self.purpose}
        return " ".join(f"{name}: {clean(text).rstrip('.')}." for name, text in texts.items() if text)

    @property
    def facts(self) -> list[tuple[Any, Any]]:
        """Names and values for the provenance: texts, then each file with its checksum."""
        texts = {"author": self.author, "purpose": self.purpose, "period of the data": self.period}
        pairs: list[tuple[Any, Any]] = [(name, clean(text)) for name, text in texts.items() if text]
        for path in self.data_paths[:MOST_FILES]:
            pairs += _file("data file", path)
        if len(self.data_paths) > MOST_FILES:
            pairs.append(("further data files", f"{len(self.data_paths) - MOST_FILES:,}"))
        return pairs + ([] if self.model_path is None else _file("model file", self.model_path))


def _file(what: str, path: str) -> list[tuple[Any, Any]]:
    """Return name and checksum of a file; only the name if it is not a file, such as a database table."""
    if not Path(path).is_file():
        return [(what, clean(os.path.basename(path)))] if what != "model file" else []
    return [(what, clean(os.path.basename(path))), ("its SHA-256", tag("code", sha256(path)))]


def sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file, read in pieces."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
