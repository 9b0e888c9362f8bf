"""A shard's factory with functions that kill, or hang, the process that calls them; never that of the server.

They give true; but of FATAL a worker does not come back: it dies, crashes, or hangs; nor does a trial. `:dies_twice`
only kills two workers."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from hbase_store.layout.terms import Term
from stream_ext.continuous import shard
from stream_ext.continuous.query_budget import Budget
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.values.functions.custom import register_function, unregister_function
from stream_ext.windows.part import Part as Part
from stream_ext.windows.query_state import QueryState as QueryState

FACTORY = "tests.stream_ext.runners.spark.dangerous:open_shard"
EX = "http://ex/"
FATAL = 666
#: The environment variable with a folder, and the number of the server's process in it.
FOLDER = "RILLET_TEST_DANGEROUS"
_on_trial = False


def open_shard(
    store_url: str, base: str, allowed_urls: AllowedUrls, budget: Budget, only: Collection[int] | None = None
) -> shard.Shard:
    global _on_trial
    _on_trial = only is not None
    register()
    return shard.open_shard(store_url, base, allowed_urls, budget, only)


def begin(folder: Path) -> dict[str, str]:
    """To be called by the server; what its children's environment needs."""
    (folder / "server").write_text(str(os.getpid()))
    return {FOLDER: str(folder)}


def calls(folder: Path) -> list[str]:
    """Which processes were called with FATAL: server, worker or trial."""
    noted = folder / "calls"
    return noted.read_text().split() if noted.exists() else []


def _dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dies_with_its_driver() -> None:
    if not _on_trial:  # whose parent is the server
        os.kill(os.getppid(), signal.SIGKILL)
    _dies()


def _crashes() -> None:
    ctypes.string_at(0)


def _hangs() -> None:
    threading.Event().wait()


def _dies_twice() -> None:
    if not _on_trial and calls(Path(os.environ[FOLDER])).count("worker") <= 2:
        _dies()


def _fatal(end: Callable[[], None]) -> Callable[[Term], bool]:
    def function(term: Term) -> bool:
        if term.value == str(FATAL):
            folder = Path(os.environ[FOLDER])
            is_server = (folder / "server").read_text() == str(os.getpid())
            with (folder / "calls").open("a") as noted:
                noted.write("server\n" if is_server else "trial\n" if _on_trial else "worker\n")
            if not is_server:
                end()
        return True

    return function


ENDS = {
    "dies": _dies,
    "dies_with_its_driver": _dies_with_its_driver,
    "crashes": _crashes,
    "hangs": _hangs,
    "dies_twice": _dies_twice,
}


def register() -> None:
    """Not as this module is read: whoever collects the tests would have them for the rest of its life."""
    for name, end in ENDS.items():
        register_function(EX + name, _fatal(end))


def unregister() -> None:
    for name in ENDS:
        unregister_function(EX + name)
