"""What the benchmarks of the papers have in common: queries over a replay, what they took, and what was checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tests.benchmarks.replay import Bag, Replay, Stepped, observed
from tests.benchmarks.stream_questions import QUESTIONS, Asked
from tests.benchmarks.tape import Batch, Source, Tape, source

Figures = dict[str, Any]
#: By name: what is measured with a store in this folder.
Measures = Mapping[str, Callable[[Path], Figures]]

A_BATCH = 13_000
EX = "http://e/"
#: A store with hardly anything.
NOTHING_STORED = [f"<{EX}x> <{EX}y> <{EX}z>".encode()]


@lru_cache(maxsize=1)
def posts(quick: bool) -> Source:
    """LSBench's data, or our own."""
    return source(500 if quick else 5_000, shared=False if quick else None)


def measured(stepped: Sequence[Stepped], batches: Sequence[Batch]) -> Figures:
    """Of the second half of the batches."""
    found, half = observed(stepped, batches), len(stepped) // 2
    kept = ("batches", "triples_a_batch", "evaluations", "batch_ms_p50", "batch_ms_p99", "batch_cpu_ms_p50")
    triples, cpu_s = sum(len(batch.time) for batch in batches[half:]), sum(each.cpu for each in stepped[half:])
    return {
        "triples_per_cpu_s": round(triples / cpu_s),
        "rows": sum(sum(each.rows) for each in stepped[half:]),
        **{name: found[name] for name in kept},
    }


def asked_at_closes(
    folder: Path, data: Source, asked: Sequence[Asked], windows: Sequence[int], triples: int, closes: int
) -> Figures:
    """These queries, each over a window of so many milliseconds, a close a second; a few of them are checked."""
    streams = tuple(dict.fromkeys(stream for each in asked for stream in each.streams))
    tape = Tape(data, streams)
    batches = tape.dense(triples, closes, 1_000)
    replay = Replay(folder, data, tape, batches)
    texts = [
        each.text(f"q{number}", f"RANGE {range_ms}ms STEP 1s")
        for number, (each, range_ms) in enumerate(zip(asked, windows, strict=True))
    ]
    stepped = replay.run(texts, retained=(closes - 1,))
    some = sorted({0, len(texts) // 2, len(texts) - 1})
    rows = [replay.check(asked[n], stepped[-1], windows[n], n + 1).rows for n in some]
    replay.close()
    return {"queries": len(texts), **measured(stepped, batches), "checked": len(rows), "checked_rows": sum(rows)}


def varied(name: str, count: int) -> list[Asked]:
    """The same about other people, where it is about somebody."""
    return [
        replace(QUESTIONS[name], pattern=QUESTIONS[name].pattern.replace("p984", f"p{n}").replace("u984", f"u{n}"))
        for n in range(count)
    ]


def rows_of(replay: Replay, stepped: Stepped) -> Bag:
    """All that was emitted in a step: the number of the query, and its row."""
    found: Bag = Counter()
    for part in stepped.answered:
        if not part.columns:
            continue
        ids = sorted({each for column in part.columns for each in column.tolist()})
        texts = dict(zip(ids, replay.texts(part, ids), strict=True))
        whose = part.queries[part.whose].tolist() if part.is_shared else [part.query] * len(part.columns[0])
        rows = zip(*([texts[each] for each in column.tolist()] for column in part.columns), strict=True)
        found.update((str(query), *row) for query, row in zip(whose, rows, strict=True))
    return found


def compared(found: Bag, expected: Bag) -> int:
    """How many rows were compared."""
    if found != expected:
        few = list((found - expected).items())[:3], list((expected - found).items())[:3]
        raise AssertionError(f"{found.total()} rows, a model has {expected.total()}; too many and missing: {few}")
    return found.total()
