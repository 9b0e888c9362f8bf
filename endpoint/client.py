"""A small client for what SPARQLWrapper cannot do: push, register, and subscribe.

with Client("http://127.0.0.1:8000") as rillet:
    rillet.register(text)
    rillet.push("taxis", "<http://ex/t1> <http://ex/in> <http://ex/z1> .", timestamp=1000)
    for emission in rillet.subscribe("near"):   # continues after a lost connection
        print(emission["results"]["bindings"])"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote

import httpx

_RETRY_S = 0.5
_DROPPED = ": dropped"  # the last line of a response whose query is gone
_SILENCE_S = 60.0  # a server sends something every 15 s; after this time without data it is gone


class Refused(Exception):
    """The server answered with an error; its message is the message of the exception."""

    def __init__(
        self, status: int, message: str, retry_after_s: float | None = None, line: int = 0, column: int = 0
    ) -> None:
        self.status, self.retry_after_s, self.line, self.column = status, retry_after_s, line, column
        super().__init__(message)


class Client:
    def __init__(
        self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout_s: float | None = 60.0
    ) -> None:
        headers = {"user-agent": "rillet client"} | ({"authorization": f"Bearer {token}"} if token else {})
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout_s)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # ---- queries and updates

    def query(self, text: str, *, accept: str = "application/sparql-results+json", **parameters: Any) -> Any:
        """The answer: parsed if it is JSON, otherwise as text."""
        answer = self._send("POST", "/sparql", data={"query": text, **_given(parameters)}, headers={"accept": accept})
        form = answer.headers.get("content-type", "").partition(";")[0]
        return answer.json() if form.endswith(("/json", "+json")) else answer.text

    def update(self, text: str, *, wait: str | None = None) -> int:
        """The snapshot that has the update."""
        answer = self._send("POST", "/update", data={"update": text, **_given({"wait": wait})})
        return int(answer.headers["rillet-snapshot"])

    # ---- streams and queries

    def create_stream(self, stream: str, **options: Any) -> dict[str, Any]:
        """The options are those of `PUT /streams/{stream}`: lateness="5s", timeless=["http://ex/livesIn"]."""
        return _object(self._send("PUT", _path("streams", stream), json=options))

    def change_stream(self, stream: str, **options: Any) -> dict[str, Any]:
        """Changes those options that may be changed: ahead="any"."""
        return _object(self._send("PATCH", _path("streams", stream), json=options))

    def streams(self) -> list[dict[str, Any]]:
        return list(self._send("GET", "/streams").json()["streams"])

    def stream_status(self, stream: str) -> dict[str, Any]:
        """The options of the stream, and its progress."""
        return _object(self._send("GET", _path("streams", stream)))

    def push(
        self,
        stream: str,
        data: str | bytes,
        *,
        media_type: str = "text/turtle",
        timestamp: int | str | None = None,
        wait: str | None = None,
        source: str | None = None,
        seq: int | None = None,
    ) -> dict[str, Any]:
        """`data` is one element in Turtle, or in `media_type`; without `timestamp` its time is the time of its
        arrival."""
        parameters = _given({"timestamp": timestamp, "wait": wait, "source": source, "seq": seq})
        headers = {"content-type": media_type}
        return _object(self._send("POST", _path("streams", stream), params=parameters, content=data, headers=headers))

    def heartbeat(self, stream: str, timestamp: int | str, *, wait: str | None = None) -> dict[str, Any]:
        """Advances the time of the stream to `timestamp` without an element."""
        parameters = _given({"timestamp": timestamp, "wait": wait})
        return _object(self._send("POST", _path("streams", stream, "heartbeat"), params=parameters))

    def late(self, stream: str, *, since: int | None = None, limit: int | None = None) -> dict[str, Any]:
        """The number of late elements, and those that the server retains."""
        parameters = _given({"since": since, "limit": limit})
        return _object(self._send("GET", _path("streams", stream, "late"), params=parameters))

    def register(self, text: str, name: str | None = None, *, replace: bool = False) -> dict[str, Any]:
        """The name, plan and warnings of the query; `name` is for a text without a name. `replace`: a query of this
        name with another text ends, and its emissions with it."""
        headers = {"content-type": "application/sparql-query"}
        method, path = ("POST", "/queries") if name is None else ("PUT", _path("queries", name))
        parameters = {"replace": "true"} if replace else {}
        return _object(self._send(method, path, content=text, headers=headers, params=parameters))

    def queries(self) -> list[dict[str, Any]]:
        return list(self._send("GET", "/queries").json()["queries"])

    def query_statuses(self) -> list[dict[str, Any]]:
        """The status of each registered query."""
        return list(_object(self._send("GET", "/queries", params={"status": "true"}))["queries"])

    def query_status(self, query: str) -> dict[str, Any]:
        return _object(self._send("GET", _path("queries", query)))

    def query_operators(self, query: str) -> dict[str, Any]:
        """What its operators do; measuring begins with the first call."""
        return _object(self._send("GET", _path("queries", query, "operators")))

    def pause(self, query: str) -> dict[str, Any]:
        """It is evaluated no more until it is resumed; its status."""
        return _object(self._send("POST", _path("queries", query), params={"action": "pause"}))

    def resume(self, query: str) -> dict[str, Any]:
        return _object(self._send("POST", _path("queries", query), params={"action": "resume"}))

    def move(self, query: str, runner: str) -> dict[str, Any]:
        """To another runner, "inline" or "spark"; its status."""
        return _object(self._send("POST", _path("queries", query), params={"action": "move", "runner": runner}))

    def emissions(self, query: str, since: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
        """The stored emissions after `since`."""
        parameters, headers = _given({"since": since, "limit": limit}), {"accept": "application/x-ndjson"}
        answer = self._send("GET", _path("queries", query, "results"), params=parameters, headers=headers)
        return [json.loads(line) for line in answer.text.split("\n") if line]

    def drop_query(self, query: str) -> None:
        self._send("DELETE", _path("queries", query))

    def drop_stream(self, stream: str) -> None:
        self._send("DELETE", _path("streams", stream))

    def status(self) -> dict[str, Any]:
        return _object(self._send("GET", "/$/stats"))

    def costs(self) -> dict[str, Any]:
        """What the registered queries took, by stream and by class of timing."""
        return dict(_object(self._send("GET", "/$/stats", params={"costs": "true"}))["costs"])

    def sources(self) -> list[dict[str, Any]]:
        """The attached stores, and what is held of each."""
        return list(self._send("GET", "/sources").json()["sources"])

    def refresh_source(self, source: str) -> dict[str, Any]:
        """Fetches what is held of an attached store anew; the snapshot that has it."""
        return _object(self._send("POST", _path("sources", source, "refresh")))

    def loads(self) -> list[dict[str, Any]]:
        """The files that were loaded."""
        return list(self._send("GET", "/$/loads").json()["loads"])

    def load(
        self,
        pieces: Iterable[bytes],
        *,
        quads: bool = True,
        graph: str | None = None,
        path: str | None = None,
        size: int | None = None,
        modified: int | None = None,
        digest: str | None = None,
        part: str | None = None,
        go_on: bool = False,
    ) -> dict[str, Any]:
        """Loads lines of N-Quads (or N-Triples), any number, as one snapshot; `path` and `size` identify the source."""
        known = {"graph": graph, "path": path, "size": size, "modified": modified, "digest": digest, "part": part}
        parameters = _given(known | {"go-on": "true" if go_on else None})
        headers = {
            "content-type": "application/n-quads" if quads else "application/n-triples",
            "accept": "application/json, application/problem+json",
        }
        return _object(self._send("POST", "/$/loads", params=parameters, content=pieces, headers=headers))

    def put_graph(self, graph: str, data: bytes, *, media_type: str = "text/turtle") -> None:
        """Replaces a named graph."""
        self._send("PUT", "/data", params={"graph": graph}, content=data, headers={"content-type": media_type})

    # ---- subscriptions

    def subscribe(
        self,
        query: str,
        since: int = 0,
        *,
        patience_s: float = 60.0,
        on_change: Callable[[str], None] = lambda line: None,
    ) -> Iterator[dict[str, Any]]:
        """The emissions after `since`, without end, each once and in order.

        If the connection is lost, the client reconnects for up to `patience_s` and continues after the last received
        emission; then it raises the error. If the query is dropped or replaced, it raises `Refused`. `on_change` is
        called with a message when the connection is lost and when it is back."""
        lost_at: float | None = None
        while True:
            try:
                for number, data in self._listen(query, since):
                    if lost_at is not None:
                        on_change("the connection is restored")
                        lost_at = None
                    if data is None:
                        continue
                    since = number
                    yield json.loads(data)
                error: httpx.TransportError = httpx.RemoteProtocolError("the server ended the stream")
            except httpx.TransportError as lost:
                error = lost
            if lost_at is None:
                lost_at = time.monotonic()
                on_change(f"the connection was lost ({error}); trying again for {patience_s:g} s")
            if time.monotonic() - lost_at >= patience_s:
                raise error
            time.sleep(min(_RETRY_S, patience_s))

    def _listen(self, query: str, since: int) -> Iterator[tuple[int, str | None]]:
        """The emissions; before them one value without data, as soon as the server answers."""
        headers = {"accept": "text/event-stream", "last-event-id": str(since)}
        timeout = httpx.Timeout(10.0, read=_SILENCE_S)
        with self._http.stream("GET", _path("queries", query, "results"), headers=headers, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
                raise _refused(answer)
            number = since
            yield number, None
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("data: "):
                    yield number, line[6:]
                elif line == _DROPPED:
                    raise Refused(404, f"the query {query} was dropped, or replaced by another of this name")

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        answer = self._http.request(method, path, **request)
        if answer.is_error:
            raise _refused(answer)
        return answer


def _refused(answer: httpx.Response) -> Refused:
    message = answer.text.rstrip("\n") or f"{answer.status_code} {answer.reason_phrase}"
    later = answer.headers.get("retry-after", "")
    retry_after_s = float(later) if later.isdecimal() else None
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        problem = answer.json()
        place = problem.get("line", 0), problem.get("column", 0)
        return Refused(answer.status_code, problem["detail"], retry_after_s, *place)
    if answer.headers.get("content-type", "").startswith("text/html"):
        return _not_rillet(answer, retry_after_s)
    return Refused(answer.status_code, message, retry_after_s)


def _not_rillet(answer: httpx.Response, retry_after_s: float | None = None) -> Refused:
    """Another web server answered, or a proxy that does not reach ours."""
    where = answer.url.copy_with(path="/", query=None)
    message = (
        f"{where} answered {answer.status_code} {answer.reason_phrase}, but not as a Rillet server does; "
        "check the address, and that a proxy before the server reaches it"
    )
    return Refused(answer.status_code, message, retry_after_s)


def _path(*segments: str) -> str:
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def _given(parameters: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in parameters.items() if value is not None}


def _object(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError as error:
        raise _not_rillet(answer) from error
    if not isinstance(found, dict):
        raise _not_rillet(answer)
    return found
