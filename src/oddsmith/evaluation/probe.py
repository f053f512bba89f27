"""Linear probes: logistic or softmax regression on embeddings, over a list of prior scales, each fit certified."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from oddsmith.errors import InvalidInputError
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.priors import checked_scales
from oddsmith.records import Certificate, Table
from oddsmith.rows.device import import_torch, is_on_device

SCALES = tuple(float(scale) for scale in np.geomspace(0.01, 100.0, 17))


@dataclass(frozen=True, kw_only=True)
class ProbePoint:
    """One prior scale: scores on held-out rows, the certificate of the fit, and its time in seconds."""

    scale: float
    log_loss: float
    std_error: float
    accuracy: float
    certificate: Certificate
    seconds: float


@dataclass(frozen=True, eq=False)
class Probe(Table):
    """The result of `probe`: one row for each scale, and the best model.

    Attributes
    ----------
    points : tuple of ProbePoint
        In the order of the scales.
    model : LogisticRegression
        Fitted to the training rows with the best scale.

    ``to_dict()`` has the columns ``scale``, ``log_loss`` (mean over held-out rows), ``std_error`` (of that mean),
    ``accuracy``, ``gap`` (the bound of the certificate), ``converged``, ``passes`` and ``seconds``. To plot it:
    ``oddsmith.plots.WidthDisplay.from_probe(result).plot()``.
    """

    points: tuple[ProbePoint, ...]
    model: LogisticRegression

    @property
    def best_scale(self) -> float:
        """The scale with the smallest log loss on held-out rows."""
        return min(self.points, key=lambda point: point.log_loss).scale

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns as lists."""
        names = ("scale", "log_loss", "std_error", "accuracy")
        table: dict[str, list[Any]] = {name: [vars(point)[name] for point in self.points] for name in names}
        certified = ("gap", "converged", "passes")
        table |= {name: [vars(point.certificate)[name] for point in self.points] for name in certified}
        return {**table, "seconds": [point.seconds for point in self.points]}


def probe(
    X: Any,
    y: Any,
    scales: Sequence[float] | None = None,
    *,
    validation: float = 0.2,
    tol: float = 1e-7,
    seed: int = 0,
    device: str | None = None,
) -> Probe:
    """Fit a linear probe for each of several prior scales, and score it on held-out rows.

    Each fit minimises the cross-entropy plus ½‖w‖²/σ², starts from the previous fit, and is certified to be within
    ``tol`` (relative) of its optimum.

    Parameters
    ----------
    X : array or tensor, N × D
        Embeddings. A tensor (or DLPack array) on a GPU is used in place.
    y : labels of length N
        Two classes or more.
    scales : list of numbers, optional
        Standard deviations σ of the prior; default: 17 from 0.01 to 100.
    validation : float
        Share of the rows to hold out, chosen at random.
    tol : float
        Relative tolerance of each fit.
    seed : int
        Random seed of the split.
    device : str, optional
        Device to move the rows to, such as ``"cuda"``.

    Returns
    -------
    Probe
        One row for each scale, and ``model``, fitted to the training rows with the best scale (``best_scale``).

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(3, size=300)
    >>> result = probe(rng.normal(size=(300, 8)) + np.eye(3, 8)[y], y, scales=[0.01, 0.1, 1.0])
    >>> result.best_scale, all(result.to_dict()["converged"])
    (0.1, True)
    """
    asked = SCALES if scales is None else scales
    checked_scales(asked)
    grid = [float(scale) for scale in asked]
    if not 0.0 < validation < 1.0:
        raise InvalidInputError(f"validation must be a share between 0 and 1, found {validation!r}.")
    fits = _on_device(X, y, grid, validation, tol, seed, device) if device is not None or is_on_device(X) else None
    fits = _in_memory(X, y, grid, validation, tol, seed) if fits is None else fits
    points, best, model = [], np.inf, None
    began = time.perf_counter()
    for scale, losses, accuracy, certificate, fitted in fits:
        mean, error = float(losses.mean()), float(losses.std() / np.sqrt(len(losses)))
        seconds = time.perf_counter() - began
        points.append(
            ProbePoint(
                scale=scale, log_loss=mean, std_error=error, accuracy=accuracy, certificate=certificate, seconds=seconds
            )
        )
        if model is None or mean < best:
            best, model = mean, fitted
        began = time.perf_counter()
    assert model is not None
    return Probe(tuple(points), model())


