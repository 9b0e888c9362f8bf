"""Bulk loads: as if each statement had been read with care, and all of them written at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hbase_store
from hbase_store import NAMED, Loading, Store
from hbase_store.arrays import as_ids
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.clock import WallClock
from hbase_store.errors import BadRow, StoreUnavailable
from hbase_store.layout.terms import BLANK, iri, literal, tag_of
from stream_ext.errors import BadData
from stream_ext.rdf import careful_rows, parse_rdf
from tests.hbase_store.counting import Counting
from tests.hbase_store.faulty import Shared
from tests.hbase_store.test_store import G, H, O, P, S, add, quads
from tests.hbase_store.writing.test_folding import Dying
from tests.stream_ext import w3c

TERMS = [
    "<http://ex/a>", "<http://ex/é>", "<http://ex/\\u0061>", "<urn:x>", "<relative>", "<http://ex/ a>", "<http://ex/a",
    "_:a", "_:a.b", "_:a.", "_:é", "_:-a", "_:", '"a"', '"a\\tb"', '"a\tb"', '"a\\nb\\\\\\""', '"\\u00e9"', '"é"', '"a',
    '"a"@en', '"a"@EN-gb', '"a"@en-1', '"a"@', '"a"@1', '"a"^^<http://www.w3.org/2001/XMLSchema#string>', '"a"^^<x>',
    '"a"^^<http://ex/t>', '"12"^^<http://www.w3.org/2001/XMLSchema#integer>', '"-0"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"-7"^^<http://www.w3.org/2001/XMLSchema#integer>', '"012"^^<http://www.w3.org/2001/XMLSchema#integer>',
    '"576460752303423488"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a"^^ <http://ex/t>', '"a" ^^<http://ex/t>',
    '"\\x"', '"\\ud800"', "a", "", "#",
]  # fmt: skip
GOOD = [
    "<http://ex/a>",
    "<http://ex/b>",
    "_:a",
    "_:b1",
    '"a"',
    '"é"@en',
    '"12"^^<http://www.w3.org/2001/XMLSchema#integer>',
]
SPACES = st.sampled_from(["", " ", " ", "\t", "  "])
ENDS = st.sampled_from(["\n", "\n", "\r\n", "\r", "\n\n", " # why\n", " \t\n"])


@st.composite
def lines(draw: st.DrawFn, quads: bool) -> str:
    terms = st.sampled_from(GOOD) | st.sampled_from(TERMS) if draw(st.booleans()) else st.sampled_from(GOOD)
    parts = [draw(terms), draw(st.sampled_from(["<http://ex/p>", "<http://ex/q>"]) | terms), draw(terms)]
    if quads and draw(st.booleans()):
        parts.append(draw(terms))
    text = "".join(draw(SPACES) + part for part in parts)
    return text + draw(SPACES) + draw(st.sampled_from([".", ".", ".", ".", "", ". ."])) + draw(ENDS)


def statements(loading: Loading) -> list[tuple[bytes, ...]]:
    loading.end()
    texts = [loading.terms.text(i) for i in range(len(loading.terms))] + [b""]
    return [tuple(texts[number] for number in row) for row in zip(*loading.columns(None), strict=True)]


def loaded(data: bytes, quads: bool, piece: int = 1 << 20) -> list[tuple[bytes, ...]]:
    loading = Loading(partial(careful_rows, quads=quads), quads)
    for start in range(0, len(data), piece):
        loading.read(data[start : start + piece])
    return statements(loading)


def parsed(data: bytes, quads: bool) -> list[tuple[bytes, ...]]:
    found = parse_rdf(data, "application/n-quads" if quads else "application/n-triples", "")
    texts = [*found.terms, b""]
    return [tuple(texts[number] for number in row) for row in zip(found.s, found.p, found.o, found.g, strict=True)]


@settings(deadline=None, max_examples=300)  # the first compiles the kernels
@given(st.data(), st.booleans(), st.integers(1, 200))
def test_lines_mean_what_the_careful_reader_says(data: st.DataObject, quads: bool, piece: int) -> None:
    document = "".join(data.draw(st.lists(lines(quads), max_size=6))).encode()
    try:
        expected = parsed(document, quads)
    except BadData as error:
        with pytest.raises(BadData) as caught:
            loaded(document, quads, piece)
        assert (caught.value.line, caught.value.column) == (error.line, error.column)
        return
    assert loaded(document, quads, piece) == expected


@settings(deadline=None)
@given(st.binary(max_size=60), st.sampled_from([b"<http://ex/a> <http://ex/p> ", b'<http://ex/a> <http://ex/p> "']))
def test_no_bytes_are_taken_for_what_they_are_not(junk: bytes, before: bytes) -> None:
    document = before + junk + b" .\n"
    try:
        expected = parsed(document, False)
    except BadData:
        with pytest.raises(BadData):
            loaded(document, False)
        return
    assert loaded(document, False) == expected


def test_many_lines_outgrow_every_array() -> None:
    data = b"".join(b'<http://ex/%d> <http://ex/p%d> "%d" .\n' % (i, i % 3, i * 7) for i in range(300_000))
    loading = Loading(partial(careful_rows, quads=False))
    for start in range(0, len(data), 5_000_000):
        loading.read(data[start : start + 5_000_000])
    found = statements(loading)
    assert len(found) == loading.statements == 300_000
    assert found[299_999] == (b"<http://ex/299999>", b"<http://ex/p2>", b'"2099993"', b"")
    assert found[70_000] == (b"<http://ex/70000>", b"<http://ex/p1>", b'"490000"', b"")


# ---- into a store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    yield opened
    opened.close()


def loading_of(*lines: bytes) -> Loading:
    loading = Loading(partial(careful_rows, quads=True), quads=True)
    loading.read(b"\n".join([*lines, b""]))
    return loading


def line(*terms: bytes) -> bytes:
    return b" ".join([*terms, b"."])


def test_a_load_is_one_snapshot_among_others(store: Store) -> None:
    add(store, (S, P, O, None), (S, P, S, None))
    assert store.load(loading_of(line(S, P, O), line(S, P, P), line(S, P, P), line(O, P, S, G)), name=b"file") == 2
    add(store, (S, P, literal("new"), None))
    expected: list[set[tuple[bytes | None, ...]]] = [
        {(S, P, O, None), (S, P, S, None)},
        {(S, P, O, None), (S, P, S, None), (S, P, P, None), (O, P, S, G)},
    ]
    expected.append(expected[1] | {(S, P, literal("new"), None)})
    for again in range(3):
        for sn in (1, 2, 3):
            assert quads(store, sn) == expected[sn - 1]
        rows = store.net_changes(2)
        assert sorted(store.terms(rows.o)) == sorted([P, S])
        assert rows.sign.tolist() == [1, 1]
        assert store.catalog(3) == {("load", 2): b"file"}
        if again == 0:
            store.close()
            store.__init__(LmdbKeyValue(store.url[5:]), store.url, WallClock(), False)  # type: ignore[misc]  # reopened in place
        store.fold()


def test_terms_of_a_load_are_known_like_any_others(store: Store) -> None:
    add(store, (S, P, O, None))
    known = store.ids([S, P, O]).tolist()
    numbers = [b'"%d"^^<http://www.w3.org/2001/XMLSchema#integer>' % i for i in (-5, 0, 7)]
    store.load(
        loading_of(line(S, P, b"<http://ex/new>"), line(O, P, literal("x" * 20_000)), *(line(S, P, n) for n in numbers))
    )
    assert store.ids([S, P, O]).tolist() == known
    texts = [b"<http://ex/new>", literal("x" * 20_000), *numbers]
    assert store.terms(store.ids(texts)) == texts
    batch = store.begin()
    assert batch.encode(texts).tolist() == store.ids(texts).tolist()


def test_labels_mean_one_node_throughout_a_load_and_another_in_the_next(store: Store) -> None:
    for _ in range(2):
        store.load(loading_of(line(b"_:b1", P, O), line(b"_:b1", P, b"_:x")))
    subjects, objects = store.at().pairs(int(store.ids([P])[0]))
    assert len(set(subjects.tolist())) == 2
    assert (tag_of(subjects) == BLANK).all()
    assert len(objects) == 4


def test_what_names_no_graph_goes_where_it_is_sent(store: Store) -> None:
    store.load(loading_of(line(S, P, O), line(S, P, O, G)), graph=H)
    assert quads(store, 1) == {(S, P, O, H), (S, P, O, G)}


def test_parsed_statements_are_loaded_too(store: Store) -> None:
    found = parse_rdf(b"@prefix : <http://ex/> . :s :p :o, _:x, 7 .", "text/turtle", "")
    loading = Loading(partial(careful_rows, quads=True))
    for _ in range(2):
        loading.add(found.terms, (found.s, found.p, found.o, found.g))
    store.load(loading)
    assert store.at().count_all() == 3
    assert loading.statements == 6


def test_an_empty_load_is_a_snapshot(store: Store) -> None:
    assert store.load(loading_of()) == 1
    assert store.at().count_all() == store.at().count_all(NAMED) == 0
    add(store, (S, P, O, None))
    assert quads(store, 2) == {(S, P, O, None)}


def test_a_bad_line_leaves_nothing(store: Store) -> None:
    with pytest.raises(BadData) as caught:
        loading_of(line(S, P, O), b"<a> oops")
    assert (caught.value.line, caught.value.column) == (2, 1)
    with pytest.raises(BadRow, match="it may have at most"):
        store.load(loading_of(line(S, P, b'"' + b"x" * (5 << 20) + b'"')))
    assert store.head() == 0


def test_batches_published_during_a_load_share_its_terms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The batch comes when the run is written, and before the load is published."""
    store = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    published = threading.Event()
    write = hbase_store.writing.load_writer.LoadWriter.write

    def interrupted(self: hbase_store.writing.load_writer.LoadWriter, *arguments: object) -> object:
        entry = write(self, *arguments)  # type: ignore[arg-type]  # as they came
        if not published.is_set():
            published.set()
            add(store, (S, P, O, None))
        return entry

    monkeypatch.setattr(hbase_store.writing.load_writer.LoadWriter, "write", interrupted)
    assert store.load(loading_of(line(S, P, O), line(S, P, G))) == 2
    for _ in range(2):
        assert quads(store, 1) == {(S, P, O, None)}
        assert quads(store, 2) == {(S, P, O, None), (S, P, G, None)}
        assert len(store.net_changes(2)) == 1
        assert store.has_changed(2)
        assert len(set(store.ids([S, P, O, G]).tolist())) == 4
        store.close()
        store = hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)
    store.close()


