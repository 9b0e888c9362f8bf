"""Texts that someone has damaged: read or refused with a place in them, never a crash, never a hang.

The seed and the number of the round are in the failure; RILLET_FUZZ_ROUNDS makes it run longer."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stream_ext.errors import TextError
from stream_ext.language.printing import to_canonical
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.cursor import PARTS_MAX

ROUNDS = int(os.environ.get("RILLET_FUZZ_ROUNDS", "4000"))
SEEDS = Path(__file__).with_name("fuzz_seeds.txt").read_text().split("\n----\n")
SIGNS = "{ } ( ) [ ] < > . ; , | / ^ ! ? * + - = && || ^^ @ @en : _: \\ \\u003F \\uD800 ' \" ''' # ?x :a <i> 1 1e 0."
WORDS = "SELECT WHERE FILTER OPTIONAL UNION AS BY GROUP IN NOT EXISTS FROM STREAM WINDOW NOW STEP RANGE BOUNDS true a"
CHARACTERS = ("\n", "\r", "\x00", "\ud800", "\U0001f600", "\u00e9", "\u00a0")
REPEATED = ("(" * 10, "{" * 10, "[" * 10, "!" * 10, "9" * 40)
PIECES = (*SIGNS.split(), *WORDS.split(), *CHARACTERS, *REPEATED)


def damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 4)):
        at, length = chance.randrange(len(text) + 1), chance.randint(0, 12)
        match chance.randrange(4):
            case 0:
                text = text[:at] + chance.choice(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + length :]
            case 2:
                text = text[:at] + text[at : at + length] * chance.randint(2, 30) + text[at:]
            case _:
                other = chance.choice(SEEDS)
                start = chance.randrange(len(other))
                text = text[:at] + other[start : start + 40] + text[at + length :]
    return text


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_texts_are_read_or_refused_where_the_damage_is(seed: int) -> None:
    chance = random.Random(seed)
    slowest = 0.0
    for number in range(ROUNDS):
        text = damaged(chance.choice(SEEDS), chance)
        began = time.thread_time()
        try:
            printed = to_canonical(parse(text, "http://base/"))
        except TextError as error:
            lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            assert 1 <= error.line <= len(lines), (seed, number, text)
            assert 1 <= error.column <= len(lines[error.line - 1]) + 1, (seed, number, text)
        else:
            assert to_canonical(parse(printed, "http://base/")) == printed, (seed, number, text)
        slowest = max(slowest, time.thread_time() - began)
    assert slowest < 2, seed  # seconds, where a thousandth is usual: a text that takes them would hang a server


@pytest.mark.parametrize(
    "deep",
    [
        "ASK { FILTER(" + "1||1&&1=1+1*(" * 400,
        "ASK { FILTER(" + "!(" * 400,
        "ASK { FILTER(" + "STR(" * 400,
        "ASK " + "{ FILTER EXISTS " * 400,
        "ASK " + "{ OPTIONAL " * 400,
        "ASK " + "{ { SELECT * " * 400,
        "ASK { ?s " + "(^" * 400,
        "ASK { ?s :p " + "(" * 400,
        "ASK { ?s :p " + "[ :p " * 400,
        "EXPLAIN " * 400,
        "ASK { " + "{ } OPTIONAL { } " * 400 + "}",
        "ASK { " + "".join(f"BIND({n} AS ?v{n}) " for n in range(400)) + "}",
        "SELECT (" + "1+" * 400 + "1 AS ?x) { }",
        "SELECT * { } ORDER BY (" + "1+" * 400 + "1)",
    ],
)
def test_what_is_nested_without_end_is_an_error(deep: str) -> None:
    with pytest.raises(TextError, match="nested"):
        parse("PREFIX : <http://ex/> " + deep, "http://base/")


def test_what_is_long_but_not_deep_is_read() -> None:
    count = PARTS_MAX // 2 - 10  # an item of a collection is two triples
    for text in (
        "ASK { ?s ?p " + " , ".join(["1"] * count) + " }",
        "ASK { ?s ?p (" + " 1" * count + ") }",
        "ASK { ?s " + "/".join(["<p>"] * count) + " ?o }",
        "ASK { " + " UNION ".join(["{ }"] * count) + " }",
        "ASK { VALUES ?x { " + "1 " * count + "} }",
        "ASK { FILTER(?x IN (" + ", ".join(["1"] * count) + ")) }",
        "ASK { FILTER(" + " && ".join(["?x"] * count) + ") }",
        "SELECT " + " ".join(f"(1 AS ?v{n})" for n in range(count)) + " { }",
        "CLEAR ALL" + " ; CLEAR ALL" * count,
    ):
        unit = parse(text, "http://base/")
        assert parse(to_canonical(unit), "http://base/") is not None


@pytest.mark.soak
def test_texts_that_coverage_leads_to_are_read_or_refused() -> None:
    fuzzer = Path(__file__).with_name("fuzz_with_atheris.py")
    subprocess.run([sys.executable, str(fuzzer), "-max_total_time=600"], check=True)
