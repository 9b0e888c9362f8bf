"""The shard: the networks of all registered queries, stepped from snapshot to snapshot.

It knows no process, no clock and no socket: the endpoint's inline runner and a task on Spark hold the same object and
get the same parts from it. What it needs beyond the store is where each query has come to; the rest it rebuilds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hbase_store import Store
from hbase_store import open as open_store
from hbase_store.errors import StoreUnavailable
from stream_ext.arrivals import arrivals
from stream_ext.catalog import Catalog, QueryDefinition
from stream_ext.network import logic_of
from stream_ext.part import Part
from stream_ext.plan import normalise
from stream_ext.plan.algebra import Query, Register
from stream_ext.query_run import QueryRun
from stream_ext.schedule import QueryState, ScheduledWindow
from stream_ext.store_run import StoreRun
from stream_ext.syntax import parse
from stream_ext.timing import timing_of


def query_of(text: str, base: str) -> Query:
    """The query of a registration's text, with or without REGISTER."""
    unit = parse(text, base)
    if isinstance(unit, Register):
        return unit.query
    if not isinstance(unit, Query):
        raise TypeError(f"an update is no query: {text!r}")  # registration has refused it already
    return unit


def constants_of(query: Query) -> list[bytes]:
    """The terms of a query's patterns; registration makes them permanent, so that each has an id."""
    return normalise.constants_of(logic_of(query))


def windows_of(
    query: Query, catalog: Catalog, t0: int | None = None, arrived: bool = False
) -> tuple[ScheduledWindow, ...]:
    """The query's windows, over the streams that its catalog knows; as an arrival sees them, if one has `arrived`."""
    windows = timing_of(query, catalog, t0).windows
    return tuple(window.for_arrivals() for window in windows) if arrived else windows


Run = QueryRun | StoreRun


class Shard:
    """All queries' runs at snapshot `sn`. A query whose step raises is reported in `faults` and stepped no more.

    A store that does not answer is no query's fault: StoreUnavailable goes to the runner, which builds a new shard."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[int, Run] = {}
        self.sn = 0
        self.faults: dict[int, str] = {}

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None:
        """Silently: every query of the catalog at `sn`, as it was at its state."""
        self.sn, self._runs, self.faults = sn, {}, {}
        catalog = Catalog.read(self._store, sn)
        for definition in catalog.queries.values():
            self._start(definition, states.get(definition.number), catalog)

    def step(self, sn: int) -> list[Part]:
        """The parts of the snapshot after the one that this shard is at."""
        if sn != self.sn + 1:
            raise ValueError(f"the shard is at snapshot {self.sn}: it can step to {self.sn + 1}, not to {sn}")
        parts: list[Part] = []
        # What nobody reads may have been let go already.
        read = frozenset[int]().union(*(run.streams for run in self._runs.values()))
        pushes = arrivals(self._store, sn, read) if read else []
        for number in list(self._runs):
            parts += self._guarded(number, lambda run: run.step(sn, pushes))
        self.sn = sn
        return parts + self._follow_catalog(sn)

    def refresh(self) -> int:
        """Takes in what has been published; the new head."""
        return int(self._store.refresh())

    def close(self) -> None:
        self._store.close()

    def _follow_catalog(self, sn: int) -> list[Part]:
        """Queries that come and go; what the new ones say at once."""
        changes = [change for change in self._store.row(sn).catalog if change.kind == "query"]
        if not changes:
            return []
        parts: list[Part] = []
        catalog = Catalog.read(self._store, sn)
        for change in changes:
            self._runs.pop(change.number, None)
            self.faults.pop(change.number, None)
            if change.number in catalog.queries:
                self._start(catalog.queries[change.number], None, catalog)
            if change.number in self._runs:
                parts += self._guarded(change.number, lambda run: run.start(sn))
        return parts

    def _guarded(self, number: int, call: Callable[[Run], list[Part]]) -> list[Part]:
        """What a query's run says; its fault must not stop the others, and is reported."""
        try:
            return call(self._runs[number])
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  see above
            self._fault(number, error)
            return []

    def _start(self, definition: QueryDefinition, state: QueryState | None, catalog: Catalog) -> None:
        if definition.paused:
            return
        try:
            run = self._run_of(definition, catalog)
            run.resume(definition.standing(state), self.sn)
            self._runs[definition.number] = run
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001  as in `_guarded`
            self._fault(definition.number, error)

    def _run_of(self, definition: QueryDefinition, catalog: Catalog) -> Run:
        query = query_of(definition.text, definition.base)
        if not query.windows:
            return StoreRun(definition.number, query, self._store)
        timing = timing_of(query, catalog)
        streams = [catalog.streams[window.stream] for window in timing.windows]
        return QueryRun(definition.number, query, timing, [s.name or s.iri for s in streams], self._store)

    def _fault(self, number: int, error: Exception) -> None:
        self._runs.pop(number, None)
        self.faults[number] = f"{type(error).__name__}: {error}"


def open_shard(store_url: str, base: str) -> Shard:
    """For a process of its own (a Spark task): a reader of the store, and a shard over it."""
    return Shard(open_store(store_url, read_only=True))
