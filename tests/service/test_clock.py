"""The machine's clock: how long it can be asked to wait."""

from __future__ import annotations

import threading

from stream_ext.clock import SystemClock


def test_one_may_wait_for_a_time_that_no_machine_will_see() -> None:
    condition, clock = threading.Condition(), SystemClock()

    def wake() -> None:
        with condition:
            condition.notify_all()

    with condition:
        threading.Thread(target=wake).start()  # it gets the condition once we wait
        clock.wait(condition, 2**60)
