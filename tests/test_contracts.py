"""What the source promises of itself: documented methods, keyword-only records, named types, few probes."""

import ast
import inspect
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import oddsmith

SRC = Path(inspect.getfile(oddsmith)).parent
FILES = sorted(SRC.rglob("*.py"))


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """A million nodes are not kept for the tests that come after."""
    yield
    for kept in (trees, nodes, classes, functions, base_names):
        kept.cache_clear()


@cache
def trees() -> dict[str, ast.Module]:
    """The source of every module, parsed by the worker that runs these tests, not by all that collect them."""
    return {str(path.relative_to(SRC)): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    return [(name, node) for name, tree in trees().items() for node in ast.walk(tree)]


@cache
def classes() -> list[tuple[str, ast.ClassDef]]:
    return [(name, node) for name, node in nodes() if isinstance(node, ast.ClassDef)]


@cache
def functions() -> list[tuple[str, ast.FunctionDef]]:
    return [(name, node) for name, node in nodes() if isinstance(node, ast.FunctionDef)]


def methods(node: ast.ClassDef) -> list[ast.FunctionDef]:
    return [part for part in node.body if isinstance(part, ast.FunctionDef) and not part.name.startswith("_")]


def is_contract(node: ast.ClassDef) -> bool:
    bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
    abstract = any("abstractmethod" in ast.unparse(mark) for part in methods(node) for mark in part.decorator_list)
    return "Protocol" in bases or abstract or node.name in base_names()


@cache
def base_names() -> set[str]:
    return {ast.unparse(base).partition("[")[0].rpartition(".")[2] for _, node in classes() for base in node.bases}


def test_public_methods_are_documented_in_their_class_or_in_its_contract() -> None:
    contracts = {
        part.name for _, node in classes() if is_contract(node) for part in methods(node) if ast.get_docstring(part)
    }
    bare = [
        f"{name}: {node.name}.{part.name}"
        for name, node in classes()
        for part in methods(node)
        if not node.name.startswith("_")
        and not ast.get_docstring(part)
        and part.name not in contracts
        and not is_setter(part)
    ]
    assert not bare


def is_setter(part: ast.FunctionDef) -> bool:
    return any(ast.unparse(mark).endswith((".setter", "overload")) for mark in part.decorator_list)


def is_given(part: ast.AnnAssign) -> bool:
    """Whether a field is an argument of the constructor."""
    default = "" if part.value is None else ast.unparse(part.value)
    return "ClassVar" not in ast.unparse(part.annotation) and "init=False" not in default


PUBLIC_POSITIONAL = {"Block", "GaussianPrior", "LaplacePrior"}
"""Users give the first fields of these by position."""


def test_records_of_more_than_four_fields_are_keyword_only() -> None:
    positional = []
    for name, node in classes():
        marks = [ast.unparse(mark) for mark in node.decorator_list if "dataclass" in ast.unparse(mark)]
        fields = [part for part in node.body if isinstance(part, ast.AnnAssign) and is_given(part)]
        if marks and len(fields) > 4 and "kw_only=True" not in marks[0] and node.name not in PUBLIC_POSITIONAL:
            positional.append(f"{name}: {node.name}")
    assert not positional


@pytest.mark.parametrize("argument", ["objective", "source", "rows", "model", "solver"])
def test_what_a_parameter_must_be_is_said_by_its_type(argument: str) -> None:
    bare = [
        f"{name}: {node.name}"
        for name, node in functions()
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if arg.arg == argument and isinstance(arg.annotation, ast.Name) and arg.annotation.id == "Any"
    ]
    assert not [entry for entry in bare if not entry.startswith("kernels/")]


def test_few_parameters_are_of_any_type() -> None:
    """Compiled kernels, and X and y as users give them, aside."""
    count = sum(
        isinstance(arg.annotation, ast.Name) and arg.annotation.id == "Any" and arg.arg not in ("X", "y")
        for name, node in functions()
        if not name.startswith("kernels/")
        for arg in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    )
    assert count < 100


def test_rooms_probe_for_attributes_by_name_at_most_five_times() -> None:
    probes: Counter[str] = Counter()
    for name, node in nodes():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
            probes[name.partition("/")[0]] += len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
    assert {room: n for room, n in probes.items() if n > 5} == {}


def test_no_class_rewrites_the_methods_of_its_subclasses() -> None:
    assert not [name for name, node in functions() if node.name == "__init_subclass__"]


def test_solvers_know_neither_engines_nor_storages() -> None:
    for name, node in nodes():
        if name.startswith("solvers/") and isinstance(node, ast.ImportFrom) and node.module:
            assert not node.module.startswith(("oddsmith.engines", "oddsmith.rows", "oddsmith.block")), name


def test_names_of_modules_are_nouns_and_those_of_classes_are_their_own() -> None:
    stems = [path.stem for path in FILES if path.stem.endswith("ing")]
    assert set(stems) <= {"testing", "scoring"}
    public = Counter(node.name for _, node in classes() if not node.name.startswith("_"))
    assert {name: n for name, n in public.items() if n > 1} == {}
