"""A part: what one runner contributes to one evaluation, on its way to become an emission."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from stream_ext.windows.query_state import LastEvaluation, QueryState

Ids = npt.NDArray[np.uint64]
NO_IDS: Ids = np.empty(0, np.uint64)


class WindowBounds(msgspec.Struct, frozen=True, array_like=True):
    """The instance of a window at an evaluation: `stream` is its name, else its IRI."""

    stream: str
    start: int
    end: int
    bounds: str


class Part(msgspec.Struct):
    """The evaluation `k` of snapshot `sn`, at `time`, of one query, or of several that share it: their rows as columns
    of ids, and their state after it.

    `queries` are their numbers, ascending. Of several, each row belongs to one of them: `whose` has its place there,
    ascending. If a query `emits`, its result is an emission, also if it is empty; if not, one of several queries emits
    if it has a row. `boolean` is the answer to an ASK; of several, that of those with a row.

    A part that `is_shared` is stored once for all of its queries. `state` is what they have in common; what is a
    query's own in its state does not change while it is with the others. `joined` has the whole states of those that
    joined since the last part.

    A term that a query created is in `created`: its id is local, and contains its place there. `repeated` > 0: a run
    of that many empty evaluations, from `first` to `time`. `before` is the evaluation before this one. `evaluated`
    False: there was no evaluation; the part only brings the progress of the queries. `gap`: the first emission of the
    query since it was paused, or failed and began anew.

    `after_move`: the query was moved in this snapshot, and this part is from the runner that it was moved to. It counts
    after all parts of the other runner, and if that one has fallen behind; the last one, without an evaluation, brings
    the progress at this runner. `given_up`: the query was behind, and its step raised; what it missed is skipped.
    `asked_as_of`: the source main was asked for something, and this is of its data between these times (ms);
    `all_asked`: nothing of it was held."""

    queries: Ids
    sn: int
    k: int
    time: int
    windows: list[WindowBounds]
    whose: Ids
    columns: list[Ids]
    boolean: bool | None
    emits: bool
    repeated: int
    first: int | None
    state: QueryState
    joined: dict[int, QueryState] = {}
    created: list[bytes] = []
    before: LastEvaluation | None = None
    evaluated: bool = True
    gap: bool = False
    is_shared: bool = False
    after_move: bool = False
    given_up: bool = False
    asked_as_of: tuple[int, int] | None = None
    all_asked: bool = False

    @classmethod
    def of_one(
        cls,
        query: int,
        sn: int,
        k: int,
        time: int,
        windows: list[WindowBounds],
        columns: list[Ids],
        boolean: bool | None,
        repeated: int,
        first: int | None,
        state: QueryState,
        emits: bool,
        created: list[bytes] | None = None,
        gap: bool = False,
        before: LastEvaluation | None = None,
        evaluated: bool = True,
    ) -> Part:
        return cls(
            np.array([query], np.uint64), sn, k, time, windows, NO_IDS, columns, boolean, emits, repeated, first, state,
            {}, created or [], before, evaluated, gap,
        )  # fmt: skip

    @classmethod
    def silent(cls, query: int, sn: int, k: int, state: QueryState) -> Part:
        """A part without a result, which stores the progress of the query."""
        return cls.of_one(query, sn, k, state.after or 0, [], [], None, 0, None, state, False, evaluated=False)

    @property
    def query(self) -> int:
        """The number of its only query."""
        number: int = self.queries.item(0)
        return number

    def own(self, place: int) -> tuple[list[Ids], bool | None]:
        """The result of the query at this place, of several: its rows, or the answer to an ASK."""
        low, high = self.whose.searchsorted([place, place + 1]).tolist()
        return [column[low:high] for column in self.columns], None if self.boolean is None else high > low
