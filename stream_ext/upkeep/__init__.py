"""Upkeep: what follows the clock and the store: late elements, retention, alarms, how far queries lag.

It imports the writer, the catalog, emissions and windows. Runners know nothing of it, nor it of them."""
