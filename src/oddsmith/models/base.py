"""The base class of all classifiers: an all-or-nothing fit, predictions, decisions, files and exports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from math import isnan
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from oddsmith.data_access.checkpoint import checkpointed
from oddsmith.data_access.dispatch import streams
from oddsmith.design.fitted_basis import takes_sparse
from oddsmith.design.input_errors import refuse_missing
from oddsmith.design.inputs import restored_on_error, split_target
from oddsmith.design.text_columns import learned_formats, read_formats
from oddsmith.engines.scan import is_elsewhere
from oddsmith.errors import InvalidInputError, InvalidTypeError, as_input_errors
from oddsmith.models.estimator import Estimator
from oddsmith.numerics import Array
from oddsmith.protocols import Labels
from oddsmith.registry import Registry

if TYPE_CHECKING:  # a fit needs none of these: each method imports what it calls
    from oddsmith.decision.class_prior import PerClass
    from oddsmith.decision.loss import LossLike, RejectLike
    from oddsmith.inference.predictive import Predictive
    from oddsmith.records import Table

F = TypeVar("F", bound=Callable[..., Any])

MODELS: Registry[type[Any]] = Registry("model")


OUT_OF_RANGE = (
    "The numbers in this fit exceed the range of floating point ({}). Bring columns, weights and offsets to a scale "
    "near one (basis=Standardize() does that for columns)."
)


def check_estimates(model: Estimator) -> None:
    """Raise if estimates are NaN or infinite."""
    for name, value in vars(model).items():
        # A sum that is a number has no NaN in it.
        if (
            type(value) is np.ndarray
            and name[-1] == "_"
            and value.dtype.kind == "f"
            and isnan(np.add.reduce(value, axis=None))
            and np.isnan(value).any()
        ):
            raise InvalidInputError(OUT_OF_RANGE.format(f"{name} would hold NaN"))


def all_or_nothing(fit: F) -> F:
    """Decorate a fitting method: if it raises, the estimator keeps its previous state."""

    @wraps(fit)
    def guarded(self: Estimator, *args: object, **kwargs: object) -> object:
        # Sums that overflow are refused by name; where that was forgotten, no estimate is left that is no number.
        with restored_on_error(self), checkpointed(self), np.errstate(over="ignore", invalid="ignore"):
            try:
                fitted = fit(self, *args, **kwargs)
            except (ArithmeticError, np.linalg.LinAlgError) as error:
                raise InvalidInputError(OUT_OF_RANGE.format(str(error).rstrip("."))) from error
            check_estimates(self)
            return fitted

    return guarded  # type: ignore[return-value]


@runtime_checkable
class HasPredictive(Protocol):
    """A model with a posterior over its weights."""

    def predictive(self, X: Any) -> Predictive:
        """Return the predictive distribution of each row."""


def is_probabilistic(model: object) -> bool:
    """Whether a model has probabilities; some scikit-learn parameters hide ``predict_proba``."""
    return hasattr(model, "predict_proba")


def training_prior(model: object) -> Array | None:
    """Return the class shares of the training data, None if the model does not know them."""
    return getattr(model, "class_prior_", None)


class Classifier(ClassifierMixin, Estimator):
    """A scikit-learn classifier: the constructor stores its arguments, ``fit`` sets the attributes that end in ``_``.

    It predicts, decides by expected loss, and exports the model to a file, SQL, ONNX or an HTML report.
    """

    predict_proba: Callable[[Any], Array]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = takes_sparse(self.basis)
        return tags

    def decision_function(self, X: Any) -> Array:
        """Return the value whose sign (two classes) or maximum (more) decides."""
        raise TypeError(f"{type(self).__name__} must define decision_function().")

    @streams
    def predict(self, X: Any) -> Labels:
        """Return the class of each row."""
        values = self.decision_function(X)
        codes = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def score(self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the accuracy, the share of rows predicted correctly; ``y`` may be the name of a column.

        For more scores, with intervals, see `oddsmith.evaluate`.

        >>> import polars, oddsmith
        >>> table = polars.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": ["a", "b", "a", "b"]})
        >>> oddsmith.LogisticRegression().fit(table, y="y").score(table, "y")
        0.5
        """
        if is_elsewhere(X):
            from oddsmith.data_access.streamed_prediction import accuracy

            return accuracy(self, X, y, sample_weight)
        X, y = split_target(read_formats(X, learned_formats(self)), y)
        with as_input_errors():
            refuse_missing(np.asarray(y))
            return float(super().score(X, y, sample_weight))

    @streams
    def decide(self, X: Any, loss: LossLike = None, reject: RejectLike = None, predictive: bool = False) -> Labels:
        """Return the action of smallest expected loss for each row, or ``oddsmith.REJECT``.

        ``argmin_a Σ_k p(C_k | x) L[k, a]``; if all errors cost the same, this equals ``predict(X)``. Ties go to the
        first action; a row is rejected only if rejecting is cheaper than every action.

        Parameters
        ----------
        X : rows
        loss, reject
            The costs of actions and of rejecting, as in `oddsmith.decide`, classes in the order of ``classes_``.
        predictive : bool
            Whether to take the expectation under the predictive distribution, ``predictive(X).mean``, which accounts
            for the uncertainty of the weights, instead of under the probabilities at the estimate.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["well", "well", "sick", "sick"])
        >>> model.decide([[0.5], [1.4], [3.0]], reject=0.3).tolist()
        ['well', REJECT, 'sick']
        >>> model.decide([[-2.0], [1.4], [3.0]], {"sick": {"go": 9, "stay": 0}, "well": {"go": 0, "stay": 1}}).tolist()
        ['go', 'stay', 'stay']
        """
        from oddsmith.decision.actions import REJECT, decide_by, mark
        from oddsmith.decision.loss import read_loss

        self._check_fitted()
        matrix = read_loss(loss, self.classes_)
        if matrix.error_cost is None or predictive:
            return decide_by(self._probabilities(X, predictive), matrix, reject)
        self._check_probabilistic()
        # With equal errors the decision is predict's, to the last tie.
        labels = self.predict(X)
        if reject is None:
            return labels
        rejected = decide_by(self._probabilities(X, False), matrix, reject) == REJECT
        return mark(labels, rejected)

    def threshold_for(self, loss: LossLike = None) -> float:
        """Return the probability of ``classes_[1]`` above which the second action is cheaper (two classes).

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["sick", "sick", "well", "well"])
        >>> model.threshold_for({"sick": {"sick": 0, "well": 9}, "well": {"sick": 1, "well": 0}})
        0.9
        """
        from oddsmith.decision.actions import threshold_for

        self._check_fitted()
        if len(self.classes_) != 2:
            raise InvalidInputError(
                f"A threshold needs two classes, but this model has {len(self.classes_)}: "
                f"{self.classes_.tolist()[:8]}. Use decide(X, loss), which compares all actions."
            )
        return threshold_for(loss, classes=self.classes_)

    @available_if(is_probabilistic)
    def with_class_prior(self, class_prior: PerClass) -> Any:
        """Return the model under another class prior, {class: probability}, with the same class densities.

        ``p'(C_k | x) ∝ p(C_k | x) π'_k / π_k``, with π = ``class_prior_``, the class shares in training. If the log
        odds are linear, only the intercepts move, by ``log(π'_k / π_k)``. With links other than the logit, and for
        classifiers around other classifiers, the result is a `RecalibratedClassifier` around this model.

        Nothing is refitted; log likelihood, certificate and trace still describe the fit.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
        >>> moved = model.with_class_prior({"a": 0.9, "b": 0.1})
        >>> bool((moved.coef_ == model.coef_).all()), float((moved.intercept_ - model.intercept_).round(6)[0])
        (True, -2.197225)
        """
        from oddsmith.decision.class_prior import read_class_prior

        self._check_fitted()
        prior = read_class_prior(class_prior, self.classes_)
        trained = training_prior(self)
        if trained is None:
            raise InvalidInputError(
                f"This {type(self).__name__} does not know the class shares of its training data (partial_fit keeps "
                "none). Use fit(X, y); or undo_resampling({class: share in training / new share}), if you know them."
            )
        return self._shifted(np.log(prior / trained), prior)

    @available_if(is_probabilistic)
    def undo_resampling(self, rates: PerClass | None = None, *, y: Any = None) -> Any:
        """Return the model with the effect of resampling or weighting the classes before the fit removed.

        Parameters
        ----------
        rates : {class: factor} or K numbers
            The factor on the number of rows of each class: the share of rows kept, the number of repetitions, or the
            weight. Only ratios matter; the default for a class is 1.
        y : labels
            Alternatively, the labels before resampling; their shares become the class prior.

        The training prior was proportional to π_k · rate_k; dividing it out moves the intercepts by ``−log rate_k``.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"])
        >>> rare = model.undo_resampling({"no": 0.1})  # every tenth "no" was kept
        >>> float((rare.intercept_ - model.intercept_).round(6)[0])
        -2.302585
        """
        from oddsmith.decision.class_prior import read_rates

        self._check_fitted()
        if (rates is None) == (y is None):
            raise InvalidInputError("undo_resampling takes either rates={class: factor} or y, the original labels.")
        if rates is None:
            return self.with_class_prior(self._shares(y))
        factors = read_rates(rates, self.classes_)
        trained = training_prior(self)
        if trained is None:
            return self._shifted(-np.log(factors), None)
        prior = trained / factors
        return self.with_class_prior(prior / prior.sum())

    def _check_probabilistic(self) -> None:
        if not is_probabilistic(self):
            raise InvalidTypeError(
                f"{type(self).__name__} has no probabilities, which an expected loss needs. Use predict(X); or add "
                "probabilities with recalibrate(model, X, y) on rows that it was not fitted to; or use a "
                "probabilistic model such as LogisticRegression."
            )

    def _probabilities(self, X: object, predictive: bool) -> Array:
        """Return the probabilities for a decision, N × K."""
        from oddsmith.decision.loss import read_probabilities

        self._check_probabilistic()
        if not predictive:
            return read_probabilities(self._decision_proba(X), len(self.classes_))
        if not isinstance(self, HasPredictive):
            raise InvalidInputError(
                f"{type(self).__name__} has no predictive distribution. Use predictive=False, or a model with a "
                "posterior of its weights, such as LogisticRegression."
            )
        return read_probabilities(self.predictive(X).mean, len(self.classes_))

    def _decision_proba(self, X: object) -> Array:
        """Return the probabilities at the estimate; some models require complete rows here."""
        return self.predict_proba(X)

    def _shares(self, y: npt.ArrayLike) -> Array:
        labels, known = np.asarray(y), self.classes_.tolist()
        counts = np.array([np.count_nonzero(labels == label) for label in known], dtype=np.float64)
        if counts.sum() != labels.size or not counts.all():
            unknown = sorted({str(label) for label in np.unique(labels).tolist() if label not in known})
            what = f"holds other labels too: {', '.join(unknown[:8])}" if unknown else "lacks some of them"
            raise InvalidInputError(f"The model's classes are {known[:8]}, but y {what}.")
        return np.asarray(counts / counts.sum())

    def _shifted(self, shift: Array, prior: Array | None) -> Any:
        """Return a model whose log odds are shifted by ``shift``."""
        from oddsmith.models.recalibrated import RecalibratedClassifier

        return RecalibratedClassifier.around(self, shift=shift - shift.mean(), class_prior=prior)

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's box, with a summary of the fit below it."""
        box = str(super()._repr_html_inner())
        if "classes_" not in vars(self):
            return box
        from oddsmith.models.notebook_view import notebook_view
        from oddsmith.persistence.model_file import provenance

        seen = provenance(self)
        return box + notebook_view(self, seen["weight"] if seen["rows"] is None else seen["rows"])

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a file; ``oddsmith.load(path)`` restores it, bit for bit.

        The file contains numbers and JSON, never code and never training rows; it is written completely or not at all.
        ``docs/model_file.md`` describes the format, `oddsmith.load` what a loaded model can compute. Saving
        reads no rows: the file depends on the model alone. A large fit with a prior may have formed no Hessian; the
        first ``summary()`` or ``posterior_`` adds it to the model, and so to files saved afterwards. A model that
        contains a scikit-learn model or transformer cannot be saved.

        >>> import tempfile, oddsmith
        >>> model = oddsmith.LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "b", "a", "b"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/m.odds")
        ...     oddsmith.load(f"{folder}/m.odds").predict([[3.0]]).tolist()
        ['b']
        """
        from oddsmith.persistence.model_file import save

        save(self, path)

    def to_sql(
        self,
        table: str | Sequence[str],
        dialect: str = "duckdb",
        *,
        loss: LossLike = None,
        reject: RejectLike = None,
        keep: Sequence[str] | None = None,
        predictive: bool = False,
        level: float = 0.9,
    ) -> str:
        """Return one SELECT that predicts the rows of a table, with the numbers of ``predict_proba``.

        It includes the design (levels, missing values, formula), basis, calibration and class prior, and uses built-in
        functions only. Columns are found by name, in any order; names are quoted and strings escaped. A row that
        ``predict_proba`` would refuse (a missing value or unseen level without a policy, infinity) gives NULL in every
        result column. Columns whose weights a `LaplacePrior` set to zero are not read, and may be absent.

        Parameters
        ----------
        table : str or (schema, name)
            The table or view, as a single name: ``"my.table"`` is one name that contains a dot.
        dialect : "duckdb", "postgres", "sqlite", "mysql", "snowflake" or "bigquery"
        loss, reject
            As in ``decide``: add the column ``decision`` (NULL if rejected) and, with ``reject``, ``rejected``.
        keep : list of str, optional
            Columns of the table to include in the result, such as a key. Default: the columns that the model reads.
        predictive : bool
            Whether to add ``mean_…``, ``lower_…`` and ``upper_…`` of each class, from
            ``predictive(X, method="probit", level=level)``. For two classes and at most 50 weights.
        level : float
            Posterior probability of the interval.

        Returns
        -------
        str
            A query without a semicolon, to run as it is or after ``CREATE VIEW … AS``. Its columns are the kept ones;
            ``p_<class>`` for each class (for models without probabilities, ``value_<class>`` as in
            ``decision_function``, with two classes only the second); ``predicted``; then the optional columns above.

        Cost: one pass over the table; the text grows with columns × classes.

        >>> from oddsmith import LogisticRegression
        >>> model = LogisticRegression(prior=1.0).fit([[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"])
        >>> import sqlite3
        >>> database = sqlite3.connect(":memory:")
        >>> database.executescript("CREATE TABLE patients (id, x0); INSERT INTO patients VALUES (1, 1.5), (2, NULL);")
        <sqlite3.Cursor object at ...>
        >>> database.execute(model.to_sql("patients", "sqlite", keep=["id"])).fetchall()
        [(1, 0.5, 0.5, 'no'), (2, None, None, None)]
        """
        if keep is not None and (isinstance(keep, str) or not all(isinstance(name, str) for name in keep)):
            raise InvalidTypeError(f"keep must be a list of names of columns, found {keep!r}.")
        from oddsmith.export.model_query import model_query

        return model_query(self, dialect, loss, reject, level if predictive else None).select(table, keep)

    def to_onnx(self, *, dtype: str = "float64", matrix: bool = False) -> bytes:
        """Return the model as a serialised ONNX graph, for onnxruntime or any other ONNX runtime.

        It includes the design, basis, calibration and class prior, and uses standard operators only. This method needs
        the package onnx (the extra ``onnx``).

        Parameters
        ----------
        dtype : "float64" or "float32"
            Type of all numbers in the graph.
        matrix : bool
            Whether all columns form one input ``X``, N × D, in the order of the fit; for numeric columns only.
            Otherwise each column is an input of its own name, N × 1: numbers, or strings for categories.

        Returns
        -------
        bytes
            The graph, for a file or for ``onnxruntime.InferenceSession``. Outputs are ``label`` (length N, strings or
            integers) and ``probabilities`` (N × K, classes in order), or ``values`` (N × K, two classes: N × 1) for
            models without probabilities. Inputs encode booleans as 0 and 1, dates as days since 1970-01-01, a missing
            number as NaN and a missing category as the empty string. Rows that ``predict_proba`` would refuse get NaN
            probabilities and, as label, the empty string or the smallest integer.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
        >>> isinstance(model.to_onnx(), bytes)
        True
        """
        from oddsmith.export.onnx import onnx_model

        return onnx_model(self, dtype, matrix=matrix)

    def report(
        self,
        X: Any,
        y: Any,
        path: str | PathLike[str],
        *,
        loss: LossLike = None,
        reject: RejectLike = None,
        comparison: Table | None = None,
        title: str | None = None,
        sample_weight: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
        model_path: str | PathLike[str] | None = None,
        data_path: str | PathLike[str] | Sequence[str | PathLike[str]] | None = None,
        by: str | Sequence[str] | Mapping[str, Any] | None = None,
        author: str | None = None,
        purpose: str | None = None,
        period: str | None = None,
        level: float = 0.95,
        seed: int = 0,
    ) -> None:
        """Write a self-contained HTML page about this model and its rows, for the person who signs it off.

        It covers the data, missing values and near-duplicate columns; the model in words and as a formula; the
        certificate; the importance of each column with a joint test; weights and effects; calibration, discrimination,
        decisions under the loss, subgroups, influential rows, other class priors, a comparison, the use and origin of
        the model file, and a field for the signature. Where a section does not apply, a sentence says why. The page
        loads no other files, and all text from the data is escaped. It is written completely or not at all. Scores of
        the training rows are leave-one-out scores if the model has them; otherwise the page says that they are not.

        Parameters
        ----------
        X, y : rows and labels
            The training rows, or other rows; ``y`` may be the name of a column of the table ``X``.
        path, title : str or path, str
            File and title of the page.
        loss, reject
            As in ``decide``: the costs of actions and of rejecting. None: every error costs 1.
        comparison : Comparison, optional
            The result of ``oddsmith.compare``.
        sample_weight : array, optional
            The weights of the fit. If all weights are whole numbers, scores count each row that many times.
        offset : array, optional
            The offset of the rows. If the model was fitted with one and none is given here, the page says so.
        model_path, data_path : str or path, optional
            The model file, and the data file or files: the page states their names and SHA-256 hashes.
        by : str, list of str or dict, optional
            Columns of the table ``X`` that define subgroups for the scores, or ``{name: values}``. The model need not
            use them. A column of many different numbers is cut at its quartiles.
        author, purpose, period : str, optional
            Who made the model, what it is for, and when the data were collected.
        level, seed : float, int
            Level of all intervals; random seed of the bootstrap.

        Cost: one prediction and one pass for the influence of rows; about a second for 100,000 rows.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from oddsmith import LogisticRegression
        >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], ["no", "no", "yes", "no", "yes", "yes"]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     LogisticRegression().fit(X, y).report(X, y, f"{folder}/r.html", title="Six rows")
        ...     "<title>Six rows</title>" in Path(folder, "r.html").read_text(encoding="utf-8")
        True
        """
        from oddsmith.report import write_report

        given = {"loss": loss, "reject": reject, "comparison": comparison, "title": title, "level": level, "seed": seed}
        rows = {"sample_weight": sample_weight, "offset": offset}
        origin = {"model_path": model_path, "data_path": data_path, "author": author, "purpose": purpose}
        write_report(self, X, y, path, by=by, period=period, **origin, **rows, **given)
