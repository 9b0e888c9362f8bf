"""Who may write, by which credentials, and from which pages."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from endpoint.access import Access, is_loopback
from endpoint.errors import Forbidden, Unauthorized
from tests.endpoint.live import Live, live

UPDATE = {"update": "INSERT DATA { <http://ex/a> <http://ex/p> 1 }"}


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("guarded"), token="s:ecret") as running:
        yield running


@pytest.mark.parametrize(
    ("authorization", "status"),
    [
        (None, 401),
        ("Bearer s:ecret", 204),
        ("bearer  s:ecret", 204),
        ("Bearer wrong", 401),
        ("Bearer", 401),
        (basic("anyone", "s:ecret"), 204),
        (basic("", "s:ecret"), 204),
        (basic("s:ecret", ""), 401),
        (basic("anyone", "wrong"), 401),
        ("Basic !!!", 401),
        ("Basic c2VjcmV0", 401),
        ("Digest s:ecret", 401),
    ],
)
def test_the_token_comes_as_bearer_or_as_a_password(guarded: Live, authorization: str | None, status: int) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = guarded.http.post("/update", data=UPDATE, headers=headers)
    assert answer.status_code == status, answer.text
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert "s:ecret" not in answer.text
    assert guarded.http.get("/sparql", params={"query": "ASK {}"}, headers=headers).status_code == 200


def test_a_password_that_a_browser_remembers_does_not_open_the_door_to_other_pages() -> None:
    access = Access("secret", "http://rillet.example:8000/")
    for origin in (None, "http://rillet.example:8000", "http://localhost:3000"):
        access.check(basic("u", "secret"), origin)
        access.check("Bearer secret", origin)
    access.check("Bearer secret", "https://evil.example")  # no page has that unless it was told
    for origin in ("https://evil.example", "https://rillet.example:8000", "null", "http://[", "http://localhost.evil"):
        with pytest.raises(Forbidden):
            access.check(basic("u", "secret"), origin)
        with pytest.raises(Forbidden):
            Access(None, "http://rillet.example:8000/").check(None, origin)
    with pytest.raises(Unauthorized):
        access.check(None, "http://rillet.example:8000")


def test_loopback_is_this_machine_alone() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.9.1", "::1", "[::1]")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "10.0.0.1", "example.org", "localhost.example", "::")))


def test_no_answer_lets_a_page_send_credentials(guarded: Live) -> None:
    origin = {"origin": "https://elsewhere.example"}
    for answer in (
        guarded.http.get("/sparql", params={"query": "ASK {}"}, headers=origin),
        guarded.http.options("/sparql", headers=origin | {"access-control-request-method": "POST"}),
        guarded.http.post("/update", data=UPDATE, headers=origin),
        guarded.http.get("/nowhere", headers=origin),
    ):
        assert "access-control-allow-credentials" not in answer.headers
        assert answer.headers.get("access-control-allow-origin", "*") == "*"
