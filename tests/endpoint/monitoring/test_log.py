"""The log: what an operator needs, a line for each event, and nothing that somebody could use."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from endpoint.limits import HttpLimits
from endpoint.monitoring.log import FORMS, Form, Formatter, Level, Settings, current, logging_to, recent
from tests.endpoint.live import SPARQL_QUERY, live
from tests.parts.waiting import PATIENCE_S

log = logging.getLogger("rillet.test")


def line_of(form: Form, message: str = "it happened", error: Exception | None = None, **fields: object) -> str:
    record = logging.LogRecord("rillet.test", logging.WARNING, "", 0, message, (), error and (type(error), error, None))
    record.created, record.fields = 1_790_000_000.123, fields
    return Formatter(form, ["s3cr3t-of-this-server"]).format(record)


def test_a_line_of_text_has_when_how_grave_where_what_and_the_facts() -> None:
    assert line_of("text", query="near", seconds=2.5, why="no answer", again=True, since=None) == (
        "2026-09-21T14:13:20.123Z warning rillet.test it happened "
        'query=near seconds=2.5 why="no answer" again=true since=none'
    )


def test_a_line_of_json_has_the_same_for_programs() -> None:
    assert json.loads(line_of("json", query="near", seconds=2.5, again=True)) == {
        "time": "2026-09-21T14:13:20.123Z",
        "level": "warning",
        "logger": "rillet.test",
        "message": "it happened",
        "query": "near",
        "seconds": 2.5,
        "again": True,
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sign", ["\n", "\r", "\x1b[31m", "\x00", "\x85", "\u2028", "\u202e", "\x9b", "\ud800"])
def test_nothing_of_the_data_breaks_a_line_or_moves_a_cursor(form: Form, sign: str) -> None:
    forged = f"x{sign}2026-09-21T14:13:20.123Z error rillet.test all is lost"
    for line in (line_of(form, why=forged), line_of(form, message=forged), line_of(form, **{forged: 1})):
        assert sign[0] not in line
        assert all(character >= " " for character in line)
        line.encode()


@pytest.mark.parametrize("form", FORMS)
def test_a_traceback_cannot_forge_a_line(form: Form) -> None:
    line = line_of(form, error=ValueError("bad\n2026-09-21T14:13:20.123Z error rillet.test forged\x1b[2J"))
    assert "\x1b" not in line
    assert not re.search(r"\n(?!  \| )", line)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2hunter2",
        "{'authorization': 'Basic hunter2hunter2='}",
        "bearer hunter2hunter2",
        "Bearer token-hunter2",
        "Authorization: Bearer TOKEN`hunter2",
        "Authorization: Bearer with=hunter2",
        "GET /sparql?token=hunter2hunter2&query=ASK",
        "https://user:hunter2hunter2@example.org/sparql",
        "http://hunter2hunter2@example.org/",
        "Cookie: rillet=hunter2hunter2",
        "RILLET_TOKEN=hunter2hunter2",
        'password: "hunter2hunter2"',
        "api_key=hunter2hunter2",
        "hunter2 s3cr3t-of-this-server hunter2"[8:-8],
        "x" * 490 + "s3cr3t-of-this-server",
    ],
)
@pytest.mark.parametrize("form", FORMS)
def test_no_secret_is_shown(form: Form, text: str) -> None:
    for line in (line_of(form, cause=text), line_of(form, message=text), line_of(form, error=ValueError(text))):
        assert "hunter2" not in line
        assert "s3cr3t" not in line
    assert "hunter2" not in line_of(form, token="hunter2", Authorization="hunter2", read_token="hunter2")


def test_what_is_no_secret_is_shown() -> None:
    shown = "SELECT * { <http://example.org/s?a=b> <urn:p> 'a token of love' }"
    assert json.loads(line_of("json", text=shown))["text"] == shown


@pytest.mark.parametrize(
    "message",
    [
        "writing needs the token of this server: send `Authorization: Bearer TOKEN`, or Basic with it as the password",
        "Programs and pages of this server may, and, with the bearer token, pages of an origin that --cors allows",
        "a page of https://app.example must send the token as a bearer token",
    ],
)
def test_what_our_own_messages_say_of_secrets_is_shown(message: str) -> None:
    assert json.loads(line_of("json", cause=message))["cause"] == message


def test_what_is_long_is_cut() -> None:
    began = time.process_time()
    line = line_of("text", text="x" * 10_000_000, **{f"f{number}": "y" * 1_000 for number in range(100)})
    assert len(line) < 20_000
    assert "(10000000 characters)" in line
    assert time.process_time() - began < 5


class Deaf(io.StringIO):
    """Whoever should read has stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.hears = threading.Event()

    def write(self, text: str) -> int:
        self.hears.wait()
        return super().write(text)


