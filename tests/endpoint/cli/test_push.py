"""`rillet push`: how files and pipes are cut into elements, and at what pace they go."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import zstandard

from endpoint.cli.command_line import main
from endpoint.files.replay import AsItWas, Cutter, Element, Pacer, PerSecond, at_once, blocks_of_lines, unpacked
from stream_ext.errors import BadData
from tests.endpoint.live import Live, live
from tests.parts.processes import started
from tests.parts.waiting import PATIENCE_S, until

AT = "http://ex/at"


def rillet(*argv: object) -> int:
    return main([str(each) for each in argv])


def cut(format: str, text: str, time_from: str = "data") -> list[dict[str, Any]]:
    cutter = Cutter(format, time_from)
    lines = text.encode().split(b"\n")
    return [json.loads(element.line) for element in (*cutter.feed(lines), *cutter.end())]


# ---- cutting


def test_consecutive_lines_of_one_time_are_an_element_of_tnt() -> None:
    text = "5\t<a:s> <a:p> 1 .\n5\t<a:t> <a:p> 2 .\n7\t<a:s> <a:p> 3 .\n5\t<a:s> <a:p> 4 .\n"
    assert cut("tnt", text) == [
        {"timestamp": 5, "data": "<a:s> <a:p> 1 .\n<a:t> <a:p> 2 ."},
        {"timestamp": 7, "data": "<a:s> <a:p> 3 ."},
        {"timestamp": 5, "data": "<a:s> <a:p> 4 ."},
    ]
    assert "timestamp" not in cut("tnt", text, "arrival")[0]


def test_consecutive_lines_of_one_subject_are_an_element_of_nt() -> None:
    text = '# a comment\n<a:s> <a:p> "1" .\n<a:s> <a:q> "x\\ty" .\n\n<a:t> <a:p> <a:o> .'
    assert cut("nt", text) == [
        {"data": '<a:s> <a:p> "1" .\n<a:s> <a:q> "x\\ty" .'},
        {"data": "<a:t> <a:p> <a:o> ."},
    ]


def test_consecutive_lines_of_one_graph_are_an_element_of_nq() -> None:
    text = "<a:s> <a:p> <a:o> <a:g> .\n<a:t> <a:p> <a:o> <a:g> .\n<a:s> <a:p> <a:o> .\n"
    assert cut("nq", text) == [
        {"graph": "a:g", "data": "<a:s> <a:p> <a:o> .\n<a:t> <a:p> <a:o> ."},
        {"data": "<a:s> <a:p> <a:o> ."},
    ]


@pytest.mark.parametrize("format", ["nt", "nq"])
def test_what_a_delimiter_ends_is_an_element_of_a_message_log(format: str) -> None:
    graph = " <a:g>" if format == "nq" else ""
    text = (
        f'VERSION "1.2-messages"\n\n# a comment\n<a:s> <a:p> "1" .\n_:x <a:p> _:x{graph} .\n'
        "MESSAGE # one\nMESSAGE\n<a:s> <a:p> <a:o> .\nMESSAGE\n"
    )
    assert cut(format, text) == [
        {"data": f'<a:s> <a:p> "1" .\n_:x <a:p> _:x{graph} .'},
        {"data": ""},
        {"data": "<a:s> <a:p> <a:o> ."},
    ]
    assert cut(format, text.removesuffix("MESSAGE\n")) == cut(format, text)
    stamped = f'VERSION "1.2-messages"\n<a:s> <{AT}> "5"{graph} .\n<a:t> <a:p> <a:o> .\nMESSAGE\n<a:s> <{AT}> "6" .\n'
    assert [each["timestamp"] for each in cut(format, stamped, AT)] == ["5", "6"]
    with pytest.raises(BadData, match=r"line 2.*before all statements"):
        cut(format, '<a:s> <a:p> <a:o> .\nVERSION "1.2-messages"')
    with pytest.raises(BadData, match=r"line 2, column 1.*begin the document with VERSION"):
        cut(format, "<a:s> <a:p> <a:o> .\nMESSAGE")


def test_times_may_come_from_a_predicate_in_any_format() -> None:
    stamp = '"1970-01-01T00:00:05Z"^^<http://www.w3.org/2001/XMLSchema#dateTime>'
    triple = f"<a:s> <{AT}> {stamp} ."
    assert [each["timestamp"] for each in cut("nt", triple, AT)] == ["1970-01-01T00:00:05Z"]
    line = json.dumps({"timestamp": 9, "data": triple})
    assert [each["timestamp"] for each in cut("ndjson", line, AT)] == ["1970-01-01T00:00:05Z"]


@pytest.mark.parametrize(
    ("format", "text", "time_from", "says"),
    [
        ("tnt", "5 <a:s> <a:p> <a:o> .", "data", "line 1.*TIME TAB triple"),
        ("nt", "<a:s> <a:p> <a:o> .\n<a:s> <a:p> .", "data", "line 2.*not a statement"),
        ("ndjson", '{"data": ""}\n{', "data", None),
        ("ndjson", '{"data": ""}\n{', "arrival", "line 2.*not JSON"),
        ("ndjson", "[]", "data", "JSON object"),
        ("nt", "<a:s> <a:p> <a:o> .", AT, "has no time: it has no <http://ex/at>"),
        ("nt", f'<a:s> <{AT}> "1" .\n<a:s> <{AT}> "2" .', AT, "2 times"),
    ],
)
def test_what_cannot_be_cut_is_reported_with_its_line(format: str, text: str, time_from: str, says: str | None) -> None:
    with pytest.raises(BadData, match=says or "this is not JSON"):
        cut(format, text, time_from)


# ---- reading


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress, bytes], ids=["gzip", "zstd", "plain"])
def test_a_packed_input_is_recognised_by_its_first_bytes(pack: Any, tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(pack(b"one\ntwo\nthree"))
    with open(tmp_path / "input", "rb") as file:
        assert [line for block in blocks_of_lines(unpacked(file)) for line in block] == [b"one", b"two", b"three"]


def test_what_a_pipe_has_given_is_there_before_more_comes() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        sink.write(b"first line\nsecond, not yet wh")
        blocks = blocks_of_lines(unpacked(source))
        assert next(blocks) == [b"first line"]
        sink.write(b"ole\n")
        assert next(blocks) == [b"second, not yet whole"]


# ---- pace


class Now:
    """A clock that moves by being slept on."""

    def __init__(self) -> None:
        self.s = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.s

    def sleep(self, s: float) -> None:
        self.slept.append(s)
        self.s += s


def paced(pace: Any, *times: int) -> list[tuple[float, int]]:
    """When each body is ready, and how many elements it has."""
    now = Now()
    pacer = Pacer(pace, now, now.sleep)
    elements = [Element(b"{}", time) for time in times]
    return [(round(now.s, 6), body.count(b"{}")) for body in pacer.bodies(elements)]


def test_at_once_all_elements_share_a_push() -> None:
    assert paced(at_once, *range(1000)) == [(0.0, 1000)]
    sizes = [count for _, count in paced(at_once, *range(50_000))]
    assert (sum(sizes), max(sizes)) == (50_000, 20_000)


def test_a_rate_sends_what_falls_due_in_the_same_moment_together() -> None:
    observed = paced(PerSecond(100), *range(50))
    assert observed[:3] == [(0.0, 5), (0.05, 5), (0.1, 5)]
    assert (sum(count for _, count in observed), observed[-1][0]) == (50, 0.45)


def test_a_factor_follows_the_times_of_the_elements() -> None:
    assert paced(AsItWas(60), 0, 0, 60_000, 180_000) == [(0.0, 2), (1.0, 1), (3.0, 1)]


# ---- through a server


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path / "served") as found:
        found.http.put("/streams/s").raise_for_status()
        yield found


def test_a_packed_file_of_times_and_triples_is_replayed(
    running: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"{time}\t<http://ex/s{time}> <http://ex/p> <http://ex/o> .\n" for time in range(1000, 1100, 10))
    (tmp_path / "day.tnt.gz").write_bytes(gzip.compress(lines.encode()))
    assert rillet("push", "s", tmp_path / "day.tnt.gz", "--rate", "1000", "--server", running.url) == 0
    assert capsys.readouterr().out.startswith("10 elements accepted, snapshot ")
    described = running.http.get("/streams/s").json()
    assert (described["time"], described["runs_by"], described["late"]) == (1090, "elements", 0)
    assert rillet("streams", "--server", running.url) == 0
    assert "1090" in capsys.readouterr().out
    assert rillet("streams", "--json", "--server", running.url) == 0
    assert json.loads(capsys.readouterr().out)[0]["stream"] == "s"


def test_a_pipe_is_pushed_as_it_comes(running: Live) -> None:
    window = "FROM NAMED WINDOW <urn:w> ON s [RANGE 1s] { WINDOW <urn:w> { ?s ?p ?o } }"
    running.register(f"REGISTER QUERY q AS SELECT ?s {window}").raise_for_status()
    argv = [sys.executable, "-m", "endpoint", "push", "s", "--format", "ndjson", "--server", running.url]
    with started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pushing:
        assert pushing.stdin is not None
        for time in (5, 1500):
            pushing.stdin.write(f'{{"timestamp": {time}, "data": "<a:s{time}> <a:p> <a:o> ."}}\n')
        pushing.stdin.flush()
        answer = running.http.get("/queries/q/results", params={"wait": "15s"})
        assert [row["s"]["value"] for row in answer.json()["results"]["bindings"]] == ["a:s5"]
        assert pushing.poll() is None, "it waits for more"
        observed, _ = pushing.communicate(timeout=PATIENCE_S)
    assert observed.startswith("2 elements accepted")


def test_every_format_of_the_wire_is_pushed_by_its_name(
    running: Live, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = {
        "nt": "<http://ex/a> <http://ex/p> 'x' .".replace("'", '"'),
        "nq": '<http://ex/a> <http://ex/p> "x" <http://ex/g> .\n<http://ex/a> <http://ex/p> "x" .',
        "ttl": "<http://ex/a> <http://ex/p> 'x' .",
        "trig": "<http://ex/g> { <http://ex/a> <http://ex/p> 'x' }",
        "jsonld": '{"@id": "http://ex/a", "http://ex/p": "x"}',
        "rdf": '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://ex/">'
        '<r:Description r:about="http://ex/a"><e:p>x</e:p></r:Description></r:RDF>',
        "ndjson": '{"data": {"@id": "http://ex/a", "http://ex/p": "x"}}\n{"data": "<a:s> <a:p> <a:o> ."}',
    }
    for format, body in bodies.items():
        (tmp_path / f"one.{format}").write_text(body)
        assert rillet("push", "s", tmp_path / f"one.{format}", "--timestamp", 7, "--server", running.url) == 0
        count = 2 if format in ("nq", "ndjson") else 1
        assert capsys.readouterr().out.startswith(f"{count} element"), format


def test_a_push_that_is_to_come_later_is_sent_again_then(
    running: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from endpoint.client import Client, Refused

    send, waited = Client.push, []

    def busy_once(self: Client, *args: Any, **named: Any) -> dict[str, Any]:
        if not waited:
            raise Refused(429, "later", 7.0)
        return send(self, *args, **named)

    monkeypatch.setattr(Client, "push", busy_once)
    monkeypatch.setattr("endpoint.cli.pushing.time.sleep", waited.append)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"timestamp": 5, "data": ""}\n')))
    assert rillet("push", "s", "--format", "ndjson", "--server", running.url) == 0
    assert (waited, capsys.readouterr().out.startswith("1 element accepted")) == ([7.0], True)


def element(time: int) -> str:
    return f'{{"timestamp": {time}, "data": "<a:s{time}> <a:p> <a:o> ."}}\n'


def test_a_pipe_outlives_its_server(tmp_path: Path) -> None:
    window = "FROM NAMED WINDOW <urn:w> ON s [RANGE 5s] { WINDOW <urn:w> { ?s ?p ?o } }"
    with ExitStack() as stack:
        with live(tmp_path / "served") as first:
            port = int(first.url.rpartition(":")[2])
            first.register(f"REGISTER QUERY q AS SELECT ?s {window}").raise_for_status()
            argv = ["push", "s", "--format", "ndjson", "--source", "roof", "--server", first.url]
            pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
            pushing = stack.enter_context(started([sys.executable, "-m", "endpoint", *argv], text=True, **pipes))
            assert pushing.stdin is not None and pushing.stderr is not None
            pushing.stdin.write(element(5) + element(5500))
            pushing.stdin.flush()
            assert first.http.get("/queries/q/results", params={"wait": "15s"}).json()["results"]["bindings"]
        pushing.stdin.write(element(6000))
        pushing.stdin.flush()
        assert "trying again for 60 s" in pushing.stderr.readline()
        with live(tmp_path / "served", port=port) as second:
            assert pushing.stderr.readline() == "rillet: the server is answering again\n"
            observed, _ = pushing.communicate(element(11000), timeout=PATIENCE_S)
            beat = {"timestamp": "11000", "wait": "evaluated"}
            second.http.post("/streams/s/heartbeat", params=beat).raise_for_status()
            answered = second.http.get("/queries/q/results").json()["results"]["bindings"]
    assert observed.startswith("4 elements accepted")
    assert sorted(row["s"]["value"] for row in answered) == ["a:s5500", "a:s6000"]


@pytest.mark.parametrize("source", [["--source", "roof"], []])
def test_a_push_whose_answer_is_lost_is_sent_again_if_it_can_be_known_again(
    source: list[str], running: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import httpx

    from endpoint.client import Client

    send, answers = Client.push, iter([None, httpx.ReadError("cut off")])

    def loses_the_second_answer(self: Client, *args: Any, **named: Any) -> dict[str, Any]:
        receipt = send(self, *args, **named)
        if (lost := next(answers, None)) is not None:
            raise lost
        return receipt

    monkeypatch.setattr(Client, "push", loses_the_second_answer)
    monkeypatch.setattr("endpoint.cli.pushing.time.sleep", lambda _: None)
    text = (element(5) + element(6)).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    code = rillet("push", "s", "--format", "ndjson", "--rate", 1, *source, "--server", running.url)
    answered = capsys.readouterr()
    if source:
        assert (code, answered.out.startswith("2 elements accepted")) == (0, True)
        assert "the connection was lost (cut off); trying again" in answered.err
    else:
        assert code == 1
        assert "1 element accepted" in answered.err
        assert "it is not known whether the last 1 elements were accepted (with --source NAME" in answered.err
    assert running.http.get("/streams/s").json()["batches"] == 2, "what was sent twice counts once"


def test_a_source_that_has_sent_later_ones_is_reported(running: Live, capsys: pytest.CaptureFixture[str]) -> None:
    far = {"source": "roof", "seq": str(2**53 - 1), "timestamp": "5"}
    triple = "<a:s> <a:p> <a:o> ."
    running.http.post("/streams/s", params=far, content=triple, headers={"content-type": "text/turtle"})
    with pytest.MonkeyPatch.context() as here:
        here.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(element(5).encode())))
        assert rillet("push", "s", "--format", "ndjson", "--source", "roof", "--server", running.url) == 1
    assert "roof has already sent a later push to s" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("says", "argv"),
    [
        ("--source works only where", ["a.ttl", "--source", "roof"]),
        ("work for nt, nq, tnt, ndjson", ["a.ttl", "--rate", "5"]),
        ("is not a rate", ["a.nt", "--rate", "fast"]),
        ("is not a rate", ["a.nt", "--rate", "0x"]),
        ("write data, arrival", ["a.nt", "--time-from", "clock"]),
        ("needs the times", ["a.tnt", "--rate", "2x", "--time-from", "arrival"]),
        ("one of them", ["a.nt", "--timestamp", "5", "--time-from", AT]),
    ],
)
def test_flags_that_do_not_fit_are_refused(says: str, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context():
        try:
            code = rillet("push", "s", *argv)
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    assert (code, says in capsys.readouterr().err) == (2, True)


def test_a_push_that_is_stopped_says_in_a_whole_sentence_how_far_it_came(running: Live) -> None:
    argv = [sys.executable, "-m", "endpoint", "push", "s", "--format", "ndjson", "--server", running.url]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with started(argv, text=True, **pipes) as pushing:
        pushing.stdin.write(element(5))
        pushing.stdin.flush()
        until(lambda: running.http.get("/streams/s").json()["time"] == 5, "the first element is there")
        pushing.send_signal(signal.SIGINT)
        assert pushing.wait(PATIENCE_S) == 130
        *_, last = pushing.stderr.read().splitlines()
    assert re.fullmatch(
        r"rillet: stopped: (1 element accepted, snapshot \d+|no push was acknowledged); "
        "a push that was being sent may be accepted, too",
        last,
    )


def test_what_is_pushed_is_shown_as_it_grows(
    running: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"".join(element(n).encode() for n in range(3)))))
    monkeypatch.setattr("endpoint.cli.terminal.is_live", lambda out: True)
    monkeypatch.setattr("endpoint.cli.pushing._SHOWN_EVERY_S", 0.0)
    assert rillet("push", "s", "--format", "ndjson", "--rate", 1000, "--server", running.url) == 0
    answered = capsys.readouterr()
    assert answered.out.startswith("3 elements accepted, snapshot ")
    shown = answered.err.split("\r\x1b[K")
    assert re.match(r"\d elements? accepted, snapshot \d+; [\d,]+ elements/s", shown[1]) and shown[-1] == ""


def test_of_a_file_it_is_shown_how_much_is_left(
    running: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "many.ndjson").write_text("".join(element(n) for n in range(30_000)))
    monkeypatch.setattr("endpoint.cli.terminal.is_live", lambda out: True)
    monkeypatch.setattr("endpoint.cli.pushing._SHOWN_EVERY_S", 0.0)
    monkeypatch.setattr("endpoint.cli.pushing._SAID_S", 0.0)
    assert rillet("push", "s", tmp_path / "many.ndjson", "--server", running.url) == 0
    answered = capsys.readouterr()
    assert re.match(r"30,000 elements accepted, snapshot \d+ in [\d.]+ s \([\d,]+ a second\)\n", answered.out)
    parts = [int(part) for part in re.findall(r"elements/s, (\d+) %, \d+ s left", answered.err)]
    assert parts == sorted(parts) and parts[-1] == 100


def test_what_was_probably_not_meant_is_reported_once(running: Live, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = int(time.time())
    lines = "".join(element(seconds + n) for n in range(3))
    with pytest.MonkeyPatch.context() as here:
        here.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
        assert rillet("push", "s", "--format", "ndjson", "--rate", 1000, "--server", running.url) == 0
    assert capsys.readouterr().err.count("as seconds it would be") == 1
    assert rillet("streams", "--server", running.url) == 0
    assert "1970-01-2" in capsys.readouterr().out, "the time of the stream is a date, too"
