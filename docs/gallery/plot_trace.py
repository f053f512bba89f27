"""The log likelihood of three solvers against the iteration, and the distance of the objective from its optimum.

Newton's method converges in a few iterations, each of which doubles the number of correct digits; gradient descent
needs more than a hundred passes over the data.
"""

import warnings

from sklearn.datasets import load_breast_cancer

from oddsmith import LogisticRegression, Standardize
from oddsmith.errors import ConvergenceWarning
from oddsmith.plots import TraceDisplay, figure_legend, new_axes

X, y = load_breast_cancer(return_X_y=True)
models = {}
for solver in ("newton", "truncated-newton", "gradient"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the gradient is stopped early
        model = LogisticRegression(prior=1.0, basis=Standardize(), solver=solver, max_iter=100)
        models[solver] = model.fit(X, y)

left, right = new_axes(1, 2, (7.0, 3.6))
display = TraceDisplay.from_estimator(models).plot(left, legend=False)
display.plot(right, gap=True, what="objective", over="passes", legend=False)
left.set_xlim(-1, 31)
figure_legend(left)
figure = display.figure_
