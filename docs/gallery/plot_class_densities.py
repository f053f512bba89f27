"""Bayes' rule for one variable: densities times priors, and the resulting posterior.

Two Gaussian classes share a variance, so the posterior is a sigmoid. The hatched area is the probability of error.
"""

import pyarrow

from oddsmith import GaussianClassifier, bayes_error
from oddsmith.data import load_dataset
from oddsmith.plots import ClassDensityDisplay

penguins = load_dataset("penguins").select(["species", "flipper_length_mm"]).drop_null()
two = penguins.filter(pyarrow.compute.is_in(penguins["species"], pyarrow.array(["Adelie", "Gentoo"])))

model = GaussianClassifier("shared").fit(two, y="species")
error = bayes_error(model)
display = ClassDensityDisplay.from_estimator(model)
figure = display.figure_
