"""A stand-in for the store's dictionary."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store import terms
from hbase_store.arrays import Ids


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

    def decode(self, ids: Ids) -> list[bytes]:
        return [self._texts[id] for id in ids.tolist()]
