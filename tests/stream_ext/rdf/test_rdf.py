"""RDF in, against pyoxigraph's parsers, and what is wrong with what is wrong."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pyoxigraph
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from hbase_store.layout import terms
from stream_ext.errors import BadArgument, BadData, UnsupportedMedia
from stream_ext.rdf import MISSING, Parsed, Pushed, parse_push, parse_rdf, parse_time

NT, NQ, TTL, TRIG = "application/n-triples", "application/n-quads", "text/turtle", "application/trig"
XML, JSON_LD, NDJSON = "application/rdf+xml", "application/ld+json", "application/x-ndjson"
BASE = "http://base/dir/"
XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGER = f"^^<{XSD}integer>"


def quads(parsed: Parsed) -> list[tuple[bytes, ...]]:
    names = [*parsed.terms, b""]  # -1 is the last
    columns = (parsed.s.tolist(), parsed.p.tolist(), parsed.o.tolist(), parsed.g.tolist())
    return [tuple(names[i] for i in row) for row in zip(*columns, strict=True)]


def oracle(data: bytes, form: pyoxigraph.RdfFormat) -> list[tuple[bytes, ...]]:
    return [
        (text(q.subject), text(q.predicate), text(q.object), text(q.graph_name))
        for q in pyoxigraph.parse(data, form, base_iri=BASE)
    ]


def text(term: object) -> bytes:
    if isinstance(term, pyoxigraph.NamedNode):
        return terms.iri(term.value)
    if isinstance(term, pyoxigraph.Literal):
        return terms.literal(term.value, term.language, None if term.language else term.datatype.value)
    return str(term).encode() if isinstance(term, pyoxigraph.BlankNode) else b""


# ---- N-Triples and N-Quads ---------------------------------------------------------------------------------------

NASTY = f"""# a comment, and a blank line

