"""Data in pieces: the roles of columns, the summary from the first pass, and the encoder of later passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from scipy import sparse

from oddsmith.block import Block
from oddsmith.design import inputs
from oddsmith.design.class_weight import multiply, read_weights
from oddsmith.design.frame import Coded, Frame
from oddsmith.design.inputs import ArrayOrCSR, Codes, as_array, as_table, take_rows
from oddsmith.design.labels import code_labels, union_of_classes
from oddsmith.design.levels import TableSchema, level_weights
from oddsmith.design.table import Design
from oddsmith.design.text_columns import read_formats
from oddsmith.design.whole_numbers import rounded_columns
from oddsmith.engines import Piece
from oddsmith.engines.scan import Wrapped
from oddsmith.engines.text_formats import TextFormat
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError, as_input_errors
from oddsmith.numerics import Array
from oddsmith.protocols import Indices, Labels
from oddsmith.rows import SplitRows, as_rows
from oddsmith.statistic import Shape


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The columns of labels, weights and offsets of a table; None if a piece carries them separately or there are none.

    ``features`` are the columns that a model reads, None for all others (and for arrays); ``formats`` maps names to
    text formats.
    """

    y: str | None = field(default=None, kw_only=False)
    weight: str | None = field(default=None, kw_only=False)
    offset: str | None = field(default=None, kw_only=False)
    features: tuple[str, ...] | None = None
    formats: tuple[tuple[str, TextFormat], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are not features."""
        return tuple(name for name in (self.y, self.weight, self.offset) if name is not None)

    def select(self, parts: Wrapped) -> Wrapped:
        """Return data in pieces with only the columns that have a role."""
        return parts if self.features is None else parts.choose((*self.features, *self.names))

    def rows(self, piece: Piece) -> Any:
        """Return the features of a piece: a view of a table without columns that have another role, or an array."""
        if isinstance(piece.rows, Frame):
            return piece.rows.select(self.features or (name for name in piece.rows.columns if name not in self.names))
        table = as_table(piece.rows)
        if table is None:
            return piece.rows
        wanted = self.features or tuple(name for name in table.columns if name not in self.names)
        known = set(table.columns)
        for name in wanted:
            if name not in known:
                raise InvalidInputError(
                    f"Column {name!r} is missing. There are: {', '.join(map(repr, table.columns))}. Every part of the "
                    "data needs the same columns."
                )
        rows = table.select(wanted)
        if not self.formats:
            return rows
        return nw.from_native(read_formats(rows.to_native(), dict(self.formats), "the first rows"), eager_only=True)

    def column(self, piece: Piece, role: str) -> Any:
        """Return labels (``"y"``), weights (``"weight"``) or offsets (``"offset"``) of a piece, None if it has none."""
        given = {"y": (self.y, piece.y), "weight": (self.weight, piece.s), "offset": (self.offset, piece.offset)}
        name, values = given[role]
        if name is None:
            return values
        if isinstance(piece.rows, Frame):
            return piece.rows.coded(name) if piece.rows.kinds[name] == "category" else piece.rows.columns[name]
        table = as_table(piece.rows)
        if table is None or name not in table.columns:
            found = "an array" if table is None else ", ".join(map(repr, table.columns))
            raise InvalidInputError(f"There is no column {name!r} for {role}. There are: {found}.")
        return table.get_column(name)

    def labelled(self, piece: Piece, design: Design | None) -> Piece:
        """Return the rows that have a label, if the design drops the others; else the piece itself."""
        drops = design is not None and design.drops_unlabelled and not isinstance(piece.rows, Frame)
        table = as_table(piece.rows) if drops else None
        if table is None or self.y is None or self.y not in table.columns:
            return piece
        return drop_unlabelled(piece, self.y)

    def numbers(self, piece: Piece, role: str) -> Array | None:
        """Return weights or offsets as an array."""
        column = self.column(piece, role)
        try:
            return None if column is None else np.asarray(as_array(column), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The {role}s of the rows are not numbers ({error}).") from None

    def labels(self, piece: Piece, n: int, kept: Indices | None = None) -> Any:
        """Return the labels of the ``n`` rows of a piece, or only of those ``kept``."""
        labels = self.column(piece, "y")
        if labels is None:
            raise InvalidInputError("This classifier requires y to be passed, but the target y is None.")
        if len(labels) != n:
            raise InvalidInputError(f"There are {len(labels)} labels for {n} rows.")
        return labels[kept] if kept is not None and isinstance(labels, nw.Series) else take_rows(labels, kept)


def viewed(piece: Piece) -> Piece:
    """Return a piece whose table is a narwhals view: to make one checks the table, and each role asks for it."""
    table = None if isinstance(piece.rows, Frame) else as_table(piece.rows)
    return piece if table is None or table is piece.rows else replace(piece, rows=table)


def drop_unlabelled(piece: Piece, y: str) -> Piece:
    """Return the rows of a table whose column ``y`` has a label, each at its place in the file."""
    table = as_table(piece.rows)
    missing = None if table is None or y not in table.columns else table[y].is_null().to_numpy()
    if table is None or missing is None or not missing.any():
        return piece
    kept, place = np.flatnonzero(~missing), piece.place
    at = None if place is None else lambda row: place(int(kept[row]))
    return replace(piece, rows=table[kept].to_native(), place=at)


@contextmanager
def locate_errors(piece: Piece) -> Iterator[None]:
    """Add to an error the name of the piece that it comes from."""
    try:
        yield
    except OddsmithError as error:
        if not piece.name or str(error).startswith(piece.name):
            raise
        kind = InvalidTypeError if isinstance(error, InvalidTypeError) else InvalidInputError
        name = piece.name
        if isinstance(error, InvalidInputError) and error.row is not None and piece.place is not None:
            error, name = error.at(piece.place(error.row)), name.partition(", bytes ")[0]  # the line says where
        raise kind(f"{name}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class DataSummaryParams:
    """Parameters of a summary: roles, design, the ``share`` of rows to draw, and how many to keep at ``most``."""

    roles: Roles
    design: Design | None = None
    share: float = 0.0
    most: int = 0
    seed: int = 0


@dataclass(frozen=True)
class SampledRows:
    """Raw rows drawn from a piece, and the random key of each."""

    keys: Array
    rows: Piece


@dataclass(frozen=True, kw_only=True)
class DataSummary:
    """Rows, classes, columns and a sample of some pieces; a statistic of raw tables.

    ``n_rows`` counts the rows that a fit reads (a design may leave out incomplete ones), ``n_present`` those of
    positive weight; ``weight`` is the total weight of each class; ``columns`` the number of columns of arrays;
    ``rounded`` names the columns with whole numbers that float64 rounds. Whether
    a row is drawn depends only on the number of its piece and its position in it, so samples merge exactly: rows have
    random keys, and the smallest are kept.

    >>> params = DataSummaryParams(roles=Roles())
    >>> parts = [DataSummary.of(Piece(np.eye(2), y), params) for y in (["b", "a"], ["a", "c"])]
    >>> summary = parts[0].merge(parts[1])
    >>> summary.n_rows, summary.classes.tolist(), summary.weight.tolist()
    (4, ['a', 'b', 'c'], [2.0, 1.0, 1.0])
    """

    n_rows: int = 0
    n_present: int = 0
    classes: Labels = field(default_factory=lambda: np.empty(0))
    weight: Array = field(default_factory=lambda: np.empty(0))
    schema: TableSchema | None = None
    columns: int = 0
    offset_sum: Array | None = None
    drawn: tuple[SampledRows, ...] = ()
    most: int = 0
    rounded: tuple[Any, ...] = ()

    @classmethod
    def zero(cls, shape: Shape, params: DataSummaryParams) -> DataSummary:
        return cls(most=params.most)

    @classmethod
    def of(cls, piece: Piece, params: DataSummaryParams) -> DataSummary:
        roles, design = params.roles, params.design
        piece = roles.labelled(piece, design)
        with locate_errors(piece):
            piece = viewed(piece)
            rows = roles.rows(piece)
            n = int(rows.shape[0])
            if not n:
                return cls(most=params.most)
            s = some_weights(roles.numbers(piece, "weight"), n)
            kept = None if design is None else design.complete(rows)
            # Rows of weight 0 do not count.
            schema = None if design is None or (s is not None and not s.any()) else design.look(rows, s, check=False)
            labels, offset = roles.labels(piece, n, kept), roles.numbers(piece, "offset")
            s, offset = take_rows(s, kept), take_rows(offset, kept)
            classes, t = code_labels(labels) if len(labels) else (np.empty(0), np.empty(0, dtype=np.int32))
            return cls(
                n_rows=len(t),
                n_present=len(t) if s is None else int(np.count_nonzero(s)),
                classes=classes,
                weight=label_weights(labels, t, len(classes), s),
                schema=schema,
                columns=0 if isinstance(rows, nw.DataFrame | Frame) else int(rows.shape[1]),
                offset_sum=None if offset is None else (offset if s is None else (offset.T * s).T).sum(axis=0),
                drawn=_draw(piece, n, params, s, kept),
                most=params.most,
                rounded=tuple(rows.rounded() if isinstance(rows, Frame) else rounded_columns(rows)),
            )

    def merge(self, other: DataSummary) -> DataSummary:
        for one, two in ((self, other), (other, self)):
            if not one.n_rows and one.schema is None:
                return two
        if self.columns != other.columns:
            raise InvalidInputError(f"One part of the data has {self.columns} columns and another {other.columns}.")
        classes, i, j = union_of_classes(self.classes, other.classes)
        weight = np.zeros(len(classes))
        weight[i] += self.weight
        weight[j] += other.weight
        offset = None if self.offset_sum is None or other.offset_sum is None else self.offset_sum + other.offset_sum
        schema = self.schema.merge(other.schema) if self.schema and other.schema else self.schema or other.schema
        drawn = truncate_sample((*self.drawn, *other.drawn), self.most)
        n_rows, n_present = self.n_rows + other.n_rows, self.n_present + other.n_present
        some = replace(self, n_rows=n_rows, n_present=n_present, classes=classes, weight=weight)
        rounded = tuple(sorted({*self.rounded, *other.rounded}))
        return replace(some, schema=schema, offset_sum=offset, drawn=drawn, rounded=rounded)

    def pruned(self) -> DataSummary:
        """Return the summary without dictionary levels that occur in no row, which must not be disclosed."""
        return self if self.schema is None else replace(self, schema=self.schema.pruned())

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[DataSummaryParams]:
        return [DataSummaryParams(roles=Roles()), DataSummaryParams(roles=Roles(), share=0.5, most=8)]


def label_weights(labels: object, t: Codes, K: int, s: Array | None) -> Array:
    """Return the total weight of each class; codes of labels may have been counted."""
    counts = labels.counts if isinstance(labels, Coded) and s is None and t is labels.codes else None
    return level_weights(t, K, s)[1:] if counts is None else counts[1:].astype(np.float64)


def some_weights(s: Array | None, n: int) -> Array | None:
    """Return the checked weights of some of the rows; unlike those of all rows, they may all be zero."""
    return s if s is None or (s.shape == (n,) and not s.any()) else read_weights(s, n)


def _draw(
    piece: Piece, n: int, params: DataSummaryParams, s: Array | None, kept: Indices | None
) -> tuple[SampledRows, ...]:
    """Return the rows whose key is below the share, except dropped rows and rows of weight 0."""
    if params.share <= 0.0:
        return ()
    keys = np.random.default_rng([params.seed, piece.number]).random(n)
    rows = np.arange(n) if kept is None else kept
    chosen = rows[(keys[rows] < params.share) & (True if s is None else s > 0)]
    return truncate_sample((SampledRows(keys[chosen], _take(piece, chosen)),), params.most) if len(chosen) else ()


def _take(piece: Piece, rows: Indices) -> Piece:
    """Return some rows of a piece; those of a table as an Arrow table, whatever it was."""
    table = as_table(piece.rows)
    taken = piece.rows[rows] if table is None else table[rows].to_arrow()
    y, s, offset = (take_rows(values, rows) for values in (piece.y, piece.s, piece.offset))
    return replace(piece, rows=taken, y=y, s=s, offset=offset, place=None)


def truncate_sample(sample: tuple[SampledRows, ...], most: int, *, slack: float = 1.5) -> tuple[SampledRows, ...]:
    """Return a sample, cut down to the ``most`` smallest keys once it is ``slack`` times as large."""
    if sum(len(part.keys) for part in sample) <= slack * most:
        return sample
    last = np.partition(np.concatenate([part.keys for part in sample]), most)[most]
    inside = [np.flatnonzero(part.keys < last) for part in sample]
    return tuple(
        part if len(rows) == len(part.keys) else SampledRows(part.keys[rows], _take(part.rows, rows))
        for part, rows in zip(sample, inside, strict=True)
        if len(rows)
    )


def concatenate_samples(sample: tuple[SampledRows, ...], most: int) -> list[Piece]:
    """Return sampled rows as pieces, merged if they are tables of one schema, since each piece has overhead."""
    # Cutting off a few costs more than keeping them.
    pieces = [part.rows for part in truncate_sample(sample, most, slack=1.2)]
    first, tables = pieces[0], [piece.rows for piece in pieces if isinstance(piece.rows, pa.Table)]
    if len(tables) < len(pieces) or any(v is not None for v in (first.y, first.s, first.offset)):
        return pieces
    schema = tables[0].schema
    # Dictionaries differ from piece to piece, and may have no room for each other's levels.
    if any(map(pa.types.is_dictionary, schema.types)) or not all(table.schema.equals(schema) for table in tables):
        return pieces
    return [replace(first, rows=pa.concat_tables(tables))]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockEncoder:
    """Encodes pieces as blocks: columns by a learned ``design`` (None: numbers unchanged), labels as class codes.

    Missing or infinite values are an error that names the piece, unless ``missing`` values are allowed. With ``split``,
    rows come in parts, with categories as codes: copies, unless ``compact`` is False, which is for tables that are kept
    and have finite numbers. Weights are multiplied by the ``class_weight`` of each row's class, if any.

    >>> encode = BlockEncoder(roles=Roles(), classes=np.array(["a", "b"]))
    >>> block = encode(Piece(np.eye(2), ["b", "a"]))
    >>> block.t.tolist(), block.X.tolist()
    ([1, 0], [[1.0, 0.0], [0.0, 1.0]])
    """

    roles: Roles
    classes: Labels
    design: Design | None = None
    names: tuple[str, ...] | None = None
    missing: bool = False
    dtype: str = "float64"
    split: bool = False
    class_weight: Array | None = None
    compact: bool = True

    def __call__(self, piece: Piece) -> Block:
        kept: Indices | None = None
        piece = self.roles.labelled(piece, self.design)
        with locate_errors(piece):
            piece = viewed(piece)
            table = self.roles.rows(piece)
            n = int(table.shape[0])
            s = some_weights(self.roles.numbers(piece, "weight"), n)
            offset = inputs.read_offset(self.roles.numbers(piece, "offset"), n, len(self.classes))
            if not n or self.design is None:
                rows = self._numbers(table)
            else:
                present = s if s is None or s.any() else None
                rows, kept = self.design.retrain(table, present, part=True, split=self.split)
            if isinstance(rows, SplitRows):
                rows = self._compact(rows)
            t = self._codes(self.roles.labels(piece, n, kept) if n else ())
            s = multiply(take_rows(s, kept), t, self.class_weight)
            return Block(as_rows(rows), t, s, take_rows(offset, kept))

    def _compact(self, rows: SplitRows) -> SplitRows:
        """Return rows in parts as copies, because views would keep the whole piece in memory."""
        if not self.compact:
            return rows
        compact = rows.compact(self.dtype)
        if not self.missing:
            assert self.design is not None
            inputs.check_finite(compact, self.design.get_feature_names_out)  # names are made of all levels
        return compact

    def _codes(self, labels: Sequence[object]) -> Codes:
        if not len(labels):
            return np.empty(0, dtype=np.int32)
        classes, codes = code_labels(labels)
        if classes.dtype == self.classes.dtype and np.array_equal(classes, self.classes):
            return codes
        place = {label: k for k, label in enumerate(self.classes.tolist())}
        unknown = [label for label in classes.tolist() if label not in place]
        if unknown:
            known = ", ".join(map(repr, list(place)[:8]))
            raise InvalidInputError(
                f"There is the label {unknown[0]!r}, which did not occur in the first pass (it saw {known}): the data "
                "has changed. Fit again when it is complete."
            )
        return np.array([place[label] for label in classes.tolist()], dtype=np.int32)[codes]

    def _numbers(self, rows: object) -> ArrayOrCSR:
        table = as_table(rows)
        if table is not None and not len(table):
            M = len(table.columns) if self.design is None else len(self.design.get_feature_names_out())
            return np.empty((0, M), dtype=self.dtype)
        numbers: ArrayOrCSR
        if table is not None:
            numbers = inputs.column_major(table, self.dtype)
        elif sparse.issparse(rows):
            numbers = sparse.csr_array(rows)
        else:
            with as_input_errors():
                array = np.asarray(rows)
                numbers = array if array.dtype == np.float32 else np.asarray(array, dtype=self.dtype)
        if numbers.ndim != 2:
            raise InvalidInputError(f"Rows have the shape {numbers.shape}; expected a matrix, a row each.")
        if not self.missing:
            inputs.check_finite(numbers, None if self.names is None else np.array(self.names, dtype=object))
        return numbers
