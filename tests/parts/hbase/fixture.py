"""The HBase of a test run: started when the first test asks for it, stopped at the end.

Mark such tests with `hbase`, and with `xdist_group("hbase")`, so that one worker runs them all (`--dist loadgroup`);
a worker that is given one nevertheless starts a server of its own, on ports of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from endpoint.trial_hbase import kit
from endpoint.trial_hbase.kit import MissingTool
from endpoint.trial_hbase.server import HBase
from tests.parts.missing import missing


def need_hbase() -> None:
    """For a test that starts one of its own."""
    try:
        kit.class_path()
    except MissingTool as error:
        missing("HBASE", error)


@pytest.fixture(scope="session")
def hbase_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HBase]:
    server = HBase(tmp_path_factory.mktemp("hbase"), short_lived=True)
    try:
        server.start()
    except MissingTool as error:
        missing("HBASE", error)
    yield server
    server.stop()
