"""What CQELS+ (2017) measured: copies and variants of LSBench's questions, many streams, registration."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from stream_ext.clock import SystemClock
from stream_ext.service.service import Limits, Service
from tests.benchmarks.papers_replay import (
    A_BATCH,
    EX,
    NOTHING_STORED,
    Figures,
    Measures,
    asked_at_closes,
    measured,
    posts,
    varied,
)
from tests.benchmarks.replay import Replay
from tests.benchmarks.stream_questions import QUESTIONS, Asked
from tests.benchmarks.tape import Source, Tape


def plus_5(quick: bool) -> Measures:
    found: dict[str, Callable[[Path], Figures]] = {}
    for name in ("Q2", "Q3", "Q5", "Q6"):
        for count in (1, 10) if quick else (1, 10, 100, 1_000):
            found[f"{name}_{count}"] = partial(_copies, quick, name, count, False)
            if count > 1:
                found[f"{name}_{count}_varied"] = partial(_copies, quick, name, count, True)
    return found


def _copies(quick: bool, name: str, count: int, are_varied: bool, folder: Path) -> Figures:
    triples = A_BATCH // (10 if quick or count > 100 else 1)
    closes = 8 if quick else 24  # windows are full for the second half
    has_constants = name in ("Q2", "Q3")
    asked = varied(name, count) if are_varied and has_constants else [QUESTIONS[name]] * count
    windows = [5_000 + 1_000 * (n % 20) if are_varied and not has_constants else 10_000 for n in range(count)]
    return asked_at_closes(folder, posts(quick), asked, windows, triples, closes)


def plus_400(quick: bool) -> Measures:
    return {"mixed_400": partial(_mixed, quick)}


def _mixed(quick: bool, folder: Path) -> Figures:
    """Four kinds in turn: Q1, Q2, Q3, Q10; each about somebody else, or over another window."""
    count = 40 if quick else 400
    asked = [varied(("Q1", "Q2", "Q3", "Q10")[n % 4], n + 1)[n] for n in range(count)]
    windows = [10_000 + 100 * (n // 4) if n % 4 == 3 else 10_000 for n in range(count)]
    return asked_at_closes(folder, posts(quick), asked, windows, A_BATCH // 10, 8 if quick else 24)


# ---- many streams -----------------------------------------------------------------------------------------------


def plus_7(quick: bool) -> Measures:
    """Latency is the step of a second, of which all queries are told."""
    found: dict[str, Callable[[Path], Figures]] = {
        f"streams_{n}": partial(_over_roads, quick, n) for n in ((3, 5) if quick else (3, 7, 15, 30, 60, 120, 240))
    }
    for streams, queries in ((3, 10),) if quick else ((15, 200), (60, 600), (120, 1_500)):
        found[f"pushed_{streams}"] = partial(_pushed, streams, queries)
    return found


def _over_roads(quick: bool, streams: int, folder: Path) -> Figures:
    chance = np.random.default_rng(streams)
    asked = [road_query(chance, streams) for _ in range(40 if quick else 400)]
    data = _roads(streams, 20)
    tape = Tape(data, tuple(data.streams))
    batches = tape.as_recorded(3 * streams)
    replay = Replay(folder, data, tape, batches)
    stepped = replay.run([each.text(f"q{n}", "RANGE 3s STEP 1s") for n, each in enumerate(asked)], retained=(19,))
    rows = [replay.check(asked[n], stepped[-1], 3_000, n + 1).rows for n in range(0, len(asked), 40)]
    replay.close()
    pairs = len({frozenset(each.streams) for each in asked})
    found = {"queries": len(asked), "pairs_of_streams": pairs, **measured(stepped, batches)}
    return {**found, "checked": len(rows), "checked_rows": sum(rows)}


def _pushed(streams: int, queries: int, folder: Path) -> Figures:
    """CPU milliseconds of a push to one of the roads, all threads: with no close due, and with those of a second."""
    chance = np.random.default_rng(8)
    with Service.open(
        f"lmdb:{folder}", base=EX, clock=SystemClock(), engine="inline", batch_ms=0, limits=Limits(queries=queries)
    ) as service:
        roads = [f"road{road}" for road in range(streams)]
        for road in roads:
            service.create_stream(road, {"iri": f"http://deri.org/{road}"})
        for n in range(queries):
            service.register(road_query(chance, streams).text(f"q{n}", "RANGE 3s STEP 1s"))

        def pushed_ms(road: str, time_ms: int) -> float:
            worked = time.process_time()
            lines = f"<{EX}o> <{EX}level> <{EX}l7> .\n<{EX}o> <{EX}of> <{EX}{road}> ."
            service.push(road, lines.encode(), "application/n-triples", timestamp=time_ms, wait="evaluated")
            return (time.process_time() - worked) * 1e3

        seconds = [[pushed_ms(road, 1_000_000 + 1_000 * second) for road in roads] for second in range(3)]
        nothing_due = [pushed_ms(roads[0], 1_002_000 + n) for n in range(60)]
    return {
        "queries": queries, "streams": streams,
        "nothing_due_cpu_ms_p50": round(statistics.median(nothing_due), 2),
        "of_a_second_cpu_ms_mean": round(statistics.mean(seconds[-1]), 2),
    }  # fmt: skip


def _roads(streams: int, seconds: int) -> Source:
    """Each second an observation of each road: three triples."""
    chance = np.random.default_rng(1)
    lines = {
        f"road{road}": [
            (1_000 * second, line.encode())
            for second in range(seconds)
            for level in [int(chance.integers(0, 40))]
            for line in (
                f"<{EX}o{road}.{second}> <{EX}level> <{EX}l{level}>",
                f"<{EX}o{road}.{second}> <{EX}of> <{EX}road{road}>",
                f"<{EX}o{road}.{second}> <{EX}by> <{EX}sensor{road % 7}>",
            )
        ]
        for road in range(streams)
    }
    return Source("made", NOTHING_STORED, lines)


def road_query(chance: np.random.Generator, streams: int) -> Asked:
    """As CityBench's Q1: the levels of two roads at the same time; of the same level, so that they are few."""
    one, other = (int(each) for each in chance.choice(streams, 2, replace=False))
    pattern = f"?a <{EX}level> ?l . ?a <{EX}of> <{EX}road{one}> . ?b <{EX}level> ?l . ?b <{EX}of> <{EX}road{other}>"
    return Asked("SELECT ?a ?b ?l", pattern, (f"road{one}", f"road{other}"), stored=False)


