"""Other thresholds for the length of a test."""

from dataclasses import replace
from typing import Any

import pytest

from oddsmith.solvers import policy


def set_policy(monkeypatch: pytest.MonkeyPatch, **thresholds: Any) -> None:
    """Put a policy with other thresholds in force."""
    monkeypatch.setattr(policy, "POLICY", replace(policy.POLICY, **thresholds))
