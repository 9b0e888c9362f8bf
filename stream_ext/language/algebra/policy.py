"""The policy in force: when a query is evaluated, over what, and what is said of it; each with its origin.

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
class Said(Generic[Value]):
    """A part of the policy, and whether the text says it."""

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
    bounds: Said[Bounds]
    step_ms: Said[int]  # 0: slides on arrival, or no time window
    t0: Said[int | FirstClose]
    lateness_ms: Said[int | None]  # None: the stream's own
    reports: Said[tuple[Report, ...]]


@dataclass(frozen=True, slots=True)
class Policy:
    dialect: Dialect
    r2s: Said[R2S]
    evaluated: Said[tuple[EvaluationTrigger, ...]]
    every_ms: tuple[int, ...]  # of PERIODIC
    scope: Said[PatternScope]
    empty: Said[Empty]
    windows: tuple[WindowPolicy, ...]


_BOUNDS = {Dialect.CQELS: Bounds.OPEN_CLOSED, Dialect.CSPARQL: Bounds.CLOSED_OPEN, Dialect.RSPQL: Bounds.CLOSED_OPEN}
_ARRIVALS = (Extent.NOW, Extent.ALL, Extent.TRIPLES, Extent.ELEMENTS)


def policy_of(query: Query) -> Policy:
    periods = _periods(query)
    return Policy(
        dialect=query.dialect,
        r2s=_said(query.r2s, R2S.ISTREAM if query.dialect is Dialect.CQELS else R2S.RSTREAM),
        evaluated=_evaluated(query, periods),
        every_ms=periods,
        scope=_scope(query),
        empty=_empty(query),
        windows=tuple(_window(query, window) for window in query.windows),
    )


def _said(written: Given | None, default: Given) -> Said[Given]:
    return Said(default, Origin.DEFAULT) if written is None else Said(written, Origin.WRITTEN)


def _periods(query: Query) -> tuple[int, ...]:
    reports = [report.every_ms for window in query.windows for report in window.reports if report.every_ms]
    return tuple(dict.fromkeys([*([query.shape.every_ms] if query.shape.every_ms else []), *reports]))


def _evaluated(query: Query, periods: tuple[int, ...]) -> Said[tuple[EvaluationTrigger, ...]]:
    triggers = {report.trigger for window in query.windows for report in window.reports}
    found = [
        *([EvaluationTrigger.CLOSE] if Trigger.WINDOW_CLOSE in triggers else []),
        *([EvaluationTrigger.ARRIVAL] if Trigger.CONTENT_CHANGE in triggers else []),
        *([EvaluationTrigger.PERIODIC] if periods else []),
    ]
    if found:
        return Said(tuple(found), Origin.WRITTEN)
    if not query.windows:
        return Said((EvaluationTrigger.CHANGE,), Origin.DEFAULT)
    by_arrival = query.dialect is Dialect.CQELS or all(window.extent in _ARRIVALS for window in query.windows)
    return Said((EvaluationTrigger.ARRIVAL if by_arrival else EvaluationTrigger.CLOSE,), Origin.DEFAULT)


def _scope(query: Query) -> Said[PatternScope]:
    graphs = [clause for clause in query.shape.graphs if not clause.named]
    origin = Origin.WRITTEN if query.shape.graphs else Origin.DEFAULT
    if query.dialect is Dialect.CSPARQL:
        if graphs:
            return Said(PatternScope.WINDOWS_AND_GRAPHS, origin)
        bare = any(window.declared is Declared.BARE_NAME for window in query.windows)
        return Said(PatternScope.WINDOWS_AND_DEFAULT_GRAPH if bare else PatternScope.WINDOWS, Origin.DEFAULT)
    if graphs:
        return Said(PatternScope.GRAPHS, origin)
    if query.shape.graphs and not query.windows:
        return Said(PatternScope.NOTHING, origin)
    return Said(PatternScope.DEFAULT_GRAPH, Origin.DEFAULT)


def _empty(query: Query) -> Said[Empty]:
    if any(r.trigger is Trigger.NON_EMPTY_CONTENT for window in query.windows for r in window.reports):
        return Said(Empty.SILENT_WITHOUT_CONTENT, Origin.WRITTEN)
    silent = query.dialect is Dialect.CQELS
    if query.dialect is Dialect.NONE:
        silent = query.r2s in (R2S.ISTREAM, R2S.DSTREAM)
    return Said(Empty.SILENT if silent else Empty.REPORTED, Origin.DEFAULT)


def _window(query: Query, window: WindowClause) -> WindowPolicy:
    dialect = query.dialect
    t0 = _said(window.t0_ms, _origin_of_closes(window, dialect))
    by_arrival = dialect is Dialect.CQELS or not any(each.step_ms for each in query.windows)
    # Beside a stepped window those of arrivals cause no evaluation; they contribute what they hold.
    closes = (Report(Trigger.WINDOW_CLOSE),) if window.step_ms and not by_arrival else ()
    changes = (Report(Trigger.CONTENT_CHANGE),) if by_arrival else ()
    return WindowPolicy(
        window,
        _said(window.bounds, _BOUNDS[dialect]),
        Said(window.step_ms, Origin.WRITTEN if window.step_written else Origin.DEFAULT),
        t0,
        Said(window.lateness_ms, Origin.DEFAULT if window.lateness_ms is None else Origin.WRITTEN),
        _said(window.reports or None, closes or changes),
    )


def _origin_of_closes(window: WindowClause, dialect: Dialect) -> int | FirstClose:
    if window.extent is Extent.HISTORY:  # replayed at registration, before any push could decide
        return 0 if window.step_written else window.start_ms  # without STEP it closes once, at END
    return FirstClose.FIRST_PUSH if dialect is Dialect.CSPARQL else 0
