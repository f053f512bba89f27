"""A forest plot: weights with their intervals, on the scale of odds ratios.

Columns are standardised, so an odds ratio is for one standard deviation. An interval that contains 1 is compatible with
no effect.
"""

from oddsmith import LogisticRegression, Standardize
from oddsmith.data import load_dataset
from oddsmith.plots import CoefficientDisplay

names = ["radius", "texture", "smoothness", "compactness", "concavity", "symmetry", "fractal_dimension"]
table = load_dataset("breast_cancer").select([*(f"mean_{name}" for name in names), "diagnosis"])

model = LogisticRegression(basis=Standardize()).fit(table, y="diagnosis")
display = CoefficientDisplay.from_estimator(model).plot(odds_ratio=True, sort=True)
figure = display.figure_
