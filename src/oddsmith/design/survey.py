"""The first pass over data in pieces: what columns and labels hold, how many rows there are, and a sample of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from oddsmith.design.inputs import as_table, read_weights
from oddsmith.design.labels import Labels, code_labels, union_of_classes
from oddsmith.design.sight import Sight
from oddsmith.design.table import Design
from oddsmith.engines import Piece
from oddsmith.errors import InvalidInputError, InvalidTypeError, OddsmithError
from oddsmith.numerics import Array
from oddsmith.statistic import Shape


@dataclass(frozen=True)
class Roles:
    """Which columns of a table are labels, weights and offsets; None where a piece brings them by itself, or none.

    ``features`` are the columns that a model reads, None for all others (and for arrays).
    """

    y: str | None = None
    weight: str | None = None
    offset: str | None = None
    features: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are no features."""
        return tuple(name for name in (self.y, self.weight, self.offset) if name is not None)

    def rows(self, piece: Piece) -> Any:
        """Return the features of a piece: a view of a table without columns that have another role, or an array."""
        table = as_table(piece.rows)
        if table is None:
            return piece.rows
        columns = table.columns
        wanted = self.features or tuple(name for name in columns if name not in self.names)
        there = set(columns)
        missing = [name for name in wanted if name not in there]
        if missing:
            raise InvalidInputError(
                f"Column {missing[0]!r} is missing. There are: {', '.join(map(repr, columns))}. Every part of the data "
                "needs the same columns."
            )
        return table.select(wanted)

    def column(self, piece: Piece, role: str) -> Any:
        """Return labels (``"y"``), weights (``"weight"``) or offsets (``"offset"``) of a piece, None if it has none."""
        name = getattr(self, role)
        if name is None:
            return {"y": piece.y, "weight": piece.s, "offset": piece.offset}[role]
        table = as_table(piece.rows)
        if table is None or name not in table.columns:
            found = "an array" if table is None else ", ".join(map(repr, table.columns))
            raise InvalidInputError(f"There is no column {name!r} for {role}. There are: {found}.")
        return table.get_column(name)

    def numbers(self, piece: Piece, role: str) -> Array | None:
        """Return weights or offsets as an array."""
        column = self.column(piece, role)
        if column is None:
            return None
        values = column.to_numpy() if hasattr(column, "to_numpy") else column
        try:
            return np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"The {role}s of the rows are no numbers ({error}).") from None

    def labels(self, piece: Piece, n: int, kept: npt.NDArray[np.intp] | None = None) -> Any:
        """Return the labels of the ``n`` rows of a piece, or of those ``kept``: what others hold is not looked at."""
        labels = self.column(piece, "y")
        if labels is None:
            raise InvalidInputError("This classifier requires y to be passed, but the target y is None.")
        if len(labels) != n:
            raise InvalidInputError(f"There are {len(labels)} labels for {n} rows.")
        if kept is None:
            return labels
        return labels[kept] if isinstance(labels, nw.Series) else np.asarray(labels)[kept]


def opened(piece: Piece) -> Piece:
    """Return a piece with a view of its table in the table's place, which need not be looked for again.

    >>> import polars
    >>> type(opened(Piece(polars.DataFrame({"x": [1]}))).rows).__module__.partition(".")[0]
    'narwhals'
    """
    table = as_table(piece.rows)
    return piece if table is None else replace(piece, rows=table)


@contextmanager
def at(piece: Piece) -> Iterator[None]:
    """Add to an error where the piece is that it comes from."""
    try:
        yield
    except OddsmithError as error:
        if not piece.name or str(error).startswith(piece.name):
            raise
        kind = InvalidTypeError if isinstance(error, InvalidTypeError) else InvalidInputError
        raise kind(f"{piece.name}: {error}") from None


@dataclass(frozen=True)
class SurveyParams:
    """How to look at pieces: with which roles and design (False: none), and which share of the rows to draw.

    Of the rows drawn no more than ``most`` are kept.
    """

    roles: Roles
    design: Design | bool = False
    share: float = 0.0
    most: int = 0
    seed: int = 0


@dataclass(frozen=True)
class Drawn:
    """Rows that were drawn from a piece, as they came, and the random key of each."""

    keys: Array
    rows: Piece


