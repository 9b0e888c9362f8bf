"""The past of a query: what happened to it, for people who ask in the morning why it was silent at night.

It is a part of the query's definition, so it is as durable as the query, and ends with it. A query that replaces
another one takes over its past, with the text that was replaced."""

from __future__ import annotations

from typing import Literal

import msgspec

What = Literal["replaced", "paused", "resumed", "failed", "parked", "moved"]

_EVENTS_MAX = 30
#: Of all texts that were replaced, together, and of one reason. Of the oldest texts only the fact remains.
_TEXTS_MAX = 64 << 10
_WHY_MAX = 2_000


class PastEvent(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened to a query. `text`: the one that was replaced; `why`: the reason of a failure, or the
    runner that it was moved to. Example: PastEvent(1700000000000, 12, "failed", "an evaluation took longer than
    300 s")."""

    time_ms: int
    snapshot: int
    what: What
    why: str = ""
    text: str = ""


def with_event(past: list[PastEvent], event: PastEvent) -> list[PastEvent]:
    """The past with one event more, within its bounds; the latest event is the last."""
    if len(event.why) > _WHY_MAX:
        event = msgspec.structs.replace(event, why=event.why[:_WHY_MAX] + "…")
    found: list[PastEvent] = []
    left = _TEXTS_MAX
    for each in reversed([*past, event][-_EVENTS_MAX:]):
        left -= len(each.text)
        found.append(each if left >= 0 or not each.text else msgspec.structs.replace(each, text=""))
    return found[::-1]
