"""What the papers on CQELS measured, as far as one machine can: their figures, beside ours.

    plus_5       CQELS+ (2017), figure 5: LSBench's Q2, Q3, Q5, Q6, asked by 1 to 1,000; the same texts, or varied
    plus_400     section 4.2: 400 queries, of four kinds mixed
    plus_7       figure 7: 400 queries over 3 to 60 streams
    plus_8       figure 8: what it takes to register 400 queries, one after the other
    cloud_6      CQELS Cloud (2013), figure 6: 10,000 and 100,000 patterns; a 5-way join; a large group; a large store
    cloud_7      figure 7: Q1, Q4, Q5, Q10, asked by 10 to 10,000 with other constants and windows
    cqels_exp3   CQELS (2011), experiment 3: Q1, Q3, Q4 of the conference, asked by 1 to 1,024

The papers' machines had 4 cores of 2012, their windows were evaluated at arrivals; ours is one core, and evaluates at
closes unless it says so. What is compared with an oracle says so (`checked`). Throughput is triples for a second of
CPU.

python -m tests.benchmarks.papers PART...    some parts only"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from stream_ext.clock import SystemClock
from stream_ext.service.service import Limits, Service
from tests.benchmarks.replay import Replay, Stepped, observed
from tests.benchmarks.stream_questions import QUESTIONS, Asked
from tests.benchmarks.tape import Batch, Source, Tape, source

Figures = dict[str, Any]
#: The figures of the papers; of those that are pictures only, what their text says. Triples a second.
PAPER: dict[str, Any] = {
    "plus_5": {"Q2_1000": 60_000, "Q3_1000": 60_000, "Q5_1000": 2_300, "Q6_1000": 1_300, "cqels_Q5_25": 2_200},
    "plus_400": {"latency_s_1_instance": 4.5},
    "plus_7": "latency rises with the streams; with more than 30 the engine often stops responding",
    "plus_8": "figure 8, a picture: grows with the number of queries",
    "cloud_6": "10,000 patterns and the group: more than 100,000 inputs/s on 8 nodes",
    "cloud_7": {"Q4_Q10_10_queries": 24_000, "Q4_Q10_100_queries": 21_000, "nodes": 32},
    "cqels_exp3": "1,000 queries: about one second for each evaluation",
}
_A_BATCH, _MINUTE_MS = 13_000, 60_000
_EX = "http://e/"


def run(quick: bool, only: Sequence[str] = ()) -> Figures:
    """`only`: these parts; none: all of them."""
    data = source(500 if quick else 5_000, shared=False if quick else None)
    parts: dict[str, Callable[[Path], Figures]] = {
        "plus_5": partial(plus_5, data, quick),
        "plus_400": partial(plus_400, data, quick),
        "plus_7": partial(plus_7, quick),
        "plus_8": partial(plus_8, quick),
        "cloud_6": partial(cloud_6, data, quick),
        "cloud_7": partial(cloud_7, data, quick),
        "cqels_exp3": partial(cqels_exp3, quick),
    }
    figures: Figures = {}
    for part, measure in ((part, parts[part]) for part in only or parts):
        with tempfile.TemporaryDirectory(prefix="rillet-bench-") as folder:
            figures[part] = {**measure(Path(folder)), "paper": PAPER[part]}
        print(part, json.dumps(figures[part]), file=sys.stderr, flush=True)
    return {"source": data.name, **figures}


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    shown = {
        f"{part}_{name}": each["triples_per_cpu_s"]
        for part, found in figures.items()
        if isinstance(found, dict)
        for name, each in found.items()
        if isinstance(each, dict) and "triples_per_cpu_s" in each
    }
    shown["plus_8_ms_p99"] = figures["plus_8"]["register_ms_p99"]
    return " ".join(f"{name}={figure}" for name, figure in shown.items())


def _measured(stepped: Sequence[Stepped], batches: Sequence[Batch]) -> Figures:
    found, half = observed(stepped, batches), len(stepped) // 2
    kept = ("batches", "triples_a_batch", "evaluations", "batch_ms_p50", "batch_ms_p99", "batch_cpu_ms_p50")
    triples, cpu_s = sum(len(batch.time) for batch in batches[half:]), sum(each.cpu for each in stepped[half:])
    return {
        "triples_per_cpu_s": round(triples / cpu_s),
        "rows": sum(sum(each.rows) for each in stepped[half:]),
        **{name: found[name] for name in kept},
    }


def _asked(
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
    found = {"queries": len(texts), **_measured(stepped, batches), "checked": len(rows), "checked_rows": sum(rows)}
    return _shown(folder.name, found)


def _shown(name: str, found: Figures) -> Figures:
    """The figures, printed at once: a part may take long."""
    print(name, json.dumps(found), file=sys.stderr, flush=True)
    return found


def _varied(name: str, count: int) -> list[Asked]:
    """The same about other people, where it is about somebody."""
    return [
        replace(QUESTIONS[name], pattern=QUESTIONS[name].pattern.replace("p984", f"p{n}").replace("u984", f"u{n}"))
        for n in range(count)
    ]


# ---- CQELS+ -----------------------------------------------------------------------------------------------------


def plus_5(data: Source, quick: bool, folder: Path) -> Figures:
    figures: Figures = {}
    for name in ("Q2", "Q3", "Q5", "Q6"):
        has_constants = name in ("Q2", "Q3")
        for count in (1, 10) if quick else (1, 10, 100, 1_000):
            triples = _A_BATCH // (10 if quick or count > 100 else 1)
            closes = 8 if quick else 24 if count <= 10 else 8
            same = [QUESTIONS[name]] * count
            figures[f"{name}_{count}"] = _asked(
                folder / f"{name}{count}", data, same, [10_000] * count, triples, closes
            )
            if count > 1:
                varied = _varied(name, count) if has_constants else same
                windows = [10_000] * count if has_constants else [5_000 + 1_000 * (n % 20) for n in range(count)]
                place = folder / f"{name}{count}varied"
                figures[f"{name}_{count}_varied"] = _asked(place, data, varied, windows, triples, closes)
    return figures


def plus_400(data: Source, quick: bool, folder: Path) -> Figures:
    """Four kinds in turn: Q1, Q2, Q3, Q10; each about somebody else, or over another window."""
    count = 40 if quick else 400
    asked = [_varied(("Q1", "Q2", "Q3", "Q10")[n % 4], n + 1)[n] for n in range(count)]
    windows = [10_000 + 100 * (n // 4) if n % 4 == 3 else 10_000 for n in range(count)]
    return {"mixed_400": _asked(folder / "mixed", data, asked, windows, _A_BATCH // 10, 8 if quick else 24)}


def _roads(streams: int, seconds: int) -> Source:
    """Each second an observation of each road: three triples."""
    chance = np.random.default_rng(1)
    lines = {
        f"road{road}": [
            (1_000 * second, line.encode())
            for second in range(seconds)
            for level in [int(chance.integers(0, 40))]
            for line in (
                f"<{_EX}o{road}.{second}> <{_EX}level> <{_EX}l{level}>",
                f"<{_EX}o{road}.{second}> <{_EX}of> <{_EX}road{road}>",
                f"<{_EX}o{road}.{second}> <{_EX}by> <{_EX}sensor{road % 7}>",
            )
        ]
        for road in range(streams)
    }
    return Source("made", [f"<{_EX}x> <{_EX}y> <{_EX}z>".encode()], lines)


def _road_query(chance: np.random.Generator, streams: int) -> Asked:
    """As CityBench's Q1: the levels of two roads at the same time; of the same level, so that they are few."""
    one, other = (int(each) for each in chance.choice(streams, 2, replace=False))
    pattern = (
        f"?a <{_EX}level> ?l . ?a <{_EX}of> <{_EX}road{one}> . ?b <{_EX}level> ?l . ?b <{_EX}of> <{_EX}road{other}>"
    )
    return Asked("SELECT ?a ?b ?l", pattern, (f"road{one}", f"road{other}"), stored=False)


