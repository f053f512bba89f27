"""The quadratic of a Gaussian prior against its formula, in any coordinates."""

import numpy as np
import pytest

from oddsmith import GaussianPrior
from oddsmith.errors import InvalidTypeError
from oddsmith.priors import Quadratic, as_prior

C, P = 2, 4
RNG = np.random.default_rng(0)


def precisions() -> dict[str, np.ndarray]:
    L, J = RNG.normal(size=(P, P)), RNG.normal(size=(C * P, C * P))
    return {"diagonal": RNG.uniform(0.0, 2.0, P), "matrix": L @ L.T, "joint": J @ J.T}


def full(Q: np.ndarray) -> np.ndarray:
    """Return the Hessian of the penalty over all C · P weights."""
    if Q.ndim == 1:
        Q = np.diag(Q)
    return Q if len(Q) == C * P else np.kron(np.eye(C), Q)


@pytest.mark.parametrize("form", ["diagonal", "matrix", "joint"])
def test_value_gradient_and_hessian_are_those_of_the_formula(form: str) -> None:
    Q = precisions()[form]
    mean, x = RNG.normal(size=(2, C, P))
    penalty, delta = Quadratic(mean, Q), (x - mean).ravel()
    assert penalty.value(x) == pytest.approx(0.5 * delta @ full(Q) @ delta, rel=1e-12)
    np.testing.assert_allclose(penalty.at(x)[1].ravel(), full(Q) @ delta, rtol=1e-12)
    np.testing.assert_allclose(penalty.apply(x).ravel(), full(Q) @ x.ravel(), rtol=1e-12)
    H = np.ones((C * P, C * P))
    penalty.add_to(H, C, P)
    np.testing.assert_allclose(H, 1.0 + full(Q), rtol=1e-12)
    np.testing.assert_allclose(penalty.diagonal(C).ravel(), np.diag(full(Q)), rtol=1e-12)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("form", ["diagonal", "matrix", "joint"])
def test_the_penalty_is_the_same_in_other_coordinates(form: str, center: bool) -> None:
    """Weights (b, w) = (x₀ − Lᵀx′, d x′): the penalty of x is that of (b, w)."""
    penalty = Quadratic(RNG.normal(size=(C, P)), precisions()[form])
    d, L = RNG.uniform(0.5, 2.0, P - 1), RNG.normal(size=P - 1) if center else None
    moved = penalty.transformed(L, d)
    for _ in range(3):
        x = RNG.normal(size=(C, P))
        lost = 0.0 if L is None else x[:, 1:] @ L
        user = np.column_stack([x[:, 0] - lost, x[:, 1:] * d])
        assert moved.value(x) == pytest.approx(penalty.value(user), rel=1e-11)


def test_a_number_is_a_scale() -> None:
    assert as_prior(None) is None
    prior = GaussianPrior(scale=3.0)
    assert as_prior(prior) is prior
    for number in (2, 2.0, np.float32(2.0), np.int64(2)):
        assert as_prior(number).scale == 2.0
    for wrong in ("wide", True, [1.0], np.ones(2), object()):
        with pytest.raises(InvalidTypeError, match="prior must be None, a positive number"):
            as_prior(wrong)


def test_a_prior_is_frozen() -> None:
    with pytest.raises(AttributeError):
        GaussianPrior(scale=1.0).scale = 2.0  # type: ignore[misc]
