"""What a fitted model says over the plane: scores of the classes on a grid, packed for the page."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.decision.actions import REJECT, decide, expected_loss
from oddsmith.errors import OddsmithError
from oddsmith.evaluation.model_output import has_proba
from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.models.base import Classifier
from oddsmith.models.gaussian import GaussianClassifier
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

LAYERS = ("uncertainty", "density", "samples")
MOST_CELLS = 40_000
SAMPLES = 24  # Boundaries drawn from the posterior.
DRAWS = 200
"""Draws for the predictive distribution of three classes and more: a probability has a standard error below 0.036."""
FLOOR = -60.0  # Smallest log probability that is sent: exp(−60) is no colour.


def pack(values: Array | Indices, kind: str = "<f4") -> str:
    """Return an array as base64 of little-endian numbers, by default of 32 bits.

    >>> pack(np.array([1.0, 2.0]))
    'AACAPwAAAEA='
    """
    return b64encode(np.ascontiguousarray(values).astype(kind).tobytes()).decode("ascii")


@dataclass(frozen=True)
class Grid:
    """A rectangle of the plane, or a stretch of a line, and how many points it is divided into."""

    box: Array
    counts: tuple[int, ...]

    @classmethod
    def read(cls, fields: Fields, dims: int) -> Grid:
        """Return the grid of a request: ``view`` is x0, x1, y0, y1, ``grid`` the counts of columns and rows."""
        box = fields.numbers("view", 4, size=1e9)
        if not (box[0] < box[1] and box[2] < box[3]):
            raise BadRequestError(f"view must be x0 < x1 and y0 < y1, found {box.tolist()}.")
        counts = fields.numbers("grid", 2, size=2000)
        if not (counts >= 2).all() or (counts % 1).any() or (dims == 2 and counts.prod() > MOST_CELLS):
            raise BadRequestError(
                "grid must be two whole numbers from 2, "
                f"at most {MOST_CELLS:,} cells together; found {counts.tolist()}."
            )
        return cls(box, tuple(int(n) for n in counts[:dims]))

    def rows(self) -> Array:
        """Return the points, row by row from the bottom."""
        axes = [np.linspace(self.box[2 * d], self.box[2 * d + 1], n) for d, n in enumerate(self.counts)]
        return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))

    def coarser(self, most: int) -> Grid:
        """Return the same rectangle with a coarser grid of cells."""
        cells = int(np.prod(self.counts))
        if cells <= most:
            return self
        factor = (most / cells) ** (1 / len(self.counts))
        return Grid(self.box, tuple(max(2, int(n * factor)) for n in self.counts))


def scores(model: Classifier, rows: Array) -> tuple[Array, bool]:
    """Return a score of each class for each row, K × N, and whether these are log probabilities.

    Without probabilities they are the values of the discriminant functions, ± half of it for two classes.
    """
    if has_proba(model):
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(model.predict_proba(rows)).T, FLOOR), True
    A = np.asarray(model.decision_function(rows), dtype=float)
    return (np.stack([-A / 2, A / 2]) if A.ndim == 1 else A.T), False


def map_of(model: Classifier, grid: Grid, layers: list[str], decision: dict[str, Any] | None) -> dict[str, Any]:
    """Return the scores on the grid, and the further layers that were asked for, packed."""
    rows = grid.rows()
    values, probabilistic = scores(model, rows)
    found: dict[str, Any] = {"grid": grid.counts, "probabilistic": probabilistic, "scores": pack(values)}
    if decision is not None and probabilistic:
        found["costs"] = pack(expected_costs(model, rows, decision).T)
    coarse, notes = grid.coarser(2400), []
    for layer in layers:
        part = _density(model, rows) if layer == "density" else _POSTERIOR[layer](model, coarse)
        notes += part.pop("notes", [])
        found |= part
    return found | {"notes": notes}


def _shifted_proba(model: Classifier, rows: Array, decision: dict[str, Any]) -> Array:
    """Return the probabilities under the class prior of a decision."""
    prior = decision["class_prior"]
    return np.asarray((model if prior is None else model.with_class_prior(prior)).predict_proba(rows))


def expected_costs(model: Classifier, rows: Array, decision: dict[str, Any]) -> Array:
    """Return the expected loss of each action and, where it is allowed, of rejecting."""
    return expected_loss(_shifted_proba(model, rows, decision), decision["loss"], decision["reject"])


def action_codes(model: Classifier, rows: Array, decision: dict[str, Any]) -> Indices:
    """Return the place of each row's decision among the classes, and their number where it is rejected."""
    K = len(model.classes_)
    taken = decide(_shifted_proba(model, rows, decision), decision["loss"], decision["reject"])
    return np.array([K if a is REJECT else int(a) for a in taken.tolist()], dtype=np.int64)


def _density(model: Classifier, rows: Array) -> dict[str, Any]:
    if not isinstance(model, GaussianClassifier | NaiveBayes):
        return {"notes": ["Only the generative models (Gaussian classes, naive Bayes) have class densities."]}
    return {"density": pack(np.maximum(model.log_density(rows).T, -1e3))}


def _uncertainty(model: Classifier, grid: Grid) -> dict[str, Any]:
    """Return the predictive probability less the plug-in one, of the class that is then the most probable."""
    if not isinstance(model, LogisticRegression):
        return {"notes": ["Only logistic regression and its links have a posterior of the weights."]}
    rows = grid.rows()
    try:
        integrated = model.predictive(rows, draws=DRAWS).mean
    except OddsmithError as error:
        return {"notes": [f"There is no posterior to integrate over: {error}"]}
    return {"uncertainty": pack((integrated - model.predict_proba(rows)).T), "uncertainty_grid": grid.counts}


def _samples(model: Classifier, grid: Grid) -> dict[str, Any]:
    """Return the activation of two classes under weights drawn from the posterior."""
    if not isinstance(model, LogisticRegression) or len(model.classes_) != 2:
        return {"notes": ["Posterior samples are drawn for logistic regression of two classes."]}
    try:
        W = model.posterior_.sample(SAMPLES, 0)
    except OddsmithError as error:
        return {"notes": [f"There is no posterior to draw from: {error}"]}
    rows = grid.rows()
    sampled = [with_weights(model, w[None, :]).decision_function(rows) for w in W]
    return {"samples": pack(np.array(sampled)), "samples_grid": grid.counts, "samples_count": SAMPLES}


_POSTERIOR = {"uncertainty": _uncertainty, "samples": _samples}


def with_weights(model: Classifier, W: Array) -> Any:
    """Return a copy of a linear model with other weights: rows of an intercept and the coefficients.

    >>> model = LogisticRegression(1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
    >>> with_weights(model, np.array([[-2.0, 1.0]])).decision_function([[5.0]]).tolist()
    [3.0]
    """
    from copy import copy

    moved: Any = copy(model)
    moved.intercept_, moved.coef_ = W[:, 0].copy(), W[:, 1:].copy()
    return moved
