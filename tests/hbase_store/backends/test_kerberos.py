"""Logins by Kerberos tickets, at a KDC of the test (Debian's krb5-kdc), with the server's side by the package gssapi.

They are left out where these are not installed: the package is built against the headers of Kerberos."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import hbase_store
from hbase_store.errors import BadStoreUrl, StoreUnavailable
from tests.hbase_store.backends.sasl_proxy import proxy
from tests.hbase_store.backends.thrift_server import round_trip, served
from tests.parts.waiting import until

gssapi = pytest.importorskip("gssapi", reason="gssapi is not installed", exc_type=ImportError)
_PATH = f"{os.environ['PATH']}:/usr/sbin"
if shutil.which("krb5kdc", path=_PATH) is None:
    pytest.skip("there is no krb5kdc (Debian's krb5-kdc and krb5-admin-server)", allow_module_level=True)

_CLIENT = """[libdefaults]
 default_realm = TEST.EXAMPLE
 dns_lookup_kdc = false
 dns_canonicalize_hostname = false
[realms]
 TEST.EXAMPLE = {{
  kdc = 127.0.0.1:{port}
 }}
"""
_ELSEWHERE = """[domain_realm]
 localhost = ELSEWHERE.EXAMPLE
"""
_KDC = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 TEST.EXAMPLE = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
 }}
"""
_COMMANDS = (
    "addprinc -randkey hbase/localhost",
    "addprinc -randkey anna",
    "ktadd -k {folder}/server.keytab hbase/localhost",
    "ktadd -k {folder}/client.keytab anna",
)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder with the files of a KDC that runs."""
    folder = tmp_path_factory.mktemp("realm")
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    (folder / "krb5.conf").write_text(_CLIENT.format(port=port))
    (folder / "elsewhere.conf").write_text(_CLIENT.format(port=port) + _ELSEWHERE)
    (folder / "kdc.conf").write_text(_KDC.format(port=port, folder=folder))
    environ = {"PATH": _PATH, "KRB5_CONFIG": f"{folder}/krb5.conf", "KRB5_KDC_PROFILE": f"{folder}/kdc.conf"}
    made = {"env": environ, "check": True, "capture_output": True}
    subprocess.run(["kdb5_util", "create", "-s", "-P", "master", "-r", "TEST.EXAMPLE"], **made)  # type: ignore[call-overload]
    for command in _COMMANDS:
        subprocess.run(["kadmin.local", "-q", command.format(folder=folder)], **made)  # type: ignore[call-overload]
    kdc = subprocess.Popen(["krb5kdc", "-n"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: _listens(port), "the KDC listens")
        yield folder
    finally:
        kdc.terminate()
        kdc.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def anna(realm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This process has the key of anna."""
    monkeypatch.setenv("KRB5_CONFIG", f"{realm}/krb5.conf")
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", f"{realm}/client.keytab")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")
    return realm


class KerberosConversation:
    """RFC 4752 at the server, which offers one protection."""

    def __init__(self, realm: Path, offered: int) -> None:
        credentials = gssapi.Credentials(usage="accept", store={"keytab": f"{realm}/server.keytab"})
        self._context: Any = gssapi.SecurityContext(creds=credentials, usage="accept")
        self._offered, self._asked = offered, False

    def step(self, message: bytes) -> tuple[bytes, bool]:
        if not self._context.complete:
            token = self._context.step(message) or b""
            if token or not self._context.complete:
                return token, False
        if not self._asked:
            self._asked = True
            return self._context.wrap(bytes([self._offered, 255, 255, 255]), False).message, False
        chosen = self._context.unwrap(message).message
        assert chosen[0] == self._offered
        if str(self._context.initiator_name) != "anna@TEST.EXAMPLE":
            raise PermissionError("anna only")
        return b"", True

    def wrap(self, data: bytes) -> bytes:
        return data if self._offered == 1 else self._context.wrap(data, self._offered == 4).message

    def unwrap(self, data: bytes) -> bytes:
        if self._offered == 1:
            return data
        unwrapped = self._context.unwrap(data)
        assert unwrapped.encrypted == (self._offered == 4)
        return unwrapped.message  # type: ignore[no-any-return]


def asking_for_tickets(realm: Path, port: int, offered: int) -> AbstractContextManager[int]:
    return proxy(("127.0.0.1", port), None, lambda: KerberosConversation(realm, offered))


@pytest.mark.parametrize("offered", [1, 2, 4])
def test_a_login_by_ticket_with_each_protection(anna: Path, offered: int) -> None:
    with served("buffered") as port, asking_for_tickets(anna, port, offered) as asking:
        round_trip(f"hbase://localhost:{asking}/rillet?sasl=gssapi")


def refused(anna: Path, options: str) -> str:
    refusal = pytest.raises(StoreUnavailable, match="does not let Kerberos")
    with served("buffered") as port, asking_for_tickets(anna, port, 1) as asking, refusal as error:
        hbase_store.open(f"hbase://localhost:{asking}/rillet?sasl=gssapi{options}")
    return str(error.value)


def test_a_service_that_the_kdc_does_not_know_is_named(anna: Path) -> None:
    assert "(service 'thrift') in: " in refused(anna, "&service=thrift")


def test_a_wrong_realm_is_named(anna: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", f"{anna}/elsewhere.conf")
    assert "ELSEWHERE.EXAMPLE" in refused(anna, "")


def test_without_the_package_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(BadStoreUrl, match="needs the package gssapi: pip install"):
        hbase_store.open("hbase://localhost/rillet?sasl=gssapi")
