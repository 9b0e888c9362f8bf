"""W1, W2 and W3: three workloads of standing queries, through the engine's own network in this process.

W1 joins two windows of ten batches (5,000 + 5,000 new elements a batch, keys out of as many as a window's elements), W2
counts by key in such a window (10,000 a batch) and says the counts that changed, W3 tests each of 13,000 elements a
batch against 1,000 or 10,000 standing filters. What is said at each batch is compared with plain numpy arithmetic, or
with what the generator of others expects, before a time is told. Engines for tables that are installed do the same
work in the same run (see `standing_peers`)."""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hbase_store import Snapshot
from hbase_store.layout.terms import inline_integers
from stream_ext.language.algebra.algebra import R2S, Query
from stream_ext.language.syntax import parse
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.core.moment import Moment, QuadChange
from stream_ext.plan.pipeline import logic_of
from stream_ext.rows.zset import Columns, Weights
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.arrivals import Arrival
from stream_ext.windows.scheduled_window import ScheduledWindow
from tests.benchmarks import bare
from tests.benchmarks.standing_peers import PEERS, Peer, Step, batch_ms, present

Figures = dict[str, Any]
Longs = npt.NDArray[np.int64]
Answered = tuple[int, int]  # rows, checksum

_BASE = 16  # ids of keys and values begin here
_FILTERS = 1 << 40  # ids of the standing filters
_MASK = (1 << 62) - 1
_FILTER_COUNTS = (1_000, 10_000)
#: So many batches are enough for a peer.
_PEERS_BATCHES = 60


@dataclass(frozen=True, slots=True)
class Elements:
    """Keys and values of one stream, a line a batch."""

    keys: Longs
    values: Longs


@dataclass(frozen=True, slots=True)
class Work:
    text: str
    streams: Sequence[Elements]
    span: int
    check: Callable[[Columns, Weights], Answered]
    expected: Sequence[Answered]
    peer: Callable[[Peer], Step]  # how a peer does it
    sum: Callable[..., Answered]  # of what it says, and how often

    def beside_peers(self) -> Figures:
        """What the network takes, and what those peers take that are installed."""
        figures = self.measure()
        peers = {name: self._of_peer(PEERS[name]()) for name in present()}
        ratios = {name: round(each / figures["batch_ms_p50"], 2) for name, each in peers.items()}
        return {**figures, "peers_batch_ms_p50": peers, "peers_over_ours": ratios}

    def _of_peer(self, peer: Peer) -> float:
        count = min(_PEERS_BATCHES, len(self.expected))
        batches = [[(each.keys[b], each.values[b]) for each in self.streams] for b in range(count)]
        return batch_ms(self.peer(peer), batches, self.expected[:count], self.span + 1, self.sum)

    def measure(self) -> Figures:
        """Of the batches after the first window's."""
        network, words = _network(self.text, len(self.streams), self.span)
        seconds = []
        for b, arrivals in enumerate(list(self._arrivals())):
            moment = _moment(b, words)
            began = time.perf_counter()
            for arrival in arrivals:
                network.arrive(arrival)
            emitted = network.step(moment)
            seconds.append(time.perf_counter() - began)
            if (answered := self.check(*emitted)) != self.expected[b]:
                raise AssertionError(f"batch {b}: (rows, checksum) {answered}, but {self.expected[b]} expected")
        return observed(seconds[self.span + 1 :], sum(each.keys.shape[1] for each in self.streams))

    def _arrivals(self) -> Iterator[list[Arrival]]:
        for b in range(len(self.expected)):
            yield [_arrival(b, stream, each) for stream, each in enumerate(self.streams, 1)]