def test_a_load_that_dies_at_any_step_leaves_nothing(tmp_path: Path) -> None:
    inner = LmdbKeyValue(tmp_path / "store")
    store = Store(Shared(inner), "shared", WallClock(), folding=False)
    add(store, (S, P, O, None))
    before, after = {(S, P, O, None)}, {(S, P, O, None), (S, P, iri("http://ex/l"), None)}
    done, writes = False, 0
    while not done:
        dying = Store(Dying(inner, 1 << 30), "shared", WallClock(), folding=False)
        dying.take_lease("")
        dying.kv.left = writes  # type: ignore[attr-defined]  # its own backend
        try:
            done = dying.load(loading_of(line(S, P, iri("http://ex/l")))) == 2
        except StoreUnavailable:
            survivor = Store(Shared(inner), "shared", WallClock(), folding=False)
            assert (survivor.head(), quads(survivor, 1)) == (1, before)
        writes += 1
    survivor = Store(Shared(inner), "shared", WallClock(), folding=False)
    assert (quads(survivor, 1), quads(survivor, 2)) == (before, after)
    assert writes > 8
    inner.close()


def test_a_hundred_thousand_graphs_of_five_triples_share_blocks(store: Store) -> None:
    """As when every event is a graph of its own."""
    lines = (
        b"<http://ex/s%d> <http://ex/p%d> <http://ex/o%d> <http://ex/g%d> .\n" % (i % 50, n, n, i)
        for i in range(100_000)
        for n in range(5)
    )
    loading = Loading(partial(careful_rows, quads=True), quads=True)
    loading.read(b"".join(lines))
    store.load(loading)
    snapshot = store.at()
    assert (snapshot.count_all(NAMED), len(snapshot.graphs()), snapshot.count_all()) == (500_000, 100_000, 0)
    assert len(list(store.kv.scan("run", b"", None))) < 2 * 500_000 / 1024
    for i in (0, 7, 50_001, 99_999):
        g, s, p, o = store.ids(
            [b"<http://ex/%s%d>" % (c, n) for c, n in ((b"g", i), (b"s", i % 50), (b"p", 3), (b"o", 3))]
        )
        assert snapshot.count_all(int(g)) == 5
        assert [column.tolist() for column in snapshot.pairs(int(p), graph=int(g))] == [[s], [o]]
        assert snapshot.neighbours(int(p), as_ids([s]), graph=NAMED)[0].tolist() == [0, 2000]


