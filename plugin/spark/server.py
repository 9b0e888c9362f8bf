"""Requests to a server, from Spark's driver and from its tasks; with the standard library, so that a task needs nothing
else."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

_TRIES = 8
_PAUSE_S, _PAUSE_S_MAX = 0.25, 5.0
#: A server that is busy, or is not there for a moment.
_LATER = frozenset({429, 502, 503, 504})
NDJSON = "application/x-ndjson"


class ServerRefused(Exception):
    """The server answered a request with an error. `status`: that of HTTP."""

    def __init__(self, url: str, status: int, text: str) -> None:
        super().__init__(f"{url.split('?', maxsplit=1)[0]} answered {status}: {text}")
        self.status = status


@dataclass(frozen=True, slots=True)
class RilletServer:
    """`url`: for example http://127.0.0.1:8000; `token`: empty if the server needs none."""

    url: str
    token: str = ""
    timeout_s: float = 300.0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> RilletServer:
        return cls(options.get("server", "http://127.0.0.1:8000").rstrip("/"), options.get("token", ""))

    def status(self, query: str) -> dict[str, Any]:
        """Of a registered query."""
        found: dict[str, Any] = json.loads(
            self._get(f"/queries/{quote(query, safe='')}", {}, "application/json").read()
        )
        return found

    def head(self) -> int:
        """The latest snapshot."""
        with self._post("/sparql", {"query": "ASK {}"}, "application/json") as response:
            return int(response.headers["Rillet-Snapshot"])  # type: ignore[attr-defined]  # of urllib's response

    def rows(self, query: str, snapshot: int) -> Iterator[dict[str, Any]]:
        """The rows of a SELECT, as in `results.bindings`; they are read while they come."""
        with self._post(f"/sparql?snapshot={snapshot}", {"query": query}, NDJSON) as lines:
            yield from map(json.loads, lines)

    def emissions(self, query: str, since: int, until: int) -> Iterator[dict[str, Any]]:
        parameters = {"since": str(since), "until": str(until)}
        with self._get(f"/queries/{quote(query, safe='')}/results", parameters, NDJSON) as lines:
            yield from map(json.loads, lines)

    def push(self, stream: str, body: bytes, source: str, seq: int) -> None:
        place = f"/streams/{quote(stream, safe='')}?{urlencode({'source': source, 'seq': seq})}"
        self._open(place, body, {"Content-Type": NDJSON}).close()

    def _get(self, path: str, parameters: Mapping[str, str], accept: str) -> IO[bytes]:
        return self._open(f"{path}?{urlencode(parameters)}" if parameters else path, None, {"Accept": accept})

    def _post(self, path: str, form: Mapping[str, str], accept: str) -> IO[bytes]:
        return self._open(path, urlencode(form).encode(), {"Accept": accept})

    def _open(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> IO[bytes]:
        url, sent = self.url + path, {"User-Agent": "Rillet data source of Spark", **headers}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        return _repeated(lambda: urlopen(Request(url, body, sent), timeout=self.timeout_s), url)


def _repeated(ask: Callable[[], IO[bytes]], url: str) -> IO[bytes]:
    """The response; a server that is busy is asked again, later each time. All that is asked here may be repeated."""
    pause_s = _PAUSE_S
    for tries_left in reversed(range(_TRIES)):
        try:
            return ask()
        except HTTPError as error:
            text = error.read(10_000).decode("utf-8", "replace").strip()
            if error.code not in _LATER or not tries_left:
                raise ServerRefused(url, error.code, text) from None
            pause_s = max(pause_s, float(error.headers.get("Retry-After") or 0))
        except URLError as error:
            if not tries_left:
                raise ConnectionError(f"{url.split('?', maxsplit=1)[0]} cannot be reached: {error.reason}") from None
        time.sleep(min(pause_s, _PAUSE_S_MAX))
        pause_s = min(pause_s * 2, _PAUSE_S_MAX)
    raise AssertionError("the last try returns or raises")
