"""Small answers, cached while their snapshot is the latest.

The state of a snapshot never changes, so the same request at the same snapshot has the same answer. The first
request at a newer snapshot empties the cache: no answer in it is out of date."""

from __future__ import annotations

from typing import NamedTuple

#: The parts of a request that determine its answer: its parameters, what it accepts, its Content-Type, its body.
Key = tuple[bytes, str, str, bytes]

KEY_BYTES_MAX = 8_192
ANSWER_BYTES_MAX = 16_384


class Reply(NamedTuple):
    """A whole answer: body, media type and additional headers."""

    body: bytes
    media_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class AnswerCache:
    """Used on the event loop only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sn, self._size = -1, 0
        self._replies: dict[Key, Reply] = {}
        self.hits = 0

    def get(self, key: Key, head: int) -> Reply | None:
        if head != self._sn:
            self._forget(head)
            return None
        reply = self._replies.get(key)
        self.hits += reply is not None
        return reply

    def put(self, key: Key, sn: int, reply: Reply) -> None:
        size = len(key[0]) + len(key[3]) + len(reply.body)
        if sn != self._sn or len(reply.body) > ANSWER_BYTES_MAX or size - len(reply.body) > KEY_BYTES_MAX:
            return
        if self._size + size > self._bytes_max:
            self._forget(sn)
        self._replies[key] = reply
        self._size += size

    def _forget(self, sn: int) -> None:
        self._sn, self._size = sn, 0
        self._replies.clear()
