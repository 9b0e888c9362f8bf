"""Upkeep: what is done from time to time. Late elements are counted and listed, what was retained long enough is
deleted, the content of windows that never drop an element is saved, alarms of timers are raised, the lag of queries
is measured.

Which elements are late is a rule of `windows`. It imports the writer, the catalog, emissions, windows, and the patterns
of networks. It does not import runners, nor they it."""
