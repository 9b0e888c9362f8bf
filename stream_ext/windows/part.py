"""A part: what one owner contributes to one evaluation, on its way to become an emission."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.windows.schedule import LastEvaluation, QueryState

Ids = npt.NDArray[np.uint64]


class WindowBounds(msgspec.Struct, frozen=True, array_like=True):
    """The instance of a window at an evaluation: `stream` is its name, else its IRI."""

    stream: str
    start: int
    end: int
    bounds: str


class Part(msgspec.Struct, tag=True):
    """The evaluation (query, sn, k) at `time`: its rows as columns of ids, and the query's state after it.

    A term that the query made itself is one of `made`: its id is local, and counts the places there. `repeated` > 0
    tells of a run of that many empty evaluations from `first` to `time`. If `emits` is False the query was evaluated
    and says nothing. `gap`: it is the first to say something since the query was paused, or had failed and
    began anew. `before` is the evaluation before this one. `evaluated` False: nothing was, and the part only keeps how
    far the query has come.

    `taken_over`: the query was moved in this snapshot, and this is of the runner that it was moved to. It counts after
    all that the other one says, and where that one has fallen behind; the last one, which evaluated nothing, says where
    this runner stands with it. `given_up`: the query was behind, and its step has raised; what it missed is not made up
    for."""

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
    before: LastEvaluation | None = None
    evaluated: bool = True
    taken_over: bool = False
    given_up: bool = False


class SharedPart(msgspec.Struct, tag=True):
    """One evaluation of queries that are evaluated together, told as one.

    `queries` are their numbers, ascending. Each row is of one of them: `whose` has the place there, ascending. A query
    without a row says so where it `reports`, else nothing; `boolean` is what those with a row say of an ASK. `state` is
    what is the same for all of them; what is a query's own never changes while it is with the others, and those that
    have `joined` since the last part bring it: the state from which each goes on. `made`, `repeated`, `first`, `before`
    and `evaluated` are as in a `Part`."""

    queries: Ids
    sn: int
    k: int
    time: int
    windows: list[WindowBounds]
    whose: Ids
    columns: list[Ids]
    boolean: bool | None
    reports: bool
    repeated: int
    first: int | None
    state: QueryState
    joined: dict[int, QueryState] = {}
    made: list[bytes] = []
    before: LastEvaluation | None = None
    evaluated: bool = True

    def own(self, place: int) -> tuple[list[Ids], bool | None]:
        """What the query at this place says: its rows, or whether an ASK holds."""
        low, high = self.whose.searchsorted([place, place + 1]).tolist()
        return [column[low:high] for column in self.columns], None if self.boolean is None else high > low


#: What a shard says of a snapshot.
Told = Part | SharedPart
