"""The budget of a query: what it may take in all, whatever takes it; and that nothing in a query can catch its end."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from stream_ext.catalog.registered_text import query_of
from stream_ext.clock import ManualClock
from stream_ext.errors import DeadlineExceeded, QueryTooLarge
from stream_ext.evaluation_budget import Control
from stream_ext.network.inputs import NetworkInputs
from stream_ext.network.measuring import bytes_of
from stream_ext.network.network import Network
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment
from stream_ext.plan.pipeline import logic_of
from stream_ext.rows.row_index import RowIndex
from stream_ext.rows.zset import ZSet
from stream_ext.service.service import Service
from stream_ext.values.functions import FUNCTIONS, regexes
from stream_ext.values.functions.regex_translation import PATTERN_MAX
from stream_ext.values.functions.terms import iri_within
from stream_ext.values.values import Resource
from tests.stream_ext.oneshot.attacked import ATTACKS, BUDGET, EX

#: What an operation needs on its way, and what Python keeps, comes on top of the budget.
PEAK_MOST = 3 * BUDGET

Ended = tuple[str, str, int]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    folder = tmp_path_factory.mktemp("attacked")
    command = [sys.executable, "-m", "tests.stream_ext.oneshot.attacked", str(folder)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=Path(__file__).parents[3])
    assert process.returncode == 0, process.stderr[-2000:]
    lines = map(json.loads, process.stdout.splitlines())
    return {name: (kind, message, peak) for name, kind, message, peak in lines}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_with_its_query_before_the_memory_is_taken(name: str, ended: dict[str, Ended]) -> None:
    kind, message, peak = ended[name]
    assert (kind, "than is available" in message) == ("QueryTooLarge", False), message
    assert peak <= PEAK_MOST


@pytest.fixture
def service(tmp_path: Path) -> Service:
    service = Service.open(
        f"lmdb:{tmp_path / 'store'}", base="http://rillet/", clock=ManualClock(1_000_000), engine="inline", batch_ms=0
    )
    service.update(f'INSERT DATA {{ <{EX}s> <{EX}p> "12345678" . <{EX}s> <{EX}q> 1 . <{EX}t> <{EX}q> 2 }}')
    return service


_TOO_LONG = "CONCAT(?x, ?x)"


@pytest.mark.parametrize(
    "pattern",
    [
        f"BIND(COALESCE({_TOO_LONG}, 'caught') AS ?y)",
        f"BIND(IF({_TOO_LONG} = 'a', 1, 2) AS ?y)",
        f"BIND(IF(true, {_TOO_LONG}, 2) AS ?y)",
        f"FILTER(true || {_TOO_LONG} = 'a')",
        f"FILTER(!(false && {_TOO_LONG} = 'a'))",
        f"FILTER(1 IN ({_TOO_LONG}, 1))",
        f"OPTIONAL {{ ?s <{EX}p> ?z FILTER({_TOO_LONG} = ?z) }}",
        f"FILTER EXISTS {{ ?s <{EX}p> ?z FILTER(CONCAT(?x, ?z) != 'a') }}",
        f"FILTER NOT EXISTS {{ ?s <{EX}p> ?z FILTER(CONCAT(?z, ?z) = ?z) }}",
        f"MINUS {{ ?s <{EX}p> ?z FILTER(CONCAT(?z, ?z) = 'a') }}",
        f"{{ BIND(1 AS ?y) }} UNION {{ ?s <{EX}p> ?z FILTER(CONCAT(?z, ?z) = 'a') }}",
        f"{{ SELECT (GROUP_CONCAT(?z; separator='123456789') AS ?y) {{ ?s <{EX}p>|<{EX}q> ?z }} }}",
        f"SERVICE SILENT <http://nowhere.invalid/> {{ ?s <{EX}p> ?z }} FILTER(COALESCE({_TOO_LONG}, 1) = 1)",
    ],
)
def test_nothing_in_a_query_catches_the_end_of_its_budget(pattern: str, service: Service) -> None:
    text = f"SELECT * {{ ?s <{EX}p> ?x {pattern} }}"
    with service, pytest.raises(QueryTooLarge, match="--term-bytes"):
        service.query(text, control=Control(term_bytes=15))


@pytest.mark.parametrize(
    ("make", "length"),
    [
        (lambda control: FUNCTIONS["CONCAT"].within(control)("abc", "d\u00e9"), 6),
        (lambda control: FUNCTIONS["UCASE"].within(control)("stra\u00dfe"), 7),
        (lambda control: FUNCTIONS["LCASE"].within(control)("\u0130x"), 4),
        (lambda control: FUNCTIONS["ENCODE_FOR_URI"].within(control)("a\u20acb "), 14),
        (lambda control: FUNCTIONS["REPLACE"].within(control)("banana", "a", "--"), 9),
        (lambda control: FUNCTIONS["REPLACE"].within(control)("banana", "(an)", "$1$1"), 10),
        (lambda control: FUNCTIONS["REPLACE"].within(control)("banana", "\\p{L}", "\u00e9"), 12),
        (lambda control: FUNCTIONS["STRDT"].within(control)("abc", Resource(b"<http://ex/t>")), 16),
        (lambda control: FUNCTIONS["STRLANG"].within(control)("abc", "en"), 5),
        (lambda control: iri_within("http://ex/", control)("abc"), 13),
    ],
)
def test_a_term_may_have_its_full_length_and_no_more(make: Callable[[Control], object], length: int) -> None:
    assert make(Control(term_bytes=length)) is not None
    with pytest.raises(QueryTooLarge, match="term of"):
        make(Control(term_bytes=length - 1))


def test_what_is_replaced_is_not_made_where_it_would_be_too_long() -> None:
    """Of a match whose replacement alone would not fit, nothing is put together."""
    replace = FUNCTIONS["REPLACE"].within
    assert replace is not None
    with pytest.raises(QueryTooLarge, match=f"term of {1_000 * 1_000_000} bytes"):
        replace(Control())("a" * 1_000_000, "^(a+)", "$1" * 1_000)


def test_a_long_text_is_matched_within_the_time_of_the_query() -> None:
    ticks = iter([0.0, 0.0, 0.0])
    late = Control(0.05, clock=lambda: next(ticks, 10.0))
    with pytest.raises(DeadlineExceeded, match=r"its time limit of 0\.05 s"):
        FUNCTIONS["REGEX"].within(late)("a" * 2_000_000, "(a|aa)+b")


def test_a_pattern_has_a_length_and_a_depth() -> None:
    for pattern in ("a" * (PATTERN_MAX + 1), "(" * 500 + ")" * 500):
        with pytest.raises(QueryTooLarge, match="regular expression"):
            regexes.regex_of(pattern, "")


def test_numbers_overflow_instead_of_growing_for_ever(service: Service) -> None:
    binds = " ".join(f"BIND(?v{i} * ?v{i} AS ?v{i + 1})" for i in range(40))
    with service:
        for first in ("123456789", "1.23456789", "0.000000001"):
            answer = service.query(f"SELECT ?v10 ?v40 {{ BIND({first} AS ?v0) {binds} }}", control=Control(60.0))
            ((early, late),) = service.decode(answer)
            assert early is not None, "thousands of digits are exact"
            assert late is None


def test_constants_are_worked_out_beforehand_only_while_they_stay_short(service: Service) -> None:
    """A plan is kept for long; what is long in it is made when it is asked for, within the budget of who asks."""
    with service:
        parts = ", ".join([f"'{'a' * 500}'"] * 20)
        long = f"SELECT (CONCAT({parts}) AS ?x) {{}}"
        ((text,),) = service.decode(service.query(long))
        assert text == b'"' + b"a" * 10_000 + b'"'
        with pytest.raises(QueryTooLarge):
            service.query(long, control=Control(term_bytes=5_000))


# ---- the account itself


def test_operators_have_what_the_others_leave() -> None:
    control = Control(bytes_max=1000)
    control.room(100, 1)
    control.alive(500)
    control.spend(300)
    control.room(25, 1)
    with pytest.raises(QueryTooLarge, match="26 solutions"):
        control.room(26, 1)
    spent = control.spent
    control.spend(200)
    with pytest.raises(QueryTooLarge, match="needs more than its memory limit of 1000 bytes"):
        control.spend(1)
    control.return_to(spent)
    control.room(25, 1)
    control.begin(retained=990)
    control.room(1, 1)
    with pytest.raises(QueryTooLarge):
        control.room(2, 1)


def test_an_evaluation_that_begins_has_all_of_its_time_again() -> None:
    ticks = iter([0.0, 0.9, 1.1, 1.1, 2.0, 2.2])
    control = Control(1.0, clock=lambda: next(ticks))
    control.check()
    with pytest.raises(DeadlineExceeded):
        control.check()
    control.begin(0)
    control.check()
    with pytest.raises(DeadlineExceeded):
        control.check()


def test_pairs_are_looked_for_only_as_long_as_there_is_room() -> None:
    index = RowIndex(1, (0,))
    same = np.zeros(10_000, np.uint64)
    index.insert(ZSet((same,), len(same)), 0)
    with pytest.raises(QueryTooLarge) as error:
        index.probe((same,), len(same), 0, Control(bytes_max=1 << 20))
    found = int(str(error.value).split(" would make ")[1].split()[0])
    assert (1 << 20) // 16 < found <= (1 << 20) // 16 + 2 * 256 * 10_000, "not all of the hundred millions"


def test_what_a_network_remembers_is_measured(service: Service) -> None:
    with service:
        store = service.store
        query = query_of(f"SELECT ?x ?y {{ ?s <{EX}n> ?x . ?s <{EX}m> ?y }}", "http://rillet/")
        values = " ".join(f"<{EX}s{i}> <{EX}n> {i} ; <{EX}m> {i} ." for i in range(10_000))
        service.update(f"INSERT DATA {{ {values} }}")
        network = Network.registered(query, logic_of(query), 1, NetworkInputs(store.at(), store.ids), Orders())
        empty = bytes_of(stage.operator for stage in network.stages)
        network.step(Moment(0, store.at(service.head()), None))
        held = bytes_of([*(stage.operator for stage in network.stages), network.answer])
        assert held > empty + 10_000 * 2 * 8
        assert held < empty + 10_000 * 600
        assert network.retained_bytes(1 << 20) == held, "so much has come that it was looked at"
        assert network.retained_bytes(1 << 20) == held, "and is not looked at again"
