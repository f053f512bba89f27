"""Datasets of pyarrow: local Parquet and Arrow files are read as files, all else through the dataset's own scanner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from oddsmith.engines.files.columnar import ArrowTable, ParquetTable, row_bytes
from oddsmith.engines.files.extents import Extent, TableFile, named
from oddsmith.engines.files.finding import Found, stat
from oddsmith.engines.files.schemas import fitted


def is_dataset(data: Any) -> bool:
    """Whether ``data`` is a dataset of pyarrow."""
    if not type(data).__module__.startswith("pyarrow"):
        return False
    from pyarrow import dataset

    return isinstance(data, dataset.Dataset)


def from_dataset(data: Any) -> tuple[TableFile, ...]:
    """Return the files of a dataset, or its fragments where they are no local files (or are filtered)."""
    from pyarrow import dataset, fs

    try:
        fragments = list(data.get_fragments())
    except ValueError:  # filtered: only the whole can be read
        return (Scanned(Found("", "dataset", "the dataset", 0, 0), data, data.schema, data.count_rows()),)
    kind = {dataset.ParquetFileFormat: "parquet", dataset.IpcFileFormat: "arrow"}.get(
        type(getattr(data, "format", None)), ""
    )
    local = isinstance(getattr(data, "filesystem", None), fs.LocalFileSystem)
    files: list[TableFile] = []
    for fragment in fragments if kind and local else []:
        values = dataset.get_partition_keys(fragment.partition_expression)
        keys = {key: pa.scalar(value, data.schema.field(key).type) for key, value in values.items()}
        found = stat(fragment.path, kind, fragment.path, keys)
        files.append(ParquetTable.open(found) if kind == "parquet" else ArrowTable.open(found))
    if files and all(_has_types_of(data.schema, file) for file in files):
        return tuple(files)
    return tuple(_scanned(data, fragment, i) for i, fragment in enumerate(fragments))


def _has_types_of(schema: Any, file: TableFile) -> bool:
    """Whether a file has all columns of a dataset, of its types: it casts others, and fills those that are missing."""
    own = {field.name: field.type for field in file.schema}
    return all(field.name in file.found.keys or own.get(field.name) == field.type for field in schema)


def _scanned(data: Any, fragment: Any, i: int) -> Scanned:
    path = getattr(fragment, "path", None)
    found = Found("", "dataset", path or f"fragment {i} of the dataset", 0, 0)
    if path and getattr(fragment.format, "default_extname", "") not in ("parquet", "ipc", "arrow", "feather"):
        size = fragment.filesystem.get_file_info(path).size or 0  # to count rows of text is to read it
        return Scanned(found, fragment, data.schema, size // max(1, row_bytes(data.schema)))
    return Scanned(found, fragment, data.schema, fragment.count_rows())


@dataclass(frozen=True)
class Scanned:
    """A fragment of a dataset, or a whole one, read by pyarrow's scanner from its beginning."""

    found: Found
    fragment: Any
    schema: Any
    expected_rows: int
    is_text: bool = False

    def extents(self, names: tuple[str, ...], nbytes: int, *, needed: bool = True) -> Iterator[Extent]:
        """Yield all of it."""
        yield Extent(self, 0, 1, self.expected_rows * row_bytes(self.schema))

    def read(self, extent: Extent, schema: Any, rows: int) -> Iterator[Any]:
        """Yield the rows; pyarrow reads ahead as little as it can."""
        options: dict[str, Any] = {"batch_size": rows, "batch_readahead": 0, "use_threads": False}
        if not hasattr(self.fragment, "get_fragments"):
            options["schema"] = self.schema
        with named(extent.name):
            for batch in self.fragment.to_batches(columns=schema.names, fragment_readahead=0, **options):
                yield fitted(pa.Table.from_batches([batch]), schema)

    def where(self, first: int, last: int) -> str:
        """Return the name of the fragment."""
        return repr(self.found.name)
