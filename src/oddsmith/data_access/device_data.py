"""Rows and labels on a device as training data; rows in memory, moved to one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator

from oddsmith.data_access.device_tables import arrays_of_table, is_table
from oddsmith.data_access.training_data import TrainingData
from oddsmith.engines import AnySource
from oddsmith.engines.gpu import DeviceSource, register, resident
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.device.tensors import label_range
from oddsmith.numerics import Array
from oddsmith.priors import LaplacePrior
from oddsmith.protocols import Labels
from oddsmith.rows.device import Tensor, as_tensor, checked_device, is_on_device

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TABLE = 1 << 16
"""Range of whole-number labels up to which codes are looked up in a table, on the device."""
HEADROOM = 0.15
"""Part of the free memory of a device that rows leave to the fit."""


def read_for_device(
    model: BaseEstimator,
    X: object,
    y: object,
    sample_weight: object,
    offset: object,
    how: dict[str, Any],
    *,
    reset: bool,
) -> TrainingData:
    """Read rows, labels and weights as tensors: where they lie, or on ``how["device"]``."""
    others = sorted(set(how) - {"device"})
    refused = {"offset": offset is not None, "basis": model.basis is not None, "design": model.design is not None}
    refused["class_weight"] = model.class_weight is not None
    refused["reference"] = vars(model).get("reference") is not None
    for name in [*others, *(name for name, given in refused.items() if given)]:
        raise InvalidInputError(
            f"A fit on a device takes rows of numbers, labels and sample weights, and {name}= was given. Leave it out, "
            "or fit on the CPU: pass the rows as an array in memory, without device=."
        )
    if isinstance(vars(model).get("prior"), LaplacePrior):
        raise InvalidInputError(
            "A LaplacePrior is fitted on the CPU: pass the rows as an array in memory, without device=."
        )
    names = None
    if is_table(X):
        X, y, sample_weight, names = arrays_of_table(X, y, sample_weight)
    try:
        source, classes, counts = device_source(X, y, sample_weight, device=how.get("device"))
    except torch.OutOfMemoryError:
        source = None  # its traceback would keep tensors
    if source is None:
        torch.cuda.empty_cache()
        raise InvalidInputError(
            "The device ran out of memory for the labels, before the fit began: it has "
            f"{torch.cuda.mem_get_info()[0] / 1e9:.3g} GB left. Free tensors, or give fewer rows. A fit takes a tenth "
            "of the size of its rows and 0.2 GB beside them."
        )
    if reset:
        model.n_features_in_ = source.shape.M
        vars(model).pop("feature_names_in_", None)
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        vars(model).pop("design_", None)
    elif source.shape.M != model.n_features_in_ or classes.tolist() != model.classes_.tolist():
        raise InvalidInputError(
            f"X has {source.shape.M} columns and y the classes {classes.tolist()[:8]}; the model was fitted to "
            f"{model.n_features_in_} columns and {model.classes_.tolist()[:8]}."
        )
    weights = counts if source.s is None else class_weights(source)
    return TrainingData(classes, cast("AnySource", source), weights, lambda: check_finite(source))


def device_source(
    X: Any, y: Any, sample_weight: Any = None, *, device: object = None
) -> tuple[DeviceSource, Labels, Array]:
    """Return a source of rows, labels and weights on a device, the classes and their counts.

    Rows that are larger than the device's memory stay where they are, and are copied over slice by slice in every pass.
    """
    rows = checked_rows(X)
    place = rows.device if device is None else checked_device(device)
    if y is None:
        raise InvalidInputError("Rows on a device need labels y beside them: a tensor or an array of one label a row.")
    classes, t, counts = read_labels(y, place)
    n = int(rows.shape[0])
    if len(t) != n:
        raise InvalidInputError(f"X has {n} rows, and y {len(t)} labels.")
    s = None if sample_weight is None else as_tensor(sample_weight, place).to(torch.float64)
    if s is not None and (s.shape != (n,) or bool((s < 0).any()) or not bool(torch.isfinite(s).all())):
        raise InvalidInputError(f"sample_weight must be {n} numbers of at least 0, one a row.")
    source = DeviceSource(X=rows, t=t, K=len(classes), s=s)
    return (source if rows.device == place else on_its_way(source)), classes, counts


def checked_rows(X: Any) -> Tensor:
    """Return rows as a tensor of floating-point numbers, N × M, without a copy where it is one."""
    rows = as_tensor(X)
    if rows.ndim != 2 or 0 in rows.shape:
        raise InvalidInputError(f"Expected rows of numbers, N × D with N and D at least 1; found {tuple(rows.shape)}.")
    if rows.dtype not in FLOATS:
        if rows.dtype.is_complex:
            raise InvalidInputError(f"Rows hold numbers of type {rows.dtype}; expected real ones.")
        rows = rows.to(torch.float64 if rows.element_size() > 2 else torch.float32)
    return rows


def read_labels(y: Any, device: Any) -> tuple[Labels, Tensor, Array]:
    """Return the classes, sorted, the code of each label on the device, and the rows of each class.

    Whole numbers in a tensor stay there; labels of any other kind are sorted in memory.
    """
    labels = as_tensor(y) if is_on_device(y) else None
    if labels is not None and not labels.dtype.is_floating_point and not labels.dtype.is_complex and labels.ndim == 1:
        labels = labels.to(device)
        whole = labels.to(torch.int64) if labels.dtype == torch.bool else labels
        least, most, total, bits = label_range(whole)
        kind = bool if labels.dtype == torch.bool else np.int64
        if most == least + 1:  # every label is one of two: no table is needed
            ones = total - least * len(whole)
            t = (whole != least).view(torch.uint8) if bits is None or least % 2 else bits
            return np.array([least, most]).astype(kind), t, np.array([len(t) - ones, ones], dtype=np.float64)
        if most - least < TABLE:
            places = (whole - least).to(torch.int32)
            counts = torch.bincount(places, minlength=most - least + 1)
            codes = torch.cumsum(counts > 0, dim=0) - 1
            found = np.flatnonzero(counts.cpu().numpy())
            t = codes.to(_code_type(len(found)))[places]
            return _checked((found + least).astype(kind)), t, counts.cpu().numpy()[found].astype(np.float64)
    from oddsmith.design.inputs import read_labels as read_in_memory

    values = labels.cpu().numpy() if labels is not None else np.asarray(y)
    found, t = read_in_memory(values, len(values))
    return found, torch.as_tensor(t, device=device).to(_code_type(len(found))), np.bincount(t).astype(np.float64)


def _code_type(K: int) -> Any:
    return torch.uint8 if K <= 256 else torch.int32


def _checked(classes: Labels) -> Labels:
    if len(classes) < 2:
        raise InvalidInputError(f"y holds one class only, {classes.tolist()}; a classifier needs two.")
    return classes


def class_weights(source: DeviceSource) -> Array:
    """Return the total weight of the rows of each class."""
    counts = torch.bincount(source.t.to(torch.int32), weights=source.s, minlength=source.K)
    return np.asarray(counts.cpu().numpy(), dtype=np.float64)


def check_finite(source: DeviceSource) -> None:
    """Raise where rows hold NaN or infinity, naming the first."""
    start = 0
    for block in source.blocks():
        for first in range(0, len(block.X), 1 << 18):
            bad = ~torch.isfinite(block.X[first : first + (1 << 18)])
            if bool(bad.any()):
                row, column = torch.nonzero(bad)[0].tolist()
                raise InvalidInputError(
                    f"Column x{column} has a missing or infinite value in row {start + first + row}, and this model "
                    "fits complete rows only. Fill such values first, or leave those rows out."
                )
        start += len(block.X)


def on_its_way(source: DeviceSource) -> DeviceSource:
    """Return a source whose rows, in memory now, are on the device: all of them, or slices in every pass."""
    row = int(source.X.shape[1]) * source.X.element_size()
    if source.device.type != "cuda":
        return DeviceSource(X=source.X.to(source.device), t=source.t, K=source.K, s=source.s)
    free, _ = torch.cuda.mem_get_info(source.device)
    room, slices = free * (1.0 - HEADROOM), max(16, (1 << 28) // row // 16 * 16)  # sizes that kernels are compiled for
    sliced = DeviceSource(X=source.X, t=source.t, K=source.K, s=source.s, slice_rows=slices)
    if row * source.n_rows + 2 * row * slices <= room:
        return resident(sliced)
    X = source.X.detach()  # a tensor of its own: with it the registration ends
    return replace(sliced, X=X, registered=register(X))
