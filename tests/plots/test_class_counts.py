"""Figures of two, a dozen and forty classes, with names that are long, strange or not words: all fit, all are named."""

import warnings
from typing import Any

import numpy as np
import pytest

from oddsmith import GaussianClassifier, LogisticRegression
from oddsmith.plots import (
    ClassDensityDisplay,
    CoefficientDisplay,
    DecisionRegionDisplay,
    PosteriorMapDisplay,
    UncertaintyMapDisplay,
)
from oddsmith.plots.style import shortened

NAMES: dict[str, Any] = {
    "long": lambda k: f"$class_{k}$ with a name that goes on and on",
    "numbers": lambda k: k - 1,
    "marked": lambda k: f"_<b>{k}\\$ & #%",
}
MAKE: dict[str, Any] = {
    "regions": lambda m, X, y: DecisionRegionDisplay.from_estimator(m, X, y, resolution=40),
    "maps": lambda m, X, y: PosteriorMapDisplay.from_estimator(m, X, y, resolution=20),
    "uncertainty": lambda m, X, y: UncertaintyMapDisplay.from_estimator(m, X, y, resolution=12),
    "coefficients": lambda m, X, y: CoefficientDisplay.from_estimator(m),
    "densities": lambda m, X, y: ClassDensityDisplay.from_estimator(GaussianClassifier().fit(X[:, :1], y)),
}


def classes(K: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(K)
    centres = rng.normal(0.0, 4.0, (K, 2))
    labels = np.array([NAMES[name](k) for k in range(K)])
    return np.vstack([rng.normal(centre, 1.0, (6, 2)) for centre in centres]), np.repeat(labels, 6)


@pytest.mark.parametrize(("K", "name"), [(2, "long"), (3, "numbers"), (4, "marked"), (12, "long"), (40, "long")])
def test_figures_of_any_number_of_classes_leave_room_for_what_they_show(K: int, name: str) -> None:
    X, y = classes(K, name)
    model = LogisticRegression(prior=1.0).fit(X, y)
    for kind, make in MAKE.items():
        if (kind, K) == ("maps", 40) or (kind == "uncertainty" and K > 4):
            continue  # they are drawn when asked for, but take seconds
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # matplotlib warns when nothing is left of the axes
            display = make(model, X, y).plot()
            display.figure_.draw_without_rendering()
        width, height = display.figure_.bbox.size
        for ax in display.axes_:
            assert ax.bbox.width > 0.2 * width / (3 if kind == "maps" else 1), kind
            assert ax.bbox.height > 0.35 * height / (len(display.axes_) if kind != "maps" else 4), kind
        legend = display.ax_.get_legend() or (display.figure_.legends or [None])[0]
        if legend is not None:
            box = legend.get_window_extent()
            assert box.x0 >= -2 and box.x1 <= width + 2 and box.y0 >= -2 and box.y1 <= height + 2, kind


def test_legend_that_is_too_long_says_how_many_it_leaves_out() -> None:
    X, y = classes(40, "long")
    display = DecisionRegionDisplay.from_estimator(LogisticRegression(prior=1.0).fit(X, y), X, y, resolution=20).plot()
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts[-1] == f"… and {40 - len(texts) + 1} more" and len(texts) > 10
    assert texts[0].startswith("\\$class_") and texts[0].endswith("on and on") and len(texts[0]) <= 24


@pytest.mark.parametrize("labels", [["b", "b"], None])
def test_plane_of_one_class_is_drawn(labels: list[str] | None) -> None:
    model = LogisticRegression(prior=1.0).fit([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 3.0]], ["a", "a", "b", "b"])
    display = DecisionRegionDisplay.from_estimator(model, [[10.0, 10.0], [11.0, 11.0]], labels).plot()
    assert set(np.unique(display.regions)) == {1} and display.class_at(10, 10) == "b"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["a", "b"]


def test_shortened_text_is_never_half_of_an_escape() -> None:
    for longest in range(3, 20):
        text = shortened("abcd\\$efgh\\$ijklmnopqrst", longest)
        assert len(text) <= longest and "\\…" not in text
