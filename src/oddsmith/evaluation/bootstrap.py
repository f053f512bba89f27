"""Intervals of scores: by the bootstrap, for functions of sums over groups of rows, and by formula."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

from oddsmith.evaluation.sums import Sums
from oddsmith.numerics import Array
from oddsmith.protocols import Indices

GROUPS = 4096  # Number of rows up to which single rows are resampled; beyond, this many random groups of rows.
CHUNK = 500

SHOWN = 2.0
"""Number of misranked rows that count as much as the expected variance. Simulated over 126 cases (AUC 0.6 to 0.996, 20
+ 20 to 50 + 2,000 rows, equal and unequal spread), 95% intervals cover the AUC in at least 91%; DeLong's alone in
60%."""


@dataclass(frozen=True)
class Resampled:
    """Sums of all rows (one replicate), of the replicates, and without each group (the jackknife)."""

    whole: Sums
    drawn: Sums
    without: Sums

    @classmethod
    def of(cls, sums: Sums, replicates: int, rng: np.random.Generator) -> Resampled:
        """Resample sums over groups (groups × columns)."""
        whole = {name: a.sum(axis=0, keepdims=True) for name, a in sums.items()}
        without = {name: whole[name] - a for name, a in sums.items()}
        return cls(whole, resample(sums, replicates, rng), without)


def assign_groups(n: int, rng: np.random.Generator) -> tuple[Indices, int]:
    """Return the group of each row, and the number of groups: single rows, or random groups of about equal size."""
    if n <= GROUPS:
        return np.arange(n), n
    return rng.permutation(n) % GROUPS, GROUPS


def resample(sums: Sums, replicates: int, rng: np.random.Generator) -> Sums:
    """Return the sums of resampled groups, one replicate per row.

    A replicate draws as many groups as there are, with replacement: for all replicates, a matrix of counts times the
    sums. Cost: O(replicates · groups · sums).
    """
    G, S, drawn = len(sums["n"]), np.hstack(list(sums.values())), []
    for start in range(0, replicates, CHUNK):
        size = min(CHUNK, replicates - start)
        picks = rng.integers(0, G, size=(size, G)) + G * np.arange(size)[:, None]
        counts = np.bincount(picks.ravel(), minlength=size * G).reshape(size, G)
        drawn.append(counts.astype(np.float64) @ S)
    ends = np.cumsum([column.shape[1] for column in sums.values()])
    return dict(zip(sums, np.split(np.vstack(drawn), ends[:-1], axis=1), strict=True))


def bca_interval(estimate: float, drawn: Array, without: Array, level: float) -> tuple[float, float]:
    """Return the bias-corrected and accelerated interval (Efron, Better bootstrap confidence intervals, JASA 82, 1987).

    The quantiles of the replicates at ``Φ(z₀ + (z₀ + z)/(1 − a (z₀ + z)))``, where z₀ measures the bias of their
    median, and a, from the jackknife values, how their spread changes with the estimate.
    """
    drawn = drawn[np.isfinite(drawn)]
    if not np.isfinite(estimate) or len(drawn) < 2 or len(without) < 2:
        return np.nan, np.nan
    below = np.count_nonzero(drawn < estimate) + 0.5 * np.count_nonzero(drawn == estimate)
    z0 = float(ndtri(np.clip(below / len(drawn), 0.5 / len(drawn), 1.0 - 0.5 / len(drawn))))
    without = without[np.isfinite(without)]
    d = without.sum() / max(len(without), 1) - without
    spread = float((d**2).sum()) ** 1.5
    a = float((d**3).sum()) / (6.0 * spread) if spread > 0 else 0.0
    z = z0 + ndtri(np.array([0.5 - level / 2, 0.5 + level / 2]))
    low, high = np.quantile(drawn, ndtr(z0 + z / (1.0 - a * z)))
    return float(low), float(high)


def reflected_interval(estimate: float, drawn: Array, level: float, most: float = np.inf) -> tuple[float, float]:
    """Return ``2 · estimate − quantile``, clipped to zero and ``most``, for a biased score.

    Resampling biases the estimate as sampling biased the true value.
    """
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    return float(np.clip(2 * estimate - high, 0.0, most)), float(np.clip(2 * estimate - low, 0.0, most))


def centred_interval(estimate: float, drawn: Array, level: float) -> tuple[float, float]:
    """Return the interval of a biased score: the estimate minus the replicates' bias, ± z · spread."""
    middle = 2.0 * estimate - float(drawn.mean())
    half = float(ndtri(0.5 + level / 2) * drawn.std())
    return middle - half, middle + half


