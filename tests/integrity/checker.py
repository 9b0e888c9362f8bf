"""Prefix integrity: whether a recorded history could have been made by a server that keeps its promises.

    1. A client's snapshots never go back; what was acknowledged before a request began is in the answer's snapshot.
    2. Batches of a stream are 1, 2, 3, ... in the order of snapshots: what is seen of a stream is a prefix of it.
    3. Each answer is the model's store at the snapshot that it names: nothing lost, nothing early, nothing by halves.
    4. The emissions of each query are those of the model, from its registration on (what came before is in its windows,
       for the streams' `retention` is longer than the history takes): some order of the pushes that share
       a snapshot gives the same times, window bounds, rows and late elements for all queries at once.
    5. Emissions are numbered 1, 2, 3, ...; every reader sees a prefix of them, with all that `wait=evaluated` promised.

The model of windows and times is that of tests/stream_ext, answers are pyoxigraph's: neither shares code with
servers."""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tests.integrity.history import (
    AskedAt,
    Bag,
    Done,
    Emission,
    History,
    Listed,
    Pushed,
    Quad,
    Read,
    Registered,
    Updated,
)
from tests.stream_ext.scene import Oracle, Push, Scene
from tests.stream_ext.timing_model import Element, EmittedAt

T = TypeVar("T")


def violations(history: History) -> list[str]:
    """What no server that keeps its promises could have said; empty where all is well."""
    observed = [*_sessions(history), *_real_time(history), *_batches(history), *_answers(history), *_emissions(history)]
    return [*observed, *_readers(history)]


# ---- the order of snapshots --------------------------------------------------------------------------------


def _sessions(history: History) -> Iterator[str]:
    last: dict[str, Done] = {}
    for one in sorted(history.done, key=lambda done: done.began):
        if isinstance(one, AskedAt):  # of a snapshot that it names
            continue
        before = last.get(one.client)
        if before is not None and one.sn < before.sn:
            yield f"{one.client} was at snapshot {before.sn} and then at {one.sn}: {one}"
        last[one.client] = one


def _real_time(history: History) -> Iterator[str]:
    """What was acknowledged is there for whoever asks from then on; a later write gets a later snapshot."""
    writes = sorted((w for w in history.done if isinstance(w, (Pushed, Updated, Registered))), key=lambda w: w.ended)
    for one in history.done:
        if isinstance(one, AskedAt):
            continue
        newest = max((w.sn for w in writes if w.ended < one.began), default=0)
        if one.sn < newest + _makes_a_snapshot(one):
            yield f"snapshot {newest} was acknowledged before this began, and it is not in {one.sn}: {one}"


def _makes_a_snapshot(one: Done) -> bool:
    """Deleting what nobody has ever heard of makes none."""
    return isinstance(one, Pushed) or (isinstance(one, Updated) and bool(one.change.insert))


def _batches(history: History) -> Iterator[str]:
    streams: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in history.done:
        if isinstance(one, Pushed) and one.push.elements:
            streams[one.push.stream][one.sn].add(one.batch)
    for stream, batches in streams.items():
        found = [sorted(batches[sn]) for sn in sorted(batches)]
        if found != [[number] for number in range(1, len(found) + 1)]:
            yield f"the batches of stream {stream}, snapshot by snapshot, are {found}"


# ---- answers -----------------------------------------------------------------------------------------------


def _writes(history: History) -> dict[int, list[Pushed | Updated | Registered]]:
    by_sn: dict[int, list[Pushed | Updated | Registered]] = defaultdict(list)
    for one in history.done:
        if isinstance(one, (Pushed, Updated, Registered)):
            by_sn[one.sn].append(one)
    return dict(sorted(by_sn.items()))


def _stores(history: History) -> dict[int, frozenset[Quad]]:
    """The store after each snapshot that a write was acknowledged with."""
    store: frozenset[Quad] = frozenset()
    stores = {0: store}
    for sn, writes in _writes(history).items():
        for one in writes:
            if isinstance(one, Updated):
                store = (store - set(one.change.delete)) | set(one.change.insert)
            elif isinstance(one, Pushed):
                store = store | one.absorbed
        stores[sn] = store
    return stores


