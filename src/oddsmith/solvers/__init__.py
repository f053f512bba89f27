"""Closed form, Newton (IRLS), truncated Newton, gradient descent and SGD: each returns weights, trace, certificate."""

from oddsmith.solvers.base import SOLVERS, Evaluation, Objective, Solver, SolverResult
from oddsmith.solvers.certificate import certify, gap_bound
from oddsmith.solvers.general import Optimum, gradient_descent, newton_raphson
from oddsmith.solvers.gradient import Gradient
from oddsmith.solvers.newton import Newton
from oddsmith.solvers.sgd import SGD
from oddsmith.solvers.truncated import TruncatedNewton

__all__ = [
    "SGD",
    "SOLVERS",
    "Evaluation",
    "Gradient",
    "Newton",
    "Objective",
    "Optimum",
    "Solver",
    "SolverResult",
    "TruncatedNewton",
    "certify",
    "gap_bound",
    "gradient_descent",
    "newton_raphson",
]
