"""The cookie of the console. Browsers send a cookie to all ports of a host, so its name contains the port of this
server; over TLS it is bound to the host, and is never sent without TLS."""

from __future__ import annotations

from flask import Flask, request
from flask.sessions import SecureCookieSessionInterface
from itsdangerous import BadSignature
from werkzeug.http import parse_cookie

from endpoint.http.access import Caller

#: The key of the sign-in's id in the session.
SIGNED_IN = "rillet"


class Sessions(SecureCookieSessionInterface):
    def get_cookie_name(self, app: Flask) -> str:
        return cookie_name(request.scheme, request.environ["SERVER_PORT"])

    def get_cookie_secure(self, app: Flask) -> bool:
        return request.scheme == "https"

    def sign_in_of(self, app: Flask, caller: Caller) -> object:
        """The id of the sign-in that a request sends, for code outside of Flask."""
        cookie = parse_cookie(caller.cookies).get(cookie_name(caller.scheme, caller.port))
        serializer = self.get_signing_serializer(app)
        if cookie is None or serializer is None:
            return None
        try:
            return serializer.loads(cookie).get(SIGNED_IN)
        except BadSignature:
            return None


def cookie_name(scheme: str, port: str) -> str:
    return "__Host-rillet" if scheme == "https" else f"rillet-{port}"