def plus_7(quick: bool, folder: Path) -> Figures:
    """Latency is the step of a second, of which all queries are told."""
    figures: Figures = {}
    for streams in (3, 5) if quick else (3, 7, 15, 30, 60):
        chance = np.random.default_rng(streams)
        asked = [_road_query(chance, streams) for _ in range(40 if quick else 400)]
        data = _roads(streams, 40)
        tape = Tape(data, tuple(data.streams))
        batches = tape.as_recorded(3 * streams)
        replay = Replay(folder / str(streams), data, tape, batches)
        texts = [each.text(f"q{n}", "RANGE 3s STEP 1s") for n, each in enumerate(asked)]
        stepped = replay.run(texts, retained=(len(batches) - 1,))
        rows = [replay.check(asked[n], stepped[-1], 3_000, n + 1).rows for n in range(0, len(asked), 40)]
        replay.close()
        found = {"queries": len(asked), **_measured(stepped, batches), "checked": len(rows), "checked_rows": sum(rows)}
        figures[f"streams_{streams}"] = _shown(f"streams_{streams}", found)
    return figures


def plus_8(quick: bool, folder: Path) -> Figures:
    """400 queries of the roads, and then 10,000 more: milliseconds each, by the clock."""
    streams, chance = 15, np.random.default_rng(8)
    count, more = (40, 200) if quick else (400, 10_000)
    limits = Limits(queries=count + more)
    with Service.open(
        f"lmdb:{folder / 's'}", base=_EX, clock=SystemClock(), engine="inline", batch_ms=0, limits=limits
    ) as service:
        for road in range(streams):
            service.create_stream(f"road{road}", {"iri": f"http://deri.org/road{road}"})
        took = [
            _registered(service, _road_query(chance, streams).text(f"q{n}", "RANGE 3s STEP 1s")) for n in range(count)
        ]
        texts = (_road_query(chance, streams).text(f"m{n}", "RANGE 3s STEP 1s") for n in range(more))
        later = [_registered(service, text) for text in texts]
        registered = len(service.queries())
    if registered != count + more:
        raise AssertionError(f"{registered} queries are registered, not {count + more}")
    last = sorted(later[-min(len(later), 1_000) :])
    return {
        "queries": count, "register_ms_p50": round(statistics.median(took), 2), "register_ms_max": round(max(took), 1),
        "seconds": round(sum(took) / 1e3, 2), "present": registered,
        "later_ms_p50": round(statistics.median(last), 2), "register_ms_p99": round(last[int(len(last) * 0.99)], 2),
    }  # fmt: skip


