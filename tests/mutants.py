"""Would the tests notice? Changes one place of a module at a time, in a copy of the tree, and runs its tests.

    python tests/mutants.py --count 50 --seed 0
    python tests/mutants.py --count 20 --only inference decision
    python tests/mutants.py --count 10 --only native

An operator is exchanged for its opposite, or a constant scaled by 1.3. A mutant that no test notices *survived*: either
nobody would see the difference, or a test is missing.

The tests that call the changed function run: first those of its room, then, if none of them fails, the others. Which
these are, one run of the tests records (`tests/callers.py`), in ``build/callers.tsv``, when that file is missing. Tests
written since then always run with their room.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import importlib.util
import os
import py_compile
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACTOR = 1.3
OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Lt: ("<", ">"),
    ast.LtE: ("<=", ">="),
    ast.Gt: (">", "<"),
    ast.GtE: (">=", "<="),
}

# Modules of a room, and its tests; the examples of the module itself run as well.
ROOMS = {
    "numerics": ("numerics.py", "tests/test_numerics.py tests/test_links.py"),
    "links": ("links.py", "tests/test_links.py tests/test_derivatives.py"),
    "statistics": (
        "statistics/*.py",
        "tests/statistics tests/test_laws.py tests/test_merge.py tests/test_derivatives.py",
    ),
    "kernels": ("kernels/*.py", "tests/kernels tests/test_laws.py tests/test_derivatives.py"),
    "native": ("kernels/native/*.[ch]", "tests/kernels"),
    "inference": ("inference/*.py", "tests/inference tests/models/test_inference_mixin.py"),
    "decision": ("decision/*.py", "tests/decision"),
    "solvers": ("solvers/*.py", "tests/solvers"),
    "likelihood": ("likelihood/*.py", "tests/likelihood tests/models/test_logistic_reference.py"),
    "device": (
        "solvers/device*.py solvers/tensor*.py likelihood/device*.py",
        "tests/engines/test_gpu.py",
    ),  # needs PyTorch
}
# Where callers are looked for: tests that run in this process, and the examples.
RECORDED = (
    *("decision", "inference", "statistics", "kernels", "solvers", "likelihood", "models", "evaluation"),
    *("prior_selection", "design", "persistence", "report"),
)
CPU_SECONDS = 90  # after which a run has taken too long
# What tests import, loaded once: each run is a child of this process that begins with them.
LIBRARIES = "numpy scipy.linalg scipy.special scipy.stats scipy.optimize sklearn.linear_model pandas pyarrow polars"

Callers = dict[str, dict[str, float]]  # function → test → seconds


@dataclass(frozen=True)
class Mutant:
    """A change of a few characters: where it begins and ends in the text, what stands there, and what is put there."""

    start: int
    end: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        """Return the text with the change."""
        return text[: self.start] + self.new + text[self.end :]


def scaled(number: str) -> str:
    """Return a number times 1.3 as a literal of its own type; nothing for 0, 1 and 2.

    >>> scaled("0.5"), scaled("7"), scaled("1.0"), scaled("0x1p-3")
    ('0.65', '9', '', '')
    """
    try:
        value = ast.literal_eval(number)
    except (SyntaxError, ValueError):
        return ""
    if value in (0, 1, 2):
        return ""
    return f"{value * FACTOR:.6g}" if isinstance(value, float) else str(round(value * FACTOR))


def mutants(text: str) -> list[Mutant]:
    """Return every change that can be made to the source of a module, in the order of the text.

    >>> [(found.old, found.new) for found in mutants("def f(x: int = 2) -> float:\\n    return 0.5 * x + x**2\\n")]
    [('0.5', '0.65'), ('*', '/'), ('+', '-')]
    """
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def offset(line: int, column: int) -> int:
        start = lines[line - 1]
        return start + len(text[start : lines[line]].encode()[:column].decode())

    def between(left: ast.expr, right: ast.expr, operator: ast.AST) -> Iterator[Mutant]:
        if type(operator) not in OPERATORS:
            return
        old, new = OPERATORS[type(operator)]
        start = offset(left.end_lineno or 0, left.end_col_offset or 0)
        gap = text[start : offset(right.lineno, right.col_offset)]
        gap = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), gap)
        if gap.count(old) == 1:
            yield Mutant(start + gap.index(old), start + gap.index(old) + len(old), old, new)

    def walk(node: ast.AST) -> Iterator[Mutant]:
        if isinstance(node, ast.BinOp):
            yield from between(node.left, node.right, node.op)
        elif isinstance(node, ast.Compare):
            for left, right, operator in zip([node.left, *node.comparators], node.comparators, node.ops, strict=False):
                yield from between(left, right, operator)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)
            if new := scaled(text[start:end]):
                yield Mutant(start, end, text[start:end], new)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)

    return sorted(set(walk(ast.parse(text))), key=lambda found: found.start)


_C_HIDDEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|^[ \t]*#[^\n]*', flags=re.DOTALL | re.MULTILINE)
_C_PLACE = re.compile(r"(?<= )(?:[-+*/]|[<>]=?)(?= )|(?<![\w.])\d+(?:\.\d*)?(?:e[-+]?\d+)?(?![\w.])")


def c_mutants(text: str) -> list[Mutant]:
    """Return every change that can be made to a source in C; operators are found by the spaces around them.

    >>> [(found.old, found.new) for found in c_mutants("double *f = 0.5 * x; /* 3 + 3 */ if (a <= b) y[4] = 2;")]
    [('0.5', '0.65'), ('*', '/'), ('<=', '>='), ('4', '5')]
    """
    opposite = dict(OPERATORS.values())
    seen = _C_HIDDEN.sub(lambda hidden: re.sub(r"[^\n]", " ", hidden[0]), text)
    found = ((match, opposite.get(match[0]) or scaled(match[0])) for match in _C_PLACE.finditer(seen))
    return [Mutant(match.start(), match.end(), match[0], new) for match, new in found if new]


def function_at(tree: ast.Module, line: int) -> list[int]:
    """Return the first lines of the functions around a line, the innermost first.

    >>> function_at(ast.parse("def f():\\n    def g():\\n        return 1\\n    return g"), 3)
    [2, 1]
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    around = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    around = [node for node in around if node.lineno <= line <= (node.end_lineno or 0)]
    starts = [min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))]) for node in around]
    return sorted(starts, reverse=True)


