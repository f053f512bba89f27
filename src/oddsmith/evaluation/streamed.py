"""`evaluate` for data in pieces: the predictions for each piece are kept as a block, and scores are sums over these.

1. The first pass predicts, and sums what needs no more than a row: losses, costs, counts; and it counts the values that
   rows are ranked by.
2. Newton's method for the calibration slope takes one pass an iteration.
3. The last pass sums what the counts of values and the slope are needed for: placements, bins, influences.

Rows belong to random groups, and all sums are by group: the bootstrap draws groups, as in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Self, TypeVar

import numpy as np

from oddsmith.block import Block
from oddsmith.data_access.streamed_prediction import model_inputs, open_pieces, select_columns, with_types
from oddsmith.data_access.training_stream import PassCounter
from oddsmith.decision.calibration import LinearMap, MapCoordinates, cross_entropy, gradients, moves_by, solve_linear
from oddsmith.decision.loss import LossMatrix, RejectLike, read_loss
from oddsmith.design.data_summary import drop_unlabelled, locate_errors
from oddsmith.design.inputs import as_table
from oddsmith.design.labels import code_labels
from oddsmith.engines import PartedSource, Parts, Piece, one_blas_thread
from oddsmith.engines.scan import Wrapped
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation import scoring, sums
from oddsmith.evaluation.bootstrap import GROUPS
from oddsmith.evaluation.model_output import ModelOutput, has_proba, predict_output, provides, require_fitted
from oddsmith.evaluation.scoring import Evaluation, Settings
from oddsmith.evaluation.sums import Collector, Sums
from oddsmith.evaluation.value_counts import ValueCounts, keys_of, rounded, values_of
from oddsmith.models.base import Classifier
from oddsmith.numerics import EPS, Array
from oddsmith.protocols import ClassifierLike, Indices, Labels
from oddsmith.rows import as_rows
from oddsmith.statistic import Shape

GATHERED = 2_000_000  # Number of probabilities up to which predictions are gathered and scored in memory.
VALUES = 1 << 18  # Distinct values, over all classes, up to which AUC is exact.
TILE = 4096  # Number of rows whose values stay in a core's own cache.
SUMS = 4_000_000  # Numbers in the sums of a piece; with many classes there are fewer groups.

S = TypeVar("S")


@dataclass(frozen=True, eq=False, kw_only=True)
class PredictionEncoder:
    """Makes a block of a piece: the class of each row; K values, the predicted class and a random group as columns."""

    model: ClassifierLike
    classes: Labels
    y: str | None
    groups: int
    seed: int
    ranks: bool
    proba: bool
    drop: bool = False

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.classes) * self.ranks + 2

    def empty(self) -> Block:
        """Return a block of no rows."""
        return Block(as_rows(np.empty((0, self.width))), np.empty(0, dtype=np.int32))

    def __call__(self, piece: Piece) -> Block:
        piece = drop_unlabelled(piece, self.y) if self.drop and self.y is not None else piece
        with locate_errors(piece):
            table = as_table(piece.rows)
            n = int(piece.rows.shape[0]) if table is None else len(table)
            if not n:
                return self.empty()
            t = self._codes(piece.y if self.y is None or table is None else table.get_column(self.y))
            rows = piece.rows if table is None or self.y is None else table.drop(self.y).to_native()
            output = predict_output(self.model, model_inputs(self.model, rows), t, self.classes)
            group = np.random.default_rng([self.seed, piece.number]).integers(0, self.groups, n)
            values = output.values if self.ranks and output.values is not None else np.empty((n, 0))
            return Block(as_rows(np.column_stack([values, output.predicted, group])), t.astype(np.int32))

    def _codes(self, labels: object) -> Indices:
        found, codes = code_labels(labels)
        place = {label: k for k, label in enumerate(self.classes.tolist())}
        for label in found.tolist():
            if label not in place:
                raise UnknownNameError("class in y", label, place)
        return np.array([place[label] for label in found.tolist()], dtype=np.intp)[codes]

    def read(self, block: Block) -> tuple[ModelOutput, Indices]:
        """Return the predictions in a block, and the group of each row."""
        values = np.ascontiguousarray(block.X[:, : len(self.classes)]) if self.ranks else None
        predicted, group = block.X[:, -2:].astype(np.intp).T
        t, P = block.t.astype(np.intp), values if self.proba else None
        return ModelOutput(classes=self.classes, t=t, predicted=predicted, P=P, values=values), group


class PassStatistic:
    """A statistic of blocks of predictions: its fields are added one by one."""

    @classmethod
    def zero(cls, shape: Shape, params: RowSumsParams | CrossEntropyParams | RankSumsParams) -> Self:
        return cls.of(params.encoder.empty(), params)

    @classmethod
    def of(cls, block: Block, params: Any) -> Self:
        raise InvalidTypeError(
            f"{cls.__name__} does not say what it sums. A statistic of predictions defines of(block, params), which "
            "returns the sums of a block."
        )

    def merge(self, other: Self) -> Self:
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return type(self)(**{name: added(getattr(self, name), getattr(other, name)) for name in names})


def added(one: Any, other: Any) -> Any:
    """Return the sum of two values: numbers, arrays and tuples by ``+``, mappings by their keys."""
    if isinstance(one, dict):
        return {name: added(value, other[name]) for name, value in one.items()}
    return one.merge(other) if isinstance(one, ValueCounts | Least) else one + other


@dataclass(frozen=True)
class Least:
    """The smallest of some numbers."""

    value: float

    def merge(self, other: Least) -> Least:
        """Return the smaller one."""
        return min(self, other, key=lambda least: least.value)


@dataclass(frozen=True)
class GatheredBlocks(PassStatistic):
    """All blocks, in order: a statistic that is as large as what it is of."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def zero(cls, shape: Shape, params: object) -> Self:
        return cls()

    @classmethod
    def of(cls, block: Block, params: None) -> Self:
        return cls((block,) if block.n_rows else ())


