"""The top of the page: the numbers that matter, and the points to check before signing."""

from __future__ import annotations

from typing import Any

import numpy as np

from oddsmith.report.fit import certificates, separated
from oddsmith.report.html import Markup, clean, join, named, number, percent, rows_of, tag
from oddsmith.report.performance import WIDEST, misjudged, same_action
from oddsmith.report.robustness import MUCH
from oddsmith.report.subject import SCORED, Subject

FEW = 10
"""Rows of a class, or of each weight, below which little can be said about it."""


def glance_section(subject: Subject) -> Markup:
    """Return the main numbers as tiles, and what to check."""
    return join([_tiles(subject), tag("h3", "Before signing"), _checks(subject)])


def _tiles(subject: Subject) -> Markup:
    scores = subject.scores.scores
    tiles: list[Any] = [_tile("rows", f"{subject.n_rows:,}", f"{subject.total_columns:,} columns, {subject.K} classes")]
    names = {"auc": "AUC", "accuracy": "accuracy", "log_loss": "log loss", "calibration_slope": "calibration slope"}
    alone = {"accuracy": "largest class alone", "log_loss": "shares alone"}
    for name, label in names.items():
        if name in scores and np.isfinite(scores[name].value):
            score = scores[name]
            ends = np.isfinite([score.lower, score.upper]).all()
            below = [f"{number(score.lower, 3)} to {number(score.upper, 3)}"] if ends else []
            below += [f"{alone[name]}: {number(subject.alone[name], 3)}"] if name in alone else []
            tiles.append(_tile(label, number(score.value, 3), " · ".join(below)))
    found = list(certificates(subject.model).values())
    if found:
        good = all(c.converged and c.optimum_exists for c in found)
        gap = max(c.gap for c in found)
        below = [f"gap at most {number(gap, 3)}"] if np.isfinite(gap) else []
        tiles.append(_tile("fit", "at the optimum" if good else "not at an optimum", "".join(below)))
    return tag("dl", join(tiles), class_="tiles")


def _tile(name: str, value: str, below: str) -> Markup:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", below) if below else ""))


def _checks(subject: Subject) -> Markup:
    points = [*_fit_points(subject), *_data_points(subject), *_score_points(subject)]
    points += [(False, join([text])) for text in subject.said]
    points.sort(key=lambda point: point[0])
    items = (
        tag("li", tag("b", "Fine. " if good else "Check. "), text, class_="good" if good else "care")
        for good, text in points
    )
    return tag("ul", join(items), class_="checks")


def _fit_points(subject: Subject) -> list[tuple[bool, Markup]]:
    points: list[tuple[bool, Markup]] = []
    found = certificates(subject.model)
    bad = [c for c in found.values() if not c.converged or not c.optimum_exists]
    if found:
        text = "The fit is not certified to be at an optimum." if bad else "The fit is certified to be at its optimum."
        points.append((not bad, _point(text, "certificate")))
    apart = separated(subject)
    if apart is not None:
        points.append((False, _point(apart, "certificate")))
    aliased = list(getattr(subject.model, "aliased_", []))
    if aliased:
        names: list[Any] = []
        for name in aliased[:6]:
            names += [", " if names else "", named(name)]
        points.append(
            (False, _point(join(["Set aside, because they depend on other columns: ", *names, "."]), "weights"))
        )
    return points


