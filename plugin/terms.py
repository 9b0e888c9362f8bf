"""Conversion between rdflib's terms and those of the store, without loss: a lexical form is read as it was written.

A blank node of rdflib has a label that its program chose; one of the store has a number. `Labels` maps the labels
to the numbers:

    BNode("n1f3...") is new       -> a fresh number, and reads give back BNode("n1f3...")
    node 7, never labelled here   -> reads give BNode("b7"), which may be given back"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from rdflib import BNode, Literal, URIRef
from rdflib.term import Node

from hbase_store.layout.terms import iri, literal, parse_term
from stream_ext.errors import BadArgument

_STORE_LABEL = re.compile(r"b(0|[1-9][0-9]{0,17})")


class Labels:
    """A bijection between the labels of blank nodes in this process and their numbers in the store."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._label_of: dict[int, str] = {}

    def number(self, label: str, is_in_store: Callable[[int], bool]) -> int | None:
        """The number of the node with this label; None if no node has it yet."""
        known = self._number_of.get(label)
        if known is not None:
            return known
        found = _STORE_LABEL.fullmatch(label)
        if found is None:
            return None
        number = int(found[1])
        if number in self._label_of or not is_in_store(number):
            return None  # a label that a program chose, and that only looks like one of ours
        self._bind(label, number)
        return number

    def give(self, label: str, number: int) -> None:
        """Records that the node with this label of a program has just got `number`."""
        self._bind(label, number)

    def label(self, number: int) -> str:
        known = self._label_of.get(number)
        if known is not None:
            return known
        label = f"b{number}"
        if label in self._number_of:  # a program uses it already: any other will do
            label = str(BNode())
        self._bind(label, number)
        return label

    def _bind(self, label: str, number: int) -> None:
        self._number_of[label] = number
        self._label_of[number] = label


def to_bytes(node: Node) -> bytes:
    """The canonical text of an IRI or literal."""
    if isinstance(node, URIRef):
        return iri(str(node))
    if isinstance(node, Literal):
        # The case of a language tag has no meaning, for rdflib either; the store has it in lower case.
        language = None if node.language is None else node.language.lower()
        return literal(str(node), language, None if node.datatype is None else str(node.datatype))
    raise BadArgument(f"{node!r} is not an RDF term: an IRI, a literal or a blank node is expected")


def to_node(text: bytes, labels: Labels) -> Node:
    term = parse_term(text)
    if term.kind == "iri":
        return URIRef(term.value)
    if term.kind == "blank":
        if term.value.startswith("q"):  # the query created it (BNODE): no node of the store
            return BNode(term.value)
        return BNode(labels.label(int(term.value[1:])))
    datatype = None if term.datatype is None else _datatype(term.datatype)
    return Literal(term.value, lang=term.language, datatype=datatype, normalize=False)


_datatype = lru_cache(maxsize=256)(URIRef)


def check_triple(subject: Node, predicate: Node, object: Node) -> None:
    """Rejects what RDF does not allow in this position; rdflib itself accepts more."""
    if not isinstance(subject, URIRef | BNode):
        raise BadArgument(f"{subject!r} cannot be a subject: a subject is an IRI or a blank node")
    if not isinstance(predicate, URIRef):
        raise BadArgument(f"{predicate!r} cannot be a predicate: a predicate is an IRI")
    if not isinstance(object, URIRef | BNode | Literal):
        raise BadArgument(f"{object!r} cannot be an object: an object is an IRI, a blank node or a literal")
