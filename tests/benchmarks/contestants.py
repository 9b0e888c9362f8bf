"""Who takes part in the one-shot benchmark: each loads a file of N-Triples, and answers a question with rows.

Each runs in a process of its own, so that its memory is its own, too (`contest.py`). `rows` is what is timed: the
whole answer, decoded, as this engine's users would hold it. `plain` makes of it what can be compared: values by
name, numbers as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

Plain = list[dict[str, str | float]]

_XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS = {_XSD + kind for kind in ("integer", "decimal", "double", "float")}
_TERM = re.compile(r'"(?P<text>.*)"(?:@(?P<language>\S+)|\^\^<(?P<datatype>[^>]*)>)?', re.DOTALL)


class Contestant:
    """`languages`: what it is asked in, the first it has a text for. `lines_max`: more would take too long."""

    package: ClassVar[str]
    languages: ClassVar[tuple[str, ...]] = ("sparql",)
    lines_max: ClassVar[int] = 100_000_000

    def load(self, file: Path, folder: Path) -> None:
        raise AssertionError("each contestant has its own")

    def rows(self, text: str) -> Any:
        raise AssertionError("each contestant has its own")

    def plain(self, rows: Any) -> Plain:
        return [{name: value for name, value in row.items() if value is not None} for row in rows]

    def stream(self, text: str) -> int:
        """The answer written as JSON piece by piece; its bytes."""
        raise AssertionError("only ours is asked for this")

    @classmethod
    def version(cls) -> str:
        """Raises PackageNotFoundError where it is not installed."""
        return metadata.version(cls.package)


def value_of(text: str) -> str | float:
    """A term as N-Triples writes it."""
    if text.startswith("<"):
        return text[1:-1]
    found = _TERM.fullmatch(text)
    return typed(found["text"], found["datatype"]) if found else text


def typed(lexical: str, datatype: str | None) -> str | float:
    return float(lexical) if datatype in _NUMBERS else lexical


class Rillet(Contestant):
    """The durable store, opened as any reader opens it."""

    package = "rillet"

    def load(self, file: Path, folder: Path) -> None:
        import sys

        from endpoint.files.load import Wanted, load_all
        from endpoint.files.reading import Source

        url = f"lmdb:{folder}"
        wanted = Wanted(None, "http://example.org/")
        for _ in load_all(url, [Source(str(file), "application/n-triples")], wanted, sys.stderr):
            continue
        self.open(url)

    def open(self, url: str) -> None:
        """With what a service keeps between questions: their plans, and the values that they computed with."""
        import hbase_store
        from stream_ext.oneshot.evaluate import Asking
        from stream_ext.oneshot.question import Questions
        from stream_ext.values.known_values import KnownValues

        self.store = hbase_store.open(url, read_only=True)
        self.sn = int(self.store.refresh())
        self.questions, self.asking = Questions(), Asking(known=KnownValues(self.store.terms))

    def rows(self, text: str) -> Any:
        from stream_ext.oneshot.answers import rows_of

        answer = self._answer(text)
        return answer.variables, rows_of(answer)

    def _answer(self, text: str) -> Any:
        from stream_ext.oneshot.answers import answer_once

        question = self.questions.read(text, "http://example.org/")
        return answer_once(self.store, question, self.sn, None, asking=self.asking)

    def stream(self, text: str) -> int:
        from endpoint.formats.results import write
        from stream_ext.oneshot.answers import decoded

        answer = self._answer(text)
        batches = decoded(answer.columns, answer.vocabulary.decode, answer.count)
        return sum(len(piece) for piece in write("json", answer.variables, batches, None))

    def plain(self, rows: Any) -> Plain:
        names, table = rows
        return [
            {name: value_of(text.decode()) for name, text in zip(names, row, strict=True) if text is not None}
            for row in table
        ]

    @classmethod
    def version(cls) -> str:
        from hbase_store.version import __version__

        return __version__


class PyoxigraphMemory(Contestant):
    package = "pyoxigraph"

    def load(self, file: Path, folder: Path) -> None:
        import pyoxigraph

        self.store = self.opened(folder)
        self.store.bulk_load(path=str(file), format=pyoxigraph.RdfFormat.N_TRIPLES)

    def opened(self, folder: Path) -> Any:
        import pyoxigraph

        return pyoxigraph.Store()

    def rows(self, text: str) -> Any:
        answer = self.store.query(text)
        names = [variable.value for variable in answer.variables]
        return [{name: row[name] for name in names} for row in answer]

    def plain(self, rows: Any) -> Plain:
        return [{name: value_of(str(term)) for name, term in row.items() if term is not None} for row in rows]


class PyoxigraphDisk(PyoxigraphMemory):
    def opened(self, folder: Path) -> Any:
        import pyoxigraph

        return pyoxigraph.Store(str(folder))


class Rdflib(Contestant):
    package = "rdflib"
    lines_max = 200_000

    def load(self, file: Path, folder: Path) -> None:
        self.graph = self.opened()
        self.graph.parse(str(file), format="nt")

    def opened(self) -> Any:
        import rdflib

        return rdflib.Graph()

    def rows(self, text: str) -> Any:
        return [row.asdict() for row in self.graph.query(text)]

    def plain(self, rows: Any) -> Plain:
        return [{name: value_of(term.n3()) for name, term in row.items()} for row in rows]


class Oxrdflib(Rdflib):
    """rdflib's interface over pyoxigraph's store, which answers the queries."""

    package = "oxrdflib"
    lines_max = 1_000_000

    def opened(self) -> Any:
        import rdflib

        return rdflib.Graph(store="Oxigraph")

    def load(self, file: Path, folder: Path) -> None:
        self.graph = self.opened()
        self.graph.parse(str(file), format="ox-nt")


class Sparq(Contestant):
    package = "sparq-rdf"

    def load(self, file: Path, folder: Path) -> None:
        import sparq

        self.graph = sparq.Graph.load(str(file), "ntriples")

    def rows(self, text: str) -> Any:
        return [
            {name: (term.value, term.datatype) for name, term in row.items() if term is not None}
            for row in self.graph.query(text).rows
        ]

    def plain(self, rows: Any) -> Plain:
        return [{name: typed(*term) for name, term in row.items()} for row in rows]


class Maplib(Contestant):
    """Answers are data frames, a column a variable; where all of a column is of one kind, its values are bare."""

    package = "maplib"

    def load(self, file: Path, folder: Path) -> None:
        import maplib

        self.model = maplib.Model()
        self.model.read(str(file), format="ntriples")

    def rows(self, text: str) -> Any:
        return self.model.query(text).to_dicts()

    def plain(self, rows: Any) -> Plain:
        return [{name: _bare(value) for name, value in row.items() if value is not None} for row in rows]


def _bare(value: Any) -> str | float:
    if isinstance(value, str):
        return value_of(value)
    return value.strftime("%Y-%m-%dT%H:%M:%SZ") if hasattr(value, "strftime") else float(value)


class DuckDb(Contestant):
    """Not an RDF store: dictionary and triples as two tables, questions in SQL, where somebody has written it."""

    package = "duckdb"
    languages = ("sql",)

    def load(self, file: Path, folder: Path) -> None:
        import duckdb

        self.base = duckdb.connect(f"{folder}.duckdb")
        for statement in _TABLES.format(file=file).split(";"):
            self.base.execute(statement)

    def rows(self, text: str) -> Any:
        answer = self.base.execute(text)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]

    def plain(self, rows: Any) -> Plain:
        return [{name: _bare(value) for name, value in row.items() if value is not None} for row in rows]


_TABLES = r"""
CREATE TEMP TABLE lines AS SELECT regexp_extract(line, '^(\S+) (\S+) (.*) \.$', ['s', 'p', 'o']) AS l
  FROM read_csv('{file}', columns={{'line': 'VARCHAR'}}, delim='\x01', quote='', escape='', header=false);
