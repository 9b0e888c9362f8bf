"""The plan of a run: what is the same for all of its queries, and what of it they share.

    queries that differ in constants only    one network; their constants are a relation in it
    any other query over windows             a network of its own, with its constants in place
    a query without windows                  the same, evaluated when the store has changed, not when windows close

Windows of the past, CONSTRUCT, chance, NOW(), SERVICE, what a source is asked for, and LIMIT in the order of appearance
are not shared (docs/decisions/0012): so whatever depends on them has one query to care for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_ext.catalog.held_patterns import reads_more_than
from stream_ext.catalog.registered import Registered
from stream_ext.computed_once import computed_once
from stream_ext.continuous.results import Result, result_of
from stream_ext.language.algebra.algebra import R2S, Form
from stream_ext.language.algebra.volatile import is_of_time, is_volatile
from stream_ext.language.algebra.walk import has_services, reads_store
from stream_ext.plan.properties.arrival_batching import why_one_by_one
from stream_ext.plan.properties.range_sums import sums_of
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.plan.templates.parameters import QueryTemplate
from stream_ext.rows.key_range import KeyRange
from stream_ext.windows.query_state import ClosePlace, QueryState
from stream_ext.windows.timing import Timing

#: Equal for queries that may share a network: the template, and the names of its streams.
Key = tuple[QueryTemplate, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Joining:
    """A query that joins a run: its own constants, and its state."""

    number: int
    constants: tuple[bytes, ...]
    state: QueryState


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query of the catalog that is to run. `timing`: with T0, if it is known. `keys`: of a divided query, the part
    that is evaluated here. `until`: the last close that is evaluated here; None: each is."""

    number: int
    registered: Registered
    timing: Timing
    state: QueryState
    keys: KeyRange | None = None
    until: ClosePlace | None = None

    @property
    def key(self) -> Key | None:
        shared = self.registered.parametrised
        if shared is None or (self.keys is not None and self.timing.arrivals):
            return None  # the arrivals of a range are numbered for one query
        return shared.template, self.registered.labels

    @property
    def place(self) -> tuple[object, ...]:
        """Equal for queries with the same evaluation times from now on, and the same last evaluation."""
        last, state = self.state.evaluated, self.state
        at = None if last is None else (last.sn, last.push, last.time, last.arrived_at)
        within = None if state.within is None else (state.within.push, state.within.arrived_at)
        new_at_closes = self.registered.like.emits_new and not self.timing.arrivals
        began = state.began if new_at_closes or (last is None and self.timing.arrivals) else None
        after = state.after if self.timing.has_beats else None  # that of closes
        return self.timing, at, after, state.last, state.behind_at, within, began, tuple(state.counts)

    @property
    def joining(self) -> Joining:
        shared = self.registered.parametrised
        return Joining(self.number, () if shared is None else shared.constants, self.state)


class RunPlan:
    def __init__(self, first: PlannedQuery, is_shared: bool) -> None:
        """`first`: one of the queries; the only one, unless the network `is_shared`."""
        registered = first.registered
        query, self.select = registered.query, registered.select
        self.query = query
        self.first, self.is_shared, self.key = first, is_shared, first.key
        self.number = first.number  # of a query alone: its chance and its blank nodes are its own
        self.timing, self.labels = first.timing, registered.labels
        self.keys, self.until = first.keys, first.until
        self.is_over_store = not first.timing.windows
        self.is_over_past = first.timing.ends_at is not None
        self.remote_patterns, self.is_whole = registered.remote_patterns, bool(registered.functions)
        self.asks_source = bool(self.remote_patterns) or self.is_whole
        keys = self.keys
        self.sums = None
        if keys is not None and keys.is_summed:
            self.sums = sums_of(query, self.select, keys.partial_groups)
        self.none_held = self.asks_source and not reads_more_than(self.remote_patterns, self.select)
        self.has_services = has_services(query) or self.asks_source
        self.varies, self.is_of_time = is_volatile(query) or self.asks_source, is_of_time(query)
        self.repeats = query.emits is R2S.RSTREAM  # each result is the whole answer
        self.reads_store = reads_store(query)
        self.width = len(columns_of(query)) if self.sums is None else self.sums.width
        nothing = tuple(np.empty(0, np.uint64) for _ in range(self.width))
        self.empty_result: Result = result_of(query, (nothing, np.empty(0, np.int64)))
        #: What of it is evaluated arrival by arrival; None: it has numbered evaluations, many in one step.
        select = self.template.select if is_shared else self.select
        self.one_by_one = "what a source is asked for" if self.asks_source else why_one_by_one(query, select)
        self.boolean = True if query.form is Form.ASK else None  # the result of an ASK with a row

    @property
    def past_until(self) -> int | None:
        """Of a query over the past, the time of the last close that is evaluated here; None: each is."""
        return None if self.until is None or not self.is_over_past else self.until.time

    @property
    def template(self) -> QueryTemplate:
        shared = self.first.registered.parametrised
        assert shared is not None, "queries that share a network have a template"
        return shared.template

    @property
    def sums_only_new(self) -> bool:
        """Whether rows of ranges are summed, to find those that are new."""
        return self.sums is not None and self.query.emits is R2S.ISTREAM

    @property
    def may_change_over_nothing(self) -> bool:
        """Whether, in one snapshot, an answer over empty windows may become another. What a source evaluates as a whole
        does not, unless it is of the time."""
        return self.has_services and (not self.is_whole or self.is_of_time)

    @computed_once
    def may_sleep(self) -> bool:
        """Whether its evaluations depend on nothing but what is in its windows and in the store. A divided query is
        stepped with each evaluation, so that its parts are of the same evaluations in all shards."""
        query, timing = self.query, self.timing
        return (
            query.form is Form.SELECT
            and self.keys is None
            and not (self.is_over_store or self.is_over_past or self.varies or self.has_services)
            and not (query.emits_new or query.is_cut_by_appearance)
            and timing.closes
            and not (timing.arrivals or timing.content_only or timing.every_ms)
            and all(window.is_stepped and not window.by_variable for window in timing.windows)
        )

    @property
    def reports(self) -> bool:
        """Whether an empty result is emitted."""
        *_, reports = self.empty_result
        return reports
