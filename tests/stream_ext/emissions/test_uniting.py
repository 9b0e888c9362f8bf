"""The parts of ranges become the part that one shard would have made: its rows, in its order."""

from __future__ import annotations

import random
from typing import NoReturn

import msgspec
import numpy as np
import pytest

from hbase_store.layout.terms import LOCAL, TAG_SHIFT
from stream_ext.emissions.range_rows import CannotUnite
from stream_ext.emissions.uniting import united
from stream_ext.errors import QueryTooLarge
from stream_ext.windows.part import Part, RangeSums
from stream_ext.windows.query_state import LastEvaluation, QueryState

_LOCAL_FIRST = LOCAL << TAG_SHIFT
#: A row: ids that all processes know (0: unbound), and texts of terms that the query made.
Row = tuple[int | str, ...]


def part_of(rows: list[Row], width: int) -> Part:
    """As one process makes it: terms of the query are numbered as they appear."""
    places: dict[str, int] = {}
    ids = [
        [_LOCAL_FIRST + places.setdefault(each, len(places)) if isinstance(each, str) else each for each in row]
        for row in rows
    ]
    columns = [np.array([row[i] for row in ids], np.uint64) for i in range(width)]
    created = [text.encode() for text in places]
    part = Part.of_one(7, 1, 1, 0, [], columns, None, 0, None, QueryState(), True, created=created)
    part.is_range = True
    return part


def rows_of(part: Part) -> list[Row]:
    """The rows of a part, decoded."""
    listed = [column.tolist() for column in part.columns]
    return [
        tuple(part.created[id - _LOCAL_FIRST].decode() if id >= _LOCAL_FIRST else id for id in row)
        for row in zip(*listed, strict=True)
    ]


def in_order(row: Row) -> tuple[tuple[int, int | str], ...]:
    """Computed terms come after all others; among themselves they decide nothing here."""
    return tuple((1, "") if isinstance(each, str) else (0, each) for each in row)


@pytest.mark.parametrize("seed", range(20))
def test_a_column_may_have_computed_terms_and_others(seed: int) -> None:
    chance = random.Random(seed)
    rows: list[Row] = []
    for _ in range(chance.randrange(60)):
        key = chance.randrange(1, 9)
        rows.append((key, chance.choice([0, 5, 6, f"of {key}"]), chance.randrange(3)))
    shards = chance.randrange(1, 4)
    parts = [part_of([row for row in rows if int(row[0]) % shards == each], 3) for each in range(shards)]
    (found,) = united([[part] for part in parts], {7})
    assert rows_of(found) == sorted(rows, key=in_order)


def test_computed_terms_decide_no_order() -> None:
    parts = [part_of([(1, "x"), (1, "y")], 2), part_of([(2, "x")], 2)]
    with pytest.raises(CannotUnite, match="differ only in terms that the query made"):
        united([[part] for part in parts], {7})


def test_no_part_takes_the_place_of_another() -> None:
    with pytest.raises(CannotUnite, match="two parts of one evaluation"):
        united([[part_of([(1, 2)], 2), part_of([(1, 3)], 2)], [part_of([(2, 2)], 2)]], {7})


def at_close(k: int, rows: list[Row], after: int, last: int | None = None) -> Part:
    """The part of a close every 5 ms, made when the schedule was at `after`."""
    part = part_of(rows, 2)
    state = QueryState(after=after, last=last or after, evaluated=LastEvaluation(1, 0, k, 5 * k))
    return msgspec.structs.replace(part, k=k, time=5 * k, state=state)


def test_a_part_that_waited_for_the_next_evaluations_has_the_state_of_then() -> None:
    """The last rows go at the first of three closes over empty windows, and all of them were in one shard: in the other
    one the three are alike, and it makes their parts when the third has come."""
    with_rows = [at_close(1, [(1, 2)], after=5), at_close(2, [], after=15), at_close(3, [], after=15)]
    without = [at_close(k, [], after=15) for k in (1, 2, 3)]
    for senders in ([with_rows, without], [without, with_rows]):
        found = united(senders, {7})
        assert [(part.k, rows_of(part)) for part in found] == [(1, [(1, 2)]), (2, []), (3, [])]
        assert found[-1].state == without[-1].state
    with pytest.raises(CannotUnite, match=r"state\.after"):
        united([with_rows, [*without[:2], at_close(3, [], after=20)]], {7})


def test_what_takes_too_much_behind_groups_is_evaluated_as_a_whole() -> None:
    """There it has its own budget, and is parked if that does not do; the merge goes on."""
    part = part_of([(1,)], 1)
    part.sums = RangeSums("RSTREAM", 1, partial_groups=1)

    def too_large(*_: object) -> NoReturn:
        raise QueryTooLarge("a term of 5 MiB")

    with pytest.raises(CannotUnite, match="what follows its groups failed: a term of 5 MiB") as found:
        united([[part], [msgspec.structs.replace(part)]], {7}, too_large)
    assert found.value.numbers == {7}
