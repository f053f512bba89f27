"""Models outside Python: as a SELECT for databases, as an ONNX graph for anything that runs those."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.decision.loss import LossMatrix, read_loss, read_reject
from oddsmith.errors import InvalidInputError, InvalidTypeError

MOST_WEIGHTS = 50
"""Weights up to which the variance of an activation is written out."""


class Exporting:
    """A mixin for classifiers: ``to_sql`` and ``to_onnx``."""

    classes_: npt.NDArray[Any]

    def to_sql(
        self,
        table: str | Sequence[str],
        dialect: str = "duckdb",
        *,
        loss: Any = None,
        reject: Any = None,
        keep: Sequence[str] | None = None,
        predictive: bool = False,
        level: float = 0.9,
    ) -> str:
        """Return one SELECT that predicts the rows of a table, with numbers as ``predict_proba`` has them.

        The design (levels, missing values, formula), the basis, calibration and class prior are all in it; it needs no
        function that the database does not have. Columns come by name, in any order; names are quoted, words escaped.
        A row that ``predict_proba`` would refuse (a missing value or an unseen level without a policy for it, infinity)
        has NULL in every result.

        Parameters
        ----------
        table : str or (schema, name)
            The table or view to predict, a name as it is: ``"my.table"`` is one name with a dot in it.
        dialect : "duckdb", "postgres" or "sqlite"
        loss, reject
            As for ``decide``: adds the column ``decision``, and with ``reject`` the column ``rejected`` (true or false;
            the decision of a rejected row is NULL).
        keep : list of str, optional
            The columns of the table that come with the results, a key say. Default: those that the model reads.
        predictive : bool
            Adds ``mean_…``, ``lower_…`` and ``upper_…`` of each class: those of
            ``predictive(X, method="probit", level=level)``. For two classes and at most 50 weights.
        level : float
            Posterior probability of the interval.

        Returns
        -------
        str
            A query, without a semicolon: for ``CREATE VIEW … AS``, or as it is. Its columns: those kept;
            ``p_<class>`` for each class (models without probabilities: ``value_<class>`` as in ``decision_function``,
            of two classes that of the second); ``predicted``; then what was asked for above.

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
        query: str = _query(self, dialect, loss, reject, level if predictive else None).select(table, keep)
        return query

    def to_onnx(self, *, dtype: str = "float64", matrix: bool = False) -> bytes:
        """Return the model as a serialised ONNX graph, for onnxruntime and whatever else runs those.

        The design, basis, calibration and class prior are in it; it has standard operators only. It needs the package
        onnx (the extra ``onnx``).

        Parameters
        ----------
        dtype : "float64" or "float32"
            Of all numbers in the graph.
        matrix : bool
            Whether all columns are one input ``X``, N × D, in the order of the fit; for models of numbers only. Else
            there is an input for each column, N × 1, by its name: numbers, or strings for categories.

        Returns
        -------
        bytes
            Write them to a file, or pass them to ``onnxruntime.InferenceSession``. Outputs are ``label`` (length N,
            strings or integers) and ``probabilities`` (N × K, classes in order), or ``values`` (N × K, two classes: N ×
            1) for models without probabilities. Truth values come in as 0 and 1, dates as days since 1970-01-01; a
            missing number is NaN, a missing category the empty string. Rows that ``predict_proba`` would refuse have
            NaN for probabilities, and as label the empty string or the smallest integer.

        >>> from oddsmith import GaussianClassifier
        >>> model = GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"])
        >>> isinstance(model.to_onnx(), bytes)
        True
        """
        from oddsmith.models.scores import scores, table_names
        from oddsmith.persistence.onnx import OnnxWriter

        self._check_fitted()  # type: ignore[attr-defined]
        w = OnnxWriter(table_names(self), dtype, matrix=matrix)
        found = scores(w, self)
        return w.model(plain_labels(self.classes_), found.values, found.proba)


def plain_labels(labels: Any) -> list[Any]:
    """Return labels as Python's words, whole numbers, floats or truth values, all of one type; else as words.

    >>> plain_labels(np.array([1, 2])), plain_labels(np.array(["a", 1], dtype=object)), plain_labels(np.array([b"b"]))
    ([1, 2], ['a', '1'], ['b'])
    """
    array = np.asarray(labels)
    values = array.astype(str).tolist() if array.dtype.kind in "mM" else array.tolist()
    for kind in (bool, int, float):
        if all(type(value) is kind for value in values):
            return values  # type: ignore[no-any-return]
    words = [value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value) for value in values]
    if len(set(words)) < len(words):
        raise InvalidInputError(f"Two labels read the same as words: {words[:8]}. Give the classes other names.")
    return words


