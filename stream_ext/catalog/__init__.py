"""The catalog: streams and registered queries at one snapshot, their options, timing, and what their texts mean.

It imports plans, windows and the language."""
