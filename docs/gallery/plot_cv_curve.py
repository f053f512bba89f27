"""Choosing the number of columns: the cross-validated loss along a path of Laplace priors.

To the left of the smallest loss, weights are shrunk too much; to the right, too little. All scales within one standard
error of it predict about equally well, and the smallest of them selects the fewest columns.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from oddsmith import Standardize, regularization_path
from oddsmith.plots import CrossValidationDisplay

data = load_breast_cancer(as_frame=True)
scales = np.geomspace(0.0045, 3.0, 50)
path = regularization_path(data.data, data.target, scales=scales, basis=Standardize(), cv=5)
display = CrossValidationDisplay.from_path(path).plot()
figure = display.figure_
