"""Terms after their slabs are folded: found by id in pages and by hash in runs, always byte for byte."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hbase_store
from hbase_store import Store
from hbase_store.arrays import as_ids
from hbase_store.backends.keyvalue import Put
from hbase_store.errors import Corrupt
from hbase_store.layout.hashing import hash_text, hash_texts
from hbase_store.layout.terms import iri, literal
from hbase_store.terms import dictionary
from hbase_store.terms.pages import LONG_BYTES, PAGE_TERMS, page_key, unpack_page
from tests.hbase_store.test_store import ONE, O, P, S, add


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    yield opened
    opened.close()


def reopened(store: Store) -> Store:
    url = store.url
    store.close()
    return hbase_store.open(url, folding=False)


def test_folded_terms_are_found_both_ways_in_a_fresh_process(tmp_path: Path) -> None:
    """Terms of many folds, so that pages grow; long ones, odd ones, and some that are in slabs still."""
    rng = random.Random(1)
    store = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    texts: list[bytes] = []
    ids: list[int] = []
    for fold in range(9):
        batch = store.begin()
        new = [iri(f"http://ex/{len(texts) + i}") for i in range(rng.choice([1, 3, 300, 700]))]
        new += [literal(str(fold) * size) for size in (1, LONG_BYTES - 3, LONG_BYTES, 200_000)] + [literal("\n" * fold)]
        ids += batch.encode(new).tolist()
        texts += new
        store.commit(batch)
        if fold < 8:
            store.fold()
    for _ in ("as written", "as read"):
        order = list(range(len(texts)))
        rng.shuffle(order)
        assert store.terms(as_ids([ids[i] for i in order])) == [texts[i] for i in order]
        assert store.terms(as_ids(ids)) == texts
        assert [store.terms(as_ids([id]))[0] for id in ids[:50]] == texts[:50]
        assert store.ids([texts[i] for i in order]).tolist() == [ids[i] for i in order]
        assert store.ids([b"<http://ex/none>", ONE]).tolist() == [0, int(store.ids([ONE])[0])]
        batch = store.begin()
        assert batch.encode(texts[:100]).tolist() == ids[:100], "a known term gets no second id"
        assert batch.encode([b"<http://ex/new>"])[0] > max(ids)
        store = reopened(store)
    store.close()


def test_terms_are_remembered_up_to_a_number(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "REMEMBERED", 50)
    batch = store.begin()
    texts = [iri(f"http://ex/{i}") for i in range(500)]
    ids = batch.encode(texts)
    store.commit(batch)
    store.fold()
    fresh = reopened(store)
    for start in range(0, 500, 20):
        assert fresh.ids(texts[start : start + 20]).tolist() == ids[start : start + 20].tolist()
        assert len(fresh._dictionary._remembered) <= 50
    fresh.close()


def test_long_texts_are_remembered_up_to_so_many_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "DECODED_BYTES", 40_000)
    monkeypatch.setattr(dictionary, "REMEMBERED_BYTES", 40_000)
    held = store._dictionary
    texts = [literal(f"{number} " + "x" * 3_000) for number in range(60)]
    for text in texts:
        batch = store.begin()
        batch.encode([text])
        store.commit(batch)
        store.fold()
        assert store.terms(store.ids([text])) == [text]
        for known in (held._decoded.values(), held._remembered, held._before):
            assert sum(map(len, known)) <= 40_000
    assert held._decoded and held._remembered, "the latest ones are at hand"
    assert store.terms(store.ids(texts)) == texts
    assert sum(map(len, held._decoded.values())) <= 40_000


def test_terms_of_one_hash_are_distinguished(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbase_store.layout.hashing.hash_texts", lambda texts: np.zeros(len(texts), np.uint64))
    monkeypatch.setattr("hbase_store.layout.hashing.hash_text", lambda text: np.uint64(0))
    monkeypatch.setattr(
        "hbase_store.layout.hashing.hash_column", lambda data, offsets: np.zeros(len(offsets) - 1, np.uint64)
    )
    add(store, (S, P, O, None))
    store.fold()
    fresh = reopened(store)
    assert fresh.terms(fresh.ids([S, P, O, b"<http://ex/none>"])[:3]) == [S, P, O]
    assert fresh.ids([b"<http://ex/none>"]).tolist() == [0]
    fresh.close()


@given(st.lists(st.binary(max_size=40), unique=True))
def test_a_hash_is_of_the_text_only(texts: list[bytes]) -> None:
    together = hash_texts(texts).tolist()
    assert together == [int(hash_texts([text])[0]) for text in texts] == [int(hash_text(text)) for text in texts]
    assert len(set(together)) == len(texts)
    # A Python number would be looked for among floating point numbers, which distinguish fewer of them.
    assert all(type(hash_text(text)) is np.uint64 for text in texts)


def test_hashes_do_not_change() -> None:
    found = hash_texts([b"", b"<a>", b"<http://ex/a>", b"12345678", b"12345678\0"]).tolist()
    assert found == HASHES


#: They are in every store that was ever written.
HASHES: list[int] = [
    9046569608116952042,
    15314700004383068664,
    11366474016497518149,
    9698870195297336350,
    3240509062230764475,
]


def test_the_layout_of_a_page_does_not_change(store: Store) -> None:
    add(store, (b"<a>", b"<b>", b'"c"@x', None))
    store.fold()
    (value,) = store.kv.get_many("i2t", [page_key(0)])
    assert value is not None
    assert value[:-4] == bytes.fromhex("52540100 00 01 0000 03000000 0300000000000000 00 00 02" + b'<a><b>"c"@x'.hex())
    assert page_key(1) == bytes.fromhex("0000000000000001")
    assert PAGE_TERMS == 256


def test_a_damaged_page_is_named(store: Store) -> None:
    add(store, (S, P, O, None))
    store.fold()
    (value,) = store.kv.get_many("i2t", [page_key(0)])
    assert value is not None
    store.kv.put_many([Put("i2t", page_key(0), value[:-5] + b"X" + value[-4:], 9)])
    fresh = reopened(store)
    with pytest.raises(Corrupt, match="table i2t"):
        fresh.terms(as_ids([1]))
    fresh.close()
    with pytest.raises(Corrupt, match="table i2t"):
        unpack_page(b"", 0)


def test_an_id_that_nobody_wrote_is_named(store: Store) -> None:
    add(store, (S, P, O, None))
    store.fold()
    for wrong in (200, 100_000):
        with pytest.raises(Corrupt, match=f"no term has the id {wrong}"):
            store.terms(as_ids([wrong]))
        with pytest.raises(Corrupt, match=f"no term has the id {wrong}"):
            store.terms(as_ids([1, *range(wrong, wrong + 100)]))
    with pytest.raises(ValueError, match="id 0"):
        store.terms(as_ids(range(100)))
