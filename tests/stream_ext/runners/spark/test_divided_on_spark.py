"""Divided queries say what the inline runner says: with seats that wander, workers that die, and ranges that fail."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from stream_ext.clock import SystemClock
from stream_ext.continuous.assignment import may_divide
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merged_progress import Runner
from stream_ext.emissions.placement import ShardPlan
from stream_ext.emissions.plans import Plans
from stream_ext.emissions.range_rows import CannotUnite
from stream_ext.runners.spark.settings import SparkSettings
from stream_ext.service.engine import Engine
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.stream_ext.opened import EX, opened, push, triple
from tests.stream_ext.runners.spark.pieces import OF_RANGES, SMALLER
from tests.stream_ext.runners.spark.test_pieces_on_spark import TEXTS as IN_PIECES
from tests.stream_ext.runners.spark.test_pieces_on_spark import play as play_in_pieces
from tests.stream_ext.runners.spark.test_shards_on_spark import (
    all_on_spark,
    assert_same,
    kill,
    living,
    with_seats,
)

#: The last one cannot be divided.
TEXTS = {
    "pairs": ("RSTREAM", "?x ?y ?z", "WINDOW :w { ?x :p ?y . ?x :q ?z }"),
    "groups": ("RSTREAM", "?x (COUNT(?y) AS ?n) (AVG(?y) AS ?m)", "WINDOW :w { ?x :p ?y } } GROUP BY ?x #"),
    "new": ("ISTREAM", "?x ?y", "WINDOW :w { ?x :p ?y }"),
    "top": ("RSTREAM", "?x ?y", "WINDOW :w { ?x :p ?y } } ORDER BY DESC(?y) LIMIT 3 #"),
    "gone": ("DSTREAM", "?z", "WINDOW :w { ?x :p ?y . ?y :q ?z }"),
    "arriving": ("ISTREAM", "?x ?y ?z", ""),
    "all": ("RSTREAM", "(COUNT(*) AS ?n) (AVG(?y) AS ?m)", "WINDOW :w { ?x :p ?y }"),
    "values": (
        "ISTREAM",
        "?z (MAX(?y) AS ?n)",
        "WINDOW :w { ?x :p ?y . ?x :q ?z } } GROUP BY ?z HAVING(SUM(?y) > 1) #",
    ),
    "one": ("RSTREAM", "(COUNT(DISTINCT ?x) AS ?n) (COUNT(DISTINCT ?y) AS ?m)", "WINDOW :w { ?x :p ?y }"),
}


def begin(service: Service) -> None:
    service.create_stream("s", {})
    for name, (kind, select, pattern) in TEXTS.items():
        if name == "arriving":
            streams = "STREAM s [RANGE PT3S] { ?x :p ?y } STREAM s [RANGE PT1S] { ?z :q ?u }"
            service.register(f"PREFIX : <{EX}> REGISTER {kind} {name} AS SELECT {select} WHERE {{ {streams} }}")
            continue
        service.register(
            f"PREFIX : <{EX}> REGISTER {kind} {name} AS SELECT {select} FROM NAMED WINDOW :w ON s "
            f"[RANGE PT3S STEP PT0.5S] WHERE {{ {pattern} }}"
        )


def play(service: Service, time: int, chance: random.Random) -> None:
    triples = [triple(f"a{chance.randrange(9)}", chance.randrange(5), chance.choice("pq")) for _ in range(4)]
    push(service, "s", time * 250, *triples)


def emitted(service: Service) -> dict[str, list[bytes]]:
    return {name: [e.json for e in service.emissions(name, 0, None)] for name in TEXTS}


def divide(service: Service, weights: tuple[float, ...]) -> None:
    """The next epoch divides all that can be."""
    engine = service._engine
    assert engine.spark is not None
    bell, plan = engine.spark._bell, engine.merge.plan
    able = [query for query in service.queries() if may_divide(query, engine._injector.catalog)]
    placements = frozenset(query.placement or query.number for query in able)

    def is_followed() -> bool:
        with bell._lock:
            if (now := engine.merge.plan).divided == placements and now.number > plan.number:
                return True
            if bell.epochs.next_plan is None:  # or the merge had another plan by itself meanwhile
                bell.epochs.next_plan = ShardPlan(now.number + 1, weights, placements)
            return False

    until(is_followed, "the plan is followed")
    until(lambda: all_on_spark(service), "all shards are on Spark")


def is_divided(service: Service, name: str) -> bool:
    return bool(service.query_status(name)["divided"])


def expected_of(folder: Path, times: range) -> dict[str, list[bytes]]:
    with opened(folder) as service:
        begin(service)
        chance = random.Random(1)
        for time in times:
            play(service, time, chance)
        return emitted(service)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [2, 3])
def test_seats_that_wander_and_workers_that_die_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    times = range(1, 120)
    expected = expected_of(tmp_path / "inline", times)

    with_seats(monkeypatch)
    monkeypatch.setattr(Plans, "balanced", lambda self: self.plan)  # plans are those of the test
    chance, killed = random.Random(1), random.Random(2)
    settings = SparkSettings(epoch_s=0.3, warmup_epochs=1, shards=count)
    with opened(tmp_path / "shards", SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        until(lambda: all_on_spark(service), "all shards are on Spark")
        for time in times:
            if time == 20:
                divide(service, (1.0,) * count)
                assert [name for name in TEXTS if not is_divided(service, name)] == ["one"]
            if time in (30, 50, 70):
                kill(killed.choice(living(service)))
            if time == 85:
                divide(service, (2.0,) * count)
            play(service, time, chance)
        assert_same(emitted(service), expected)
        status = service.query_status("pairs")
        assert is_divided(service, "pairs"), "all of it was united"
        assert status["shard"] is None and status["worker"] is None
        assert status["why"] == f"Spark is up; it is divided among {count} shards by ?x"
        assert service.query_status("one")["shard"] is not None
    assert all(len(emissions) > 20 for emissions in expected.values())


@pytest.mark.timeout(300)
def test_a_range_that_is_too_large_makes_the_query_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query is in quarantine in one shard only: it is whole, and nothing is lost, at the next snapshot."""
    times = range(1, 60)
    expected = expected_of(tmp_path / "inline", times)

    with_seats(monkeypatch)
    monkeypatch.setattr(Plans, "balanced", lambda self: self.plan)  # plans are those of the test
    chance = random.Random(1)
    settings = SparkSettings(epoch_s=0.3, warmup_epochs=1, shards=2)
    with opened(tmp_path / "shards", SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        until(lambda: all_on_spark(service), "all shards are on Spark")
        divide(service, (1.0, 1.0))
        merge = service._engine.merge
        for time in times:
            if time == 20:
                number = service.query_definition("pairs").number
                with merge._changed:
                    merge._sent.cannot_unite = CannotUnite([number], "a shard fell behind with its range")
            play(service, time, chance)
            if time == 30:
                assert not is_divided(service, "pairs") and is_divided(service, "groups")
                assert "a shard fell behind with its range" in service.query_status("pairs")["why"]
        until(lambda: all_on_spark(service), "all shards are on Spark again")
        assert_same(emitted(service), expected)


@pytest.mark.timeout(300)
def test_a_divided_query_that_is_moved_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole then: at once, and without the others waiting for it."""
    moves = {20: "inline", 30: "spark"}
    with opened(tmp_path / "inline") as service:
        begin(service)
        chance = random.Random(1)
        for time in range(1, 40):
            if time in moves:  # a snapshot, too
                service.update(f"INSERT DATA {{ <{EX}pairs> <{EX}{moves[time]}> {time} }}")
            play(service, time, chance)
        expected = emitted(service)

    with_seats(monkeypatch)
    monkeypatch.setattr(Plans, "balanced", lambda self: self.plan)  # plans are those of the test
    settings = SparkSettings(epoch_s=0.3, warmup_epochs=1, shards=2)
    with opened(tmp_path / "shards", SystemClock(), engine="spark", spark=settings) as service:
        begin(service)
        until(lambda: all_on_spark(service), "all shards are on Spark")
        chance = random.Random(1)
        for time in range(1, 40):
            if time == 15:
                divide(service, (1.0, 1.0))
            if time == 20:
                until(lambda: is_divided(service, "pairs"), "it is divided")
            if time in moves:
                service.move_query("pairs", moves[time])
            play(service, time, chance)
        assert not is_divided(service, "pairs")
        assert_same(emitted(service), expected)


@pytest.mark.timeout(300)
def test_what_falls_behind_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path / "at once") as service:
        expected = play_in_pieces(service, 1, lambda step: None)

    with_seats(monkeypatch)
    monkeypatch.setattr(Plans, "balanced", lambda self: self.plan)

    def small(engine: Engine, role: Runner) -> Shard:
        shard = shard_of(engine, role)
        shard.pace = SMALLER
        return shard

    shard_of = Engine._shard
    monkeypatch.setattr(Engine, "_shard", small)
    settings = SparkSettings(epoch_s=0.2, warmup_epochs=0, grace_s=0.5, shard_factory=OF_RANGES, shards=2)
    divided = Counter[str]()
    with opened(tmp_path / "pieces", SystemClock(), engine="spark", spark=settings) as service:

        def between(step: int) -> None:
            if step in (1, 6):
                until(lambda: all_on_spark(service), "all shards are on Spark")
                divide(service, (1.0, 1.0))
            divided.update(query.name for query in service.queries() if is_divided(service, query.name))

        found = play_in_pieces(service, 1, between)
        merge = service._engine.merge
        assert divided and merge._whole, "something was divided, and whole again"
    for name in IN_PIECES:
        assert found[name] == expected[name], name
