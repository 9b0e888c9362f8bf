"""Terms that a query makes: their ids, what becomes of them when the store learns them, and how they travel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hbase_store.arrays import Ids
from stream_ext.values.vocabulary import Vocabulary, decoder, is_local

A, B, C = b"<http://ex/a>", b'"b"', b'"c"@en'


class Terms:
    """A store's dictionary."""

    def __init__(self) -> None:
        self.ids: dict[bytes, int] = {}

    def learn(self, *texts: bytes) -> None:
        for text in texts:
            self.ids.setdefault(text, len(self.ids) + 1)

    def encode(self, texts: Sequence[bytes]) -> Ids:
        return np.array([self.ids.get(text, 0) for text in texts], np.uint64)

    def decode(self, ids: Ids) -> list[bytes]:
        texts = {id: text for text, id in self.ids.items()}
        return [texts[id] for id in ids.tolist()]


def test_what_the_store_knows_has_its_id_there_and_all_else_a_local_one() -> None:
    terms = Terms()
    terms.learn(A)
    words = Vocabulary(terms.encode, terms.decode)
    ids = words.encode([B, A, B, C])
    assert ids[1] == 1 and ids[0] == ids[2] != ids[3]
    assert is_local(ids).tolist() == [True, False, True, True]
    assert words.decode(ids) == [B, A, B, C]


def test_a_term_keeps_its_local_id_when_the_store_learns_it() -> None:
    terms = Terms()
    terms.learn(A)
    words = Vocabulary(terms.encode, terms.decode)
    local = words.encode([B, C])
    terms.learn(C, B)
    words.renew()
    stored = terms.encode([A, B, C])
    assert words.encode([B, C]).tolist() == local.tolist()
    assert words.inward(stored).tolist() == [1, *local.tolist()]
    assert words.outward(local).tolist() == stored[1:].tolist()
    assert words.decode(words.inward(stored)) == [A, B, C]


def test_a_blank_node_of_the_query_is_never_asked_of_the_store() -> None:
    def refuse(texts: Sequence[bytes]) -> Ids:
        assert not any(text.startswith(b"_:") for text in texts)
        return np.zeros(len(texts), np.uint64)

    words = Vocabulary(refuse, lambda ids: [])
    first, second = words.encode([b"_:q1"]), words.encode([A, b"_:q1", b"_:q2"])
    assert first[0] == second[1] != second[2]
    words.renew()


def test_columns_travel_with_the_terms_that_were_made() -> None:
    terms = Terms()
    terms.learn(A)
    words = Vocabulary(terms.encode, terms.decode)
    words.encode([b'"never told"'])
    column = words.encode([C, A, B, C])
    (sent,), made = words.portable([np.append(column, np.uint64(0))])
    assert sorted(made) == sorted([B, C])
    assert decoder(made, terms.decode)(sent[:-1]) == [C, A, B, C] and sent[-1] == 0


def test_columns_without_such_terms_travel_as_they_are() -> None:
    terms = Terms()
    terms.learn(A)
    words = Vocabulary(terms.encode, terms.decode)
    columns = [words.encode([A])]
    assert words.portable(columns) == (columns, [])
