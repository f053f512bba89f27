"""The contract of statistics, on which every fit is built. READ FIRST.

A statistic is a frozen record of arrays that is *additive over rows*:

* ``S.zero(shape, params)``: the statistic of no rows;
* ``S.of(block, params)``: the statistic of some rows;
* ``S.merge(a, b)``: the statistic of both.

Its laws, which `oddsmith.testing.check_statistic` tests for every registered statistic:

1. identity: merging with ``zero`` changes nothing;
2. associativity: the grouping of merges does not matter;
3. order: the order of the parts does not matter;
4. splitting: the statistic of all rows is the merge of the statistics of the parts;
5. weights: a row of weight 2 counts twice, a row of weight 0 does not count (integer fields count rows);
6. emptiness: a block without rows is the identity;
7. classes: a part may lack a class.

A statistic contains sums, never means of sums, in float64 whatever the input, and does not know the number of rows in
advance. Second moments are kept centred and merged pairwise, because raw sums of squares lose all digits on data with a
large mean. A statistic does not know where its rows come from.
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
    """The shape known before any row is read: ``M`` columns, ``K`` classes."""

    M: int
    K: int


class Statistic(Protocol):
    """The contract above as a type. Implementations are frozen dataclasses of arrays."""

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
        """Return parameters for testing the laws."""


@dataclass(frozen=True)
class Additive:
    """The merge of a statistic whose fields are plain sums."""

    def merge(self, other: Self) -> Self:
        """Add the fields of both."""
        names = [field.name for field in fields(self)]
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in names})


STATISTICS: Registry[type[Statistic]] = Registry("statistic")
