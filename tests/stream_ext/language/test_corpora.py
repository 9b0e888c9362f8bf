"""The query texts of LSBench, CityBench, SRBench and the conference scenario are read, or at fault themselves."""

from __future__ import annotations

from stream_ext.errors import QuerySyntaxError
from stream_ext.language.algebra.algebra import Query, Register
from stream_ext.language.algebra.policy import policy_of
from stream_ext.language.algebra.windows import Dialect
from stream_ext.language.syntax import parse
from tests.stream_ext.language.corpora import FAULTS, texts

BASE = "http://base/"


def test_each_text_is_read_or_refused_for_a_fault_of_its_own() -> None:
    wrong, faults, read = [], dict(FAULTS), 0
    for name, text in texts():
        fault = faults.pop(name, None)
        try:
            parse(text, BASE)
        except QuerySyntaxError as error:
            if fault is None or fault not in error.message:
                wrong.append(f"{name}: {error}")
            continue
        read += 1
        if fault is not None:
            wrong.append(f"{name}: read, though it should say {fault!r}")
    assert not wrong, "\n".join(wrong)
    assert not faults, "these were not there"
    assert read > 110


def test_each_folder_is_of_the_dialect_that_it_is_named_after() -> None:
    wrong = []
    for name, text in texts():
        expected = expected_dialect(name)
        if expected is None or name in FAULTS:
            continue
        unit = parse(text, BASE)
        query = unit.query if isinstance(unit, Register) else unit
        assert isinstance(query, Query)
        if policy_of(query).dialect is not expected:
            wrong.append(f"{name}: {policy_of(query).dialect}, not {expected}")
    assert not wrong, "\n".join(wrong)


def expected_dialect(name: str) -> Dialect | None:
    folder = name.rsplit("/", 1)[0]
    if name.startswith("bench/"):
        return Dialect.NONE
    if "cqels" in folder or folder.endswith("conference/queries"):
        return Dialect.CQELS
    if "csparql_" in folder or "sparqlstream" in folder or "srbench/queries_rspql" in folder:
        return Dialect.CSPARQL  # SRBench calls FROM NAMED STREAM RSP-QL
    if "rspql" in folder:
        return Dialect.RSPQL
    return None  # wukongs: some are one-shot
