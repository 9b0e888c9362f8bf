"""The address of a store, from the argument of `open` or `destroy`: `data` -> `lmdb:/home/me/data`."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import hbase_store
from plugin.sharing import shared
from stream_ext.errors import BadArgument

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
#: What an embedded store has in its folder.
_FILES = ("data.mdb", "lock.mdb", "writer.lock")


def store_url(configuration: str) -> str:
    """A path means the embedded store in this folder. All ways to write a path give the same address."""
    path = configuration.removeprefix("lmdb:")
    if _SCHEME.match(path):
        return configuration  # hbase://..., or something that the store refuses by name
    return f"lmdb:{Path(path).expanduser().resolve()}"


def is_server(configuration: str) -> bool:
    return re.match(r"https?:", configuration) is not None


def destroy(url: str) -> None:
    """Removes an embedded store; other files in its folder stay."""
    if shared.is_open(url):
        raise BadArgument(f"{url} is open in this process; close it first")
    if is_server(url):
        raise BadArgument(f"{url}: a client cannot destroy the store of a server; graph.update('DROP ALL') empties it")
    if not url.startswith("lmdb:"):
        raise BadArgument(f"{url}: destroy() works for embedded stores (lmdb:PATH) only; drop the tables in HBase")
    folder = Path(url.removeprefix("lmdb:"))
    if not (folder / _FILES[0]).exists():
        raise BadArgument(f"there is no store in {folder}")
    with closing(hbase_store.open(url)) as store:
        store.take_lease("")  # fails if another process writes, or if this is no store of ours
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()