# ---- registration -----------------------------------------------------------------------------------------------


def plus_8(quick: bool) -> Measures:
    return {"registered": partial(_registered, quick)}


def _registered(quick: bool, folder: Path) -> Figures:
    """400 queries of the roads, and then 10,000 more: milliseconds each, by the clock and of CPU (all threads)."""
    streams, chance = 15, np.random.default_rng(8)
    count, more = (40, 200) if quick else (400, 10_000)
    limits = Limits(queries=count + more)
    with Service.open(
        f"lmdb:{folder}", base=EX, clock=SystemClock(), engine="inline", batch_ms=0, limits=limits
    ) as service:
        for road in range(streams):
            service.create_stream(f"road{road}", {"iri": f"http://deri.org/road{road}"})
        texts = [road_query(chance, streams).text(f"q{n}", "RANGE 3s STEP 1s") for n in range(count + more)]
        took, cpu_ms = zip(*(_register(service, text) for text in texts), strict=True)
        registered = len(service.queries())
    if registered != count + more:
        raise AssertionError(f"{registered} queries are registered, not {count + more}")
    size = min(more, 1_000)
    last, last_cpu = sorted(took[-size:]), sorted(cpu_ms[-size:])
    return {
        "queries": count, "register_ms_p50": round(statistics.median(took[:count]), 2),
        "register_ms_max": round(max(took[:count]), 1), "seconds": round(sum(took[:count]) / 1e3, 2),
        "present": registered,
        "later_ms_p50": round(statistics.median(last), 2), "register_ms_p99": round(last[int(size * 0.99)], 2),
        "later_cpu_ms_p50": round(statistics.median(last_cpu), 2),
        "register_cpu_ms_p99": round(last_cpu[int(size * 0.99)], 2),
        "cpu_s": round(sum(cpu_ms) / 1e3, 2),
    }  # fmt: skip


def _register(service: Service, text: str) -> tuple[float, float]:
    began, worked = time.perf_counter(), time.process_time()
    service.register(text)
    return (time.perf_counter() - began) * 1e3, (time.process_time() - worked) * 1e3
