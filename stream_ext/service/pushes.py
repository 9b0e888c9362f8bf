"""The section of pushes: elements and heartbeats, from bytes to the receipt of the snapshot that has them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from hbase_store.layout.terms import iri
from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.errors import BadArgument, Overload, TooLarge
from stream_ext.service.opened import OpenedStore, Wait, check_wait
from stream_ext.times import checked_time
from stream_ext.writer.elements import Elements
from stream_ext.writer.future_times import check_ahead
from stream_ext.writer.gathering import Heartbeat, Push
from stream_ext.writer.published import Receipt
from stream_ext.writer.refusal import refusal_of

#: The longest name of a sender, in characters.
_SOURCE_MAX = 1_024
#: The longest time after which a rejected push may be sent again.
_RETRY_AFTER_S_MAX = 10


@dataclass(frozen=True, slots=True)
class PushReceipt:
    stream: str
    accepted: int
    late: int
    batch: int
    snapshot: int
    repeated: bool
    pending: bool = False  # the push is published, but was not evaluated in time
    warnings: Sequence[str] = ()


class StreamPushes:
    """One for each service."""

    def __init__(self, opened: OpenedStore) -> None:
        self._opened = opened

    def push(
        self,
        stream: str,
        data: bytes,
        media_type: str,
        *,
        timestamp: int | None = None,
        wait: Wait = "published",
        source: str | None = None,
        seq: int | None = None,
    ) -> PushReceipt:
        definition = self._opened.catalog.stream(stream)
        self._check_takes_pushes(definition)
        check_wait(wait)
        if (source is None) != (seq is None):
            raise BadArgument("source and seq belong together: give both, or neither")
        if source is not None and len(source) > _SOURCE_MAX:
            raise BadArgument(f"the name in source has {len(source)} characters; it may have {_SOURCE_MAX}: shorten it")
        if timestamp is not None:
            checked_time(timestamp)
        if len(data) > self._opened.limits.push_bytes:
            raise TooLarge(
                f"a push of {len(data)} bytes exceeds the limit of {self._opened.limits.push_bytes}: send it in parts"
            )
        self._check_lag(definition)
        self._opened.engine.retention.check_room(definition)
        elements = self._opened.push_readers.read(
            definition, data, media_type, timestamp, self._opened.base, self._opened.reading("push", len(data))
        )
        warnings = check_ahead(definition, elements.time, self._opened.clock.now_ms()) if elements.timed else ()
        if self._opened.catalog.deriving:
            self._check_graphs(definition, elements)
        future = self._opened.injector.push(
            lambda arrived_ms: Push(definition.number, elements, arrived_ms, source, seq),
            len(data),
            definition.options.batch_ms,
        )
        return self._receipt(definition, future, wait, warnings)

    def heartbeat(self, stream: str, timestamp: int, wait: Wait = "published") -> PushReceipt:
        definition = self._opened.catalog.stream(stream)
        self._check_takes_pushes(definition)
        check_wait(wait)
        warnings = check_ahead(definition, np.array([checked_time(timestamp)], np.int64), self._opened.clock.now_ms())
        future = self._opened.injector.heartbeat(Heartbeat(definition.number, timestamp))
        return self._receipt(definition, future, wait, warnings)

    def _check_takes_pushes(self, stream: StreamDefinition) -> None:
        query = None if stream.of_query is None else self._opened.catalog.queries.get(stream.of_query)
        if query is not None:
            raise BadArgument(
                f"stream {stream.name!r} is the output of query {query.name!r}, so it accepts no pushes and "
                "no heartbeats; push to a stream that the query reads"
            )

    def _check_graphs(self, stream: StreamDefinition, elements: Elements) -> None:
        """NameInUse if absorbed triples would go to a graph that is the answer of a query."""
        if elements.absorbed is None or not elements.absorbed.any():
            return
        derived, terms = self._opened.derived_graphs(self._opened.head()), elements.parsed.terms
        if stream.options.graph is not None:
            derived.check_writable(iri(stream.options.graph))
        graphs = elements.parsed.g[elements.absorbed]
        for place in np.unique(graphs[graphs >= 0]).tolist():
            derived.check_writable(terms[place])

    def _check_lag(self, stream: StreamDefinition) -> None:
        if not self._opened.engine.lateness.is_read(stream.number):
            return
        limit_ms, lag_ms = self._opened.limits.lag_ms, self._opened.engine.lag_ms()
        ahead_ms = self._opened.engine.ahead_ms(limit_ms)
        if max(lag_ms, ahead_ms) <= limit_ms:
            return
        if (fault := self._opened.engine.merge.fault) is not None:
            raise refusal_of(fault, self._opened.store.url)
        how = f"are {lag_ms} ms behind" if lag_ms > limit_ms else f"have work for {ahead_ms} ms before this push"
        raise Overload(
            f"the queries over stream {stream.name!r} {how}, more than {limit_ms} ms (--max-lag); send this push later",
            min(max(1, (ahead_ms - limit_ms) // 1000), _RETRY_AFTER_S_MAX),
        )

    def _receipt(
        self, stream: StreamDefinition, future: Future[Receipt], wait: Wait, warnings: Sequence[str]
    ) -> PushReceipt:
        receipt = future.result()
        pending = wait == "evaluated" and not self._opened.is_evaluated_in_time(receipt.snapshot)
        return PushReceipt(
            stream.name,
            receipt.accepted,
            receipt.late,
            receipt.batch,
            receipt.snapshot,
            receipt.repeated,
            pending,
            warnings,
        )