def names_at(tree: ast.Module, line: int) -> set[str]:
    """Return the names that the statement at a line of a module or class assigns.

    >>> sorted(names_at(ast.parse("class A:\\n    x: int = 3\\ny = 4"), 2))
    ['x']
    """
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.lineno <= line <= (node.end_lineno or 0):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def users_of(names: set[str], source: Path) -> Iterator[str]:
    """Yield the functions of the package, as ``file:line``, that use one of some names."""
    for path in sorted(source.rglob("*.py")) if names else ():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            used = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if used in names:
                for line in function_at(tree, node.lineno)[:1]:
                    yield f"{path.relative_to(source).as_posix()}:{line}"


def calling_tests(path: Path, line: int, source: Path, callers: Callers) -> dict[str, float]:
    """Return the tests, with their seconds, that call the function at a line, or one that uses the constant there."""
    tree, name = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(source).as_posix()
    for start in function_at(tree, line):
        if found := callers.get(f"{name}:{start}"):
            return found
    users = users_of(names_at(tree, line), source)
    return {test: seconds for user in users for test, seconds in callers.get(user, {}).items()}


def choose(tests: dict[str, float], seconds: float) -> list[str]:
    """Return quick tests of so many seconds in all: of each function one case, then of each a second, and so on.

    >>> choose({"a[1]": 1.0, "a[2]": 2.0, "b": 3.0, "c": 9.0}, 6.0)
    ['a[1]', 'b', 'a[2]']
    """
    rounds: dict[str, int] = defaultdict(int)
    ranked = []
    for test in sorted(tests, key=tests.__getitem__):
        function = test.partition("[")[0]
        ranked.append((rounds[function], tests[test], test))
        rounds[function] += 1
    chosen = []
    for _, cost, test in sorted(ranked):
        if cost <= seconds:
            seconds -= cost
            chosen.append(test)
    return chosen


