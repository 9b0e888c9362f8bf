"""A server that is only pretended, one step after the other: what the checker is tried on.

Calm, it keeps every promise. Each of its heirs breaks one, once, somewhere in the middle."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from tests.integrity.checker import Reckoning
from tests.integrity.content import Content, Times, asked_for_ever, retained_of
from tests.integrity.history import Emission, History, Listed, Pushed, Quad, Read, Registered, Updated
from tests.stream_ext.scene import Change, Push

STEPS = 60


class Calm:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.content = Content(self.chance, Times({1: 10, 2: 15}))
        self.history = History({f"q{i}": asked_for_ever(self.chance) for i in range(3)})
        self.history.received = {name: [] for name in self.history.queries}
        self.reckonings = {name: Reckoning(scene) for name, scene in self.history.queries.items()}
        self.broken = False
        self.breaks_at = STEPS // 2 + seed % 7
        self.step = self.now = self.sn = 0
        self.stores: list[frozenset[Quad]] = [frozenset()]
        self.batches = Counter[int]()

    @property
    def breaks(self) -> bool:
        return self.step == self.breaks_at

    def once(self) -> bool:
        """At the first occasion from the step on at which the promise is broken."""
        due = self.step >= self.breaks_at and not self.broken
        self.broken = self.broken or due
        return due

    # ---- what happens, step by step

    def run(self) -> History:
        for name, one in self.reckonings.items():
            self._publish(frozenset())
            one.register()
            self.history.done.append(Registered(**self._done(name), query=name))
        for self.step in range(STEPS):
            self._update() if self.chance.random() < 0.3 else self._group()
            self._read()
            self._list()
        return self.history

    def _done(self, client: str, sn: int | None = None) -> dict[str, object]:
        self.now += 10
        return {"client": client, "began": self.now, "ended": self.now + 5, "sn": self.sn if sn is None else sn}

    def _publish(self, store: frozenset[Quad]) -> None:
        self.sn += 1
        self.stores.append(store)

    def _update(self) -> None:
        change: Change = self.content.change()
        self._publish((self.stores[-1] - set(change.delete)) | set(change.insert))
        self.history.done.append(Updated(**self._done("updater"), change=change))  # type: ignore[arg-type]

    def _group(self) -> None:
        """Some pushes under way at once, and in one snapshot."""
        pushes = [self.content.push(self.chance.choice([1, 2])) for _ in range(self.chance.choice([1, 1, 2, 3]))]
        taken = self.taken(pushes)
        self._publish(self.stores[-1].union(*(retained_of(push) for push in taken)))
        for stream in {push.stream for push in pushes if push.elements}:
            self.batches[stream] += 1
        done = self._done("")
        late = [self._evaluate(push) for push in taken]
        for which, push in enumerate(pushes):
            emitted = {**done, "client": f"pusher {which}", "batch": self.batches[push.stream], "evaluated": True}
            counted = late[which] if which < len(late) else 0
            self.history.done.append(Pushed(**emitted, push=push, absorbed=retained_of(push), late=counted))  # type: ignore[arg-type]

    def _evaluate(self, push: Push) -> int:
        late = [False] * len(push.elements)
        for name, one in self.reckonings.items():
            one.oracle.store = set(self.store_of_evaluations())
            received = self.history.received[name]
            for sn, time, rows in one.take(self.sn, push):
                received += self.emitted(Emission(len(received) + 1, sn, time, one.bounds(time), rows))
            late = [a or b for a, b in zip(late, one.late, strict=True)]
        return sum(late)

    def _read(self) -> None:
        sn, quads = self.read()
        self.history.done.append(Read(**self._done("reader", sn), quads=quads))  # type: ignore[arg-type]

    def _list(self) -> None:
        name = self.chance.choice(sorted(self.history.queries))
        listed = self.listed(tuple(self.history.received[name]))
        self.history.done.append(Listed(**self._done("lister"), query=name, emissions=listed))  # type: ignore[arg-type]

    # ---- what an heir does otherwise, once

    def taken(self, pushes: list[Push]) -> list[Push]:
        return pushes

    def store_of_evaluations(self) -> frozenset[Quad]:
        return self.stores[-1]

    def emitted(self, emission: Emission) -> list[Emission]:
        return [emission]

    def read(self) -> tuple[int, frozenset[Quad]]:
        return self.sn, self.stores[self.sn]

    def listed(self, emissions: tuple[Emission, ...]) -> tuple[Emission, ...]:
        return emissions


class LosesAPush(Calm):
    def taken(self, pushes: list[Push]) -> list[Push]:
        return pushes[1:] if self.breaks else pushes


class TakesAPushTwice(Calm):
    """Harmless for sets, but for a count of what came: here the second time is under another name."""

    def taken(self, pushes: list[Push]) -> list[Push]:
        if not self.breaks:
            return pushes
        again = tuple((at, tuple((s[:-1] + "x>", p, o) for s, p, o in triples)) for at, triples in pushes[0].elements)
        return [*pushes, replace(pushes[0], elements=again)]


class Reorders(Calm):
    """What a push brought is held back until after the next ones."""

    held: list[Push]

    def taken(self, pushes: list[Push]) -> list[Push]:
        if self.breaks:
            self.held = pushes
            return []
        if self.step > self.breaks_at and hasattr(self, "held"):
            held = self.held
            del self.held
            return [*pushes, *held]
        return pushes


class Tears(Calm):
    """Half of a push is there at its snapshot, half at a later one."""

    rest: Push

    def taken(self, pushes: list[Push]) -> list[Push]:
        if self.breaks:
            half = len(pushes[0].elements) // 2
            self.rest = replace(pushes[0], elements=pushes[0].elements[half:])
            return [replace(pushes[0], elements=pushes[0].elements[:half]), *pushes[1:]]
        if self.step > self.breaks_at and hasattr(self, "rest"):
            rest = self.rest
            del self.rest
            return [*pushes, rest]
        return pushes


class ReadsAnOldStore(Calm):
    """The answer names the newest snapshot, and shows an older one."""

    def read(self) -> tuple[int, frozenset[Quad]]:
        return self.sn, self.stores[self.sn - self.breaks]


class ReadsAnOldSnapshot(Calm):
    """The answer is right for the snapshot that it names, but more had been acknowledged."""

    def read(self) -> tuple[int, frozenset[Quad]]:
        sn = self.sn - self.breaks
        return sn, self.stores[sn]


class EvaluatesOverAnOldStore(Calm):
    """Updates are not seen any more."""

    def store_of_evaluations(self) -> frozenset[Quad]:
        return self.stores[-1] if self.step < self.breaks_at else self.stores[self.breaks_at]


class SkipsAnEmission(Calm):
    """And gives its number to the next."""

    def emitted(self, emission: Emission) -> list[Emission]:
        return [] if self.once() else [emission]


class SaysAnEmissionTwice(Calm):
    def emitted(self, emission: Emission) -> list[Emission]:
        return [emission, replace(emission, number=emission.number + 1)] if self.once() else [emission]


class LosesARow(Calm):
    def emitted(self, emission: Emission) -> list[Emission]:
        if isinstance(emission.rows, Counter) and emission.rows and self.once():
            return [replace(emission, rows=emission.rows - Counter([next(iter(emission.rows))]))]
        return [emission]


class ListsTooFew(Calm):
    """Although the push before had waited for its evaluations."""

    def listed(self, emissions: tuple[Emission, ...]) -> tuple[Emission, ...]:
        return emissions[: len(emissions) - self.breaks]


FAULTY = (
    LosesAPush,
    TakesAPushTwice,
    Reorders,
    Tears,
    ReadsAnOldStore,
    ReadsAnOldSnapshot,
    EvaluatesOverAnOldStore,
    SkipsAnEmission,
    SaysAnEmissionTwice,
    LosesARow,
    ListsTooFew,
)
