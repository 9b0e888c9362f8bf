"""What a web page can do with the browser of somebody who runs a server on the same machine: nothing.

Each attack is made in a real browser, by a page that another port serves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import trustme
from playwright.sync_api import Browser, Page, expect

from tests.endpoint.console.conftest import editor, write
from tests.endpoint.live import NEAR, SPARQL_QUERY, Live, live
from tests.parts.browser import browser as real_browser

#: To whom a name belongs is up to who owns it: here it leads to this machine, as after a rebinding.
REBOUND = "rebound.example"
WIPE = "DROP ALL"
EVIL_IRIS = (
    "http://x/'onmouseover='mark()",
    "http://x/'style='animation:x'onanimationstart='mark()",
    "http://x/&quot;onmouseover=&quot;mark()",
    "javascript:mark()",
    "JavaScript:mark()//http://x/",
    "data:text/html,mark()",
    "http://x/%22onclick=mark()",
    "http://x/?a=1&lt;script&gt;mark()&lt;/script&gt;",
)
EVIL_TEXTS = (
    "<img src=x onerror=mark()>",
    "'\"><script>mark()</script>",
    "</textarea><svg onload=mark()>",
    "{{7*7}}",
    "</pre></code></details><iframe srcdoc='<script>parent.mark()</script>'></iframe>",
    "<base href='http://x/'><style>@import url(http://x/)</style>",
    "<meta http-equiv=refresh content='0;url=javascript:mark()'>",
    "\u202e<math><mtext><mglyph><style></math><img src onerror=mark()>",
    "]]><!--><script>mark()</script>-->",
    "${mark()} [x](javascript:mark()) &#60;script&#62;mark()&#60;/script&#62;",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with real_browser(f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1") as running:
        yield running


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Live]:
    with live(tmp_path) as running:
        running.update("INSERT DATA { <http://ex/a> <http://ex/p> 'secret' }")
        yield running


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


Attack = Callable[[str], str]


@pytest.fixture
def attacker() -> Iterator[Attack]:
    """Serves a page, on a port of its own; gives its address."""
    shown: dict[str, bytes] = {}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = shown.get(self.path, b"")
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=serving.serve_forever, name="attacker")
    thread.start()

    def serve(html: str) -> str:
        path = f"/{len(shown)}"
        shown[path] = f"<!doctype html><body>{html}".encode()
        return f"http://127.0.0.1:{serving.server_address[1]}{path}"

    yield serve
    serving.shutdown()
    thread.join()
    serving.server_close()


def unchanged(server: Live) -> None:
    assert server.service.head() == 1
    assert server.service.query("ASK { <http://ex/a> <http://ex/p> 'secret' }").boolean
    assert server.service.streams() == []


ADDRESSES = (
    "/sparql#query={}",
    "/sparql?query={}",
    "/query?update={}",
    "/console/query?query={}",
    "/console/query#query={}",
)


def test_no_page_of_ours_is_shown_within_another(page: Page, server: Live, attacker: Attack) -> None:
    addresses = [server.url + address.format(quote(WIPE)) for address in ADDRESSES]
    addresses += [
        server.url + path for path in ("/docs", "/console/", "/sparql?query=ASK%7B%7D", "/nowhere", "/data?default")
    ]
    frames = "".join(f"<iframe src='{address}'></iframe>" for address in addresses)
    page.goto(attacker(frames), wait_until="load")
    for frame in page.frames[1:]:
        assert frame.url.startswith("chrome-error:"), frame.url  # refused by the browser
    assert len(page.frames) == len(addresses) + 1
    unchanged(server)


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_text_in_an_address_is_not_run(page: Page, server: Live, address: str) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    page.goto(server.url + address.format(quote(WIPE)), wait_until="networkidle")
    if "update" not in address:
        expect(editor(page)).to_have_text(WIPE)
        expect(page.get_by_text("This text comes from the link")).to_be_visible()
    assert set(sent) == {"GET"}
    unchanged(server)


def marked(page: Page) -> None:
    """Nothing that was data has become a script, a style or an address."""
    page.wait_for_load_state("load")
    assert page.evaluate("window.marked") is None
    found = page.evaluate(
        """() => {
          const all = (root) => [...root.querySelectorAll("*")].flatMap((each) =>
            each.shadowRoot ? [each, ...all(each.shadowRoot)] : [each]);
          const known = (css) => !/animation(?!-duration|-name: cm-blink)|url|@/.test(css);
          const placed = (each, css) => each.closest(".cm-editor, .uplot") && known(css);
          return all(document).flatMap((each) => [...each.attributes]
            .filter(({ name, value }) => name.startsWith("on") || (name === "style" && !placed(each, value))
              || (["href", "src", "action", "formaction"].includes(name)
                && !/^https?:$/.test(new URL(value, location).protocol)))
            .map(({ name, value }) => `${each.tagName} ${name}=${value}`));
        }"""
    )
    assert found == []
    assert page.locator("main script, main img, main svg[onload], main style").count() == 0


def test_no_term_becomes_a_script_on_any_page(page: Page, tmp_path: Path) -> None:
    with live(tmp_path) as server:
        page.add_init_script("window.mark = () => { window.marked = true; }")
        iris = [f"<{iri}>" for iri in EVIL_IRIS]
        texts = ["'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" for text in EVIL_TEXTS]
        data = [f"{iri} {iri} {iri} , {text} . GRAPH {iri} {{ {iri} {iri} {text} }}" for iri in iris for text in texts]
        server.update("INSERT DATA { " + " ".join(data) + " }")
        stream = EVIL_IRIS[0]
        server.http.put("/streams/" + quote(stream, safe="")).raise_for_status()
        text = NEAR.replace("ON STREAM taxis", f"ON STREAM <{stream}>").replace("SELECT ?taxi", "SELECT (?taxi AS ?t)")
        text = text.replace("WHERE { WINDOW", "WHERE { ?x ?y ?city . WINDOW").replace("?zone ex:partOf ?city", "")
        server.register(text).raise_for_status()
        names = NEAR.replace("near", "names").replace("ON STREAM taxis", f"ON STREAM <{stream}>")
        names = names.replace("SELECT ?taxi ?zone ?city", "SELECT ?text (1 AS ?n)").replace("?zone ex:partOf ?city", "")
        named = names.replace("WHERE {", f"WHERE {{ VALUES ?text {{ {' '.join(texts)} }}")
        server.register("".join(f"# {text}\n" for text in EVIL_TEXTS) + named).raise_for_status()
        put = {"params": {"replace": "true"}, "content": named, "headers": SPARQL_QUERY}
        server.http.put("/queries/names", **put).raise_for_status()
        for text in EVIL_TEXTS:
            agent = {"user-agent": text.encode("ascii", "replace").decode()}
            server.http.get("/queries/names/results", headers=agent).raise_for_status()
        for time in (1000, 1200, 1500):
            path = "/streams/" + quote(stream, safe="")
            body = f"<{EVIL_IRIS[1]}> <http://ex/in> <{EVIL_IRIS[3]}> ."
            parameters = {"timestamp": str(time), "wait": "evaluated"}
            server.http.post(path, params=parameters, content=body, headers={"content-type": "text/turtle"})
        hostile = "/streams/" + quote(stream, safe="")
        late = " ".join(f"{iri} <http://ex/in> {text} ." for iri, text in zip(iris, texts, strict=False))
        server.http.post(hostile, params={"timestamp": "10"}, content=late, headers={"content-type": "text/turtle"})
        assert server.service.stream_status(stream)["late"]
        for path in ("/", "/server", "/sources", "/log", "/graphs", "/streams", hostile, "/queries", "/queries/near",
                     "/subscribers", "/subscribers?query=names", "/operators/near", "/operators/names",
                     "/nowhere/" + quote(EVIL_TEXTS[0]), "/explain?query=" + quote(EVIL_TEXTS[2]),
                     *("/resource?iri=" + quote(iri) for iri in EVIL_IRIS), "/resource?iri=" + quote(EVIL_TEXTS[0]),
                     "/queries?query=" + quote(EVIL_TEXTS[2]), "/upload?graph=" + quote(EVIL_TEXTS[1])):  # fmt: skip
            page.goto(f"{server.url}/console{path}")
            if path == "/queries/near":
                expect(page.get_by_text("connected", exact=True)).to_be_visible()
                expect(page.get_by_role("region", name="The latest emission").locator("tbody tr").first).to_be_visible()
            marked(page)
        page.goto(f"{server.url}/console/queries/names")  # the groups of its chart are texts of others
        page.get_by_text("Operators: rows").click()
        expect(
            page.get_by_role("region", name="Operators, evaluated").or_(page.get_by_text("Nothing is"))
        ).to_be_visible()
        page.get_by_text("The text that it replaced").click()
        for form in ("lines", "bars", "number"):
            page.get_by_label("as", exact=True).select_option(form)
            expect(page.locator("[data-live-number] b" if form == "number" else ".chart canvas")).to_be_visible()
            marked(page)
        for query in (
            "SELECT * { ?s ?p ?o } LIMIT 60",
            "SELECT (IRI(\"http://x/'style='animation:x'onanimationstart='mark()\") AS ?s) {}",
            *(f"SELECT ({text} AS ?t) ?x {{}}" for text in texts[:4]),
            *EVIL_TEXTS[:4],
        ):
            page.goto(f"{server.url}/sparql#query={quote(query)}")
            expect(editor(page)).to_contain_text(query.split()[0])
            page.get_by_role("button", name="Run").click()
            expect(page.locator("[data-outcome]").locator(".notice, [data-result]").first).to_be_visible()
            marked(page)
            for view in page.locator("[data-views] button:visible").all():
                view.click()
                marked(page)


POSTS = """
<form id=f method=post action='{url}/update' enctype='application/x-www-form-urlencoded'>
  <input name=update value='DROP ALL'></form>