def read_callers(path: Path) -> tuple[Callers, set[str]]:
    """Return which tests call each function, and all tests that were recorded."""
    callers: Callers = defaultdict(dict)
    recorded = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        seconds, test, functions = line.split("\t")
        recorded.add(test)
        for function in functions.split():
            callers[function][test] = float(seconds)
    return callers, recorded


class Chosen:
    """Keeps the tests that are named, in their order, and before them those that nobody has recorded."""

    def __init__(self, tests: Iterable[str], recorded: set[str]) -> None:
        self.places = {test: place for place, test in enumerate(tests)}
        self.recorded = recorded

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the other tests."""
        items[:] = [item for item in items if item.nodeid in self.places or item.nodeid not in self.recorded]
        items.sort(key=lambda item: self.places.get(item.nodeid, -1))


def copy_tree(folder: Path) -> None:
    """Copy the checkout, with its compiled kernels, and without what is large or made by tools."""
    left_out = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "site", "build", "dist", "pages")
    shutil.copytree(ROOT, folder, ignore=left_out)
    # Bytecode that is checked by the content of the source: a change within the same second would not be seen else.
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "src", quiet=2, invalidation_mode=mode)
    # Kernels that are compiled again and again, for a few tests each, need not be fast.
    build = folder / "build_kernels.py"
    build.write_text(build.read_text(encoding="utf-8").replace('"-O3"', '"-O1"'), encoding="utf-8")


def _run_pytest(folder: Path, log: Path, files: Iterable[str], chosen: Chosen | None) -> int:
    """Run tests in this process, a child that ends afterwards."""
    os.setsid()
    os.chdir(folder)
    sys.path[:0] = [str(folder / "src"), str(folder)]
    os.environ["PYTHONPATH"] = str(folder / "src")
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    with log.open("w") as out:
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
    options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", *files]
    return pytest.main(options, plugins=[chosen] if chosen else [])


def run_tests(folder: Path, files: Iterable[str], chosen: Chosen | None, seconds: float) -> str:
    """Run tests in a folder until the first that fails; return "passed", the one that failed, or "took too long"."""
    log = folder / "mutant.log"
    child = os.fork()
    if not child:
        code = 70
        try:
            code = int(_run_pytest(folder, log, files, chosen))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "took too long"
        time.sleep(0.02)
    code = os.waitstatus_to_exitcode(status)
    if code in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return "passed"
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return "took too long"
    said = log.read_text(errors="replace")
    named = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, flags=re.MULTILINE)
    return str(named[0]) if named else f"pytest ended with {code}: {said.strip().splitlines()[-1:]}"


def modules(source: Path, room: str) -> list[Path]:
    """Return the files of a room; those of devices are a room of their own."""
    found = [path for pattern in ROOMS[room][0].split() for path in sorted(source.glob(pattern))]
    return [path for path in found if path.name.startswith(("device", "tensor")) == (room == "device")]


@dataclass(frozen=True)
class Trial:
    """Tries mutants in a copy of the tree."""

    folder: Path
    callers: Callers
    recorded: set[str]
    recorded_at: float
    seconds: tuple[float, float]

    @property
    def source(self) -> Path:
        """The package in the copy."""
        return self.folder / "src" / "oddsmith"

    def compiled(self) -> bool:
        """Whether the kernels compile; they are put in place."""
        build = [sys.executable, "build_kernels.py"]
        return not subprocess.run(build, cwd=self.folder, capture_output=True, check=False).returncode

    def files(self, tests: list[str], chosen: list[str]) -> list[str]:
        """Return the files of chosen tests, and those among the tests of a room that are newer than the record."""
        places = [self.folder / test for test in tests]
        inside = [path for place in places for path in ([place] if place.suffix else sorted(place.rglob("test_*.py")))]
        fresh = [path for path in inside if path.stat().st_mtime > self.recorded_at]
        names = [test.partition("::")[0] for test in chosen]
        return list(dict.fromkeys([*names, *(path.relative_to(self.folder).as_posix() for path in fresh)]))

    def result(self, room: str, path: Path, mutant: Mutant) -> str:
        """Return what the tests say to a mutant: those of its room, then those elsewhere that call the function."""
        text = path.read_text(encoding="utf-8")
        tests = ROOMS[room][1].split()
        if path.suffix == ".py":
            line = text[: mutant.start].count("\n") + 1
            calling = calling_tests(path, line, self.source, self.callers)
            tests.append(str(path.relative_to(self.folder)))
        else:
            calling = {}
        path.write_text(mutant.applied(text), encoding="utf-8")
        try:
            if path.suffix != ".py" and not self.compiled():
                return "does not compile"
            own = {test: cost for test, cost in calling.items() if test.startswith(tuple(tests))}
            chosen = choose(own, self.seconds[0])
            if calling:
                result = run_tests(self.folder, self.files(tests, chosen), Chosen(chosen, self.recorded), 900)
            else:
                result = run_tests(self.folder, tests, None, 900)
            wider = choose({test: cost for test, cost in calling.items() if test not in own}, self.seconds[1])
            if result == "passed" and wider:
                files = dict.fromkeys(test.partition("::")[0] for test in wider)
                result = run_tests(self.folder, files, Chosen(wider, self.recorded), 900)
            return result
        finally:
            path.write_text(text, encoding="utf-8")


def record(folder: Path, place: Path) -> None:
    """Run the tests once, and write down which of them call which functions."""
    names = [name for room in RECORDED for name in [f"tests/{room}"] if (folder / name).exists()]
    top = [f"tests/{path.name}" for path in sorted((folder / "tests").glob("test_*.py"))]
    with tempfile.TemporaryDirectory() as temporary:
        written = Path(temporary, "callers.tsv")
        os.environ["CALLERS"] = str(written)
        failed = run_tests(folder, ["--maxfail=1000000", "-p", "tests.callers", *names, *top, "src"], None, 1e9)
        if failed != "passed":
            print(f"Without any change there fails {failed}.", file=sys.stderr)
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(written, place)


def main() -> None:
    """Draw mutants, try them, and print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after this")
    here = [room for room in ROOMS if room != "device" or importlib.util.find_spec("torch")]
    parser.add_argument("--only", nargs="*", default=here, choices=list(ROOMS), metavar="ROOM")
    parser.add_argument("--callers", type=Path, default=ROOT / "build" / "callers.tsv", help="who calls which function")
    parser.add_argument(
        "--seconds", nargs=2, type=float, default=[5.0, 20.0], metavar=("ROOM", "WIDER"), help="of chosen tests"
    )
    parser.add_argument("--place", action="append", default=[], help="only what begins so: file:line: old → new")
    given = parser.parse_args()
    # Before any library is loaded: each test runs in a child of this process.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    for name in LIBRARIES.split():
        importlib.import_module(name)
    rng, began, survived, tried = random.Random(given.seed), time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "tree"
        copy_tree(folder)
        if not given.callers.exists():
            record(folder, given.callers)
        trial = Trial(folder, *read_callers(given.callers), given.callers.stat().st_mtime, tuple(given.seconds))
        everything = []
        for room in given.only:
            for path in modules(trial.source, room):
                text = path.read_text(encoding="utf-8")
                for mutant in mutants(text) if path.suffix == ".py" else c_mutants(text):
                    line = text[: mutant.start].count("\n") + 1
                    where = f"{path.relative_to(trial.source).as_posix()}:{line}"
                    shown = f"{where}: {mutant.old} → {mutant.new}    {text.splitlines()[line - 1].strip()}"
                    if not given.place or shown.startswith(tuple(given.place)):
                        everything.append((room, path, mutant, shown))
        for room, path, mutant, shown in rng.sample(everything, min(given.count, len(everything))):
            if time.monotonic() - began > 60 * given.minutes:
                break
            start = time.monotonic()
            result = trial.result(room, path, mutant)
            if result == "does not compile":
                continue
            tried += 1
            if result == "passed":
                survived.append(shown)
            took = time.monotonic() - start
            print(f"{'survived' if result == 'passed' else 'caught'}  {took:.0f} s  {shown}  {result}", flush=True)
    print(f"\n{tried - len(survived)} of {tried} caught. Survived:", *survived, sep="\n  ")


if __name__ == "__main__":
    main()