def _registered(service: Service, text: str) -> float:
    began = time.perf_counter()
    service.register(text)
    return (time.perf_counter() - began) * 1e3


# ---- CQELS Cloud ------------------------------------------------------------------------------------------------


def cloud_6(data: Source, quick: bool, folder: Path) -> Figures:
    figures: Figures = {}
    for count in (100,) if quick else (10_000, 100_000):
        asked = [QUESTIONS["Q1"].about(f"sibu:u{n}") for n in range(count)]
        figures[f"patterns_{count}"] = _asked(folder / f"p{count}", data, asked, [1_000] * count, _A_BATCH, 8)
    figures["join_5"] = _join(folder / "join", 1_000 if quick else 100_000, 1_000 if quick else 26_000)
    figures["group"] = _group(folder / "group", 2_000 if quick else 1_000_000, 1_000 if quick else 26_000)
    for stored in (20_000,) if quick else (1_000_000, 10_000_000):
        place = folder / f"stored{stored}"
        figures[f"stored_{stored}"] = _beside_stored(place, stored, 1_300 if quick else _A_BATCH)
    return figures


def _join(folder: Path, size: int, triples: int) -> Figures:
    """Five windows of the last `size` triples; of each element, one of a hundred has a partner in another window."""
    chance, ways = np.random.default_rng(5), 5
    count = size + 4 * triples // ways
    streams = {
        f"s{way}": [
            (1_000_000 + n, f"<{_EX}k{key}> <{_EX}p{way}> <{_EX}v{way}.{n}>".encode())
            for n, key in enumerate(chance.integers(0, 100 * size, count).tolist())
        ]
        for way in range(ways)
    }
    data = Source("made", [f"<{_EX}x> <{_EX}y> <{_EX}z>".encode()], streams)
    parts = " ".join(
        f"STREAM <http://deri.org/s{way}> [TRIPLES {size}] {{ ?k <{_EX}p{way}> ?v{way} }}" for way in range(ways)
    )
    return _at_arrivals(folder, data, f"REGISTER QUERY q AS SELECT * WHERE {{ {parts} }}", triples, lambda lines: None)


