"""The record of a fit that every function of this package takes: state, names, classes, and the rows on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from oddsmith.cached_property import cached_property
from oddsmith.design.formula import Expression, plain_column
from oddsmith.design.table import Design
from oddsmith.design.terms import Factor, Term
from oddsmith.engines.memory import MemorySource
from oddsmith.errors import UnknownNameError
from oddsmith.inference.summary import Summary
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.separation import Separation
from oddsmith.links import Link
from oddsmith.numerics import Array
from oddsmith.records import Certificate
from oddsmith.statistics.rowwise import Tile, WeightPoint, tiles

INTERCEPT = "(intercept)"


@dataclass(frozen=True, kw_only=True)
class ReportedWeights:
    """The weights that a table shows: no reference class, and an intercept only if there is one.

    ``classes`` is None for two classes. ``J`` (reported × estimated) maps the solver's weights to the reported ones;
    aliased weights have a row of zeros. ``zero`` lists the (class, term) of the reference class.
    """

    classes: list[Any] | None
    terms: list[str]
    estimate: Array
    J: Array
    aliased: npt.NDArray[np.bool_]
    zero: list[Any]

    @classmethod
    def of(cls, state: FittedState, names: Sequence[str], labels: list[Any]) -> ReportedWeights:
        """Return the weights of a fit whose columns and classes have these names."""
        W, inside = shown_weights(state)
        R, P = W.shape
        reference, terms = state.reference if R > 1 else None, [INTERCEPT, *names]
        return cls(
            classes=None if R == 1 else [labels[i // P] for i in inside],
            terms=[terms[i % P] for i in inside],
            estimate=W.ravel()[inside],
            J=state.jacobian()[inside],
            aliased=np.tile(~state.free.any(axis=0), R)[inside],
            zero=[] if reference is None else [(labels[reference], term) for term in terms],
        )

    @property
    def labels(self) -> list[Any]:
        """Terms, or pairs (class, term)."""
        return self.terms if self.classes is None else list(zip(self.classes, self.terms, strict=True))

    def errors(self, V: Array) -> Array:
        """Return the standard errors if the solver's weights have covariance ``V``; NaN for aliased ones."""
        return np.where(self.aliased, np.nan, standard_errors(self.J, V))


def shown_weights(state: FittedState) -> tuple[Array, npt.NDArray[np.intp]]:
    """Return the weights, R × P, and the places of those that tables show: no reference class, no intercept of zero."""
    W = state.weights()
    shown = np.ones(W.shape, dtype=bool)
    shown[:, 0] = state.free[:, 0].any()
    if len(W) > 1 and state.reference is not None:
        shown[state.reference] = False
    return W, np.flatnonzero(shown)


def standard_errors(J: Array, V: Array) -> Array:
    """Return the roots of the diagonal of ``J V Jᵀ``."""
    with np.errstate(over="ignore"):  # an error larger than any number is infinite
        return np.asarray(np.sqrt(np.maximum(((J @ V) * J).sum(axis=1), 0.0)))


@dataclass(frozen=True, kw_only=True)
class FitRecord:
    """A fitted likelihood as inference sees it.

    ``prior`` is the one that the model was given and ``fitted_prior`` the one that it was fitted with, which differ
    after an update. ``named`` says that the data named its columns. ``read_problem`` reads the rows of the fit again,
    or raises if they are missing.
    """

    model_name: str
    state: FittedState
    names: tuple[str, ...]
    named: bool
    classes: list[Any]
    link: Link | None
    prior: object
    fitted_prior: object
    log_likelihood: float
    separation: Separation | None
    certificate: Certificate
    plan: str
    design: Design | None
    basis: object
    standardized: bool
    read_problem: Callable[[], Problem]

    @cached_property
    def problem(self) -> Problem:
        """The problem of the fit, with its source and engine."""
        return self.read_problem()

    @cached_property
    def weights(self) -> ReportedWeights:
        """The weights as tables report them."""
        return ReportedWeights.of(self.state, self.names, self.classes)

    @property
    def at(self) -> WeightPoint:
        """The weights as statistics over rows take them."""
        c = self.state.coordinates
        return WeightPoint(x=self.state.x, center=c.center, scale=c.scale, T=c.T, link=self.link)

    @property
    def link_name(self) -> str:
        """The registered name of the link."""
        return "logit" if self.link is None else self.link.name

    @property
    def aliased(self) -> list[str]:
        """Columns that depend on earlier ones."""
        return [self.names[j] for j in np.flatnonzero(~self.state.free[:, 1:].any(axis=0))]

    @property
    def n_parameters(self) -> int:
        """Number of weights that were estimated: under a LaplacePrior, of those that are not zero."""
        if self.state.sparse:
            intercepts = (self.state.K - 1) * int(self.state.free[:, 0].any())
            return int(np.count_nonzero(self.state.weights()[:, 1:])) + intercepts
        return len(self.state.kept)

    @property
    def post_selection(self) -> bool:
        """Whether the columns of the model were chosen by looking at the labels."""
        steps = self.basis if isinstance(self.basis, list | tuple) else [self.basis]
        return any(getattr(step, "post_selection", False) for step in steps)

    @property
    def terms(self) -> Sequence[Term]:
        """The terms of the design; none where the columns of the model are not those of a design."""
        if self.design is None or self.design.get_feature_names_out().tolist() != list(self.names):
            return ()
        return self.design.terms_

    @property
    def places_of_terms(self) -> list[tuple[int, Term]]:
        """The terms of the design, each with the place of its first column."""
        terms = self.terms
        return list(zip(accumulate((term.width for term in terms), initial=0), terms, strict=False))

    def column(self, name: object) -> int:
        """Return the place of a column; a name that is not one is refused."""
        if str(name) not in self.names:
            raise UnknownNameError("column", name, self.names)
        return self.names.index(str(name))

    def tiles(self) -> Iterator[Tile]:
        """Yield the rows of the fit, tile by tile."""
        return each_tile(self.problem.memory_source, self.at)


@runtime_checkable
class LikelihoodModel(Protocol):
    """A model that is fitted by likelihood; ``_learned`` is None where its weights are at no optimum."""

    prior: object
    _learned: FittedState | None

    def _check_fitted(self) -> None: ...

    def _fit_record(
        self, X: Any = None, y: Any = None, sample_weight: object = None, offset: object = None, *, hessian: bool = True
    ) -> FitRecord: ...

    def summary(self, X: Any = None, y: Any = None, **how: Any) -> Summary:
        """Return the table of estimates."""


def expression_of(factor: Factor) -> Expression:
    """Return what a factor of a term is of."""
    return factor.of if isinstance(factor.of, Expression) else plain_column(str(factor.of))


def each_tile(source: MemorySource, at: WeightPoint) -> Iterator[Tile]:
    """Yield the rows of a source, tile by tile."""
    for start, stop in source.slices():
        yield from tiles(source.block(start, stop), at)
