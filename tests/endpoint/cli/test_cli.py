"""The command line: what it prints, how it ends, and that it never shows a traceback to a person."""

from __future__ import annotations

import argparse
import errno
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

from endpoint.cli import server_commands, terminal
from endpoint.cli.command_line import build_parser, main
from endpoint.cli.completion import script
from endpoint.cli.flags import UsageError, actions_of
from endpoint.client import Client
from endpoint.serve import ServeSettings
from stream_ext.service import next_close
from tests.benchmarks import BENCHES
from tests.endpoint.live import NEAR, Live, live
from tests.parts.processes import started
from tests.parts.waiting import PATIENCE_S

TURTLE = "@prefix ex: <http://ex/> . ex:z1 ex:partOf ex:c1 . ex:a ex:knows [ ex:name 'é' ] ."
INSERT = "INSERT DATA { <http://ex/a> <http://ex/p> 1 }"
ALL = "SELECT ?s ?o { ?s <http://ex/partOf> ?o }"


@pytest.fixture
def near(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "served") as running:
        running.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        running.register().raise_for_status()
        yield running


def rillet(*argv: object) -> int:
    """The exit code; argparse ends the process, so to say."""
    try:
        return main([str(each) for each in argv])
    except SystemExit as ended:
        return int(ended.code or 0)


# ---- without a server


def test_files_become_snapshots_and_can_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)
    lines = "".join(f"_:x <http://ex/n> <http://ex/{n}> .\n" for n in range(1000))
    (tmp_path / "b.nt.gz").write_bytes(gzip.compress(lines.encode()))
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.ttl", tmp_path / "b.nt.gz", "--store", store) == 0
    assert re.findall(r"([\d,]+) triples .* snapshot (\d)", capsys.readouterr().out) == [("3", "1"), ("1,000", "2")]
    assert rillet("query", ALL, "--store", store) == 0
    assert capsys.readouterr().out == "?s\t?o\n<http://ex/z1>\t<http://ex/c1>\n"
    assert rillet("query", "SELECT ?s { ?s <http://ex/n> <http://ex/7> }", "--store", store, "--format", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["results"]["bindings"]) == 1
    assert rillet("query", "ASK { ?s <http://ex/n> ?o }", "--store", store, "--snapshot", 1, "--format", "table") == 0
    assert capsys.readouterr().out == "no\n"
    for form in ("turtle", "nt", "table"):
        graph = "CONSTRUCT { <http://ex/s> <http://ex/made> ?o } { ?s <http://ex/n> ?o }"
        assert rillet("query", graph, "--store", store, "--format", form) == 0
        assert "<http://ex/made>" in capsys.readouterr().out


def test_a_graph_is_named_for_what_has_none_and_standard_input_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quads = b"<http://ex/a> <http://ex/p> 'o' <http://ex/own> .\n<http://ex/b> <http://ex/p> 'o' .\n".replace(
        b"'", b'"'
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(quads)))
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", "-", "--format", "nq", "--graph", "http://ex/g", "--store", store) == 0
    capsys.readouterr()
    assert rillet("query", "SELECT ?g ?s { GRAPH ?g { ?s ?p ?o } }", "--store", store) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert set(rows) == {"<http://ex/own>\t<http://ex/a>", "<http://ex/g>\t<http://ex/b>"}


def test_a_file_with_a_fault_adds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = "<http://ex/a> <http://ex/p> <http://ex/b> .\n"
    (tmp_path / "bad.nt").write_text(good * 3 + "<http://ex/a> oops .\n")
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "bad.nt", "--store", store) == 1
    assert re.search(rf"^rillet: {tmp_path}/bad\.nt:4:15: \w", capsys.readouterr().err)
    assert rillet("query", "ASK { ?s ?p ?o }", "--store", store) == 0
    assert capsys.readouterr().out.split() == ["?_askResult", "false"]


def test_a_file_that_was_loaded_is_not_loaded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)
    command = ("load", tmp_path / "a.ttl", "--store", f"lmdb:{tmp_path / 'store'}")
    for expected in ("3 triples in .* snapshot 1", "3 triples were loaded before, snapshot 1"):
        assert rillet(*command) == 0
        assert re.search(expected, capsys.readouterr().out)
    (tmp_path / "a.ttl").write_text(TURTLE + "# changed\n")
    assert rillet(*command) == 0
    assert "snapshot 2" in capsys.readouterr().out


def test_a_second_writer_learns_who_the_first_one_is(near: Live, tmp_path: Path) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)

    def beside(*command: object) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "endpoint", *map(str, command), "--store", near.service.store.url]
        return subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)

    other = beside("load", tmp_path / "a.ttl")
    assert (other.returncode, "that process is not a server" in other.stderr) == (1, True)
    assert f"process {os.getpid()} is the writer" in other.stderr
    assert f"; process {os.getpid()} writes to it\n" in beside("doctor").stdout
    near.service.store.take_lease(near.url)  # as rillet serve does
    assert f"writes to it (the server at {near.url})\n" in beside("doctor").stdout
    other = beside("load", tmp_path / "a.ttl")
    assert (other.returncode, f"loading through {near.url}" in other.stderr) == (0, True)
    assert re.search(rf"3 triples in .* of {near.service.store.url}$", other.stdout, re.MULTILINE)
    assert "<http://ex/c1>" in beside("query", ALL).stdout  # reading beside it is fine
    other = beside("query", INSERT)
    assert (other.returncode, other.stdout) == (0, "done\n")
    assert f"a server has {near.service.store.url} open: sending the text to {near.url}\n" in other.stderr
    assert near.service.query("ASK { <http://ex/a> <http://ex/p> 1 }").boolean
    near.service.store.take_lease("")
    other = beside("query", INSERT)
    assert (other.returncode, f"process {os.getpid()} is the writer" in other.stderr) == (1, True)


