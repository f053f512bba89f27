"""Training samples and decision regions of a linear model.

Three species of penguins by two measurements; softmax regression divides the plane by straight lines.
"""

from oddsmith import LogisticRegression
from oddsmith.data import load_dataset
from oddsmith.plots import DecisionRegionDisplay

table = load_dataset("penguins").select(["species", "bill_length_mm", "flipper_length_mm"]).drop_null()

model = LogisticRegression().fit(table, y="species")
display = DecisionRegionDisplay.from_estimator(model, table, "species")
figure = display.figure_