<http://a/b> <http://p> <http://o> .
<http://a/b><http://p><http://o>.
\t<http://a/b>\t <http://p>\t"x"  .   # behind
<http://a/b> <http://p> "a\\tb\\nc\\r\\"\\\\\\u00e9\\U0001F600\\b\\f\\'" .
<http://a/b> <http://p> "é😀" .
<http://a/é> <http://p> "e"@en-GB .
<http://a/\\u00e9> <http://p> "e"@EN-gb .
<http://a/b> <http://p> "s"^^<{XSD}string> .
<http://a/b> <http://p> "s" .
<http://a/b> <http://p> "01"{INTEGER} .
_:a <http://p> _:b.c .
_:0 <http://p> _:é .
_:a<http://p>_:a-b.
<urn:x> <http://p> "" .
<http://a/b> <http://p> "\\u0000\x7f" .
<http://a/b> <http://p> "# no comment . <x>" . # <http://a> <http://b> <http://c> .
""".encode()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_nasty_triples_are_read_as_pyoxigraph_reads_them(end: bytes) -> None:
    expected = oracle(NASTY, pyoxigraph.RdfFormat.N_TRIPLES)
    assert quads(parse_rdf(NASTY.replace(b"\n", end), NT, "")) == expected
    assert quads(parse_rdf(NASTY.replace(b"\n", end)[: -len(end)], NQ, "")) == expected


def test_quads_have_graphs() -> None:
    data = b'<a:s> <a:p> <a:o> <a:g> .\n<a:s> <a:p> "x"@en _:g.\n<a:s> <a:p> <a:o> .\n'
    assert quads(parse_rdf(data, NQ, "")) == oracle(data, pyoxigraph.RdfFormat.N_QUADS)


def test_terms_are_distinct_and_in_order_of_first_appearance() -> None:
    parsed = parse_rdf(f'<a:s> <a:p> "x"^^<{XSD}string> .\n<a:o> <a:p> "x" .\n<a:s> <a:s> <a:o> .'.encode(), NT, "")
    assert parsed.terms == [b"<a:s>", b"<a:p>", b'"x"', b"<a:o>"]
    assert [c.tolist() for c in (parsed.s, parsed.p, parsed.o, parsed.g)] == [[0, 3, 0], [1, 1, 0], [2, 2, 3], [-1] * 3]
    assert {c.dtype for c in (parsed.s, parsed.p, parsed.o, parsed.g)} == {np.dtype(np.int32)}


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing", b"   \t"])
def test_a_document_may_be_empty(data: bytes) -> None:
    parsed = parse_rdf(data, NT, "")
    assert (parsed.terms, len(parsed.s), len(parsed.g)) == ([], 0, 0)


CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cs"])
LEXICAL = st.text(st.one_of(st.sampled_from('\\"\n\r\t\x00\x7f .<>@^_:'), CHARACTERS), max_size=8)
IRIS = st.text(st.sampled_from("abc/?=&é.:-😀"), max_size=6).map(lambda t: pyoxigraph.NamedNode("http://x/" + t))
BLANKS = st.sampled_from(["a", "b1", "x-y", "c.d"]).map(pyoxigraph.BlankNode)
LITERALS = st.one_of(
    LEXICAL.map(pyoxigraph.Literal),
    st.builds(lambda t, lang: pyoxigraph.Literal(t, language=lang), LEXICAL, st.sampled_from(["en", "de-at"])),
    st.builds(lambda t, kind: pyoxigraph.Literal(t, datatype=kind), LEXICAL, IRIS),
)
DAMAGES = [b"", b" ", b'"', b"\\", b"<", b">", b".", b"\n", b"\xff", b"_", b"@", b"^"]
QUADS = st.builds(
    pyoxigraph.Quad,
    st.one_of(IRIS, BLANKS),
    IRIS,
    st.one_of(IRIS, BLANKS, LITERALS),
    st.one_of(IRIS, BLANKS, st.just(pyoxigraph.DefaultGraph())),
)


@seed(20240131)
@settings(max_examples=300, deadline=None, database=None)
@given(st.lists(QUADS, max_size=6), st.booleans())
def test_what_pyoxigraph_writes_is_what_we_read(written: list[pyoxigraph.Quad], spell_out: bool) -> None:
    data = pyoxigraph.serialize(written, format=pyoxigraph.RdfFormat.N_QUADS)
    assert data is not None
    if spell_out:  # each character beyond ASCII as an escape
        data = "".join(c if ord(c) < 128 else f"\\U{ord(c):08X}" for c in data.decode()).encode()
    expected = [(text(q.subject), text(q.predicate), text(q.object), text(q.graph_name)) for q in written]
    assert quads(parse_rdf(data, NQ, "")) == expected


@seed(20240131)
@settings(max_examples=300, deadline=None, database=None)
@given(st.lists(QUADS, min_size=1, max_size=3), st.floats(0, 1, exclude_max=True), st.sampled_from(DAMAGES))
def test_what_is_damaged_is_read_as_by_pyoxigraph_or_refused(
    written: list[pyoxigraph.Quad], where: float, damage: bytes
) -> None:
    """Never an exception of another kind, and nothing accepted that pyoxigraph reads differently."""
    data = pyoxigraph.serialize(written, format=pyoxigraph.RdfFormat.N_QUADS)
    assert data is not None
    at = int(where * len(data))
    damaged = data[:at] + damage + data[at + 1 :]
    try:
        found = quads(parse_rdf(damaged, NQ, ""))
    except BadData as error:
        assert error.line > 0
        return
    try:
        expected = oracle(damaged, pyoxigraph.RdfFormat.N_QUADS)
    except SyntaxError:
        return  # it checks IRIs and language tags more closely
    assert found == expected


@pytest.mark.parametrize(
    ("data", "line", "column", "says"),
    [
        (b'<a:b> <c:d> "\\q" .', 1, 14, "\\q is not an escape"),
        (b'<a:b> <c:d> "ok" .\n<a:b> <c:d> "\\q" .', 2, 14, "\\q is not an escape"),
        (b'<a:b> <c:d> "\\uD800" .', 1, 14, "\\uD800 is not an escape"),
        (b'<a:b> <c:d> "\\u12" .', 1, 14, "\\u is not an escape"),
        (b"<a:b> <c:d> <e:f>", 1, 18, "expected '.' to end the statement, found the end of the line"),
        (b"<a:b> <c:d> <e:f> <g:h> .", 1, 19, "expected '.'"),
        (b"<a:b> <c:d> .", 1, 13, "expected an object"),
        (b'"a" <c:d> <e:f> .', 1, 1, "a literal cannot be a subject"),
        (b"<a:b> _:p <e:f> .", 1, 7, "expected a predicate"),
        (b'<a:b> "p" <e:f> .', 1, 7, "expected a predicate"),
        (b"<a b> <c:d> <e:f> .", 1, 3, "' ' is not allowed in an IRI"),
        (b"<a:b> <c:d> <e:{> .", 1, 16, "'{' is not allowed in an IRI"),
        (b"<a:b> <c:d> <e:\\n> .", 1, 16, "is not allowed in an IRI"),
        (b"<a:b> <c:d> <e:\\u0020> .", 1, 13, "that is not allowed in an IRI"),
        (b"<a:b> <c:d> <e> .", 1, 13, "<e> is relative"),
        (b"<a:b> <c:d> <e:f .", 1, 13, "is not closed"),
        (b'<a:b> <c:d> "x .', 1, 13, "is not closed"),
        (b'<a:b> <c:d> "x\ny" .', 1, 13, "is not closed"),
        (b'<a:b> <c:d> "x"@ .', 1, 16, "a language tag"),
        (b'<a:b> <c:d> "x"^^ .', 1, 19, "expected an <IRI>"),
        (b'<a:b> <c:d> "x"^<e:f> .', 1, 16, "expected '.'"),
        (b"<a:b> <c:d> <e:f> . <a:b> <c:d> <e:f> .", 1, 21, "only one statement is allowed on a line"),
        (b"# x\r\n\r<a:b> <c:d> <e:f> . x", 3, 21, "only one statement is allowed on a line"),
        (b"<a:b> <c:d> <e:f> .\n # \xc3\xa9 \xff", 2, 6, "0xff is no UTF-8"),
        (b"hello", 1, 1, "expected a subject (an <IRI>, a blank node _:label), found 'h'"),
        (b"_: <c:d> <e:f> .", 1, 1, "a blank node is written _:label"),
        (b"<<a:b> <c:d> <e:f>> <c:d> 1 .", 1, 2, "is not allowed in an IRI"),
    ],
)  # fmt: skip
def test_where_and_what_is_wrong_in_n_triples(data: bytes, line: int, column: int, says: str) -> None:
    with pytest.raises(BadData) as caught:
        parse_rdf(data, NT, "")
    assert says in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


def test_what_is_wrong_is_found_quickly_in_long_texts() -> None:
    for data in (
        b'<a:b> <c:d> "' + b"a" * 1_000_000,
        b"<a:" + b"b" * 1_000_000,
        b" " * 1_000_000 + b"x",
        b"_:" + b"a." * 50_000,
    ):
        with pytest.raises(BadData):
            parse_rdf(data, NT, "")


# ---- other forms -------------------------------------------------------------------------------------------------

TURTLE = f"""@prefix : <http://ex/> . @base <sub/> .
:s :p 01, 1.0, true, "01"^^<{XSD}integer>, "x"@EN ; a <#t> . _:b :q [ :r (1 _:b) ] .""".encode()


