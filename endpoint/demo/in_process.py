"""The city, played into the store of this server by a thread of it: the demonstration of the console."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, dropwhile
from typing import TYPE_CHECKING, Any

from endpoint.client import Refused
from endpoint.demo.benchmark import DIALECTS, RecordedElement, query_name, stream_name
from endpoint.demo.city import CITY
from endpoint.demo.player import Player, PlayProgress, check_unread, clear, complete, pace_of
from endpoint.errors import describe
from hbase_store.errors import StoreError
from stream_ext.errors import BadArgument, NameInUse, Overload, RilletError

if TYPE_CHECKING:
    from stream_ext.service.service import Service

#: A demonstration that nobody stops ends by itself.
_LONGEST_S = 30 * 60
_SEED = 1
_STREAMS = {stream_name(CITY, name): iri for name, iri in CITY.streams.items()}
_QUERIES = {
    query_name(CITY, question, dialect): CITY.text(question, dialect)
    for question in CITY.questions
    for dialect in question.dialects
}
#: What is due within so long is pushed together: the city is for looking at, and each push is a snapshot.
_PAUSE_S = 0.1
#: Of the city's time: as far as this its generator is run forward to go on, which takes some seconds.
_SKIPPED_MAX_MS = 14 * 24 * 3_600_000
#: Longer than an ordinary push takes; the store may hang.
_ENDS_S = 30.0


@dataclass(frozen=True, slots=True)
class DemoState:
    """`exists`: its streams are in the store. `elements`: how many were played. `why_ended`: of the last demonstration,
    if it did not end as it should."""

    exists: bool
    playing: bool = False
    elements: int = 0
    why_ended: str = ""


class DemoInProcess:
    def __init__(self, service: Service, now: Callable[[], float] = time.monotonic) -> None:
        self._service, self._now = service, now
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._progress: PlayProgress | None = None
        self._why_ended = ""

    @property
    def state(self) -> DemoState:
        playing = self._thread is not None and self._thread.is_alive()
        elements = 0 if self._progress is None else self._progress.elements
        exists = any(_STREAMS.get(stream.name) == stream.iri for stream in self._service.streams())
        return DemoState(exists, playing, elements, "" if playing else self._why_ended)

    def start(self) -> None:
        """Prepares streams, data and queries, and then plays in a thread. An error of the preparation is raised.

        Streams and queries of an earlier play stay, with their emissions, and the city goes on behind their time: other
        queries may read the streams."""
        with self._one_at_a_time():
            if self.state.playing:
                raise BadArgument("the city is being played already")
            self._check_names()
            recording = CITY.generate(_SEED)
            elements = _behind(recording.elements, self._reached())
            server = _Server(self._service)
            with _as_errors_of_ours():
                progress = self._progress = PlayProgress(complete(server, CITY, recording, DIALECTS))
            self._why_ended = ""
            self._stop = threading.Event()
            pace = pace_of(CITY.speed, factor=True)
            player = Player(server, CITY, elements, pace, progress, self._now, self._pause)
            self._thread = threading.Thread(target=self._play, args=(player,), name="rillet-demo", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        with self._one_at_a_time():
            self._end()

    def remove(self) -> None:
        """Stops, and drops the queries, the streams and the graph of the demonstration."""
        with self._one_at_a_time():
            self._check_names()
            server = _Server(self._service)
            with _as_errors_of_ours():
                check_unread(server, CITY)
            self._end()
            with _as_errors_of_ours():
                clear(server, CITY)
            for stored in CITY.generate(_SEED).stored:
                self._service.drop_graph(stored.graph)
            self._progress = None

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        """One click at a time: who clicks twice does not wait, and keeps no thread of the console from others."""
        if not self._lock.acquire(blocking=False):
            raise Overload("the demonstration is just being started, stopped or removed: look again in a moment", 1)
        try:
            yield
        finally:
            self._lock.release()

    def _end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_ENDS_S)
            if self._thread.is_alive():
                raise Overload(f"the demonstration waits for the store, and has not ended within {_ENDS_S:g} s", 1)

    def _check_names(self) -> None:
        """Raises NameInUse if a stream or a query has a name of the demonstration, and is none of its own: it would be
        dropped."""
        for stream in self._service.streams():
            if _STREAMS.get(stream.name, stream.iri) != stream.iri:
                raise NameInUse(f"the stream {stream.name} <{stream.iri}> is there, and is not the demonstration's")
        for query in self._service.queries():
            if _QUERIES.get(query.name, query.text) != query.text:
                raise NameInUse(f"the query {query.name} is there, and is not the demonstration's")

    def _reached(self) -> int | None:
        """The greatest time of its streams; None: they are new."""
        times = [
            self._service.stream_status(stream.iri)["time"]
            for stream in self._service.streams()
            if _STREAMS.get(stream.name) == stream.iri
        ]
        return max((time for time in times if time is not None), default=None)

    def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _play(self, player: Player) -> None:
        ends_s = self._now() + _LONGEST_S
        try:
            while not (self._stop.is_set() or player.progress.ended or self._now() >= ends_s):
                player.tick()
                self._stop.wait(_PAUSE_S)
        except Refused as error:  # a stream was dropped, the store is full, another process became the writer
            self._why_ended = str(error)


def _behind(elements: Iterator[RecordedElement], reached: int | None) -> Iterator[RecordedElement]:
    """The elements whose times are greater than the time that the streams have reached."""
    first = next(elements)
    if reached is None or reached < first.time:
        return chain([first], elements)
    if reached - first.time > _SKIPPED_MAX_MS:
        raise BadArgument(
            f"the streams of the city are at {reached} ms, later than it is played: remove the city, then play it"
        )
    return dropwhile(lambda element: element.time <= reached, elements)


class _Server:
    """What a player needs of a server, without HTTP in between; errors are those of the client."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def queries(self) -> list[dict[str, Any]]:
        return [{"query": query.name} for query in self._service.queries()]

    def streams(self) -> list[dict[str, Any]]:
        return [
            {"stream": stream.name, "readers": self._service.stream_status(stream.iri)["readers"]}
            for stream in self._service.streams()
        ]

    def drop_query(self, query: str) -> None:
        with _as_refusals():
            self._service.drop_query(query)

    def drop_stream(self, stream: str) -> None:
        with _as_refusals():
            self._service.drop_stream(stream)

    def create_stream(self, stream: str, **options: Any) -> dict[str, Any]:
        with _as_refusals():
            definition, _ = self._service.create_stream(stream, options)
        return {"stream": definition.name}

    def put_graph(self, graph: str, data: bytes, *, media_type: str = "text/turtle") -> None:
        from stream_ext.writer.graph_store import Document

        with _as_refusals():
            self._service.replace_graph(graph, [Document(data, media_type, self._service.base)])

    def register(self, text: str) -> dict[str, Any]:
        with _as_refusals():
            definition, _, _ = self._service.register(text)
        return {"query": definition.name}

    def push(self, stream: str, data: str, *, media_type: str) -> dict[str, Any]:
        with _as_refusals():
            return {"late": self._service.push(stream, data.encode(), media_type).late}

    def heartbeat(self, stream: str, timestamp: int) -> dict[str, Any]:
        with _as_refusals():
            return {"snapshot": self._service.heartbeat(stream, timestamp).snapshot}


@contextmanager
def _as_refusals() -> Iterator[None]:
    try:
        yield
    except (RilletError, StoreError) as error:
        problem = describe(error)
        raise Refused(problem.status, problem.detail, getattr(error, "retry_after_s", None)) from error


@contextmanager
def _as_errors_of_ours() -> Iterator[None]:
    """The error that was the cause of a refusal; a refusal without one is that streams are still read."""
    try:
        yield
    except Refused as refused:
        raise refused.__cause__ or NameInUse(str(refused)) from None
