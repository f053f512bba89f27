"""An honest measure of a classifier: proper scores, calibration, ranking, costs, each with an interval."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import confusion_matrix

from oddsmith.decision.acting import REJECT, decide_by
from oddsmith.decision.loss import LossMatrix, read_loss, read_reject
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning
from oddsmith.evaluation.bootstrap import (
    Resampled,
    assign_groups,
    bca_interval,
    centred_interval,
    inverted_interval,
    reflected_interval,
    wilson_interval,
)
from oddsmith.evaluation.reading import Answers, ask
from oddsmith.evaluation.sums import Collector, Score, Sums, add_auc, add_bins, add_calibration, check_bins, mean_of
from oddsmith.inference.summary import check_level
from oddsmith.numerics import Array
from oddsmith.records import Table

NAMES = (
    *("log_loss", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "auc", "accuracy"),
    *("calibration_slope", "calibration_intercept", "calibration_error"),
    *("expected_cost", "realised_cost", "rejected"),
)


@dataclass(frozen=True)
class Estimate:
    """A score with its interval, and what the interval was made by."""

    value: float
    lower: float
    upper: float
    interval: str


@dataclass(frozen=True)
class Evaluation(Table):
    """The scores of a model on rows; each is also an attribute (NaN where the model has no probabilities).

    Attributes
    ----------
    scores : mapping from name to Estimate
    classes : array
    confusion : array, K × K
        Rows by true class, columns by predicted class.
    n_rows : int
    level : float
        Of the intervals.
    bounds : mapping from name to float
        How far a score can be from its exact value, where it is not exact: AUC of data larger than memory.
    """

    scores: Mapping[str, Estimate]
    classes: npt.NDArray[Any]
    confusion: npt.NDArray[np.intp]
    n_rows: int
    level: float
    bounds: Mapping[str, float] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name in NAMES:
            several = [e.value for key, e in self.scores.items() if key.startswith(f"{name}[")]
            if several:
                return np.array(several)
            return self.scores[name].value if name in self.scores else np.nan
        raise AttributeError(name)

    def interval(self, name: str) -> tuple[float, float]:
        """Return the interval of a score."""
        if name not in self.scores:
            raise InvalidInputError(f"There is no score {name!r} here. There are: {', '.join(self.scores)}.")
        return self.scores[name].lower, self.scores[name].upper

    def to_dict(self) -> dict[str, list[Any]]:
        """Return a row per score."""
        found = self.scores.values()
        return {
            "score": list(self.scores),
            "estimate": [e.value for e in found],
            "lower": [e.lower for e in found],
            "upper": [e.upper for e in found],
            "interval": [e.interval for e in found],
        }


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    loss: Any = None,
    *,
    reject: Any = None,
    bins: int = 10,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    **how: Any,
) -> Evaluation:
    """Return how good a fitted classifier is on rows that it was not fitted to.

    ====================== =====================================================================================
    log_loss               mean of −log p(true class), p no smaller than 2e-16
    brier                  mean of Σ_k (p_k − t_k)²; for two classes of (p − t)², half of that
    brier_reliability, …   brier = reliability − resolution + uncertainty, by ``bins`` of each class's probabilities
    auc                    area under the ROC curve; K > 2: mean over classes, each against the rest
    accuracy               share of right predictions
    calibration_slope, …   logistic recalibration ``t ~ logit(p)``: slope 1 and intercept 0 if calibrated, slope below
                           1 if probabilities are too extreme; K > 2: one slope, an intercept for each class
    calibration_error      expected calibration error: mean of |stated − observed| over bins of equal counts
    expected_cost          mean of the smallest expected loss: what the model thinks that its decisions cost
    realised_cost          mean loss of those decisions on these rows
    rejected               share of rows without a decision
    ====================== =====================================================================================

    Parameters
    ----------
    model : fitted classifier
        Of this library or of scikit-learn. Without ``predict_proba`` it gets accuracy and AUC.
    X, y : rows and labels
        ``y`` may be the name of a column of the table ``X``. ``X`` may be larger than memory: a path, folder, glob,
        pyarrow dataset, `scan` of them, Dask or Spark data frame.
    loss, reject : optional
        As for `decide`; with them there are costs.
    bins : int
        Bins of the reliability diagram, of about equal counts.
    level : float
        Of the intervals.
    replicates : int
        Of the bootstrap.
    seed : int
        Seed of the bootstrap.
    **how
        For files and clusters, as for `scan`: ``memory``, ``progress`` and so on.

    Intervals are by the bootstrap over rows (BCa; above 4,096 rows over as many random groups of rows), for the
    accuracy Wilson's. Calibration error and reliability, which noise makes larger, have the values that a test does
    not reject; resolution and uncertainty, which are off to one side too, theirs around an estimate without that.
    An AUC of 1 has the exact bound ``α/2 ^ (1 / rows of the smaller side)``.

    Cost: the model's predictions, O(N log N) for each class, and some tenths of a second for the bootstrap, whatever N.
    Of files and clusters the predictions are made once and kept within ``memory``; then there are six to eight passes
    over these. The answers of up to a million rows of two classes are measured as in memory. Of more, all but two
    scores are the same sums; AUC is exact up to 262,144 different probabilities (of all classes together), else it
    comes with a bound of its error (``bounds``), which the interval contains; bins begin at probabilities that are
    rounded alike.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from oddsmith import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = evaluate(LogisticRegression(prior=0.1).fit(X[:400], y[:400]), X[400:], y[400:])
    >>> round(result.accuracy, 3), round(result.auc, 3)
    (0.923, 0.996)
    >>> low, high = result.interval("log_loss")
    >>> bool(low < result.log_loss < high)
    True
    """
    _check_numbers(bins, level, replicates, seed)
    settings = Settings(loss, reject, int(bins), level, int(replicates), seed)
    if is_elsewhere(X):
        from oddsmith.evaluation.streamed import evaluate_pieces

        return evaluate_pieces(model, X, y, settings, how)
    if how:
        raise InvalidTypeError(f"{', '.join(how)}: for files and clusters only, and X is in memory. Leave it out.")
    return measure(ask(model, X, y), settings, type(model).__name__)


@dataclass(frozen=True)
class Settings:
    """How a model is measured; see `evaluate`."""

    loss: Any = None
    reject: Any = None
    bins: int = 10
    level: float = 0.95
    replicates: int = 2000
    seed: int = 0

    @property
    def has_costs(self) -> bool:
        """Whether decisions are measured, too."""
        return self.loss is not None or self.reject is not None


def measure(answers: Answers, settings: Settings, name: str) -> Evaluation:
    """Return the scores of what the model ``name`` said about rows."""
    rng = np.random.default_rng(settings.seed)
    group, count = assign_groups(len(answers.t), rng)
    collector = Collector(group, count)
    scores = _collect(answers, collector, settings.bins)
    if settings.has_costs:
        check_costs(answers.P is not None, name)
        scores += add_costs(answers, collector, read_loss(settings.loss, answers.classes), settings.reject)
    confusion = confusion_matrix(answers.t, answers.said, labels=np.arange(answers.K))
    return conclude(scores, collector.sums, answers.classes, confusion, settings, rng)


def conclude(
    scores: list[Score],
    sums: Sums,
    classes: npt.NDArray[Any],
    confusion: npt.NDArray[np.intp],
    settings: Settings,
    rng: np.random.Generator,
    bounds: Mapping[str, float] | None = None,
) -> Evaluation:
    """Return the scores with their intervals, from sums over groups of rows."""
    counts = confusion.sum(axis=1)
    if np.count_nonzero(counts) < 2:
        warnings.warn(
            f"All rows are of class {classes.tolist()[int(counts.argmax())]!r}: AUC and calibration slope say nothing "
            "here, and are NaN. Evaluate on rows of at least two classes.",
            OddsmithWarning,
            stacklevel=4,
        )
    resampled = Resampled.of(sums, settings.replicates, rng)
    with np.errstate(divide="ignore", invalid="ignore"):  # a replicate may lack what a score needs
        found = {score.name: _estimate(score, resampled, counts, settings.level) for score in scores}
    for name, bound in (bounds or {}).items():
        e = found[name]
        how = f"{e.interval}, estimate ± {bound:.1g}"
        found[name] = Estimate(e.value, e.lower - bound, e.upper + bound, how)
    order = [name for key in NAMES for name in found if name == key or name.startswith(f"{key}[")]
    ordered = {name: found[name] for name in order}
    return Evaluation(ordered, classes, confusion, int(counts.sum()), settings.level, dict(bounds or {}))


def check_costs(has_probabilities: bool, name: str) -> None:
    """Refuse costs of a model without probabilities."""
    if not has_probabilities:
        raise InvalidTypeError(
            f"{name} has no probabilities, and without them no loss can be expected. Leave loss and reject out, or "
            "recalibrate(model, …) it first."
        )


def _collect(answers: Answers, collector: Collector, bins: int) -> list[Score]:
    """Sum what the scores need, and return them."""
    collector.add("accuracy", (answers.t == answers.said) * 1.0)
    scores = [Score("accuracy", mean_of("accuracy"), "Wilson")]
    if answers.values is not None:
        scores.append(add_auc(answers, collector))
    if answers.P is not None:
        collector.add("log_loss", log_losses(answers))
        collector.add("brier", brier_losses(answers))
        scores += [Score(name, mean_of(name)) for name in ("log_loss", "brier")]
        scores += add_bins(answers, collector, bins)
        scores += add_calibration(answers, collector)
    return scores


def log_losses(answers: Answers) -> Array:
    """Return −log p of each row's own class."""
    return np.asarray(-np.log(answers.own))