def test_turtle_keeps_lexical_forms_and_resolves_against_the_base() -> None:
    found = quads(parse_rdf(TURTLE, TTL + "; charset=utf-8", BASE))
    objects = {o for s, _, o, _ in found if s == b"<http://ex/s>"}
    assert f'"01"{INTEGER}'.encode() in objects
    assert {b'"x"@en', b"<http://base/dir/sub/#t>"} <= objects
    assert len(found) == len(oracle(TURTLE, pyoxigraph.RdfFormat.TURTLE)) == 12


def test_trig_xml_and_json_ld() -> None:
    trig = b"<g> { <s> <p> 1 } <s> <p> 2 ."
    one, two = (f'"{n}"{INTEGER}'.encode() for n in (1, 2))
    s, p, g = (terms.iri(BASE + name) for name in "spg")
    assert quads(parse_rdf(trig, TRIG, BASE)) == [(s, p, one, g), (s, p, two, b"")]
    xml = b"""<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:b="http://base/dir/">
        <r:Description r:about="s"><b:p>x</b:p></r:Description></r:RDF>"""
    assert quads(parse_rdf(xml, XML, BASE)) == [(s, p, b'"x"', b"")]
    json_ld = {"@id": BASE + "s", BASE + "p": [{"@value": 1}]}
    assert quads(parse_rdf(json.dumps(json_ld).encode(), JSON_LD, BASE)) == [(s, p, one, b"")]


