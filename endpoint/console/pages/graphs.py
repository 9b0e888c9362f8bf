"""Graphs: list them, drop one, upload RDF into one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from werkzeug.datastructures import FileStorage

from endpoint.console.display import number, shown
from endpoint.console.room import Room
from endpoint.errors import describe
from endpoint.http.body import unpack
from hbase_store.errors import StoreError
from hbase_store.layout.terms import parse_term
from stream_ext.errors import BadArgument, BadData, RilletError
from stream_ext.rdf import Parsed
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.writer.graph_store import Document, GraphWriteOutcome

#: Media types by the suffix of the file name.
MEDIA_TYPES = {
    ".nt": "application/n-triples",
    ".nq": "application/n-quads",
    ".ttl": "text/turtle",
    ".trig": "application/trig",
    ".rdf": "application/rdf+xml",
    ".owl": "application/rdf+xml",
    ".xml": "application/rdf+xml",
    ".jsonld": "application/ld+json",
    ".json": "application/ld+json",
}
FORMATS = {
    "text/turtle": "Turtle",
    "application/n-triples": "N-Triples",
    "application/rdf+xml": "RDF/XML",
    "application/ld+json": "JSON-LD",
    "application/trig": "TriG",
    "application/n-quads": "N-Quads",
}


@dataclass(frozen=True, slots=True)
class FileDocument(Document):
    """A document whose errors say which file they are in."""

    name: str

    def parsed(self, reading: ReadingBudget | None = None) -> Parsed:
        try:
            return Document.parsed(self, reading)
        except BadData as error:
            raise BadData(f"{error.message} (in the file {self.name})", error.line, error.column) from error


@dataclass(frozen=True, slots=True)
class Upload:
    """The fields of the upload form."""

    files: list[FileStorage]
    text: str
    media_type: str  # "": by the file name
    into: str  # default, named, own
    graph: str
    replace: bool

    @classmethod
    def read(cls) -> Upload:
        form = request.form
        return cls(
            [file for file in request.files.getlist("file") if file.filename],
            form.get("text", ""),
            form.get("type", ""),
            form.get("into", "default"),
            form.get("graph", "").strip(),
            "replace" in form,
        )

    def documents(self, room: Room) -> list[Document]:
        if not self.files and not self.text.strip():
            raise BadArgument("choose a file, or write some RDF")
        if self.files:
            return [self._document(file, room) for file in self.files]
        if not self.media_type:
            raise BadArgument("choose the format of the RDF")
        return [Document(self.text.encode(), self.media_type, room.service.base)]

    def _document(self, file: FileStorage, room: Room) -> Document:
        name, data = PurePath(file.filename or ""), file.read()
        if name.suffix == ".gz":
            name, data = name.with_suffix(""), unpack(data, "gzip", room.limits.inflated_bytes)
        media_type = self.media_type or MEDIA_TYPES.get(name.suffix.lower())
        if media_type is None:
            raise BadArgument(f"the name {name.name} has no known file extension; choose the format of the file")
        return FileDocument(data, media_type, room.service.base, name.name)

    def write(self, room: Room) -> int:
        """Writes the upload; returns the snapshot that has it."""
        documents = self.documents(room)
        if self.into == "own":
            if self.replace:
                raise BadArgument(
                    "only a named graph or the default graph can be replaced; name one, or add the triples instead"
                )
            return _written(room, partial(room.service.add_quads, documents))
        if self.into == "named" and not self.graph:
            raise BadArgument("give the IRI of the graph")
        graph = self.graph if self.into == "named" else None
        write = room.service.replace_graph if self.replace else room.service.merge_graph
        return _written(room, partial(write, graph, documents))


def _written(room: Room, change: Callable[..., GraphWriteOutcome]) -> int:
    """Runs the change; returns the snapshot that has it."""
    with closing(room.limits.control_of_graphs(room.memory)) as control:
        return change(control=control).snapshot


def page(room: Room) -> ResponseReturnValue:
    """The page of the graphs of the store, each with its number of triples."""
    counts, prefixes = room.statistics.counts(), room.prefixes()
    named = [(shown(term, prefixes), parse_term(term), count) for term, count in counts.named.items()]
    return render_template(
        "console/graphs.html",
        default=counts.default,
        named=named,
        graphs=counts.graphs,
        data=room.http_url("data"),
        source=room.service.sources.main,
        may_drop=room.service.updated_source is None,
    )


def drop(room: Room) -> ResponseReturnValue:
    room.check_may_write()
    graph = request.form.get("graph") or None
    _written(room, partial(room.service.drop_graph, graph))
    flash("The default graph is empty." if graph is None else f"The graph <{graph}> was dropped.")
    return redirect(url_for(".graphs"))


def upload(room: Room) -> ResponseReturnValue:
    if request.method == "GET":
        return _form(None, request.args.get("graph", ""))
    form = Upload.read()
    try:
        room.check_may_write()
        source, before = room.service.updated_source, room.statistics.counts().triples
        sn = form.write(room)
    except (RilletError, StoreError) as error:
        problem = describe(error)
        return _form(form, form.graph, problem=problem), problem.status
    if source is not None:
        flash(f"The attached store {source.settings.shown_url} contains the change.")
        return redirect(url_for(".graphs"))
    after = room.statistics.counts().triples
    flash(f"Snapshot {sn} contains the change: the store had {number(before)} triples and now has {number(after)}.")
    return redirect(url_for(".graphs"))


def _form(form: Upload | None, graph: str, problem: object = None) -> str:
    return render_template(
        "console/upload.html", form=form, graph=graph, formats=FORMATS, problem=problem, suffixes=[*MEDIA_TYPES, ".gz"]
    )
