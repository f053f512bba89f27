"""Weights along a path of Laplace priors: as the scale grows, columns enter one after the other.

Each line is the weight of a column (standardised); the numbers on top count those that are not exactly zero. The lines
mark the scales of the smallest loss in cross-validation, and of the fewest columns within a standard error of it.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from oddsmith import Standardize, regularization_path
from oddsmith.plots import WeightPathDisplay

data = load_breast_cancer(as_frame=True)
scales = np.geomspace(0.0045, 3.0, 50)
path = regularization_path(data.data, data.target, scales=scales, basis=Standardize(), cv=5)
display = WeightPathDisplay.from_path(path).plot()
figure = display.figure_
