"""Remote answers: the answers of a remote endpoint, as long as rows need them; and these rows.

The solutions are rows of columns. For each combination of known values (a key) there are the places of its solutions,
and a digest of them, so that a changed answer is recognised."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from stream_ext.remote.sparql_client import Solution
from stream_ext.rows.key_table import KeyTable, fitted
from stream_ext.rows.zset import Ids, ZSet, concat, consolidate, empty
from stream_ext.values.vocabulary import Vocabulary

#: A combination of known values: the id of the service (0: it is a constant), then those of the shared variables.
Key = tuple[int, ...]
Found = Mapping[Key, Sequence[Solution]]

Numbers = npt.NDArray[np.int32]
Signed = npt.NDArray[np.int64]

_FEW = 1024


class AnsweredRows:
    """`places`: the rows of each key's answer. What is looked up for each row of the left side is in arrays, by the
    number of its key."""

    def __init__(self, names: tuple[str, ...], shared: tuple[str, ...]) -> None:
        """`shared`: the variables whose values the keys have, behind the service."""
        width = 1 + len(shared)
        self._shared = {name: place for place, name in enumerate(shared, 1)}
        self.columns: dict[str, Ids] = {name: np.empty(0, np.uint64) for name in names}
        self.places: dict[Key, range] = {}
        self._digests: dict[Key, bytes] = {}
        self._count = 0
        self._width, self._retained = width, 0
        self._begin_table()

    def _begin_table(self) -> None:
        self._table = KeyTable(self._width)
        self._starts, self._counts = (np.zeros(0, np.int64) for _ in range(2))
        self._known = np.zeros(0, np.bool_)

    def numbers(self, keys: Ids) -> Numbers:
        """The number of each key, which are columns of `keys`; those that are new get one."""
        numbers = self._table.number(keys)
        if len(self._starts) < self._table.used:
            capacity = self._table.capacity
            self._starts, self._counts = fitted(self._starts, capacity), fitted(self._counts, capacity)
            self._known = fitted(self._known, capacity)
        return numbers

    def of_numbers(self, numbers: Numbers) -> tuple[Signed, Signed]:
        """Where the answer to each key begins, and its length."""
        return self._starts[numbers], self._counts[numbers]

    def unanswered(self, keys: Ids, numbers: Numbers) -> list[Key]:
        """Those without an answer, each once."""
        missing = ~self._known[numbers]
        return keys_in(keys[:, missing]) if missing.any() else []

    @property
    def is_overgrown(self) -> bool:
        return len(self.places) > max(_FEW, 2 * self._retained)

    def differing(self, found: Found) -> list[Key]:
        """The keys whose answer has changed, or is their first."""
        known = self._digests
        return [key for key, solutions in found.items() if key not in known or known[key] != _digest(solutions)]

    def take(self, found: Found, vocabulary: Vocabulary, is_last: bool = False) -> None:
        """`is_last`: no answer will be compared with these."""
        solutions = [solution for of_key in found.values() for solution in of_key]
        for name, before in self.columns.items():
            if (place := self._shared.get(name)) is None:
                texts = [solution.get(name) for solution in solutions]
            else:  # where the key has a value, the rows have it
                texts = [None if key[place] else each.get(name) for key, of_key in found.items() for each in of_key]
            column = np.zeros(len(texts), np.uint64)
            if bound := [text for text in texts if text is not None]:
                column[[text is not None for text in texts]] = vocabulary.encode(bound)
            self.columns[name] = np.concatenate([before, column])
        for key, of_key in found.items():
            self.places[key] = range(self._count, self._count + len(of_key))
            if not is_last:
                self._digests[key] = _digest(of_key)
            self._count += len(of_key)
        self._place(found)

    def _place(self, keys: Collection[Key]) -> None:
        if keys:
            numbers = self.numbers(columns_of(keys, self._width))
            self._known[numbers] = True
            self._starts[numbers] = [self.places[key].start for key in keys]
            self._counts[numbers] = [len(self.places[key]) for key in keys]

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
        self._retained = len(self.places)
        self._begin_table()
        self._place(self.places)


def keys_in(columns: Ids) -> list[Key]:
    """The distinct keys."""
    return list(map(tuple, np.unique(columns.T, axis=0).tolist()))


def columns_of(keys: Collection[Key], width: int) -> Ids:
    return np.ascontiguousarray(np.array([*keys], np.uint64).reshape(len(keys), width).T)


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
    """The present rows of the left side. Rows that have expired are left out when as many were added as there were."""

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

    def trim(self, time: int) -> None:
        """Leaves out what has expired, and sums equal rows if some were taken back."""
        rows = concat(self._parts, self._width)
        alive = rows.take(rows.until_array() >= time) if rows.count else rows
        if alive.weights is not None:
            alive = consolidate(alive)
        self._parts, self._added, self._summed = [alive] if alive.count else [], 0, alive.count

    def summed(self, time: int) -> ZSet:
        """The rows that are valid at `time` or later, summed up."""
        rows = concat(self._parts, self._width)
        alive = consolidate(rows.take(rows.until_array() >= time)) if rows.count else empty(self._width)
        self._parts, self._added, self._summed = [alive] if alive.count else [], 0, alive.count
        return alive
