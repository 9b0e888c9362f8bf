"""RDF Messages: the facts of the community group's interoperability tests, in inputs of our own, and pyoxigraph as the
judge of what is a statement: it reads each message as a document of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyoxigraph
import pytest

from stream_ext.errors import BadData, DeadlineExceeded, TooLarge, UnsupportedMedia
from stream_ext.rdf import MISSING, Pushed, parse_push, parse_rdf
from stream_ext.rdf.reading import ReadingBudget, deadline

NT, NQ, TTL, TRIG = "application/n-triples", "application/n-quads", "text/turtle", "application/trig"
XML, JSON_LD, NDJSON = "application/rdf+xml", "application/ld+json", "application/x-ndjson"
LINES, ALL = (NT, NQ), (NT, NQ, TTL, TRIG)
FORMATS = {
    NT: pyoxigraph.RdfFormat.N_TRIPLES,
    NQ: pyoxigraph.RdfFormat.N_QUADS,
    TTL: pyoxigraph.RdfFormat.TURTLE,
    TRIG: pyoxigraph.RdfFormat.TRIG,
}
VERSION = b'VERSION "1.2-messages"\n'
ONE, TWO = b"<a:one> <a:p> <a:o> .\n", b"<a:two> <a:p> <a:o> .\n"
#: Longer than what is parsed in this process.
LONG = b"# " + b"long " * 1000 + b"\n"

Quad = tuple[bytes, ...]


def messages(pushed: Pushed) -> list[set[Quad]]:
    names = [*pushed.parsed.terms, b""]
    found: list[set[Quad]] = [set() for _ in pushed.time]
    columns = (pushed.parsed.s, pushed.parsed.p, pushed.parsed.o, pushed.parsed.g)
    for element, *row in zip(pushed.element.tolist(), *(column.tolist() for column in columns), strict=True):
        found[element].add(tuple(names[i] for i in row))
    assert pushed.element.tolist() == sorted(pushed.element.tolist())
    return found


def read(data: bytes, media_type: str = TRIG) -> list[set[Quad]]:
    return messages(parse_push(data, media_type, None, ""))


def subjects(data: bytes, media_type: str = TRIG) -> list[list[bytes]]:
    return [sorted(quad[0] for quad in message) for message in read(data, media_type)]


def wrong(data: bytes, media_type: str = TRIG) -> tuple[str, int, int]:
    with pytest.raises(BadData) as caught:
        parse_push(data, media_type, None, "")
    return caught.value.message, caught.value.line, caught.value.column


# ---- which messages there are ------------------------------------------------------------------------------------


@pytest.mark.parametrize("media_type", ALL)
@pytest.mark.parametrize("padding", [b"", LONG])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (ONE + TWO, [[b"<a:one>", b"<a:two>"]]),
        (ONE + b"MESSAGE\n" + TWO, [[b"<a:one>"], [b"<a:two>"]]),
        (ONE + b"  MESSAGE # the next one\n\n" + TWO, [[b"<a:one>"], [b"<a:two>"]]),
        (b"MESSAGE\n" + ONE, [[], [b"<a:one>"]]),
        (ONE + b"MESSAGE\nMESSAGE\n" + TWO, [[b"<a:one>"], [], [b"<a:two>"]]),
        (ONE + b"MESSAGE\n", [[b"<a:one>"]]),
        (ONE + b"MESSAGE", [[b"<a:one>"]]),
        (ONE + b"MESSAGE\nMESSAGE\n# the end\n", [[b"<a:one>"], []]),
        (b"MESSAGE\n", [[]]),
        (b"", []),
        (ONE + b"MESSAGE\r\n" + TWO + b"MESSAGE\r" + ONE, [[b"<a:one>"], [b"<a:two>"], [b"<a:one>"]]),
    ],
)
def test_delimiters_end_messages_and_one_at_the_end_adds_none(
    media_type: str, padding: bytes, body: bytes, expected: list[list[bytes]]
) -> None:
    assert subjects(VERSION + padding + body, media_type) == expected


@pytest.mark.parametrize("media_type", [TTL, TRIG])
@pytest.mark.parametrize("padding", [b"", LONG])
def test_turtle_may_write_its_directives_with_at(media_type: str, padding: bytes) -> None:
    log = b'@version "1.2-messages" .\n@prefix e: <a:> .\n' + padding + b"e:one a e:C .\n@message .\ne:two a e:C ."
    assert subjects(log, media_type) == [[b"<a:one>"], [b"<a:two>"]]
    for delimiter in (b"@message.", b"@message\n # over there\n .", b"message", b"Message\n", b"MESSAGE<a:x> a 1 ."):
        assert len(read(log.replace(b"@message .", delimiter), media_type)) == 2
    dense = b"VERSION '1.1-messages'MESSAGE<a:one><a:p>1 .@message.<a:two><a:p>'x'.MESSAGE MESSAGE#"
    assert subjects(padding + dense, media_type) == [[], [b"<a:one>"], [b"<a:two>"], []]


@pytest.mark.parametrize("label", ["1.1-messages", "1.2-basic-messages", "1.2-messages"])
@pytest.mark.parametrize("media_type", ALL)
def test_the_version_may_be_a_parameter_of_the_media_type(media_type: str, label: str) -> None:
    body = ONE + b"MESSAGE\n" + TWO
    assert len(read(body, f'{media_type}; version="{label}"; charset=UTF-8')) == 2
    assert len(read(b'VERSION "%b"\n' % label.encode() + body, media_type)) == 2
    assert len(read(ONE + TWO, f"{media_type};version={label}")) == 1


def test_what_announces_no_messages_is_what_it_was() -> None:
    for label in ("1.1", "1.2-basic", "1.2"):
        for media_type in ALL:
            assert len(read(b'VERSION "%b"\n' % label.encode() + ONE, media_type)) == 1
            assert len(read(ONE, f"{media_type}; version={label}")) == 1
    quads = b"<a:s> <a:p> <a:o> <a:g> .\n<a:s> <a:p> <a:o> <a:f> .\n"
    assert len(read(quads, NQ)) == 2  # each graph is an element
    assert len(read(VERSION + quads, NQ)) == 1
    assert len(read(b'<a:g> { <a:s> <a:p> "1.2-messages" } <a:s> <a:p> 1 .')) == 2


def test_a_message_has_one_graph_or_several() -> None:
    log = (
        VERSION + b"PREFIX e: <a:>\ne:s e:p e:one .\ne:g { e:s e:p e:two . e:t e:p e:three }\ne:s e:p e:four .\n"
        b"MESSAGE\ne:g { e:s e:p e:five }\nMESSAGE\ne:s e:p e:six ."
    )
    s, p, g = b"<a:s>", b"<a:p>", b"<a:g>"
    assert read(log) == [
        {(s, p, b"<a:one>", b""), (s, p, b"<a:two>", g), (b"<a:t>", p, b"<a:three>", g), (s, p, b"<a:four>", b"")},
        {(s, p, b"<a:five>", g)},
        {(s, p, b"<a:six>", b"")},
    ]
    pushed = parse_push(log, TRIG, 7, "")
    names = [*pushed.parsed.terms, b""]
    assert [names[i] for i in pushed.graph.tolist()] == [b"", g, b""]
    assert (pushed.time.tolist(), parse_push(log, TRIG, None, "").time.tolist()) == ([7] * 3, [MISSING] * 3)
    assert not any(term.startswith(b"<m:") for term in pushed.parsed.terms)


@pytest.mark.parametrize("media_type", ALL)
def test_blank_nodes_end_with_their_message(media_type: str) -> None:
    pushed = parse_push(VERSION + b"_:x <a:p> <a:o> .\nMESSAGE\n_:x <a:p> <a:o> .\n", media_type, None, "")
    assert pushed.blanks_per_element


def test_a_prefix_continues_and_may_be_given_anew() -> None:
    log = VERSION + b"PREFIX e: <a:one/>\ne:s e:p e:o .\nMESSAGE\ne:t e:p e:o .\nPREFIX e: <a:two/>\ne:s e:p e:o .\n"
    assert subjects(log, TTL) == [[b"<a:one/s>"], [b"<a:one/t>", b"<a:two/s>"]]
    based = VERSION + b"BASE <a:/one/> <s> <p> 1 .\nMESSAGE\nBASE <a:/two/> <s> <p> 1 ."
    assert subjects(based, TTL) == [[b"<a:/one/s>"], [b"<a:/two/s>"]]


@pytest.mark.parametrize("padding", [b"", LONG])
def test_what_looks_like_a_delimiter_and_is_none(padding: bytes) -> None:
    log = (
        VERSION
        + padding
        + rb"""PREFIX MESSAGE: <a:> PREFIX e: <a:MESSAGE/> # MESSAGE
        MESSAGE:s e:p "MESSAGE", 'MESSAGE', "\" MESSAGE", '''
MESSAGE
' ''', "\"\"\" MESSAGE", "two"@message, "three"
@message , "four" # @message .
@message-GB .
        <a:MESSAGE> e:MESSAGE e:MESSAGE.MESSAGE , e:a\'b , e:a\#MESSAGE , _:MESSAGE , _:MESSAGE.b , <a:#MESSAGE> .
        e:% <a:p> <a:o> ; a MESSAGE:MESSAGE .
        """.replace(b"e:% ", b"e:%20MESSAGE ")
    )
    document = log.replace(VERSION, b"")
    expected = {tuple(quad)[:3] for quad in pyoxigraph.parse(document, FORMATS[TTL])}
    (found,) = read(log, TTL)
    assert len(found) == len(expected) == 15
    found, last = read(log + b"MESSAGE <a:last> a 1 .", TTL)
    assert (len(found), len(last)) == (15, 1)


# ---- what is wrong, and where ------------------------------------------------------------------------------------


@pytest.mark.parametrize("media_type", ALL)
@pytest.mark.parametrize("padding", [b"", LONG])
def test_a_delimiter_needs_the_version_before_it(media_type: str, padding: bytes) -> None:
    before = padding + ONE
    for body in (before + b" MESSAGE\n" + TWO, before + b" MESSAGE\n" + VERSION + TWO):
        message, line, column = wrong(body, media_type)
        assert "begin the document with VERSION" in message
        assert (line, column) == (before.count(b"\n") + 1, 2)
    if media_type not in LINES:
        assert "begin the document with VERSION" in wrong(before + b"@message .", media_type)[0]
    with_another = b'VERSION "1.2"\n' + padding + ONE + b"MESSAGE\n"
    assert "begin the document with VERSION" in wrong(with_another, media_type)[0]


@pytest.mark.parametrize("padding", [b"", LONG])
@pytest.mark.parametrize(
    ("body", "says", "line", "column"),
    [
        (b"<a:g> {\n<a:s> <a:p> <a:o> .\nMESSAGE\n<a:s> <a:p> 1 .\n}", "close the graph with '}'", 3, 1),
        (b"<a:g> {\n<a:s> <a:p> <a:o> .\n  @message .\n}", "close the graph with '}'", 3, 3),
        (b"<a:s> <a:p> <a:o> .\n@message <a:s> <a:p> <a:o> .", "'@message .' or MESSAGE", 2, 1),
        (b"<a:s> <a:p> <a:o> .\n@message", "'@message .' or MESSAGE", 2, 1),
        ("<a:s> <a:p> 'é€😀' MESSAGE <a:t> <a:p> <a:o> .".encode(), "in the middle of a statement", 1, 19),
        (b"<a:s> <a:p> <a:o>\nMESSAGE\n<a:t> <a:p> <a:o> .", "in the middle of a statement", 2, 1),
        (b"<a:s> <a:p>\nMESSAGE\n<a:o> .", "in the middle of a statement", 2, 1),
        (b"<a:s>\n\nMESSAGE <a:p> <a:o> .", "in the middle of a statement", 3, 1),
        (b"<a:s> <a:p> <a:o> ;\n @message .", "in the middle of a statement", 2, 2),
        (b"<a:s> <a:p> <a:o> , MESSAGE", "in the middle of a statement", 1, 21),
        (b"<a:s> <a:p> [ MESSAGE <a:p> 1 ] .", "in the middle of a statement", 1, 15),
        (b"<a:s> <a:p> ( 1 MESSAGE 2 ) .", "in the middle of a statement", 1, 17),
        (b"@prefix e: <a:e>\nMESSAGE", "in the middle of a statement", 2, 1),
        (b"PREFIX e:\nMESSAGE", "in the middle of a statement", 2, 1),
        (b"BASE MESSAGE <a:s> <a:p> 1 .", "in the middle of a statement", 1, 6),
        (b"GRAPH MESSAGE { }", "in the middle of a statement", 1, 7),
        (b"MESSAGE MESSAGE <a:s> <a:p> ; .", "", 1, 29),
        (b"MESSAGE @message . <a:s> 1 <a:o> .", "", 1, 26),
        ("<a:s> <a:p> 'é' . @message\n  . <a:s> 1 .".encode(), "", 2, 11),
        (b"MESSAGE .", "", 1, 9),
        (b'VERSION "1.2-messages" .', "", 1, 24),
        (b'VERSION "7.0-messages"', "is not known here", 1, 1),
        (b"<a:s> <a:p> 'open\nMESSAGE\n", "", 1, 13),
        (b"MESSAGE\n<a:s> <a:p> <a:o>", "a '.' is missing", 2, 18),
    ],
)
def test_where_and_what_is_wrong_in_trig(padding: bytes, body: bytes, says: str, line: int, column: int) -> None:
    message, found_line, found_column = wrong(VERSION + padding + body)
    assert says in message
    assert "<m:" not in message
    assert (found_line, found_column) == (line + (VERSION + padding).count(b"\n"), column)


@pytest.mark.parametrize("media_type", LINES)
@pytest.mark.parametrize(
    ("body", "says", "line", "column"),
    [
        (b"<a:s> <a:p> <a:o> . MESSAGE\n", "only one statement is allowed on a line", 1, 21),
        (ONE + b" MESSAGE " + TWO, "on a line of its own", 2, 2),
        (ONE + b"message\n", "in capitals", 2, 1),
        (ONE + b"@message .\n", "MESSAGE, in capitals", 2, 1),
        (b"@version '1.2-messages' .\n", "VERSION and a string", 1, 1),
        (b'VERSION "0.9"\n', "is not known here", 1, 1),
        (b"MESSAGE\n" + ONE + b"MESSAGE\n<a:s> <a:p> .\n", "expected an object", 4, 13),
        (b'MESSAGE\n<a:s> <a:p> "\\q" .\n', "\\q is not an escape", 2, 14),
    ],
)
def test_where_and_what_is_wrong_in_lines(media_type: str, body: bytes, says: str, line: int, column: int) -> None:
    message, *place = wrong(VERSION + body, media_type)
    assert says in message
    assert place == [line + 1, column]


def test_parameters_that_mean_nothing_are_refused() -> None:
    for media_type in (
        "text/turtle; profile=x",
        "text/turtle; version=2.0",
        "text/turtle; charset=latin-1",
        f"{NDJSON}; version=1.2",
        f"{JSON_LD}; version=1.2-messages",
        f"{XML}; version=1.2-messages",
    ):
        with pytest.raises(UnsupportedMedia):
            parse_push(ONE, media_type, None, "")
    with pytest.raises(UnsupportedMedia, match="pushed to a stream"):
        parse_rdf(ONE, f"{TTL}; version=1.2-messages", "")
    with pytest.raises(BadData):
        parse_rdf(VERSION + ONE + b"MESSAGE\n", TTL, "")


# ---- many, and by chance -----------------------------------------------------------------------------------------

TERMS = [b"<a:s>", b"<a:MESSAGE>", b"_:b0", b"_:b1", b'"MESSAGE"', b'"\\"\\nMESSAGE\\n"@message', b'"1"^^<a:t>']


def drawn(chance: random.Random, graphs: Sequence[bytes]) -> list[Quad]:
    rows = [
        (chance.choice(TERMS[:4]), b"<a:p>", chance.choice(TERMS), chance.choice(graphs))
        for _ in range(chance.randrange(4))
    ]
    return list(dict.fromkeys(rows))


@pytest.mark.parametrize("media_type", ALL)
@pytest.mark.parametrize("seed", range(12))
def test_a_log_that_is_written_comes_back(media_type: str, seed: int) -> None:
    chance = random.Random(seed)
    graphs = [b"", b"<a:g>", b"_:b0", b"<a:h>"] if media_type in (NQ, TRIG) else [b""]
    written = [drawn(chance, graphs) for _ in range(chance.choice([3, 400]))]
    if media_type in (TTL, TRIG):
        delimiters = [b"MESSAGE\n", b"@message .\n", b"message\n"]
    else:
        delimiters = [b"MESSAGE\n"]
    documents = []
    for rows in written:
        nquads = b"".join(b" ".join(filter(None, row)) + b" .\n" for row in rows)
        written_as: object = pyoxigraph.serialize(pyoxigraph.parse(nquads, FORMATS[NQ]), format=FORMATS[media_type])
        documents.append(bytes(written_as) + chance.choice(delimiters))  # type: ignore[call-overload]
    assert read(VERSION + b"".join(documents), media_type) == [set(rows) for rows in written]


DOCUMENT = b"""<a:s> <a:p> [ <a:q> ( 1 "two" ) ] , '''three
lines''' ; <a:r> "four"@en . # a comment
<a:g> { <a:s> <a:p> <a:o> . <a:t> <a:p> "}" } <a:u> a <a:C> .
GRAPH <a:h> { <a:s> <a:p> 5 } <a:v> a <a:C> ."""


def test_a_delimiter_is_allowed_where_one_document_may_end_and_another_begin() -> None:
    """By pyoxigraph, which knows no delimiters."""

    def is_document(data: bytes) -> bool:
        try:
            list(pyoxigraph.parse(data, FORMATS[TRIG]))
            return True
        except SyntaxError:
            return False

    blanks = [i for i, sign in enumerate(DOCUMENT) if sign in b" \n"]
    allowed = []
    for at in blanks:
        before, behind = DOCUMENT[:at], DOCUMENT[at:]
        log = VERSION + before + b" MESSAGE" + behind
        if before.count(b"'''") == 1 or b"#" in before.rpartition(b"\n")[2]:
            assert len(read(log)) == 1  # in a string, in a comment
        elif is_document(before) and is_document(behind):
            allowed.append(at)
            assert len(read(log)) == 2
        else:
            assert wrong(log)[1:] == (log[: len(VERSION) + at].count(b"\n") + 1, len(before.rpartition(b"\n")[2]) + 2)
    assert len(allowed) == 4


def test_a_log_is_bounded_as_other_documents_are() -> None:
    log = VERSION + b"<a:s> <a:p> 1 .\nMESSAGE\n" * 3_000
    now = iter(range(1_000_000))
    for media_type in ALL:
        body = log.replace(b" 1 .", b" <a:o> .") if media_type in LINES else log
        assert len(read(body, media_type)) == 3_000
        with pytest.raises(DeadlineExceeded):
            parse_push(
                body, media_type, None, "", ReadingBudget(deadline(0, "parsing", clock=lambda: float(next(now))))
            )
    with pytest.raises(TooLarge):
        parse_push(VERSION + b"MESSAGE\n" * 10_000, TTL, None, "", ReadingBudget(bytes_max=10_000))


def test_a_long_log_of_much_else_is_read_quickly() -> None:
    for body in (
        b"MESSAGE" * 50_000,
        b"'" * 100_001,
        b"{" * 200_000,
        b"<" * 200_000,
        b'"a" @b ' * 50_000,
        b"@" * 9_999,
    ):
        with pytest.raises(BadData):
            parse_push(VERSION + body, TRIG, None, "")