def test_one_of_a_hundred_thousand_graphs_is_read_from_a_few_blocks(tmp_path: Path) -> None:
    inner = LmdbKeyValue(tmp_path / "store")
    kv = Counting(inner)
    writer = Store(kv, "counted", WallClock(), folding=False)
    loading = Loading(partial(careful_rows, quads=True), quads=True)
    loading.read(
        b"".join(
            b"<http://ex/s%d> <http://ex/p%d> <http://ex/o%d> <http://ex/g%d> .\n" % (i % 50, n, n, i)
            for i in range(100_000)
            for n in range(5)
        )
    )
    writer.load(loading)
    store = Store(kv, "counted", WallClock(), folding=False)
    g = int(store.ids([b"<http://ex/g50001>"])[0])
    snapshot = store.at()
    with kv.counted():
        found = list(zip(*(store.terms(column) for column in snapshot.graph_quads(g)), strict=True))
    assert sorted(found) == [(b"<http://ex/s1>", b"<http://ex/p%d>" % n, b"<http://ex/o%d>" % n) for n in range(5)]
    assert kv.keys["run"] <= 2 * 6, "of all but one of its columns it reads a block or two"
    gone, retained = store.ids([b"<http://ex/g7>", b"<http://ex/g8>"]).tolist()
    batch = store.begin()
    batch.delete(*store.at().graph_quads(gone), gone)
    batch.delete(*(column[:4] for column in store.at().graph_quads(retained)), g=retained)
    store.commit(batch)
    for _ in ("in a slab", "in a run"):
        graphs = store.at().graphs()
        assert (len(graphs), gone in graphs, retained in graphs) == (99_999, False, True)
        assert (store.at().count_all(gone), store.at().count_all(retained)) == (0, 1)
        store.fold()
    inner.close()


