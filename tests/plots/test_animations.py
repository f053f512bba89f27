"""The animations of the course: what they show holds, and their files are those frames."""

import numpy as np
import pytest
from docs.gallery.animate import ANIMATIONS, FIGURES, boundaries, boundary_frames, steepness

from oddsmith import LogisticRegression


def test_both_methods_end_at_the_optimum_and_newton_long_before() -> None:
    found = boundaries()
    model = LogisticRegression().fit(found["X"], found["t"])
    best = np.append(model.intercept_, model.coef_)
    newton, gradient = found["Newton (IRLS)"], found["gradient descent"]
    assert len(newton) < 12 and np.allclose(newton[-1], best, atol=1e-6)
    assert len(gradient) > 40 and np.linalg.norm(gradient[-1] - best) < 0.1 * np.linalg.norm(gradient[0] - best)


def test_weights_run_away_without_a_prior_and_stand_still_with_one() -> None:
    found = steepness()
    free, held = found["maximum likelihood"][:, 1], found["prior of σ = 2"][:, 1]
    assert (np.diff(free) > 0.5).all() and free[-1] > 15
    assert abs(held[-1] - held[-2]) < 1e-3 and held.max() < 3


@pytest.mark.parametrize("name", ANIMATIONS)
def test_file_has_many_frames_and_plays_once(name: str) -> None:
    from PIL import Image

    path = FIGURES / f"{name}.gif"
    assert path.stat().st_size < 250_000
    with Image.open(path) as animation:
        assert animation.n_frames >= 12 and "loop" not in animation.info


def test_first_frame_has_two_panels_with_names() -> None:
    import matplotlib.pyplot as plt

    figure = next(boundary_frames())
    assert [ax.get_title(loc="left").split(":")[0] for ax in figure.axes] == ["gradient descent", "Newton (IRLS)"]
    plt.close(figure)
