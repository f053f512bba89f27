"""Three classes from two-class rules: one-vs-rest and one-vs-one leave the hatched regions undecided.

The largest of three linear functions leaves no region undecided: its regions meet in a point.
"""

import numpy as np

from oddsmith import LeastSquaresClassifier, OneVsOne, OneVsRest
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes

rng = np.random.default_rng(0)
angles = 2 * np.pi / 3 * np.arange(3)
turns = [np.array([[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]]) for a in angles]
X = np.vstack([np.column_stack([rng.normal(3, 0.3, 40), rng.normal(1.5, 1.2, 40)]) @ turn.T for turn in turns])
y = np.repeat(["C1", "C2", "C3"], 40)

models = {
    "one against the rest": OneVsRest(LeastSquaresClassifier()),
    "one against one": OneVsOne(LeastSquaresClassifier()),
    "the largest of three": LeastSquaresClassifier(),
}
axes = new_axes(1, 3, (7.0, 2.9), sharex=True, sharey=True)
displays = {}
for ax, (name, model) in zip(axes, models.items(), strict=True):
    displays[name] = DecisionRegionDisplay.from_estimator(model.fit(X, y), X, y).plot(ax, legend=False, title=name)
    ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
