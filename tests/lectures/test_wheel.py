"""What is installed from a wheel teaches as well as the repository does."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from oddsmith.lectures.gallery import scripts

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what a wheel of this repository holds."""
    from hatchling.builders.wheel import WheelBuilder

    folder = tmp_path_factory.mktemp("wheel")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_wheel_holds_the_syllabus_and_the_scripts_but_no_pictures(installed: Path) -> None:
    docs = installed / "oddsmith" / "lectures" / "docs"
    assert (docs / "syllabus.md").read_bytes() == (ROOT / "docs" / "syllabus.md").read_bytes()
    course = ROOT / "docs" / "course"
    assert sorted(path.name for path in (docs / "course").iterdir()) == sorted(path.name for path in course.iterdir())
    assert sorted(path.name for path in (docs / "gallery").iterdir()) == sorted(
        path.name for path in scripts().values()
    )
    assert (installed / "oddsmith" / "py.typed").is_file() and (
        installed / "oddsmith" / "data" / "iris.csv.gz"
    ).is_file()


COMMANDS = {
    "lecture newton --no-open": "24. The wheel of Newton\n",
    "check 1 8 -2": "r: right\nr0: right\n",
    "gallery links -o figures --dpi 50": "Wrote 1 figure to figures",
}
# One process for all of them, as `python -m oddsmith.cli` would run each.
RUN = """
import runpy, sys
for line in sys.stdin.read().splitlines():
    sys.argv = ["oddsmith", *line.split()]
    try:
        runpy.run_module("oddsmith.cli", run_name="__main__")
    except SystemExit as end:
        assert not end.code, line
    print("\\x1e", end="", flush=True)
"""


def test_commands_of_an_installed_wheel_print_and_draw(installed: Path, tmp_path: Path) -> None:
    # Somebody's page in the place of ours shows that it is the wheel's that is read.
    page = installed / "oddsmith" / "lectures" / "docs" / "syllabus.md"
    page.write_text(page.read_text(encoding="utf-8").replace("Newton-Raphson", "The wheel of Newton"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        input="\n".join(COMMANDS),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lecture, checked, drawn, rest = done.stdout.split("\x1e")
    expected = list(COMMANDS.values())
    assert lecture.startswith(expected[0]) and checked == expected[1] and expected[2] in drawn and not rest
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["04-sigmoid.png", "index.html"]
