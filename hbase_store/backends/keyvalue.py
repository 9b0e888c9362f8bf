"""The key-value protocol: what the store asks of HBase, of LMDB, or of whatever comes next.

Every verb is batched, because on HBase a call is a round trip; nothing here may be assumed to be a local,
free read. Rows are written once: a key is put again only with the same bytes, or with a later cell time.
The cell time is what a delete must name (on HBase a delete without it hides later puts)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

Key = bytes
Value = bytes

#: The tables, each with one family; all but `meta` are salted and pre-split on HBase.
TABLES = ("slab", "sn", "slice", "terms", "run", "runindex", "runs", "i2t", "emission", "commit", "meta")

#: No call carries more than this many bytes (HBase's Thrift server dies of much larger ones).
CALL_BYTES_MAX = 4 << 20

#: And no answer more than this, as far as it is known before.
ANSWER_BYTES_MAX = 2 * CALL_BYTES_MAX

#: LMDB's limit. Every backend keeps to it, and to values of CALL_BYTES_MAX, so that a store can move between them.
KEY_BYTES_MAX = 511


@dataclass(frozen=True, slots=True)
class Put:
    table: str
    key: Key
    value: Value
    time: int  # the cell time: a writer epoch, an SN or a commit number


@dataclass(frozen=True, slots=True)
class CompareAndSet:
    """One cell of `meta` from `expected` (None: absent) to `new`."""

    key: Key
    expected: Value | None
    new: Value


class KeyValue(Protocol):
    """The verbs. Keys are ordered bytewise; a table must be one of `TABLES`; threads may share a backend."""

    #: Whether a call is a round trip to another process: then few calls that bring much are better than many.
    is_remote: bool

    def get_many(self, table: str, keys: Sequence[Key], sizes: Sequence[int] = ()) -> list[Value | None]:
        """The values, in the order asked; None where there is none.

        `sizes`: the largest possible size of each value, if the caller knows it. Without it, a call may carry more
        bytes than it should, if values are much larger than those before."""
        ...

    def scan(self, table: str, start: Key, stop: Key | None) -> Iterator[tuple[Key, Value]]:
        """All rows with start <= key < stop (None: to the end), in key order."""
        ...

    def put_many(self, puts: Iterable[Put]) -> None:
        """All are written and acknowledged when it returns, in any order."""
        ...

    def delete(self, table: str, keys: Sequence[Key], time: int) -> None:
        """Removes the cells of these keys whose cell time is at most `time`.

        A key so deleted is put again only with a later cell time: HBase hides a cell with an earlier one."""
        ...

    def delete_range(self, table: str, start: Key, stop: Key | None, time: int) -> None:
        """`delete` for all keys with start <= key < stop."""
        ...

    def allocate(self, counter: str, count: int) -> int:
        """The first of `count` numbers that nobody else ever gets from this counter; the first ever is 1."""
        ...

    def publish(self, stages: Sequence[Sequence[Put]], compare_and_set: CompareAndSet) -> bool:
        """Each stage acknowledged before the next, then the compare-and-set; whether the cell was as expected.

        LMDB: one transaction, so False leaves nothing behind. HBase: stage by stage; False, or an error,
        leaves rows that no reader may look at before the cell says so. An error after the compare-and-set
        was sent leaves it undecided: the caller re-reads the cell."""
        ...

    def sync(self) -> None:
        """What was acknowledged survives a power cut when this returns (as far as the backend can promise)."""
        ...

    def close(self) -> None: ...
