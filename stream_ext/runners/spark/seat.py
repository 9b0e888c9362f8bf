"""The seat: a task of Spark that serves its shard until the bell ends the Spark epoch.

The shard, its open store and all windows outlive the task: Spark uses a worker process again, and the next
task finds the shard as this one left it. Each cached shard has a stamp, the service and its SN; in the
middle of a step it has none, so no task continues from a step that failed."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hbase_store import place_of_files, this_machine
from stream_ext.emissions.placement import ShardPlan
from stream_ext.errors import RilletError
from stream_ext.runners.slowing import Slowing
from stream_ext.runners.spark import tls, wire
from stream_ext.runners.spark.remote_steps import RemoteSteps
from stream_ext.runners.state_sizes import StateSizes
from stream_ext.runners.step_loads import StepLoads
from stream_ext.runners.underway import StepNotes, Underway

if TYPE_CHECKING:
    from stream_ext.continuous.shard import Shard


class StoreUnreachable(RilletError):
    """This worker is not where the store's file is."""


@dataclass(slots=True)
class CachedShard:
    """A shard in this worker process; `clean` unless a step was begun and not ended."""

    service: str
    codec: wire.Codec
    shard: Shard
    slowing: Slowing = field(init=False)  # both are of one building of the shard
    sizes: StateSizes = field(init=False)
    plan: ShardPlan = ShardPlan()  # noqa: RUF009  it never changes
    number: int = 0
    clean: bool = False
    head: int = 0  # the last snapshot that the shard's store has read


@dataclass(frozen=True, slots=True)
class Served:
    """The result of the task for Spark."""

    shard: int
    sn: int
    steps: int
    pid: int


#: By the store's address. A process can have a store open only once (a rule of LMDB), so shards are cached here only.
_cached_shards: dict[str, CachedShard] = {}


def serve(address: wire.Address, seat: int, epoch: int) -> Served:
    """One Spark epoch in one seat. Errors of queries and of the store are not raised: they are reported to the
    bell."""
    with address.connect() as connection:
        stamps = [
            wire.Stamp(cached.service, url, int(cached.shard.sn), cached.plan.number, cached.number)
            for url, cached in _cached_shards.items()
            if cached.clean
        ]
        hello = wire.Hello(seat, epoch, socket.gethostname(), os.getpid(), stamps, this_machine())
        connection.sendall(wire.frame(hello))
        worker = _SeatWorker(connection)
        # If it is closed early, the endpoint has ended, or another task has this seat. The state stays as stamped.
        with contextlib.suppress(ConnectionError):
            worker.serve()
        return Served(worker.shard, worker.sn, worker.steps, os.getpid())


