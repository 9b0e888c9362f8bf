"""Operators over many evaluations at arrivals in one step: what they put out, they may take back at a later instant."""
