"""The texts of all predicates of the runs, read together.

Nearly every query names some of them, and in a store of another process each would take two round trips, one for its
hash and one for its text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store.backends.keyvalue import KeyValue
from hbase_store.layout.run import Run
from hbase_store.layout.run_blocks import is_edges
from hbase_store.layout.terms import HELD_BASE
from hbase_store.terms.pages import Pages

#: The texts of more predicates are not read together.
_MOST = 1024


class PredicateTexts:
    """Reads the texts of predicates once, when the first term is looked up after they came."""

    def __init__(self, kv: KeyValue, pages: Pages) -> None:
        self._is_remote, self._pages = kv.is_remote, pages
        self._unread: frozenset[int] = frozenset()
        self._read: frozenset[int] = frozenset()

    def adopt(self, runs: Sequence[Run]) -> None:
        """These are the runs from now on."""
        if self._is_remote:
            listed = {key.predicate for run in runs for key in run.columns if is_edges(key)}
            own = frozenset(id for id in listed if id < HELD_BASE)
            self._unread = own - self._read if len(own) <= _MOST else frozenset()

    def read(self) -> dict[bytes, int]:
        """The ids of predicates that were not read before, by their texts; mostly nothing."""
        wanted = self._unread
        if not wanted:
            return {}
        ids = sorted(wanted)
        texts = self._pages.texts(np.array(ids, np.uint64))
        self._read, self._unread = self._read | wanted, self._unread - wanted
        return {text: id for text, id in zip(texts, ids, strict=True) if text}