def _answers(history: History) -> Iterator[str]:
    stores = _stores(history)
    for one in history.done:
        if not isinstance(one, Read):
            continue
        expected = stores[max(sn for sn in stores if sn <= one.sn)]
        if one.quads != expected:
            missing, wrong = sorted(expected - one.quads, key=str)[:3], sorted(one.quads - expected, key=str)[:3]
            yield f"{one.client} read snapshot {one.sn}: missing {missing}, not to be there {wrong}"


# ---- emissions ---------------------------------------------------------------------------------------------


class Reckoning:
    """What one query has to say, push by push."""

    def __init__(self, scene: Scene) -> None:
        self.oracle = Oracle(scene)
        self.registered = False
        self.late: list[bool] = []

    def copied(self) -> Reckoning:
        """Its own collections, the same elements: `deepcopy` would copy every one of them."""
        other = copy.copy(self)
        other.oracle = _with_own_collections(self.oracle)
        other.oracle.model = _with_own_collections(self.oracle.model)
        return other

    def register(self) -> None:
        """What came before is in its windows; its emissions count from here, and are compared with nothing."""
        self.registered = True
        self.oracle.before = False if self.oracle.scene.select == "ASK" else Counter()
        self.oracle.model.evaluated.clear()

    def take(self, sn: int, push: Push) -> list[tuple[int, int, Bag | bool]]:
        self.late = [False] * len(push.elements)
        if push.stream not in {window.stream for window in self.oracle.scene.windows}:
            return []
        emitted = self._emitted(push)
        return [observed for one in emitted for observed in self.oracle.evaluate(sn, one)] if self.registered else []

    def _emitted(self, push: Push) -> list[EmittedAt]:
        if push.heartbeat is not None:
            return self.oracle.model.heartbeat(push.stream, push.heartbeat)
        elements = []
        for time, triples in push.elements:
            elements.append(Element(push.stream, time, len(self.oracle.triples)))
            self.oracle.triples.append(triples)
        late, emitted = self.oracle.model.push(push.stream, elements)
        self.late = late if self.registered else self.late
        return emitted

    def bounds(self, time: int) -> tuple[tuple[int, int, str], ...]:
        observed = []
        for window in self.oracle.model.windows:
            close = self.oracle.model.close_at(window, time, False)
            observed.append((close - window.range_ms, min(close, time) - window.until_ms, window.bounds))
        return tuple(observed)


def _with_own_collections(thing: T) -> T:
    other = copy.copy(thing)
    vars(other).update(
        {name: value.copy() for name, value in vars(thing).items() if isinstance(value, (list, dict, set))}
    )
    return other


class _Contradiction(Exception):
    """No server that keeps its promises says that."""


class Reckonings:
    """All queries' reckonings, and which of their emissions have been accounted for."""

    def __init__(self, history: History) -> None:
        self.of = {name: Reckoning(scene) for name, scene in history.queries.items()}
        self.received = history.received
        self.next = dict.fromkeys(self.of, 0)

    def store_is(self, store: frozenset[Quad]) -> None:
        for one in self.of.values():
            one.oracle.store = set(store)

    @property
    def key(self) -> object:
        """Two orders after which these are equal make no difference any more: what was emitted last, which closes were
        evaluated, and where each window begins, which the first push of a stream decides."""
        oracles = [one.oracle for one in self.of.values()]
        before = (oracle.before for oracle in oracles)
        models = (oracle.model for oracle in oracles)
        return (
            tuple(b if isinstance(b, bool) else frozenset(b.items()) for b in before),
            tuple((frozenset(model.begins.items()), model.after, model.last) for model in models),
        )

    def copied(self) -> Reckonings:
        other = copy.copy(self)
        other.of, other.next = {name: one.copied() for name, one in self.of.items()}, dict(self.next)
        return other

    def take(self, pushed: Pushed) -> None:
        late = [False] * len(pushed.push.elements)
        for name, one in self.of.items():
            for sn, time, rows in one.take(pushed.sn, pushed.push):
                self._match(name, one, sn, time, rows)
            late = [a or b for a, b in zip(late, one.late, strict=True)]
        if sum(late) != pushed.late:
            raise _Contradiction(f"{sum(late)} elements were late, and {pushed.late} were said to be: {pushed}")

    def _match(self, name: str, one: Reckoning, sn: int, time: int, rows: Bag | bool) -> None:
        received, number = self.received.get(name, []), self.next[name]
        if number >= len(received):
            raise _Contradiction(f"{name} says nothing for {time} at snapshot {sn}")
        emission = received[number]
        expected = (number + 1, sn, time, one.bounds(time), rows)
        found = (emission.number, emission.sn, emission.time, emission.bounds, emission.rows)
        if expected != found:
            raise _Contradiction(f"{name} says {found} where {expected} is true")
        self.next[name] += 1

    def ends(self, sn: int) -> None:
        """All emissions up to this snapshot are accounted for."""
        for name, received in self.received.items():
            if self.next[name] < len(received) and received[self.next[name]].sn <= sn:
                raise _Contradiction(f"nothing made {name} say {received[self.next[name]]}")


