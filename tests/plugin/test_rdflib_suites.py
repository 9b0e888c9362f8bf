"""rdflib's own tests of graphs, datasets and SPARQL, from its source distribution, run on stores of ours.

They run word by word, in a process of their own in which `Graph()` and `Dataset()` are made on our store."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.endpoint.live import Live, live
from tests.parts.sources import source_of

VERSION = "7.6.0"
FILES = (
    "conjunctivegraph/conjunctive_graph", "dataset/dataset", "graph/batch_add", "graph/container",
    "graph/graph_context", "graph/graph_operator", "graph/namespace_rebinding", "graph/slice", "sparql/agg_distinct",
    "sparql/agg_undef", "sparql/construct_bindings", "sparql/dataset_exclusive", "sparql/dataset_inclusive",
    "sparql/evaluate_bind", "sparql/initbindings", "sparql/nested_filters", "sparql/optional", "sparql/subselect",
    "store/store_triple_store",
)  # fmt: skip
ROOT = Path(__file__).parents[2]

_AS_SPECIFIED = (
    "rdflib passes over what is no number; SPARQL 1.1 makes the aggregate an error, so the variable is unbound"
)
_N3 = "it reads N3, which rdflib itself refuses for a store that knows no formulas"
#: What is otherwise here, and why.
OTHERWISE = {
    **{f"test_agg_undef.test_aggregates[template_tst-{which}-42]": _AS_SPECIFIED
       for which in ("SUM-0", "MIN-None", "MAX-None", "GROUP_CONCAT-")},
    "test_namespace_rebinding.test_binding_replace": _N3,
    "test_namespace_rebinding.test_parse_rebinds_prefix": _N3,
}  # fmt: skip

#: Their tests run on all stores that are installed; one of others is not what is tried here.
_CONFTEST = """from rdflib import plugin
from rdflib.store import Store
from tests.plugin.{module} import take_over

for name in ("Oxigraph", "oxigraph"):
    plugin._plugins.pop((name, Store), None)
take_over()
"""
_DATA = """from rdflib import URIRef

MICHEL, TAREK, BOB = (URIRef(f"urn:example:{name}") for name in ("michel", "tarek", "bob"))
LIKES, HATES, PIZZA, CHEESE = (URIRef(f"urn:example:{name}") for name in ("likes", "hates", "pizza", "cheese"))
CONTEXT0, CONTEXT1, CONTEXT2 = (URIRef(f"urn:example:context-{n}") for n in range(3))
"""
_NAMESPACES = 'from rdflib import Namespace\n\nEGDC = Namespace("http://example.com/")\n'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    """Where they expect a server of their own, for rdflib's client of servers."""
    with live(tmp_path / "served") as running:
        yield running


def stage(folder: Path, url: str, module: str = "fresh_store") -> None:
    """Their files under their names, and of what they import from beside them the part that they use."""
    utils = folder / "test" / "utils"
    utils.mkdir(parents=True)
    for package in (utils.parent, utils):
        (package / "__init__.py").touch()
    (utils / "namespace.py").write_text(_NAMESPACES)
    (utils.parent / "data.py").write_text(_DATA)
    (folder / "conftest.py").write_text(_CONFTEST.replace("{module}", module))
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n    webtest: uses the internet\n")
    tests = source_of("rdflib", VERSION) / "test"
    for room, name in (file.split("/") for file in FILES):
        file = tests / f"test_{room}" / f"test_{name}.py"
        text = file.read_text().replace('HOST = "http://localhost:3030"\nDB = "/db/"', f'HOST = "{url}"\nDB = "/"')
        (folder / file.name).write_text(text)


def outcomes(report: Path) -> dict[str, str]:
    """By test: passed, failed or skipped."""
    found = {}
    for case in ET.parse(report).iter("testcase"):
        children = {child.tag for child in case}
        outcome = "failed" if children & {"failure", "error"} else "skipped" if "skipped" in children else "passed"
        found[f"{case.get('classname', '').removesuffix('.py')}.{case.get('name')}"] = outcome
    return found


def outcomes_of_suite(tmp_path: Path) -> tuple[dict[str, str], str]:
    """What came of the staged tests, and what they printed."""
    folder, report = tmp_path / "suite", tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", f"--junitxml={report}"]
    path = os.pathsep.join([str(ROOT), str(folder)])
    done = subprocess.run(
        [*command, "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert report.exists(), done.stdout + done.stderr
    return outcomes(report), done.stdout


@pytest.mark.timeout(400)  # as long as its child has, and some more
def test_rdflibs_own_tests_pass_on_our_store(tmp_path: Path, server: Live) -> None:
    stage(tmp_path / "suite", server.url)
    found, printed = outcomes_of_suite(tmp_path)
    for store in ("default", "rillet", "SPARQLUpdateStore"):
        assert f"test_dataset.test_graph_aware[{store}]" in found
    failed = {name for name, outcome in found.items() if outcome == "failed"}
    assert failed == set(OTHERWISE), printed[-10_000:]
    assert sum(outcome == "passed" for outcome in found.values()) > 140, printed[-10_000:]


@pytest.mark.timeout(400)
def test_rdflibs_own_tests_pass_on_its_memory_store_while_it_is_watched(tmp_path: Path, server: Live) -> None:
    stage(tmp_path / "suite", server.url, "attached.watched_memory")
    found, printed = outcomes_of_suite(tmp_path)
    assert "test_dataset.test_graph_aware[default]" in found
    assert [name for name, outcome in found.items() if outcome == "failed"] == [], printed[-10_000:]
    assert sum(outcome == "passed" for outcome in found.values()) > 140, printed[-10_000:]
