"""Labels of parts of the rows, which may lack classes, and the union of their classes."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import column_or_1d

from oddsmith.design.frame import Coded, arrow_array, code
from oddsmith.design.input_errors import unlabelled
from oddsmith.design.inputs import Codes, as_array, check_labels, read_labels
from oddsmith.design.levels import few, level_weights
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.kernels.texts import recode
from oddsmith.protocols import Indices, Labels


def union_of_classes(a: Labels, b: Labels) -> tuple[Labels, Indices, Indices]:
    """Return all classes, sorted, and where those of ``a`` and of ``b`` are among them."""
    same = np.array_equal(a, b) and a.dtype == b.dtype
    if same or not len(a) or not len(b):  # no rows, or none that are complete: of no type
        return a if len(a) else b, np.arange(len(a)), np.arange(len(b))
    words = {"U": "words", "S": "words", "T": "words", "O": "objects"}
    if len({words.get(labels.dtype.kind, "numbers") for labels in (a, b)}) > 1:
        raise InvalidTypeError(
            f"The labels {few(a.tolist())} and {few(b.tolist())} are of different types. Convert them all to one type."
        )
    classes = np.unique(np.concatenate([a, b]))
    return classes, np.searchsorted(classes, a), np.searchsorted(classes, b)


def code_labels(values: object) -> tuple[Labels, Codes]:
    """Return the classes in a column of labels (an array, or a series of any library) and the code of each row's.

    Strings are coded by Arrow, without a Python object for each. Codes of levels in order stay as they are.

    >>> import pyarrow as pa
    >>> classes, codes = code_labels(pa.chunked_array([["b", "a", "b"]]))
    >>> classes.tolist(), codes.tolist()
    (['a', 'b'], [1, 0, 1])
    """
    if isinstance(values, Coded):
        coded = values
    else:
        series: object = nw.from_native(values, series_only=True, pass_through=True)
        if not isinstance(series, nw.Series) or series.dtype not in (nw.String, nw.Categorical, nw.Enum):
            labels = np.asarray(as_array(series))
            return read_some_labels(labels, len(labels))
        coded = code(arrow_array(series))
    counts = level_weights(coded.codes, len(coded.levels), None) if coded.counts is None else coded.counts
    if counts[0]:
        raise unlabelled("missing values", coded.codes < 0)
    found, classes = np.flatnonzero(counts[1:]), np.array(coded.levels, dtype=object)
    order = found[np.argsort(classes[found])]
    if isinstance(values, Coded) and np.array_equal(order, np.arange(len(classes))):
        return classes, coded.codes
    rank = np.zeros(len(classes), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    t = np.empty(len(coded.codes), dtype=np.int32)
    recode(coded.codes, rank, t)
    return classes[order], t


def read_some_labels(y: object, n: int, classes: npt.ArrayLike | None = None) -> tuple[Labels, Codes]:
    """Return the classes of a batch, which may be a single one, and the code of each row's class.

    >>> classes, codes = read_some_labels(["b", "b"], 2, None)
    >>> classes.tolist(), codes.tolist()
    (['b'], [0, 0])
    """
    if y is None:
        return read_labels(y, n)
    with as_input_errors():
        labels = column_or_1d(np.asarray(y), warn=True)
        known = None if classes is None else np.unique(np.asarray(classes))
    if known is None:
        one = len(labels) == n > 0 and labels[0] is not None and bool((labels == labels[0]).all())
        return (check_labels(labels[:1], 1), np.zeros(n, dtype=np.int32)) if one else read_labels(labels, n)
    # Every class once in front: then the labels are checked and coded as in fit.
    found, t = read_labels(np.concatenate([known, labels]), len(known) + n)
    if len(found) > len(known):
        unknown = next(label for label in found.tolist() if label not in known.tolist())
        raise InvalidInputError(f"y holds the label {unknown!r}, which is not among classes={known.tolist()}.")
    return known, t[len(known) :]
