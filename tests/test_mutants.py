"""The mutation tester changes one place, and what it makes is Python."""

from pathlib import Path

import pytest
from tests.mutants import ROOMS, ROOT, mutants

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
    modules, tests = ROOMS[room]
    assert any(SOURCE.glob(modules))
    assert all(Path(ROOT, test).exists() for test in tests.split())
