"""The catalog: streams and registered queries at one snapshot, with their options, timing and parsed texts.

It imports plans, windows and the language."""