@dataclass(frozen=True)
class RowSumsParams:
    """How rows are read, by which costs decisions are measured, and how many different values are counted at most."""

    encoder: PredictionEncoder
    loss: LossMatrix | None
    reject: RejectLike
    most: int


@dataclass(frozen=True, kw_only=True)
class RowSums(PassStatistic):
    """The sums of the first pass, by group; counts of classes by decision, and of the values of each class.

    ``spread`` is Σ z zᵀ over the rows' centred log probabilities, K × K, and ``total`` is Σ z; ``least`` is what takes
    the place of a probability of zero.
    """

    sums: Sums
    confusion: Indices
    counts: dict[int, ValueCounts]
    spread: Array
    total: Array
    least: Least

    @classmethod
    def of(cls, block: Block, params: RowSumsParams) -> Self:
        output, group = params.encoder.read(block)
        K, collector = output.K, Collector(group, params.encoder.groups)
        sums.add_losses(output, collector)
        spread, total, least = np.zeros((K, K)), np.zeros(K), EPS
        if output.P is not None:
            least = sums.least_probability(output.P)
            A = sums.calibration_inputs(output, np.arange(K), EPS)[0]
            Z = A - A.mean(axis=1, keepdims=True)
            spread, total = Z.T @ Z, Z.sum(axis=0)
        confusion = output.confusion()
        if params.loss is not None:
            confusion = sums.add_costs(output, collector, params.loss, params.reject)
        counts = {}
        if output.values is not None:
            counts = {k: ValueCounts.of(output.values[:, k], output.t == k, params.most) for k in output.positives}
        moments = {"spread": spread, "total": total}
        return cls(sums=collector.sums, confusion=confusion, counts=counts, least=Least(least), **moments)


@dataclass(frozen=True, kw_only=True)
class CrossEntropyParams:
    """Where the cross entropy of the classes ``present`` is taken: (slope, shifts), in the coordinates ``where``."""

    encoder: PredictionEncoder
    present: Indices
    where: MapCoordinates
    zero: float
    theta: Array


@dataclass(frozen=True)
class CrossEntropy(PassStatistic):
    """The cross entropy of a linear map of the log probabilities, its gradient and its Hessian, and how many rows."""

    value: float
    g: Array
    H: Array
    n: int

    @classmethod
    def of(cls, block: Block, params: CrossEntropyParams) -> Self:
        K = len(params.theta)
        total = cls(0.0, np.zeros(K), np.zeros((K, K)), 0)
        for first in range(0, block.n_rows, TILE):
            rows = slice(first, first + TILE)
            output = params.encoder.read(Block(block.X[rows], block.t[rows]))[0]
            A, T = sums.calibration_inputs(output, params.present, params.zero)
            Z = np.asfortranarray(A - A.mean(axis=1, keepdims=True))  # sums over classes add columns
            Z = (Z - params.where.center) / params.where.scale
            total = total.merge(cls(*cross_entropy(Z, np.asfortranarray(T), np.ones(len(Z)), params.theta), len(Z)))
        return total


