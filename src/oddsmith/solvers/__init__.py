"""A plan (facts → stages, with their cost), then the stages: each solver returns weights, trace and certificate."""

from oddsmith.solvers.base import SOLVERS, Objective, ObjectiveValue, Solver, SolverResult
from oddsmith.solvers.certificate import certify, gap_bound
from oddsmith.solvers.diagonal_lbfgs import DiagonalLBFGS
from oddsmith.solvers.facts import Facts, Machine
from oddsmith.solvers.general import Optimum, gradient_descent, newton_raphson
from oddsmith.solvers.gradient import Gradient
from oddsmith.solvers.newton import Newton
from oddsmith.solvers.plan import Plan
from oddsmith.solvers.policy import Policy
from oddsmith.solvers.sgd import SGD
from oddsmith.solvers.subsampled import SubsampledQuasiNewton
from oddsmith.solvers.truncated_newton import TruncatedNewton

__all__ = [
    "SGD",
    "SOLVERS",
    "DiagonalLBFGS",
    "Facts",
    "Gradient",
    "Machine",
    "Newton",
    "Objective",
    "ObjectiveValue",
    "Optimum",
    "Plan",
    "Policy",
    "Solver",
    "SolverResult",
    "SubsampledQuasiNewton",
    "TruncatedNewton",
    "certify",
    "gap_bound",
    "gradient_descent",
    "newton_raphson",
]
