"""Files and stores without a server: loading, replaying, and questions to a store itself.

It imports the client and the engine: neither routes nor pages."""