@dataclass(frozen=True, kw_only=True)
class RankSumsParams:
    """What the earlier passes found: counts of values with their placements, edges of bins and which have rows."""

    encoder: PredictionEncoder
    ranked: dict[int, tuple[ValueCounts, Array]]
    bins: dict[int, tuple[Array, Indices]]
    present: Indices
    zero: float
    found: LinearMap | None


@dataclass(frozen=True)
class RankSums(PassStatistic):
    """The sums of the last pass, by group, and the Hessian of the calibration."""

    sums: Sums
    H: Array

    @classmethod
    def of(cls, block: Block, params: RankSumsParams) -> Self:
        output, group = params.encoder.read(block)
        collector = Collector(group, params.encoder.groups)
        for k, (counts, placements) in params.ranked.items():
            assert output.values is not None
            place = placements[np.searchsorted(counts.keys, rounded(keys_of(output.values[:, k]), counts.drop))]
            sums.add_placements(collector, k, output.t == k, place[:, 1], place[:, 0])
        for k, (edges, used) in params.bins.items():
            assert output.P is not None
            cell = np.searchsorted(used, np.searchsorted(edges, output.P[:, k], side="right"))
            sums.add_cells(collector, output, k, cell, len(used))
        H = np.zeros((len(params.present) + 1, len(params.present) + 1))
        if params.found is not None:
            A, T = sums.calibration_inputs(output, params.present, params.zero)
            collector.add("calibration", *gradients(A, T, params.found).T)
            theta = np.append(params.found.slope, params.found.shift)
            where = MapCoordinates(1.0, np.zeros(len(params.present)))
            at = CrossEntropyParams(
                encoder=params.encoder, present=params.present, where=where, zero=params.zero, theta=theta
            )
            H = CrossEntropy.of(block, at).H
        return cls(collector.sums, H)


