"""Solutions in JSON, read while they come: as pyoxigraph reads them, however they are laid out and cut into pieces."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pyoxigraph as ox
import pytest

from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.result_streams import json_solutions
from stream_ext.remote.sparql_client import solutions

EX = "http://ex/"
_PARTS = (
    "a",
    "}},",
    "} } ,\n",
    '"',
    "\\",
    "\n",
    "\u00e4",
    "\U0001f600",
    "{",
    "]",
    ",",
    " ",
    '{"s":{"type":"uri"}},',
    "]}}",
)


def term(chance: random.Random) -> dict[str, str]:
    text = "".join(chance.choice(_PARTS) for _ in range(chance.randrange(6)))
    match chance.randrange(5):
        case 0:
            return {"type": "uri", "value": f"{EX}{chance.randrange(9)}"}
        case 1:
            return {"type": "bnode", "value": f"b{chance.randrange(9)}"}
        case 2:
            return {"type": "literal", "value": text, "xml:lang": "en"}
        case 3:
            return {"type": "literal", "value": text, "datatype": f"{EX}type"}
        case _:
            return {"type": "literal", "value": text}


def document(chance: random.Random, count: int) -> tuple[bytes, list[dict[str, Any]]]:
    rows = [{name: term(chance) for name in "spo" if chance.random() < 0.8} for _ in range(count)]
    layout: dict[str, Any] = {"indent": chance.choice((None, 1, 4)), "ensure_ascii": chance.random() < 0.5}
    if chance.random() < 0.3:
        layout["separators"] = (" , ", " : ")
    whole = {"head": {"vars": [*"spo"]}, "results": {"bindings": rows}}
    return json.dumps(whole, **layout).encode(), rows


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    while data:
        size = chance.choice((1, 7, 300, 5_000, 100_000))
        yield data[:size]
        data = data[size:]


def read(data: bytes, chance: random.Random) -> list[dict[str, bytes]]:
    return [solution for some in json_solutions(pieces(data, chance)) for solution in some]


def read_by_pyoxigraph(data: bytes) -> list[dict[str, bytes]]:
    found = ox.parse_query_results(data, format=ox.QueryResultsFormat.JSON)
    assert isinstance(found, ox.QuerySolutions)
    names = [variable.value for variable in found.variables]
    return [{name: str(row[name]).encode() for name in names if row[name] is not None} for row in found]


@pytest.mark.parametrize("seed", range(30))
def test_they_are_read_as_pyoxigraph_reads_them(seed: int) -> None:
    chance = random.Random(seed)
    data, _ = document(chance, chance.choice((0, 1, 3, 200)))
    assert read(data, chance) == read_by_pyoxigraph(data)


@pytest.mark.parametrize("seed", range(30))
def test_one_that_is_cut_or_spoilt_is_no_answer(seed: int) -> None:
    chance = random.Random(seed)
    data, rows = document(chance, 50)
    cut = data[: chance.randrange(len(data) - 3)]
    with pytest.raises(ValueError):
        read(cut, chance)
    spoilt = [*rows]
    wrong = ({"type": "uri", "value": ""}, {"type": "?", "value": "x"}, {"type": "uri"}, {"type": "uri", "value": 3}, 3)
    spoilt[chance.randrange(50)] = {"s": chance.choice(wrong)}
    with pytest.raises(ValueError):
        read(json.dumps({"results": {"bindings": spoilt}}).encode(), chance)


@pytest.mark.parametrize("count", [1, 3])
def test_a_long_one_that_comes_in_unequal_pieces_is_read_to_its_end(count: int) -> None:
    row = {"s": {"type": "literal", "value": "a" * 20_000}}
    data = json.dumps({"results": {"bindings": [row] * count}}).encode()
    found = [each for some in json_solutions(iter((data[:17_000], data[17_000:]))) for each in some]
    assert found == [{"s": b'"' + b"a" * 20_000 + b'"'}] * count


_DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "data",
    [
        b'{"results":{"bindings":[' + _DEEP,
        b'{"results":{"bindings":[{"s":{"type":"uri","value":"http://ex/a","x":' + _DEEP + b"}},{}]}}",
        b'{"results":{"bindings":[],"x":' + _DEEP,
    ],
)
def test_one_that_is_nested_too_deeply_is_no_answer(data: bytes) -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        list(json_solutions(iter((data,))))
    with pytest.raises(CannotFetch):
        solutions(data, "http://ex/sparql")


class Looked:
    """A decoder that counts what it is given."""

    def __init__(self) -> None:
        self.decode, self.characters = json.JSONDecoder().raw_decode, 0

    def raw_decode(self, text: str, at: int) -> tuple[Any, int]:
        self.characters += len(text) - at
        return self.decode(text, at)


def test_a_very_long_one_is_looked_at_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    looked, length = Looked(), 4 << 20
    monkeypatch.setattr(json, "JSONDecoder", lambda: looked)
    begin, end = b'{"results":{"bindings":[{"s":{"type":"literal","value":"', b'"}}]}}'
    body = (begin, *[b"a" * (1 << 14)] * (length >> 14), end)
    (found,) = [each for some in json_solutions(iter(body)) for each in some]
    assert found == {"s": b'"' + b"a" * length + b'"'}
    assert looked.characters < 4 * length, "at each piece again: 128 times"