def _data_points(subject: Subject) -> list[tuple[bool, Markup]]:
    points: list[tuple[bool, Markup]] = []
    if subject.total_missing:
        share = percent(subject.total_missing / (subject.n_rows * subject.total_columns))
        points.append((False, _point(f"{subject.total_missing:,} values are missing ({share}).", "data")))
    else:
        points.append((True, _point("No value is missing.", "data")))
    counts = np.bincount(subject.found.t, minlength=subject.K)
    few = [k for k in np.argsort(counts, kind="stable").tolist() if counts[k] < FEW]
    for k in few[:5]:
        rows = join(
            ["Class ", named(subject.classes[k]), f" has {rows_of(counts[k])} here: its numbers are uncertain."]
        )
        points.append((False, _point(rows, "data")))
    learned = getattr(subject.model, "_learned", None)
    if learned is not None and subject.model.prior is None and not subject.model._earlier.n_rows:
        M, least = int(learned.free[:, 1:].sum()) // len(learned.free), float(learned.class_weight.min())
        if least < FEW * M:
            text = (
                f"The smallest class has {number(least)} rows in the fit for {M:,} weight{'s' if M > 1 else ''}. Below "
                f"{FEW} for each, maximum likelihood tends to weights that are too large: think of a prior."
            )
            points.append((False, _point(text, "weights")))
    if subject.misses_offset:
        text = (
            "The model was fitted with an offset, and every row has the offset 0 here: these scores are not those of "
            "the model in use. Give offset, too."
        )
        points.append((False, _point(text, "discrimination")))
    if subject.weights is None and learned is not None and not np.isclose(learned.class_weight.sum(), learned.n_rows):
        text = "The model was fitted with weights, and every row counts once here: give sample_weight, too."
        points.append((False, _point(text, "data")))
    if subject.weights is not None and not subject.counted:
        text = "The weights are no whole numbers, so scores count every row once."
        points.append((False, _point(text, "data")))
    return points


def _score_points(subject: Subject) -> list[tuple[bool, Markup]]:
    points: list[tuple[bool, Markup]] = []
    points.append((subject.left_out, _point(SCORED[subject.scored], "discrimination")))
    points += _level_points(subject)
    auc = subject.scores.scores.get("auc")
    if auc is not None and auc.lower <= 0.5:
        ends = f"{number(auc.value, 3)}, {number(auc.lower, 3)} to {number(auc.upper, 3)}"
        text = f"The AUC ({ends}) is not surely above one half: the model may do no better than a guess."
        points.append((False, _point(text, "discrimination")))
    slope = subject.scores.scores.get("calibration_slope")
    if slope is not None and np.isfinite([slope.lower, slope.upper]).all():
        near = bool(slope.lower <= 1.0 <= slope.upper)
        vague = slope.lower < WIDEST[0] or slope.upper > WIDEST[1]
        ends = f"{number(slope.value, 3)}, {number(slope.lower, 3)} to {number(slope.upper, 3)}"
        what = "may be 1, but these rows are too few to say so" if near and vague else "is 1 within its interval"
        text = f"The calibration slope ({ends}) {what if near else 'differs from 1'}."
        points.append((near and not vague, _point(text, "calibration")))
    display = subject.influence
    if not isinstance(display, str):
        largest = float(display.cooks_distance.max(initial=0.0))
        row = clean(display.rows[int(np.argmax(display.cooks_distance))])
        good = largest < MUCH
        text = (
            "No single row decides the fit."
            if good
            else f"Row {row} has a large influence (Cook's distance {number(largest)})."
        )
        points.append((good, _point(text, "influence")))
    return points


def _level_points(subject: Subject) -> list[tuple[bool, Markup]]:
    """Return whether the model is worth more than the class shares, and whether it says them right on the whole."""
    if subject.found.P is None:
        return []
    points: list[tuple[bool, Markup]] = []
    log_loss = subject.scores.scores["log_loss"].value
    if log_loss > subject.alone["log_loss"]:
        text = f"The log loss ({number(log_loss, 3)}) is larger than that of the class shares alone"
        points.append((False, _point(f"{text} ({number(subject.alone['log_loss'], 3)}).", "calibration")))
    cost, same = subject.scores.scores["realised_cost"].value, same_action(subject)
    if cost >= same:
        text = f"Decisions cost {number(cost, 3)} a row here, and the same action for all rows {number(same, 3)}"
        points.append((False, _point(f"{text}: at this loss the model saves nothing.", "decision")))
    for k, said, seen in misjudged(subject):
        words = f": its probability is {percent(said)} on average, and its share here {percent(seen)}."
        text = join(["Class ", named(subject.classes[k]), f" is {'over' if said > seen else 'under'}estimated", words])
        points.append((False, _point(text, "calibration")))
    return points


def _point(text: Any, where: str) -> Markup:
    return join([text, " ", tag("a", f"See {where}", href=f"#{where}"), "."])
