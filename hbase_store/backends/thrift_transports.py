"""How Thrift servers are spoken to: transport, TLS, login and deadline, as the address of the store says.

hbase://h:9090/rillet                                    buffered, in the clear
hbase://h:9090/rillet?transport=framed&tls=/etc/ca.pem   framed, over TLS, with this authority
hbase://h:9090/rillet?sasl=gssapi&service=thrift         with a Kerberos ticket, for thrift/h@REALM
hbase://h:9090/rillet?timeout=5                          a call is given up after 5 s
"""

from __future__ import annotations

import http.client
import importlib
import ipaddress
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Literal
from urllib.parse import parse_qsl

from thriftpy2.thrift import TException
from thriftpy2.transport import TTransportException
from thriftpy2.transport.buffered import TCyBufferedTransport
from thriftpy2.transport.framed import TCyFramedTransport
from thriftpy2.transport.sasl import TCySaslClientTransport
from thriftpy2.transport.socket import TSocket

from hbase_store.backends.lease import LEASE_MS
from hbase_store.errors import BadStoreUrl

#: Where the name and the password for `sasl=plain` are: an address is shown in logs.
USER, PASSWORD = "RILLET_HBASE_USER", "RILLET_HBASE_PASSWORD"

#: A call is given up after so long, at most: it is less than what is left of the writer's lease when it is renewed, so
#: after such a wait the process is still the writer.
TIMEOUT_MS = LEASE_MS * 2 // 3

_OPTIONS = {"transport", "tls", "sasl", "service", "timeout"}
_SECONDS = re.compile("([0-9]{1,3})s?")
_OK = 200
#: Protections of SASL, as bits: none, of integrity, of confidentiality.
_UNPROTECTED, _CONFIDENTIAL = 1, 4
_PROTECTIONS = (_CONFIDENTIAL, 2, _UNPROTECTED)
_FRAME_BYTES_MAX = (1 << 24) - 1


class LoginFailed(Exception):
    """The Thrift server, or Kerberos, refused the login."""


@dataclass(frozen=True, slots=True)
class Login:
    """By a name and a password, or by a Kerberos ticket for `service`."""

    mechanism: Literal["PLAIN", "GSSAPI"]
    user: str = ""
    password: str = field(default="", repr=False)
    service: str = "hbase"

    def shown(self) -> str:
        return f"the user {self.user!r}" if self.mechanism == "PLAIN" else f"Kerberos (service {self.service!r})"


@dataclass(frozen=True, slots=True)
class ThriftAccess:
    """How all Thrift servers of a store are spoken to."""

    transport: Literal["buffered", "framed", "http"] = "buffered"
    tls: ssl.SSLContext | None = None
    login: Login | None = None
    timeout_ms: int = TIMEOUT_MS

    def socket(self, host: str, port: int, timeout_ms: int) -> Any:
        if self.transport == "http":
            return HttpSocket(host, port, timeout_ms, self.tls)
        if self.tls is not None:
            return TlsSocket(self.tls, host=host, port=port, socket_timeout=timeout_ms)
        return TSocket(host=host, port=port, socket_timeout=timeout_ms)

    def over(self, socket: Any, host: str) -> Any:
        """The transport over an open socket. With a login it has to be opened, too."""
        if self.login is not None:
            return TCySaslClientTransport(self._sasl(self.login, host), self.login.mechanism, socket)
        return TCyFramedTransport(socket) if self.transport == "framed" else TCyBufferedTransport(socket)

    @staticmethod
    def _sasl(login: Login, host: str) -> Callable[[], Any]:
        return lambda: _Plain(login) if login.mechanism == "PLAIN" else _Kerberos(login.service, host)


IN_THE_CLEAR = ThriftAccess()


def access_of(query: str, hosts: list[str], environ: Mapping[str, str]) -> ThriftAccess:
    """From the options of an address; raises BadStoreUrl."""
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True)) if query else {}
    except ValueError as error:
        raise BadStoreUrl(f"{query!r}: write options as name=value, with & between them") from error
    if unknown := sorted(options.keys() - _OPTIONS):
        raise BadStoreUrl(f"the option {unknown[0]!r} is not known; there are {', '.join(sorted(_OPTIONS))}")
    transport = options.get("transport", "buffered")
    if transport not in ("buffered", "framed", "http"):
        raise BadStoreUrl(f"transport={transport}: write buffered, framed or http")
    tls = _context(options["tls"]) if "tls" in options else None
    login = _login(options, environ)
    if "service" in options and (login is None or login.mechanism != "GSSAPI"):
        raise BadStoreUrl(f"service={options['service']}: this belongs to sasl=gssapi")
    if login is not None and transport != "buffered":
        raise BadStoreUrl(f"sasl={options['sasl']} has frames of its own: leave out transport={transport}")
    if login is not None and login.mechanism == "PLAIN" and tls is None and not all(map(_is_here, hosts)):
        raise BadStoreUrl("sasl=plain sends the password as it is: add tls=system, or tls=FILE with the authority")
    return ThriftAccess(transport, tls, login, _timeout_ms(options))  # type: ignore[arg-type]  # looked at above


def _timeout_ms(options: Mapping[str, str]) -> int:
    if (text := options.get("timeout")) is None:
        return TIMEOUT_MS
    found = _SECONDS.fullmatch(text)
    if found is None or not 0 < int(found[1]) * 1000 <= TIMEOUT_MS:
        raise BadStoreUrl(f"timeout={text}: write a number of seconds from 1 to {TIMEOUT_MS // 1000}, as in timeout=5")
    return int(found[1]) * 1000


def _context(authority: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if authority == "system" else authority)
    except (OSError, ssl.SSLError) as error:
        raise BadStoreUrl(
            f"tls={authority}: write system, or the file of the certificates to trust, in PEM ({error})"
        ) from error


