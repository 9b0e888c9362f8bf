"""Rules that look at all windows of a query at once."""

from __future__ import annotations

from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.windows import Dialect, Extent, Trigger, WindowClause
from stream_ext.language.syntax.cursor import Cursor

_COUNTS = (Extent.TRIPLES, Extent.ELEMENTS)


def check_policies(cursor: Cursor, query: Query) -> None:
    stepped = [window for window in query.windows if window.step_ms]
    for window in query.windows:
        closes = any(report.trigger is Trigger.WINDOW_CLOSE for report in window.reports)
        if closes and not stepped:
            _fail(
                cursor, window, "REPORT WINDOW_CLOSE", "REPORT WINDOW_CLOSE needs a window that closes: give it a STEP"
            )
        if window.extent is Extent.NOW and stepped and query.dialect is not Dialect.CQELS:
            message = (
                f"[NOW] together with a stepped window has no meaning in {query.dialect}; write a query of "
                "its own for it"
            )
            _fail(cursor, window, "extent", message)
    steps = {window.count_step: window for window in query.windows if window.extent in _COUNTS and window.count_step}
    if len(steps) > 1:
        message = "two count windows of different STEPs have no evaluations in common"
        _fail(cursor, list(steps.values())[1], "extent", message)


def _fail(cursor: Cursor, window: WindowClause, clause: str, message: str) -> None:
    cursor.fail_at(message, window.place(clause) or window.position)