<form id=c method=post action='{url}/console/query'><input name=query value='DROP ALL'></form>
<form id=t method=post action='{url}/streams/evil?timestamp=1' enctype='text/plain'>
  <input name='<a:a> <a:b> <a:c> .' value=''></form>
<script>
  const form = {{ method: "POST", headers: {{ "content-type": "application/x-www-form-urlencoded" }} }};
  const send = (path, options) => fetch("{url}" + path, options).then((a) => a.text(), (error) => "failed");
  window.all = () => Promise.all([
    send("/update", {{ ...form, body: "update=DROP+ALL", mode: "no-cors" }}),
    send("/update", {{ ...form, body: "update=DROP+ALL" }}),
    send("/update", {{ ...form, body: "update=DROP+ALL", credentials: "include" }}),
    send("/update", {{ method: "POST", body: "DROP ALL", headers: {{ "content-type": "application/sparql-update" }} }}),
    send("/data?default", {{ method: "DELETE" }}),
    send("/streams/evil", {{ method: "PUT" }}),
    send("/console/query", {{ ...form, body: "query=DROP+ALL", mode: "no-cors" }}),
    send("/console/streams", {{ ...form, body: "name=evil", mode: "no-cors" }}),
    send("/sparql?query=SELECT+*+%7B?s+?p+?o%7D"),
    send("/data?default"),
    send("/console/graphs"),
  ]);