@pytest.mark.parametrize(
    ("data", "media_type", "line"),
    [
        (b"<a:b> <c:d>\n <e:f> ;; x", TTL, 2),
        (b"<a:b> {\n <e:f> }", TRIG, 2),
        (b'{"@id":\n\n x}', JSON_LD, 3),
        (b"<a", XML, 0),
        (b"<a> <b> <c> .", TTL, 1),
        (b'{"@context": "http://elsewhere/"}', JSON_LD, 0),
    ],
)
def test_what_is_wrong_in_other_forms_is_bad_data(data: bytes, media_type: str, line: int) -> None:
    with pytest.raises(BadData) as caught:
        parse_rdf(data, media_type, "")
    assert caught.value.line == line or not line


def test_a_context_of_another_place_is_not_fetched() -> None:
    document = b'{"@context": "http://schema.org/", "name": "x"}'
    for read in (lambda: parse_rdf(document, JSON_LD, ""), lambda: parse_push(document, JSON_LD, 1, BASE)):
        with pytest.raises(BadData, match="not fetched: write the context into the document"):
            read()


def test_media_types_that_are_not_read_are_distinguished_from_those_that_are() -> None:
    with pytest.raises(UnsupportedMedia, match=r"text/csv is not supported here; send one of .*text/turtle"):
        parse_rdf(b"", "text/csv", BASE)
    with pytest.raises(UnsupportedMedia, match="send UTF-8"):
        parse_rdf(b"", "text/turtle; charset=latin-1", BASE)
    with pytest.raises(UnsupportedMedia, match="application/x-ndjson"):
        parse_push(b"", "", None, BASE)
    with pytest.raises(UnsupportedMedia):
        parse_rdf(b"", NDJSON, BASE)
    for name, hint in (("application/x-www-form-urlencoded", "curl's default"), ("application/json", "JSON-LD is")):
        with pytest.raises(UnsupportedMedia, match=f"{name} .{hint}"):
            parse_rdf(b"", name, "")


# ---- pushes ------------------------------------------------------------------------------------------------------


def elements(pushed: Pushed) -> list[tuple[int, bytes, list[tuple[bytes, ...]]]]:
    """(time, graph, triples) of each element."""
    rows = quads(pushed.parsed)
    names = [*pushed.parsed.terms, b""]
    assert pushed.element.tolist() == sorted(pushed.element.tolist())
    return [
        (time, names[graph], [row for row, element in zip(rows, pushed.element.tolist(), strict=True) if element == i])
        for i, (time, graph) in enumerate(zip(pushed.time.tolist(), pushed.graph.tolist(), strict=True))
    ]


def test_a_body_of_triples_is_one_element() -> None:
    data = b"<a:s> <a:p> 1 . <a:s> <a:p> 2 ."
    ((time, graph, rows),) = elements(parse_push(data, TTL, 7, BASE))
    assert (time, graph, len(rows)) == (7, b"", 2)
    with pytest.raises(BadData, match="send a heartbeat"):
        parse_push(b"# nothing\n", NT, None, BASE)


def test_each_graph_is_an_element_in_order_of_first_appearance() -> None:
    data = b"<a:s> <a:p> <a:1> <a:g> .\n<a:s> <a:p> <a:2> .\n<a:s> <a:p> <a:3> <a:g> .\n<a:s> <a:p> <a:4> <a:f> .\n"
    found = elements(parse_push(data, NQ, None, BASE))
    assert [(time, graph, [row[2] for row in rows]) for time, graph, rows in found] == [
        (MISSING, b"<a:g>", [b"<a:1>", b"<a:3>"]),
        (MISSING, b"", [b"<a:2>"]),
        (MISSING, b"<a:f>", [b"<a:4>"]),
    ]


def lines(*objects: object) -> bytes:
    return b"\n".join(o if isinstance(o, bytes) else json.dumps(o).encode() for o in objects)


