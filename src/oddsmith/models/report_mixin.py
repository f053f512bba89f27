"""A model's report: the one method that hands a model to a later room."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy.typing as npt

from oddsmith.decision.loss import LossLike, RejectLike
from oddsmith.records import Table


class ReportMixin:
    """A mixin for classifiers: ``report``."""

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