def _query(model: Any, dialect: str, loss: Any, reject: Any, level: float | None) -> Any:
    """Return a writer of SQL that has the results of a model: probabilities, label, and what else is asked for."""
    from oddsmith.models.scores import scores
    from oddsmith.persistence.sql import SqlWriter

    w = SqlWriter(dialect)
    found = scores(w, model)
    labels, values = plain_labels(model.classes_), w.let(found.values)
    if found.proba is not None:
        P = w.let(found.proba)
        w.results.update({f"p_{label}": p for label, p in zip(labels, P, strict=True)})
    else:
        named = labels if len(values) > 1 else labels[1:]
        w.results.update({f"value_{label}": value for label, value in zip(named, values, strict=True)})
    if len(values) == 1:
        predicted = w.labels(w.compare("<", w.constant([0.0]), values), labels[1:], labels[0])
    else:
        tests = w.compare("=", values, w.let(w.largest(values)))
        predicted = w.labels(tests[:-1], labels[:-1], labels[-1])
    w.results["predicted"] = predicted
    if loss is not None or reject is not None:
        model._check_probabilistic()
        w.results.update(_decision(w, P, read_loss(loss, model.classes_), reject, predicted))
    if level is not None:
        w.results.update(_predictive(w, model, found, level, labels))
    return w


def _decision(w: Any, P: Any, loss: LossMatrix, reject: Any, predicted: Any) -> dict[str, Any]:
    """Return the action of smallest expected loss, as `oddsmith.decide` finds it, and whether a row is rejected."""
    L, error = loss.values, loss.error_cost
    A, actions = L.shape[1], plain_labels(loss.actions)
    if error is None:
        costs = w.let(w.affine(P, L.T, np.zeros(A)))
    else:
        costs = w.let(w.affine(P, -error * np.eye(A), np.full(A, error)))
    slack = w.constant([0.0 if error is not None else loss.rounding])
    smallest = w.affine(w.largest(w.let(w.affine(costs, -np.eye(A), np.zeros(A)))), -np.ones((1, 1)), np.zeros(1))
    smallest = w.let(smallest)
    if error is None:
        tests = w.compare("<=", costs, w.binary("+", smallest, slack))
        decision = w.labels(tests[:-1], actions[:-1], actions[-1])
    else:
        decision = predicted
    if reject is None:
        return {"decision": decision}
    price = read_reject(reject, loss.classes)
    same = bool((price == price[0]).all())
    cost = w.constant([price[0]]) if same else w.affine(P, price[None], np.zeros(1))
    rejected = w.let(w.compare("<", w.binary("+", cost, slack), smallest))
    kept = decision._replace(
        text=f"(CASE WHEN NOT {rejected[0].text} THEN {decision.text} END)", step=max(decision.step, rejected[0].step)
    )
    return {"decision": kept, "rejected": rejected[0]}


def _predictive(w: Any, model: Any, found: Any, level: float, labels: list[Any]) -> dict[str, Any]:
    """Return mean and interval of each class's probability under the Gaussian posterior of the weights."""
    from oddsmith.inference.summary import check_level, normal_quantile
    from oddsmith.persistence.formulas import link_probabilities, number, scaled, shifted, total

    if not hasattr(model, "predictive") or found.activation is None:
        raise InvalidInputError(
            f"{type(model).__name__} has no posterior of its weights, so no predictive interval. Leave out predictive=."
        )
    if len(labels) > 2:
        raise InvalidInputError(
            f"The predictive distribution of {len(labels)} classes is a mean over draws, which is not exported. Leave "
            "out predictive=, or use OneVsRest for one class at a time."
        )
    posterior, link = model.posterior_, model.link_
    z, M = normal_quantile(check_level(level)), len(posterior.mean) - 1
    if M > MOST_WEIGHTS:
        raise InvalidInputError(
            f"The variance of an activation has {M * (M + 1) // 2} terms with {M} weights; for more than "
            f"{MOST_WEIGHTS} it is not exported. Leave out predictive=, or use fewer columns."
        )
    if link not in ("logit", "probit"):
        raise InvalidInputError(
            f"The predictive mean with link={link!r} is an integral without a formula. Leave out predictive=, or use "
            "link='logit' or 'probit'."
        )
    at = posterior.at
    Z = w.let(w.join(number(w, 1.0), shifted(w, found.inputs, at.center, at.scale)))
    # Σ_j (r_jᵀ z)² is the quadratic form zᵀ S z of a factor S = R Rᵀ, and cannot turn out negative.
    values, vectors = np.linalg.eigh(posterior.solver_covariance)
    inside = values > 0
    R = vectors[:, inside] * np.sqrt(values[inside])
    parts = w.let(w.affine(Z, R.T, np.zeros(R.shape[1])))
    variance = w.let(total(w, w.binary("*", parts, parts)))
    sd, a = w.let(w.unary("sqrt", variance)), found.activation
    unit = 1.0 if link == "probit" else float(np.pi / 8.0)
    mean = link_probabilities(w, link, w.binary("/", a, w.unary("sqrt", scaled(w, variance, unit, 1.0))))[0]
    low = w.let(link_probabilities(w, link, w.binary("-", a, scaled(w, sd, z)))[0])
    high = w.let(link_probabilities(w, link, w.binary("+", a, scaled(w, sd, z)))[0])
    ends = {"mean": mean, "lower": w.join(w.pick(high, [0]), w.pick(low, [1]))}
    ends["upper"] = w.join(w.pick(low, [0]), w.pick(high, [1]))
    return {f"{name}_{label}": ends[name][k] for k, label in enumerate(labels) for name in ends}
