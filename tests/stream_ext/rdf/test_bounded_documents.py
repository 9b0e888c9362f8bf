"""Documents that expand, or take any time: refused while they are parsed, whatever they are made of."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path

import pyoxigraph
import pytest

from stream_ext.errors import BadData, DeadlineExceeded, Overload, QueryCancelled, TooLarge
from stream_ext.rdf import parse_push, parse_rdf
from stream_ext.rdf.documents import lines_of
from stream_ext.rdf.parse_queue import ParseQueue, Rules
from stream_ext.rdf.parsers import Parsers
from stream_ext.rdf.reading import EXPANSION, ReadingBudget, deadline
from tests.parts.waiting import until
from tests.stream_ext.rdf.bombs import JSON_LD, OF_IRIS, OF_MEMORY, OF_TIME, TRIG, TTL, XML, entities
from tests.stream_ext.rdf.test_rdf import BASE, oracle, quads

NDJSON = "application/x-ndjson"
_HERE = Path(__file__).resolve().parents[3]
#: In a process that is ended by the system where no bound holds: so this can be run against any version.
_IN_A_CHILD = """
import resource
from stream_ext.errors import RilletError
from stream_ext.rdf import parse_push
from tests.stream_ext.rdf.bombs import OF_MEMORY

resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
for media_type, data in OF_MEMORY.values():
    try:
        parse_push(data, media_type, 1, "http://base/")
    except RilletError as error:
        print(type(error).__name__)
from stream_ext.rdf.documents import PARSERS

