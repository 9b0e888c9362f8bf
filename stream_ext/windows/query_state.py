"""The state of a query: how far it has been evaluated. It is stored with each emission, and read after a restart.

Example: the last evaluation was in snapshot 12, caused by push 2 of it, at time 3000; the windows began at T0 = 0."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

#: The `behind_at` of a query that is to begin anew, at whatever snapshot.
NOWHERE = -1


class LastEvaluation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The last evaluation: its snapshot, the push in it that caused it, its number there (`k`), its time. `arrived`: it
    was caused by an arrival; then the elements of that push up to `arrived_at` had arrived (see `Due`)."""

    sn: int
    push: int
    k: int
    time: int
    arrived: bool = False
    arrived_at: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        """Later evaluations have greater ones."""
        return self.sn, self.k

    def packed(self) -> bytes:
        return _encode(self)

    @classmethod
    def unpacked(cls, packed: bytes) -> LastEvaluation | None:
        """None: there was none."""
        return _decoder.decode(packed) if packed else None


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(LastEvaluation)


class Within(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The progress of a query in the middle of a snapshot: the last push, and the number of evaluations (`k`). The
    elements of that push up to `arrived_at` were evaluated as arrivals (see `Due`)."""

    push: int
    k: int
    arrived_at: int | None = None


class ClosePlace(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Where an evaluation at a close is among all of a query: its snapshot, the push in it that made it due (0 for
    windows of the past), and its time. Later ones are greater."""

    sn: int
    push: int
    time: int


class QueryState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The progress of a query: with the streams, enough to go on after a restart as if nothing had happened.

    `registered` is the time that all its streams had reached at registration (closes up to it are never reported);
    None if one of them had no time yet. `ranked` keeps the orders of first appearance where LIMIT needs them: that of
    the query, and those of its sub-SELECTs. `t0` is the origin of the closes, if the first push determines it and has
    come. Closes up to `after` are done, even if nothing was evaluated for them; `last` is the greatest time of an
    evaluation. `begins` are the first closes of each window that were evaluated as such, and then the first times of
    each period. `sn` is the snapshot of this state (0: registration). `gap`: nothing was emitted yet since a pause.
    `ended`: nothing will be emitted any more. `behind_at`: the query fell behind the others, and is evaluated up to
    this snapshot only, and in the next one as far as `within`. `unanswered`: it waits for an endpoint of SERVICE that
    did not answer; if False, it is catching up. What came up to snapshot `began` is in windows, but does not make a
    result new. `counts`: of each window with a count STEP, the number of what had ever come in its stream at
    registration, and at the last evaluation."""

    registered: int | None = None
    evaluated: LastEvaluation | None = None
    ranked: bytes | None = None
    t0: int | None = None
    after: int | None = None
    last: int | None = None
    begins: list[int | None] = []
    sn: int = 0
    gap: bool = False
    ended: bool = False
    behind_at: int | None = None
    within: Within | None = None
    unanswered: bool = False
    began: int = 0
    counts: list[tuple[int, int]] = []

    @property
    def reached(self) -> int | None:
        """Closes and periods up to this time are over."""
        return self.registered if self.after is None else self.after

    @property
    def is_catching_up(self) -> bool:
        return self.behind_at is not None and not self.unanswered

    @property
    def progress(self) -> tuple[int, int]:
        """The next snapshot, and how many of its evaluations are done."""
        if self.behind_at is None:
            return self.sn + 1, 0
        return self.behind_at + 1, 0 if self.within is None else self.within.k

    def behind(self, behind_at: int, within: Within | None = None, unanswered: bool = False) -> QueryState:
        """The state of the query if it falls behind at this snapshot."""
        return msgspec.structs.replace(self, behind_at=behind_at, within=within, unanswered=unanswered)

    def among(self, all_of_them: QueryState, gap: bool) -> QueryState:
        """The state of a query that began with this state, and then went on together with `all_of_them`."""
        begins = own_begins(self.begins, all_of_them.begins)
        return msgspec.structs.replace(
            all_of_them, registered=self.registered, begins=begins, gap=gap, began=self.began
        )

    def is_unevaluated_at(self, time: int | None) -> bool:
        """Whether the query was never evaluated, and will not be at this time or before."""
        return self.evaluated is None and (time is None or (self.reached is not None and self.reached >= time))


def own_begins(own: Sequence[int | None], later: Sequence[int | None]) -> list[int | None]:
    """The first closes of a query that began alone and went on together with others. Nobody changes them: a thousand
    queries that began together have one list."""
    if not own:
        return later if isinstance(later, list) else list(later)
    return [after if begin is None else begin for begin, after in zip(own, later, strict=True)]
