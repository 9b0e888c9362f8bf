"""Which windows are refused: clauses that the engine does not run, and windows that it does not run together.

[RANGE TRIPLES 5 BOUNDS "[]"]     =>      BOUNDS of a window that is no length of time"""

from __future__ import annotations

from collections.abc import Iterator

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.policy import EvaluationTrigger, policy_of
from stream_ext.language.algebra.terms import Position
from stream_ext.language.algebra.windows import Dialect, Extent, Trigger, WindowClause

Refusal = tuple[Position, str]

#: What is written of windows, and run.
_RUN = frozenset(
    {
        "COUNT",
        "ROWS",
        "extent",
        "T0",
        "BOUNDS",
        "LATENESS",
        "MAXDELAY",
        "RANGE ... ON a predicate for the time",
        "EMIT ON_CLOSE",
        f"REPORT {Trigger.WINDOW_CLOSE}",
        f"REPORT {Trigger.PERIODIC}",
        f"REPORT {Trigger.NON_EMPTY_CONTENT}",
        f"REPORT {Trigger.CONTENT_CHANGE}",
        "EMIT ON_UPDATE",
    }
)


def of_window(window: WindowClause) -> Iterator[Refusal]:
    if not window.extent.is_timed and (bounds := window.place("BOUNDS")) is not None:
        yield bounds, "BOUNDS of a window that is no length of time"
    if not window.step_ms and (origin := window.place("T0")) is not None:
        yield origin, "T0 of a window without a step"
    for each in window.written:
        if each.clause not in _RUN:
            yield each.position, each.clause


def of_mixtures(query: Query) -> Iterator[Refusal]:
    """The refusals of windows that run, but not together."""
    triggers = policy_of(query).evaluated.value
    if query.dialect is Dialect.CQELS and EvaluationTrigger.ARRIVAL in triggers and len(triggers) > 1:
        yield query.windows[0].position, "CQELS-QL that is evaluated at closes or periods, and at arrivals too"
    past = [window for window in query.windows if window.extent is Extent.HISTORY]
    if past and len(past) < len(query.windows):
        yield past[0].place("extent") or past[0].position, "a START ... END window together with a window without END"
    elif past and EvaluationTrigger.ARRIVAL in triggers:  # it is replayed at its closes: nothing arrives
        yield past[0].place("extent") or past[0].position, "CONTENT_CHANGE of a START ... END window"