def test_every_term_of_the_w3c_comes_back_byte_for_byte(store: Store) -> None:
    """Blank nodes up to their labels; each file is one load, and the store is folded at the end."""
    expected: set[tuple[bytes, ...]] = set()
    files = 0
    for path in sorted(w3c.folder().rglob("*.ttl")):
        try:
            found = parse_rdf(path.read_bytes(), "text/turtle", path.as_uri())
        except BadData:
            continue  # it is there to be refused
        loading = Loading(partial(careful_rows, quads=False))
        loading.add(found.terms, (found.s, found.p, found.o, found.g))
        store.load(loading)
        files += 1
        if files % 20 == 0:
            store.fold()
        texts = [b"_:" if text.startswith(b"_:") else text for text in found.terms]
        rows = zip(found.s.tolist(), found.p.tolist(), found.o.tolist(), strict=True)
        if not any(text == b"_:" for text in texts):
            expected.update(tuple(texts[number] for number in row) for row in rows)
        expected.update((text,) for text in texts)
    store.fold()
    assert files > 400
    terms = {text for row in expected for text in row if text != b"_:"}
    ordered = sorted(terms)
    assert store.terms(store.ids(ordered)) == ordered
    fresh_url = store.url
    store.close()
    fresh = hbase_store.open(fresh_url, read_only=True)
    snapshot = fresh.at()
    known: set[tuple[bytes, ...]] = set()
    for p in snapshot.predicates().tolist():
        s, o = snapshot.pairs(p)
        known.update(zip(fresh.terms(s), fresh.terms(np.full(len(s), p, np.uint64)), fresh.terms(o), strict=True))
    assert {row for row in expected if len(row) == 3} <= known
    fresh.close()