def _emissions(history: History) -> Iterator[str]:
    """Follows all orders that are possible so far: what was there at a DSTREAM's evaluation shows at the next only."""
    stores, by_sn = _stores(history), _writes(history)
    possible = [Reckonings(history)]
    for sn, writes in by_sn.items():
        pushes = [one for one in writes if isinstance(one, Pushed)]
        contradictions: list[_Contradiction] = []
        after: dict[object, Reckonings] = {}
        for all_of in possible:
            all_of.store_is(stores[sn])
            for tried in _in_any_order(all_of, pushes, sn, contradictions):
                after.setdefault(tried.key, tried)
        if not after:
            yield f"snapshot {sn}, with pushes of {[one.client for one in pushes]}: {contradictions[0]}"
            return  # what follows would be compared with the wrong state
        possible = list(after.values())
        for one in writes:
            if isinstance(one, Registered):
                for all_of in possible:
                    all_of.of[one.query].register()
        yield from _asked(history, possible[0], sn, min((w for w in by_sn if w > sn), default=None))


def _in_any_order(
    all_of: Reckonings, pushes: list[Pushed], sn: int, contradictions: list[_Contradiction]
) -> Iterator[Reckonings]:
    """The reckonings after these pushes, in every order for which all that was heard is true."""
    for first in pushes:
        tried = all_of.copied()
        try:
            tried.take(first)
        except _Contradiction as contradiction:
            contradictions.append(contradiction)
            continue
        yield from _in_any_order(tried, [one for one in pushes if one is not first], sn, contradictions)
    if not pushes:
        try:
            all_of.ends(sn)
        except _Contradiction as contradiction:
            contradictions.append(contradiction)
            return
        yield all_of


def _asked(history: History, all_of: Reckonings, sn: int, until: int | None) -> Iterator[str]:
    """The same text, asked once for a time and a snapshot, over all that had come by then."""
    for one in history.done:
        if not isinstance(one, AskedAt) or one.sn < sn or (until is not None and one.sn >= until):
            continue
        oracle = all_of.of[one.query].oracle
        expected = oracle.answer(oracle.model.emitted(one.time, False))
        if one.rows != expected:
            yield f"{one.query} at {one.time}, snapshot {one.sn}: {one.rows} where {expected} is true"


# ---- those who read emissions ------------------------------------------------------------------------------


def _readers(history: History) -> Iterator[str]:
    evaluated = [one for one in history.done if isinstance(one, Pushed) and one.evaluated]
    for one in history.done:
        if not isinstance(one, Listed):
            continue
        received = history.received.get(one.query, [])
        if list(one.emissions) != received[: len(one.emissions)]:
            yield f"{one.client} read other emissions of {one.query} than its subscriber heard: {one.emissions}"
        newest = max((push.sn for push in evaluated if push.ended < one.began), default=0)
        promised = _up_to(received, newest)
        if len(one.emissions) < promised:
            yield f"{one.client} read {len(one.emissions)} emissions of {one.query}; {promised} had been evaluated"


def _up_to(emissions: Iterable[Emission], sn: int) -> int:
    return sum(emission.sn <= sn for emission in emissions)
