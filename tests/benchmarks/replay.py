"""A replay: a tape is committed to a store, batch by batch, and a shard steps one registered query through it.

Timed is what a runner does of each snapshot: reading the batch from the stream index, stepping, making parts. What is
said at some of the evaluations is compared with pyoxigraph, which is given the windows and what is stored."""

from __future__ import annotations

import gc
import itertools
import re
import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import hbase_store
from hbase_store import PushMark, StreamColumns, StreamMove
from stream_ext.catalog.catalog import Catalog, CatalogStep, QueryDefinition, StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.catalog.registered_text import reading_of
from stream_ext.catalog.timing import timing_of
from stream_ext.clock import SystemClock
from stream_ext.continuous.catching_up.turns import TurnLimits
from stream_ext.continuous.query_budget import Budget
from stream_ext.continuous.shard import Shard
from stream_ext.emissions.merge import Merge
from stream_ext.emissions.merged_progress import Runner
from stream_ext.language.algebra.algebra import R2S
from stream_ext.network.measuring import bytes_of
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.values.vocabulary import decoder
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.schedule import initial_state
from tests.benchmarks.stream_questions import Asked
from tests.benchmarks.tape import Batch, Source, Tape

Figures = dict[str, Any]
Bag = Counter[tuple[str, ...]]

_BASE = "http://ex/"
_GROUPS_FROM = 1 << 24
#: A person, their account, friendships, groups.
_OF_SOMEBODY = re.compile(rb"<http://www\.ins\.cwi\.nl/sib/(?!vocabulary/)")
#: So many are registered in one snapshot.
_AT_ONCE = 256
#: A snapshot is stepped as a whole, however many evaluations are due in it: nobody else waits for a turn.
_WHOLE = TurnLimits(evaluations=1 << 40, seconds=None)


@dataclass(frozen=True, slots=True)
class Stepped:
    """What a snapshot took to step (on the clock, of a core), and with what was said stored (likewise); how often
    something was said at it, and of how many rows."""

    sn: int
    seconds: float
    cpu: float
    stored_seconds: float
    stored_cpu: float
    evaluations: int
    rows: list[int]
    answered: list[Part]  # where it is kept

    def of(self, query: int) -> tuple[Part, list[Ids]]:
        """The last that this query said, alone or with others, and its own rows of it."""
        for part in reversed(self.answered):
            if not part.is_shared and part.query == query:
                return part, part.columns
            if part.is_shared and query in part.queries:
                return part, part.own(int(part.queries.searchsorted(query)))[0]
        raise AssertionError(f"query {query} said nothing in snapshot {self.sn}")


@dataclass(frozen=True, slots=True)
class Checked:
    """An answer that is right: its rows, and what pyoxigraph took to take in a batch and answer."""

    rows: int
    pyoxigraph_ms: float


