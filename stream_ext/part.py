"""A part: what one owner contributes to one evaluation, on its way to become an emission."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.schedule import Evaluated, QueryState

Ids = npt.NDArray[np.uint64]


class WindowBounds(msgspec.Struct, frozen=True, array_like=True):
    """The instance of a window at an evaluation: `stream` is its name, else its IRI."""

    stream: str
    start: int
    end: int
    bounds: str


class Part(msgspec.Struct):
    """The evaluation (query, sn, k) at `time`: its rows as columns of ids, and the query's state after it.

    A term that the query made itself is one of `made`: its id is local, and counts the places there. `repeated` > 0
    tells of a run of that many empty evaluations from `first` to `time`. If `emits` is False the query was evaluated
    and says nothing. `gap`: it is the first to say something since the query was paused. `before` is the evaluation
    before this one. `evaluated` False: nothing was, and the part only keeps how far the query has come."""

    query: int
    sn: int
    k: int
    time: int
    windows: list[WindowBounds]
    columns: list[Ids]
    boolean: bool | None
    repeated: int
    first: int | None
    state: QueryState
    emits: bool
    made: list[bytes] = []
    gap: bool = False
    before: Evaluated | None = None
    evaluated: bool = True
