"""What CQELS Cloud (2013) measured: single operators under a heavy load, and many queries over a social network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

import hbase_store
from tests.benchmarks.papers_replay import (
    A_BATCH,
    EX,
    NOTHING_STORED,
    Figures,
    Measures,
    asked_at_closes,
    compared,
    measured,
    posts,
    rows_of,
)
from tests.benchmarks.replay import Bag, Replay
from tests.benchmarks.stream_questions import QUESTIONS, Asked
from tests.benchmarks.tape import Batch, Source, Tape

_WAYS = 5
#: Batches of those over large windows whose figures count.
_LAST = 3


def cloud_6(quick: bool) -> Measures:
    found: dict[str, Callable[[Path], Figures]] = {
        f"patterns_{count}": partial(_patterns, quick, count) for count in ((100,) if quick else (10_000, 100_000))
    }
    found["join_5"] = partial(_join, 1_000 if quick else 100_000, 1_000 if quick else 25_000)
    found["group"] = partial(_group, 2_000 if quick else 1_000_000, 1_000 if quick else 26_000)
    for stored in (20_000,) if quick else (1_000_000, 10_000_000):
        found[f"stored_{stored}"] = partial(_with_stored, stored, 1_300 if quick else A_BATCH)
    return found


def _patterns(quick: bool, count: int, folder: Path) -> Figures:
    asked = [QUESTIONS["Q1"].about(f"sibu:u{n}") for n in range(count)]
    return asked_at_closes(folder, posts(quick), asked, [1_000] * count, A_BATCH, 8)


# ---- over windows of many elements ------------------------------------------------------------------------------


def _join(size: int, triples: int, folder: Path) -> Figures:
    """Five windows of the last `size` triples. Of each, one in a hundred is about one of `size` / 100 things that the
    other streams are about, too; so it has one partner in each window, on average. All others have none."""
    chance = np.random.default_rng(5)
    count = size + 6 * triples // _WAYS
    keys = []
    for way in range(_WAYS):
        things, some = chance.integers(0, size // 100, count).tolist(), (chance.random(count) < 0.01).tolist()
        keys.append([f"k{things[n]}" if some[n] else f"s{way}.{n}" for n in range(count)])
    streams = {
        f"s{way}": [
            (1_000_000 + n, f"<{EX}{key}> <{EX}p{way}> <{EX}v{way}.{n}>".encode()) for n, key in enumerate(line)
        ]
        for way, line in enumerate(keys)
    }
    parts = " ".join(
        f"STREAM <http://deri.org/s{way}> [TRIPLES {size}] {{ ?k <{EX}p{way}> ?v{way} }}" for way in range(_WAYS)
    )
    values = " ".join(f"?v{way}" for way in range(_WAYS))
    text = f"REGISTER QUERY q AS SELECT ?k {values} WHERE {{ {parts} }}"
    data = Source("made", NOTHING_STORED, streams)
    return _at_arrivals(folder, data, text, triples, lambda after: _joined(keys, size, after))


def _joined(keys: list[list[str]], size: int, after: int) -> Bag:
    """What a loop over the elements finds for those from this one of each stream on, which come in turns."""
    found: Bag = Counter()
    windows: list[dict[str, list[int]]] = [{} for _ in keys]
    for n in range(len(keys[0])):
        for way, line in enumerate(keys):
            window, key = windows[way], line[n]
            if key.startswith("k"):
                window.setdefault(key, []).append(n)
            if n >= size and (old := line[n - size]).startswith("k"):
                window[old].remove(n - size)
            if n < after or not key.startswith("k"):
                continue
            others = [[n] if other == way else each.get(key, ()) for other, each in enumerate(windows)]
            for values in product(*others):
                texts = [f"<{EX}v{other}.{value}>" for other, value in enumerate(values)]
                found["1", f"<{EX}{key}>", *texts] += 1
    return found


def _group(size: int, triples: int, folder: Path) -> Figures:
    """A count by one of a thousand values over the last `size` triples."""
    chance = np.random.default_rng(6)
    values = chance.integers(0, 1_000, size + 6 * triples)
    lines = [(1_000_000 + n, f"<{EX}s{n}> <{EX}p> <{EX}v{value}>".encode()) for n, value in enumerate(values.tolist())]
    data = Source("made", NOTHING_STORED, {"s": lines})
    text = (
        f"REGISTER QUERY q AS SELECT ?v (COUNT(?s) AS ?n) WHERE {{ STREAM <http://deri.org/s> "
        f"[TRIPLES {size}] {{ ?s <{EX}p> ?v }} }} GROUP BY ?v"
    )
    return _at_arrivals(folder, data, text, triples, lambda after: _counted(values, size, after))


def _counted(values: npt.NDArray[np.int64], size: int, after: int) -> Bag:
    """What a loop over the elements emits from this one on: at each the group that it belongs to."""
    counts = Counter(values[max(0, after - size) : after].tolist())
    found: Bag = Counter()
    for n in range(after, len(values)):
        came = int(values[n])
        counts[came] += 1
        if n >= size:
            counts[int(values[n - size])] -= 1
        found["1", f"<{EX}v{came}>", f'"{counts[came]}"^^<http://www.w3.org/2001/XMLSchema#integer>'] += 1
    return found


def _at_arrivals(folder: Path, data: Source, text: str, triples: int, expected: Callable[[int], Bag]) -> Figures:
    """The last batch is compared: `expected` has what is emitted from so many elements of each stream on."""
    tape = Tape(data, tuple(data.streams))
    batches = tape.as_recorded(triples)
    replay = Replay(folder, data, tape, batches, interleaved=True)
    stepped = replay.run([text], retained=(len(batches) - 1,))
    before = sum(len(batch.time) for batch in batches[:-1]) // len(data.streams)
    rows = compared(rows_of(replay, stepped[-1]), expected(before))
    state = replay.state_bytes()
    replay.close()
    steady = stepped[-_LAST:]
    cpu = sum(each.cpu for each in steady)
    return {
        "triples_per_cpu_s": round(sum(len(batch.time) for batch in batches[-_LAST:]) / cpu),
        "rows": sum(sum(each.rows) for each in steady), "evaluations": sum(each.evaluations for each in steady),
        "state_mb": round(state / 1e6, 1), "checked_rows": rows,
    }  # fmt: skip


# ---- joined with what is stored ---------------------------------------------------------------------------------

#: So many mappings are stored at once.
_AT_ONCE = 250_000


def _with_stored(stored: int, triples: int, folder: Path) -> Figures:
    """Each element of a window of a second is joined with one of so many stored mappings, which it finds by a random
    key."""
    _store_mappings(folder, stored)
    chance = np.random.default_rng(7)
    keys = chance.integers(0, stored, 12 * triples)
    lines = [(n, f"<{EX}s{n}> <{EX}at> <{EX}k{key}>".encode()) for n, key in enumerate(keys.tolist())]
    data = Source("made", NOTHING_STORED, {"s": lines})
    asked = Asked("SELECT ?s ?v", f"?s <{EX}at> ?k . ?k <{EX}is> ?v", ("s",))
    tape = Tape(data, asked.streams)
    batches = tape.dense(triples, 12, 1_000)
    replay = Replay(folder, data, tape, batches)
    stepped = replay.run([asked.text("q", "RANGE 1s STEP 1s")], retained=(len(batches) - 1,))
    (part,) = [part for part in stepped[-1].answered if part.columns]
    expected: Bag = Counter(
        ("1", f"<{EX}s{n}>", f"<{EX}v{_value_of(int(keys[n]))}>") for n in _elements(batches, part.time)
    )
    rows = compared(rows_of(replay, stepped[-1]), expected)
    replay.close()
    return {"stored": stored, **measured(stepped, batches), "checked_rows": rows}


def _elements(batches: list[Batch], close: int) -> Iterator[int]:
    """The numbers of the elements of the second before this close."""
    number = 0
    for batch in batches:
        for time in batch.time.tolist():
            if close - 1_000 <= time < close:
                yield number
            number += 1


def _value_of(key: int) -> int:
    return key * 7 % 100_003


def _store_mappings(folder: Path, count: int) -> None:
    store = hbase_store.open(f"lmdb:{folder}", folding=False)
    for first in range(0, count, _AT_ONCE):
        keys = range(first, min(count, first + _AT_ONCE))
        batch = store.begin()
        subjects = batch.encode([f"<{EX}k{key}>".encode() for key in keys])
        (predicate,) = batch.encode([f"<{EX}is>".encode()]).tolist()
        objects = batch.encode([f"<{EX}v{_value_of(key)}>".encode() for key in keys])
        batch.insert(subjects, predicate, objects, 0)
        store.commit(batch)
    store.fold()
    store.close()


# ---- many queries -----------------------------------------------------------------------------------------------


def cloud_7(quick: bool) -> Measures:
    return {
        f"{name}_{count}": partial(_many, quick, name, count)
        for name in ("Q1", "Q4", "Q5", "Q10")
        for count in ((10,) if quick else (10, 100, 1_000, 10_000))
    }


def _many(quick: bool, name: str, count: int, folder: Path) -> Figures:
    """Q1 about other people; the others over windows of 1 to 60 seconds."""
    triples = {"Q4": 260, "Q5": 1_300}.get(name, A_BATCH if count <= 100 else A_BATCH // 10)
    asked = [QUESTIONS[name].about(f"sibu:u{n}") for n in range(count)]
    windows = [1_000 if name == "Q1" else 1_000 * (1 + n % 60) for n in range(count)]
    closes = 8 if quick else 64 if count <= 100 else 24 if count <= 1_000 else 8
    return asked_at_closes(folder, posts(quick), asked, windows, triples, closes)
