"""Logistic and softmax regression."""

from __future__ import annotations

import warnings
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from oddsmith import errors
from oddsmith.data_access.dispatch import streams
from oddsmith.data_access.training_data import read_data, refuse_pieces
from oddsmith.design.class_weight import check_class_weights
from oddsmith.design.fitted_basis import learn_basis, level_columns, split_basis, through_basis
from oddsmith.design.inputs import read_offset
from oddsmith.engines import one_blas_thread
from oddsmith.likelihood.coordinates import Coordinates, is_large
from oddsmith.likelihood.fit import LikelihoodFit, fit_likelihood, resume, seeded
from oddsmith.likelihood.fitted_state import TrainingDataRef
from oddsmith.likelihood.null_model import null_log_likelihood
from oddsmith.likelihood.problem import Problem
from oddsmith.links import LINKS, is_bounded
from oddsmith.models.base import MODELS, Classifier, all_or_nothing
from oddsmith.models.bayesian_mixin import BayesianMixin
from oddsmith.models.estimator import check_count, check_seed, linear_activations, per_class, reported_weights
from oddsmith.models.foreign_parameters import checked_names, foreign_solver
from oddsmith.models.geometry_mixin import GeometryMixin
from oddsmith.models.selection_mixin import SelectionMixin
from oddsmith.numerics import Array, log_softmax, softmax
from oddsmith.priors import GaussianPrior, JeffreysPrior, LaplacePrior, split_prior
from oddsmith.protocols import Labels
from oddsmith.records import Trace
from oddsmith.solvers import SGD, SOLVERS, Solver, SolverResult
from oddsmith.statistics import Counts

if TYPE_CHECKING:
    from oddsmith.likelihood.online import OnlineState
    from oddsmith.likelihood.separation import Separation


def has_logit(model: LogisticRegression) -> bool:
    """Whether a model supports `partial_fit`; raise an error that says why not."""
    if model.link != "logit" and model.link in tuple(LINKS):
        raise AttributeError(f"partial_fit is for link='logit', found link={model.link!r}. Use fit(X, y).")
    if isinstance(model.prior, JeffreysPrior):
        raise AttributeError(
            "partial_fit does not support JeffreysPrior, whose information needs all rows. Use fit(X, y)."
        )
    if isinstance(model.prior, LaplacePrior):
        raise AttributeError(
            "partial_fit does not support LaplacePrior: steps with single rows leave no weight at exactly zero. Use "
            "fit(X, y)."
        )
    return True


