"""Learning row by row: the state behind ``partial_fit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.engines import MemoryEngine, MemorySource
from oddsmith.errors import InvalidInputError
from oddsmith.models.coordinates import Coordinates
from oddsmith.models.likelihood import Problem, make_objective
from oddsmith.numerics import Array
from oddsmith.priors import as_prior
from oddsmith.solvers.base import Recorder
from oddsmith.solvers.certificate import certify
from oddsmith.solvers.sgd import SGD


@dataclass
class OnlineState:
    """Coordinates fixed by the first rows, the weights in them, their average, and how many steps were taken.

    In the average later steps count for more: step n of N has the weight (n/N)^`FORGET`, about.
    """

    coordinates: Coordinates
    x: Array
    average: Array
    steps: int
    weight: float
    rng: np.random.Generator
    first_batch: int


FORGET = 3.0


def partial_fit(model: Any, rows: Any, y: Any, classes: Any, s: Array | None) -> None:
    """Take one epoch over checked rows and assign the model's attributes."""
    known = _classes(model, classes)
    t = _codes(known, y, rows.shape[0])
    K = len(known)
    source = MemorySource(rows, t, K, s)
    weight = np.ones(K) * (rows.shape[0] if s is None else s.sum()) / K
    problem = Problem(
        MemoryEngine(model.threads),
        source,
        as_prior(model.prior),
        bool(model.fit_intercept),
        model._reference_code(known),
        "sgd",
        model.tol,
        1,
        weight,
        names=model._names,
    )
    state = getattr(model, "_sgd_state", None)
    objective, coordinates, common = make_objective(problem, None if state is None else state.coordinates)
    if state is None:
        x = np.zeros(objective.size)
        if hasattr(model, "coef_"):
            x = coordinates.from_user(*model._against_first())
        state = OnlineState(coordinates, x, x, 0, 0.0, np.random.default_rng(model.seed), rows.shape[0])
    solver = model.solver if isinstance(model.solver, SGD) else SGD()
    decay = solver.decay or max(1000.0, float(state.first_batch))
    first = solver.step_size or 1.0 / objective.mean_square
    steps = first / (1.0 + (state.steps + np.arange(rows.shape[0])) / decay) ** solver.power
    before = state.rng.bit_generator.state
    with np.errstate(over="ignore", invalid="ignore"):
        x, mean = objective.sgd_epoch(state.x, state.rng, steps, state.weight + objective.weight)
    if not np.isfinite(x).all():
        state.rng.bit_generator.state = before
        raise InvalidInputError(
            "These rows lead to weights that are not finite; the model is as it was before them. They are far from "
            "the first ones in some column, or the steps are too long: look at their units, or give SGD a smaller "
            "step_size."
        )
    state.x, state.weight = x, state.weight + objective.weight
    n, state.steps = rows.shape[0], state.steps + rows.shape[0]
    state.average = state.average + (1.0 + FORGET) * n / (state.steps + FORGET * n) * (mean - state.average)
    _assign(model, objective, state, known, common)


def _classes(model: Any, classes: Any) -> npt.NDArray[Any]:
    if not hasattr(model, "classes_"):
        known = np.unique(np.asarray(classes))
        if len(known) < 2:
            raise InvalidInputError(f"classes must hold at least two labels, found {known.tolist()}.")
        return known
    if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), model.classes_):
        raise InvalidInputError(
            f"classes={np.unique(np.asarray(classes)).tolist()} differ from those of the first call, "
            f"{model.classes_.tolist()}."
        )
    return model.classes_  # type: ignore[no-any-return]


def _codes(known: npt.NDArray[Any], y: Any, n: int) -> npt.NDArray[np.int32]:
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InvalidInputError(f"y has shape {labels.shape}; expected ({n},), one label a row.")
    codes = np.searchsorted(known, labels)
    codes[codes == len(known)] = 0
    unknown = known[codes] != labels
    if unknown.any():
        raise InvalidInputError(
            f"y holds the label {labels[unknown].tolist()[0]!r}, which is not among the classes {known.tolist()}."
        )
    return codes.astype(np.int32)


def _assign(model: Any, objective: Any, state: OnlineState, classes: npt.NDArray[Any], common: Array) -> None:
    W, b = state.coordinates.to_user(state.average)
    if len(classes) > 2:
        W, b = np.vstack([np.zeros(W.shape[1]), W]), np.concatenate([[0.0], b])
        code = model._reference_code(classes)
        W = W - (W.mean(axis=0) - common[1:] if code is None else W[code])
        b = b - (b.mean() - common[0] if code is None else b[code])
    e = objective.evaluate(state.average)
    recorder = Recorder(objective)
    recorder.add(e, 0.0)
    model.classes_ = classes
    model.coef_, model.intercept_ = W, b
    model.log_likelihood_ = e.log_likelihood
    model.n_parameters_ = (len(classes) - 1) * (W.shape[1] + int(bool(model.fit_intercept)))
    model.aliased_ = []
    model.trace_ = recorder.trace()
    model.certificate_ = certify(objective, objective.evaluate(state.average, order=2), model.tol)
    model.n_iter_, model.link_ = state.steps, "logit"
    model.class_prior_ = None  # the shares of all batches are not kept
    model._sgd_state = state
    model._learned = model._recall = None
