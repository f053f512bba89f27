"""The predictive distribution: class probabilities with the weights integrated out, and their uncertainty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from oddsmith.block import Block
from oddsmith.design.inputs import read_offset
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, UnknownNameError
from oddsmith.inference.covariance import EliminatedCovariance
from oddsmith.inference.fit_record import FitRecord
from oddsmith.inference.laplace import Seed, standard_normals
from oddsmith.inference.posterior import Posterior, laplace_posterior
from oddsmith.inference.quadrature import expected_entropy, expected_probability, probability_std
from oddsmith.inference.summary import normal_quantile
from oddsmith.likelihood.separation import DesignRows
from oddsmith.links import LINKS, Link, probabilities
from oddsmith.numerics import EPS, Array, log_normaliser
from oddsmith.records import Table
from oddsmith.rows import as_rows
from oddsmith.statistics.rowwise import tiles

METHODS = ("auto", "quadrature", "probit", "samples")
CHUNK = 1 << 21  # Numbers held at once.
BLOCK_NUMBERS = 1 << 22  # Numbers of a design that are read at once.


@dataclass(frozen=True, kw_only=True)
class Predictive(Table):
    """Class probabilities averaged over the posterior of the weights.

    Attributes
    ----------
    mean : array, N × K
        ``p(C_k | x) = ∫ p(C_k | x, w) p(w | t) dw``.
    lower, upper : arrays, N × K
        Ends of the interval that contains the probability ``p(C_k | x, w)`` with posterior probability ``level``.
    std : array, N × K
        Standard deviation of that probability.
    activation_std : array, N (two classes) or N × K
        Standard deviation of the activation; with more classes, of each activation minus their mean.
    entropy : array of length N
        Entropy of ``mean`` in nats, the total uncertainty about the class: the sum of the next two.
    noise : array of length N
        Expected entropy given the weights (aleatoric uncertainty), which more rows would not remove.
    ignorance : array of length N
        Mutual information between weights and class (epistemic uncertainty): large where there was no data.
    """

    classes: tuple[Any, ...]
    mean: Array
    lower: Array
    upper: Array
    std: Array
    activation_std: Array
    entropy: Array
    noise: Array
    ignorance: Array
    level: float
    method: str

    def to_dict(self) -> dict[str, list[Any]]:
        table: dict[str, list[Any]] = {"row": list(range(len(self.mean)))}
        for k in range(len(self.classes))[1 if len(self.classes) == 2 else 0 :]:
            for name, values in (("mean", self.mean), ("lower", self.lower), ("upper", self.upper)):
                table[f"{name}[{self.classes[k]}]"] = values[:, k].tolist()
        return {**table, "noise": self.noise.tolist(), "ignorance": self.ignorance.tolist()}


def predictive(
    fit: FitRecord, rows: DesignRows, method: str, level: float, seed: Seed, offset: object, draws: int
) -> Predictive:
    """Return the predictive of checked rows, block by block; see ``LogisticRegression.predictive``."""
    K, N = len(fit.classes), rows.shape[0]
    method = check_method(method, K, fit.link)
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 2:
        raise InvalidInputError(f"draws must be a whole number of at least 2, found {draws!r}.")
    half = standard_normals(-(-int(draws) // 2), K - 1, seed)
    normals = np.concatenate([half, -half])  # the same for each row, each with its opposite
    posterior = laplace_posterior(fit)
    shift = read_offset(offset, N, K)
    parts, step = [], max(256, BLOCK_NUMBERS // max(1, rows.shape[1]))
    with one_blas_thread():
        for start in range(0, N, step):
            Phi = as_rows(rows[start : start + step])
            t = np.zeros(Phi.shape[0], dtype=np.int32)
            block = Block(Phi, t, None, None if shift is None else shift[start : start + step])
            for first, A, cov in _spreads(block, posterior):
                far = ~np.isfinite(cov).all(axis=(1, 2))
                if far.any():
                    raise InvalidInputError(
                        f"Row {start + first + int(np.argmax(far))} of X lies so far out that the variance of "
                        "its activation is more than a float64 can hold. Check its values, or rescale them."
                    )
                if K > 2:
                    parts.append(_softmax(A, cov, level, normals))
                else:
                    parts.append(_binary(A, cov, fit.link, method, level, normals))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    columns["entropy"] = _entropy(columns["mean"])
    columns["noise"] = np.minimum(columns["noise"], columns["entropy"])  # but for rounding it is not more
    columns["ignorance"] = columns["entropy"] - columns["noise"]
    return Predictive(classes=tuple(fit.classes), **columns, level=level, method=method)


def _spreads(block: Block, posterior: Posterior) -> Iterator[tuple[int, Array, Array]]:
    """Yield the first row, the activations and their covariances, some rows at a time."""
    eliminated = EliminatedCovariance.of(posterior.state)
    with np.errstate(over="ignore", invalid="ignore"):
        if eliminated is not None:
            A = eliminated.activations(block.Phi)
            yield 0, A if block.offset is None else A + block.offset, eliminated.spread(block.Phi)
            return
        for tile in tiles(block, posterior.at):
            yield tile.start, tile.A, tile.spread(posterior.solver_covariance)


def _binary(mu: Array, cov: Array, link: Link | None, method: str, level: float, normals: Array) -> dict[str, Array]:
    """Integrate the link over the Gaussian N(mu, cov) of the activation, n × 1 and n × 1 × 1."""
    f = LINKS["logit"] if link is None else link
    a, sigma = mu[:, 0], np.sqrt(np.maximum(cov[:, 0, 0], 0.0))
    z = normal_quantile(level)
    (q_low, p_low), (q_high, p_high) = (probabilities(f, a + sign * z * sigma) for sign in (-1.0, 1.0))
    if method == "samples":
        mean, std, noise = _two_by_samples(f, a, sigma, normals)
    else:
        mean = _kappa(f, a, sigma) if method == "probit" else expected_probability(f, a, sigma)
        std, noise = probability_std(f, a, sigma, mean), expected_entropy(f, a, sigma)
    lower, upper = np.column_stack([q_high, p_low]), np.column_stack([q_low, p_high])
    std = np.column_stack([std, std])
    return {"mean": mean, "lower": lower, "upper": upper, "std": std, "activation_std": sigma, "noise": noise}


def check_method(method: str, K: int, link: Link | None) -> str:
    """Return the method for a name; raise an error that says why it is not possible."""
    if method not in METHODS:
        raise UnknownNameError("method", method, METHODS)
    if K > 2 and method in ("quadrature", "probit"):
        raise InvalidInputError(f"method={method!r} is for two classes, but this model has {K}. Use method='samples'.")
    if method == "probit" and link is not None and link.name != "probit":
        raise InvalidInputError(
            f"method='probit' approximates the logistic sigmoid, but this model has link={link.name!r}. "
            "Use method='quadrature'."
        )
    return ("samples" if K > 2 else "quadrature") if method == "auto" else method


def _kappa(f: Link, a: Array, sigma: Array) -> Array:
    """``σ(κ a)`` with ``κ = (1 + π sigma²/8)^−½``: the sigmoid as a probit of the same slope. Exact for the probit."""
    unit = 1.0 if f.name == "probit" else np.sqrt(np.pi / 8.0)
    moderated = a / np.hypot(1.0, unit * sigma)
    return np.column_stack([f.inverse(-moderated), f.inverse(moderated)])


def _two_by_samples(f: Link, a: Array, sigma: Array, normals: Array) -> tuple[Array, Array, Array]:
    mean, std, noise = np.empty((len(a), 2)), np.empty(len(a)), np.empty(len(a))
    for rows in np.array_split(np.arange(len(a)), max(1, len(a) * len(normals) // CHUNK)):
        A = a[rows, None] + sigma[rows, None] * normals[:, 0]
        down, up = probabilities(f, A)
        mean[rows] = np.column_stack([down.mean(axis=1), up.mean(axis=1)])
        std[rows] = up.std(axis=1)
        noise[rows] = _entropy(np.stack([up, down], axis=-1)).mean(axis=1)
    return mean, std, noise


def _softmax(mu: Array, cov: Array, level: float, normals: Array) -> dict[str, Array]:
    """Average the softmax over draws of the activations."""
    n, C = mu.shape
    K = C + 1
    # A variance of rounding size keeps the factor of a certain row defined.
    jitter = 16.0 * EPS * np.trace(cov, axis1=1, axis2=2) + np.finfo(float).tiny
    L = np.linalg.cholesky(cov + jitter[:, None, None] * np.eye(C))
    out = {name: np.empty((n, K)) for name in ("mean", "lower", "upper", "std")}
    noise = np.empty(n)
    tail = [0.5 * (1.0 - level), 0.5 * (1.0 + level)]
    for rows in np.array_split(np.arange(n), max(1, n * len(normals) * K // CHUNK)):
        A = mu[rows, None, :] + np.einsum("njk,sk->nsj", L[rows], normals)
        P = log_normaliser(A.reshape(-1, C))[1].reshape(len(rows), len(normals), K)
        out["mean"][rows], out["std"][rows] = P.mean(axis=1), P.std(axis=1)
        noise[rows] = _entropy(P).mean(axis=1)
        out["lower"][rows], out["upper"][rows] = np.quantile(P, tail, axis=1)
    centre = np.vstack([np.zeros(C), np.eye(C)]) - 1.0 / K
    spread = np.sqrt(np.maximum(np.einsum("kc,ncd,kd->nk", centre, cov, centre), 0.0))
    return {**out, "activation_std": spread, "noise": noise}


def _entropy(P: Array) -> Array:
    """Return ``−Σ p log p`` over the last axis."""
    return np.asarray(-(P * np.log(np.where(P > 0, P, 1.0))).sum(axis=-1))
