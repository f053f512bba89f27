"""The compiled kernels: a library in C that comes with the package, called through ctypes.

Each kernel is compiled for several instruction sets (levels); the best one that the machine has is chosen when the
library is loaded. ``ODDSMITH_KERNELS`` names another level, or ``reference`` for the kernels in NumPy.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError

LEVELS = ("baseline", "avx2", "avx512")  # Instruction sets, from the least to the best; the baseline of ARM has NEON.
REFERENCE = "reference"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
PATH = Path(__file__).with_name(f"_kernels{SUFFIX}")
_P, _I, _D = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class DenseProblem(ctypes.Structure):
    """``dense_problem`` of dense.h."""

    _fields_ = (
        *((name, _P if name == "x" else _I) for name in ("x", "kind", "n", "m", "row", "column", "run", "apart")),
        *((name, _I if name == "C" else _P) for name in ("t", "s", "offset", "C", "W", "b", "center", "inverse")),
        *((name, _P) for name in ("V", "v", "g", "H", "half_rows", "root_rows")),
        *((name, _D) for name in ("value", "max_norm2")),
    )


class ModelHessiansProblem(ctypes.Structure):
    """``model_hessians`` of dense.c."""

    _fields_ = tuple((name, _P) for name in ("first", "member", "at", "H"))


class NewtonProblem(ctypes.Structure):
    """``newton_problem`` of newton.c."""

    _fields_ = (
        *((name, _P) for name in ("rows", "unit", "prior", "mean", "w", "trace", "inverse")),
        *((name, _I) for name in ("known", "steps", "done", "evaluations", "ended")),
        *((name, _D) for name in ("small", "armijo", "rounding", "least", "most")),
        *((name, _P) for name in ("diagonal", "step", "scaled", "lower")),
        *((name, _D) for name in ("penalty", "floor", "condition")),
        *((name, _I) for name in ("factored", "rough")),
    )


class TeamState(ctypes.Structure):
    """``team`` of team.h."""

    _fields_ = (*((name, _I) for name in ("turn", "left", "turns", "helpers")), ("work", _P), ("job", _P))


class LbfgsProblem(ctypes.Structure):
    """``lbfgs_problem`` of lbfgs.c."""

    _fields_ = (
        ("rows", ctypes.POINTER(DenseProblem)),
        ("slices", _I),
        *((name, _P) for name in ("T", "unit", "prior", "free", "mean", "vectors", "diagonal", "measure")),
        *((name, _P) for name in ("w", "trace", "distances")),
        *((name, _I) for name in ("memory", "steps", "few", "relative")),
        *((name, _D) for name in ("near", "patience", "armijo", "rounding", "smallest", "halvings")),
        *((name, _D if name == "value" else _I) for name in ("points", "evaluations", "value")),
        *((name, _P if name == "parts" else _I) for name in ("parts", "failed", "hessians", "keeps")),
        *((name, _D if name == "cost" else _P) for name in ("cost", "H")),
        *((name, _P if name == "second" else _I) for name in ("task", "second")),
        ("team", TeamState),
    )


class CsrProblem(ctypes.Structure):
    """``csr_problem`` of sparse.c."""

    _fields_ = (
        *((name, _P) for name in ("data", "indices", "indptr")),
        *((name, _I) for name in ("single", "narrow", "n", "m")),
        *((name, _D if name in ("b", "v0") else _P) for name in ("t", "s", "offset", "w", "b", "v", "v0")),
        *((name, _P) for name in ("g", "h", "H")),
        ("value", _D),
    )


class MomentsProblem(ctypes.Structure):
    """``moments_problem`` of moments.c."""

    _fields_ = (
        *((name, _P if name == "x" else _I) for name in ("x", "single", "n", "m", "row", "column")),
        *((name, _I if name in "KG" else _P) for name in ("t", "s", "K", "G", "rank", "group")),
        *((name, _P) for name in ("seen", "base", "weight", "total", "squares", "products")),
    )


class TableProblem(ctypes.Structure):
    """``table_problem`` of table.h."""

    _fields_ = (
        *((name, _I) for name in ("n", "m", "f")),
        *(
            (name, _P)
            for name in ("columns", "column_kinds", "column_steps", "fills", "codes", "code_kinds", "code_levels")
        ),
        *((name, _P) for name in ("values", "entries", "firsts", "numbers", "center", "t", "s")),
        *((name, _I) for name in ("t_kind", "s_kind")),
        *((name, _P) for name in ("offset", "w", "inverse", "rows", "g", "squares", "A")),
        *((name, _I) for name in ("nowhere", "size", "eliminated", "start", "levels", "first_level", "end_level")),
        *((name, _P) for name in ("level_g", "D", "B", "N", "C", "cells")),
        *((name, _P if name == "indices" else _I) for name in ("words", "spare", "indices")),
        *((name, _D) for name in ("value", "max_norm2")),
    )


class TextLevelTable(ctypes.Structure):
    """``text_levels`` of texts.h."""

    _fields_ = (
        *((name, _I) for name in ("levels", "most")),
        *((name, _I if name == "room" else _P) for name in ("ends", "bytes", "room", "slots")),
        *((name, _I) for name in ("slots_less_one", "filled")),
    )


class TextsProblem(ctypes.Structure):
    """``texts_problem`` of texts.c."""

    _fields_ = (
        *((name, _P if name == "offsets" else _I) for name in ("n", "next", "offsets", "wide")),
        *((name, _I if name in ("size", "first") else _P) for name in ("data", "size", "valid", "first", "codes")),
        *((name, _P if name == "counts" else _I) for name in ("width", "counts", "missing")),
        ("levels", TextLevelTable),
    )


class CsvColumn(ctypes.Structure):
    """``csv_column`` of csv.c."""

    _fields_ = (*((name, _P) for name in ("values", "levels")), *((name, _I) for name in ("kind", "missing")))


class CsvProblem(ctypes.Structure):
    """``csv_problem`` of csv.c."""

    _fields_ = (
        *((name, _P if name in ("text", "columns") else _I) for name in ("text", "size", "delimiter", "columns")),
        *((name, _I) for name in ("count", "rows", "room", "next", "status", "column")),
    )


class QuadraticProblem(ctypes.Structure):
    """``quadratic_problem`` of coordinate_descent.c."""

    _fields_ = (
        *((name, _I) for name in ("size", "blocks", "sweeps", "stride", "single")),
        *((name, _P) for name in ("H", "first", "member", "penalty", "bound", "x", "r")),
        ("tol", _D),
        ("active", _P),
        ("done", _I),
        ("negligible", _D),
    )


class ColumnsProblem(ctypes.Structure):
    """``columns_problem`` of columns.c."""

    _fields_ = (
        *((name, _I) for name in ("n", "count", "sweeps")),
        *((name, _P) for name in ("data", "indices", "indptr", "h", "v")),
        *((name, _D) for name in ("total", "shift", "tol")),
        *((name, _P) for name in ("mean", "diagonal", "ridge", "penalty", "x", "active")),
        *((name, _I if name == "done" else _P) for name in ("done", "which")),
    )


class ClassesProblem(ctypes.Structure):
    """``classes_problem`` of columns.c."""

    _fields_ = (
        *((name, _I) for name in ("n", "count", "C", "sweeps", "grouped")),
        *((name, _P) for name in ("inverse", "data", "indices", "indptr", "p", "r", "s", "z", "center", "diagonal")),
        *((name, _P) for name in ("ridge", "penalty", "x", "b", "active")),
        ("tol", _D),
        ("done", _I),
    )


class ProductsProblem(ctypes.Structure):
    """``products_problem`` of columns.c."""

    _fields_ = (
        *((name, _I) for name in ("count", "first", "stride")),
        ("total", _D),
        *(
            (name, _P)
            for name in ("data", "indices", "indptr", "starts", "lengths", "entries", "h", "mean", "G", "all")
        ),
    )


class GramStepProblem(ctypes.Structure):
    """``gram_step_problem`` of gram_step.c."""

    _fields_ = (
        ("columns", ColumnsProblem),
        *((name, _I) for name in ("stride", "intercept", "settled")),
        *((name, _P) for name in ("G", "h", "mean", "diagonal", "sign", "s", "offset", "penalty", "ridge")),
        *((name, _D) for name in ("total", "drift", "gain", "precision", "rounding")),
        *((name, _P) for name in ("a", "x", "theta", "g", "r", "curvature")),
        *((name, _D) for name in ("b", "share", "loss", "value", "gap")),
        *((name, _I) for name in ("outcome", "width")),
        *((name, _P) for name in ("scaled", "root", "factor", "team")),
    )


class KnownProblem(ctypes.Structure):
    """``known_problem`` of known_products.c."""

    _fields_ = (
        ("columns", ColumnsProblem),
        *((name, _I) for name in ("known", "chosen_count", "everything")),
        *((name, _P) for name in ("shares", "g", "norms", "sums", "limit", "chosen", "products")),
        *((name, _D) for name in ("euclidean", "largest", "euclidean_all", "largest_all", "most_read")),
        *((name, _P) for name in ("mark", "estimate", "low", "units", "low_v")),
        *((name, _I if name == "stored" else _P) for name in ("stored", "team")),
    )


class FactorProblem(ctypes.Structure):
    """``factor_problem`` of packed_columns.h."""

    _fields_ = (
        *((name, _I) for name in ("size", "more", "apart", "weak")),
        *((name, _P) for name in ("L", "inverse", "sign")),
        ("least", _D),
        ("G", _P),
        *((name, _I) for name in ("between", "count", "unused")),
        *((name, _P) for name in ("columns", "place", "held")),
    )


class PackedProblem(ctypes.Structure):
    """``packed_problem`` of packed_columns.h."""

    _fields_ = (
        *((name, _I) for name in ("n", "apart", "count", "stored")),
        *((name, _P) for name in ("data", "which", "u", "result")),
    )


class GramProblem(ctypes.Structure):
    """``gram_problem`` of packed_columns.c."""

    _fields_ = (
        *((name, _I) for name in ("n", "first", "count", "apart", "width")),
        *((name, _P) for name in ("data", "which", "h", "root")),
        ("total", _D),
        *((name, _P) for name in ("mean", "scaled", "G")),
    )


class EpochRows(ctypes.Structure):
    """``epoch_rows`` of epochs.c."""

    _fields_ = (
        *((name, _P) for name in ("x", "data", "indices", "indptr")),
        *((name, _I) for name in ("narrow", "n", "m")),
    )


class SgdProblem(ctypes.Structure):
    """``sgd_problem`` of epochs.c."""

    _fields_ = (
        *((name, _P if name == "x" else _I) for name in ("x", "n", "m", "C")),
        *((name, _P) for name in ("t", "s", "offset", "center", "scale", "T", "decay", "target", "steps", "V", "mean")),
    )


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "dense": (ctypes.POINTER(DenseProblem),),
    "models": (ctypes.POINTER(DenseProblem), _P, ctypes.POINTER(ModelHessiansProblem)),
    "newton": (ctypes.POINTER(NewtonProblem),),
    "lbfgs": (ctypes.POINTER(LbfgsProblem),),
    "csr": (ctypes.POINTER(CsrProblem), ctypes.c_int),
    "table": (ctypes.POINTER(TableProblem), ctypes.c_int),
    "border": (_I, _I, _P, _P, _P, _P, _P, _P, _I, _P),
    "texts": (ctypes.POINTER(TextsProblem),),
    "recode": (_I, _P, _P, _P, _I, _P, _I, _I, _P),
    "count": (_I, _P, _I, _I, _P),
    "csv": (ctypes.POINTER(CsvProblem),),
    "softmax": (_P, _I, _I, _I, _P, _P, _P, ctypes.POINTER(_D)),
    "logistic": (_P, _I, _P, _P, _P, _P, ctypes.POINTER(_D)),
    "logistic_conjugate": (_P, _I, _P, _D, ctypes.POINTER(_D)),
    "moments": (ctypes.POINTER(MomentsProblem),),
    "centred_moments": (ctypes.POINTER(MomentsProblem), ctypes.c_int, _D),
    "perceptron": (ctypes.POINTER(EpochRows), _P, _P, _D, _D, _I, _P, _P, _P),
    "sgd": (ctypes.POINTER(SgdProblem),),
    "columns": (ctypes.POINTER(ColumnsProblem), ctypes.c_int),
    "classes": (ctypes.POINTER(ClassesProblem),),
    "class_norms": (ctypes.POINTER(ClassesProblem), _P),
    "gram_step": (ctypes.POINTER(GramStepProblem),),
    "known_products": (ctypes.POINTER(KnownProblem),),
    "row_lengths": (ctypes.POINTER(ColumnsProblem), _P),
    "column_norms": (ctypes.POINTER(ColumnsProblem), _P, _P),
    "products": (ctypes.POINTER(ProductsProblem), ctypes.c_int),
    "team_help": (ctypes.POINTER(TeamState),),
    "team_end": (ctypes.POINTER(TeamState),),
    "packed": (ctypes.POINTER(TeamState), ctypes.POINTER(PackedProblem), ctypes.c_int),
    "halve_columns": (_P, _I, _I, _P, _P, _P),
    "gram": (ctypes.POINTER(TeamState), ctypes.POINTER(GramProblem)),
    "factor_solve": (ctypes.POINTER(TeamState), ctypes.POINTER(FactorProblem), _P, _P, _P),
    "quadratic": (ctypes.POINTER(QuadraticProblem),),
    "function": (ctypes.c_int, _P, _I, _P),
}
"""The functions of the library, each with a level at the end of its name, and their arguments."""


class Kernels:
    """The kernels of one level."""

    def __init__(self, library: ctypes.CDLL, level: str) -> None:
        self.level = level
        self.has_half = bool(library[f"has_half_{level}"]())
        self._functions = {}
        for name, arguments in _ARGUMENTS.items():
            function = self._functions[name] = library[f"{name}_{level}"]
            function.argtypes = arguments

    def __call__(self, name: str, *arguments: Any) -> None:
        """Run a kernel; raise MemoryError where memory is short."""
        status = self._functions[name](*arguments)
        if status == 1:
            raise MemoryError("There is not enough memory for the scratch arrays of a kernel.")
        if status:  # an assertion would not stop `python -O`, and the sums would be zeros
            raise InvalidInputError(f"The kernel {name!r} cannot read such rows on {self.level!r}.")


class _State:
    """Which kernels are in use; none before the first use."""

    chosen = False
    kernels: Kernels | None = None


def kernels() -> Kernels | None:
    """Return the kernels in use, None where those in NumPy serve.

    >>> found = kernels()
    >>> found is None or found.level in LEVELS
    True
    """
    if not _State.chosen:
        _State.kernels, _State.chosen = _load(os.environ.get("ODDSMITH_KERNELS", "")), True
    return _State.kernels


def available() -> list[str]:
    """Return what `using` accepts on this machine: the reference, and the levels that library and processor have.

    >>> available()[0]
    'reference'
    """
    library = _library(PATH)
    found = 0 if library is None else library.oddsmith_levels()
    return [REFERENCE, *(level for bit, level in enumerate(LEVELS) if found >> bit & 1)]


@contextmanager
def using(level: str) -> Iterator[Kernels | None]:
    """Use the kernels of a level, or the reference, for a while and in all threads: for tests.

    >>> with using("reference") as chosen:
    ...     chosen is None
    True
    """
    before = kernels()
    _State.kernels = _load(level)
    try:
        yield _State.kernels
    finally:
        _State.kernels = before


@cache
def _library(path: Path) -> ctypes.CDLL | None:
    """Return the library, None where there is none; raise ImportError where the sources beside it are others.

    A wheel has no sources. In a source tree they are read only if one is newer than the library, or their size differs.
    """
    if not path.exists():
        return None
    library, made = ctypes.CDLL(str(path)), path.stat().st_mtime_ns
    with os.scandir(path.parent) as files:
        sources = [file.stat() for file in files if file.name.endswith((".c", ".h"))]
    if not sources:
        return library
    text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "oddsmith_sources")))
    size = sum(source.st_size for source in sources)
    if any(source.st_mtime_ns > made for source in sources) or not text.endswith(f":{size}".encode()):
        from oddsmith.kernels.native.sources import sources_signature

        if not text.startswith(sources_signature(path.parent).encode()):
            raise ImportError(
                f"The kernels in {path.name} were compiled from other sources than those beside it, and could give "
                "wrong numbers. Run `make kernels`. ODDSMITH_KERNELS=reference uses NumPy instead, which is slower."
            )
    return library


def _load(level: str) -> Kernels | None:
    if level == REFERENCE:
        return None
    levels = available()
    if level and level not in levels:
        raise InvalidInputError(f"ODDSMITH_KERNELS is {level!r}; this machine has {', '.join(levels)}.")
    if len(levels) == 1:
        warnings.warn(
            f"oddsmith was installed without its compiled kernels ({PATH.name}): fits use NumPy and are slower. "
            "Install a wheel for this platform, or build from source with pip, which compiles them. "
            "ODDSMITH_KERNELS=reference silences this warning.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    library = _library(PATH)
    assert library is not None
    return Kernels(library, level or levels[-1])


def address(array: npt.NDArray[Any] | None) -> int | None:
    """Return where the numbers of an array begin, for a field of a problem."""
    return None if array is None else array.__array_interface__["data"][0]  # "ctypes.data" takes twice as long


def addresses(**arrays: npt.NDArray[Any] | None) -> dict[str, int | None]:
    """Return the fields of a problem that point to these arrays, which must stay alive."""
    return {name: address(array) for name, array in arrays.items()}


_REALS = (np.dtype(np.float64), np.dtype(np.float32))


def strided(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows as kernels read them: float32 or float64, of which neighbours are whole numbers apart; mostly X."""
    if X.dtype in _REALS:  # of the machine's byte order
        (row, column), size = X.strides, X.itemsize
        if X.flags.aligned and row > 0 and column > 0 and row % size == 0 and column % size == 0:
            return X
    return np.ascontiguousarray(X, dtype=np.float32 if X.dtype == np.float32 else np.float64)


def contiguous(array: npt.NDArray[Any] | None, dtype: type[Any] = np.float64) -> npt.NDArray[Any] | None:
    """Return an array as kernels read it: of one type, in C order."""
    return None if array is None else np.ascontiguousarray(array, dtype=dtype)
