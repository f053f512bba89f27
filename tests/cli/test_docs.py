"""The page about the command line shows what happens."""

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def test_commands_on_the_page_print_what_it_shows(run: Any) -> None:
    pytest.importorskip("formulaic", reason="formulas are read by the package formulaic")
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    steps = [step.partition("\n") for block in blocks for step in re.split(r"^\$ ", block, flags=re.MULTILINE) if step]
    assert len(steps) > 12
    compare = doctest.OutputChecker().check_output
    for command, _, shown in steps:
        ended = run(*shlex.split(command)[1:])
        printed = ended.out + ended.err
        expected = shown.replace("…", "...")
        assert ended.code == (1 if expected.startswith("Error:") else 0), ended.err
        assert compare(expected, printed, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (command, printed[:2000])
