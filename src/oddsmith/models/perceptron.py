"""The perceptron."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oddsmith.data_access.training_data import refuse_pieces
from oddsmith.densities.rows import RowMatrix, dense
from oddsmith.design.class_weight import weigh_classes
from oddsmith.design.fitted_basis import has_basis, learn_rows, whole
from oddsmith.design.fitted_design import through_design
from oddsmith.design.inputs import check_finite, feature_names, read_labels, read_rows
from oddsmith.errors import ConvergenceWarning, InvalidInputError
from oddsmith.kernels.perceptron import PocketState, correct, margins, rounding, run_epoch
from oddsmith.models.base import MODELS, Classifier, all_or_nothing
from oddsmith.models.estimator import check_count, check_seed
from oddsmith.models.foreign_parameters import checked_names
from oddsmith.models.geometry_mixin import GeometryMixin
from oddsmith.numerics import Array
from oddsmith.records import WEIGHTS, Trace, records_weights

NEVER = 1 << 60  # A run without a mistake that is longer than any.
ALIKE = 1e-6
"""Share of all class weight by which mistakes may differ and count as alike: then the earlier weights are kept."""
COLUMNS = ("iteration", "objective", "mistakes", "errors", "best_errors", "seconds")


@MODELS.register("perceptron")
class PerceptronClassifier(GeometryMixin, Classifier):
    """The perceptron: go through the rows and correct the weights at each mistake, until there are none.

    The weights start at zero. A row φ (with a constant 1) of class t = ±1 is a mistake if ``t wᵀφ ≤ 0``, and then

        w ← w + step_size · t φ,

    which is a step of stochastic gradient descent on ``E(w) = −Σ_{n wrong} t_n wᵀφ_n`` (a sum over rows). With K > 2
    classes (Kesler's construction) a row of class k is a mistake if another class has at least the same activation;
    then the row is added to the weights of k and subtracted from those of the largest other class.

    If weights of length one separate the classes with margin γ (``t wᵀφ ≥ γ`` for all rows; for K > 2
    ``(w_k − w_j)ᵀφ ≥ γ``), the perceptron makes at most (R/γ)² mistakes in total, where R is the length of the longest
    row φ, times √2 for K > 2. If not, the rule never stops: after ``max_epochs`` the fit takes the weights with the
    fewest misclassified rows at the end of an epoch, and issues a `ConvergenceWarning`.

    Parameters
    ----------
    step_size : float
        Step size of a correction. Because the weights start at zero, it only scales them: no prediction depends on it.
    max_epochs : int
        Maximum number of passes over the rows.
    seed : int or None
        Random seed: each epoch visits the rows in a new random order. None keeps the given order.
    class_weight : None, "balanced" or {class: weight}
        As in `LogisticRegression`: a mistake in a class of weight 3 makes a correction three times as large, and counts
        as three mistakes when the best weights are chosen.
    basis, fit_intercept, design
        As in `LogisticRegression`. The rows are visited one by one, so φ is computed for all rows in advance.

    Attributes
    ----------
    coef_, intercept_ : arrays
        Weights, 1 × M for two classes (positive: ``classes_[1]``), K × M for more.
    converged_ : bool
        Whether all rows are classified correctly, by more than rounding error, which proves that the classes are
        separable.
    n_mistakes_, n_errors_, n_iter_ : int
        Total number of corrections; rows that the final weights misclassify; number of epochs.
    trace_ : Trace
        One record per epoch: ``iteration``, ``objective`` (E at the end), ``mistakes`` during the epoch, ``errors``
        (misclassified rows at the end), ``best_errors`` (the fewest so far), ``seconds``.
    classes_, boundary_ : array, Boundary
        The labels, sorted; the separating hyperplanes, in the space of φ.

    Notes
    -----
    Cost: an epoch reads the rows twice, to correct and to count. It is sequential, so more threads do not help. Columns
    of very different scales slow it down: use ``basis=StandardScaler()``.

    References
    ----------
    F. Rosenblatt, Principles of Neurodynamics, 1962. A. Novikoff, On convergence proofs for perceptrons, 1962.
    S. I. Gallant, Perceptron-based learning algorithms, IEEE Transactions on Neural Networks 1, 1990 (best weights).
    C. M. Bishop, Pattern Recognition and Machine Learning, 2006, section 4.1.7.

    >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> model = PerceptronClassifier().fit(X, [0, 0, 0, 1])
    >>> model.converged_, model.predict(X).tolist()
    (True, [0, 0, 0, 1])

    The exclusive or needs a basis:

    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> model = PerceptronClassifier(basis=PolynomialFeatures(2)).fit(X, [0, 1, 1, 0])
    >>> model.converged_, model.predict(X).tolist()
    (True, [0, 1, 1, 0])
    """

    @checked_names
    def __init__(
        self,
        step_size: float = 1.0,
        *,
        max_epochs: int = 200,
        seed: int | None = 0,
        basis: object = None,
        fit_intercept: bool = True,
        design: object = None,
        class_weight: object = None,
    ) -> None:
        self.step_size, self.max_epochs, self.seed = step_size, max_epochs, seed
        self.basis, self.fit_intercept, self.design = basis, fit_intercept, design
        self.class_weight = class_weight

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> PerceptronClassifier:
        """Fit to rows ``X`` (array, sparse matrix or table) and labels ``y`` (or the name of a column of ``X``).

        >>> PerceptronClassifier().fit([[-2.0], [-1.0], [1.0], [3.0]], ["a", "a", "b", "b"]).n_errors_
        0
        """
        self._check_parameters()
        refuse_pieces(X, "PerceptronClassifier", "Use LogisticRegression")
        X, y, _, _ = through_design(self, self.design, X, y, reset=True)
        rows = read_rows(self, X, reset=True)
        check_finite(rows, feature_names(self))
        classes, t = read_labels(y, rows.shape[0])
        Phi = whole(learn_rows(self, rows, reset=True))
        Phi = (Phi.tocsr() if sparse.issparse(Phi) else np.ascontiguousarray(Phi)).astype(np.float64, copy=False)
        if has_basis(self):
            check_finite(Phi, self._names())
        factors = weigh_classes(self, classes, t, None)
        state, converged, records = self._run_epochs(Phi, t, len(classes), factors)
        V = _reported(state.V if converged else state.best, factors)
        self.classes_ = classes
        self.coef_, self.intercept_ = V[:, 1:].copy(), V[:, 0].copy()
        self.converged_, self.n_mistakes_ = converged, state.mistakes
        self.n_errors_ = 0 if converged else state.best_errors
        columns = (*COLUMNS, WEIGHTS) if records_weights() else COLUMNS
        self.n_iter_, self.trace_ = len(records), Trace(tuple(records), columns)
        self._warn(len(t))
        return self

    def _check_parameters(self) -> None:
        step = self.step_size
        if not (isinstance(step, int | float | np.number) and np.isfinite(step) and step > 0):
            raise InvalidInputError(f"step_size must be a positive number, found {step!r}.")
        check_count("max_epochs", self.max_epochs)
        check_seed(self.seed)

    def _run_epochs(
        self, Phi: RowMatrix, t: npt.NDArray[np.int32], K: int, factors: Array | None
    ) -> tuple[PocketState, bool, list[tuple[Any, ...]]]:
        """Run the epochs; ``factors`` are the class weights of the rows.

        1. Visit the rows in this epoch's order and correct each mistake.
        2. Count the misclassified rows; keep the best weights.
        3. If no row is wrong, nor so near the boundary that rounding may have decided: converged.
        4. If there was no mistake, but some rows are that near: count these as mistakes, too.
        """
        bias, step_size = float(bool(self.fit_intercept)), float(self.step_size)
        constant = bias > 0.0
        if factors is not None:
            Phi, bias = _times(Phi, factors, bias), 0.0
        n, M = Phi.shape
        # Short runs say little: weights are worth a count of all rows after 1/64 of them without a mistake.
        state = PocketState(V=np.zeros((1 if K == 2 else K, M + 1)), longest=n // 128)
        cheapest = np.inf
        if factors is not None:
            state.longest = NEVER  # runs are counted without weights
            cheapest = _keep_constant(state, t, factors) if constant else np.inf
        rng = None if self.seed is None else np.random.default_rng(self.seed)
        records: list[tuple[Any, ...]] = []
        began = time.perf_counter()
        for epoch in range(1, int(self.max_epochs) + 1):
            before = state.mistakes
            order = np.arange(n) if rng is None else rng.permutation(n)
            run_epoch(Phi, t, order, step_size, bias, state)  # 1
            m, rival = margins(Phi, t, state.V, bias)  # 2
            if not np.isfinite(m).all():
                raise self._too_large(Phi)
            errors = int(np.count_nonzero(m <= 0.0))
            if factors is None:
                state.keep(errors)
            elif (cost := float(factors[m <= 0.0].sum())) < cheapest - ALIKE * factors.sum():
                state.best[:], state.best_errors, cheapest = state.V, errors, cost
            doubtful = m <= rounding(Phi, state.V, bias) if errors == 0 else m <= 0.0
            if state.mistakes == before and doubtful.any():  # 4
                for i in np.flatnonzero(doubtful):
                    x = dense(Phi[[i]])[0]
                    correct(x, int(t[i]), int(rival[i]), step_size, bias, state.V)
                    state.mistakes += 1
            objective = float(-m[m <= 0.0].sum())
            seconds = time.perf_counter() - began
            V = _reported(state.V, factors)
            kept = ((V[0] if K == 2 else V).copy(),) if records_weights() else ()
            records.append((epoch, objective, state.mistakes - before, errors, state.best_errors, seconds, *kept))
            if not doubtful.any():  # 3
                return state, True, records
        return state, False, records

    def _too_large(self, Phi: RowMatrix) -> InvalidInputError:
        """Return the error for rows whose margins are not finite."""
        matrix: Any = Phi
        sizes = abs(matrix).max(axis=0)
        sizes = sizes.toarray().ravel() if sparse.issparse(sizes) else np.asarray(sizes)
        largest = max(int(np.argmax(sizes)) - int(len(sizes) > len(self._names())), 0)
        return InvalidInputError(
            f"Column {str(self._names()[largest])!r} has values up to {sizes.max():.3g}: its squares exceed the range "
            f"of floating point. Divide it by a power of ten, or use basis=Standardize()."
        )

    def _warn(self, n_rows: int) -> None:
        if self.converged_:
            return
        wrong = f"{self.n_errors_} of {n_rows} rows are misclassified"
        if not self.n_errors_:
            wrong = "no row is misclassified, but some only within rounding error"
        warnings.warn(
            f"After {self.n_iter_} epochs and {self.n_mistakes_} corrections there are still mistakes; the weights "
            f"are the best found ({wrong}). If detect_separation(X, y) says 'complete', raise max_epochs or scale "
            "the columns (basis=Standardize()); otherwise no weights separate the classes: add basis functions, or "
            "use LogisticRegression.",
            ConvergenceWarning,
            stacklevel=4,
        )


def _times(Phi: Any, factors: Array, bias: float) -> Any:
    """Return rows times their weights, with the constant as first column.

    Scaling a row by a positive number keeps it right or wrong, and scales its correction.
    """
    constant = bias * factors[:, None]
    if sparse.issparse(Phi):
        return sparse.hstack([sparse.csr_array(constant), Phi.multiply(factors[:, None])], format="csr")
    return np.hstack([constant, Phi * factors[:, None]])


def _reported(V: Array, factors: Array | None) -> Array:
    """Return weights, intercept first; with class weights, the intercept is the weight of the constant column."""
    return V if factors is None else V[:, 1:]


def _keep_constant(state: PocketState, t: npt.NDArray[np.int32], factors: Array) -> float:
    """Keep the weights that always predict the class of largest total weight; return the weight of their mistakes."""
    weight = np.bincount(t, weights=factors)
    k = int(weight.argmax())
    state.best[0 if len(state.best) == 1 else k, 1] = -1.0 if len(state.best) == 1 and k == 0 else 1.0
    state.best_errors = int(np.count_nonzero(t != k))
    return float(weight.sum() - weight[k])
