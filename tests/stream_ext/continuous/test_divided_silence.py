"""While windows are empty, all ranges of a divided query emit what one shard emits, in as many emissions."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from stream_ext.catalog.catalog import Catalog
from stream_ext.continuous.assignment import grouped_query
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.uniting import united
from stream_ext.network.range_summation import RangeSummation
from stream_ext.rows.key_range import Ranges
from stream_ext.windows.part import Part
from tests.stream_ext.scene import EX, Player, Push, Scene, Window


def shown(part: Part) -> tuple[object, ...]:
    return part.k, part.time, part.repeated, part.first, [column.tolist() for column in part.columns]


@pytest.mark.parametrize("silence_ms", [60, 9000])  # so many closes that they are one emission, and not so many
@pytest.mark.parametrize("keys", [1, 5])  # of one key a shard has nothing
@pytest.mark.parametrize("r2s", ["RSTREAM", "ISTREAM", "DSTREAM"])
@pytest.mark.parametrize("order", ["", "ORDER BY ?a", "ORDER BY ?b ?a LIMIT 2"])
def test_the_closes_of_a_silence_are_emitted_as_one_shard_emits_them(
    order: str, r2s: str, keys: int, silence_ms: int, tmp_path: Path
) -> None:
    pattern = f"WINDOW :w1 {{ ?a :p ?b }} }} {order} #"
    scene = Scene([Window("w1", 1, 10, 5)], pattern, "SELECT ?b ?a", r2s, {1: 0, 2: 0})
    triples = tuple((f"<{EX}n{n}>", f"<{EX}p>", f"<{EX}m{n}>") for n in range(keys))
    with closing(hbase_store.open(f"lmdb:{tmp_path}")) as store:
        player = Player(store, scene)
        sn = player.register()
        one = Shard(store)
        ranges = [Shard(store, ranges_of=lambda query, n=n: Ranges(2, frozenset({n}))) for n in (0, 1)]  # type: ignore[misc]
        catalog = Catalog.read(store, sn)
        summation = RangeSummation(store.ids, store.terms, lambda number: grouped_query(number, catalog))
        for shard in (one, *ranges):
            shard.build({}, sn)
        for push in (Push(1, ((21, triples),)), Push(1, (), 31), Push(1, (), 31 + silence_ms)):
            sn = player.play([push])
            expected = one.step(sn)
            found = united([each.step(sn) for each in ranges], {1, 2, 3}, summation)
            assert [shown(part) for part in found] == [shown(part) for part in expected]
            assert [part.state for part in found[-1:]] == [part.state for part in expected[-1:]]
