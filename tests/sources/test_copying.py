"""`rillet load --from`: another store comes over whole, nothing twice, nothing lost, whatever the source does."""

from __future__ import annotations

import email.utils
import io
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from endpoint.files import dumping
from endpoint.files.copying import Copy, copy_all
from endpoint.files.load import Done
from endpoint.limits import HttpLimits
from stream_ext.errors import BadArgument, RilletError
from stream_ext.remote.sparql_source import SparqlSource
from tests.endpoint.live import live
from tests.parts.fuseki.server import Fuseki
from tests.parts.oxigraph import served
from tests.parts.processes import started
from tests.parts.virtuoso import ROWS_MAX, Virtuoso
from tests.sources.scripted import JSON, N_TRIPLES, Scripted, scripted
from tests.stream_ext.rdf.bombs import OF_MEMORY

ODD = r"""
<http://ex/a> <http://ex/p> "x"@en-GB .
<http://ex/a> <http://ex/p> "line\nbreak, \"quotes\" and \\ \u0001" .
<http://ex/a> <http://ex/p> "1.50"^^<http://www.w3.org/2001/XMLSchema#decimal> .
<http://ex/é> <http://ex/p> "𝄞" .
<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .
<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/h> .
"""
BLANK = """
_:x <http://ex/p> _:y <http://ex/g> .
_:y <http://ex/p> _:x <http://ex/g> .
_:y <http://ex/q> "here" <http://ex/g> .
"""


def many(count: int, graph: str = "http://ex/large", of: int = 3) -> str:
    """Subjects of some triples each."""
    return "".join(f"<http://ex/s{n // of}> <http://ex/p> <http://ex/o{n}> <{graph}> .\n" for n in range(count))


class Target:
    def __init__(self, folder: Path) -> None:
        self.store = f"lmdb:{folder / 'target'}"
        self.slept: list[float] = []
        self.printed = io.StringIO()

    def copy(self, url: str, authorization: str | None = None, server: str | None = None, **more: Any) -> list[Done]:
        source = SparqlSource(url, authorization, 30.0, self.slept.append)
        try:
            return list(copy_all(self.store, source, Copy(**more), self.printed, server=server))
        finally:
            source.close()

    def quads(self, folder: Path) -> ox.Dataset:
        file = folder / "dumped.nq"
        with dumping.of_store(self.store, None, None) as lines:
            dumping.dump(lines, str(file), False)
        return dataset(file.read_bytes())


def dataset(quads: bytes | str) -> ox.Dataset:
    """Such that two are equal if they are isomorphic."""
    found = ox.Dataset(ox.parse(quads, ox.RdfFormat.N_QUADS))
    found.canonicalize(ox.CanonicalizationAlgorithm.RDFC_1_0)
    return found


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


@pytest.fixture
def source() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


def dumped(source: Scripted) -> ox.Dataset:
    return dataset(bytes(source.store.dump(format=ox.RdfFormat.N_QUADS) or b""))


# ---- all of it


def test_default_and_named_graphs_come_over_with_their_blank_nodes(
    source: Scripted, target: Target, tmp_path: Path
) -> None:
    source.add(ODD + BLANK)
    done = target.copy(source.url)
    assert [(each.source.name, each.loaded.statements) for each in done] == [
        ("the default graph", 4),
        ("<http://ex/g>", 4),
        ("<http://ex/h>", 1),
    ]
    assert target.quads(tmp_path) == dumped(source)
    again = target.copy(source.url)
    assert [each.seconds for each in again] == [0, 0, 0]
    assert target.quads(tmp_path) == dumped(source)


