"""Basis functions ``φ(x)``: transformers that learn by a fold and apply to some rows at a time.

Each is imported on first use, here or in `BASES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from oddsmith.design.basis.base import BASES, Basis

if TYPE_CHECKING:
    from oddsmith.design.basis.expansion import Expansion, learn_expansion
    from oddsmith.design.basis.polynomial import Polynomial
    from oddsmith.design.basis.radial import GaussianKernel, RadialBasis
    from oddsmith.design.basis.selection import SelectColumns
    from oddsmith.design.basis.spline import Spline
    from oddsmith.design.basis.standardize import Standardize

__all__ = ["BASES", "Basis", "Expansion", "GaussianKernel", "Polynomial", "RadialBasis", "SelectColumns", "Spline"]
__all__ += ["Standardize", "learn_expansion"]

_MODULES = {
    **{"Expansion": "expansion", "GaussianKernel": "radial", "Polynomial": "polynomial", "RadialBasis": "radial"},
    **{"SelectColumns": "selection", "Spline": "spline", "Standardize": "standardize", "learn_expansion": "expansion"},
}
for _name in ("polynomial", "radial", "spline", "standardize"):
    BASES.later(_name, f"oddsmith.design.basis.{_name}")
BASES.later("kernel", "oddsmith.design.basis.radial")
BASES.later("select", "oddsmith.design.basis.selection")


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"oddsmith.design.basis.{_MODULES[name]}"), name)
