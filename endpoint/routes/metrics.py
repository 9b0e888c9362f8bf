"""`/$/metrics`: counters and gauges in the text format of Prometheus. Names end in their unit, counters in _total.

Nothing here waits, so the figures of the process are always present ones. Only the figures of single streams and
queries may be older; another metric shows their age."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from endpoint.http.connections import REASONS
from endpoint.http.request_counts import BOUNDS_S, Requests
from endpoint.monitoring.figures import NAMES_MAX
from hbase_store import purposes
from hbase_store.version import __version__
from stream_ext.waits import Kind

if TYPE_CHECKING:
    from endpoint.http.app_state import AppState
    from endpoint.monitoring.figures import MeasuredFigures
    from endpoint.monitoring.last_known import Known
    from endpoint.query_workers import QueryWorkers
    from hbase_store import Calls

MEDIA_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def text(state: AppState, figures: Known[MeasuredFigures] | None) -> bytes:
    """All metrics. `figures`: the last known ones of streams and queries."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Families(state, figures))
    return generate_latest(registry)


class _Families(Collector):
    def __init__(self, state: AppState, figures: Known[MeasuredFigures] | None) -> None:
        self._state, self._figures = state, figures

    def collect(self) -> Iterator[Metric]:
        state = self._state
        yield from _of_build(state)
        yield from _of_http(state)
        yield from _of_connections(state)
        yield from _of_service(state.service.status_at_once())
        yield _gauge("rillet_readers", "Servers of the same store that follow this one.", state.followers)
        yield from _of_waits(state)
        yield _gauge(
            "rillet_figures_age_seconds",
            "Age of the metrics of single streams and queries; 0: current.",
            nan if self._figures is None else self._figures.age_s,
        )
        if self._figures is not None:
            yield from _of_figures(self._figures.value)
        yield from _of_store_calls(state.service.store.kv)
        yield from _of_query_workers(state.query_workers)


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=value)


def _counter(name: str, help: str, value: float) -> Metric:
    return CounterMetricFamily(name, help, value=value)


def _of_each(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    help: str,
    label: str,
    values: Iterable[tuple[object, float | None]],
) -> Metric:
    """A sample for each value of a label; no metric if there is none."""
    family = kind(name, help, labels=[label])
    for of, value in values:
        if value is not None:
            family.add_metric([str(of)], value)
    return family


def _of_build(state: AppState) -> Iterator[Metric]:
    status = state.service.status_at_once()
    build = {
        "version": __version__,
        "python": platform.python_version(),
        "store": status["store"].partition(":")[0],
        "engine": "spark" if state.service.has_spark else "inline",
    }
    family = GaugeMetricFamily(
        "rillet_build_info", "Version, Python, store and engine of this server; always 1.", labels=list(build)
    )
    family.add_metric(list(build.values()), 1)
    yield family


def _of_http(state: AppState) -> Iterator[Metric]:
    requests, workers = state.requests, state.workers
    counted = CounterMetricFamily(
        "rillet_http_requests_total", "Requests answered.", labels=["route", "method", "status"]
    )
    for (route, method, status), count in dict(requests.counted).items():
        counted.add_metric([route, method, str(status)], count)
    yield counted
    yield _times(requests)
    pools = (
        workers.readers,
        workers.measurers,
        workers.writers,
        workers.unpackers,
        workers.waiters,
        workers.followers,
        workers.operations,
    )
    under_way = "Calls that run in a pool of threads or wait for a thread."
    yield _of_each(
        GaugeMetricFamily, "rillet_calls_under_way", under_way, "pool", [(pool.kind, pool.busy) for pool in pools]
    )
    refused = [(pool.kind, pool.refused) for pool in pools]
    refused_help = "Calls that were rejected because the pool was full."
    yield _of_each(CounterMetricFamily, "rillet_calls_refused_total", refused_help, "pool", refused)
    yield _gauge(
        "rillet_questions_under_way",
        "Queries and updates of /sparql that run, or whose response is being sent.",
        len(state.underway),
    )
    yield _counter("rillet_questions_cancelled_total", "Queries and updates ended by DELETE.", state.underway.cancelled)
    used = "Memory that current queries and updates use of --queries-bytes."
    yield _gauge("rillet_query_memory_bytes", used, state.memory.used)
    yield _counter("rillet_remembered_hits_total", "Responses from the cache of results.", state.answer_cache.hits)


def _times(requests: Requests) -> Metric:
    family = HistogramMetricFamily(
        "rillet_http_request_seconds", "Time from a request to the end of its response.", labels=["route"]
    )
    for route, buckets in dict(requests.times).items():
        sums = list(accumulate(buckets))
        bounds = [*map(floatToGoString, BOUNDS_S), "+Inf"]
        family.add_metric([route], list(zip(bounds, sums, strict=True)), requests.seconds[route])
    return family


