"""The answer to the time panel: a path of weights, its trace, and the objective's surface that it runs over."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from oddsmith.lab.fields import BadRequestError, Fields
from oddsmith.lab.maps import pack
from oddsmith.lab.pane import POINT_FIELDS, Points, collected_warnings
from oddsmith.lab.pane_model import build_basis, build_prior
from oddsmith.lab.steps import Likelihood, iterate, trace_of
from oddsmith.likelihood.separation import detect_separation
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array, log_softmax
from oddsmith.priors import GaussianPrior, JeffreysPrior
from oddsmith.protocols import Indices

METHODS = ("newton", "gradient", "sgd", "perceptron")
MOST_STEPS, MOST_COLUMNS = 2000, 60
SURFACE = 48  # Points along each side of the surface.
HEIGHT = 0.75  # Height of its picture, in widths.


def answer_path(fields: Fields) -> dict[str, Any]:
    """Return the path of a method over the points of a request, from its start, with its step size."""
    fields.only(*POINT_FIELDS, "basis", "prior", "method", "start", "step_size", "count", "theta", "seed", "axes")
    X, t = Points.read(fields).check()
    classes, codes = np.unique(t, return_inverse=True)
    basis, prior = build_basis(fields.inner("basis"), X.shape[1]), build_prior(fields.inner("prior"))
    method = fields.choice("method", METHODS, "newton")
    with collected_warnings() as texts:
        Phi, names = _columns(basis, X)
        problem = _problem(Phi, codes, len(classes), prior)
        path = iterate(
            problem,
            _start(fields, problem),
            method,
            step_size=fields.number("step_size", 1e-9, 1e6, 0.01),
            count=fields.whole("count", 1, MOST_STEPS, 50),
            theta=fields.number("theta", 0.0, 1.0, 1e-8),
            seed=fields.whole("seed", 0, 10**6, 0),
        )
        optimum = _optimum(prior, Phi[:, 1:], codes)
        separation = detect_separation(Phi[:, 1:], codes).kind if len(X) <= 5000 else "unknown"
        axes = _axes(fields, problem)
        return {
            "classes": classes,
            "names": ["intercept", *names],
            "path": path.weights.reshape(len(path.weights), -1),
            "shape": problem.shape,
            "rows": path.rows,
            "ending": path.ending,
            "trace": trace_of(problem, path.weights),
            "optimum": None if optimum is None else optimum.ravel(),
            "separation": separation,
            "surface": _surface(problem, path.weights, optimum, axes),
            "warnings": texts,
        }


def _columns(basis: BaseEstimator | None, X: Array) -> tuple[Array, list[str]]:
    """Return the columns of ones and basis functions, and the names of the latter."""
    Z = X if basis is None else np.asarray(basis.fit_transform(X), dtype=float)
    if Z.shape[1] > MOST_COLUMNS:
        raise BadRequestError(f"This basis has {Z.shape[1]} functions; the steps show at most {MOST_COLUMNS}.")
    names = [f"x{j}" for j in range(Z.shape[1])] if basis is None else [f"φ{j + 1}" for j in range(Z.shape[1])]
    return np.column_stack([np.ones(len(Z)), Z]), names


def _problem(Phi: Array, codes: Indices, K: int, prior: GaussianPrior | JeffreysPrior | None) -> Likelihood:
    firth = isinstance(prior, JeffreysPrior)
    if firth and K > 2:
        raise BadRequestError("The steps support Firth's correction for two classes only. Choose another prior.")
    alpha = 1.0 / float(prior.scale) ** 2 if isinstance(prior, GaussianPrior) else 0.0  # type: ignore[arg-type]
    return Likelihood(Phi=Phi, t=np.asarray(codes), K=K, alpha=alpha, firth=firth)


def _start(fields: Fields, problem: Likelihood) -> Array:
    if not fields.has("start"):
        return np.zeros(problem.shape)
    W = fields.numbers("start", most=1000, size=1e5)
    if W.size != np.prod(problem.shape):
        return np.zeros(problem.shape)  # the start of another basis, or of other classes
    return W.reshape(problem.shape)


def _optimum(prior: object, Z: Array, codes: Indices) -> Array | None:
    """Return the weights that the library's solver finds, None where there is no optimum."""
    model = LogisticRegression(prior).fit(Z, codes)
    if prior is None and (not model.certificate_.converged or np.abs(model.coef_).max() > 1e3):
        return None
    return np.column_stack([model.intercept_, model.coef_])


def _axes(fields: Fields, problem: Likelihood) -> tuple[int, int]:
    P = int(np.prod(problem.shape))
    default = [1, 2] if problem.shape[1] > 2 else [0, 1]
    i, j = fields.numbers("axes", 2, size=1000).astype(int) if fields.has("axes") else default
    if not (0 <= i < P and 0 <= j < P and i != j):
        i, j = default
    return int(i), int(j)


def _surface(problem: Likelihood, path: Array, optimum: Array | None, axes: tuple[int, int]) -> dict[str, Any]:
    """Return the objective over two weights, all others as at the optimum, or as at the end of the path."""
    flat = path.reshape(len(path), -1)
    centre = (flat[-1] if optimum is None else optimum.ravel()).copy()
    seen = np.vstack([flat[:, axes], centre[None, axes]])
    low, high = seen.min(axis=0), seen.max(axis=0)
    side = 1.4 * np.maximum(high - low, 0.5)
    if side.max() < 6 * side.min():  # a unit is as long in both directions: steps are perpendicular to contours
        side = np.array([1.0, HEIGHT]) * max(side[0], side[1] / HEIGHT)
    low, high = (low + high - side) / 2, (low + high + side) / 2
    along = [np.linspace(low[d], high[d], SURFACE) for d in (0, 1)]
    thin = _thinned(problem)
    values = np.array([_values(thin, centre, axes, along[0], b) for b in along[1]])
    return {"axes": axes, "box": [low[0], high[0], low[1], high[1]], "grid": [SURFACE, SURFACE], "values": pack(values)}


def _values(problem: Likelihood, centre: Array, axes: tuple[int, int], first: Array, second: float) -> Array:
    """Return the objective along one row of the surface."""
    W = np.tile(centre, (len(first), 1))
    W[:, axes[0]], W[:, axes[1]] = first, second
    W = W.reshape(len(first), *problem.shape)
    if problem.firth:
        return np.array([problem.value(w) for w in W])
    A = np.einsum("gcm,nm->gnc", W, problem.Phi)
    A = np.concatenate([np.zeros_like(A), A], axis=2) if problem.K == 2 else A
    own = log_softmax(A.reshape(-1, problem.K)).reshape(A.shape)[:, np.arange(len(problem.t)), problem.t]
    return np.asarray(0.5 * problem.alpha * (W[:, :, 1:] ** 2).sum(axis=(1, 2)) - own.sum(axis=1))


def _thinned(problem: Likelihood, most: int = 1000) -> Likelihood:
    """Return the problem on at most ``most`` of its rows: with more, a surface would take seconds."""
    step = -(-len(problem.t) // most)
    if step == 1:
        return problem
    return Likelihood(Phi=problem.Phi[::step], t=problem.t[::step], K=problem.K, alpha=problem.alpha / step)
