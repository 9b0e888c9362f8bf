"""Formats: answers, graphs and descriptions as the bytes that leave.

Its verb is *write*. It imports negotiation only."""
