"""Registered queries: what the text of one means, by itself, and over the streams of a catalog.

    text  --parsed and planned-->  RegisteredText  --over the streams of a catalog-->  Registered

The writer makes one `Registered` for each change of the catalog, and hands it on: to lateness, retention and the
shard."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache

from stream_ext.catalog.catalog import Catalog, QueryDefinition
from stream_ext.catalog.sources import HeldPattern
from stream_ext.catalog.timing import timing_of
from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Form, Query, Register
from stream_ext.language.syntax import parse
from stream_ext.plan.logic import Select
from stream_ext.plan.passes.stream_variables import follows_streams, has_stream_variables, over_streams
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.properties import named_terms
from stream_ext.plan.sources.whole import whole_select
from stream_ext.plan.templates.parameters import Parametrised, parametrised
from stream_ext.plan.templates.template_number import number_of
from stream_ext.windows.scheduled_window import ScheduledWindow
from stream_ext.windows.timing import Timing


@dataclass(frozen=True, slots=True)
class RegisteredText:
    """A text as a query, its logic, its template and constants. `parametrised` None: it shares no network."""

    query: Query
    select: Select
    parametrised: Parametrised | None

    @classmethod
    def of(cls, query: Query, check: Check = Control.FREE.check) -> RegisteredText:
        select = logic_of(query, check=check)
        return cls(query, select, parametrised(query, select, ()))

    @property
    def constants(self) -> list[bytes]:
        """The terms of its patterns and its parameters; registration makes them permanent, so that each has an id."""
        shared = () if self.parametrised is None else self.parametrised.constants
        return list(dict.fromkeys([*named_terms.constants_of(self.select), *shared]))


@dataclass(frozen=True, slots=True)
class Registered:
    """A registered query over the streams of a catalog.

    A window on a variable is one on each stream there, so `query` and `select` may differ from those of the text.
    `timing`: as before any push, which may determine T0. `labels`: the names of the windows' streams. `parametrised`
    None: it shares no network. `asked`: what the source main is asked for; `functions`: what of its process the query
    calls, which is then evaluated there as a whole."""

    text: RegisteredText
    query: Query
    select: Select
    timing: Timing
    labels: tuple[str, ...]
    parametrised: Parametrised | None
    asked: frozenset[HeldPattern] = frozenset()
    functions: tuple[str, ...] = ()

    @classmethod
    def over(
        cls,
        text: RegisteredText,
        catalog: Catalog,
        streams: list[int],
        asked: Collection[HeldPattern] = (),
        functions: Sequence[str] = (),
    ) -> Registered:
        """`streams`: their numbers, for windows on variables."""
        query, select = text.query, text.select
        if functions:
            select = whole_select(query, functions)
        elif has_stream_variables(query):
            query = over_streams(query, (catalog.streams[number].iri for number in streams))
            select = logic_of(query)
        timing = timing_of(query, catalog)
        named = [catalog.streams[window.stream] for window in timing.windows]
        labels = tuple(stream.name or stream.iri for stream in named)
        # What a source answers to one query is no part of the state of others.
        shared = text.parametrised if _may_share(text.query, timing) and not (asked or functions) else None
        return cls(text, query, select, timing, labels, shared, frozenset(asked), tuple(functions))

    @classmethod
    def of(cls, definition: QueryDefinition, catalog: Catalog) -> Registered:
        """A registered query from its definition in the catalog, whose text is parsed again."""
        read = reading_of(definition.text, definition.base)
        return cls.over(read, catalog, catalog.streams_of(definition), definition.asked, definition.functions)

    def within(self, definition: QueryDefinition, catalog: Catalog) -> Registered:
        """The same query over the streams of a later catalog."""
        if not definition.any_stream:
            return self
        return self.over(self.text, catalog, catalog.streams_of(definition), definition.asked, definition.functions)

    @property
    def placement(self) -> int:
        """The same number for queries that may share a network; 0: it shares none."""
        return 0 if self.parametrised is None else number_of((self.parametrised.template, self.labels))

    def timing_from(self, t0: int | None) -> Timing:
        """`t0`: the origin, if the first push has determined it already."""
        return self.timing if t0 is None else self.timing.with_origin(t0)

    def windows_from(self, t0: int | None, arrived: bool = False) -> tuple[ScheduledWindow, ...]:
        """`arrived`: as for evaluations at arrivals."""
        windows = self.timing_from(t0).windows
        return tuple(window.for_arrivals() for window in windows) if arrived else windows


def _may_share(query: Query, timing: Timing) -> bool:
    """Not shared: windows of the past, windows that hold all (what they hold is saved for each query), queries that may
    get more windows or have none, and CONSTRUCT; of evaluations at arrivals those with windows without an end, and
    those beside closes."""
    arriving = timing.arrivals and (timing.has_beats or any(window.is_endless for window in timing.windows))
    single = arriving or any(window.holds_all for window in timing.windows)
    single = single or timing.ends_at is not None or follows_streams(query)
    return bool(timing.windows) and not single and query.form is not Form.CONSTRUCT


class Handed:
    """The latest `Registered` values, from the writer to the shard of its process, which steps their snapshots soon.

    A value that was pushed out by later ones, or never came (after a restart, or in another process), is made anew."""

    def __init__(self, most: int = 512) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[int, int], Registered] = OrderedDict()

    def put(self, definition: QueryDefinition, registered: Registered) -> None:
        with self._lock:
            self._values[definition.number, definition.since] = registered
            while len(self._values) > self._most:
                self._values.popitem(last=False)

    def take(self, definition: QueryDefinition, catalog: Catalog) -> Registered:
        with self._lock:
            found = self._values.pop((definition.number, definition.since), None)
        return Registered.of(definition, catalog) if found is None else found.within(definition, catalog)


def reading_of(text: str, base: str) -> RegisteredText:
    """The text of a registered query, parsed. Requests for one query come soon after one another, so the last ones are
    remembered."""
    return _remembered(text, base) if len(text) <= _REMEMBERED_CHARACTERS else _read(text, base)


def _read(text: str, base: str) -> RegisteredText:
    unit = parse(text, base)
    query = unit.query if isinstance(unit, Register) else unit
    if not isinstance(query, Query):
        raise TypeError(f"this is an update, not a query: {text!r}")  # registration has refused it already
    return RegisteredText.of(query)


_remembered = lru_cache(maxsize=512)(_read)
_REMEMBERED_CHARACTERS = 10_000


def query_of(text: str, base: str) -> Query:
    """The query of a registration's text, with or without REGISTER."""
    return reading_of(text, base).query


def constants_of(query: Query) -> list[bytes]:
    return RegisteredText.of(query).constants
