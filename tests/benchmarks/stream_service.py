"""A server with streams: N-Triples are pushed over HTTP, a subscriber hears what is said of them.

`throughput`: pushes back to back, from the first byte to the last emission. `latency`: one push at a time, some of them
in a second. `beside`: streams and one-shot questions, apart and together, in CPU time of the server and all its
children. `memory`: the server's, while a window of ten seconds moves on over posts that are new all the time."""

from __future__ import annotations

import os
import re
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from tests.benchmarks.line import Arrived, subscriber
from tests.benchmarks.server import Server
from tests.benchmarks.tape import Source, Tape

Figures = dict[str, Any]

#: For how long a server whose memory is watched retains snapshots and emissions.
RETAINED_S = 20

_NAME = "near"  # whom `subscriber` listens to
_STREAM = "/streams/http%3A%2F%2Fderi.org%2Fpoststream"
_PREFIXES = """PREFIX sib: <http://www.ins.cwi.nl/sib/vocabulary/> PREFIX sioc: <http://rdfs.org/sioc/ns#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/> PREFIX sibp: <http://www.ins.cwi.nl/sib/person/>
PREFIX sibu: <http://www.ins.cwi.nl/sib/user/>"""
STANDING = f"""{_PREFIXES} REGISTER QUERY {_NAME} AS
SELECT ?friend ?post FROM DEFAULT FROM STREAM <http://deri.org/poststream> [RANGE %ds STEP 1s]
WHERE {{ ?user sioc:account_of sibp:p984 . ?user foaf:knows ?friend . ?friend sioc:creator_of ?post }}"""
ASKED = f"""{_PREFIXES} SELECT ?channel (COUNT(*) AS ?n)
{{ ?user foaf:knows ?friend . ?friend foaf:knows ?other . ?other sioc:moderator_of ?channel }} GROUP BY ?channel #%d"""


@dataclass(frozen=True, slots=True)
class Push:
    time: int
    body: bytes
    triples: int
    posts: int  # those that the standing query says, of this push


class Feed:
    """Bodies of N-Triples, each for a second of the stream's time, and what is to be said of them."""

    def __init__(self, data: Source, triples: int, pushes: int) -> None:
        tape = Tape(data, ("poststream",))
        batches = tape.dense(triples, pushes, 1000)
        friends = _friends(data.stored)
        self.pushes = []
        for batch in batches:
            lines = [b" ".join(tape.texts[place] for place in row) for row in batch.triples.T]
            answered = sum(line.split(b" ", 2)[0] in friends for line in lines if _CREATOR in line)
            self.pushes.append(Push(batch.reached, b" .\n".join(lines) + b" .\n", len(lines), answered))

    def __iter__(self) -> Iterator[Push]:
        return iter(self.pushes)


_CREATOR = b" <http://rdfs.org/sioc/ns#creator_of> "


def _friends(stored: Sequence[bytes]) -> set[bytes]:
    (user,) = [
        line.split(b" ")[0] for line in stored if line.endswith(b"account_of> <http://www.ins.cwi.nl/sib/person/p984>")
    ]
    return {line.split(b" ")[2] for line in stored if line.startswith(user + b" <http://xmlns.com/foaf/0.1/knows>")}


