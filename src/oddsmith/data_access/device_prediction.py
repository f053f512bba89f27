"""Predictions for rows on a device: what comes back is of the kind that was given, where the rows lie."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator

from oddsmith.data_access.device_data import checked_rows
from oddsmith.errors import InvalidInputError
from oddsmith.kernels.device.tensors import chunks
from oddsmith.rows.device import DeviceRows, Tensor

ON_DEVICE = ("predict_proba", "predict_log_proba", "decision_function")
"""Methods of logistic models that are computed on the device; others go through memory, a slice at a time."""


def predict_on_device(
    model: BaseEstimator, method: Callable[..., Any], X: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return ``method(model, X)`` for rows on a device: numbers where the rows lie, labels in memory."""
    rows, fitted = checked_rows(X), vars(model)
    if rows.shape[1] != fitted.get("n_features_in_", rows.shape[1]):
        raise InvalidInputError(f"X has {rows.shape[1]} columns, and the model was fitted to {model.n_features_in_}.")
    logit = fitted.get("link_") == "logit" and model.basis is None
    if logit and method.__name__ in ON_DEVICE and not args and not kwargs:
        return _as_given(_activation_based(model, method.__name__, rows), X)
    parts = []
    for start, stop in chunks(int(rows.shape[0]), int(rows.shape[1])):
        parts.append(method(model, DeviceRows(rows[start:stop]).concrete().X, *args, **kwargs))
    if not all(isinstance(part, np.ndarray) for part in parts):
        raise InvalidInputError(f"{method.__name__} takes rows in memory: pass X.cpu().numpy().")
    whole = np.concatenate(parts)
    return _as_given(torch.as_tensor(whole, device=rows.device), X) if whole.dtype.kind == "f" else whole


def _activation_based(model: BaseEstimator, name: str, rows: Tensor) -> Tensor:
    """Return activations or (log) probabilities of a logistic model, in float32, of rows in float64 in float64."""
    kind = torch.float64 if rows.dtype == torch.float64 else torch.float32
    W, b = (torch.as_tensor(part, device=rows.device) for part in (model.coef_, model.intercept_))
    K = len(model.classes_)
    one = name == "decision_function" and K == 2
    out = torch.empty((len(rows), 1 if one else K), dtype=kind, device=rows.device)
    for start, stop in chunks(int(rows.shape[0]), max(int(rows.shape[1]), K), 1 << 23):
        A = rows[start:stop].to(torch.float64) @ W.T + b
        if not one:
            A = torch.cat([torch.zeros_like(A), A], dim=1) if K == 2 else A
            A = A if name == "decision_function" else torch.log_softmax(A, dim=1)
        out[start:stop] = A.exp() if name == "predict_proba" else A
    if not bool(torch.isfinite(out).all()) and name != "predict_log_proba":
        raise InvalidInputError("Some row holds NaN, infinity, or values whose activation leaves the range of numbers.")
    return out[:, 0] if one else out


def _as_given(values: Tensor, X: object) -> Any:
    """Return a tensor as an array of the library that the rows came from."""
    if isinstance(X, torch.Tensor):
        return values
    library = type(X).__module__.partition(".")[0].replace("jaxlib", "jax")
    return import_module("jax.numpy" if library == "jax" else library).from_dlpack(values)
