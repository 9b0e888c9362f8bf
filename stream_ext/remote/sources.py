"""The sources of a server by their addresses.

SERVICE <http://127.0.0.1:3030/bio/sparql>      the address that was attached
SERVICE <http://localhost:8000/sources/bio>     its name, below the base of this server
SERVICE <bio>                                   its name alone"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stream_ext.errors import BadArgument
from stream_ext.remote.source import MAIN, Source


class Sources:
    def __init__(self, sources: Iterable[Source] = (), base: str = "") -> None:
        """`base`: that of the server. BadArgument if two have one name."""
        self._by_name: dict[str, Source] = {}
        self._by_address: dict[str, Source] = {}
        for source in sources:
            name = source.settings.name
            if name in self._by_name:
                raise BadArgument(f"two sources are called {name!r}: name one of them otherwise (--attach NAME=URL)")
            self._by_name[name] = source
            for address in (name, source.settings.url, f"{base}sources/{name}"):
                self._by_address.setdefault(address, source)

    def __iter__(self) -> Iterator[Source]:
        return iter(self._by_name.values())

    def __bool__(self) -> bool:
        return bool(self._by_name)

    @property
    def main(self) -> Source | None:
        """The source whose data are one dataset with our own."""
        return self._by_name.get(MAIN)

    def with_main(self, main: Source) -> Sources:
        """The same, but for what is asked as the source main."""
        found = Sources()
        was = self.main
        found._by_name = {name: main if each is was else each for name, each in self._by_name.items()}
        found._by_address = {address: main if each is was else each for address, each in self._by_address.items()}
        return found

    def named(self, name: str) -> Source | None:
        return self._by_name.get(name)

    def at(self, address: str) -> Source | None:
        return self._by_address.get(address)

    def meant(self, written: str | None, address: str) -> Source | None:
        """The source of SERVICE: by its name, if that is `written`, or by its address."""
        named = None if written is None else self._by_name.get(written)
        return self.at(address) if named is None else named


NO_SOURCES = Sources()
