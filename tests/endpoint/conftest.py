"""One server for the tests of a module; those that need another kind start their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from endpoint.limits import HttpLimits
from tests.endpoint.live import Live, live


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    limits = HttpLimits(body_bytes=100_000, inflated_bytes=1_000_000, text_bytes=10_000, heartbeat_s=0.05)
    with live(tmp_path_factory.mktemp("store"), limits=limits) as running:
        running.update(
            "INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> . "
            "<http://ex/a> <http://ex/says> 'one', 'zwei'@de, 3, '<&\"\\t,\\n' }"
        )
        yield running