</script>"""


def test_a_page_on_another_port_writes_nothing_and_reads_nothing(page: Page, server: Live, attacker: Attack) -> None:
    for url in (server.url, f"http://localhost:{server.port}"):
        address = attacker(POSTS.format(url=url))
        page.goto(address)
        assert set(page.evaluate("all()")) <= {"failed", ""}  # an answer that no page may read is empty
        for form in ("f", "c", "t"):
            page.goto(address)
            with page.expect_navigation() as answered:
                page.evaluate(f"document.getElementById('{form}').submit()")
            assert answered.value.status == 403
        unchanged(server)


def test_a_sandboxed_page_has_no_origin_and_writes_nothing(page: Page, server: Live, attacker: Attack) -> None:
    body = (
        POSTS.format(url=server.url) + "<script>all().then((answers) => { document.title = answers.join(); });</script>"
    )
    frame = body.replace("&", "&amp;").replace('"', "&quot;")
    page.goto(attacker(f'<iframe sandbox="allow-scripts allow-forms" srcdoc="{frame}"></iframe>'))
    inner = page.frames[1]
    inner.wait_for_function("document.title !== ''")
    assert set(inner.title().split(",")) <= {"failed", ""}
    unchanged(server)


def test_a_name_that_was_made_to_lead_here_gets_nothing(browser: Browser, server: Live) -> None:
    """DNS rebinding: for the browser page and server are one origin, so only the server can tell."""
    context = browser.new_context(bypass_csp=True)  # as if the page had come before, from its owner
    page = context.new_page()
    page.goto(f"http://{REBOUND}:{server.port}/$/ping")
    script = """async ([path, method, body]) => {
      const headers = { "content-type": "application/x-www-form-urlencoded" };
      const answer = await fetch(path, body ? { method, body, headers } : { method });
      return [answer.status, await answer.text()];
    }"""
    for request in (
        ["/sparql?query=SELECT+*+%7B?s+?p+?o%7D", "GET", ""],
        ["/data?default", "GET", ""],
        ["/console/graphs", "GET", ""],
        ["/update", "POST", "update=DROP+ALL"],
        ["/console/query", "POST", "query=DROP+ALL"],
        ["/streams/evil", "PUT", ""],
    ):
        status, text = page.evaluate(script, request)
        assert (status, "secret" in text) == (403, False), request
    context.close()
    unchanged(server)


def test_the_cookie_of_one_who_has_signed_in_opens_nothing_to_another_port(
    page: Page, tmp_path: Path, attacker: Attack
) -> None:
    with live(tmp_path, token="t0ken", read_token="r3ad") as server:
        page.goto(f"{server.url}/sparql")
        page.get_by_label("Token").fill("t0ken")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("You are signed in")).to_be_visible()
        page.goto(f"{server.url}/console/query")
        write(page, "INSERT DATA { <http://ex/a> <http://ex/p> 'secret' }")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Snapshot 1 contains the change")).to_be_visible()
        page.goto(attacker(POSTS.format(url=server.url)))
        assert set(page.evaluate("all()")) <= {"failed", ""}
        listened = page.evaluate(
            """(url) => new Promise((done) => {
              const source = new EventSource(url, { withCredentials: true });
              source.onmessage = () => done("message");
              source.onopen = () => done("open");
              source.onerror = () => done("refused");
            })""",
            f"{server.url}/sparql?query=SELECT+*+%7B?s+?p+?o%7D",
        )
        assert listened == "refused"
        unchanged(server)
        page.goto(f"{server.url}/console/")  # a link is followed without the cookie, which is of this site alone
        expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_browser_takes_the_cookie_that_is_bound_to_the_host(browser: Browser, tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    with live(tmp_path / "store", token="t0ken", read_token="r3ad", tls_cert=cert, tls_key=key) as server:
        context = browser.new_context(base_url=server.url, ignore_https_errors=True)
        page = context.new_page()
        page.goto("/")
        page.get_by_label("Token").fill("t0ken")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("may make changes")).to_be_visible()
        [cookie] = context.cookies()
        assert (cookie["name"], cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (
            "__Host-rillet",
            True,
            True,
            "Strict",
        )
        page.goto("/console/streams")
        page.get_by_label("Name or IRI").fill("taxis")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("heading", name="taxis")).to_be_visible()
        context.close()