class _SeatWorker:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sent_faults: dict[int, tuple[str, int]] = {}
        self._sent_behind: dict[int, int] = {}
        self._subscribed: set[int] = set()
        self._remote_steps: RemoteSteps | None = None
        self._lag_ms = 0  # how long pushes had waited, at the last head
        self.sn = 0
        self.steps = 0
        self.shard = 0

    def serve(self) -> None:
        try:
            self._serve()
        except ConnectionError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is: the endpoint must hear of it, and Spark must not retry
            why = str(error) if isinstance(error, StoreUnreachable) else traceback.format_exc(limit=8)
            self._connection.sendall(wire.frame(wire.Trouble(self.sn, why)))
        finally:
            if self._remote_steps is not None:
                self._remote_steps.ends()

    def _serve(self) -> None:
        welcome = self._receive()
        if not isinstance(welcome, wire.Welcome):
            raise TypeError(f"the bell began with {type(welcome).__name__}")
        self.shard = welcome.shard
        underway = StepLoads(self._underway(welcome))
        cached = self._take_up(welcome, underway)
        head, end = self.sn, None
        while end is None or self.sn < end:
            # Messages are read before further heads are stepped, so that an end does not wait for many steps.
            if end is None and (self.sn >= head or tls.has_news(self._connection)):
                match self._receive():
                    case wire.Head(sn, lag_ms):
                        head, self._lag_ms = sn, lag_ms
                    case wire.LeftOut(queries):
                        cached.shard.suspended = frozenset(queries)
                    case wire.Subscribed(come, gone):
                        self._subscribed.difference_update(gone)
                        self._subscribed.update(come)
                    case wire.CatchUp(states):
                        self._catch_up(cached, states, underway)
                    case wire.End(sn):
                        end = sn
                    case other:
                        raise TypeError(f"the bell sent {type(other).__name__} to a seat that is already connected")
            else:
                self._step(cached, head, underway)
        if self.steps:
            self._send_loads(cached, underway)
        self._connection.sendall(wire.frame(wire.Bye(self.sn, self.steps)))

    def _receive(self) -> wire.FromBell:
        return wire.receive_message(wire.from_bell, self._connection)

    def _underway(self, welcome: wire.Welcome) -> StepNotes:
        try:
            return Underway(Path(welcome.underway))
        except (FileNotFoundError, PermissionError):  # this is another machine, or another user's process
            limits = welcome.step_limit_s, welcome.build_limit_s
            self._remote_steps = RemoteSteps(self._connection, *limits)
            return self._remote_steps

    def _take_up(self, welcome: wire.Welcome, underway: StepLoads) -> CachedShard:
        cached = _cached_shards.get(welcome.store_url)
        if welcome.states is not None or cached is None:
            underway.steps(welcome.position)
            cached = _build(welcome, cached, underway)
        else:
            cached.shard.suspended, cached.shard.stepping = frozenset(welcome.suspended), underway.steps
        underway.rests()
        self.sn = int(cached.shard.sn)
        self._send_faults(cached)
        self._connection.sendall(wire.frame(wire.Ready(self.sn, welcome.states is not None)))
        return cached

    def _step(self, cached: CachedShard, head: int, underway: StepLoads) -> None:
        """The next snapshot."""
        sn = self.sn + 1
        underway.steps(sn)
        if cached.head < head:
            cached.head = int(cached.shard.refresh())
            if cached.head < head:
                raise LookupError(f"the bell announced head {head}, but the store is at {cached.head}")
        parts, took_ms = self._timed(cached, lambda: cached.shard.finished(cached.shard.step(sn), self._subscribed))
        self.sn = sn
        self.steps += 1
        underway.steps(sn)  # the worker may also die while it sends
        self._send(cached, parts, wire.Done(sn, took_ms))
        underway.rests()
        state_bytes = cached.sizes.looked(cached.shard, _now_ms())
        if underway.is_due or state_bytes is not None:
            self._send_loads(cached, underway, state_bytes)
            cached.slowing.look(self._lag_ms, _now_ms())

    def _send_loads(
        self, cached: CachedShard, underway: StepLoads, state_bytes: Mapping[int, int] | None = None
    ) -> None:
        spent = underway.take()
        cached.slowing.spent(spent.query_ms, _now_ms())
        sizes = None if state_bytes is None else dict(state_bytes)
        self._connection.sendall(wire.frame(wire.Loads(spent.query_ms, spent.busy_s, spent.passed_s, sizes)))

    def _catch_up(self, cached: CachedShard, states: Mapping[int, msgspec.Raw], underway: StepLoads) -> None:
        """Evaluates a piece of what the queries that are behind have missed."""
        underway.steps(self.sn)

        def step_one_behind() -> Sequence[Any]:
            cached.shard.return_to(cached.codec.decode_states(states))
            return cached.shard.finished(cached.shard.step_one_behind(), self._subscribed)

        parts, took_ms = self._timed(cached, step_one_behind)
        underway.steps(self.sn)
        self._send(cached, parts, wire.Piece(cached.shard.has_more, took_ms))
        underway.rests()

    def _timed(self, cached: CachedShard, make: Callable[[], Sequence[Any]]) -> tuple[Sequence[Any], float]:
        """The result of `make`, and how many milliseconds it took. If it raises, the shard is not used again."""
        cached.clean, began = False, time.perf_counter()
        parts = make()
        took_ms = (time.perf_counter() - began) * 1000
        cached.clean = True
        return parts, took_ms

    def _send(self, cached: CachedShard, parts: Sequence[Any], end: wire.Done | wire.Piece) -> None:
        self._send_faults(cached)
        for frame in cached.codec.parts_frames(self.sn, parts, end):
            self._connection.sendall(frame)

    def _send_faults(self, cached: CachedShard) -> None:
        faults = {query: (why, cached.shard.generation(query)) for query, why in cached.shard.own_faults.items()}
        if faults != self._sent_faults:
            for query, (why, since) in faults.items():
                if self._sent_faults.get(query) != (why, since):
                    self._connection.sendall(wire.frame(wire.Fault(query, why, since)))
            for query in self._sent_faults.keys() - faults.keys():
                self._connection.sendall(wire.frame(wire.Mended(query)))
            self._sent_faults = faults
        if (behind := cached.shard.behind) != self._sent_behind:
            self._connection.sendall(wire.frame(wire.BehindReport(behind)))
            self._sent_behind = behind


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _build(welcome: wire.Welcome, cached: CachedShard | None, underway: StepLoads) -> CachedShard:
    if welcome.store_place and place_of_files(welcome.store_url) != welcome.store_place:
        raise StoreUnreachable(
            f"the store {welcome.store_url} is in a file of the server's machine, which a worker of Spark on "
            f"{socket.gethostname()} cannot read: run Spark's workers where that file is, or store in HBase"
        )
    if cached is not None and not cached.clean:
        # A step or a build failed in it; what it left open must be closed before the store is opened again.
        del _cached_shards[welcome.store_url]
        cached.shard.close()
        cached = None
    if cached is None:
        codec = wire.Codec(welcome.factory)
        shard = codec.open_shard(welcome.store_url, welcome.base, welcome.allowed_urls, welcome.budget)
        cached = CachedShard(welcome.service, codec, shard)
        _cached_shards[welcome.store_url] = cached
    cached.service, cached.clean = welcome.service, False
    cached.slowing, cached.sizes = Slowing(cached.shard, welcome.share), StateSizes()
    cached.plan, cached.number = welcome.plan, welcome.shard
    cached.shard.is_assigned = partial(welcome.plan.assigns, welcome.shard)
    cached.shard.divided.follow(partial(welcome.plan.ranges_of, frozenset((welcome.shard,))))
    cached.shard.suspended, cached.shard.stepping = frozenset(welcome.suspended), underway.steps
    cached.head = int(cached.shard.refresh())
    cached.shard.build(cached.codec.decode_states(welcome.states or {}), welcome.position)
    cached.clean = True
    return cached
