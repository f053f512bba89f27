"""Slopes beside groups as fixed effects by pyfixest's ``feglm``. Run in this folder, by ``sh make.sh python``.

It leaves out the groups whose labels are all alike, and eliminates the others by demeaning: no weight of a group is in
its answer. Tolerances are so small that the slopes are those of the maximum likelihood.
"""

from __future__ import annotations

import pandas
import pyfixest
from common import rule_table, write

CASES = {
    "groups_3000": {"rows": 60_000, "levels": 3_000, "seed": 4, "values": 97},
    # Six rows a group: about one group in ten has labels of one class only.
    "groups_4000": {"rows": 24_000, "levels": 4_000, "seed": 7, "values": 97},
}

for name, rule in CASES.items():
    table = pandas.DataFrame(rule_table(**rule))
    fit = pyfixest.feglm(
        "y ~ x + h | g",
        table,
        "logit",
        vcov="iid",
        iwls_tol=1e-13,
        iwls_maxiter=100,
        demeaner=pyfixest.MapDemeaner(fixef_tol=1e-13),
        separation_check=["fe"],
    )
    labels = table.groupby("g")["y"].nunique()
    slopes = fit.coef().rename(lambda term: term.replace("[T.", "["))
    answers = {
        "rule": rule,
        "one_class": int((labels == 1).sum()),
        "terms": list(slopes.index),
        "slopes": slopes.tolist(),
    }
    write(name, answers, ["pyfixest"])
