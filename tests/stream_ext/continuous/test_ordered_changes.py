"""What is new, or gone, is emitted in the order that the whole answer has it in."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.stream_ext.opened import EX, opened, push, triple

_ORDERS = ["DESC(?y)", "?y", "DESC(?y) ?x", "?x DESC(?y)", "DESC(?y) LIMIT 4", "?y OFFSET 1"]


def is_within(some: Sequence[str], whole: Sequence[str]) -> bool:
    """Whether the rows stand in the whole answer one after the other, perhaps with others between them."""
    rest = iter(whole)
    return all(row in rest for row in some)


@pytest.mark.parametrize("order", _ORDERS)
def test_what_has_changed_is_in_the_order_of_the_answer(order: str, tmp_path: Path) -> None:
    chance, emitted = random.Random(order), dict[str, list[list[str]]]()
    with opened(tmp_path) as service:
        service.create_stream("s", {})
        for r2s in ("RSTREAM", "ISTREAM", "DSTREAM"):
            service.register(
                f"PREFIX : <{EX}> REGISTER {r2s} {r2s.lower()} AS SELECT ?x FROM NAMED WINDOW :w ON s "
                f"[RANGE 3s STEP 1s T0 0] WHERE {{ WINDOW :w {{ ?x :q ?y }} }} ORDER BY {order}"
            )
        for second in range(25):
            rows = {(f"n{chance.randrange(5)}", chance.randrange(9)) for _ in range(chance.randrange(1, 4))}
            push(service, "s", 1000 * second + 500, *(triple(x, y, "q") for x, y in sorted(rows)))
        for name in ("rstream", "istream", "dstream"):
            found = [json.loads(each.json)["results"]["bindings"] for each in service.emissions(name, 0, None)]
            emitted[name] = [[row["x"]["value"] for row in rows] for rows in found]
    before: list[str] = []
    for whole, new, gone in zip(*emitted.values(), strict=True):
        assert Counter(new) == Counter(whole) - Counter(before) and is_within(new, whole)
        assert Counter(gone) == Counter(before) - Counter(whole) and is_within(gone, before)
        before = whole
    assert sum(map(len, emitted["istream"])) > 10 and sum(map(len, emitted["dstream"])) > 10
