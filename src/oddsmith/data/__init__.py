"""Small example tables; README.md in this folder states their sources and licences."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A bundled table: its name, description, target column, size and licence."""

    name: str
    about: str
    target: str
    rows: int
    columns: int
    classes: int
    licence: str


DATASETS = {
    name: Dataset(
        name=name, about=about, target=target, rows=size[0], columns=size[1], classes=size[2], licence=licence
    )
    for name, about, target, size, licence in (
        ("breast_cancer", "cell nuclei of benign and malignant tumours", "diagnosis", (569, 31, 2), "CC BY 4.0"),
        ("budworm", "moths that died of a dose; count has the number of each row", "dead", (24, 4, 2), "facts"),
        ("iris", "leaves of three species of iris", "species", (150, 5, 3), "CC BY 4.0"),
        ("penguins", "three species of penguins, with missing values", "species", (344, 8, 3), "CC0 1.0"),
        ("wine", "chemistry of wines from three cultivars", "cultivar", (178, 14, 3), "CC BY 4.0"),
    )
}


def dataset_path(name: str) -> Any:
    """Return the path of a bundled table; raise an error that lists them if there is none of this name.

    >>> dataset_path("penguins").name
    'penguins.csv.gz'
    """
    if name not in DATASETS:
        from oddsmith.errors import UnknownNameError

        raise UnknownNameError("data set", name, DATASETS)
    return files(__name__).joinpath(f"{name}.csv.gz")


def load_dataset(name: str) -> Any:
    """Return a bundled table as an Arrow table; missing values are null.

    >>> table = load_dataset("penguins")
    >>> table.num_rows, table.column_names[:2], table["sex"].null_count
    (344, ['species', 'island'], 11)
    """
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(strings_can_be_null=True)
    with dataset_path(name).open("rb") as file, pa.CompressedInputStream(file, "gzip") as stream:
        return csv.read_csv(stream, convert_options=options)
