"""Property paths over ids: their parts, and what is known of a path without its edges.

    ex:knows/^ex:likes    =>    Sequence((Link(17), Link(23, inverse=True)))

The numbers are ids of terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stream_ext.language.algebra.algebra import (
    Constant,
    Path,
    PathAlternative,
    PathInverse,
    PathNegated,
    PathRepeat,
    PathSequence,
    Repeat,
)

Resolve = Callable[[bytes], int]


@dataclass(frozen=True, slots=True)
class Link:
    predicate: int
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class AnyLinkBut:
    """Any edge, in one direction, whose predicate is none of these."""

    predicates: frozenset[int]
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[IdPath, ...]


@dataclass(frozen=True, slots=True)
class Alternative:
    parts: tuple[IdPath, ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    inner: IdPath
    zero: bool  # the path of length zero is one
    many: bool  # more than once


IdPath = Link | AnyLinkBut | Sequence | Alternative | Repeated


def id_path(path: Path, resolve: Resolve) -> IdPath:
    """The property path with ids of predicates in place of their IRIs. `resolve` gives the id of a predicate; one that
    the store does not know gets an id that no edge has."""
    match path:
        case Constant():
            return Link(resolve(path.text))
        case PathInverse():
            return reversed_path(id_path(path.inner, resolve))
        case PathSequence():
            return Sequence(tuple(id_path(part, resolve) for part in path.parts))
        case PathAlternative():
            return Alternative(tuple(id_path(part, resolve) for part in path.parts))
        case PathRepeat():
            zero, many = path.times is not Repeat.ONE_OR_MORE, path.times is not Repeat.ZERO_OR_ONE
            return Repeated(id_path(path.inner, resolve), zero, many)
        case PathNegated():
            return _negated(path, resolve)


def _negated(path: PathNegated, resolve: Resolve) -> IdPath:
    """`!(a | ^b)` is any edge forward but a, or any backward but b; a direction that is not named is not taken."""
    parts: list[IdPath] = []
    if path.forward or not path.backward:
        parts.append(AnyLinkBut(frozenset(resolve(constant.text) for constant in path.forward)))
    if path.backward:
        parts.append(AnyLinkBut(frozenset(resolve(constant.text) for constant in path.backward), inverse=True))
    return parts[0] if len(parts) == 1 else Alternative(tuple(parts))


def reversed_path(path: IdPath) -> IdPath:
    match path:
        case Link(predicate, inverse):
            return Link(predicate, not inverse)
        case AnyLinkBut(predicates, inverse):
            return AnyLinkBut(predicates, not inverse)
        case Sequence(parts):
            return Sequence(tuple(reversed_path(part) for part in reversed(parts)))
        case Alternative(parts):
            return Alternative(tuple(reversed_path(part) for part in parts))
        case Repeated(inner, zero, many):
            return Repeated(reversed_path(inner), zero, many)


def links(path: IdPath) -> tuple[Link | AnyLinkBut, ...]:
    """All links of a path, at any depth."""
    match path:
        case Link() | AnyLinkBut():
            return (path,)
        case Repeated(inner):
            return links(inner)
        case Sequence(parts) | Alternative(parts):
            return tuple(link for part in parts for link in links(part))


def predicates_of(path: IdPath) -> tuple[int, ...] | None:
    """The predicates of the edges that a path may use; None: any."""
    steps = links(path)
    if any(isinstance(link, AnyLinkBut) for link in steps):
        return None
    return tuple({link.predicate for link in steps if isinstance(link, Link)})


def may_be_empty(path: IdPath) -> bool:
    """Whether the path leads from each node to that node itself."""
    match path:
        case Link() | AnyLinkBut():
            return False
        case Repeated(inner, zero):
            return zero or may_be_empty(inner)
        case Sequence(parts):
            return all(map(may_be_empty, parts))
        case Alternative(parts):
            return any(map(may_be_empty, parts))


def is_one_step(path: IdPath) -> bool:
    """A link, or a choice of links: then whatever is repeated is plain reachability."""
    if isinstance(path, Alternative):
        return all(is_one_step(part) for part in path.parts)
    return isinstance(path, Link | AnyLinkBut)
