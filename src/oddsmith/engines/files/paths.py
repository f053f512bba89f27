"""Finding files: a path, a folder, a glob, or a list of these; keys in folder names become columns."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from urllib.parse import unquote

from oddsmith.engines.files.formats import FORMATS, format_of, sniff
from oddsmith.errors import InvalidInputError, InvalidTypeError

KEY = re.compile(r"([^=]+)=(.*)")
NULL = "__HIVE_DEFAULT_PARTITION__"
KINDS = ("parquet", "csv", "arrow")


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file: its path, format, size and time (to detect changes), and the keys of its folders."""

    path: str
    kind: str
    name: str
    size: int
    time: int
    keys: Mapping[str, object] = field(default_factory=dict)

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since it was opened."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            raise InvalidInputError(f"{self.name!r} was deleted after the fit began.") from None
        if (now.st_size, now.st_mtime_ns) != (self.size, self.time):
            raise InvalidInputError(
                f"{self.name!r} has changed since it was opened: passes over it would read different rows. Fit again "
                "when nothing writes to it, or fit a copy."
            )


def find(data: object, format: str | None = None) -> list[InputFile]:
    """Return the files that ``data`` names, each once, those of folders and globs sorted by name.

    Hidden files and files that begin with an underscore (``_SUCCESS``, ``_metadata``) are skipped. Folders named
    ``key=value`` give their files a column ``key``.

    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "year=2024"
    >>> folder.mkdir()
    >>> _ = (folder / "a.csv").write_text("x")
    >>> [(file.name, file.kind, dict(file.keys)) for file in find(folder.parent)]
    [('year=2024/a.csv', 'csv', {'year': '2024'})]
    """
    if format is not None and format not in KINDS and FORMATS.get(format) not in KINDS:
        raise InvalidInputError(f"Unknown format {format!r}. Known: {', '.join(map(repr, KINDS))}.")
    places: Iterable[object] = data if isinstance(data, list | tuple) else [data]
    seen: dict[str, InputFile] = {}
    for place in places:
        if not isinstance(place, str | os.PathLike):
            raise InvalidTypeError(
                f"Expected the path of a file or folder, a glob, a list of these or a pyarrow.dataset.Dataset, found a "
                f"{type(place).__name__}."
            )
        for file in _find_in(os.fspath(place), FORMATS.get(format or "", format)):
            real = os.path.realpath(file.path)
            if real in seen:
                raise InvalidInputError(f"{file.path!r} is named twice: its rows would count twice.")
            seen[real] = file
    if not seen:
        raise InvalidInputError("No files were given: the list is empty.")
    return list(seen.values())


def stat(path: str, kind: str, name: str, keys: Mapping[str, object]) -> InputFile:
    """Return a file with its size and time."""
    facts = os.stat(path)
    return InputFile(path=path, kind=kind, name=name, size=facts.st_size, time=facts.st_mtime_ns, keys=keys)


def _find_in(place: str, kind: str | None) -> Iterator[InputFile]:
    if os.path.isdir(place):
        root, paths = place, list(_walk(place))
    elif os.path.exists(place):
        root, paths = os.path.dirname(place), [place]
    elif any(sign in place for sign in "*?["):
        root = os.path.dirname(place[: min(place.find(sign) for sign in "*?[" if sign in place)])
        matches = sorted(glob.glob(place, recursive=True))
        # "**" finds a folder and what is in it: each file once.
        inside = (_walk(match) if os.path.isdir(match) else [match] for match in matches)
        paths = list(dict.fromkeys(chain.from_iterable(inside)))
    else:
        raise InvalidInputError(
            f"There is no file or folder {place!r}. Pass a path, a glob such as 'data/*.parquet', a list of these, or "
            "a pyarrow.dataset.Dataset (for files on other machines)."
        )
    if not paths:
        raise InvalidInputError(f"No files were found in {place!r}.")
    for path in paths:
        steps = os.path.relpath(path, root or ".").split(os.sep)
        keys = {m[1]: None if m[2] == NULL else unquote(m[2]) for step in steps[:-1] if (m := KEY.fullmatch(step))}
        yield stat(path, kind or _detect_format(path, alone=path == place), "/".join(steps), keys)


def _walk(folder: str) -> Iterator[str]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        yield from (os.path.join(here, name) for name in sorted(names) if not name.startswith((".", "_")))


def _detect_format(path: str, *, alone: bool) -> str:
    with open(path, "rb") as file:
        start = file.read(64)
    kind = format_of(os.path.basename(path))
    if kind is None and (alone or sniff(start) != "csv"):
        kind = sniff(start)
    if kind not in KINDS:
        what = f"has the format {kind}" if kind else "has no known extension"
        raise InvalidInputError(
            f"{path!r} {what}; expected Parquet, CSV or Arrow files. Pass format= if it is one of these, or exclude "
            "it, for example with a glob such as 'data/*.parquet'."
        )
    return kind
