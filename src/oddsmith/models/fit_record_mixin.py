"""The record of a fit, which every method of inference starts from, and the rows of the fit on request."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from oddsmith.design.fitted_basis import in_deviations
from oddsmith.engines import one_blas_thread
from oddsmith.errors import InvalidInputError, UnavailableError
from oddsmith.inference.fit_record import FitRecord
from oddsmith.likelihood.fit import relearn
from oddsmith.likelihood.fitted_state import FittedState, TrainingDataRef, missing_rows_message
from oddsmith.likelihood.problem import Problem
from oddsmith.likelihood.separation import DesignRows, Separation
from oddsmith.links import LINKS, Link
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.records import Certificate


class FitRecordMixin:
    """A mixin: the record of a model that is fitted by likelihood."""

    prior: Any
    basis: Any
    classes_: Labels
    prior_: Any
    link_: str
    log_likelihood_: float
    certificate_: Certificate
    _learned: FittedState | None = None
    _recall: TrainingDataRef | None = None
    _separation: Separation | None = None

    if TYPE_CHECKING:

        def _check_fitted(self) -> None: ...

        def _names(self) -> npt.NDArray[Any]: ...

        def _rows(self, X: Any) -> DesignRows: ...

        def _problem(
            self, X: Any, y: Any, sample_weight: object = None, offset: object = None, *, known: bool = False
        ) -> tuple[Labels, Problem]: ...

        def _against_first(self) -> tuple[Array, Array]: ...

    def _link(self) -> Link | None:
        """Return the link of the fit, None for the logit, which two classes share with softmax."""
        return None if self.link_ == "logit" else LINKS[self.link_]

    def _fit_record(
        self, X: Any = None, y: Any = None, sample_weight: object = None, offset: object = None, *, hessian: bool = True
    ) -> FitRecord:
        """Return what inference needs of the fit; the rows are those of the fit, or None."""
        given = (X, y, sample_weight, offset)
        state = self._fitted_state(given, hessian=hessian)
        assigned = vars(self)
        return FitRecord(
            model_name=type(self).__name__,
            state=state,
            names=tuple(str(name) for name in self._names()),
            named="feature_names_in_" in assigned,
            classes=self.classes_.tolist(),
            link=self._link(),
            prior=self.prior,
            fitted_prior=self.prior_,
            log_likelihood=self.log_likelihood_,
            separation=self._separation,
            certificate=self.certificate_,
            design=assigned.get("design_"),
            basis=self.basis,
            standardized=in_deviations(self),
            read_problem=partial(self._training_problem, given),
        )

    def _training_data(self, given: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of the fit, given or still held by the caller, or None."""
        if given[0] is None and self._recall is not None:
            return self._recall()
        return None if given[0] is None else given

    def _fitted_state(self, given: tuple[Any, ...], *, hessian: bool) -> FittedState:
        """Return the state of the fit, with its Hessian: one pass over its rows if that was not formed yet."""
        self._check_fitted()
        if self._learned is None:
            raise UnavailableError(
                "partial_fit leaves the weights near an optimum, not at one, and this needs an optimum: use fit(X, y)."
            )
        if self._learned.hessian is not None or not hessian:
            return self._learned
        self._learned.require_optimum()
        data = self._training_data(given)
        if data is None:
            raise UnavailableError(missing_rows_message(self._learned))
        _, problem = self._problem(*data)
        with one_blas_thread():
            self._learned = relearn(problem, *self._against_first(), self._learned, self.certificate_.gap)
        return self._learned

    def _training_problem(self, given: tuple[Any, ...]) -> Problem:
        """Return the problem of the fit again, from rows that are given or still held by the caller."""
        assert self._learned is not None
        self._learned.require_optimum()
        data = self._training_data(given)
        if data is None:
            raise InvalidInputError(
                "This needs the rows of the fit again, and they are gone: pass X and y (and the weights and offsets of "
                "the fit)."
            )
        classes, problem = self._problem(*data)
        if classes.tolist() != self.classes_.tolist():
            raise InvalidInputError(
                f"The model was fitted to the classes {self.classes_.tolist()[:8]}, and these rows have "
                f"{classes.tolist()[:8]}. Pass the rows of the fit."
            )
        return problem
