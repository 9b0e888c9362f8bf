"""Alarms: actions that fall due at a time of the clock.

There is one thread for all alarms. An alarm has a name; setting it again moves it. A new alarm wakes the thread only if
it is earlier than the one that the thread waits for, so setting alarms on a hot path is cheap."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from stream_ext.clock import Clock

Action = Callable[[], None]


class Alarms:
    def __init__(self, clock: Clock, on_fault: Callable[[BaseException], None]) -> None:
        self._clock = clock
        self._on_fault = on_fault
        self._changed = threading.Condition()
        self._due: dict[Hashable, tuple[int, Action]] = {}
        self._waits_for: int | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="rillet-alarms", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def set(self, name: Hashable, at_ms: int, action: Action) -> None:
        with self._changed:
            self._due[name] = (at_ms, action)
            if self._waits_for is None or at_ms < self._waits_for:
                self._changed.notify()

    def cancel(self, name: Hashable) -> None:
        with self._changed:
            self._due.pop(name, None)

    def close(self) -> None:
        """No more alarms; waits for an action that runs."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while (actions := self._take()) is not None:
            for action in actions:
                try:
                    action()
                except Exception as error:  # noqa: BLE001 -- reported, and the thread ends: nothing due is skipped unseen
                    self._on_fault(error)
                    return

    def _take(self) -> list[Action] | None:
        """Waits for due actions, and returns them; None at the end."""
        with self._changed:
            while not self._closed:
                now = self._clock.now_ms()
                due = [name for name, (at_ms, _) in self._due.items() if at_ms <= now]
                if due:
                    return [self._due.pop(name)[1] for name in due]
                self._waits_for = min((at_ms for at_ms, _ in self._due.values()), default=None)
                self._clock.wait(self._changed, self._waits_for)
            return None
