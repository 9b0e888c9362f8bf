"""Transient terms: what only timing data has goes with it; what anything has that is retained keeps its one id."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hbase_store import Loading, PushMark, Store, StreamColumns, StreamMove
from hbase_store.arrays import as_ids
from hbase_store.backends.lmdb import LmdbKeyValue
from hbase_store.errors import Corrupt, StoreUnavailable
from hbase_store.layout import transient_rows
from hbase_store.layout.terms import iri, literal
from hbase_store.terms import transient
from hbase_store.writing.collection import GRACE_MS
from stream_ext.rdf import careful_rows
from tests.hbase_store import faulty
from tests.hbase_store.faulty import Shared
from tests.hbase_store.test_store import quads
from tests.hbase_store.writing.test_collection import Hand

Triple = tuple[bytes, bytes, bytes]
MINUTE = transient.GENERATION_MS
SEVEN = b'"7"^^<http://www.w3.org/2001/XMLSchema#integer>'
NAMES = [iri(f"http://ex/{i}") for i in range(9)] + [literal("x"), literal("y", "en"), SEVEN]
TRIPLES = st.tuples(st.sampled_from(NAMES[:6]), st.sampled_from(NAMES[4:8]), st.sampled_from(NAMES))


class Scene:
    """A backend, its one writer, and what is to be found there: streams by snapshot, and the triples of the store."""

    def __init__(self, folder: Path) -> None:
        self.inner = LmdbKeyValue(folder / "store")
        self.kv, self.clock = Shared(self.inner), Hand()
        self.writer = self.opened()
        self.slices: dict[tuple[int, int], list[Triple]] = {}
        self.stored: set[Triple] = set()

    def opened(self) -> Store:
        return Store(self.kv, "shared", self.clock, folding=False)

    def push(self, stream: int, triples: list[Triple], absorbed: list[bool] | None = None) -> int:
        sn = push(self.writer, stream, triples, absorbed)
        self.slices[sn, stream] = triples
        self.stored |= {triple for triple, taken in zip(triples, absorbed or [], strict=False) if taken}
        return sn

    def update(self, inserts: list[Triple], deletes: list[Triple]) -> None:
        batch = self.writer.begin()
        for triple in deletes:
            batch.delete(*batch.encode(triple), g=0)
        for triple in inserts:
            batch.insert(*batch.encode(triple), g=0)
        self.writer.commit(batch)
        self.stored = (self.stored - set(deletes)) | set(inserts)

    def load(self, triples: list[Triple]) -> None:
        loading = Loading(partial(careful_rows, quads=False))
        for triple in triples:
            loading.read(b" ".join([*triple, b".\n"]))
        self.writer.load(loading)
        self.stored |= set(triples)

    def let_go(self, horizons: dict[int, int]) -> None:
        self.writer.floor(self.writer.head(), horizons)
        self.writer.collect()
        self.slices = {
            (sn, stream): triples
            for (sn, stream), triples in self.slices.items()
            if sn >= self.writer._edges.list.horizons.get(stream, 0)
        }

    def rows(self, table: str) -> int:
        return sum(1 for _ in self.inner.scan(table, b"", None))

    def check(self, store: Store) -> None:
        """What is retained says what was said; and one term has one id, wherever it stands, by which it is found."""
        store.refresh()
        ids: dict[bytes, int] = {}
        for (sn, stream), triples in self.slices.items():
            columns = store.stream(sn, stream)
            assert columns is not None
            numbers = np.stack([columns.s, columns.p, columns.o], axis=1)
            texts = store.terms(numbers.reshape(-1))
            assert [tuple(texts[i : i + 3]) for i in range(0, len(texts), 3)] == triples
            for text, id in zip(texts, numbers.reshape(-1).tolist(), strict=True):
                assert ids.setdefault(text, id) == id
        assert {(s, p, o) for s, p, o, _ in quads(store, store.head())} == self.stored
        for s, p, o in self.stored:
            found = store.ids([s, p, o]).tolist()
            for text, id in zip((s, p, o), found, strict=True):
                assert ids.setdefault(text, id) == id
            assert store.at().contains_rows(False, found[1], (as_ids([found[0]]), as_ids([found[2]]))).all()
        assert store.ids(list(ids)).tolist() == list(ids.values())


def push(store: Store, stream: int, triples: list[Triple], absorbed: list[bool] | None = None) -> int:
    """As the injector encodes: what is absorbed permanently, the rest for as long as it is retained."""
    batch = store.begin()
    taken = [False] * len(triples) if absorbed is None else absorbed
    permanent = {text for triple, is_taken in zip(triples, taken, strict=True) if is_taken for text in triple}
    ids = {text: int(batch.encode([text])[0]) for text in sorted(permanent)}
    passing = sorted({text for triple in triples for text in triple} - permanent)
    ids.update(zip(passing, batch.encode_transient(passing).tolist(), strict=True))
    sn, size = store.head() + 1, len(triples)
    columns = StreamColumns(
        stream,
        np.full(size, sn, np.int64),
        np.zeros(size, np.uint64),
        np.zeros(size, np.int32),
        np.arange(size, dtype=np.int32),
        *(as_ids([ids[triple[i]] for triple in triples]) for i in range(3)),
    )
    batch.stream(StreamMove(stream, sn, sn, pushes=[PushMark(0, sn)]), columns, np.array(taken, np.bool_))
    return store.commit(batch)


class TermsComeAndGo(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="rillet-terms-")
        self.scene = Scene(Path(self.folder))
        self.follower = self.scene.opened()

    @rule(
        stream=st.integers(1, 2),
        triples=st.lists(TRIPLES, min_size=1, max_size=5),
        some=st.lists(st.booleans(), min_size=5, max_size=5),
        mixed=st.integers(0, 2),
    )
    def pushes(self, stream: int, triples: list[Triple], some: list[bool], mixed: int) -> None:
        self.scene.push(stream, triples, some[: len(triples)] if mixed == 0 else None)

    @rule(inserts=st.lists(TRIPLES, max_size=3), deletes=st.lists(TRIPLES, max_size=2))
    def updates(self, inserts: list[Triple], deletes: list[Triple]) -> None:
        self.scene.update(inserts, deletes)

    @rule(triples=st.lists(TRIPLES, min_size=1, max_size=3))
    def loads(self, triples: list[Triple]) -> None:
        self.scene.load(triples)

    @rule(seconds=st.integers(5, 90))
    def waits(self, seconds: int) -> None:
        self.scene.clock.ms += seconds * 1000

    @rule(one=st.integers(0, 4), other=st.integers(0, 4))
    def lets_go(self, one: int, other: int) -> None:
        head = self.scene.writer.head()
        self.scene.let_go({1: max(0, head + 1 - one), 2: max(0, head + 1 - other)})

    @rule()
    def folds(self) -> None:
        self.scene.writer.fold()

    @rule()
    def another_takes_over(self) -> None:
        self.scene.writer = self.scene.opened()

    @rule()
    def grace_passes(self) -> None:
        self.scene.clock.ms += GRACE_MS
        self.scene.writer.collect()

    @rule()
    def the_follower_catches_up(self) -> None:
        self.scene.check(self.follower)

    @rule()
    def somebody_opens(self) -> None:
        self.scene.check(self.scene.opened())

    @invariant()
    def the_writer_is_right(self) -> None:
        self.scene.check(self.scene.writer)

    def teardown(self) -> None:
        self.scene.inner.close()
        shutil.rmtree(self.folder)


TestTermsComeAndGo = TermsComeAndGo.TestCase
TestTermsComeAndGo.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


A, B, P = iri("http://ex/a"), iri("http://ex/b"), iri("http://ex/p")


def go_on(scene: Scene, horizon: int) -> None:
    """A minute later another generation begins. What is older than the horizon leaves, its terms after the grace."""
    scene.clock.ms += MINUTE
    scene.push(1, [(iri("http://ex/other"), P, SEVEN)])
    scene.let_go({1: horizon})
    scene.clock.ms += GRACE_MS
    scene.let_go({1: horizon})


def test_a_term_goes_with_the_last_slice_of_its_generation(scene: Scene) -> None:
    first = scene.push(1, [(A, P, B)])
    old = scene.writer.ids([A, P])
    go_on(scene, first)
    assert scene.writer.ids([A]).tolist() == [old[0]]
    go_on(scene, scene.writer.head() + 1)
    for store in (scene.writer, scene.opened()):
        assert store.ids([A, B]).tolist() == [0, 0]
        assert store.ids([P])[0] == old[1], "the later generation uses it"
    with pytest.raises(Corrupt, match="no term has the id"):
        scene.opened().terms(old)
    scene.push(1, [(A, P, B)])
    assert scene.writer.ids([A])[0] > old[0], "an id is never used again"


def test_who_has_read_ids_may_still_ask_what_they_mean_for_a_while(scene: Scene) -> None:
    first = scene.push(1, [(A, P, B)])
    asked, reader = scene.writer.ids([A, P, B]), scene.opened()
    ids, terms = reader.lasting_terms()
    scene.clock.ms += MINUTE
    scene.push(1, [(P, P, SEVEN)])
    scene.let_go({1: first + 1})
    reader.refresh()
    assert reader.ids([A, P, B]).tolist() == [0, asked[1], 0]
    assert ids([A, P, B]).tolist() == asked.tolist()
    assert terms(asked) == scene.opened().terms(asked) == [A, P, B]


def test_what_the_store_takes_in_keeps_its_id_and_stays(scene: Scene) -> None:
    first = scene.push(1, [(A, P, B)])
    ids = scene.writer.ids([A, P, B])
    scene.update([(A, P, B)], [])
    go_on(scene, first + 2)
    scene.writer.fold()
    for store in (scene.writer, scene.opened()):
        scene.check(store)
        assert store.ids([A, P, B]).tolist() == ids.tolist()
        assert not store.are_transient(ids).any()


def test_a_load_takes_the_ids_of_transient_terms_over(scene: Scene) -> None:
    first = scene.push(1, [(A, P, B)])
    ids = scene.writer.ids([A, P, B])
    assert scene.writer.are_transient(ids).all()
    scene.load([(B, P, A), (B, P, iri("http://ex/new"))])
    go_on(scene, first + 2)
    for store in (scene.writer, scene.opened()):
        scene.check(store)
        assert store.ids([A, P, B]).tolist() == ids.tolist()


def test_a_term_that_is_pushed_while_a_load_is_written_has_one_id(scene: Scene) -> None:
    loading = Loading(partial(careful_rows, quads=False))
    loading.read(b" ".join([A, P, B, b".\n"]))
    pushes = [[(A, P, SEVEN)], [(B, P, SEVEN)]]

    def turn(publish):  # type: ignore[no-untyped-def]
        if pushes:
            scene.push(1, pushes.pop())
        return publish()

    scene.writer.load(loading, turn=turn)
    scene.stored.add((A, P, B))
    scene.check(scene.writer)
    go_on(scene, scene.writer.head() + 1)
    scene.check(scene.opened())


def test_what_an_unpublished_batch_made_is_nothing(scene: Scene) -> None:
    scene.push(1, [(A, P, A)])
    lost = scene.writer.begin()
    lost.encode_transient([B, A])
    assert scene.writer.ids([B]).tolist() == [0]
    scene.push(1, [(A, P, B)])
    scene.check(scene.writer)
    scene.kv.fault = faulty.written_then_unreachable
    with pytest.raises(StoreUnavailable):
        push(scene.writer, 1, [(B, P, iri("http://ex/lost"))])
    scene.kv.repair()
    scene.writer = scene.opened()
    scene.push(1, [(iri("http://ex/lost"), P, B)])
    scene.check(scene.opened())
    scene.writer.floor(1)
    scene.writer.collect()
    assert {key[7] for key, _ in scene.inner.scan("terms", b"", None)} == {1, 2}
    assert scene.rows("terms") == 3, "what the first writer wrote and never counted is swept"


def test_a_stream_that_is_dropped_holds_no_terms_below_the_floor(scene: Scene) -> None:
    scene.push(1, [(A, P, B)])
    scene.push(2, [(A, P, B)])
    batch = scene.writer.begin()
    batch.catalog("stream", 2, None)
    scene.writer.commit(batch)
    del scene.slices[2, 2]
    go_on(scene, 4)
    assert scene.writer.ids([A, B]).tolist() == [0, 0]


def test_terms_beyond_what_memory_may_hold_are_permanent(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transient, "BYTES_MAX", 100)
    scene.push(1, [(A, P, B)])
    scene.push(1, [(A, P, literal("more"))])
    ids = scene.writer.ids([A, P, B, literal("more")])
    assert scene.writer.are_transient(ids).tolist() == [False, False, True, False]
    scene.let_go({1: 3})
    scene.check(scene.opened())
    assert scene.opened().ids([A, B]).tolist() == [ids[0], 0]
    last = scene.push(1, [(A, P, B)])
    scene.check(scene.opened())
    assert scene.writer.are_transient(scene.writer.ids([A, B])).tolist() == [False, True], "there is room again"
    go_on(scene, last + 1)
    scene.check(scene.opened())
    assert scene.writer.ids([A, B]).tolist() == [ids[0], 0]


def test_a_million_distinct_terms_of_a_stream_leave_no_more_than_its_retention_holds(scene: Scene) -> None:
    """Twenty seconds between pushes of 10,000 new terms, of which two minutes are retained."""
    pages, terms, sizes = set(), [], []
    for round_ in range(100):
        triples = [(iri(f"http://ex/{round_}/{i}"), P, SEVEN) for i in range(10_000)]
        sn = push(scene.writer, 1, triples)
        scene.clock.ms += 20_000
        scene.writer.floor(max(0, sn - 15), {1: max(0, sn - 6)})
        if round_ % 10 == 9:
            scene.writer.fold()
            scene.writer.collect()
            pages.add(scene.rows("i2t"))
            terms.append(sum(len(value) for _, value in scene.inner.scan("terms", b"", None)))
            sizes.append(sum(file.stat().st_size for file in Path(scene.inner.path).glob("data.mdb")))
    assert pages == {0}
    assert max(terms[4:]) <= 1.2 * max(terms[2:5])
    assert sizes[-1] <= 1.25 * sizes[4], "twice the pushes, the same file"
    assert scene.writer._dictionary.transient.count < 120_000
    assert len(scene.writer._dictionary.transient.generations) < 6
    assert scene.opened().ids([iri("http://ex/0/0"), iri("http://ex/99/0")])[0] == 0


def test_the_longer_timing_data_is_retained_the_longer_its_generations_last(scene: Scene) -> None:
    for _, number in zip(range(600), count()):
        scene.clock.ms += MINUTE
        push(scene.writer, 1, [(iri(f"http://ex/{number}"), P, SEVEN)])
    assert len(scene.writer._dictionary.transient.generations) < 80
    before = scene.writer._dictionary.transient.first
    scene.let_go({1: 480})
    assert scene.writer._dictionary.transient.first > before
    assert len(scene.writer._dictionary.transient.generations) < 20


def test_what_is_alive_is_found_by_text_and_by_id(scene: Scene) -> None:
    """In levels that were joined in any way."""
    alive, answered = transient.TransientTerms(), {}
    for number in range(1, 60):
        terms = {iri(f"http://ex/{number}/{i}"): number * 1000 - i for i in range(number * 7 % 13)}
        answered.update(terms)
        alive.add(transient_rows.TransientRow(1 + number // 20, 0, (1,), transient_rows.texts_of(terms)))
        if number % 3 == 0:
            asked = [*answered, b"<nowhere>"]
            assert alive.ids(asked).tolist() == [*answered.values(), 0]
            ids = np.array([5, *sorted(answered.values())], np.uint64)
            by_id = {id: text for text, id in answered.items()}
            assert alive.texts(ids) == [by_id.get(id, b"") for id in ids.tolist()]
            assert alive.have(ids).tolist() == [id in by_id for id in ids.tolist()]


def test_a_row_of_terms_comes_back_as_it_was_and_damage_is_named() -> None:
    terms = {literal("x" * n): 900 - n for n in (1, 3, 2)}
    (piece,) = transient_rows.pack_transient(7, 1234, {4, 2}, terms)
    layout = (
        "52470100 0700000000000000 d204000000000000"
        "00 01 0000 02000000 0200000000000000 00 02"  # streams
        "00 01 0000 03000000 8103000000000000 00 01 02"  # ids
        "00 01 0000 03000000 0300000000000000 02 01 00"  # lengths
        "22 787878 22 22 7878 22 22 78 22"
    )
    assert piece[:-4] == bytes.fromhex(layout)
    row = transient_rows.unpack_transient(piece, b"k")
    assert (row.generation, row.begun_ms, row.streams, len(row.texts)) == (7, 1234, (2, 4), 3)
    assert [row.texts.text(i) for i in range(3)] == [literal("xxx"), literal("xx"), literal("x")]
    large = transient_rows.pack_transient(7, 1234, {4}, {literal("y" * 900_000 + str(n)): n for n in range(1, 9)})
    assert len(large) == 8
    assert [transient_rows.unpack_transient(piece, b"k").streams for piece in large] == [(4,)] + [()] * 7
    with pytest.raises(Corrupt, match="table terms"):
        transient_rows.unpack_transient(piece[:-1] + b"X", b"k")
