"""What the page can ask for, by name: each action takes the fields of a request and returns what JSON can hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith.lab.decisions import answer_decisions, answer_widths
from oddsmith.lab.fields import Fields
from oddsmith.lab.maps import LAYERS
from oddsmith.lab.optimiser_path import METHODS, answer_path
from oddsmith.lab.pane import MOST_CLASSES, MOST_POINTS, answer_pane, answer_script
from oddsmith.lab.pane_model import BASES, COVARIANCES, INNER, KINDS, PRIORS
from oddsmith.lab.presets import PRESETS, draw_points
from oddsmith.lab.tables import answer_columns, answer_table
from oddsmith.links import LINKS

Action = Callable[[Fields], dict[str, Any]]
STORIES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "stories.json").read_text(encoding="utf-8"))
"""One for each topic of the syllabus: ``topic`` (its number), ``title``, ``text``, ``state`` of the page."""


def answer_points(fields: Fields) -> dict[str, Any]:
    """Return the points of a preset.

    >>> len(answer_points(Fields({"preset": "ring", "n": 40}))["X"])
    40
    """
    fields.only("preset", "n", "noise", "seed")
    X, t = draw_points(
        fields.choice("preset", tuple(PRESETS)),
        fields.whole("n", 4, 10_000, 120),
        fields.number("noise", 0.0, 4.0, 1.0),
        fields.whole("seed", 0, 10**6, 0),
    )
    return {"X": X, "t": t, "dims": X.shape[1], "classes": len(np.unique(t)) or 2}


def answer_menu(fields: Fields) -> dict[str, Any]:
    """Return the names that the page chooses from, and the stories."""
    fields.only()
    return {
        "presets": {name: preset.title for name, preset in PRESETS.items()},
        "kinds": KINDS,
        "bases": BASES,
        "priors": PRIORS,
        "links": list(LINKS),
        "covariances": COVARIANCES,
        "inner": INNER,
        "methods": METHODS,
        "layers": LAYERS,
        "most_points": MOST_POINTS,
        "most_classes": MOST_CLASSES,
        "stories": STORIES,
    }


ACTIONS: dict[str, Action] = {
    "menu": answer_menu,
    "points": answer_points,
    "pane": answer_pane,
    "walk": answer_path,
    "decisions": answer_decisions,
    "widths": answer_widths,
    "columns": answer_columns,
    "table": answer_table,
    "script": answer_script,
}