@dataclass(frozen=True)
class Survey:
    """What there is in some pieces; a statistic of raw tables.

    ``n_rows`` counts the rows that a fit reads (a design may leave out incomplete ones), ``n_present`` those of
    positive weight; ``weight`` is the total weight of each class; ``columns`` the number of columns of arrays. Whether
    a row is drawn depends on the number of its piece and its place in it alone, so that a sample merges exactly: rows
    have random keys, and the smallest are kept.

    >>> params = SurveyParams(Roles())
    >>> survey = Survey.of(Piece(np.eye(2), ["b", "a"]), params).merge(Survey.of(Piece(np.eye(2), ["a", "c"]), params))
    >>> survey.n_rows, survey.classes.tolist(), survey.weight.tolist()
    (4, ['a', 'b', 'c'], [2.0, 1.0, 1.0])
    """

    n_rows: int
    n_present: int
    classes: Labels
    weight: Array
    sight: Sight | None = None
    columns: int = 0
    offset_sum: Array | None = None
    drawn: tuple[Drawn, ...] = ()
    most: int = 0

    @classmethod
    def zero(cls, shape: Shape, params: SurveyParams) -> Survey:
        """Return the survey of no rows."""
        return cls(0, 0, np.empty(0), np.empty(0), most=params.most)

    @classmethod
    def of(cls, piece: Piece, params: SurveyParams) -> Survey:
        """Return the survey of a piece."""
        with at(piece):
            return _survey(opened(piece), params)

    def merge(self, other: Survey) -> Survey:
        """Return the survey of both."""
        for one, two in ((self, other), (other, self)):
            if not one.n_rows and one.sight is None:
                return two
        classes, i, j = union_of_classes(self.classes, other.classes)
        weight = np.zeros(len(classes))
        weight[i] += self.weight
        weight[j] += other.weight
        sights = [one.sight for one in (self, other) if one.sight is not None]
        offset = None if self.offset_sum is None or other.offset_sum is None else self.offset_sum + other.offset_sum
        return Survey(
            self.n_rows + other.n_rows,
            self.n_present + other.n_present,
            classes,
            weight,
            sights[0].merge(sights[1]) if len(sights) == 2 else (sights[0] if sights else None),
            _same_columns(self, other),
            offset,
            fewest((*self.drawn, *other.drawn), self.most),
            self.most,
        )

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return parameters for arrays."""
        return [SurveyParams(Roles()), SurveyParams(Roles(), share=0.5, most=8)]


def _survey(piece: Piece, params: SurveyParams) -> Survey:
    roles = params.roles
    rows = roles.rows(piece)
    n = len(rows) if as_table(rows) is not None else int(rows.shape[0])
    if not n:
        return Survey.zero(Shape(0, 0), params)
    s = some_weights(roles.numbers(piece, "weight"), n)
    sight, kept = None, None
    if isinstance(params.design, Design):
        kept = params.design.complete(rows)
        if s is None or s.any():  # rows of weight 0 are not there
            sight = params.design.look(rows, s, check=False)
    labels, offset = roles.labels(piece, n, kept), roles.numbers(piece, "offset")
    if kept is not None:
        s, offset = (None if v is None else v[kept] for v in (s, offset))
        n = len(kept)
    classes, t = code_labels(labels) if n else (np.empty(0), np.empty(0, dtype=np.int32))
    total = np.bincount(t, weights=s, minlength=len(classes)).astype(np.float64)
    present = n if s is None else int(np.count_nonzero(s))
    width = 0 if as_table(rows) is not None else int(rows.shape[1])
    moved = None if offset is None else (offset if s is None else (offset.T * s).T).sum(axis=0)
    return Survey(n, present, classes, total, sight, width, moved, _draw(piece, params, s, kept), params.most)


def some_weights(s: Array | None, n: int) -> Array | None:
    """Return the checked weights of some of the rows, which may all be zero, as those of all rows may not.

    >>> some_weights(np.zeros(2), 2).tolist()
    [0.0, 0.0]
    """
    return s if s is None or (s.shape == (n,) and not s.any()) else read_weights(s, n)


def _same_columns(one: Survey, other: Survey) -> int:
    if one.columns != other.columns:
        raise InvalidInputError(f"One part of the data has {one.columns} columns and another {other.columns}.")
    return one.columns


def _draw(
    piece: Piece, params: SurveyParams, weights: Array | None, kept: npt.NDArray[np.intp] | None
) -> tuple[Drawn, ...]:
    if params.share <= 0.0:
        return ()
    table = as_table(piece.rows)
    n = len(table) if table is not None else int(piece.rows.shape[0])
    keys = np.random.default_rng([params.seed, piece.number]).random(n)
    there = np.ones(n, dtype=bool)
    if kept is not None:
        there[:] = False
        there[kept] = True
    if weights is not None:
        there[kept if kept is not None else slice(None)] &= weights > 0
    chosen = np.flatnonzero((keys < params.share) & there)
    if not len(chosen):
        return ()
    return fewest((Drawn(keys[chosen], _take(piece, chosen)),), params.most)


def _take(piece: Piece, rows: npt.NDArray[np.intp]) -> Piece:
    """Return some rows of a piece; those of a table as an Arrow table, whatever it was."""
    table = as_table(piece.rows)
    taken = piece.rows[rows] if table is None else table[rows].to_arrow()
    y, s, offset = (None if v is None else np.asarray(v)[rows] for v in (piece.y, piece.s, piece.offset))
    return replace(piece, rows=taken, y=y, s=s, offset=offset)


def fewest(drawn: tuple[Drawn, ...], most: int, *, slack: float = 1.5) -> tuple[Drawn, ...]:
    """Return what was drawn, cut down to the ``most`` smallest keys once it is ``slack`` times as much."""
    count = sum(len(one.keys) for one in drawn)
    if count <= slack * most:
        return drawn
    last = np.partition(np.concatenate([one.keys for one in drawn]), most)[most]
    cut = []
    for one in drawn:
        inside = np.flatnonzero(one.keys < last)
        if len(inside) == len(one.keys):
            cut.append(one)
        elif len(inside):
            cut.append(Drawn(one.keys[inside], _take(one.rows, inside)))
    return tuple(cut)


def together(drawn: tuple[Drawn, ...]) -> list[Piece]:
    """Return the rows drawn as pieces: a single one if they are alike tables, since each piece has its price.

    >>> import pyarrow as pa
    >>> drawn = tuple(Drawn(np.zeros(1), Piece(pa.table({"x": [x]}))) for x in (1, 2))
    >>> [piece.rows.num_rows for piece in together(drawn)]
    [2]
    """
    pieces = [one.rows for one in drawn]
    first = pieces[0]
    if not hasattr(first.rows, "schema") or any(v is not None for v in (first.y, first.s, first.offset)):
        return pieces
    import pyarrow as pa

    # Dictionaries differ from piece to piece, and may have no room for each other's words.
    plain = not any(pa.types.is_dictionary(kind) for kind in first.rows.schema.types)
    if not (plain and all(piece.rows.schema.equals(first.rows.schema) for piece in pieces[1:])):
        return pieces
    return [replace(first, rows=pa.concat_tables([piece.rows for piece in pieces]))]