def _group(folder: Path, size: int, triples: int) -> Figures:
    """A count by one of a thousand values over the last `size` triples; the last counts are compared."""
    chance = np.random.default_rng(6)
    values = chance.integers(0, 1_000, size + 6 * triples).tolist()
    lines = [(1_000_000 + n, f"<{_EX}s{n}> <{_EX}p> <{_EX}v{value}>".encode()) for n, value in enumerate(values)]
    data = Source("made", [f"<{_EX}x> <{_EX}y> <{_EX}z>".encode()], {"s": lines})
    text = (
        f"REGISTER QUERY q AS SELECT ?v (COUNT(?s) AS ?n) WHERE {{ STREAM <http://deri.org/s> "
        f"[TRIPLES {size}] {{ ?s <{_EX}p> ?v }} }} GROUP BY ?v"
    )
    last = values[-1]
    expected = (f"<{_EX}v{last}>", f'"{Counter(values[-size:])[last]}"^^<http://www.w3.org/2001/XMLSchema#integer>')
    return _at_arrivals(folder, data, text, triples, lambda bag: _is_in(expected, bag))


def _is_in(expected: tuple[str, ...], bag: Counter[tuple[str, ...]]) -> None:
    if expected not in bag:
        raise AssertionError(f"{expected} is not among {list(bag)[:5]}")


def _at_arrivals(
    folder: Path, data: Source, text: str, triples: int, check: Callable[[Counter[tuple[str, ...]]], None]
) -> Figures:
    tape = Tape(data, tuple(data.streams))
    batches = tape.as_recorded(triples)
    replay = Replay(folder, data, tape, batches, interleaved=True)
    stepped = replay.run([text], retained=(len(batches) - 1,))
    answered = [part for part in stepped[-1].answered if part.query == 1 and part.columns]
    if answered:
        check(sum((replay.bag(part, part.columns) for part in answered), Counter()))
    state = replay.state_bytes()
    replay.close()
    steady = stepped[-3:]
    cpu = sum(each.cpu for each in steady)
    told = sum(len(batch.time) for batch in batches[-3:])
    found = {
        "triples_per_cpu_s": round(told / cpu), "rows": sum(sum(each.rows) for each in steady),
        "evaluations": sum(each.evaluations for each in steady), "state_mb": round(state / 1e6, 1),
    }  # fmt: skip
    return _shown(folder.name, found)


def _beside_stored(folder: Path, stored: int, triples: int) -> Figures:
    """Q3 without its person: each post joined with who knows its author, of so many stored triples."""
    data = source(500 if stored < 1_000_000 else 5_000, shared=False)
    asked = Asked("SELECT ?friend ?post", "?friend sioc:creator_of ?post . ?friend foaf:knows ?user", ("poststream",))
    tape = Tape(data, asked.streams)
    batches = tape.dense(triples, 8, 1_000)
    replay = Replay(folder, data, tape, batches, stored=stored)
    stepped = replay.run([asked.text("q", "RANGE 1s STEP 1s")], retained=(len(batches) - 1,))
    rows = replay.check(asked, stepped[-1], 1_000).rows
    replay.close()
    return _shown(folder.name, {"stored": stored, **_measured(stepped, batches), "checked": 1, "checked_rows": rows})


