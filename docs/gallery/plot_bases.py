"""Two half moons: boundaries from a cubic, ten radial basis functions, and a Gaussian kernel at every row.

No line can separate them. Percentages: accuracy on the samples.
"""

from sklearn.datasets import make_moons

from oddsmith import GaussianKernel, LogisticRegression, Polynomial, RadialBasis
from oddsmith.plots import DecisionRegionDisplay, figure_legend, new_axes

X, codes = make_moons(160, noise=0.15, random_state=0)
y = ["upper" if code == 0 else "lower" for code in codes]

bases = {
    "linear": None,
    "cubic": Polynomial(3),
    "10 radial functions": RadialBasis(10, width=0.6),
    "kernel": GaussianKernel(width=0.6),
}
axes = new_axes(2, 2, (6.4, 4.8), sharex=True, sharey=True)
models, displays = {}, {}
for ax, (name, basis) in zip(axes, bases.items(), strict=True):
    models[name] = LogisticRegression(prior=5.0, basis=basis).fit(X, y)
    title = f"{name}: {100 * models[name].score(X, y):.0f}%, {models[name].n_parameters_} weights"
    displays[name] = DecisionRegionDisplay.from_estimator(models[name], X, y).plot(ax, legend=False, title=title)
    ax.label_outer()
figure_legend(axes[0])
figure = axes[0].figure