def test_a_large_graph_comes_in_parts_that_lie_between_subjects(
    source: Scripted, target: Target, tmp_path: Path
) -> None:
    source.add(many(100) + BLANK.replace("http://ex/g", "http://ex/large"))
    done = target.copy(source.url, part=20)
    assert [each.source.name for each in done][:2] == [
        "<http://ex/large>, blank nodes",
        "<http://ex/large>, from the start",
    ]
    assert {each.loaded.statements for each in done[1:-1]} <= {20, 21, 22} and len(done) > 4
    assert target.quads(tmp_path) == dumped(source)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_an_interrupted_copy_continues_behind_what_it_has(
    source: Scripted, target: Target, tmp_path: Path, number: signal.Signals
) -> None:
    source.add(ODD + many(100) + BLANK.replace("http://ex/g", "http://ex/large"))
    fifth, dead = threading.Event(), threading.Event()

    def stops(request: Any, text: str) -> bool:
        if not constructing(text) or len(source.constructs()) != 6:
            return False
        request.respond_and_break_off(N_TRIPLES, source.answer(text)[1], 1 << 20)
        fifth.set()
        dead.wait(60)
        return True

    source.spoil = stops
    command = [sys.executable, "-m", "endpoint", "load", "--from", source.url, "--part", "20", "--store", target.store]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert fifth.wait(60)
        child.send_signal(number)
        assert child.wait(60) == (130 if number == signal.SIGINT else -number)
        dead.set()
        printed = child.stdout.read() if child.stdout else ""
    assert printed.count("snapshot") == 5
    rest = target.copy(source.url, part=20)
    assert [each.loaded.sn for each in rest if not each.seconds] == [1, 2, 3, 4, 5]
    assert len(source.constructs()) == 1 + len(rest)
    assert target.quads(tmp_path) == dumped(source)


def test_what_the_source_lost_since_the_copy_was_interrupted_hides_nothing(
    source: Scripted, target: Target, tmp_path: Path
) -> None:
    source.add(many(100))
    first = SparqlSource(source.url, None, 30.0)
    copying = copy_all(target.store, first, Copy(part=50), target.printed)
    done = next(copying)
    copying.close()  # type: ignore[attr-defined]  # it is a generator
    first.close()
    came = target.quads(tmp_path)
    for quad in [*came][:50]:
        source.store.remove(quad)
    rest = target.copy(source.url, part=50)
    assert rest[0].loaded.sn == done.loaded.sn
    assert target.quads(tmp_path) == dataset(many(100))


@pytest.mark.parametrize("form", [ox.RdfFormat.TURTLE, ox.RdfFormat.RDF_XML])
def test_triples_are_read_in_any_form_that_streams(
    source: Scripted, target: Target, tmp_path: Path, form: ox.RdfFormat
) -> None:
    source.add(BLANK + many(50))
    source.form = form
    target.copy(source.url)
    assert target.quads(tmp_path) == dumped(source)


