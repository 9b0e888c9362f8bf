"""Files on their way into a store: in every form, packed or not, by way of a server or not."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import lzma
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyoxigraph
import pytest
import rdflib
import rdflib.compare
import zstandard

import hbase_store
from endpoint.cli.command_line import main
from endpoint.client import Client, Refused
from endpoint.files.load import ServerTarget, Wanted, load_all
from endpoint.files.reading import Source, digest_of, pieces_of, place_of
from endpoint.http.workers import Pool
from hbase_store.errors import AnotherWriter
from hbase_store.layout.terms import iri
from stream_ext.errors import BadData, Overload
from stream_ext.writer import load_reading
from stream_ext.writer.load_processes import LoadProcesses
from stream_ext.writer.load_records import Loaded
from tests.endpoint.live import Live, live
from tests.parts.waiting import PATIENCE_S

NT, NQ, N3 = "application/n-triples", "application/n-quads", "text/n3"
TURTLE = '@prefix : <http://ex/> . :a :knows [ :name "é" ] ; :age 01, "01"^^:years, "x"@en-GB, "2020-01-01"^^:date .'
TRIPLES = """<http://ex/a> <http://ex/knows> _:n .
_:n <http://ex/name> "é" .
<http://ex/a> <http://ex/age> "01"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://ex/a> <http://ex/age> "01"^^<http://ex/years> .
<http://ex/a> <http://ex/age> "x"@en-gb .
<http://ex/a> <http://ex/age> "2020-01-01"^^<http://ex/date> .
"""
_RDF = pyoxigraph.RdfFormat
FORMS = {
    "ttl": _RDF.TURTLE,
    "trig": _RDF.TRIG,
    "rdf": _RDF.RDF_XML,
    "owl": _RDF.RDF_XML,
    "jsonld": _RDF.JSON_LD,
    "json": _RDF.JSON_LD,
    "nq": _RDF.N_QUADS,
}
PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": zstandard.compress,
    "xz": lzma.compress,
    "": bytes,
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "served") as running:
        running.service.store.take_lease(running.url)  # as rillet serve does
        yield running


def rillet(*argv: object) -> int:
    try:
        return main([str(each) for each in argv])
    except SystemExit as ended:
        return int(ended.code or 0)


def graph_of(url: str) -> rdflib.Graph:
    store = hbase_store.open(url, read_only=True)
    columns = [store.terms(column) for column in store.at().quads()[:3]]
    store.close()
    data = b"".join(b"%s %s %s .\n" % row for row in zip(*columns, strict=True))
    return rdflib.Graph().parse(data=data, format="nt")


def lines(count: int, folder: str = "n") -> bytes:
    return b"".join(b"<http://ex/%s%d> <http://ex/p> _:x .\n" % (folder.encode(), i) for i in range(count))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_what_it_says_in_turtle(form: str, tmp_path: Path) -> None:
    name = tmp_path / f"a.{form}"
    found = pyoxigraph.parse(TURTLE, _RDF.TURTLE)
    quads = [pyoxigraph.Quad(quad.subject, quad.predicate, quad.object) for quad in found]
    pyoxigraph.serialize(quads, str(name), FORMS[form])
    url = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", name, "--store", url) == 0
    assert rdflib.compare.isomorphic(graph_of(url), rdflib.Graph().parse(data=TRIPLES, format="nt"))


@pytest.mark.parametrize("packed", PACKED)
def test_a_file_is_unpacked_by_what_is_in_it(packed: str, tmp_path: Path) -> None:
    half = lines(3000)
    name = tmp_path / f"a.nt{'.' * bool(packed)}{packed}"
    name.write_bytes(PACKED[packed](half) + PACKED[packed](lines(3000, "m")))  # two parts, as `cat` makes them
    url = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", name, "--store", url) == 0
    assert len(graph_of(url)) == 6000


@pytest.mark.parametrize("packed", [name for name in PACKED if name])
def test_a_packed_file_that_is_cut_off_adds_nothing(
    packed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = PACKED[packed](lines(3000))
    (tmp_path / "a.nt").write_bytes(whole[: len(whole) // 2])
    url = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.nt", "--store", url) == 1
    assert re.search(r"a\.nt: (it cannot be decompressed|\S*expected)", capsys.readouterr().err)
    assert len(graph_of(url)) == 0


def test_n3_is_read_as_far_as_it_is_rdf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    (tmp_path / "a.n3").write_text("@prefix : <http://ex/> . :a = :b . :c is :p of :d .")
    assert rillet("load", tmp_path / "a.n3", "--store", url) == 0
    assert len(graph_of(url)) == 2
    (tmp_path / "b.n3").write_text("@prefix : <http://ex/> . { :x :y :z } => { :z :y :x } .")
    assert rillet("load", tmp_path / "b.n3", "--store", url) == 1
    assert "b.n3: this document has formulas" in capsys.readouterr().err


BAD = b"".join(
    (
        b"<http://ex/a> <http://ex/p> <http://ex/b> .\n",
        b"<http://ex/a> oops .\n",
        b"_:a <http://ex/p> 'x' .\n",
        b"<http://ex/b> <http://ex/p> 1\n",
    )
)


def test_going_on_leaves_bad_lines_out_and_tells_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    (tmp_path / "a.nt").write_bytes(BAD * 6)
    assert rillet("load", tmp_path / "a.nt", "--store", url) == 1
    assert "a.nt:2:15: " in capsys.readouterr().err
    assert rillet("load", tmp_path / "a.nt", "--go-on", "--store", url) == 0
    answered = capsys.readouterr()
    assert ("a.nt: 6 triples" in answered.out, "a.nt: 18 invalid lines were skipped; the first:" in answered.err) == (
        True,
        True,
    )
    assert re.findall(r"a\.nt:(\d+:\d+):", answered.err)[:4] == ["2:15", "3:19", "4:29", "6:15"]
    assert len(answered.err.splitlines()) == 11
    assert len(graph_of(url)) == 1
    (tmp_path / "a.ttl").write_text(TURTLE)
    assert rillet("load", tmp_path / "a.ttl", "--go-on", "--store", url) == 2
    assert "--go-on skips invalid lines, so it works for .nt and .nq only" in capsys.readouterr().err


def test_a_file_that_was_moved_or_touched_is_known_by_its_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"lmdb:{tmp_path / 'store'}"
    (tmp_path / "a.nt").write_bytes(lines(5))
    (tmp_path / "copy.nt").write_bytes(lines(5))
    (tmp_path / "other.nt").write_bytes(lines(5, "o"))  # of the same size
    for name in ("a", "copy", "other", "other"):
        assert rillet("load", tmp_path / f"{name}.nt", "--store", url) == 0
    assert re.findall(r"(\w+)\.nt: 5 triples (in|were).* snapshot (\d)", capsys.readouterr().out) == [
        ("a", "in", "1"),
        ("copy", "were", "1"),
        ("other", "in", "2"),
        ("other", "were", "2"),
    ]
    assert rillet("load", tmp_path / "copy.nt", "--graph", "http://ex/g", "--store", url) == 0
    assert "snapshot 3" in capsys.readouterr().out, "elsewhere it is another load"


def test_a_load_next_to_a_server_goes_by_way_of_it(served: Live, tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)
    (tmp_path / "b.nq.gz").write_bytes(gzip.compress(b"<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .\n"))
    sources = [Source(str(tmp_path / "a.ttl"), "text/turtle"), Source(str(tmp_path / "b.nq.gz"), NQ)]
    served.update("INSERT DATA { <http://ex/a> <http://ex/p> <http://ex/before> }")
    with Client(served.url) as client:
        assert client.loads() == []
        target = ServerTarget(client, served.url)
        found = []
        for source in sources:
            found += _by_way_of(target, source)
        served.update("INSERT DATA { <http://ex/a> <http://ex/p> <http://ex/after> }")
        assert found == [(6, 2), (1, 3)]
        known = client.loads()
        assert [(each["statements"], each["snapshot"]) for each in known] == [(6, 2), (1, 3)]
        assert {len(each["digest"]) for each in known} == {64}
    answer = served.service.query("SELECT ?o { <http://ex/a> <http://ex/p> ?o }")
    assert {row[0] for row in served.service.decode(answer)} == {iri("http://ex/before"), iri("http://ex/after")}
    assert len(served.service.query("SELECT * { GRAPH <http://ex/g> { ?s ?p ?o } }").columns[0]) == 1


def _by_way_of(target: ServerTarget, source: Source) -> list[tuple[int, int]]:
    what = place_of(source, None)
    what.digest = digest_of(source)
    with pieces_of(source, "http://base/", io.StringIO(), lambda: 0) as pieces:
        target.load(pieces, source.quads, what, False)
    return [(what.statements, what.sn)]


def test_queries_run_on_next_to_a_load_and_see_it(served: Live) -> None:
    """The pieces come one by one; meanwhile elements are pushed and evaluated."""
    served.register(
        "PREFIX ex: <http://ex/> REGISTER RSTREAM near AS SELECT ?taxi ?z FROM NAMED WINDOW ex:w ON STREAM taxis "
        "[RANGE 1s STEP 1s] WHERE { WINDOW ex:w { ?taxi ex:in ?z } ?z ex:partOf ex:c1 }"
    ).raise_for_status()
    served.push(500)
    more = threading.Semaphore(0)

    def pieces() -> Iterator[bytes]:
        yield lines(200_000)
        assert more.acquire(timeout=PATIENCE_S)
        yield b"<http://ex/z1> <http://ex/partOf> <http://ex/c1> .\n"

    with Client(served.url) as client:
        answers: list[int] = []
        loader = threading.Thread(target=lambda: answers.append(client.load(pieces(), quads=False)["snapshot"]))
        loader.start()
        for time in (1500, 2500, 3500):
            assert served.push(time).status_code == 202
        more.release()
        loader.join(30)
    assert not loader.is_alive()
    assert served.push(4500).status_code == 202
    answered = [row.json for row in served.service.emissions("near")]
    assert ['"taxi"' in text.decode() and "t1" in text.decode() for text in answered] == [False, False, False, True]
    assert served.service.head() > answers[0]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Loads have parts of 5,000 bytes; the names of the tasks that were run."""
    done: list[str] = []
    submit = LoadProcesses.submit

    def recorded(self: LoadProcesses, task: msgspec.Struct) -> Future[Any]:
        done.append(type(task).__name__)
        return submit(self, task)

    monkeypatch.setattr(load_reading, "PART_BYTES", 5_000)
    monkeypatch.setattr(LoadProcesses, "submit", recorded)
    return done


