"""What decisions cost: over the threshold of a probability, and over the share of rows that are decided.

A missed tumour costs ten false alarms, so the right threshold is 1/11. On the right, rows that the model is least
sure of are left to a person: the fewer are decided, the smaller is the risk.
"""

import numpy as np

from oddsmith import LogisticRegression
from oddsmith.data import load_dataset
from oddsmith.plots import CostDisplay, RiskCoverageDisplay, new_axes

table = load_dataset("breast_cancer")
two = table.select([*table.column_names[1:4], "diagnosis"])
even = np.arange(two.num_rows) % 2 == 0
train, test = two.filter(even), two.filter(~even)
loss = [[0, 1], [10, 0]]

model = LogisticRegression().fit(train, y="diagnosis")
left, right = new_axes(1, 2, (7.0, 3.4))
cost = CostDisplay.from_estimator({"": model}, test, "diagnosis", loss).plot(left)
risk = RiskCoverageDisplay.from_estimator({"": model}, test, "diagnosis").plot(right)
figure = left.figure
