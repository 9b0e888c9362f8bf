"""Small answers, cached while their snapshot is the latest.

The state of a snapshot never changes, so the same request at the same snapshot has the same answer. The first
request at a newer snapshot empties the cache: no answer in it is out of date.

Many clients may send the same request at once, for example pages that are all reloaded after an update. The first of
them is evaluated, and the others get its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
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


class Evaluation:
    """A request that is being evaluated, and the equal requests that wait for its reply."""

    def __init__(self) -> None:
        self._followers: list[asyncio.Future[tuple[int, Reply] | None]] = []
        self.has_shared = False

    def follow(self) -> asyncio.Future[tuple[int, Reply] | None]:
        """The reply and its snapshot, once they are there; None: there is none to share."""
        follower: asyncio.Future[tuple[int, Reply] | None] = asyncio.get_running_loop().create_future()
        self._followers.append(follower)
        return follower

    def share(self, found: tuple[int, Reply] | None) -> None:
        self.has_shared = True
        followers, self._followers = self._followers, []
        for follower in followers:
            if not follower.done():
                follower.set_result(found)


class AnswerCache:
    """Used on the event loop only."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._sn, self._size = -1, 0
        self._replies: dict[Key, Reply] = {}
        self._evaluations: dict[Key, Evaluation] = {}  # of this snapshot, or of later ones
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
            self._replies.clear()
            self._size = 0
        self._replies[key] = reply
        self._size += size

    def evaluation(self, key: Key, head: int) -> Evaluation | None:
        """The evaluation of an equal request, if it has begun at this snapshot and has no reply yet."""
        evaluation = self._evaluations.get(key) if head == self._sn else None
        return None if evaluation is None or evaluation.has_shared else evaluation

    @contextmanager
    def evaluating(self, key: Key, head: int) -> Iterator[Evaluation]:
        """While a request is evaluated: equal ones find it. At the end those that still wait get no reply of it."""
        if head != self._sn:
            self._forget(head)
        evaluation = self._evaluations[key] = Evaluation()
        try:
            yield evaluation
        finally:
            if self._evaluations.get(key) is evaluation:
                del self._evaluations[key]
            evaluation.share(None)

    def _forget(self, sn: int) -> None:
        self._sn, self._size = sn, 0
        self._replies.clear()
        self._evaluations.clear()
