"""Training data in pieces: a first pass summarises it, then it is a source of blocks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator

from oddsmith.data_access.checkpoint import with_journal
from oddsmith.data_access.collected_rows import WholeTable, collect, collects, fits, will_collect
from oddsmith.data_access.training_data import TrainingData
from oddsmith.design import inputs
from oddsmith.design.class_weight import check_class_weights, learn_class_weight
from oddsmith.design.data_summary import BlockEncoder, DataSummary, DataSummaryParams, Roles, concatenate_samples
from oddsmith.design.fitted_design import as_design, check_intercept, keep_design
from oddsmith.design.formula import read_formula
from oddsmith.design.inputs import feature_names, learned_design
from oddsmith.design.table import Design
from oddsmith.design.text_columns import describe, find_formats, keep_formats
from oddsmith.design.whole_numbers import warn_of_rounding
from oddsmith.engines import Engine, MemorySource, PartedSource, Progress
from oddsmith.engines.base import S
from oddsmith.engines.files import FileParts
from oddsmith.engines.progress import following
from oddsmith.engines.scan import Scanned, Wrapped, find_parts
from oddsmith.engines.text_formats import TextFormat
from oddsmith.errors import FormatWarning, InvalidInputError, caller_level
from oddsmith.protocols import Labels
from oddsmith.rows import Rows, SplitRows
from oddsmith.rows.split import TableForm, join_rows

SAMPLE_NUMBERS = 16_000_000
"""Numbers in the sample that the first pass draws: 128 MB, and a Hessian within a few per cent of that of all rows."""
SAMPLE_ROWS = 400_000


@dataclass
class PassCounter:
    """A wrapper of an engine that counts its passes over the data."""

    engine: Engine
    progress: Progress | bool | None = None
    count: int = 0

    @property
    def name(self) -> str:
        return self.engine.name

    def fold(self, statistic: type[S], source: PartedSource, params: object, *, progress: Progress | None = None) -> S:
        self.count += 1
        inside = replace(source, parts=source.parts.parts)
        with following(progress or self.progress, f"pass {self.count}") as report:
            return self.engine.fold(statistic, inside, params, progress=report)


@dataclass(frozen=True)
class Stream:
    """Data in pieces, and the roles of its columns: labels, weights, offsets."""

    parts: Wrapped
    roles: Roles


def open_stream(
    X: object, y: object, sample_weight: object = None, offset: object = None, how: dict[str, Any] | None = None
) -> Stream | None:
    """Return data as a stream, or None if it is in memory."""
    given = {"y": y, "s": sample_weight, "offset": offset}
    apart = {name: value for name, value in given.items() if value is not None and not isinstance(value, str)}
    how = dict(how or {})
    progress, resume = how.pop("progress", None), how.pop("resume", None)
    parts = find_parts(X, apart, how)
    if parts is None:
        if resume is not None:
            raise InvalidInputError("resume= works with files and clusters only, but X is in memory. Leave it out.")
        return None
    if isinstance(parts, Scanned):
        progress, resume, parts = progress or parts.progress, resume or parts.resume, parts.parts
    label, weight, shift = (value if isinstance(value, str) else None for value in given.values())
    roles = Roles(label, weight, shift)
    parts = with_journal(parts, resume, roles)
    return Stream(Wrapped(parts, PassCounter(parts.engine, progress)), roles)


@runtime_checkable
class Limits(Protocol):
    """Settings of pieces: the memory limit, and the type of encoded rows."""

    memory: int
    dtype: str | None


def may_sample(parts: Wrapped) -> bool:
    """Whether rows may be sampled from the pieces: no row may leave the sites of a federated fit."""
    return bool(getattr(parts.innermost, "draws", True))


def read_stream(
    model: BaseEstimator,
    design: object,
    stream: Stream,
    *,
    reset: bool,
    draw: bool = False,
    missing: bool = False,
    split: bool = False,
) -> TrainingData:
    """Summarise a stream and return it as a source of blocks; columns, classes and the design are kept on the model.

    Without ``reset``, the model's columns, classes and design are used. ``draw`` keeps a sample of the rows. With
    ``split``, tables in files whose categories are small as codes are collected in memory.
    """
    draw = draw and may_sample(stream.parts)
    learned = None if reset else learned_design(model)
    wanted = as_design(design, model) if reset and stream.parts.columns is not None else learned
    roles = find_roles(stream, wanted, None if reset else feature_names(model))
    parts = roles.select(stream.parts)
    if reset:
        roles = learn_formats(model, parts, roles)
    if wanted is not None:
        parts = _read_codes(parts, roles)
    seed = vars(model).get("seed") or 0
    whole = split and will_collect(parts, wanted, len(roles.features or ()))
    shown = isinstance(parts.engine, PassCounter) and parts.engine.progress
    small = split and reset and fits(parts, parts.expected_rows, len(roles.features or ()))
    table = WholeTable.read(parts, roles, wanted if reset else None) if (whole or small) and not shown else None
    summary = table.summary if table else _summarise(parts, roles, wanted if reset else None, draw and not whole, seed)
    if reset:
        learned = _learn(model, design, wanted, summary, roles)
        inputs.check_two_classes(summary.classes)
        check_class_weights(summary.weight, summary.classes)
    classes: Labels = summary.classes if reset else model.classes_
    found = dict(zip(summary.classes.tolist(), summary.weight.tolist(), strict=True))
    class_weight = np.array([found.get(label, 0.0) for label in classes.tolist()])
    factors = learn_class_weight(model, classes, class_weight, reset=reset)
    encode = replace(_encoder(parts, roles, learned, classes, missing), class_weight=factors)
    weight = class_weight if factors is None else factors * class_weight
    form = learned.form if split and learned is not None and learned.is_split(summary.n_rows) else None
    encode = replace(encode, split=form is not None)
    if form is not None and learned is not None and collects(parts, form, summary.n_rows):
        del summary  # and its sample
        rows = (table and table.encoded(encode)) or collect(parts, encode, len(classes))
        names = learned.get_feature_names_out  # of many levels they take a while
        return TrainingData(classes, rows, weight, lambda: inputs.check_finite(rows.X, names))
    if table is not None and form is None and small and fits(parts, summary.n_rows, _width(encode, summary)):
        dense = table.encoded(encode)
        if dense is not None:
            return TrainingData(classes, dense, weight)
    if draw and (whole or table is not None):  # after all there must be a sample
        again = _summarise(parts, roles, None, draw, seed)
        summary = replace(summary, drawn=again.drawn, most=again.most)
    return TrainingData(classes, _parted(parts, encode, summary, form), weight)


def _parted(parts: Wrapped, encode: BlockEncoder, summary: DataSummary, form: TableForm | None) -> PartedSource:
    """Return data in pieces as a source of encoded blocks."""
    learned, K = encode.design, len(encode.classes)
    return PartedSource(
        parts,
        encode,
        n_rows=summary.n_rows,
        M=_width(encode, summary),
        K=K,
        n_present=summary.n_present,
        encodes_sparse=learned is not None and learned.sparse_ and form is None,
        form=form,
        weighted=encode.roles.weight is not None or encode.class_weight is not None or _has_weights(summary),
        offset_mean=_offset_mean(summary, K),
        drawn=_encode_sample(summary, encode) if summary.drawn else None,
    )


def _width(encode: BlockEncoder, summary: DataSummary) -> int:
    """Return the number of encoded columns."""
    learned = encode.design
    return len(learned.get_feature_names_out()) if learned is not None else len(encode.names or ()) or summary.columns


def _encoder(parts: Wrapped, roles: Roles, design: Design | None, classes: Labels, missing: bool) -> BlockEncoder:
    """Return the encoder of pieces by a learned design."""
    names = None if roles.features is None else tuple(map(str, roles.features))
    read = roles if design is None else replace(roles, features=tuple(map(str, design.feature_names_in_)))
    limits = parts.innermost
    dtype = (limits.dtype if isinstance(limits, Limits) else None) or "float64"
    return BlockEncoder(roles=read, classes=classes, design=design, names=names, missing=missing, dtype=dtype)


def _has_weights(summary: DataSummary) -> bool:
    """Whether some row has a weight other than one."""
    counted = summary.n_present == summary.n_rows == float(summary.weight.sum())
    return not counted or any(part.rows.s is not None for part in summary.drawn)


def _offset_mean(summary: DataSummary, K: int) -> npt.NDArray[np.float64] | None:
    """Return the mean offset of the classes against the first, None if there are no offsets."""
    if summary.offset_sum is None:
        return None
    mean = np.atleast_1d(summary.offset_sum) / summary.weight.sum()
    return np.asarray(mean if K == 2 else mean[1:] - mean[0])


def learn_stream_class_weight(model: BaseEstimator, stream: Stream) -> dict[Any, float]:
    """Return the class weights of a model that is fitted piece by piece: one pass, for the classes and their counts."""
    roles = find_roles(stream)
    summary = _summarise(roles.select(stream.parts), roles, None, False, 0)
    check_class_weights(summary.weight, summary.classes)
    factors = learn_class_weight(model, summary.classes, summary.weight)
    assert factors is not None
    return dict(zip(summary.classes.tolist(), factors.tolist(), strict=True))


@runtime_checkable
class TypedTables(Protocol):
    """Pieces whose columns have types, text among them: Parquet and Arrow files, frames of Dask and Spark."""

    def text_sample(self, columns: Sequence[str]) -> Any:
        """Return some rows of those of the columns that are text, as a table; None if none is, or text has formats."""


def learn_formats(model: BaseEstimator, parts: Wrapped, roles: Roles) -> Roles:
    """Store the formats of text columns on a model, warn how text was read, and return roles that apply them.

    Text files detect their own formats; for other pieces, a sample of the features shows them.
    """
    inner, found, told, dialect = parts.innermost, {}, {}, ""
    if isinstance(inner, FileParts):
        found, told, dialect = {**inner.plain_formats, **inner.formats}, inner.formats, inner.dialect
    own: dict[str, TextFormat] = {}
    if isinstance(inner, TypedTables) and may_sample(parts) and roles.features:
        some = inner.text_sample(roles.features)
        own = {} if some is None else find_formats(some)
    keep_formats(model, {**found, **own})
    if told or own or dialect:
        warnings.warn(describe({**told, **own}, dialect), FormatWarning, stacklevel=caller_level())
    return replace(roles, formats=tuple(own.items()))


def _read_codes(parts: Wrapped, roles: Roles) -> Wrapped:
    """Return pieces of files in which text is read as codes, if possible."""
    files = parts.parts
    if not isinstance(files, FileParts):
        return parts
    formatted = dict(roles.formats)  # their text is read as numbers or dates
    names = (*(roles.features or ()), *filter(None, (roles.y,)))
    return replace(parts, parts=files.with_codes([name for name in names if name not in formatted]))


def find_roles(stream: Stream, design: Design | None = None, features: Iterable[object] | None = None) -> Roles:
    """Return the roles of columns, the features among them: those given, those of the formula, or all others."""
    roles, columns = stream.roles, stream.parts.columns
    if columns is None:
        return roles
    formula = None if design is None or design.formula is None else read_formula(design.formula, list(columns))
    if formula is not None:
        if roles.y is not None and formula.target is not None and roles.y != formula.target:
            raise InvalidInputError(
                f"The left-hand side of the formula is {formula.target!r}, but y={roles.y!r}. Leave out y."
            )
        roles = replace(roles, y=roles.y or formula.target)
    for name in roles.names:
        if name not in columns:
            raise InvalidInputError(f"There is no column {name!r}. There are: {', '.join(map(repr, columns))}.")
    if len(set(roles.names)) < len(roles.names):
        raise InvalidInputError(f"One column has two roles: {roles.names}. Give each role a different column.")
    if features is not None:
        return replace(roles, features=tuple(map(str, features)))
    used = set(columns if formula is None else formula.columns)
    rest = tuple(name for name in columns if name in used and name not in roles.names)
    if not rest:
        raise InvalidInputError("No columns are left to fit with: all of them are labels, weights or offsets.")
    return replace(roles, features=rest)


def _summarise(parts: Wrapped, roles: Roles, design: Design | None, draw: bool, seed: int) -> DataSummary:
    limits = parts.innermost
    numbers = min(SAMPLE_NUMBERS, limits.memory // 80) if isinstance(limits, Limits) else SAMPLE_NUMBERS
    most = min(SAMPLE_ROWS, max(4000, numbers // (len(roles.features or ()) or 20))) if draw else 0
    share = min(1.0, 1.1 * most / max(1, parts.expected_rows)) if draw else 0.0
    params = DataSummaryParams(roles=roles, design=design, share=share, most=most, seed=seed)
    summary: DataSummary = parts.engine.fold(DataSummary, PartedSource(parts), params)  # type: ignore[type-var]
    if not summary.n_rows:
        raise InvalidInputError(
            "There are no rows to fit to: the data is empty, or every row has a missing value (0 sample(s) are left)."
        )
    return summary


def _learn(
    model: BaseEstimator, design: object, wanted: Design | None, summary: DataSummary, roles: Roles
) -> Design | None:
    """Store the columns and design on the model, and return the design if it needs one."""
    for name in ("design_", "feature_names_in_"):
        model.__dict__.pop(name, None)
    warn_of_rounding(summary.rounded)
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


def _encode_sample(summary: DataSummary, encode: BlockEncoder) -> MemorySource | None:
    """Return the sampled rows as a source in memory."""
    try:
        pieces = [replace(piece, name="") for piece in concatenate_samples(summary.drawn, summary.most)]
        blocks = [block for block in map(encode, pieces) if block.n_rows]
    except InvalidInputError:
        # The next pass meets the same rows where they are, and says where that is.
        return None
    if not blocks:
        return None
    first, K = blocks[0], len(encode.classes)
    X, t = _stack([block.Phi for block in blocks]), np.concatenate([block.t for block in blocks])
    s = None if first.s is None else np.concatenate([block.weights() for block in blocks])
    offset = None if first.offset is None else np.concatenate([block.offset for block in blocks])
    return MemorySource(X, t, K, s, offset=offset)


def _stack(some: list[Rows]) -> Any:
    """Return rows, one after another: in parts, as a CSR matrix or as an array."""
    tables = [rows for rows in some if isinstance(rows, SplitRows)]
    if tables:
        return tables[0] if len(tables) == 1 else join_rows(tables)
    concrete = [rows.concrete().X for rows in some]
    if len(concrete) == 1:
        return concrete[0]
    return sparse.vstack(concrete, format="csr") if some[0].is_sparse else np.concatenate(concrete)
