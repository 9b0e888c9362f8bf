"""From a query's text to its timing: its windows, their streams, and what triggers an evaluation."""

from __future__ import annotations

from stream_ext.catalog.catalog import Catalog
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, FirstClose, WindowPolicy, policy_of
from stream_ext.language.algebra.windows import Bounds, Dialect, Extent, WindowClause
from stream_ext.windows.scheduled_window import Count, ScheduledWindow
from stream_ext.windows.timing import Timing


def timing_of(query: Query, catalog: Catalog, t0: int | None = None) -> Timing:
    """The timing over the streams of the catalog. `t0`: the origin, if the first push has determined it already."""
    policy = policy_of(query)
    kinds = policy.evaluated.value
    by_arrival = kinds == (EvaluationTrigger.ARRIVAL,)
    stepped = [each.bounds.value for each in policy.windows if each.step_ms.value]
    # Beside stepped windows those without an end of their own contain what is before t; and what is at t, if theirs do.
    end = Bounds.CLOSED_OPEN if Bounds.CLOSED_OPEN in stepped else Bounds.CLOSED
    bag = policy.dialect is Dialect.CQELS
    timing = Timing(
        windows=tuple(_scheduled(window, catalog, by_arrival, end, bag) for window in policy.windows),
        closes=EvaluationTrigger.CLOSE in kinds,
        every_ms=policy.every_ms if EvaluationTrigger.PERIODIC in kinds else (),
        arrivals=EvaluationTrigger.ARRIVAL in kinds,
        content_only=policy.empty.value is Empty.SILENT_WITHOUT_CONTENT,
    )
    return timing if t0 is None else timing.with_origin(t0)


def _scheduled(policy: WindowPolicy, catalog: Catalog, by_arrival: bool, end: Bounds, bag: bool) -> ScheduledWindow:
    clause, t0 = policy.window, policy.t0.value
    stream = catalog.stream(key_of(clause))
    check_time_predicate(clause, stream.options.time)
    past = clause.extent is Extent.HISTORY
    count = None
    if clause.extent in (Extent.TRIPLES, Extent.ELEMENTS):
        count = Count(clause.count, clause.extent is Extent.ELEMENTS, clause.count_step)
    lateness_ms = policy.lateness_ms.value
    return ScheduledWindow(
        name=clause.name,
        stream=stream.number,
        range_ms=clause.range_ms,
        step_ms=policy.step_ms.value,
        t0_ms=0 if not policy.step_ms.value else None if isinstance(t0, FirstClose) else t0,
        lateness_ms=stream.options.lateness_ms if lateness_ms is None else lateness_ms,
        until_ms=clause.until_ms,
        bounds=policy.bounds.value if clause.extent.is_timed else Bounds.CLOSED if clause.extent is Extent.NOW else end,
        start_ms=clause.start_ms if past else None,
        end_ms=clause.end_ms if past else None,
        by_arrival=by_arrival,
        ahead_ms=stream.options.lateness_ms,
        by_variable=clause.stream.variable is not None,
        holds_all=clause.extent is Extent.ALL,
        count=count,
        bag=bag,
    )


def key_of(clause: WindowClause) -> str:
    return clause.stream.iri or clause.stream.name or ""


def check_time_predicate(clause: WindowClause, time: str | None) -> None:
    """RANGE ... ON a predicate: a stream has one time, so it must be that one."""
    if clause.time_predicate not in (None, time):
        has = "the timestamps that are sent with its elements" if time is None else f"<{time}>"
        raise BadArgument(
            f"RANGE ... ON <{clause.time_predicate}> (line {clause.position.line}): stream "
            f"{key_of(clause)!r} takes its times from {has}, and a stream has only one source of time; "
            "leave ON out, or create the stream with this predicate as its option time"
        )
