"""Uniting: of a divided query the parts of all shards become the part that one shard would have made.

    shard 0    (query 7, snapshot 12, k 0)    rows a, d       -->    rows a, b, c, d
    shard 1    (query 7, snapshot 12, k 0)    rows b, c

All shards evaluate a query at the same times, for what decides when it is evaluated is read by all of them; their
states are equal, too. So nothing but rows is united: they are put in order, or summed (`RangeSums`). Evaluations at
arrivals are many in one part, and each shard has those that emit something there (`united_arrivals`).

If anything else differs, for example because one shard did not get through an evaluation in its time, or because its
range was too large for its memory, the query cannot be united, and is evaluated as a whole by the next plan, from the
snapshot before."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

import msgspec
import numpy as np

from stream_ext.emissions.range_rows import CannotUnite, in_order, together
from stream_ext.emissions.united_arrivals import at_arrivals, united_arrivals
from stream_ext.errors import DeadlineExceeded, QueryTooLarge
from stream_ext.windows.part import Ids, Part, RangeSums
from stream_ext.windows.query_state import QueryState

#: Which evaluation a part is of, and of which queries.
Place = tuple[object, ...]
#: What the part of a range has for itself: its rows, and the texts of terms in them. `joined` has the queries of which
#: the shard sends the first part; another shard may have sent one before. `state` is looked at apart.
_OWN = frozenset({"whose", "columns", "created", "boolean", "queries", "joined", "state"})

#: Of a state, how far the schedule has come.
_OF_SCHEDULE = frozenset({"after", "last", "begins"})


class SummedRows(Protocol):
    """The result of several ranges; see `RangeSummation`."""

    @property
    def whose(self) -> Ids: ...
    @property
    def columns(self) -> list[Ids]: ...
    @property
    def created(self) -> list[bytes]: ...
    @property
    def is_out_of_order(self) -> bool: ...


class SumsRanges(Protocol):
    """Makes the result of the rows of all ranges."""

    def __call__(
        self, sums: RangeSums, queries: Ids, whose: Ids, columns: Sequence[Ids], created: Sequence[bytes]
    ) -> SummedRows: ...


def sums_none(
    sums: RangeSums, queries: Ids, whose: Ids, columns: Sequence[Ids], created: Sequence[bytes]
) -> SummedRows:
    raise AssertionError("there are no queries here whose rows are summed")


def united(
    senders: Sequence[Sequence[Part]], queries: Container[int], sum_ranges: SumsRanges = sums_none
) -> list[Part]:
    """All parts of a snapshot. `senders`: those of each shard that has ranges; of divided queries all have a part of
    each evaluation. `queries`: those that exist; a shard that builds its state when a query is gone, though it is there
    in the snapshots to come, does not know where that was."""
    found = [part for parts in senders for part in parts if not part.is_range]
    there = [
        [_without_dropped(part, queries) for part in parts if part.is_range and _exists(part, queries)]
        for parts in senders
    ]
    arriving = {part.query for parts in there for part in parts if at_arrivals(part)}
    for number in sorted(arriving):
        found += united_arrivals([[part for part in parts if part.query == number] for parts in there])
    ranges = [_by_place([part for part in parts if part.query not in arriving]) for parts in there]
    if not any(ranges):
        return found
    _split_runs(ranges)
    last = {part.queries.tobytes(): place for place, part in sorted(ranges[0].items(), key=_of_k)}
    for place, first in ranges[0].items():
        others = [each.pop(place, None) for each in ranges[1:]]
        found.append(_one_of(first, others, sum_ranges, last[first.queries.tobytes()] == place))
    for left in ranges[1:]:
        for part in left.values():
            raise CannotUnite.at_other_times(part.queries.tolist())
    return found


def _by_place(parts: Sequence[Part]) -> dict[Place, Part]:
    found = {_place(part): part for part in parts}
    if len(found) < len(parts):
        raise CannotUnite(
            [n for part in parts for n in part.queries.tolist()], "a shard sent two parts of one evaluation"
        )
    return found


def _split_runs(ranges: Sequence[dict[Place, Part]]) -> None:
    """A run of evaluations over empty windows is one part, but not where rows go (DSTREAM): one shard may have rows at
    the first of them, and others none. These get the parts of that shard, without rows."""
    for parts in ranges:
        for place, run in [(place, part) for place, part in parts.items() if part.repeated and _is_empty(part)]:
            finer = max((_within(run, other) for other in ranges), key=len)
            if len(finer) > 1 and sum(max(1, each.repeated) for each in finer) == run.repeated:
                del parts[place]
                parts |= {_place(each): _emptied(each) for each in finer}


def _within(run: Part, parts: dict[Place, Part]) -> list[Part]:
    """The parts of the same evaluations."""
    evaluated = [each for each in parts.values() if each.evaluated and run.k - run.repeated < each.k <= run.k]
    return [each for each in evaluated if np.array_equal(each.queries, run.queries)]


def _is_empty(part: Part) -> bool:
    return not any(map(len, part.columns))


def _emptied(part: Part) -> Part:
    return msgspec.structs.replace(part, whose=part.whose[:0], columns=[column[:0] for column in part.columns])


def must_not_be_ranges(pieces: Sequence[Sequence[Part]]) -> None:
    """What is sent by a query that catches up is not united."""
    for part in (part for parts in pieces for part in parts if part.is_range):
        raise CannotUnite.fell_behind(part.queries.tolist())


def _exists(part: Part, queries: Container[int]) -> bool:
    return any(number in queries for number in part.queries.tolist())


def _without_dropped(part: Part, queries: Container[int]) -> Part:
    """Without the rows of queries that are gone."""
    numbers = part.queries.tolist()
    there = np.array([number in queries for number in numbers], np.bool_)
    if there.all():
        return part
    places = np.cumsum(there) - 1
    rows = there[part.whose.astype(np.int64)]
    return msgspec.structs.replace(
        part, queries=part.queries[there], whose=places[part.whose[rows].astype(np.int64)].astype(np.uint64),
        columns=[column[rows] for column in part.columns],
        joined={number: state for number, state in part.joined.items() if number in queries},
    )  # fmt: skip


def _place(part: Part) -> Place:
    return part.sn, part.k, part.evaluated, part.after_move, part.given_up, part.queries.tobytes()


def _of_k(placed: tuple[Place, Part]) -> int:
    return placed[1].k


def _one_of(first: Part, others: Sequence[Part | None], sum_ranges: SumsRanges, is_last: bool) -> Part:
    """`is_last`: its queries have no part after it in the snapshot."""
    numbers = first.queries.tolist()
    if first.given_up:
        raise CannotUnite(numbers, "the evaluation of a range failed")
    if first.after_move:
        raise CannotUnite(numbers, "the query was moved")
    if first.state.behind_at is not None:
        raise CannotUnite.fell_behind(numbers)
    there = [other for other in others if other is not None]
    if len(there) < len(others):
        raise CannotUnite.at_other_times(numbers)
    for other in there:
        if (name := _difference(first, other, is_last)) is not None:
            raise CannotUnite(numbers, f"the ranges of two shards differ in more than their rows: {name}")
    parts = [first, *there]
    if first.terms is not None or first.many is not None:
        raise CannotUnite.has_no_ids(numbers)
    joined = {number: state for part in parts for number, state in part.joined.items()}
    one = msgspec.structs.replace(first, joined=joined, is_range=False, sums=None)
    return _with_rows(one, parts, sum_ranges, numbers) if first.evaluated else one


def _with_rows(one: Part, parts: Sequence[Part], sum_ranges: SumsRanges, numbers: Sequence[int]) -> Part:
    created, columns = together(parts)
    whose, sums = np.concatenate([part.whose for part in parts]), parts[0].sums
    if sums is not None and sums.asks:
        answer = any(part.boolean for part in parts) if not one.is_shared else one.boolean
        return msgspec.structs.replace(one, whose=np.unique(whose), boolean=answer)
    if sums is not None:
        # The rows of many queries are nobody's if there are none: there is no column for them then, either.
        try:
            summed = sum_ranges(sums, one.queries, whose, columns, created)
        except (QueryTooLarge, DeadlineExceeded) as error:  # it is so in one shard, too, which then parks the query
            raise CannotUnite(numbers, f"what follows its groups failed: {error}") from error
        if summed.is_out_of_order:
            raise CannotUnite(numbers, "rows differ only in terms that the query made")
        return msgspec.structs.replace(one, whose=summed.whose, columns=summed.columns, created=summed.created)
    if len(columns) and len(columns[0]):
        order = in_order(whose, columns, numbers)
        columns = [column[order] for column in columns]
        whose = whose[order] if len(whose) else whose
    return msgspec.structs.replace(one, whose=whose, columns=columns, created=created)


def _difference(one: Part, other: Part, is_last: bool) -> str | None:
    """What is not the same in two parts, though it should be. Evaluations that may be emitted as one wait until another
    one follows: their parts have the state of then, which another shard may have only in its next part."""
    for name in Part.__struct_fields__:
        if name not in _OWN and getattr(one, name) != getattr(other, name):
            return name
    own = {"registered", "begins", "began"} if one.is_shared else set[str]()
    if not is_last:
        own |= _OF_SCHEDULE
    for name in QueryState.__struct_fields__:
        if name not in own and getattr(one.state, name) != getattr(other.state, name):
            return f"state.{name}"
    both = one.joined.keys() & other.joined.keys()
    return "joined" if any(one.joined[number] != other.joined[number] for number in both) else None
