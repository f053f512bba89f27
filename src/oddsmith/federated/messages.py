"""Messages of a federated fit: requests for sums, and answers that contain only sums."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

import oddsmith
from oddsmith.data_access.class_views import BinaryView
from oddsmith.data_access.shards import Shard, ShardParams
from oddsmith.design.basis.base import AllRows, Composed
from oddsmith.design.basis.expansion import Expansion
from oddsmith.design.data_summary import BlockEncoder, DataSummary, DataSummaryParams
from oddsmith.design.inputs import as_table
from oddsmith.engines import MemoryEngine, MemorySource, PartedSource, Piece, one_blas_thread
from oddsmith.engines.partitioned import as_it_is
from oddsmith.engines.scan import find_parts
from oddsmith.errors import InvalidInputError, InvalidTypeError, MessageError, as_input_errors
from oddsmith.likelihood.null_model import zero_column
from oddsmith.likelihood.separation_search import HardestRows
from oddsmith.models.naive_bayes import NaiveBayes
from oddsmith.persistence.codec import TYPES, register
from oddsmith.persistence.file import write
from oddsmith.persistence.model_file import register_types
from oddsmith.persistence.sealed_bytes import digest, seal, unseal
from oddsmith.protocols import RowsLike
from oddsmith.rows import SplitRows
from oddsmith.statistic import STATISTICS, Shape, Statistic
from oddsmith.statistics import Sample

M = TypeVar("M", bound="Message")


class Message:
    """A message between sites: numbers and JSON as bytes, checked before use; no code, no pickle."""

    kind: str

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        register_types()
        state = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return seal(self.kind, {"software": _software()}, state)

    @classmethod
    def from_bytes(cls: type[M], data: bytes) -> M:
        """Return the message from bytes; raise a `MessageError` for anything else."""
        register_types()
        _, state = unseal(cls.kind, data, _software())
        try:
            message = cls(**state)
            message.check()
        except (TypeError, AttributeError, LookupError) as error:
            raise MessageError(f"This {cls.kind} has unexpected contents ({error}): send it again.") from None
        return message

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the message to a file, completely or not at all."""
        write(path, self.to_bytes())

    @classmethod
    def load(cls: type[M], path: str | os.PathLike[str]) -> M:
        """Read a message from a file."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise MessageError(f"{os.fspath(path)!r} cannot be read ({error.strerror or error}).") from error
        try:
            return cls.from_bytes(data)
        except MessageError as error:
            raise MessageError(f"{os.fspath(path)!r}: {error}") from None

    def check(self) -> None:
        """Refuse a message with invalid parts."""


@dataclass(frozen=True, kw_only=True)
class FoldSpec:
    """A fold: the name of a statistic, its parameters, and how rows are encoded and transformed."""

    statistic: str
    params: object
    encode: Callable[[Piece], Any]
    transform: Callable[[Any], Any] | None
    columns: tuple[str, ...] | None
    shape: Shape

    @property
    def type(self) -> type[Any]:
        """The statistic."""
        return TYPES[self.statistic]

    @property
    def key(self) -> str:
        """The key of the fold in the record of a fit."""
        return digest((self.statistic, self.params, self.encode, self.transform, self.columns))


register(FoldSpec, "Asked")


@dataclass(frozen=True)
class Answer(Message):
    """The sums of one site, in answer to a request; ``number`` identifies the request, ``fit`` the fit.

    >>> from oddsmith import Fit, GaussianClassifier
    >>> answer = Fit.start(GaussianClassifier()).request.statistic([[0.0], [1.0]], ["a", "b"], site="north")
    >>> again = Answer.from_bytes(answer.to_bytes())
    >>> again.site, again.number, again.statistic.n_rows, again.statistic.classes.tolist()
    ('north', 0, 2, ['a', 'b'])
    """

    site: str
    fit: str
    number: int
    statistic: Any
    kind = "answer"

    def check(self) -> None:
        if not (type(self.site) is str and type(self.fit) is str and type(self.number) is int):
            raise TypeError("its site or its number is missing")


@dataclass(frozen=True)
class Request(Message):
    """The next request to the sites of a fit: one statistic of their rows.

    >>> from oddsmith import Fit, LogisticRegression
    >>> Fit.start(LogisticRegression(prior=1.0)).request
    Request(number=0, 'Survey')
    """

    fit: str
    number: int
    asked: FoldSpec
    least_rows: int = 0
    kind = "request"

    def __repr__(self) -> str:
        return f"Request(number={self.number}, {self.asked.statistic!r})"

    def check(self) -> None:
        asked = self.asked  # for sums and nothing else, so that a site need not trust its sender
        if not (isinstance(asked, FoldSpec) and isinstance(asked.shape, Shape)):
            raise TypeError("it asks for nothing")
        if not (type(self.number) is int and type(self.least_rows) is int):
            raise TypeError("its number is missing")
        check_only_sums(asked)
        if not (_is_encoder(asked.encode) and _is_transform(asked.transform)):
            raise TypeError("rows cannot be read as it says")

    def statistic(
        self,
        data: object,
        y: object = None,
        sample_weight: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
        *,
        site: str,
        **scanning: Any,
    ) -> Answer:
        """Return the answer of a site: sums over its rows, without the rows.

        Parameters
        ----------
        data : array, sparse matrix, table, path …
            The rows of this site; a table or files must have the columns that the fit names.
        y, sample_weight, offset : arrays, optional
            Labels, weights and offsets, unless they are columns of the data.
        site : str
            The name of this site: unique, and the same in every round.
        **scanning
            For files: ``memory=``, ``cache=`` … of `oddsmith.scan`.

        Cost: one pass over the rows.
        """
        if not isinstance(site, str) or not site:
            raise InvalidTypeError(f"site must be the name of this site, a text that is not empty; found {site!r}.")
        given = {"y": y, "s": sample_weight, "offset": offset}
        beside = {name: values for name, values in given.items() if values is not None}
        if names := [values for values in beside.values() if isinstance(values, str)]:
            raise InvalidTypeError(
                f"A site gives labels, weights and offsets as arrays; found the text {names[0]!r}. A column of the "
                "data is named once for all sites, by Fit.start(model, columns, y='label')."
            )
        rows, total = _fold_site(self.asked, data, beside, scanning)
        if 0 < rows < self.least_rows:
            raise InvalidInputError(
                f"Site {site!r} has {rows} rows, but this fit requires at least {self.least_rows}: sums over fewer "
                "rows reveal too much about each of them. Leave this site out."
            )
        return Answer(site, self.fit, self.number, total)


def _software() -> str:
    return f"oddsmith {oddsmith.__version__}"


def _is_encoder(encode: object) -> bool:
    """Whether the encoder is one of this library."""
    if isinstance(encode, Composed):
        view = encode.first
        plain = isinstance(view, BinaryView) and _is_encoder(view.encode) and _is_transform(view.transform)
        return plain and _is_encoder(encode.second)
    return encode is as_it_is or type(encode) is BlockEncoder


def _is_transform(transform: object) -> bool:
    return transform is None or transform is zero_column or type(transform) is Expansion


def check_only_sums(asked: FoldSpec) -> None:
    """Refuse a fold that would reveal rows of a site."""
    if asked.type in (Sample, AllRows):
        raise InvalidInputError(
            "A part of this model (centres, landmarks, knots) is learned from rows or a sample of them, but no row "
            "may leave its site. Give these as numbers, or use a basis learned from sums, such as Standardize."
        )
    if asked.type is HardestRows:
        raise InvalidInputError(
            "The fit has not converged, perhaps because the classes are separated, which cannot be checked without "
            "rows. Use prior=JeffreysPrior() or a GaussianPrior, or raise max_iter."
        )
    if asked.type is DataSummary:
        sums = isinstance(asked.params, DataSummaryParams) and not (asked.params.share or asked.params.most)
    elif asked.type is Shard:
        sums = isinstance(asked.params, ShardParams) and type(asked.params.model) is NaiveBayes
    else:
        sums = asked.type in [kind for _, kind in STATISTICS.items()]
    if not sums:
        raise InvalidTypeError(f"A site answers with sums over its rows, which a {asked.statistic} is not.")


def _fold_site(
    asked: FoldSpec, data: object, beside: dict[str, Any], scanning: dict[str, Any]
) -> tuple[int, Statistic]:
    """Return the number of rows of a site, in memory or not, and their statistic."""
    parts, (M, K) = find_parts(data, beside, scanning), (asked.shape.M, asked.shape.K)
    if parts is not None:
        parts = parts if asked.columns is None else parts.choose(asked.columns)
        source = PartedSource(parts, asked.encode, parts.expected_rows, M=M, K=K, transform=asked.transform)
        total = parts.engine.fold(asked.type, source, asked.params)
        return (total.n_rows if isinstance(total, DataSummary) else parts.expected_rows), _leaving(total)
    table = as_table(data)
    rows = cast("RowsLike", data if table is not None or sparse.issparse(data) else _matrix(data))
    count = int(rows.shape[0]) if table is None else len(table)
    block = asked.encode(Piece(rows, **beside))
    if isinstance(block, Piece):
        return count, _leaving(asked.type.of(block, asked.params))
    X = block.Phi if isinstance(block.Phi, SplitRows) else block.X
    held = MemorySource(X, block.t, K, block.s, block.offset, transform=asked.transform, M=M)
    with one_blas_thread():
        return count, MemoryEngine().fold(asked.type, held, asked.params)


def _leaving(total: Any) -> Any:
    """Return a statistic that may leave its site: without dictionary levels that occur in no row."""
    return total.pruned() if isinstance(total, DataSummary) else total


def _matrix(data: object) -> npt.NDArray[Any]:
    with as_input_errors():
        rows = np.asarray(data)
    if rows.ndim != 2:
        raise InvalidInputError(f"Rows have the shape {rows.shape}; expected a matrix, a row each, or a table.")
    return rows
