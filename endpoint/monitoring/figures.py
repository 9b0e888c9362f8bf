"""What the metrics say of single streams and queries: of so many of each, the oldest; each name is a series for ever.

Reading them waits for whoever has the merge, who may wait for the store; so it is done where that hangs nobody
(`endpoint.monitoring.last_known`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_ext.service.service import Service

#: Of so many streams, and so many queries, there are figures of each one's own.
NAMES_MAX = 200


@dataclass(frozen=True, slots=True)
class Figures:
    streams: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    retention: Mapping[str, Any]
    spark: Mapping[str, Any] | None


def read(service: Service) -> Figures:
    status = service.status()
    return Figures(
        [service.stream_figures(stream) for stream in islice(service.streams(), NAMES_MAX)],
        [service.query_figures(query) for query in islice(service.queries(), NAMES_MAX)],
        status["retention"],
        status["spark"],
    )
