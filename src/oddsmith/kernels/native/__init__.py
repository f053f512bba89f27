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


def _fields(names: str) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a structure in C: ``*x`` is a pointer, ``.x`` a double, any other a 64-bit integer."""
    kinds = {"*": _P, ".": _D}
    return tuple((name.lstrip("*."), kinds.get(name[0], _I)) for name in names.split())


class DenseProblem(ctypes.Structure):
    """``dense_problem`` of dense.h."""

    _fields_ = _fields(
        "*x kind n m row column run apart *t *s *offset C *W *b *center *inverse *V *v *g *H *half_rows *root_rows "
        ".value .max_norm2"
    )


class ModelHessiansProblem(ctypes.Structure):
    """``model_hessians`` of dense.c."""

    _fields_ = _fields("*first *member *at *H")


class NewtonProblem(ctypes.Structure):
    """``newton_problem`` of newton.c."""

    _fields_ = _fields(
        "*rows *unit *prior *mean *w *trace *inverse known steps done evaluations ended .small .armijo .rounding "
        ".least .most *diagonal *step *scaled *lower .penalty .floor .condition factored rough"
    )


class TeamState(ctypes.Structure):
    """``team`` of team.h."""

    _fields_ = _fields("turn left turns helpers *work *job")


class LbfgsProblem(ctypes.Structure):
    """``lbfgs_problem`` of lbfgs.c."""

    _fields_ = (
        ("rows", ctypes.POINTER(DenseProblem)),
        *_fields(
            "slices *T *unit *prior *free *mean *vectors *diagonal *measure *w *trace *distances memory steps few "
            "relative .near .patience .armijo .rounding .smallest .halvings points evaluations .value *parts failed "
            "hessians keeps .cost *H task *second"
        ),
        ("team", TeamState),
    )


class CsrProblem(ctypes.Structure):
    """``csr_problem`` of sparse.c."""

    _fields_ = _fields("*data *indices *indptr single narrow n m *t *s *offset *w .b *v .v0 *g *h *H .value")


class MomentsProblem(ctypes.Structure):
    """``moments_problem`` of moments.c."""

    _fields_ = _fields("*x single n m row column *t *s K G *rank *group *seen *base *weight *total *squares *products")


class TableProblem(ctypes.Structure):
    """``table_problem`` of table.h; ``alive`` are the arrays whose addresses it has, where nobody else keeps them."""

    alive: Any = None

    _fields_ = _fields(
        "n m f *columns *column_kinds *column_steps *fills *codes *code_kinds *code_levels *values *entries *firsts "
        "*numbers *center *t *s t_kind s_kind *offset *w *inverse *rows *g *squares *A nowhere size eliminated start "
        "levels first_level end_level *level_g *D *B *N *C *cells words spare *indices .value .max_norm2 .widest"
    )


class TextLevelTable(ctypes.Structure):
    """``text_levels`` of texts.h."""

    _fields_ = _fields("levels most *ends *bytes room *slots slots_less_one filled")


class TextsProblem(ctypes.Structure):
    """``texts_problem`` of texts.c."""

    _fields_ = (
        *_fields("n next *offsets wide *data size *valid first *codes width *counts missing"),
        ("levels", TextLevelTable),
    )


class CsvColumn(ctypes.Structure):
    """``csv_column`` of csv.c."""

    _fields_ = _fields("*values *levels kind missing")


class CsvProblem(ctypes.Structure):
    """``csv_problem`` of csv.c."""

    _fields_ = _fields("*text size delimiter point *columns count rows room next status column")


class QuadraticProblem(ctypes.Structure):
    """``quadratic_problem`` of coordinate_descent.c."""

    _fields_ = _fields(
        "size blocks sweeps stride single *H *first *member *penalty *bound *x *r .tol *active done .negligible"
    )


class ColumnsProblem(ctypes.Structure):
    """``columns_problem`` of columns.c."""

    _fields_ = _fields(
        "n count sweeps *data *indices *indptr *h *v .total .shift .tol *mean *diagonal *ridge *penalty *x *active "
        "done *which"
    )


class ClassesProblem(ctypes.Structure):
    """``classes_problem`` of columns.c."""

    _fields_ = _fields(
        "n count C sweeps grouped *inverse *data *indices *indptr *p *r *s *z *center *diagonal *ridge *penalty *x *b "
        "*active .tol done"
    )


class ProductsProblem(ctypes.Structure):
    """``products_problem`` of columns.c."""

    _fields_ = _fields(
        "count first stride .total *data *indices *indptr *starts *lengths *entries *h *mean *G *all *splits *team"
    )


class GramStepProblem(ctypes.Structure):
    """``gram_step_problem`` of gram_step.c."""

    _fields_ = (
        ("columns", ColumnsProblem),
        *_fields(
            "stride intercept settled *G *h *mean *diagonal *sign *s *offset *penalty *ridge .total .drift .gain "
            ".precision .rounding *a *x *theta *g *r *curvature .b .share .loss .value .gap outcome width *scaled "
            "*root *factor *splits *team"
        ),
    )


class KnownProblem(ctypes.Structure):
    """``known_problem`` of known_products.c."""

    _fields_ = (
        ("columns", ColumnsProblem),
        *_fields(
            "known chosen_count everything *shares *g *norms *sums *limit *chosen *products .euclidean .largest "
            ".euclidean_all .largest_all .most_read *mark *estimate *low *units *low_v stored *team *doubtful"
        ),
    )


class FactorProblem(ctypes.Structure):
    """``factor_problem`` of packed_columns.h."""

    _fields_ = _fields("size more apart weak *L *inverse *sign .least *G between count unused *columns *place *held")


class PackedProblem(ctypes.Structure):
    """``packed_problem`` of packed_columns.h."""

    _fields_ = _fields("n apart count stored *data *which *u *result")


class GramProblem(ctypes.Structure):
    """``gram_problem`` of packed_columns.c."""

    _fields_ = _fields("n first count apart width *data *which *h *root .total *mean *scaled *G")


class EpochRows(ctypes.Structure):
    """``epoch_rows`` of epochs.c."""

    _fields_ = _fields("*x *data *indices *indptr narrow n m")


class SgdProblem(ctypes.Structure):
    """``sgd_problem`` of epochs.c."""

    _fields_ = _fields("*x n m C *t *s *offset *center *scale *T *decay *target *steps *V *mean")


_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "dense": (ctypes.POINTER(DenseProblem),),
    "models": (ctypes.POINTER(DenseProblem), _P, ctypes.POINTER(ModelHessiansProblem)),
    "newton": (ctypes.POINTER(NewtonProblem),),
    "lbfgs": (ctypes.POINTER(LbfgsProblem),),
    "csr": (ctypes.POINTER(CsrProblem), ctypes.c_int),
    "table": (ctypes.POINTER(TableProblem), ctypes.c_int),
    "class_table": (ctypes.POINTER(TableProblem), _I, _P, ctypes.c_int),
    "border": (_I, _I, _P, _P, _P, _P, _P, _P, _I, _P),
    "texts": (ctypes.POINTER(TextsProblem),),
    "recode": (_I, _P, _P, _P, _I, _P, _I, _I, _P),
    "count": (_I, _P, _I, _I, _P),
    "ascending": (_I, _P, _I, _P, ctypes.POINTER(_I)),
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
