"""Gradient descent zigzags through a narrow valley; Newton's method goes straight to the bottom.

Both minimise the cross-entropy of a logistic regression with two weights on correlated columns. The axes have equal
scales, so each gradient step is perpendicular to its contour.
"""

import numpy as np

from oddsmith import gradient_descent, newton_raphson
from oddsmith.links import LINKS
from oddsmith.plots import PathDisplay, new_axes

rng = np.random.default_rng(5)
X = rng.normal(size=(100, 2)) @ np.array([[1.0, 0.9], [0.0, 0.35]])
sigmoid = LINKS["logit"].inverse
t = (rng.random(100) < sigmoid(X @ [1.0, 1.5])) * 1.0


def f(w):
    """Cross-entropy with a weak prior."""
    return np.logaddexp(0.0, X @ w).sum() - t @ X @ w + 0.05 * w @ w


def gradient(w):
    """Φᵀ(y − t), and the prior's part."""
    return X.T @ (sigmoid(X @ w) - t) + 0.1 * w


def hessian(w):
    """Φᵀ R Φ, and the prior's part."""
    y = sigmoid(X @ w)
    return (X.T * (y * (1.0 - y))) @ X + 0.1 * np.eye(2)


start = np.array([-0.6, 2.5])
newton = newton_raphson(f, gradient, hessian, start, tol=1e-4)
step_size = 1.9 / np.linalg.eigvalsh(hessian(newton.x))[-1]  # with 2 it would never arrive
paths = {
    "gradient descent": gradient_descent(f, gradient, start, step_size=step_size, tol=0.02),
    "Newton–Raphson": newton,
}
(ax,) = new_axes(1, 1, (5.6, 5.0))
display = PathDisplay.from_paths(f, paths, limits=((-0.9, 1.4), (1.1, 3.0))).plot(ax)
ax.set_aspect("equal")
figure = ax.figure
