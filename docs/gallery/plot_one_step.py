"""Linear regression by Newton: a sum of squares is a paraboloid, so one step from anywhere reaches its minimum.

Gradient descent on the same function needs many steps.
"""

import numpy as np

from oddsmith import gradient_descent, newton_raphson
from oddsmith.plots import PathDisplay

rng = np.random.default_rng(1)
Phi = rng.normal(size=(60, 2)) @ np.array([[1.0, 0.8], [0.0, 0.4]])
t = Phi @ [1.0, 2.0] + rng.normal(0, 0.5, 60)


def f(w):
    """Half the sum of squares."""
    return 0.5 * ((Phi @ w - t) ** 2).sum()


def gradient(w):
    """Φᵀ(Φw − t)."""
    return Phi.T @ (Phi @ w - t)


H = Phi.T @ Phi
starts = {"from the left": [-1.0, 1.5], "from the right": [2.8, 2.6]}
newton = {f"Newton {name}": newton_raphson(f, gradient, lambda w: H, start) for name, start in starts.items()}
step_size = 1.6 / np.linalg.eigvalsh(H)[-1]
slow = gradient_descent(f, gradient, starts["from the left"], step_size=step_size, tol=0.05)
display = PathDisplay.from_paths(f, {"gradient": slow, **newton}).plot()
figure = display.figure_
