"""Windows as they are declared."""

from __future__ import annotations

from stream_ext.language.algebra.windows import Declared, Extent, Report, StreamRef, WindowClause
from stream_ext.language.printing import terms


def stream(reference: StreamRef) -> str:
    if reference.variable is not None:
        return "?" + reference.variable
    return f"<{reference.iri}>" if reference.iri is not None else str(reference.name)


def declaration(window: WindowClause) -> str:
    """The clause of the dataset that declares it."""
    source, lengths = stream(window.stream), extent(window)
    if window.declared is Declared.WINDOW:
        return f"FROM NAMED WINDOW <{window.name}> ON {source} {lengths}"
    if window.declared is Declared.BARE_NAME:
        return f"FROM {source} {lengths}"
    return f"{window.declared.value} {source} {lengths}"


def extent(window: WindowClause) -> str:
    parts = [_length(window)]
    if window.time_predicate is not None:
        parts.append(f"ON <{window.time_predicate}>")
    if window.count_step:
        parts.append(f"STEP {window.count_step}")
    if window.step_written:
        parts.append(f"STEP {terms.duration(window.step_ms)}")
    if window.reports:
        parts.append(f"REPORT {', '.join(report(each) for each in window.reports)}")
    if window.lateness_ms is not None:
        parts.append(f"LATENESS {terms.duration(window.lateness_ms)}")
    if window.t0_ms is not None:
        parts.append(f"T0 {window.t0_ms}")
    if window.bounds is not None:
        parts.append(f"BOUNDS {window.bounds.value}")
    return f"[{' '.join(parts)}]"


def _length(window: WindowClause) -> str:
    if window.extent is Extent.RANGE:
        return f"RANGE {terms.duration(window.range_ms)}"
    if window.extent is Extent.SPAN:
        until = f" - {terms.duration(window.until_ms)}" if window.until_ms else ""
        return f"FROM NOW - {terms.duration(window.range_ms)} TO NOW{until}"
    if window.extent is Extent.HISTORY:
        return f"START {window.start_ms} END {window.end_ms}"
    return f"{window.extent.value} {window.count}" if window.count else window.extent.value


def report(each: Report) -> str:
    return f"{each.trigger.value} {terms.duration(each.every_ms)}" if each.every_ms else each.trigger.value
