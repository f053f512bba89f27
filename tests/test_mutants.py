"""The mutation tester changes one place, and runs the tests that can notice."""

import ast
from pathlib import Path

import pytest
from tests.mutants import (
    ROOMS,
    ROOT,
    c_mutants,
    calling_tests,
    choose,
    function_at,
    modules,
    mutants,
    read_callers,
)

SOURCE = ROOT / "src" / "oddsmith"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = 0.5 * x + x**2", ["y = 0.65 * x + x**2", "y = 0.5 / x + x**2", "y = 0.5 * x - x**2"]),
        ("y = 7 if a < b <= c else a", ["y = 9 if a < b <= c else a", "y = 7 if a > b <= c else a"]),
        ("def f(x: int = 3) -> float: ...", ["def f(x: int = 4) -> float: ..."]),
        ('"""Five: 5 + 5."""', []),
        ("y = 'λ' + x  # a + b", ["y = 'λ' - x  # a + b"]),
    ],
)
def test_one_place_is_changed(text: str, expected: list[str]) -> None:
    assert [mutant.applied(text) for mutant in mutants(text)][: len(expected) or None] == expected


@pytest.mark.parametrize("room", list(ROOMS))
def test_every_room_has_modules_and_tests(room: str) -> None:
    assert modules(SOURCE, room)
    assert all(Path(ROOT, test).exists() for test in ROOMS[room][1].split())


def test_one_place_of_a_source_in_c_is_changed() -> None:
    text = 'double *f = 0.5 * x; /* 3 + 3 */ if (a <= b) y[4] = 2; // 5 - 5\n#define SIX 6\nputs("7 * 7");'
    assert [(found.old, found.new) for found in c_mutants(text)] == [
        ("0.5", "0.65"),
        ("*", "/"),
        ("<=", ">="),
        ("4", "5"),
    ]


def test_tests_are_those_that_call_the_function_or_use_the_constant(tmp_path: Path) -> None:
    module, record = tmp_path / "module.py", tmp_path / "callers.tsv"
    module.write_text("LIMIT = 3\n\n\ndef f(x):\n    return x + 1\n\n\ndef g(x):\n    return x < LIMIT\n")
    record.write_text("0.5\ta::test_f\tmodule.py:4\n0.25\ta::test_g\tmodule.py:8 module.py:4\n")
    callers, recorded = read_callers(record)
    assert recorded == {"a::test_f", "a::test_g"}
    assert calling_tests(module, 5, tmp_path, callers) == {"a::test_f": 0.5, "a::test_g": 0.25}
    assert calling_tests(module, 1, tmp_path, callers) == {"a::test_g": 0.25}
    assert function_at(ast.parse("@mark\ndef f():\n    def g():\n        return 1\n    return g"), 4) == [3, 1]


def test_quick_tests_are_chosen_of_each_function_one_case_first() -> None:
    assert choose({"a[1]": 1.0, "a[2]": 2.0, "b": 3.0, "c": 9.0}, 6.0) == ["a[1]", "b", "a[2]"]
