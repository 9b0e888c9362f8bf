"""`/$/metrics`: counters and gauges in the text form of Prometheus. Names say their unit; counters end in _total."""

from __future__ import annotations

import os
import resource
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_ext.errors import NotFound

if TYPE_CHECKING:
    from endpoint.desk import Desk
    from endpoint.query_workers import QueryWorkers

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

#: Upper bounds of the time of a request, in seconds.
BOUNDS_S = (0.001, 0.005, 0.02, 0.1, 0.5, 2.5, 10.0, 60.0)

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})

Labels = Mapping[str, object]
Sample = tuple[str, Labels, float]


class Requests:
    """What was asked and how long it took, by route. Touched on the event loop only."""

    def __init__(self) -> None:
        self.counted: dict[tuple[str, str, int], int] = {}
        self.times: dict[str, list[int]] = {}
        self.seconds: dict[str, float] = {}

    def count(self, route: str, method: str, status: int, seconds: float) -> None:
        key = (route, method if method in _METHODS else "other", status)
        self.counted[key] = self.counted.get(key, 0) + 1
        buckets = self.times.get(route)
        if buckets is None:
            buckets = self.times[route] = [0] * (len(BOUNDS_S) + 1)
        buckets[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds[route] = self.seconds.get(route, 0.0) + seconds


def text(desk: Desk) -> bytes:
    """All of it. The service is asked, so not on the event loop."""
    lines: list[str] = []
    for name, kind, help_, samples in _families(desk):
        lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{part}{_labels(labels)} {value:g}" for part, labels, value in samples]
    return ("\n".join(lines) + "\n").encode()


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(str(value))}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Family = tuple[str, str, str, Iterable[Sample]]


def _families(desk: Desk) -> Iterator[Family]:
    yield from _of_http(desk)
    status = desk.service.status()
    yield from _of_service(status)
    yield from _of_streams(desk)
    yield from _of_queries(desk)
    yield from _of_query_workers(desk.query_workers)
    yield from _of_process()


def _one(name: str, kind: str, help_: str, value: float) -> Family:
    return name, kind, help_, [("", {}, value)]


def _of_http(desk: Desk) -> Iterator[Family]:
    requests = desk.requests
    counted = [("", {"route": r, "method": m, "status": s}, n) for (r, m, s), n in list(requests.counted.items())]
    yield "rillet_http_requests_total", "counter", "Requests answered.", counted
    yield "rillet_http_request_seconds", "histogram", "Time from a request to the end of its answer.", _times(requests)
    workers = desk.workers
    pools = (workers.readers, workers.writers, workers.unpackers, workers.waiters, workers.followers)
    busy = [("", {"pool": pool.kind}, pool.busy) for pool in pools]
    yield "rillet_calls_under_way", "gauge", "Calls that run in a pool of threads or wait for one.", busy
    refused = [("", {"pool": pool.kind}, pool.refused) for pool in pools]
    yield "rillet_calls_refused_total", "counter", "Calls that a full pool told to come back.", refused
    yield _one(
        "rillet_questions_under_way",
        "gauge",
        "Queries and updates of /sparql that run or are sent.",
        len(desk.underway),
    )
    yield _one(
        "rillet_questions_cancelled_total", "counter", "Queries and updates ended by DELETE.", desk.underway.cancelled
    )
    yield _one("rillet_remembered_hits_total", "counter", "Answers that were remembered.", desk.remembered.hits)


def _times(requests: Requests) -> Iterator[Sample]:
    for route, buckets in list(requests.times.items()):
        sums = list(accumulate(buckets))
        for bound, count in zip((*BOUNDS_S, "+Inf"), sums, strict=True):
            yield "_bucket", {"route": route, "le": bound}, count
        yield "_sum", {"route": route}, requests.seconds[route]
        yield "_count", {"route": route}, sums[-1]


