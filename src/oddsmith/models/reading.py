"""What a fit begins with: rows, labels and weights as a source to fold over, in memory or in pieces elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from oddsmith.design.inputs import check_finite, read_labels, read_offset, read_rows, read_weights
from oddsmith.design.labels import Labels, read_known_labels
from oddsmith.design.reading import through_design
from oddsmith.engines import Engine, MemorySource, engine_of
from oddsmith.models.streaming import open_stream, read_stream
from oddsmith.numerics import Array


@dataclass(frozen=True)
class Data:
    """Classes and a source. ``class_weight`` is known if a first pass was made; ``explain`` looks for bad values."""

    classes: Labels
    source: Any
    class_weight: Array | None = None
    explain: Callable[[], None] | None = None

    def engine(self, threads: int | None) -> Engine:
        """The engine that folds over the source."""
        return engine_of(self.source, threads)


def read_data(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    offset: Any = None,
    how: dict[str, Any] | None = None,
    *,
    reset: bool,
    known: bool = False,
    draw: bool = False,
) -> Data:
    """Read rows and labels (``reset``: as those that the columns and classes are learned from).

    With ``known`` the classes are those of the model, whether or not the labels hold them all. NaN is not yet looked
    for in rows in memory. Of data in pieces (``how``: see `scan`) one pass is made, which may ``draw`` a sample.
    """
    stream = open_stream(X, y, sample_weight, offset, how)
    if stream is not None:
        read = read_stream(model, model.design, stream, reset=reset, draw=draw)
        return Data(read.classes, read.source, read.weight)
    X, y, sample_weight, offset = through_design(model, model.design, X, y, sample_weight, offset, reset=reset)
    rows = read_rows(model, X, reset=reset)
    n = rows.shape[0]
    classes, t = read_known_labels(y, n, model.classes_) if known else read_labels(y, n)
    source = MemorySource(rows, t, len(classes), read_weights(sample_weight, n), read_offset(offset, n, len(classes)))
    return Data(classes, source, None, lambda: check_finite(rows, getattr(model, "feature_names_in_", None)))
