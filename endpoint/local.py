"""A question to a store itself, without a server, and beside one: it only reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import hbase_store
from stream_ext.answers import Decoded, answer_once, decoded
from stream_ext.errors import Gone
from stream_ext.evaluate import Answer
from stream_ext.plan.algebra import Admin, Register, Update
from stream_ext.syntax import DEFAULT_BASE, parse
from stream_ext.times import parse_time


def changes(text: str) -> bool:
    """Whether it is more than a question."""
    return isinstance(parse(text), Update | Register | Admin)


@contextmanager
def asked(url: str, text: str, snapshot: int | None, at: str | None) -> Iterator[tuple[Answer, Iterator[Decoded]]]:
    """The answer and its rows, some thousand at a time."""
    with closing(hbase_store.open(url, read_only=True)) as store:
        head = int(store.refresh())
        sn = head if snapshot is None else snapshot
        if sn > head:
            raise Gone(f"there is no snapshot {sn}; the latest is {head}")
        answer = answer_once(store, text, DEFAULT_BASE, sn, None if at is None else parse_time(at))
        yield answer, decoded(answer.columns, answer.vocabulary.decode, answer.count)
