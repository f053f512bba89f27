"""The contract that everything folds by. READ FIRST.

A statistic is a frozen record of arrays that is *additive over rows*:

* ``S.zero(shape, params)``: the statistic of no rows;
* ``S.of(block, params)``: the statistic of some rows;
* ``S.merge(a, b)``: the statistic of both.

Its laws, which `oddsmith.testing.check_statistic` tests for every registered statistic:

1. identity: merging with ``zero`` changes nothing;
2. associativity: how a merge is bracketed does not matter;
3. order: nor does the order of the parts;
4. splitting: the statistic of all rows is the merge of the statistics of the parts;
5. weights: a row of weight 2 is the row twice, a row of weight 0 is not there (fields of whole numbers count rows);
6. emptiness: a block of no rows is the identity;
7. classes: a part that lacks a class is fine.

Sums, never means of sums; no number of rows beforehand; accumulators in float64 whatever the input. Second
moments are kept centred and merged pairwise, because raw sums of squares lose every digit on data with a
large mean. Nothing in a statistic knows where its rows came from.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from oddsmith.block import Block
from oddsmith.registry import Registry

S = TypeVar("S", bound="Statistic")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a fold knows before it sees a row: ``M`` columns, ``K`` classes."""

    M: int
    K: int


class Statistic(Protocol):
    """The contract above, as a type. Implementations are frozen dataclasses of arrays."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def zero(cls: type[S], shape: Shape, params: Any) -> S:
        """Return the statistic of no rows."""

    @classmethod
    def of(cls: type[S], block: Block, params: Any) -> S:
        """Return the statistic of the rows of ``block``."""

    def merge(self: S, other: S) -> S:
        """Return the statistic of the rows of both."""

    @classmethod
    def example_params(cls, shape: Shape, rng: np.random.Generator) -> list[Any]:
        """Return parameters under which the laws are to be tested."""


@dataclass(frozen=True)
class Additive:
    """The merge of a statistic whose fields are plain sums."""

    def merge(self, other: Self) -> Self:
        """Add the fields of both."""
        names = [field.name for field in fields(self)]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


STATISTICS: Registry[type[Statistic]] = Registry("statistic")
