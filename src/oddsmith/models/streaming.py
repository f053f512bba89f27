"""Fits to data in pieces: the first pass surveys it, then a source of blocks takes the place of rows in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from oddsmith.block import Block
from oddsmith.design.encoding import Encoder
from oddsmith.design.formula import read_formula
from oddsmith.design.inputs import check_class_weights
from oddsmith.design.labels import Labels
from oddsmith.design.reading import check_intercept
from oddsmith.design.survey import Roles, Survey, SurveyParams, fewest, together
from oddsmith.design.table import Design
from oddsmith.engines import Engine, MemorySource, PartedSource, Parts, Progress
from oddsmith.engines.progress import following
from oddsmith.engines.scan import Scanned, Wrapped, find_parts, is_elsewhere
from oddsmith.errors import InvalidInputError, InvalidTypeError, NeedsMemoryError
from oddsmith.models.resuming import resumable
from oddsmith.numerics import Array

SAMPLE_NUMBERS = 16_000_000
"""Numbers in the sample that the first pass draws: 128 MB, and a Hessian within a few per cent of that of all rows."""
SAMPLE_ROWS = 400_000


@dataclass
class Passes:
    """An engine around another that counts its passes over the data."""

    engine: Engine
    progress: Progress | bool | None = None
    count: int = 0

    @property
    def name(self) -> str:
        """The name of the engine inside."""
        return self.engine.name

    def fold(self, statistic: Any, source: Any, params: Any, *, progress: Progress | None = None) -> Any:
        """Fold, and count."""
        self.count += 1
        inside = replace(source, parts=source.parts.parts)
        with following(progress or self.progress, f"pass {self.count}") as tell:
            return self.engine.fold(statistic, inside, params, progress=tell)


@dataclass(frozen=True)
class Stream:
    """Data in pieces, and which of its columns are labels, weights and offsets."""

    parts: Wrapped
    roles: Roles

    @property
    def engine(self) -> Passes:
        """The engine that counts."""
        engine = self.parts.engine
        assert isinstance(engine, Passes)
        return engine


def open_stream(
    X: Any, y: Any, sample_weight: Any = None, offset: Any = None, how: dict[str, Any] | None = None
) -> Stream | None:
    """Return data as a stream, or None if it is in memory."""
    given = {"y": y, "s": sample_weight, "offset": offset}
    apart = {name: value for name, value in given.items() if value is not None and not isinstance(value, str)}
    how = dict(how or {})
    progress, resume = how.pop("progress", None), how.pop("resume", None)
    parts = find_parts(X, apart, how)
    if parts is None:
        if resume is not None:
            raise InvalidInputError("resume= is for files and clusters, and X is in memory. Leave it out.")
        return None
    if isinstance(parts, Scanned):
        progress, resume, parts = progress or parts.progress, resume or parts.resume, parts.parts
    label, weight, shift = (value if isinstance(value, str) else None for value in given.values())
    roles = Roles(label, weight, shift)
    parts = resumable(parts, resume, roles)
    return Stream(Wrapped(parts, Passes(parts.engine, progress)), roles)


def refuse_pieces(X: Any, what: str, instead: str) -> None:
    """Refuse data in pieces for what needs rows in memory."""
    if is_elsewhere(X):
        kind = "" if hasattr(X, "engine") else f"a {type(X).__name__}: "
        raise NeedsMemoryError(
            f"{what} goes through rows in memory, and X is {kind}data in pieces, wherever it lies. "
            f"{instead}, or read a table into memory that is small enough."
        )


@dataclass(frozen=True)
class Surveyed:
    """What a stream is after the first pass: a source of blocks, its classes and their weight."""

    classes: Labels
    weight: Array
    source: PartedSource


def read_stream(
    model: Any, design: Any, stream: Stream, *, reset: bool, draw: bool = False, missing: bool = False
) -> Surveyed:
    """Survey a stream and return it as a source of blocks; columns, classes and the design are kept on the model.

    Without ``reset`` the columns, classes and design are those that the model has. ``draw`` keeps a sample of the rows.
    """
    draw = draw and getattr(stream.parts.innermost, "draws", True)  # no row leaves the sites of a federated fit
    learned = None if reset else getattr(model, "design_", None)
    wanted: Any = _wanted_design(design, stream.parts) if reset else learned
    known = None if reset else getattr(model, "feature_names_in_", None)
    roles = find_roles(stream, wanted if isinstance(wanted, Design) else None, known)
    parts = stream.parts if roles.features is None else stream.parts.choose((*roles.features, *roles.names))
    survey = _survey(parts, roles, wanted if reset else False, draw, getattr(model, "seed", None) or 0)
    if reset:
        learned = _learn(model, design, wanted, survey, roles)
    classes = survey.classes if reset else model.classes_
    weight = survey.weight
    if reset:
        _check_classes(survey)
    else:
        found = dict(zip(survey.classes.tolist(), survey.weight.tolist(), strict=True))
        weight = np.array([found.get(label, 0.0) for label in classes.tolist()])
    names = None if roles.features is None else tuple(map(str, roles.features))
    dtype = getattr(stream.parts.innermost, "dtype", None) or "float64"
    encode = Encoder(replace(roles, features=_read_columns(learned, roles)), classes, learned, names, missing, dtype)
    drawn = _drawn(survey, encode) if draw and survey.drawn else None
    M = len(learned.get_feature_names_out()) if learned is not None else len(roles.features or ()) or survey.columns
    source = PartedSource(
        parts,
        encode,
        survey.n_rows,
        M,
        len(classes),
        survey.n_present,
        bool(learned is not None and learned.sparse_),
        roles.weight is not None or survey.n_present < survey.n_rows or _has_weights(survey),
        _offset_mean(survey, len(classes)),
        drawn,
    )
    return Surveyed(classes, weight, source)


def _wanted_design(design: Any, parts: Parts) -> Design | bool:
    """Return the design to look with; automatic ones are dropped if the columns turn out to be numbers."""
    if design is False or parts.columns is None:
        return False
    if design is not None and not isinstance(design, Design):
        raise InvalidTypeError(f"design must be None or a Design(…), found {design!r}.")
    return Design() if design is None else clone(design)


def find_roles(stream: Stream, design: Design | None = None, features: Any = None) -> Roles:
    """Return the roles of columns, the features among them: those given, those of the formula, or all others."""
    roles, columns = stream.roles, stream.parts.columns
    if columns is None:
        return roles
    if design is not None and design.formula is not None:
        target = read_formula(design.formula, list(columns)).target
        if roles.y is not None and target is not None and roles.y != target:
            raise InvalidInputError(f"The left side of the formula is {target!r}, and y={roles.y!r} names another.")
        roles = replace(roles, y=roles.y or target)
    for name in roles.names:
        if name not in columns:
            raise InvalidInputError(f"There is no column {name!r}. There are: {', '.join(map(repr, columns))}.")
    if len(set(roles.names)) < len(roles.names):
        raise InvalidInputError(f"One column has two roles: {roles.names}. Give each role a column of its own.")
    if features is not None:
        return replace(roles, features=tuple(map(str, features)))
    rest = tuple(name for name in columns if name not in roles.names)
    if design is not None and design.formula is not None:
        used = set(read_formula(design.formula, list(columns)).columns)
        rest = tuple(name for name in rest if name in used)
    if not rest:
        raise InvalidInputError("No columns are left to fit with: all of them are labels, weights or offsets.")
    return replace(roles, features=rest)


def _read_columns(design: Design | None, roles: Roles) -> tuple[str, ...] | None:
    return roles.features if design is None else tuple(map(str, design.feature_names_in_))


def _survey(parts: Parts, roles: Roles, design: Any, draw: bool, seed: int) -> Survey:
    width = len(roles.features or ()) or 20
    room = getattr(getattr(parts, "innermost", parts), "memory", None)
    numbers = SAMPLE_NUMBERS if room is None else min(SAMPLE_NUMBERS, room // 80)
    most = min(SAMPLE_ROWS, max(4000, numbers // width)) if draw else 0
    share = min(1.0, 1.1 * most / max(1, parts.expected_rows)) if draw else 0.0
    params = SurveyParams(roles, design, share, most, seed)
    survey: Survey = parts.engine.fold(Survey, PartedSource(parts), params)  # type: ignore[type-var]
    if not survey.n_rows:
        raise InvalidInputError("The data has 0 rows (of complete values): found array with 0 sample(s).")
    return survey


def _learn(model: Any, design: Any, wanted: Design | bool, survey: Survey, roles: Roles) -> Design | None:
    """Keep columns and design on the model, and return the design if it needs one."""
    for name in ("design_", "feature_names_in_"):
        model.__dict__.pop(name, None)
    if roles.features is None:
        model.n_features_in_ = survey.columns
        return None
    assert survey.sight is not None or wanted is False
    if not isinstance(wanted, Design) or (design is None and survey.sight is not None and survey.sight.is_plain):
        model.feature_names_in_ = np.array(roles.features, dtype=object)
        model.n_features_in_ = len(roles.features)
        return None
    assert survey.sight is not None
    learned = wanted.settle(survey.sight)
    check_intercept(model, learned)
    model.design_ = learned
    model.feature_names_in_, model.n_features_in_ = learned.feature_names_in_, learned.n_features_in_
    return learned


def _check_classes(survey: Survey) -> None:
    if len(survey.classes) < 2:
        only = survey.classes.tolist()[0]
        raise InvalidInputError(f"y holds one class only ({only!r}): a classifier needs at least two classes.")
    check_class_weights(survey.weight, survey.classes)


def _has_weights(survey: Survey) -> bool:
    return any(one.rows.s is not None for one in survey.drawn) or not float(survey.weight.sum()) == survey.n_rows


def _offset_mean(survey: Survey, K: int) -> Array | None:
    if survey.offset_sum is None:
        return None
    mean: Array = np.atleast_1d(survey.offset_sum) / survey.weight.sum()
    return mean if K == 2 else mean[1:] - mean[0]


def _drawn(survey: Survey, encode: Encoder) -> MemorySource | None:
    """Return the rows drawn as a source in memory."""
    drawn = fewest(survey.drawn, survey.most, slack=1.2)  # to cut off a few costs more than to have them
    try:
        blocks = [block for piece in together(drawn) if (block := encode(replace(piece, name=""))).n_rows]
    except InvalidInputError:
        # The next pass meets the same rows where they are, and says where that is.
        return None
    return None if not blocks else joined(blocks, len(encode.classes))


def joined(blocks: list[Block], K: int) -> MemorySource:
    """Return blocks as one source in memory.

    >>> block = Block(np.eye(2), np.array([0, 1], dtype=np.int32))
    >>> joined([block, block], 2).n_rows
    4
    """
    first = blocks[0]
    if len(blocks) == 1:
        return MemorySource(first.Phi, first.t, K, first.s, first.offset)
    if first.is_sparse:
        Phi = sparse.csr_array(sparse.vstack([block.Phi for block in blocks], format="csr"))
    else:
        Phi = np.concatenate([block.Phi for block in blocks])
    return MemorySource(
        Phi,
        np.concatenate([block.t for block in blocks]),
        K,
        None if first.s is None else np.concatenate([block.weights() for block in blocks]),
        None if first.offset is None else np.concatenate([block.offset for block in blocks]),
    )
