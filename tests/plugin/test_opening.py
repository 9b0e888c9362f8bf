"""How a store is named, opened, shared, closed and destroyed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from rdflib import ConjunctiveGraph, Dataset, Graph, Literal, Namespace, plugin
from rdflib.store import VALID_STORE, Store

from hbase_store.errors import AnotherWriter, BadStoreUrl, Corrupt, StoreUnavailable
from plugin.store import HBaseStore, RilletStore
from stream_ext.errors import BadArgument
from tests.parts.processes import started

EX = Namespace("http://ex/")


def test_rdflib_finds_the_store_by_both_names() -> None:
    assert plugin.get("rillet", Store) is RilletStore
    assert plugin.get("HBase", Store) is HBaseStore
    for kind in (RilletStore, HBaseStore):
        assert (kind.context_aware, kind.graph_aware, kind.transaction_aware, kind.formula_aware) == (
            (True,) * 3 + (False,)
        )


@pytest.mark.parametrize("kind", [Graph, Dataset, ConjunctiveGraph])
@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Dataset.default_context is deprecated:DeprecationWarning")
def test_what_one_wrote_is_there_when_it_is_opened_again(kind: type[Graph], tmp_path: Path) -> None:
    graph = kind(store="rillet")
    assert graph.open(str(tmp_path / "store"), create=True) == VALID_STORE
    graph.add((EX.a, EX.p, Literal(1)))
    graph.close()
    again = kind(store="rillet")
    again.open(f"lmdb:{tmp_path / 'store'}")
    assert [triple[:3] for triple in again.triples((None, None, None))] == [(EX.a, EX.p, Literal(1))]
    again.close()


def test_a_store_opens_where_it_is_made(tmp_path: Path) -> None:
    graph = Graph(store=RilletStore(str(tmp_path / "store")))
    graph.add((EX.a, EX.p, EX.b))
    with pytest.raises(BadArgument, match="already open"):
        graph.open(str(tmp_path / "other"))
    assert len(graph) == 1
    graph.close()


_HOLDER = """
import sys, hbase_store
store = hbase_store.open(sys.argv[1])
store.take_lease("http://the-server:1")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_path_that_a_server_holds_is_refused_with_its_address(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLDER, f"lmdb:{tmp_path / 'store'}"]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(AnotherWriter, match="send writes to http://the-server:1"):
            Graph(store="rillet").open(str(tmp_path / "store"))
        holder.communicate(timeout=60)
    graph = Graph(store="rillet")
    graph.open(str(tmp_path / "store"))
    graph.close()


def test_two_graphs_on_one_path_share_the_store(tmp_path: Path) -> None:
    first, second = Graph(store="rillet"), Graph(store="rillet")
    first.open(str(tmp_path / "shared"))
    second.open(f"lmdb:{tmp_path}/./shared")
    first.add((EX.a, EX.p, EX.b))
    assert (EX.a, EX.p, EX.b) in second
    first.close()
    second.add((EX.c, EX.p, EX.d))
    second.close()
    with pytest.raises(BadArgument, match="not open"):
        len(second)
    again = Graph(store="rillet")
    again.open(str(tmp_path / "shared"))
    assert len(again) == 2
    again.close()


def test_an_address_that_names_no_store_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadStoreUrl, match="memory:"):
        Graph(store="rillet").open("memory:")
    assert not list(tmp_path.iterdir())


def test_a_place_without_a_scheme_is_a_cluster_for_the_store_named_hbase() -> None:
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1\b"):
        Graph(store="HBase").open("127.0.0.1:1/rillet")
    with pytest.raises(BadStoreUrl, match="hbase://nowhere"):
        Graph(store="HBase").open("nowhere")


def test_a_destroyed_store_is_gone_and_what_else_was_in_its_folder_is_not(tmp_path: Path) -> None:
    path = tmp_path / "store"
    graph = Graph(store="rillet")
    graph.open(str(path))
    graph.add((EX.a, EX.p, EX.b))
    (path / "notes.txt").write_text("mine")
    with pytest.raises(BadArgument, match="close it first"):
        graph.destroy(str(path))
    graph.close()
    graph.destroy(str(path))
    assert [file.name for file in path.iterdir()] == ["notes.txt"]
    graph.open(str(path))
    assert len(graph) == 0
    graph.close()
    (path / "notes.txt").unlink()
    graph.destroy(str(path))
    assert not path.exists()


def test_only_a_store_of_ours_is_destroyed(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(b"something else")
    with pytest.raises(Corrupt):
        Graph(store="rillet").destroy(str(tmp_path))
    assert (tmp_path / "data.mdb").read_bytes() == b"something else"
    with pytest.raises(BadArgument, match="no store"):
        Graph(store="rillet").destroy(str(tmp_path / "nothing"))
    with pytest.raises(BadArgument, match="HBase"):
        Graph(store="HBase").destroy("localhost:9090/rillet")