def inverted_interval(weight: Array, gap: Array, drawn: Array, power: int, level: float) -> tuple[float, float]:
    """Return the interval of ``Σ_b weight_b |gap_b|^power``, which noise alone makes larger than zero.

    If the true gaps are c · shape, the score is distributed as ``Σ weight |c · shape + noise|^power``, with the noise
    of the replicates (their gaps minus the observed ones). The interval contains the scores of all c ≥ 0 under which
    the observed value is neither too large nor too small: an inverted test. It contains zero unless noise cannot
    explain the observed value. A value smaller than expected from noise alone says little about c: the test for the
    upper end uses ``P_c(score ≤ value) / P_0(score ≤ value)`` (A. Read, Presentation of search results: the CLs
    technique, J. Phys. G 28, 2002), and the observed value is always inside. The shape is unknown: both the observed
    gaps and equal gaps are tried, and the outer ends are used.
    """
    noise = drawn - gap
    value = float((weight * np.abs(gap) ** power).sum())
    flat = np.sign(gap) * (value / weight.sum()) ** (1.0 / power)
    lower, upper = np.transpose([_scales(weight, shape, noise, power, value, level) for shape in (gap, flat)])
    return value * min(1.0, float(lower.min())) ** power, value * max(1.0, float(upper.max())) ** power


def _scales(weight: Array, shape: Array, noise: Array, power: int, value: float, level: float) -> tuple[float, float]:
    """Return the smallest and the largest c consistent with the observed value."""

    def share_below(c: float) -> float:
        scores = np.abs(c * shape + noise) ** power @ weight
        return float((np.count_nonzero(scores < value) + 0.5 * np.count_nonzero(scores == value)) / len(scores))

    def solve(target: float) -> float:
        low, high = 0.0, 1.0
        if share_below(low) <= target:
            return 0.0
        while share_below(high) > target and high < 1e6:
            low, high = high, 2.0 * high
        for _ in range(25):
            middle = (low + high) / 2
            low, high = (middle, high) if share_below(middle) > target else (low, middle)
        return (low + high) / 2

    return solve(0.5 + level / 2), solve((0.5 - level / 2) * share_below(0.0))


def log_odds_interval(share: float, error: float, level: float) -> tuple[float, float]:
    """Return the interval of a share with this standard error, on the scale of its log odds: it stays inside (0, 1)."""
    if not 0.0 < share < 1.0:
        return np.nan, np.nan
    half = float(ndtri(0.5 + level / 2)) * error / (share * (1.0 - share))
    return float(expit(logit(share) - half)), float(expit(logit(share) + half))


def auc_interval(area: float, error: float, rows: tuple[int, int], level: float) -> tuple[float, float]:
    """Return the interval of an AUC between two classes of ``rows`` rows: DeLong's, widened if rows are uninformative.

    Near an AUC of 1, few pairs are misranked, and without any of the rarest kind, DeLong's standard error is far too
    small. Hanley and McNeil's variance V(A) depends on the AUC alone, and its score interval is valid there (Newcombe,
    Confidence intervals for an effect size measure based on the Mann-Whitney statistic, Statistics in Medicine 25,
    2006). The estimated variance is r · V(A); r < 1 counts only as far as misranked rows support it:
      1. DeLong's interval on the scale of log odds,
      2. the ends θ of the score interval, ``(θ − A)² = z² r V(θ)``,
      3. the outer ends of both.

    >>> low, high = auc_interval(0.99, 0.002, (30, 300), 0.95)
    >>> round(low, 3), round(high, 3)
    (0.954, 0.998)
    """
    low, high = log_odds_interval(area, error, level)  # 1
    ratio = error**2 / _auc_variance(area, rows)
    shown = 2.0 * min(rows) * min(area, 1.0 - area)
    ratio = max(ratio, 1.0) if ratio >= 1.0 else (shown * ratio + SHOWN) / (shown + SHOWN)
    z2 = float(ndtri(0.5 + level / 2)) ** 2

    def beyond(x: float) -> float:
        return float((expit(x) - area) ** 2 - z2 * ratio * _auc_variance(float(expit(x)), rows))

    middle = float(logit(area))
    edges = [float(expit(brentq(beyond, middle, end, xtol=1e-9))) for end in (middle - 30.0, middle + 30.0)]  # 2
    return min(low, edges[0]), max(high, edges[1])  # 3


def _auc_variance(area: float, rows: tuple[int, int]) -> float:
    """Return the variance of an AUC by Hanley and McNeil (1982), with the mean size of the classes for both."""
    half = (rows[0] + rows[1]) / 2 - 1
    return area * (1 - area) * (1 + half * ((1 - area) / (2 - area) + area / (1 + area))) / (rows[0] * rows[1])


def wilson_interval(share: float, n: float, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share among ``n`` rows: from the shares that a score test does not reject."""
    z2 = float(ndtri(0.5 + level / 2)) ** 2
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * share * (1 - share) / n + z2**2 / (4 * n**2)) / (1 + z2 / n)
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))
