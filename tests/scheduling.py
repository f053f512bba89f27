"""Which tests one worker of pytest-xdist runs together, and what starts first.

The marks of ``--dist loadgroup`` do not arrive with pytest 9.2: https://github.com/pytest-dev/pytest-xdist/issues/1386.
Here the name of a test says its group, and nothing depends on how node ids are built.
"""

from __future__ import annotations

import re
from typing import Any

from xdist.scheduler import LoadScopeScheduling

# What is started once, for all its tests. Groups start in this order, those that take longest first, those that wait
# beside those that compute; then comes every other test alone, so that examples of a few milliseconds are left for the
# end and no worker waits for another.
GROUPS = {
    "cluster": r"tests/engines/test_spark_cluster\.",  # executors that are processes; not the session of the others
    "spark": r"[^\[]*::test_[^\[]*spark|tests/engines/test_spark_",  # one Java process
    "browser": r"tests/(lab|report)/test_browser\.|tests/lab/test_explorer\.py::[^\[]*browser|tests/docs/test_site\.",
    "gallery": r"tests/plots/test_(gallery|displays)\.",  # each figure is drawn once, and looked at several times
    "dask": r"tests/engines/test_dask_",  # workers that are processes
    "sql": r"tests/export/test_sql\.",  # PostgreSQL
    "zoo": r"tests/persistence/test_round_trip\.",
    "loky": r"tests/models/test_multiclass\.py::test_fits_in_parallel",  # joblib's processes
    "contracts": r"tests/test_contracts\.",  # parses all sources
    "wheel": r"tests/lectures/test_wheel\.",
}
_GROUPS = {name: re.compile(pattern) for name, pattern in GROUPS.items()}


def group_of(nodeid: str) -> str:
    """Return the name of the group that a test belongs to, or nothing."""
    return next((name for name, pattern in _GROUPS.items() if pattern.match(nodeid)), "")


def sort_key(nodeid: str) -> tuple[int, bool]:
    """Return the place of a test: groups come before all else, and the site, being built, after other pages."""
    name = group_of(nodeid)
    return list(GROUPS).index(name) if name else len(GROUPS), nodeid.startswith("tests/docs/test_site.")


class GroupScheduling(LoadScopeScheduling):
    """Gives a group of tests to one worker, as a whole, and other tests one by one, in the order collected."""

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        # What is done is forgotten: it would be counted again after each of thousands of tests.
        scope = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        if all(self.assigned_work[node][scope].values()):
            del self.assigned_work[node][scope]