def _of_connections(state: AppState) -> Iterator[Metric]:
    connections = state.connections
    busy, all_ = connections.busy, len(connections.open)
    open_ = [("busy", busy), ("waiting", all_ - busy)]
    yield _of_each(GaugeMetricFamily, "rillet_connections", "Open connections.", "state", open_)
    ended = [(reason, connections.ended[reason]) for reason in REASONS]
    yield _of_each(
        CounterMetricFamily, "rillet_connections_ended_total", "Connections that the server closed.", "reason", ended
    )
    yield _gauge("rillet_bodies_bytes", "Size of the bodies of current requests.", state.bodies.nbytes)
    yield _counter("rillet_bodies_refused_total", "Bodies rejected for lack of room.", state.bodies.refused)


def _of_service(status: dict[str, Any]) -> Iterator[Metric]:
    writer = status["writer"]
    yield _gauge("rillet_snapshot", "The last snapshot.", status["head"])
    yield _gauge("rillet_evaluated_snapshot", "The last snapshot that all queries have evaluated.", status["position"])
    yield _gauge("rillet_lag_snapshots", "Snapshots that wait to be evaluated.", status["lag"])
    yield _gauge(
        "rillet_lag_seconds", "How long the oldest of these snapshots has been waiting.", status["lag_ms"] / 1000
    )
    yield _gauge("rillet_streams", "Streams.", status["streams"])
    yield _gauge("rillet_queries", "Registered queries.", status["queries"])
    yield _gauge("rillet_subscriptions", "Subscriptions to emissions.", status["subscriptions"])
    is_writer = float(status["role"] == "writer")
    yield _gauge("rillet_writer", "1 if this server writes to the store, 0 if it is a reader.", is_writer)
    yield _gauge("rillet_writer_queued", "Requests that wait for the writer.", writer["queued"])
    yield _gauge("rillet_writer_queued_bytes", "Bytes of pushes that wait for the writer.", writer["queued_bytes"])
    faults = bool(status["fault"]) + bool(writer["fault"])
    yield _gauge("rillet_faults", "Parts of the server that have stopped: the writer, the emission log.", faults)
    on_spark = float(status["runner"] == "spark")
    yield _gauge("rillet_runs_on_spark", "1 while Spark evaluates the queries, 0 while the server does.", on_spark)


def _of_waits(state: AppState) -> Iterator[Metric]:
    now_ms = state.service.clock.now_ms()
    since = {wait.kind: wait.since_ms for wait in state.service.waits.current()}
    waited = [(kind, (now_ms - since[kind]) / 1000 if kind in since else 0.0) for kind in get_args(Kind)]
    yield _of_each(
        GaugeMetricFamily,
        "rillet_waits_seconds",
        "How long the server has been waiting for it; 0: it is not waiting.",
        "for",
        waited,
    )


def _of_figures(figures: MeasuredFigures) -> Iterator[Metric]:
    yield from _of_all("stream", figures.streams, _OF_STREAM)
    yield from _of_all("query", figures.queries, _OF_QUERY)
    yield from _of_all("stream", figures.costs["streams"][:NAMES_MAX], _OF_COSTS)
    retention, spark = figures.retention, figures.spark
    yield _gauge("rillet_timing_bytes", "Size of the stream elements that are not absorbed.", retention["timing_bytes"])
    most = "The limit of this size (--timing-bytes)."
    yield _gauge("rillet_timing_bytes_max", most, retention["timing_bytes_max"])
    if spark is not None:
        yield _gauge("rillet_spark_up", "1 while Spark is up.", float(spark["state"] == "up"))
        for name, help in _OF_SPARK.items():
            yield _counter(f"rillet_spark_{name}_total", help, spark[name])


_OF_SPARK = {
    "starts": "Started drivers of Spark.",
    "epochs": "Started epochs of Spark.",
    "lost": "Spark tasks that ended early.",
    "steps": "Snapshots that Spark has evaluated.",
}


_OfEach = tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, str, int]

