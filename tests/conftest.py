"""What all tests share: the real parts that some of them start, a limit of time for each, and surroundings of their
own: an empty folder, no settings of whoever runs them, loggers that no other test has set, and a Ctrl-C that works."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.parts.fuseki.fixture import fuseki, fuseki_server
from tests.parts.hbase.fixture import hbase_server
from tests.parts.loggers import loggers_as_before
from tests.parts.missing import pytest_make_collect_report, pytest_runtest_makereport
from tests.parts.virtuoso import virtuoso

__all__ = ["fuseki", "fuseki_server", "hbase_server", "virtuoso"]
__all__ += ["pytest_make_collect_report", "pytest_runtest_makereport"]

ROOT = Path(__file__).parent.parent
#: Seconds that a test may take which is so marked; all others have the default (pyproject.toml).
LIMITS_S = {"spark": 240, "hbase": 600, "fuseki": 240, "virtuoso": 240, "soak": 7200}
#: What tests and their tools are told by; settings of the product are not.
_OF_TESTS = {
    *("RILLET_SHARED", "RILLET_CACHE", "RILLET_HBASE_KIT", "RILLET_FUSEKI"),
    *("RILLET_FUZZ", "RILLET_FUZZ_ROUNDS", "RILLET_GOLDEN"),
}
#: Where a server of the developer's may listen: what is there is no test's.
_DEFAULT_PORT = 8000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        own = [limit_s for name, limit_s in LIMITS_S.items() if item.get_closest_marker(name)]
        if own and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(max(own)))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """With `--dist loadgroup`, each group stays in one worker. xdist tells the group by the end of the test's name."""
    group = item.get_closest_marker("xdist_group")
    if group and getattr(item.config.option, "loadgroup", False) and not item.nodeid.endswith(f"@{group.args[0]}"):
        pytest.fail(f"pytest {pytest.__version__} and this pytest-xdist ignore groups", pytrace=False)


@pytest.fixture(scope="session")
def _empty_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("empty")


@pytest.fixture(autouse=True)
def _own_surroundings(_empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the developer's that has the name of one in a test changes nothing, neither does a server of his, nor
    what another test did to the handling of signals."""
    monkeypatch.chdir(_empty_folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # children find the modules of the tests
    for name in [name for name in os.environ if name.startswith("RILLET_") and name not in _OF_TESTS]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RILLET_SERVER", "http://127.0.0.1:1")  # where nobody listens, for tests that name none
    if threading.current_thread() is threading.main_thread():
        # One that began in the background of a shell ignores it, and so would all its children.
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="module")
def _loggers_of_the_module() -> Iterator[None]:
    """For what the servers of a whole module do to them."""
    with loggers_as_before():
        yield


@pytest.fixture(autouse=True)
def _loggers_of_the_test() -> Iterator[None]:
    with loggers_as_before():
        yield


def _watch_port(event: str, arguments: tuple[object, ...]) -> None:
    if event in ("socket.connect", "socket.bind") and isinstance(address := arguments[1], tuple):
        assert address[1] != _DEFAULT_PORT, f"a test looks at port {_DEFAULT_PORT}, where a server may listen"


sys.addaudithook(_watch_port)
