"""The reference says all that there is: each route, error, option and setting has its place."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

from pytest import MonkeyPatch

from endpoint import errors as of_endpoint
from endpoint.cli.command_line import build_parser
from endpoint.errors import status_of
from endpoint.formats.graph_results import QUADS, TRIPLES
from endpoint.formats.results import OFFERS
from endpoint.limits import HttpLimits
from endpoint.routes.emissions import NDJSON, SSE
from endpoint.routes.table import ROUTES
from hbase_store import errors as of_store
from stream_ext import errors as of_engine
from stream_ext.catalog.options import StreamOptions
from stream_ext.clock import SystemClock
from stream_ext.emissions.emission import EmissionBody, to_json
from stream_ext.rdf.pushes import PUSH_TYPES
from stream_ext.service.service import Service
from tests.docs.pages import DOCS, Page, codes, rows
from tests.endpoint.live import live

HTTP, ERRORS, LIMITS, SETTINGS, COMMANDS = (
    Page(DOCS / "reference" / f"{name}.md") for name in ("http", "errors", "limits", "settings", "command_line")
)


def test_every_route_has_a_heading_for_each_of_its_methods_and_no_heading_is_of_none() -> None:
    routes = {f"{method} {route.path}" for route in ROUTES for method in route.methods}
    headings = {heading for heading in HTTP.headings() if re.match(r"[A-Z]+ /", heading)}
    assert headings == routes


def test_every_media_type_that_is_read_or_written_is_named() -> None:
    named = set(codes(HTTP.text))
    assert {offer.media_type for offer in (*OFFERS, *TRIPLES, *QUADS, NDJSON, SSE)} | set(PUSH_TYPES) <= named


def test_every_option_of_a_stream_is_listed() -> None:
    listed = {codes(row[0])[0] for row in rows(HTTP.section("PUT /streams/{stream}"))}
    assert listed == {"iri", *StreamOptions().as_json()}


def test_every_field_of_an_emission_is_listed() -> None:
    body = EmissionBody("q", 1, "RSTREAM", 1, [], 1, ["a"], [], [b""], None, 2, 1, sources={})
    asked = EmissionBody("q", 1, "RSTREAM", 1, [], 1, [], [], [], True, 0, None)
    made = EmissionBody("q", 1, "RSTREAM", 1, [], 1, ["s", "p", "o"], [], [b"", b"", b""], None, 0, None, True, True)
    section = HTTP.section("GET /queries/{query}/results")
    listed = fields_of(section[section.index("An emission:") :])
    assert set().union(*(json.loads(to_json(one)) for one in (body, asked, made))) == listed


def fields_of(section: str) -> set[str]:
    return {name for row in rows(section) for name in codes(row[0])}


def test_every_error_is_listed_with_its_status() -> None:
    listed = {name: int(row[0]) for row in rows(ERRORS.text) for name in codes(row[1])}
    observed = {dashed(kind): status_of(kind.__new__(kind)) for kind in kinds()}
    assert listed == observed | {"internal": 500}


def kinds() -> set[type[Exception]]:
    """All errors that a client can be told; a text's error, and what a query worker told, is always one of them."""
    modules = (of_engine, of_store, of_endpoint)
    found: set[type[Exception]] = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, of_engine.RilletError | of_store.StoreError)
    }
    return found - {of_engine.TextError, of_endpoint.WorkerProblem}


def dashed(kind: type[Exception]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def test_the_limits_of_http_are_those_of_the_code() -> None:
    limits = HttpLimits()
    listed = {row[0]: row[1] for row in rows(LIMITS.section("HTTP"))}
    assert listed["body as sent, and one push"] == f"{limits.body_bytes >> 20} MiB"
    assert listed["body unpacked"] == f"{limits.inflated_bytes >> 20} MiB"
    assert listed["text of a query or update"].startswith(f"{limits.text_bytes:,} ")
    assert listed["time of a query (`--query-timeout`)"] == f"{limits.query_s:g} s"
    assert listed["memory of a query (`--query-bytes`)"] == f"{limits.query_bytes >> 30} GiB"
    assert listed["a term that an expression makes (`--term-bytes`)"] == f"{limits.term_bytes >> 20} MiB"
    assert listed["rows of an answer"] == f"{limits.rows:,}"
    assert listed["queries answered at once"] == f"{limits.readers}, and {limits.waiting:,} waiting"
    assert listed["pushes, updates and registrations under way"] == f"{limits.writers}, and {limits.waiting:,} waiting"


# ---- settings and commands


def commands() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser()
    (action,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """What a user may write, but for help, which all have."""
    return [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]


def test_the_settings_of_the_server_are_listed_with_their_variables_and_defaults(monkeypatch: MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RILLET_")]:
        monkeypatch.delenv(name)
    listed = [(code(row[0]), code(row[1]), code(row[2])) for row in rows(SETTINGS.section("Of the server"))]
    assert listed == [setting(action) for action in shown(commands()["serve"])]


def setting(action: argparse.Action) -> tuple[str, str, str]:
    flag = action.option_strings[0]
    return flag, "RILLET_" + flag.lstrip("-").replace("-", "_").upper(), str(action.default or "")


def code(cell: str) -> str:
    return (codes(cell) or [""])[0]


def test_the_flags_that_are_refused_by_name_are_named() -> None:
    hidden = {
        flag for each in commands()["serve"]._actions if each.help == argparse.SUPPRESS for flag in each.option_strings
    }
    assert hidden <= set(codes(SETTINGS.text))


def test_every_command_has_a_section_and_every_flag_of_it_is_there() -> None:
    found = commands()
    assert COMMANDS.headings()[1:] == [f"rillet {name}" for name in found]
    before = COMMANDS.text.partition("\n## ")[0]
    assert "| `--config` |" in before  # of nearly all commands, so it is described once
    for name, parser in found.items():
        named = {"--config", *codes(COMMANDS.section(f"rillet {name}"))}
        for action in shown(parser):
            wanted = set(action.option_strings) or {action.dest}
            assert wanted <= named, f"rillet {name}: {wanted - named}"


def test_every_field_of_a_status_is_listed_and_no_other(tmp_path: Path) -> None:
    text = (
        "REGISTER QUERY q AS ASK FROM NAMED WINDOW <http://ex/w> ON s [RANGE 1s] { WINDOW <http://ex/w> { ?s ?p ?o } }"
    )
    with live(tmp_path / "served") as server:
        server.register(text).raise_for_status()
        for heading, path in (("GET /$/stats", "/$/stats?costs=true"), ("GET /queries/{query}", "/queries/q")):
            assert set(server.http.get(path).json()) == fields_of(HTTP.section(heading)), heading
        options = {"stream", "iri", *StreamOptions().as_json()} - {"time"}  # the stream's time, here
        assert set(server.http.get("/streams/s").json()) - options == fields_of(HTTP.section("GET /streams/{stream}"))
    with Service.open(f"lmdb:{tmp_path}", base="http://ex/", clock=SystemClock(), engine="inline") as service:
        assert set(service.explain(text)) <= set(codes(HTTP.section("POST /queries")))
