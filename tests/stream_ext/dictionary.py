"""A stand-in for the store's dictionary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store.arrays import Ids
from hbase_store.layout import terms
from stream_ext.values.vocabulary import Vocabulary


class Dictionary:
    """Ids as the store gives them: inline where the term allows it, consecutive else."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self._texts: dict[int, bytes] = {}

    def encode(self, texts: Sequence[str]) -> Ids:
        return np.array([self._id(text.encode()) for text in texts], dtype=np.uint64)

    def _id(self, text: bytes) -> int:
        if not text:
            return 0
        found = terms.inline_id(text) or self._ids.setdefault(text, len(self._ids) + 1)
        self._texts[found] = text
        return found

    @property
    def vocabulary(self) -> Vocabulary:
        """As a store's ids and texts: what was not encoded before is not known."""
        return Vocabulary(self.known, self.decode)

    def known(self, texts: Sequence[bytes]) -> Ids:
        return np.array([terms.inline_id(text) or self._ids.get(text, 0) for text in texts], np.uint64)

    def decode(self, ids: Ids) -> list[bytes]:
        return [self._texts[id] if id in self._texts else terms.inline_text(id) for id in ids.tolist()]