class Served:
    """A server with what is stored and the standing query, and a subscriber."""

    def __init__(self, folder: Path, data: Source, engine: str, range_s: int, *flags: str) -> None:
        self._server = Server(folder, engine, *flags)
        self._data, self._text = data, STANDING % range_s
        self.pid = self._server.pid

    def __enter__(self) -> Served:
        self._server.__enter__()
        self.client = self._server.client()
        body = b"".join(line + b" .\n" for line in self._data.stored)
        nt = {"content-type": "application/n-triples"}
        self.client.post("/data?default", content=body, headers=nt).raise_for_status()
        sparql = {"content-type": "application/sparql-query"}
        self.client.post("/queries", content=self._text, headers=sparql).raise_for_status()
        self._subscribed = subscriber(self._server)
        self.arrived = self._subscribed.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._subscribed.__exit__(None, None, None)
        self.client.close()
        self._server.__exit__(*exception)

    def push(self, push: Push) -> float:
        """When it began. Its time is that of the next close: the elements of the push before are said at it."""
        began = time.perf_counter()
        while (answer := self._answer_to(push)).status_code == HTTPStatus.TOO_MANY_REQUESTS:
            time.sleep(int(answer.headers["retry-after"]))  # it does not come on, and says when to come again
        answer.raise_for_status()
        return began

    def _answer_to(self, push: Push) -> httpx.Response:
        nt = {"content-type": "application/n-triples"}
        answer: httpx.Response = self.client.post(
            _STREAM, params={"timestamp": push.time}, content=push.body, headers=nt
        )
        return answer

    def ask(self, number: int) -> float:
        began = time.perf_counter()
        self.client.get("/sparql", params={"query": ASKED % number}).raise_for_status()
        return time.perf_counter() - began


# ---- how much, how soon ------------------------------------------------------------------------------------------


def throughput(folder: Path, data: Source, engine: str, triples: int, pushes: int) -> Figures:
    feed = Feed(data, triples, pushes).pushes
    with Served(folder, data, engine, 1) as served:
        for push in feed[:3]:
            served.push(push)
        served.arrived.wait_for(feed[2].time, 60)
        began = time.perf_counter()
        for push in feed[3:]:
            served.push(push)
        last = served.arrived.wait_for(feed[-1].time, 60)
        check(served.arrived, feed)
    total = sum(push.triples for push in feed[3:])
    return {"triples": total, "triples_a_push": triples, "triples_per_s": round(total / (last - began))}