def brier_losses(answers: Answers) -> Array:
    """Return each row's Brier score: Σ_k (p_k − t_k)², half of it for two classes."""
    assert answers.P is not None
    if answers.K == 2:
        return np.asarray((answers.P[:, 1] - (answers.t == 1)) ** 2)
    own = answers.P[np.arange(len(answers.t)), answers.t]
    return np.asarray((answers.P**2).sum(axis=1) - 2.0 * own + 1.0)


def add_costs(answers: Answers, collector: Collector, loss: LossMatrix, reject: Any) -> list[Score]:
    """What the model's decisions cost: as it expects, and on these rows."""
    assert answers.P is not None
    P = answers.P
    actions = decide_by(P, loss, reject)
    expected, realised = np.empty(len(P)), np.empty(len(P))
    for a, action in enumerate(loss.actions.tolist()):
        chosen = actions == action
        expected[chosen] = P[chosen] @ loss.values[:, a]
        realised[chosen] = loss.values[answers.t[chosen], a]
    names = ["expected_cost", "realised_cost"]
    if reject is not None:
        cost = read_reject(reject, loss.classes)
        out = actions == REJECT
        expected[out], realised[out] = P[out] @ cost, cost[answers.t[out]]
        collector.add("rejected", out * 1.0)
        names.append("rejected")
    collector.add("expected_cost", expected)
    collector.add("realised_cost", realised)
    return [Score(name, mean_of(name), "Wilson" if name == "rejected" else "bootstrap") for name in names]


