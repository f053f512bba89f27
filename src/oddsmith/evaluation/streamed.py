"""`evaluate` for data in pieces: what a model says of each piece is kept as a block, and scores are sums over these.

1. The first pass asks the model, and sums what needs no more than a row: losses, costs, counts; and it tallies the
   values that rows are ranked by.
2. Newton's method for the calibration slope takes one pass an iteration.
3. The last pass sums what the tallies and the slope are needed for: placements, bins, influences.

Rows belong to random groups, and all sums are by group: the bootstrap draws groups, as in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.block import Block
from oddsmith.decision.calibration import FLAT, LinearMap, cross_entropy, gradients, moves_by, solve_linear
from oddsmith.decision.loss import LossMatrix, read_loss
from oddsmith.design.inputs import as_table
from oddsmith.design.labels import code_labels
from oddsmith.design.survey import at
from oddsmith.engines import PartedSource, Parts, Piece, one_blas_thread
from oddsmith.engines.scan import Wrapped
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation.bootstrap import GROUPS
from oddsmith.evaluation.reading import Answers, answers
from oddsmith.evaluation.scoring import (
    Evaluation,
    Settings,
    add_costs,
    brier_losses,
    check_costs,
    conclude,
    log_losses,
    measure,
)
from oddsmith.evaluation.sums import (
    Collector,
    Score,
    Sums,
    against_first,
    auc_score,
    bin_scores,
    calibration_inputs,
    calibration_scores,
    mean_of,
)
from oddsmith.evaluation.tally import Tally, keys_of, rounded, values_of
from oddsmith.models.answering import inputs, needed, opened, with_types
from oddsmith.models.base import Classifier
from oddsmith.models.streaming import Passes
from oddsmith.numerics import Array
from oddsmith.statistic import Shape

GATHERED = 2_000_000
"""Probabilities up to which the answers are brought together, and measured as in memory."""
VALUES = 1 << 18
"""Different values, of all classes together, up to which AUC is exact."""
TILE = 4096
"""Rows of which numbers stay in a core's own cache."""
SUMS = 4_000_000
"""Numbers in the sums of a piece; with many classes there are fewer groups."""


@dataclass(frozen=True, eq=False)
class Asking:
    """Makes a block of a piece: the class of each row, and K values, the class said and a random group as columns."""

    model: Any
    classes: npt.NDArray[Any]
    y: str | None
    groups: int
    seed: int
    ranks: bool
    proba: bool

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.classes) * self.ranks + 2

    def __call__(self, piece: Piece) -> Block:
        """Return what is said about a piece."""
        with at(piece):
            return self._block(piece)

    def _block(self, piece: Piece) -> Block:
        table = as_table(piece.rows)
        n = int(piece.rows.shape[0]) if table is None else len(table)
        if not n:
            return Block(np.empty((0, self.width)), np.empty(0, dtype=np.int32))
        t = self._codes(piece.y if self.y is None or table is None else table.get_column(self.y))
        rows = piece.rows if table is None or self.y is None else table.drop(self.y).to_native()
        found = answers(self.model, inputs(self.model, rows), t, self.classes)
        group = np.random.default_rng([self.seed, piece.number]).integers(0, self.groups, n)
        values: Any = found.values if self.ranks else np.empty((n, 0))
        return Block(np.column_stack([values, found.said, group]), t.astype(np.int32))

    def _codes(self, labels: Any) -> npt.NDArray[np.intp]:
        found, codes = code_labels(labels)
        place = {label: k for k, label in enumerate(self.classes.tolist())}
        for label in found.tolist():
            if label not in place:
                raise UnknownNameError("class in y", label, place)
        return np.array([place[label] for label in found.tolist()], dtype=np.intp)[codes]

    def read(self, block: Block) -> tuple[Answers, npt.NDArray[np.intp]]:
        """Return what a block holds, and the group of each row."""
        K = len(self.classes)
        values = np.ascontiguousarray(block.Phi[:, :K]) if self.ranks else None
        said, group = block.Phi[:, -2:].astype(np.intp).T
        return Answers(self.classes, block.t.astype(np.intp), said, values if self.proba else None, values), group


