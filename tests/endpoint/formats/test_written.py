"""Answers and emissions as they are written: no more is made on the way than is said."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest

from endpoint.formats import results
from stream_ext.emissions.emission import EmissionBody, to_json
from stream_ext.errors import QueryTooLarge
from stream_ext.oneshot.answers import Decoded

COLUMNS, TERM = 200, b'"' + b"x" * 10_000 + b'%d"'
NAMES = [f"v{number}" for number in range(COLUMNS)]
#: Each column has a long term of its own: two megabytes together.
TERMS = [TERM % number for number in range(COLUMNS)]


def answer(format: str) -> bytes:
    texts: list[bytes | None] = [*TERMS]
    batch = Decoded(texts, [[number] for number in range(COLUMNS)], 1)
    return b"".join(results.write(format, NAMES, [batch], None))


def emission(names: list[str], terms: list[bytes], columns: list[list[int]]) -> bytes:
    places = [np.array(column, "<i4").tobytes() for column in columns]
    return to_json(EmissionBody("q", 1, "RSTREAM", 0, [], 1, names, terms, places, None, 0, None))


def all_columns() -> bytes:
    return emission(NAMES, TERMS, [[number] for number in range(COLUMNS)])


@pytest.mark.parametrize(
    "write", [lambda: answer("json"), lambda: answer("xml"), lambda: answer("ndjson"), all_columns]
)
def test_a_term_is_written_for_the_columns_that_have_it(write: Callable[[], bytes]) -> None:
    tracemalloc.start()
    try:
        written = write()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(written) > COLUMNS * 10_000
    assert peak < 20 * len(written)


def test_what_is_unbound_is_left_out_of_an_emission() -> None:
    answered = emission(["a", "b"], [b'"x"'], [[0, -1], [-1, 0]])
    assert b'[{"a":{"type":"literal","value":"x"}},{"b":{"type":"literal","value":"x"}}]' in answered


def test_names_count_in_what_an_emission_says() -> None:
    rows = 3_000_000
    with pytest.raises(QueryTooLarge, match="of one emission"):
        emission(["v" * 250], [b"1"], [[0] * rows])
