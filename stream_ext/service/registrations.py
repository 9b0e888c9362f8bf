"""The section of registered queries: registering, pausing, moving and dropping them; their status."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, cast

from stream_ext.catalog.catalog import Home, QueryDefinition
from stream_ext.catalog.registered_text import query_of
from stream_ext.continuous.metering import metered
from stream_ext.emissions.merged_progress import Runner
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.walk import query_parts
from stream_ext.language.algebra.windows import Extent
from stream_ext.network.operators.remote.service import asks_source, check_services
from stream_ext.oneshot.question import Question
from stream_ext.service.engine import Engine
from stream_ext.service.opened import OpenedStore
from stream_ext.service.sources import AttachedSources
from stream_ext.service.status import fault_of_query, has_fault, query_figures, query_past, query_status
from stream_ext.writer.catalog_changes import drop_query, move_query, pause_query, resume_query
from stream_ext.writer.registration import Registration, RegistrationOutcome, known_registration, read_registration

#: The greatest number of texts that are read before the first of them is registered.
_REGISTERED_AHEAD = 256
#: Of an operator that many queries share, so many of the others are named.
_SHARED_WITH_MAX = 10


class Registrations:
    """One for each service."""

    def __init__(self, opened: OpenedStore, sources: AttachedSources) -> None:
        self._opened, self._sources = opened, sources

    def register(
        self, request: str | Question, name: str | None = None, *, replaces: bool = False
    ) -> tuple[QueryDefinition, bool, list[str]]:
        """The query, whether it is new, and warnings. `replaces`: a query of this name with another text is dropped in
        the same snapshot."""
        read = replace(self._read_registration(request, name), replaces=replaces)
        registration, release = self._sources.reserved(read)
        try:
            return _registered(self._opened.injector.change(registration))
        finally:
            release()

    def register_all(self, texts: Iterable[str]) -> Iterator[tuple[QueryDefinition, bool, list[str]]]:
        """As `register`, one text after the other, and many in one snapshot; ends at the first that is rejected."""
        waiting: deque[Future[Any]] = deque()
        for text in texts:
            registration, release = self._sources.reserved(self._read_registration(text, None))
            waiting.append(self._opened.injector.change(registration))
            waiting[-1].add_done_callback(partial(_called, release))
            while len(waiting) > _REGISTERED_AHEAD or (waiting and waiting[0].done()):
                yield _registered(waiting.popleft())
        for future in waiting:
            yield _registered(future)

    def register_live(self, request: str | Question, name: str) -> None:
        """Registers a query for one connection, which must drop it at its end."""
        registration, release = self._sources.reserved(self._read_registration(request, name))
        try:
            self._opened.change(replace(registration, live=True))
        finally:
            release()

    def _read_registration(self, request: str | Question, name: str | None) -> Registration:
        check = self._opened.deadline("text")
        queries_max = self._opened.limits.queries
        text, base = (request.text, request.base) if isinstance(request, Question) else (request, self._opened.base)
        self._opened.check_text(text)
        if (known := known_registration(text, base, name, queries_max)) is not None:
            return self._at_home(known)
        if not isinstance(request, Question):  # not remembered: thousands of texts may be registered, each once
            request = Question.read(request, base, check)
        registration = read_registration(request, name, queries_max, check, self._sources.functions_of)
        check_services(query_parts(registration.query), self._opened.allowed_urls, request.text, self._opened.sources)
        asks = registration.functions or asks_source(query_parts(registration.query), self._opened.sources)
        if self._opened.has_spark and asks:
            return replace(registration, home="inline")  # nobody else has the sources, and their secrets
        return self._at_home(registration)

    def _at_home(self, registration: Registration) -> Registration:
        """A query over a long past stays in this process, which has tasks of Spark replay it."""
        past = any(window.extent is Extent.HISTORY for window in registration.like.windows)
        explained = self._opened.explained_replay(registration.read) if past and self._opened.has_spark else None
        return registration if explained is None or "why_not" in explained else replace(registration, home="inline")

    def queries(self) -> list[QueryDefinition]:
        return list(self._opened.catalog.queries.values())

    def query_definition(self, name: str) -> QueryDefinition:
        return self._opened.catalog.query(name)

    def query_status(self, name: str) -> dict[str, Any]:
        opened = self._opened
        return query_status(self.query_definition(name), opened.injector, opened.engine, int(opened.store.oldest()))

    def query_figures(self, query: QueryDefinition) -> dict[str, Any]:
        return query_figures(query, self._opened.engine)

    def query_past(self, name: str) -> list[dict[str, Any]]:
        return query_past(self.query_definition(name), self._opened.engine)

    def query_operators(self, name: str) -> dict[str, Any]:
        """The operators of a registered query, each with its rows, its time and its state. Measuring begins with the
        first call, and ends when nobody has called for a while; until then each evaluation takes some microseconds
        more. `networks` is empty if nothing is measured here; `why` says why."""
        definition, engine = self.query_definition(name), self._opened.engine
        shard = engine.inline.shard
        found = None if shard is None else metered(shard, definition.number)
        if found is None or not found["networks"]:
            why = _why_not_metered(definition, engine)
            return {"query": definition.name, "shared_by": 1, "networks": [], "why": why}
        queries = self._opened.catalog.queries
        for operator in (each for network in found["networks"] for each in network["operators"]):
            if "shared_with" in operator:
                others = [number for number in operator["shared_with"] if number != definition.number]
                operator["shared_with"] = [queries[each].name for each in others if each in queries][:_SHARED_WITH_MAX]
        return {"query": definition.name, **found, "why": None}

    def why_not_evaluated(self, name: str) -> str | None:
        """Why the query waits for an answer, or has failed; None: neither."""
        query = self._opened.catalog.find_query(name)
        return None if query is None else fault_of_query(query, self._opened.engine)

    def pause_query(self, name: str) -> None:
        """Stops the evaluation of a query after this snapshot; its emissions stay."""
        sn = int(self._opened.change(pause_query(name)))
        self._opened.engine.await_evaluated(sn, self._opened.limits.evaluated_s, for_all=False)

    def resume_query(self, name: str) -> None:
        """Evaluates a paused or failed query again, from here on. The closes in between are left out, and the next
        emission has `gap`."""
        query = self.query_definition(name)
        state = self._opened.engine.merge.state(query.number)
        t0, failed = None if state is None else state.t0, has_fault(query, self._opened.engine)
        self._opened.change(resume_query(name, t0, failed))

    def move_query(self, name: str, runner: str) -> int:
        """Moves a query to another runner; returns the snapshot after which it is there."""
        if runner not in ("inline", "spark"):
            raise BadArgument(f"runner={runner}: the runner is 'inline' or 'spark'")
        if runner == "spark" and not self._opened.has_spark:
            raise BadArgument("this service was started with the inline engine: there is no Spark to move a query to")
        definition = self.query_definition(name)
        asks = definition.asks_source or asks_source(
            query_parts(query_of(definition.text, definition.base)), self._opened.sources
        )
        if runner == "spark" and asks:
            raise BadArgument(f"query {definition.name!r} asks an attached store, which only the server's process can")
        home: Home | None = "inline" if runner == "inline" else None
        sn = int(self._opened.change(move_query(name, home, self._opened.engine.merge.left)))
        self._opened.engine.await_evaluated(sn, self._opened.limits.evaluated_s, for_all=False)
        return sn

    def drop_query(self, name: str) -> None:
        self._opened.change(drop_query(name))


def _why_not_metered(definition: QueryDefinition, engine: Engine) -> str:
    if fault_of_query(definition, engine) is not None or not definition.is_evaluated:
        return "the query is not evaluated now"
    if engine.merge.runner_of(definition) is Runner.SPARK:
        return "Spark evaluates the query, and only what this process evaluates is measured: move it inline"
    return "the query has no operators yet: its first evaluation is not due, or another server evaluates it"


def _called(release: Callable[[], None], done: Future[Any]) -> None:
    release()


def _registered(future: Future[Any]) -> tuple[QueryDefinition, bool, list[str]]:
    outcome = cast("RegistrationOutcome", future.result())
    return outcome.definition, outcome.created, outcome.warnings
