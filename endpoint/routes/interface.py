"""The description of the HTTP interface: /openapi.json for programs, /docs for people."""

from __future__ import annotations

import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from endpoint.http import browsers
from endpoint.routes import assets
from endpoint.routes.openapi import document
from hbase_store.version import __version__

TITLE = "Rillet"
DESCRIPTION = "An RDF store with streams: SPARQL 1.1 queries and continuous queries over the same data."

_PAGE = Markup("""\
<!doctype html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>{title}</title>
  <link rel="icon" href="data:,">
  <link rel="stylesheet" href="{assets}swagger-ui.css">
  <script src="{assets}swagger-ui-bundle.js" defer></script>
  <script src="{assets}docs.js" defer></script>
</head>
<body><div id="interface" data-document="{document}"></div></body>
</html>
""")


async def openapi(request: Request) -> Response:
    described = msgspec.json.encode(document(TITLE, DESCRIPTION, __version__, root(request)))
    return Response(described + b"\n", media_type="application/json")


async def docs(request: Request) -> Response:
    at = root(request)
    page = _PAGE.format(title=TITLE, assets=f"{at}/{assets.PATH}", document=f"{at}/openapi.json")
    return HTMLResponse(page, headers=browsers.of_page())


def root(request: Request) -> str:
    """The path prefix at which this application is mounted."""
    return str(request.scope.get("root_path", "")).rstrip("/")
