"""An HBase for trying out: a real one, in one Java process of this machine, made of what Maven fetches.

It is no place for data that matters: one region server, a small heap, and what it acknowledged does not survive a power
failure. It starts and ends; it imports nothing of the endpoint."""
