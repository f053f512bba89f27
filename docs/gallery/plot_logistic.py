"""Logistic regression: the share of moths killed by a dose of poison, observed and fitted.

Each dose was given to twenty moths. The log odds are linear in the log dose, and more females survive.
"""

import numpy as np
import pyarrow

from oddsmith import LogisticRegression
from oddsmith.data import load_dataset
from oddsmith.plots import new_axes
from oddsmith.plots.style import color_of, dashes_of, legend_above, marker_of, style

table = load_dataset("budworm")
dose, sex = table["dose"].to_numpy(), table["sex"].to_numpy()
dead, count = table["dead"].to_numpy(), table["count"].to_numpy()
rows = pyarrow.table({"log2 dose": np.log2(dose), "sex": sex})
model = LogisticRegression().fit(rows, dead, sample_weight=count)
yes = model.classes_[1]

grid = np.linspace(-0.3, 5.3, 200)
(ax,) = new_axes()
curves, shares = {}, {}
with style():
    for k, name in enumerate(np.unique(sex)):
        asked = pyarrow.table({"log2 dose": grid, "sex": np.full(len(grid), name)})
        curves[name] = model.predict_proba(asked)[:, 1]
        doses = np.unique(dose)
        shares[name] = np.array([count[(dose == d) & (sex == name) & (dead == yes)].sum() for d in doses]) / 20
        ax.plot(2.0**grid, curves[name], color=color_of(k), ls=dashes_of(k))
        ax.plot(doses, shares[name], marker_of(k), color=color_of(k), ms=7, label=name)
    ax.set_xscale("log", base=2)
    ax.set_xticks(doses, [f"{d:g}" for d in doses])
    ax.set(xlabel="dose", ylabel="share of dead moths")
    legend_above(ax)
figure = ax.figure
