"""Blank nodes of a source, as our store holds them: each has a term that is known again in the next answer.

Where the source gives a blank node the same label in each answer, the label is the term. Where labels mean something in
one answer only, the term says where the node stands among the quads of that answer: what is written of it, of the nodes
that it is connected with, and which of several that look alike it is. The same graph then has the same terms in each
answer, whatever its labels; so nothing changes here while nothing has changed there.

    _:x :street "Main" . _:y :street "High"    and    _:b1 :street "High" . _:b2 :street "Main"    have the same terms

Nodes that look alike are told apart step by step: one of them is given a number, and what follows from that is worked
out anew. For graphs that are symmetric in a way that this does not see, two answers may get different terms: then what
is held is replaced by its like, which is true as well."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from hashlib import blake2b

from hbase_store.layout.terms import DATA_MASK, blank_id, iri
from stream_ext.sources.questions import Quad

#: Blank nodes of our own store are numbered from below; those of a source have numbers from here on.
FIRST_NUMBER = (DATA_MASK + 1) // 2

_Colors = dict[bytes, bytes]


def is_blank(term: bytes) -> bool:
    return term.startswith(b"_:")


def term_of_label(source: str, label: bytes) -> bytes:
    """A term of the dictionary that stands for a blank node; no quad has it, only its number is used."""
    return iri(f"urn:rillet:source:{source}:blank:{label.decode()}")


def held_blank(term_id: int) -> int:
    """The id of the blank node that a term stands for."""
    return blank_id(FIRST_NUMBER + term_id)


def labels_of(quads: Sequence[Quad]) -> dict[bytes, bytes]:
    """For each blank node of the quads, which are all that are known of it, a label that does not depend on its own."""
    labels: dict[bytes, bytes] = {}
    alike: dict[bytes, int] = defaultdict(int)
    for component in _components(quads):
        ordered = _distinguished(component)
        form = _digest(*sorted(b" ".join(_replaced(quad, ordered)) for quad in component))
        alike[form] += 1  # components that are equal are interchangeable
        for node, number in ordered.items():
            labels[node] = b"%s-%d-%s" % (form, alike[form], number)
    return labels


def _components(quads: Sequence[Quad]) -> list[list[Quad]]:
    """Quads that are connected by blank nodes."""
    root: dict[bytes, bytes] = {}

    def find(node: bytes) -> bytes:
        while root.setdefault(node, node) != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for quad in quads:
        nodes = [term for term in quad if is_blank(term)]
        for node in nodes[1:]:
            root[find(node)] = find(nodes[0])
    together: dict[bytes, list[Quad]] = defaultdict(list)
    for quad in quads:
        together[find(next(term for term in quad if is_blank(term)))].append(quad)
    return list(together.values())


def _distinguished(quads: list[Quad]) -> _Colors:
    """The nodes of a component, numbered in an order that their labels do not decide, as far as can be."""
    colors = _refined(quads, {term: b"" for quad in quads for term in quad if is_blank(term)})
    while len(set(colors.values())) < len(colors):
        sizes: dict[bytes, list[bytes]] = defaultdict(list)
        for node, color in colors.items():
            sizes[color].append(node)
        color, nodes = min((color, nodes) for color, nodes in sizes.items() if len(nodes) > 1)
        colors = _refined(quads, colors | {nodes[0]: _digest(color, b"first")})
    return {node: b"%d" % number for number, node in enumerate(sorted(colors, key=colors.__getitem__))}


def _refined(quads: list[Quad], colors: _Colors) -> _Colors:
    """Nodes get different colors if what is around them differs; until no more do."""
    around: dict[bytes, list[tuple[int, Quad]]] = defaultdict(list)
    for quad in quads:
        for place, term in enumerate(quad):
            if is_blank(term):
                around[term].append((place, quad))
    count = len(set(colors.values()))
    while True:
        colors = {
            node: _digest(
                colors[node], *sorted(b"%d %s" % (place, b" ".join(_replaced(quad, colors))) for place, quad in places)
            )
            for node, places in around.items()
        }
        now = len(set(colors.values()))
        if now == count:
            return colors
        count = now


def _replaced(quad: Quad, names: _Colors) -> list[bytes]:
    return [b"_:" + names[term] if is_blank(term) else term for term in quad]


def _digest(*parts: bytes) -> bytes:
    return blake2b(b"\n".join(parts), digest_size=12).hexdigest().encode()