def test_whoever_logs_never_waits_for_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endpoint.monitoring.log._LINES_MAX", 100)
    stream = Deaf()
    with to(stream):
        for number in range(300):
            log.warning("it happened", extra={"fields": {"number": number}})
        stream.hears.set()
    assert "number=0" in stream.getvalue()
    assert re.search(r"\(\d+ lines were left out", stream.getvalue())


@contextmanager
def to(stream: io.StringIO, level: Level = "warning", form: Form = "text") -> Iterator[None]:
    with logging_to(stream, Settings(level, form)):
        yield


def test_the_level_decides_what_is_logged_and_libraries_are_logged_only_when_something_is_wrong() -> None:
    found = {}
    for level in ("debug", "info", "warning", "error"):
        stream = io.StringIO()
        with to(stream, level):  # type: ignore[arg-type]  # mypy widens it
            for logger in (log, logging.getLogger("httpx")):
                for each in ("debug", "info", "warning", "error"):
                    getattr(logger, each)(f"{each} of {logger.name}")
        found[level] = (
            len(re.findall("of rillet.test", stream.getvalue())),
            len(re.findall("of httpx", stream.getvalue())),
        )
    assert found == {"debug": (4, 2), "info": (3, 2), "warning": (2, 2), "error": (1, 1)}


def test_afterwards_everything_is_logged_as_before() -> None:
    """Loggers remember what is enabled: it is asked while the context is open, and then again."""
    loggers = (logging.getLogger(), log, logging.getLogger("rillet"), logging.getLogger("uvicorn.error"))

    def enabled() -> list[bool]:
        return [each.isEnabledFor(level) for each in loggers for level in (logging.DEBUG, logging.INFO, logging.ERROR)]

    before = enabled(), logging.getLogger().handlers[:], current(), recent()
    with to(io.StringIO(), "debug"):
        with to(io.StringIO(), "error", "json"):
            assert not log.isEnabledFor(logging.WARNING)
        assert log.isEnabledFor(logging.DEBUG)
        assert current() == Settings("debug")
        assert enabled() != before[0]
    assert (enabled(), logging.getLogger().handlers[:], current(), recent()) == before


# ---- what a server logs


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_requests_that_failed_are_logged_with_their_cause_and_without_their_query_string(tmp_path: Path) -> None:
    stream = io.StringIO()
    with to(stream, "debug", "json"), live(tmp_path, token="hunter2", limits=HttpLimits()) as server:
        server.http.get("/sparql", params={"query": "ASK {", "token": "hunter3"})
        server.http.post("/update", data={"update": "CLEAR ALL"}, headers={"authorization": "Bearer hunter4"})
        server.http.get("/sparql", params={"query": "ASK {}"})
    requests = {each["status"]: each for each in events(stream.getvalue()) if each["logger"] == "rillet.http"}
    assert (requests[400]["level"], requests[400]["path"], requests[400]["method"]) == ("debug", "/sparql", "GET")
    assert "line 1" in requests[400]["cause"]
    assert requests[400]["client"] == "127.0.0.1"
    assert (requests[401]["level"], requests[401]["error"]) == ("info", "Unauthorized")
    assert requests[200]["message"] == "a request was answered"
    assert "hunter" not in stream.getvalue()


