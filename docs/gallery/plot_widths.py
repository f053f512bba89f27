"""The scale of a prior by evidence, leave-one-out and cross-validation.

The three agree on the order of magnitude. The evidence needs no held-out rows, and leave-one-out needs no refit.
"""

from sklearn.datasets import load_breast_cancer

from oddsmith import LogisticRegression, Standardize, compare_widths
from oddsmith.plots import WidthDisplay

X, y = load_breast_cancer(return_X_y=True)
comparison = compare_widths(X, y, model=LogisticRegression(basis=Standardize()))
display = WidthDisplay.from_comparison(comparison).plot()
figure = display.figure_
