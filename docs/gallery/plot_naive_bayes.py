"""Naive Bayes: the log odds of a penguin's species are the sum of the contributions of its columns.

Bars are log odds of Gentoo against Adelie. A missing value contributes nothing and has no bar.
"""

import numpy as np
import pyarrow

from oddsmith import NaiveBayes
from oddsmith.data import load_dataset
from oddsmith.plots import new_axes
from oddsmith.plots.style import INK, QUIET, color_of, style

columns = ["island", "sex", "bill_length_mm", "bill_depth_mm", "flipper_length_mm"]
table = load_dataset("penguins").select([*columns, "species"])
table = table.filter(pyarrow.compute.is_in(table["species"], pyarrow.array(["Adelie", "Gentoo"])))
model = NaiveBayes().fit(table, y="species")


def log_odds(row):
    """Log odds of Gentoo against Adelie."""
    p = model.predict_proba(row)[0]
    return float(np.log(p[1] / p[0]))


shown = {"island": "Biscoe", "sex": None, "bill_length_mm": 41.0, "bill_depth_mm": 16.4, "flipper_length_mm": 207.0}
types = table.schema
empty = {name: pyarrow.array([None], types.field(name).type) for name in columns}
row = {name: pyarrow.array([value], types.field(name).type) for name, value in shown.items()}
prior = log_odds(pyarrow.table(empty))
parts = {name: log_odds(pyarrow.table({**empty, name: row[name]})) - prior for name in columns}
total = log_odds(pyarrow.table(row))

bars = {"class shares": prior}
bars |= {f"{name} = {'?' if shown[name] is None else shown[name]}": part for name, part in parts.items()}
(ax,) = new_axes(size=(6.4, 3.4))
with style():
    place = -np.arange(len(bars) + 1)
    values = [*bars.values(), total]
    colors = [color_of(0) if value < 0 else color_of(1) for value in values[:-1]]
    ax.barh(place, values, color=[*colors, INK], height=0.6)
    for y, value in zip(place, values, strict=True):
        ax.annotate(
            f"{value:+.1f}".replace("-", "−").replace("+0.0", "0"),
            (value, y),
            (4 if value >= 0 else -4, 0),
            textcoords="offset points",
            ha="left" if value >= 0 else "right",
            va="center",
        )
    ax.axvline(0.0, color=QUIET, lw=0.8)
    ax.set_yticks(place, [*bars, "sum"])
    ax.margins(x=0.15)
    ax.set_xlabel("Adelie  ←  log odds  →  Gentoo")
figure = ax.figure
