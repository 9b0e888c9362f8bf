"""What `/sparql` says without a question: the query page for people, the service description for programs."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import cast

from rdflib import RDF, BNode, Graph, URIRef
from rdflib_endpoint import SparqlRouter
from rdflib_endpoint.utils import FORMATS, SD

from endpoint.negotiation import Offer

OFFERS = (
    Offer("text/turtle", "turtle"),
    Offer("application/rdf+xml", "xml"),
    Offer("application/xml", "xml"),
    Offer("application/n-triples", "nt"),
    Offer("application/ld+json", "json-ld"),
)

#: What a client may rely on beyond SPARQL 1.1.
STREAMS = URIRef("urn:rillet:ns#streams")


def describe(url: str) -> Graph:
    """What the stock router must find, so that it does not count the store's triples to write it itself."""
    graph = Graph()
    service, dataset, default = URIRef(url), BNode(), BNode()
    graph.add((service, SD.endpoint, URIRef(url)))
    graph.add((service, SD.defaultDataset, dataset))
    graph.add((dataset, RDF.type, SD.Dataset))
    graph.add((dataset, SD.defaultGraph, default))
    graph.add((default, RDF.type, SD.Graph))
    graph.add((service, SD.languageExtension, STREAMS))
    return graph


def correct(graph: Graph) -> None:
    """The stock description promises what a stock endpoint does; here stands what this one does."""
    graph.remove((None, SD.feature, SD.BasicFederatedQuery))
    graph.remove((None, SD.inputFormat, None))
    graph.remove((None, SD.resultFormat, None))
    for service in graph.subjects(SD.endpoint):
        for name in ("SPARQL_Results_JSON", "SPARQL_Results_XML", "SPARQL_Results_CSV", "SPARQL_Results_TSV"):
            graph.add((service, SD.resultFormat, FORMATS[name]))


class Pages:
    def __init__(self, router: SparqlRouter) -> None:
        self._router = router
        with warnings.catch_warnings():
            # rdflib-endpoint reads its page by a function that Python has deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.html: bytes = bytes(router.serve_yasgui().body)
        self.description = lru_cache(maxsize=len(OFFERS))(self._description)

    def _description(self, format: str) -> bytes:
        return cast(bytes, self._router.service_description.serialize(format=format, encoding="utf-8"))
