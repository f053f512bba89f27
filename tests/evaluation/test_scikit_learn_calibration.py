"""scikit-learn's own tests of calibration, read from the installed package and run on ours through a thin shim.

Nothing of theirs is copied: the file is read, and ``sklearn.calibration`` in it is replaced by the classes below. Tests
that ask for what is different on purpose are expected to fail, each with its reason; docs/recalibration.md has them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sklearn
import sklearn.calibration
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import check_cv
from sklearn.svm import LinearSVC

from oddsmith import RecalibratedClassifier, recalibrate
from oddsmith.decision.calibration import fit_map

THEIRS = Path(sklearn.__file__).parent / "tests" / "test_calibration.py"
METHODS = {"sigmoid": "logistic", "temperature": "temperature", "isotonic": "isotonic"}

if not THEIRS.exists() or not hasattr(sklearn.calibration, "_TemperatureScaling"):
    pytest.skip("this version of scikit-learn has no temperature, or comes without tests", allow_module_level=True)

ENSEMBLE = "one map is learned from all folds, and one model is fitted to all rows: there is no ensemble"
PARAMETERS = "fit accepts rows, labels and weights, but no further fit parameters of the inner model"
TWO_DIMENSIONS = "rows must be a table or a matrix, not an array of more dimensions"
FOLDS = "a class with fewer rows than folds reduces the number of folds instead of raising an error"
DIFFERENT = {
    "test_calibration_cv_splitter[True]": ENSEMBLE,
    "test_calibration_cv_nfold": FOLDS,
    "test_calibration_less_classes[True]": ENSEMBLE,
    "test_calibration_with_fit_params": PARAMETERS,
    "test_calibration_with_non_sample_aligned_fit_param": PARAMETERS,
    "test_calibration_accepts_ndarray": TWO_DIMENSIONS,
}
NOT_HERE = {
    "test_calibration_display": "oddsmith.plots.ReliabilityDisplay is a separate class",
    "test_plot_calibration": "oddsmith.plots.ReliabilityDisplay is a separate class",
    "test_calibration_curve": "oddsmith.evaluation.reliability_curve has other arguments",
    "test_calibration_zero_probability": "it constructs scikit-learn's internal objects",
    "test_temperature_scaling_array_api": "rows on other devices are not accepted",
}
"""Beginnings of the names of tests of what does not exist here."""


class Calibrated(ClassifierMixin, BaseEstimator):
    """RecalibratedClassifier under scikit-learn's name and parameters."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "sigmoid",
        cv: Any = None,
        n_jobs: Any = None,
        ensemble: Any = "auto",
    ) -> None:
        self.estimator, self.method, self.cv, self.n_jobs, self.ensemble = estimator, method, cv, n_jobs, ensemble

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        from sklearn.frozen import FrozenEstimator

        method = METHODS.get(self.method, self.method)
        if isinstance(self.estimator, FrozenEstimator):
            self.ours_ = recalibrate(self.estimator.estimator, X, y, method, sample_weight=sample_weight)
        else:
            model = LinearSVC(random_state=0) if self.estimator is None else clone(self.estimator)
            cv = check_cv(self.cv, y, classifier=True)
            self.ours_ = RecalibratedClassifier(model, method, cv=cv).fit(X, y, sample_weight=sample_weight)
        self.classes_ = self.ours_.classes_
        if hasattr(self.ours_, "n_features_in_"):
            self.n_features_in_ = self.ours_.n_features_in_
        slope = getattr(self.ours_.map_, "slope", None)
        inside = Temperature()
        inside.beta_ = slope
        self.calibrated_classifiers_ = [
            SimpleNamespace(estimator=self.ours_.model_, calibrators=[inside], predict_proba=self.predict_proba)
        ]
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.ours_.predict_proba(X)

    def predict(self, X: Any) -> Any:
        return self.ours_.predict(X)


def scores(F: Any) -> Any:
    """A decision function as activations, as `recalibrate` has them."""
    f = np.asarray(F, dtype=float)
    f = f[:, 0] if f.ndim == 2 and f.shape[1] == 1 else f
    if f.ndim > 1:
        raise ValueError("one decision value a row")
    return np.column_stack([-0.5 * f, 0.5 * f])


def sigmoid_calibration(
    predictions: Any, y: Any, sample_weight: Any = None, max_abs_prediction_threshold: float = 30
) -> tuple[float, float]:
    """Platt's A and B in 1 / (1 + exp(A f + B)); the threshold is not needed."""
    found: Any = fit_map(scores(predictions), (np.asarray(y) > 0).astype(int), "logistic", sample_weight)
    return -found.slope, float(found.shift[0] - found.shift[1])


class Sigmoid(BaseEstimator):
    """The logistic map of a decision function."""

    def fit(self, F: Any, y: Any) -> Any:
        self.a_, self.b_ = sigmoid_calibration(F, y)
        return self

    def predict(self, F: Any) -> Any:
        return 1.0 / (1.0 + np.exp(self.a_ * np.asarray(F) + self.b_))


class Temperature(BaseEstimator):
    """The temperature of probabilities (N × K) or of a decision function."""

    def _read(self, F: Any) -> tuple[Any, bool]:
        f = np.asarray(F)
        stated = f.ndim == 2 and f.shape[1] > 1
        return (np.log(f) if stated else scores(f)), stated

    def fit(self, F: Any, y: Any) -> Any:
        A, stated = self._read(F)
        self.map_: Any = fit_map(A, np.asarray(y), "temperature", stated=stated)
        self.beta_ = self.map_.slope
        return self

    def predict(self, F: Any) -> Any:
        return np.exp(self.map_(self._read(F)[0]))


def their_module() -> dict[str, Any]:
    """The names of their file, with ours in place of ``sklearn.calibration``."""
    shim = ModuleType("sklearn.calibration")
    vars(shim).update(vars(sklearn.calibration))
    vars(shim).update(
        CalibratedClassifierCV=Calibrated,
        _sigmoid_calibration=sigmoid_calibration,
        _SigmoidCalibration=Sigmoid,
        _TemperatureScaling=Temperature,
    )
    names: dict[str, Any] = {"__name__": __name__, "__file__": str(THEIRS)}
    original, sys.modules["sklearn.calibration"] = sys.modules["sklearn.calibration"], shim
    source = THEIRS.read_text(encoding="utf-8").replace("@pytest.mark.thread_unsafe\n", "\n")  # a mark of their runner
    try:
        exec(compile(source, str(THEIRS), "exec"), names)
    finally:
        sys.modules["sklearn.calibration"] = original
    kept = {n: v for n, v in names.items() if not n.startswith(("__", *NOT_HERE)) and n not in globals()}
    for name, test in kept.items():
        if f"{name}[True]" not in DIFFERENT:
            test_once(test)
    return kept


def test_once(test: Any) -> None:
    """Leave one value of a test's parameter ``ensemble``: ours has none, and would do the same again."""
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize" and mark.args[0] == "ensemble":
            mark.args[1][:] = [False]


test_once.__test__ = False  # type: ignore[attr-defined]


globals().update(their_module())


@pytest.fixture
def global_random_seed() -> int:
    return 42


@pytest.fixture(params=[np.float64, np.float32])
def global_dtype(request: Any) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def known_difference(request: Any) -> Iterator[None]:
    """Expect what is different on purpose to fail: if it passes, the list is wrong."""
    node = request.node
    for name in (node.name, node.originalname):
        if name in DIFFERENT:
            request.applymarker(pytest.mark.xfail(reason=DIFFERENT[name], strict=True))
    yield


pytestmark = pytest.mark.filterwarnings("ignore")
