"""What a task of Spark finishes before it sends it, and what it leaves to the server."""

from __future__ import annotations

import numpy as np
import pytest

from stream_ext.emissions import finishing
from stream_ext.emissions.finishing import finish
from stream_ext.windows.part import Ids, Part
from stream_ext.windows.query_state import QueryState
from tests.stream_ext.emissions.test_merge import definition

QUERIES = {number: definition(number) for number in range(1, 200)}


def shared(queries: int) -> Part:
    """One row for each query."""
    numbers, rows = np.arange(1, queries + 1, dtype=np.uint64), np.arange(queries, dtype=np.uint64)
    columns = [rows % np.uint64(3) + np.uint64(7)]
    return Part(numbers, 5, 0, 50, [], rows, columns, None, True, 0, None, QueryState(1), is_shared=True)


def texts(ids: Ids) -> list[bytes]:
    return [b"<http://ex/%d>" % each for each in ids.tolist()]


def test_a_term_is_sent_once_and_rows_as_json_only_to_queries_with_a_subscriber() -> None:
    part = finish(shared(10), texts, QUERIES, {4, 500}, lambda numbers: None)
    assert part.terms == [b"<http://ex/7>", b"<http://ex/8>", b"<http://ex/9>"]
    assert part.columns[0].tolist() == [1, 2, 3, 1, 2, 3, 1, 2, 3, 1]
    row = b'{"x":{"type":"uri","value":"http://ex/7"}}'
    assert part.answers == {4: b'"head":{"vars":["x"]},"results":{"bindings":[%s]}' % row}


@pytest.mark.parametrize(("subscribed", "sent"), [(64, 64), (65, 0)])
def test_many_subscribed_queries_of_one_evaluation_are_left_to_their_readers(subscribed: int, sent: int) -> None:
    part = finish(shared(100), texts, QUERIES, set(range(1, subscribed + 1)), lambda numbers: None)
    assert len(part.answers) == sent


def test_a_long_answer_is_left_to_its_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finishing, "_ANSWER_BYTES_MAX", 50)
    assert not finish(shared(3), texts, QUERIES, {1}, lambda numbers: None).answers