def test_a_store_is_updated_without_a_server_where_none_holds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("query", INSERT, "--store", store) == 0
    assert rillet("query", "SELECT * { ?s ?p ?o }", "--store", store) == 0
    assert '<http://ex/a>\t<http://ex/p>\t"1"' in capsys.readouterr().out
    assert rillet("query", NEAR, "--store", store) == 2
    assert "streams and registered queries need a server: start one" in capsys.readouterr().err


def test_a_query_with_windows_that_is_asked_once_learns_of_both_ways(
    near: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    once = NEAR.replace("REGISTER RSTREAM near AS", "")
    assert rillet("query", once, "--server", near.url) == 1
    answered = capsys.readouterr().err
    assert "`rillet register`" in answered
    assert "--at" in answered
    created_at = int(near.http.get("/queries/near").json()["registered"])
    assert rillet("query", once, "--at", 5, "--snapshot", created_at - 1, "--server", near.url) == 1
    assert f"at snapshot {created_at - 1} there was no stream 'taxis' yet" in capsys.readouterr().err
    assert rillet("query", once.replace("STREAM taxis", "STREAM nowhere"), "--at", 5, "--server", near.url) == 1
    assert "there is no stream 'nowhere'" in capsys.readouterr().err


def test_a_variable_without_a_value_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.nt").write_text("<http://ex/a> <http://ex/p> <http://ex/b> .\n")
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "one.nt", "--store", store) == 0
    assert rillet("query", "SELECT ?nothere { ?s ?p ?o }", "--store", store, "--format", "tsv") == 0
    answered = capsys.readouterr()
    assert answered.err.endswith("warning: ?nothere is never bound in this text, so it never has a value\n")
    assert "warning" not in answered.out


def test_a_table_is_made_for_eyes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ttl").write_text(
        "@prefix : <http://ex/> . :one :age 7 . :two :age 1000 ; :likes 'rain' . <http://ex/b/c> :age 12 ."
    )
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.ttl", "--store", store) == 0
    capsys.readouterr()
    query = "PREFIX : <http://ex/> SELECT ?who ?age { ?who :age ?age }"
    (tmp_path / "ages.rq").write_text(query)
    assert rillet("query", tmp_path / "ages.rq", "--store", store, "--format", "table") == 0
    head, rule, *rows = capsys.readouterr().out.splitlines()
    assert head == "who               age"
    assert rule == "───────────────  ────"
    assert sorted(rows) == [":one                7", ":two             1000", "<http://ex/b/c>    12"]


def test_a_column_gives_room_that_it_does_not_need_to_wider_ones() -> None:
    assert terminal.table(["a", "b"], [["x", "0123456789" * 9]], 40)[2] == "x  " + ("0123456789" * 9)[:36] + "…"
    assert max(map(len, terminal.table(["a", "b", "c"], [["x" * 50] * 3], 40))) == 40


def test_a_format_that_the_answer_cannot_have_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("query", "ASK {}", "--format", "turtle") == 2
    assert "--format turtle does not fit this answer; its formats are table, json, xml, csv, tsv, ndjson" in (
        capsys.readouterr().err
    )
    assert rillet("query", "CONSTRUCT WHERE { ?s ?p ?o }", "--format", "csv") == 2
    assert "its formats are table, turtle, nt, xml, json" in capsys.readouterr().err


def test_a_plan_is_reported_with_what_was_expected_and_what_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.ttl").write_text(
        "@prefix : <http://ex/> . :one :age 7 ; :likes :two . :two :age 10 . :three :age 11 ."
    )
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.ttl", "--store", store) == 0
    query = "PREFIX : <http://ex/> SELECT ?x ?y { ?x :age ?n OPTIONAL { ?x :likes ?y } FILTER(?n < 11) }"
    capsys.readouterr()
    assert rillet("explain", query, "--store", store, "--analyze") == 0
    head, _, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["operator", "estimated", "rows", "ms"]
    made = {cells[0]: cells[1:] for line in lines for cells in [re.split(r"\s{2,}", line.lstrip("├└│─ "))]}
    assert made["?x :age ?n"][:2] == ["3", "3"]
    assert made["?x :likes ?y"][1] == "1"
    assert any(line.startswith(("├─ ", "└─ ")) for line in lines)
    assert rillet("explain", query, "--store", store) == 0
    assert capsys.readouterr().out.splitlines()[0].split() == ["operator", "estimated"]
    assert rillet("explain", query, "--analyze") == 2
    assert "name it with --store URL" in capsys.readouterr().err
    assert rillet("explain", query, "--store", store, "--snapshot", 9) == 1
    assert "there is no snapshot 9; the latest is 1" in capsys.readouterr().err


