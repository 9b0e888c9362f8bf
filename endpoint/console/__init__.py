"""The console: pages for people, rendered here and sent whole; nothing of the protocol, nothing that stays open.

It is a Flask blueprint. `rillet serve` shows it at /console; an application of yours may show it too:

    service = Service.open("lmdb:data", base="http://ex/", clock=SystemClock(), engine="inline")
    app = flask.Flask(__name__)
    app.secret_key = "..."
    app.register_blueprint(console_blueprint(service), url_prefix="/rdf")

Live results come by the server-sent events of the HTTP routes, straight to the browser."""

from endpoint.console.app import create_console
from endpoint.console.blueprint import console_blueprint

__all__ = ["console_blueprint", "create_console"]
