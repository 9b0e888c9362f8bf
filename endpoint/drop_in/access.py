"""Who may write to a SparqlEndpoint: nobody without `enable_update`; with RDFLIB_APIKEY set, whoever sends it.

The variable is read at each write, as rdflib-endpoint does. Pushes and registrations are writes, too."""

from __future__ import annotations

import os
from collections.abc import Sequence

from endpoint.errors import Forbidden
from endpoint.http.access import ANY, Access, Caller


class EndpointAccess(Access):
    def __init__(self, base: str, enable_update: bool, cors_enabled: bool) -> None:
        super().__init__(None, base, cors=(ANY,) if cors_enabled else ())
        self._enable_update = enable_update

    def check_write(self, caller: Caller) -> None:
        if not self._enable_update:
            raise Forbidden("INSERT and DELETE queries are not allowed: SparqlEndpoint(enable_update=True) allows them")
        self._token = os.environ.get("RDFLIB_APIKEY") or None
        super().check_write(caller)

    def for_origin(self, origin: str | None) -> Sequence[tuple[bytes, bytes]]:
        """None: the application's own middleware adds these headers to all answers."""
        return ()
