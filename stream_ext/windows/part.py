"""A part: what one runner contributes to one evaluation, on its way to become an emission."""

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

    A term that the query created is in `created`: its id is local, and contains its place there. `repeated` > 0: a run
    of that many empty evaluations, from `first` to `time`. `emits` False: the query was evaluated and emits nothing.
    `gap`: the first emission since the query was paused, or failed and began anew. `before` is the evaluation before
    this one. `evaluated` False: there was no evaluation; the part only brings the progress of the query.

    `after_move`: the query was moved in this snapshot, and this part is from the runner that it was moved to. It counts
    after all parts of the other runner, and if that one has fallen behind; the last one, without an evaluation, brings
    the progress at this runner. `given_up`: the query was behind, and its step raised; what it missed is skipped."""

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
    created: list[bytes] = []
    gap: bool = False
    before: LastEvaluation | None = None
    evaluated: bool = True
    after_move: bool = False
    given_up: bool = False


class SharedPart(msgspec.Struct, tag=True):
    """One evaluation of queries that are evaluated together, as one part.

    `queries` are their numbers, ascending. Each row belongs to one of them: `whose` has its place there, ascending. A
    query without a row emits an empty result if it `reports`, else nothing; `boolean` is the answer to an ASK of those
    with a row. `state` is common to all of them. What is a query's own in its state does not change while it is with
    the others; `joined` has the whole states of those that joined since the last part. `created`, `repeated`, `first`,
    `before` and `evaluated` are as in a `Part`."""

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
    created: list[bytes] = []
    before: LastEvaluation | None = None
    evaluated: bool = True

    def own(self, place: int) -> tuple[list[Ids], bool | None]:
        """The result of the query at this place: its rows, or the answer to an ASK."""
        low, high = self.whose.searchsorted([place, place + 1]).tolist()
        return [column[low:high] for column in self.columns], None if self.boolean is None else high > low


#: What a shard returns for an evaluation.
AnyPart = Part | SharedPart
