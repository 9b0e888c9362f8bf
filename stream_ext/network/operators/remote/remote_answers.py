"""Remote answers: the answers of a remote endpoint, as long as rows need them; and these rows.

The solutions are rows of columns. For each combination of known values (a key) there are the places of its solutions,
and a digest of them, so that a changed answer is recognised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import numpy as np

from stream_ext.remote.sparql_client import Solution
from stream_ext.rows.zset import Ids, ZSet, concat, consolidate, empty
from stream_ext.values.vocabulary import Vocabulary

#: A combination of known values: the id of the service (0: it is a constant), then those of the shared variables.
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
        """The keys whose answer has changed, or is their first."""
        return [key for key, solutions in found.items() if self._digests.get(key) != _digest(solutions)]

    def take(self, found: Found, vocabulary: Vocabulary, is_last: bool = False) -> None:
        """`is_last`: no answer will be compared with these."""
        solutions = [solution for of_key in found.values() for solution in of_key]
        for name, before in self.columns.items():
            texts = [solution.get(name) for solution in solutions]
            column = np.zeros(len(texts), np.uint64)
            if bound := [text for text in texts if text is not None]:
                column[[text is not None for text in texts]] = vocabulary.encode(bound)
            self.columns[name] = np.concatenate([before, column])
        for key, of_key in found.items():
            self.places[key] = range(self._count, self._count + len(of_key))
            if not is_last:
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
    """A digest that is equal for equivalent solutions; blank nodes are numbered by their first occurrence."""
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
    """The present rows of the left side. Equal rows are summed when as many rows were added as there were."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: list[ZSet] = []
        self._added = 0
        self._summed = 0

    def take(self, change: ZSet) -> None:
        if change.count:
            self._parts.append(change)
            self._added += change.count

    @property
    def is_overgrown(self) -> bool:
        return self._added > max(_FEW, self._summed)

    def summed(self, time: int) -> ZSet:
        """The rows that are valid at `time` or later, summed up."""
        rows = concat(self._parts, self._width)
        alive = consolidate(rows.take(rows.until_array() >= time)) if rows.count else empty(self._width)
        self._parts, self._added, self._summed = [alive] if alive.count else [], 0, alive.count
        return alive