def test_only_some_graphs_and_the_default_graph_as_another(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(ODD)
    target.copy(source.url, graphs=(None, "http://ex/g"), into="http://ex/was/default")
    written = bytes(source.store.dump(format=ox.RdfFormat.N_QUADS) or b"").decode()
    theirs = [line for line in written.splitlines() if not line.endswith("h> .")]
    ours = [line if line.endswith("g> .") else line[:-1] + "<http://ex/was/default> ." for line in theirs if line]
    assert target.quads(tmp_path) == dataset("\n".join(ours))
    with pytest.raises(RilletError, match="has no graph <http://ex/absent>, or the graph has no triples"):
        target.copy(source.url, graphs=("http://ex/absent",))
    with pytest.raises(BadArgument, match="is also a graph of the source"):
        target.copy(source.url, into="http://ex/g")


def test_blank_nodes_of_several_graphs_are_not_torn_apart(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(BLANK + BLANK.replace("http://ex/g", "http://ex/h") + "_:y <http://ex/r> 'd' .".replace("'", '"') + ODD)
    done = target.copy(source.url)
    assert [(each.source.name, each.loaded.statements) for each in done] == [
        ("3 graphs (the default graph, <http://ex/g>, ...), blank nodes", 7),
        ("the default graph, the rest", 4),
        ("<http://ex/g>, the rest", 1),
        ("<http://ex/h>, the rest", 1),
    ]
    assert target.quads(tmp_path) == dumped(source)
    assert [each.seconds for each in target.copy(source.url)] == [0, 0, 0, 0]
    assert target.quads(tmp_path) == dumped(source)


def test_a_graph_that_came_by_itself_has_lost_what_it_shared(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(BLANK + BLANK.replace("http://ex/g", "http://ex/h"))
    assert len(target.copy(source.url, graphs=("http://ex/g",))) == 1
    with pytest.raises(RilletError, match=r"were copied before share blank nodes with others .*ex/h"):
        target.copy(source.url)
    assert len(target.quads(tmp_path)) == 3


def test_many_small_graphs_come_together(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(ODD + "".join(many(3, f"http://ex/small/{n}") for n in range(200)))
    source.add("".join(f"_:b <http://ex/p> <http://ex/{n}> <http://ex/sharing/{n}> .\n" for n in range(20)))
    source.add(many(600))
    done = target.copy(source.url, part=500)
    assert target.quads(tmp_path) == dumped(source)
    assert len(done) < 20
    again = target.copy(source.url, part=500)
    assert sorted(each.source.name for each in again) == sorted(each.source.name for each in done)
    assert [each.seconds for each in again] == [0] * len(done)
    source.add(many(3, "http://ex/small/100b"))
    assert [each.loaded.statements for each in target.copy(source.url, part=500) if each.seconds] == [3]
    assert target.quads(tmp_path) == dumped(source)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"results": {"bindings": [{"s": {"type": "uri", "value": "a:a"}, "p"', "they end too early"),
        (b'{"results": {"bindings": [{"s": 1}]}}', "1 is no term"),
        (b'{"results": {"bindings": [{"s": {"type": "uri", "value": "a:a"}}]}}', "'p'"),
        (b'{"results": {"bindings": [' + b"[" * 100_000, "nested too deeply"),
        (b'{"results": {"bindings": []}}', "counts 6 triples .* but sent 0"),
        (b"<html>", "they end too early"),
        (b'{"results": {"bindings": [' + b" " * (65 << 20), "its answer does not end"),
        (b'{"results": {"bindings": []' + b" " * (65 << 20), "its answer does not end"),
    ],
    # Without these a test's name would have 65 MB, and go from process to process.
    ids=["cut", "no_term", "no_predicate", "nested", "too_few", "html", "endless_rows", "endless_end"],
)
def test_what_comes_in_place_of_quads_is_named(source: Scripted, target: Target, data: bytes, expected: str) -> None:
    source.add(BLANK + BLANK.replace("http://ex/g", "http://ex/h"))
    spoil = _answering(200, JSON, data)(source)
    source.spoil = lambda request, text: text.startswith("SELECT ?g ?s ?p ?o") and spoil(request, text)
    with pytest.raises(RilletError, match=expected):
        target.copy(source.url)


def test_the_union_of_named_graphs_is_not_copied_next_to_them(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(many(30) + BLANK)
    source.default_is_union = True
    target.copy(source.url)
    assert "is the union of its named graphs" in target.printed.getvalue()
    assert target.quads(tmp_path) == dumped(source)
    target.store += "-doubled"
    target.copy(source.url, default="copy")
    assert len(target.quads(tmp_path)) == 2 * len(dumped(source))


# ---- what sources do


def test_an_answer_that_is_cut_is_no_graph(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(many(1000) + BLANK.replace("http://ex/g", "http://ex/large"))
    source.rows_max = 150
    done = target.copy(source.url)
    assert "sent 150: requesting the data in parts" in target.printed.getvalue()
    assert {each.loaded.statements for each in done} <= set(range(151))
    assert target.quads(tmp_path) == dumped(source)


def test_who_answers_one_row_at_a_time_learns_so(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(many(300))
    source.rows_max = 10
    with pytest.raises(RilletError, match=r"counts .* but sent 10"):
        target.copy(source.url)
    assert len(target.quads(tmp_path)) == 0


def test_blank_nodes_that_do_not_come_in_one_answer_are_not_torn_apart(
    source: Scripted, target: Target, tmp_path: Path
) -> None:
    source.add("".join(f"_:x{n} <http://ex/p> _:x{n + 1} <http://ex/g> .\n" for n in range(500)))
    source.rows_max = 300
    with pytest.raises(RilletError, match="must come in one answer"):
        target.copy(source.url)
    assert len(target.quads(tmp_path)) == 0


def test_what_is_too_much_for_a_source_is_asked_in_parts(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(many(2000))

    def breaks(request: Any, text: str) -> bool:
        _, data = source.answer(text)
        if constructing(text) and data.count(b"\n") > 600:
            request.respond_and_break_off(N_TRIPLES, data[:1000], len(data))
            return True
        return False

    source.spoil = breaks
    assert len(target.copy(source.url)) == 4
    assert "gave up after 3 tries: requesting the data in parts" in target.printed.getvalue()
    assert target.quads(tmp_path) == dumped(source)


def test_a_source_that_cannot_sort_is_asked_for_all_at_once(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(many(500) + BLANK.replace("http://ex/g", "http://ex/large"))
    unsorted = _answering(500, "text/plain", b"out of memory")(source)
    source.spoil = lambda request, text: "ORDER BY" in text and unsorted(request, text)
    assert [each.loaded.statements for each in target.copy(source.url, part=400)] == [3, 500]
    assert target.quads(tmp_path) == dumped(source)


def constructing(text: str) -> bool:
    return text.startswith("CONSTRUCT")


def _half(form: str, announced: Callable[[bytes], int | None]) -> Callable[[Scripted], Callable[[Any, str], bool]]:
    def of(source: Scripted) -> Callable[[Any, str], bool]:
        def spoil(request: Any, text: str) -> bool:
            _, data = source.answer(text)
            request.respond_and_break_off(form, data[: len(data) // 2], announced(data))
            return True

        return spoil

    return of


def _answering(status: int, form: str, data: bytes, **headers: str) -> Callable[[Scripted], Callable[[Any, str], bool]]:
    def spoil(request: Any, text: str) -> bool:
        request.respond(status, form, data, **headers)
        return True

    return lambda source: spoil


#: What comes once in place of the triples, and whether that is asked again or is an error.
ONCE = {
    "broken off": (_half(N_TRIPLES, len), None),
    "busy": (_answering(503, "text/plain", b"come back", retry_after="7"), None),
    "too many": (_answering(429, "text/plain", b"slow down"), None),
    "cut in a line": (_half(N_TRIPLES, lambda data: None), None),
    "a page": (
        _answering(200, "text/html", b"<html>Sorry"),
        "answered text/html, not RDF .* The answer begins: <html>Sorry",
    ),
    "garbage": (_answering(200, N_TRIPLES, b"\x00\xff\n"), "sent an answer that is not RDF"),
    "nothing": (_answering(200, N_TRIPLES, b""), "counts 9 triples .* but sent 0"),
    "too much": (_answering(200, N_TRIPLES, b"<a:a> <a:b> <a:c> .\n" * 2000), "its answer does not end"),
    "entities of entities": (_answering(200, *OF_MEMORY["entities of entities"]), r"sparql>: after \d+ bytes"),
    "only comments": (_answering(200, N_TRIPLES, b"# nothing\n" * (7 << 20)), "its answer does not end"),
    "only comments in Turtle": (_answering(200, "text/turtle", b"# no\n" * (14 << 20)), "its answer does not end"),
    "wrong": (_answering(400, "text/plain", b"I know no isBlank"), "answered 400 .*: I know no isBlank"),
    "closed": (_answering(401, "text/plain", b""), "--from-auth FILE"),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_comes_in_place_of_triples_is_asked_again_or_named(
    source: Scripted, target: Target, tmp_path: Path, name: str
) -> None:
    source.add(many(9))
    spoils, expected = ONCE[name]

    def once(request: Any, text: str) -> bool:
        return constructing(text) and len(source.constructs()) == 1 and spoils(source)(request, text)

    source.spoil = once
    if expected is None:
        target.copy(source.url, part=0)
        assert target.slept == [7.0 if name == "busy" else 1.0]
    else:
        with pytest.raises(RilletError, match=expected):
            target.copy(source.url, part=0)
        assert len(target.quads(tmp_path)) == 0
        target.copy(source.url, part=0)
    assert target.quads(tmp_path) == dumped(source)


@pytest.mark.parametrize(
    ("spoils", "expected"),
    [
        (_answering(200, "text/html", b"<html>Welcome"), "The answer begins: <html>Welcome"),
        (_answering(200, JSON, b'{"results": {"bind'), "SPARQL results in JSON"),
        (_answering(200, JSON, b'{"results": {"bindings": []}}'), "was asked for a number"),
        (_answering(200, JSON, b"[" * 100_000), "SPARQL results in JSON"),
        (
            _answering(503, "text/plain", b"never"),
            "503 .*: never; gave up after 6 tries; what has been copied so far is stored",
        ),
        (_answering(302, "text/plain", b"", location="http://127.0.0.1:1/sparql"), "which has another origin"),
        (_answering(302, "text/plain", b"", location="file:///etc/passwd"), "which has another origin"),
        (_answering(307, "text/plain", b"", location="/sparql"), "more than 5 redirects"),
    ],
)
def test_what_comes_in_place_of_a_number_is_named(
    source: Scripted, target: Target, spoils: Callable[[Scripted], Callable[[Any, str], bool]], expected: str
) -> None:
    source.spoil = spoils(source)
    with pytest.raises(RilletError, match=expected):
        target.copy(source.url)


def test_who_is_away_for_good_is_named(target: Target) -> None:
    with pytest.raises(RilletError, match=r"does not answer: .*; gave up after 6 tries"):
        target.copy("http://127.0.0.1:1/sparql")
    assert target.slept == [1.0, 2.0, 4.0, 8.0, 16.0]


def test_a_source_says_when_it_will_answer_by_the_clock(source: Scripted, target: Target) -> None:
    source.add(many(9))
    soon = email.utils.format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    busy = _answering(503, "text/plain", b"busy", retry_after=soon)(source)
    source.spoil = lambda request, text: len(source.texts) == 1 and busy(request, text)
    target.copy(source.url)
    assert 30 < target.slept[0] <= 90


def test_a_redirection_within_the_origin_is_followed(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(ODD)
    moved = _answering(308, "text/plain", b"", location="/elsewhere")(source)
    source.spoil = lambda request, text: request.path == "/sparql" and moved(request, text)
    target.copy(source.url)
    assert target.quads(tmp_path) == dumped(source)


def test_a_source_that_changes_while_it_is_read_is_read_again(source: Scripted, target: Target, tmp_path: Path) -> None:
    source.add(many(9))

    def spoil(request: Any, text: str) -> bool:
        if constructing(text) and len(source.constructs()) == 1:
            request.respond(200, N_TRIPLES, source.answer(text)[1])
            source.add(many(12))
            source.store.remove(next(iter(source.store)))
            return True
        return False

    source.spoil = spoil
    target.copy(source.url)
    assert len(target.quads(tmp_path)) == 9  # all that there were when they were counted
    source.add(many(9, "http://ex/other"))
    requests = len(source.constructs())

    def grows(request: Any, text: str) -> bool:
        if constructing(text) and len(source.constructs()) == requests + 1:
            source.add(many(12, "http://ex/other"))
            request.respond(200, N_TRIPLES, b"".join(source.answer(text)[1].splitlines(True)[:11]))
            return True
        return False

    source.spoil = grows
    target.copy(source.url)
    assert "9 triples became 12" in target.printed.getvalue()
    assert len(target.quads(tmp_path)) == 21


def test_accounts_come_from_a_file_and_never_from_an_address(source: Scripted, target: Target) -> None:
    source.add(ODD)
    target.copy(source.url, "anna:secret")
    assert {each["authorization"] for each in source.headers} == {"Basic YW5uYTpzZWNyZXQ="}
    with pytest.raises(BadArgument, match="can see a user name in an address") as refused:
        target.copy("http://anna:secret@127.0.0.1/sparql")
    assert "secret" not in str(refused.value)
    with pytest.raises(BadArgument, match="user:password"):
        target.copy(source.url, "secret")


# ---- real ones


def test_another_rillet_is_copied_by_way_of_a_server(tmp_path: Path) -> None:
    with live(tmp_path / "from") as theirs, live(tmp_path / "to") as ours:
        theirs.http.post("/data", content=ODD + BLANK, headers={"content-type": "application/n-quads"})
        target = Target(tmp_path)
        done = target.copy(f"{theirs.url}/sparql", server=ours.url)
        assert [each.loaded.statements for each in done] == [4, 4, 1]
        assert [each.seconds for each in target.copy(f"{theirs.url}/sparql", server=ours.url)] == [0, 0, 0]
        with dumping.of_server(ours.url, None, None, None) as lines:
            dumping.dump(lines, str(tmp_path / "to.nq"), True)
        assert dataset((tmp_path / "to.nq").read_bytes()) == dataset(ODD + BLANK)
        with pytest.raises(BadArgument, match="is the store that would be written to"):
            target.copy(f"{ours.url}/sparql", server=ours.url)


def test_another_rillet_is_copied_past_its_limit_of_rows(tmp_path: Path) -> None:
    with live(tmp_path / "from", limits=HttpLimits(rows=500)) as theirs:
        theirs.http.post("/data", content=many(2000), headers={"content-type": "application/n-quads"})
        target = Target(tmp_path)
        target.copy(f"{theirs.url}/sparql")
    assert target.quads(tmp_path) == dataset(many(2000))


def test_what_breaks_off_on_its_way_to_a_server_leaves_nothing_there(source: Scripted, tmp_path: Path) -> None:
    source.add(many(50))
    broken = _half(N_TRIPLES, len)(source)
    source.spoil = lambda request, text: constructing(text) and len(source.constructs()) < 3 and broken(request, text)
    with live(tmp_path / "to") as ours:
        target = Target(tmp_path)
        target.copy(source.url, server=ours.url)
        assert len(target.slept) == 2
        assert [each["statements"] for each in ours.http.get("/$/loads").json()["loads"]] == [50]
        source.spoil = lambda request, text: (
            constructing(text) and _answering(200, N_TRIPLES, b"<a:a> <a:\n" * 50)(source)(request, text)
        )
        with pytest.raises(RilletError, match="sent an answer that is not RDF"):
            target.copy(source.url, server=ours.url, again=True)
        assert ours.http.get("/$/stats").json()["head"] == 1


def test_an_oxigraph_behind_rdflib_endpoint_is_copied(target: Target, tmp_path: Path) -> None:
    with served() as oxigraph:
        blank = "[] <http://ex/p> [ <http://ex/q> 'here' ]"
        oxigraph.dataset.update(f"INSERT DATA {{ <http://ex/a> <http://ex/p> 1 . GRAPH <http://ex/g> {{ {blank} }} }}")
        target.copy(oxigraph.query_url)
    one = '<http://ex/a> <http://ex/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
    two = '_:a <http://ex/p> _:b <http://ex/g> .\n_:b <http://ex/q> "here" <http://ex/g> .\n'
    assert target.quads(tmp_path) == dataset(one + two)


@pytest.mark.fuseki
@pytest.mark.xdist_group("fuseki")
def test_a_fuseki_is_copied_whole_and_in_parts(fuseki: Fuseki, tmp_path: Path) -> None:
    data = ODD + BLANK + many(5000)
    fuseki.load(data.encode())
    for part in (1000, 0):
        folder = tmp_path / str(part)
        target = Target(folder)
        done = target.copy(fuseki.query_url, part=part)
        assert len(done) == (8 if part else 4)
        assert target.quads(tmp_path) == dataset(data)


@pytest.mark.virtuoso
@pytest.mark.xdist_group("virtuoso")
def test_a_virtuoso_is_copied_past_its_limit_of_rows(virtuoso: Virtuoso, target: Target, tmp_path: Path) -> None:
    count, size = ROWS_MAX + 2000, 1000
    lines = many(count, "http://ex/v").replace(" <http://ex/v> .", " .").splitlines()
    for start in range(0, count, size):
        virtuoso.update(f"INSERT DATA {{ GRAPH <http://ex/v> {{ {' '.join(lines[start : start + size])} }} }}")
    virtuoso.update("INSERT { GRAPH <http://ex/v> { _:x <http://ex/p> _:y . _:y <http://ex/q> 'here' } } WHERE {}")
    target.copy(virtuoso.query_url, graphs=("http://ex/v",))
    blank = '_:a <http://ex/p> _:b <http://ex/v> .\n_:b <http://ex/q> "here" <http://ex/v> .\n'
    assert target.quads(tmp_path) == dataset(many(count, "http://ex/v") + blank)
