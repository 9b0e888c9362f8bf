"""SPARQL 1.1's and 1.0's query evaluation tests: every answer is the one that the W3C published."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import hbase_store
from tests.conformance.cases import Case, is_there, query_cases
from tests.conformance.played import judge
from tests.stream_ext.w3c import folder

#: name: why it is not played. Nothing is.
IGNORED: dict[str, str] = {}
VERSIONS = {"sparql11": 242, "sparql10": 283}  # what the manifests list, without entailment


def cases() -> list[Case]:
    return [case for version in VERSIONS for case in query_cases(version)] if is_there() else []


def test_all_published_tests_are_found() -> None:
    folder()  # skips loudly where there are none
    for version, count in VERSIONS.items():
        assert len({case.name for case in query_cases(version)}) == count


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_answer_is_the_published_one(case: Case, tmp_path: Path) -> None:
    if case.name in IGNORED:
        pytest.skip(f"{case.name}: {IGNORED[case.name]}")
    with closing(hbase_store.open(f"lmdb:{tmp_path}/store", folding=False)) as store:
        wrong = judge(case, store)
    assert not wrong, wrong
