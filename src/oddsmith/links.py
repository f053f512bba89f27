"""Links between an activation and the probability of the second of two classes.

Each link is one registered class: the inverse link ``y = f(a)`` with its derivatives, the logarithms of ``y``
and ``1 − y``, and the slopes of those, all stable in both tails.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isinf
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from oddsmith import numerics
from oddsmith.numerics import Array
from oddsmith.registry import Registry

REALS = (-np.inf, np.inf)


class Link(Protocol):
    """The interface of a link; all functions are elementwise on float64 arrays, and none of them warns.

    ``domain`` is the open interval of activations whose probability lies inside (0, 1). Outside it, a row is impossible
    whatever its class: both log probabilities are −∞, the probability is the nearer of 0 and 1, and every slope is 0.
    ``convex`` says whether ``−log f`` and ``−log(1 − f)`` are both convex on the domain, so that a likelihood has no
    local maxima.
    """

    name: str
    domain: tuple[float, float]
    convex: bool

    def link(self, y: Array) -> Array:
        """Return the activation at which the probability is ``y``, for ``0 < y < 1``."""

    def inverse(self, a: Array) -> Array:
        """Return the probability ``y = f(a)``."""

    def derivative(self, a: Array) -> Array:
        """Return ``f′(a)``."""

    def second_derivative(self, a: Array) -> Array:
        """Return ``f″(a)``."""

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        """Return ``log f(a)`` and ``log(1 − f(a))``."""

    def score(self, a: Array) -> tuple[Array, Array]:
        """Return the slopes of ``log f`` and ``log(1 − f)``: ``f′ / f`` and ``−f′ / (1 − f)``."""

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        """Return the second derivatives of ``log f`` and ``log(1 − f)``."""


LINKS: Registry[Link] = Registry("link")


def is_bounded(link: Link) -> bool:
    """Whether the domain of a link ends somewhere.

    >>> is_bounded(LINKS["probit"]), is_bounded(LINKS["log"])
    (False, True)
    """
    return not (isinf(link.domain[0]) and isinf(link.domain[1]))


class _Symmetric(ABC):
    """A link with ``f(−a) = 1 − f(a)``: the functions of ``log f`` give those of ``log(1 − f)`` at ``−a``."""

    domain = REALS

    @abstractmethod
    def _log_f(self, a: Array) -> Array:
        """Return ``log f``."""

    @abstractmethod
    def _score_f(self, a: Array) -> Array:
        """Return its slope."""

    @abstractmethod
    def _score_derivative_f(self, a: Array) -> Array:
        """Return the slope of that."""

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        return self._log_f(a), self._log_f(-a)

    def score(self, a: Array) -> tuple[Array, Array]:
        return self._score_f(a), -self._score_f(-a)

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        return self._score_derivative_f(a), self._score_derivative_f(-a)


class Logit(_Symmetric):
    """The logistic sigmoid, ``σ(a) = 1 / (1 + exp(−a))``, with ``σ(−a) = 1 − σ(a)`` and ``σ′ = σ(1 − σ)``.

    >>> LINKS["logit"].inverse(np.array([0.0])).tolist()
    [0.5]
    """

    name = "logit"
    convex = True

    def link(self, y: Array) -> Array:
        result: Array = special.logit(y)
        return result

    def inverse(self, a: Array) -> Array:
        return numerics.sigmoid(a)

    def derivative(self, a: Array) -> Array:
        return numerics.sigmoid(a) * numerics.sigmoid(-a)

    def second_derivative(self, a: Array) -> Array:
        return -numerics.sigmoid(a) * numerics.sigmoid(-a) * np.tanh(0.5 * a)  # σ(a) − σ(−a) is the tanh

    def _log_f(self, a: Array) -> Array:
        return -numerics.log1pexp(-a)

    def _score_f(self, a: Array) -> Array:
        return numerics.sigmoid(-a)

    def _score_derivative_f(self, a: Array) -> Array:
        return -self.derivative(a)


class Probit(_Symmetric):
    """The normal distribution function, ``Φ(a)``, with ``Φ′ = φ`` and ``φ′ = −a φ``.

    With ``λ = φ/Φ``, the slope of ``log Φ`` is λ and its second derivative ``−λ (λ + a)``.

    >>> log_y, _ = LINKS["probit"].log_probability(np.array([-40.0]))
    >>> log_y.round(4).tolist()
    [-804.6084]
    """

    name = "probit"
    convex = True

    def link(self, y: Array) -> Array:
        result: Array = special.ndtri(y)
        return result

    def inverse(self, a: Array) -> Array:
        result: Array = special.ndtr(a)
        return result

    def derivative(self, a: Array) -> Array:
        return numerics.normal_density(a)

    def second_derivative(self, a: Array) -> Array:
        return -a * numerics.normal_density(a)

    def _log_f(self, a: Array) -> Array:
        result: Array = special.log_ndtr(a)
        return result

    def _score_f(self, a: Array) -> Array:
        return numerics.inverse_mills(a)

    def _score_derivative_f(self, a: Array) -> Array:
        return -numerics.inverse_mills(a) * numerics.inverse_mills_excess(a)


class Cauchit(_Symmetric):
    """The Cauchy distribution function, ``f(a) = 1/2 + atan(a)/π``, with ``f′ = 1 / (π (1 + a²))``.

    Its tails are so heavy that ``−log f`` is not convex: a likelihood may have several maxima.

    >>> (LINKS["cauchit"].inverse(np.array([-1e10])) * 1e10).round(6).tolist()
    [0.31831]
    """

    name = "cauchit"
    convex = False

    def link(self, y: Array) -> Array:
        return np.sign(y - 0.5) / np.tan(np.pi * np.minimum(y, 1.0 - y))

    def inverse(self, a: Array) -> Array:
        return np.arctan2(1.0, -a) / np.pi  # as an angle: the lower tail keeps its digits

    def derivative(self, a: Array) -> Array:
        h = 1.0 / np.hypot(1.0, a)
        return h * h / np.pi

    def second_derivative(self, a: Array) -> Array:
        h = 1.0 / np.hypot(1.0, a)
        return -2.0 * (a * h) * h * h * h / np.pi

    def _log_f(self, a: Array) -> Array:
        tail = self.inverse(-np.abs(a))
        return np.where(a > 0, np.log1p(-tail), np.log(tail))

    def _score_f(self, a: Array) -> Array:
        h = 1.0 / np.hypot(1.0, a)
        # In this order nothing underflows before the result does.
        return h / (np.pi * self.inverse(a)) * h

    def _score_derivative_f(self, a: Array) -> Array:
        h = 1.0 / np.hypot(1.0, a)
        score = self._score_f(a)
        return -score * (2.0 * (a * h) * h + score)


_CERTAIN = 10.0  # From this activation on ``exp(−exp(a))`` is zero in float64.


def _exp(a: Array) -> Array:
    """Return ``exp(a)``, infinite without a warning where it is too large."""
    with np.errstate(over="ignore"):
        return np.exp(a)


def _rate(a: Array) -> Array:
    """Return ``u = exp(a)``, kept finite where ``exp(−u)`` is zero anyway."""
    return np.exp(np.minimum(a, _CERTAIN))


class Cloglog:
    """The complementary log-log link, ``f(a) = 1 − exp(−u)`` with ``u = exp(a)``: rare events in continuous time.

    ``f′ = u exp(−u)``, ``f″ = u (1 − u) exp(−u)``; ``log(1 − f) = −u`` is its own slope and curvature.

    >>> log_y, log_not_y = LINKS["cloglog"].log_probability(np.array([-50.0, 0.0]))
    >>> log_y.round(4).tolist(), float(log_not_y[1])
    ([-50.0, -0.4587], -1.0)
    """

    name = "cloglog"
    domain = REALS
    convex = True

    def link(self, y: Array) -> Array:
        return np.log(-np.log1p(-y))

    def inverse(self, a: Array) -> Array:
        return -np.expm1(-_rate(a))

    def derivative(self, a: Array) -> Array:
        u = _rate(a)
        return u * np.exp(-u)

    def second_derivative(self, a: Array) -> Array:
        u = _rate(a)
        return -u * np.exp(-u) * np.expm1(np.minimum(a, _CERTAIN))  # no cancellation at a = 0

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        far = a < -40.0  # where log f is a
        return np.where(far, a, numerics.log1mexp(_rate(np.where(far, 0.0, a)))), -_exp(a)

    def score(self, a: Array) -> tuple[Array, Array]:
        u = _rate(a)
        return np.exp(-u) / special.exprel(-u), -_exp(a)

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        """Return ``v (1 − u / (1 − exp(−u)))`` with ``v = u / (exp(u) − 1)``, and ``−u``.

        The parenthesis is ``−u/2 − (x coth(x) − 1)`` at ``x = u/2``, without cancellation.
        """
        u = _rate(a)
        return -self.score(a)[0] * (0.5 * u + numerics.coth_excess(0.5 * u)), -_exp(a)


class Loglog:
    """The log-log link, ``f(a) = exp(−exp(−a))``: the mirror image ``1 − g(−a)`` of the complementary one, g.

    >>> LINKS["loglog"].inverse(np.array([0.0])).round(6).tolist()
    [0.367879]
    """

    name = "loglog"
    domain = REALS
    convex = True
    _mirrored = Cloglog()

    def link(self, y: Array) -> Array:
        return -np.log(-np.log(y))

    def inverse(self, a: Array) -> Array:
        return np.exp(-_rate(-a))

    def derivative(self, a: Array) -> Array:
        return self._mirrored.derivative(-a)

    def second_derivative(self, a: Array) -> Array:
        return -self._mirrored.second_derivative(-a)

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        return self._mirrored.log_probability(-a)[::-1]

    def score(self, a: Array) -> tuple[Array, Array]:
        of_g, of_not_g = self._mirrored.score(-a)
        return -of_not_g, -of_g

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        return self._mirrored.score_derivative(-a)[::-1]


class _Bounded:
    """A link with a bounded domain: activations outside are moved inside for the formula and corrected afterwards."""

    domain: tuple[float, float]
    convex = True

    def _moved(self, a: Array) -> tuple[npt.NDArray[np.bool_], Array]:
        """Return which activations lie in the domain, and ``a`` with the others moved into it."""
        lower, upper = self.domain
        inside = (a > lower) & (a < upper)
        return inside, np.where(inside, a, upper - 0.5)


class Log(_Bounded):
    """The log link, ``f(a) = exp(a)`` for ``a < 0``: weights are logarithms of relative risks.

    >>> LINKS["log"].log_probability(np.array([-1.0, 0.5]))[0].tolist()
    [-1.0, -inf]
    """

    name = "log"
    domain = (-np.inf, 0.0)

    def link(self, y: Array) -> Array:
        return np.log(y)

    def inverse(self, a: Array) -> Array:
        return np.exp(np.minimum(a, 0.0))

    def derivative(self, a: Array) -> Array:
        inside, b = self._moved(a)
        return np.where(inside, np.exp(b), 0.0)

    def second_derivative(self, a: Array) -> Array:
        return self.derivative(a)

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        inside, b = self._moved(a)
        return np.where(inside, b, -np.inf), np.where(inside, numerics.log1mexp(-b), -np.inf)

    def score(self, a: Array) -> tuple[Array, Array]:
        inside, b = self._moved(a)
        return np.where(inside, 1.0, 0.0), np.where(inside, np.exp(b) / np.expm1(b), 0.0)

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        inside, b = self._moved(a)
        with np.errstate(over="ignore", divide="ignore"):  # a sliver below the end the curvature is infinite
            return np.zeros_like(b), np.where(inside, -np.exp(b) / np.expm1(b) ** 2, 0.0)


class Identity(_Bounded):
    """The identity, ``f(a) = a`` for ``0 < a < 1``: weights are differences of risks.

    >>> LINKS["identity"].score(np.array([0.25, 2.0]))[0].tolist()
    [4.0, 0.0]
    """

    name = "identity"
    domain = (0.0, 1.0)

    def link(self, y: Array) -> Array:
        return np.array(y, dtype=np.float64)

    def inverse(self, a: Array) -> Array:
        return np.clip(a, 0.0, 1.0)

    def derivative(self, a: Array) -> Array:
        return np.where(self._moved(a)[0], 1.0, 0.0)

    def second_derivative(self, a: Array) -> Array:
        return np.zeros_like(a, dtype=np.float64)

    def log_probability(self, a: Array) -> tuple[Array, Array]:
        inside, b = self._moved(a)
        return np.where(inside, np.log(b), -np.inf), np.where(inside, np.log1p(-b), -np.inf)

    def score(self, a: Array) -> tuple[Array, Array]:
        inside, b = self._moved(a)
        with np.errstate(over="ignore"):  # 1/a of the smallest numbers
            return np.where(inside, 1.0 / b, 0.0), np.where(inside, -1.0 / (1.0 - b), 0.0)

    def score_derivative(self, a: Array) -> tuple[Array, Array]:
        of_f, of_not_f = self.score(a)
        with np.errstate(over="ignore"):
            return -of_f * of_f, -of_not_f * of_not_f


def probabilities(link: Link, a: Array) -> tuple[Array, Array]:
    """Return ``1 − f(a)`` and ``f(a)``, small ones with all their digits; outside the domain one of them is 1.

    >>> [p.tolist() for p in probabilities(LINKS["identity"], np.array([-0.5, 0.25, 2.0]))]
    [[1.0, 0.75, 0.0], [0.0, 0.25, 1.0]]
    """
    return np.where(a <= link.domain[0], 1.0, np.exp(link.log_probability(a)[1])), link.inverse(a)


for _link in (Logit(), Probit(), Cauchit(), Cloglog(), Loglog(), Log(), Identity()):
    LINKS.register(_link.name)(_link)
