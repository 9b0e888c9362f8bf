"""A cache of so many entries, against a list that is kept in order of use."""

from __future__ import annotations

import random

from hbase_store.cache import RecentlyUsed


def test_what_was_not_used_for_the_longest_time_goes_first() -> None:
    random_ = random.Random(7)
    cache = RecentlyUsed[int, int](5)
    model: list[tuple[int, int]] = []  # what was used last is at the end
    for step in range(3_000):
        key = random_.randrange(9)
        known = dict(model)
        match random_.choice(("get", "get", "put", "pop", "in")):
            case "get":
                assert cache.get(key) == known.get(key)
                if key in known:
                    model = [each for each in model if each[0] != key] + [(key, known[key])]
            case "put":
                cache.put(key, step)
                model = ([each for each in model if each[0] != key] + [(key, step)])[-5:]
            case "pop":
                assert cache.pop(key) == known.get(key)
                model = [each for each in model if each[0] != key]
            case "in":
                assert (key in cache) == (key in known)
        assert cache.values() == [value for _, value in model]
        assert len(cache) == len(model)
    cache.clear()
    assert (cache.values(), len(cache), cache.get(0)) == ([], 0, None)
