"""The inline runner: the queries in the endpoint's own process, one thread.

It answers from the first moment and whenever Spark does not; while Spark does, it has those queries that were moved to
it. While it has none it holds nothing; when it gets some it builds its shard at the merge's position and steps from
there, so it needs no hand-over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from hbase_store.errors import StoreUnavailable
from stream_ext.part import Told
from stream_ext.runner.merge import Merge, Role
from stream_ext.schedule import QueryState

_PAUSE_S = 0.25


class Shard(Protocol):
    """What the runner asks of stream_ext/shard.py."""

    sn: int
    faults: dict[int, str]
    held: Collection[int]

    def build(self, states: Mapping[int, QueryState | None], sn: int) -> None: ...
    def step(self, sn: int) -> list[Told]: ...


class InlineRunner:
    def __init__(
        self,
        merge: Merge,
        make_shard: Callable[[Role], Shard],
        on_sent: Callable[[], None] = lambda: None,
        held: Callable[[], Collection[int]] = frozenset,
    ) -> None:
        """`on_sent` is called when parts were sent beside those of Spark. Queries that are `held`, in quarantine, are
        not stepped in this process."""
        self._held = held
        self._merge, self._make_shard, self._on_sent = merge, make_shard, on_sent
        self._changed = threading.Condition()
        self._head = 0
        self._closed = False
        self._fault: BaseException | None = None
        self.faults: dict[int, str] = {}
        self._thread = threading.Thread(target=self._run, name="rillet-inline", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def head_moved(self, sn: int) -> None:
        with self._changed:
            self._head = max(self._head, sn)
            self._changed.notify_all()

    def owner_changed(self) -> None:
        with self._changed:
            self._changed.notify_all()

    @property
    def fault(self) -> BaseException | None:
        return self._fault

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._is_wanted():
                self._own_if_the_store_answers()
        except BaseException as error:  # noqa: BLE001 -- whoever waits for an evaluation must hear of it
            self._fault = error
            self._merge.fail(error)

    def _is_wanted(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._merge.role is not None)
            return not self._closed

    def _own_if_the_store_answers(self) -> None:
        """If it does not: again a little later, from what is merged. Only a merge that has failed ends it."""
        try:
            self._own()
        except StoreUnavailable:
            if self._merge.fault is not None:
                raise
            with self._changed:
                self._changed.wait_for(lambda: self._closed, _PAUSE_S)

    def _own(self) -> None:
        """Steps until its role is another."""
        role = self._merge.role
        if role is None:
            return
        _, position, states = self._merge.attempt(role)
        shard = self._make_shard(role)
        shard.held = self._held()
        shard.build(states, position)
        self.faults = shard.faults
        while self._has_work(role, shard.sn):
            sn = shard.sn + 1
            shard.held = self._held()
            parts = shard.step(sn)
            self.faults = shard.faults
            self._merge.take(role, sn, parts)
            if role == "beside":
                self._on_sent()

    def _has_work(self, role: Role, sn: int) -> bool:
        """Waits for the next snapshot. False: the merge does not stand where the shard does, for another has (or had)
        the queries meanwhile."""

        def goes_on() -> bool:
            there = role == "beside" or self._merge.position == sn
            return not self._closed and self._merge.goes_on(role) and there

        with self._changed:
            self._changed.wait_for(lambda: self._head > sn or not goes_on())
            return goes_on()