def _estimate(score: Score, sums: Resampled, counts: npt.NDArray[np.intp], level: float) -> Estimate:
    value, replicates = float(score.formula(sums.whole)[0]), score.formula(sums.drawn)
    how, n = score.interval, int(counts.sum())
    if how == "Wilson":
        edges = wilson_interval(value, n, level)
    elif n < 2:
        edges = np.nan, np.nan  # one row, resampled, is the same row
    elif how == "reflected bootstrap":
        edges = reflected_interval(value, replicates, level, score.most)
    elif how == "centred bootstrap":
        edges = centred_interval(value, replicates, level)
    elif score.gaps is not None:
        weight, gap = score.gaps(sums.whole)
        edges = inverted_interval(weight[0], gap[0], score.gaps(sums.drawn)[1], score.power, level)
    elif score.name == "auc" and value in (0.0, 1.0):
        how, edges = "exact", _perfect_auc(counts, value, level)
    else:
        edges = bca_interval(value, replicates, score.formula(sums.without), level)
    return Estimate(value, *edges, how)


def _perfect_auc(counts: npt.NDArray[np.intp], value: float, level: float) -> tuple[float, float]:
    """Return the interval of an AUC without a single error.

    m rows of the smaller side make m independent pairs, all of them right with a probability of at most AUC^m.
    """
    m = int(np.minimum(counts, counts.sum() - counts).max())
    edge = float((0.5 - level / 2) ** (1.0 / m))
    return (edge, 1.0) if value == 1.0 else (0.0, 1.0 - edge)


def _check_numbers(bins: Any, level: Any, replicates: Any, seed: Any) -> None:
    check_bins(bins)
    check_level(level)
    if not (isinstance(replicates, int | np.integer) and replicates >= 100):
        raise InvalidInputError(f"replicates must be a whole number of at least 100, found {replicates!r}.")
    if seed is not None and not (isinstance(seed, int | np.integer) and seed >= 0):
        raise InvalidInputError(f"seed must be a whole number of at least 0, or None; found {seed!r}.")
