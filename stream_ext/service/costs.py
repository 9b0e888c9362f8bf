"""What the registered queries cost, by stream and by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stream_ext.catalog.catalog import Catalog
from stream_ext.service.engine import Engine
from stream_ext.windows.timing import Timing

#: So many classes are listed, the dearest first.
_CLASSES_MAX = 100


def costs_of(engine: Engine, catalog: Catalog) -> dict[str, Any]:
    """`streams`, and `classes`: queries with the same windows over the same streams,
    which are evaluated at the same times. A query over two streams counts half for each."""
    accounts, rows = engine.merge.accounts, engine.merge.rows
    of_streams = {number: _Cost() for number in catalog.streams}
    of_classes: dict[Timing, _Cost] = {}
    for query in catalog.queries.values():
        spent = accounts.of(query), accounts.state_bytes(query) or 0, rows(query.number)
        streams = sorted(set(catalog.streams_of(query)))
        for stream in streams:
            of_streams[stream].add(*spent, 1 / len(streams))
        if (timing := engine.retention.timing_of(query.number)) is not None:
            of_classes.setdefault(timing, _Cost()).add(*spent)
    dearest = sorted(of_classes.items(), key=lambda each: -each[1].core_ms)
    return {
        "streams": [{"stream": catalog.streams[number].name, **each.as_json()} for number, each in of_streams.items()],
        "classes": [{**_class(timing, catalog), **each.as_json()} for timing, each in dearest[:_CLASSES_MAX]],
    }


@dataclass(slots=True)
class _Cost:
    queries: int = 0
    core_ms: float = 0.0
    state_bytes: float = 0.0
    rows: float = 0.0

    def add(self, core_ms: float, state_bytes: int, rows: int, part: float = 1.0) -> None:
        self.queries += 1
        self.core_ms += core_ms * part
        self.state_bytes += state_bytes * part
        self.rows += rows * part

    def as_json(self) -> dict[str, Any]:
        return {
            "queries": self.queries, "core_ms": round(self.core_ms, 3), "state_bytes": round(self.state_bytes),
            "rows": round(self.rows),
        }  # fmt: skip


def _class(timing: Timing, catalog: Catalog) -> dict[str, Any]:
    windows = [
        {
            "stream": catalog.streams[window.stream].name if window.stream in catalog.streams else None,
            "range_ms": window.range_ms or None, "step_ms": window.step_ms or None,
            "count": None if window.count is None else window.count.most,
        }
        for window in timing.windows
    ]  # fmt: skip
    return {"windows": windows, "arrivals": timing.arrivals, "every_ms": list(timing.every_ms)}
