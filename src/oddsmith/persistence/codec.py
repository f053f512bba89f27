"""Values as JSON nodes and tensors, and back: what comes out is what went in, types included.

A node is plain JSON where that suffices (null, booleans, whole numbers, finite floats, texts, lists); all else is an
object whose first key is its tag: ``{"tuple": […]}``, ``{"array": "coef_", …}``, ``{"type": "Trace", …}``.

An object becomes its fields, and is restored without a call of its constructor. No name in a file is ever
imported, only looked up among the registered types: reading a file runs no code of its choosing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import cached_property
from math import isfinite
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.errors import InvalidInputError, InvalidTypeError, ModelFileError
from oddsmith.persistence import arrays
from oddsmith.persistence.arrow_tables import is_arrow_table, pack_table, unpack_table
from oddsmith.registry import Registry

T = TypeVar("T")
Node = Any  # JSON: None, a number, a text, a list of nodes, or an object whose first key is a tag.
Tensors = dict[str, npt.NDArray[Any]]

DEEPEST = 100  # Nodes inside one another beyond which a value is refused.
MOST_PARTS = 5_000_000  # Parts beyond which a value is refused, shared ones counted as often as they are met.

TYPES: Registry[type[Any]] = Registry("type of a model file")
_NAMES: dict[type[Any], str] = {}

VALUES: Registry[Any] = Registry("value of a model file")
_VALUE_NAMES: dict[int, str] = {}

LONG_BYTES = 1 << 10  # Bytes beyond which they are a tensor, not JSON.

VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

STRINGS = np.dtypes.StringDType()
"""The type of arrays of texts of any length; another one of its kind, with a mark for what is missing, is refused."""


def _float(value: float) -> Node:
    return value if isfinite(value) else {"float": repr(value)}


PLAIN: dict[type[Any], Callable[[Any], Node]] = {
    complex: lambda value: {"complex": [_float(value.real), _float(value.imag)]},
    range: lambda value: {"range": [value.start, value.stop, value.step]},
    date: lambda value: {"date": value.isoformat()},
    timedelta: lambda value: {"timedelta": [value.days, value.seconds, value.microseconds]},
}

# The states of these are numbers in any range: a broken one is refused by NumPy, where others would be accepted.
GENERATORS = {kind.__name__: kind for kind in (np.random.PCG64, np.random.PCG64DXSM)}


def register(kind: type[Any], name: str | None = None) -> type[Any]:
    """Let objects of a class be kept in model files, and return the class: a dataclass, an estimator or an enum.

    ``name`` stands for it in files (default: its own). It must stay when the class is renamed.

    >>> from dataclasses import dataclass
    >>> @register
    ... @dataclass
    ... class Note:
    ...     text: str
    >>> decode(*encode(Note("π")))
    Note(text='π')
    """
    name = name or kind.__name__
    if name in TYPES and TYPES[name].__qualname__ != kind.__qualname__:
        raise InvalidInputError(f"Two classes would be {name!r} in model files: {TYPES[name]} and {kind}. Rename one.")
    _NAMES[TYPES.register(name)(kind)] = name
    return kind


def name_of(kind: type[Any]) -> str:
    """Return the name under which a class is registered, or refuse it."""
    if kind not in _NAMES:
        raise InvalidTypeError(f"{kind.__qualname__} of {kind.__module__} is not registered for files.")
    return _NAMES[kind]


def register_value(value: T, name: str) -> T:
    """Let one object (a link, a function) be kept by its name, and return it: what is read is the object itself.

    >>> decode(*encode({"root": register_value(np.sqrt, "a root")}))["root"](9.0)
    np.float64(3.0)
    """
    if name in VALUES and VALUES[name] is not value:
        raise InvalidInputError(f"Two values would be {name!r} in model files: {VALUES[name]} and {value}. Rename one.")
    _VALUE_NAMES[id(VALUES.register(name)(value))] = (
        name  # the registry keeps it alive, so no other object can have its id
    )
    return value


def encode(value: object) -> tuple[Node, Tensors]:
    """Return a value as a JSON node, and the tensors that the node names.

    >>> encode((1, 2.5, None))
    ({'tuple': [1, 2.5, None]}, {})
    >>> node, tensors = encode({"w": np.zeros((2, 2))})
    >>> node
    {'dict': [['w', {'array': '[0]', 'dtype': '<f8', 'shape': [2, 2], 'order': 'C'}]]}
    """
    encoder = Encoder()
    return encoder.node(value, ""), encoder.tensors


def decode(node: Node, tensors: dict[str, arrays.Bytes] | Tensors) -> Any:
    """Return the value of a node; ``tensors`` are those of `encode`, or their bytes as read from a file.

    >>> decode(*encode({("a", 1): [np.float32(0.1), float("inf")]}))
    {('a', 1): [np.float32(0.1), inf]}
    """
    try:
        return Decoder(tensors).value(node)
    except ModelFileError:
        raise
    except (LookupError, ValueError, TypeError, OverflowError, RecursionError, AttributeError) as error:
        raise ModelFileError(f"A part of it cannot be read ({type(error).__name__}: {error}).") from None


class Encoder:
    """One run of `encode`: the tensors so far, and the objects that were met, so that each is written once."""

    def __init__(self) -> None:
        self.tensors: Tensors = {}
        self._met: dict[int, Node] = {}
        self._alive: list[object] = []  # an id is valid only while its object is alive
        self._numbers = 0
        self._depth = 0

    def node(self, value: object, path: str) -> Node:
        """Return the node of a value; ``path`` is where it stands in the model."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float and isinstance(value, float):
            return _float(value)
        if self._depth >= DEEPEST:
            raise InvalidInputError(
                f"{path[:200]} is nested too deeply for a model file; does an object contain itself?"
            )
        self._depth += 1
        node = self._compound(value, kind, path)
        self._depth -= 1
        return node

    def _compound(self, value: Any, kind: type[Any], path: str) -> Node:
        if kind is list:
            return self._items(value, path)
        if kind in (tuple, set, frozenset):
            return {kind.__name__: self._items(value, path)}
        if kind is dict:
            pairs = [(f"{path}[{place}]", key, part) for place, (key, part) in enumerate(value.items())]
            return {"dict": [[self.node(key, f"{at}.key"), self.node(part, at)] for at, key, part in pairs]}
        if kind in PLAIN:
            return PLAIN[kind](value)
        if kind is bytes and len(value) <= LONG_BYTES:
            return {"bytes": value.hex()}
        if kind is bytes:
            self.tensors[path] = np.frombuffer(value, dtype=np.uint8)
            return {"long bytes": path}
        if kind is datetime and value.tzinfo in (None, UTC):
            return {"datetime": value.isoformat()}
        if isinstance(value, np.generic) and arrays.is_kept(np.array(value).dtype):
            return {"scalar": np.array(value).tobytes().hex(), "dtype": np.array(value).dtype.str}
        if is_arrow_table(kind):
            self.tensors[path] = pack_table(value)
            return {"table": path}
        if id(value) in _VALUE_NAMES:
            return {"value": _VALUE_NAMES[id(value)]}
        if id(value) in self._met:
            return self._again(self._met[id(value)])
        if kind is np.ndarray:
            return self._array(value, path)
        return self._object(value, kind, path)

    def _items(self, values: Iterable[object], path: str) -> list[Node]:
        return [self.node(value, f"{path}[{place}]") for place, value in enumerate(values)]

    def _array(self, array: npt.NDArray[Any], path: str) -> Node:
        if arrays.is_kept(array.dtype):
            description, self.tensors[path] = arrays.to_tensor(array)
            return self._remember(array, {"array": path, **description})
        if array.dtype.kind != "O" and array.dtype != STRINGS:
            raise refusal(array, path, f"an array of type {array.dtype}")
        values, shape = array.ravel().tolist(), list(array.shape)
        if not all(type(value) is str for value in values):
            return {"objects": self._items(values, path), "shape": shape}
        joined, lengths = f"{path}.text", f"{path}.lengths"
        self.tensors[joined], self.tensors[lengths] = arrays.pack_texts(values)
        as_objects = array.dtype.kind == "O"
        return self._remember(array, {"texts": joined, "lengths": lengths, "shape": shape, "objects": as_objects})

    def _object(self, value: Any, kind: type[Any], path: str) -> Node:
        if kind is np.random.Generator and type(value.bit_generator).__name__ in GENERATORS:
            return {"generator": self.node(value.bit_generator.state, path)}
        if kind not in _NAMES:
            raise refusal(value, path)
        if isinstance(value, Enum):
            return {"member": value.name, "type": _NAMES[kind]}
        state = {name: self.node(part, f"{path}.{name}".lstrip(".")) for name, part in state_of(value).items()}
        return self._remember(value, {"type": _NAMES[kind], "fields": state})

    def _again(self, node: Node) -> Node:
        """Return the node of what was met before: an array names its tensor again, an object is given a number."""
        if "type" not in node:
            return node
        if "number" not in node:
            self._numbers += 1
            node["number"] = self._numbers
        return {"same": node["number"]}

    def _remember(self, value: object, node: Node) -> Node:
        self._met[id(value)] = node
        self._alive.append(value)
        return node


