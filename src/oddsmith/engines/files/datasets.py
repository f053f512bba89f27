"""pyarrow datasets: local Parquet and Arrow files are read as files, all others through the dataset's scanner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import dataset, fs

from oddsmith.engines.files.columnar import ArrowTable, ParquetTable
from oddsmith.engines.files.paths import InputFile, stat
from oddsmith.engines.files.schemas import conform, row_bytes
from oddsmith.engines.files.table_file import FileRange, TableFile, reading

COLUMNAR = {dataset.ParquetFileFormat: "parquet", dataset.IpcFileFormat: "arrow"}


def from_dataset(data: dataset.Dataset) -> tuple[list[TableFile], tuple[str, ...]]:
    """Return the files of a dataset and its columns; its fragments if they are not local files or are filtered."""
    names = tuple(data.schema.names)
    try:
        fragments = list(data.get_fragments())
    except ValueError:  # filtered: only the whole can be read
        return [_from_fragment(data.schema, data, "the dataset")], names
    local = isinstance(data, dataset.FileSystemDataset) and isinstance(data.filesystem, fs.LocalFileSystem)
    kind = COLUMNAR.get(type(data.format)) if local else None
    files: list[TableFile] = []
    for fragment in fragments if kind else []:
        values = dataset.get_partition_keys(fragment.partition_expression)
        keys = {key: pa.scalar(value, data.schema.field(key).type) for key, value in values.items()}
        file = stat(fragment.path, kind or "", fragment.path, keys)
        files.append(ParquetTable.open(file) if kind == "parquet" else ArrowTable.open(file))
    if files and all(_has_types_of(data.schema, file) for file in files):
        return files, names
    fragments = [(part, f"fragment {i} of the dataset") for i, part in enumerate(fragments)]
    return [_from_fragment(data.schema, part, name) for part, name in fragments], names


def _has_types_of(schema: pa.Schema, file: TableFile) -> bool:
    """Whether a file has all columns of a dataset with its types; otherwise the dataset must cast or fill columns."""
    own = {field.name: field.type for field in file.schema}
    return all(field.name in file.file.keys or own.get(field.name) == field.type for field in schema)


def _from_fragment(schema: pa.Schema, fragment: dataset.Fragment | dataset.Dataset, name: str) -> DatasetFragment:
    is_file = isinstance(fragment, dataset.FileFragment)
    if is_file and not isinstance(fragment.format, tuple(COLUMNAR)):  # to count rows of text is to read it
        rows = (fragment.filesystem.get_file_info(fragment.path).size or 0) // max(1, row_bytes(schema))
    else:
        rows = fragment.count_rows()
    file = InputFile(path="", kind="dataset", name=fragment.path if is_file else name, size=0, time=0)
    return DatasetFragment(file=file, schema=schema, expected_rows=rows, fragment=fragment)


@dataclass(frozen=True, kw_only=True)
class DatasetFragment(TableFile):
    """A fragment of a dataset, or a whole one, read by pyarrow's scanner from its beginning."""

    fragment: dataset.Fragment | dataset.Dataset

    def read(self, part: FileRange, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
        # pyarrow reads ahead as little as it can
        options = {"batch_size": rows, "batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
        if not isinstance(self.fragment, dataset.Dataset):
            options["schema"] = self.schema
        with reading(part.name):
            for batch in self.fragment.to_batches(columns=schema.names, **options):
                yield conform(pa.Table.from_batches([batch]), schema)
