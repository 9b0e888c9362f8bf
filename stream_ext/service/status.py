"""Status of a query, of a stream and of the whole service, as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from hbase_store import Store
from stream_ext.catalog.catalog import Catalog, QueryDefinition, StreamDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.continuous.assignment import division_over
from stream_ext.continuous.faults import is_caught_up_later, is_slowed
from stream_ext.emissions.merged_progress import Runner
from stream_ext.service.engine import Engine
from stream_ext.service.next_close import next_close
from stream_ext.windows.query_state import QueryState
from stream_ext.writer.injector import Injector


def query_status(query: QueryDefinition, injector: Injector, engine: Engine, oldest: int) -> dict[str, Any]:
    """`oldest`: the oldest snapshot that is retained."""
    merge, catalog = engine.merge, injector.catalog  # read once: each change makes a new catalog
    streams = catalog.streams
    output = None if query.output is None else streams.get(query.output)
    state = merge.state(query.number)
    last = state.evaluated if state is not None else None
    error = fault_of_query(query, engine)
    return {
        "query": query.name,
        "iri": query.iri,
        "text": query.text,
        "r2s": query.r2s,
        "state": _state(query, state) if error is None or not query.is_evaluated else _state_with_fault(error),
        "error": error or engine.derived.faults.get(query.number),
        "runner": merge.runner_of(query),
        "why": _why_of(query, engine, catalog),
        "shard": _shard_of(query, engine),
        "divided": merge.plan.divides(query),
        "replay": engine.replays.status(query.number),
        "worker": _worker_of(query, engine),
        "stream": None if output is None else output.name,
        "streams": list(dict.fromkeys(streams[number].name for number in catalog.streams_of(query))),
        "waits_for": [streams[number].name for number in engine.lateness.waits_for(query.number) if number in streams],
        **next_close(query, injector, engine),
        "registered": query.registered_sn,
        "evaluations": merge.evaluations(query.number),
        "behind": _behind(state),
        "gap": _has_gap(state, oldest),
        "core_ms": round(merge.accounts.of(query), 3),
        "state_bytes": merge.accounts.state_bytes(query),
        "sharing": max(1, merge.accounts.sharing(query.placement)),
        "rows": merge.rows(query.number),
        "stored_with": merge.stored_with(query.number),
        "emissions": merge.last(query.number),
        "oldest_emission": engine.emissions.oldest(query.number),
        "evaluated": None if last is None else {"time": last.time, "snapshot": last.sn},
        "position": merge.position,
        "lag": injector.head - merge.position,
        "lag_ms": engine.lag_ms(),
        "late": engine.lateness.late_of(query.number),
    }


def query_past(query: QueryDefinition, engine: Engine) -> list[dict[str, Any]]:
    """What happened to the query, the latest first; of the time before this process started without interruptions that
    ended by themselves."""
    events = [msgspec.structs.asdict(event) for event in query.past]
    events += [
        {"time_ms": fault.time_ms, "snapshot": None, "what": "interrupted", "why": fault.why, "text": ""}
        for fault in engine.past_faults.of(query.number)
    ]
    return sorted(events, key=lambda event: int(event["time_ms"]))[::-1]


def stream_status(stream: StreamDefinition, injector: Injector, engine: Engine) -> dict[str, Any]:
    """The position of a stream, and what reads it."""
    position, catalog = injector.positions.get(stream.number), injector.catalog
    of_query = None if stream.of_query is None else catalog.queries.get(stream.of_query)
    return {
        "runs_by": stream.runs_by,
        "query": None if of_query is None else of_query.name,
        "created_by": stream.created_by,
        "time": None if position is None else position.time,
        "last_element_at": engine.elements.last_ms(position),
        "batches": 0 if position is None else position.batch,
        "late": engine.lateness.elements.counted(stream.number),
        "readers": [query.name for query in catalog.readers_of(stream.number)],
    }


def query_figures(query: QueryDefinition, engine: Engine) -> dict[str, Any]:
    """The counters of a query since this process started, and its lag."""
    merge, number = engine.merge, query.number
    state = merge.state(number)
    fault = fault_of_query(query, engine)
    is_waiting = query.is_evaluated and fault is not None and is_caught_up_later(fault)
    slowed = query.is_evaluated and fault is not None and is_slowed(fault)
    return {
        "query": query.name,
        "failed": query.failure is not None
        or (query.is_evaluated and fault is not None and not is_waiting and not slowed),
        "waiting": is_waiting,
        "slowed": slowed,
        "evaluations": merge.evaluations(number),
        "core_ms": merge.accounts.of(query),
        "state_bytes": merge.accounts.state_bytes(query),
        "rows": merge.rows(number),
        "emissions": merge.last(number),
        "time_ms": None if state is None or state.evaluated is None else state.evaluated.time,
        "lag_ms": engine.lag_ms() if query.is_evaluated and fault is None else None,
    }


def stream_figures(stream: StreamDefinition, injector: Injector, engine: Engine) -> dict[str, Any]:
    position = injector.positions.get(stream.number)
    time_ms = None if position is None else position.time
    return {
        "stream": stream.name,
        "batches": 0 if position is None else position.batch,
        "elements": engine.elements.count(stream.number),
        "late": engine.lateness.elements.counted(stream.number),
        "time_ms": time_ms,
        "behind_ms": None if time_ms is None else engine.clock.now_ms() - time_ms,
    }


def service_status(store: Store, injector: Injector, engine: Engine) -> dict[str, Any]:
    retention = engine.retention.status(injector.catalog)
    return {
        **at_once(store.url, injector, engine),
        "folded": _folded(store),
        "retention": retention | {"fault": retention["fault"] or engine.saving.fault},
        "spark": None if engine.spark is None else engine.spark.status(),
    }


def _folded(store: Store) -> dict[str, int]:
    """How much of the store is in sorted runs."""
    head = int(store.head())
    runs = store.runs.cover(head)
    return {
        "runs": len(runs),
        "rows": sum(run.rows for run in runs),
        "bytes": sum(run.nbytes for run in runs),
        "snapshots_left": head - (runs[-1].last if runs else 0),
    }


def at_once(url: str, injector: Injector, engine: Engine) -> dict[str, Any]:
    """The facts that need no call of the store, and no lock that another thread may have during such a call."""
    merge = engine.merge
    return {
        "store": url,
        "head": injector.head,
        "position": merge.position,
        "lag": injector.head - merge.position,
        "lag_ms": engine.lag_ms(),
        "streams": len(injector.catalog.streams),
        "queries": len(injector.catalog.queries),
        "subscriptions": engine.subscriptions.count(),
        "runner": merge.owner,
        "why": _why(engine),
        "waits_for": engine.waits.as_json(),
        "writer": injector.status(),
        "fault": None if merge.fault is None else f"{type(merge.fault).__name__}: {merge.fault}",
    }


def _behind(state: QueryState | None) -> dict[str, Any] | None:
    """The position of a query that is behind because too many evaluations fell due: its snapshot, and the time of its
    last close."""
    if state is None or state.behind_at is None or not state.is_catching_up:
        return None
    return {"snapshot": state.behind_at + 1, "time": state.after}


def _state(query: QueryDefinition, state: QueryState | None) -> str:
    if query.paused:
        return "paused"
    if query.failure is not None:
        return query.failure.state
    return "ended" if state is not None and state.ended else "running"


def _state_with_fault(fault: str) -> str:
    """Of a query that is not evaluated now."""
    if is_slowed(fault):
        return "slowed"
    return "waiting" if is_caught_up_later(fault) else "failed"


def _has_gap(state: QueryState | None, oldest: int) -> bool:
    """Whether the next emission will not continue the last one: what lies between is not retained, or was skipped."""
    if state is None:
        return False
    return state.gap or (state.behind_at is not None and state.behind_at < oldest)


def fault_of_query(query: QueryDefinition, engine: Engine) -> str | None:
    """Why the query is not evaluated, for now or until it is resumed; None: it is."""
    if query.failure is not None:
        return query.failure.message
    if engine.merge.fault is not None:
        return f"{type(engine.merge.fault).__name__}: {engine.merge.fault}"
    on_spark = engine.spark if engine.merge.runner_of(query) is Runner.SPARK else None
    fault = (on_spark or engine.inline).faults.get(query.number)
    return None if fault is None or fault.since < query.since else fault.why


def has_fault(query: QueryDefinition, engine: Engine) -> bool:
    """Whether the query is not evaluated because of a fault of its own, for now or until it is resumed."""
    return query.is_evaluated and engine.merge.fault is None and fault_of_query(query, engine) is not None


def _shard_of(query: QueryDefinition, engine: Engine) -> int | None:
    """The only shard that evaluates the query."""
    plan = engine.merge.plan
    if engine.spark is None or query.home is not None or plan.divides(query):
        return None
    return plan.shard_of_query(query)


def _worker_of(query: QueryDefinition, engine: Engine) -> dict[str, Any] | None:
    """The process of Spark that evaluates the query; None: there is none, or several do."""
    merge = engine.merge
    if engine.spark is None or merge.plan.divides(query) or merge.runner_of(query) is not Runner.SPARK:
        return None
    return engine.spark.worker_of(engine.merge.plan.shard_of_query(query))


def _why_of(query: QueryDefinition, engine: Engine, catalog: Catalog) -> str:
    """Why this query runs inline or on Spark."""
    if query.asks_source and engine.spark is not None:
        return "an attached store takes part in its evaluations, and only this process has it"
    if (replay := engine.replays.status(query.number)) is not None:
        what = "its past is replayed" if replay["is_past"] else "what it has missed is evaluated"
        return f"{what} by {replay['tasks']} tasks ({replay['by']}), and emitted by this process"
    if query.home == "replay":
        return "it was far behind: tasks of Spark evaluate what it has missed, and Spark has it again after that"
    if query.home is not None and query.left is None and engine.spark is not None:
        return "its past was long when it was registered: tasks of Spark replay it, and this process emits it"
    if query.home is not None:
        return "the query was moved there"
    merge = engine.merge
    if engine.spark is None:
        return _why(engine)
    on_spark = merge.runner_of(query) is Runner.SPARK
    if merge.plan.divides(query):
        registered = Registered.of(query, catalog)
        how = division_over(registered).shown
        return f"{engine.spark.why_of_all(on_spark)}; it is divided among {merge.plan.shards} shards {how}"
    why = engine.spark.why_of(merge.plan.shard_of_query(query), on_spark)
    whole = merge.why_whole(query)
    return f"{why}; it is not divided among shards for some time: {whole}" if whole else why


def _why(engine: Engine) -> str:
    """Why the queries run inline or on Spark."""
    if engine.spark is None:
        return "this service was started with the inline engine"
    return engine.spark.why or "Spark is up"