def test_each_line_of_ndjson_is_an_element() -> None:
    data = lines(
        {"timestamp": 5, "data": "<a:s> <a:p> <a:1> . <a:s> <a:p> <a:2> . # x\n<a:s> <a:p> <a:3> ."},
        b"",
        {"timestamp": "1970-01-01T00:00:00.006Z", "graph": "g", "data": '<a:s> <a:p> "\\n" .'},
        {"data": {"@id": "a:s", "a:p": {"@id": "a:4"}}},
        {"timestamp": None, "data": ""},
    )
    found = elements(parse_push(data + b"\r\n", NDJSON, 9, BASE))
    assert [(time, graph, [row[2:] for row in rows]) for time, graph, rows in found] == [
        (5, b"", [(b"<a:1>", b""), (b"<a:2>", b""), (b"<a:3>", b"")]),
        (6, b"<http://base/dir/g>", [(b'"\\n"', b"<http://base/dir/g>")]),
        (9, b"", [(b"<a:4>", b"")]),
        (9, b"", []),
    ]


def test_json_that_no_context_explains_is_not_taken_for_an_element_of_nothing() -> None:
    with pytest.raises(BadData, match=r"'temperature' is not an IRI, and no @context .*@vocab"):
        parse_push(b'{"temperature": 5}', JSON_LD, 1, BASE)
    for silent in ({}, [], {"@id": "a:s"}, {"p": None}, {"a:p": [None]}, {"@context": {"p": None}, "p": 5}):
        assert elements(parse_push(lines({"data": silent}), NDJSON, 1, BASE)) == [(1, b"", [])]
    explained = {"@context": {"@vocab": "a:"}, "@id": "a:s", "temperature": 5}
    assert len(elements(parse_push(lines({"data": explained}), NDJSON, 1, BASE))[0][2]) == 1


def test_a_graph_that_holds_nothing_is_still_a_graph() -> None:
    assert elements(parse_push(lines({"graph": "a:g", "data": ""}), NDJSON, None, BASE)) == [(MISSING, b"<a:g>", [])]


def test_labels_of_blank_nodes_end_with_their_line() -> None:
    line = {"data": "_:x <a:p> _:x . _:y <a:p> _:x ."}
    rows = [row for _, _, rows in elements(parse_push(lines(line, line), NDJSON, 1, BASE)) for row in rows]
    assert Counter(Counter(s for s, *_ in rows).values()) == {1: 4}
    assert rows[0][0] == rows[0][2] == rows[1][2] != rows[2][0]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"data": "<a:s> <a:p> <a:o>"}, "line 1, column 18: expected '.'"),
        ({"data": '<a:s> <a:p> "\\q" .'}, "\\q is not an escape"),
        ({"data": '<a:s> <a:p> "x\\" .'}, "is not closed"),
        ({"data": "<a:s> <a:p> <a:o> . rubbish"}, "line 1, column 21: expected a subject"),
        ({"data": "<a:s> <a:p> <a:o> .", "timestamp": "yesterday"}, "'yesterday' is not a time"),
        ({"data": "<a:s> <a:p> <a:o> .", "timestamp": 1.5}, "$.timestamp"),
        ({"data": "<a:s> <a:p> <a:o> .", "timestamp": True}, "$.timestamp"),
        ({"data": "<a:s> <a:p> <a:o> .", "timestamp": 2**63 - 1}, "out of range"),
        ({"data": "<a:s> <a:p> <a:o> .", "time": 1}, "unknown field `time`"),
        ({"data": "<a:s> <a:p> <a:o> .", "graph": "a b"}, "'a b' is not an IRI"),
        ({"timestamp": 1}, "required field `data`"),
        ({"data": 5}, "a string of N-Triples or a JSON-LD object"),
        ({"data": {"temperature": 5}}, "'temperature' is not an IRI, and no @context"),
        ({"data": [{"@id": "a:s"}, {"temperature": 5}]}, "'temperature' is not an IRI"),
        ({"data": {"@id": "a:s", "@graph": [{"@id": "a:x", "a:p": 1}]}, "graph": "a:g"}, "one graph"),
        (b'{"data": "\\ud800"}', "this is not an element"),
        (b'{"data": "', "this is not an element"),
        (b"[]", "this is not an element"),
        (b'{"data": "\xff"}', "this is not an element"),
    ],
)
def test_an_error_in_ndjson_names_its_line(line: object, says: str) -> None:
    with pytest.raises(BadData) as caught:
        parse_push(lines({"timestamp": 1, "data": ""}, b"", line), NDJSON, None, BASE)
    assert says in str(caught.value)
    assert caught.value.line == 3


