"""Checks for extensions of the library: `check_statistic`, `check_link`, `check_basis`, and others.

Each checks an object against its contract and raises an ``AssertionError`` that says which law is broken, for what
input and by how much. The library's own tests run them over every registry.

The tolerance for floats is their rounding error: a result may change by as much as it would if the last digits of the
*data* changed, and no more. So a sum over columns of mean 1e8 may lose the digits that such columns do not have, but a
formula that loses more fails.
"""

from oddsmith.testing.bases import all_bases, check_basis
from oddsmith.testing.folds import check_engine, check_statistic, hostile_blocks
from oddsmith.testing.links import check_link
from oddsmith.testing.models import all_models, check_model
from oddsmith.testing.rows import check_rows
from oddsmith.testing.solvers import check_solver, constructed_problems
from oddsmith.testing.sources import Cut, dask_source, files_source, lay_out_dask, lay_out_files

__all__ = [
    "Cut",
    "all_bases",
    "all_models",
    "check_basis",
    "check_engine",
    "check_link",
    "check_model",
    "check_rows",
    "check_solver",
    "check_statistic",
    "constructed_problems",
    "dask_source",
    "files_source",
    "hostile_blocks",
    "lay_out_dask",
    "lay_out_files",
]
