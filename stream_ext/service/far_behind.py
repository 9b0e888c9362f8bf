"""Queries of Spark that are far behind: for what they have missed they come to the server, which has tasks do it.

    behind for some seconds   ->   home "replay": evaluated by tasks   ->   caught up: home None, on Spark again

A task of Spark that steps registered queries has one core, and cannot start other tasks. Both moves are published like
those that a client asks for, so nothing is lost or repeated, whoever dies when."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Literal

from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.catalog.registered import Registered
from stream_ext.clock import Clock
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.runners.replays.replays import REPLAYS_MAX, QueryReplays
from stream_ext.upkeep.alarms import Alarms
from stream_ext.windows.query_state import QueryState
from stream_ext.writer.catalog_changes import move_query
from stream_ext.writer.injector import Injector

_EVERY_MS_MIN, _EVERY_MS_MAX = 100, 2_000
#: A query that was here before has to be behind for longer, up to so long.
_WAIT_MS_MAX = 600_000

log = logging.getLogger("rillet.queries")


class FarBehind:
    def __init__(self, clock: Clock, alarms: Alarms, merge: Merge, injector: Injector, replays: QueryReplays) -> None:
        self._clock, self._alarms, self._merge = clock, alarms, merge
        self._injector, self._replays = injector, replays
        self._since_ms: dict[int, int] = {}  # of the queries that are behind on Spark
        self._waits_ms: dict[int, int] = {}  # for how long they must be, if they were here before
        self._here = set[int]()  # of home "replay", evaluated or not
        self._on_their_way = set[int]()  # whose move is not published yet

    def start(self) -> None:
        queries = self._injector.catalog.queries
        self._here = {query.number for query in queries.values() if query.home == "replay"}
        self._set_alarm()

    def _set_alarm(self) -> None:
        every_ms = min(_EVERY_MS_MAX, max(_EVERY_MS_MIN, self._least_ms // 4))
        self._alarms.set("far behind", self._clock.now_ms() + every_ms, self._look)

    @property
    def _least_ms(self) -> int:
        """A query that is behind for less catches up by itself."""
        return int(self._replays.least_s * 2_000)

    def _look(self) -> None:
        self._set_alarm()
        on_their_way = self._on_their_way.copy()  # first: of all others the catalog says where they are
        queries, behind = self._injector.catalog.queries, self._merge.catching_up()
        self._give_back(self._here - on_their_way, queries, behind)
        found = (queries.get(number) for number in behind.keys() - on_their_way)
        on_spark = [query for query in found if query is not None and self._is_there(query)]
        catching_up = len(self._here & behind.keys())
        now_ms = self._clock.now_ms()
        self._since_ms = {query.number: self._since_ms.get(query.number, now_ms) for query in on_spark}
        self._waits_ms = {number: waits_ms for number, waits_ms in self._waits_ms.items() if number in queries}
        for query in on_spark:
            waits_ms = self._waits_ms.get(query.number, self._least_ms)
            is_due = now_ms - self._since_ms[query.number] >= waits_ms
            if is_due and catching_up < REPLAYS_MAX and self._may_take(query):
                catching_up += 1
                self._waits_ms[query.number] = min(_WAIT_MS_MAX, 2 * waits_ms)
                self._here.add(query.number)
                self._move(query, "replay")

    def _give_back(
        self, here: set[int], queries: Mapping[int, QueryDefinition], behind: Mapping[int, QueryState]
    ) -> None:
        """To Spark, what has caught up. What a client has moved meanwhile is left where it is."""
        for number in here:
            query = queries.get(number)
            if query is None or query.home != "replay":
                self._here.discard(number)
            elif query.is_evaluated and number not in behind:
                self._move(query, None)

    def _is_there(self, query: QueryDefinition) -> bool:
        merge = self._merge
        return query.home is None and not merge.plan.divides(query) and merge.runner_of(query) is Runner.SPARK

    def _may_take(self, query: QueryDefinition) -> bool:
        registered = Registered.of(query, self._injector.catalog)
        return not self._replays.why_not_missed(registered, query.current_state(self._merge.state(query.number)))

    def _move(self, query: QueryDefinition, home: Literal["replay"] | None) -> None:
        def moved(done: Future[object]) -> None:
            self._on_their_way.discard(query.number)
            if not done.cancelled() and (error := done.exception()) is not None:
                why = f"{type(error).__name__}: {error}"
                log.warning("a query that is behind was not moved", extra={"fields": {"query": query.name, "why": why}})

        self._on_their_way.add(query.number)
        self._injector.own_change(move_query(query.name, home, self._merge.left)).add_done_callback(moved)
