"""The benchmark of the endpoint itself: its client counts what was answered; what is not 200 makes no figure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.benchmarks import http
from tests.endpoint.live import Live, live


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "store") as running:
        running.update('INSERT DATA { <http://ex/p77> <http://ex/name> "77" }')
        yield running


def port_of(server: Live) -> int:
    port = urlsplit(server.url).port
    assert port is not None
    return port


@pytest.mark.parametrize("connections", [1, 3])
def test_what_the_client_counts_is_what_the_server_answered(server: Live, connections: int) -> None:
    figures = http.measured(port_of(server), connections, 0.3, http.SAME)
    assert figures["requests_per_s"] > 0
    assert 0 < figures["ms_p50"] <= figures["ms_p99"]
    (counted,) = (n for (route, _, _), n in server.server._app.app_state.requests.counted.items() if route == "/sparql")
    assert counted >= 0.3 * figures["requests_per_s"]


def test_a_server_that_refuses_has_no_figure(server: Live) -> None:
    with pytest.raises(AssertionError, match="answers were not 200"):
        http.measured(port_of(server), 1, 0.1, ["SELECT { }"])


def test_new_texts_are_all_different() -> None:
    texts = [*http._new("a", 1_000), *http._new("b", 1_000)]
    assert len(set(texts)) == 2_000
