"""The console: pages for people, rendered on the server. It has none of the routes of the protocol.

It is a Flask blueprint. `rillet serve` shows it at /console; another application may show it too:

    service = Service.open("lmdb:data", base="http://ex/", clock=SystemClock(), engine="inline")
    app = flask.Flask(__name__)
    app.secret_key = "..."
    app.register_blueprint(console_blueprint(service), url_prefix="/rdf")

The browser gets live results from the server-sent events of the HTTP routes."""

from endpoint.console.app import create_console
from endpoint.console.blueprint import console_blueprint

__all__ = ["console_blueprint", "create_console"]