def test_json_ld_may_name_the_graph_of_its_element() -> None:
    body = {"@id": "a:g", "@graph": [{"@id": "a:x", "a:p": {"@id": "a:y"}}]}
    for pushed in (
        parse_push(json.dumps(body).encode(), JSON_LD, 1, BASE),
        parse_push(lines({"timestamp": 1, "data": body}), NDJSON, None, BASE),
    ):
        assert elements(pushed) == [(1, b"<a:g>", [(b"<a:x>", b"<a:p>", b"<a:y>", b"<a:g>")])]


# ---- times -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        ("0", 0),
        ("-5", -5),
        ("1700000000000", 1_700_000_000_000),
        ("1970-01-01T00:00:00Z", 0),
        ("2024-02-29T12:30:45.678+01:30", 1_709_204_445_678),
        ("2024-02-29T12:30:45", 1_709_209_845_000),
        ("1969-12-31T24:00:00Z", 0),
        ("1969-12-31T23:59:59.9999Z", -1),
        ("0001-01-01T00:00:00Z", -62_135_596_800_000),
        ("0000-02-29T00:00:00Z", -62_162_121_600_000),
        ("12024-01-01T00:00:00-14:00", 317_273_587_200_000 + 50_400_000),
    ],
)
def test_times_are_milliseconds_since_1970(written: str, milliseconds: int) -> None:
    assert parse_time(written) == milliseconds


@pytest.mark.parametrize(
    "written",
    ["", "now", "1.5", "2024-01-01", "2024-1-1T00:00:00Z", "2023-02-29T00:00:00Z", "2024-01-01T25:00:00Z",
     "2024-01-01T24:00:01Z", "2024-01-01T00:60:00Z", "2024-01-01T00:00:00+15:00", "2024-01-01T00:00Z", "9" * 41],
)  # fmt: skip
def test_what_is_no_time_is_a_bad_argument(written: str) -> None:
    with pytest.raises(BadArgument, match="is not a time"):
        parse_time(written)


@pytest.mark.parametrize("written", ["999999999-01-01T00:00:00Z", "-999999999-01-01T00:00:00Z", "9" * 30])
def test_a_time_that_no_sum_may_overflow_is_refused(written: str) -> None:
    with pytest.raises(BadArgument, match="out of range"):
        parse_time(written)


# ---- what people read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "line", "column", "answered"),
    [
        ("<a:a> <a:b> <a:c>", 1, 18, "at least a '.' is missing"),
        ("<a:a> <a:b> <a:c>\n\n<a:a> <a:b> <a:d> .", 3, 1, "a '.' is missing at the end of the statement before this"),
        ('<a:a> <a:b> "é" <a:c> .', 1, 17, "a '.' is missing at the end of the statement before this"),
        ("<a:a> <a:b> 1 2 .", 1, 15, "is a '.', ';' or ',' missing before it?"),
        ("PREFIX e: <http://e/> .", 1, 23, "PREFIX and BASE have no '.' at the end"),
        ('<a:a> <a:b> "c .', 1, 13, "a string or an IRI is not closed"),
    ],
)
def test_what_turtle_lacks_is_named(data: str, line: int, column: int, answered: str) -> None:
    for longer in ("", "#" * 5000):  # that is parsed in another process
        with pytest.raises(BadData) as caught:
            parse_rdf((data + ("\n" + longer) * bool(longer)).encode(), TTL, BASE)
        assert answered in caught.value.message
        assert caught.value.line == line or longer
        assert caught.value.column == column or longer


def test_columns_of_json_are_characters() -> None:
    wrong = '{"é": "😀", "a:p": 1,}'
    for data, line in ((wrong, 1), ("{\r\n\n" + wrong[1:], 3), (wrong + " " * 5000, 1)):
        with pytest.raises(BadData) as caught:
            parse_rdf(data.encode(), JSON_LD, BASE)
        assert (caught.value.line, caught.value.column) == (line, wrong.index("}") + (line == 1))
    element = '{"data": "é", "timestamp": 1,}'
    with pytest.raises(BadData) as caught:
        parse_push(f'{{"data": ""}}\n{element}'.encode(), NDJSON, 1, BASE)
    assert (caught.value.line, caught.value.column) == (2, element.index("}") + 1)
    assert "byte" not in caught.value.message
