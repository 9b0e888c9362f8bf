"""Files and stores without a server: load files, replay files as streams, query a store directly.

It imports the client and the engine: neither routes nor pages."""
