"""From a query's text to its timing: its windows, their streams, and what triggers an evaluation."""

from __future__ import annotations

from stream_ext.catalog.catalog import Catalog
from stream_ext.errors import BadArgument
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.policy import Empty, EvaluationTrigger, FirstClose, WindowPolicy, policy_of
from stream_ext.language.algebra.windows import Extent, WindowClause
from stream_ext.windows.schedule import ScheduledWindow, Timing


def timing_of(query: Query, catalog: Catalog, t0: int | None = None) -> Timing:
    """The timing over the streams of the catalog. `t0`: the origin, if the first push has determined it already."""
    policy = policy_of(query)
    kinds = policy.evaluated.value
    by_arrival = kinds == (EvaluationTrigger.ARRIVAL,)
    timing = Timing(
        windows=tuple(_scheduled(window, catalog, by_arrival) for window in policy.windows),
        closes=EvaluationTrigger.CLOSE in kinds,
        every_ms=policy.every_ms if EvaluationTrigger.PERIODIC in kinds else (),
        arrivals=EvaluationTrigger.ARRIVAL in kinds,
        content_only=policy.empty.value is Empty.SILENT_WITHOUT_CONTENT,
    )
    return timing if t0 is None else timing.settled(t0)


def _scheduled(policy: WindowPolicy, catalog: Catalog, by_arrival: bool) -> ScheduledWindow:
    clause, t0 = policy.window, policy.t0.value
    stream = catalog.stream(key_of(clause))
    check_time_predicate(clause, stream.options.time)
    past = clause.extent is Extent.HISTORY
    lateness_ms = policy.lateness_ms.value
    return ScheduledWindow(
        name=clause.name,
        stream=stream.number,
        range_ms=clause.range_ms,
        step_ms=policy.step_ms.value,
        t0_ms=None if isinstance(t0, FirstClose) else t0,
        lateness_ms=stream.options.lateness_ms if lateness_ms is None else lateness_ms,
        until_ms=clause.until_ms,
        bounds=policy.bounds.value,
        start_ms=clause.start_ms if past else None,
        end_ms=clause.end_ms if past else None,
        by_arrival=by_arrival,
        ahead_ms=stream.options.lateness_ms,
        by_variable=clause.stream.variable is not None,
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
