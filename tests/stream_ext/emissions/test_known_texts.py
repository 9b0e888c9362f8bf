"""The terms of answers that several emissions have are decoded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hbase_store.arrays import Ids, frozen
from stream_ext.emissions import known_texts
from stream_ext.emissions.known_texts import KnownTexts, Texts


class Decoder:
    def __init__(self) -> None:
        self.known, self.decoded = KnownTexts(), 0

    def of(self, columns: Sequence[Ids]) -> Texts:
        return self.known.of(columns, lambda: self._texts(columns))

    def _texts(self, columns: Sequence[Ids]) -> Texts:
        self.decoded += 1
        ids = sorted({int(id) for column in columns for id in column})
        places = [np.searchsorted(ids, column).astype(np.int32) for column in columns]
        return [b"%d" % id for id in ids], places


def columns_of(count: int, first: int = 1) -> list[Ids]:
    return [frozen(np.arange(first, first + count, dtype=np.uint64)) for _ in range(2)]


def test_the_same_arrays_are_decoded_once() -> None:
    decoder, columns = Decoder(), columns_of(100)
    terms, places = decoder.of(columns)
    assert (len(terms), [len(column) for column in places]) == (100, [100, 100])
    assert decoder.of(list(columns)) == (terms, places)
    assert decoder.decoded == 1
    assert decoder.of([columns[1], columns[0]])[0] == terms
    assert decoder.of(columns_of(100))[0] == terms
    assert decoder.decoded == 3, "other arrays are decoded, whatever is in them"


def test_arrays_that_may_change_are_not_remembered() -> None:
    decoder, columns = Decoder(), [np.arange(1, 101, dtype=np.uint64)]
    decoder.of(columns)
    columns[0][:] = 7
    assert decoder.of(columns)[0] == [b"7"]


def test_arrays_that_are_gone_are_not_taken_for_new_ones() -> None:
    """A new array may have the identity of one that is gone: those that are known do not go."""
    decoder = Decoder()
    for first in range(1, 200):
        assert decoder.of(columns_of(50, first))[0] == [b"%d" % id for id in range(first, first + 50)]


def test_of_many_answers_those_that_were_used_last_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_texts, "_CELLS_MAX", 1_000)
    decoder, answers = Decoder(), [columns_of(100, first) for first in range(1, 11)]
    for answer in (*answers[:5], answers[0], *answers[5:7], answers[0]):
        decoder.of(answer)
    assert decoder.decoded == 7
    decoder.of(answers[1])
    assert decoder.decoded == 8
    decoder.of(columns_of(600))
    decoder.of(columns_of(600))
    assert decoder.decoded == 10, "one that is larger than all that is known is never remembered"


def test_long_texts_are_known_up_to_a_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of few rows may have texts of a megabyte each."""
    monkeypatch.setattr(known_texts, "_BYTES_MAX", 1_000)
    known, decoded = KnownTexts(), list[int]()

    def texts_of(answer: int, length: int) -> Texts:
        def make() -> Texts:
            decoded.append(answer)
            return [b"x" * length] * 50, [np.arange(50, dtype=np.int32)] * 2

        return known.of(answers[answer], make)

    answers = [columns_of(50, first) for first in (1, 2, 3)]
    for answer in (0, 1, 2, 1, 2, 0):
        texts_of(answer, 8)
    assert decoded == [0, 1, 2, 0], "only two of them are known at a time"
    for answer in (0, 1, 0):
        texts_of(answer, 30)
    assert decoded[4:] == [1, 0], "what is larger than all that is known is not remembered, and takes the place of all"
