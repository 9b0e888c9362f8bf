"""Formats: writes answers, graphs and descriptions as bytes.

It imports negotiation only."""
