"""What every test has: a limit of time, an empty folder, no settings of the developer's, no server of his."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from endpoint.cli.flags import DEFAULT_SERVER
from tests.parts.processes import started


def test_every_test_has_a_limit_of_time(request: pytest.FixtureRequest) -> None:
    default = float(request.config.getini("timeout"))
    last = float(request.config.getini("faulthandler_timeout"))
    assert 0 < default <= 120 and default < last and request.config.getini("faulthandler_exit_on_timeout")


def test_the_current_folder_is_empty_and_no_setting_is_there() -> None:
    assert list(Path.cwd().iterdir()) == []
    assert os.environ["RILLET_SERVER"] != DEFAULT_SERVER
    assert {"RILLET_STORE", "RILLET_PORT", "RILLET_TOKEN"} & os.environ.keys() == set()


def test_nobody_looks_at_the_port_where_a_server_may_be() -> None:
    port = int(DEFAULT_SERVER.rpartition(":")[2])
    with socket.socket() as one:
        for look in (one.connect, one.bind):
            with pytest.raises(AssertionError, match="a test looks at port"):
                look(("127.0.0.1", port))


@pytest.mark.parametrize("turn", ["one test turns Ctrl-C off", "the next has it"])
def test_what_one_test_does_to_signals_is_gone_for_the_next(turn: str) -> None:
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with started([sys.executable, "-c", "import signal; print(signal.getsignal(2))"], stdout=-1, text=True) as child:
        assert child.communicate(timeout=60)[0].startswith("<built-in function default_int_handler")
    signal.signal(signal.SIGINT, signal.SIG_IGN)


SKIPS = """
import pytest
def test_one():
    pytest.skip("of a test")
@pytest.mark.skipif(True, reason="of a mark")
def test_two(): pass
@pytest.fixture
def part():
    pytest.importorskip("nowhere")
def test_three(part): pass
@pytest.mark.parametrize("of", [])
def test_four(of): pass
@pytest.mark.xfail(reason="not yet", strict=True)
def test_five():
    raise ValueError
"""
SKIPS_WHOLE = "import pytest\npytest.skip('of a module', allow_module_level=True)"


@pytest.mark.parametrize(("ci", "outcome"), [("", "5 skipped, 1 xfailed"), ("true", "1 failed, 1 xfailed, 4 errors")])
def test_a_skip_is_a_failure_in_continuous_integration(ci: str, outcome: str, tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SKIPS)
    (tmp_path / "test_whole.py").write_text(SKIPS_WHOLE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.parts.missing", "-p", "no:cacheprovider", "-q", "."]
    more = ["--continue-on-collection-errors", f"--rootdir={tmp_path}"]
    environ = {**os.environ, "CI": ci, "PYTEST_ADDOPTS": ""}
    done = subprocess.run([*command, *more], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert outcome in done.stdout, done.stdout + done.stderr
    assert done.returncode == (1 if ci else 0)
    assert done.stdout.count("AND THIS IS CI") >= (5 if ci else 0)


def test_a_child_of_a_test_that_fails_is_not_waited_for() -> None:
    with pytest.raises(ZeroDivisionError), started([sys.executable, "-c", "input()"], stdin=-1) as child:
        raise ZeroDivisionError
    assert child.returncode == -signal.SIGKILL