def cloud_7(data: Source, quick: bool, folder: Path) -> Figures:
    figures: Figures = {}
    for name in ("Q1", "Q4", "Q5", "Q10"):
        for count in (10,) if quick else (10, 100, 1_000, 10_000):
            if count == 10_000 and name in ("Q4", "Q5"):
                continue  # a minute and more for each close
            triples = {"Q4": 260, "Q5": 1_300}.get(name, _A_BATCH if count <= 100 else _A_BATCH // 10)
            asked = [QUESTIONS[name].about(f"sibu:u{n}") for n in range(count)]
            varied = [1_000 if name == "Q1" else 1_000 * (1 + n % 60) for n in range(count)]
            closes = 8 if count <= 1_000 else 4
            figures[f"{name}_{count}"] = _asked(folder / f"{name}{count}", data, asked, varied, triples, closes)
    return figures


# ---- CQELS ------------------------------------------------------------------------------------------------------

_AUTHOR = '?auth <{e}name> "name {n}"'
_CONFERENCE = {
    "Q1": (
        "SELECT ?loc ?d", "STREAM <http://deri.org/rfid> [NOW] {{ ?auth <{e}at> ?loc }} ?loc <{e}desc> ?d . " + _AUTHOR,
    ),
    "Q3": (
        "SELECT ?name",
        "STREAM <http://deri.org/rfid> [TRIPLES 1] {{ ?auth <{e}at> ?loc }} "
        "STREAM <http://deri.org/rfid> [RANGE 5s] {{ ?co <{e}at> ?loc }} "
        "?paper <{e}creator> ?auth . ?paper <{e}creator> ?co . ?co <{e}name> ?name . "
        + _AUTHOR + " FILTER(?auth != ?co)",
    ),
    "Q4": (
        "SELECT ?name",
        "STREAM <http://deri.org/rfid> [TRIPLES 1] {{ ?auth <{e}at> ?loc1 }} "
        "STREAM <http://deri.org/rfid> [RANGE 15s] {{ ?ed <{e}at> ?loc2 }} ?loc1 <{e}connected> ?loc2 . "
        "?paper <{e}creator> ?auth . ?paper <{e}partOf> ?book . ?book <{e}editor> ?ed . ?ed <{e}name> ?name . "
        + _AUTHOR,
    ),
}  # fmt: skip


def _conference(people: int, papers: int, moves: int) -> Source:
    """Papers of three authors in books with an editor; badges at 30 places, ten a second."""
    chance = np.random.default_rng(11)
    stored = [f'<{_EX}a{n}> <{_EX}name> "name {n}"' for n in range(people)]
    for paper in range(papers):
        stored += [f"<{_EX}p{paper}> <{_EX}creator> <{_EX}a{n}>" for n in chance.choice(people, 3, replace=False)]
        stored.append(f"<{_EX}p{paper}> <{_EX}partOf> <{_EX}b{paper % 200}>")
    stored += [f"<{_EX}b{book}> <{_EX}editor> <{_EX}a{int(chance.integers(people))}>" for book in range(200)]
    stored += [f'<{_EX}l{place}> <{_EX}desc> "place {place}"' for place in range(30)]
    stored += [f"<{_EX}l{place}> <{_EX}connected> <{_EX}l{(place + by) % 30}>" for place in range(30) for by in (1, 29)]
    badges = zip(chance.integers(0, 200, moves).tolist(), chance.integers(0, 30, moves).tolist(), strict=True)
    lines = [(100 * n, f"<{_EX}a{who}> <{_EX}at> <{_EX}l{place}>".encode()) for n, (who, place) in enumerate(badges)]
    return Source("made", [line.encode() for line in stored], {"rfid": lines})


def cqels_exp3(quick: bool, folder: Path) -> Figures:
    """Milliseconds for each arrival and query, and rows; those of Q1 are counted by a plain loop, too."""
    figures: Figures = {}
    data = _conference(200 if quick else 2_000, 500 if quick else 20_000, 600 if quick else 2_000)
    for name, (select, pattern) in _CONFERENCE.items():
        for exponent in (0, 3) if quick else (0, 4, 7, 10):
            count = 1 << exponent
            tape = Tape(data, ("rfid",))
            batches = tape.as_recorded(100)
            replay = Replay(folder / f"{name}{count}", data, tape, batches, interleaved=True)
            texts = [
                f"REGISTER QUERY q{n} AS {select} WHERE {{ {pattern.format(e=_EX, n=n % 200)} }}" for n in range(count)
            ]
            stepped = replay.run(texts, retained=())
            replay.close()
            rows = sum(sum(each.rows) for each in stepped)
            if name == "Q1" and rows != (expected := _seen(data.streams["rfid"], count)):
                raise AssertionError(f"Q1 of {count} emitted {rows} rows, and a loop over the moves {expected}")
            ms = round(sum(each.cpu for each in stepped) * 1e3 / len(data.streams["rfid"]), 4)
            found = {**_measured(stepped, batches), "rows": rows, "ms_an_arrival": ms}
            figures[f"{name}_{count}"] = _shown(f"{name}_{count}", found)
    return figures


def _seen(moves: Iterable[tuple[int, bytes]], count: int) -> int:
    """How often one of the first `count` people (each of 200 as often as somebody asks) is somewhere."""
    asks = Counter(n % 200 for n in range(count))
    return sum(asks[int(line.split(b" ")[0].removeprefix(f"<{_EX}a".encode())[:-1])] for _, line in moves)


if __name__ == "__main__":
    print(json.dumps(run(False, sys.argv[1:])))
