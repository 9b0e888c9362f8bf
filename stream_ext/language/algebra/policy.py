"""The policy of a query: when it is evaluated, over what, and what is emitted; each setting with its origin.

    FROM STREAM <s> [RANGE 3s STEP 1s BOUNDS (]]
    =>  dialect C-SPARQL, evaluated every STEP (default), bounds (] (written), whole answers (default), ...

What is written overrides a default of the dialect; nothing is guessed from anything else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.windows import R2S, Bounds, Declared, Dialect, Extent, Report, Trigger, WindowClause

Value = TypeVar("Value", covariant=True)

Given = TypeVar("Given")


class Origin(StrEnum):
    WRITTEN = "written"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting(Generic[Value]):
    """A value of the policy, and whether it is written in the text or a default of the dialect."""

    value: Value
    origin: Origin


class EvaluationTrigger(StrEnum):
    """What makes a query be evaluated; `REPORT` adds triggers up."""

    ARRIVAL = "at every arrival"
    CLOSE = "at every close of a window"
    PERIODIC = "at the multiples of a length of time"
    CHANGE = "at registration, and at each snapshot that changes the answer"


class PatternScope(StrEnum):
    """What a pattern outside of STREAM and WINDOW reads."""

    DEFAULT_GRAPH = "the store's default graph"
    GRAPHS = "the graphs of FROM"
    WINDOWS = "the windows, merged"
    WINDOWS_AND_GRAPHS = "the windows merged with the graphs of FROM"
    WINDOWS_AND_DEFAULT_GRAPH = "the windows merged with the store's default graph"
    NOTHING = "nothing: FROM NAMED alone names no default graph"


class Empty(StrEnum):
    """What becomes of an empty answer."""

    REPORTED = "reported"
    SILENT = "silent"
    SILENT_WITHOUT_CONTENT = "reported, but no evaluation while every window is empty"


class FirstClose(StrEnum):
    """Where the grid of closes starts when no T0 is written."""

    FIRST_PUSH = "the first push to one of its streams after registration, floored to 1 s"


@dataclass(frozen=True, slots=True)
class WindowPolicy:
    window: WindowClause
    bounds: Setting[Bounds]
    step_ms: Setting[int]  # 0: slides on arrival, or no time window
    t0: Setting[int | FirstClose]
    lateness_ms: Setting[int | None]  # None: the stream's own
    reports: Setting[tuple[Report, ...]]


@dataclass(frozen=True, slots=True)
class Policy:
    dialect: Dialect
    r2s: Setting[R2S]
    evaluated: Setting[tuple[EvaluationTrigger, ...]]
    every_ms: tuple[int, ...]  # of PERIODIC
    scope: Setting[PatternScope]
    empty: Setting[Empty]
    windows: tuple[WindowPolicy, ...]


_BOUNDS = {Dialect.CQELS: Bounds.OPEN_CLOSED, Dialect.CSPARQL: Bounds.CLOSED_OPEN, Dialect.RSPQL: Bounds.CLOSED_OPEN}
_ARRIVALS = (Extent.NOW, Extent.ALL, Extent.TRIPLES, Extent.ELEMENTS)


def policy_of(query: Query) -> Policy:
    periods = _periods(query)
    return Policy(
        dialect=query.dialect,
        r2s=_setting(query.r2s, query.emits),
        evaluated=_evaluated(query, periods),
        every_ms=periods,
        scope=_scope(query),
        empty=_empty(query),
        windows=tuple(_window(query, window) for window in query.windows),
    )


def _setting(written: Given | None, default: Given) -> Setting[Given]:
    return Setting(default, Origin.DEFAULT) if written is None else Setting(written, Origin.WRITTEN)


def _periods(query: Query) -> tuple[int, ...]:
    reports = [report.every_ms for window in query.windows for report in window.reports if report.every_ms]
    return tuple(dict.fromkeys([*([query.shape.every_ms] if query.shape.every_ms else []), *reports]))


def _evaluated(query: Query, periods: tuple[int, ...]) -> Setting[tuple[EvaluationTrigger, ...]]:
    triggers = {report.trigger for window in query.windows for report in window.reports}
    found = [
        *([EvaluationTrigger.CLOSE] if Trigger.WINDOW_CLOSE in triggers else []),
        *([EvaluationTrigger.ARRIVAL] if Trigger.CONTENT_CHANGE in triggers else []),
        *([EvaluationTrigger.PERIODIC] if periods else []),
    ]
    if found:
        return Setting(tuple(found), Origin.WRITTEN)
    if not query.windows:
        return Setting((EvaluationTrigger.CHANGE,), Origin.DEFAULT)
    by_arrival = query.dialect is Dialect.CQELS or all(window.extent in _ARRIVALS for window in query.windows)
    by_arrival = by_arrival and not _replays(query)
    return Setting((EvaluationTrigger.ARRIVAL if by_arrival else EvaluationTrigger.CLOSE,), Origin.DEFAULT)


def _replays(query: Query) -> bool:
    """Whether it is over windows of the past, which nothing arrives in: they are replayed at their closes."""
    return any(window.extent is Extent.HISTORY for window in query.windows)


def _scope(query: Query) -> Setting[PatternScope]:
    graphs = [clause for clause in query.shape.graphs if not clause.named]
    origin = Origin.WRITTEN if query.shape.graphs else Origin.DEFAULT
    if query.dialect is Dialect.CSPARQL:
        if graphs:
            return Setting(PatternScope.WINDOWS_AND_GRAPHS, origin)
        bare = any(window.declared is Declared.BARE_NAME for window in query.windows)
        return Setting(PatternScope.WINDOWS_AND_DEFAULT_GRAPH if bare else PatternScope.WINDOWS, Origin.DEFAULT)
    if graphs:
        return Setting(PatternScope.GRAPHS, origin)
    if query.shape.graphs and not query.windows:
        return Setting(PatternScope.NOTHING, origin)
    return Setting(PatternScope.DEFAULT_GRAPH, Origin.DEFAULT)


def _empty(query: Query) -> Setting[Empty]:
    if any(r.trigger is Trigger.NON_EMPTY_CONTENT for window in query.windows for r in window.reports):
        return Setting(Empty.SILENT_WITHOUT_CONTENT, Origin.WRITTEN)
    silent = query.dialect is Dialect.CQELS
    if query.dialect is Dialect.NONE:
        silent = query.r2s in (R2S.ISTREAM, R2S.DSTREAM)
    return Setting(Empty.SILENT if silent else Empty.REPORTED, Origin.DEFAULT)


def _window(query: Query, window: WindowClause) -> WindowPolicy:
    dialect = query.dialect
    t0 = _setting(window.t0_ms, _origin_of_closes(window, dialect))
    in_cqels = dialect is Dialect.CQELS and not _replays(query)
    by_arrival = in_cqels or not any(each.step_ms for each in query.windows)
    # Beside a stepped window those of arrivals cause no evaluation; they contribute what they hold.
    closes = (Report(Trigger.WINDOW_CLOSE),) if window.step_ms and not by_arrival else ()
    changes = (Report(Trigger.CONTENT_CHANGE),) if by_arrival else ()
    return WindowPolicy(
        window,
        _setting(window.bounds, _BOUNDS[dialect]),
        Setting(window.step_ms, Origin.WRITTEN if window.step_written else Origin.DEFAULT),
        t0,
        Setting(window.lateness_ms, Origin.DEFAULT if window.lateness_ms is None else Origin.WRITTEN),
        _setting(window.reports or None, closes or changes),
    )


def _origin_of_closes(window: WindowClause, dialect: Dialect) -> int | FirstClose:
    if window.extent is Extent.HISTORY:  # replayed at registration, before any push could decide
        return 0 if window.step_written else window.start_ms  # without STEP it closes once, at END
    return FirstClose.FIRST_PUSH if dialect is Dialect.CSPARQL else 0