CREATE TABLE terms AS SELECT row_number() OVER () AS id, text,
    TRY_CAST(regexp_extract(text, '^"([^"]*)"\^\^<http://www.w3.org/2001/XMLSchema#', 1) AS DOUBLE) AS number
  FROM (SELECT DISTINCT text FROM (SELECT l.s AS text FROM lines UNION ALL SELECT l.p FROM lines
    UNION ALL SELECT l.o FROM lines));
CREATE TABLE t AS SELECT a.id AS s, b.id AS p, c.id AS o FROM lines JOIN terms a ON a.text = l.s
  JOIN terms b ON b.text = l.p JOIN terms c ON c.text = l.o ORDER BY p, s, o;
DROP TABLE lines
"""

CONTESTANTS: dict[str, type[Contestant]] = {
    "rillet": Rillet,
    "pyoxigraph_memory": PyoxigraphMemory,
    "pyoxigraph_disk": PyoxigraphDisk,
    "rdflib": Rdflib,
    "oxrdflib": Oxrdflib,
    "sparq": Sparq,
    "maplib": Maplib,
    "duckdb": DuckDb,
}


def missing() -> dict[str, str]:
    """Those that are not installed, and what to do about it."""
    found = {}
    for name, contestant in CONTESTANTS.items():
        try:
            contestant.version()
        except metadata.PackageNotFoundError:
            found[name] = f"{contestant.package} is not installed (pip install {contestant.package})"
    return found


def names(left_out: Iterable[str]) -> list[str]:
    return [name for name in CONTESTANTS if name not in left_out]
