"""What a registration means, in sentences: when it is evaluated, over what, and what it emits.

REGISTER RSTREAM near AS SELECT ... [RANGE 10s STEP 1s]
-->  It reads the last 10 s of the stream taxis, every 1 s.
     It is evaluated at every close of a window.
     Each emission has the whole answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from endpoint.console.display import length

_EMITTED = {
    "RSTREAM": "Each emission has the whole answer (RSTREAM).",
    "ISTREAM": "Each emission has the rows that are new in the answer (ISTREAM).",
    "DSTREAM": "Each emission has the rows that are no longer in the answer (DSTREAM).",
}
_EMPTY = {
    "reported": "An empty answer is an emission, too.",
    "silent": "An empty answer makes no emission.",
    "reported, but no evaluation while every window is empty": "It is not evaluated while every window is empty.",
}
_EXTENTS = {"NOW": "the elements of each instant", "ALL": "all elements"}


def sentences(explained: Mapping[str, Any], reads_store: bool) -> list[str]:
    """`explained` is what `Service.explain` says of a query or a registration. `reads_store`: it has patterns outside
    of windows."""
    policy = explained["policy"]
    return [
        *(_window(window) for window in explained["windows"]),
        f"It is evaluated {' and '.join(policy['evaluated']['value'])}.",
        _EMITTED[policy["r2s"]["value"]],
        _EMPTY[policy["empty"]["value"]],
        *([f"Patterns outside of windows match {policy['scope']['value']}."] if reads_store else []),
    ]


def warnings(explained: Mapping[str, Any]) -> list[str]:
    """What is probably not meant; first of all, streams that do not exist."""
    return [*explained.get("missing_streams", ()), *explained.get("warnings", ())]


def _window(window: Mapping[str, Any]) -> str:
    step = f", every {length(window['step_ms'])}" if window["step_ms"] else ""
    waits = f" Its elements may come {length(window['lateness_ms'])} late." if window["lateness_ms"] else ""
    return f"It reads {_extent(window)} of the stream {window['stream'] or 'that a variable names'}{step}.{waits}"


def _extent(window: Mapping[str, Any]) -> str:
    if window["count"] is not None:
        kind = "triples" if window["extent"] == "TRIPLES" else "elements"
        step = f", {window['count_step']} new ones at a time" if window["count_step"] else ""
        return f"the last {window['count']} {kind}{step}"
    if window["extent"] in _EXTENTS:
        return _EXTENTS[window["extent"]]
    until = f" up to {length(window['until_ms'])} ago" if window["until_ms"] else ""
    return f"the last {length(window['range_ms'])}{until}"
