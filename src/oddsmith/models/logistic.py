"""Logistic and softmax regression."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if

from oddsmith.design.inputs import check_class_weights, check_finite, read_offset, read_rows, read_weights
from oddsmith.design.reading import through_design
from oddsmith.engines import one_blas_thread
from oddsmith.errors import (
    CollinearityWarning,
    ConvergenceWarning,
    InvalidInputError,
    InvalidTypeError,
    SeparationWarning,
    UnavailableError,
    UnknownNameError,
)
from oddsmith.inference.separation import Separation
from oddsmith.links import LINKS, Link
from oddsmith.models.base import MODELS, Classifier, all_or_nothing
from oddsmith.models.bayesian import Bayesian
from oddsmith.models.bounded import fit_bounded
from oddsmith.models.coordinates import is_large
from oddsmith.models.expanding import learn_basis, learn_rows, split_basis, through_basis, whole
from oddsmith.models.firth import fit_firth
from oddsmith.models.geometry import LinearGeometry
from oddsmith.models.inferring import Inferring
from oddsmith.models.learned import Learned, Recall, needs_rows
from oddsmith.models.likelihood import Fit, Problem, fit_likelihood, relearn, resume, seeded
from oddsmith.models.nearest import find_separation
from oddsmith.models.null import null_log_likelihood
from oddsmith.models.reading import read_data
from oddsmith.models.streaming import refuse_pieces
from oddsmith.models.trouble import column_list, link_log_proba, remedy, separation_message
from oddsmith.numerics import Array, log_softmax, softmax
from oddsmith.priors import JeffreysPrior, split_prior
from oddsmith.records import Certificate, Trace
from oddsmith.solvers import SGD, SOLVERS
from oddsmith.statistics import Counts


def has_logit(model: Any) -> bool:
    """Whether a model has the logit link, or say what that is needed for."""
    if model.link != "logit" and model.link in tuple(LINKS):
        raise AttributeError(f"partial_fit is for link='logit', found link={model.link!r}. Use fit(X, y).")
    if isinstance(model.prior, JeffreysPrior):
        raise AttributeError("partial_fit takes no JeffreysPrior, whose information needs all rows. Use fit(X, y).")
    return True


def find_link(name: str) -> Link | None:
    """Return the link of a name, None for the logit."""
    return None if name == "logit" else LINKS[name]


@MODELS.register("logistic")
class LogisticRegression(Inferring, Bayesian, LinearGeometry, Classifier):
    """Logistic regression for two classes, softmax regression for more.

    Minimises the sum over rows (never a mean) of the cross-entropy, minus the log of the prior:

        E(w) = −Σ_n s_n log p(t_n | φ_n) + ½ (w − m)ᵀ S⁻¹ (w − m),
        p(C_k | φ) = exp(a_k) / Σ_j exp(a_j),   a_k = w_kᵀ φ + w_k0  (+ offset),

    by maximum likelihood unless a prior is given. The intercept has no prior unless its covariance covers it.
    Columns are centred and scaled inside the solve, never in the data; weights are in the user's units.

    Parameters
    ----------
    prior : None, number, GaussianPrior or JeffreysPrior
        None is maximum likelihood; a number σ is ``GaussianPrior(scale=σ)``, the penalty ½‖w‖²/σ²; ``JeffreysPrior()``
        is Firth's bias reduction, finite also where the classes are separated.
    link : str
        ``"logit"``, or for two classes ``"probit"``, ``"cloglog"``, ``"loglog"``, ``"cauchit"``, ``"log"`` or
        ``"identity"``: the probability of ``classes_[1]`` is ``f(a)`` with that link's inverse f. The last two keep
        every probability of the training rows inside (0, 1), or say that no such optimum exists.
    basis : basis or list of bases, optional
        Basis functions φ of the columns, such as ``Polynomial(2)``; those of a list follow on one another. They are
        learned with the model and kept in it (``basis_``); ``coef_`` has a weight for each.
    fit_intercept : bool
        Whether a constant is added.
    reference : class label, optional
        The class whose weights are fixed at zero (more than two classes). None is the symmetric form, whose
        weights sum to zero over the classes.
    solver : str or solver
        ``"auto"``, ``"newton"``, ``"truncated-newton"``, ``"gradient"``, ``"sgd"``, or one with options from
        `oddsmith.solvers`, such as ``Gradient(step_size=0.1)``.
    tol : float
        ``certificate_.converged`` says that the objective is within ``tol`` (relative) of the optimum. Newton
        steps go on until the weights are within ``tol`` standard errors of it.
    max_iter : int
        Most iterations (epochs, for SGD).
    seed : int, optional
        Seed of the random order of SGD.
    warm_start : bool
        Whether ``fit`` starts from the weights of the last fit.
    threads : int, optional
        Number of threads; the result does not depend on it, to the bit.
    design : Design, optional
        How the columns of a table become numbers; default: categories and dates by `Design()`, numbers as they are. It
        is learned with the model and kept in it (``design_``).

    Attributes
    ----------
    coef_, intercept_ : arrays
        Weights, 1 × D for two classes (those of ``classes_[1]``), K × D for more.
    classes_ : array
        The labels, sorted.
    log_likelihood_ : float
        At the weights, without the prior.
    n_parameters_ : int
        Number of weights estimated.
    aliased_ : list of str
        Columns that depend linearly on earlier ones; their weights are 0.
    certificate_ : Certificate
        How far from the optimum the result can be.
    trace_ : Trace
        A record per iteration.
    boundary_ : Boundary
        The separating hyperplanes.

    Notes
    -----
    Cost: one pass over the data per Newton iteration, memory O(M²) above the data. If the classes are
    separated and there is no prior, no optimum exists: a `SeparationWarning` names the columns.

    References
    ----------
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.3.

    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression(prior=1.0).fit(X, y)
    >>> model.certificate_.converged, round(model.score(X, y), 3)
    (True, 0.958)
    """

    coef_: Array
    intercept_: Array
    log_likelihood_: float
    n_parameters_: int
    n_iter_: int
    aliased_: list[str]
    certificate_: Certificate
    trace_: Trace
    _learned: Learned | None

    def __init__(
        self,
        prior: Any = None,
        *,
        link: str = "logit",
        basis: Any = None,
        fit_intercept: bool = True,
        reference: Any = None,
        solver: Any = "auto",
        tol: float = 1e-8,
        max_iter: int = 200,
        seed: int | None = None,
        warm_start: bool = False,
        threads: int | None = None,
        design: Any = None,
    ) -> None:
        self.prior = prior
        self.link = link
        self.basis = basis
        self.fit_intercept = fit_intercept
        self.reference = reference
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.seed = seed
        self.warm_start = warm_start
        self.threads = threads
        self.design = design

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.link == "logit"
        return tags

    @all_or_nothing
    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, offset: Any = None, **how: Any
    ) -> LogisticRegression:
        """Fit to rows ``X`` (array, sparse matrix or table) and labels ``y`` (or the name of a column of ``X``).

        ``sample_weight`` counts rows; ``offset`` is added to the activation: a vector for two classes, N × K
        for more. ``X`` may be a path, a folder, or a data frame of Dask or Spark: see `scan`, also for ``how`` it is
        read; ``sample_weight`` and ``offset`` then name columns.

        >>> LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"]).predict([[3.0]]).tolist()
        ['b']
        """
        self._check_parameters()
        self._check_pieces(X)
        classes, problem = self._problem(X, y, sample_weight, offset, how, reset=True)
        with one_blas_thread():
            problem = self._with_width(problem)
            fit, verdict = self._solve(problem, classes)
        self._assign(fit, classes, problem, verdict)
        self._recall = Recall.of(X, y, sample_weight, offset)
        self._warn(verdict, fit.rounded)
        return self

    def _problem(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        how: Any = None,
        *,
        reset: bool = False,
        known: bool = False,
    ) -> tuple[npt.NDArray[Any], Problem]:
        """Read rows and labels as in `read_data`, seen through the basis, as a problem to solve."""
        data = read_data(self, X, y, sample_weight, offset, how, reset=reset, known=known, draw=True)
        classes, source = data.classes, data.source
        if len(classes) > 2 and self.link != "logit":
            raise InvalidInputError(
                "Only binary classification is supported. The type of the target is multiclass: link="
                f"{self.link!r} is for two classes, and y holds {len(classes)}, {classes.tolist()[:8]}. Use "
                "link='logit', or OneVsRest with this model."
            )
        mix = None
        if reset:
            learn_basis(self, source)
            source, mix = split_basis(self, source)
        else:
            source = through_basis(self, source)
        engine = data.engine(self.threads)
        class_weight = data.class_weight
        if class_weight is None:
            class_weight = engine.fold(Counts, source, source.shape).weight
        if not known:
            check_class_weights(class_weight, classes)
        prior, jeffreys = split_prior(self.prior if reset else getattr(self, "prior_", self.prior))
        problem = Problem(
            engine,
            source,
            prior,
            bool(self.fit_intercept),
            self._reference_code(classes),
            seeded(self.solver, self.seed),
            float(self.tol),
            int(self.max_iter),
            class_weight,
            self._warm(classes, source.shape.M if mix is None else mix.shape[1]) if reset else None,
            data.explain,
            self._names,
            link=find_link(self.link) if reset else self._link(),
            mix=mix,
            jeffreys=jeffreys,
        )
        if data.explain is not None and not is_large(source):  # large rows are checked by the sums of the first pass
            data.explain()
        return classes, problem

    def _link(self) -> Link | None:
        """Return the link of the fit, None for the logit, which two classes share with softmax."""
        return find_link(self.link_)

    def _curved(self, X: Any = None, y: Any = None, sample_weight: Any = None, offset: Any = None) -> Learned:
        """Return what the fit learned, its Hessian included: one pass over its rows if that was not formed yet."""
        self._check_fitted()
        if self._learned is None:
            raise UnavailableError(
                "partial_fit leaves the weights near an optimum, not at one, and this needs an optimum: use fit(X, y)."
            )
        if self._learned.hessian is not None:
            return self._learned
        self._learned.require_optimum()
        arguments = self._recall() if X is None and self._recall is not None else (X, y, sample_weight, offset)
        if arguments is None or arguments[0] is None:
            raise UnavailableError(needs_rows(self._learned))
        _, problem = self._problem(*arguments)
        coef, intercept = self._against_first()
        with one_blas_thread():
            self._learned = relearn(problem, coef, intercept, self._learned, self.certificate_.gap)
        return self._learned

    def __getstate__(self) -> Any:
        # The rows of the fit are held weakly, and stay behind.
        return {**super().__getstate__(), "_recall": None} if hasattr(self, "_recall") else super().__getstate__()

    def _check_parameters(self) -> None:
        LINKS[self.link]
        if isinstance(self.solver, str) and self.solver != "auto" and self.solver not in SOLVERS:
            raise UnknownNameError("solver", self.solver, ["auto", *SOLVERS])
        if not isinstance(self.solver, str) and not hasattr(self.solver, "minimise"):
            raise InvalidTypeError(f"solver must be a name or a solver, found {self.solver!r}.")
        if not isinstance(self.fit_intercept, bool | np.bool_ | int) or self.fit_intercept not in (0, 1):
            raise InvalidInputError(f"fit_intercept must be True or False, found {self.fit_intercept!r}.")
        if isinstance(self.tol, bool) or not isinstance(self.tol, int | float | np.number) or not 0 < self.tol < 1:
            raise InvalidInputError(f"tol must be a number between 0 and 1, found {self.tol!r}.")
        if not (isinstance(self.max_iter, int | np.integer) and self.max_iter >= 1):
            raise InvalidInputError(f"max_iter must be a whole number of at least 1, found {self.max_iter!r}.")
        if self.threads is not None and not (isinstance(self.threads, int | np.integer) and self.threads >= 1):
            raise InvalidInputError(f"threads must be None or a whole number of at least 1, found {self.threads!r}.")

    def _check_pieces(self, X: Any) -> None:
        """Refuse data in pieces where the fit needs single rows."""
        if self.solver == "sgd" or isinstance(self.solver, SGD):
            refuse_pieces(X, "Stochastic gradient descent", "Use solver='auto'")
        if not np.isinf(LINKS[self.link].domain).all():
            refuse_pieces(X, f"A fit with link={self.link!r}", "Use link='logit'")
        scale = getattr(self.prior, "scale", None)
        if isinstance(scale, str) and scale != "evidence":
            refuse_pieces(X, f"The choice of a width by {scale!r}", "Use scale='evidence'")

    def _reference_code(self, classes: npt.NDArray[Any]) -> int | None:
        if self.reference is None:
            return None
        where = np.flatnonzero([self.reference == c for c in classes.tolist()])
        if not len(where):
            raise UnknownNameError("reference class", self.reference, classes.tolist())
        return int(where[0])

    def _warm(self, classes: npt.NDArray[Any], D: int) -> tuple[Array, Array] | None:
        if not (self.warm_start and hasattr(self, "coef_")):
            return None
        if not np.array_equal(classes, self.classes_) or self.coef_.shape[1] != D:
            return None
        return self._against_first()

    def _against_first(self) -> tuple[Array, Array]:
        """Return coefficients and intercepts against the first class."""
        if len(self.coef_) == 1:
            return self.coef_, self.intercept_
        return self.coef_[1:] - self.coef_[0], self.intercept_[1:] - self.intercept_[0]

    def _solve(self, problem: Problem, classes: npt.NDArray[Any]) -> tuple[Fit, Separation | None]:
        if problem.jeffreys:
            return fit_firth(problem), None
        if problem.link is not None and not np.isinf(problem.link.domain).all():
            return fit_bounded(problem), None
        fit = fit_likelihood(problem)
        # Where probabilities go to 0 or 1 faster than with the logit, a fit may stop as if at an optimum.
        found = fit.certificate
        almost_flat = not found.rigorous and found.condition > 1e4
        suspicious = fit.result.diverging or not found.converged or almost_flat
        if not (fit.flat and suspicious):
            return fit, None
        terms = [str(name) for name in self._names()]
        verdict = find_separation(problem, fit, classes, terms)
        if not fit.result.diverging:
            return fit, None if verdict.kind == "none" else verdict
        if verdict.kind == "none":
            return resume(problem, fit), None
        # Far enough along the way to infinity that the fitted probabilities are those of the limit.
        return resume(replace(problem, max_iter=min(problem.max_iter, 15)), fit), verdict

    def _assign(self, fit: Fit, classes: npt.NDArray[Any], problem: Problem, verdict: Separation | None) -> None:
        coef, intercept = fit.coef, fit.intercept
        if len(classes) > 2:
            coef = np.vstack([np.zeros(coef.shape[1]), coef])
            intercept = np.concatenate([[0.0], intercept])
            if problem.reference is None:
                coef = coef - coef.mean(axis=0) + fit.common[1:]
                intercept = intercept - intercept.mean() + fit.common[0]
            else:
                coef, intercept = coef - coef[problem.reference], intercept - intercept[problem.reference]
        certificate = fit.certificate
        if verdict is not None:
            certificate = Certificate(
                False,
                np.inf,
                certificate.gradient_norm,
                certificate.condition,
                certificate.passes,
                True,
                False,
            )
        self.classes_ = classes
        self.coef_, self.intercept_ = coef, intercept
        self.log_likelihood_ = fit.result.final.log_likelihood
        columns = coef.shape[1] - int(fit.aliased.sum()) + int(problem.intercept)
        self.n_parameters_ = (len(classes) - 1) * columns
        self.aliased_ = [str(name) for name in self._names()[fit.aliased]] if fit.aliased.any() else []
        self.certificate_, self.trace_ = certificate, fit.result.trace
        self.n_iter_ = max(1, len(fit.result.trace) - 1)
        self.class_prior_ = problem.class_weight / problem.class_weight.sum()
        self.link_ = self.link
        self._sgd_state = None
        self._separation = verdict
        self._learned = replace(fit.learned, null_log_likelihood=null_log_likelihood(problem))

    def _warn(self, verdict: Separation | None, rounded: bool = False) -> None:
        if self.aliased_:
            warnings.warn(
                f"{column_list(self.aliased_)} {'is a' if len(self.aliased_) == 1 else 'are'} linear "
                f"combination{'' if len(self.aliased_) == 1 else 's'} of earlier columns (or constant): set aside with "
                "weight 0, as in aliased_. Leave them out, or use a prior.",
                CollinearityWarning,
                stacklevel=4,
            )
        if verdict is not None:
            warnings.warn(separation_message(verdict, self.classes_), SeparationWarning, stacklevel=4)
        elif not self.certificate_.converged:
            what = f"The fit stopped after {self.n_iter_} iterations"
            then = remedy(self.solver, self.max_iter)
            if rounded:
                what = "Some column is so far from zero, against its spread, that its weight is rounded too much"
                then = "Subtract a constant near its mean from such a column."
            warnings.warn(
                f"{what}, at most {self.certificate_.gap:.3g} above the optimum (asked: {self.tol:g} relative). {then}",
                ConvergenceWarning,
                stacklevel=4,
            )

    @available_if(has_logit)
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> LogisticRegression:
        """Take one epoch of stochastic gradient steps over these rows; the first call needs all ``classes``.

        Columns are scaled by the moments of the first call's rows, and step sizes go on falling from call to call; the
        prior is that of all rows so far. The weights are an average over the steps, in which later ones count for more.
        The certificate speaks of the rows of the last call.

        >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 1, 0, 1])
        >>> LogisticRegression(seed=0).partial_fit(X, y, classes=[0, 1]).coef_.shape
        (1, 1)
        """
        from oddsmith.models.online import partial_fit

        self._check_parameters()
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InvalidInputError("The first call of partial_fit needs classes=, the list of all labels.")
        X, y, sample_weight, _ = through_design(self, self.design, X, y, sample_weight, reset=first)
        rows = read_rows(self, X, reset=first)
        check_finite(rows, getattr(self, "feature_names_in_", None))
        rows = whole(learn_rows(self, rows, sample_weight, reset=first))
        partial_fit(self, rows, y, classes, read_weights(sample_weight, rows.shape[0]))
        return self

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Return the activations: log-odds of ``classes_[1]`` for two classes, N × K for more.

        With another link, the activation less that of probability ½ (0 for symmetric links): its sign decides.
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

    def _activation(self, X: Any, offset: Any) -> Array:
        """Return ``φᵀw + w₀`` (+ offset): length N for two classes, N × K for more."""
        rows = self._rows(X)
        A = np.asarray(rows @ self.coef_.T + self.intercept_)
        if offset is not None:
            added = read_offset(offset, len(A), len(self.classes_))
            assert added is not None
            A = A + (added if len(self.classes_) == 2 else np.column_stack([np.zeros(len(A)), added]))
        return A[:, 0] if A.shape[1] == 1 else A

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the log probability of each class, N × K."""
        A = self._activation(X, offset)
        if (link := self._link()) is not None:
            return link_log_proba(link, A)
        return log_softmax(np.column_stack([np.zeros(len(A)), A]) if A.ndim == 1 else A)

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Return the probability of each class, N × K."""
        A = self._activation(X, offset)
        if (link := self._link()) is not None:
            return np.exp(link_log_proba(link, A))
        return softmax(np.column_stack([np.zeros(len(A)), A]) if A.ndim == 1 else A)

    def distance(self, X: Any) -> Array:
        """Return the signed distance of each row from the boundary: length N, or N × pairs for K > 2.

        >>> LogisticRegression(prior=1.0).fit([[-1.0], [1.0]], [0, 1]).distance([[0.0], [2.0]]).tolist()
        [0.0, 2.0]
        """
        return self._distance(self._rows(X))
