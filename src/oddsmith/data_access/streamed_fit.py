"""Fits to data in pieces: the first pass summarises the data, then a source of blocks replaces rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from oddsmith.block import Block
from oddsmith.data_access.checkpoint import with_journal
from oddsmith.design.data_summary import DataSummary, DataSummaryParams, Roles, concatenate_samples, truncate_sample
from oddsmith.design.encoder import Encoder
from oddsmith.design.fitted_design import as_design, check_intercept, keep_design
from oddsmith.design.formula import read_formula
from oddsmith.design.inputs import check_class_weights, check_two_classes, feature_names, learned_design
from oddsmith.design.table import Design
from oddsmith.engines import Engine, MemorySource, PartedSource, Parts, Progress, engine_of
from oddsmith.engines.base import S
from oddsmith.engines.progress import following
from oddsmith.engines.scan import Scanned, Wrapped, find_parts, is_elsewhere
from oddsmith.errors import InvalidInputError, NeedsMemoryError
from oddsmith.numerics import Array
from oddsmith.protocols import Labels

SAMPLE_NUMBERS = 16_000_000
"""Numbers in the sample that the first pass draws: 128 MB, and a Hessian within a few per cent of that of all rows."""
SAMPLE_ROWS = 400_000


@dataclass
class PassCounter:
    """An engine around another that counts its passes over the data."""

    engine: Engine
    progress: Progress | bool | None = None
    count: int = 0

    @property
    def name(self) -> str:
        """The name of the engine inside."""
        return self.engine.name

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        """Fold, and count."""
        self.count += 1
        inside = replace(source, parts=source.parts.parts)
        with following(progress or self.progress, f"pass {self.count}") as report:
            return self.engine.fold(statistic, inside, params, progress=report)


@dataclass(frozen=True)
class Stream:
    """Data in pieces, and which of its columns are labels, weights and offsets."""

    parts: Wrapped
    roles: Roles


def open_stream(
    X: object, y: object, sample_weight: object = None, offset: object = None, how: dict[str, Any] | None = None
) -> Stream | None:
    """Return data as a stream, or None if it is in memory."""
    given = {"y": y, "s": sample_weight, "offset": offset}
    apart = {name: value for name, value in given.items() if value is not None and not isinstance(value, str)}
    how = dict(how or {})
    progress: Progress | bool | None = how.pop("progress", None)
    resume: str | PathLike[str] | None = how.pop("resume", None)
    parts = find_parts(X, apart, how)
    if parts is None:
        if resume is not None:
            raise InvalidInputError("resume= is for files and clusters, and X is in memory. Leave it out.")
        return None
    if isinstance(parts, Scanned):
        progress, resume, parts = progress or parts.progress, resume or parts.resume, parts.parts
    label, weight, shift = (value if isinstance(value, str) else None for value in given.values())
    roles = Roles(label, weight, shift)
    parts = with_journal(parts, resume, roles)
    return Stream(Wrapped(parts, PassCounter(parts.engine, progress)), roles)


def refuse_pieces(X: object, what: str, instead: str) -> None:
    """Refuse data in pieces for what needs rows in memory."""
    if is_elsewhere(X):
        kind = "" if type(X).__module__.startswith("oddsmith.") else f"a {type(X).__name__}: "
        raise NeedsMemoryError(
            f"{what} goes through rows in memory, and X is {kind}data in pieces, wherever it lies. "
            f"{instead}, or read a table into memory that is small enough."
        )


@runtime_checkable
class Limits(Protocol):
    """Settings of pieces: the bytes that may be held, and the type that encoded rows are rounded to."""

    memory: int
    dtype: str | None


def innermost(parts: Parts) -> Parts:
    """Return the pieces themselves, whatever wraps them."""
    return parts.innermost if isinstance(parts, Wrapped) else parts


def may_sample(parts: Parts) -> bool:
    """Whether rows may be drawn from the pieces: no row leaves the sites of a federated fit."""
    return bool(getattr(innermost(parts), "draws", True))


@dataclass(frozen=True)
class TrainingData:
    """Classes and a source. ``class_weight`` is known if a first pass was made; ``explain`` looks for bad values."""

    classes: Labels
    source: Any
    class_weight: Array | None = None
    explain: Callable[[], None] | None = None

    def engine(self, threads: int | None) -> Engine:
        """The engine that folds over the source."""
        return engine_of(self.source, threads)


def read_stream(
    model: BaseEstimator, design: object, stream: Stream, *, reset: bool, draw: bool = False, missing: bool = False
) -> TrainingData:
    """Summarise a stream and return it as a source of blocks; columns, classes and the design are kept on the model.

    Without ``reset`` the columns, classes and design are those that the model has. ``draw`` keeps a sample of the rows.
    """
    draw = draw and may_sample(stream.parts)
    learned = None if reset else learned_design(model)
    wanted = _wanted_design(design, stream.parts) if reset else learned
    roles = find_roles(stream, wanted, None if reset else feature_names(model))
    parts = roles.select(stream.parts)
    summary = _summarise(parts, roles, wanted if reset else None, draw, vars(model).get("seed") or 0)
    if reset:
        learned = _learn(model, design, wanted, summary, roles)
        check_two_classes(summary.classes)
        check_class_weights(summary.weight, summary.classes)
    classes: Labels = summary.classes if reset else model.classes_
    found = dict(zip(summary.classes.tolist(), summary.weight.tolist(), strict=True))
    class_weight = np.array([found.get(label, 0.0) for label in classes.tolist()])
    names = None if roles.features is None else tuple(map(str, roles.features))
    read = roles if learned is None else replace(roles, features=tuple(map(str, learned.feature_names_in_)))
    limits = innermost(parts)
    dtype = (limits.dtype if isinstance(limits, Limits) else None) or "float64"
    encode = Encoder(roles=read, classes=classes, design=learned, names=names, missing=missing, dtype=dtype)
    source = PartedSource(
        parts,
        encode,
        n_rows=summary.n_rows,
        M=len(learned.get_feature_names_out()) if learned is not None else len(names or ()) or summary.columns,
        K=len(classes),
        n_present=summary.n_present,
        encodes_sparse=learned is not None and learned.sparse_,
        weighted=roles.weight is not None or _has_weights(summary),
        offset_mean=_offset_mean(summary, len(classes)),
        drawn=_encode_sample(summary, encode) if summary.drawn else None,
    )
    return TrainingData(classes, source, class_weight)


def _wanted_design(design: object, parts: Parts) -> Design | None:
    """Return the design to summarise with; an automatic one is dropped if the columns turn out to be numbers."""
    if design is False or parts.columns is None:
        return None
    return Design() if design is None else as_design(design)


def find_roles(stream: Stream, design: Design | None = None, features: Iterable[object] | None = None) -> Roles:
    """Return the roles of columns, the features among them: those given, those of the formula, or all others."""
    roles, columns = stream.roles, stream.parts.columns
    if columns is None:
        return roles
    formula = None if design is None or design.formula is None else read_formula(design.formula, list(columns))
    if formula is not None:
        if roles.y is not None and formula.target is not None and roles.y != formula.target:
            raise InvalidInputError(
                f"The left side of the formula is {formula.target!r}, and y={roles.y!r} names another."
            )
        roles = replace(roles, y=roles.y or formula.target)
    for name in roles.names:
        if name not in columns:
            raise InvalidInputError(f"There is no column {name!r}. There are: {', '.join(map(repr, columns))}.")
    if len(set(roles.names)) < len(roles.names):
        raise InvalidInputError(f"One column has two roles: {roles.names}. Give each role a column of its own.")
    if features is not None:
        return replace(roles, features=tuple(map(str, features)))
    used = set(columns if formula is None else formula.columns)
    rest = tuple(name for name in columns if name in used and name not in roles.names)
    if not rest:
        raise InvalidInputError("No columns are left to fit with: all of them are labels, weights or offsets.")
    return replace(roles, features=rest)


def _summarise(parts: Parts, roles: Roles, design: Design | None, draw: bool, seed: int) -> DataSummary:
    limits = innermost(parts)
    numbers = min(SAMPLE_NUMBERS, limits.memory // 80) if isinstance(limits, Limits) else SAMPLE_NUMBERS
    most = min(SAMPLE_ROWS, max(4000, numbers // (len(roles.features or ()) or 20))) if draw else 0
    share = min(1.0, 1.1 * most / max(1, parts.expected_rows)) if draw else 0.0
    params = DataSummaryParams(roles=roles, design=design, share=share, most=most, seed=seed)
    summary: DataSummary = parts.engine.fold(DataSummary, PartedSource(parts), params)  # type: ignore[type-var]
    if not summary.n_rows:
        raise InvalidInputError("The data has 0 rows (of complete values): found array with 0 sample(s).")
    return summary


def _learn(
    model: BaseEstimator, design: object, wanted: Design | None, summary: DataSummary, roles: Roles
) -> Design | None:
    """Keep columns and design on the model, and return the design if it needs one."""
    for name in ("design_", "feature_names_in_"):
        model.__dict__.pop(name, None)
    if roles.features is None:
        model.n_features_in_ = summary.columns
        return None
    if wanted is None or summary.schema is None or (design is None and summary.schema.is_plain):
        model.feature_names_in_ = np.array(roles.features, dtype=object)
        model.n_features_in_ = len(roles.features)
        return None
    learned = wanted.settle(summary.schema)
    check_intercept(model, learned)
    keep_design(model, learned)
    return learned


def _has_weights(summary: DataSummary) -> bool:
    some_absent = summary.n_present < summary.n_rows or float(summary.weight.sum()) != summary.n_rows
    return some_absent or any(part.rows.s is not None for part in summary.drawn)


def _offset_mean(summary: DataSummary, K: int) -> Array | None:
    if summary.offset_sum is None:
        return None
    mean: Array = np.atleast_1d(summary.offset_sum) / summary.weight.sum()
    return mean if K == 2 else mean[1:] - mean[0]


def _encode_sample(summary: DataSummary, encode: Encoder) -> MemorySource | None:
    """Return the sampled rows as a source in memory."""
    sample = truncate_sample(summary.drawn, summary.most, slack=1.2)  # cutting off a few costs more than keeping them
    try:
        blocks = [block for piece in concatenate_samples(sample) if (block := encode(replace(piece, name=""))).n_rows]
    except InvalidInputError:
        # The next pass meets the same rows where they are, and says where that is.
        return None
    return None if not blocks else joined(blocks, len(encode.classes))


def joined(blocks: list[Block], K: int) -> MemorySource:
    """Return blocks as one source in memory."""
    first = blocks[0]
    if len(blocks) == 1:
        return MemorySource(first.X, first.t, K, first.s, first.offset)
    if first.is_sparse:
        Phi = sparse.csr_array(sparse.vstack([block.X for block in blocks], format="csr"))
    else:
        Phi = np.concatenate([block.X for block in blocks])
    return MemorySource(
        Phi,
        np.concatenate([block.t for block in blocks]),
        K,
        None if first.s is None else np.concatenate([block.weights() for block in blocks]),
        None if first.offset is None else np.concatenate([block.offset for block in blocks]),
    )