def _of_service(status: dict[str, Any]) -> Iterator[Family]:
    writer = status["writer"]
    yield _one("rillet_snapshot", "gauge", "The last snapshot.", status["head"])
    yield _one("rillet_evaluated_snapshot", "gauge", "The last snapshot that all queries took in.", status["position"])
    yield _one("rillet_lag_snapshots", "gauge", "Snapshots that wait to be evaluated.", status["lag"])
    yield _one("rillet_lag_seconds", "gauge", "For how long the oldest of them waits.", status["lag_ms"] / 1000)
    yield _one("rillet_streams", "gauge", "Streams.", status["streams"])
    yield _one("rillet_queries", "gauge", "Registered queries.", status["queries"])
    yield _one("rillet_subscriptions", "gauge", "Who listens to emissions.", status["subscriptions"])
    yield _one("rillet_writer_queued", "gauge", "Requests that wait for the writer.", writer["queued"])
    yield _one("rillet_writer_queued_bytes", "gauge", "Bytes of pushes that wait.", writer["queued_bytes"])
    faults = bool(status["fault"]) + bool(writer["fault"])
    yield _one("rillet_faults", "gauge", "Parts that have stopped for good: writer, emission log.", faults)
    on_spark = float(status["runner"] == "spark")
    yield _one("rillet_runs_on_spark", "gauge", "1 while Spark steps the queries, 0 while the server does.", on_spark)


def _of_streams(desk: Desk) -> Iterator[Family]:
    names = [stream.name for stream in desk.service.streams()]
    found = [{"name": name} | status for name, status in _statuses(names, desk.service.stream_status)]
    batches = [("", {"stream": one["name"]}, one["batches"]) for one in found]
    yield "rillet_stream_batches_total", "counter", "Batches of a stream.", batches
    late = [("", {"stream": one["name"]}, one["late"]) for one in found]
    yield "rillet_stream_late_total", "counter", "Elements that came late.", late
    times = [("", {"stream": one["name"]}, one["time"] / 1000) for one in found if one["time"] is not None]
    yield "rillet_stream_time_seconds", "gauge", "Where the time of a stream has come to.", times


def _statuses(names: list[str], ask: Callable[[str], dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in names:
        with suppress(NotFound):  # dropped since its name was listed
            yield name, ask(name)


def _of_queries(desk: Desk) -> Iterator[Family]:
    names = [query.name for query in desk.service.queries()]
    found = [status for _, status in _statuses(names, desk.service.query_status)]
    emissions = [("", {"query": one["query"]}, one["emissions"]) for one in found]
    yield "rillet_query_emissions_total", "counter", "The number of a query's last emission.", emissions
    failed = [("", {"query": one["query"]}, one["state"] == "failed") for one in found]
    yield "rillet_query_failed", "gauge", "1 for a query that is stepped no more.", failed


def _of_query_workers(crew: QueryWorkers) -> Iterator[Family]:
    told = crew.told()
    busy = [("", {"worker": one["worker"]}, one["queries"]) for one in told]
    yield "rillet_query_worker_queries", "gauge", "Queries that a query worker answers now.", busy
    asked = [("", {"worker": one["worker"]}, one["asked"]) for one in told]
    yield "rillet_query_worker_queries_total", "counter", "Queries that a query worker was given.", asked
    memory = [("", {"worker": one["worker"]}, _resident_bytes(one["pid"])) for one in told]
    yield "rillet_query_worker_resident_memory_bytes", "gauge", "Resident memory of a query worker.", memory
    yield _one("rillet_query_workers_replaced_total", "counter", "Query workers that ended early.", crew.replaced)


def _resident_bytes(pid: int | str) -> int:
    """0 of a process that has just ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _of_process() -> Iterator[Family]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    yield _one("process_cpu_seconds_total", "counter", "Processor time of the server's process.", cpu)
    memory = _resident_bytes("self")
    yield _one("process_resident_memory_bytes", "gauge", "Resident memory of the server's process.", memory)
    yield _one("process_open_fds", "gauge", "Open files and connections.", len(os.listdir("/proc/self/fd")))
