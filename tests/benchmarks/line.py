"""The line, measured end to end: load, publish, join, push to subscriber, start-up, memory. One run, one machine.

Times are of this machine and this moment; the ratios (Spark over inline, new terms over known ones) travel better."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.benchmarks.server import Server, tree_rss_mb

Figures = dict[str, Any]

QUERY = """PREFIX ex: <http://ex/>
REGISTER RSTREAM near AS
SELECT ?taxi ?zone ?city
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE 1s STEP 100ms]
WHERE { WINDOW ex:w { ?taxi ex:in ?zone } ?zone ex:partOf ?city }"""


def run(quick: bool) -> Figures:
    """All figures, by name."""
    figures: Figures = {}
    with tempfile.TemporaryDirectory(prefix="rillet-bench-") as name:
        folder, pushes = Path(name), 200 if quick else 2000
        parts: dict[str, Callable[[], Figures]] = {
            "load": partial(load, folder, 100_000 if quick else 1_000_000),
            "publish": partial(publish, folder, 200 if quick else 2000),
            "w1": partial(window_join, 60 if quick else 400),
            "inline": partial(push_to_subscriber, folder, "inline", pushes),
            "spark": partial(push_to_subscriber, folder, "spark", pushes),
        }
        for part, measure in parts.items():
            print(f"{part} ...", end=" ", flush=True, file=sys.stderr)
            figures[part] = measure()
            print(json.dumps(figures[part]), file=sys.stderr)
    figures["spark_over_inline"] = round(figures["spark"]["push_ms_p50"] / figures["inline"]["push_ms_p50"], 2)
    return figures


def summary(figures: Figures) -> str:
    """The last line: name=figure name=figure."""
    return (
        f"load_lines_per_s={figures['load']['lines_per_s']} publish_ms_p50={figures['publish']['small_ms_p50']} "
        f"w1_melements_per_s={figures['w1']['melements_per_s']} inline_push_ms_p50={figures['inline']['push_ms_p50']} "
        f"spark_push_ms_p50={figures['spark']['push_ms_p50']} spark_over_inline={figures['spark_over_inline']}"
    )


# ---- the store ---------------------------------------------------------------------------------------------


def social_lines(count: int) -> Iterator[str]:
    """A small social graph: people who know one another, live in a city, have an age."""
    import random

    chance = random.Random(1)
    people = max(10, count // 6)
    for i in range(count):
        who = i % people
        kind = i // people
        if kind == 0:
            yield f"<http://ex/person{who}> <http://ex/livesIn> <http://ex/city{who % 500}> ."
        elif kind == 1:
            age = f'"{18 + who % 70}"^^<http://www.w3.org/2001/XMLSchema#integer>'
            yield f"<http://ex/person{who}> <http://ex/age> {age} ."
        else:
            yield f"<http://ex/person{who}> <http://ex/knows> <http://ex/person{chance.randrange(people)}> ."


def load(folder: Path, lines: int) -> Figures:
    import subprocess

    source, target = folder / "social.nt", folder / "loaded"
    source.write_text("\n".join(social_lines(lines)) + "\n")
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "endpoint", "load", str(source), "--store", f"lmdb:{target}"],
        check=True,
        capture_output=True,
    )
    seconds = time.perf_counter() - started
    bytes_on_disk = sum(f.stat().st_size for f in target.rglob("*") if f.is_file())
    return {
        "lines": lines,
        "wall_s": round(seconds, 2),
        "lines_per_s": round(lines / seconds),
        "mb_on_disk": round(bytes_on_disk / 1e6, 1),
    }


def publish(folder: Path, batches: int) -> Figures:
    """What one publish costs through the store's own face: small batches, then 10,000 edges of known and new terms."""
    import numpy as np

    import hbase_store

    store = hbase_store.open(f"lmdb:{folder / 'publish'}")
    texts = [b"<http://ex/n%d>" % i for i in range(20_000)]

    def commit(terms: list[bytes]) -> float:
        began = time.perf_counter()
        batch = store.begin()
        ids = batch.encode(terms)
        predicate = np.full(len(ids), batch.encode([b"<http://ex/p>"])[0], np.uint64)
        batch.insert(ids, predicate, np.roll(ids, 1), np.zeros(len(ids), np.uint64))
        store.commit(batch)
        return (time.perf_counter() - began) * 1e3

    new = commit(texts[:10_000])
    known = [commit(texts[:10_000]) for _ in range(5)]
    small = sorted(commit(texts[i : i + 10]) for i in range(batches))
    store.close()
    return {
        "small_ms_p50": round(statistics.median(small), 3),
        "small_ms_p99": round(small[int(len(small) * 0.99)], 3),
        "edges_10k_known_ms": round(statistics.median(known), 2),
        "edges_10k_new_ms": round(new, 2),
    }


# ---- the network -------------------------------------------------------------------------------------------