PARSERS.close()  # waits for the processes, whose memory counts only then
# Not ru_maxrss of this process: it begins with what the process had that started it.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
"""


def test_small_documents_do_not_take_gigabytes() -> None:
    ran = subprocess.run([sys.executable, "-c", _IN_A_CHILD], cwd=_HERE, capture_output=True, text=True, timeout=120)
    *errors, most = ran.stdout.split()
    assert errors == ["TooLarge"] * len(OF_MEMORY), ran.stderr[-1000:]
    assert int(most) < 2 << 20, "in kB"


@pytest.mark.parametrize("name", OF_IRIS)
def test_what_iris_expand_to_is_counted(name: str) -> None:
    media_type, data = OF_IRIS[name]
    with pytest.raises(TooLarge, match=rf"after \d+ bytes .* more than {EXPANSION << 20}: its prefixes"):
        parse_rdf(data, media_type, BASE, ReadingBudget(bytes_max=1 << 20))
    if media_type == JSON_LD:
        with pytest.raises(TooLarge):
            parse_push(b'{"data": %b}' % data, NDJSON, 1, BASE, ReadingBudget(bytes_max=1 << 20))


def test_short_documents_are_counted_together() -> None:
    node = {"@context": {"@vocab": "http://e/" + "a" * 1_000}, "@id": "a:x", **{f"p{i}": 1 for i in range(99)}}
    lines = b"\n".join([b'{"data": %b}' % json.dumps(node).encode()] * 99)
    with pytest.raises(TooLarge):
        parse_push(lines, NDJSON, 1, BASE, ReadingBudget(bytes_max=1 << 20))


@pytest.mark.parametrize("name", OF_TIME)
def test_parsing_ends_at_its_deadline(name: str) -> None:
    media_type, data = OF_TIME[name]
    with pytest.raises(DeadlineExceeded, match=r"reading the push took longer than 0\.3 s"):
        parse_rdf(data, media_type, BASE, ReadingBudget(deadline(0.3, "reading the push")))


@pytest.mark.parametrize("media_type", ["application/n-triples", "application/n-quads", TTL, TRIG, NDJSON])
def test_every_form_looks_whether_it_is_still_wanted(media_type: str) -> None:
    line = b"<a:s> <a:p> <a:o> .\n" if media_type != NDJSON else b'{"data": "<a:s> <a:p> <a:o> ."}\n'
    looks = count()

    def check() -> None:
        if next(looks) == 3:
            raise QueryCancelled("nobody wants it")

    with pytest.raises(QueryCancelled):
        parse_push(line * 100_000, media_type, 1, BASE, ReadingBudget(check))


# ---- what is sane is read as ever ------------------------------------------------------------------------------

_TTL = b"@prefix e: <http://e/> .\n" + b"".join(
    b'e:s%d a e:T ; e:p "%d"@en , %d , [ e:q ( 1 "\\n" ) ] .\n' % (i, i, i) for i in range(500)
)
_FORMS = {
    TTL: (_TTL, pyoxigraph.RdfFormat.TURTLE),
    TRIG: (b"@prefix e: <http://e/> .\ne:g {" + _TTL.partition(b"\n")[2] + b"}", pyoxigraph.RdfFormat.TRIG),
    XML: (
        entities(b'<!ENTITY o "http://o/"><!ENTITY oo "&o;x&amp; %o; SYSTEM">', b"&oo;" * 999),
        pyoxigraph.RdfFormat.RDF_XML,
    ),
    JSON_LD: (
        json.dumps(
            {"@context": {"p": "http://e/p"}, "@graph": [{"@id": f"a:{i}", "p": i} for i in range(500)]}
        ).encode(),
        pyoxigraph.RdfFormat.JSON_LD,
    ),
}


@pytest.mark.parametrize("media_type", _FORMS)
def test_long_documents_say_what_their_parser_says(media_type: str) -> None:
    data, form = _FORMS[media_type]
    found = quads(parse_rdf(data, media_type, BASE))
    expected = oracle(data, form)
    assert len(found) == len(expected)
    plain = [[row for row in rows if not any(term.startswith(b"_:") for term in row)] for rows in (found, expected)]
    assert plain[0] == plain[1]
    labels = {term for row in found for term in row if term.startswith(b"_:")}
    assert len(labels) == len({term for row in expected for term in row if term.startswith(b"_:")})
    assert b"".join(lines_of(io.BytesIO(data), media_type, BASE)).count(b"\n") == len(found)


def test_long_documents_that_are_wrong_say_where() -> None:
    with pytest.raises(BadData) as caught:
        parse_rdf(_TTL + b"e:s e:p ^ .", TTL, BASE)
    assert caught.value.line == 502
    wrong = b"<a:s> <a:p> <a:o> .\n" * 50_000 + b'<a:s> <a:p> "\\q" .\n' + b"<a:s> <a:p> <a:o> .\n" * 9
    with pytest.raises(BadData) as caught:
        parse_rdf(wrong, "application/n-triples", BASE)
    assert (caught.value.line, caught.value.column) == (50_001, 14)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_that_are_read_in_pieces_are_those_of_the_document(end: bytes) -> None:
    lines = [b'<a:s> <a:p> "%d" .' % i for i in range(20_000)]
    assert len(parse_rdf(end.join(lines), "application/n-triples", "").s) == len(lines)
    with pytest.raises(BadData) as caught:
        parse_rdf(end.join([*lines, b"<a:s> <a:p> <a:\xff> ."]), "application/n-triples", "")
    assert caught.value.line == len(lines) + 1


# ---- entities that lie elsewhere -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "answered"),
    [
        (b'<!ENTITY x SYSTEM "file:///etc/passwd">', "the entity x is defined outside the document: SYSTEM"),
        (b'<!ENTITY x PUBLIC "x" "http://e/x">', "the entity x is defined outside the document: PUBLIC"),
        (b'<!ENTITY % x SYSTEM "http://e/x"> %x;', "the entity x is defined outside the document: SYSTEM"),
        (b'<!ENTITY % x "y">', "%x is a parameter entity"),
        (b"<!-- --> %x;", "%x; refers to a parameter entity"),
    ],
)
@pytest.mark.parametrize("content", [b"y", b"y" * 9_000])
def test_entities_that_lie_in_another_place_are_refused_by_name(declared: bytes, answered: str, content: bytes) -> None:
    data = b"<?xml version='1.0'?>\n<!-- x -->\n" + entities(declared, content)
    for read in (lambda: parse_rdf(data, XML, BASE), lambda: list(lines_of(io.BytesIO(data), XML, BASE))):
        with pytest.raises(BadData, match=answered) as caught:
            read()
        assert caught.value.line == 3


def test_a_document_type_of_another_place_is_not_fetched() -> None:
    data = entities(b"", b"1").replace(b"rdf:RDF []", b'rdf:RDF SYSTEM "http://127.0.0.1:9/x.dtd"')
    assert len(parse_rdf(data, XML, BASE).s) == 1


# ---- the processes ---------------------------------------------------------------------------------------------


@pytest.fixture
def parsers() -> Iterator[Parsers]:
    made = Parsers(Rules(at_once=1))
    yield made
    made.close()


def _lines(parsers: Parsers, data: bytes, check: Callable[[], None] = lambda: None) -> bytes:
    return b"".join(parsers.lines("TURTLE", BASE, iter([data]), ReadingBudget(check)))


def test_one_process_parses_one_document_after_the_other(parsers: Parsers) -> None:
    (first, _), (second, _) = [(_idle(parsers), _lines(parsers, b"<a:s> <a:p> <a:o> .")) for _ in range(2)]
    assert first is None
    assert second == _idle(parsers)


def test_a_process_that_was_wrong_or_killed_is_replaced(parsers: Parsers) -> None:
    _lines(parsers, b"<a:s> <a:p> <a:o> .")
    idle = _idle(parsers)
    assert idle is not None
    os.kill(idle, signal.SIGKILL)
    os.waitid(os.P_PID, idle, os.WEXITED | os.WNOWAIT)
    assert _lines(parsers, b"<a:s> <a:p> <a:o> .").count(b"\n") == 1
    assert _idle(parsers) not in (None, idle)
    with pytest.raises(BadData):
        _lines(parsers, b"<a:s> <a:p> <a:o> <a:q> .")
    assert _lines(parsers, b"<a:s> <a:p> <a:o> .").count(b"\n") == 1


def test_who_waits_for_his_turn_waits_no_longer_than_he_wants(parsers: Parsers) -> None:
    first = parsers.lines(
        "TURTLE", BASE, chain([b"<a:s> <a:p> <a:o> .\n" * 99_999], iter(lambda: b" ", b"")), ReadingBudget()
    )
    next(first)

    def check() -> None:
        raise QueryCancelled("enough")

    with pytest.raises(QueryCancelled):
        _lines(parsers, b"", check)
    first.close()  # type: ignore[attr-defined]  # it is a generator
    assert _lines(parsers, b"<a:s> <a:p> <a:o> .").count(b"\n") == 1


def test_few_wait_for_their_turn_and_none_for_long() -> None:
    now = 0.0
    queue = ParseQueue(Rules(at_once=1, waiting=1, wait_s=5), lambda: now)
    came: list[str] = []

    def wait(name: str) -> None:
        try:
            with queue.turn(lambda: None):
                came.append(name)
        except Overload as error:
            assert error.retry_after_s
            came.append(f"{name}: {error}")

    with queue.turn(lambda: None):
        second = threading.Thread(target=wait, args=("second",))
        second.start()
        until(lambda: queue.waiting == 1, "the second waits")
        wait("third")
        assert "1 long documents are parsed at once, and 1 others are already waiting" in came.pop()
        now = 6.0
        second.join(60)
        assert "no place became free within 5 s: send this one later" in came.pop()
        fourth = threading.Thread(target=wait, args=("fourth",))
        fourth.start()
        until(lambda: queue.waiting == 1, "the fourth waits")
    fourth.join(60)
    assert came == ["fourth"]


def test_those_who_wait_come_in_turn() -> None:
    queue, came = ParseQueue(Rules(at_once=1)), list[int]()

    def wait(number: int) -> None:
        with queue.turn(lambda: None):
            came.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(8)]
    with queue.turn(lambda: None):
        for number, thread in enumerate(threads, 1):
            thread.start()
            until(lambda: queue.waiting == number, "one more waits")  # noqa: B023  waited for here
    for thread in threads:
        thread.join(60)
    assert came == list(range(8))


def test_a_document_that_takes_for_ever_gives_its_parser_up_when_another_waits() -> None:
    """And not before."""
    now = 0.0
    parsers = Parsers(Rules(at_once=1))
    parsers.queue.clock = lambda: now
    media_type, data = OF_TIME["a context in each node"]
    assert media_type == JSON_LD
    ended: list[Exception] = []

    def attack() -> None:
        try:
            b"".join(parsers.lines("JSON_LD", BASE, iter([data]), ReadingBudget()))
        except DeadlineExceeded as error:
            ended.append(error)

    attacker = threading.Thread(target=attack)
    attacker.start()
    until(lambda: parsers.queue.free == 0, "the attacker has the parser")
    now = 1_000.0
    assert attacker.is_alive()
    assert _lines(parsers, b"<a:s> <a:p> <a:o> .").count(b"\n") == 1
    attacker.join(60)
    (error,) = ended
    assert "while others waited for their turn: send it in parts, or as N-Triples" in str(error)
    parsers.close()


def test_a_token_is_not_sent_to_a_parser(parsers: Parsers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_TOKEN", "secret")
    _lines(parsers, b"<a:s> <a:p> <a:o> .")
    idle = _idle(parsers)
    assert b"secret" not in Path(f"/proc/{idle}/environ").read_bytes()


def _idle(parsers: Parsers) -> int | None:
    idle = parsers.idle()
    return idle[0] if idle else None
