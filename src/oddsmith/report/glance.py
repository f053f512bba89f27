"""The top of the page: the main numbers, and the points to check before signing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from oddsmith.design.class_weight import sample_weight_sum
from oddsmith.evaluation.scoring import Estimate
from oddsmith.models.logistic import LogisticRegression
from oddsmith.report.context import SCORED, ReportContext
from oddsmith.report.fit import certificates, separation_text
from oddsmith.report.html import MOST_NAMES, Markup, clean, join, name_list, name_tag, number, percent, tag
from oddsmith.report.performance import WIDEST, constant_action_cost, miscalibrated_classes
from oddsmith.report.robustness import MUCH
from oddsmith.report.subgroups import deviating_groups

Point = tuple[bool, str, str]  # Whether it is fine, what was found, and the section that has more.
FEW = 10  # Rows of a class, or of each weight, below which little can be said about it.


def glance_section(context: ReportContext) -> Markup:
    """Return the main numbers as tiles, and what to check."""
    points = [*_fit_points(context), *_data_points(context), *_score_points(context)]
    items = [(good, join([text, " ", tag("a", f"See {where}", href=f"#{where}"), "."])) for good, text, where in points]
    items += [(False, join([text])) for text in context.warnings]
    checks = [
        tag("li", tag("b", "Fine. " if good else "Check. "), text, class_="good" if good else "care")
        for good, text in sorted(items, key=lambda item: item[0])
    ]
    return join([_tiles(context), tag("h3", "Before signing"), tag("ul", *checks, class_="checks")])


def _tiles(context: ReportContext) -> Markup:
    scores = context.scores.scores
    tiles: list[Any] = [
        _tile("rows", f"{context.frame.n_rows:,}", f"{context.total_columns:,} columns, {context.K} classes")
    ]
    names = {"auc": "AUC", "accuracy": "accuracy", "log_loss": "log loss", "calibration_slope": "calibration slope"}
    alone = {"accuracy": "largest class alone", "log_loss": "shares alone"}
    for name, label in names.items():
        score = scores.get(name)
        if score is not None and np.isfinite(score.value):
            below = [_ends(score)] if np.isfinite([score.lower, score.upper]).all() else []
            below += [f"{alone[name]}: {number(context.alone[name], 3)}"] if name in alone else []
            tiles.append(_tile(label, number(score.value, 3), " · ".join(below)))
    found = list(certificates(context.model).values())
    if found:
        good, gap = all(c.converged and c.optimum_exists for c in found), max(c.gap for c in found)
        below = [f"gap at most {number(gap, 3)}"] if np.isfinite(gap) else []
        tiles.append(_tile("fit", "at the optimum" if good else "not at an optimum", "".join(below)))
    return tag("dl", *tiles, class_="tiles")


def _tile(name: str, value: str, below: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", below) if below else ""))


def _ends(score: Estimate) -> str:
    return f"{number(score.lower, 3)} to {number(score.upper, 3)}"


def _fit_points(context: ReportContext) -> Iterator[Point]:
    found = certificates(context.model).values()
    if found:
        good = all(c.converged and c.optimum_exists for c in found)
        how = "certified to be at its" if good else "not certified to be at an"
        yield good, f"The fit is {how} optimum.", "certificate"
    separation = separation_text(context)
    if separation is not None:
        yield False, separation, "certificate"
    aliased = list(getattr(context.model, "aliased_", []))
    if aliased:
        text = join(["Left out, because they depend on other columns: ", name_list(aliased, MOST_NAMES), "."])
        yield False, text, "weights"


def _data_points(context: ReportContext) -> Iterator[Point]:
    missing = context.total_missing
    share = percent(missing / max(context.frame.n_rows * context.total_columns, 1))
    yield not missing, f"{missing:,} values are missing ({share})." if missing else "No value is missing.", "data"
    if context.duplicates:
        one, other, how = context.duplicates[0]
        more = len(context.duplicates) - 1
        rest = f" and {more} more pair{'s' if more > 1 else ''} of columns" if more else ""
        names = join([name_tag(one), " and ", name_tag(other), f" ({how}){rest} carry almost the same information."])
        yield False, names, "data"
    counts = context.counts
    for k in np.argsort(counts, kind="stable")[:5].tolist():
        if counts[k] < FEW:
            rows = f" has {counts[k]:,} row{'' if counts[k] == 1 else 's'} here: its numbers are uncertain."
            yield False, join(["Class ", name_tag(context.classes[k]), rows]), "data"
    learned, model = context.fitted, context.model
    if learned is not None and isinstance(model, LogisticRegression) and model.prior is None:
        M, least = int(learned.free[:, 1:].sum()) // len(learned.free), float(learned.class_weight.min())
        if least < FEW * M and not model._earlier.n_rows:
            text = (
                f"The smallest class has {number(least)} rows in the fit for {M:,} weight{'s' if M > 1 else ''}. "
                f"Below {FEW} for each, maximum likelihood tends to overestimate weights: consider a prior."
            )
            yield False, text, "weights"
    if context.misses_offset:
        text = (
            "The model was fitted with an offset, but every row has offset 0 here, so these scores do not describe "
            "the model in use. Pass offset as well."
        )
        yield False, text, "discrimination"
    total = 0.0 if learned is None else sample_weight_sum(model, learned.class_weight)
    if context.weights is None and learned is not None and not np.isclose(total, learned.n_rows):
        text = "The model was fitted with weights, but every row counts once here. Pass sample_weight as well."
        yield False, text, "data"
    if context.weights is not None and not context.counted:
        yield False, "The weights are not whole numbers, so scores count every row once.", "data"


def _score_points(context: ReportContext) -> Iterator[Point]:
    yield context.scored == "left out", SCORED[context.scored], "discrimination"
    yield from _level_points(context)
    for column, group, off in deviating_groups(context)[:5]:
        how = f"too {'high' if off > 0 else 'low'} by {percent(abs(off))} on average."
        of = join(["Where ", name_tag(column), " is ", name_tag(group), ", the probability of "])
        yield False, join([of, name_tag(context.classes[1]), " is ", how]), "subgroups"
    auc = context.scores.scores.get("auc")
    if auc is not None and auc.lower <= 0.5:
        text = f"The AUC ({number(auc.value, 3)}, {_ends(auc)}) is not significantly above one half"
        yield False, f"{text}: the model may be no better than guessing.", "discrimination"
    slope = context.scores.scores.get("calibration_slope")
    if slope is not None and np.isfinite([slope.lower, slope.upper]).all():
        near = bool(slope.lower <= 1.0 <= slope.upper)
        vague = slope.lower < WIDEST[0] or slope.upper > WIDEST[1]
        what = "may be 1, but there are too few rows to be sure" if near and vague else "is 1 within its interval"
        text = f"The calibration slope ({number(slope.value, 3)}, {_ends(slope)})"
        yield near and not vague, f"{text} {what if near else 'differs from 1'}.", "calibration"
    display = context.influence
    if not isinstance(display, str):
        largest = float(display.cooks_distance.max(initial=0.0))
        row = clean(display.rows[int(np.argmax(display.cooks_distance))])
        text = f"Row {row} has a large influence (Cook's distance {number(largest)})."
        yield largest < MUCH, "No single row dominates the fit." if largest < MUCH else text, "influence"


def _level_points(context: ReportContext) -> Iterator[Point]:
    """Yield whether the model beats the class shares alone, and whether its mean probabilities match them."""
    if context.answers.P is None:
        return
    log_loss, alone = context.scores.scores["log_loss"].value, context.alone["log_loss"]
    if log_loss > alone:
        text = f"The log loss ({number(log_loss, 3)}) is larger than that of the class shares alone"
        yield False, f"{text} ({number(alone, 3)}).", "calibration"
    cost, constant = context.scores.scores["realised_cost"].value, constant_action_cost(context)
    if cost >= constant:
        text = f"Decisions cost {number(cost, 3)} per row here, and the best constant action {number(constant, 3)}"
        yield False, f"{text}: under this loss, the model saves nothing.", "decision"
    for k, mean, share in miscalibrated_classes(context):
        words = f": its probability is {percent(mean)} on average, and its share here {percent(share)}."
        how = f" is {'over' if mean > share else 'under'}estimated"
        yield False, join(["Class ", name_tag(context.classes[k]), how, words]), "calibration"
