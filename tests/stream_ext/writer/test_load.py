"""LOAD: documents come from allowed URLs only, within a size and a time; and what they say comes into the store."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_ext.errors import BadArgument, NotAllowed, UpdateFailed
from stream_ext.remote.allowed_urls import AllowedUrls, OutOfBounds, places
from stream_ext.service.service import Service
from tests.stream_ext.fake_server import FakeServer, Reply, fake_server
from tests.stream_ext.opened import EX, opened
from tests.stream_ext.writer.test_updates import quads

TURTLE = {"content-type": "text/turtle; charset=utf-8"}
DATA = f"@prefix : <{EX}> . :a :p :b . _:x :p <rel> ."


@pytest.fixture
def there() -> Iterator[FakeServer]:
    with fake_server() as server:
        yield server


@pytest.fixture
def service(tmp_path: Path, there: FakeServer) -> Iterator[Service]:
    allowed = places(f"{there.url}/data {tmp_path.as_uri()}/files")
    (tmp_path / "files").mkdir()
    with opened(tmp_path, allowed_urls=AllowedUrls(load=allowed, bytes_max=10_000, timeout_s=5)) as running:
        yield running


def spread(service: Service) -> set[tuple[str, ...]]:
    """Blank nodes as one mark: there is one in the data."""
    return {tuple("_" if term.startswith("_:") else term for term in quad) for quad in quads(service)}


# ---- what comes ------------------------------------------------------------------------------------------------


def test_a_document_comes_into_the_default_graph_or_into_another(service: Service, there: FakeServer) -> None:
    there.replies["/data/x"] = Reply(body=DATA.encode(), headers=TURTLE)
    triples = {("a", "p", "b"), ("_", "p", f"<{there.url}/data/rel>")}
    done = service.update(f"LOAD <{there.url}/data/x>")
    assert (done.inserted, done.deleted) == (2, 0)
    assert spread(service) == triples
    service.update(f"LOAD <{there.url}/data/x#part> INTO GRAPH <{EX}g>")
    assert spread(service) == triples | {(*triple, "g") for triple in triples}
    assert "text/turtle" in there.asked[0].headers["accept"]


def test_each_load_has_blank_nodes_of_its_own(service: Service, there: FakeServer) -> None:
    there.replies["/data/x"] = Reply(body=b"_:x <http://ex/p> _:x .", headers=TURTLE)
    service.update(f"LOAD <{there.url}/data/x> ; LOAD <{there.url}/data/x>")
    assert len(quads(service)) == 2


@pytest.mark.parametrize(
    ("name", "media_type", "body"),
    [
        ("x", "application/n-triples", b"<http://ex/a> <http://ex/p> <http://ex/b> ."),
        ("x.nt", "text/plain", b"<http://ex/a> <http://ex/p> <http://ex/b> ."),
        ("x.NT.gz", "application/gzip", gzip.compress(b"<http://ex/a> <http://ex/p> <http://ex/b> .", mtime=0)),
        ("x", "application/ld+json", b'{"@id": "http://ex/a", "http://ex/p": {"@id": "http://ex/b"}}'),
        ("x.jsonld", "", b'{"@id": "http://ex/a", "http://ex/p": {"@id": "http://ex/b"}}'),
        (
            "x.owl",
            "application/xml",
            b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://ex/">'
            b'<rdf:Description rdf:about="http://ex/a"><p rdf:resource="http://ex/b"/></rdf:Description></rdf:RDF>',
        ),
    ],
)
def test_the_server_says_what_a_document_is_or_its_name_does(
    service: Service, there: FakeServer, name: str, media_type: str, body: bytes
) -> None:
    there.replies[f"/data/{name}"] = Reply(body=body, headers={"content-type": media_type})
    service.update(f"LOAD <{there.url}/data/{name}>")
    assert quads(service) == {("a", "p", "b")}


def test_a_dataset_brings_its_graphs_unless_it_is_to_go_into_one(service: Service, there: FakeServer) -> None:
    data = f"<{EX}a> <{EX}p> <{EX}b> . <{EX}g> {{ <{EX}a> <{EX}p> <{EX}c> }}"
    there.replies["/data/x.trig"] = Reply(body=data.encode())
    with pytest.raises(UpdateFailed, match="names graphs itself"):
        service.update(f"LOAD <{there.url}/data/x.trig> INTO GRAPH <{EX}h>")
    service.update(f"LOAD <{there.url}/data/x.trig>")
    assert quads(service) == {("a", "p", "b"), ("a", "p", "c", "g")}


def test_files_are_loaded_from_below_an_allowed_folder(service: Service, tmp_path: Path) -> None:
    (tmp_path / "files" / "a b.ttl").write_text(DATA)
    (tmp_path / "files" / "zipped.ttl.gz").write_bytes(gzip.compress(DATA.encode(), mtime=0))
    service.update(f"LOAD <{tmp_path.as_uri()}/files/a%20b.ttl>")
    service.update(f"LOAD <{tmp_path.as_uri()}/files/zipped.ttl.gz> INTO GRAPH <{EX}g>")
    assert {quad for quad in spread(service) if quad[0] == "a"} == {("a", "p", "b"), ("a", "p", "b", "g")}


def test_what_is_loaded_is_seen_by_the_operations_behind_it(service: Service, there: FakeServer) -> None:
    there.replies["/data/x"] = Reply(body=f"<{EX}a> <{EX}p> <{EX}b> .".encode(), headers=TURTLE)
    service.update(f"LOAD <{there.url}/data/x> ; DELETE {{ ?s ?p ?o }} INSERT {{ ?o ?p ?s }} WHERE {{ ?s ?p ?o }}")
    assert quads(service) == {("b", "p", "a")}


# ---- what does not ---------------------------------------------------------------------------------------------


def test_a_document_that_expands_is_not_loaded(service: Service, there: FakeServer) -> None:
    long = b"@prefix e: <http://e/%b> ." % (b"a" * 5_000) + b" e:a e:a 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ."
    there.replies["/data/x"] = Reply(body=long, headers=TURTLE)
    with pytest.raises(UpdateFailed, match="the document has expanded to more than 80000: its prefixes"):
        service.update(f"LOAD <{there.url}/data/x>")


def test_without_a_list_of_allowed_urls_nothing_is_fetched(tmp_path: Path, there: FakeServer) -> None:
    with opened(tmp_path) as service:
        with pytest.raises(NotAllowed, match=r"line 2, column 3: operation 2 of 2: LOAD is off: .* --allow-load"):
            service.update(f"CLEAR ALL ;\n  LOAD <{there.url}/data/x>")
        service.update(f"LOAD SILENT <{there.url}/data/x>")
    assert there.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "{there}/other",
        "{there}/database",
        "{there}/data/../other",
        "{there}/data/%2e%2e/other",
        "{there}/data/..%2fother",
        "{there}0/data/x",
        "http://user@127.0.0.1/data/x",
        "http://127.0.0.1/data/x",
        "https://127.0.0.1/data/x",
        "ftp://127.0.0.1/data/x",
        "file:///etc/passwd",
        "file://host/etc/passwd",
        "{files}/files/../secret.ttl",
        "{files}/filesystem.ttl",
        "{files}/files/out.ttl",
        "urn:x",
    ],
)
def test_a_url_that_is_not_allowed_is_not_fetched(
    service: Service, there: FakeServer, tmp_path: Path, url: str
) -> None:
    (tmp_path / "secret.ttl").write_text(DATA)
    (tmp_path / "files" / "out.ttl").symlink_to(tmp_path / "secret.ttl")
    there.replies["/other"] = there.replies["/database"] = Reply(body=DATA.encode(), headers=TURTLE)
    text = f"<{url.format(there=there.url, files=tmp_path.as_uri())}>"
    with pytest.raises(NotAllowed):
        service.update(f"LOAD {text}")
    service.update(f"LOAD SILENT {text} ; INSERT DATA {{ <{EX}a> <{EX}p> 1 }}")
    assert quads(service) == {("a", "p", "1")}
    assert there.asked == []


def test_a_redirection_is_followed_within_what_is_allowed(service: Service, there: FakeServer, tmp_path: Path) -> None:
    there.replies["/data/old"] = Reply(302, headers={"location": "new"})
    there.replies["/data/new"] = Reply(body=DATA.encode(), headers=TURTLE)
    there.replies["/data/out"] = Reply(302, headers={"location": "/other"})
    there.replies["/data/file"] = Reply(302, headers={"location": "file:///etc/passwd"})
    there.replies["/data/round"] = Reply(302, headers={"location": "/data/round"})
    service.update(f"LOAD <{there.url}/data/old>")
    assert ("_", "p", f"<{there.url}/data/rel>") in spread(service)
    for name in ("out", "file"):
        with pytest.raises(NotAllowed, match="not among"):
            service.update(f"LOAD <{there.url}/data/{name}>")
    (tmp_path / "files" / "here.ttl").write_text(DATA)
    there.replies["/data/here"] = Reply(302, headers={"location": f"{tmp_path.as_uri()}/files/here.ttl"})
    with pytest.raises(UpdateFailed, match="a server redirected this request to <file:"):
        service.update(f"LOAD <{there.url}/data/here>")
    with pytest.raises(UpdateFailed, match="more than 5 redirects"):
        service.update(f"LOAD <{there.url}/data/round>")
    assert "/other" not in {asked.path for asked in there.asked}


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(404), "answered 404"),
        (Reply(body=b"<a> <b>", headers=TURTLE), "/data/x>: line 1"),
        (Reply(body=b"<html>", headers={"content-type": "text/html"}), "text/html is not supported here"),
        (Reply(body=b"", headers={"content-type": ""}), "does not determine the RDF format"),
        (Reply(body=b" " * 10_001, headers=TURTLE), "more than 10000 bytes"),
        (
            Reply(body=gzip.compress(b" " * 10_001, mtime=0), headers={**TURTLE, "content-encoding": "gzip"}),
            "more than 10000",
        ),
        (Reply(body=b"short", headers={**TURTLE, "content-length": "100"}), "cannot be fetched"),
    ],
)
def test_a_document_that_cannot_be_had_fails_the_request(
    service: Service, there: FakeServer, reply: Reply, says: str
) -> None:
    there.replies["/data/x"] = reply
    with pytest.raises(UpdateFailed, match=says):
        service.update(f"INSERT DATA {{ <{EX}a> <{EX}p> 1 }} ; LOAD <{there.url}/data/x>")
    assert (service.head(), quads(service)) == (0, set())
    service.update(f"LOAD SILENT <{there.url}/data/x> ; INSERT DATA {{ <{EX}a> <{EX}p> 1 }}")
    assert quads(service) == {("a", "p", "1")}


def test_a_zipped_file_may_not_be_larger_than_allowed_when_unpacked(service: Service, tmp_path: Path) -> None:
    (tmp_path / "files" / "large.ttl.gz").write_bytes(gzip.compress(b" " * 10_001, mtime=0))
    (tmp_path / "files" / "broken.ttl.gz").write_bytes(gzip.compress(DATA.encode(), mtime=0)[:-9])
    (tmp_path / "files" / "folder.ttl").mkdir()
    os.mkfifo(tmp_path / "files" / "pipe.ttl")
    for name, says in (
        ("large.ttl.gz", "more than 10000 bytes"),
        ("broken.ttl.gz", "not valid gzip data"),
        ("folder.ttl", "cannot be read"),
        ("absent.ttl", "No such file"),
        ("pipe.ttl", "is not a file"),
    ):
        with pytest.raises(UpdateFailed, match=says):
            service.update(f"LOAD <{tmp_path.as_uri()}/files/{name}>")


def test_a_server_that_does_not_continue_is_given_up(tmp_path: Path, there: FakeServer) -> None:
    never = threading.Event()
    there.replies["/data/x"] = Reply(body=b" " * 2_000, headers=TURTLE, wait=never)
    with opened(tmp_path, allowed_urls=AllowedUrls(load=places(there.url), timeout_s=0.2)) as service:
        with pytest.raises(UpdateFailed, match=r"took longer than 0\.2 s"):
            service.update(f"LOAD <{there.url}/data/x>")
        assert service.update(f"INSERT DATA {{ <{EX}a> <{EX}p> 1 }}").inserted == 1
    never.set()


# ---- the list --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "url", "fetched"),
    [
        ("https://example.org", "https://example.org/x?y=z", "https://example.org/x?y=z"),
        ("https://example.org/data/", "HTTPS://EXAMPLE.org:443/data/x#f", "https://example.org/data/x"),
        ("https://example.org/data", "https://example.org/data", "https://example.org/data"),
        ("https://example.org:8443/", "https://example.org:8443/x", "https://example.org:8443/x"),
        ("http://[::1]:80/a", "http://[::1]/a/b", "http://[::1]/a/b"),
        ("https://example.org/a%20b", "https://example.org/a%20b/c", "https://example.org/a%20b/c"),
        ("https://example.org/data", "https://example.org/data2", None),
        ("https://example.org/data", "http://example.org/data", None),
        ("https://example.org/data", "https://example.org:8443/data", None),
        ("https://example.org", "https://example.org.evil.net/", None),
        ("https://example.org", "https://example.org@evil.net/", None),
        ("https://example.org", "https://example.org\\@evil.net/", None),
        ("https://example.org", "https:example.org/", None),
        ("https://example.org", "https://example.org:port/", None),
    ],
)
def test_what_lies_below_an_allowed_url_is_allowed(allowed: str, url: str, fetched: str | None) -> None:
    allowed_urls = AllowedUrls(load=places(allowed))
    if fetched is None:
        with pytest.raises(OutOfBounds):
            allowed_urls.check_load(url)
    else:
        assert allowed_urls.check_load(url) == fetched
    with pytest.raises(OutOfBounds, match="SERVICE is off"):
        allowed_urls.check_service(url)


@pytest.mark.parametrize("text", ["example.org", "ftp://example.org", "https://", "file:data", "https://x/../y"])
def test_a_list_that_names_no_url_is_refused(text: str) -> None:
    with pytest.raises(BadArgument, match=r"write https://example\.org/data/"):
        places(f"https://example.org {text}")