def evaluate_pieces(model: ClassifierLike, X: object, y: object, settings: Settings, how: dict[str, Any]) -> Evaluation:
    """Return the scores of a model on data in pieces; see `evaluate`."""
    require_fitted(model)
    proba = has_proba(model)
    if settings.has_costs:
        scoring.check_costs(proba, type(model).__name__)
    classes = np.asarray(model.classes_)
    loss = read_loss(settings.loss, classes) if settings.has_costs else None
    column = y if isinstance(y, str) else None
    parts, progress = open_pieces(X, how, None if column is not None else {"y": y})
    parts = _chosen(model, parts, column, classes)
    K, sides = len(classes), 1 if len(classes) == 2 else len(classes)
    encoder = PredictionEncoder(
        model=model,
        classes=classes,
        y=column,
        groups=int(np.clip(SUMS // (sides * (4 + 3 * settings.bins) + K + 8), 64, GROUPS)),
        seed=settings.seed or 0,
        # Elsewhere more than two classes may have values of pairs of them.
        ranks=proba or (provides(model, "decision_function") and (K == 2 or isinstance(model, Classifier))),
        proba=proba,
        drop=settings.unlabelled == "drop",
    )
    source = PartedSource(Wrapped(parts, PassCounter(parts.engine, progress)), encoder, M=encoder.width, K=K)
    folding = StreamedEvaluation(source, encoder, settings, loss)
    with one_blas_thread():  # pieces are on several threads already
        if not 0 < parts.expected_rows * K <= GATHERED:
            return folding.evaluation()
        output = folding.gathered()
    return scoring.measure(output, settings, type(model).__name__)


def _chosen(model: ClassifierLike, parts: Parts, y: str | None, classes: Labels) -> Parts:
    """Return the pieces with the columns of the model and the labels; labels in text are of the type of the classes."""
    if y is None or parts.columns is None:
        return select_columns(model, parts)
    if y not in parts.columns:
        raise InvalidInputError(f"There is no column {y!r}. The data has: {', '.join(map(repr, parts.columns))}.")
    import pyarrow as pa

    label = classes.tolist()[0]
    types = {y: pa.scalar(label).type} if isinstance(label, str | int | float | bool) else {}
    return with_types(select_columns(model, parts, y), types)


@dataclass(frozen=True)
class StreamedEvaluation:
    """The passes over data in pieces."""

    source: PartedSource
    encoder: PredictionEncoder
    settings: Settings
    loss: LossMatrix | None

    def _fold(self, statistic: type[S], params: object) -> S:
        result: S = self.source.parts.engine.fold(statistic, self.source, params)
        return result

    def gathered(self) -> ModelOutput:
        """Return all predictions."""
        blocks = self._fold(GatheredBlocks, None).blocks
        if not blocks:
            raise InvalidInputError("There are no rows.")
        whole = Block(as_rows(np.concatenate([b.X for b in blocks])), np.concatenate([b.t for b in blocks]))
        return self.encoder.read(whole)[0]

    def evaluation(self) -> Evaluation:
        """Return the scores, where the predictions are too many to bring together."""
        classes, proba = self.encoder.classes, self.encoder.proba
        K = len(classes)
        positives = [1] if K == 2 else list(range(K))
        most = max(4096, VALUES // len(positives))
        first = self._fold(RowSums, RowSumsParams(self.encoder, self.loss, self.settings.reject, most))
        totals = first.confusion.sum(axis=1)
        n, present = int(totals.sum()), np.flatnonzero(totals)
        if not n:
            raise InvalidInputError("There are no rows.")
        ranked = {k: counts for k, counts in first.counts.items() if 0 < totals[k] < n}
        areas = {k: counts.area() for k, counts in ranked.items()}
        found = self._calibration(first, present, n) if proba else None
        bins = {}
        for k, counts in (first.counts if proba else {}).items():
            edges = counts.edges(self.settings.bins)
            bins[k] = edges, np.unique(np.searchsorted(edges, values_of(counts.keys), side="right"))
        finite = found is not None and np.isfinite([found.slope, *found.shift]).all()
        placed = {k: (counts, counts.placements()) for k, counts in ranked.items()}
        params = RankSumsParams(
            encoder=self.encoder,
            ranked=placed,
            bins=bins,
            present=present,
            zero=first.least.value,
            found=found if finite else None,
        )
        last = self._fold(RankSums, params)
        _check_rows(int(last.sums["n"].sum()), n)
        by_group = first.sums | {name: value for name, value in last.sums.items() if name != "n"}
        scores = [score for score in sums.MEANS if score.name in by_group]
        if self.encoder.ranks:
            found_areas = {k: area for k, (area, _) in areas.items()}
            influence = sums.group_influence(by_group, found_areas)
            scores.append(sums.auc_score(list(found_areas.values()), influence))
        if found is not None:
            scores += sums.bin_scores(positives, K)
            G = last.sums.get("calibration")
            moves = np.zeros((len(last.sums["n"]), len(present) + 1)) if G is None else moves_by(G, last.H)
            theta, by_group["calibration"] = sums.against_first(np.append(found.slope, found.shift), moves)
            scores += sums.calibration_scores(theta, [classes.tolist()[k] for k in present], n)
        bound = float(np.mean([b for _, b in areas.values()])) if areas else 0.0
        rng, bounds = np.random.default_rng(self.settings.seed), {"auc": bound} if bound else {}
        decisions = None if self.loss is None else sums.decision_labels(self.loss, self.settings.reject)
        counted = scoring.Counted(classes, first.confusion, decisions)
        return scoring.conclude(scores, by_group, counted, self.settings, rng, bounds)

    def _calibration(self, first: RowSums, present: Indices, n: int) -> LinearMap:
        """Return the logistic recalibration, by a pass for each iteration."""
        K = len(present)
        # Log probabilities are centred over all classes; here over those that are present.
        center = first.total[present] / n
        S = first.spread[np.ix_(present, present)] / n - np.outer(center, center)
        center = center - center.mean()
        scale = float(np.sqrt(max(0.0, (np.trace(S) - S.sum() / K) / K)))
        if K < 2 or scale <= sums.LEAST_SPREAD:
            return LinearMap(np.nan, np.full(K, np.nan))
        where = MapCoordinates(scale, center)

        def entropy(theta: Array) -> tuple[float, Array, Array]:
            at = CrossEntropyParams(
                encoder=self.encoder, present=present, where=where, zero=first.least.value, theta=theta
            )
            found = self._fold(CrossEntropy, at)
            _check_rows(found.n, n)
            return found.value, found.g, found.H

        return solve_linear(entropy, where)


def _check_rows(now: int, before: int) -> None:
    if now != before:
        raise InvalidInputError(
            f"The first pass read {before} rows, but a later one {now}: the data has changed. Evaluate again when "
            "nothing writes to it."
        )