def window_join(batches: int) -> Figures:
    """W1: two windows of 10 batches, 5,000 + 5,000 new elements a batch, keys in 100,000; windows, join and R2S.

    The emitted pairs are compared with a plain numpy join of each batch before a time is given."""
    import numpy as np

    from stream_ext.language.algebra.algebra import R2S, Query
    from stream_ext.language.syntax import parse
    from stream_ext.network.inputs import NetworkInputs
    from stream_ext.network.network import Network
    from stream_ext.network.operators.core.moment import Moment
    from stream_ext.plan.pipeline import logic_of
    from stream_ext.windows.arrivals import Arrival
    from stream_ext.windows.scheduled_window import ScheduledWindow

    rows, keys, span = 5_000, 100_000, 10
    text = """PREFIX : <http://ex/> SELECT ISTREAM ?k ?a ?b
      FROM NAMED WINDOW :w1 ON STREAM :s1 [RANGE 10ms STEP 1ms]
      FROM NAMED WINDOW :w2 ON STREAM :s2 [RANGE 10ms STEP 1ms]
      WHERE { WINDOW :w1 { ?k :a ?a } WINDOW :w2 { ?k :b ?b } }"""
    query = parse(text, "http://ex/")
    assert isinstance(query, Query)
    predicates = {b"<http://ex/a>": 1, b"<http://ex/b>": 2}
    windows = {f"http://ex/w{n}": ScheduledWindow(f"http://ex/w{n}", n, span, 1) for n in (1, 2)}

    def encode(texts: Sequence[bytes]) -> Any:
        return np.array([predicates[text] for text in texts], np.uint64)

    network = Network.of_query(logic_of(query), NetworkInputs(None, encode, windows), R2S.ISTREAM)  # type: ignore[arg-type]  # no pattern reads the store
    chance = np.random.default_rng(20261118)
    made = [[_side(chance, rows, keys, b, side) for side in (1, 2)] for b in range(batches)]
    seconds: list[float] = []
    for b, sides in enumerate(made):
        began = time.perf_counter()
        for stream, (k, value) in enumerate(sides, 1):
            times, no_graph = np.full(rows, b, np.int64), np.zeros(rows, np.uint64)
            element = np.arange(rows, dtype=np.int32)
            columns = (k, np.full(rows, stream, np.uint64), value, no_graph, times, element)
            network.arrive(Arrival(b + 1, 0, stream, times, *columns, b, None, False))
        emitted, weights = network.step(Moment(b + 1, None, None))  # type: ignore[arg-type]  # as above
        seconds.append(time.perf_counter() - began)
        _check_pairs(made, b, span, int(weights.sum()), _checksum(emitted))
    steady = sorted(seconds[span:])
    middle = statistics.median(steady)
    return {
        "batches": batches,
        "batch_ms_p50": round(middle * 1e3, 2),
        "batch_ms_p99": round(steady[int(len(steady) * 0.99)] * 1e3, 2),
        "melements_per_s": round(2 * rows / middle / 1e6, 2),
        "checked": "number and checksum of the new pairs of each batch",
    }


def _no_terms(ids: Any) -> list[bytes]:
    raise AssertionError("W1 decodes nothing")


def _side(chance: Any, rows: int, keys: int, batch: int, side: int) -> tuple[Any, Any]:
    import numpy as np

    key = chance.integers(0, keys, rows).astype(np.uint64) + np.uint64(10)
    value = np.arange(rows, dtype=np.uint64) + np.uint64(side * 10**9 + batch * rows)
    return key, value


def _checksum(rows: Any) -> int:
    import numpy as np

    return int((rows[1] ^ (rows[2] * np.uint64(3))).sum(dtype=np.uint64))


def _check_pairs(made: list[list[tuple[Any, Any]]], batch: int, span: int, count: int, checksum: int) -> None:
    """New pairs of the batch: new left with the whole right window, and new right with the older left."""
    import numpy as np

    from tests.benchmarks.standing import pairs

    low = max(0, batch - span + 1)
    (new_left, new_right) = made[batch]
    right = [np.concatenate([sides[1][i] for sides in made[low : batch + 1]]) for i in (0, 1)]
    left = [np.concatenate([sides[0][i] for sides in made[low:batch]] or [new_left[i][:0]]) for i in (0, 1)]
    a, b = pairs(new_left[0], new_left[1], right[0], right[1])
    c, d = pairs(left[0], left[1], new_right[0], new_right[1])
    left_values = np.concatenate([a, c])
    expected = (left_values, left_values, np.concatenate([b, d]))
    if count != len(left_values) or checksum != _checksum(expected):
        raise AssertionError(f"batch {batch}: {count} pairs, {len(left_values)} expected; checksums differ or not")


# ---- the service -------------------------------------------------------------------------------------------


