"""What clients send, and what is asked for ever: drawn by chance from a universe so small that everything meets."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field

from tests.integrity.history import Quad
from tests.stream_ext.scene import EX, PATTERNS, Change, Push, Scene, Triple, Window

LATENESS = {1: 8, 2: 0}
SEEN = f"<{EX}seen>"  # what the store keeps of an element


def asked_for_ever(chance: random.Random) -> Scene:
    """A query over these streams, each of its closes known from its text."""
    select, pattern, count = chance.choice(PATTERNS)
    windows = [
        Window(
            f"w{i}",
            chance.choice([1, 2]) if i == 2 else 1,
            chance.choice([10, 20, 30, 45]),
            chance.choice([7, 10, 25]),
            chance.choice([0, 0, 3]),
            chance.choice([0, 0, 4]),
            chance.choice(["[)", "[)", "(]", "[]"]),
        )
        for i in range(1, count + 1)
    ]
    return Scene(windows, pattern, select, chance.choice(["RSTREAM", "RSTREAM", "ISTREAM", "DSTREAM"]), LATENESS)


@dataclass
class Times:
    """Where each stream has come to, for those who push to it."""

    now: dict[int, int]
    pushes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def draw(self, stream: int, chance: random.Random) -> tuple[int, list[int]]:
        """The number of a push, and times for its elements: mostly rising, sometimes out of order or late."""
        with self.lock:
            self.pushes += 1
            times = []
            for _ in range(chance.randrange(1, 5)):
                self.now[stream] += chance.choice([0, 0, 1, 3, 9])
                times.append(max(0, self.now[stream] - chance.choice([0, 0, 0, 4, 15])))
            return self.pushes, times


class Content:
    """Pushes and updates of one client."""

    def __init__(self, chance: random.Random, times: Times) -> None:
        self.chance, self.times = chance, times

    def push(self, stream: int) -> Push:
        number, times = self.times.draw(stream, self.chance)
        if self.chance.random() < 0.1:
            return Push(stream, (), max(times))
        return Push(stream, tuple((at, self._triples(f"<{EX}e{number}-{i}>")) for i, at in enumerate(times)))

    def change(self) -> Change:
        quads = sorted({self._fact() for _ in range(self.chance.randrange(1, 6))}, key=str)
        some = tuple(quad for quad in quads if self.chance.random() < 0.4)
        return Change(tuple(quad for quad in quads if quad not in some), some)

    def _triples(self, element: str) -> tuple[Triple, ...]:
        return ((element, SEEN, self._node()), *(self._triple() for _ in range(self.chance.randrange(1, 4))))

    def _triple(self) -> Triple:
        if self.chance.random() < 0.4:
            number = f'"{self.chance.randrange(6)}"^^<http://www.w3.org/2001/XMLSchema#integer>'
            return (self._node(), f"<{EX}v>", number)
        return (self._node(), f"<{EX}p>", self._node())

    def _fact(self) -> Quad:
        graph = self.chance.choice([None, None, f"<{EX}g1>", f"<{EX}g2>"])
        return ((self._node(), f"<{EX}k>", self._node()), graph)

    def _node(self) -> str:
        return f"<{EX}n{self.chance.randrange(1, 5)}>"


def retained_of(push: Push) -> frozenset[Quad]:
    return frozenset((triple, None) for _, triples in push.elements for triple in triples if triple[1] == SEEN)
