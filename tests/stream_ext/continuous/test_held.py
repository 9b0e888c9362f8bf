"""Queries in quarantine stand where they were, whoever is built anew meanwhile; what they missed is made up for."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

import hbase_store
from stream_ext.continuous.shard import Shard
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.continuous.test_pieces import Answered, take
from tests.stream_ext.many import Registry
from tests.stream_ext.scene import EX, Push, Scene, Window

TEXT = f"""PREFIX : <{EX}> REGISTER RSTREAM :q AS SELECT ?a
    FROM NAMED WINDOW :w ON STREAM :s1 [RANGE 10ms STEP 10ms] WHERE {{ WINDOW :w {{ ?a :p ?b }} }}"""


@pytest.mark.parametrize("evaluated", [0, 1])
@pytest.mark.parametrize("builds", [1, 2, 3])
def test_who_is_held_misses_nothing_however_often_a_shard_is_built(evaluated: int, builds: int, tmp_path: Path) -> None:
    """The first evaluation of a new query may be the one that kills."""
    store = hbase_store.open(f"lmdb:{tmp_path}")
    registry = Registry.over(
        store, Scene([Window("w", 1, 10, 10)], "WINDOW :w { ?a :p ?b }", "SELECT ?a", "RSTREAM", {1: 0, 2: 0})
    )
    calm, expected = Shard(store), defaultdict(list)
    calm.build({}, int(store.head()))
    take(store, calm.step(sn := registry.register(TEXT)), {}, expected)
    states: dict[int, QueryState] = {}
    emitted: Answered = defaultdict(list)
    time = 0

    def push() -> int:
        nonlocal time
        time += 10
        triples = ((f"<{EX}a{time}>", f"<{EX}p>", f"<{EX}b>"),)
        return int(registry.player.play([Push(1, ((time - 5, triples),)), Push(1, (), time)]))

    shard = Shard(store)
    shard.build({}, sn)
    for _ in range(evaluated):
        sn = push()
        take(store, calm.step(sn), {}, expected)
        take(store, shard.step(sn), states, emitted)
    for _ in range(builds):
        shard = Shard(store)
        shard.suspended = registry.queries.keys()
        shard.build(states, sn)
        for _ in range(2):
            sn = push()
            take(store, calm.step(sn), {}, expected)
            take(store, shard.step(sn), states, emitted)
    shard.suspended = ()
    sn = push()
    take(store, calm.step(sn), {}, expected)
    take(store, shard.step(sn), states, emitted)
    assert not shard.faults and not shard.behind
    assert emitted == expected and len(emitted[registry.used]) == evaluated + 2 * builds + 1
    store.close()
