"""The stories of the lab, read from their file: a paragraph and the state of the page that it opens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

STORIES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "stories.json").read_text(encoding="utf-8"))
"""One for each topic of the syllabus: ``topic`` (its number), ``title``, ``text``, ``state``."""
