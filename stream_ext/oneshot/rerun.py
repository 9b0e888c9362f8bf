"""Rerun: an emission evaluated again from its snapshot, by one-shot queries, to check the stored one.

Only the answers of remote endpoints are not part of the snapshot: they are requested again.

emission = the answer of its evaluation              (RSTREAM)
         = that, less the answer of the one before   (ISTREAM; DSTREAM: the other way round)
         = that, less the answer without what had arrived since the one before   (ISTREAM of CQELS-QL)"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hbase_store import Store
from hbase_store.errors import SnapshotGone
from stream_ext.catalog.catalog import QueryDefinition
from stream_ext.emissions.emission import EmissionBody, body_of, to_json
from stream_ext.errors import BadArgument, Gone
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import R2S, Query
from stream_ext.network.network import salt_of
from stream_ext.network.operators.core.moment import seed_of
from stream_ext.network.operators.remote.service import placed
from stream_ext.oneshot.evaluate import Answer, Asking, evaluate
from stream_ext.oneshot.instant import Instant, NewAfter
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.source import MAIN
from stream_ext.remote.sources import NO_SOURCES, Sources
from stream_ext.values.vocabulary import Vocabulary
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import LastEvaluation, QueryState
from stream_ext.windows.scheduled_window import ScheduledWindow

Rows = list[tuple[bytes, ...]]


@dataclass(frozen=True, slots=True)
class Rerun:
    """A registered query over the windows that it has in the store."""

    definition: QueryDefinition
    query: Query
    windows: Sequence[ScheduledWindow]
    store: Store
    allowed_urls: AllowedUrls
    control: Control = Control.FREE
    sources: Sources = NO_SOURCES

    def json(self, body: EmissionBody) -> bytes:
        """The emission, evaluated again at its snapshot, as JSON. BadArgument if its query has no answer that can be
        reproduced."""
        if self.query.limit is not None and not self.query.shape.order_by:
            raise BadArgument(
                "what a LIMIT without ORDER BY showed depends on all evaluations before, so one of them is not made "
                "again; since=N-1&limit=1 gives the emission as it was stored"
            )
        if self.definition.asks_source:
            raise BadArgument(
                f"the query asks the source {MAIN}, which has no snapshots, so an evaluation is not made again; "
                "since=N-1&limit=1 gives the emission as it was stored"
            )
        at = body.at
        assert at is not None, "every emission is stored with its evaluation"
        now = self._answer(at, at.sn)
        if body.r2s != R2S.RSTREAM.value and now.boolean is None:
            rows = self._changes(body.r2s, now, self._compared_with(at, body.before))
            columns, created = _encoded(rows, len(body.variables), self.store)
        else:
            columns, created = now.vocabulary.portable(list(now.graph) if now.graph is not None else now.columns)
        # ISTREAM and DSTREAM of an ASK emit only that it came, or went.
        boolean = body.boolean if body.r2s != R2S.RSTREAM.value else now.boolean
        part = Part.of_one(
            self.definition.number, body.sn, at.k, body.time, body.windows, columns, boolean, body.repeated, body.first,
            QueryState(), True, created, body.gap,
        )  # fmt: skip
        decode: Callable[[Ids], list[bytes]] = self.store.terms
        return to_json(
            body_of(part, body.query, body.number, body.r2s, body.variables, decode, body.graph, body.sources)
        )

    def _compared_with(self, at: LastEvaluation, before: LastEvaluation | None) -> Answer | None:
        if self.query.emits_new:
            began = self.definition.state.began
            after = NewAfter(began + 1, -1, began=began)
            if before is not None:
                after = NewAfter(before.sn, before.push, before.arrived_at, before.time, began)
            return self._answer(at, at.sn, after)
        return None if before is None else self._answer(before, before.sn)

    def answer(self, at: LastEvaluation, sn: int) -> Answer:
        """The whole answer of an evaluation, which was the last one at snapshot `sn`."""
        return self._answer(at, sn if not self.query.windows else at.sn)

    def _answer(self, at: LastEvaluation, sn: int, new_after: NewAfter | None = None) -> Answer:
        """Over the store at snapshot `sn`."""
        number = self.definition.number
        asking = Asking(
            seed=seed_of(number, at.sn, at.k),
            salt=salt_of(number),
            allowed_urls=self.allowed_urls,
            control=self.control,
            held=True,
            sources=self.sources,
            remote_patterns=self.definition.remote_patterns,
        )
        began = self.definition.state.began
        instant = Instant(at.time, at.sn, at.push, at.arrived_at, False, new_after, number, began)
        try:
            windows = [window.for_arrivals() for window in self.windows] if at.arrived else self.windows
            with placed(self.definition.text):
                return evaluate(self.store, self.query, sn, windows, instant, asking=asking)
        except SnapshotGone as error:
            raise Gone(
                f"the evaluation at {at.time} cannot be made again: {error}; "
                "since=N-1&limit=1 gives the emission as it was stored"
            ) from error

    def _changes(self, r2s: str, now: Answer, before: Answer | None) -> Rows:
        came, went = _rows(now), [] if before is None else _rows(before)
        emitted, other = (came, went) if r2s == R2S.ISTREAM.value else (went, came)
        left = Counter(other)
        found = []
        for row in emitted:
            if left[row] > 0:
                left[row] -= 1
            else:
                found.append(row)
        return found


def _rows(answer: Answer) -> Rows:
    """As texts, b"" where a variable is unbound: two answers have vocabularies of their own."""
    columns = answer.columns if answer.graph is None else list(answer.graph)
    return list(zip(*(_texts(column, answer.vocabulary) for column in columns), strict=True))


def _texts(column: Ids, vocabulary: Vocabulary) -> list[bytes]:
    bound = column != 0
    texts = iter(vocabulary.decode(column[bound]))
    return [next(texts) if is_bound else b"" for is_bound in bound.tolist()]


def _encoded(rows: Rows, width: int, store: Store) -> tuple[list[Ids], list[bytes]]:
    vocabulary = Vocabulary(store.ids, store.terms)
    columns = []
    for place in range(width):
        texts = [row[place] for row in rows]
        column = np.zeros(len(texts), np.uint64)
        bound = [i for i, text in enumerate(texts) if text]
        column[bound] = vocabulary.encode([texts[i] for i in bound])
        columns.append(column)
    return vocabulary.portable(columns)
