"""Ranking: the order of first appearance, which LIMIT and OFFSET cut where no ORDER BY says how.

Rows are ranked by first appearance while they remain answers; one that left counts as new when it returns. A second
copy of a row ranks where it came itself; when a copy leaves, it is the latest that goes."""

from __future__ import annotations

import msgspec
import numpy as np

from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import Columns, Ids, Weights


class Ranking:
    def __init__(self, width: int) -> None:
        self._width = width
        self._ranked = np.empty((0, width), np.uint64)  # one row a copy, in order of rank

    def step(self, columns: Columns, net: Weights) -> None:
        """Takes the net change of the answer in."""
        rows = np.stack(columns, axis=1) if columns else np.empty((len(net), 0), np.uint64)
        self._leave(rows[net < 0], -net[net < 0])
        came = net > 0
        self._ranked = np.concatenate([self._ranked, np.repeat(rows[came], net[came], axis=0)])

    def shown(self) -> tuple[Columns, Weights]:
        """All rows, in order of rank."""
        columns = tuple(np.ascontiguousarray(column) for column in self._ranked.T)
        return columns, np.ones(len(self._ranked), np.int64)

    def _leave(self, rows: Ids, counts: Weights) -> None:
        leaving = {row.tobytes(): int(count) for row, count in zip(rows, counts, strict=True)}
        if not leaving:
            return
        kept = np.ones(len(self._ranked), np.bool_)
        for i in range(len(self._ranked) - 1, -1, -1):  # copies are few where a LIMIT stands; the latest goes first
            key = self._ranked[i].tobytes()
            if leaving.get(key, 0):
                leaving[key] -= 1
                kept[i] = False
        self._ranked = self._ranked[kept]

    def save(self, vocabulary: Vocabulary) -> bytes:
        """Terms that only this query may know go as texts: another process numbers them anew."""
        ids = self._ranked.reshape(-1)
        local = np.unique(ids[vocabulary.is_own(ids)])
        texts = dict(zip(local.tolist(), vocabulary.decode(local) if len(local) else [], strict=True))
        return msgspec.msgpack.encode((self._width, np.ascontiguousarray(self._ranked).tobytes(), texts))

    def restore(self, saved: bytes, vocabulary: Vocabulary) -> None:
        """Takes a saved order over (its rows are the answer that the rebuilt state has)."""
        width, rows, texts = msgspec.msgpack.decode(saved, type=tuple[int, bytes, dict[int, bytes]])
        ids = np.frombuffer(rows, np.uint64).copy()
        if texts:
            was = np.array(sorted(texts), np.uint64)
            now = vocabulary.encode([texts[id] for id in was.tolist()])
            local = np.isin(ids, was)
            ids[local] = now[np.searchsorted(was, ids[local])]
        self._ranked = ids.reshape(-1, width) if width else np.empty((0, 0), np.uint64)
