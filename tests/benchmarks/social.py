"""The social workload: a star-shaped graph of people, and six questions to it, from a look-up to a path.

The graph has the shape of the study that the questions come from: 100 cities and 400 organisations in a tree, then
people of ten triples each on average; the first cities have most of the people, half of one's friends live nearby."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.language import PREFIXES, SOCIAL

BASE = "http://example.org/social/"
FOAF = "http://xmlns.com/foaf/0.1/"
_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_INTEGER = "<http://www.w3.org/2001/XMLSchema#integer>"
_CITIES, _ORGANISATIONS, _REFERENCE = 100, 400, 1000
_AT_ONCE = 10_000

QUERIES = {name: PREFIXES + text for name, text in SOCIAL.items()}


def write(path: Path, lines: int) -> None:
    """Exactly so many different lines of N-Triples; a multiple of ten, at least 10,000."""
    import numpy as np

    chance = np.random.default_rng(20261118)
    people = (lines - _REFERENCE) // 10
    with path.open("w") as out:
        out.writelines(_reference())
        for first in range(0, people, _AT_ONCE):
            out.writelines(_people(chance, first, min(people, first + _AT_ONCE), people))


def _reference() -> Iterator[str]:
    for city in range(_CITIES):
        yield f'<{BASE}city/{city}> <{BASE}label> "City {city}" .\n'
        yield f"<{BASE}city/{city}> <{BASE}inCountry> <{BASE}country/{city % 12}> .\n"
    yield f"<{BASE}org/0> {_TYPE} <{BASE}RootOrg> .\n"
    for org in range(_ORGANISATIONS):
        yield f'<{BASE}org/{org}> <{BASE}label> "Organisation {org}" .\n'
        if org:
            yield f"<{BASE}org/{org}> <{BASE}subOrgOf> <{BASE}org/{(org - 1) // 3}> .\n"


def _people(chance: Any, first: int, end: int, people: int) -> Iterator[str]:
    import numpy as np

    count = end - first
    city = (_CITIES * chance.random(count) ** 2).astype(int)  # popularity falls as 1/sqrt(rank)
    age = 18 + chance.integers(0, 50, count) + city % 20
    org = chance.integers(0, _ORGANISATIONS, count)
    reached = chance.random(count) < 0.8
    # Two neighbours share eight friends between them, so that the number of lines is known beforehand.
    more = np.repeat(chance.integers(0, 4, count // 2 + 1), 2)[:count]
    degree = 4 + np.where(np.arange(count) % 2 == 1, more, -more)
    if count % 2:
        degree[-1] = 4
    columns = (city.tolist(), age.tolist(), org.tolist(), reached.tolist(), degree.tolist())
    for i, each in enumerate(zip(*columns, strict=True), first):
        yield _person(chance, i, people, *each)


def _person(chance: Any, i: int, people: int, city: int, age: int, org: int, reached: bool, degree: int) -> str:
    who = f"<{BASE}person/{i}>"
    contact = f"<{FOAF}mbox> <mailto:p{i}@example.org>" if reached else f'<{FOAF}nick> "nick{i}"'
    friends: set[int] = set()
    while len(friends) < degree:
        near, far = chance.integers(0, (50, people)).tolist()
        friend = (i + 1 + near) % people if far % 2 else far
        if friend != i:
            friends.add(friend)
    return (
        f'{who} {_TYPE} <{FOAF}Person> .\n{who} <{FOAF}name> "Person {i} of City {city}" .\n'
        f'{who} <{FOAF}age> "{age}"^^{_INTEGER} .\n{who} <{BASE}city> <{BASE}city/{city}> .\n'
        f"{who} <{BASE}org> <{BASE}org/{org}> .\n{who} {contact} .\n"
    ) + "".join(f"{who} <{FOAF}knows> <{BASE}person/{friend}> .\n" for friend in sorted(friends))


# ---- the same in SQL, over t(s, p, o) and terms(id, text, number) -----------------------------------------------


def _id(text: str) -> str:
    return f"(SELECT id FROM terms WHERE text = '{text}')"


def _has(name: str, predicate: str, subject: str, value: str = "") -> str:
    """A triple of `subject` as a table of this name."""
    thing = f" AND {name}.o = {value}" if value else ""
    return f"JOIN t {name} ON {name}.p = {_id(predicate)} AND {name}.s = {subject}{thing}"


_CITY_7 = _id(f"<{BASE}city/7>")
_LIVES = f"FROM t c {_has('a', f'<{FOAF}age>', 'c.s')} {_has('n', f'<{FOAF}name>', 'c.s')}"
_IN_CITY_7 = f"WHERE c.p = {_id(f'<{BASE}city>')} AND c.o = {_CITY_7}"
SQL = {
    "q0": f"""SELECT v.text AS name FROM t JOIN terms v ON v.id = t.o
        WHERE t.s = {_id(f"<{BASE}person/4711>")} AND t.p = {_id(f"<{FOAF}name>")}""",
    "q1": f"""SELECT k.text AS p, v.text AS o FROM t JOIN terms k ON k.id = t.p JOIN terms v ON v.id = t.o
        WHERE t.s = {_id(f"<{BASE}person/4711>")}""",
    "q2": f"""SELECT p.text AS p, nt.text AS name, ag.text AS age, ot.text AS org, mt.text AS mbox
        {_LIVES} {_has("y", _TYPE, "c.s", _id(f"<{FOAF}Person>"))} {_has("g", f"<{BASE}org>", "c.s")}
        {_has("m", f"<{FOAF}mbox>", "c.s")} JOIN terms p ON p.id = c.s JOIN terms nt ON nt.id = n.o
        JOIN terms ag ON ag.id = a.o JOIN terms ot ON ot.id = g.o JOIN terms mt ON mt.id = m.o {_IN_CITY_7}""",
    "q3": f"""SELECT p.text AS p, nt.text AS name, mt.text AS mbox {_LIVES}
        LEFT {_has("m", f"<{FOAF}mbox>", "c.s")} LEFT JOIN terms mt ON mt.id = m.o JOIN terms p ON p.id = c.s
        JOIN terms nt ON nt.id = n.o JOIN terms ag ON ag.id = a.o {_IN_CITY_7} AND ag.number > 55""",
    "q4": f"""SELECT ct.text AS city, n, avg FROM (SELECT c.o AS city, COUNT(*) AS n, AVG(ag.number) AS avg FROM t c
        {_has("a", f"<{FOAF}age>", "c.s")} {_has("k", f"<{FOAF}knows>", "c.s")} JOIN terms ag ON ag.id = a.o
        WHERE c.p = {_id(f"<{BASE}city>")} GROUP BY c.o HAVING AVG(ag.number) > 60)
        JOIN terms ct ON ct.id = city ORDER BY n DESC, ct.text""",
    "q5": f"""WITH RECURSIVE below(org) AS (
          SELECT s FROM t WHERE p = {_id(f"<{BASE}subOrgOf>")} AND o = {_id(f"<{BASE}org/5>")}
          UNION SELECT t.s FROM t JOIN below ON t.o = below.org WHERE t.p = {_id(f"<{BASE}subOrgOf>")})
        SELECT ot.text AS org, COUNT(*) AS n FROM t c {_has("g", f"<{BASE}org>", "c.s")} JOIN below ON below.org = g.o
        JOIN terms ot ON ot.id = g.o {_IN_CITY_7} GROUP BY ot.text ORDER BY n DESC, org""",
}
