"""The figures of single streams and queries for the metrics, of the oldest ones only: each name is a series for ever.

Reading them waits for the lock of the merge, whose owner may wait for the store. So a thread reads them that may
hang (`endpoint.monitoring.last_known`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stream_ext.service.service import Service

#: The metrics have figures of at most so many streams, and so many queries.
NAMES_MAX = 200


@dataclass(frozen=True, slots=True)
class MeasuredFigures:
    streams: list[dict[str, Any]]
    queries: list[dict[str, Any]]
    costs: Mapping[str, Any]
    retention: Mapping[str, Any]
    spark: Mapping[str, Any] | None


def read(service: Service) -> MeasuredFigures:
    status = service.status()
    return MeasuredFigures(
        [service.stream_figures(stream) for stream in islice(service.streams(), NAMES_MAX)],
        [service.query_figures(query) for query in islice(service.queries(), NAMES_MAX)],
        service.costs(),
        status["retention"],
        status["spark"],
    )
