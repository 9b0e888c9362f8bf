"""The store of a running Rillet server, for an rdflib Graph: `graph.open("http://localhost:8000")`.

Reads are SELECTs to /sparql. Changes are collected until the next read or commit, and sent to /update as one request:
one snapshot. Changes that are too long for one text are sent in several requests, insertions to /data; then each
request makes a snapshot of its own.

rdflib's own client (SPARQLStore) is not used: it treats an empty string as a wildcard, changes the spelling of
numbers, and does not show the error messages of the server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import httpx
from rdflib import BNode, Graph, Variable
from rdflib.query import Result
from rdflib.term import Node

from plugin.backend import Quad, TriplePattern
from plugin.bindings import BoundDataset
from plugin.sparql import SparqlRequest, places_as_written
from plugin.terms import Labels, to_bytes, to_node
from stream_ext.errors import BadArgument, RilletError
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.statements import Unit, Update
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.printing import to_canonical
from stream_ext.language.syntax import parse
from stream_ext.rdf import parse_rdf

#: The default time limit of a query on a server, and some time for the network.
_TIMEOUT_S = 330.0
#: A text may have 1,048,576 characters, a body 64 MiB.
_TEXT_CHARACTERS, _BODY_BYTES = 1_000_000, 16 << 20
#: Labels of blank nodes in the server's answers.
_ITS_LABEL = re.compile(r"b[0-9]+")


class Server:
    def __init__(self, url: str) -> None:
        address, token = _address(url)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._base = address + "/"
        self._http = httpx.Client(base_url=address, headers=headers, timeout=_TIMEOUT_S)
        self._labels = Labels()
        self.namespaces: dict[str, str] = {}
        self.graphs: dict[Node, None] = {}
        self._pending: list[tuple[str, Quad | str]] = []  # INSERT and DELETE of a quad, and whole operations
        self._sent: set[BNode] = set()
        try:
            pong = self._http.get("/$/ping")
        except httpx.TransportError as error:
            self._http.close()
            raise RilletError(f"no server answers at {address} ({error})") from None
        if pong.text.strip() != "pong":
            self._http.close()
            raise BadArgument(
                f"the server at {address} is not a Rillet server; for another SPARQL endpoint use rdflib's own client: "
                'Graph("SPARQLUpdateStore"), opened with (query URL, update URL)'
            )

    def close(self) -> None:
        self._http.close()

    # ---- changes ------------------------------------------------------------------------------------------------

    def change(self, quads: Iterable[Quad], inserted: bool) -> None:
        quads = list(quads)
        for quad in quads:
            self._check(quad, inserted)
        self._pending += [("INSERT" if inserted else "DELETE", quad) for quad in quads]

    def _check(self, quad: Quad, inserted: bool) -> None:
        if isinstance(quad[3], BNode):
            raise BadArgument(f"{quad[3].n3()}: the name of a graph on a server must be an IRI")
        for node in quad:
            if not isinstance(node, BNode):
                continue
            if not inserted or node in self._sent or _ITS_LABEL.fullmatch(node):
                raise BadArgument(
                    f"{node.n3()}: a request cannot refer to a blank node that is already on the server. Add all "
                    "triples of the node in one request, and change them by a pattern (graph.update(...))"
                )

    def remove(self, pattern: TriplePattern, graph: Node | None, everywhere: bool) -> None:
        if None not in pattern and not everywhere:
            self.change([(*pattern, graph)], False)  # type: ignore[list-item]  # no wildcard in it
            return
        if any(isinstance(node, BNode) for node in pattern):
            self._check((*pattern, graph), False)  # type: ignore[arg-type]  # it only looks for blank nodes
        for place in (None, Variable("g")) if everywhere else (graph,):
            self._pending.append(("WHERE", f"DELETE WHERE {{ {_in(place, _triple(pattern))} }}"))

    def commit(self) -> None:
        pending, self._pending = self._pending, []
        if not pending:
            return
        operations = [_operation(verb, [what for _, what in group]) for verb, group in groupby(pending, lambda x: x[0])]
        try:
            if sum(map(len, operations)) <= _TEXT_CHARACTERS:
                self._post("/update", " ;\n".join(operations).encode(), "application/sparql-update")
            else:
                self._send_in_pieces(pending)
        except BaseException:
            self._pending = pending
            raise
        quads = (what for verb, what in pending if verb == "INSERT")
        self._sent.update(node for quad in quads for node in quad if isinstance(node, BNode))

    def _send_in_pieces(self, pending: Sequence[tuple[str, Quad | str]]) -> None:
        """Consecutive insertions are one body, as insertions that share a blank node must be in one request."""
        for verb, group in groupby(pending, lambda one: one[0]):
            items: Any = [what for _, what in group]
            if verb == "INSERT":
                lines = [b" ".join(_nt(node) for node in quad if node is not None) + b" .\n" for quad in items]
                if len(items) > 1 and sum(map(len, lines)) > _BODY_BYTES and any(map(_has_blank, items)):
                    raise BadArgument(
                        "the triples with blank nodes do not fit into one request: commit after each part"
                    )
                for piece in _pieces(lines, _BODY_BYTES):
                    self._post("/data", b"".join(piece), "application/n-quads")
            else:
                texts = [_operation(verb, [one]) for one in items]
                for piece in _pieces(texts, _TEXT_CHARACTERS):
                    self._post("/update", " ;\n".join(piece).encode(), "application/sparql-update")

    def rollback(self) -> None:
        """Drops the changes that were not sent yet; a read sends them."""
        self._pending.clear()

    # ---- reading ------------------------------------------------------------------------------------------------

    def quads(self, patterns: Sequence[TriplePattern], graph: Node | None, everywhere: bool) -> Iterator[Quad]:
        self.commit()
        snapshot: str | None = None
        for pattern in patterns:
            # A request cannot name a blank node of the server; but its label is the same in every answer.
            s, p, o = (None if isinstance(node, BNode) else node for node in pattern)
            constants = (s, p, o)
            variables = [name for name, node in zip("spo", constants, strict=True) if node is None]
            blank = [f"ISBLANK(?{k})" for k, node in zip("spo", pattern, strict=True) if isinstance(node, BNode)]
            triple = _triple(constants) + (f" FILTER({' && '.join(blank)})" if blank else "")
            wanted = " ".join(f"?{name}" for name in (*variables, *("g" * everywhere)))
            where = f"{{ {triple} }} UNION {{ GRAPH ?g {{ {triple} }} }}" if everywhere else _in(graph, triple)
            names, rows, snapshot = self._select(f"SELECT {wanted or '*'} {{ {where} }}", snapshot)
            for row in rows:
                found = dict(zip(names, row, strict=True))
                quad = [found[k] if node is None else node for k, node in zip("spo", constants, strict=True)]
                if all(node is None or node == there for node, there in zip(pattern, quad, strict=True)):
                    yield *quad, found.get("g") if everywhere else graph  # type: ignore[misc]  # all three are bound

    def count(self, graph: Node | None, everywhere: bool) -> int:
        self.commit()
        if everywhere:
            where = "SELECT DISTINCT ?s ?p ?o { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"
        else:
            where = _in(graph, "?s ?p ?o")
        _, rows, _ = self._select(f"SELECT (COUNT(*) AS ?n) {{ {where} }}")
        return int(str(next(rows)[0]))

    def graphs_with(self, pattern: TriplePattern) -> list[Node | None]:
        self.commit()
        if any(isinstance(node, BNode) for node in pattern):
            return list(dict.fromkeys(quad[3] for quad in self.quads([pattern], None, everywhere=True)))
        triple = _triple(pattern)
        _, rows, snapshot = self._select(f"SELECT DISTINCT ?g {{ GRAPH ?g {{ {triple} }} }}")
        named = [row[0] for row in rows]
        _, some, _ = self._select(f"SELECT * {{ {triple} }} LIMIT 1", snapshot)
        return [*([None] if any(True for _ in some) else []), *named]

    def is_graph(self, name: BNode) -> bool:
        return name in self.graphs

    # ---- SPARQL -------------------------------------------------------------------------------------------------

    def query(self, request: SparqlRequest) -> Result:
        self.commit()
        text, unit = self._text(request)
        form = unit.form if isinstance(unit, Query) else Form.SELECT
        result = Result(form.value)
        if form in (Form.CONSTRUCT, Form.DESCRIBE):
            result.graph = self._graph(text, request)
        elif form is Form.ASK:
            result.askAnswer = self._ask(text, "application/sparql-results+json").json()["boolean"]
        else:
            names, rows, _ = self._select(text)
            result.vars = [Variable(name) for name in names]
            result.bindings = [self._bound(result.vars, row) for row in rows]
        return result

    def _bound(self, variables: Sequence[Variable], row: Sequence[Node | None]) -> dict[Variable, Any]:
        return {variable: node for variable, node in zip(variables, row, strict=True) if node is not None}

    def update(self, request: SparqlRequest) -> None:
        self.commit()
        self._post("/update", self._text(request)[0].encode(), "application/sparql-update")

    def _text(self, request: SparqlRequest) -> tuple[str, Unit]:
        """The text to send, with the bindings and the graph of the request written into it; and its unit without
        them."""
        head, text = request.head_and_text()
        if request.union:
            raise BadArgument(
                "default_union=True does not work with a server: use GRAPH ?g { ... }, or name graphs by FROM"
            )
        nodes = [*request.bindings.values(), *([request.graph] if request.graph is not None else [])]
        if any(isinstance(node, BNode) for node in nodes):
            raise BadArgument("a blank node cannot be sent to a server: bind IRIs or literals, and name graphs by IRIs")
        bindings = {str(Variable(name)): Constant(to_bytes(node)) for name, node in request.bindings.items()}
        with places_as_written(head, text):
            unit = parse(head + text, self._base)
        if not bindings and request.graph is None:
            return head + text, unit
        graph = None if request.graph is None else Constant(to_bytes(request.graph))
        changed = BoundDataset(bindings, graph, False, self._graph_names).over(unit)
        return (to_canonical(changed) if isinstance(changed, Query | Update) else head + text), unit

    def _graph_names(self) -> list[Constant]:
        _, rows, _ = self._select("SELECT DISTINCT ?g { GRAPH ?g { } }")
        return [Constant(to_bytes(row[0])) for row in rows if row[0] is not None and not isinstance(row[0], BNode)]

    def _graph(self, text: str, request: SparqlRequest) -> Graph:
        graph = Graph()
        for prefix, namespace in request.namespaces.items():
            graph.bind(prefix, namespace)
        body = self._ask(text, "application/n-triples").content
        parsed = parse_rdf(body, "application/n-triples", self._base)
        nodes = [self._node(term) for term in parsed.terms]
        for s, p, o in zip(parsed.s.tolist(), parsed.p.tolist(), parsed.o.tolist(), strict=True):
            graph.add((nodes[s], nodes[p], nodes[o]))
        return graph

    # ---- requests -----------------------------------------------------------------------------------------------

    def _select(self, text: str, snapshot: str | None = None) -> tuple[list[str], Iterator[list[Node | None]], str]:
        """The names, the rows, and the snapshot of the answer."""
        answer = self._ask(text, "text/tab-separated-values", snapshot)
        head, *lines = answer.text.removesuffix("\n").split("\n")
        names = [name.removeprefix("?") for name in head.split("\t")] if head else []
        cells: dict[str, Node | None] = {"": None}
        return names, (self._row(line, names, cells) for line in lines), answer.headers["rillet-snapshot"]

    def _row(self, line: str, names: Sequence[str], cells: dict[str, Node | None]) -> list[Node | None]:
        row = line.split("\t") if names else []
        for cell in row:
            if cell not in cells:
                cells[cell] = self._node(cell.encode())
        return [cells[cell] for cell in row]

    def _node(self, text: bytes) -> Node:
        if text.startswith(b"_:") and not _ITS_LABEL.fullmatch(text[2:].decode()):
            return BNode(text[2:].decode())
        return to_node(text, self._labels)

    def _ask(self, text: str, accept: str, snapshot: str | None = None) -> httpx.Response:
        parameters = {} if snapshot is None else {"snapshot": snapshot}
        return self._post("/sparql", text.encode(), "application/sparql-query", accept, parameters)

    def _post(
        self, path: str, body: bytes, media_type: str, accept: str = "*/*", parameters: dict[str, str] | None = None
    ) -> httpx.Response:
        headers = {"content-type": media_type, "accept": accept}
        try:
            answer = self._http.post(path, content=body, headers=headers, params=parameters or {})
        except httpx.TransportError as error:
            raise RilletError(f"{self._base}: the server did not answer ({error})") from None
        if answer.is_error:
            hint = " (give it as http://:TOKEN@host:port, or in RILLET_TOKEN)" if answer.status_code == 401 else ""
            kind = RilletError if answer.is_server_error else BadArgument
            raise kind(f"{self._base} answered {answer.status_code}: {answer.text.strip()}{hint}")
        return answer


def _address(url: str) -> tuple[str, str | None]:
    """The server's address, and the token, which the URL has as its password."""
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise BadArgument(f"{url!r} is not the address of a server: write http://localhost:8000")
    path = parts.path.rstrip("/").removesuffix("/sparql")
    name = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{path}"
    return address, parts.password or os.environ.get("RILLET_TOKEN")


