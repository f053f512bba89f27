"""Real data sets with the answers that R gives, for tests that hold a fit against an outside number.

Used as::

    @pytest.mark.parametrize("case", cases("glm_*"), ids=str)
    def test_weights_equal_r_glm(case): ...

The files, their fields and the scripts that made them are described in ``tests/reference/README.md``.
"""

import csv
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.reference.common import sparse_rule

FOLDER = Path(__file__).parent / "reference"

Label = str | int


@dataclass(frozen=True, eq=False)
class Case:
    """A data set, and what R says about it.

    The arrays are read-only, because the tests of one module share the case.
    """

    name: str
    X: NDArray[np.float64] = field(repr=False)  # N × D, columns in the order of feature_names
    feature_names: tuple[str, ...] = field(repr=False)
    y: NDArray[Any] = field(repr=False)  # N labels, int64 or str
    weights: NDArray[np.float64] | None = field(repr=False)
    offset: NDArray[np.float64] | None = field(repr=False)
    classes: tuple[Label, ...] = field(repr=False)  # the reference first, so not always sorted
    expected: dict[str, Any] = field(repr=False)  # the whole record, as in the JSON file

    def __str__(self) -> str:
        return self.name


def cases(pattern: str) -> list[Case]:
    """Every case whose name matches ``pattern`` ("glm_*"; "glm_*.json" is understood too), in order of name.

    A pattern that matches nothing is an error: a test without a case would pass.
    """
    pattern = pattern.removesuffix(".json")
    names = sorted(path.stem for path in FOLDER.glob("*.json"))
    found = [_read_case(name) for name in names if fnmatchcase(name, pattern)]
    if not found:
        raise LookupError(f"No reference case matches {pattern!r}. There are: {', '.join(names)}.")
    return found


def _read_case(name: str) -> Case:
    record = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    if record["data"] is None:
        return _generated_case(record)
    table = _read_table(record["data"])
    X = np.column_stack([_numbers(table[column]) for column in record["columns"]])
    weights = None if record["weights"] is None else _numbers(table[record["weights"]])
    offset = None if record["offset"] is None else _numbers(table[record["offset"]])
    y = np.array(table[record["target"]])
    if all(isinstance(label, int) for label in record["classes"]):
        y = y.astype(np.int64)
    for array in (X, y, weights, offset):
        if array is not None:
            array.flags.writeable = False
    return Case(
        name=name,
        X=X,
        feature_names=tuple(record["columns"]),
        y=y,
        weights=weights,
        offset=offset,
        classes=tuple(record["classes"]),
        expected=record,
    )


def _generated_case(record: dict[str, Any]) -> Case:
    """A case whose table follows a rule."""
    X, y = sparse_rule(**record["rule"])
    X.flags.writeable = y.flags.writeable = False
    names, classes = tuple(record["columns"]), tuple(record["classes"])
    return Case(record["name"], X, names, y, weights=None, offset=None, classes=classes, expected=record)


def _numbers(texts: Sequence[str]) -> NDArray[np.float64]:
    return np.array(texts, dtype=np.float64)


@cache
def _read_table(file: str) -> MappingProxyType[str, tuple[str, ...]]:
    """The columns of a CSV file by name, as text."""
    path = FOLDER / "data" / file
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines)
    return MappingProxyType(dict(zip(header, zip(*rows, strict=True), strict=True)))