def test_who_is_turned_away_is_logged_on_every_path(tmp_path: Path) -> None:
    stream = io.StringIO()
    with to(stream, "info", "json"), live(tmp_path, token="hunter2", read_token="hunter3") as server:
        for path in ("/streams", "/docs", "/openapi.json", "/nope"):
            assert server.http.get(path).status_code == 401
    requests = [each for each in events(stream.getvalue()) if each["logger"] == "rillet.http"]
    assert [each["path"] for each in requests if each["status"] == 401] == [
        "/streams",
        "/docs",
        "/openapi.json",
        "/nope",
    ]


def test_a_fault_of_the_server_is_logged_with_its_traceback(tmp_path: Path) -> None:
    stream = io.StringIO()
    with to(stream, "warning", "json"), live(tmp_path) as server:

        def broken() -> None:
            raise ZeroDivisionError("of a test\nwith a line break")

        server.service.loads = broken  # type: ignore[assignment, method-assign]
        assert server.http.get("/$/loads").status_code == 500
    fault, request = events(stream.getvalue())
    assert (fault["level"], "ZeroDivisionError" in fault["traceback"]) == ("error", True)
    assert (request["level"], request["status"], request["path"]) == ("warning", 500, "/$/loads")
    assert request["cause"] == "of a test\\nwith a line break"


def test_slow_queries_and_no_others_are_logged(tmp_path: Path) -> None:
    stream = io.StringIO()
    numbers = " ".join(map(str, range(150)))  # a short text, which is read at once
    slow = f"SELECT (COUNT(*) AS ?n) {{ VALUES ?a {{ {numbers} }} VALUES ?b {{ {numbers} }} VALUES ?c {{ 1 2 3 4 }} }}"
    for slow_s, logged in ((0.001, 1), (60.0, 0), (0.0, 0)):
        with to(stream, "warning", "json"), live(tmp_path, limits=HttpLimits(slow_query_s=slow_s)) as server:
            server.http.post("/sparql", content=slow, headers=SPARQL_QUERY).raise_for_status()
        found = events(stream.getvalue())
        assert len(found) == logged, found
        if logged:
            assert found[0]["message"] == "a slow query"
            assert found[0]["text"].startswith("SELECT (COUNT(*) AS ?n)")
            assert 0.001 <= found[0]["seconds"] < 60
        stream.seek(0)
        stream.truncate()


def test_what_is_waited_for_is_logged_when_it_begins_and_when_it_is_over(tmp_path: Path) -> None:
    stream = io.StringIO()
    with to(stream, "warning", "text"), live(tmp_path) as server:
        server.service.waits.begin("disk", "no space left")
        until = time.monotonic() + 30
        while 'the service is waiting for=disk why="no space left"' not in stream.getvalue():
            assert time.monotonic() < until
            time.sleep(0.01)
        server.service.waits.end("disk")
        while "the service continues waited_for=disk" not in stream.getvalue():
            assert time.monotonic() < until
            time.sleep(0.01)


def test_the_server_logs_its_life_in_lines_of_json_and_never_its_token(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "endpoint", "serve", "--store", f"lmdb:{tmp_path / 's'}", "--port", "0"]
    more = ["--engine", "inline", "--log-format", "json", "--log-level", "debug", "--token", "hunter2-of-a-test"]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RILLET_")}
    with subprocess.Popen(
        [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
    ) as process:
        try:
            assert process.stdout is not None
            found = None
            while found is None:
                line = process.stdout.readline()
                assert line, "it ended"
                found = re.search(r"SPARQL +(http://[^/]+)/", line)
            httpx.get(found[1] + "/sparql", params={"query": "ASK {", "token": "hunter2-of-a-test"}, timeout=PATIENCE_S)
            httpx.post(
                found[1] + "/update", headers={"authorization": "Bearer hunter2-of-a-test x"}, timeout=PATIENCE_S
            )
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert out.endswith("stopped\n")
    messages = [each["message"] for each in events(err)]
    assert messages.count("the server is ready") == 1
    assert messages.count("the server is stopping") == 1
    assert "a request failed" in messages
    assert "hunter2" not in err
