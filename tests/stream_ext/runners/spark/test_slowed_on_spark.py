"""A shard of Spark reports what its queries cost, and slows the one for which pushes wait, as inline runners do."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.errors import Overload
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.service import Limits
from tests.parts.waiting import until
from tests.stream_ext.opened import opened
from tests.stream_ext.runners.spark.test_shards_on_spark import all_on_spark, with_seats
from tests.stream_ext.service.test_slowed_queries import (
    _LIGHT,
    calm,
    emissions,
    feed,
    registered,
    state,
    without_snapshots,
)


@pytest.mark.timeout(300)
def test_a_query_that_is_slowed_on_spark_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_seats(monkeypatch)
    settings, limits, step = SparkSettings(epoch_s=60, warmup_epochs=0, shards=1), Limits(lag_ms=400), 0
    with opened(tmp_path / "spark", SystemClock(), engine="spark", spark=settings, limits=limits) as service:
        registered(service)
        until(lambda: all_on_spark(service), "Spark has the queries")
        while state(service) != "slowed":
            with contextlib.suppress(Overload):  # it is sent again
                feed(service, step + 1)
                step += 1
            assert step < 2_000, f"never slowed: {service.query_status('heavy')}"
        assert "--query-share 25%" in service.query_status("heavy")["error"]
        assert [state(service, name) for name in _LIGHT] == ["running"] * len(_LIGHT)
        costs = {query.name: service.query_figures(query) for query in service.queries()}
        assert all(each["state_bytes"] for each in costs.values()), "each has been measured"
        assert costs["heavy"]["core_ms"] > max(costs[name]["core_ms"] for name in _LIGHT)
        service.heartbeat("s", (step + 1) * 1_000, wait="evaluated")
        assert all_on_spark(service)
        found = emissions(service)
    assert without_snapshots(found) == without_snapshots(calm(tmp_path / "calm", step))