class Decoder:
    """One run of `decode`: the bytes of the tensors, and the objects read so far."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self._tensors = {name: np.ascontiguousarray(t).reshape(-1).view(np.uint8) for name, t in tensors.items()}
        self._made: dict[tuple[str, str], Any] = {}
        self._objects: dict[int, Any] = {}
        self._extents: dict[int, tuple[int, int]] = {}
        self._depth = self._deepest = self._parts = 0
        self._readers: dict[str, Callable[[Any], Any]] = {
            "float": lambda node: {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}[node["float"]],
            "tuple": lambda node: tuple(self._items(node["tuple"])),
            "set": lambda node: set(self._items(node["set"])),
            "frozenset": lambda node: frozenset(self._items(node["frozenset"])),
            "dict": lambda node: {self.value(key): self.value(value) for key, value in node["dict"]},
            "bytes": lambda node: bytes.fromhex(node["bytes"]),
            "long bytes": lambda node: self._once(
                node["long bytes"], lambda name: self._tensors[name].tobytes(), "bytes"
            ),
            "table": lambda node: self._once(node["table"], lambda name: unpack_table(self._tensors[name]), "table"),
            "range": lambda node: range(*node["range"]),
            "value": lambda node: VALUES[node["value"]],
            "complex": lambda node: complex(*self._items(node["complex"])),
            "date": lambda node: date.fromisoformat(node["date"]),
            "datetime": lambda node: datetime.fromisoformat(node["datetime"]),
            "timedelta": lambda node: timedelta(*node["timedelta"]),
            "scalar": self._scalar,
            "array": self._array,
            "texts": self._texts,
            "objects": lambda node: arrays.fill(self._items(node["objects"]), arrays.as_shape(node["shape"])),
            "generator": self._generator,
            "member": lambda node: self._type(node, Enum)[node["member"]],
            "type": self._object,
            "same": self._same,
        }

    def value(self, node: Node) -> Any:
        """Return the value of a node."""
        self._parts += 1
        if node is None or isinstance(node, bool | int | float | str):
            return node
        self._depth += 1
        self._check_extent(0, self._depth)
        if isinstance(node, list):
            value: Any = self._items(node)
        else:
            tag = next(iter(node), "")
            if tag not in self._readers:
                raise ModelFileError(f"It contains a {tag!r:.60}, which this version does not know.")
            value = self._readers[tag](node)
        self._depth -= 1
        return value

    def _check_extent(self, parts: int, depth: int) -> None:
        """Count parts that come once more and the depth that they reach, or refuse what only seems to be small.

        Parts that are shared are in memory once, but a hash, a comparison or a print visits them as often as they are
        met: shared again and again they would never come to an end.
        """
        self._parts, self._deepest = self._parts + parts, max(self._deepest, depth)
        if depth > DEEPEST:
            raise ModelFileError("Its parts are nested too deeply.")
        if self._parts > MOST_PARTS:
            raise ModelFileError(
                f"It has more than {MOST_PARTS:,} parts, shared ones counted as often as they are met."
            )

    def _same(self, node: dict[str, Any]) -> Any:
        parts, height = self._extents[node["same"]]
        self._check_extent(parts, self._depth + height)
        return self._objects[node["same"]]

    def _items(self, nodes: object) -> list[Any]:
        if not isinstance(nodes, list):
            raise ModelFileError("It holds something else where a list is expected.")
        return [self.value(node) for node in nodes]

    def _scalar(self, node: dict[str, Any]) -> Any:
        buffer = np.frombuffer(bytearray.fromhex(node["scalar"]), dtype=np.uint8)
        return arrays.from_bytes(buffer, {"dtype": node["dtype"], "shape": [], "order": "C"})[()]

    def _array(self, node: dict[str, Any]) -> Any:
        return self._once(node["array"], lambda name: arrays.from_bytes(self._tensors[name], node))

    def _texts(self, node: dict[str, Any]) -> Any:
        lengths, shape = self._tensors[node["lengths"]], arrays.as_shape(node["shape"])
        kind = np.dtype(object) if node["objects"] else STRINGS
        return self._once(
            node["texts"], lambda name: arrays.unpack_texts(self._tensors[name], lengths, shape).astype(kind), "texts"
        )

    def _once(self, name: str, make: Callable[[str], Any], as_: str = "") -> Any:
        """Return what is made of a tensor, the same thing wherever it was the same."""
        if (as_, name) not in self._made:
            self._made[as_, name] = make(name)
        return self._made[as_, name]

    def _generator(self, node: dict[str, Any]) -> np.random.Generator:
        state = self.value(node["generator"])
        bits = GENERATORS[state["bit_generator"]](0)
        bits.state = state
        return np.random.Generator(bits)

    def _type(self, node: dict[str, Any], ancestor: type[Any] = object) -> Any:
        if node["type"] not in TYPES:
            raise ModelFileError(
                f"It holds a {node['type']!r:.60}, which this version of oddsmith does not know. If it is your own "
                "class, import it first; otherwise use the version that wrote the file."
            )
        kind = TYPES[node["type"]]
        if not issubclass(kind, ancestor):
            raise ModelFileError(f"It says that {node['type']!r} is an {ancestor.__name__}, which it is not.")
        return kind

    def _object(self, node: dict[str, Any]) -> Any:
        kind = self._type(node)
        if issubclass(kind, Enum):
            raise ModelFileError(f"It gives {node['type']!r} fields, which it does not have.")
        before, outside, self._deepest = self._parts, self._deepest, self._depth
        state = {name: self.value(part) for name, part in node["fields"].items()}
        extent = self._parts - before, self._deepest - self._depth
        self._deepest = max(outside, self._deepest)
        value = kind.__new__(kind)
        for name, part in complete(kind, state).items():
            object.__setattr__(value, name, part)  # frozen or not, and no code of the class
        self._objects[node.get("number", 0)] = value
        self._extents[node.get("number", 0)] = extent
        return value


def state_of(value: Any) -> dict[str, Any]:
    """Return the state of an object: the fields of a dataclass, the attributes of an estimator, but no caches."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    kind, state = type(value), value.__getstate__()
    cached = {name for name in state if isinstance(_definition(kind, name), cached_property)}
    state = {name: part for name, part in state.items() if name not in cached}
    complete(kind, state)  # refuse now what could not be loaded later
    return state


