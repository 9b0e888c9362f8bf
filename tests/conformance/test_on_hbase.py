"""The W3C's queries and updates on a real HBase: every 75th in continuous integration, all of them in a campaign.

All are played in one store, one after the other, as HBase takes a second to create tables. What a test leaves is
deleted, and folded into the base."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

import hbase_store
from endpoint.trial_hbase.server import HBase
from hbase_store import Store, provisioning
from tests.conformance import test_query, test_update
from tests.conformance.played import judge
from tests.stream_ext.w3c import folder

pytestmark = [pytest.mark.hbase, pytest.mark.xdist_group("hbase")]

#: One in so many; 1: all.
_EVERY = [75, pytest.param(1, marks=pytest.mark.soak)]


@pytest.fixture
def url(hbase_server: HBase) -> Iterator[str]:
    folder()  # skips loudly where the W3C's tests are not at hand
    made = f"hbase://127.0.0.1:{hbase_server.thrift_port}/w3c_{uuid.uuid4().hex[:8]}"
    yield made
    provisioning.drop(made)


def empty(store: Store) -> None:
    s, p, o, g = store.at().quads()
    if len(s):
        batch = store.begin()
        batch.delete(s, p, o, g)
        store.commit(batch)
    store.fold()


@pytest.mark.parametrize("every", _EVERY)
def test_answers_on_hbase_are_the_published_ones(url: str, every: int) -> None:
    wrong = []
    with closing(hbase_store.open(url, folding=False)) as store:
        for case in test_query.cases()[::every]:
            empty(store)
            if found := judge(case, store):
                wrong.append(found)
    assert not wrong, wrong


@pytest.mark.parametrize("every", _EVERY)
def test_after_an_update_a_store_on_hbase_holds_what_was_published(url: str, every: int) -> None:
    wrong = []
    for case in test_update.CASES[::every]:
        with closing(hbase_store.open(url, folding=False)) as store:
            empty(store)
        if found := test_update.judge(case, url):
            wrong.append(found)
    assert not wrong, wrong
