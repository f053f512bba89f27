"""Posterior maps: where each class is probable (white) and where it is not (black).

The same model as in the figure of decision regions; each map shows one class, and the three add up to white.
"""

from oddsmith import LogisticRegression
from oddsmith.data import load_dataset
from oddsmith.plots import PosteriorMapDisplay

table = load_dataset("penguins").select(["species", "bill_length_mm", "flipper_length_mm"]).drop_null()

model = LogisticRegression().fit(table, y="species")
display = PosteriorMapDisplay.from_estimator(model, table, "species")
figure = display.figure_
