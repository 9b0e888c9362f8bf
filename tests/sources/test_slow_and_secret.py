"""Servers of others that take a byte at a time, that pack what they send several times over, and that repeat the keys
of their address: who asks them does not wait, does not unpack, and does not show the key."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_ext.evaluation_budget import Control
from stream_ext.remote.allowed_urls import AllowedUrls, places
from stream_ext.remote.endpoint_source import SparqlEndpointSource
from stream_ext.remote.fetching import CannotFetch, NoAnswer, fetch
from stream_ext.remote.shown_urls import shown_url
from stream_ext.remote.source import SourceSettings
from stream_ext.remote.sparql_client import Remotes
from tests.endpoint.live import live
from tests.parts.waiting import PATIENCE_S, until
from tests.sources.scripted import JSON, scripted

ASK = "SELECT ?s { ?s ?p ?o }"


def dripping(before: bytes, left: threading.Event) -> Callable[[Any, str], bool]:
    """Sends a byte each 20 ms, for ever."""

    def spoil(request: Any, text: str) -> bool:
        waiting = threading.Event()
        with contextlib.suppress(OSError):
            request.wfile.write(before)
            while not waiting.wait(0.02):
                request.wfile.write(b"x")
        left.set()
        request.close_connection = True
        return True

    return spoil


HEAD = b"HTTP/1.1 200 OK\r\nx-much: "
BODY = b"HTTP/1.1 200 OK\r\ncontent-type: text/turtle\r\nconnection: close\r\n\r\n#"


@pytest.mark.parametrize("before", [HEAD, BODY], ids=["its head", "its body"])
def test_a_document_that_drips_is_left(before: bytes) -> None:
    left = threading.Event()
    with scripted() as there:
        there.spoil = dripping(before, left)
        allowed = AllowedUrls(load=places(there.url), service=places(there.url), timeout_s=0.5)
        began = time.monotonic()
        with pytest.raises(NoAnswer, match=r"took longer than 0\.5 s"):
            fetch(there.url, allowed)
        with pytest.raises(NoAnswer), Remotes(allowed, Control()) as remotes:
            remotes.ask(there.url, ASK)
        assert time.monotonic() - began < 30 and left.wait(PATIENCE_S)


def test_a_source_that_drips_the_head_of_its_answer_is_left() -> None:
    left = threading.Event()
    with scripted() as there:
        there.spoil = dripping(HEAD, left)
        source = SparqlEndpointSource(SourceSettings("main", there.url), 0.5, sleep=lambda _: None)
        began = time.monotonic()
        with pytest.raises(NoAnswer, match="does not answer"):
            list(source.select(ASK, Control()))
        assert time.monotonic() - began < 30 and left.wait(PATIENCE_S)
        source.close()


def test_what_is_packed_several_times_over_is_not_unpacked() -> None:
    with scripted() as there:
        data = gzip.compress(gzip.compress(b"<a> <b> <c> ."))

        def spoil(request: Any, text: str) -> bool:
            request.respond(200, "text/turtle", data, content_encoding="gzip, gzip")
            return True

        there.spoil = spoil
        allowed = AllowedUrls(load=places(there.url), service=places(there.url))
        with pytest.raises(CannotFetch, match="gzip, gzip"):
            fetch(there.url, allowed)
        with pytest.raises(CannotFetch, match="gzip, gzip"), Remotes(allowed, Control()) as remotes:
            remotes.ask(there.url, ASK)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host/ds?apikey=1234&x=1", "http://host/ds?apikey=***&x=***"),
        ("http://ann:secret@host:3030/ds", "http://***@host:3030/ds"),
        ("http://host/ds?token#part", "http://host/ds?***#***"),
        ("http://host/ds", "http://host/ds"),
    ],
)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert shown_url(url) == shown


KEY = "s3cretkey"


def repeats_it(request: Any, text: str) -> bool:
    request.respond(404, "text/html", f"no such query: /sparql?apikey={KEY}".encode())
    return True


def is_no_results(request: Any, text: str) -> bool:
    request.respond(200, JSON, f"who is {KEY}".encode())
    return True


def redirects(request: Any, text: str) -> bool:
    request.respond(302, "text/plain", b"", location=f"http://other.example/?apikey={KEY}")
    return True


@pytest.mark.parametrize("spoil", [repeats_it, is_no_results, redirects])
def test_the_key_in_an_address_is_shown_nowhere(
    spoil: Callable[[Any, str], bool], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with scripted() as there:
        there.add("<http://ex/a> <http://ex/b> <http://ex/c> .")
        settings = SourceSettings("main", f"{there.url}?apikey={KEY}", refresh_s=3600)
        attached = SparqlEndpointSource(settings, 5.0, sleep=lambda _: None)
        with live(tmp_path / "store", sources=[attached]) as server:
            until(lambda: attached.health.probed, "the source is probed")
            text = (
                "REGISTER RSTREAM q AS SELECT * FROM NAMED WINDOW <http://ex/w> ON s [RANGE PT1S STEP PT1S] "
                "{ WINDOW <http://ex/w> { ?x <http://ex/y> ?z } ?z <http://ex/b> ?c }"
            )
            explained = {"query": f"EXPLAIN {text}"}
            found = [server.http.get("/sparql", params=explained).text, server.register(text).text]
            there.spoil = spoil
            found += [
                server.http.get("/sparql", params={"query": ASK}).text,
                server.http.get("/sparql", params=explained).text,
                server.http.post("/sources/main/refresh").text,
                server.http.get("/sources").text,
                server.http.get("/sources/main").text,
                server.http.get("/$/status").text,
                server.http.get("/$/metrics").text,
                server.http.get("/console/").text,
                repr(settings),
                *(f"{record.getMessage()} {record.__dict__}" for record in caplog.records),
            ]
            assert not [each for each in found if KEY in each]
            assert "apikey=***" in json.dumps(server.http.get("/sources").json())


def test_a_key_that_is_a_part_of_the_address_is_sent(tmp_path: Path) -> None:
    paths: list[str] = []
    with scripted() as there:

        def seen(request: Any, text: str) -> bool:
            paths.append(request.path)
            return False

        there.spoil = seen
        source = SparqlEndpointSource(SourceSettings("main", f"{there.url}?apikey={KEY}"), 5.0)
        list(source.select(ASK, Control()))
        source.close()
    assert paths == [f"/sparql?apikey={KEY}"]
