"""Models in files: which types a file may hold, and where a model says that it comes from.

A file names types, and only these lists give the names a meaning. Models, bases, priors, solvers and statistics come
from their registries; what else a fitted model is made of stands here.
"""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import numpy as np
from narwhals import Implementation

import oddsmith
from oddsmith import statistics as _statistics  # noqa: F401
from oddsmith.decision.calibration import IsotonicMap, LinearMap
from oddsmith.design.basis import BASES, Expansion
from oddsmith.design.basis.base import Composed
from oddsmith.design.basis.rows import Rows
from oddsmith.design.basis.spline import Picked
from oddsmith.design.encoding import Encoder
from oddsmith.design.expressions import Expression
from oddsmith.design.functions import Center, Poly, Scale, Splines
from oddsmith.design.levels import Category, Seen
from oddsmith.design.sight import Sight
from oddsmith.design.survey import Drawn, Roles, Survey, SurveyParams
from oddsmith.design.table import Design
from oddsmith.design.terms import Factor, Term
from oddsmith.engines.parted import Piece, as_it_is
from oddsmith.errors import InvalidInputError, ModelFileError
from oddsmith.inference.left_out import LeftOut, LeftOutParams
from oddsmith.inference.separation import Separation
from oddsmith.inference.widths import Selection
from oddsmith.kernels.rowwise import At
from oddsmith.links import LINKS
from oddsmith.models import MODELS
from oddsmith.models.bayesian import Earlier
from oddsmith.models.columnwise import NaiveDensities, Plan
from oddsmith.models.coordinates import Coordinates
from oddsmith.models.densities import GaussianDensities
from oddsmith.models.families import (
    BernoulliColumns,
    CategoricalColumns,
    GaussianColumns,
    MultinomialColumns,
    PoissonColumns,
)
from oddsmith.models.generative import Folded, Solution
from oddsmith.models.learned import Learned
from oddsmith.models.nearest import Nearest, NearestParams
from oddsmith.models.null import nothing
from oddsmith.models.online import OnlineState
from oddsmith.models.sharding import Shard, ShardParams
from oddsmith.models.viewing import After, TwoClasses
from oddsmith.persistence import read_model, register, write_model
from oddsmith.persistence.codec import register_value
from oddsmith.priors import PRIORS, Anchored, Inherited, Quadratic
from oddsmith.records import Certificate, Trace
from oddsmith.solvers import SOLVERS
from oddsmith.statistic import STATISTICS, Shape
from oddsmith.statistics import CurvatureParams, FeaturesParams, MomentsParams
from oddsmith.statistics.extent import ExtentParams
from oddsmith.statistics.losses import LossesParams
from oddsmith.statistics.sample import SampleParams
from oddsmith.statistics.scores import LeverageParams

RECORDS = (
    *(Certificate, Trace, Selection, Separation),
    *(Expansion, Coordinates, Learned, Earlier, OnlineState, Anchored, Inherited, Quadratic),
    *(Folded, Solution, Plan, NaiveDensities, GaussianDensities),
    *(BernoulliColumns, CategoricalColumns, GaussianColumns, MultinomialColumns, PoissonColumns),
    *(LinearMap, IsotonicMap),
    *(Design, Category, Seen, Term, Factor, Expression, Center, Poly, Scale, Splines),
    Implementation,  # of the table that a model was fitted to: samples come back as one
)

ASKED = (
    *(CurvatureParams, ExtentParams, FeaturesParams, LossesParams, MomentsParams, SampleParams, Shape),
    *(At, LeverageParams, LeftOut, LeftOutParams),
    *(Survey, SurveyParams, Roles, Sight, Drawn, Piece, Encoder),
    *(Nearest, NearestParams, Rows, Shard, ShardParams, Composed, Picked, After, TwoClasses),
)
"""What folds are asked for by: no part of a model, but of journals and of messages between sites."""


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file; see ``Classifier.save``."""
    model._check_fitted()
    if hasattr(model, "_curved"):
        # A fit that needed no Hessian has no posterior yet: formed now, if its rows are still there.
        with suppress(InvalidInputError):
            model._curved()
    register_types()
    write_model(path, model, provenance(model))


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model in a file that ``model.save(path)`` wrote: it predicts the same, to the bit.

    A file is numbers and JSON: no code in it is run, no name in it is imported. It is held against its checksum
    first. Anything that is not a whole model file of this version or an older one is a `ModelFileError`.

    Parameters
    ----------
    path : str or path
        Of the file.

    Returns
    -------
    classifier
        Fitted, with its parameters, basis, posterior, certificate, trace and calibration. What needs the rows of the
        fit takes them again.

    Cost: the file is read twice, and its arrays are held in memory once.

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
        raise ModelFileError(f"{os.fspath(path)!r} holds a {type(model).__name__}, which is no model.")
    return model


def provenance(model: Any) -> dict[str, Any]:
    """Return where a fitted model comes from, as plain JSON: no name of a machine, a person or a folder.

    ``rows`` is known to models that keep their curvature, ``weight`` (the total weight of the rows; their number, where
    they had none) to those that keep their sums.

    >>> from oddsmith import GaussianClassifier
    >>> made = provenance(GaussianClassifier().fit([[0.0], [1.0], [4.0], [5.0]], ["a", "a", "b", "b"]))
    >>> made["columns"], made["classes"], made["rows"], made["weight"]
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


def _seen(model: Any) -> tuple[int | None, float | None]:
    """Return number and total weight of the rows that a model was fitted to, each None where it keeps neither."""
    if hasattr(model, "_inner"):
        return _seen(model._inner)
    learned = getattr(model, "_learned", None)
    if learned is not None:
        earlier = model._earlier
        return int(earlier.n_rows + learned.n_rows), float(np.sum(earlier.class_weight + learned.class_weight))
    sums = getattr(model, "_sums", getattr(getattr(model, "_folded", None), "statistic", None))
    return None, None if sums is None else float(np.sum(sums.weight))


def register_types() -> None:
    """Name all types; again at each use, because models and bases can be registered at any time."""
    for registry in (MODELS, BASES, PRIORS, SOLVERS, STATISTICS):
        for _, kind in registry.items():
            register(kind)
    for kind in (*RECORDS, *ASKED):
        register(kind)
    for name, link in LINKS.items():
        register_value(link, f"link {name}")
    for name, function in (("as it is", as_it_is), ("nothing", nothing)):
        register_value(function, name)
