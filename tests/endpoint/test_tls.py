"""HTTPS by the server itself: to programs, to the commands, and to a browser's cookie."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from endpoint.cli.command_line import main
from endpoint.client import Client
from endpoint.limits import HttpLimits
from endpoint.serve import ServeSettings, banner
from stream_ext.errors import BadArgument
from tests.endpoint.forwarding.shared import shared_store
from tests.endpoint.live import NEAR, NT, TAXI_IN_ZONE, Live, live


class Files(NamedTuple):
    cert: str
    key: str
    authority: str


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    paths = Files(*(str(folder / name) for name in ("cert.pem", "key.pem", "authority.pem")))
    issued.private_key_pem.write_to_path(paths.key)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(paths.cert, append=True)
    authority.cert_pem.write_to_path(paths.authority)
    return paths


@pytest.fixture(scope="module")
def server(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    trusting = ssl.create_default_context(cafile=files.authority)
    rules = {"token": "t0ken", "read_token": "r3ad", "tls_cert": files.cert, "tls_key": files.key}
    with live(tmp_path_factory.mktemp("store"), trusting=trusting, **rules) as running:
        yield running


def test_it_speaks_https_and_nothing_else(server: Live) -> None:
    assert server.url.startswith("https://")
    assert server.http.get("/$/ping").text == "pong\n"
    with pytest.raises(httpx.HTTPError):
        httpx.get(f"http://127.0.0.1:{server.port}/$/ping")
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"{server.url}/$/ping")


def test_a_handshake_that_does_not_come_is_not_waited_for(files: Files, tmp_path: Path) -> None:
    limits = HttpLimits(head_s=0.5)
    with (
        live(tmp_path, limits=limits, trusting=False, tls_cert=files.cert, tls_key=files.key) as server,
        socket.create_connection(("127.0.0.1", server.port), 20) as silent,
    ):
        assert silent.recv(1) == b""  # closed; the socket's own patience is twenty seconds


def test_client_and_commands_speak_https_and_bring_a_token(
    server: Live, files: Files, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", files.authority)
    with Client(server.url, token="t0ken") as client:
        client.create_stream("taxis")
        client.register(NEAR)
        client.update("INSERT DATA { <http://ex/z1> <http://ex/partOf> <http://ex/c1> }")
        for time in (1000, 1200):
            client.push("taxis", TAXI_IN_ZONE, media_type=NT["content-type"], timestamp=time, wait="evaluated")
    with Client(server.url, token="r3ad") as reader:
        assert next(reader.subscribe("near"))["emission"] == 1
    monkeypatch.setenv("RILLET_TOKEN", "r3ad")
    for command in (
        ["query", "ASK {}"],
        ["streams"],
        ["status"],
        ["late", "taxis"],
        ["watch", "near", "--since", "0", "--limit", "1"],
    ):
        assert main([*command, "--server", server.url]) == 0, capsys.readouterr().err
    assert main(["query", "DROP ALL", "--server", server.url]) == 1
    assert "this is the token for reading" in capsys.readouterr().err
    assert main(["status", "--server", server.url, "--token", "wrong"]) == 1
    assert "--token TOKEN or RILLET_TOKEN" in capsys.readouterr().err
    assert main(["pause", "near", "--server", server.url, "--token", "t0ken"]) == 0


def test_commands_say_why_there_is_no_connection(
    server: Live, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answered(url: str) -> str:
        assert main(["status", "--server", url]) == 1
        return capsys.readouterr().err

    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    untrusted = answered(server.url)
    assert "is not trusted" in untrusted and "SSL_CERT_FILE=FILE" in untrusted and "no server" not in untrusted
    assert "write https://" in answered(server.url.replace("https", "http")).lower()
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "nowhere.pem"))
    assert f"{tmp_path / 'nowhere.pem'} (SSL_CERT_FILE) has no certificates: No such file" in answered(server.url)
    monkeypatch.setenv("SSL_CERT_FILE", files.authority)
    with live(tmp_path, trusting=False) as plain:
        assert "write http://" in answered(plain.url.replace("http", "https")).lower()


def test_the_cookie_is_bound_to_the_host_and_never_travels_without_tls(server: Live, files: Files) -> None:
    trusting = ssl.create_default_context(cafile=files.authority)
    with httpx.Client(base_url=server.url, verify=trusting) as browser:
        entered = browser.post("/console/sign-in", data={"token": "r3ad"}, headers={"origin": server.url})
        name, _, attributes = entered.headers["set-cookie"].partition("=")
        parts = set(attributes.split("; ")[1:])
        assert (name, parts) == ("__Host-rillet", {"Secure", "HttpOnly", "Path=/", "SameSite=Strict"})
        assert browser.get("/console/").status_code == 200
        assert browser.get("/streams").status_code == 200
        plain = {"origin": server.url.replace("https", "http")}
        assert browser.post("/console/sign-out", headers=plain).status_code == 403


def test_without_tls_the_cookie_has_the_port_in_its_name(tmp_path: Path) -> None:
    with live(tmp_path, token="t0ken") as plain:
        entered = plain.http.post("/console/sign-in", data={"token": "t0ken"})
        name, _, attributes = entered.headers["set-cookie"].partition("=")
        assert (name, set(attributes.split("; ")[1:])) == (
            f"rillet-{plain.port}",
            {"HttpOnly", "Path=/", "SameSite=Strict"},
        )


def test_files_that_are_no_certificate_and_key_are_refused(files: Files, tmp_path: Path) -> None:
    locked = tmp_path / "locked.pem"
    key = serialization.load_pem_private_key(Path(files.key).read_bytes(), None)
    form, password = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"password")
    locked.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, password))
    for cert, other, message in (
        (files.cert, None, "belong together"),
        (None, files.key, "belong together"),
        (files.cert, str(tmp_path / "nowhere"), r"nowhere: this file does not exist \(--tls-key\)"),
        (files.key, files.cert, "PEM files"),
        (files.cert, files.authority, "PEM files"),
        (files.cert, str(locked), "has a password"),
    ):
        with pytest.raises(BadArgument, match=message):
            ServeSettings("lmdb:none", tls_cert=cert, tls_key=other).tls()


def test_the_commands_say_what_is_wrong_with_a_setting(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["serve", "--tls-cert", files.cert]) == 2
    assert "belong together" in capsys.readouterr().err
    for flag, value, message in (
        ("--cors", "app.example", "is not an origin"),
        ("--cors", "https://app.example/", "write https://app.example"),
        ("--cors", "*", "is not an origin"),
        ("--cors", "null", "is not an origin"),
        ("--allowed-host", "http://x", "is not a host name"),
        ("--allowed-host", "x:80", "is not a host name"),
    ):
        with pytest.raises(SystemExit):
            main(["serve", flag, value])
        assert message in capsys.readouterr().err


def test_the_first_lines_say_who_may_do_what() -> None:
    settings = ServeSettings("lmdb:s", token="a", read_token="b")
    assert "reading and writing need their tokens" in banner(settings, "https://h/")


def test_a_reader_forwards_writes_to_a_writer_with_https(files: Files, tmp_path: Path) -> None:
    settings = ServeSettings("lmdb:", tls_cert=files.cert, tls_key=files.key)
    trusting = ssl.create_default_context(cafile=files.authority)
    with (
        shared_store(tmp_path) as shared,
        shared.serving(settings=settings, trusting=trusting) as writer,
        shared.serving(settings=settings, trusting=trusting) as reader,
        shared.serving() as strange,  # it knows nobody who could vouch for the writer
    ):
        made = reader.http.put("/streams/taxis", json={})
        assert (made.status_code, made.headers["location"]) == (201, reader.url + "/streams/taxis")
        assert writer.http.get("/streams/taxis").is_success
        refused = strange.http.put("/streams/taxis", json={})
        assert (refused.status_code, "CERTIFICATE_VERIFY_FAILED" in refused.text) == (503, True)
