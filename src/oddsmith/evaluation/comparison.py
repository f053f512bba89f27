"""Comparison of classifiers: the same folds, paired differences, and the best within noise."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.preprocessing import StandardScaler

from oddsmith.design.inputs import as_table, read_labels, split_target
from oddsmith.design.text_columns import recognise
from oddsmith.errors import InvalidInputError, InvalidTypeError, UnknownNameError
from oddsmith.evaluation.model_output import ModelOutput, predict_output, provides
from oddsmith.evaluation.sums import auc_of, brier_losses, log_losses
from oddsmith.models import MODELS, RecalibratedClassifier
from oddsmith.models.base import Classifier
from oddsmith.models.wrapper_mixin import WrapperMixin, take
from oddsmith.numerics import Array
from oddsmith.protocols import Indices, Labels
from oddsmith.records import Table

LOSSES: dict[str, Callable[[ModelOutput], Array]] = {
    "log_loss": log_losses,
    "brier": brier_losses,
    "error": lambda found: (found.t != found.predicted) * 1.0,
}
NOISE = 1.96
LONGEST_NOTE = 120
PARAMETERS: dict[str, dict[str, Any]] = {
    **{name: {"prior": 1.0} for name in ("logistic", "probit")},  # keeps weights finite for separated classes
    "perceptron": {"max_epochs": 10},
}
SCALED = ("gaussian", "one-vs-rest", "one-vs-one", *PARAMETERS)
"""Families whose columns ``compare("all", …)`` standardises: their size matters to a prior, shrinkage, a perceptron."""


@dataclass(frozen=True, kw_only=True)
class Comparison(Table):
    """Out-of-fold scores of several classifiers, the best first.

    Attributes
    ----------
    by : str
        The score that determines the order.
    best : str or None
        The model with the smallest score.
    within_noise : list of str
        Models whose difference from the best is less than 1.96 standard errors.
    columns : mapping from name to list
        One row per model: ``model``; ``verdict`` (best, within noise, worse, no probabilities, failed); ``log_loss``,
        ``brier``, ``accuracy``, ``auc`` (mean over folds); ``difference`` from the best model in the deciding score,
        and its ``std_error``; ``fit_seconds`` and ``predict_seconds`` over all folds; ``note``, an error or a warning.
    notes : mapping from the name of a model to the full text of its error or warnings
    """

    by: str
    best: str | None
    within_noise: list[str]
    columns: Mapping[str, list[Any]]
    notes: Mapping[str, str]

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: list(column) for name, column in self.columns.items()}

    @property
    def title(self) -> str:  # type: ignore[override]
        """A sentence that names the best model."""
        if self.best is None:
            return f"No model has a {self.by}."
        noise = f"; within noise of it: {', '.join(self.within_noise)}" if self.within_noise else ""
        return f"Best by {self.by}: {self.best}{noise}"


@dataclass(kw_only=True)
class Candidate:
    """A model with the results of its folds so far: loss of each row; sizes and AUC of the folds."""

    name: str
    model: object
    total: dict[str, Array]
    fit_seconds: float = 0.0
    predict_seconds: float = 0.0
    sizes: list[int] = field(default_factory=list)
    areas: list[float] = field(default_factory=list)
    probabilistic: bool = True
    failed: bool = False
    messages: list[str] = field(default_factory=list)

    def run(self, train: tuple[Any, Labels], X_test: object, test: Indices, t: Indices, classes: Labels) -> None:
        """Fit the model to labelled rows; add its losses on the held-out rows ``test``, of classes ``t``."""
        if self.failed:
            return
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            try:
                start = time.perf_counter()
                model = clone(self.model).fit(*train)
                fitted = time.perf_counter()
                output = predict_output(model, X_test, t, classes)
                self.fit_seconds += fitted - start
                self.predict_seconds += time.perf_counter() - fitted
            except Exception as error:  # an error of one model goes into its row
                self.failed, self.messages = True, [f"{type(error).__name__}: {error}"]
                return
        self.messages += [f"{w.category.__name__}: {w.message}" for w in raised]
        self.probabilistic = output.P is not None
        for score, losses in LOSSES.items():
            if output.P is not None or score == "error":
                self.total[score][test] += losses(output)
        if output.values is not None:
            self.sizes.append(len(test))
            self.areas.append(auc_of(output))

    def verdict(self, is_best: bool, difference: float, error: float) -> str:
        """Return the verdict on the model, from its difference from the best one and the standard error."""
        if self.failed or is_best:
            return "failed" if self.failed else "best"
        if not np.isfinite(difference):
            return "no probabilities"
        return "within noise" if difference <= NOISE * error else "worse"


def compare(
    models: object, X: Any, y: Any, cv: object = 5, *, by: str = "log_loss", seed: int = 0, progress: bool | None = None
) -> Comparison:
    """Compare classifiers by cross-validation, all on the same folds.

    The losses of a row under two models are paired: given the folds, the mean difference has the standard error
    ``sd / √N``, far smaller than that of each score alone. Models within 1.96 standard errors of the best are "within
    noise".

    Parameters
    ----------
    models : "all", classifier, list of classifiers, or {name: classifier}
        From this library or scikit-learn. ``"all"``, also as an item of a list, means every family of this library with
        sensible settings.
    X, y : rows and labels
        ``y`` may be the name of a column of the table ``X``.
    cv : int or splitter
        Number of stratified folds, a scikit-learn splitter, or its splits.
    by : "log_loss", "brier" or "error"
        The deciding score.
    seed : int
        Random seed of the folds.
    progress : bool, optional
        Whether to show a progress bar; by default only in a terminal.

    If a model fails, its row shows the error; warnings are shown, too. Cost: the fits and predictions of all folds, and
    a sort of the rows for each class.

    >>> from sklearn.datasets import load_iris
    >>> from sklearn.dummy import DummyClassifier
    >>> from oddsmith import GaussianClassifier, NaiveBayes
    >>> X, y = load_iris(return_X_y=True)
    >>> result = compare({"lda": GaussianClassifier(), "nb": NaiveBayes(), "none": DummyClassifier()}, X, y)
    >>> result.best, result.columns["verdict"]
    ('lda', ['best', 'worse', 'worse'])
    """
    if by not in LOSSES:
        raise UnknownNameError("score to compare by", by, LOSSES)
    X, y = split_target(recognise(X, y)[0], y)  # once, and not in each fold
    if sparse.issparse(X):
        X = X.tocsr()
    X = X if as_table(X) is not None or provides(X, "shape") else np.asarray(X)
    if y is None:
        raise InvalidInputError("compare needs labels y, or the name of their column.")
    classes, t = read_labels(y, X.shape[0])
    folds, codes = make_folds(cv, t, classes, seed), t.astype(np.intp)
    candidates = [
        Candidate(name=name, model=model, total={score: np.zeros(len(t)) for score in LOSSES})
        for name, model in _named(models, len(classes)).items()
    ]
    times_tested = np.zeros(len(t))
    with _progress(len(folds) * len(candidates), progress) as advance:
        for train, test in folds:
            # Every model sees the same rows, which are cut out once.
            learned, X_test = (take(X, train), classes[t[train]]), take(X, test)
            times_tested[test] += 1
            for candidate in candidates:
                candidate.run(learned, X_test, test, codes[test], classes)
                advance(candidate.name)
    return _summarise(candidates, times_tested, by)


def make_folds(cv: object, t: npt.NDArray[np.int32], classes: Labels, seed: int) -> list[tuple[Indices, Indices]]:
    """Return the folds as (train, test); refuse folds whose training rows lack a class."""
    if isinstance(cv, int | np.integer):
        counts = np.bincount(t, minlength=len(classes))
        if isinstance(cv, bool) or not 2 <= cv <= len(t):
            raise InvalidInputError(f"cv must be a whole number from 2 to the number of rows ({len(t)}), found {cv!r}.")
        if counts.min() < 2:
            label = classes.tolist()[int(counts.argmin())]
            raise InvalidInputError(
                f"Class {label!r} has a single row: the fold that tests it has none to learn from. Add rows of this "
                "class, leave it out, or merge it with another class."
            )
        cv = StratifiedKFold(min(int(cv), int(counts.max())), shuffle=True, random_state=seed)
    rows = np.arange(len(t))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class")  # two rows of a class suffice
        try:
            folds = [(rows[train], rows[test]) for train, test in check_cv(cv).split(np.zeros(len(t)), t)]
        except (TypeError, ValueError, IndexError) as error:
            raise InvalidInputError(
                f"cv={cv!r} gives no folds of {len(t)} rows ({error}). Give a number of folds, a splitter of "
                "scikit-learn that needs no more than the labels, or a list of (train, test); for groups, "
                "cv=list(GroupKFold(5).split(X, y, groups))."
            ) from error
    if not folds or any(not len(test) for _, test in folds):
        raise InvalidInputError(f"cv={cv!r} has at least one fold without test rows. Give folds with rows to test.")
    for number, (train, _) in enumerate(folds):
        lost = np.setdiff1d(np.arange(len(classes)), t[train])
        if len(lost):
            raise InvalidInputError(
                f"Fold {number} has no training row of class {classes.tolist()[lost[0]]!r}. Use stratified folds "
                "(cv=5), fewer folds, or leave that class out."
            )
    return folds


def _named(models: object, K: int) -> dict[str, Any]:
    if isinstance(models, str):
        if models != "all":
            raise UnknownNameError("list of models", models, ["all"])
        return default_models(K)
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif isinstance(models, Iterable) and not provides(models, "fit"):
        named = {}
        for model in models:
            if isinstance(model, str) and model == "all":
                named |= default_models(K)
                continue
            name = str(model) if len(str(model)) <= 60 else type(model).__name__
            twice = sum(1 for other in named if other == name or other.startswith(f"{name} #"))
            named[f"{name} #{twice + 1}" if twice else name] = model
    else:
        named = {type(models).__name__: models}
    if not named:
        raise InvalidInputError("There are no models to compare. Give some, or 'all'.")
    for name, model in named.items():
        if isinstance(model, type) or not provides(model, "fit", "predict"):
            raise InvalidTypeError(
                f"{name!r} is {model!r}; expected a classifier, an instance such as LogisticRegression()."
            )
    return named


def default_models(K: int) -> dict[str, Classifier]:
    """Return an instance of every registered family by name, for K classes, with parameters that suit most tables.

    A family not in `PARAMETERS` keeps its defaults. Recalibration wraps other models and is not a family.
    """
    found: dict[str, Classifier] = {}
    for name, kind in MODELS.items():
        if name == "gaussian":
            found["gaussian, shared covariance"] = kind("shared", shrinkage="oas")
            found["gaussian, separate covariances"] = kind("separate", shrinkage="oas")
        elif kind is not RecalibratedClassifier:
            model = kind(**PARAMETERS.get(name, {}))
            found[name] = MODELS["one-vs-rest"](model) if name == "probit" and K > 2 else model
    for name, model in found.items():
        if name.partition(",")[0] in SCALED:
            # Scale inside the model, after its design, so that tables may have categories. Without centring, which none
            # of these models needs, sparse rows stay sparse.
            model.set_params(basis=StandardScaler(with_mean=False))
    return found


def _summarise(candidates: list[Candidate], times_tested: Array, by: str) -> Comparison:
    seen = times_tested > 0
    losses = {c.name: {score: total[seen] / times_tested[seen] for score, total in c.total.items()} for c in candidates}

    def value(c: Candidate, score: str) -> float:
        known = not c.failed and (c.probabilistic or score == "error")
        return float(losses[c.name][score].mean()) if known else np.nan

    def key(c: Candidate) -> tuple[float, ...]:
        # Scores that differ only by the tolerance of fits are ties: a simple model precedes wrappers of it.
        scores = np.nan_to_num([value(c, by), value(c, "error")], nan=np.inf).round(8)
        return c.failed, *scores, isinstance(c.model, WrapperMixin)

    order = sorted(candidates, key=key)
    best = order[0] if np.isfinite(value(order[0], by)) else None
    notes = {c.name: "; ".join(dict.fromkeys(c.messages)) for c in order if c.messages}
    rows = []
    for c in order:
        difference = error = np.nan
        if best is not None and np.isfinite(value(c, by)):
            d = losses[c.name][by] - losses[best.name][by]
            difference, error = float(d.mean()), float(d.std(ddof=1) / np.sqrt(len(d)))
        note = notes.get(c.name, "")
        rows.append(
            {
                "model": c.name,
                "verdict": c.verdict(c is best, difference, error),
                **{score: value(c, score) for score in ("log_loss", "brier")},
                "accuracy": 1.0 - value(c, "error"),
                "auc": np.nan if c.failed or not c.areas else float(np.average(c.areas, weights=c.sizes)),
                "difference": difference,
                "std_error": error,
                "fit_seconds": c.fit_seconds,
                "predict_seconds": c.predict_seconds,
                "note": note if len(note) <= LONGEST_NOTE else note[: LONGEST_NOTE - 1] + "…",
            }
        )
    near = [str(row["model"]) for row in rows if row["verdict"] == "within noise"]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return Comparison(by=by, best=None if best is None else best.name, within_noise=near, columns=columns, notes=notes)


@contextmanager
def _progress(total: int, wanted: bool | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that advances a progress bar; without a terminal there is no bar."""
    from rich.console import Console

    console = Console(stderr=True, force_terminal=wanted or None)
    if wanted is False or not console.is_terminal:
        yield lambda name: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("compare", total=total)
        yield lambda name: bar.update(task, advance=1, description=f"compare: {name}")
