"""Registered queries: what the text of one means over the streams of a catalog.

    text  --registered_text.py-->  RegisteredText  --over the streams of a catalog-->  Registered

The writer makes one `Registered` for each change of the catalog, and hands it on: to lateness, retention and the
shard."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from hbase_store.cache import RecentlyUsed
from stream_ext.catalog.catalog import Catalog, QueryDefinition, definition_of, encoded
from stream_ext.catalog.registered_text import RegisteredText, reading_of
from stream_ext.catalog.sources import HeldPattern
from stream_ext.catalog.timing import timing_of
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.plan.logic import Select
from stream_ext.plan.passes.stream_variables import follows_streams, has_stream_variables, over_streams
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from stream_ext.plan.sources.whole import whole_select
from stream_ext.plan.templates.parameters import Parametrised
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.windows.timing import Timing


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered query over the streams of a catalog.

    `timing`: as before any push, which may determine T0. `labels`: the names of the windows' streams. `parametrised`
    None: it shares no network. `remote_patterns`: what the source main is asked for; `functions`: what
    of its process the query calls, which is then evaluated there as a whole. `own`: the query and its logic, where
    they are not those of the text: a window on a variable is one on each stream there."""

    text: RegisteredText
    timing: Timing
    labels: tuple[str, ...]
    parametrised: Parametrised | None
    remote_patterns: frozenset[HeldPattern] = frozenset()
    functions: tuple[str, ...] = ()
    own: tuple[Query, Select] | None = None

    @classmethod
    def over(
        cls,
        text: RegisteredText,
        catalog: Catalog,
        streams: list[int],
        remote_patterns: Collection[HeldPattern] = (),
        functions: Sequence[str] = (),
    ) -> Registered:
        """`streams`: their numbers, for windows on variables."""
        query, own = text.like, None
        if functions:
            own = text.query, whole_select(text.query, functions)
        elif has_stream_variables(query):
            query = over_streams(text.query, (catalog.streams[number].iri for number in streams))
            own = query, logic_of(query)
        timing = timing_of(query, catalog)
        named = [catalog.streams[window.stream] for window in timing.windows]
        labels = tuple(stream.name or stream.iri for stream in named)
        # What a source answers to one query is no part of the state of others.
        may_share = not (remote_patterns or functions) and _may_share(text.like, timing, text.parametrised)
        shared = text.parametrised if may_share else None
        return cls(text, timing, labels, shared, frozenset(remote_patterns), tuple(functions), own)

    @property
    def query(self) -> Query:
        return self.text.query if self.own is None else self.own[0]

    @property
    def select(self) -> Select:
        return self.text.select if self.own is None else self.own[1]

    @property
    def like(self) -> Query:
        """The query, or one that differs from it in parameters only."""
        return self.text.like if self.own is None else self.own[0]

    def with_text(self, text: RegisteredText) -> Registered:
        """What another text of the same outline means over the same streams."""
        return replace(self, text=text, parametrised=None if self.parametrised is None else text.parametrised)

    @classmethod
    def of(cls, definition: QueryDefinition, catalog: Catalog) -> Registered:
        """A registered query from its definition in the catalog, whose text is parsed again."""
        read = reading_of(definition.text, definition.base)
        return cls.over(read, catalog, catalog.streams_of(definition), definition.remote_patterns, definition.functions)

    def within(self, definition: QueryDefinition, catalog: Catalog) -> Registered:
        """The same query over the streams of a later catalog."""
        if not definition.any_stream:
            return self
        return self.over(
            self.text, catalog, catalog.streams_of(definition), definition.remote_patterns, definition.functions
        )

    @property
    def placement(self) -> int:
        """The same number for queries that may share a network; 0: it shares none."""
        return 0 if self.parametrised is None else self.parametrised.template.number_over(self.labels)

    def timing_from(self, t0: int | None) -> Timing:
        """`t0`: the origin, if the first push has determined it already."""
        return self.timing if t0 is None else self.timing.with_origin(t0)

    def windows_from(self, t0: int | None, arrived: bool = False) -> tuple[ScheduledWindow, ...]:
        """`arrived`: as for evaluations at arrivals."""
        windows = self.timing_from(t0).windows
        return tuple(window.for_arrivals() for window in windows) if arrived else windows


def _may_share(query: Query, timing: Timing, shared: Parametrised | None) -> bool:
    """Not shared: windows of the past, windows that hold all (what they hold is saved for each query), queries that may
    get more windows or have none, and CONSTRUCT; of evaluations at arrivals those beside closes, and those of counted
    windows that are made one by one."""
    if shared is None or not timing.windows or query.form is Form.CONSTRUCT:
        return False
    if any(window.holds_all for window in timing.windows) or timing.ends_at is not None or follows_streams(query):
        return False
    if not timing.arrivals:
        return True
    is_counted = any(window.count is not None for window in timing.windows)
    return not timing.has_beats and not (is_counted and why_one_by_one(query, shared.template.select) is not None)


class Handed:
    """The latest definitions, and what their texts mean, from the writer to the shard of its process, which steps their
    snapshots soon.

    A value that was pushed out by later ones, or never came (after a restart, or in another process), is made anew."""

    def __init__(self, most: int = 2048) -> None:
        self._lock = threading.Lock()
        self._values: RecentlyUsed[int, tuple[QueryDefinition, Registered]] = RecentlyUsed(most)

    def put(self, definition: QueryDefinition, registered: Registered) -> None:
        with self._lock:
            self._values.put(definition.number, (definition, registered))

    def take(self, definition: QueryDefinition, catalog: Catalog) -> Registered:
        with self._lock:
            found = self._values.pop(definition.number)
        if found is None or found[0].since != definition.since:
            return Registered.of(definition, catalog)
        return found[1].within(definition, catalog)

    def definition(self, number: int, body: bytes) -> QueryDefinition:
        """The definition that is stored as `body`: the writer's own, instead of a second one that is equal."""
        with self._lock:
            found = self._values.get(number)
        return found[0] if found is not None and encoded(found[0]) == body else definition_of(body)
