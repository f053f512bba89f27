"""Figures are drawn without a screen, never shown, and closed after each test."""

from collections.abc import Iterator

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import matplotlib.figure
    import matplotlib.pyplot as plt

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("A figure was shown or saved unasked.")

    monkeypatch.setattr(plt, "show", refuse)
    monkeypatch.setattr(matplotlib.figure.Figure, "savefig", refuse)
    yield
    plt.close("all")