def _login(options: Mapping[str, str], environ: Mapping[str, str]) -> Login | None:
    match options.get("sasl"):
        case None:
            return None
        case "plain":
            if not environ.get(USER) or not environ.get(PASSWORD):
                raise BadStoreUrl(f"sasl=plain: set {USER} and {PASSWORD} in the environment")
            return Login("PLAIN", environ[USER], environ[PASSWORD])
        case "gssapi":
            _gssapi()
            return Login("GSSAPI", service=options.get("service", "hbase"))
        case other:
            raise BadStoreUrl(f"sasl={other}: write plain or gssapi")


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _gssapi() -> Any:
    try:
        return importlib.import_module("gssapi")
    except ImportError as error:  # also if the libraries of Kerberos are absent
        raise BadStoreUrl(f"sasl=gssapi needs the package gssapi: pip install 'rillet[kerberos]' ({error})") from error


# ---- sockets


class TlsSocket(TSocket):  # type: ignore[misc]  # thriftpy2 has no types
    def __init__(self, context: ssl.SSLContext, **named: Any) -> None:
        super().__init__(**named)
        self._context = context
        self.sock: Any

    def open(self) -> None:
        super().open()
        try:
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host)
        except BaseException:
            self.close()
            raise


class HttpSocket:
    """A request for each call, over one connection. Nothing is sent twice: a call may not be repeatable."""

    def __init__(self, host: str, port: int, timeout_ms: int, tls: ssl.SSLContext | None) -> None:
        timeout_s = timeout_ms / 1000
        self._http = (
            http.client.HTTPConnection(host, port, timeout=timeout_s)
            if tls is None
            else http.client.HTTPSConnection(host, port, timeout=timeout_s, context=tls)
        )
        self._request, self._answer = bytearray(), BytesIO()

    @property
    def sock(self) -> Any:
        return self._http.sock

    def is_open(self) -> bool:
        return self._http.sock is not None

    def open(self) -> None:
        self._http.connect()

    def close(self) -> None:
        self._http.close()

    def write(self, data: bytes) -> None:
        self._request += data

    def flush(self) -> None:
        body, self._request = bytes(self._request), bytearray()
        try:
            self._http.request("POST", "/", body, {"Content-Type": "application/x-thrift"})
            response = self._http.getresponse()
            answer = response.read()
        except http.client.HTTPException as error:
            raise TTransportException(TTransportException.UNKNOWN, f"no HTTP: {error}") from error
        if response.status != _OK:
            raise TTransportException(TTransportException.UNKNOWN, f"HTTP {response.status} {response.reason}")
        self._answer = BytesIO(answer)

    def read(self, size: int) -> bytes:
        data = self._answer.read(size)
        if not data:
            raise TTransportException(TTransportException.END_OF_FILE, "the answer is shorter than it says")
        return data


# ---- logins, as thriftpy2 asks for them: whether it went well, and what to send


class _Plain:
    """RFC 4616."""

    def __init__(self, login: Login) -> None:
        self._message = f"\0{login.user}\0{login.password}".encode()

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self._message

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        raise LoginFailed("the server asks for more than a password")

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        return True, data


class _Kerberos:
    """RFC 4752, with the best protection that the server offers."""

    def __init__(self, service: str, host: str) -> None:
        gssapi = self._gssapi = _gssapi()
        name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        self._context = gssapi.SecurityContext(name=name, usage="initiate")
        self._protection = 0

    def start(self, mechanism: str) -> tuple[bool, str, bytes]:
        return True, mechanism, self._token(None)

    def step(self, challenge: bytes) -> tuple[bool, bytes]:
        if not self._context.complete:
            return True, self._token(challenge)
        offered = self._context.unwrap(challenge).message
        self._protection = next((each for each in _PROTECTIONS if offered[0] & each), 0)
        if not self._protection:
            raise LoginFailed(f"the server offers no protection that is known ({offered[0]})")
        size = 0 if self._protection == _UNPROTECTED else _FRAME_BYTES_MAX
        return True, self._context.wrap(bytes([self._protection]) + size.to_bytes(3, "big"), False).message

    def _token(self, challenge: bytes | None) -> bytes:
        try:
            return self._context.step(challenge) or b""
        except self._gssapi.exceptions.GSSError as error:
            raise LoginFailed(str(error)) from error

    def encode(self, data: bytes) -> tuple[bool, bytes]:
        if self._protection == _UNPROTECTED:
            return True, data
        wrapped: bytes = self._context.wrap(data, self._protection == _CONFIDENTIAL).message
        return True, len(wrapped).to_bytes(4, "big") + wrapped

    def decode(self, data: bytes) -> tuple[bool, bytes]:
        return True, self._context.unwrap(data[4:]).message


def why_not_connected(error: Exception, shown: str, access: ThriftAccess) -> str:
    """What a client can do about a Thrift server that cannot be connected to."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"the certificate of the Thrift server at {shown} is not accepted: {error.verify_message}; "
            "name the authority that signed it with tls=FILE, and the server as its certificate does"
        )
    if isinstance(error, ssl.SSLError):
        return f"the server at {shown} does not speak TLS ({error.reason}): leave out tls=, or check the port"
    if isinstance(error, LoginFailed):
        assert access.login is not None
        return f"the Thrift server at {shown} does not let {access.login.shown()} in: {error}"
    return (
        f"no HBase Thrift server answers at {shown}: check the address, or start one (to try it out: rillet hbase up)"
    )


def logged_in(transport: Any) -> None:
    """Opens a transport with a login, over its open socket."""
    try:
        transport.open()
    except (TException, EOFError) as error:
        raise LoginFailed(getattr(error, "message", None) or str(error) or "the connection was closed") from error
