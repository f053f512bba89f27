"""Models in files: the types that a file may contain, and the provenance of a model.

A file names types, and only the types listed here can be loaded. Models, bases, priors, solvers and statistics come
from their registries; the other parts of a fitted model are listed in this module.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import numpy as np
from narwhals import Implementation

import oddsmith
from oddsmith import statistics as _statistics  # noqa: F401
from oddsmith.bordered import BorderedDiagonal, SparseBorder
from oddsmith.data_access.class_views import BinaryView
from oddsmith.data_access.shards import Shard, ShardParams
from oddsmith.decision.calibration import IsotonicMap, LinearMap
from oddsmith.densities import families
from oddsmith.densities.class_sums import Folded, Solution
from oddsmith.densities.gaussian import GaussianDensities
from oddsmith.densities.mixed_columns import ColumnPlan, NaiveDensities
from oddsmith.design.basis import BASES, Expansion
from oddsmith.design.basis.base import AllRows, Composed
from oddsmith.design.basis.spline import Picked
from oddsmith.design.data_summary import BlockEncoder, DataSummary, DataSummaryParams, Roles, SampledRows
from oddsmith.design.formula import Expression
from oddsmith.design.frame import TextLevels
from oddsmith.design.functions import Center, Poly, Scale, Splines
from oddsmith.design.levels import Category, ColumnSummary, LevelNames, TableSchema
from oddsmith.design.table import Design
from oddsmith.design.terms import Factor, Term
from oddsmith.engines.partitioned import Piece, as_it_is
from oddsmith.engines.text_formats import TextFormat
from oddsmith.errors import ModelFileError
from oddsmith.inference.leave_one_out import LeaveOutLosses, LeaveOutLossesParams
from oddsmith.likelihood.column_choice import TakeColumns
from oddsmith.likelihood.coordinates import Coordinates, Shift
from oddsmith.likelihood.fitted_state import EarlierRows, FittedState
from oddsmith.likelihood.null_model import zero_column
from oddsmith.likelihood.online import OnlineState
from oddsmith.likelihood.separation import Separation
from oddsmith.likelihood.separation_search import HardestRows, HardestRowsParams
from oddsmith.links import LINKS
from oddsmith.models import MODELS
from oddsmith.models.base import Classifier
from oddsmith.models.generative_mixin import GenerativeMixin
from oddsmith.models.logistic import LogisticRegression
from oddsmith.models.merge_mixin import MergeMixin
from oddsmith.models.recalibrated import RecalibratedClassifier
from oddsmith.persistence import read_model, register, write_model
from oddsmith.persistence.codec import PLAIN, register_value
from oddsmith.prior_selection.quadratic_model import Selection
from oddsmith.priors import PRIORS, Anchored, Inherited, Quadratic
from oddsmith.protocols import ClassifierLike
from oddsmith.records import Certificate, Trace
from oddsmith.solvers import SOLVERS
from oddsmith.solvers.device import DeviceQuasiNewton, DeviceSoftmax
from oddsmith.solvers.plan import Plan, Stage
from oddsmith.solvers.table_newton import TableNewton
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics import CurvatureParams, FeaturesParams, MomentsParams
from oddsmith.statistics.curvature import LossesParams
from oddsmith.statistics.rowwise import WeightPoint
from oddsmith.statistics.sample import SampleParams
from oddsmith.statistics.scores import LeverageParams

RECORDS = (
    *(Certificate, Trace, Plan, Stage, Selection, Separation),
    *(DeviceQuasiNewton, DeviceSoftmax, TableNewton),
    *(
        Expansion,
        Coordinates,
        BorderedDiagonal,
        SparseBorder,
        FittedState,
        EarlierRows,
        OnlineState,
        Anchored,
        Inherited,
        Quadratic,
    ),
    *(Folded, Solution, ColumnPlan, NaiveDensities, GaussianDensities),
    *(families.BernoulliColumns, families.CategoricalColumns, families.GaussianColumns),
    *(families.MultinomialColumns, families.PoissonColumns),
    *(LinearMap, IsotonicMap),
    *(Design, TextFormat, Category, ColumnSummary, Term, Factor, Expression, Center, Poly, Scale, Splines),
    Implementation,  # of the table that a model was fitted to: samples come back as one
)

FOLD_TYPES = (
    *(CurvatureParams, FeaturesParams, LossesParams, MomentsParams, SampleParams, Shape),
    *(WeightPoint, LeverageParams, LeaveOutLosses, LeaveOutLossesParams),
    *(DataSummary, DataSummaryParams, Roles, TableSchema, SampledRows, Piece, BlockEncoder),
    *(HardestRows, HardestRowsParams, AllRows, Shard, ShardParams, Composed, Picked, BinaryView, Shift),
    TakeColumns,
)
"""Parameters of folds and how rows are read: parts of journals and of messages between sites, not of models."""


FILE_NAMES: dict[type[Any], str] = {
    **{FittedState: "Learned", EarlierRows: "Earlier", ColumnPlan: "Plan", Plan: "FitPlan", WeightPoint: "At"},
    TableSchema: "Sight",
    **{DataSummary: "Survey", DataSummaryParams: "SurveyParams", ColumnSummary: "Seen", BlockEncoder: "Encoder"},
    **{LeaveOutLosses: "LeftOut", LeaveOutLossesParams: "LeftOutParams"},
    **{HardestRows: "Nearest", HardestRowsParams: "NearestParams", AllRows: "Rows"},
}
"""Types that files know by another name: that of the version which wrote them first."""


def save(model: Classifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file; see ``Classifier.save``.

    The file depends on the fitted model alone: nothing is computed here, and no row is read. A fit without a Hessian
    (many rows and a prior) is saved without one.
    """
    model._check_fitted()
    register_types()
    write_model(path, model, provenance(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that ``model.save(path)`` wrote; its predictions are the same, bit for bit.

    A file contains numbers and JSON: loading runs no code and imports no names from it. The checksum is verified first.
    Anything but a complete model file of this or an older version raises a `ModelFileError`.

    Parameters
    ----------
    path : str or path
        The model file.

    Returns
    -------
    classifier
        Fitted, with its parameters, basis, posterior, certificate, trace and calibration. Methods that need the
        training rows take them as arguments. A fit that formed no Hessian (possible with many rows and a prior) needs
        one call with the rows, such as ``summary(X, y)``, before it can return the posterior or a summary.

    Cost: reads the file twice, and holds its arrays in memory once.

    >>> import tempfile
    >>> from oddsmith import GaussianClassifier, load
    >>> model = GaussianClassifier().fit([[0.0], [2.0], [1.0], [3.0]], ["well", "well", "sick", "sick"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/m.odds")
    ...     again = load(f"{folder}/m.odds")
    >>> bool((again.predict_proba([[0.7]]) == model.predict_proba([[0.7]])).all())
    True
    """
    register_types()
    model = read_model(path)
    if type(model) not in [kind for _, kind in MODELS.items()]:
        raise ModelFileError(f"{os.fspath(path)!r} holds a {type(model).__name__}, which is not a model.")
    return model


def provenance(model: ClassifierLike) -> dict[str, Any]:
    """Return the provenance of a fitted model as plain JSON, without names of machines, people or folders.

    Models that keep their curvature know ``rows``; models that keep their sums know ``weight``, the total weight of the
    rows (their number, if they had no weights).

    >>> from oddsmith import GaussianClassifier
    >>> found = provenance(GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]))
    >>> found["columns"], found["classes"], found["rows"], found["weight"]
    (1, 2, None, 4.0)
    """
    rows, weight = _seen(model)
    return {
        "software": f"oddsmith {oddsmith.__version__}",
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "weight": weight,
        "columns": int(getattr(model, "n_features_in_", 0)) or None,
        "classes": len(model.classes_),
    }


def _seen(model: object) -> tuple[int | None, float | None]:
    """Return the number and total weight of the training rows, each None if unknown."""
    if isinstance(model, RecalibratedClassifier):
        return _seen(model.model_)
    if isinstance(model, LogisticRegression) and model._learned is not None:
        learned, earlier = model._learned, model._earlier
        return int(earlier.n_rows + learned.n_rows), float(np.sum(earlier.class_weight + learned.class_weight))
    if isinstance(model, MergeMixin):
        return None, float(np.sum(model._sums.weight))
    folded = model._folded if isinstance(model, GenerativeMixin) else None
    return None, None if folded is None else float(np.sum(folded.statistic.weight))


def register_types() -> None:
    """Register all types; repeated at each use, because models and bases can be registered at any time."""
    for registry in (MODELS, BASES, PRIORS, SOLVERS, STATISTICS):
        for _, kind in registry.items():
            register(kind)
    for kind in (*RECORDS, *FOLD_TYPES):
        register(kind, FILE_NAMES.get(kind))
    for name, link in LINKS.items():
        register_value(link, f"link {name}")
    for name, function in (("as it is", as_it_is), ("nothing", zero_column)):
        register_value(function, name)
    PLAIN[LevelNames] = PLAIN[TextLevels] = lambda texts: {"tuple": list(texts)}


register_types()  # imports every model now: loading a file imports nothing
