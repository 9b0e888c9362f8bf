"""Random registered queries over random data, parted at random between the source main and our own store, with random
histories of changes, pushes and restarts: their emissions are those of one store with all data.

What the source has few quads of is held, the rest is asked; what cannot be asked is refused, and left out.

    python -m tests.sources.test_registered_over_both SEED [SEED]"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

from stream_ext.errors import BadArgument, RilletError
from stream_ext.service.service import Service
from tests.parts.waiting import until
from tests.sources.shapes import FROMS, NODES, PROLOGUE, Shapes, quads
from tests.stream_ext.opened import push
from tests.stream_ext.sources.both_services import shown
from tests.stream_ext.sources.pretended_source import PretendedSource
from tests.stream_ext.sources.test_asked_oracle import BothAsked

EX = "http://ex/"
XSD = "http://www.w3.org/2001/XMLSchema#"
#: Terms that an Oxigraph shows in another way than they were written: no data, but constants of queries.
_OTHERWISE = ('"01"', "xsd:int", "en-us", "+01:00")
_HEADS = (
    "SELECT *", "SELECT DISTINCT *", "SELECT ?x ?y", "SELECT DISTINCT ?y", "SELECT DISTINCT ?x ?z", "ASK",
    "SELECT (COUNT(*) AS ?n)", "SELECT (COUNT(DISTINCT ?y) AS ?n)",
    "SELECT ?x (COUNT(?y) AS ?n) ... GROUP BY ?x", "SELECT ?y (COUNT(*) AS ?n) ... GROUP BY ?y",
    "SELECT ?x (STR(?y) AS ?n)",
)  # fmt: skip
_WINDOWS = ("?x :in ?y", "?x :in ?z", "?z :in ?x", "?y :in ?w")
_STEPS, _QUERIES = 12, 4


class Generated(BothAsked):
    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.split.close()
        self.source = PretendedSource(held_max=self.chance.choice((0, 0, 0, 1, 3, 1_000)))
        self.split = self.open_split()
        for service in (self.merged, self.split):
            service.create_stream("taxis", {})

    def query(self, name: str) -> str:
        head, _, tail = self.chance.choice(_HEADS).partition(" ... ")
        windows = f"WINDOW :w {{ {self.chance.choice(_WINDOWS)} }}"
        some = Shapes(self.chance).shape(2)
        of = self.chance.choice(FROMS) if self.chance.random() < 0.1 else ""
        r2s = self.chance.choice(("RSTREAM", "ISTREAM", "DSTREAM"))
        return (
            f"{PROLOGUE}REGISTER {r2s} {name} AS {head} FROM NAMED WINDOW :w ON taxis [RANGE PT2S STEP PT1S] {of} "
            f"WHERE {{ {windows} {some} }} {tail}"
        )

    def quad(self) -> str:
        while True:
            ((s, p, o, g),) = quads(self.chance, 1, blanks=False)
            if not any(each in o for each in _OTHERWISE):
                return f"{full(s)} {full(p)} {full(o)} {full(g) + ' ' if g else ''}."

    def push(self) -> None:
        self.time += self.chance.choice((200, 700, 1_500))
        pairs = [(full(self.chance.choice(NODES)), full(self.chance.choice(NODES))) for _ in range(2)]
        for service in (self.merged, self.split):
            push(service, "taxis", self.time, *(f"{s} <{EX}in> {o} ." for s, o in pairs))

    def registers(self, text: str) -> bool:
        """False if it is refused, in the same way by both, or because it can neither be held nor asked."""
        try:
            self.merged.register(text)
        except RilletError as error:
            with pytest.raises(type(error)):
                self.split.register(text)
            return False
        try:
            self.split.register(text)
        except BadArgument as error:
            assert "of a pattern are held" in str(error), text
            return False
        return True


def full(term: str) -> str:
    """`:a` with its whole IRI, and the types of literals."""
    if term.startswith(":"):
        return f"<{EX}{term[1:]}>"
    term = re.sub(r"\^\^xsd:(\w+)$", rf"^^<{XSD}\1>", term)
    term = re.sub(r"\^\^:(\w+)$", rf"^^<{EX}\1>", term)
    if re.fullmatch(r"\d+", term):
        return f'"{term}"^^<{XSD}integer>'
    if re.fullmatch(r"\d+\.\d+", term):
        return f'"{term}"^^<{XSD}decimal>'
    return f'"{term}"^^<{XSD}boolean>' if term == "true" else term


def failed(service: Service, name: str) -> str | None:
    error = service.query_status(name)["error"]
    return None if error is None or error.startswith("SourceFailed") else str(error)


def play(folder: Path, seed: int) -> Counter[str]:
    """How many queries were compared, asked, refused, and failed in both."""
    both, counted = Generated(folder, seed), Counter[str]()
    texts: dict[str, str] = {}
    try:
        for _ in range(6):
            both.change()
        for number in range(_QUERIES):
            text = both.query(f"q{number}")
            if number == _QUERIES - 1:
                for _ in range(_STEPS // 2):
                    (both.push if both.chance.random() < 0.6 else both.change)()
            if both.registers(text):
                texts[f"q{number}"] = text
            else:
                counted["refused"] += 1
        for step in range(_STEPS):
            if step == _STEPS * 2 // 3 and both.chance.random() < 0.5:
                both.restart()
            (both.push if both.chance.random() < 0.6 else both.change)()
        both.close_windows()
        for name, text in texts.items():
            if failed(both.merged, name) is not None or failed(both.split, name) is not None:
                assert failed(both.merged, name) == failed(both.split, name), f"seed {seed}: {text}"
                counted["failed"] += 1
                continue
            until(lambda name=name: both.has_caught_up(name), f"seed {seed}: {name} is evaluated")
            assert shown(both.split, name) == shown(both.merged, name), f"seed {seed}: {text}"
            counted["compared"] += 1
            counted["asked"] += bool(both.split.query_definition(name).remote_patterns)
    finally:
        both.close()
    return counted


@pytest.mark.parametrize("block", range(4))
def test_emissions_are_those_of_one_store(tmp_path: Path, block: int) -> None:
    counted = Counter[str]()
    for seed in range(5 * block, 5 * block + 5):
        counted += play(tmp_path / str(seed), seed)
    assert counted["compared"] > 6 and counted["asked"] > 1, counted


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(10))
def test_it_is_so_for_hundreds(tmp_path: Path, block: int) -> None:
    for seed in range(1_000 + 50 * block, 1_050 + 50 * block):
        play(tmp_path / str(seed), seed)


def main(first: int, last: int) -> None:
    counted = Counter[str]()
    for seed in range(first, last):
        with tempfile.TemporaryDirectory() as folder:
            try:
                counted += play(Path(folder), seed)
            except AssertionError as error:
                print(f"seed {seed}: {str(error)[:3_000]}", flush=True)
                counted["wrong"] += 1
    print(dict(counted), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else int(sys.argv[1]) + 1)
