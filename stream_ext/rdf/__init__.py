"""RDF as clients send it: documents to load, pushes to streams, and the times that elements carry."""

from stream_ext.rdf.documents import parse_rdf
from stream_ext.rdf.ntriples import careful_rows
from stream_ext.rdf.parsed import MISSING, Parsed, Pushed
from stream_ext.rdf.pushes import parse_push
from stream_ext.times import parse_time

__all__ = ["MISSING", "Parsed", "Pushed", "careful_rows", "parse_push", "parse_rdf", "parse_time"]
