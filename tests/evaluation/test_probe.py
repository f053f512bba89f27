"""Linear probes on rows in memory: what each scale of the sweep says must be what a fit of its own says."""

import builtins
import sys

import numpy as np
import pytest

from oddsmith import LogisticRegression, probe
from oddsmith.errors import InvalidInputError
from oddsmith.evaluation.probe import SCALES
from oddsmith.plots import WidthDisplay
from oddsmith.rows.device import is_on_device


def embeddings(rows: int, columns: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(classes, size=rows)
    return rng.normal(size=(rows, columns)) + rng.normal(size=(classes, columns))[y], y


@pytest.mark.parametrize("classes", [2, 5])
def test_every_scale_equals_a_fit_of_its_own(classes: int) -> None:
    X, y = embeddings(500, 8, classes)
    scales = [1.0, 0.05, 0.3]
    result = probe(X, y, scales=scales, validation=0.25, seed=4)
    order = np.random.default_rng(4).permutation(500)
    train, held = np.sort(order[125:]), np.sort(order[:125])
    for point, scale in zip(result.points, scales, strict=True):
        model = LogisticRegression(prior=scale).fit(X[train], y[train])
        losses = -model.predict_log_proba(X[held])[np.arange(125), y[held]]
        assert point.scale == scale and point.certificate.converged
        assert point.log_loss == pytest.approx(losses.mean(), rel=1e-5)
        assert point.std_error == pytest.approx(losses.std() / np.sqrt(125), rel=1e-4)
        assert point.accuracy == pytest.approx(model.score(X[held], y[held]))
    best = scales[int(np.argmin([point.log_loss for point in result.points]))]
    assert result.best_scale == best and result.model.prior == best
    assert result.model.n_features_in_ == 8


def test_the_table_has_a_row_for_each_scale_and_the_picture_marks_the_best() -> None:
    X, y = embeddings(300, 4, 3)
    result = probe(X, y)
    table = result.to_dict()
    assert table["scale"] == list(SCALES) and all(table["converged"])
    assert str(result).splitlines()[0].split()[:4] == ["scale", "log_loss", "std_error", "accuracy"]
    display = WidthDisplay.from_probe(result).plot()
    assert display.chosen == {"held_out": result.best_scale}
    assert "held-out rows" in display.figure_.axes[0].get_legend_handles_labels()[1][0]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"scales": []}, "at least one"),
        ({"scales": [1.0, -1.0]}, "positive"),
        ({"validation": 1.5}, "between 0 and 1"),
        ({"validation": 0.999999}, "too few"),
    ],
)
def test_bad_input_gets_a_sentence(given: dict, what: str) -> None:
    X, y = embeddings(40, 2, 2)
    with pytest.raises(InvalidInputError, match=what):
        probe(X, y, **given)


def test_a_class_with_held_out_rows_only_is_refused() -> None:
    X, y = embeddings(40, 2, 2)
    held = np.random.default_rng(0).permutation(40)[:8]
    y[held[0]] = 9
    with pytest.raises(InvalidInputError, match="held-out rows only"):
        probe(X, y, scales=[1.0])


def test_without_pytorch_a_device_is_refused_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without_torch(name: str, *args: object, **kwargs: object) -> object:
        if name.partition(".")[0] == "torch":
            raise ImportError("No module named 'torch'")
        return found(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torch"]:
        monkeypatch.delitem(sys.modules, name)
    for module in ("oddsmith.data_access.device_data", "oddsmith.engines.gpu"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    X, y = embeddings(40, 2, 2)
    with pytest.raises(InvalidInputError, match=r"pip install 'oddsmith\[gpu\]'"):
        LogisticRegression().fit(X, y, device="cuda")
    with pytest.raises(InvalidInputError, match="PyTorch"):
        probe(X, y, device="cuda")


def test_arrays_in_memory_are_not_on_a_device() -> None:
    class OnGpu:
        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    assert is_on_device(OnGpu())
    assert not is_on_device(np.eye(2)) and not is_on_device([[1.0]])
