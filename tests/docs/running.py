"""Runs the parts of a page, one after the other, in one namespace and one folder."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import _get_checker  # the one with NUMBER: digits count as far as they are written
from tests.docs.reading import Block, Row

NUMBER = doctest.register_optionflag("NUMBER")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | NUMBER
# Left sides that are run as well: scikit-learn is always there, statsmodels may be.
LEFT_SIDES = {"scikit_learn", *({"statsmodels"} if find_spec("statsmodels") else ())}


class Session:
    """A reader who types in what a page shows."""

    def __init__(self, page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.page, self.capsys, self.monkeypatch = page, capsys, monkeypatch
        self.ours: dict[str, Any] = {"__name__": "__main__"}
        self.theirs: dict[str, Any] = {}

    def run(self, part: Block | Row) -> None:
        """Run a block or a row of a table; fails with what was found where something else is shown."""
        if isinstance(part, Row):
            self._row(part)
        elif part.language == "console":
            self._console(part)
        elif ">>>" in part.text:
            self._examples(part)
        else:
            exec(compile("\n" * (part.line - 1) + part.text, self.page, "exec"), self.ours)

    def _examples(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(
            block.text, self.ours, self.page.name, str(self.page), block.line - 1
        )
        report = io.StringIO()
        runner = doctest.DocTestRunner(checker=_get_checker(), optionflags=FLAGS, verbose=False)
        with contextlib.redirect_stdout(io.StringIO()):
            runner.run(test, out=report.write, clear_globs=False)
        self.ours.update(test.globs)
        assert runner.failures == 0, report.getvalue()

    def _console(self, block: Block) -> None:
        text = re.sub(r"\\\n[> ]*", "", block.text)
        assert text.startswith("$ "), f"{self.page.name}:{block.line}: a console block begins with a prompt"
        for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            expected = shown.replace("…", "...")
            code, printed = self._command(command)
            assert code == (1 if expected.startswith("Error:") else 0), (command, printed)
            assert _get_checker().check_output(expected, printed, FLAGS), f"$ {command}\n{printed}\n--- shown:\n{shown}"

    def _command(self, command: str) -> tuple[int, str]:
        """Run a command; those of ours in this process, where all is imported already."""
        words = shlex.split(command)
        if words[0] != "oddsmith" or {"|", ">", "<", "&&"} & set(words):
            path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            ended = subprocess.run(
                ["sh", "-c", command], capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=60
            )
            return ended.returncode, ended.stdout + ended.stderr
        from oddsmith.cli.app import app

        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            app(words[1:])
        captured = self.capsys.readouterr()
        return int(end.value.code or 0), captured.out + captured.err

    def _row(self, row: Row) -> None:
        where = f"{self.page.name}:{row.line}"
        assert row.write or "not" in row.remark, f"{where}: what to write is neither said nor said to be missing"
        ours = [evaluate(code, self.ours) for code in row.write]
        if self.page.stem not in LEFT_SIDES:
            return
        scope = {**self.ours, **self.theirs}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what another library warns of is not for us to repair
            theirs = [evaluate(code, scope) for code in row.wrote]
        self.theirs = {key: value for key, value in scope.items() if self.ours.get(key) is not value}
        if row.remark.startswith("equal"):
            left, right = np.asarray(theirs[-1]), np.asarray(ours[-1])
            assert left.dtype != object and left.size, f"{where}: nothing to compare"
            if left.dtype.kind in "biufc":
                np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5, err_msg=where)
            else:
                np.testing.assert_array_equal(left, right, err_msg=where)


def evaluate(code: str, scope: dict[str, Any]) -> Any:
    """Run a statement, or return the value of an expression."""
    try:
        compiled = compile(code, code, "eval")
    except SyntaxError:
        exec(compile(code, code, "exec"), scope)
        return None
    return eval(compiled, scope)