def test_a_graph_is_an_answer_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ttl").write_text("@prefix : <http://ex/> . :one :age 7 .")
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.ttl", "--store", store) == 0
    query = "PREFIX : <http://ex/> CONSTRUCT { ?x a :Aged } WHERE { ?x :age ?n }"
    for format, says in {
        "nt": "<http://ex/one> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://ex/Aged> .\n",
        "turtle": "<http://ex/one> a <http://ex/Aged>",
        "table": ":one     <http://www.w3.org/1999/02/22-rdf-syntax-ns#type>  :Aged\n",
        "json": '"@id": "http://ex/one"',
    }.items():
        capsys.readouterr()
        assert rillet("query", query, "--store", store, "--format", format) == 0
        assert says in capsys.readouterr().out


# ---- with a server


def test_a_query_is_registered_pushed_to_and_watched(
    near: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ("--server", near.url)
    (tmp_path / "far.rq").write_text(NEAR.replace("near", "far"))
    assert rillet("register", "-f", tmp_path / "far.rq", *server) == 0
    assert capsys.readouterr().out.startswith("far is registered")
    (tmp_path / "t.nt").write_text("<http://ex/t1> <http://ex/in> <http://ex/z1> .")
    assert rillet("push", "taxis", tmp_path / "t.nt", "--timestamp", 1000, "--wait", "evaluated", *server) == 0
    assert rillet("push", "taxis", "--timestamp", 1200, "--wait", "evaluated", *server, tmp_path / "t.nt") == 0
    assert capsys.readouterr().out.startswith("1 element accepted, snapshot ")
    assert rillet("watch", "far", "--since", 0, "--limit", 2, *server) == 0
    row = "<http://ex/t1>\t<http://ex/z1>\t<http://ex/c1>"
    assert capsys.readouterr().out.splitlines() == [f"1\t1100\t{row}", f"2\t1200\t{row}"]
    assert rillet("watch", "far", "--limit", 1, "--json", *server) == 0
    assert json.loads(capsys.readouterr().out)["emission"] == 2
    assert rillet("status", *server) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^far +running +inline +2 +0 +0$", printed, re.MULTILINE)
    assert re.search(r"^near +running ", printed, re.MULTILINE)
    assert rillet("status", "far", *server) == 0
    assert not re.search(r"^near +running ", capsys.readouterr().out, re.MULTILINE)
    assert rillet("status", "fra", *server) == 1
    assert "did you mean 'far'?" in capsys.readouterr().err


def test_the_status_says_why_a_query_is_silent_when_its_stream_stands_still(
    near: Live, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_close, "_STALLED_MS", 0)
    near.push(1000).raise_for_status()
    capsys.readouterr()
    assert rillet("status", "--server", near.url) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^near +running +inline +0 +0 +0 +taxis$", printed, re.MULTILINE)
    awaited = "near waits for stream taxis: its time is 1000, and the next close is at 1100; the last element came"
    assert awaited in printed


def test_the_status_says_of_each_shard_where_it_runs() -> None:
    shard = {"shard": 1, "runner": "spark", "why": "", "host": "h", "pid": 7, "lag": 2, "builds": 3, "core_share": 0.25}
    assert server_commands._of_shard(shard) == (
        "shard 1 runs on spark: process 7 of h, 25% of a core, 2 snapshots behind, built 3 times"
    )
    lost = shard | {"runner": "inline", "why": "it died", "host": None, "pid": None}
    assert server_commands._of_shard(lost).startswith("shard 1 runs on inline (it died): no process, ")


def test_what_a_construct_says_is_watched_as_its_triples(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    alarms = NEAR.replace("near", "alarms").replace("SELECT ?taxi ?zone ?city", "CONSTRUCT { ?taxi a ex:Near }")
    assert rillet("register", alarms, *server) == 0
    near.push(1_700_000_000_000).raise_for_status()
    near.push(1_700_000_001_000).raise_for_status()
    capsys.readouterr()
    assert rillet("watch", "alarms", "--since", 0, "--limit", 1, *server) == 0
    type_iri = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    assert capsys.readouterr().out == f"1\t1700000000100\t<http://ex/t1>\t{type_iri}\t<http://ex/Near>\n"
    with pytest.MonkeyPatch.context() as here:
        here.setattr(terminal, "is_live", lambda _: True)
        here.setenv("NO_COLOR", "")
        assert rillet("watch", "alarms", "--since", 0, "--limit", 1, *server) == 0
    drawn = capsys.readouterr().out.splitlines()
    assert drawn[0] == "alarms: no result yet"
    assert drawn[1].endswith("alarms  RSTREAM  emission 1  time 2023-11-14T22:13:20.1Z")
    assert drawn[-1].split() == ["ex:t1", type_iri, "ex:Near"]


def test_a_file_is_loaded_into_the_store_of_a_server(
    near: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ttl").write_text(TURTLE)
    assert rillet("load", "a.ttl", "--server", near.url) == 0
    assert re.fullmatch(rf"a\.ttl: 3 triples in .* of {near.url}\n", capsys.readouterr().out)
    assert near.service.query("ASK { <http://ex/a> <http://ex/knows> ?someone }").boolean
    assert not (tmp_path / "rillet-data").exists()
    assert rillet("load", "a.ttl", "--server", "127.0.0.1:1") == 1
    assert "http://127.0.0.1:1 does not answer" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["endpoint", "endpoint.cli.command_line"])
def test_the_command_is_run_by_the_name_of_its_module_too(module: str) -> None:
    answered = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True)
    assert answered.stdout.startswith("rillet 0.")


def test_a_query_is_paused_resumed_and_dropped(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    assert rillet("move", "near", "inline", *server) == 0
    assert capsys.readouterr().out == "near runs inline: the query was moved there\n"
    for command, says in (("pause", "near is paused"), ("resume", "near is running"), ("drop", "near was dropped")):
        assert rillet(command, "near", *server) == 0
        assert capsys.readouterr().out == f"{says}\n"
    assert rillet("resume", "near", *server) == 1
    assert "there is no registered query 'near'" in capsys.readouterr().err
    assert rillet("query", "DROP STREAM taxis", *server) == 1, "it has gone with the query that made it"
    assert "there is no stream 'taxis'" in capsys.readouterr().err


def test_a_watcher_learns_why_there_is_nothing_yet(near: Live) -> None:
    near.push(1_700_000_000_000).raise_for_status()
    for name, stream in (("after", "taxis"), ("waiting", "silent")):
        text = NEAR.replace("near", name).replace("STREAM taxis", f"STREAM {stream}")
        near.register(text).raise_for_status()
    with Client(near.url) as client:
        answered = {
            name: server_commands._why_nothing(client, client.query_status(name)) for name in ("after", "waiting")
        }
    assert (
        answered["after"] == "; its streams have reached 2023-11-14T22:13:20Z, and its first evaluation is after that"
    )
    assert answered["waiting"] == "; it waits for silent"


def test_time_passes_by_a_heartbeat_and_what_is_late_is_shown(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    near.service.push("taxis", b"<http://ex/t> <http://ex/in> <http://ex/z1> .", "text/turtle", timestamp=1000)
    assert rillet("heartbeat", "taxis", "20000", *server) == 0
    assert capsys.readouterr().out.startswith("the time of taxis is now 20000: snapshot ")
    assert near.service.stream_status("taxis")["time"] == 20000
    assert rillet("heartbeat", "taxis", "1970-01-01T00:00:05Z", *server) == 0
    assert capsys.readouterr().out == "taxis had already reached 20000: nothing changed\n"
    near.service.push("taxis", b"<http://ex/late> <http://ex/in> <http://ex/z1> .", "text/turtle", timestamp=1500)
    assert rillet("late", "taxis", *server) == 0
    first, *table = capsys.readouterr().out.splitlines()
    assert first == "taxis: 1 late, 1 shown"
    assert table[-1].split()[0] == "1500"
    assert "near" in table[-1]
    assert "<http://ex/late>" in table[-1]
    assert rillet("late", "taxis", "--json", *server) == 0
    assert json.loads(capsys.readouterr().out)["late"] == 1
    assert rillet("heartbeat", "taxis", "soon", *server) == 1
    assert "soon" in capsys.readouterr().err


def test_explain_before_a_text_prints_the_explanation_or_its_json(
    near: Live, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rillet("query", f"EXPLAIN {NEAR}", "--server", near.url) == 0
    shown = capsys.readouterr().out
    assert rillet("explain", NEAR, "--base", f"{near.url}/") == 0
    assert shown == capsys.readouterr().out
    assert "  dialect    RSP-QL\n" in shown
    assert rillet("query", f"# why\nEXPLAIN {NEAR}", "--json", "--server", near.url) == 0
    assert json.loads(capsys.readouterr().out)["dialect"] == "RSP-QL"


def test_an_explanation_shows_the_operators_of_the_server(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("query", "SELECT * { ?s <http://ex/p> ?o }", "--explain", "--server", near.url) == 0
    plan, operators, division = capsys.readouterr().out.split("\n\n")
    assert plan.startswith("query\n") and "match" in plan
    assert operators.split()[:2] == ["operator", "estimated"] and "<http://ex/p>" in operators
    assert division.startswith("--engine spark: not divided: ")
    assert rillet("query", ALL, "--json", "--server", near.url) == 2
    assert "--format json" in capsys.readouterr().err


def test_a_stream_is_created_with_options(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    create = ("stream", "create", "readings", "--lateness", "5s", "--timeless", "http://ex/in", "--server", near.url)
    assert rillet(*create) == 0
    assert "rillet push readings FILE" in capsys.readouterr().out
    options = near.service.stream("readings").options
    assert (options.lateness_ms, options.timeless) == (5000, ["http://ex/in"])
    assert rillet(*create) == 0, "the same again changes nothing"
    assert rillet("stream", "create", "readings", "--server", near.url) == 1
    assert "already exists with other options" in capsys.readouterr().err
    assert rillet("stream", "create", "all", "--timeless", "all", "--server", near.url) == 0
    assert near.service.stream("all").options.timeless is True
    assert rillet("stream", "create", "late", "--lateness", "soon", "--server", near.url) == 1
    assert "'soon' is not a duration" in capsys.readouterr().err


def test_a_stream_is_dropped_but_not_while_a_query_reads_it(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    assert rillet("query", "CREATE STREAM old", *server) == 0
    assert rillet("stream", "drop", "old", *server) == 0
    assert capsys.readouterr().out.endswith("old was dropped\n")
    assert rillet("stream", "drop", "old", *server) == 1
    assert "there is no stream 'old'" in capsys.readouterr().err
    assert rillet("stream", "drop", "taxis", *server) == 1
    assert "near" in capsys.readouterr().err
    assert rillet("stream", *server) == 2
    assert rillet("source", "list", *server) == 0
    assert "rillet serve --attach URL" in capsys.readouterr().out


def test_streams_are_listed_with_times_that_people_read(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    assert rillet("query", "CREATE STREAM old WITH (lateness = 2000, timeless = true)", *server) == 0
    for stream, time in (("taxis", "2026-06-01T12:00:00Z"), ("old", "5")):
        element = io.TextIOWrapper(io.BytesIO(b"<http://ex/t1> <http://ex/in> <http://ex/z1> ."))
        with pytest.MonkeyPatch.context() as here:
            here.setattr(sys, "stdin", element)
            assert rillet("push", stream, "--format", "nt", "--timestamp", time, *server) == 0
    capsys.readouterr()
    assert rillet("streams", *server) == 0
    observed = {line.split()[0]: line.split()[1:-1] for line in capsys.readouterr().out.splitlines()}
    assert observed["taxis"] == ["elements", "2026-06-01T12:00:00Z", "0", "0", "ms", "nothing"]
    assert observed["old"] == ["elements", "-1995", "(1969-12-31T23:59:58Z)", "0", "2000", "ms", "all"]


def test_a_stream_that_a_query_made_is_listed_with_its_query(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    near.register(NEAR.replace("STREAM near", "STREAM far").replace("taxis", "txis")).raise_for_status()
    assert rillet("streams", "--server", near.url) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", head)[1:] == ["times from", "time", "late", "lateness", "timeless", "created by", "iri"]
    made = {row.split()[0]: re.findall("query [a-z]+", row) for row in rows}
    assert made == {"taxis": ["query near"], "txis": ["query far"]}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["register", ""], "the text is empty"),
        (["query", " \n"], "the text is empty"),
        (["register", "near.rq"], "near.rq: this file does not exist"),
    ],
)
def test_a_text_that_is_none_is_reported_so(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet(*argv) == 2
    assert says in capsys.readouterr().err


def test_a_watcher_learns_of_the_connection_and_leaves_the_terminal_in_order(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with live(tmp_path / "served") as first:
            first.register().raise_for_status()
            first.push(1000)
            first.push(1150)
            port = int(first.url.rpartition(":")[2])
            argv = ["watch", "near", "--since", "0", "--server", first.url]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
            watching = stack.enter_context(started([sys.executable, "-m", "endpoint", *argv], **pipes))
            assert watching.stdout is not None and watching.stderr is not None
            assert watching.stdout.readline().startswith("1\t1100")
        assert watching.stderr.readline().startswith("rillet: the connection was lost (")
        with live(tmp_path / "served", port=port):
            assert watching.stderr.readline() == "rillet: the connection is restored\n"
            watching.send_signal(signal.SIGINT)
            assert watching.wait(PATIENCE_S) == 130
            assert watching.stderr.read() == "\n"


def test_people_see_the_first_digits_of_a_mean_and_programs_all(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    mean = "SELECT (AVG(?x) AS ?mean) (1.25 AS ?exact) { VALUES ?x { 1 2 2 } }"
    assert rillet("query", mean, "--format", "table", *server) == 0
    assert capsys.readouterr().out.splitlines()[2].split() == ["1.666666…", "1.25"]
    assert (
        terminal.shown(
            {"type": "literal", "value": "0.00000012", "datatype": "http://www.w3.org/2001/XMLSchema#decimal"}
        )
        == "0.00000012"
    )
    assert rillet("query", mean, "--format", "csv", *server) == 0
    assert capsys.readouterr().out.splitlines()[1] == "1." + 48 * "6" + "7,1.25"


def test_a_token_that_is_missing_is_asked_for_as_a_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)
    with live(tmp_path / "guarded", token="s3cret") as guarded:
        for argv in (["query", INSERT], ["load", str(tmp_path / "a.ttl")]):
            assert rillet(*argv, "--server", guarded.url) == 1
            assert capsys.readouterr().err.rstrip().endswith("; give it with --token TOKEN or RILLET_TOKEN")


def test_a_table_counts_its_rows(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"s": {"type": "literal", "value": "x"}}
    emission = {"query": "q", "r2s": "RSTREAM", "emission": 1, "time": 5, "head": {"vars": ["s"]}}
    for rows, says in ((0, "0 rows"), (1, "1 row"), (2, "2 rows")):
        server_commands._draw({**emission, "results": {"bindings": [row] * rows}}, {})
        assert capsys.readouterr().out.splitlines()[1] == says


def test_a_server_is_asked_in_every_format_and_updated(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    server = ("--server", near.url)
    assert rillet("query", "INSERT DATA { <http://ex/z2> <http://ex/partOf> 'ünten, \"x\"' }", *server) == 0
    assert capsys.readouterr().out == "done\n"
    for format, says in {
        "tsv": '<http://ex/z2>\t"ünten, \\"x\\""',
        "csv": 'http://ex/z2,"ünten, ""x"""',
        "xml": '<literal>ünten, "x"</literal>',
        "json": '"value": "ünten, \\"x\\""',
        "ndjson": '{"s":{"type":"uri","value":"http://ex/z2"},"o":',
        "table": '<http://ex/z2>  "ünten, "x""\n',
    }.items():
        assert rillet("query", ALL, "--format", format, *server) == 0
        assert says in capsys.readouterr().out
    assert rillet("query", NEAR, "--explain", "--json", *server) == 0
    assert json.loads(capsys.readouterr().out)["windows"][0]["range_ms"] == 1000


def test_serve_says_where_it_is_and_stops_on_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endpoint", "serve", "--engine", "inline", "--port", "0"]
    command += ["--log-level", "warning", "--store"]  # as on a terminal
    with started(
        [*command, f"lmdb:{tmp_path / 'store'}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None and server.stderr is not None
        first = server.stdout.readline()
        assert "is ready" in first
        url = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert url is not None
        assert rillet("query", "ASK { ?s ?p ?o }", "--server", url[0]) == 0
        again = [*command, f"lmdb:{tmp_path / 'store'}"]
        with started(again, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert "is ready" in second.stdout.readline()
            assert second.stdout.readline() == f"  writer   {url[0]}/; this server reads\n"
            second.send_signal(signal.SIGTERM)
            assert second.wait(PATIENCE_S) == 0
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE_S) == 0
        assert server.stdout.read().splitlines()[-1] == "stopped"
        assert server.stderr.read() == ""


# ---- mistakes


@pytest.mark.parametrize(
    ("code", "says", "argv"),
    [
        (2, "invalid choice: 'frob'", ["frob"]),
        (2, "did you mean serve?", ["serv"]),
        (2, "did you mean --store?", ["serve", "--stor", "lmdb:x"]),
        (2, "before the command: --store: --store must follow the command", ["--store", "lmdb:x", "serve"]),
        (
            2,
            "unknown option before the command: --spark-mastr: --spark-master must follow the command",
            ["--spark-mastr=local[1]", "serve"],
        ),
        (2, "unknown option before the command: --xyzzy\n", ["--xyzzy", "serve"]),
        (2, "(try: rillet push --help)", ["push", "s", "--timestmp", "5"]),
        (2, "(try: rillet serve --help)", ["serve", "now"]),
        (2, "an absolute IRI that begins with http://, https:// or urn:", ["serve", "--base", "foo"]),
        (2, "an absolute IRI", ["load", "a.nt", "--base", "http:x"]),
        (2, "'foo' is not an absolute IRI", ["load", "a.nt", "--graph", "foo"]),
        (2, "local[N]", ["serve", "--spark-master", "foo"]),
        (2, "local[N]", ["serve", "--spark-master", "foo", "--engine", "inline"]),
        (2, "give the address without a path: http://h:80", ["status", "--server", "http://h:80/sparql"]),
        (2, "is not the address of a server", ["status", "--server", "ftp://h"]),
        (1, "no server answers at http://127.0.0.1:1;", ["status", "--server", "127.0.0.1:1"]),
        (2, "auto is not supported yet", ["serve", "--engine", "auto"]),
        (2, "spark or inline", ["serve", "--engine", "flink"]),
        (2, "is not a duration", ["serve", "--max-lag", "soon"]),
        (2, "is not a whole number", ["serve", "--port", "http"]),
        (2, "is not a duration", ["serve", "--spark-epoch", "soon"]),
        (2, "process or power", ["serve", "--durability", "hope"]),
        (1, "--token", ["serve", "--host", "0.0.0.0"]),
        (2, "rillet: nowhere.nt: this file does not exist\n", ["load", "nowhere.nt"]),
        (2, "rillet: nowhere.nt: this file does not exist\n", ["push", "s", "nowhere.nt"]),
        (2, "rillet: nowhere.rq: this file does not exist\n", ["query", "nowhere.rq"]),
        (2, "rillet: nowhere.rq: this file does not exist\n", ["explain", "nowhere.rq"]),
        (2, "rillet: nowhere.rq: this file does not exist\n", ["register", "-f", "nowhere.rq"]),
        (2, "unknown format", ["load", "-"]),
        (2, "give the text", ["query"]),
        (2, "unknown format", ["push", "s", "data.bin"]),
        (1, "no server answers", ["query", "ASK {}", "--server", "http://127.0.0.1:1"]),
        (2, "rillet: nowhere.rq: this file does not exist\n", ["query", "-f", "nowhere.rq"]),
        (1, "is not the address of a store", ["load", __file__, "--format", "nt", "--store", "postgres:x"]),
        (1, "did you mean lmdb:/tmp/x? Write", ["load", __file__, "--format", "nt", "--store", "/tmp/x"]),
        (2, "no benchmark", ["bench", "speed"]),
    ],
)
def test_a_mistake_is_one_clear_line(
    code: int, says: str, argv: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as here:
        here.chdir(tmp_path)
        assert rillet(*argv) == code
    answered = capsys.readouterr().err
    assert says in answered
    assert "Traceback" not in answered
    assert answered.startswith("rillet: ")
    assert not list(tmp_path.iterdir()), "nothing is made by a mistake"


@pytest.mark.parametrize(("status", "kind", "body"), [(404, "text/html", "<h1>No</h1>"), (200, "text/plain", "[]")])
def test_another_server_at_the_address_is_not_shown_as_it_answers(
    status: int, kind: str, body: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class Another(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Another) as another:
        thread = threading.Thread(target=another.serve_forever)
        thread.start()
        try:
            assert rillet("status", "--server", f"http://127.0.0.1:{another.server_port}") == 1
        finally:
            another.shutdown()
            thread.join()
    answered = capsys.readouterr().err
    assert f"answered {status} " in answered and "not as a Rillet server does; check the address" in answered


def test_help_shows_no_default_that_is_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("serve", "--help") == 0
    assert not re.search(r"default\s*\)", capsys.readouterr().out)


def test_how_far_queries_may_be_behind_is_a_setting_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[ServeSettings] = []
    monkeypatch.setattr("endpoint.serve.serve", lambda settings, announce: given.append(settings))
    assert rillet("serve", "--max-lag", "2.5s") == 0
    monkeypatch.setenv("RILLET_MAX_LAG", "1m")
    assert rillet("serve") == 0
    assert [settings.service_limits().lag_ms for settings in given] == [2_500, 60_000]


class _Recording(argparse.Namespace):
    """Arguments of a command; `names` are those that it has looked at."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        super().__init__(**vars(arguments))
        self.names: set[str] = set()

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name != "names":
            self.names.add(name)
        return super().__getattribute__(name)


def test_the_server_reads_each_of_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endpoint.serve.serve", lambda settings, announce: None)
    parser = build_parser()
    arguments = parser.parse_args(["serve"])
    arguments.settings_file = None
    recording = _Recording(arguments)
    arguments.run(recording)
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    flags = {action.dest for action in actions_of(commands.choices["serve"]) if action.help != argparse.SUPPRESS}
    assert flags - recording.names == {"help", "config"}


def test_a_setting_of_the_environment_is_checked_as_a_flag_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, says in (("ENGINE", "did you mean inline?"), ("BASE", "absolute IRI"), ("SPARK_MASTER", "local[N]")):
        with monkeypatch.context() as here:
            here.setenv("RILLET_" + name, "inlin")
            assert rillet("serve") == 2
        assert says in capsys.readouterr().err


def test_a_port_in_use_is_reported_at_once(near: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = near.url.rpartition(":")[2]
    with pytest.MonkeyPatch.context() as here:
        here.setenv("RILLET_PORT", port)
        here.setenv("RILLET_STORE", f"lmdb:{tmp_path / 'other'}")
        assert rillet("serve", "--engine", "inline") == 1
    assert f"cannot listen on 127.0.0.1:{port}" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_a_server_refuses_in_its_own_words(near: Live, capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("query", "SELECT ?s {\n ?s }", "--server", near.url) == 1
    answered = capsys.readouterr().err.splitlines()
    assert answered[0].startswith("rillet: line 2, column 5: ")
    assert answered[1:] == ["   ?s }", "      ^"]
    assert rillet("watch", "nowhere", "--server", near.url) == 1
    assert "no registered query" in capsys.readouterr().err


def test_the_traceback_is_there_for_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_DEBUG", "1")
    with pytest.raises(UsageError):
        rillet("query", "-f", "nowhere.rq")


# ---- the program itself


def test_help_needs_nothing_heavy() -> None:
    heavy = ["numpy", "numba", "rdflib", "fastapi", "uvicorn", "httpx", "pyspark", "lmdb", "pandas", "pyarrow", "flask"]
    code = f"""
import sys, endpoint.cli.command_line
endpoint.cli.command_line.build_parser()
print(*[module for module in {heavy} if module in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == ""


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("--help") == 0
    listed = re.findall(r"^    (\w+) ", capsys.readouterr().out, re.MULTILINE)
    assert {"serve", "load", "query", "push", "register", "watch", "status", "warm", "doctor", "bench"} <= set(listed)
    assert {"heartbeat", "completion"} <= set(listed), "long names share the line with what they are for"
    for command in listed:
        if command not in ("COMMAND",):
            assert rillet(command, "--help") == 0
            assert "examples:" in capsys.readouterr().out
    assert rillet("--version") == 0


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rillet"])
    assert main() == 2
    assert "examples:" in capsys.readouterr().err
    assert rillet("help") == 0
    assert "examples:" in capsys.readouterr().out
    assert rillet("help", "push") == 0
    assert "--timestamp" in capsys.readouterr().out
    assert rillet("help", "pus") == 2
    assert "did you mean push?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["load", ""], {"near.rq", "folder"}),
        (["query", "-f", "ne"], {"near.rq"}),
        (["query", "--format", ""], {"table", "json", "xml", "csv", "tsv", "ndjson", "turtle", "nt"}),
        (["push", "taxis", ""], {"near.rq", "folder"}),
        (["push", "taxis", "--format", "nd"], {"ndjson"}),
        (["serve", "--engine", ""], {"spark", "inline"}),
        (["serve", "--durability", ""], {"process", "power"}),
        (["serve", "--store", ""], {"lmdb:folder", "lmdb:", "hbase://"}),
        (["serve", "--store", "lmdb:fo"], {"folder"}),  # bash replaces what follows the colon
        (["serve", "--spark-ma"], {"--spark-master"}),
        (["bench", "--json", ""], {"near.rq", "folder"}),
        (["wat"], {"watch"}),
    ],
)
def test_a_shell_completes(typed: list[str], offered: set[str], completions: Path, tmp_path: Path) -> None:
    (tmp_path / "near.rq").touch()
    (tmp_path / "folder").mkdir()
    assert completed(" ".join(["rillet", *typed]), completions, tmp_path) == offered


def completed(line: str, completions: Path, folder: Path) -> set[str]:
    """What bash offers, which gives the function that it was told the line, as well as words divided at : and =."""
    words = " ".join(f"'{word}'" for word in re.split(r"([:=])| ", line) if word)
    asked = (
        f"source {completions}; cd {folder}; PATH={folder}:$PATH; COMP_LINE='{line}'; COMP_POINT={len(line)}; "
        f"COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        '$(complete -p rillet | sed "s/.*-F //; s/ .*//"); printf "%s\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def test_a_shell_completes_the_names_of_the_server(near: Live, completions: Path, tmp_path: Path) -> None:
    near.http.put("/streams/" + quote("http://ex/$(touch$IFS'here')", safe="")).raise_for_status()
    program = tmp_path / "rillet"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m endpoint.cli.command_line "$@"\n')
    program.chmod(0o700)
    for typed, offered in (("watch", {"near"}), ("push", {"taxis"})):
        assert completed(f"rillet {typed} --server {near.url} ", completions, tmp_path) == offered
        assert completed(f"rillet {typed} --server={near.url} ", completions, tmp_path) == offered
    assert not (tmp_path / "here").exists(), "an IRI was run"


@pytest.fixture(scope="module")
def completions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shell") / "rillet.bash"
    path.write_text(script(build_parser(), "bash"))
    return path


def test_completions_are_printed_for_every_shell(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "tcsh"):
        assert rillet("completion", shell) == 0
        assert "rillet" in capsys.readouterr().out


def test_the_doctor_says_what_is_wrong_and_what_to_do(
    near: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rillet("doctor", "--store", f"lmdb:{tmp_path / 'new'}", "--port", near.url.rpartition(":")[2])
    answered = capsys.readouterr().out
    assert "a Rillet server answers there" in answered
    assert "can be created" in answered
    assert rillet("doctor", "--store", "postgres:x", "--port", 0) == 1
    answered = capsys.readouterr().out
    assert re.search(r"BAD +store: 'postgres:x' is not the address of a store; write lmdb:PATH .*\n", answered)
    assert answered.count("NAMESPACE") == 1, "what to write is said once"
    with monkeypatch.context() as here:

        def full(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        here.setattr(tempfile, "TemporaryDirectory", full)  # who runs this may be allowed everything
        here.setattr(tempfile, "TemporaryFile", full)
        assert rillet("doctor", "--store", f"lmdb:{tmp_path / 'new'}", "--port", 0) == 1
    answered = capsys.readouterr().out
    assert "new does not exist yet, and cannot be created ([Errno 28] No space left on device)" in answered
    assert f"{tmp_path} must be writable and have free space" in answered
    assert "this user cannot write there: No space left on device" in answered
    assert list(tmp_path.glob(".rillet-doctor*")) == []


def test_the_doctor_starts_java_and_does_not_believe_a_file_next_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    (java.parent.parent / "release").write_text('JAVA_VERSION="21.0.1"\nMODULES="java.base jdk.incubator.vector"\n')
    java.write_text("#!/bin/sh\necho 'a library is missing' >&2; exit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    assert rillet("doctor", "--store", f"lmdb:{tmp_path / 'new'}", "--port", 0) == 1
    assert re.search(r"BAD +Java: .*which does not start: a library is missing", capsys.readouterr().out)


def test_the_doctor_names_no_writer_that_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ttl").write_text(TURTLE)
    store = f"lmdb:{tmp_path / 'store'}"
    assert rillet("load", tmp_path / "a.ttl", "--store", store) == 0
    (tmp_path / "store" / "writer.lock").write_text('{"address":"http://there:1/","pid":1}')  # as kill -9 leaves it
    rillet("doctor", "--store", store, "--port", 0)
    assert "is at snapshot 1, and no process writes to it" in capsys.readouterr().out


def test_benchmarks_are_listed_and_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert rillet("bench") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHES)
    for bench in BENCHES.values():
        assert callable(bench.load().run)
    assert build_parser().parse_args(["bench", "line", "--quick"]).quick


def test_a_text_is_explained_without_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    text = "SELECT * FROM NAMED WINDOW <w> ON s [RANGE 1s] { WINDOW <w> { ?s ?p ?o } }"
    assert rillet("explain", text, "--base", "http://ex/") == 0
    assert "dialect    RSP-QL" in capsys.readouterr().out
    assert rillet("explain", text, "--base", "http://ex/", "--json") == 0
    assert json.loads(capsys.readouterr().out)["windows"][0]["step_ms"] == 1000
    assert rillet("explain", "--sparql", text, "--base", "http://ex/") == 0
    assert capsys.readouterr().out.endswith("GRAPH <http://ex/w> {\n    ?s ?p ?o .\n  }\n}\n")
    assert rillet("explain", "SELECT ?x, ?y {}") == 1
    assert "separated by blanks" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "bytes_"), [("0", 0), ("1000", 1000), ("512M", 512 << 20), ("2 GiB", 2 << 30)])
def test_a_size_is_written_with_a_unit_or_in_bytes(text: str, bytes_: int) -> None:
    from endpoint.cli.flags import size

    assert size(text) == bytes_


def test_what_is_no_size_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--timing-bytes", "much"])
    assert (ended.value.code, "'much' is not a number of bytes: write 512M" in capsys.readouterr().err) == (2, True)


def test_the_benchmarks_are_reported_to_be_in_a_checkout_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tests.benchmarks", None)
    assert rillet("bench", "line") == 2
    assert "run this in a checkout" in capsys.readouterr().err


def test_a_flag_that_may_be_given_more_than_once_goes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CORS", "https://a.example https://b.example")
    parsed = build_parser().parse_args(["serve"])
    assert parsed.cors == ("https://a.example", "https://b.example")
    parsed = build_parser().parse_args(["serve", "--cors", "https://c.example", "--cors", "http://localhost:3000"])
    assert parsed.cors == ("https://c.example", "http://localhost:3000")
    assert build_parser().parse_args(["serve", "--allowed-host", "a", "--allowed-host", "[::2]"]).allowed_host == (
        "a",
        "::2",
    )