def push_to_subscriber(folder: Path, engine: str, pushes: int, store: str | None = None) -> Figures:
    """Start a server, register, subscribe, push one element at a time; from the push's first byte to the event's."""
    began = time.perf_counter()
    with Server(folder / engine, engine, store=store) as server:
        client = server.client()
        ready_s = time.perf_counter() - began
        client.post("/update", data={"update": _zones()}).raise_for_status()
        client.post("/queries", content=QUERY, headers={"content-type": "application/sparql-query"}).raise_for_status()
        with subscriber(server) as arrived:
            pusher = Pusher(client, arrived)
            pusher.until_first_result()
            first_s = time.perf_counter() - began
            if engine == "spark":
                server.wait_for(lambda: client.get("/queries/near").json()["runner"] == "spark", 90)
                pusher.round_trip()
            moved_s = time.perf_counter() - began
            for _ in range(30):
                pusher.round_trip()
            times = sorted(pusher.round_trip() for _ in range(pushes))
            spaced = sorted(pusher.round_trip(after_s=0.02) for _ in range(pushes // 2))
        return {
            "pushes": pushes,
            "spaced_push_ms_p50": round(statistics.median(spaced) * 1e3, 2),
            "spaced_push_ms_p99": round(spaced[int(len(spaced) * 0.99)] * 1e3, 2),
            "push_ms_p50": round(statistics.median(times) * 1e3, 2),
            "push_ms_p99": round(times[int(len(times) * 0.99)] * 1e3, 2),
            "ready_s": round(ready_s, 2),
            "first_result_s": round(first_s, 2),
            f"first_{engine}_result_s": round(moved_s, 2),
            "rss_mb": tree_rss_mb(server.pid),
        }


def _zones() -> str:
    zones = " ".join(f"<http://ex/z{i}> <http://ex/partOf> <http://ex/city{i % 10}> ." for i in range(1000))
    return f"INSERT DATA {{ {zones} }}"


class Pusher:
    """Pushes elements 100 ms of stream time apart: each makes exactly one close fall due."""

    def __init__(self, client: Any, arrived: Arrived) -> None:
        self._client, self._arrived = client, arrived
        self._time = 1_000_000

    def push(self) -> float:
        self._time += 100
        zone = self._time // 100 % 1000
        body = f"<http://ex/t{zone % 50}> <http://ex/in> <http://ex/z{zone}> ."
        began = time.perf_counter()
        answer = self._client.post(
            "/streams/taxis", params={"timestamp": self._time}, content=body,
            headers={"content-type": "application/n-triples"},
        )  # fmt: skip
        answer.raise_for_status()
        return began

    def until_first_result(self) -> None:
        self.push()
        self.push()
        self._arrived.wait_for(self._time, 60)

    def round_trip(self, after_s: float = 0.0) -> float:
        """`after_s` lets the writer rest, so that the push does not wait for the end of a batch's spacing."""
        time.sleep(after_s)
        began = self.push()
        return self._arrived.wait_for(self._time, 60) - began


class Arrived:
    """When the emission of each evaluation time came in at the subscriber."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._rows: dict[int, int] = {}
        self._changed = threading.Condition()

    def note(self, time_of_evaluation: int, rows: int) -> None:
        now = time.perf_counter()
        with self._changed:
            self._at[time_of_evaluation] = now
            self._rows[time_of_evaluation] = rows
            self._changed.notify_all()

    def wait_for(self, evaluation: int, seconds: float) -> float:
        with self._changed:
            if not self._changed.wait_for(lambda: evaluation in self._at, seconds):
                raise TimeoutError(f"no emission for time {evaluation} within {seconds} s")
            return self._at[evaluation]

    def rows(self, evaluation: int) -> int:
        """How many rows were said at it; it has come in."""
        with self._changed:
            return self._rows[evaluation]


@contextmanager
def subscriber(server: Server, query: str = "near") -> Iterator[Arrived]:
    """An SSE client of its own connection and thread."""
    import httpx

    arrived = Arrived()
    connected, closed = threading.Event(), threading.Event()
    with httpx.Client(base_url=server.url, timeout=None) as client:

        def listen(on_line: Callable[[str], None]) -> None:
            path = f"/queries/{query}/results"
            with client.stream("GET", path, headers={"accept": "text/event-stream"}) as answer:
                answer.raise_for_status()
                connected.set()
                for line in answer.iter_lines():
                    on_line(line)

        def take(line: str) -> None:
            if line.startswith("data:"):
                answered = json.loads(line[5:])
                arrived.note(answered["time"], len(answered["results"]["bindings"]))

        def run_until_closed() -> None:
            try:
                listen(take)
            except httpx.HTTPError as error:
                if closed.is_set():
                    return  # nobody waits for more
                print(f"subscriber: the stream ended ({error})", file=sys.stderr)

        thread = threading.Thread(target=run_until_closed, name="subscriber", daemon=True)
        thread.start()
        connected.wait(30)
        try:
            yield arrived
        finally:
            closed.set()
