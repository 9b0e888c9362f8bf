"""What a task does in its seat: it serves its shard until the bell ends the Spark epoch.

The shard, its open store and all windows outlive the task: Spark uses a worker process again, and the next
task finds the shard where this one left it. Each is stamped with the service and the SN it stands at; in the
middle of a step it has no stamp, so a step that failed is never gone on from."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stream_ext.runners.spark import wire
from stream_ext.runners.underway import Underway


@dataclass(slots=True)
class CachedShard:
    """A shard in this worker process; `clean` unless a step was begun and not ended."""

    service: str
    codec: wire.Codec
    shard: wire.SeatShard
    clean: bool = False
    head: int = 0  # what the shard's store has taken in


@dataclass(frozen=True, slots=True)
class Served:
    """What the task tells Spark in the end."""

    shard: int
    sn: int
    steps: int
    pid: int


#: By the store's address. A process has one store open at most once (LMDB insists), so this is the only place.
_kept: dict[str, CachedShard] = {}


def serve(address: wire.Address, shard: int, epoch: int) -> Served:
    """One Spark epoch of one shard. Never raises for what a query or the store does: that goes by the bell."""
    with address.connect() as connection:
        stamps = [wire.Stamp(kept.service, url, int(kept.shard.sn)) for url, kept in _kept.items() if kept.clean]
        connection.sendall(wire.frame(wire.Hello(shard, epoch, socket.gethostname(), os.getpid(), stamps)))
        seat = _SeatWorker(connection)
        # Closed early: the endpoint has gone, or another task has this seat. The state stays as it is stamped.
        with contextlib.suppress(ConnectionError):
            seat.serve()
        return Served(shard, seat.sn, seat.steps, os.getpid())


class _SeatWorker:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._told_faults: dict[int, tuple[str, int]] = {}
        self._told_behind: dict[int, int] = {}
        self.sn = 0
        self.steps = 0

    def serve(self) -> None:
        try:
            self._serve()
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001 -- whatever it is: the endpoint must hear of it, and Spark must not retry
            self._connection.sendall(wire.frame(wire.Trouble(self.sn, traceback.format_exc(limit=8))))

    def _serve(self) -> None:
        welcome = self._hear()
        if not isinstance(welcome, wire.Welcome):
            raise TypeError(f"the bell began with {type(welcome).__name__}")
        underway = Underway(Path(welcome.underway))
        kept = self._take_up(welcome, underway)
        head, end = self.sn, None
        while end is None or self.sn < end:
            # What came meanwhile goes before the heads that wait: an end is not to wait for a long way.
            if end is None and (self.sn >= head or self._has_news()):
                match self._hear():
                    case wire.Head(sn):
                        head = sn
                    case wire.LeftOut(queries):
                        kept.shard.suspended = frozenset(queries)
                    case wire.GoOn(states):
                        self._go_on(kept, states, underway)
                    case wire.End(sn):
                        end = sn
                    case other:
                        raise TypeError(f"the bell sent {type(other).__name__} to a seat that is already connected")
            else:
                self._step(kept, head, underway)
        self._connection.sendall(wire.frame(wire.Bye(self.sn, self.steps)))

    def _hear(self) -> wire.FromBell:
        return wire.heard(wire.from_bell, self._connection)

    def _has_news(self) -> bool:
        readable, _, _ = select.select([self._connection], [], [], 0)
        return bool(readable)

    def _take_up(self, welcome: wire.Welcome, underway: Underway) -> CachedShard:
        kept = _kept.get(welcome.store_url)
        if welcome.states is not None or kept is None:
            underway.steps(welcome.position)
            kept = _build(welcome, kept, underway)
        else:
            kept.shard.suspended, kept.shard.stepping = frozenset(welcome.held), underway.steps
        underway.rests()
        self.sn = int(kept.shard.sn)
        self._tell_faults(kept)
        self._connection.sendall(wire.frame(wire.Ready(self.sn, welcome.states is not None)))
        return kept

    def _step(self, kept: CachedShard, head: int, underway: Underway) -> None:
        """The next snapshot."""
        sn = self.sn + 1
        underway.steps(sn)
        if kept.head < head:
            kept.head = int(kept.shard.refresh())
            if kept.head < head:
                raise LookupError(f"the bell announced head {head}, but the store is at {kept.head}")
        parts, took_ms = self._made(kept, lambda: kept.shard.step(sn))
        self.sn = sn
        self.steps += 1
        underway.steps(sn)  # of what is sent, too, it may die
        self._send(kept, parts, wire.Done(sn, took_ms))
        underway.rests()

    def _go_on(self, kept: CachedShard, states: Mapping[int, msgspec.Raw], underway: Underway) -> None:
        """A piece of what queries have missed that are behind."""
        underway.steps(self.sn)

        def go_on() -> Sequence[Any]:
            kept.shard.return_to(kept.codec.decode_states(states))
            return kept.shard.go_on()

        parts, took_ms = self._made(kept, go_on)
        underway.steps(self.sn)
        self._send(kept, parts, wire.Piece(kept.shard.has_more, took_ms))
        underway.rests()

    def _made(self, kept: CachedShard, make: Callable[[], Sequence[Any]]) -> tuple[Sequence[Any], float]:
        """What is made, and in how many milliseconds. If that raises, the shard is not gone on from."""
        kept.clean, began = False, time.perf_counter()
        parts = make()
        took_ms = (time.perf_counter() - began) * 1000
        kept.clean = True
        return parts, took_ms

    def _send(self, kept: CachedShard, parts: Sequence[Any], end: wire.Done | wire.Piece) -> None:
        self._tell_faults(kept)
        for frame in kept.codec.parts_frames(self.sn, parts, end):
            self._connection.sendall(frame)

    def _tell_faults(self, kept: CachedShard) -> None:
        faults = {query: (why, kept.shard.generation(query)) for query, why in kept.shard.faults.items()}
        if faults != self._told_faults:
            for query, (why, since) in faults.items():
                if self._told_faults.get(query) != (why, since):
                    self._connection.sendall(wire.frame(wire.Fault(query, why, since)))
            for query in self._told_faults.keys() - faults.keys():
                self._connection.sendall(wire.frame(wire.Mended(query)))
            self._told_faults = faults
        if (behind := kept.shard.behind) != self._told_behind:
            self._connection.sendall(wire.frame(wire.BehindReport(behind)))
            self._told_behind = behind


def _build(welcome: wire.Welcome, kept: CachedShard | None, underway: Underway) -> CachedShard:
    if kept is not None and not kept.clean:
        # A step or a build failed in it; what it left open must be closed before the store is opened again.
        del _kept[welcome.store_url]
        kept.shard.close()
        kept = None
    if kept is None:
        codec = wire.Codec(welcome.factory)
        shard = codec.open_shard(welcome.store_url, welcome.base, welcome.allowed_urls, welcome.budget)
        kept = CachedShard(welcome.service, codec, shard)
        _kept[welcome.store_url] = kept
    kept.service, kept.clean = welcome.service, False
    kept.shard.suspended, kept.shard.stepping = frozenset(welcome.held), underway.steps
    kept.head = int(kept.shard.refresh())
    kept.shard.build(kept.codec.decode_states(welcome.states or {}), welcome.position)
    kept.clean = True
    return kept