@dataclass(frozen=True)
class Gathered:
    """Blocks, in order: a statistic that is as large as what it is of."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def zero(cls, shape: Shape, params: Any) -> Gathered:
        """Return no blocks."""
        return cls()

    @classmethod
    def of(cls, block: Block, params: Any) -> Gathered:
        """Return a block."""
        return cls((block,) if block.n_rows else ())

    def merge(self, other: Gathered) -> Gathered:
        """Return the blocks of both."""
        return Gathered((*self.blocks, *other.blocks))


@dataclass(frozen=True)
class FirstParams:
    """How rows are read, and by which costs decisions are measured."""

    asking: Asking
    loss: LossMatrix | None
    reject: Any
    most: int


@dataclass(frozen=True)
class First:
    """The sums of the first pass, by group; counts of true against said classes; tallies of the values of each class.

    ``spread`` is Σ z zᵀ over the rows' centred log probabilities, K × K.
    """

    sums: Sums
    confusion: npt.NDArray[np.intp]
    tallies: tuple[Tally, ...]
    spread: Array

    @classmethod
    def zero(cls, shape: Shape, params: FirstParams) -> First:
        """Return the sums of no rows."""
        return cls.of(Block(np.empty((0, params.asking.width)), np.empty(0, dtype=np.int32)), params)

    @classmethod
    def of(cls, block: Block, params: FirstParams) -> First:
        """Return the sums of a block."""
        found, group = params.asking.read(block)
        K, collector = found.K, Collector(group, params.asking.groups)
        collector.add("accuracy", (found.t == found.said) * 1.0)
        spread = np.zeros((K, K))
        if found.P is not None:
            collector.add("log_loss", log_losses(found))
            collector.add("brier", brier_losses(found))
            A = calibration_inputs(found, np.arange(K))[0]
            Z = A - A.mean(axis=1, keepdims=True)
            spread = Z.T @ Z
        if params.loss is not None:
            add_costs(found, collector, params.loss, params.reject)
        confusion = np.bincount(found.t * K + found.said, minlength=K * K).reshape(K, K)
        tallies: tuple[Tally, ...] = ()
        if found.values is not None:
            tallies = tuple(Tally.of(found.values[:, k], found.t == k, params.most) for k in found.positives)
        return cls(collector.sums, confusion, tallies, spread)

    def merge(self, other: First) -> First:
        """Return the sums of both."""
        tallies = tuple(a.merge(b) for a, b in zip(self.tallies, other.tallies, strict=True))
        confusion = self.confusion + other.confusion
        return First(added(self.sums, other.sums), confusion, tallies, self.spread + other.spread)


@dataclass(frozen=True)
class EntropyParams:
    """Where the cross entropy of the classes ``present`` is taken: (slope, shifts), of values over ``scale``."""

    asking: Asking
    present: npt.NDArray[np.intp]
    scale: float
    theta: Array


@dataclass(frozen=True)
class Entropy:
    """The cross entropy of a linear map of the log probabilities, its gradient and its Hessian, and how many rows."""

    value: float
    g: Array
    H: Array
    n: int

    @classmethod
    def zero(cls, shape: Shape, params: EntropyParams) -> Entropy:
        """Return the sums of no rows."""
        K = len(params.theta)
        return cls(0.0, np.zeros(K), np.zeros((K, K)), 0)

    @classmethod
    def of(cls, block: Block, params: EntropyParams) -> Entropy:
        """Return the sums of a block."""
        total = cls.zero(Shape(0, 0), params)
        for first in range(0, block.n_rows, TILE):
            rows = slice(first, first + TILE)
            A, T = calibration_inputs(params.asking.read(Block(block.Phi[rows], block.t[rows]))[0], params.present)
            Z = np.asfortranarray(A - A.mean(axis=1, keepdims=True)) / params.scale  # sums over classes add columns
            total = total.merge(cls(*cross_entropy(Z, np.asfortranarray(T), np.ones(len(Z)), params.theta), len(Z)))
        return total

    def merge(self, other: Entropy) -> Entropy:
        """Return the sums of both."""
        return Entropy(self.value + other.value, self.g + other.g, self.H + other.H, self.n + other.n)


@dataclass(frozen=True)
class LastParams:
    """What the earlier passes found: tallies of the classes to rank by, edges of bins and which of them have rows."""

    asking: Asking
    ranked: dict[int, tuple[Tally, Array]]
    bins: dict[int, tuple[Array, npt.NDArray[np.intp]]]
    present: npt.NDArray[np.intp]
    found: LinearMap | None


@dataclass(frozen=True)
class Last:
    """The sums of the last pass, by group, and the Hessian of the calibration."""

    sums: Sums
    H: Array

    @classmethod
    def zero(cls, shape: Shape, params: LastParams) -> Last:
        """Return the sums of no rows."""
        return cls.of(Block(np.empty((0, params.asking.width)), np.empty(0, dtype=np.int32)), params)

    @classmethod
    def of(cls, block: Block, params: LastParams) -> Last:
        """Return the sums of a block."""
        answers, group = params.asking.read(block)
        collector = Collector(group, params.asking.groups)
        for k, (tally, placements) in params.ranked.items():
            assert answers.values is not None
            own = answers.t == k
            place = placements[np.searchsorted(tally.keys, rounded(keys_of(answers.values[:, k]), tally.drop))]
            collector.add(f"auc{k}", own * place[:, 1], ~own * place[:, 0], own * 1.0, ~own * 1.0)
        for k, (edges, used) in params.bins.items():
            assert answers.P is not None
            p = answers.P[:, k]
            cell = np.searchsorted(used, np.searchsorted(edges, p, side="right"))
            collector.add_cells(f"bins{k}", cell, len(used), np.ones(len(p)), p, (answers.t == k) * 1.0)
        K = len(params.present) + 1
        H = np.zeros((K, K))
        if params.found is not None:
            A, T = calibration_inputs(answers, params.present)
            collector.add("calibration", *gradients(A, T, params.found).T)
            theta = np.append(params.found.slope, params.found.shift)
            H = Entropy.of(block, EntropyParams(params.asking, params.present, 1.0, theta)).H
        return cls(collector.sums, H)

    def merge(self, other: Last) -> Last:
        """Return the sums of both."""
        return Last(added(self.sums, other.sums), self.H + other.H)


def added(one: Sums, other: Sums) -> Sums:
    """Return the sums of two parts of the rows.

    >>> added({"n": np.ones(2)}, {"n": np.ones(2)})["n"].tolist()
    [2.0, 2.0]
    """
    return {name: value + other[name] for name, value in one.items()}


def evaluate_pieces(model: Any, X: Any, y: Any, settings: Settings, how: dict[str, Any]) -> Evaluation:
    """Return the scores of a model on data in pieces; see `evaluate`."""
    if not (hasattr(model, "predict") and hasattr(model, "classes_")):
        raise InvalidTypeError(
            f"A fitted classifier is needed, with predict and classes_; found {type(model).__name__}. Call fit first."
        )
    proba = hasattr(model, "predict_proba")
    if settings.has_costs:
        check_costs(proba, type(model).__name__)
    classes = np.asarray(model.classes_)
    loss = read_loss(settings.loss, classes) if settings.has_costs else None
    parts, progress = opened(X, how, None if isinstance(y, str) else {"y": y})
    column = y if isinstance(y, str) else None
    parts = _chosen(model, parts, column, classes)
    K, sides = len(classes), 1 if len(classes) == 2 else len(classes)
    groups = int(np.clip(SUMS // (sides * (4 + 3 * settings.bins) + K + 8), 64, GROUPS))
    # Elsewhere more than two classes may have values of pairs of them.
    ranks = proba or (hasattr(model, "decision_function") and (K == 2 or isinstance(model, Classifier)))
    asking = Asking(model, classes, column, groups, settings.seed or 0, ranks, proba)
    source = PartedSource(Wrapped(parts, Passes(parts.engine, progress)), asking, M=asking.width, K=K)
    with one_blas_thread():  # pieces are on several threads already
        if not 0 < parts.expected_rows * K <= GATHERED:
            return _Folding(source, asking, settings, loss).evaluation()
        together = _together(asking, _fold(source, Gathered, None).blocks)
    return measure(together, settings, type(model).__name__)


def _chosen(model: Any, parts: Parts, y: str | None, classes: npt.NDArray[Any]) -> Parts:
    """Return the pieces with the columns of the model and the labels; labels in text are of the type of the classes."""
    if y is None or parts.columns is None:
        return needed(model, parts)
    if y not in parts.columns:
        raise InvalidInputError(f"There is no column {y!r}. The data has: {', '.join(map(repr, parts.columns))}.")
    import pyarrow as pa

    label = classes.tolist()[0]
    type_ = pa.scalar(label).type if isinstance(label, str | int | float | bool) else None
    return with_types(needed(model, parts, y), {} if type_ is None else {y: type_})


def _fold(source: PartedSource, statistic: Any, params: Any) -> Any:
    return source.parts.engine.fold(statistic, source, params)


def _together(asking: Asking, blocks: tuple[Block, ...]) -> Answers:
    if not blocks:
        raise InvalidInputError("There are no rows.")
    whole = Block(np.concatenate([b.Phi for b in blocks]), np.concatenate([b.t for b in blocks]))
    return asking.read(whole)[0]


@dataclass(frozen=True)
class _Folding:
    """The passes over data whose answers are too many to bring together."""

    source: PartedSource
    asking: Asking
    settings: Settings
    loss: LossMatrix | None

    def evaluation(self) -> Evaluation:
        """Return the scores."""
        K = len(self.asking.classes)
        positives = [1] if K == 2 else list(range(K))
        most = max(4096, VALUES // len(positives))
        first: First = _fold(self.source, First, FirstParams(self.asking, self.loss, self.settings.reject, most))
        counts = first.confusion.sum(axis=1)
        n = int(counts.sum())
        if not n:
            raise InvalidInputError("There are no rows.")
        present = np.flatnonzero(counts)
        tallies = dict(zip(positives, first.tallies, strict=False))
        ranked = {k: tally for k, tally in tallies.items() if 0 < counts[k] < n}
        areas = {k: tally.area() for k, tally in ranked.items()}
        found = self._calibration(first.spread, present, n) if self.asking.proba else None
        last = self._last(ranked, tallies if self.asking.proba else {}, present, found, n)
        sums = first.sums | {name: value for name, value in last.sums.items() if name != "n"}
        scores = self._simple()
        if self.asking.ranks:
            scores.append(auc_score(list(areas), [area for area, _ in areas.values()]))
        if found is not None:
            scores += bin_scores(positives, K)
            theta, sums["calibration"] = against_first(*_moved(found, last, len(present)))
            scores += calibration_scores(theta, [self.asking.classes.tolist()[k] for k in present], n)
        bound = float(np.mean([b for _, b in areas.values()])) if areas else 0.0
        rng = np.random.default_rng(self.settings.seed)
        bounds = {"auc": bound} if bound else {}
        return conclude(scores, sums, self.asking.classes, first.confusion, self.settings, rng, bounds)

    def _simple(self) -> list[Score]:
        """Return the scores that are means over rows."""
        scores = [Score("accuracy", mean_of("accuracy"), "Wilson")]
        names = ["log_loss", "brier"] if self.asking.proba else []
        names += ["expected_cost", "realised_cost"] if self.loss is not None else []
        scores += [Score(name, mean_of(name)) for name in names]
        return scores + ([] if self.settings.reject is None else [Score("rejected", mean_of("rejected"), "Wilson")])

    def _calibration(self, spread: Array, present: npt.NDArray[np.intp], n: int) -> LinearMap:
        """Return the logistic recalibration, by a pass for each iteration."""
        K = len(present)
        S = spread[np.ix_(present, present)]  # centred over all classes; those of these are
        scale = float(np.sqrt(max(0.0, (np.trace(S) - S.sum() / K) / (n * K))))
        if K < 2 or scale <= FLAT:
            return LinearMap(np.nan, np.full(K, np.nan))

        def entropy(theta: Array) -> tuple[float, Array, Array]:
            found: Entropy = _fold(self.source, Entropy, EntropyParams(self.asking, present, scale, theta))
            self._check_rows(found.n, n)
            return found.value, found.g, found.H

        return solve_linear(entropy, scale, K)

    def _last(
        self,
        ranked: dict[int, Tally],
        binned: dict[int, Tally],
        present: npt.NDArray[np.intp],
        found: LinearMap | None,
        n: int,
    ) -> Last:
        bins = {}
        for k, tally in binned.items():
            edges = tally.edges(self.settings.bins)
            bins[k] = edges, np.unique(np.searchsorted(edges, values_of(tally.keys), side="right"))
        finite = found is not None and bool(np.isfinite(found.slope)) and bool(np.isfinite(found.shift).all())
        places = {k: (tally, tally.placements()) for k, tally in ranked.items()}
        params = LastParams(self.asking, places, bins, present, found if finite else None)
        last: Last = _fold(self.source, Last, params)
        self._check_rows(int(last.sums["n"].sum()), n)
        return last

    def _check_rows(self, now: int, before: int) -> None:
        if now != before:
            raise InvalidInputError(
                f"The first pass saw {before} rows, and a later one {now}: the data has changed. Evaluate again when "
                "nothing writes to it any more."
            )


def _moved(found: LinearMap, last: Last, K: int) -> tuple[Array, Array]:
    """Return slope and shifts, and by what each group moves them."""
    theta = np.append(found.slope, found.shift)
    G = last.sums.get("calibration")
    return theta, np.zeros((len(last.sums["n"]), K + 1)) if G is None else moves_by(G, last.H)
