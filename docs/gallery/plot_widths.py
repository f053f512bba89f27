"""The width of a prior: by the evidence, by leave-one-out and by cross-validation.

The three agree on the order of magnitude. The evidence needs no rows left out, and leave-one-out no second fit.
"""

from sklearn.datasets import load_breast_cancer

from oddsmith import LogisticRegression, Standardize, compare_widths
from oddsmith.plots import WidthDisplay

X, y = load_breast_cancer(return_X_y=True)
comparison = compare_widths(X, y, model=LogisticRegression(basis=Standardize()))
display = WidthDisplay.from_comparison(comparison).plot()
figure = display.figure_
