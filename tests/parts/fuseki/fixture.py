"""The Fuseki of a test run: started when the first test asks for it, empty for each test, stopped at the end.

Mark such tests with `fuseki`, and with `xdist_group("fuseki")`, so that one worker runs them all (`--dist loadgroup`);
a worker that is given one nevertheless starts a server of its own, on a port of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from endpoint.trial_hbase.jdk import MissingTool
from tests.parts.fuseki.server import Fuseki
from tests.parts.missing import missing


@pytest.fixture(scope="session")
def fuseki_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuseki]:
    server = Fuseki(tmp_path_factory.mktemp("fuseki"), short_lived=True)
    try:
        server.start()
    except MissingTool as error:
        missing("FUSEKI", error)
    yield server
    server.stop()


@pytest.fixture
def fuseki(fuseki_server: Fuseki) -> Fuseki:
    fuseki_server.empty()
    return fuseki_server
