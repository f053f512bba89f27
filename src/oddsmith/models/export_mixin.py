"""Models outside Python: as a SELECT for databases, an ONNX graph for anything that runs those, a page to be read."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy.typing as npt

from oddsmith.decision.loss import LossLike, RejectLike
from oddsmith.errors import InvalidTypeError
from oddsmith.records import Table


class ExportMixin:
    """A mixin for classifiers: ``to_sql``, ``to_onnx`` and ``report``."""

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
        from oddsmith.export.model_query import model_query
        from oddsmith.models.base import Classifier

        assert isinstance(self, Classifier)
        return model_query(self, dialect, loss, reject, level if predictive else None).select(table, keep)

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
        from oddsmith.export.onnx import onnx_model
        from oddsmith.models.base import Classifier

        assert isinstance(self, Classifier)
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
        level: float = 0.95,
        seed: int = 0,
    ) -> None:
        """Write one self-contained HTML page on this model and its rows, for the person who has to sign it.

        The data and its missing values; the model in words and as a formula; certificate, weights, calibration,
        discrimination, decisions at the loss, influential rows, other class priors, a comparison, how to use the model
        file, where it comes from, and a place for the signature. What does not apply is a sentence that says why. The
        page loads nothing, and nothing in the data can become markup. It is written whole or not at all.

        Scores of the rows of the fit are by leave-one-out where the model has that; else they are those of the rows
        given, and the page says so.

        Parameters
        ----------
        X, y : rows and labels
            Those of the fit, or others; ``y`` may be the name of a column of the table ``X``.
        path : str or path
            Of the page.
        loss, reject
            As for ``decide``: what actions and no decision cost. None: every error costs 1.
        comparison : Comparison, optional
            What ``oddsmith.compare`` returned.
        title : str, optional
        sample_weight : array, optional
            That of the fit. Scores count a row as often as its weight says, if all weights are whole numbers.
        offset : array, optional
            That of the fit, or of the rows given. The page says so if the model was fitted with one and none is given.
        model_path : str or path, optional
            The file that the model was saved to, whose name and checksum stand in the page.
        level : float
            Of all intervals.
        seed : int
            Of the bootstrap.

        Cost: one prediction, one pass for the influence of rows, about a second for 100,000 rows.

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
        write_report(self, X, y, path, model_path=model_path, **rows, **given)
