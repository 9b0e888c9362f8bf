"""Small answers, remembered for as long as their snapshot is the latest.

A snapshot never changes, so who asks the same again gets the same bytes. The first request that finds another snapshot
forgets all of them: nothing here can be out of date."""

from __future__ import annotations

from typing import NamedTuple

#: All of a request that decides its answer: its parameters, what it accepts, its Content-Type, its body.
Key = tuple[bytes, str, str, bytes]

KEY_BYTES_MAX = 8_192
ANSWER_BYTES_MAX = 16_384


class Said(NamedTuple):
    body: bytes
    media_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Remembered:
    """Touched on the event loop only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sn, self._size = -1, 0
        self._said: dict[Key, Said] = {}
        self.hits = 0

    def get(self, key: Key, head: int) -> Said | None:
        if head != self._sn:
            self._forget(head)
            return None
        said = self._said.get(key)
        self.hits += said is not None
        return said

    def put(self, key: Key, sn: int, said: Said) -> None:
        size = len(key[0]) + len(key[3]) + len(said.body)
        if sn != self._sn or len(said.body) > ANSWER_BYTES_MAX or size - len(said.body) > KEY_BYTES_MAX:
            return
        if self._size + size > self._bytes_max:
            self._forget(sn)
        self._said[key] = said
        self._size += size

    def _forget(self, sn: int) -> None:
        self._sn, self._size = sn, 0
        self._said.clear()
