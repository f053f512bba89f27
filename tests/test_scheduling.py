"""Tests that share a server, a browser or a session run on one worker; the others run on any."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.scheduling import GROUPS, GroupScheduling, group_of, sort_key

ROOT = Path(__file__).parents[1]


class Worker:
    """Remembers what it is given."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway, self.given = SimpleNamespace(id=name), []  # type: ignore[var-annotated]

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_every_group_has_tests() -> None:
    found = {
        group_of(f"{path.relative_to(ROOT).as_posix()}::{name}")
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert set(GROUPS) <= found, "a group that no test belongs to"


@pytest.mark.parametrize(
    ("nodeid", "group"),
    [
        ("tests/engines/test_spark_models.py::test_weights_and_offsets_are_columns", "spark"),
        ("tests/evaluation/test_streamed.py::test_scores_on_spark_are_those_in_memory", "spark"),
        ("tests/engines/test_spark_cluster.py::test_an_executor_killed_in_mid_fit_changes_no_bit", "cluster"),
        ("tests/docs/test_links.py::test_relative_links_lead_somewhere[docs/spark.md]", ""),
        ("src/oddsmith/engines/spark.py::oddsmith.engines.spark.is_spark", ""),
    ],
)
def test_group_is_read_from_the_name_of_a_test(nodeid: str, group: str) -> None:
    assert group_of(nodeid) == group


def test_a_group_goes_to_one_worker_and_every_test_runs_once() -> None:
    tests = [f"tests/export/test_sql.py::test_{i}" for i in range(5)]
    tests += [f"tests/engines/test_dask_models.py::test_{i}" for i in range(5)]
    tests += [f"tests/test_rows.py::test_{i}" for i in range(20)]
    tests.sort(key=sort_key)
    options = SimpleNamespace(loadscopereorder=True, tx=["popen", "popen"], maxschedchunk=None)
    config: Any = SimpleNamespace(option=options, getvalue=lambda name: options.tx, hook=None)
    config.getoption = lambda name, *rest: getattr(options, name, None)
    scheduling = GroupScheduling(config)
    workers: list[Any] = [Worker("first"), Worker("second")]
    for worker in workers:
        scheduling.add_node(worker)
    for worker in workers:
        scheduling.add_node_collection(worker, tests)
    scheduling.schedule()
    done = [0, 0]
    while any(done[i] < len(worker.given) for i, worker in enumerate(workers)):
        for i, worker in enumerate(workers):
            if done[i] < len(worker.given):
                scheduling.mark_test_complete(worker, worker.given[done[i]])
                done[i] += 1
    ran = [[tests[index] for index in worker.given] for worker in workers]
    assert sorted(ran[0] + ran[1]) == sorted(tests)
    groups = [{group_of(test) for test in names} - {""} for names in ran]
    assert groups[0] | groups[1] == {"sql", "dask"} and not groups[0] & groups[1]
    assert min(map(len, ran)) > 10, "One worker was left without tests."
    assert scheduling.tests_finished