#: Of each stream and query: the metric, what it is, the field of the status, and how many units of the field are one.
_OF_STREAM: tuple[_OfEach, ...] = (
    (CounterMetricFamily, "rillet_stream_batches_total", "Batches of a stream.", "batches", 1),
    (CounterMetricFamily, "rillet_stream_elements_total", "Elements since the start of the server.", "elements", 1),
    (CounterMetricFamily, "rillet_stream_late_total", "Late elements.", "late", 1),
    (GaugeMetricFamily, "rillet_stream_time_seconds", "The time of the stream.", "time_ms", 1000),
    (
        GaugeMetricFamily, "rillet_stream_behind_seconds", "How far the time of the stream is behind the clock.",
        "behind_ms", 1000,
    ),
)  # fmt: skip
#: Of what the queries over a stream take; those over two streams count half for each.
_OF_COSTS: tuple[_OfEach, ...] = (
    (
        CounterMetricFamily, "rillet_stream_core_seconds_total",
        "CPU time of the queries over a stream since the start of the server.", "core_ms", 1000,
    ),
    (
        GaugeMetricFamily, "rillet_stream_state_bytes", "Memory of the networks of the queries over a stream.",
        "state_bytes", 1,
    ),
    (CounterMetricFamily, "rillet_stream_rows_total", "Rows that the queries over a stream have emitted.", "rows", 1),
)  # fmt: skip
_OF_QUERY: tuple[_OfEach, ...] = (
    (CounterMetricFamily, "rillet_query_emissions_total", "The number of a query's last emission.", "emissions", 1),
    (
        CounterMetricFamily, "rillet_query_evaluations_total", "Evaluations since the start of the server.",
        "evaluations", 1,
    ),
    (
        CounterMetricFamily, "rillet_query_core_seconds_total",
        "CPU time of evaluations since the start of the server; of a template, divided among its queries.",
        "core_ms", 1000,
    ),
    (
        GaugeMetricFamily, "rillet_query_state_bytes",
        "Memory of the query's network; of a template, divided among its queries.", "state_bytes", 1,
    ),
    (CounterMetricFamily, "rillet_query_rows_total", "Rows emitted since the start of the server.", "rows", 1),
    (
        GaugeMetricFamily, "rillet_query_lag_seconds", "How long the next snapshot of the query has been waiting.",
        "lag_ms", 1000,
    ),
    (GaugeMetricFamily, "rillet_query_time_seconds", "The time of the query's last evaluation.", "time_ms", 1000),
    (GaugeMetricFamily, "rillet_query_failed", "1 if the query has failed or is parked.", "failed", 1),
    (GaugeMetricFamily, "rillet_query_waiting", "1 while the query waits for another store to answer.", "waiting", 1),
    (
        GaugeMetricFamily, "rillet_query_slowed", "1 while it is slowed, for pushes waited for it (--query-share).",
        "slowed", 1,
    ),
)  # fmt: skip


def _of_all(label: str, listed: Sequence[Mapping[str, Any]], metrics: Iterable[_OfEach]) -> Iterator[Metric]:
    for family, name, help, key, units in metrics:
        values = ((one[label], None if one[key] is None else one[key] / units) for one in listed)
        yield _of_each(family, name, help, label, values)


def _of_store_calls(store: Any) -> Iterator[Metric]:
    """`store`: the key-value backend; LMDB makes no calls."""
    calls: Calls | None = getattr(store, "calls", None)
    if calls is None:
        return
    servers = "1 while calls go to this Thrift server, 0 while it is left out."
    used = [(server, float(is_used)) for server, is_used in store.health()]
    yield _of_each(GaugeMetricFamily, "rillet_hbase_server_used", servers, "server", used)
    counts = calls.counts()
    count = "Calls of HBase."
    yield _of_each(CounterMetricFamily, "rillet_hbase_calls_total", count, "verb", [(c.verb, c.count) for c in counts])
    failed = "Calls of HBase that failed."
    values = [(c.verb, c.failed) for c in counts]
    yield _of_each(CounterMetricFamily, "rillet_hbase_calls_failed_total", failed, "verb", values)
    seconds = "Total time of the calls of HBase."
    values_s = [(c.verb, c.seconds) for c in counts]
    yield _of_each(CounterMetricFamily, "rillet_hbase_call_seconds_total", seconds, "verb", values_s)
    nbytes = "Bytes of keys and values in the calls of HBase."
    yield _of_each(
        CounterMetricFamily, "rillet_hbase_bytes_total", nbytes, "verb", [(c.verb, c.nbytes) for c in counts]
    )
    known = purposes()
    took = "Calls of HBase, by what they were made for."
    values = [(each.name, each.calls) for each in known]
    yield _of_each(CounterMetricFamily, "rillet_hbase_purpose_calls_total", took, "purpose", values)
    waited = "Total time of these calls; calls at the same time are added up."
    values_s = [(each.name, each.seconds) for each in known]
    yield _of_each(CounterMetricFamily, "rillet_hbase_purpose_seconds_total", waited, "purpose", values_s)
    begun = "How often it was done for which these calls were made."
    values = [(each.name, each.begun) for each in known]
    yield _of_each(CounterMetricFamily, "rillet_hbase_purposes_total", begun, "purpose", values)


def _of_query_workers(crew: QueryWorkers) -> Iterator[Metric]:
    workers = crew.status()
    busy = [(one["worker"], one["queries"]) for one in workers]
    answers = "Queries that a query worker evaluates now."
    yield _of_each(GaugeMetricFamily, "rillet_query_worker_queries", answers, "worker", busy)
    received = [(one["worker"], one["asked"]) for one in workers]
    given = "All queries that were sent to a query worker."
    yield _of_each(CounterMetricFamily, "rillet_query_worker_queries_total", given, "worker", received)
    memory = [(one["worker"], _resident_bytes(one["pid"])) for one in workers]
    resident = "Resident memory of a query worker."
    yield _of_each(GaugeMetricFamily, "rillet_query_worker_resident_memory_bytes", resident, "worker", memory)
    yield _counter(
        "rillet_query_workers_replaced_total", "Query workers that ended early or had to be killed.", crew.replaced
    )


def _resident_bytes(pid: int) -> int:
    """The memory that a process of this server takes; 0 if it has just ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
