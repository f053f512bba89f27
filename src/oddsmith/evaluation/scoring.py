"""The evaluation of a classifier: proper scores, calibration, ranking, costs, each with an interval."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oddsmith.decision.loss import LossLike, RejectLike, read_loss
from oddsmith.design.inputs import as_table
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithWarning, UnknownNameError
from oddsmith.evaluation import bootstrap, sums
from oddsmith.evaluation.bootstrap import Resampled
from oddsmith.evaluation.model_output import ModelOutput, read_output
from oddsmith.evaluation.sums import Collector, Score, Sums
from oddsmith.inference.summary import check_level
from oddsmith.protocols import ClassifierLike, Indices, Labels
from oddsmith.records import Table

NAMES = (
    *("log_loss", "brier", "brier_reliability", "brier_resolution", "brier_uncertainty", "auc", "accuracy"),
    *("calibration_slope", "calibration_intercept", "calibration_error"),
    *("expected_cost", "realised_cost", "rejected"),
)


@dataclass(frozen=True)
class Estimate:
    """A score with its interval and the method of the interval."""

    value: float
    lower: float
    upper: float
    interval: str


@dataclass(frozen=True, kw_only=True)
class Evaluation(Table):
    """The scores of a model on some rows; each is also an attribute (NaN if the model has no probabilities).

    Attributes
    ----------
    scores : mapping from name to Estimate
    classes : array
    confusion : array, K × number of decisions
        Rows by true class, columns by ``decisions``.
    decisions : list
        The predicted classes or, with a loss, its actions; `REJECT` comes last if rows may be rejected.
    n_rows : int
    level : float
        Level of the intervals.
    bounds : mapping from name to float
        Error bounds of scores that are not exact: the AUC of data larger than memory.
    """

    scores: Mapping[str, Estimate]
    classes: Labels
    confusion: Indices
    decisions: list[Any]
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

    def __repr__(self) -> str:
        return str(self)

    def interval(self, name: str) -> tuple[float, float]:
        """Return the interval of a score."""
        if name not in self.scores:
            raise InvalidInputError(f"There is no score {name!r} here. The scores are: {', '.join(self.scores)}.")
        return self.scores[name].lower, self.scores[name].upper

    def to_dict(self) -> dict[str, list[Any]]:
        header = ("score", "estimate", "lower", "upper", "interval")
        rows = [(name, e.value, e.lower, e.upper, e.interval) for name, e in self.scores.items()]
        return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))


def evaluate(
    model: ClassifierLike,
    X: Any,
    y: Any,
    loss: LossLike = None,
    *,
    reject: RejectLike = None,
    bins: int = 10,
    level: float = 0.95,
    replicates: int = 2000,
    seed: int = 0,
    unlabelled: str = "error",
    **how: Any,
) -> Evaluation:
    """Score a fitted classifier on rows that it was not fitted to.

    ====================== =====================================================================================
    log_loss               mean of −log p(true class), with p at least 2e-16
    brier                  mean of Σ_k (p_k − t_k)²; for two classes of (p − t)², half that sum
    brier_reliability, …   brier = reliability − resolution + uncertainty, by ``bins`` of each class's probabilities
    auc                    area under the ROC curve; K > 2: mean over classes, each against the rest
    accuracy               share of correct predictions
    calibration_slope, …   logistic recalibration ``t ~ logit(p)``: slope 1 and intercept 0 if calibrated, slope below
                           1 if probabilities are too extreme; K > 2: one slope, an intercept for each class
    calibration_error      expected calibration error: mean of |stated − observed| over bins of equal counts
    expected_cost          mean of the smallest expected loss: the cost that the model predicts for its decisions
    realised_cost          mean loss of those decisions on these rows
    rejected               share of rows without a decision
    ====================== =====================================================================================

    Parameters
    ----------
    model : fitted classifier
        From this library or scikit-learn. Without ``predict_proba``, only accuracy and AUC are computed.
    X, y : rows and labels
        ``y`` may be the name of a column of the table ``X``. ``X`` may be larger than memory: a path, folder, glob,
        pyarrow dataset, `scan` of these, Dask or Spark data frame.
    loss, reject : optional
        As in `decide`; adds the costs.
    bins : int
        Bins of the reliability diagram, of about equal counts.
    level : float
        Level of the intervals.
    replicates : int
        Number of bootstrap replicates.
    seed : int
        Random seed of the bootstrap.
    unlabelled : "error" or "drop"
        Rows without a label in the column ``y`` of a table: an error, or left out.
    **how
        For files and clusters, as in `scan`: ``memory``, ``progress`` and so on.

    The column ``interval`` names the method of each interval:

    ================== =========================================================================================
    bootstrap          resamples rows with replacement; corrected for bias and skewness (BCa). Above 4,096 rows,
                       it resamples that many random groups of rows
    DeLong             AUC: standard error of DeLong, DeLong and Clarke-Pearson (1988), applied to the log odds
                       of the AUC, so that the interval stays below 1
    exact              an AUC of 1 has the lower bound ``α/2 ^ (1 / rows of the smaller side)``
    Wilson             shares: the values that a score test does not reject
    bootstrap test     calibration error and reliability, which noise biases upwards: the values that are consistent
                       with the observed one. The interval contains zero unless noise cannot explain the observed value
    bootstrap, shifted resolution and uncertainty, which noise biases: the interval is shifted back by the bias
    ================== =========================================================================================

    The calibration slope is NaN if all rows have the same probabilities, and infinite if the classes are separated; it
    replaces zero probabilities by 2e-16 or by the smallest other one.

    Cost: the model's predictions, O(N log N) for each class, and a few tenths of a second for the bootstrap, for any N.
    For files and clusters, predictions are computed once and kept within ``memory``, followed by six to eight passes
    over them. Up to a million rows of two classes are scored as in memory. For more rows, all but two scores are the
    same sums; AUC is exact up to 262,144 distinct probabilities (over all classes), and otherwise has an error bound
    (``bounds``), which the interval includes; bins start at rounded probabilities.

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
    sums.check_bins(bins)
    check_level(level)
    if not (isinstance(replicates, int | np.integer) and replicates >= 100):
        raise InvalidInputError(f"replicates must be a whole number of at least 100, found {replicates!r}.")
    if seed is not None and not (isinstance(seed, int | np.integer) and seed >= 0):
        raise InvalidInputError(f"seed must be a whole number of at least 0, or None; found {seed!r}.")
    if unlabelled not in ("error", "drop"):
        raise UnknownNameError("unlabelled", unlabelled, ["error", "drop"])
    given: dict[str, Any] = {"loss": loss, "reject": reject, "level": level, "seed": seed, "unlabelled": unlabelled}
    settings = Settings(bins=int(bins), replicates=int(replicates), **given)
    if is_elsewhere(X):
        from oddsmith.evaluation.streamed import evaluate_pieces

        return evaluate_pieces(model, X, y, settings, how)
    if how:
        raise InvalidTypeError(
            f"{', '.join(how)}: works with files and clusters only, but X is in memory. Leave it out."
        )
    table = as_table(X) if settings.unlabelled == "drop" and isinstance(y, str) else None
    if table is not None and y in table.columns:
        X = table.filter(~table[y].is_null()).to_native()
    return measure(read_output(model, X, y), settings, type(model).__name__)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an evaluation; see `evaluate`."""

    loss: LossLike = None
    reject: RejectLike = None
    bins: int = 10
    level: float = 0.95
    replicates: int = 2000
    seed: int = 0
    unlabelled: str = "error"

    @property
    def has_costs(self) -> bool:
        """Whether to score decisions, too."""
        return self.loss is not None or self.reject is not None


def measure(output: ModelOutput, settings: Settings, name: str) -> Evaluation:
    """Return the scores of the output of the model ``name``."""
    rng = np.random.default_rng(settings.seed)
    collector = Collector(*bootstrap.assign_groups(len(output.t), rng))
    sums.add_losses(output, collector)
    counted = Counted(output.classes, output.confusion())
    if settings.has_costs:
        check_costs(output.P is not None, name)
        loss = read_loss(settings.loss, output.classes)
        confusion = sums.add_costs(output, collector, loss, settings.reject)
        counted = Counted(output.classes, confusion, sums.decision_labels(loss, settings.reject))
    scores = [score for score in sums.MEANS if score.name in collector.sums]
    if output.values is not None:
        scores.append(sums.add_auc(output))
    if output.P is not None:
        scores += sums.add_bins(output, collector, settings.bins) + sums.add_calibration(output, collector)
    return conclude(scores, collector.sums, counted, settings, rng)


@dataclass(frozen=True)
class Counted:
    """Counts of rows by true class and decision; by default, the decisions are the classes."""

    classes: Labels
    confusion: Indices
    decisions: list[Any] | None = None


def conclude(
    scores: list[Score],
    by_group: Sums,
    counted: Counted,
    settings: Settings,
    rng: np.random.Generator,
    bounds: Mapping[str, float] | None = None,
) -> Evaluation:
    """Return the scores with their intervals, from sums over groups of rows."""
    classes, counts = counted.classes, counted.confusion.sum(axis=1)
    if np.count_nonzero(counts) < 2:
        warnings.warn(
            f"All rows are of class {classes.tolist()[int(counts.argmax())]!r}: AUC and calibration slope are "
            "undefined (NaN). Evaluate on rows of at least two classes.",
            OddsmithWarning,
            stacklevel=4,
        )
    resampled = Resampled.of(by_group, settings.replicates, rng)
    with np.errstate(divide="ignore", invalid="ignore"):  # a replicate may lack what a score needs
        found = {score.name: _estimate(score, resampled, counts, settings.level) for score in scores}
    for name, bound in (bounds or {}).items():
        e = found[name]
        how = f"{e.interval}, estimate ± {bound:.1g}"
        found[name] = Estimate(e.value, e.lower - bound, e.upper + bound, how)
    ordered = {name: e for key in NAMES for name, e in found.items() if name == key or name.startswith(f"{key}[")}
    return Evaluation(
        scores=ordered,
        classes=classes,
        confusion=counted.confusion,
        decisions=classes.tolist() if counted.decisions is None else counted.decisions,
        n_rows=int(counts.sum()),
        level=settings.level,
        bounds=dict(bounds or {}),
    )


def check_costs(has_probabilities: bool, name: str) -> None:
    """Refuse costs for a model without probabilities."""
    if not has_probabilities:
        raise InvalidTypeError(
            f"{name} has no probabilities, which an expected loss needs. Leave loss and reject out, or call "
            "recalibrate(model, …) first."
        )


def _estimate(score: Score, resampled: Resampled, counts: Indices, level: float) -> Estimate:
    value = float(score.formula(resampled.whole)[0])
    how, n = score.interval, int(counts.sum())
    if how == "Wilson":
        return Estimate(value, *bootstrap.wilson_interval(value, n, level), how)
    if n < 2:
        return Estimate(value, np.nan, np.nan, how)  # one row, resampled, is the same row
    if how == "DeLong":
        return Estimate(value, *_auc_interval(score, value, counts, level))
    replicates = score.formula(resampled.drawn)
    if how == "bootstrap, shifted" and np.isfinite(score.most):
        edges = bootstrap.reflected_interval(value, replicates, level, score.most)
    elif how == "bootstrap, shifted":
        edges = bootstrap.centred_interval(value, replicates, level)
    elif score.gaps is not None:
        weight, gap = score.gaps(resampled.whole)
        edges = bootstrap.inverted_interval(weight[0], gap[0], score.gaps(resampled.drawn)[1], score.power, level)
    else:
        edges = bootstrap.bca_interval(value, replicates, score.formula(resampled.without), level)
    return Estimate(value, *edges, how)


def _auc_interval(score: Score, value: float, counts: Indices, level: float) -> tuple[float, float, str]:
    """Return DeLong's interval (for two classes, widened if few rows determine it), and its name.

    A side of a single row has no estimate of variance: the largest possible value, ``A (1 − A)``, replaces it.
    """
    if value in (0.0, 1.0):
        return *_perfect_auc(counts, value, level), "exact"
    sides = np.minimum(counts, counts.sum() - counts)
    error = score.error if sides[sides > 0].min(initial=2) > 1 else float(np.sqrt(value * (1.0 - value)))
    if len(counts) == 2 and counts.all() and 0.0 < value < 1.0:
        return *bootstrap.auc_interval(value, error, (int(counts[0]), int(counts[1])), level), score.interval
    return *bootstrap.log_odds_interval(value, error, level), score.interval


def _perfect_auc(counts: Indices, value: float, level: float) -> tuple[float, float]:
    """Return the interval of an AUC without a single error.

    The m rows of the smaller side form m independent pairs, all ranked correctly with probability at most AUC^m.
    """
    m = int(np.minimum(counts, counts.sum() - counts).max())
    edge = float((0.5 - level / 2) ** (1.0 / m))
    return (edge, 1.0) if value == 1.0 else (0.0, 1.0 - edge)
