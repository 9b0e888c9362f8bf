"""The interface as an OpenAPI document: every path of the table of routes, with its methods, parameters and answers.

The page /docs shows it. FastAPI cannot generate it, as these routes are answered before FastAPI sees them; a test
compares it with the table of routes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from endpoint.formats import graph_results, results
from endpoint.formats.description import OFFERS as DESCRIPTIONS
from endpoint.http import multipart
from stream_ext.rdf.documents import DOCUMENT_TYPES
from stream_ext.rdf.pushes import PUSH_TYPES

JSON, TEXT, SSE, LINES = "application/json", "text/plain", "text/event-stream", "application/x-ndjson"
FORM = "application/x-www-form-urlencoded"
QUERY, UPDATE = "application/sparql-query", "application/sparql-update"

_RESULTS = tuple(offer.media_type for offer in results.OFFERS)
_GRAPHS = tuple(dict.fromkeys(offer.media_type for offer in (*graph_results.TRIPLES, *graph_results.QUADS)))
_ANSWERS = tuple(dict.fromkeys((*_RESULTS, *_GRAPHS, *(offer.media_type for offer in DESCRIPTIONS), "text/html", SSE)))

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "integer", "minimum": 0}
_FLAG: Schema = {"type": "boolean", "default": False}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_TIME: Schema = {"type": "string", "description": "milliseconds since 1970, or an xsd:dateTime"}
_DURATION: Schema = {"type": "string", "example": "30s"}
_ENGINE: Schema = {"type": "string", "enum": ["inline", "spark"], "default": "inline"}
_EXPLAIN: Schema = {"type": "string", "enum": ["false", "true", "analyze"], "default": "false"}
_WAIT: Schema = {"type": "string", "enum": ["published", "evaluated"], "default": "published"}

#: name -> (schema, description)
_PARAMETERS: dict[str, tuple[Schema, str]] = {
    "query": (_TEXT, "the text: a query, an update, or a statement of the language for streams"),
    "update": (_TEXT, "the same as query: the text decides what the request does"),
    "snapshot": (_NUMBER, "query this snapshot instead of the latest one"),
    "at": (_TIME, "evaluate a query with windows at this time"),
    "timeout": (_DURATION, "the longest that the query may take"),
    "engine": (_ENGINE, "spark: evaluate a query with groups or DISTINCT by tasks of Spark"),
    "explain": (_EXPLAIN, "true: explain the text, and do not run it; analyze: run it, and measure each operator"),
    "replace": (_FLAG, "drop a query of this name with another text, in the same snapshot"),
    "wait": (_WAIT, "respond when the change is readable, or when registered queries have evaluated it"),
    "default-graph-uri": (_TEXTS, "graphs that form the default graph of the query"),
    "named-graph-uri": (_TEXTS, "named graphs of the query"),
    "using-graph-uri": (_TEXTS, "graphs that form the default graph of the patterns of an update"),
    "using-named-graph-uri": (_TEXTS, "named graphs of the patterns of an update"),
    "default": ({"type": "string", "maxLength": 0}, "the default graph; the parameter has no value"),
    "graph": ({"type": "string", "format": "iri"}, "the named graph with this absolute IRI"),
    "timestamp": (_TIME, "the time of elements that have none; for a heartbeat: the new time of the stream"),
    "source": (_TEXT, "a name for the sender; requires seq"),
    "seq": (
        _NUMBER,
        "the number of this push; a push whose number is not greater than the last one of its source adds nothing",
    ),
    "since": (_NUMBER, "after this number"),
    "until": (_NUMBER, "up to this number"),
    "limit": (_NUMBER, "at most this number of entries"),
    "emission": (_NUMBER, "only this emission, computed again at its snapshot"),
    "status": (_FLAG, "the status of each query, too"),
    "follow": (_FLAG, "keep the response open and send new emissions"),
    "go-on": (_FLAG, "skip invalid lines"),
    "path": (_TEXT, "the path of the file, to recognise it in later loads; requires size"),
    "size": (_NUMBER, "the size of the file in bytes"),
    "modified": (_NUMBER, "the modification time of the file in nanoseconds since 1970"),
    "digest": (_TEXT, "SHA-256 of the file"),
    "part": (_TEXT, "which part of another triple store it is"),
    "action": ({"type": "string", "enum": ["pause", "resume", "move"]}, "what to do with the query"),
    "runner": ({"type": "string", "enum": ["inline", "spark"]}, "the new runner, with action=move"),
}
_WAIT_FOR_NEWS = {"wait": (_DURATION, "how long an empty response waits for an emission")}


@dataclass(frozen=True, slots=True)
class Operation:
    summary: str
    takes: str = ""  # names of parameters
    body: Sequence[str] = ()  # media types; the body is needed unless "" is one of them
    gives: Sequence[str] = ()
    status: int = 200
    also: Sequence[int] = ()  # other statuses of success, and its own errors
    tag: str = "SPARQL"
    writes: bool = False


_ASK = "query update snapshot at timeout engine explain default-graph-uri named-graph-uri"
_SPARQL = {
    "GET": Operation(
        "Run a query. Without a text: the service description. A browser gets the query page",
        _ASK,
        (),
        _ANSWERS,
        also=(404, 410, 502),
    ),
    "POST": Operation(
        "Run a query or an update, register a query, create or drop a stream",
        _ASK + " wait using-graph-uri using-named-graph-uri",
        (QUERY, UPDATE, FORM),
        _ANSWERS,
        also=(202, 204, 409, 410, 502),
        writes=True,
    ),
}


def _graph_store(of: str) -> dict[str, Operation]:
    tag, named = "Graph Store", "" if "path" in of else "default graph "
    body = (*DOCUMENT_TYPES, multipart.TYPE)
    return {
        "GET": Operation(f"Read {of}", named + "snapshot", (), _GRAPHS, also=(404, 410), tag=tag),
        "PUT": Operation(f"Replace {of}", named + "wait", body, (), 204, (201, 202), tag, True),
        "POST": Operation(f"Add to {of}", named + "wait", body, (), 204, (201, 202), tag, True),
        "DELETE": Operation(f"Drop {of}", named + "wait", (), (), 204, (202, 404), tag, True),
    }


_OF_STREAMS: dict[str, dict[str, Operation]] = {
    "/streams": {"GET": Operation("List the streams", gives=(JSON,), tag="Streams")},
    "/streams/{stream}": {
        "PUT": Operation("Create a stream", "", (JSON, ""), (JSON,), 201, (200, 409), "Streams", True),
        "PATCH": Operation("Change a stream's options", "", (JSON,), (JSON,), 200, (404, 409), "Streams", True),
        "POST": Operation(
            "Push elements", "timestamp wait source seq", PUSH_TYPES, (JSON,), 202, (404, 429), "Streams", True
        ),
        "GET": Operation("Describe a stream", gives=(JSON,), also=(404,), tag="Streams"),
        "DELETE": Operation("Drop a stream", "", (), (), 204, (404, 409), "Streams", True),
    },
    "/streams/{stream}/heartbeat": {
        "POST": Operation("Advance the time of a stream", "timestamp wait", (), (JSON,), 202, (404,), "Streams", True)
    },
    "/streams/{stream}/late": {
        "GET": Operation("List the late elements of a stream", "since limit", (), (JSON,), also=(404,), tag="Streams")
    },
}
_RANGE = "since until limit follow wait emission"
_OF_QUERIES: dict[str, dict[str, Operation]] = {
    "/queries": {
        "GET": Operation("List the registered queries", "status", gives=(JSON,), tag="Queries"),
        "POST": Operation("Register a query", "replace", (QUERY, FORM), (JSON,), 201, (200, 409), "Queries", True),
    },
    "/queries/{query}": {
        "PUT": Operation(
            "Register a query by name", "replace", (QUERY, FORM), (JSON,), 201, (200, 409), "Queries", True
        ),
        "POST": Operation("Pause, resume or move a query", "action runner", (), (JSON,), 200, (404,), "Queries", True),
        "GET": Operation("The status of a query", gives=(JSON,), also=(404,), tag="Queries"),
        "DELETE": Operation("Drop a query", "", (), (), 204, (404,), "Queries", True),
    },
    "/queries/{query}/operators": {
        "GET": Operation("What the operators of a query do", gives=(JSON,), also=(404,), tag="Queries")
    },
    "/queries/{query}/results": {
        method: Operation(
            "The latest result, or the emissions",
            _RANGE,
            (),
            (*_RESULTS, *_GRAPHS, SSE),
            also=(404, 410),
            tag="Queries",
        )
        for method in ("GET", "POST")
    },
}
_METRICS = "text/plain; version=0.0.4"
_OF_OPERATION: dict[str, dict[str, Operation]] = {
    "/$/ping": {"GET": Operation("Liveness check", gives=(TEXT,), tag="Operation")},
    "/$/ready": {"GET": Operation("Readiness check", gives=(TEXT,), also=(503,), tag="Operation")},
    "/$/queries": {"GET": Operation("List the running queries and updates of /sparql", gives=(JSON,), tag="Operation")},
    "/$/subscribers": {
        "GET": Operation("List who reads emissions", "query", (), (JSON,), also=(404,), tag="Operation", writes=True)
    },
    "/$/queries/{query}": {
        "DELETE": Operation("Cancel a query or update", status=204, also=(404,), tag="Operation", writes=True)
    },
    "/sources": {"GET": Operation("List the attached stores", gives=(JSON,), tag="Sources")},
    "/sources/{source}": {"GET": Operation("The status of an attached store", gives=(JSON,), tag="Sources")},
    "/sources/{source}/refresh": {
        "POST": Operation(
            "Fetch what is held of an attached store anew", "wait", (), (JSON,), 202, (404, 502), "Sources", True
        )
    },
    "/$/metrics": {"GET": Operation("Metrics for Prometheus", gives=(_METRICS,), tag="Operation")},
    "/$/stats": {"GET": Operation("The status of the server", gives=(JSON,), tag="Operation")},
    "/$/heads": {"GET": Operation("New snapshots, for servers of the same store", gives=(TEXT,), tag="Operation")},
    "/$/loads": {
        "GET": Operation("List the loaded files", gives=(JSON,), tag="Operation"),
        "POST": Operation(
            "Load lines of N-Triples or N-Quads as one snapshot",
            "graph go-on path size modified digest part",
            DOCUMENT_TYPES[:2],
            (JSON,),
            tag="Operation",
            writes=True,
        ),
    },
    "/$/assets/{asset}": {
        "GET": Operation(
            "A script or style sheet of the page /docs", gives=("text/javascript", "text/css"), tag="Operation"
        )
    },
}
OPERATIONS: dict[str, dict[str, Operation]] = {
    **dict.fromkeys(("/sparql", "/query", "/update"), _SPARQL),
    "/data": _graph_store("a graph"),
    "/data/{path...}": _graph_store("the graph that is named by this path"),
    **_OF_STREAMS,
    **_OF_QUERIES,
    **_OF_OPERATION,
}

_STATUS_MEANINGS = {
    200: "the result",
    201: "created; Location is the address",
    202: "the change is durable and readable; if evaluations were waited for and are not done, the body says so",
    204: "done",
    400: "the request or the text is not valid; the error says what is wrong, where, and what to do",
    401: "a token is missing or wrong",
    403: "the host is not a name of this server, or a web page of another origin tries to write",
    404: "not found",
    406: "Accept names no media type that this route can write",
    409: "the name is in use, or something still reads it",
    410: "the snapshot or emission is no longer retained",
    413: "a body, a text or a result exceeds its limit",
    415: "the server does not read this Content-Type",
    429: "too much is waiting; send the request again after the seconds in Retry-After",
    502: "an endpoint that the query reads by SERVICE did not answer",
    503: "the request took too long, or the server is shutting down",
}


def document(title: str, description: str, version: str, root: str) -> dict[str, Any]:
    """The OpenAPI description of all routes. `root`: the address of the server."""
    paths: dict[str, dict[str, Any]] = {}
    for path, methods in OPERATIONS.items():
        shown = path.replace("...}", "}")
        paths[shown] = {method.lower(): _operation(path, method, found) for method, found in methods.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "description": description, "version": version},
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "basic": {"type": "http", "scheme": "basic", "description": "the token as the password"},
            },
        },
    }


_PROBLEM: Schema = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": _TEXT,
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "line": {"type": "integer"},
        "column": {"type": "integer"},
    },
}


def _operation(path: str, method: str, found: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": found.summary,
        "tags": [found.tag],
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{path}".replace("$", "server")).strip("_"),
        "parameters": _parameters(path, found),
        "responses": _responses(found),
    }
    if found.body:
        content = {media_type: _content(media_type) for media_type in found.body if media_type}
        described["requestBody"] = {"required": "" not in found.body, "content": content}
    if found.writes:
        described["security"] = [{}, {"bearer": []}, {"basic": []}]
    return described


def _parameters(path: str, found: Operation) -> list[dict[str, Any]]:
    named = re.findall(r"{(\w+)", path)
    in_path = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in named]
    special = _WAIT_FOR_NEWS if path.endswith("/results") else {}
    in_query: list[dict[str, Any]] = []
    for name in found.takes.split():
        schema, meaning = special.get(name) or _PARAMETERS[name]
        empty = {"allowEmptyValue": True} if name == "default" else {}
        in_query.append({"name": name, "in": "query", "description": meaning, "schema": schema, **empty})
    return in_path + in_query


def _responses(found: Operation) -> dict[str, Any]:
    errors = {400, 401, 403, 503, *((406,) if found.gives else ()), *((413, 415) if found.body else ())}
    errors.add(429)
    responses: dict[str, Any] = {}
    for status in sorted({found.status, *found.also, *errors}):
        content = {TEXT: {"schema": _TEXT}, "application/problem+json": {"schema": _PROBLEM_REF}}
        if status < 300:
            content = {each: _content(each) for each in found.gives} if status != 204 else {}
        responses[str(status)] = {"description": _STATUS_MEANINGS[status], **({"content": content} if content else {})}
        if status < 300:
            responses[str(status)]["headers"] = {"Rillet-Snapshot": {"schema": _NUMBER}}
    return responses


_PROBLEM_REF = {"$ref": "#/components/schemas/Problem"}


def _content(media_type: str) -> dict[str, Any]:
    if media_type == FORM:
        fields = {name: _PARAMETERS[name][0] for name in ("query", "update")}
        return {"schema": {"type": "object", "properties": fields}}
    if media_type == multipart.TYPE:
        files = {"type": "array", "items": {"type": "string", "format": "binary"}}
        return {"schema": {"type": "object", "properties": {"file": files}}}
    return {"schema": {"type": "object"} if media_type == JSON else _TEXT}
