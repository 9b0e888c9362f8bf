"""Openings: the elements from which the windows of a query count, before it is evaluated for the first time.

The first push to a stream says where its windows begin. An older element moves their begin back only where it is not
below the stream's time; and how far that lags behind the greatest timestamp, each window may say for itself (LATENESS).
So an opening is the time of an element, and the least lateness under which it counts; the older an opening, the greater
its lateness.

    pushes 100, 90, 70, 95:   (0, 100) (10, 90) (30, 70)      with LATENESS 20 windows count from 90

They are a function of the pushes to the stream alone, and stored in its position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Openings = Sequence[tuple[int, int]]

#: No more are stored; those with the greatest lateness are dropped.
OPENINGS_MAX = 16


def opened(openings: Openings, times: Times, latest: int | None, heartbeat: int | None) -> Openings:
    """The openings after a push of these timestamps to a stream that was at `latest` and `heartbeat` before."""
    if not openings:
        return [(0, int(times.min()))]
    newest = openings[0][1]  # the one that needs no lateness
    if latest is None or int(times.min()) >= newest:
        return openings
    older = np.unique(times[times < newest])
    if heartbeat is not None:
        older = older[older >= heartbeat]  # time has come to it whatever the lateness is
    found, oldest = [], None
    for need, time in sorted([*openings, *((latest - time, time) for time in older[-OPENINGS_MAX:].tolist())]):
        if oldest is None or time < oldest:
            found.append((need, time))
            oldest = time
    return found[:OPENINGS_MAX]


def begin_under(openings: Openings, lateness_ms: int) -> int:
    """The time of the element from which windows of this lateness begin."""
    return min(time for need, time in openings if need <= lateness_ms)


def openings_of(openings: Openings, first: int | None) -> Openings:
    """Of a stream's position; one that was stored without them has the least timestamp that there ever was."""
    return openings or ([] if first is None else [(0, first)])