def observed(seconds: Sequence[float], elements: int) -> Figures:
    steady = sorted(seconds)
    middle = statistics.median(steady)
    return {
        "batches": len(steady),
        "batch_ms_p50": round(middle * 1e3, 3),
        "batch_ms_p10": round(steady[len(steady) // 10] * 1e3, 3),
        "batch_ms_p99": round(steady[int(len(steady) * 0.99)] * 1e3, 3),
        "melements_per_s": round(elements / middle / 1e6, 2),
    }


def _network(text: str, streams: int, span: int) -> tuple[Network, Vocabulary]:
    query = parse(f"PREFIX : <http://ex/> {text}", "http://ex/")
    assert isinstance(query, Query)
    names = [f"http://ex/w{n}" for n in range(1, streams + 1)]
    windows = {name: ScheduledWindow(name, n, span, 1) for n, name in enumerate(names, 1)}
    network = Network.of_query(logic_of(query), NetworkInputs(None, _ids, windows), R2S.ISTREAM)  # type: ignore[arg-type]  # no pattern reads the store
    return network, Vocabulary(_ids, lambda ids: [b"<http://ex/id%d>" % id for id in ids.tolist()])


class _Unchanged:
    """How the store changed between two batches."""

    def of(self, predicates: tuple[int, ...] | None) -> list[QuadChange]:
        return []

    def before(self) -> Snapshot:
        raise AssertionError("nothing has changed")


def _moment(batch: int, words: Vocabulary) -> Moment:
    changes = _Unchanged() if batch else None
    return Moment(batch + 1, None, changes, vocabulary=words)  # type: ignore[arg-type]  # no pattern reads the store


def _ids(texts: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    """`:p1` is the predicate of the first stream, `:c5` key 5, `:q5` filter 5; a plain integer is none of ours."""
    bases = {b"p": 0, b"c": _BASE, b"q": _FILTERS}
    found = [re.fullmatch(rb"<http://ex/([pcq])(\d+)>", text) for text in texts]
    return np.array([0 if m is None else bases[m[1]] + int(m[2]) for m in found], np.uint64)


def _arrival(batch: int, stream: int, elements: Elements) -> Arrival:
    keys, values = (each[batch].astype(np.uint64) + np.uint64(_BASE) for each in (elements.keys, elements.values))
    count = len(keys)
    times, no_graph = np.full(count, batch, np.int64), np.zeros(count, np.uint64)
    element = np.arange(count, dtype=np.int32)
    triple = (values, np.full(count, stream, np.uint64), keys, no_graph, times, element)
    return Arrival(batch + 1, 0, stream, times, *triple, batch, None, False)


# ---- the workloads -----------------------------------------------------------------------------------------------


def made(batches: int, count: int, keys: int, seed: int, again: bool = False) -> Elements:
    """Each element has a number of its own, as an event or a post has; `again`: any number, that may come again."""
    chance = np.random.default_rng(seed)
    drawn = chance.integers(0, keys, (batches, count))
    if again:
        return Elements(drawn, chance.integers(0, 1 << 30, (batches, count)))
    return Elements(drawn, np.arange(batches * count).reshape(batches, count))


def w1(left: Elements, right: Elements, span: int, expected: Sequence[Answered] | None = None) -> Work:
    text = f"""SELECT ISTREAM ?k ?a ?b
      FROM NAMED WINDOW :w1 ON STREAM :s1 [RANGE {span}ms STEP 1ms]
      FROM NAMED WINDOW :w2 ON STREAM :s2 [RANGE {span}ms STEP 1ms]
      WHERE {{ WINDOW :w1 {{ ?a :p1 ?k }} WINDOW :w2 {{ ?b :p2 ?k }} }}"""
    names = ("k", "a", "b")

    def check(columns: Columns, weights: Weights) -> Answered:
        a, b = (columns[names.index(name)].view(np.int64) - _BASE for name in "ab")
        return summed(a, b, weights)

    def summed(a: Longs, b: Longs, weights: Longs) -> Answered:
        return int(weights.sum()), int((weights * (a ^ (b * 3))).sum()) & _MASK

    expected = expected or list(_pairs_by_batch(left, right, span))
    return Work(text, (left, right), span, check, expected, lambda peer: peer.join(span), summed)


def w2(elements: Elements, span: int, expected: Sequence[int] | None = None) -> Work:
    text = f"""SELECT ISTREAM ?k (COUNT(*) AS ?n) FROM NAMED WINDOW :w1 ON STREAM :s1 [RANGE {span}ms STEP 1ms]
      WHERE {{ WINDOW :w1 {{ ?e :p1 ?k }} }} GROUP BY ?k"""
    counted = list(_counts_by_batch(elements, span))
    if expected is not None and [checksum for _, checksum in counted] != list(expected):
        raise AssertionError("the generator's checksums are not those of its own data")

    def check(columns: Columns, weights: Weights) -> Answered:
        return summed(columns[0].view(np.int64) - _BASE, inline_integers(columns[1]), weights)

    def summed(keys: Longs, counts: Longs, weights: Longs) -> Answered:
        return int(weights.sum()), int((weights * keys * counts).sum())

    return Work(text, (elements,), span, check, counted, lambda peer: peer.count(span), summed)


def w3(elements: Elements, filters: Longs, expected: Sequence[Answered] | None = None) -> Work:
    """All filters as the rows of one table of parameters."""
    rows = " ".join(f"(:q{q} :c{key})" for q, key in enumerate(filters.tolist()))
    text = f"""SELECT ISTREAM ?q ?e FROM NAMED WINDOW :w1 ON STREAM :s1 [RANGE 1ms STEP 1ms]
      WHERE {{ WINDOW :w1 {{ ?e :p1 ?k }} VALUES (?q ?k) {{ {rows} }} }}"""

    def check(columns: Columns, weights: Weights) -> Answered:
        return summed(columns[0].view(np.int64) - _FILTERS, columns[1].view(np.int64) - _BASE, weights)

    def summed(q: Longs, e: Longs, weights: Longs) -> Answered:
        return int(weights.sum()), int((weights * (q ^ e)).sum())

    expected = expected or list(_hits_by_batch(elements, filters))
    return Work(text, (elements,), 1, check, expected, lambda peer: peer.filters(filters), summed)


def apart(elements: Elements, filters: Longs) -> Figures:
    """Each filter a query of its own, as many networks."""
    text = """SELECT ISTREAM ?e FROM NAMED WINDOW :w1 ON STREAM :s1 [RANGE 1ms STEP 1ms]
      WHERE {{ WINDOW :w1 {{ ?e :p1 :c{} }} }}"""
    networks = [_network(text.format(key), 1, 1) for key in filters.tolist()]
    hits = [rows for rows, _ in _hits_by_batch(elements, filters)]
    seconds = []
    for b, expected in enumerate(hits):
        arrival, found = _arrival(b, 1, elements), 0
        began = time.perf_counter()
        for network, words in networks:
            network.arrive(arrival)
            found += int(network.step(_moment(b, words))[1].sum())
        seconds.append(time.perf_counter() - began)
        if found != expected:
            raise AssertionError(f"batch {b}: {found} hits, but {expected} expected")
    return observed(seconds[2:], elements.keys.shape[1])


# ---- what is expected --------------------------------------------------------------------------------------------


def _pairs_by_batch(left: Elements, right: Elements, span: int) -> Iterator[Answered]:
    """A pair is new in the later of its batches, if the other is in the window then; found for some left batches at a
    time, with all right ones that they meet."""
    batches, (n, m) = len(left.keys), (left.keys.shape[1], right.keys.shape[1])
    counts, checksums = np.zeros(batches, np.int64), np.zeros(batches, np.int64)
    for start in range(0, batches, span):
        low, mine, theirs = (
            max(0, start - span),
            slice(start, start + span),
            slice(max(0, start - span), start + 2 * span),
        )
        places = np.arange(left.keys[mine].size), np.arange(right.keys[theirs].size)
        i, j = pairs(left.keys[mine].ravel(), places[0], right.keys[theirs].ravel(), places[1])
        ours, other = start + i // n, low + j // m
        there = np.abs(ours - other) < span
        i, j, batch = i[there], j[there], np.maximum(ours, other)[there]
        counts += np.bincount(batch, minlength=batches)
        np.add.at(checksums, batch, left.values[mine].ravel()[i] ^ (right.values[theirs].ravel()[j] * 3))
    yield from zip(counts.tolist(), (checksums & _MASK).tolist(), strict=True)


def pairs(k1: Longs, v1: Longs, k2: Longs, v2: Longs) -> tuple[Longs, Longs]:
    order = np.argsort(k2, kind="stable")
    low, high = np.searchsorted(k2[order], k1, "left"), np.searchsorted(k2[order], k1, "right")
    count = high - low
    i = np.repeat(np.arange(len(k1)), count)
    j = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count) + np.repeat(low, count)
    return v1[i], v2[order[j]]


def _counts_by_batch(elements: Elements, span: int) -> Iterator[Answered]:
    keys = int(elements.keys.max()) + 1
    counts = np.zeros(keys, np.int64)
    for b in range(len(elements.keys)):
        before = counts.copy()
        counts += np.bincount(elements.keys[b], minlength=keys)
        if b >= span:
            counts -= np.bincount(elements.keys[b - span], minlength=keys)
        changed = np.flatnonzero((counts != before) & (counts > 0))
        yield len(changed), int((changed * counts[changed]).sum())


def _hits_by_batch(elements: Elements, filters: Longs) -> Iterator[Answered]:
    inverse = np.full(int(max(elements.keys.max(), filters.max())) + 1, -1, np.int64)
    inverse[filters] = np.arange(len(filters))
    for keys, values in zip(elements.keys, elements.values, strict=True):
        q = inverse[keys]
        yield int((q >= 0).sum()), int((q ^ values)[q >= 0].sum())


# ---- all three ---------------------------------------------------------------------------------------------------


def own(batches: int) -> Figures:
    """With data of our own."""
    sides = [made(batches, 5_000, 100_000, seed) for seed in (1, 2)]
    counted, filtered = made(batches, 10_000, 100_000, 3), made(batches, 13_000, 13_000, 4)
    figures = {"w1": w1(sides[0], sides[1], 10).beside_peers(), "w2": w2(counted, 10).beside_peers()}
    for count in _FILTER_COUNTS:
        figures[f"w3_{count}"] = filtered_by(filtered, np.random.default_rng(5).permutation(13_000)[:count])
    return figures


def filtered_by(elements: Elements, filters: Longs, expected: Sequence[Answered] | None = None) -> Figures:
    """W3, and by how much a batch takes longer than the bare loop."""
    work = w3(elements, filters, expected)
    figures, bare_ms = work.beside_peers(), bare.filters_ms(elements.keys, elements.values, filters, work.expected)
    above_us = round((figures["batch_ms_p50"] - bare_ms) * 1e3, 1)
    return {**figures, "bare_ms_p50": bare_ms, "above_bare_us": above_us}


# ---- the generator of others -------------------------------------------------------------------------------------


def generated(script: Path, folder: Path, batches: int) -> Figures:
    """The same three with that generator's data and checksums."""
    subprocess.run([sys.executable, str(script), str(folder), str(batches)], check=True, capture_output=True)

    def elements(name: str, count: int) -> Elements:
        table = np.fromfile(folder / f"{name}.bin", "<i8").reshape(batches, count, 2)
        return Elements(table[:, :, 0].copy(), table[:, :, 1].copy())

    def expected(name: str, width: int) -> Longs:
        return np.fromfile(folder / f"expect_{name}.bin", "<i8").reshape(batches, width)

    joined = [(int(row[0]), int(row[3])) for row in expected("w1", 4)]
    figures = {
        "w1": w1(elements("w1a", 5_000), elements("w1b", 5_000), 10, joined).beside_peers(),
        "w2": w2(elements("w2", 10_000), 10, expected("w2", 4)[:, 2].tolist()).beside_peers(),
    }
    for count in _FILTER_COUNTS:
        hits = [(int(rows), int(checksum)) for rows, checksum in expected(f"w3_{count}", 2)]
        filters = np.fromfile(folder / f"w3q_{count}.bin", "<i8")
        figures[f"w3_{count}"] = filtered_by(elements("w3", 13_000), filters, hits)
    return figures
