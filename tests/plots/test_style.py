"""One look: readable by the colour-blind and in grey, and no trace of it in the user's settings."""

from itertools import combinations

import matplotlib
import numpy as np
import pytest

from oddsmith.plots.style import MARKERS, PALETTE, Display, color_of, columns_that_fit, marker_of, new_axes, style

# Machado, Oliveira and Fernandes, A physiologically-based model for simulation of color vision deficiency, 2009:
# severity 1, in linear RGB.
VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def lab(color: str, seen_by: str = "usual") -> np.ndarray:
    """CIE Lab of a colour as seen by some eyes."""
    c = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.clip(VISION[seen_by] @ np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4), 0.0, 1.0)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x = to_xyz @ linear / to_xyz.sum(axis=1)
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_first_four_colours_are_apart_in_grey() -> None:
    lightness = [lab(color)[0] for color in PALETTE[:4]]
    assert min(abs(a - b) for a, b in combinations(lightness, 2)) >= 20.0


@pytest.mark.parametrize("eyes", VISION)
def test_first_four_colours_are_apart_for_all_eyes(eyes: str) -> None:
    distances = [np.linalg.norm(lab(a, eyes) - lab(b, eyes)) for a, b in combinations(PALETTE[:4], 2)]
    assert min(distances) >= 25.0


@pytest.mark.parametrize("eyes", VISION)
def test_all_colours_with_their_markers_differ(eyes: str) -> None:
    assert len(set(MARKERS)) == len(MARKERS) >= len(PALETTE)
    distances = [np.linalg.norm(lab(a, eyes) - lab(b, eyes)) for a, b in combinations(PALETTE, 2)]
    assert min(distances) >= 5.0


def test_many_classes_get_a_pair_of_colour_and_marker_each() -> None:
    assert len({(color_of(k), marker_of(k)) for k in range(60)}) == 60


def test_style_leaves_the_settings_of_the_user() -> None:
    before = dict(matplotlib.rcParams)
    with pytest.raises(ZeroDivisionError), style():
        assert matplotlib.rcParams["legend.frameon"] is False
        raise ZeroDivisionError
    new_axes(1, 2)
    assert dict(matplotlib.rcParams) == before


def test_ticks_drawn_later_keep_the_look() -> None:
    (ax,) = new_axes()
    ax.plot([0, 1], [0, 1])
    ax.figure.canvas.draw()
    assert {label.get_fontsize() for label in ax.get_xticklabels()} == {9.0}


def test_long_legends_get_fewer_columns() -> None:
    labels = ["a rather long label of a line"] * 4
    found = [columns_that_fit(labels, width) for width in (12.0, 6.0, 1.0)]
    assert found[0] == 4 > found[1] > found[2] == 1


def test_a_display_must_say_how_it_is_drawn() -> None:
    with pytest.raises(TypeError, match="must define plot"):
        Display().plot()