def _nt(node: Node) -> bytes:
    return f"_:{node}".encode() if isinstance(node, BNode) else to_bytes(node)


def _triple(pattern: TriplePattern) -> str:
    parts = (f"?{name}" if node is None else _nt(node).decode() for name, node in zip("spo", pattern, strict=True))
    return " ".join(parts)


def _in(graph: Node | None, triple: str) -> str:
    if graph is None:
        return triple
    place = graph.n3() if isinstance(graph, Variable) else _nt(graph).decode()
    return f"GRAPH {place} {{ {triple} }}"


def _operation(verb: str, items: Sequence[Quad | str]) -> str:
    if verb == "WHERE":
        return " ;\n".join(map(str, items))
    quads = (_in(quad[3], _triple(quad[:3])) + ("" if quad[3] is not None else " .") for quad in items if quad)  # type: ignore[arg-type]  # no text here
    return f"{verb} DATA {{\n" + "\n".join(quads) + "\n}"


def _has_blank(quad: Quad) -> bool:
    return any(isinstance(node, BNode) for node in quad)


def _pieces(texts: Sequence[Any], most: int) -> Iterator[list[Any]]:
    piece: list[Any] = []
    size = 0
    for text in texts:
        if piece and size + len(text) > most:
            yield piece
            piece, size = [], 0
        piece.append(text)
        size += len(text)
    if piece:
        yield piece
