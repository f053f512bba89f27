"""Every registered solver comes near a constructed optimum, and its certificate is true."""

from dataclasses import replace

import numpy as np
import pytest

from oddsmith.solvers import SOLVERS, Newton
from oddsmith.testing import check_solver, constructed_problems


@pytest.mark.parametrize("name", list(SOLVERS))
def test_solver_keeps_its_contract(name: str) -> None:
    kind = SOLVERS[name]
    check_solver(kind(seed=0) if name in ("sgd", "subsampled") else kind())


@pytest.mark.parametrize("lie", ["gap", "weights", "converged"])
def test_a_solver_that_lies_is_found_out(lie: str) -> None:
    class Lies(Newton):
        def minimise(self, objective, w, *, tol, max_iter):
            result = super().minimise(objective, w, tol=tol, max_iter=2 if lie == "gap" else max_iter)
            if lie == "gap":
                return replace(result, certificate=replace(result.certificate, gap=0.0))
            if lie == "weights":
                return replace(result, w=w)
            return replace(result, certificate=replace(result.certificate, gap=1.0, converged=True))

    with pytest.raises(AssertionError):
        check_solver(Lies())


def test_the_constructed_optimum_is_one() -> None:
    for objective, optimum, label in constructed_problems():
        e = objective.evaluate(optimum, order=2)
        assert np.abs(e.gradient).max() < 1e-9 * objective.weight, label
        assert np.linalg.eigvalsh(e.hessian)[0] > 0, label
