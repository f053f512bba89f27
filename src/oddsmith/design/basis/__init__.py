"""Basis functions ``φ(x)``: transformers that learn by a fold and apply to some rows at a time.

Importing this room registers them all in `BASES`.
"""

from oddsmith.design.basis.base import BASES, Basis
from oddsmith.design.basis.expansion import Expansion, learn_expansion
from oddsmith.design.basis.polynomial import Polynomial
from oddsmith.design.basis.radial import GaussianKernel, RadialBasis
from oddsmith.design.basis.spline import Spline
from oddsmith.design.basis.standardize import Standardize

__all__ = ["BASES", "Basis", "Expansion", "GaussianKernel", "Polynomial", "RadialBasis", "Spline", "Standardize"]
__all__ += ["learn_expansion"]
