"""Weights along a path of Laplace priors: as the scale grows, columns enter one by one.

Each curve is the weight of a standardised column; the numbers on top count the nonzero weights. The vertical lines mark
the scale of smallest cross-validated loss, and the smallest scale within one standard error of it.
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
