"""Plays a benchmark into a server: streams, stored data and queries first, then the elements, each when it is due.

    due at 0.0 s   three elements of `posts`, one of `gps`     two pushes, and heartbeats for the other streams
    due at 0.1 s   ...

Elements that fall into the same tick share a push for each stream. The streams reach the same time together, so that no
query waits for a stream in which nothing happens."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from endpoint.client import Refused
from endpoint.demo.benchmark import (
    CQELS_QL,
    Benchmark,
    BenchmarkQuery,
    RecordedElement,
    Recording,
    query_name,
    stream_name,
)
from endpoint.files.replay import AsItWas, Pace, PerSecond
from endpoint.files.replay import Element as Line

if TYPE_CHECKING:
    from endpoint.client import Client

_TICK_S = 0.1
_PUSH_ELEMENTS = 500
_BUSY = 429
_CONFLICT = 409
_NDJSON = "application/x-ndjson"
_READ_EMISSIONS = 200


@dataclass(slots=True)
class PlayedQuery:
    """A query of the benchmark in one dialect, and what the server has answered so far."""

    question: BenchmarkQuery
    dialect: str
    name: str
    refused: str | None = None  #: why the server does not run it
    state: str = ""
    emissions: int = 0
    rows: int = 0
    lag_ms: int = 0
    read: int = 0  #: the last emission that was looked at
    latest: dict[str, Any] | None = None  #: the last emission with rows


@dataclass(slots=True)
class PlayProgress:
    """What was played."""

    queries: list[PlayedQuery]
    elements: int = 0
    triples: int = 0
    late: int = 0
    waited_s: float = 0.0  #: for a server that was busy
    time: int | None = None  #: of the last element
    ended: bool = False  #: there are no more elements
    rates: dict[str, float] = field(default_factory=dict)


def pace_of(number: float, factor: bool) -> Pace:
    """So many elements a second; with `factor` so many times as fast as the times of the elements."""
    return AsItWas(number) if factor else PerSecond(number)


class Receiving(Protocol):
    """What a player needs of a client."""

    def push(self, stream: str, data: str, /, *, media_type: str) -> dict[str, Any]: ...
    def heartbeat(self, stream: str, timestamp: int, /) -> dict[str, Any]: ...


class Preparing(Protocol):
    """What the preparation needs of a client."""

    def queries(self) -> list[dict[str, Any]]: ...
    def streams(self) -> list[dict[str, Any]]: ...
    def drop_query(self, query: str, /) -> None: ...
    def drop_stream(self, stream: str, /) -> None: ...
    def create_stream(self, stream: str, **options: Any) -> dict[str, Any]: ...
    def put_graph(self, graph: str, data: bytes, /, *, media_type: str = ...) -> None: ...
    def register(self, text: str, /) -> dict[str, Any]: ...


# ---- before


def prepare(
    client: Preparing, benchmark: Benchmark, recording: Recording, dialects: Sequence[str]
) -> list[PlayedQuery]:
    """Creates the streams, loads the stored data, and registers the queries. What an earlier demonstration left on this
    server is dropped."""
    clear(client, benchmark)
    return complete(client, benchmark, recording, dialects)


def complete(
    client: Preparing, benchmark: Benchmark, recording: Recording, dialects: Sequence[str]
) -> list[PlayedQuery]:
    """As `prepare`, but the streams and queries that are there stay as they are, with their emissions."""
    for name, iri in benchmark.streams.items():
        client.create_stream(stream_name(benchmark, name), iri=iri)
    for graph in recording.stored:
        client.put_graph(graph.graph, graph.data, media_type=graph.media_type)
    return [
        _register(client, benchmark, question, dialect)
        for question in benchmark.questions
        for dialect in question.dialects
        if dialect in dialects
    ]


def clear(client: Preparing, benchmark: Benchmark) -> None:
    """Drops the queries and streams of this benchmark that are there; nothing if another query reads one of them."""
    check_unread(client, benchmark)
    ours, streams = _queries_of(benchmark), _streams_of(benchmark)
    for query in [each["query"] for each in client.queries()]:
        if query in ours:
            client.drop_query(query)
    for stream in [each["stream"] for each in client.streams()]:
        if stream in streams:
            client.drop_stream(stream)


def check_unread(client: Preparing, benchmark: Benchmark) -> None:
    """Raises Refused if a query of somebody else reads a stream of this benchmark, which could not be dropped then."""
    ours, streams = _queries_of(benchmark), _streams_of(benchmark)
    for stream in client.streams():
        if stream["stream"] in streams and (others := [name for name in stream["readers"] if name not in ours]):
            which = "this query" if len(others) == 1 else "these queries"
            name = f"{stream['stream']} of the {benchmark.name}"
            raise Refused(_CONFLICT, f"the stream {name} is read by {', '.join(others)}: drop {which} first")


def _queries_of(benchmark: Benchmark) -> set[str]:
    return {
        query_name(benchmark, question, dialect) for question in benchmark.questions for dialect in question.dialects
    }


def _streams_of(benchmark: Benchmark) -> set[str]:
    return {stream_name(benchmark, name) for name in benchmark.streams}


def _register(client: Preparing, benchmark: Benchmark, question: BenchmarkQuery, dialect: str) -> PlayedQuery:
    played = PlayedQuery(question, dialect, query_name(benchmark, question, dialect))
    try:
        client.register(benchmark.text(question, dialect))
    except Refused as error:
        if dialect != CQELS_QL:
            raise
        played.refused = str(error).splitlines()[0]
    return played


# ---- while it plays


@dataclass(frozen=True, slots=True)
class _Delivery:
    """A push to a stream, or (without elements) a heartbeat of it."""

    stream: str
    time: int
    elements: Sequence[RecordedElement] = ()


class Player:
    """Sends the elements when they are due. `now` and `sleep` measure seconds."""

    def __init__(
        self,
        client: Receiving,
        benchmark: Benchmark,
        elements: Iterator[RecordedElement],
        pace: Pace,
        progress: PlayProgress,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._client, self._pace, self.progress = client, pace, progress
        self._elements, self._now, self._sleep = elements, now, sleep
        self._streams = {name: stream_name(benchmark, name) for name in benchmark.streams}
        self._began_s = now()
        self._next: tuple[float, RecordedElement] | None = None
        self._count = 0
        self._deliveries: deque[_Delivery] = deque()
        self._again_at_s = self._began_s  # a busy server has asked to wait until then

    def tick(self) -> None:
        """Sends what is due by now; sleeps for a moment if nothing is, or if the server is busy."""
        if not self._deliveries:
            self._deliveries += self._deliveries_of(list(self._due()))
        if self._deliveries:
            self._deliver()
        elif self._next is None:
            self.progress.ended = True
        else:
            self._sleep(min(_TICK_S, max(0.0, self._next[0] - self._passed_s())))

    def finish(self) -> None:
        """Closes the windows that end with the last element."""
        time = self.progress.time
        if time is not None and not self._deliveries:
            self._deliveries += [_Delivery(name, time + 1) for name in self._streams.values()]
            self._deliver()

    def _passed_s(self) -> float:
        """Without the time for which a busy server was waited for: what is due does not pile up meanwhile."""
        return self._now() - self._began_s - self.progress.waited_s

    def _due(self) -> Iterator[RecordedElement]:
        by_s = self._passed_s()
        for _ in range(_PUSH_ELEMENTS):
            if self._next is None and (element := next(self._elements, None)) is not None:
                self._next = self._pace(self._count, Line(b"", element.time)), element
                self._count += 1
            if self._next is None or self._next[0] > by_s:
                return
            yield self._next[1]
            self._next = None

    def _deliveries_of(self, due: Sequence[RecordedElement]) -> list[_Delivery]:
        """A push for each stream of which elements are due; then all streams come to the time of the last one."""
        if not due:
            return []
        by_stream: dict[str, list[RecordedElement]] = {}
        for element in due:
            by_stream.setdefault(self._streams[element.stream], []).append(element)
        time = due[-1].time
        pushes = [_Delivery(name, elements[-1].time, elements) for name, elements in by_stream.items()]
        reached = {push.stream for push in pushes if push.time == time}
        return [*pushes, *(_Delivery(name, time) for name in self._streams.values() if name not in reached)]

    def _deliver(self) -> None:
        wait_s = self._again_at_s - self._now()
        if wait_s > 0:
            began_s = self._now()
            self._sleep(min(_TICK_S, wait_s))
            self.progress.waited_s += self._now() - began_s
            return
        try:
            while self._deliveries:
                self._send(self._deliveries[0])
                self._deliveries.popleft()
        except Refused as error:
            if error.status != _BUSY:
                raise
            self._again_at_s = self._now() + (error.retry_after_s or 1.0)

    def _send(self, delivery: _Delivery) -> None:
        progress = self.progress
        if delivery.elements:
            lines = [json.dumps({"timestamp": each.time, "data": each.data}) for each in delivery.elements]
            receipt = self._client.push(delivery.stream, "\n".join(lines), media_type=_NDJSON)
            progress.late += receipt["late"]
            progress.elements += len(lines)
            progress.triples += sum(each.data.count("\n") + 1 for each in delivery.elements)
            progress.time = max(delivery.time, delivery.time if progress.time is None else progress.time)
        else:
            self._client.heartbeat(delivery.stream, delivery.time)


def look(client: Client, progress: PlayProgress) -> None:
    """Asks the server what the queries have answered."""
    for played in progress.queries:
        if played.refused is not None:
            continue
        status = client.query_status(played.name)
        played.state, played.emissions, played.rows = status["state"], status["emissions"], status["rows"]
        played.lag_ms = status["lag_ms"] or 0
        if played.state == "failed":
            played.refused = status["error"]
        since = max(played.read, played.emissions - _READ_EMISSIONS)
        for emission in client.emissions(played.name, since, _READ_EMISSIONS):
            played.read = emission["emission"]
            if emission["results"]["bindings"]:
                played.latest = emission


def play(
    client: Client,
    player: Player,
    seconds: float | None,
    shown: Callable[[PlayProgress], None],
    now: Callable[[], float],
    every_s: float = 1.0,
) -> None:
    """Plays until there are no more elements, or for so many seconds; calls `shown` again and again meanwhile."""
    progress, began_s = player.progress, now()
    before = (began_s, 0, 0)
    while not progress.ended and (seconds is None or now() - began_s < seconds):
        player.tick()
        passed_s = now() - before[0]
        if passed_s >= every_s:
            look(client, progress)
            emissions = sum(played.emissions for played in progress.queries)
            counted = {"elements": progress.elements - before[1], "emissions": emissions - before[2]}
            progress.rates = {name: count / passed_s for name, count in counted.items()}
            before = (now(), progress.elements, emissions)
            shown(progress)
    player.finish()
    look(client, progress)
    shown(progress)