@MODELS.register("logistic")
class LogisticRegression(BayesianMixin, SelectionMixin, GeometryMixin, Classifier):
    """Logistic regression for two classes, softmax regression for more.

    Minimises the cross-entropy, a sum over rows (never a mean), minus the log prior:

        E(w) = −Σ_n s_n log p(t_n | φ_n) + ½ (w − m)ᵀ S⁻¹ (w − m),
        p(C_k | φ) = exp(a_k) / Σ_j exp(a_j),   a_k = w_kᵀ φ + w_k0  (+ offset),

    which is maximum likelihood unless a prior is given. The intercept has no prior unless the covariance includes it.
    Columns are centred and scaled inside the solve, never in the data; weights are in the user's units.

    Parameters
    ----------
    prior : None, number, GaussianPrior, JeffreysPrior or LaplacePrior
        None is maximum likelihood; a number σ is ``GaussianPrior(scale=σ)``, the penalty ½‖w‖²/σ²; ``JeffreysPrior()``
        is Firth's bias reduction, finite even if the classes are separated; ``LaplacePrior(scale)`` leaves many
        weights at exactly zero (``selected_`` names the others).
    link : str
        ``"logit"``, or for two classes ``"probit"``, ``"cloglog"``, ``"loglog"``, ``"cauchit"``, ``"log"`` or
        ``"identity"``: the probability of ``classes_[1]`` is ``f(a)``, with f the inverse link. The last two constrain
        the probabilities of the training rows to (0, 1), and fail with a message if no such optimum exists.
    basis : basis or list of bases, optional
        Basis functions φ of the columns, such as ``Polynomial(2)``; the bases of a list are applied one after another.
        They are fitted with the model and stored in it (``basis_``); ``coef_`` has one weight for each function.
    fit_intercept : bool
        Whether to fit an intercept.
    reference : class label, optional
        For more than two classes: the class whose weights are fixed at zero. None is the symmetric form, in which the
        weights sum to zero over the classes.
    solver : str or solver
        ``"auto"``, ``"newton"``, ``"truncated-newton"``, ``"gradient"``, ``"sgd"``, or a solver with options from
        `oddsmith.solvers`, such as ``Gradient(step_size=0.1)``. All start from the null model and work on scaled
        columns; `oddsmith.lectures.algorithms` has the plain textbook versions.
    tol : float
        ``certificate_.converged`` means that the objective is within ``tol`` of the optimum: relative to the objective,
        absolute if that is below 1. Newton's method continues until the weights are within ``tol`` standard errors.
    max_iter, seed : int
        Maximum number of iterations (epochs for SGD); random seed for SGD, optional.
    warm_start : bool
        Whether ``fit`` starts from the weights of the last fit.
    threads : int, optional
        Number of threads; the result is the same, bit for bit, for any number.
    design : Design, optional
        How the columns of a table become numbers. Default: `Design()` encodes categories and dates, and leaves numbers
        as they are. It is fitted with the model and stored in it (``design_``).
    class_weight : None, "balanced" or {class: weight}
        Factors on the sample weights by class; ``"balanced"`` is N / (K N_k), which gives every class the same total
        weight. The intercept moves, and the probabilities describe a population with these class shares
        (``class_prior_``): see ``with_class_prior``. If errors have unequal costs, a loss matrix (``decide``) is
        usually better.

    Attributes
    ----------
    coef_, intercept_ : arrays
        Weights: 1 × D for two classes (for ``classes_[1]``), K × D for more.
    classes_, boundary_ : array, Boundary
        The labels, sorted; the separating hyperplanes.
    log_likelihood_, n_parameters_ : float, int
        Log likelihood at the weights, without the prior; number of estimated weights.
    aliased_ : list of str
        Columns that are linear combinations of earlier ones; their weights are 0.
    certificate_ : Certificate
        Bound on the distance from the optimum.
    plan_, trace_ : Plan, Trace
        The chosen algorithm and the reason, with expected passes, time and memory; one record per iteration, with its
        stage, and with the weights if the fit ran inside `record_weights`.

    Notes
    -----
    Cost: one pass over the data per Newton iteration, and O(M²) memory besides the data. If the classes are separated
    and there is no prior, no optimum exists: a `SeparationWarning` names the columns.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.3.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(prior=1.0).fit(X, y)
    >>> model.certificate_.converged, round(model.score(X, y), 3)
    (True, 0.958)
    """

    _sgd_state: OnlineState | None = None

    @checked_names
    def __init__(
        self,
        prior: object = None,
        *,
        link: str = "logit",
        basis: object = None,
        fit_intercept: bool = True,
        reference: object = None,
        solver: str | Solver[Any] = "auto",
        tol: float = 1e-8,
        max_iter: int = 200,
        seed: int | None = None,
        warm_start: bool = False,
        threads: int | None = None,
        design: object = None,
        class_weight: object = None,
    ) -> None:
        self.prior, self.link, self.basis = prior, link, basis
        self.fit_intercept, self.reference = fit_intercept, reference
        self.solver, self.tol, self.max_iter, self.seed, self.warm_start = solver, tol, max_iter, seed, warm_start
        self.threads, self.design, self.class_weight = threads, design, class_weight

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.link == "logit"
        return tags

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: object = None, offset: object = None, **how: object) -> Self:
        """Fit to rows ``X`` (array, sparse matrix or table) and labels ``y`` (or the name of a column of ``X``).

        ``sample_weight`` counts rows; ``offset`` is added to the activation: a vector for two classes, N × K for more.
        ``X`` may be a path, a folder, or a Dask or Spark data frame; `scan` documents these and the options ``how``.
        ``sample_weight`` and ``offset`` are then names of columns.

        >>> LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"]).predict([[3.0]]).tolist()
        ['b']
        """
        self._check_parameters()
        self._check_pieces(X)
        classes, problem = self._problem(X, y, sample_weight, offset, how, reset=True)
        with one_blas_thread(problem.largest_matrix):
            problem = self._with_scale(problem)
            self._solve_and_assign(problem, classes, (X, y, sample_weight, offset))
        return self

    def _solve_and_assign(self, problem: Problem, classes: Labels, data: tuple[object, ...]) -> None:
        """Solve a problem and assign the fitted attributes; ``data`` holds the arguments of the fit."""
        fit, verdict = self._solve(problem, classes)
        self._assign(fit, classes, problem, verdict)
        self._recall = TrainingDataRef.of(*data)
        self._warn(verdict, fit.rounded)

    def _problem(self, *given: Any, reset: bool = False, known: bool = False) -> tuple[Labels, Problem]:
        """Read the arguments of ``fit`` as `read_data` does, apply the basis, and return the problem to solve."""
        late = isinstance(self.prior, LaplacePrior) and self.basis is None
        split = self._takes_parts()
        data = read_data(self, *given, reset=reset, known=known, draw=True, split=split, by_columns=late)
        classes, source = data.classes, data.source
        if len(classes) > 2 and self.link != "logit":
            raise errors.InvalidInputError(
                "Only binary classification is supported. The type of the target is multiclass: link="
                f"{self.link!r} is for two classes, but y has {len(classes)}: {classes.tolist()[:8]}. Use "
                "link='logit', or OneVsRest with this model."
            )
        mix = None
        if reset:
            learn_basis(self, source)
            source, mix = split_basis(self, source)
        else:
            source = through_basis(self, source)
        engine = data.engine(self.threads)
        counts = data.class_weight
        class_weight = engine.fold(Counts, source, source.shape).weight if counts is None else counts
        if not known:
            check_class_weights(class_weight, classes)
        given = self.prior if reset else self.prior_
        prior, jeffreys = split_prior(given)
        link = self.link if reset else self.link_
        problem = Problem(
            engine=engine,
            source=source,
            prior=prior,
            jeffreys=jeffreys,
            intercept=bool(self.fit_intercept),
            reference=self._reference_code(classes),
            solver=seeded(self.solver, self.seed),
            tol=float(self.tol),
            max_iter=int(self.max_iter),
            class_weight=class_weight,
            start=self._warm(classes, source.shape.M if mix is None else mix.shape[1]) if reset else None,
            explain=data.explain,
            names=self._names,
            some_names=self._names_at,
            link=None if link == "logit" else LINKS[link],
            whitening=mix,
            laplace=given if isinstance(given, LaplacePrior) else None,
            levels=level_columns(self) if isinstance(given, LaplacePrior) else {},
        )
        if data.explain is not None and not is_large(source):  # large rows are checked by the sums of the first pass
            data.explain()
        return classes, problem

    def _takes_parts(self) -> bool:
        """Whether rows may come in parts, with categories as codes: for likelihood fits without basis functions."""
        searched = isinstance(self.prior, JeffreysPrior | LaplacePrior)
        searched = searched or getattr(self.prior, "scale", None) == "loo"
        return self.basis is None and not searched and not is_bounded(LINKS[self.link])

    def __getstate__(self) -> Any:
        state = super().__getstate__()
        return {**state, "_recall": None} if "_recall" in state else state  # weak references stay behind

    def _check_parameters(self) -> None:
        LINKS[self.link]
        if isinstance(self.solver, str) and self.solver != "auto" and self.solver not in SOLVERS:
            raise foreign_solver(self.solver) or errors.UnknownNameError("solver", self.solver, ["auto", *SOLVERS])
        if not isinstance(self.solver, str) and not hasattr(self.solver, "minimise"):
            raise errors.InvalidTypeError(f"solver must be a name or a solver, found {self.solver!r}.")
        if not isinstance(self.fit_intercept, bool | np.bool_ | int) or self.fit_intercept not in (0, 1):
            raise errors.InvalidInputError(f"fit_intercept must be True or False, found {self.fit_intercept!r}.")
        if isinstance(self.tol, bool) or not isinstance(self.tol, int | float | np.number) or not 0 < self.tol < 1:
            raise errors.InvalidInputError(f"tol must be a number between 0 and 1, found {self.tol!r}.")
        check_count("max_iter", self.max_iter)
        check_count("threads", self.threads, optional=True)
        check_seed(self.seed)

    def _check_pieces(self, X: Any) -> None:
        """Refuse data in pieces if the fit needs individual rows."""
        if self.solver == "sgd" or isinstance(self.solver, SGD):
            refuse_pieces(X, "Stochastic gradient descent", "Use solver='auto'")
        if is_bounded(LINKS[self.link]):
            refuse_pieces(X, f"A fit with link={self.link!r}", "Use link='logit'")
        scale = self.prior.scale if isinstance(self.prior, GaussianPrior | LaplacePrior) else None
        if isinstance(scale, str) and scale != "evidence":
            other = "Give a number as scale" if isinstance(self.prior, LaplacePrior) else "Use scale='evidence'"
            refuse_pieces(X, f"Choosing the scale by {scale!r}", other)

    def _reference_code(self, classes: Labels) -> int | None:
        if self.reference is None:
            return None
        where = np.flatnonzero([self.reference == c for c in classes.tolist()])
        if not len(where):
            raise errors.UnknownNameError("reference class", self.reference, classes.tolist())
        return int(where[0])

    def _warm(self, classes: Labels, D: int) -> tuple[Array, Array] | None:
        if not self.warm_start or "classes_" not in vars(self):
            return None
        same = np.array_equal(classes, self.classes_) and self.coef_.shape[1] == D
        return self._against_first() if same else None

    def _against_first(self) -> tuple[Array, Array]:
        """Return coefficients and intercepts against the first class."""
        if len(self.coef_) == 1:
            return self.coef_, self.intercept_
        return self.coef_[1:] - self.coef_[0], self.intercept_[1:] - self.intercept_[0]

    def _solve(self, problem: Problem, classes: Labels) -> tuple[LikelihoodFit, Separation | None]:
        if problem.laplace is not None:
            from oddsmith.likelihood.laplace_fit import fit_laplace
            from oddsmith.likelihood.separation_search import find_free_separation

            fit = fit_laplace(problem)
            return fit, find_free_separation(problem, fit, classes, [str(name) for name in self._names()])
        if problem.jeffreys:
            from oddsmith.likelihood.firth import fit_firth

            return fit_firth(problem), None
        if problem.link is not None and is_bounded(problem.link):
            from oddsmith.likelihood.barrier import fit_bounded

            return fit_bounded(problem), None
        if problem.prior is None and problem.in_parts:
            from oddsmith.likelihood.one_class_levels import fit_levels_of_one_class

            if (separated := fit_levels_of_one_class(problem, classes)) is not None:
                return separated
        fit = fit_likelihood(problem)
        # Where probabilities go to 0 or 1 faster than with the logit, a fit may stop as if at an optimum.
        found = fit.certificate
        almost_flat = not found.rigorous and found.condition > 1e4
        suspicious = fit.result.diverging or not found.converged or almost_flat
        if not (fit.flat and suspicious):
            return fit, None
        from oddsmith.likelihood.separation_search import find_separation, fit_at_limit

        verdict = find_separation(problem, fit, classes, [str(name) for name in self._names()], level_columns(self))
        if not fit.result.diverging:
            return fit, None if verdict.kind == "none" else verdict
        if verdict.kind == "none":
            return resume(problem, fit), None
        return fit_at_limit(problem, fit, verdict), verdict

    def _trace(self, result: SolverResult, coordinates: Coordinates, common: Array, reference: int | None) -> Trace:
        """Return the trace, with recorded weights in the form of `coef_` and `intercept_`, intercept first."""

        def reported(x: Array) -> Array:
            W, b = reported_weights(*coordinates.to_user(x), common, reference)
            V = np.column_stack([b, W])
            return V[0] if len(V) == 1 else V

        return result.trace.map_weights(reported)

    def _assign(self, fit: LikelihoodFit, classes: Labels, problem: Problem, verdict: Separation | None) -> None:
        common, reference = fit.learned.common, problem.reference
        self.classes_ = classes
        W = fit.learned.weights() if fit.learned.sparse else None
        if W is None:
            self.coef_, self.intercept_ = reported_weights(fit.coef, fit.intercept, common, reference)
        else:
            self.coef_, self.intercept_ = np.ascontiguousarray(W[:, 1:]), W[:, 0].copy()
        certificate = fit.certificate
        if verdict is not None:
            certificate = replace(certificate, converged=False, gap=np.inf, rigorous=True, optimum_exists=False)
        self.log_likelihood_ = fit.result.final.log_likelihood
        aliased = np.flatnonzero(fit.aliased)
        columns = self.coef_.shape[1] - len(aliased) + int(problem.intercept)
        self.n_parameters_ = (len(classes) - 1) * columns
        if W is not None:
            intercepts = (len(classes) - 1) * int(problem.intercept)
            self.n_parameters_ = int(np.count_nonzero(self.coef_)) + intercepts
        self.aliased_ = self._names_at(aliased) if len(aliased) else []
        self.certificate_, self.plan_ = certificate, fit.plan
        self.trace_ = self._trace(fit.result, fit.learned.coordinates, common, reference)
        self.n_iter_ = fit.result.iterations
        self.class_prior_ = problem.class_weight / problem.class_weight.sum()
        self.link_, self._sgd_state, self._separation = self.link, None, verdict
        self._learned = fit.learned
        if np.isnan(fit.learned.null_log_likelihood):
            self._learned = replace(fit.learned, null_log_likelihood=null_log_likelihood(problem))

    def _warn(self, verdict: Separation | None, rounded: bool) -> None:
        if self.certificate_.converged and not self.aliased_ and verdict is None:
            return
        from oddsmith.likelihood.messages import aliased_message, dependent_columns, remedy, separation_message

        if self.aliased_:
            warnings.warn(aliased_message(self.aliased_), errors.CollinearityWarning, stacklevel=5)
        if verdict is not None:
            warnings.warn(separation_message(verdict, self.classes_), errors.SeparationWarning, stacklevel=5)
        elif not self.certificate_.converged:
            what = f"The fit stopped after {self.n_iter_} iterations"
            names, learned = [str(name) for name in self._names()], self._learned
            dependent = dependent_columns(learned.hessian, learned.x.shape, names) if learned else []
            solver = "newton" if learned and learned.sparse else self.solver  # a LaplacePrior has no other
            then = remedy(solver, self.max_iter, self.n_iter_, dependent)
            if rounded:
                what = "Some column is so far from zero, against its spread, that its weight is rounded too much"
                then = "Subtract a constant near its mean from such a column."
            gap = f"at most {self.certificate_.gap:.3g} above the optimum (requested: {self.tol:g} relative)"
            warnings.warn(f"{what}, {gap}. {then}", errors.ConvergenceWarning, stacklevel=5)

    @available_if(has_logit)
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: object = None, sample_weight: object = None) -> Self:
        """Run one epoch of stochastic gradient descent over these rows; the first call needs all ``classes``.

        The moments of the first call's rows scale the columns, and step sizes keep falling from call to call; the prior
        applies once to all rows so far. The weights are a weighted average over the steps, with more weight on later
        ones. The certificate describes the rows of the last call.

        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
        >>> LogisticRegression(seed=0).partial_fit(X, y, classes=[0, 1]).coef_.shape
        (1, 1)
        """
        from oddsmith.likelihood.online import run_epoch
        from oddsmith.models.online_problem import online_problem

        self._check_parameters()
        known, problem = online_problem(self, X, y, classes, sample_weight)
        solver = self.solver if isinstance(self.solver, SGD) else SGD()
        state, common, result = run_epoch(problem, self._sgd_state, solver, self.seed)
        self.classes_, at = known, state.coordinates
        self.coef_, self.intercept_ = reported_weights(*at.to_user(state.average), common, problem.reference)
        self.n_parameters_ = (len(known) - 1) * (self.coef_.shape[1] + int(bool(self.fit_intercept)))
        self.log_likelihood_, self.aliased_ = result.final.log_likelihood, []
        self.certificate_, self.trace_ = result.certificate, self._trace(result, at, common, problem.reference)
        self.n_iter_, self.link_ = state.steps, "logit"
        self.class_prior_ = None  # the shares of all batches are not kept
        self._sgd_state, self._learned, self._recall = state, None, None
        return self

    @streams
    def decision_function(self, X: Any, offset: object = None) -> Array:
        """Return the activations: log-odds of ``classes_[1]`` for two classes, N × K for more.

        With another link: the activation minus the activation of probability ½ (0 for symmetric links), so that the
        sign decides.
        """
        A = self._activation(X, offset)
        return A - self._middle() if A.ndim == 1 else A

    def _middle(self) -> float:
        """Return the activation at which two classes are equally probable."""
        link = self._link()
        return 0.0 if link is None else float(link.link(np.array([0.5]))[0])

    def _hyperplanes(self) -> tuple[Array, Array, list[Any]]:
        W, b, pairs = super()._hyperplanes()
        return W, b - self._middle(), pairs

    def _activation(self, X: Any, offset: object) -> Array:
        """Return ``φᵀw + w₀`` (+ offset): length N for two classes, N × K for more."""
        A = linear_activations(self._checked_rows(X, split=True), self.coef_, self.intercept_, self.threads)
        if offset is not None:
            added = read_offset(offset, len(A), len(self.classes_))
            assert added is not None
            A = A + (added if len(self.classes_) == 2 else np.column_stack([np.zeros(len(A)), added]))
        return A[:, 0] if A.shape[1] == 1 else A

    @streams
    def predict_log_proba(self, X: Any, offset: object = None) -> Array:
        """Return the log probability of each class, N × K."""
        A = self._activation(X, offset)
        if (link := self._link()) is not None:
            from oddsmith.likelihood.messages import link_log_proba

            return link_log_proba(link, A)
        return log_softmax(per_class(A))

    @streams
    def predict_proba(self, X: Any, offset: object = None) -> Array:
        """Return the probability of each class, N × K."""
        A = self._activation(X, offset)
        if (link := self._link()) is not None:
            from oddsmith.likelihood.messages import link_log_proba

            return np.exp(link_log_proba(link, A))
        return softmax(per_class(A))

    def _shifted(self, shift: Array, prior: Array | None) -> Any:
        if self.link_ != "logit":
            return super()._shifted(shift, prior)
        moved, against_first = copy(self), shift[1:] - shift[0]
        added = against_first
        if len(shift) > 2:
            code = self._reference_code(self.classes_)
            added = shift - (shift.mean() if code is None else shift[code])
        moved.intercept_, moved._sgd_state = self.intercept_ + added, None
        learned = self._learned
        if learned is not None:
            # The curvature stays that of the fit (formed now, if its rows are still there), around other weights.
            if learned.hessian is None:
                with suppress(errors.InvalidInputError):
                    learned = self._fit_record().state
            x = learned.x.copy()
            T = learned.coordinates.T
            x[:, 0] += shift if len(T) < len(x) else np.linalg.solve(T, against_first)
            moved._learned, moved._recall = replace(learned, x=x, moved=True), None
        if prior is not None:
            moved.class_prior_ = prior
        return moved
