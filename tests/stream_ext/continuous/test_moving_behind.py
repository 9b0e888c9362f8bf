"""Queries that are moved between two runners while they are behind or in quarantine, and while runners begin anew, say
each emission once, as a shard does that never falls behind.

python -m tests.stream_ext.continuous.test_moving_behind SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store import EmissionRow, Sn, Store
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.clock import ManualClock
from stream_ext.continuous.assignment import IsAssigned, all_assigned, on_spark
from stream_ext.continuous.catching_up.turns import UNHURRIED, TurnLimits
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.emission import EmissionBody, columns_of, decode_body, decode_shared_body
from stream_ext.emissions.merge import Merge
from tests.stream_ext.continuous.test_pieces import squeezed
from tests.stream_ext.continuous.test_sharing import OF_TEMPLATES
from tests.stream_ext.emissions.test_merge import Log
from tests.stream_ext.many import AloneShard, Registry, filled, takes_inline
from tests.stream_ext.scene import PATTERNS, random_scene

#: How far a runner may lie behind the head, and the merge with it.
_BEHIND_MAX = 6


class _Log(Log):
    """Of queries whose emissions are partly records of groups."""

    def commit(self, emissions: Sequence[EmissionRow], states: dict[int, bytes | None], position: Sn) -> int:
        for row in emissions:
            assert (row.query, row.number) not in self.rows, "each is said once"
            self.rows[row.query, row.number] = row.body
        self.retained = {number: body for number, body in (self.retained | states).items() if body is not None}
        self.at = position
        self.commits += 1
        return self.commits


class _Runner:
    """One of the two, which sends to the merge as the real ones do."""

    def __init__(self, play: Playing, name: str, is_assigned: IsAssigned) -> None:
        self.play, self.name, self.is_assigned = play, name, is_assigned
        self.begin_anew()

    def begin_anew(self) -> None:
        play = self.play
        number, position, states = play.merge.attempt(self.name)
        self.shard = play.kind(play.store, self.is_assigned, pace=play.pace())
        self.shard.suspended = play.held
        self.shard.build(states, position)
        if self.name == "spark":
            play.merge.caught_up("spark", number, position, self.shard.behind)
            if play.merge.owner != "spark":  # it does not have one yet that waits, and is moved to it later
                self._step_inline()
                self.begin_anew()

    def _step_inline(self) -> None:
        play = self.play
        _, position, states = play.merge.attempt("inline")
        inline = play.kind(play.store, all_assigned, pace=play.pace())
        inline.suspended = play.held
        inline.build(states, position)
        while inline.sn < int(play.store.head()):
            parts = inline.step(inline.sn + 1)
            play.merge.take("inline", inline.sn, parts)

    def step(self) -> None:
        if self.shard.sn < int(self.play.store.head()):
            self.shard.suspended = self.play.held
            parts = self.shard.step(self.shard.sn + 1)
            self._check()
            self.play.merge.take(self.name, self.shard.sn, parts)

    def step_one_behind(self) -> None:
        if self.shard.has_more:
            self.play.cuts += 1
            parts = self.shard.step_one_behind()
            self._check()
            self.play.merge.take_piece(self.name, parts)

    def _check(self) -> None:
        known = ("Quarantine", "ServiceFailed: an endpoint did not answer")  # who was held, and is so no more
        wrong = {number: why for number, why in self.shard.faults.items() if not why.startswith(known)}
        assert not wrong, f"seed {self.play.seed}: {wrong}"


class Playing:
    def __init__(self, seed: int, store: Store) -> None:
        self.seed, self.store, self.chance = seed, store, random.Random(f"moving behind {seed}")
        scene = squeezed(random_scene(self.chance.randrange(1 << 30)), self.chance, often=0.5)
        while scene.merged or not scene.windows:
            scene = squeezed(random_scene(self.chance.randrange(1 << 30)), self.chance, often=0.5)
        self.kind = self.chance.choice([Shard, AloneShard])  # queries share networks, or do not
        if self.kind is Shard:
            scene.select, scene.pattern, windows = self.chance.choice(OF_TEMPLATES)
            second = replace(scene.windows[0], name="w2", stream=2)
            scene.windows = [scene.windows[0], second][:windows]
        self.scene, self.registry = scene, Registry.over(store, filled(self.chance, scene))
        self.held: frozenset[int] = frozenset()
        self.moves = self.cuts = 0
        self.groups = count(1_000_000)
        self.log, self.calm_log = _Log(), _Log()
        self.log.at = self.calm_log.at = int(store.head())
        self.merge, self.calm_merge = self._merge(self.log), self._merge(self.calm_log)
        self.calm = AloneShard(store, all_assigned, pace=UNHURRIED)
        self.calm.build({}, int(store.head()))
        self.runners = self._runners()

    def pace(self) -> TurnLimits:
        """One of the two may fall behind where the other does not."""
        return TurnLimits(self.chance.choice([1, 2, 4, 50]), None, self.chance.randrange(1, 6), None)

    def _merge(self, log: Log) -> Merge:
        return Merge(log, ManualClock(), lambda: self.registry.queries, self.store.terms, self.groups.__next__)

    def _runners(self) -> list[_Runner]:
        for sn in range(self.merge.position, int(self.store.head()) + 1):
            self.merge.publish(sn, True)
        return [_Runner(self, "spark", on_spark), _Runner(self, "partly_inline", takes_inline)]

    def run(self) -> None:
        for step in self.scene.steps:
            while len(self.registry.queries) < 4 and self.chance.random() < 0.6:
                self._published(self.registry.register(self._text()))
            self._published(int(self.registry.player.play(step)))
            for _ in range(self.chance.randrange(6)):
                self._act()
        self.held = frozenset()
        self._published(int(self.store.commit(self.store.begin())))  # as when quarantine releases them
        for _ in range(100_000):
            for runner in self.runners:
                runner.step()
                runner.step_one_behind()
            idle = all(not runner.shard.has_more for runner in self.runners)
            if idle and self.merge.position == int(self.store.head()):
                break
        else:
            raise AssertionError(f"seed {self.seed}: it never gets through")
        self._compare()

    def _text(self) -> str:
        if self.kind is not Shard:
            select, pattern, windows = self.chance.choice(PATTERNS)
            if windows == len(self.scene.windows):
                self.scene.select, self.scene.pattern = select, pattern
        return filled(self.chance, self.scene).text

    def _published(self, sn: int) -> None:
        self.merge.publish(sn, True)
        self.calm_merge.take("inline", sn, self.calm.step(sn))
        assert not self.calm.faults, f"seed {self.seed}: {self.calm.faults}"
        while any(runner.shard.sn < sn - _BEHIND_MAX for runner in self.runners):
            for runner in self.runners:
                runner.step()

    def _act(self) -> None:
        actions = {"step": 10, "go on": 12, "move": 5, "hold": 2, "anew": 1, "restart": 1, "flush": 1}
        action = self.chance.choices(list(actions), list(actions.values()))[0]
        runner = self.chance.choice(self.runners)
        if action == "step":
            runner.step()
        elif action == "go on":
            runner.step_one_behind()
        elif action == "move":
            self._move()
        elif action == "hold":
            self.held = frozenset(n for n in self.registry.queries if self.chance.random() < 0.3)
        elif action == "anew":
            runner.begin_anew()
        elif action == "restart":
            self.merge = self._merge(self.log)
            self.runners = self._runners()
        else:
            self.merge.flush()

    def _move(self) -> None:
        if self.registry.queries:
            number = self.chance.choice(sorted(self.registry.queries))
            query = self.registry.queries[number]
            self.moves += 1
            self._published(self.registry.move(number, None if query.home else "inline", self.merge.left(query)))

    def _compare(self) -> None:
        for number, query in self.registry.queries.items():
            what = f"seed {self.seed}, query {number}: {query.text}"
            found, expected = _emitted(self.merge, self.log, query), _emitted(self.calm_merge, self.calm_log, query)
            for one, other in zip_longest(found, expected):
                assert one == other, f"{what}\nmoved: {one}\nin peace: {other}"


def _emitted(merge: Merge, log: Log, query: QueryDefinition) -> list[tuple[Any, ...]]:
    """In the order of the numbers; rows of terms that the query has made come in any order."""
    found: dict[int, EmissionBody] = {}
    for number in range(1, merge.last(query.number) + 1):
        if (query.number, number) in log.rows:
            found[number] = decode_body(log.rows[query.number, number])
    for member in merge.memberships(query.number):
        assert member.until is not None
        for record in range(member.first, member.until + 1):
            shared = decode_shared_body(log.rows[member.group, record])
            number, gap = member.number(record), member.gap and record == member.first
            assert number not in found, "said by itself, and in its group"
            found[number] = shared.own(query, number, gap)
    assert sorted(found) == list(range(1, merge.last(query.number) + 1))
    return [_shown(found[number]) for number in sorted(found)]


def _shown(body: EmissionBody) -> tuple[Any, ...]:
    rows = sorted(zip(*(_texts(body, column) for column in columns_of(body)), strict=True), key=str)
    return body.number, body.at, body.windows, body.repeated, body.first, body.gap, body.before, body.boolean, rows


def _texts(body: EmissionBody, column: Any) -> list[bytes | None]:
    return [None if place < 0 else body.terms[place] for place in column.tolist()]


def play(seed: int, folder: Path) -> Playing:
    store = hbase_store.open(f"lmdb:{folder}")
    try:
        playing = Playing(seed, store)
        playing.run()
        return playing
    finally:
        store.close()


@pytest.mark.parametrize("block", range(5))
def test_who_is_moved_while_it_is_behind_or_held_loses_nothing(block: int, tmp_path: Path) -> None:
    played = [play(seed, tmp_path / str(seed)) for seed in range(block * 10, block * 10 + 10)]
    assert sum(each.moves for each in played) > 20
    assert sum(each.cuts for each in played) > 20


@pytest.mark.soak
@pytest.mark.parametrize("block", range(100))
def test_who_is_moved_loses_nothing_thousands_of_times(block: int, tmp_path: Path) -> None:
    for seed in range(80_000 + block * 50, 80_000 + block * 50 + 50):
        play(seed, tmp_path / str(seed))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            found = play(int(given), Path(where) / given)
            print(f"seed {given}: {found.moves} moves, {found.cuts} pieces, nothing is wrong")
