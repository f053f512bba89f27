"""What tests of the engines start once for a module."""

from collections.abc import Iterator
from typing import Any

import dask
import pytest


@pytest.fixture(scope="module")
def dask_client() -> Iterator[Any]:
    """Two worker processes, forked from one that has imported what they need: a killed one is soon replaced."""
    from distributed import Client, LocalCluster
    from distributed.utils import get_mp_context

    settings = {
        "distributed.worker.memory.terminate": False,
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(["distributed", "dask.dataframe", "oddsmith.testing"])
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client
