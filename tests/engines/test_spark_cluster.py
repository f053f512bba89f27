"""Spark with executors that are processes of their own: one that is killed costs time, and no bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark import why_no_spark

SCRIPT = Path(__file__).with_name("spark_cluster.py")


@pytest.mark.skipif(bool(why_no_spark()), reason=why_no_spark())
@pytest.mark.skipif(not Path("/proc").exists(), reason="executors are found through /proc")
def test_an_executor_killed_in_mid_fit_changes_no_bit(tmp_path: Path) -> None:
    root = SCRIPT.parents[2]
    places = {"SPARK_WORKER_DIR": str(tmp_path / "work"), "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    environment = os.environ | places | {"PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr[-3000:]
    for found in json.loads(ended.stdout.splitlines()[-1]):
        assert found.pop("passes") >= 4
        assert found == {"killed": 1, "same": True, "certificates": True, "rows": 800}
