"""Alarms of streams: what happens to a stream because time has passed, without a push.

it runs by the clock, and a close is due    it gets a heartbeat
nothing came for its option `idle`          it is marked as idle"""

from __future__ import annotations

from collections.abc import Callable

from hbase_store import StreamPosition
from stream_ext.clock import Clock
from stream_ext.upkeep.alarms import Alarms
from stream_ext.writer.gathering import Idle
from stream_ext.writer.injector import Injector

_CLOCK_EVERY_MS = 1_000


class StreamAlarms:
    def __init__(
        self, alarms: Alarms, clock: Clock, injector: Injector, next_due_ms: Callable[[int], int | None]
    ) -> None:
        """`next_due_ms`: when the next close of a query over this stream is due; None: none is."""
        self._alarms, self._clock, self._injector, self._next_due_ms = alarms, clock, injector, next_due_ms

    def set_close(self, stream: int) -> None:
        """When the clock reaches the next close over a stream that runs by the clock, the stream gets a heartbeat."""
        definition = self._injector.catalog.streams.get(stream)
        if definition is None or definition.runs_by != "clock":
            return
        alarm, due_ms = ("close", stream), self._next_due_ms(stream)
        if due_ms is None:
            self._alarms.cancel(alarm)
        else:
            self._alarms.set(alarm, due_ms, lambda: self._send_heartbeat(stream))

    def set_idle(self, stream: int) -> None:
        """When no element has come for the time of the stream's option `idle`, the stream is marked as idle."""
        definition = self._injector.catalog.streams.get(stream)
        position = self._injector.positions.get(stream)
        if definition is None or definition.options.idle_ms is None or (position is not None and position.idle):
            return
        at_ms = self._clock.now_ms() + definition.options.idle_ms
        self._alarms.set(("idle", stream), at_ms, lambda: self._mark_idle(stream, position))

    def look_at_clock(self) -> None:
        """Reads the clock now and then, also if nothing else does: the clock itself reports when it was set back."""
        self._alarms.set("clock", self._clock.now_ms() + _CLOCK_EVERY_MS, self.look_at_clock)

    def _send_heartbeat(self, stream: int) -> None:
        if stream in self._injector.catalog.streams:
            self._injector.clock_heartbeat(stream)

    def _mark_idle(self, stream: int, seen: StreamPosition | None) -> None:
        definition = self._injector.catalog.streams.get(stream)
        if definition is not None and definition.options.idle_ms is not None:  # it may have been changed since
            self._injector.idle(Idle(stream, seen))
