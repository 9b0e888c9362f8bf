"""While some queries stay inline and the others are on Spark, the merge says everything once, whoever sends when."""

from __future__ import annotations

import random

import pytest

from stream_ext.emissions.merge import Merge
from stream_ext.emissions.runner_split import Homes
from stream_ext.windows.part import Part
from tests.stream_ext.emissions.test_merge import (
    LAST_SN,
    QUERIES,
    Died,
    Inline,
    Log,
    Spark,
    expected,
    new_merge,
    parts_of,
)


class Moves:
    """Which queries stay inline after each snapshot."""

    def __init__(self, chance: random.Random) -> None:
        self.after: list[frozenset[int]] = [frozenset()]
        for _ in range(LAST_SN):
            at_home = set(self.after[-1])
            if chance.random() < 0.25:
                at_home ^= {chance.choice(list(QUERIES))}
            self.after.append(frozenset(at_home))
        self.head = 0

    def publish(self, merge: Merge, sn: int) -> None:
        merge.publish(sn, bool(self.after[sn]))
        self.head = max(self.head, sn)

    def open(self, merge: Merge) -> None:
        """What the engine tells of snapshots that were published before it began."""
        for sn in range(merge.position, self.head + 1):
            merge.publish(sn, bool(self.after[sn]))

    def on_spark(self, sn: int) -> list[Part]:
        return [part for part in parts_of(sn) if part.query not in self.after[sn - 1]]

    def beside(self, sn: int) -> list[Part]:
        return [part for part in parts_of(sn) if part.query in self.after[sn - 1]]


class SomeOnSpark(Spark):
    """Sends what it steps in its order, as far as it is published."""

    def __init__(self, merge: Merge, chance: random.Random, moves: Moves) -> None:
        super().__init__(merge, chance)
        self.moves = moves

    def send(self) -> None:
        sn = self.complete() + 1
        if sn <= self.moves.head:
            self.sent.add(sn)
            self.merge.take("spark", sn, self.moves.on_spark(sn))


class Beside:
    def __init__(self, merge: Merge, moves: Moves) -> None:
        self.merge, self.moves = merge, moves
        _, self.sn, _ = merge.attempt("partly_inline")

    def step(self) -> None:
        if self.sn < self.moves.head:
            self.sn += 1
            self.merge.take("partly_inline", self.sn, self.moves.beside(self.sn))


@pytest.mark.parametrize("seed", range(200))
def test_any_interleaving_of_two_runners_says_everything_once(seed: int) -> None:
    chance = random.Random(seed)
    log, moves = Log(), Moves(chance)
    merge = new_merge(log)
    inline: Inline | Beside | None = None
    sparks: list[SomeOnSpark] = []
    for _ in range(chance.randint(100, 400)):
        weights = [6, 10, 12, 12, 1, 0.3, 0.5, 1]
        action = chance.choices(["publish", "inline", "send", "tell", "attempt", "lost", "die", "flush"], weights)[0]
        log.dies = chance.choice(["before", "after"]) if action == "die" else None
        try:
            if action == "publish" and moves.head < LAST_SN:
                moves.publish(merge, moves.head + 1)
            elif action == "inline":
                inline = stepped(merge, moves, inline)
            elif action in ("flush", "die"):
                merge.flush()
            elif action == "attempt":
                sparks = [SomeOnSpark(merge, chance, moves)]
            elif action == "send" and sparks:
                sparks[-1].send()
            elif action == "tell" and sparks:
                sparks[-1].tell()
            elif action == "lost" and sparks:
                merge.lost("spark", sparks[-1].number)
                sparks = []
        except Died:
            merge, inline, sparks = new_merge(log), None, []
            moves.open(merge)
    log.dies = None
    while moves.head < LAST_SN:
        moves.publish(merge, moves.head + 1)
    sparks = [SomeOnSpark(merge, chance, moves)]
    for _ in range(3 * LAST_SN):
        sparks[-1].send()
        sparks[-1].tell()
        inline = stepped(merge, moves, inline)
    assert merge.position == LAST_SN, "nothing waits for ever"
    merge.flush()
    for query in QUERIES:
        assert log.emitted(query) == expected(query, LAST_SN), f"seed {seed}, query {query}"


def stepped(merge: Merge, moves: Moves, inline: Inline | Beside | None) -> Inline | Beside | None:
    """The inline runner, which does what it is wanted for."""
    role = merge.role
    if role is None:
        return None
    kind = Inline if role == "inline" else Beside
    stands = isinstance(inline, kind) and merge.is_current(role) and (kind is Beside or inline.sn == merge.position)
    if not stands:
        inline = Inline(merge) if role == "inline" else Beside(merge, moves)
    assert inline is not None
    if isinstance(inline, Beside) or inline.sn < moves.head:
        inline.step()
    return inline


def test_two_are_needed_while_a_query_stays_and_in_the_snapshots_of_its_moves() -> None:
    homes = Homes()
    for sn, some in enumerate([False, True, True, False, False, True, False, True], 1):
        homes.published(sn, some)
    assert [sn for sn in range(1, 10) if homes.are_two(sn)] == [2, 3, 4, 6, 7, 8, 9]
    assert homes.any_after(100)
    homes.published(9, False)
    assert homes.any_after(8)
    assert not homes.any_after(9)
    homes.forget(9)
    assert not homes.are_two(10)