Fitted = tuple[float, Array, float, Certificate, Callable[[], LogisticRegression]]
"""A scale, the losses of held-out rows, the accuracy there, the certificate, and how to get the model."""


def _split(n: int, validation: float, seed: int) -> tuple[Array, Array]:
    """Return the rows to fit and the rows held out, each in order."""
    order = np.random.default_rng(seed).permutation(n)
    held = max(1, round(validation * n))
    if held >= n:
        raise InvalidInputError(f"X has {n} rows: too few to hold some out.")
    return np.sort(order[held:]), np.sort(order[:held])


def _in_memory(X: Any, y: Any, scales: list[float], validation: float, tol: float, seed: int) -> Iterator[Fitted]:
    """Yield the fits of rows in memory."""
    X, y = np.asarray(X), np.asarray(y)
    train, held = _split(len(X), validation, seed)
    rows, labels, model = X[train], y[train], LogisticRegression(tol=tol, warm_start=True)
    for scale in scales:
        model = copy(model).set_params(prior=scale).fit(rows, labels)
        P = model.predict_log_proba(X[held])
        codes = np.searchsorted(model.classes_, y[held])
        if not np.array_equal(model.classes_[np.minimum(codes, len(model.classes_) - 1)], y[held]):
            raise InvalidInputError("A class has held-out rows only. Give more rows of it, or another seed.")
        accuracy = float((P.argmax(axis=1) == codes).mean())
        yield scale, -P[np.arange(len(codes)), codes], accuracy, model.certificate_, partial(_as_is, model)


def _as_is(model: LogisticRegression) -> LogisticRegression:
    return model


def _on_device(
    X: Any, y: Any, scales: list[float], validation: float, tol: float, seed: int, device: str | None
) -> Iterator[Fitted]:
    """Yield the fits of rows on a device; those held out are left out there by number, so that no row is copied."""
    torch = import_torch()
    from oddsmith.data_access.device_data import device_source
    from oddsmith.likelihood.device_sweep import held_out_scores, sweep_scales

    source, classes, _ = device_source(X, y, device=device)
    train, held = _split(source.n_rows, validation, seed)
    rows, s = torch.as_tensor(held, device=source.X.device), torch.ones(source.n_rows, dtype=torch.float64)
    s[torch.as_tensor(held)] = 0.0
    s = s.to(source.device)
    if len(classes) == 2:
        for scale in scales:
            model = LogisticRegression(prior=scale, tol=tol).fit(X, y, sample_weight=s, device=device or source.device)
            w, b = (torch.as_tensor(v, device=source.device) for v in (model.coef_[0], model.intercept_))
            both = torch.stack([torch.zeros_like(w), w]), torch.cat([torch.zeros_like(b), b])
            yield scale, *held_out_scores(source, rows, *both), model.certificate_, partial(_as_is, model)
        return
    where = {"device": device or source.device}
    _, problem = LogisticRegression(tol=tol)._problem(X, y, s, None, where, reset=True)
    there: Any = problem.source
    if there.slice_rows is None:  # rows that are streamed are read in any case, and have weight 0
        chosen = torch.as_tensor(train, device=source.device)
        problem = replace(problem, source=replace(there, rows=chosen, s=None))
    for point in sweep_scales(problem, scales):
        model = LogisticRegression(prior=point.scale, tol=tol)
        scores = held_out_scores(source, rows, point.W, point.b)
        yield point.scale, *scores, point.certificate, partial(model.fit, X, y, sample_weight=s, **where)