def latency(folder: Path, data: Source, engine: str, triples: int, pushes: int, a_second: int) -> Figures:
    """From a push's first byte to the emission that it made due."""
    feed, took = Feed(data, triples, pushes).pushes, []
    with Served(folder, data, engine, 1) as served:
        start = time.perf_counter()
        for number, push in enumerate(feed):
            time.sleep(max(0.0, start + number / a_second - time.perf_counter()))
            began = served.push(push)
            if number:
                took.append(served.arrived.wait_for(push.time, 60) - began)
        check(served.arrived, feed)
    steady = sorted(took[len(took) // 10 :])
    return {
        "triples_a_push": triples,
        "pushes_a_second": a_second,
        "push_ms_p50": round(statistics.median(steady) * 1e3, 2),
        "push_ms_p99": round(steady[int(len(steady) * 0.99)] * 1e3, 2),
    }


def check(arrived: Arrived, feed: Sequence[Push]) -> None:
    """At the time of a push what the push before brought is said."""
    for before, push in pairwise(feed):
        if (answered := arrived.rows(push.time)) != before.posts:
            raise AssertionError(f"at {push.time} {answered} rows were said, of {before.posts}")


# ---- streams beside one-shot questions -----------------------------------------------------------------------------


def beside(folder: Path, data: Source, engine: str, triples: int, seconds: float) -> Figures:
    """Twenty pushes and five questions (a join of some hundred thousand rows) a second: each alone, then both."""
    feed = iter(Feed(data, triples, int(seconds * 20 * 2) + 40).pushes)
    with Served(folder, data, engine, 1) as served:
        numbers = iter(range(1_000_000))
        pushing = _Paced(20, lambda: _round_trip(served, next(feed)))
        asking = _Paced(5, lambda: served.ask(next(numbers)))
        served.push(next(feed))  # nothing is said of it yet
        for each in (pushing, asking):
            each.run(1)  # what is compiled and cached
        idle_s = _cpu_of(served.pid, [], seconds)
        streams_s = _cpu_of(served.pid, [pushing], seconds) - idle_s
        asked_s = _cpu_of(served.pid, [asking], seconds) - idle_s
        alone = pushing.taken(), asking.taken()
        both_s = _cpu_of(served.pid, [pushing, asking], seconds) - idle_s
        together = pushing.taken(), asking.taken()
    return {
        "triples_a_push": triples,
        "idle_cpu_s": round(idle_s, 2),
        "streams_cpu_s": round(streams_s, 2),
        "one_shot_cpu_s": round(asked_s, 2),
        "both_cpu_s": round(both_s, 2),
        "more_cpu": round(both_s / (streams_s + asked_s) - 1, 3),
        "push_ms_p50": [round(statistics.median(each[0]) * 1e3, 2) for each in (alone, together)],
        "one_shot_ms_p50": [round(statistics.median(each[1]) * 1e3, 2) for each in (alone, together)],
    }


def _round_trip(served: Served, push: Push) -> float:
    began = served.push(push)
    return served.arrived.wait_for(push.time, 60) - began


class _Paced:
    """Does something so many times a second, and keeps how long it took."""

    def __init__(self, a_second: int, do: Callable[[], float]) -> None:
        self._a_second, self._do = a_second, do
        self._taken: list[float] = []

    def run(self, seconds: float) -> None:
        start = time.perf_counter()
        for number in range(int(seconds * self._a_second)):
            time.sleep(max(0.0, start + number / self._a_second - time.perf_counter()))
            self._taken.append(self._do())

    def taken(self) -> list[float]:
        taken, self._taken = self._taken, []
        return taken


def _cpu_of(pid: int, paced: Sequence[_Paced], seconds: float) -> float:
    """CPU seconds of a process and all below it, while these run."""
    before, end = _tree_cpu_s(pid), time.perf_counter() + seconds
    threads = [threading.Thread(target=each.run, args=(seconds,)) for each in paced]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    time.sleep(max(0.0, end - time.perf_counter()))
    return _tree_cpu_s(pid) - before


def _tree_cpu_s(pid: int) -> float:
    return sum(_cpu_s(each) for each in tree(pid))


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it ended meanwhile
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- memory --------------------------------------------------------------------------------------------------------


def memory(folder: Path, data: Source, engine: str, triples: int, minutes: float) -> Figures:
    """A push a second's tenth, in ten seconds of windows; posts are new ones all the time. Anonymous memory: the
    store's pages, which the system gives to whoever needs them, are not counted.

    What is retained is in memory in part, so it is retained for much less than this lasts: the first third sees
    memory fill, and the others are compared."""
    feed, round_ = Feed(data, triples, 2_000).pushes, 0
    samples: list[float] = []
    flags = [f"--retain-{what}={RETAINED_S}s" for what in ("snapshots", "emissions")]
    with Served(folder, data, engine, 10, *flags) as served:
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < minutes * 60:
            push = feed[round_ % len(feed)]
            later = round_ // len(feed) * len(feed) * 1000
            body = re.sub(rb"/post/(\w+)", rb"/post/\1n%d" % round_, push.body) if later else push.body
            served.push(Push(push.time + later, body, push.triples, push.posts))
            round_ += 1
            if len(samples) < elapsed // 5:
                samples.append(_anonymous_mb(served.pid))
                print(f"memory {elapsed:.0f} s {samples[-1]} MB", file=sys.stderr, flush=True)
            time.sleep(max(0.0, start + round_ / 10 - time.perf_counter()))
        if not samples:  # one push took all the time
            samples.append(_anonymous_mb(served.pid))
    third = max(1, len(samples) // 3)
    thirds = [statistics.median(samples[n * third : (n + 1) * third] or samples) for n in range(3)]
    return {
        "minutes": minutes,
        "retained_s": RETAINED_S,
        "pushes": round_,
        "triples_a_second": round(round_ * triples / minutes / 60),
        "mb_every_5_s": samples,
        "mb_of_thirds": [round(each, 1) for each in thirds],
        "last_over_middle": round(thirds[2] / thirds[1], 3),
    }


def _anonymous_mb(pid: int) -> float:
    found = 0
    for each in tree(pid):
        try:
            status = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue  # it ended meanwhile
        found += int((re.search(r"RssAnon:\s+(\d+)", status) or [0, 0])[1])
    return round(found / 1024, 1)


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found, waiting = [], [pid]
    while waiting:
        found.append(waiting.pop())
        waiting += parents.get(found[-1], [])
    return found
