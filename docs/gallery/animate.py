"""Make the animations of docs/course/animations.md: GIFs that play once, into docs/gallery/figures/.

python docs/gallery/animate.py
"""

import io
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from oddsmith import LogisticRegression, record_weights
from oddsmith.lectures.algorithms import batch_gradient, irls, with_ones
from oddsmith.links import LINKS
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, color_of, scatter_classes, style

FIGURES = Path(__file__).parent / "figures"
sigmoid = LINKS["logit"].inverse


def boundaries() -> dict[str, np.ndarray]:
    """Return rows, labels and the weights of every iteration of two methods."""
    rng = np.random.default_rng(4)
    X = np.vstack([rng.normal([-1.0, -0.6], 0.8, (50, 2)), rng.normal([1.0, 0.6], 0.8, (50, 2))])
    t = np.repeat([0, 1], 50)
    Phi, start = with_ones(X), np.array([0.5, -0.6, 0.8])
    gradient = batch_gradient(Phi, t, start, 0.02, 1e-3, max_iter=60).weights
    return {"X": X, "t": t, "gradient descent": gradient, "Newton (IRLS)": irls(Phi, t, start, 1e-8).weights}


def boundary_frames() -> Iterator[plt.Figure]:
    """Yield the boundary of either method, iteration by iteration."""
    found = boundaries()
    X, t, a = found["X"], found["t"], np.array([-4.0, 4.0])
    for i in [*range(9), *range(10, 61, 5)]:
        axes = new_axes(1, 2, (6.4, 3.3), sharex=True, sharey=True)
        with style():
            for ax, name in zip(axes, ("gradient descent", "Newton (IRLS)"), strict=True):
                w0, w1, w2 = found[name][min(i, len(found[name]) - 1)]
                scatter_classes(ax, X, t, ["0", "1"])
                for p, look in ((0.1, ":"), (0.5, "-"), (0.9, ":")):
                    ax.plot(
                        a, (np.log(p / (1 - p)) - w0 - w1 * a) / w2, color=INK, ls=look, lw=1.6 if p == 0.5 else 1.0
                    )
                activation = with_ones(X) @ [w0, w1, w2]
                value = float(np.sum(t * activation - np.logaddexp(0.0, activation)))
                ax.set(xlabel="x0", ylabel="x1", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
                ax.set_title(f"{name}: step {min(i, len(found[name]) - 1)}, ln p = {value:.1f}")
                ax.label_outer()
        yield axes[0].figure


def steepness() -> dict[str, np.ndarray]:
    """Return the weights on separable rows at each iteration: without a prior, and with one of σ = 2."""
    x, t = np.array([-2.0, -1.2, -0.7, 0.6, 1.1, 2.1]), np.array([0, 0, 0, 1, 1, 1])
    with record_weights():
        model = LogisticRegression(prior=2.0, solver="newton").fit(x[:, None], t)
    free = irls(with_ones(x), t, [0.0, 0.0], 1e-8, max_iter=12).weights
    return {"x": x, "t": t, "maximum likelihood": free, "prior of σ = 2": model.trace_.weights}


def sigmoid_frames() -> Iterator[plt.Figure]:
    """Yield the sigmoid on separable rows, iteration by iteration."""
    found = steepness()
    grid = np.linspace(-3.0, 3.0, 300)
    for i in range(13):
        axes = new_axes(1, 2, (6.4, 3.0), sharey=True)
        with style():
            for ax, name in zip(axes, ("maximum likelihood", "prior of σ = 2"), strict=True):
                w0, w1 = found[name][min(i, len(found[name]) - 1)]
                ax.plot(grid, sigmoid(w0 + w1 * grid), color=color_of(0))
                ax.plot(found["x"], found["t"], "o", color=color_of(2), ms=5)
                ax.set(xlabel="x", ylabel="probability", ylim=(-0.06, 1.06))
                ax.set_title(f"{name}: step {min(i, len(found[name]) - 1)}, w = {w1:.2f}")
                ax.label_outer()
        yield axes[0].figure


ANIMATIONS = {"boundary_over_iterations": boundary_frames, "sigmoid_over_iterations": sigmoid_frames}


def picture(figure: plt.Figure) -> Image.Image:
    """Return a figure as a picture of few colours."""
    page = io.BytesIO()
    figure.savefig(page, format="png", dpi=100)
    plt.close(figure)
    return Image.open(page).convert("RGB").quantize(48, dither=Image.Dither.NONE)


def main() -> None:
    """Write all animations."""
    matplotlib.use("agg")
    for name, frames in ANIMATIONS.items():
        first, *rest = map(picture, frames())
        path = FIGURES / f"{name}.gif"
        times = [900, *[450] * (len(rest) - 1), 2500]
        first.save(path, save_all=True, append_images=rest, duration=times, optimize=True, disposal=1)
        print(f"{name}: {1 + len(rest)} frames, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