def complete(kind: type[Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the state of an object with the defaults of what came into its class later, or refuse it."""
    if is_dataclass(kind):
        factories = {f.name: f.default_factory for f in fields(kind) if f.default_factory is not MISSING}
        known = {f.name: factories[f.name]() if f.name in factories else f.default for f in fields(kind)}
        strange = [name for name in state if name not in known]
    else:
        defaults = {p.name: p.default for p in inspect.signature(kind).parameters.values() if p.kind not in VARIADIC}
        known = {name: MISSING if default is inspect.Parameter.empty else default for name, default in defaults.items()}
        strange = [name for name in state if not name.isidentifier() or _is_defined(kind, name)]
    missing = [name for name, default in known.items() if name not in state and default is MISSING]
    if strange or missing:
        unknown = f"has {strange[0]!r:.60}, which is not one of its fields" if strange else None
        what = unknown or f"lacks its field {missing[0]!r}"
        raise ModelFileError(f"A {kind.__name__} in it {what}.")
    return {**{name: default for name, default in known.items() if name not in state}, **state}


def _is_defined(kind: type[Any], name: str) -> bool:
    """Whether a class defines a method, a property or a cache of that name: no place for a value."""
    return name.startswith("__") or hasattr(_definition(kind, name), "__get__")


def _definition(kind: type[Any], name: str) -> object:
    """Return what a class has under a name, unbound (`inspect.getattr_static` takes seven times as long)."""
    return next((vars(c)[name] for c in (*kind.__mro__, *type(kind).__mro__) if name in vars(c)), None)


def refusal(value: object, path: str, what: str | None = None) -> InvalidTypeError:
    """Return the error for a part of a model that a file cannot hold."""
    kind = type(value)
    advice = (
        "It can hold numbers, strings, arrays, collections of these, and types of this library. Register your own "
        "classes: a model in MODELS, a basis in BASES, others with oddsmith.persistence.register"
    )
    if kind.__module__.partition(".")[0] == "sklearn":
        advice = (
            "scikit-learn objects can only be pickled, and a pickle can run any code when it is loaded. Use a model "
            "or a basis of this library instead, or put the transformer before the model in a pipeline"
        )
    what = what or f"a {kind.__qualname__} of {kind.__module__}"
    return InvalidTypeError(f"{path or 'This'} is {what}, which a model file cannot hold. {advice}.")
