"""The commands of `rillet`, one module for each group: serve, fill, talk to a server, look after the machine."""
