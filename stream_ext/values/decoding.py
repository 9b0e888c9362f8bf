"""Decoding: the texts of many terms, within the budget of a query. Their length is not known before."""

from __future__ import annotations

from collections.abc import Callable

from hbase_store.arrays import Ids
from stream_ext.evaluation_budget import Control

#: Of the object that a text is.
_TEXT_COST = 40
#: Texts that are decoded at a time: so many, or as many as have some megabytes by those before.
_AT_ONCE_LEAST, _AT_ONCE_BYTES = 256, 16 << 20


def decoded_within(decode: Callable[[Ids], list[bytes]], ids: Ids, control: Control) -> list[bytes]:
    """The texts of many terms, in batches that are not too long. The bytes are spent while the terms are decoded, and
    returned to the budget at the end: the caller counts them from there on."""
    if len(ids) <= _AT_ONCE_LEAST:
        return decode(ids)
    texts: list[bytes] = []
    spent, size, at_once = control.spent, 0, _AT_ONCE_LEAST
    while len(texts) < len(ids):
        some = decode(ids[len(texts) : len(texts) + at_once])
        texts += some
        more = sum(map(len, some))
        control.spend(more + _TEXT_COST * len(some))
        control.check()
        size += more
        at_once = max(_AT_ONCE_LEAST, min(4 * at_once, _AT_ONCE_BYTES * len(texts) // (1 + size)))
    control.return_to(spent)
    return texts
