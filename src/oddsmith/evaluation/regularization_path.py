"""A regularisation path over scales of a Laplace prior: weights, certificates, and the choice of a scale."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln
from sklearn.base import clone

from oddsmith.cached_property import cached_property
from oddsmith.engines import MemoryEngine, MemorySource, one_blas_thread
from oddsmith.errors import ConvergenceWarning, InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.likelihood.coordinates import Coordinates, make_contrast
from oddsmith.likelihood.fit import LikelihoodFit
from oddsmith.likelihood.fitted_state import FittedState
from oddsmith.likelihood.null_model import null_log_likelihood
from oddsmith.likelihood.problem import Problem, facts_of, machine_of
from oddsmith.likelihood.sparse_path import solve_path
from oddsmith.models.logistic import LogisticRegression
from oddsmith.numerics import Array
from oddsmith.prior_selection.cross_validation import folds
from oddsmith.prior_selection.quadratic_model import one_standard_error
from oddsmith.prior_selection.sparse_scale import cross_validated_loss
from oddsmith.priors import LaplacePrior, checked_scales
from oddsmith.protocols import Labels
from oddsmith.records import Certificate, Table, Trace
from oddsmith.solvers.base import ObjectiveValue, SolverResult
from oddsmith.solvers.plan import Plan, plan_sparse

CRITERIA = ("min", "1se", "aic", "bic", "ebic")  # The ways to choose a point of a path.
METHOD = "proximal Newton along a path"


@dataclass(frozen=True, kw_only=True)
class PathOrigin:
    """What turns a point of a path into a model: the model that read the data, and the problem without rows."""

    model: LogisticRegression
    problem: Problem
    n_rows: int
    null_log_likelihood: float
    plan: Plan
    tol: float


@dataclass(frozen=True, kw_only=True, eq=False)
class RegularizationPath(Table):
    """Fits at ascending scales of a `LaplacePrior`, each with its certificate; prints one row per scale.

    Attributes
    ----------
    scales : array of length n
    weights : array
        In the user's units, intercept first: n × (1 + D) for two classes, n × (1 + D) × K for more. It is computed on
        first use; ``points`` has the weights of each scale as a sparse matrix, classes × (1 + D).
    log_likelihood, objective : arrays of length n
        Log likelihood without the prior, and the minimised objective, which includes it.
    gap : array of length n
        Duality gap, a bound on the distance from the optimum, relative to the objective.
    names, classes : arrays
        Names of the columns (made on first use), and the class labels.
    cv_loss, cv_error : arrays of length n, or None
        With ``cv=``: mean log loss of held-out rows, and its standard error over the folds.
    passes : int
        Passes over all rows for the path, without those for cross-validation.
    """

    scales: Array
    points: tuple[sparse.csr_array, ...] = field(repr=False)
    log_likelihood: Array
    objective: Array
    gap: Array
    classes: Labels
    passes: int
    cv_loss: Array | None = None
    cv_error: Array | None = None
    origin: PathOrigin = field(repr=False)

    def __len__(self) -> int:
        return len(self.scales)

    @cached_property
    def weights(self) -> Array:
        """All weights, intercept first."""
        W = np.stack([point.toarray().T for point in self.points])
        return np.ascontiguousarray(W[:, :, 0]) if W.shape[2] == 1 else W

    @cached_property
    def names(self) -> Labels:
        """Names of the columns."""
        return np.asarray(self.origin.model._names(), dtype=object)

    @cached_property
    def n_selected(self) -> npt.NDArray[np.intp]:
        """Number of columns with a nonzero weight, at each scale."""
        return np.array([np.count_nonzero(np.unique(_places(point))) for point in self.points])

    @cached_property
    def n_parameters(self) -> npt.NDArray[np.intp]:
        """Number of nonzero weights and intercepts, the degrees of freedom of ``aic`` and ``bic``."""
        intercepts = (len(self.classes) - 1) * int(self.origin.problem.intercept)
        return self._n_weights + intercepts

    @cached_property
    def _n_weights(self) -> npt.NDArray[np.intp]:
        return np.array([np.count_nonzero(_places(point)) for point in self.points])

    @property
    def aic(self) -> Array:
        """Akaike's criterion at each scale."""
        return -2.0 * self.log_likelihood + 2.0 * self.n_parameters

    @property
    def bic(self) -> Array:
        """Schwarz's criterion at each scale."""
        return -2.0 * self.log_likelihood + float(np.log(self.origin.n_rows)) * self.n_parameters

    def ebic(self, gamma: float = 0.5) -> Array:
        """Return the extended criterion of Chen and Chen: ``bic + 2 γ log (p choose k)`` for k of p weights.

        ``gamma=0`` is ``bic``. With more columns than rows, a ``gamma`` above ``1 − log N / (2 log p)`` selects the
        right columns as N grows; ½ is usual.
        """
        C, P = self.points[0].shape
        k, p = self._n_weights, C * (P - 1)
        choices: Array = gammaln(p + 1.0) - gammaln(k + 1.0) - gammaln(p - k + 1.0)
        return self.bic + 2.0 * gamma * choices

    def best(self, choice: str = "min", *, gamma: float = 0.5) -> float:
        """Return the scale that a criterion selects.

        ``"min"``: the smallest cross-validated loss. ``"1se"``: the smallest scale whose loss is within one standard
        error of that, with the fewest columns among equally good scales. ``"aic"``, ``"bic"`` and ``"ebic"`` (with
        ``gamma``) need no folds; they count the nonzero weights, which is correct for the lasso without groups.
        """
        return float(self.scales[self.index(choice, gamma=gamma)])

    def index(self, choice: str | float = "min", *, gamma: float = 0.5) -> int:
        """Return the index of a scale of the path, or of the scale that a criterion selects."""
        if not isinstance(choice, str):
            return self._place(choice)
        if choice not in CRITERIA:
            raise UnknownNameError("choice of a scale", choice, CRITERIA)
        if choice in ("min", "1se"):
            if self.cv_loss is None or self.cv_error is None:
                raise InvalidInputError(
                    f"The choice {choice!r} needs cross-validation: pass cv= to regularization_path, or choose by "
                    "'aic', 'bic' or 'ebic'."
                )
            if choice == "min":
                return int(np.argmin(self.cv_loss))
            if np.isnan(self.cv_error).any():
                raise InvalidInputError("The choice '1se' needs at least two folds, for a standard error.")
            return one_standard_error(self.scales, self.cv_loss, self.cv_error)
        return int(np.argmin(self.ebic(gamma) if choice == "ebic" else getattr(self, choice)))

    def _place(self, scale: object) -> int:
        if isinstance(scale, bool) or not isinstance(scale, int | float | np.number):
            raise InvalidTypeError(
                f"A choice is one of {', '.join(CRITERIA)}, or a scale of the path; found {scale!r}."
            )
        k = int(np.argmin(np.abs(self.scales - float(scale))))
        if not np.isclose(self.scales[k], float(scale), rtol=1e-9):
            raise InvalidInputError(
                f"{scale!r} is not a scale of this path; the nearest is {float(self.scales[k])!r}. Fit "
                f"LogisticRegression(LaplacePrior({scale!r})) for a scale between them."
            )
        return k

    def selected(self, choice: str | float = "min") -> list[str]:
        """Return the names of the columns with a nonzero weight at a scale, given or selected by a criterion."""
        places = np.unique(_places(self.points[self.index(choice)]))
        return [str(name) for name in self.names[places[places > 0] - 1]]

    def model(self, choice: str | float = "min", *, gamma: float = 0.5) -> LogisticRegression:
        """Return a fitted model at a scale of the path, or at the scale that a criterion selects, without refitting.

        >>> from sklearn.datasets import load_breast_cancer
        >>> from oddsmith import Standardize
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = regularization_path(X, y, n=10, basis=Standardize()).model("bic")
        >>> len(model.selected_), model.certificate_.converged
        (10, True)
        """
        k, origin = self.index(choice, gamma=gamma), self.origin
        prior = replace(_laplace(origin.problem), scale=float(self.scales[k]))
        model: LogisticRegression = clone(origin.model).set_params(prior=prior, tol=origin.tol)
        learned = ("n_features_in_", "feature_names_in_", "design_", "basis_", "class_weight_")
        model.__dict__.update({name: vars(origin.model)[name] for name in learned if name in vars(origin.model)})
        problem = replace(origin.problem, laplace=prior)
        model._with_scale(problem)
        model._assign(self._fit(k, problem), self.classes, problem, None)
        return model

    def _fit(self, k: int, problem: Problem) -> LikelihoodFit:
        """Return a point of the path as the result of a fit, in the user's coordinates."""
        origin, gap = self.origin, float(self.gap[k] * max(1.0, abs(self.objective[k])))
        W, reference, K = self.points[k].toarray(), problem.reference, len(self.classes)
        contrast = np.array([[0.0], [1.0]]) if K == 2 else np.eye(K)
        if K > 2 and reference is not None:
            contrast, W = make_contrast(K, reference), np.delete(W, reference, axis=0)
        frame = Coordinates(center=np.zeros(problem.M), scale=np.ones(problem.M), contrast=contrast)
        free = np.ones(W.shape, dtype=bool)
        free[:, 0] = problem.intercept
        likelihood, x = float(self.log_likelihood[k]), np.ascontiguousarray(W)
        learned = FittedState(
            coordinates=frame,
            x=x,
            free=free,
            common=np.zeros(problem.M + 1),  # the weights are as they are reported
            reference=reference,
            class_weight=problem.class_weight,
            n_rows=origin.n_rows,
            log_likelihood=likelihood,
            penalty=None,
            hessian=None,
            expected=None,
            null_log_likelihood=origin.null_log_likelihood,
            sparse=True,
        )
        certificate = Certificate(
            converged=bool(self.gap[k] <= origin.tol),
            gap=gap,
            gradient_norm=np.nan,
            condition=np.nan,
            passes=self.passes,
            method=METHOD,
        )
        value, w = float(self.objective[k]), x.ravel()
        final = ObjectiveValue(w=w, value=value, log_likelihood=likelihood, gradient=np.zeros(w.size))
        result = SolverResult(w=w, final=final, trace=Trace(), certificate=certificate, iterations=0)
        coef, b = frame.to_user(w)
        return LikelihoodFit(
            coef=coef,
            intercept=b,
            result=result,
            certificate=certificate,
            plan=origin.plan,
            flat=False,
            learned=learned,
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Return one row per scale, without the weights: see ``weight_table``."""
        table: dict[str, list[Any]] = {"scale": self.scales.tolist(), "n_selected": self.n_selected.tolist()}
        table |= {"log_likelihood": self.log_likelihood.tolist(), "gap": self.gap.tolist()}
        table |= {"aic": self.aic.tolist(), "bic": self.bic.tolist()}
        if self.cv_loss is not None and self.cv_error is not None:
            table |= {"cv_loss": self.cv_loss.tolist(), "cv_error": self.cv_error.tolist()}
        return table

    def weight_table(self) -> dict[str, list[Any]]:
        """Return one row per scale with the weights: a column for each term (and class) that is ever nonzero."""
        W = self.weights if self.weights.ndim == 3 else self.weights[:, :, None]
        terms, table = ["(intercept)", *map(str, self.names)], {"scale": self.scales.tolist()}
        for j in np.flatnonzero((W != 0.0).any(axis=(0, 2))):
            for c in range(W.shape[2]):
                name = terms[j] if W.shape[2] == 1 else f"{terms[j]}[{self.classes[c]}]"
                table[name] = W[:, j, c].tolist()
        return table


def regularization_path(
    X: Any,
    y: Any = None,
    *,
    scales: npt.ArrayLike | None = None,
    n: int = 100,
    prior: LaplacePrior | None = None,
    cv: Any = None,
    sample_weight: object = None,
    offset: object = None,
    model: LogisticRegression | None = None,
    tol: float = 1e-7,
    seed: int | None = None,
    **more: Any,
) -> RegularizationPath:
    """Fit a `LaplacePrior` at many scales with warm starts, each certified by its duality gap.

    The objective at a scale is ``−log L(w) + Σ_j factors_j |w_j| / scale``, modified by the groups and the Gaussian
    part of ``prior``. Scales ascend; by default, all weights are zero at the first one.

    Parameters
    ----------
    X, y, sample_weight, offset
        As in ``LogisticRegression.fit``: arrays, sparse matrices, tables, files, Dask or Spark data frames.
    scales : list of numbers, optional
        By default ``n`` scales, from the largest at which all weights are zero to a hundred times that.
    n : int
        Number of default scales.
    prior : LaplacePrior
        Supplies groups, factors and a Gaussian part; its scale is ignored. Default: the plain lasso.
    cv : int, splitter or list of (train, test), optional
        Folds: their number (stratified), a scikit-learn splitter, or lists of row numbers. Rows must be in memory.
        Basis functions and levels are learned once, from all rows.
    model : LogisticRegression, optional
        Supplies all parameters except the prior.
    tol : float
        Relative tolerance of the duality gap at each scale. See below for the digits of the weights.
    seed : int, optional
        Random seed of the folds.
    more
        Parameters of `LogisticRegression` (``basis``, ``design``, ``link``, ``reference``, ``fit_intercept``,
        ``class_weight``, ``threads``, ``max_iter``), or how files are read (see `scan`).

    Weights are the same in memory, files and Dask to 1e-8 of the largest, if the optimum is unique: for two classes
    over more than 800 columns, up to 10 million numbers (rows × columns), or any number with ``tol=1e-8``, which takes
    about 1.6 times as long; for several classes with more than 800 weights in all, up to a million numbers, or any
    number with ``tol=1e-8``, at scales with at most 800 nonzero weights and intercepts. Elsewhere weights are accurate
    to about the square root of ``tol``. Fewer weights than that take the same steps everywhere.

    Cost: a few passes for each scale, fewer if many weights are zero or rows are many. With ``cv``, one more path for
    each fold; where rows are many, all folds share about four passes over a sorted copy of the rows.

    References
    ----------
    J. Friedman, T. Hastie and R. Tibshirani, Regularization paths for generalized linear models via coordinate descent,
    J. Stat. Software 33 (2010); J. Chen and Z. Chen, Extended Bayesian information criteria, Biometrika 95 (2008).

    >>> from sklearn.datasets import load_breast_cancer
    >>> from oddsmith import Standardize
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = regularization_path(X, y, n=20, basis=Standardize(), cv=5)
    >>> path.weights.shape, path.n_selected[0].item(), bool((path.gap <= 1e-7).all())
    ((20, 31), 0, True)
    >>> path.best("1se") <= path.best("min")
    True
    """
    probe, how = read_probe(model, prior, {**more, "seed": seed, "tol": tol})
    asked = None if scales is None else checked_scales(scales)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 2:
        raise InvalidInputError(f"n must be a number of scales of at least 2, found {n!r}.")
    classes, problem = probe._problem(X, y, sample_weight, offset, how, reset=True)
    with one_blas_thread(problem.largest_matrix):
        splits = None if cv is None else folds(problem, cv, seed)
        found = solve_path(problem, asked, int(n), tol=tol)
        loss = None if splits is None else cross_validated_loss(problem, splits, found.scales, tol, found.guide)
    if (found.gap > tol).any():
        warnings.warn(
            f"{int((found.gap > tol).sum())} of {len(found.gap)} points of the path are not certified: the relative "
            f"gap is up to {found.gap.max():.2g} (requested: {tol:g}). Standardise the columns "
            "(basis=Standardize()), leave out the largest scales, or raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return RegularizationPath(
        scales=found.scales,
        points=tuple(_of_all_classes(point, problem) for point in found.points),
        log_likelihood=found.log_likelihood,
        objective=found.objective,
        gap=found.gap,
        classes=classes,
        passes=found.passes,
        cv_loss=None if loss is None else loss[0],
        cv_error=None if loss is None else loss[1],
        origin=_origin(probe, problem, tol),
    )


def read_probe(
    model: LogisticRegression | None, prior: LaplacePrior | None, more: dict[str, Any]
) -> tuple[LogisticRegression, dict[str, Any]]:
    """Return a checked model with the given parameters and a prior of scale 1, and the options for reading files."""
    given = LaplacePrior(1.0) if prior is None else prior
    if not isinstance(given, LaplacePrior):
        raise InvalidTypeError(f"This needs a LaplacePrior, found prior={prior!r}.")
    probe = LogisticRegression() if model is None else clone(model)
    if not isinstance(probe, LogisticRegression):
        raise InvalidTypeError(f"model must be a LogisticRegression, found {probe!r}.")
    known = probe.get_params(deep=False)
    probe.set_params(**{name: value for name, value in more.items() if name in known}, prior=replace(given, scale=1.0))
    probe._check_parameters()
    return probe, {name: value for name, value in more.items() if name not in known}


def _of_all_classes(point: sparse.csr_array, problem: Problem) -> sparse.csr_array:
    """Return the weights of all classes, zero for a reference class; for two classes, of the second."""
    if problem.K == 2 or point.shape[0] == problem.K:
        return point
    return sparse.csr_array(np.insert(point.toarray(), problem.reference or 0, 0.0, axis=0))


def _places(point: sparse.csr_array) -> npt.NDArray[np.intp]:
    """Return the positions (0 for an intercept) of the nonzero weights."""
    return np.asarray(point.nonzero()[1])


def _laplace(problem: Problem) -> LaplacePrior:
    assert problem.laplace is not None
    return problem.laplace


def _origin(probe: LogisticRegression, problem: Problem, tol: float) -> PathOrigin:
    """Return the data for turning points of the path into models; it holds no rows."""
    M, K = problem.source.shape.M, problem.K
    frame = Coordinates(center=np.zeros(problem.M), scale=np.ones(problem.M), contrast=np.eye(K))
    plan = plan_sparse(facts_of(problem, frame), machine_of(problem), None)
    no_rows = MemorySource(np.zeros((0, M)), np.zeros(0, dtype=np.int32), K)
    return PathOrigin(
        model=probe,
        problem=replace(problem, source=no_rows, engine=MemoryEngine(), explain=None, progress=None, start=None),
        n_rows=problem.source.n_present,
        null_log_likelihood=null_log_likelihood(problem),
        plan=plan,
        tol=tol,
    )
