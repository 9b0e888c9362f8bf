"""EXPLAIN: what a text means, before anything is done with it."""

from __future__ import annotations

from typing import Any

from stream_ext.catalog import names_of
from stream_ext.errors import BadArgument
from stream_ext.plan.algebra import R2S, InsertData, Query, Register, Unit, Update, WindowClause
from stream_ext.registration import key_of
from stream_ext.syntax import parse

_BOUNDS, _REPORT = "[)", "WINDOW_CLOSE"


def explain(text: str, base: str) -> dict[str, Any]:
    """As JSON; registers and creates nothing. `origins` says what was written and what is a default."""
    unit: Unit = parse(text, base)
    if isinstance(unit, Update):
        return {"unit": "update", "operations": [_operation(operation) for operation in unit.operations]}
    query = unit.query if isinstance(unit, Register) else unit
    explained: dict[str, Any] = {
        "unit": "registration" if isinstance(unit, Register) else "query",
        "form": query.form.value,
        "dialect": "RSP-QL" if query.windows else "none",
        "variables": list(query.variables),
        "r2s": (query.r2s or R2S.RSTREAM).value if query.windows else None,
        "windows": [_window(window, base) for window in query.windows],
        "origins": _origins(query),
    }
    if isinstance(unit, Register):
        explained["query"] = unit.name or unit.iri
    return explained


def _operation(operation: object) -> dict[str, Any]:
    kind = "INSERT DATA" if isinstance(operation, InsertData) else "DELETE DATA"
    return {"operation": kind, "quads": len(getattr(operation, "quads", ()))}


def _window(window: WindowClause, base: str) -> dict[str, Any]:
    try:
        stream = names_of(key_of(window.stream), base + "streams/").name
    except BadArgument:
        stream = key_of(window.stream)
    return {
        "name": window.name,
        "stream": stream,
        "range_ms": window.range_ms,
        "step_ms": window.step_ms,
        "count": None,
        "bounds": _BOUNDS,
        "t0": window.t0_ms or 0,
        "report": [_REPORT],
        "origins": {
            "range_ms": "written",
            "step_ms": "default" if window.step_ms == window.range_ms else "written",
            "bounds": "default",
            "t0": "default" if window.t0_ms is None else "written",
            "report": "default",
        },
    }


def _origins(query: Query) -> dict[str, str]:
    return {"r2s": "default" if query.r2s is None else "written"} if query.windows else {}
