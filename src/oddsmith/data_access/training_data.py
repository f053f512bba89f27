"""Training data: rows, labels and weights as a source to fold over, in memory or in pieces."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator

from oddsmith.data_access.streamed_fit import TrainingData, open_stream, read_stream
from oddsmith.design.fitted_design import through_design
from oddsmith.design.inputs import check_finite, feature_names, read_labels, read_offset, read_rows, read_weights
from oddsmith.design.labels import read_known_labels
from oddsmith.engines import MemorySource


def read_data(
    model: BaseEstimator,
    X: object,
    y: object,
    sample_weight: object = None,
    offset: object = None,
    how: dict[str, Any] | None = None,
    *,
    reset: bool,
    known: bool = False,
    draw: bool = False,
) -> TrainingData:
    """Read rows and labels (``reset``: as those that the columns and classes are learned from).

    With ``known`` the classes are those of the model, whether or not the labels hold them all. NaN is not yet looked
    for in rows in memory. Of data in pieces (``how``: see `scan`) one pass is made, which may ``draw`` a sample.
    """
    stream = open_stream(X, y, sample_weight, offset, how)
    if stream is not None:
        return read_stream(model, model.design, stream, reset=reset, draw=draw)
    X, y, sample_weight, offset = through_design(model, model.design, X, y, sample_weight, offset, reset=reset)
    rows = read_rows(model, X, reset=reset)
    n = rows.shape[0]
    classes, t = read_known_labels(y, n, model.classes_) if known else read_labels(y, n)
    source = MemorySource(rows, t, len(classes), read_weights(sample_weight, n), read_offset(offset, n, len(classes)))
    return TrainingData(classes, source, None, lambda: check_finite(rows, feature_names(model)))
