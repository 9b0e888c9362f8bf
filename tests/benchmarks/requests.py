"""A client that costs little: it sends requests that are bytes already, over connections that stay open.

Run as a process of its own, so that it does not share the server's interpreter:

    python -m tests.benchmarks.requests PORT CONNECTIONS SECONDS < requests.json

Standard input is a JSON list of [method, path, headers, body], which each connection sends again and again, each from
another place on. What it prints is a JSON object of figures."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from functools import partial
from itertools import cycle
from typing import Any, cast

Sent = tuple[str, str, dict[str, str], str]


def encoded(port: int, method: str, path: str, headers: dict[str, str], body: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", *(f"{k}: {v}" for k, v in headers.items())]
    data = body.encode()
    if data:
        lines.append(f"content-length: {len(data)}")
    return "\r\n".join([*lines, "", ""]).encode() + data


class Connection(asyncio.Protocol):
    """One request at a time; an answer is over when its Content-Length is here."""

    def __init__(self, requests: Any, end: float, ended: asyncio.Future[None]) -> None:
        self._requests, self._end, self._ended = requests, end, ended
        self._seen = bytearray()
        self._sent = 0.0
        self.times: list[float] = []
        self.failed = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own class is not registered as one
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
        if self._sent >= self._end:
            self._transport.close()
            if not self._ended.done():
                self._ended.set_result(None)
            return
        self._transport.write(next(self._requests))

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head = self._seen.find(b"\r\n\r\n")
        if head < 0:
            return
        if len(self._seen) >= head + 4 + _length(bytes(self._seen[:head]).lower()):
            self.failed += not self._seen.startswith(b"HTTP/1.1 2")
            self._seen.clear()
            self.times.append(time.perf_counter() - self._sent)
            self._send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_exception(error or ConnectionError("the server closed the connection"))


def _same(one: Connection) -> Connection:
    return one


def _length(head: bytes) -> int:
    if head.startswith(b"http/1.1 204"):
        return 0
    _, found, rest = head.partition(b"content-length:")
    assert found, "an answer without Content-Length: this client reads small answers only"
    return int(rest.split(b"\r\n", 1)[0])


async def run(port: int, connections: int, seconds: float, requests: list[Sent]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    ready = [encoded(port, *request) for request in requests]
    began = time.perf_counter()
    opened, ends = [], []
    for number in range(connections):
        ended: asyncio.Future[None] = loop.create_future()
        place = number * len(ready) // connections
        shifted = ready[place:] + ready[:place]
        one = Connection(cycle(shifted), began + seconds, ended)
        await loop.create_connection(partial(_same, one), "127.0.0.1", port)
        opened.append(one)
        ends.append(ended)
    await asyncio.gather(*ends)
    times = sorted(each for one in opened for each in one.times)
    took = time.perf_counter() - began
    return {
        "requests_per_s": round(len(times) / took),
        "ms_p50": round(times[len(times) // 2] * 1e3, 3),
        "ms_p99": round(times[len(times) * 99 // 100] * 1e3, 3),
        "failed": sum(one.failed for one in opened),
    }


def main() -> None:
    port, connections, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    requests = json.load(sys.stdin)
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        print(json.dumps(runner.run(run(port, connections, seconds, requests))))


if __name__ == "__main__":
    main()
