"""The cost of decisions against the probability threshold, and against the share of rows decided.

A missed tumour costs as much as ten false alarms, so the optimal threshold is 1/11 if the probabilities are calibrated.
On these 284 rows the curve happens to be lowest elsewhere (the ring), by less than the standard error of the
difference: a threshold read off a curve follows its noise. On the right, the most uncertain rows are left to a person.
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
cost = CostDisplay.from_estimator({"": model}, test, "diagnosis", loss, ax=left)
lowest = int(np.argmin(cost.curves[""].cost))
best = float(cost.curves[""].threshold[lowest])
left.plot(
    best,
    cost.curves[""].cost[lowest],
    "o",
    ms=9,
    mfc="none",
    mec="#BB5566",
    mew=1.8,
    label="lowest here",
    zorder=5,
    clip_on=False,
)
left.legend(loc="upper center", frameon=False)
p, ill = model.predict_proba(test.drop_columns("diagnosis"))[:, 1], np.array(test["diagnosis"]) == "malignant"
costs = [np.where(ill, 10.0 * (p <= cut), p > cut) for cut in (1 / 11, best)]
difference, error = np.mean(costs[0] - costs[1]), np.std(costs[0] - costs[1]) / np.sqrt(len(p))
risk = RiskCoverageDisplay.from_estimator({"": model}, test, "diagnosis", ax=right)
figure = left.figure