def test_long_files_are_read_by_processes(small_parts: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_bytes(lines(2000))
    (tmp_path / "b.nt.gz").write_bytes(gzip.compress(lines(2000, "m")))
    url = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.nt", tmp_path / "b.nt.gz", "--tasks", 2, "--store", url) == 0
    found = graph_of(url)
    assert (len(found), len({*found.objects()})) == (4000, 2)
    assert small_parts.count("ReadPart") > 4


@pytest.mark.parametrize("other", [("--server", "http://127.0.0.1:1"), ("--from", "http://127.0.0.1:1")])
def test_tasks_are_for_a_store_that_is_opened_here(other: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    files = [] if other[0] == "--from" else ["a.nt"]
    assert rillet("load", *files, "--tasks", 2, *other) == 2
    assert "--tasks" in capsys.readouterr().err


def test_a_server_reads_long_loads_in_processes(small_parts: list[str], tmp_path: Path) -> None:
    with live(tmp_path / "served", push_readers=2) as served:
        served.service.store.take_lease(served.url)
        with Client(served.url, timeout_s=PATIENCE_S) as client:
            assert client.load([lines(1500), lines(1500, "m")], quads=False)["statements"] == 3000
            with pytest.raises(Refused, match="line 1501, column 1") as caught:
                client.load([lines(1500), b"oops"], quads=False)
            assert caught.value.line == 1501
        answer = served.service.query("SELECT (COUNT(*) AS ?n) (COUNT(DISTINCT ?o) AS ?m) { ?s ?p ?o }")
        assert [[text.split(b'"')[1] for text in row] for row in served.service.decode(answer)] == [[b"3000", b"1"]]
    assert {"ReadPart", "SortRows"} < {*small_parts}


def test_a_server_without_room_for_its_tasks_says_so(
    small_parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks have read all; then the server itself has no room for what they need next."""

    def short(*_: Any, **__: Any) -> None:
        raise OSError("5 requested and 2 written")  # as numpy does it

    with live(tmp_path / "served", push_readers=2) as served:
        served.service.store.take_lease(served.url)
        with monkeypatch.context() as patched:
            patched.setattr(np, "save", short)
            answer = served.http.post("/$/loads", content=lines(1500), headers={"content-type": NT})
        assert (answer.status_code, "TMPDIR" in answer.text, "No space left" in answer.text) == (503, True, True)
        assert "ReadPart" in small_parts
        assert served.http.post("/$/loads", content=lines(1500), headers={"content-type": NT}).status_code == 200


def test_a_load_that_was_accepted_is_not_refused_later(served: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other writes fill the queue as soon as the load has its place."""
    checked: list[str] = []

    def check_room(pool: Pool) -> None:
        checked.append(pool.kind)
        if checked.count(pool.kind) > 1:
            raise Overload("too many", 1)

    monkeypatch.setattr(Pool, "_check_room", check_room)
    answer = served.http.post("/$/loads", content=lines(10), headers={"content-type": NT})
    assert (answer.status_code, answer.json()["statements"]) == (200, 10)


def test_a_disk_that_is_full_is_no_wrong_compression(tmp_path: Path) -> None:
    path = tmp_path / "a.nt"
    path.write_bytes(lines(1))
    with (
        pytest.raises(OSError, match=r"^5 requested and 2 written$"),
        pieces_of(Source(str(path), NT), "http://base/", io.StringIO(), lambda: 0),
    ):
        raise OSError("5 requested and 2 written")


def test_a_bad_line_sent_to_a_server_is_reported_with_its_place_and_adds_nothing(served: Live) -> None:
    before = served.service.head()
    with Client(served.url) as client:
        target = ServerTarget(client, served.url)
        with pytest.raises(BadData) as caught:
            target.load(iter([lines(10), BAD, *[lines(100_000)] * 20]), False, Loaded("/f", 1, 1, None), False)
        assert (caught.value.line, caught.value.column) == (12, 15)
        assert served.service.head() == before
        what = Loaded("/f", 1, 1, None)
        observed = target.load(iter([lines(10), BAD]), False, what, True)
        assert (what.statements, what.bad, [bad.line for bad in observed]) == (11, 3, [12, 13, 14])


def test_a_load_is_sent_as_lines_by_who_may_write(tmp_path: Path) -> None:
    with live(tmp_path / "guarded", token="secret") as guarded:
        sent = {"content": lines(1), "headers": {"content-type": NT}}
        assert guarded.http.post("/$/loads", **sent).status_code == 401  # type: ignore[arg-type]  # as above
        may = {"authorization": "Bearer secret"}
        turtle = guarded.http.post("/$/loads", content=TURTLE, headers={"content-type": "text/turtle", **may})
        assert (turtle.status_code, "must be uncompressed lines" in turtle.text) == (415, True)
        unsized = guarded.http.post("/$/loads?path=/a", content=lines(1), headers={"content-type": NT, **may})
        assert (unsized.status_code, "give size" in unsized.text) == (400, True)
        assert (
            guarded.http.post("/$/loads?graph=oops", content=lines(1), headers={"content-type": NT, **may}).status_code
            == 400
        )
        assert guarded.service.head() == 0


def test_load_all_tells_of_a_server_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()  # each look at the clock is one later, and nobody sleeps
    monkeypatch.setattr(
        "endpoint.files.writer.time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None)
    )
    tries: list[str] = []

    def elsewhere(self: hbase_store.Store, address: str) -> None:
        tries.append(address)
        raise AnotherWriter("http://127.0.0.1:9/", 4711, "there")

    monkeypatch.setattr(hbase_store.Store, "take_lease", elsewhere)
    (tmp_path / "a.nt").write_bytes(lines(1))
    with pytest.raises(AnotherWriter, match="process 4711 is the writer"):
        list(load_all(f"lmdb:{tmp_path / 's'}", [Source(str(tmp_path / "a.nt"), NT)], Wanted(None, ""), io.StringIO()))
    assert len(tries) == 5
