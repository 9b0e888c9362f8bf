"""The service description: the answer of `/sparql` to a request without a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from rdflib import RDF, BNode, Graph, Literal, Namespace, URIRef
from rdflib_endpoint import SparqlRouter
from rdflib_endpoint.utils import FORMATS, SD

from endpoint.negotiation import Offer

if TYPE_CHECKING:
    from stream_ext.service.service import StreamDefinition

OFFERS = (
    Offer("text/turtle", "turtle"),
    Offer("application/rdf+xml", "xml"),
    Offer("application/xml", "xml"),
    Offer("application/n-triples", "nt"),
    Offer("application/ld+json", "json-ld"),
)

#: Extensions of SPARQL 1.1 that the service description names.
EXTENSIONS = tuple(URIRef(f"urn:rillet:ns#{name}") for name in ("streams", "RSP-QL"))

#: Streams are described in the vocabulary VoCaLS.
VOCALS, VSD = Namespace("http://w3id.org/rsp/vocals#"), Namespace("http://w3id.org/rsp/vocals-sd#")
DCAT, DCT = Namespace("http://www.w3.org/ns/dcat#"), Namespace("http://purl.org/dc/terms/")

_STREAMS_MAX = 1_000
#: The W3C's IRIs of the formats that are read and written here.
_RESULTS = ("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV", "SPARQL_Results_TSV")
_GRAPHS = ("Turtle", "N-Triples", "RDF_XML", "JSON-LD", "TriG", "N-Quads")


def describe(url: str) -> Graph:
    """A description for the stock router: without one it would count the triples of the store to write its own."""
    graph = Graph()
    service, dataset, default = URIRef(url), BNode(), BNode()
    graph.add((service, SD.endpoint, URIRef(url)))
    graph.add((service, SD.defaultDataset, dataset))
    graph.add((dataset, RDF.type, SD.Dataset))
    graph.add((dataset, SD.defaultGraph, default))
    graph.add((default, RDF.type, SD.Graph))
    for extension in EXTENSIONS:
        graph.add((service, SD.languageExtension, extension))
    return graph


def correct(graph: Graph) -> None:
    """Corrects the stock description: it names features of a stock endpoint, not those of this one."""
    for predicate, value in ((SD.feature, None), (SD.inputFormat, None), (SD.resultFormat, None)):
        graph.remove((None, predicate, value))
    for service in graph.subjects(SD.endpoint):
        for name in (*_RESULTS, *_GRAPHS):
            graph.add((service, SD.resultFormat, FORMATS[name]))
        for name in _GRAPHS:
            graph.add((service, SD.inputFormat, FORMATS[name]))


def add_streams(graph: Graph, service: URIRef, base: str, streams: Iterable[StreamDefinition]) -> None:
    """Adds each stream with the address for pushes, and this service as its publisher and processor."""
    graph.bind("vocals", VOCALS)
    graph.bind("vsd", VSD)
    for kind in (VSD.PublishingService, VSD.ProcessingService):
        graph.add((service, RDF.type, kind))
    for stream in streams:
        iri, entrance = URIRef(stream.iri), BNode()
        graph.add((iri, RDF.type, VOCALS.RDFStream))
        graph.add((iri, DCT.title, Literal(stream.name)))
        graph.add((iri, VOCALS.hasEndpoint, entrance))
        graph.add((entrance, RDF.type, VOCALS.StreamEndpoint))
        graph.add((entrance, DCAT.accessURL, URIRef(f"{base}streams/{stream.name}")))
        graph.add((service, DCAT.dataset, iri))


class Description:
    def __init__(self, router: SparqlRouter, base: str, streams: Callable[[], list[StreamDefinition]]) -> None:
        self._router, self._base, self._streams = router, base, streams
        self.written = lru_cache(maxsize=len(OFFERS))(self._written)

    def _written(self, format: str, snapshot: int) -> bytes:
        """The description at a snapshot: the streams may change with each one."""
        graph = Graph() + self._router.service_description
        service = URIRef(self._router.public_url)
        add_streams(graph, service, self._base, self._streams()[:_STREAMS_MAX])
        return cast(bytes, graph.serialize(format=format, encoding="utf-8"))
