"""scikit-learn-intelex: scikit-learn's interface over oneDAL; imported in its own process, nothing else patched."""

from __future__ import annotations

from typing import Any

from .base import DECADES, SUM_DECADES, Peer
from .scikit_learn import ScikitLearn


class Intelex(ScikitLearn):
    """`sklearnex.linear_model.LogisticRegression` with one solver."""

    module = "sklearnex"
    distribution = "scikit-learn-intelex"

    def __init__(self, solver: str, note: str = "") -> None:
        super().__init__(solver, note)
        self.name = f"intelex {solver}"
        self.ladder = SUM_DECADES if solver == "lbfgs" else DECADES

    def estimator(self) -> Any:
        """The accelerated class."""
        from sklearnex.linear_model import LogisticRegression

        return LogisticRegression


ADAPTERS: tuple[Peer, ...] = (Intelex("lbfgs"), Intelex("newton-cg"))
