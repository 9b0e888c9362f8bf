"""A layered mapping is what a dictionary would be, whatever changed before."""

from __future__ import annotations

import random

import pytest

from stream_ext.catalog.persistent_map import Layered


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_dictionary_with_the_same_changes(seed: int) -> None:
    chance = random.Random(seed)
    expected: dict[int, str] = {number: str(number) for number in range(chance.choice((0, 5, 300)))}
    layered = Layered.of(expected)
    earlier: list[tuple[Layered[int, str], dict[int, str]]] = []
    for step in range(600):
        changed: dict[int, str | None] = {
            chance.randrange(400): chance.choice((None, f"{step}")) for _ in range(chance.randrange(3))
        }
        layered, expected = layered.after(changed), dict(expected)
        for key, value in changed.items():
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
        if chance.random() < 0.05:
            earlier.append((layered, expected))
        assert len(layered) == len(expected)
        assert dict(layered.items()) == expected
        for key in range(0, 400, 37):
            assert (key in layered, layered.get(key)) == (key in expected, expected.get(key))
    for mapping, then in earlier:
        assert dict(mapping) == then, "what changed later is another value"


def test_what_came_first_is_first() -> None:
    layered = Layered.of({"a": 1, "b": 2}).after({"c": 3}).after({"b": 4}).after({"a": None})
    assert list(layered.items()) == [("b", 4), ("c", 3)]
    with pytest.raises(KeyError):
        layered["a"]
