"""The rows of the emission log: emissions and commits as keys and values, cut into pieces that a cell can hold.

    emission (query, number, piece, epoch) -> header, a piece of the body
    commit   (epoch, number, piece)        -> header, a piece of the states

A row counts if its epoch is the one that the head has for its commit."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from hbase_store.backends.keyvalue import Key, Put, Value
from hbase_store.errors import Corrupt
from hbase_store.layout.rows import Sn
from hbase_store.layout.sealed import cut, seal, unseal
from hbase_store.log.head import Head

EMISSION_KEY = struct.Struct(">QQIQ")
EMISSION_HEADER = struct.Struct("<QI")
COMMIT_KEY = struct.Struct(">QQI")
COMMIT_HEADER = struct.Struct("<I")
EMISSION_MAGIC, COMMIT_MAGIC = b"RE", b"RC"


class EmissionRow(msgspec.Struct, array_like=True, frozen=True):
    """Emission `number` of a query; the store does not look into `body`."""

    query: int
    number: int
    body: bytes


class EmissionCommit(msgspec.Struct, array_like=True, frozen=True):
    """`lasts`: the number of the last emission of each query named; a state of None: that query is gone.

    `time_ms`: when it was made, by the writer's clock."""

    number: int
    position: int
    whole: bool
    states: dict[int, bytes | None]
    lasts: dict[int, int]
    time_ms: int = 0


def emission_puts(row: EmissionRow, head: Head) -> Iterator[Put]:
    pieces = cut(row.body)
    header = EMISSION_HEADER.pack(head.last, len(pieces))
    for piece, body in enumerate(pieces):
        key = EMISSION_KEY.pack(row.query, row.number, piece, head.epoch)
        yield Put("emission", key, seal(EMISSION_MAGIC, header + body), head.last)


def commit_puts(commit: EmissionCommit, head: Head) -> list[Put]:
    pieces = cut(msgspec.msgpack.encode(commit))
    header = COMMIT_HEADER.pack(len(pieces))
    return [
        Put("commit", COMMIT_KEY.pack(head.epoch, head.last, i), seal(COMMIT_MAGIC, header + piece), head.last)
        for i, piece in enumerate(pieces)
    ]


def body_of(rows: list[tuple[Key, Value]], head: Head) -> bytes | None:
    """What counts of the rows of one number; None if nothing does."""
    parts: list[bytes] = []
    expected = 0
    for key, value in rows:
        *_, epoch = EMISSION_KEY.unpack(key)
        payload = unseal(EMISSION_MAGIC, value, "emission", key)
        commit, expected_here = EMISSION_HEADER.unpack_from(payload)
        if head.epoch_of(commit) == epoch:
            parts.append(bytes(payload[EMISSION_HEADER.size :]))
            expected = expected_here
    if len(parts) != expected:
        raise Corrupt(f"emission {rows[0][0].hex()} has {len(parts)} of its {expected} pieces in table emission")
    return b"".join(parts) if expected else None


class CommitSum:
    """The sum of all commits up to `number`: the state and the last emission of each query."""

    def __init__(self) -> None:
        self.number = 0
        self.position = Sn(0)
        self.states: dict[int, bytes] = {}
        self.lasts: dict[int, int] = {}
        self.dropped: set[int] = set()

    def add(self, commit: EmissionCommit) -> None:
        if commit.whole:  # it does not name those that are gone
            self.dropped |= self.lasts.keys() - commit.lasts.keys()
            self.states, self.lasts = {}, {}
        self.number, self.position = commit.number, Sn(commit.position)
        self.lasts.update(commit.lasts)
        for query, state in commit.states.items():
            if state is None:
                self.states.pop(query, None)
                self.lasts.pop(query, None)
                self.dropped.add(query)
            else:
                self.states[query] = state


@dataclass(frozen=True, slots=True)
class EmissionsSoFar:
    """What all commits up to `commit` say together."""

    commit: int
    at: Sn
    _states: Mapping[int, bytes]
    _lasts: Mapping[int, int]

    def position(self) -> Sn:
        return self.at

    def states(self) -> dict[int, bytes]:
        return dict(self._states)

    def last(self, query: int) -> int:
        return self._lasts.get(query, 0)

    def queries(self) -> list[int]:
        """The queries and groups that have emissions."""
        return sorted(self._lasts)
