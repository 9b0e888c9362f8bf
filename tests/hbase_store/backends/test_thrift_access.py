"""Transports, TLS and logins: over servers of thriftpy2 with HBase's own interface, and behind proxies."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest
import trustme

import hbase_store
from endpoint.trial_hbase.server import HBase
from hbase_store.errors import BadStoreUrl, StoreUnavailable
from hbase_store.opening import place_of
from tests.hbase_store.backends.sasl_proxy import PlainConversation, proxy
from tests.hbase_store.backends.thrift_server import round_trip, served
from tests.hbase_store.check_backend import check_backend

PASSWORDS = {"anna": "secret"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, Path]:
    made = trustme.CA()
    file = tmp_path_factory.mktemp("tls") / "ca.pem"
    made.cert_pem.write_to_path(str(file))
    return made, file


def context_of(authority: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(name).configure_cert(context)
    return context


@pytest.mark.parametrize("kind", ["buffered", "framed", "http"])
@pytest.mark.parametrize("secured", [False, True])
def test_each_transport_with_and_without_tls(kind: str, secured: bool, authority: tuple[trustme.CA, Path]) -> None:
    made, file = authority
    with served(kind) as port, proxy(("127.0.0.1", port), context_of(made, "127.0.0.1")) as tls_port:
        options = f"transport={kind}&tls={file}" if secured else f"transport={kind}"
        round_trip(f"hbase://127.0.0.1:{tls_port if secured else port}/rillet?{options}")


def test_a_login_with_a_password_over_tls(authority: tuple[trustme.CA, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made, file = authority
    monkeypatch.setenv("RILLET_HBASE_USER", "anna")
    monkeypatch.setenv("RILLET_HBASE_PASSWORD", "secret")
    login = lambda: PlainConversation(PASSWORDS)  # noqa: E731
    with served("buffered") as port, proxy(("127.0.0.1", port), context_of(made, "127.0.0.1"), login) as secured:
        url = f"hbase://127.0.0.1:{secured}/rillet?sasl=plain&tls={file}"
        round_trip(url)
        monkeypatch.setenv("RILLET_HBASE_PASSWORD", "guessed")
        with pytest.raises(StoreUnavailable, match=r"does not let the user 'anna' in: .*wrong name or password"):
            hbase_store.open(url)


@pytest.mark.parametrize(
    ("name", "trusted", "expected"),
    [
        ("elsewhere.example", True, "certificate of the Thrift server at 127.0.0.1:.* is not accepted: .*mismatch"),
        ("127.0.0.1", False, "is not accepted: .*; name the authority that signed it with tls=FILE"),
    ],
)
def test_a_wrong_certificate_is_named(
    name: str, trusted: bool, expected: str, authority: tuple[trustme.CA, Path]
) -> None:
    made, file = authority
    context = context_of(made if trusted else trustme.CA(), name)
    with proxy(("127.0.0.1", 9), context) as port, pytest.raises(StoreUnavailable, match=expected):
        hbase_store.open(f"hbase://127.0.0.1:{port}/rillet?tls={file}")


def test_a_server_without_tls_is_named() -> None:
    with served("http") as port, pytest.raises(StoreUnavailable, match=r"does not speak TLS .*leave out tls="):
        hbase_store.open(f"hbase://127.0.0.1:{port}/rillet?tls=system")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("tls", "write options as name=value"),
        ("tsl=system", "'tsl' is not known; there are sasl, service, timeout, tls, transport"),
        ("transport=udp", "write buffered, framed or http"),
        ("tls=/nowhere/ca.pem", "write system, or the file"),
        ("sasl=digest", "write plain or gssapi"),
        ("sasl=plain", "set RILLET_HBASE_USER and RILLET_HBASE_PASSWORD"),
        ("service=thrift", "belongs to sasl=gssapi"),
        ("timeout=0", "a number of seconds from 1 to 20"),
        ("timeout=21", "a number of seconds from 1 to 20"),
        ("timeout=5m", "a number of seconds from 1 to 20"),
    ],
)
def test_a_wrong_option_is_named(options: str, expected: str) -> None:
    with pytest.raises(BadStoreUrl, match=expected):
        hbase_store.open(f"hbase://127.0.0.1:1/rillet?{options}")


def test_a_server_that_answers_in_another_way_is_no_fault_of_ours() -> None:
    """As a Thrift server over HTTP, or any web server, answers what it does not understand."""

    def answer(web: socket.socket) -> None:
        for _ in range(2):  # a call is made once more over a new connection
            connection, _ = web.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as web:
        thread = threading.Thread(target=answer, args=(web,), daemon=True)
        thread.start()
        with pytest.raises(StoreUnavailable, match=r"broke the connection.* or another transport"):
            hbase_store.open(f"hbase://127.0.0.1:{web.getsockname()[1]}/rillet")
        thread.join()


def test_a_call_is_given_up_after_the_timeout_of_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"hbase://127.0.0.1:{silent.getsockname()[1]}/rillet?timeout=1"
        with pytest.raises(StoreUnavailable, match="did not answer within 1000 ms"):
            hbase_store.open(url)


def test_a_password_is_not_sent_in_the_clear_nor_shown(
    monkeypatch: pytest.MonkeyPatch, authority: tuple[trustme.CA, Path]
) -> None:
    monkeypatch.setenv("RILLET_HBASE_USER", "anna")
    monkeypatch.setenv("RILLET_HBASE_PASSWORD", "secret")
    with pytest.raises(BadStoreUrl, match="sends the password as it is: add tls="):
        place_of("hbase://hbase.example/rillet?sasl=plain")
    with pytest.raises(BadStoreUrl, match="leave out transport=framed"):
        place_of("hbase://localhost/rillet?sasl=plain&transport=framed")
    place = place_of(f"hbase://localhost,hbase.example/rillet?sasl=plain&tls={authority[1]}")
    assert "secret" not in repr(place)


@pytest.mark.hbase
@pytest.mark.xdist_group("hbase")
def test_a_real_hbase_behind_tls_and_a_login_keeps_the_contract(
    hbase_server: HBase, authority: tuple[trustme.CA, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, file = authority
    monkeypatch.setenv("RILLET_HBASE_USER", "anna")
    monkeypatch.setenv("RILLET_HBASE_PASSWORD", "secret")
    login = lambda: PlainConversation(PASSWORDS)  # noqa: E731
    target = "127.0.0.1", hbase_server.thrift_port
    with proxy(target, context_of(made, "127.0.0.1"), login) as port:
        check_backend(place_of(f"hbase://127.0.0.1:{port}/secured?sasl=plain&tls={file}").opened)
