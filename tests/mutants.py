"""Would the tests notice? Changes one place of a module at a time, in a copy of the tree, and runs its tests.

    python tests/mutants.py --count 50 --seed 0
    python tests/mutants.py --count 20 --only inference decision

An operator is exchanged for its opposite, or a constant scaled by 1.3. A mutant that no test notices *survived*: either
nobody would see the difference, or a test is missing.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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

# Modules of a room, and the tests that are to notice a change of them; the examples of the module itself run as well.
ROOMS = {
    "numerics": ("numerics.py", "tests/test_numerics.py tests/test_links.py"),
    "links": ("links.py", "tests/test_links.py tests/test_derivatives.py"),
    "statistics": (
        "statistics/*.py",
        "tests/statistics tests/test_laws.py tests/test_merge.py tests/test_derivatives.py",
    ),
    "kernels": ("kernels/*.py", "tests/kernels tests/test_laws.py tests/test_derivatives.py"),
    "inference": ("inference/*.py", "tests/inference tests/models/test_inference_mixin.py"),
    "decision": ("decision/*.py", "tests/decision"),
    "solvers": ("solvers/*.py", "tests/solvers"),
    "likelihood": ("likelihood/*.py", "tests/likelihood tests/models/test_logistic_reference.py"),
}


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
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value not in (0, 1, 2):
            start, end = offset(node.lineno, node.col_offset), offset(node.end_lineno or 0, node.end_col_offset or 0)
            new = f"{node.value * FACTOR:.6g}" if type(node.value) is float else str(round(node.value * FACTOR))
            yield Mutant(start, end, text[start:end], new)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child)

    return sorted(set(walk(ast.parse(text))), key=lambda found: found.start)


def copy_tree(folder: Path) -> None:
    """Copy the checkout, with its compiled kernels, and without what is large or made by tools."""
    left_out = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "site", "build", "dist", "pages")
    shutil.copytree(ROOT, folder, ignore=left_out)


def run_tests(folder: Path, tests: list[str], seconds: float) -> str:
    """Run tests in a folder until the first that fails; return "passed", the one that failed, or "took too long"."""
    # Without bytecode: a change within the same second would not be seen.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return "took too long"
    if ended.returncode == 0:
        return "passed"
    named = re.findall(r"^(?:FAILED|ERROR) (\S+)", ended.stdout, flags=re.MULTILINE)
    return named[0] if named else f"pytest ended with {ended.returncode}"


def main() -> None:
    """Draw mutants, try them, and print what became of each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no mutant after this")
    parser.add_argument("--only", nargs="*", default=list(ROOMS), choices=list(ROOMS), metavar="ROOM")
    given = parser.parse_args()
    os.nice(19)
    rng, began, survived, tried = random.Random(given.seed), time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "tree"
        copy_tree(folder)
        source = folder / "src" / "oddsmith"
        everything = [
            (room, path, mutant)
            for room in given.only
            for path in sorted(source.glob(ROOMS[room][0]))
            for mutant in mutants(path.read_text(encoding="utf-8"))
        ]
        limits: dict[str, float] = {}
        for room, path, mutant in rng.sample(everything, min(given.count, len(everything))):
            if time.monotonic() - began > 60 * given.minutes:
                break
            tests = ROOMS[room][1].split()
            if room not in limits:
                start = time.monotonic()
                result = run_tests(folder, tests, 1800)
                if result != "passed":
                    raise SystemExit(f"The tests of {room} fail without any change: {result}")
                limits[room] = 60 + 3 * (time.monotonic() - start)
            text = path.read_text(encoding="utf-8")
            path.write_text(mutant.applied(text), encoding="utf-8")
            result = run_tests(folder, [str(path.relative_to(folder)), *tests], limits[room])
            path.write_text(text, encoding="utf-8")
            line = text[: mutant.start].count("\n") + 1
            where = f"{path.relative_to(source)}:{line}: {mutant.old} → {mutant.new}"
            shown = text.splitlines()[line - 1].strip()
            tried += 1
            if result == "passed":
                survived.append(f"{where}    {shown}")
            print(f"{'survived' if result == 'passed' else 'caught'}  {where}  {shown}  {result}", flush=True)
    print(f"\n{tried - len(survived)} of {tried} caught. Survived:", *survived, sep="\n  ")


if __name__ == "__main__":
    main()
