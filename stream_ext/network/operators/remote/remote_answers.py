"""Told: what another endpoint has answered, for as long as rows need it; and the rows that may.

Solutions stand one below the other in columns; of each combination of known values (a key) it is known where its own
are, and what they said, so that another answer can be told from the same one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from stream_ext.remote.sparql_client import Solution
from stream_ext.rows.zset import Ids, ZSet, concat, consolidate, empty
from stream_ext.values.vocabulary import Vocabulary

#: What one combination of known values stands for: the service's id (0: it is written), then the shared variables'.
Key = tuple[int, ...]
Found = Mapping[Key, Sequence[Solution]]

_FEW = 1024


class AnsweredRows:
    def __init__(self, names: tuple[str, ...]) -> None:
        self.columns: dict[str, Ids] = {name: np.empty(0, np.uint64) for name in names}
        self.places: dict[Key, range] = {}
        self._digests: dict[Key, bytes] = {}
        self._count = 0

    def differing(self, found: Found) -> list[Key]:
        """Those whose answer is another one, or the first."""
        return [key for key, solutions in found.items() if self._digests.get(key) != _digest(solutions)]

    def take(self, found: Found, vocabulary: Vocabulary) -> None:
        solutions = [solution for of_key in found.values() for solution in of_key]
        for name, before in self.columns.items():
            texts = [solution.get(name) for solution in solutions]
            column = np.zeros(len(texts), np.uint64)
            if bound := [text for text in texts if text is not None]:
                column[[text is not None for text in texts]] = vocabulary.encode(bound)
            self.columns[name] = np.concatenate([before, column])
        for key, of_key in found.items():
            self.places[key] = range(self._count, self._count + len(of_key))
            self._digests[key] = _digest(of_key)
            self._count += len(of_key)

    def keep(self, keys: Collection[Key]) -> None:
        """Forgets all others."""
        retained = [(key, self.places[key]) for key in keys if key in self.places]
        rows = np.concatenate([np.empty(0, np.int64), *(np.arange(place.start, place.stop) for _, place in retained)])
        self.columns = {name: column[rows] for name, column in self.columns.items()}
        self._digests = {key: self._digests[key] for key, _ in retained}
        self.places, self._count = {}, 0
        for key, place in retained:
            self.places[key] = range(self._count, self._count + len(place))
            self._count += len(place)


def _digest(solutions: Sequence[Solution]) -> bytes:
    """Equal for what means the same; blank nodes are told apart by where they come first, whatever their labels."""
    numbers: dict[bytes, bytes] = {}
    lines = []
    for solution in solutions:
        named = sorted(solution.items())
        texts = [
            numbers.setdefault(text, b"_:%d" % len(numbers)) if text.startswith(b"_:") else text for _, text in named
        ]
        lines.append(b"\n".join(name.encode() + b" " + text for (name, _), text in zip(named, texts, strict=True)))
    return blake2b(b"\0".join([b"%d" % len(lines), *sorted(lines)]), digest_size=16).digest()


class PresentRows:
    """The rows that are there: summed now and then, when as many have come as there were."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: list[ZSet] = []
        self._came = 0
        self._settled = 0

    def take(self, change: ZSet) -> None:
        if change.count:
            self._parts.append(change)
            self._came += change.count

    @property
    def is_overgrown(self) -> bool:
        return self._came > max(_FEW, self._settled)

    def settled(self, time: int) -> ZSet:
        """What of it counts at `time` or later."""
        rows = concat(self._parts, self._width)
        alive = consolidate(rows.take(rows.until_array() >= time)) if rows.count else empty(self._width)
        self._parts, self._came, self._settled = [alive] if alive.count else [], 0, alive.count
        return alive
