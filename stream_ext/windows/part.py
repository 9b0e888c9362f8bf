"""A part: what one runner contributes to one evaluation, on its way to become an emission."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

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


class ManyEmissions(msgspec.Struct, frozen=True, array_like=True):
    """The evaluations of a part that all emit, as columns: the number, time and push of each, and how much of the push
    had arrived (`LastEvaluation`); the same of the evaluation right before each; where its rows end; and for each
    window of the part a list of where its instances begin, and one of where they end."""

    ks: list[int]
    times: list[int]
    pushes: list[int]
    arrived: list[int]
    times_before: list[int]
    pushes_before: list[int]
    arrived_before: list[int]
    stops: list[int]
    starts: list[list[int]]
    ends: list[list[int]]


class RangeSums(msgspec.Struct, frozen=True, array_like=True):
    """What becomes of the rows of all ranges of a divided query, once they are summed. `r2s`: of the answer before and
    the answer now. The first `shown` columns are those of the result; behind them are others that `order` reads (a
    place, and whether it is descending). `is_set`: each row counts once; `distinct`: each row of the result, after it
    is ordered. `by_text`: rows that nothing else orders stand by their texts. `asks`: it is an ASK. `constants`: of the
    template of a CONSTRUCT, in order; those that the store does not know get ids in this order. `partial_groups`: so
    many columns say what the groups have in each range, and the columns of the result are made of them first.

    Unless `r2s` is RSTREAM, two more columns say how often a row is in the answer before, and in the answer now. Where
    rows are only added up, a row that is as often in both may be missing."""

    r2s: str
    shown: int
    order: list[tuple[int, bool]] = []
    is_set: bool = False
    distinct: bool = False
    offset: int = 0
    limit: int | None = None
    by_text: bool = False
    asks: bool = False
    constants: list[bytes] = []
    partial_groups: int = 0

    @property
    def is_counted(self) -> bool:
        """Whether two columns say how often a row was there, and is."""
        return self.r2s != "RSTREAM"

    @property
    def ordered(self) -> int:
        """How many columns are shown, or read by the order."""
        return max([self.shown, *(place + 1 for place, _ in self.order)])

    @property
    def sent(self) -> int:
        """How many columns a range has, but for counts."""
        return self.partial_groups or self.ordered

    @property
    def width(self) -> int:
        return self.sent + 2 * self.is_counted


class EmissionOfPart(NamedTuple):
    """One of the emissions of a part: the evaluation, the one before it, the windows, and its rows."""

    at: LastEvaluation | None
    before: LastEvaluation | None
    windows: list[WindowBounds]
    rows: slice


class Part(msgspec.Struct):
    """The evaluation `k` of snapshot `sn`, at `time`, of one query, or of several that share it: their rows as columns
    of ids, and their state after it.

    `queries` are their numbers, ascending. Of several, each row belongs to one of them: `whose` has its place there,
    ascending. If a query `emits`, its result is an emission, also if it is empty; if not, one of several queries emits
    if it has a row. `boolean` is the answer to an ASK; of several, that of those with a row.

    A part that `is_shared` is stored once for all of its queries. `state` is what they have in common; what is a
    query's own in its state does not change while it is with the others. `joined` has the whole states of those that
    joined since the last part.

    A term that a query created is in `created`: its id is local, and contains its place there. A part that was finished
    where it was made has `terms`, the texts of its terms: its columns are places in them, from 1 on (0: unbound). Of
    queries with a subscriber it has the rows as JSON, too, in `answers`.

    `repeated` > 0: a run of that many empty evaluations, from `first` to `time`. `before` is the evaluation before this
    one. `evaluated` False: there was no evaluation; the part only brings the progress of the queries.
    `silent_before`: so many evaluations right before this one emitted nothing, and have no part. `gap`: the first
    emission of the query since it was paused, or failed and began anew.

    `many`: many evaluations at arrivals, which all emit (`each`). `columns` has the rows of all of them; `k`, `time`,
    `windows` and `state` are the last one's, `before` and `gap` the first one's.

    `after_move`: the query was moved in this snapshot, and this part is from the runner that it was moved to. It counts
    after all parts of the other runner, and if that one has fallen behind; the last one, without an evaluation, brings
    the progress at this runner. `given_up`: the query was behind, and its step raised; what it missed is skipped.
    `source_as_of`: the source main was asked for something, and this is of its data between these times (ms);
    `none_held`: nothing of it was held. `is_range`: the query is divided among shards, and this has the rows of one;
    `sums`: they become its result in this way, once they are summed with those of the other shards."""

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
    source_as_of: tuple[int, int] | None = None
    none_held: bool = False
    terms: list[bytes] | None = None
    answers: dict[int, bytes] = {}
    silent_before: int = 0
    many: ManyEmissions | None = None
    is_range: bool = False
    sums: RangeSums | None = None

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
        """The part of a query that shares its evaluation with no other one."""
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

    @property
    def evaluations(self) -> int:
        """How many evaluations it is about."""
        if not self.evaluated:
            return 0
        emitted = max(1, self.repeated) if self.many is None else len(self.many.ks)
        return emitted + self.silent_before

    def rows_of_each(self) -> list[int]:
        """Of each of many emissions the number of its rows; 1 for an answer to an ASK."""
        assert self.many is not None, "it has many emissions"
        stops = self.many.stops
        if not self.columns:
            return [1] * len(stops)
        return [high - low for low, high in zip([0, *stops], stops, strict=False)]

    def after(self, k: int) -> Part:
        """Without its evaluations up to number `k`."""
        evaluations, many = self.k - k, self.many
        if many is None:
            return msgspec.structs.replace(self, silent_before=max(0, evaluations - max(1, self.repeated)))
        gone = bisect_right(many.ks, k)
        silent = evaluations - (len(many.ks) - gone)
        if not gone:
            return msgspec.structs.replace(self, silent_before=silent)
        low = many.stops[gone - 1]
        columns = [column[low:] for column in self.columns]
        starts, ends = ([line[gone:] for line in lines] for lines in (many.starts, many.ends))
        left = ManyEmissions(
            many.ks[gone:], many.times[gone:], many.pushes[gone:], many.arrived[gone:], many.times_before[gone:],
            many.pushes_before[gone:], many.arrived_before[gone:], [stop - low for stop in many.stops[gone:]],
            starts, ends,
        )  # fmt: skip
        evaluated = list(self.each())[gone].before
        return msgspec.structs.replace(
            self, columns=columns, before=evaluated, gap=False, silent_before=silent, many=left
        )  # fmt: skip

    def each(self) -> Iterator[EmissionOfPart]:
        """Its emissions, in order."""
        many, before = self.many, self.before
        if many is None:
            yield EmissionOfPart(self.state.evaluated, before, self.windows, slice(None))
            return
        names = [(bounds.stream, bounds.bounds) for bounds in self.windows]
        low, sn = 0, self.sn
        for i, (k, time, high) in enumerate(zip(many.ks, many.times, many.stops, strict=True)):
            if i:
                before = LastEvaluation(
                    sn, many.pushes_before[i], k - 1, many.times_before[i], True, many.arrived_before[i]
                )
            windows = [
                WindowBounds(stream, starts[i], ends[i], bounds)
                for (stream, bounds), starts, ends in zip(names, many.starts, many.ends, strict=True)
            ]
            at = LastEvaluation(sn, many.pushes[i], k, time, True, many.arrived[i])
            yield EmissionOfPart(at, before, windows, slice(low, high))
            low = high

    def own(self, place: int) -> tuple[list[Ids], bool | None]:
        """The result of the query at this place, of several: its rows, or the answer to an ASK."""
        low, high = self.whose.searchsorted([place, place + 1]).tolist()
        return [column[low:high] for column in self.columns], None if self.boolean is None else high > low
