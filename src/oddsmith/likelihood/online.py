"""Online fitting by stochastic gradient descent: the state behind ``partial_fit``, and one epoch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError
from oddsmith.likelihood.coordinates import Coordinates
from oddsmith.likelihood.fit import make_objective
from oddsmith.likelihood.problem import Problem
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.solvers.base import Recorder, SolverResult
from oddsmith.solvers.certificate import certify
from oddsmith.solvers.sgd import SGD

FORGET = 3.0


@dataclass(kw_only=True)
class OnlineState:
    """Coordinates fixed by the first rows, the weights in them, their average, and the number of steps.

    Later steps have more weight in the average: step n of N has a weight of about (n/N)^`FORGET`.
    """

    coordinates: Coordinates
    x: Array
    average: Array
    steps: int
    weight: float
    rng: np.random.Generator
    first_batch: int


def run_epoch(
    problem: Problem, state: OnlineState | None, solver: SGD, seed: int | None
) -> tuple[OnlineState, Array, SolverResult]:
    """Run one epoch over the rows of a problem; return the state, the part shared by all classes, and the result."""
    n = problem.source.n_rows
    objective, coordinates, common = make_objective(problem, None if state is None else state.coordinates)
    if state is None:
        x = np.zeros(objective.size) if problem.start is None else coordinates.from_user(*problem.start)
        rng = np.random.default_rng(seed)
        state = OnlineState(coordinates=coordinates, x=x, average=x, steps=0, weight=0.0, rng=rng, first_batch=n)
    steps = solver.steps(objective, state.steps, decay=max(1000.0, float(state.first_batch)))
    before = state.rng.bit_generator.state
    with np.errstate(over="ignore", invalid="ignore"):
        x, mean = objective.sgd_epoch(state.x, state.rng, steps, state.weight + objective.weight)
    if not np.isfinite(x).all():
        state.rng.bit_generator.state = before
        raise InvalidInputError(
            "These rows lead to infinite weights; the model is unchanged. They are far from the first rows in some "
            "column, or the steps are too long: check their units, or give SGD a smaller step_size."
        )
    state.x, state.weight, state.steps = x, state.weight + objective.weight, state.steps + n
    state.average = state.average + (1.0 + FORGET) * n / (state.steps + FORGET * n) * (mean - state.average)
    e = objective.evaluate(state.average)
    recorder = Recorder(objective, "SGD")
    recorder.add(e, 0.0)
    certificate = certify(objective, objective.evaluate(state.average, order=2), problem.tol)
    return state, common, recorder.result(e, certificate)


def read_classes(classes: object, known: Labels | None) -> Labels:
    """Return all labels of an online fit: those given with the first call, or those known since then."""
    given = None if classes is None else np.unique(np.asarray(classes))
    if known is None:
        if given is None:
            raise InvalidInputError("The first call of partial_fit needs classes=, the list of all labels.")
        if len(given) < 2:
            raise InvalidInputError(f"classes must hold at least two labels, found {given.tolist()}.")
        return given
    if given is not None and not np.array_equal(given, known):
        raise InvalidInputError(f"classes={given.tolist()} differ from those of the first call, {known.tolist()}.")
    return known


def encode_labels(known: Labels, y: object, n: int) -> npt.NDArray[np.int32]:
    """Return the code of each of n labels."""
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise InvalidInputError(f"y has shape {labels.shape}; expected ({n},), one label per row.")
    codes = np.searchsorted(known, labels)
    codes[codes == len(known)] = 0
    unknown = known[codes] != labels
    if unknown.any():
        raise InvalidInputError(
            f"y holds the label {labels[unknown].tolist()[0]!r}, which is not among the classes {known.tolist()}."
        )
    return codes.astype(np.int32)
