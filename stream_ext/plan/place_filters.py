"""Place filters: each condition goes right behind the first source after which all its variables are bound.

    sources a(?x)  b(?y)  c(?z),  filters ?x > 1, ?x < ?y      =>      a, ?x > 1, b, ?x < ?y, c

In a conjunction nothing is optional, so a filter early keeps just what it would keep late. Variables that the
condition does not see are not waited for: they are unbound in it."""

from __future__ import annotations

from stream_ext.plan.normalise import Source, Test


def place_filters(sources: tuple[Source, ...], filters: tuple[Test, ...]) -> tuple[tuple[Test, ...], ...]:
    """For each number of joined sources (0, 1, ..., all) what to test there."""
    placed: list[list[Test]] = [[] for _ in range(len(sources) + 1)]
    for test in filters:
        bound: frozenset[str] = frozenset()
        at = 0
        while not test.needs <= bound and at < len(sources):
            bound |= sources[at].variables
            at += 1
        placed[at].append(test)
    return tuple(map(tuple, placed))
