"""Journals of fits that can be interrupted: the result of every fold is stored in a small file and reused.

Each fold depends only on the results of the ones before. So a fit that is repeated with the stored results replays its
steps up to the interruption, and continues from there with bit-identical results.

The file is a header and a frame for each fold, each sealed (``sealed_bytes``) after the eight bytes of its length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import oddsmith
from oddsmith.design.data_summary import DataSummary
from oddsmith.engines.base import Engine, Progress, S, Source
from oddsmith.engines.partitioned import PartedSource
from oddsmith.errors import MessageError
from oddsmith.persistence.codec import name_of
from oddsmith.persistence.file import write
from oddsmith.persistence.sealed_bytes import digest, seal, unseal

Place = tuple[int, int]  # Where a frame begins in a file, and where it ends.
LENGTH = 8  # Bytes that hold the length of a frame.


class Journal:
    """A wrapper of an engine that stores the results of folds in a file and reuses them.

    An existing file must be the journal of the same fit, or of a finished one. ``about`` identifies the fit; the
    software version is added. If it does not identify the data (not ``trusted``), the first folds are repeated on
    resuming, and compared.

    A frame is on disk before its result is used. A frame that was incomplete when the process was killed is dropped.
    Cost: a few M² numbers in the file for each pass. Sources are parts that wrap those of the engine.
    """

    name = "journal"

    def __init__(
        self, path: str | os.PathLike[str], engine: Engine, about: dict[str, str], *, trusted: bool = True
    ) -> None:
        self.path, self.engine = os.fspath(path), engine
        about = {"software": f"oddsmith {oddsmith.__version__}", **about}
        if not os.path.exists(self.path) or os.path.getsize(self.path) == 0:
            self._begin(about)
        self._file: BinaryIO | None = _locked(self.path)
        try:
            found = _contents(self._file, self.path)
            if found.about != about:
                if not found.ended:
                    what = next(name for name in [*about, *found.about] if found.about.get(name) != about.get(name))
                    raise MessageError(_refusal(self.path, what, found.about.get(what), about.get(what)))
                self._file.close()
                self._begin(about)
                self._file = _locked(self.path)
                found = _contents(self._file, self.path)
        except BaseException:
            self.close()
            raise
        self._found, self._doubted = found, not trusted and bool(found.places)

    def __len__(self) -> int:
        return len(self._found.places)

    def fold(self, statistic: type[S], source: Source, params: object, *, progress: Progress | None = None) -> S:
        inner = replace(source, parts=source.parts.parts) if isinstance(source, PartedSource) else source
        if not isinstance(source, PartedSource) or self._file is None:
            return self.engine.fold(statistic, inner, params, progress=progress)
        key = digest((name_of(statistic), params, source.encode, source.transform, source.parts.columns))
        if key in self._found.places and not self._doubted:
            return self._kept(key)  # type: ignore[no-any-return]
        total = self.engine.fold(statistic, inner, params, progress=progress)
        if key in self._found.places and digest(total) != digest(self._kept(key)):
            self._forget()
        # A summary without drawn rows says little about them: repeat the next fold, too.
        self._doubted = self._doubted and isinstance(total, DataSummary) and not total.drawn
        if key not in self._found.places:
            self._found.places[key] = self._append(seal("fold", {"key": key}, total))
        # Use the result as it will be read on resuming: the memory order of an array can change the last bit of a sum.
        return self._kept(key)  # type: ignore[no-any-return]

    def _forget(self) -> None:
        """Start again with other data, if the previous fit has finished."""
        if not self._found.ended:
            raise MessageError(_refusal(self.path, "data", "other rows", "those given now"))
        self._found = replace(self._found, places={}, ended=False, end=self._found.start)

    def finish(self) -> None:
        """Mark the fit as finished, so that another fit may replace its journal."""
        if not self._found.ended and self._file is not None:
            self._append(seal("end", {}, None))
            self._found.ended = True

    def close(self) -> None:
        """Close the file; later folds are not stored."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin(self, about: dict[str, str]) -> None:
        # Whole or not at all: a file without a whole header is somebody else's, and is not touched.
        write(self.path, _frame(seal("journal", about, None)))

    def _append(self, data: bytes) -> Place:
        assert self._file is not None
        with _naming(self.path, "written"):
            self._file.seek(self._found.end)
            self._file.truncate()
            self._file.write(_frame(data))
            self._file.flush()
            os.fsync(self._file.fileno())
        start = self._found.end + LENGTH
        self._found.end = start + len(data)
        return start, self._found.end

    def _kept(self, key: str) -> Any:
        assert self._file is not None
        start, end = self._found.places[key]
        self._file.seek(start)
        return unseal("fold", self._file.read(end - start))[1]


def _frame(data: bytes) -> bytes:
    return len(data).to_bytes(LENGTH, "little") + data


@contextmanager
def _naming(path: str, what: str) -> Iterator[None]:
    """Name the file in errors of the operating system."""
    try:
        yield
    except OSError as error:
        raise MessageError(
            f"The journal {path!r} cannot be {what} ({error.strerror or error}). Give resume= the name of another file."
        ) from error


def _locked(path: str) -> BinaryIO:
    """Open a journal exclusively for this process, if the system can."""
    with _naming(path, "opened"):
        file = open(path, "r+b")
    with suppress(ImportError, OSError):
        import fcntl

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise MessageError(
                f"The journal {path!r} is in use by another fit. Give each fit its own journal."
            ) from None
    return file


@dataclass(kw_only=True)
class _Contents:
    """The description in a journal, the position of each fold, and the ends of its header and last complete frame."""

    about: dict[str, Any]
    places: dict[str, Place]
    ended: bool
    start: int
    end: int


def _contents(file: BinaryIO, path: str) -> _Contents:
    """Return what is in a journal. A frame that is torn, and what follows it, will be written again."""
    frames = _frames(file)
    try:
        about = unseal("journal", next(frames)[1])[0]
    except (MessageError, StopIteration):
        raise MessageError(
            f"{path!r} is not the journal of a fit, and was left unchanged. Give resume= the name of a new file."
        ) from None
    found = _Contents(about=about, places={}, ended=False, start=file.tell(), end=file.tell())
    for start, data in frames:
        try:
            found.places[str(unseal("fold", data)[0].get("key"))] = (start, file.tell())
        except MessageError:
            with suppress(MessageError):
                unseal("end", data)
                found.ended, found.end = True, file.tell()
            break
        found.end = file.tell()
    return found


def _frames(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield start and content of each whole frame."""
    size = os.fstat(file.fileno()).st_size
    file.seek(0)
    while len(head := file.read(LENGTH)) == LENGTH:
        start, length = file.tell(), int.from_bytes(head, "little")
        if length > size - start:
            return
        yield start, file.read(length)


def _refusal(path: str, what: str, found: object, given: object) -> str:
    return (
        f"The journal {path!r} belongs to another fit that has not finished: its {what} is {found!s:.300}, and now it "
        f"is {given!s:.300}. Resume that fit, or give resume= the name of a new file."
    )
