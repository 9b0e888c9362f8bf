"""A stored emission has each text once, in the order of the ids: it is the same, byte for byte, whoever makes it."""

from __future__ import annotations

import random

import numpy as np
import pytest

from hbase_store.arrays import Ids
from stream_ext.emissions.emission import body_of, columns_of, decode_body, encode_body
from stream_ext.windows.part import Part
from stream_ext.windows.query_state import QueryState


def decode(ids: Ids) -> list[bytes]:
    return [b'"%d"' % id for id in ids.tolist()]


@pytest.mark.parametrize("rows", [0, 1, 7, 3000])
@pytest.mark.parametrize("highest", [1, 40, 1 << 59])
def test_each_text_is_there_once_and_in_order(rows: int, highest: int) -> None:
    """Some values are unbound; a few terms, or another one in each row."""
    chance = random.Random(rows + highest)
    table = [[chance.choice([0, chance.randrange(highest + 1)]) for _ in range(3)] for _ in range(rows)]
    columns = [np.array([row[i] for row in table], np.uint64) for i in range(3)]
    part = Part.of_one(1, 2, 0, 1000, [], columns, None, 0, None, QueryState(1), True)
    body = body_of(part, "q", 1, "RSTREAM", ["a", "b", "c"], decode)
    distinct = sorted({id for row in table for id in row if id})
    assert body.terms == decode(np.array(distinct, np.uint64))
    place = {0: -1} | {id: n for n, id in enumerate(distinct)}
    expected = [[place[id] for id in column.tolist()] for column in columns]
    assert [column.tolist() for column in columns_of(decode_body(encode_body(body)))] == expected