class Replay:
    """One store: what is stored, then a batch a snapshot."""

    def __init__(
        self,
        folder: Path,
        source: Source,
        tape: Tape,
        batches: Sequence[Batch],
        stored: int = 0,
        interleaved: bool = False,
    ) -> None:
        """`stored`: so many triples at least, copies of what is stored in which it is said of others. `interleaved`: a
        batch is many pushes, so that the streams' elements come in the order of their times; else one of each stream.
        """
        self._interleaved = interleaved
        self._source, self._tape, self._batches = source, tape, batches
        self._store = hbase_store.open(f"lmdb:{folder}", folding=False)
        self._ids = self._load(stored)
        self._streams = {
            number: StreamDefinition(number, f"s{number}" if "/" in name else name, _iri(name), StreamOptions())
            for number, name in enumerate(tape.streams, 1)
        }
        self._position: dict[int, tuple[int | None, int | None]] = {}  # of each stream: its first and latest time

    def close(self) -> None:
        self._store.close()

    def _load(self, stored: int) -> npt.NDArray[np.uint64]:
        texts = [text for line in self._source.stored for text in line.split(b" ", 2)]
        places: dict[bytes, int] = {}
        rows = np.array([places.setdefault(text, len(places)) for text in texts], np.int64).reshape(-1, 3)
        for copy in range(max(1, -(-stored // len(rows)))):
            batch = self._store.begin()
            ids = batch.encode([_of_another(text, copy) for text in places])[rows]
            for predicate in np.unique(ids[:, 1]).tolist():
                some = ids[ids[:, 1] == predicate]
                batch.insert(some[:, 0].copy(), predicate, some[:, 2].copy(), 0)
            self._store.commit(batch)
        batch = self._store.begin()
        ids = batch.encode(self._tape.texts)
        self._store.commit(batch)
        self._store.fold()
        return ids

    def _register(self, texts: Sequence[str]) -> dict[int, QueryDefinition]:
        """One query a text, some in a snapshot, as a server registers them that come at once."""
        defined: dict[int, QueryDefinition] = {}
        for first in range(0, len(texts), _AT_ONCE):
            batch = self._store.begin()
            for stream, each in self._streams.items():
                batch.catalog("stream", stream, CatalogStep("stream", stream, each).body())
            for number, text in enumerate(texts[first : first + _AT_ONCE], first + 1):
                definition = self._definition(number, text)
                batch.encode(reading_of(text, _BASE).constants)
                batch.catalog("query", number, CatalogStep("query", number, definition).body())
                defined[number] = definition
            self._store.commit(batch)
        return defined

    def _definition(self, number: int, text: str) -> QueryDefinition:
        query = reading_of(text, _BASE).query
        timing = timing_of(query, Catalog(self._streams, {}))
        return QueryDefinition(
            number, f"q{number}", f"{_BASE}q{number}", text, _BASE, (query.r2s or R2S.RSTREAM).value,
            list(columns_of(query)), [window.stream for window in timing.windows], 0, initial_state(timing, {}),
        )  # fmt: skip

    def _commit(self, batch: Batch) -> None:
        writing = self._store.begin()
        turns = np.cumsum(np.diff(batch.stream, prepend=batch.stream[:1]) != 0)  # how often the stream has changed
        for stream in self._streams:
            which = batch.stream == stream - 1
            times, elements = batch.time[which], batch.element[which]
            pushes = turns[which] if self._interleaved else np.full(len(times), stream)
            starts = np.flatnonzero(np.diff(elements, prepend=-1))
            first, latest = self._position.get(stream, (None, None))
            columns = None
            if len(times):
                first = int(times[0]) if first is None else first
                latest = int(times[-1])
                triples = self._ids[batch.triples[:, which]]
                columns = StreamColumns(
                    stream, times[starts], np.zeros(len(starts), np.uint64), pushes[starts].astype(np.int32),
                    np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(starts, append=len(times))),
                    *(np.ascontiguousarray(line) for line in triples),
                )  # fmt: skip
            self._position[stream] = first, latest
            heard = None if self._interleaved else batch.reached
            marks = [PushMark(stream, batch.reached, latest, heard)]
            if self._interleaved:
                lasts = np.flatnonzero(np.diff(pushes, append=-1))
                marks = [PushMark(int(pushes[n]), int(times[n]), int(times[n])) for n in lasts.tolist()]
            moved = StreamMove(
                stream, self._store.head(), batch.reached, heard, first, marks, latest=latest
            )  # fmt: skip
            writing.stream(moved, columns)
        self._store.commit(writing)

    def run(self, texts: Sequence[str], retained: Collection[int]) -> list[Stepped]:
        """One query a text. What is said is `kept` of these steps; else it goes, as what a runner has told goes."""
        defined = self._register(texts)
        self._shard = shard = Shard(self._store, pace=_WHOLE, budget=Budget(seconds=3_600.0))
        shard.build({}, self._store.head())
        begin = self._store.head() + 1
        for batch in self._batches:
            self._commit(batch)
        merge = self._merge(defined)
        stepped = []
        gc.freeze()  # the tape and its texts: a server has no such heap to look through
        for sn in range(begin, self._store.head() + 1):
            began, worked = time.perf_counter(), time.thread_time()
            parts = shard.step(sn)
            seconds = time.perf_counter() - began, time.thread_time() - worked
            merge.take(Runner.INLINE, sn, parts)
            stored = time.perf_counter() - began, time.thread_time() - worked
            answered = [part for part in parts if part.evaluated]
            stepped.append(_stepped(sn, (*seconds, *stored), answered, sn - begin in retained))
            if shard.faults:
                raise AssertionError(f"a query failed: {shard.faults}")
            if shard.behind:
                raise AssertionError(f"not all was evaluated: {shard.behind}")
        gc.unfreeze()
        return stepped

    def state_bytes(self) -> int:
        """What the networks of the last run retain."""
        evaluators = [run.evaluator for run in self._shard.runs.all]
        networks = [each.network for evaluator in evaluators for each in evaluator.networks]
        operators = [stage.operator for network in networks for stage in network.stages]
        return bytes_of([*operators, *(counted for network in networks for counted in network.displacing.values())])

    def _merge(self, defined: Mapping[int, QueryDefinition]) -> Merge:
        """At the snapshot before the first batch."""
        new_number = itertools.count(_GROUPS_FROM).__next__  # no query has these
        merge = Merge(self._store.emissions, SystemClock(), lambda: defined, self._store.terms, new_number)
        merge.attempt(Runner.INLINE)
        for sn in range(1, self._store.head() - len(self._batches) + 1):
            merge.take(Runner.INLINE, sn, [])
        return merge

    # ---- checking ---------------------------------------------------------------------------------------------------

    def check(self, asked: Asked, stepped: Stepped, range_ms: int, query: int = 1, new_in_ms: int = 0) -> Checked:
        """Compares what this query said last with pyoxigraph's answer; with what is new in it since so long before."""
        part, columns = stepped.of(query)
        answered = self.bag(part, columns)
        expected, seconds = self._expected(asked, part.time, range_ms)
        if new_in_ms:
            expected -= self._expected(asked, part.time - new_in_ms, range_ms)[0]
        if answered != expected:
            few = list((answered - expected).items())[:3], list((expected - answered).items())[:3]
            raise AssertionError(f"at {part.time}: {answered.total()} rows, pyoxigraph has {expected.total()}; {few}")
        return Checked(answered.total(), round(seconds * 1e3, 3))

    def texts(self, part: Part, ids: Sequence[int]) -> list[str]:
        """Of terms of this part."""
        return [text.decode() for text in decoder(part.created, self._store.terms)(np.array(ids, np.uint64))]

    def bag(self, part: Part, columns: Sequence[Ids]) -> Bag:
        decode = decoder(part.created, self._store.terms)
        texts = [[text.decode() for text in decode(column)] for column in columns]
        return Counter(zip(*texts, strict=True))

    def _expected(self, asked: Asked, close: int, range_ms: int) -> tuple[Bag, float]:
        """And what it takes to keep pyoxigraph up to date and ask it: all else being loaded, to take in the latest
        batch, to answer, and to let as many triples go."""
        import pyoxigraph as ox

        lines = set(self._source.stored) if asked.stored else set()
        latest: set[bytes] = set()
        for batch in self._batches:
            held = (batch.time >= close - range_ms) & (batch.time < close)
            if held.any():
                lines |= latest
                latest = {b" ".join(self._tape.texts[place] for place in row) for row in batch.triples[:, held].T}
        latest -= lines
        store = ox.Store()
        store.bulk_load(_as_document(lines), format=ox.RdfFormat.N_TRIPLES)
        came = list(ox.parse(_as_document(latest), format=ox.RdfFormat.N_TRIPLES))
        began = time.perf_counter()
        store.extend(came)
        answer = store.query(asked.plain)
        assert isinstance(answer, ox.QuerySolutions)
        rows = list(answer)
        for quad in came:
            store.remove(quad)
        seconds = time.perf_counter() - began
        return Counter(tuple(str(value) for value in row) for row in rows), seconds


def _iri(stream: str) -> str:
    return stream if "/" in stream else f"http://deri.org/{stream}"


def _as_document(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b" .\n" for line in lines)


def _of_another(text: bytes, copy: int) -> bytes:
    """A term of somebody else, who lives the same life."""
    return text[:-1] + b"~%d>" % copy if copy and _OF_SOMEBODY.match(text) else text


def _stepped(sn: int, seconds: tuple[float, float, float, float], answered: list[Part], retained: bool) -> Stepped:
    rows = [count for part in answered if part.columns for count in _rows_of_each(part)]
    return Stepped(
        sn, *seconds, sum(part.evaluations * _queries_of(part) for part in answered), rows, answered * retained
    )


def _rows_of_each(part: Part) -> list[int]:
    return [len(part.columns[0])] if part.many is None else part.rows_of_each()


def observed(stepped: Sequence[Stepped], batches: Sequence[Batch]) -> Figures:
    """Of the batches after the first half: the windows are full by then."""
    half = len(stepped) // 2
    steady, seconds = stepped[half:], sorted(each.seconds for each in stepped[half:])
    stored = sorted(each.stored_seconds for each in stepped[half:])
    triples = sum(len(batch.time) for batch in batches[half:])
    return {
        "batches": len(steady),
        "triples_a_batch": round(triples / len(steady)),
        "evaluations": sum(each.evaluations for each in steady),
        "rows_p50": statistics.median(rows for each in steady for rows in each.rows),
        "batch_ms_p50": round(statistics.median(seconds) * 1e3, 3),
        "batch_ms_p99": round(seconds[int(len(seconds) * 0.99)] * 1e3, 3),
        "batch_cpu_ms_p50": round(statistics.median(each.cpu for each in steady) * 1e3, 3),
        "stored_ms_p50": round(statistics.median(stored) * 1e3, 3),
        "stored_ms_p99": round(stored[int(len(stored) * 0.99)] * 1e3, 3),
        "mtriples_per_s": round(triples / sum(seconds) / 1e6, 3),
        "mtriples_per_cpu_s": round(triples / sum(each.cpu for each in steady) / 1e6, 3),
    }


def _queries_of(part: Part) -> int:
    return len(part.queries)
