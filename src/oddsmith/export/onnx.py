"""Formulas as an ONNX graph: columns are tensors, N × width."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError, UnknownNameError, import_extra
from oddsmith.export.formulas import FormulaWriter
from oddsmith.export.model_formulas import model_formulas, plain_labels, table_names
from oddsmith.models.base import Classifier
from oddsmith.numerics import Array

OPSET, ML_OPSET, IR_VERSION = 18, 3, 8  # Versions of the standard that every onnxruntime since 1.14 reads.

OUTPUTS = ("label", "probabilities", "values")
OPERATIONS = {
    **{"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "max": "Max", "min": "Min"},
    **{"<": "Less", "<=": "LessOrEqual", "=": "Equal", "where": "Where", "missing": "IsNaN"},
    **{"exp": "Exp", "log": "Log", "sqrt": "Sqrt", "floor": "Floor", "abs": "Abs"},
}


class Tensor(NamedTuple):
    """The name of a tensor, its number of columns, and whether it is the same in every row (1 × width)."""

    name: str
    width: int
    fixed: bool = False


class OnnxWriter(FormulaWriter[Tensor]):
    """A `FormulaWriter` of ONNX: columns are `Tensor` names; ``names`` are the columns of the table."""

    def __init__(self, names: Sequence[str], dtype: str = "float64", *, matrix: bool = False) -> None:
        if dtype not in ("float64", "float32"):
            raise UnknownNameError("dtype", dtype, ["float64", "float32"])
        self.onnx = import_extra("onnx", "to_onnx", "onnx")
        self.dtype = np.dtype(dtype)
        info = np.finfo(self.dtype)
        self.highest, self.smallest = float(info.max), float(info.tiny)
        self.far = 1e100 if dtype == "float64" else 1e15
        self._names, self._matrix = list(names), matrix
        self._type = self.onnx.TensorProto.DOUBLE if dtype == "float64" else self.onnx.TensorProto.FLOAT
        # Tensors of the graph share their names with the columns: ours begin as no column does.
        self._prefix = "/"
        while any(name.startswith(self._prefix) for name in names):
            self._prefix += "/"
        self._inputs: dict[str, Any] = {}
        self._nodes: list[Any] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
        self._required: list[Tensor] = []
        self._read: dict[str, Tensor] = {}

    def _node(self, op: str, *inputs: str, domain: str = "", **attributes: object) -> str:
        return self._output(f"{self._prefix}{len(self._nodes)}", op, *inputs, domain=domain, **attributes)

    def _output(self, name: str, op: str, *inputs: str, **attributes: object) -> str:
        # Nodes without names are given the same one by some optimisers, which then trip over it.
        self._nodes.append(self.onnx.helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def _array(self, values: npt.ArrayLike) -> str:
        """Return the name of a constant array."""
        array = np.ascontiguousarray(values)
        data = repr(array.tolist()).encode() if array.dtype == object else array.tobytes()
        key = array.dtype.str, array.shape, data
        if key not in self._constants:
            name = f"{self._prefix}c{len(self._constants)}"
            self._constants[key] = self.onnx.numpy_helper.from_array(array, name)
        return str(self._constants[key].name)

    def _row(self, values: npt.ArrayLike) -> str:
        return self._array(np.asarray(values, dtype=self.dtype).reshape(1, -1))

    def _input(self, name: str, kind: int, width: int) -> str:
        if not name:
            raise InvalidInputError("A column has the empty name '', which ONNX does not allow. Use matrix=True.")
        if name in OUTPUTS:
            raise InvalidInputError(
                f"A column is called {name!r}, which is the name of an output. Rename it, or use matrix=True."
            )
        if name not in self._inputs:
            self._inputs[name] = self.onnx.helper.make_tensor_value_info(name, kind, ["N", width])
        return name

    def number(self, name: str, kind: str = "number") -> Tensor:
        if not self._matrix:
            return Tensor(self._input(name, self._type, 1), 1)
        if name not in self._read:
            X, place = self._input("X", self._type, len(self._names)), np.array([self._names.index(name)])
            self._read[name] = Tensor(self._node("Gather", X, self._array(place), axis=1), 1)
        return self._read[name]

    def category(self, name: str, levels: Sequence[Any], kind: str) -> tuple[Tensor, Tensor]:
        if not any(isinstance(level, str) for level in levels):
            x = self.number(name, kind)
            missing = self.apply("missing", x)
            known = [float(level) for level in levels if level is not None]
            equal = self._cast(self._node("Equal", x.name, self._row(known)), len(known))
            return (self.join(equal, self._cast(missing.name, 1)) if None in levels else equal), missing
        if self._matrix:
            raise InvalidInputError(
                f"Column {name!r} is categorical, but a matrix contains numbers only: use matrix=False."
            )
        words = ["" if level is None else str(level) for level in levels]
        if len(set(words)) < len(words):
            raise InvalidInputError(
                f"Column {name!r} has the level '' and missing values, which are the same string in ONNX. Rename it."
            )
        text = self._input(name, self.onnx.TensorProto.STRING, 1)
        places = self._array(np.arange(len(words))[None])
        equal = self._cast(self._node("Equal", self._code(text, words), places), len(words))
        if "" in words and None not in levels:
            return equal, self.apply("<", equal, self.constant(-1.0))  # never: '' is a level
        return equal, Tensor(self._node("Equal", self._code(text, [""]), self._array(np.zeros((1, 1), np.int64))), 1)

    def _code(self, text: str, words: list[str]) -> str:
        """Return the place of each word in a list, −1 for others."""
        codes: dict[str, Any] = {"keys_strings": words, "values_int64s": list(range(len(words))), "default_int64": -1}
        return self._node("LabelEncoder", text, domain="ai.onnx.ml", **codes)

    def _cast(self, name: str, width: int) -> Tensor:
        return Tensor(self._node("Cast", name, to=self._type), width)

    def constant(self, *values: float) -> Tensor:
        return Tensor(self._row(values), len(values), True)

    def width(self, x: Tensor) -> int:
        return x.width

    def join(self, *parts: Tensor) -> Tensor:
        if len(parts) == 1:
            return parts[0]
        fixed = all(part.fixed for part in parts)
        names = [part.name if fixed or not part.fixed else self._repeated(part.name) for part in parts]
        return Tensor(self._node("Concat", *names, axis=1), sum(part.width for part in parts), fixed)

    def _repeated(self, name: str) -> str:
        """Return a constant repeated for every row."""
        rows = self._node("Shape", next(iter(self._inputs)), start=0, end=1)
        return self._node("Expand", name, self._node("Concat", rows, self._array(np.ones(1, np.int64)), axis=0))

    def pick(self, x: Tensor, which: Sequence[int]) -> Tensor:
        if list(which) == list(range(x.width)):
            return x
        return Tensor(self._node("Gather", x.name, self._array(np.array(which, np.int64)), axis=1), len(which), x.fixed)

    def affine(self, x: Tensor, W: Array, b: Array | None = None) -> Tensor:
        if W.shape[0] == W.shape[1] and not (W - np.diag(np.diag(W))).any():
            product = self._node("Mul", x.name, self._row(np.diag(W)))
        else:
            product = self._node("MatMul", x.name, self._array(W.T.astype(self.dtype)))
        name = product if b is None or not b.any() else self._node("Add", product, self._row(b))
        return Tensor(name, len(W), x.fixed)

    def apply(self, operation: str, *operands: Tensor) -> Tensor:
        name = self._node(OPERATIONS[operation], *(x.name for x in operands))
        return Tensor(name, max(x.width for x in operands), all(x.fixed for x in operands))

    def largest(self, x: Tensor) -> Tensor:
        return Tensor(self._node("ReduceMax", x.name, self._array(np.array([1])), keepdims=1), 1, x.fixed)

    def require(self, condition: Tensor) -> None:
        self._required.append(condition)

    def let(self, x: Tensor) -> Tensor:
        return x

    def piecewise(self, x: Tensor, knots: Array, origins: Array, C: Array) -> Tensor:
        above = self._node("LessOrEqual", self._row(knots), x.name)
        counted = self._node("Cast", above, to=self.onnx.TensorProto.INT64)
        piece = self._node("ReduceSum", counted, self._array(np.array([1])), keepdims=0)

        def look_up(table: Array) -> str:
            return self._node("Gather", self._array(table.astype(self.dtype)), piece, axis=0)

        u = self._node("Sub", x.name, look_up(origins[:, None]))
        value = look_up(C[-1])
        for c in C[-2::-1]:
            value = self._node("Add", self._node("Mul", value, u), look_up(c))
        return Tensor(value, C.shape[2])

    def model(self, labels: list[Any], values: Tensor, proba: Tensor | None) -> bytes:
        """Return the serialised model: the label of each row, and probabilities or decision values."""
        flat = self._array(np.array([-1]))
        if values.width == 1:
            second = self._node("Less", self._row([0.0]), values.name)
            code = self._node("Reshape", self._node("Cast", second, to=self.onnx.TensorProto.INT64), flat)
        else:
            code = self._node("ArgMax", values.name, axis=1, keepdims=0)
        result, name = (values, "values") if proba is None else (proba, "probabilities")
        if self._required:
            casts = [self._cast(c.name, c.width) for c in self._required]
            least = self._node("ReduceMin", self.join(*casts).name, self._array(np.array([1])), keepdims=1)
            valid = self._node("Less", self._row([0.5]), least)
            result = Tensor(self._node("Where", valid, result.name, self._row([np.nan])), result.width)
            code = self._node("Where", self._node("Reshape", valid, flat), code, self._array(np.array([len(labels)])))
        words, kind = _label_table(self.onnx, labels)
        helper = self.onnx.helper
        self._output("label", "Gather", self._array(words), code, axis=0)
        self._output(name, "Identity", result.name)
        outputs = {"label": (kind, ["N"]), name: (self._type, ["N", result.width])}
        infos = [helper.make_tensor_value_info(key, *info) for key, info in outputs.items()]
        inputs, constants = list(self._inputs.values()), list(self._constants.values())
        graph = helper.make_graph(self._nodes, "oddsmith", inputs, infos, constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="oddsmith")
        self.onnx.checker.check_model(model)
        return bytes(model.SerializeToString())


def onnx_model(model: Classifier, dtype: str, *, matrix: bool) -> bytes:
    """Return a fitted model as a serialised ONNX graph."""
    model._check_fitted()
    w = OnnxWriter(table_names(model), dtype, matrix=matrix)
    found = model_formulas(w, model)
    return w.model(plain_labels(model.classes_), found.values, found.proba)


def _label_table(onnx: ModuleType, labels: list[Any]) -> tuple[Any, Any]:
    """Return the labels, with that of rows without a result last, and their type."""
    if isinstance(labels[0], str):
        return np.array([*labels, ""], dtype=object), onnx.TensorProto.STRING
    if isinstance(labels[0], float):
        return np.array([*labels, np.nan]), onnx.TensorProto.DOUBLE
    return np.array([*map(int, labels), np.iinfo(np.int64).min], dtype=np.int64), onnx.TensorProto.INT64
