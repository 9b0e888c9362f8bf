"""What `/sparql` says without a question: the query page for people, the service description for programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from rdflib import RDF, BNode, Graph, Literal, Namespace, URIRef
from rdflib_endpoint import SparqlRouter
from rdflib_endpoint.utils import FORMATS, SD

from endpoint import assets
from endpoint.negotiation import Offer

if TYPE_CHECKING:
    from stream_ext.catalog import StreamDefinition

OFFERS = (
    Offer("text/turtle", "turtle"),
    Offer("application/rdf+xml", "xml"),
    Offer("application/xml", "xml"),
    Offer("application/n-triples", "nt"),
    Offer("application/ld+json", "json-ld"),
)

#: What a client may rely on beyond SPARQL 1.1.
EXTENSIONS = tuple(URIRef(f"urn:rillet:ns#{name}") for name in ("streams", "RSP-QL"))

#: Streams are told in the words of VoCaLS.
VOCALS, VSD = Namespace("http://w3id.org/rsp/vocals#"), Namespace("http://w3id.org/rsp/vocals-sd#")
DCAT, DCT = Namespace("http://www.w3.org/ns/dcat#"), Namespace("http://purl.org/dc/terms/")

_STREAMS_MAX = 1_000
#: The W3C's names of formats, for what is read and written here.
_RESULTS = ("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV", "SPARQL_Results_TSV")
_GRAPHS = ("Turtle", "N-Triples", "RDF_XML", "JSON-LD", "TriG", "N-Quads")

# The stock page loads its scripts from the network, and they prefixes and names of classes.
_FROM_THE_NETWORK = "https://unpkg.com/@triply/yasgui@4/build/"
_BEFORE_THE_FIRST = "const yasgui = new Yasgui("
_WITHOUT_THE_NETWORK = 'Yasgui.Yasqe.defaults.autocompleters = ["variables"];\n            '
_ROOT = "{the root of this application}"
ICON_PATH = "/console/static/rillet.svg"
ICON = _ROOT + ICON_PATH
_BEFORE_THE_EDITOR = '<div id="yasgui">'
_WAYS_ON = (
    '<nav style="padding: 0.6rem 0.9rem; font: 15px system-ui, sans-serif; color: #444">Rillet: '
    f'<a href="{_ROOT}/console/">console</a> (streams, live queries, uploads) · <a href="{_ROOT}/docs">HTTP</a></nav>'
)


def describe(url: str) -> Graph:
    """What the stock router must find, so that it does not count the store's triples to write it itself."""
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
    """The stock description promises what a stock endpoint does; here stands what this one does."""
    for predicate, value in ((SD.feature, None), (SD.inputFormat, None), (SD.resultFormat, None)):
        graph.remove((None, predicate, value))
    for service in graph.subjects(SD.endpoint):
        for name in (*_RESULTS, *_GRAPHS):
            graph.add((service, SD.resultFormat, FORMATS[name]))
        for name in _GRAPHS:
            graph.add((service, SD.inputFormat, FORMATS[name]))


def add_streams(graph: Graph, service: URIRef, base: str, streams: Iterable[StreamDefinition]) -> None:
    """Each stream with the address where it is pushed to, and this service as what publishes and processes them."""
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


class Pages:
    def __init__(self, router: SparqlRouter, base: str, streams: Callable[[], list[StreamDefinition]]) -> None:
        self._router, self._base, self._streams = router, base, streams
        with warnings.catch_warnings():
            # rdflib-endpoint reads its page by a function that Python has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            page = bytes(router.serve_yasgui().body).decode()
        page = page.replace(_FROM_THE_NETWORK, _ROOT + "/" + assets.PATH)
        page = page.replace(_BEFORE_THE_EDITOR, _WAYS_ON + _BEFORE_THE_EDITOR)
        self._html = page.replace(_BEFORE_THE_FIRST, _WITHOUT_THE_NETWORK + _BEFORE_THE_FIRST)
        self.description = lru_cache(maxsize=len(OFFERS))(self._description)

    def html(self, root: str) -> bytes:
        """The query page, for an application that is mounted at `root`."""
        return self._html.replace(_ROOT, root).encode()

    def _description(self, format: str, snapshot: int) -> bytes:
        """As of a snapshot: streams come and go with them."""
        graph = Graph() + self._router.service_description
        service = URIRef(self._router.public_url)
        add_streams(graph, service, self._base, self._streams()[:_STREAMS_MAX])
        return cast(bytes, graph.serialize(format=format, encoding="utf-8"))
